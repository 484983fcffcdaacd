"""Screen 5: the faults of a run. The first one and its line, what followed on each rank, then all of them.

Left out in this order: the detail below 120 columns and 44 lines; below 16 lines the cascade and all of the card but
the lock and the line that caused it.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.model import Demand, Fault, FaultsView, FaultWindow, Key
from tic_tui.neighbours import Neighbours
from tic_tui.render import chrome, execstate, faults
from tic_tui.render.faults import Row
from tic_tui.render.text import Builder, Line, count
from tic_tui.screens.base import TABLE, View
from tic_tui.screens.inspect import InspectScreen
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.painted import Listing, Painted, tic_app
from tic_tui.widgets.windowed import WindowTable


class FaultTable(WindowTable[Row]):
    """All faults, oldest first, copies folded under their line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.opened: set[Key] = set()

    def show(self, window: FaultWindow, echoes: dict[Key, tuple[Fault, ...]]) -> None:
        """Shows a reading."""
        rows = faults.unfolded(window.rows, echoes, self.opened)
        self.show_rows(rows, older=window.older, newer=window.newer)

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        row, app = self.rows[index], tic_app(self)
        return faults.fault_line(
            row.fault, row.copies, app.clock(), width, app.glyphs, selected=selected, copy=row.copy,
            witnesses=row.witnesses,
        )  # fmt: skip


