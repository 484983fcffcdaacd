"""One record or fault: all its fields, and the bytes it came from between the lines round them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.execution import Finding, Item, PhaseChange, StateChange
from tic_tui.model import Fault, Mismatch
from tic_tui.neighbours import Neighbours
from tic_tui.plural import plural
from tic_tui.render import chrome, detail
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.findings import FindingList
from tic_tui.widgets.painted import Painted, tic_app

_STEP = 6  # lines of the file that one key adds on each side


class InspectScreen(View):
    """Details of what was under the cursor, kept as they were when it was opened unless a newer reading has it."""

    name_in_table = bindings.INSPECT
    BINDINGS = TABLE.textual(bindings.INSPECT)

    def __init__(self, item: Item) -> None:
        super().__init__()
        self.item = item

    def body(self) -> ComposeResult:
        yield Painted(id="made-in-head")
        yield FindingList(id="made-in")
        yield DetailPane(id="detail", wide=True)

    def on_mount(self) -> None:
        self.query_one(DetailPane).focus()
        self._look_up()

    def _look_up(self) -> None:
        """Asks for the findings in whose state a number was made."""
        ids = self._ids()
        if ids and isinstance(self.item, Mismatch):
            tic_app(self).feed.look_up(self.item.run_id, ids)

    def _ids(self) -> tuple[str, ...]:
        return tuple((self.item.finding_ids or "").split()) if isinstance(self.item, Mismatch) else ()

    def take_findings(self, ids: tuple[str, ...], rows: tuple[Finding, ...]) -> None:
        if ids == self._ids():
            self.query_one(FindingList).show(rows)
            self.sync()

    def crumbs(self) -> Sequence[str]:
        kind = type(self.item).__name__.lower()
        kind = {"phasechange": "weights", "statechange": "state"}.get(kind, kind)
        return ("tic", f"{self.item.run_id} #{self.item.attempt}", kind, f"line {self.item.line_no}")

    def sync(self) -> None:
        before, self.item = self._ids(), self._newer() or self.item
        if self._ids() != before:
            self._look_up()
        self._draw_findings()
        self.query_one(DetailPane).show_item(self.item)

    def _draw_findings(self) -> None:
        wrong, head, app = self.query_one(FindingList), self.query_one("#made-in-head", Painted), tic_app(self)
        there = bool(self._ids()) and wrong.row_count > 0
        wrong.display = head.display = there
        if there:
            wrong.styles.height = min(wrong.row_count, max(1, self.size.height // 6))
            focused = self.focused is wrong
            said = f"{wrong.row_count} {plural(wrong.row_count, 'finding')}; Enter opens it"
            head.paint([chrome.panel_head("made in the state of", said, self.size.width, app.glyphs, focused=focused)])

    def _newer(self) -> Item | None:
        """What became of it in the newest readings: its standing may have changed, or its record been completed."""
        app, item = tic_app(self), self.item
        if isinstance(item, Fault):
            return next((f for f in self._faults(item) if f.key == item.key), None)
        if isinstance(item, Finding):
            found = app.run_view.findings if app.run_view is not None else ()
            return next((f for f in found if f.finding_id == item.finding_id), None)
        if isinstance(item, PhaseChange | StateChange):
            return None
        views = (app.run_view, app.mismatches_view)
        rows = [r for v in views if v is not None for r in v.window.rows if r.store_id == item.store_id]
        same = [r for r in rows if r.key == item.key]
        return next(iter(same or [r for r in rows if r.target == item.target]), None)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    def target_run(self) -> tuple[str, int | None, str] | None:
        record = self.item.target if isinstance(self.item, Mismatch) else ""
        return str(self.item.run_id), self.item.attempt, record

    def copy_text(self) -> str:
        where = f"{self.item.place} offset {self.item.byte_offset} length {self.item.byte_length}"
        return f"{where}\n{detail.text_of(self.item)}"

    async def action_open_finding(self) -> None:
        if (finding := self.query_one(FindingList).selected) is not None and self._ids():
            await tic_app(self).push_screen(InspectScreen(finding))

    def action_next_panel(self) -> None:
        wrong, pane = self.query_one(FindingList), self.query_one(DetailPane)
        self.set_focus(wrong if self.focused is pane and wrong.display else pane)

    def on_descendant_focus(self) -> None:
        self._draw_findings()

    async def action_show_state(self) -> None:
        await tic_app(self).show_state(self.item)

    async def action_next_fault(self) -> None:
        await self._jump(1)

    async def action_previous_fault(self) -> None:
        await self._jump(-1)

    async def _jump(self, by: int) -> None:
        """From fault to fault; from a record to the faults of its run."""
        if not isinstance(self.item, Fault):
            await View.action_next_fault(self)
            return
        keys = [f.key for f in self._faults(self.item)]
        at = keys.index(self.item.key) + by if self.item.key in keys else -1
        if not 0 <= at < len(keys):
            tic_app(self).tell("there is no later fault here" if by > 0 else "there is no earlier fault here")
            return
        self.item = self._faults(self.item)[at]
        self.refresh_all()

    def _faults(self, fault: Fault) -> Sequence[Fault]:
        """The faults among which it is, as far as they are read."""
        run, own = tic_app(self).run_view, tic_app(self).faults_view
        lists: list[Sequence[Fault]] = [own.faults.rows, own.cascade] if own is not None else []
        lists += [run.faults] if run is not None else []
        return next((rows for rows in lists if any(f.key == fault.key for f in rows)), ())

    def action_back(self) -> None:
        tic_app(self).pop_screen()

    def action_left(self) -> None:
        self.query_one(DetailPane).shift(-20)

    def action_right(self) -> None:
        self.query_one(DetailPane).shift(20)

    def action_more(self) -> None:
        self.query_one(DetailPane).more(_STEP)

    def action_fewer(self) -> None:
        self.query_one(DetailPane).more(-_STEP)
