"""What screens with a filter stack over a table share: the stack's lines, its keys, and the dialog that adds to it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tic_tui import bindings
from tic_tui.filters import Filter
from tic_tui.render import filters
from tic_tui.screens.base import View
from tic_tui.screens.filter import Choices, FilterScreen
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.painted import Listing, Painted, tic_app


class FilteredView(View):
    """Subclasses yield `Painted(id="stack-line")` and `FilterStack(id="stack")`, and say what the filters are about."""

    filter_table: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.filters: tuple[Filter, ...] = ()
        self.wanted_choices = ""

    @property
    def rows(self) -> Listing:
        """The table that the filters act on."""
        raise NotImplementedError

    def choices_told(self) -> Choices:
        """Values of columns, as far as they are read."""
        raise NotImplementedError

    def filter_of_cursor(self) -> Filter | None:
        """The filter that leaves out what the chosen column says under the cursor; None: nothing is selected."""
        raise NotImplementedError

    @property
    def stack(self) -> FilterStack:
        """The filters."""
        return self.query_one(FilterStack)

    def draw_stack(self) -> None:
        """The stack's lines; below 16 lines one line says all filters."""
        app, stack, line = tic_app(self), self.stack, self.query_one("#stack-line", Painted)
        listed = self.size.height >= 16 and bool(self.filters)
        stack.display, line.display = listed, not listed
        key = bindings.shown(app.keymap.find("filter").keys[0])
        line.paint([filters.stack_line(self.filters, key, self.size.width, app.glyphs)])
        stack.show(self.filters)
        if listed:
            stack.styles.height = min(len(self.filters), max(2, self.size.height // 6))

    def action_next_panel(self) -> None:
        self.set_focus(self.stack if self.focused is self.rows and self.stack.display else self.rows)

    async def action_filter(self) -> None:
        await tic_app(self).push_screen(
            FilterScreen(self._want_choices, self.choices_told, self.filter_table), self._add
        )

    def _want_choices(self, column: str) -> None:
        self.wanted_choices = column
        tic_app(self).demand_changed()

    def _add(self, item: Filter | None) -> None:
        self.wanted_choices = ""
        if item is not None and item not in self.filters:
            self.set_filters((*self.filters, item), len(self.filters))
        elif item is not None:
            tic_app(self).tell("that filter is there already")
        tic_app(self).demand_changed()

    def action_exclude(self) -> None:
        found = self.filter_of_cursor()
        if found is None:
            tic_app(self).tell("nothing is selected")
            return
        self._add(found)

    def set_filters(self, stack: tuple[Filter, ...], chosen: int = 0) -> None:
        """Shows the rows that these leave; the row under the cursor stays under it if it is one of them."""
        self.filters = stack
        self.stack.cursor = max(0, min(chosen, len(stack) - 1))
        if not stack and self.focused is self.stack:
            self.set_focus(self.rows)
        tic_app(self).demand_changed()
        self.refresh_all()

    def action_switch(self) -> None:
        at = self.stack.cursor
        if self._has_filter():
            turned = replace(self.filters[at], on=not self.filters[at].on)
            self.set_filters((*self.filters[:at], turned, *self.filters[at + 1 :]), at)

    def action_drop(self) -> None:
        at = self.stack.cursor
        if self._has_filter():
            self.set_filters((*self.filters[:at], *self.filters[at + 1 :]), at)

    def _has_filter(self) -> bool:
        if not self.filters:
            tic_app(self).tell("there is no filter")
        return bool(self.filters)
