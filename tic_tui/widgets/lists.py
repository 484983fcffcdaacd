"""The lists of the screens: runs, mismatch records, faults, and plain lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import Size
from textual.strip import Strip

from tic_tui.model import Fault, Mismatch, Run, RunsView
from tic_tui.render import records, runs
from tic_tui.render.text import Line, plain, width_of
from tic_tui.widgets.painted import Listing, strip_of, tic_app
from tic_tui.widgets.windowed import ColumnTable


class RunList(Listing):
    """One line a run. The cursor stays on its run when the order changes."""

    view: RunsView | None = None
    state_width = 8

    @property
    def row_count(self) -> int:
        return len(self.view.runs) if self.view else 0

    @property
    def selected(self) -> Run | None:
        """The run under the cursor."""
        return self.view.runs[self.cursor] if self.view and self.view.runs else None

    def show(self, view: RunsView) -> None:
        """Shows a reading."""
        was = self.selected
        self.view = view
        self.state_width = runs.state_width(view.runs)
        if was is not None:
            same = [n for n, r in enumerate(view.runs) if r.run_id == was.run_id]
            exact = [n for n in same if view.runs[n].attempt == was.attempt]
            self.cursor = (exact or same or [self.cursor])[0]
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        assert self.view is not None  # noqa: S101  row_count is 0 without one
        run = self.view.runs[index]
        newest = self.view.newest.get((str(run.run_id), run.attempt))
        now, glyphs = tic_app(self).clock(), tic_app(self).glyphs
        facts = self.view.facts.get(str(run.run_id))
        lit = None if self.view.lamps is None else self.view.lamps.get(str(run.run_id), ())
        return runs.row(
            run, newest, now, width, glyphs, state=self.state_width, selected=selected, facts=facts, lit=lit
        )


class MismatchTable(ColumnTable[Mismatch]):
    """Mismatch records, oldest first."""

    named = records.COLUMNS

    def same(self, old: Mismatch, new: Mismatch) -> bool:
        # A record that was still open is followed by its final row, at the same place and with another key.
        return (old.store_id, old.target) == (new.store_id, new.target)

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return records.mismatch_row(
            self.rows[index], width, tic_app(self).glyphs, selected=selected, all_runs=self.all_runs
        )


class FaultList(Listing):
    """Fault lines of one run, oldest first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.faults: Sequence[Fault] = ()

    @property
    def row_count(self) -> int:
        return len(self.faults)

    @property
    def selected(self) -> Fault | None:
        """The fault under the cursor."""
        return self.faults[self.cursor] if self.faults else None

    def show(self, faults: Sequence[Fault]) -> None:
        """Shows a reading; the cursor stays on its fault."""
        was = self.selected
        self.faults = faults
        if was is not None:
            self.cursor = next((n for n, f in enumerate(faults) if f.key == was.key), self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        now = tic_app(self).clock()
        return records.fault_row(self.faults[index], now, width, tic_app(self).glyphs, selected=selected)


class LineList(Listing):
    """Lines made elsewhere, scrolled both ways; with or without a cursor."""

    def __init__(self, *, id: str | None = None, cursor: bool = True) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Line] = ()
        self._make: Callable[[int], Sequence[Line]] = lambda width: ()
        self._made_for = -1
        self._with_cursor = cursor
        self._wide = 1
        self._shown: tuple[Sequence[Line], int, Size] = ((), -1, Size(0, 0))

    @property
    def shows_cursor(self) -> bool:
        return self._with_cursor

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def show(self, make: Callable[[int], Sequence[Line]]) -> None:
        """Shows what `make` gives for the width there is, now and after a resize."""
        self._make, self._made_for = make, -1
        self.repaint()

    def shift(self, cells: int) -> None:
        """Scrolls sideways."""
        most = max(0, self._wide - self.size.width)
        self.scroll_to(x=max(0, min(most, self.scroll_offset.x + cells)), animate=False)
        self.refresh()

    def repaint(self) -> None:
        if self._made_for != self.line_width:
            self._made_for = self.line_width
            self._rows = self._make(self.line_width)
            self._wide = max((width_of(plain(row)) for row in self._rows), default=1)
        self.cursor = max(0, min(self.cursor, self.row_count - 1))
        self.virtual_size = Size(max(self._wide, self.line_width), self.row_count)
        shown = (tuple(self._rows), self.cursor if self._with_cursor else 0, self.size)
        if shown != self._shown:  # an idle screen sends nothing, however often it is drawn
            self._shown = shown
            self.refresh()

    def move_to(self, index: int) -> None:
        if self._with_cursor:
            super().move_to(index)
            return
        # Without a cursor the window moves: `cursor` is its first line.
        top = max(0, min(index, self.row_count - max(1, self.size.height)))
        self.cursor = top
        self.scroll_to(y=top, animate=False)

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return self._rows[index]

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        line = self._rows[y] if y < len(self._rows) else ()
        chosen = self._with_cursor and y == self.cursor
        x = self.scroll_offset.x
        width = max(self._wide, x + self.size.width)
        return strip_of(line, width, self.rich_style, self, cursor=chosen).crop(x, x + self.size.width)
