"""Adds a filter: first a column, then one of its values or a condition. Typing narrows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.filters import TABLES, Filter, chosen
from tic_tui.render import chrome, filters
from tic_tui.render.text import Builder
from tic_tui.safe import Safe
from tic_tui.screens.base import TABLE
from tic_tui.screens.dialog import SearchDialog
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput

Choices = Mapping[str, tuple[tuple[Safe, int], ...]]


class FilterScreen(SearchDialog[Filter]):
    """Dismissed with the filter, or None.

    Args:
        wants: told of the column whose values are needed; "" for none. told: those values, as far as they are read.
        table: what is filtered, of `filters.TABLES`.
    """

    BINDINGS = TABLE.textual(bindings.FILTER)

    def __init__(self, wants: Callable[[str], None], told: Callable[[], Choices], table: str = "mismatches") -> None:
        super().__init__()
        self._wants = wants
        self._told = told
        self._table = table
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
            table, typed = self._table, self.typed.lower()
            self._columns = names = [c for c in TABLES[table] if typed in f"{c} {filters.about(c, table)}".lower()]
            listing.show(lambda width: [filters.column_row(c, width, glyphs, table) for c in names])
        else:
            was = self._offers[listing.cursor][0] if keep and self._offers else None
            self._offers = found = filters.offers(
                column, self.typed, self._told().get(column, ()), negated=self._negated, table=self._table
            )
            listing.cursor = next((n for n, (f, _) in enumerate(found) if f == was), listing.cursor)
            listing.show(lambda width: [filters.offer_row(f, n, width, glyphs) for f, n in found])
        self._frame()

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
        if self._column in chosen(self._table) and self._column not in self._told():
            return "reading its values ..."
        return "type a number" if TABLES[self._table][self._column][1] == "number" else "type what it should say"

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
        self._wants(column if column in chosen(self._table) else "")
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
