"""The lists of comparisons: the table with its window, and the newest ones of a run on screen 2."""

from __future__ import annotations

from collections.abc import Sequence

from tic_tui.comparison_model import Comparison, ComparisonWindow
from tic_tui.render import comparisons
from tic_tui.render.text import Line
from tic_tui.widgets.painted import Listing, tic_app
from tic_tui.widgets.windowed import WindowTable


class ComparisonTable(WindowTable[Comparison]):
    """Comparisons, oldest first. `column` is the one that a key may act on."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.column = "label"
        self.all_runs = False

    def show(self, window: ComparisonWindow) -> None:
        """Shows a reading."""
        self.show_rows(window.rows, older=window.older, newer=window.newer)

    def next_column(self, step: int) -> None:
        """Chooses the next column to the right, or with -1 to the left."""
        names = [c.name for c in comparisons.columns(self.line_width, all_runs=self.all_runs)] + [comparisons.STANDING]
        at = names.index(self.column) if self.column in names else 0
        self.column = names[max(0, min(len(names) - 1, at + step))]

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
