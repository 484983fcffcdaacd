"""What is under a cursor: its fields, and its bytes with the lines round them as soon as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.timer import Timer

from tic_tui.execution import Item
from tic_tui.neighbours import Neighbours, Place
from tic_tui.render import detail
from tic_tui.render.text import Line
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import tic_app

_SETTLE_S: Final = 0.15  # a cursor that runs through a list reads no files
WIDEST: Final = 20_000  # cells of one line; a longer raw line is cut there, with a mark


class DetailPane(LineList):
    """One record or fault. `wide`: lines are as long as they are, to be scrolled sideways; else cut at the edge."""

    def __init__(self, *, id: str | None = None, wide: bool = False) -> None:
        super().__init__(id=id, cursor=False)
        self.can_focus = wide
        self.item: Item | None = None
        self.found: Neighbours | None = None
        self.around = detail.AROUND
        self._wide_lines = wide
        self._place: Place | None = None
        self._timer: Timer | None = None

    def show_item(self, item: Item | None) -> None:
        """Shows it; its file is read again only if the record stands elsewhere."""
        if item == self.item:
            return
        self.item = item
        place = None if item is None else detail.place_of(item)
        if place != self._place:
            self._place, self.found = place, None
            self.scroll_to(0, 0, animate=False)
            if self._timer is not None:
                self._timer.stop()
            if place is not None:
                self._timer = self.set_timer(0.01 if self._wide_lines else _SETTLE_S, self._ask)
        self.redraw()

    def _ask(self) -> None:
        if self._place is not None:
            tic_app(self).lookout.ask(self._place)

    def take(self, found: Neighbours) -> None:
        """The lines round a record; those of another one are left."""
        if found.place == self._place and found != self.found:
            self.found = found
            self.redraw()

    def more(self, lines: int) -> None:
        """Shows so many more lines on each side, or fewer."""
        self.around = max(0, min(40, self.around + lines))
        self.redraw()

    def redraw(self) -> None:
        """Makes the lines anew."""
        self.show(self._make_lines)

    def _make_lines(self, width: int) -> Sequence[Line]:
        if self.item is None:
            return ()
        cells = WIDEST if self._wide_lines else width
        return detail.detail(self.item, self.found, self.around, cells, tic_app(self).glyphs)
