"""Screen 6, second page: the rows of the ledger through a stack of filters, and whether its chain holds.

Left out in this order: the detail below 120 columns and 30 lines; the stack's own lines below 16 lines; then columns of
the table (render/ledger.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.comparison_model import CompareAsk
from tic_tui.evidence_model import Entry, LedgerView
from tic_tui.filters import Filter
from tic_tui.glyphs import Glyphs
from tic_tui.model import Demand
from tic_tui.render import chrome, ledger
from tic_tui.render.text import Builder, Line, text_of
from tic_tui.screens.base import TABLE
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.screens.filtered import FilteredView
from tic_tui.screens.pages import RecordScreen, Turned
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.ledger import LedgerTable
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app


class LedgerScreen(Turned, FilteredView[LedgerView]):
    """Rows of the ledger, of one run or of all."""

    name_in_table = bindings.LEDGER
    BINDINGS = TABLE.textual(bindings.LEDGER)
    filter_table = "ledger"
    what = "rows"

    def body(self) -> ComposeResult:
        yield Painted(id="pages")
        yield Painted(id="chain")
        yield Painted(id="stack-line")
        yield FilterStack(id="stack")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="records-head")
                yield Painted(id="no-record")
                yield LedgerTable(id="all-entries", column="kind")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield LineList(id="side-entry", cursor=False)

    @property
    def table(self) -> LedgerTable:
        """The rows."""
        return self.query_one(LedgerTable)

    def crumbs(self) -> Sequence[str]:
        return ("tic", self.run_id or "all runs", "ledger")

    def on_screen_resume(self) -> None:
        if tic_app(self).evidence_run != self.run_id:
            self.show_run(tic_app(self).evidence_run)
        super().on_screen_resume()

    def demand(self) -> Demand:
        return Demand("ledger", self.run_id, self.table.around, filters=self.filters, choices=self.wanted_choices)

    def view_read(self) -> LedgerView | None:
        return tic_app(self).readings.ledger

    # --- drawing ---

    def sync(self) -> None:
        self.draw_pages()
        super().sync()

    def draw_head(self) -> None:
        super().draw_head()
        view = self.view_shown()
        lines = [ledger.chain_line(view.chain, self.size.width, tic_app(self).glyphs)] if view is not None else []
        self.query_one("#chain", Painted).paint(lines)

    def counts(self, view: LedgerView | None) -> str:
        return ledger.counts(view, self.filters)

    def nothing(self, view: LedgerView | None, width: int) -> Sequence[Line]:
        glyphs = tic_app(self).glyphs
        if view is not None and view.total == 0 and self.run_id is None:
            return ledger.nothing(width, glyphs)
        text = "no row matches all filters"
        if view is None:
            text = self.unread()
        elif view.total == 0:
            text = f"no row of the ledger is of run {self.run_id}; key w shows all of them"
        return [Builder(width, glyphs).add(f"  {text}", "dim").line()]

    def draw_rest(self) -> None:
        head, pane, one = self.query_one("#side-head", Painted), self.query_one(LineList), self.table.selected
        if not self.query_one("#side").display:
            return
        width, glyphs = max(1, head.size.width), tic_app(self).glyphs
        head.paint([chrome.panel_head("detail", "", width, glyphs)])
        pane.show(lambda cells: [] if one is None else ledger.detail(one, cells, glyphs))

    # --- actions ---

    def choose_run(self) -> None:
        if (about := self.target_run()) is not None:
            tic_app(self).select_run(about[0])

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.table.selected
        if one is None or not one.run_id:
            return None
        return one.run_id, one.attempt, f"comparison:{one.target}" if one.kind == "evidence" else ""

    def copy_text(self) -> str:
        one = self.table.selected
        return "" if one is None else text_of(ledger.detail(one, 200, tic_app(self).glyphs))

    async def open_row(self) -> None:
        if (one := self.table.selected) is not None:
            await tic_app(self).push_screen(EntryScreen(one, self.demand(), self.target_run()))

    def filter_of_cursor(self) -> Filter | None:
        one = self.table.selected
        if one is None:
            return None
        names = {"standing": "standing"}
        column = names.get(self.table.column) or ledger.COLUMNS.filter_of(self.table.column)
        return Filter(column, "is not", _value(one, column), table="ledger")

    def action_all_runs(self) -> None:
        app, one = tic_app(self), self.table.selected
        if self.run_id is not None:
            app.evidence_run = None
        elif (run := one.run_id if one is not None and one.run_id else app.selected_run) is not None:
            app.select_run(run)
            app.evidence_run = run
        else:
            app.tell("no run is chosen: press 1, choose one")
        self.show_run(app.evidence_run)


def _value(one: Entry, column: str) -> str:
    """What a filter of this column has to say to find the row."""
    names = {"candidate": "candidate_id", "criterion": "criterion_id"}
    value = getattr(one, names.get(column, column))
    return "unknown" if value is None or value == "" else str(value)


class EntryScreen(RecordScreen):
    """A row of the ledger in full. Of evidence Enter opens the comparison, which is read meanwhile."""

    def __init__(self, one: Entry, demand: Demand, target: tuple[str, int | None, str] | None) -> None:
        self.one, self.of = one, one.target if one.kind == "evidence" else ""
        asked = Demand("comparison", one.run_id or None, compare=CompareAsk(self.of)) if self.of else demand
        super().__init__(f"row {one.seq} {one.kind}", self._all, asked, target)

    def _all(self, width: int, glyphs: Glyphs) -> Sequence[Line]:
        return ledger.detail(self.one, width, glyphs)

    async def action_open(self) -> None:
        view = tic_app(self).comparison_view
        if not self.of:
            await super().action_open()
        elif view is None or view.ask.comparison_id != self.of:
            tic_app(self).tell("its comparison is being read")
        elif view.row is None:
            tic_app(self).tell("its comparison is not in this store")
        else:
            await tic_app(self).push_screen(ComparisonScreen(view.row))