class Cascade(Listing):
    """The first line of every rank, in the order of time."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.first: Fault | None = None
        self.opened: set[Key] = set()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> Fault | None:
        """The fault under the cursor."""
        return self.rows[self.cursor].fault if self.rows else None

    def show(self, cascade: Sequence[Fault], first: Fault | None) -> None:
        """Shows a reading; ranks that say the same are folded. The cursor stays on its fault."""
        was = self.selected
        self.rows, self.first = faults.unfolded(cascade, {}, self.opened), first
        if was is not None:
            self.cursor = next((n for n, row in enumerate(self.rows) if row.key == was.key), self.cursor)
        self.repaint()

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        row, glyphs = self.rows[index], tic_app(self).glyphs
        folded = 0 if row.key in self.opened else row.witnesses
        return faults.cascade_row(row.fault, self.first, width, glyphs, selected=selected, folded=folded)


class FaultsScreen(View):
    """The faults of the selected run."""

    name_in_table = bindings.FAULTS
    BINDINGS = TABLE.textual(bindings.FAULTS)

    def __init__(self) -> None:
        super().__init__()
        self.attempt: int | None = None  # None: the newest
        self._run: str | None = None
        self._placed = False  # the cursor was put on the first fault

    def body(self) -> ComposeResult:
        yield Painted(id="card")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="cascade-head")
                yield Cascade(id="cascade")
                yield Painted(id="all-faults-head")
                yield FaultTable(id="all-faults")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield DetailPane(id="side-detail")
        yield Painted(id="none")

    def on_mount(self) -> None:
        self.table.follows = False
        self.table.focus()

    @property
    def table(self) -> FaultTable:
        """All faults."""
        return self.query_one(FaultTable)

    @property
    def cascade(self) -> Cascade:
        """The first line of each rank."""
        return self.query_one(Cascade)

    def view_shown(self) -> FaultsView | None:
        """The reading, if it is of the selected run."""
        view = tic_app(self).faults_view
        return view if view is not None and view.run.run_id == tic_app(self).selected_run else None

    def crumbs(self) -> Sequence[str]:
        view = self.view_shown()
        attempt = "" if view is None else f" #{view.attempt}"
        return ("tic", f"{tic_app(self).selected_run or 'no run selected'}{attempt}", "faults")

    def demand(self) -> Demand:
        return Demand("faults", tic_app(self).selected_run, self.table.around, attempt=self.attempt)

    # --- drawing ---

    def sync(self) -> None:
        app, view = tic_app(self), self.view_shown()
        if self._run != app.selected_run:
            self._run, self.attempt = app.selected_run, None
            self._start_over()
        there = view is not None
        self.query_one("#card").display = self.query_one("#split").display = there
        none = self.query_one("#none", Painted)
        none.display = not there
        if view is None:
            none.paint([Builder(self.size.width, app.glyphs).add(f"  {self._nothing()}", "dim").line()])
            return
        tall = self.size.height >= 16
        self.query_one("#card", Painted).paint(
            faults.card(view, self._state(view), app.clock(), self.size.width, app.glyphs, tall=tall)
        )
        self.cascade.show(view.cascade, view.first)
        self._arrange(view)
        self.table.show(view.faults, view.echoes)
        if not self._placed and view.first is not None:
            self._placed = True
            self.table.go_to(view.first.key)
        self._heads(view)
        self._draw_side()

    def _start_over(self) -> None:
        self._placed = False
        self.table.clear()
        self.table.follows = False
        self.table.opened.clear()
        self.cascade.opened.clear()

    def _nothing(self) -> str:
        app = tic_app(self)
        if app.selected_run is None:
            return "no run selected: press 1, choose one, and 5"
        return "this run is not in the store" if app.run_missing else "reading the faults ..."

    def _state(self, view: FaultsView) -> str:
        return execstate.at_fault(view.state)

    def _arrange(self, view: FaultsView) -> None:
        wide, tall = self.size.width >= 120, self.size.height >= 44
        self.set_class(wide, "-beside")
        self.set_class(tall and not wide, "-below")
        self.query_one("#side").display = wide or tall
        cascade = self.size.height >= 16 and len(view.cascade) > 1
        self.cascade.display = self.query_one("#cascade-head").display = cascade
        self.cascade.styles.height = min(self.cascade.row_count, max(2, self.size.height // 6))
        if not cascade and self.focused is self.cascade:
            self.set_focus(self.table)

    def _heads(self, view: FaultsView) -> None:
        app, panel = tic_app(self), self.query_one("#all-faults-head", Painted)
        width = panel.size.width or self.size.width
        said = f"{count(view.total)}: {faults.kinds_words(view)}" if view.kinds else count(view.total)
        panel.paint([chrome.panel_head("faults", said, width, app.glyphs, focused=self.focused is self.table)])
        ranks = f"{len(view.cascade)} ranks, by the time of their first line"
        head = chrome.panel_head("cascade", ranks, width, app.glyphs, focused=self.focused is self.cascade)
        self.query_one("#cascade-head", Painted).paint([head])

    def _draw_side(self) -> None:
        head, fault = self.query_one("#side-head", Painted), self.selected()
        if self.query_one("#side").display:
            place = "" if fault is None else f"line {fault.line_no}"
            head.paint([chrome.panel_head("detail", place, max(1, head.size.width), tic_app(self).glyphs)])
            self.query_one(DetailPane).show_item(fault)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    # --- what the lists say ---

    def on_anchored(self) -> None:
        tic_app(self).demand_changed()

    def on_listing_moved(self) -> None:
        self._draw_side()

    def on_descendant_focus(self) -> None:
        if (view := self.view_shown()) is not None:
            self._heads(view)
            self._draw_side()

    # --- actions ---

    def selected(self) -> Fault | None:
        """The fault under the cursor of the list that has the focus."""
        if self.focused is self.cascade:
            return self.cascade.selected
        row = self.table.selected
        return None if row is None else row.fault

    def target_run(self) -> tuple[str, int | None, str] | None:
        view = self.view_shown()
        return None if view is None else (str(view.run.run_id), view.attempt, "")

    def copy_text(self) -> str:
        fault, view = self.selected(), self.view_shown()
        if fault is None or view is None:
            return ""
        left = [f"{file.kind} {file.path}" for file in view.files]
        return "\n".join([fault.place, fault.raw or str(fault.text), *left])

    async def action_open(self) -> None:
        if (fault := self.selected()) is not None:
            await tic_app(self).push_screen(InspectScreen(fault))

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUN if tic_app(self).selected_run else bindings.RUNS)

    def action_next_panel(self) -> None:
        self.set_focus(self.cascade if self.focused is self.table and self.cascade.display else self.table)

    async def action_next_fault(self) -> None:
        self._jump(1)

    async def action_previous_fault(self) -> None:
        self._jump(-1)

    def _jump(self, by: int) -> None:
        table, at = self.table, self.table.cursor + by
        self.set_focus(table)
        while 0 <= at < table.row_count and table.rows[at].copy:
            at += by
        if not 0 <= at < table.row_count:
            tic_app(self).tell("there is no later fault" if by > 0 else "there is no earlier fault")
            return
        table.go_to(table.rows[at].key)

    def action_fold(self) -> None:
        view = self.view_shown()
        if view is None:
            return
        if self.focused is self.cascade and self.cascade.rows:
            self.cascade.opened ^= {self.cascade.rows[self.cascade.cursor].key}
            self.refresh_all()
            return
        row = self.table.selected
        if row is None or not (row.copies or row.witnesses):
            tic_app(self).tell("no copy of this line was forwarded, and no other process says the same")
            return
        self.table.opened ^= {row.key}
        self.table.show(view.faults, view.echoes)

    def action_previous_attempt(self) -> None:
        self._turn(-1)

    def action_next_attempt(self) -> None:
        self._turn(1)

    def _turn(self, by: int) -> None:
        view = self.view_shown()
        attempts = sorted(view.attempts) if view is not None else []
        at = attempts.index(view.attempt) + by if view is not None and view.attempt in attempts else -1
        if not 0 <= at < len(attempts):
            tic_app(self).tell("there is no other attempt on that side")
            return
        self.attempt = attempts[at]
        self._start_over()
        tic_app(self).demand_changed()
