"""Screen 2: one run. The lock first, then the state in which its numbers are made, then the numbers.

Panels are left out in this order: the plot below 30 lines or 70 cells; below 16 lines marks, faults, the weights'
lifecycle, the execution state and how it goes on. The lock, the newest number that is evidence, and the table stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.comparison_model import Comparison
from tic_tui.execution import Item
from tic_tui.model import Demand, Mismatch, RunView
from tic_tui.render import (
    artifacts,
    banner,
    chrome,
    comparison,
    comparisons,
    detail,
    execstate,
    gpus,
    histories,
    lifecycle,
    liveness,
    plot,
    records,
)
from tic_tui.render.text import Builder, Line, count, some, text_of
from tic_tui.screens.base import TABLE, View
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.screens.inspect import InspectScreen
from tic_tui.screens.sides import SidesScreen
from tic_tui.widgets.comparisons import NewestComparisons
from tic_tui.widgets.findings import FindingList
from tic_tui.widgets.gaps import GapList
from tic_tui.widgets.lifecycle import LifecycleList
from tic_tui.widgets.lists import FaultList, MismatchTable
from tic_tui.widgets.painted import Painted, tic_app


class RunScreen(View):
    """One run, live. Enter opens the record or fault under the cursor."""

    name_in_table = bindings.RUN
    BINDINGS = TABLE.textual(bindings.RUN)

    def __init__(self) -> None:
        super().__init__()
        self._shown_run: str | None = None
        self._total_at_pause = 0

    def body(self) -> ComposeResult:
        yield Painted(id="banner")
        yield Painted(id="live")
        yield Painted(id="state")
        yield LifecycleList(id="lifecycle")
        yield FindingList(id="findings")
        yield Painted(id="gpus")
        yield Painted(id="artifacts")
        yield Painted(id="compared-head")
        yield NewestComparisons(id="compared")
        yield Painted(id="wandb")
        yield GapList(id="gaps")
        yield Painted(id="plot")
        yield Painted(id="marks")
        with Vertical(id="fault-panel"):
            yield Painted(id="fault-head")
            yield FaultList(id="faults")
        yield Painted(id="mismatch-head")
        yield MismatchTable(id="mismatches")
        yield Painted(id="none")

    def on_mount(self) -> None:
        self.query_one(MismatchTable).focus()

    def crumbs(self) -> Sequence[str]:
        app = tic_app(self)
        view = app.run_view
        name = app.selected_run or "no run selected"
        if view is None:
            return ("tic", name)
        run = view.run
        ours = " (our name)" if run.named_by_us else ""
        if self.size.height >= 16:  # how it goes on has a line of its own
            return ("tic", f"{name} #{run.attempt}{ours}")
        return (f"{name} #{run.attempt}{ours}", f"{app.glyphs.state(run.state)} {run.state}")

    def demand(self) -> Demand:
        app, around = tic_app(self), self.query_one(MismatchTable).around
        return Demand("run", app.selected_run, around, app.metric, self.plot_columns())

    # --- drawing ---

    def sync(self) -> None:
        app = tic_app(self)
        view = app.run_view
        table = self.query_one(MismatchTable)
        if app.selected_run != self._shown_run:
            self._shown_run = app.selected_run
            table.clear()
            self.query_one(FaultList).show(())
            self.query_one(FindingList).show(())
            self.query_one(LifecycleList).show(())
            self.query_one(GapList).show(())
            self.query_one(NewestComparisons).show(())
        width = self.size.width
        none = self.query_one("#none", Painted)
        self._arrange(view)
        if view is None:
            none.paint([Builder(width, app.glyphs).add(f"  {self._nothing()}", "dim").line()])
            return
        now = tic_app(self).clock()
        tall = self.size.height >= 16
        self.query_one("#banner", Painted).paint(banner.banner(view, now, width, app.glyphs, tall=tall))
        self.query_one("#state", Painted).paint(execstate.strip(view, now, width, app.glyphs) if tall else [])
        ways = self.query_one(LifecycleList)
        ways.show(view.changes, 1 if self.size.height < 30 else lifecycle.MOST)
        ways.styles.height = ways.row_count
        used = gpus.lines(view.gpus, now, width, app.glyphs, min(gpus.MOST, max(0, self.size.height // 6 - 3)))
        self.query_one("#gpus", Painted).paint(used if tall else [])
        self.query_one("#artifacts", Painted).paint(artifacts.lines(view.artifacts, width, app.glyphs) if tall else [])
        self._sync_compared(view)
        self._sync_wandb(view, now)
        newest = max((r.observed_at for r in view.window.rows), default=None) if not view.window.newer else None
        live = liveness.line(view.run, view.facts, newest, now, width, app.glyphs)
        self.query_one("#live", Painted).paint([live] if tall else [])
        self._sync_plot(view)
        self.query_one("#marks", Painted).paint(self._marks(view, now))
        self._sync_faults(view)
        table.show(view.window)
        self._head(view)

    def _arrange(self, view: RunView | None) -> None:
        """Which panels there are. Each is set once a drawing: off and on again would cost a layout."""
        tall, there = self.size.height >= 16, view is not None
        self.query_one("#none").display = not there
        for selector in (
            "#banner",
            "#live",
            "#state",
            "#gpus",
            "#artifacts",
            "#compared-head",
            "#wandb",
            "#marks",
            "#mismatch-head",
            "#mismatches",
        ):
            self.query_one(selector).display = there
        self.query_one("#plot").display = there and self.plot_height() > 0
        self.query_one(LifecycleList).display = view is not None and bool(view.changes) and tall
        self.query_one(FindingList).display = view is not None and bool(view.findings) and tall
        self.query_one(GapList).display = view is not None and bool(view.wandb.lacks) and tall
        self.query_one(NewestComparisons).display = view is not None and bool(view.compared.newest) and tall
        self.query_one("#fault-panel").display = view is not None and bool(view.faults) and tall

    def _nothing(self) -> str:
        app = tic_app(self)
        if app.selected_run is None:
            return "no run selected: press 1, choose one, and Enter"
        return "this run is not in the store" if app.run_missing else "reading the run ..."

    def _sync_plot(self, view: RunView) -> None:
        panel, app = self.query_one("#plot", Painted), tic_app(self)
        height = self.plot_height()
        if height:
            fault = view.first_fault
            at = fault.step if fault is not None and view.run.locked else None
            panel.paint(plot.plot(view.series, at, self.size.width, height, app.glyphs))

    def plot_height(self) -> int:
        """Lines for the plot; 0 where the screen is too small for one."""
        return 0 if self.size.height < 30 or self.size.width < 70 else min(14, self.size.height // 3 - 2)

    def plot_columns(self) -> int:
        """Spans of steps that are plotted; 0 without a plot."""
        return plot.plot_columns(self.size.width, tic_app(self).glyphs) if self.plot_height() else 0

    def _marks(self, view: RunView, now: datetime) -> list[Line]:
        most = 0 if self.size.height < 16 else 1 if self.size.height < 30 else 3
        live = [m for m in view.marks if not m.retracted and m.verdict != "retract"]
        glyphs, width = tic_app(self).glyphs, self.size.width
        lines = [records.mark_row(m, now, width, glyphs, selected=False) for m in live[:most]]
        if 0 < most < len(live):
            lines.append(Builder(width, glyphs).add(f"  and {some(len(live) - most, 'older mark')}", "dim").line())
        return lines

    def _sync_wandb(self, view: RunView, now: datetime) -> None:
        """A line a history, a strip a source, and what is missing where."""
        panel, gaps, height = self.query_one("#wandb", Painted), self.query_one(GapList), self.size.height
        told, width, glyphs = view.wandb, self.size.width, tic_app(self).glyphs
        if height < 16:
            panel.paint([])
            return
        lines = [histories.line(one, now, width, glyphs) for one in told.histories[: max(1, height // 20)]]
        panel.paint([*lines, *histories.strips(told, width, glyphs, 3 if height < 30 else 5)])
        gaps.show(told.lacks)
        gaps.styles.height = min(len(told.lacks), max(2, height // 10))

    def _sync_compared(self, view: RunView) -> None:
        """How many comparisons there are, what waits, and the newest of them."""
        head, newest, told = self.query_one("#compared-head", Painted), self.query_one(NewestComparisons), view.compared
        there = self.size.height >= 16 and (told.total or told.queue)
        app, width = tic_app(self), self.size.width
        key = bindings.shown(app.keymap.find("show_comparisons").keys[0])
        panel = comparisons.panel_head(told, key, width, app.glyphs, focused=self.focused is newest)
        head.paint([panel] if there else [])
        newest.show(told.newest)
        newest.styles.height = min(len(told.newest), max(1, self.size.height // 10 - 1))

    def _sync_faults(self, view: RunView) -> None:
        wrong = self.query_one(FindingList)
        wrong.show(view.findings)
        wrong.styles.height = min(len(view.findings), max(1, self.size.height // 10))
        panel, faults, app = self.query_one("#fault-panel"), self.query_one(FaultList), tic_app(self)
        faults.show(view.faults)
        rows = min(len(view.faults), max(2, self.size.height // 6))
        panel.styles.height = rows + 1
        total = view.faults_total
        extra = count(total) if total <= len(view.faults) else f"{len(view.faults)} shown of {count(total)}"
        head = chrome.panel_head("faults", extra, self.size.width, app.glyphs, focused=self.focused is faults)
        self.query_one("#fault-head", Painted).paint([head])

    def _head(self, view: RunView) -> None:
        app, table = tic_app(self), self.query_one(MismatchTable)
        if table.follows:
            self._total_at_pause = view.run.mismatches
        width = self.size.width
        # While older records are still counted the count grows by old ones, and says nothing about new ones.
        new = view.run.mismatches - self._total_at_pause if view.counted.complete else 0
        counts = ", ".join(filter(None, (count(view.run.mismatches), chrome.counting(view.counted))))
        line = chrome.badge(
            counts, table.follows, new, width, app.glyphs,
            focused=self.focused is table, below=table.cursor < table.row_count - 1,
            key=bindings.shown(app.keymap.find("follow").keys[0]),
        )  # fmt: skip
        self.query_one("#mismatch-head", Painted).paint([line, records.COLUMNS.header(width, app.glyphs)])

    # --- what the lists say ---

    def on_anchored(self) -> None:
        tic_app(self).demand_changed()
        if tic_app(self).run_view is not None:
            self._head(tic_app(self).run_view)  # type: ignore[arg-type]  # tested in the line above

    def on_listing_moved(self) -> None:
        if (view := tic_app(self).run_view) is not None:
            self._head(view)

    def on_descendant_focus(self) -> None:
        if (view := tic_app(self).run_view) is not None:
            self._sync_faults(view)
            self._sync_compared(view)
            self._head(view)

    # --- actions ---

    def selected(self) -> Item | None:
        """What the cursor is on."""
        if self.focused is self.query_one(GapList) or self.focused is self.query_one(NewestComparisons):
            return None
        faults, wrong, ways = self.query_one(FaultList), self.query_one(FindingList), self.query_one(LifecycleList)
        if self.focused is wrong or self.focused is ways:
            return wrong.selected if self.focused is wrong else ways.selected
        return faults.selected if self.focused is faults else self.query_one(MismatchTable).selected

    def target_run(self) -> tuple[str, int | None, str] | None:
        view, item = tic_app(self).run_view, self.selected()
        if view is None:
            return None
        if (one := self._comparison()) is not None:
            return str(view.run.run_id), one.attempt, one.target
        attempt = item.attempt if item is not None else view.run.attempt
        return str(view.run.run_id), attempt, item.target if isinstance(item, Mismatch) else ""

    def _comparison(self) -> Comparison | None:
        """The comparison under the cursor, if it is in their list."""
        newest = self.query_one(NewestComparisons)
        return newest.selected if self.focused is newest else None

    def copy_text(self) -> str:
        if (one := self._comparison()) is not None:
            return text_of(comparison.detail(one, 200, tic_app(self).glyphs))
        lack = self.query_one(GapList).selected if self.focused is self.query_one(GapList) else None
        if lack is not None:
            return f"{lack.kind} {lack.source} {lack.first_step} to {lack.last_step} {lack.key or ''}: {lack.detail}"
        item = self.selected()
        if item is None:
            return tic_app(self).selected_run or ""
        return f"{item.place}\n{detail.text_of(item)}"

    async def action_open(self) -> None:
        if (one := self._comparison()) is not None:
            await tic_app(self).push_screen(ComparisonScreen(one))
            return
        gaps = self.query_one(GapList)
        if self.focused is gaps and gaps.selected is not None:
            if gaps.selected.first_step is None:
                tic_app(self).tell("this is about no step")
            else:
                await tic_app(self).push_screen(SidesScreen(gaps.selected))
            return
        if (item := self.selected()) is not None:
            await tic_app(self).push_screen(InspectScreen(item))

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUNS)

    def action_follow(self) -> None:
        table = self.query_one(MismatchTable)
        self.set_focus(table)
        table.follow()
        self.on_listing_moved()

    async def action_show_mismatches(self) -> None:
        await tic_app(self).show_mismatches(run_id=tic_app(self).selected_run)

    async def action_filter(self) -> None:
        await tic_app(self).show_mismatches(run_id=tic_app(self).selected_run, ask=True)

    def action_metric(self) -> None:
        tic_app(self).next_metric()

    def action_next_panel(self) -> None:
        lists = (MismatchTable, FaultList, FindingList, LifecycleList, NewestComparisons, GapList)
        order = [self.query_one(kind) for kind in lists]
        there = [panel for panel in order if panel is order[0] or (panel.row_count and panel.display)]
        at = next((n for n, panel in enumerate(there) if panel is self.focused), 0)
        # At once: `focus()` waits for its turn, and a key typed right behind this one would go to the old list.
        self.set_focus(there[(at + 1) % len(there)])
