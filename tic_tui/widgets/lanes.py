"""The lanes of screen 4 as one list: up and down choose a lane, the screen moves along it."""

from __future__ import annotations

from tic_tui.lanes import MARKS, StateView
from tic_tui.render import lanes
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app


class LaneList(Listing):
    """Marks, then lanes. `column` is where the cursor stands in the lane that is chosen; None: nowhere."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view: StateView | None = None
        self.column: int | None = None
        self.names: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        return len(self.names)

    @property
    def lane(self) -> str:
        """The lane under the cursor; "" without one."""
        return self.names[self.cursor] if self.names else ""

    def show(self, view: StateView, column: int | None) -> None:
        """Shows a reading; the cursor stays on its lane."""
        was = self.lane
        self.view, self.column = view, column
        self.names = (*MARKS, *(lane.name for lane in view.lanes)) if view.teller is not None else ()
        if was in self.names:
            self.cursor = self.names.index(was)
        elif not was and self.names:  # the first that anything was told of
            told = next((lane.name for lane in view.lanes if lane.told), self.names[0])
            self.cursor = self.names.index(told)
        self.repaint()

    def go_to(self, lane: str) -> None:
        """Puts the cursor on a lane, if it is there."""
        if lane in self.names:
            self.move_to(self.names.index(lane))

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        view, name, glyphs = self.view, self.names[index], tic_app(self).glyphs
        assert view is not None  # noqa: S101  there are no rows without one
        cursor = self.column if index == self.cursor else None
        chosen = index == self.cursor
        if name in MARKS:
            return lanes.mark_row(view, name, width, glyphs, cursor=cursor, selected=chosen)
        lane = view.lanes[index - len(MARKS)]
        return lanes.lane_row(view, lane, width, glyphs, cursor=cursor, selected=chosen)
