"""Screen 6, fifth page: which experiment comes first in a run, and where its traces begin to differ, layer by layer.

Hints are no verdict: no gate reads them. Below 16 lines the traces are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.evidence_model import FirstDivergence, HintsView
from tic_tui.model import Demand
from tic_tui.render import chrome, hints
from tic_tui.render.text import Builder, Line, text_of
from tic_tui.screens.base import TABLE
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.screens.pages import PageView
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.rows import RowList


class HintsScreen(PageView):
    """Hints of one run. Enter opens the comparison of traces under the cursor."""

    name_in_table = bindings.HINTS
    BINDINGS = TABLE.textual(bindings.HINTS)

    def body(self) -> ComposeResult:
        yield Painted(id="pages")
        yield Painted(id="hints-head")
        yield Painted(id="nothing")
        yield LineList(id="hints", cursor=False)
        with Vertical(id="traces-panel"):
            yield Painted(id="traces-head")
            yield RowList(self._line, lambda one: one.comparison_id, id="traces")

    @property
    def main(self) -> LineList:
        """The hints."""
        return self.query_one("#hints", LineList)

    @property
    def traces(self) -> RowList[FirstDivergence]:
        """Where each comparison of traces begins to differ."""
        return self.query_one(RowList)

    def run(self) -> str | None:
        """The run that the hints are for: the selected one, else the one that moved last."""
        app = tic_app(self)
        if app.evidence_run or app.selected_run:
            return app.evidence_run or app.selected_run
        runs = app.runs_view.runs if app.runs_view is not None else ()
        return str(runs[0].run_id) if runs else None

    def crumbs(self) -> Sequence[str]:
        return ("tic", self.run() or "no run", "hints, no verdict")

    def demand(self) -> Demand:
        run = self.run()
        return Demand("hints", run) if run is not None else Demand()

    def view_shown(self) -> HintsView | None:
        """The reading, if it is of this run."""
        view = tic_app(self).readings.hints
        return view if view is not None and view.demand == self.demand() else None

    # --- drawing ---

    def sync(self) -> None:
        app, view, run, glyphs = tic_app(self), self.view_shown(), self.run(), tic_app(self).glyphs
        self.draw_pages()
        rows = view.divergences if view is not None else ()
        self.traces.show(rows)
        there = bool(rows) and self.size.height >= 16
        self.query_one("#traces-panel").display = there
        self.query_one("#traces-panel").styles.height = min(len(rows), max(2, self.size.height // 4)) + 2
        if not there and self.focused is self.traces:
            self.set_focus(self.main)
        self.settled((there, self.size))
        said = f"for {run}: which experiment comes first; no verdict, no cause is proved" if run else ""
        width = self.size.width
        head = chrome.panel_head("hints", said, width, glyphs, focused=self.focused is self.main)
        self.query_one("#hints-head", Painted).paint([head])
        self.main.show(lambda cells: hints.lines(view, cells, glyphs) if view is not None else [])
        self.main.display = view is not None
        nothing = self.query_one("#nothing", Painted)
        nothing.display = view is None
        text = "  no run yet: hints are for one run; press 1 and choose one" if run is None else "  reading ..."
        if view is None and app.link.state == "disconnected" and app.link.detail:
            text = f"  cannot be read: {app.link.detail}"
        nothing.paint([Builder(width, glyphs).add(text, "dim").line()])
        if there:
            said = f"of {len(rows)}: {hints.by_boundary(rows)}"
            panel = chrome.panel_head(
                "first divergence by layer", said, width, glyphs, focused=self.focused is self.traces
            )
            names = hints.divergence_header(self.traces.cells, glyphs)
            self.query_one("#traces-head", Painted).paint([panel, names])

    def _line(self, one: FirstDivergence, width: int, selected: bool) -> Line:
        return hints.divergence_row(one, width, tic_app(self).glyphs, selected=selected)

    def on_descendant_focus(self) -> None:
        self.sync()

    # --- actions ---

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.traces.selected if self.focused is self.traces else None
        if one is not None and one.run_id is not None:
            return one.run_id, one.attempt, f"comparison:{one.comparison_id}"
        run = self.run()
        return (run, None, "") if run is not None else None

    def copy_text(self) -> str:
        view = self.view_shown()
        return "" if view is None else text_of(hints.lines(view, 200, tic_app(self).glyphs))

    def action_next_panel(self) -> None:
        there = self.query_one("#traces-panel").display
        self.set_focus(self.traces if self.focused is self.main and there else self.main)

    async def action_open(self) -> None:
        view, one = self.view_shown(), self.traces.selected
        if self.focused is not self.traces or view is None or one is None:
            tic_app(self).tell("to a trace: Tab, then Enter; comparisons of the run: key c")
            return
        found = view.comparisons.get(one.comparison_id)
        if found is None:
            tic_app(self).tell("its comparison is not in this store")
            return
        await tic_app(self).push_screen(ComparisonScreen(found))
