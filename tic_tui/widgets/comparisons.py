"""The lists of comparisons: the table with its window, and the newest ones of a run on screen 2."""

from __future__ import annotations

from collections.abc import Sequence

from tic_tui.comparison_model import Comparison
from tic_tui.render import comparisons
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app
from tic_tui.widgets.windowed import ColumnTable


class ComparisonTable(ColumnTable[Comparison]):
    """Comparisons, oldest first."""

    named = comparisons.COLUMNS

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        glyphs = tic_app(self).glyphs
        return comparisons.row(self.rows[index], width, glyphs, selected=selected, all_runs=self.all_runs)


class NewestComparisons(Listing):
    """The newest comparisons of one run, the newest first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Comparison] = ()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> Comparison | None:
        """The comparison under the cursor."""
        return self.rows[self.cursor] if self.rows else None

    def show(self, rows: Sequence[Comparison]) -> None:
        """Shows a reading; the cursor stays on its comparison."""
        was = self.selected
        self.rows = rows
        if was is not None:
            same = (n for n, row in enumerate(rows) if row.comparison_id == was.comparison_id)
            self.cursor = next(same, self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return comparisons.row(self.rows[index], width, tic_app(self).glyphs, selected=selected)
