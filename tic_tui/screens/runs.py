"""Screen 1: all runs, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.model import Demand
from tic_tui.render import chrome, lamps, liveness, runs
from tic_tui.render.text import some
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.lists import RunList
from tic_tui.widgets.painted import Painted, tic_app


class RunsScreen(View):
    """The list of runs. Enter opens one."""

    name_in_table = bindings.RUNS
    BINDINGS = TABLE.textual(bindings.RUNS)

    def body(self) -> ComposeResult:
        yield Painted(id="head")
        yield RunList(id="runs")
        yield Painted(id="about")
        yield Painted(id="empty")

    def on_mount(self) -> None:
        self.query_one(RunList).focus()

    def crumbs(self) -> Sequence[str]:
        view = tic_app(self).runs_view
        if view is None:
            return ("tic", "runs")
        counting = chrome.counting(view.counted)
        return ("tic", some(len(view.runs), "run"), *([counting] if counting else []))

    def sync(self) -> None:
        app, listing = tic_app(self), self.query_one(RunList)
        empty = self.query_one("#empty", Painted)
        if app.runs_view is not None:
            listing.show(app.runs_view)
        has_runs = listing.row_count > 0
        listing.display = has_runs
        empty.display = not has_runs
        head = [runs.header(self.size.width, listing.state_width, app.glyphs)] if has_runs else []
        self.query_one("#head", Painted).paint(head)
        self._about()
        if not has_runs:
            if listing is not self.focused:
                listing.focus()
            trouble = app.link.detail if app.link.state == "disconnected" else ""
            read = app.runs_view is not None
            empty.paint(runs.empty(read, trouble, app.target, self.size.width, app.glyphs))
        elif self.focused is None:
            listing.focus()

    def _about(self) -> None:
        """How the run under the cursor goes on, and its lamps in words, where there are lines for it."""
        app, run, panel = tic_app(self), self.query_one(RunList).selected, self.query_one("#about", Painted)
        facts = app.runs_view.facts.get(run.run_id) if app.runs_view is not None and run is not None else None
        if run is None or facts is None or self.size.height < 16:
            panel.paint([])
        else:
            lit = (app.runs_view.lamps or {}).get(run.run_id, ()) if app.runs_view is not None else ()
            said = lamps.lines(lit, self.size.width, app.glyphs, most=3 if self.size.height >= 30 else 1)
            if app.runs_view is not None and app.runs_view.unlit:
                said = [lamps.unread(app.runs_view.unlit, self.size.width, app.glyphs)]
            panel.paint([liveness.about(run, facts, app.clock(), self.size.width, app.glyphs), *said])

    def on_listing_moved(self) -> None:
        self._about()

    def demand(self) -> Demand:
        return Demand("runs")

    def target_run(self) -> tuple[str, int | None, str] | None:
        run = self.query_one(RunList).selected
        return None if run is None else (str(run.run_id), run.attempt, "")

    def choose_run(self) -> None:
        if run := self.query_one(RunList).selected:
            tic_app(self).select_run(str(run.run_id))

    def copy_text(self) -> str:
        run = self.query_one(RunList).selected
        return "" if run is None else str(run.run_id)

    async def action_open(self) -> None:
        if run := self.query_one(RunList).selected:
            await tic_app(self).show_run(str(run.run_id))
