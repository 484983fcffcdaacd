"""The lifecycle of the weights of one run, on screen 2: one line a way that processes went."""

from __future__ import annotations

from collections.abc import Sequence

from tic_tui.execution import PhaseChange
from tic_tui.render import lifecycle
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app


class LifecycleList(Listing):
    """Ways that processes went; the last line may only say how many more there are."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ways: Sequence[lifecycle.Way] = ()
        self._most = lifecycle.MOST

    @property
    def row_count(self) -> int:
        return min(len(self._ways), self._most + 1)

    @property
    def selected(self) -> PhaseChange | None:
        """The newest change of the way under the cursor."""
        return self._ways[self.cursor].changes[-1] if self.cursor < min(len(self._ways), self._most) else None

    def show(self, changes: Sequence[PhaseChange], most: int = lifecycle.MOST) -> None:
        """Shows a reading, at most so many ways; the cursor stays on the processes of its way."""
        was = self._ways[self.cursor].processes if self.cursor < len(self._ways) else ()
        self._ways, self._most = lifecycle.ways(changes), most
        self.cursor = next((n for n, way in enumerate(self._ways) if set(way.processes) & set(was)), self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        now, glyphs = tic_app(self).clock(), tic_app(self).glyphs
        if index >= self._most:
            return lifecycle.more(len(self._ways) - self._most, width, glyphs)
        return lifecycle.row(self._ways[index], now, width, glyphs, selected=selected)
