"""The list of findings of one run, on screen 2."""

from __future__ import annotations

from collections.abc import Sequence

from tic_tui.execution import Finding
from tic_tui.render import findings
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app


class FindingList(Listing):
    """Findings of one run, oldest first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.findings: Sequence[Finding] = ()

    @property
    def row_count(self) -> int:
        return len(self.findings)

    @property
    def selected(self) -> Finding | None:
        """The finding under the cursor."""
        return self.findings[self.cursor] if self.findings else None

    def show(self, rows: Sequence[Finding]) -> None:
        """Shows a reading; the cursor stays on its finding."""
        was = self.selected
        self.findings = rows
        if was is not None:
            self.cursor = next((n for n, f in enumerate(rows) if f.finding_id == was.finding_id), self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        now, glyphs = tic_app(self).clock(), tic_app(self).glyphs
        return findings.row(self.findings[index], now, width, glyphs, selected=selected)
