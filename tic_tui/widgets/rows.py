"""A short list of rows of any kind: all of them are held, and each is known by its name while it changes its place."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing

T = TypeVar("T")


class RowList(Listing, Generic[T]):
    """`draw(row, width, selected)` makes a line, `name(row)` says which row it is."""

    def __init__(
        self, draw: Callable[[T, int, bool], Line], name: Callable[[T], Hashable], *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._called = name
        self.rows: Sequence[T] = ()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> T | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def cells(self) -> int:
        """Cells of a row; of the screen before the first layout."""
        return self.line_width if self.size.width else self.screen.size.width

    def show(self, rows: Sequence[T]) -> None:
        """Shows a reading; the row under the cursor stays under it, and on its line of the terminal."""
        was, on_line = self.selected, self.cursor - self.scroll_offset.y
        self.rows = rows
        if was is not None and rows:
            name = self._called(was)
            at = next((n for n, row in enumerate(rows) if self._called(row) == name), None)
            if at is not None and at != self.cursor:
                self.cursor = at
                self.scroll_to(y=max(0, at - max(0, on_line)), animate=False)
        self.repaint()

    def go_to(self, name: Hashable) -> None:
        """Puts the cursor on the row of this name, if it is there."""
        at = next((n for n, row in enumerate(self.rows) if self._called(row) == name), None)
        if at is not None and at != self.cursor:
            self.move_to(at)

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return self._draw(self.rows[index], width, selected)
