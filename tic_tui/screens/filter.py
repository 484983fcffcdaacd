"""Adds a filter: first a column, then one of its values or a condition. Typing narrows both."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.filters import CHOICES, COLUMNS, Filter
from tic_tui.render import chrome, filters
from tic_tui.render.text import Builder
from tic_tui.screens.base import TABLE
from tic_tui.screens.dialog import SearchDialog
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput


class FilterScreen(SearchDialog[Filter]):
    """Dismissed with the filter, or None. `wants` is told of the column whose values are needed; "" for none."""

    BINDINGS = TABLE.textual(bindings.FILTER)

    def __init__(self, wants: Callable[[str], None]) -> None:
        super().__init__()
        self._wants = wants
        self._column = ""
        self._negated = False
        self._columns: list[str] = []
        self._offers: list[tuple[Filter, int | None]] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Painted(id="filter-title")
            yield SafeInput("type to narrow", id="filter-search")
            yield LineList(id="filter-list")
            yield Painted(id="filter-footer")

    def refresh_all(self) -> None:
        if self._column and self.is_mounted:
            self.search(keep=True)

    def search(self, *, keep: bool = False) -> None:
        app, listing = tic_app(self), self.listing
        glyphs, column = app.glyphs, self._column
        if not keep:
            listing.cursor = 0
        if not column:
            self._columns = names = [c for c in COLUMNS if self.typed.lower() in f"{c} {filters.ABOUT[c]}".lower()]
            listing.show(lambda width: [filters.column_row(c, width, glyphs) for c in names])
        else:
            was = self._offers[listing.cursor][0] if keep and self._offers else None
            self._offers = found = filters.offers(column, self.typed, self._choices(), negated=self._negated)
            listing.cursor = next((n for n, (f, _) in enumerate(found) if f == was), listing.cursor)
            listing.show(lambda width: [filters.offer_row(f, n, width, glyphs) for f, n in found])
        self._frame()

    def _choices(self) -> list[tuple[object, int]]:
        view = tic_app(self).mismatches_view
        return [] if view is None else list(view.choices.get(self._column, ()))

    def _frame(self) -> None:
        app, title = tic_app(self), self.query_one("#filter-title", Painted)
        width, glyphs = max(1, title.size.width), app.glyphs
        says = f"{self._column} {'is not' if self._negated else 'is'}" if self._column else "by which column?"
        title.paint([chrome.panel_head("filter", says, width, glyphs)])
        foot = [chrome.footer(app.keymap.footer(bindings.FILTER), "", "dim", width, glyphs)]
        self.query_one("#filter-footer", Painted).paint([Builder(width, glyphs).add(self._hint(), "dim").line(), *foot])

    def _hint(self) -> str:
        if not self._column:
            return "" if self._columns else "no column is called that"
        if self._offers:
            return ""
        view = tic_app(self).mismatches_view
        if self._column in CHOICES and (view is None or self._column not in view.choices):
            return "reading its values ..."
        return "type a number" if COLUMNS[self._column][1] == "number" else "type what it should say"

    def take(self) -> None:
        at = self.listing.cursor
        if self._column:
            if self._offers:
                self._wants("")
                self.dismiss(self._offers[at][0])
            return
        if self._columns:
            self._go(self._columns[at])

    def _go(self, column: str) -> None:
        self._column, self._negated, self._offers = column, False, []
        self._wants(column if column in CHOICES else "")
        self.query_one(SafeInput).value = ""
        self.search()

    def action_choose(self) -> None:
        self.take()

    def action_negate(self) -> None:
        self._negated = not self._negated
        self.search()

    def action_close(self) -> None:
        """From the values back to the columns, and from there away."""
        if self._column:
            self._go("")
            return
        self.dismiss(None)
