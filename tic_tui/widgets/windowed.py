"""A list over a window of rows that may be one of millions: at the end it follows, scrolled back it stays where it is.

The table holds the rows around an anchor and asks for others before it reaches their edge. The row under the cursor is
known by its key, never by its number: rows that come, go, or are replaced by their final ones do not move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from textual.message import Message

from tic_tui.model import FIRST, Key
from tic_tui.render.columns import STANDING, Column, Columns
from tic_tui.widgets.painted import Listing


class Keyed(Protocol):
    """A row that has a place among all rows."""

    @property
    def key(self) -> Key: ...


T = TypeVar("T", bound=Keyed)
R_co = TypeVar("R_co", covariant=True)


class Reading(Protocol[R_co]):
    """Some rows of all, and whether there are others before and after them."""

    @property
    def rows(self) -> Sequence[R_co]: ...
    @property
    def older(self) -> bool: ...
    @property
    def newer(self) -> bool: ...


class Anchored(Message):
    """The table wants the rows around `anchor`, or the newest ones (None)."""

    def __init__(self, anchor: Key | None) -> None:
        super().__init__()
        self.anchor = anchor


class WindowTable(Listing, Generic[T]):
    """Rows in the order of their keys. Subclasses give `row_line`, and `same` where a row can be replaced."""

    EDGE = 40  # rows from the window's edge at which more are asked for

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[T] = ()
        self.older = self.newer = False
        self.follows = True
        self.around: Key | None = None
        self._to_first = False

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> T | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    def same(self, old: T, new: T) -> bool:
        """Whether `new` is what became of `old`."""
        return old.key == new.key

    def show_rows(self, rows: Sequence[T], *, older: bool, newer: bool) -> None:
        """Shows a reading. The row under the cursor stays on its line of the terminal."""
        was, on_line = self.selected, self.cursor - self.scroll_offset.y
        self.rows, self.older, self.newer = rows, older, newer
        if self.follows and not newer:
            self.cursor = len(rows) - 1
        elif self._to_first and not older:
            self.cursor, on_line, self._to_first = 0, 0, False
        elif was is not None and rows:
            self.cursor = self._place_of(was)
        self.repaint()
        if self.follows:
            self.scroll_to(y=max(0, len(rows) - self.size.height), animate=False)
        else:
            self.scroll_to(y=max(0, self.cursor - max(0, on_line)), animate=False)

    def on_resize(self) -> None:
        super().on_resize()
        # The height is this widget's own only after the layout that follows.
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        if self.follows and not self.newer:
            self.scroll_to(y=max(0, self.row_count - self.size.height), animate=False)
        else:
            self.reveal()

    def _place_of(self, was: T) -> int:
        """Where a row is now; where it stood, if it is gone."""
        at = next((n for n, row in enumerate(self.rows) if row.key == was.key), None)
        if at is None:
            at = next((n for n, row in enumerate(self.rows) if self.same(was, row)), None)
        return at if at is not None else max((n for n, r in enumerate(self.rows) if r.key <= was.key), default=0)

    def clear(self) -> None:
        """For other rows altogether: another run, other filters."""
        self.rows, self.older, self.newer = (), False, False
        self.follows, self.around, self.cursor, self._to_first = True, None, 0, False
        self.repaint()

    def move_to(self, index: int) -> None:
        super().move_to(index)
        row = self.selected
        if row is None or (self.cursor >= self.row_count - 1 and not self.newer):
            self._ask(None)
        elif self.around is None or self._near_edge():
            self._ask(row.key)

    def _near_edge(self) -> bool:
        near_top = self.older and self.cursor < self.EDGE
        near_end = self.newer and self.cursor >= self.row_count - self.EDGE
        return near_top or near_end

    def _ask(self, anchor: Key | None) -> None:
        self.follows = anchor is None
        if anchor != self.around:
            self.around = anchor
            self.post_message(Anchored(anchor))

    def go_to(self, key: Key) -> None:
        """Puts the cursor on the row of this key, also if it is outside of the window: it is asked for then."""
        at = next((n for n, row in enumerate(self.rows) if row.key == key), None)
        if at is not None:
            self.move_to(at)
            if at == self.row_count - 1:
                self._ask(key)  # chosen, not followed
            return
        self._ask(key)

    def follow(self) -> None:
        """Back to the newest row."""
        self._to_first = False
        self.cursor = max(0, self.row_count - 1)
        self._ask(None)
        self.scroll_to(y=max(0, self.row_count - self.size.height), animate=False)
        self.repaint()

    def to_end(self) -> None:
        self.follow()
        self.post_message(self.Moved(self))

    def to_top(self) -> None:
        """To the first row of all, which may lie outside the window."""
        if not self.older:
            self.move_to(0)
            return
        self._to_first = True
        self.follows = False
        self._ask(FIRST)


class ColumnTable(WindowTable[T]):
    """Rows in columns. `column` is the one that a key may act on; "" where none does."""

    named: ClassVar[Columns]
    all_runs = False

    def __init__(self, *, id: str | None = None, column: str = "") -> None:
        super().__init__(id=id)
        self.column = column

    def show(self, window: Reading[T]) -> None:
        """Shows a reading."""
        self.show_rows(window.rows, older=window.older, newer=window.newer)

    def columns(self) -> list[Column]:
        """The columns that there is room for."""
        return self.named.fitting(self.line_width, all_runs=self.all_runs)

    def next_column(self, step: int) -> None:
        """Chooses the next column to the right, or with -1 to the left."""
        names = [c.name for c in self.columns()] + [STANDING]
        at = names.index(self.column) if self.column in names else 0
        self.column = names[max(0, min(len(names) - 1, at + step))]
