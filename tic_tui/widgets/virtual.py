"""A list whose length is known and of which only a window is held: thousands of rows that never change their places.

The screen asks for the rows from `at` on; rows that are not read yet say so. A window moves in whole blocks, so that
most keys ask for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from textual.message import Message

from tic_tui.comparison_model import WINDOW
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing

T = TypeVar("T")

BLOCK: Final = WINDOW // 3
"""Rows are asked for in windows of three blocks: that of the cursor, and those before and behind."""


class Sought(Message):
    """The list wants the rows from another place on."""


class VirtualList(Listing, Generic[T]):
    """`draw` makes a row's line. `at`: the first row that is wanted."""

    def __init__(self, draw: Callable[[T, int, bool], Line], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw
        self.clear()

    def clear(self) -> None:
        """For other rows altogether."""
        self.rows: Sequence[T] = ()
        self.first = self.total = self.at = self.cursor = 0

    @property
    def row_count(self) -> int:
        return self.total

    @property
    def selected(self) -> T | None:
        """The row under the cursor; None: there is none, or it is not read yet."""
        return self._row(self.cursor)

    def _row(self, index: int) -> T | None:
        return self.rows[index - self.first] if self.first <= index < self.first + len(self.rows) else None

    def show(self, rows: Sequence[T], first: int, total: int) -> None:
        """Shows a reading: `rows` stand at `first` and on, of `total`."""
        self.rows, self.first, self.total = rows, first, total
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        row = self._row(index)
        return self.empty_line("  reading ...", width) if row is None else self._draw(row, width, selected)

    def move_to(self, index: int) -> None:
        super().move_to(index)
        self._seek(self.cursor)

    def centre(self) -> None:
        """Scrolls so that the cursor is in the middle."""
        self.scroll_to(y=max(0, self.cursor - self.size.height // 2), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._seek(round(new_value))  # the mouse scrolls without the cursor

    def _seek(self, index: int) -> None:
        """Asks for another window if this one does not reach a screen beyond the row, on both sides."""
        margin = max(50, self.size.height)
        if max(0, index - margin) < self.at or min(self.total, index + margin) > self.at + WINDOW:
            at = max(0, (index // BLOCK - 1) * BLOCK)
            if at != self.at:
                self.at = at
                self.post_message(Sought())
