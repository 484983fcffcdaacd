"""The ledger's rows, a window of them."""

from __future__ import annotations

from tic_tui.evidence_model import Entry
from tic_tui.render import ledger
from tic_tui.render.text import Line
from tic_tui.widgets.painted import tic_app
from tic_tui.widgets.windowed import ColumnTable


class LedgerTable(ColumnTable[Entry]):
    """Rows of the ledger, oldest first."""

    named = ledger.COLUMNS

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        return ledger.row(self.rows[index], width, tic_app(self).glyphs, selected=selected, all_runs=self.all_runs)
