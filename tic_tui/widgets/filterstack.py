"""The filters of a table, one line each."""

from __future__ import annotations

from tic_tui.filters import Filter
from tic_tui.render import filters
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app


class FilterStack(Listing):
    """One line a filter. The keys for filters act on the one under its cursor, wherever the focus is."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.filters: tuple[Filter, ...] = ()

    @property
    def row_count(self) -> int:
        return len(self.filters)

    def show(self, stack: tuple[Filter, ...]) -> None:
        """Shows the stack."""
        self.filters = stack
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        glyphs = tic_app(self).glyphs
        return filters.stack_row(self.filters[index], index + 1, width, glyphs, selected=index == self.cursor)
