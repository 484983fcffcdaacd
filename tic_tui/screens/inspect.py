"""One record or fault: all its fields, and the bytes it came from between the lines round them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.execution import Finding, Item
from tic_tui.model import Fault, Mismatch
from tic_tui.neighbours import Neighbours
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.painted import tic_app

_STEP = 6  # lines of the file that one key adds on each side


class InspectScreen(View):
    """Details of what was under the cursor, kept as they were when it was opened unless a newer reading has it."""

    name_in_table = bindings.INSPECT
    BINDINGS = TABLE.textual(bindings.INSPECT)

    def __init__(self, item: Item) -> None:
        super().__init__()
        self.item = item

    def body(self) -> ComposeResult:
        yield DetailPane(id="detail", wide=True)

    def on_mount(self) -> None:
        self.query_one(DetailPane).focus()

    def crumbs(self) -> Sequence[str]:
        kind = type(self.item).__name__.lower()
        return ("tic", f"{self.item.run_id} #{self.item.attempt}", kind, f"line {self.item.line_no}")

    def sync(self) -> None:
        self.item = self._newer() or self.item
        self.query_one(DetailPane).show_item(self.item)

    def _newer(self) -> Item | None:
        """What became of it in the newest readings: its standing may have changed, or its record been completed."""
        app, item = tic_app(self), self.item
        if isinstance(item, Fault):
            return next((f for f in self._faults(item) if f.key == item.key), None)
        if isinstance(item, Finding):
            found = app.run_view.findings if app.run_view is not None else ()
            return next((f for f in found if f.finding_id == item.finding_id), None)
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
        return f"{self.item.place} offset {self.item.byte_offset} length {self.item.byte_length}\n{self._text()}"

    def _text(self) -> str:
        return str(self.item.detail) if isinstance(self.item, Finding) else self.item.raw

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
