"""The list of gaps of a run's W&B histories, on screen 2."""

from __future__ import annotations

from collections.abc import Sequence

from tic_tui.histories import Lack
from tic_tui.render import histories
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app


class GapList(Listing):
    """Gaps of one run: confirmed ones first, then by step."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lacks: Sequence[Lack] = ()

    @property
    def row_count(self) -> int:
        return len(self.lacks)

    @property
    def selected(self) -> Lack | None:
        """The gap under the cursor."""
        return self.lacks[self.cursor] if self.lacks else None

    def show(self, rows: Sequence[Lack]) -> None:
        """Shows a reading; the cursor stays on its gap."""
        was = self.selected
        self.lacks = rows
        if was is not None:
            self.cursor = next((n for n, lack in enumerate(rows) if lack.place == was.place), self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return histories.row(self.lacks[index], width, tic_app(self).glyphs, selected=selected)
