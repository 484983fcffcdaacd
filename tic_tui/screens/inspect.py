"""One record or fault: all its fields, and the bytes it came from."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.model import Fault, Mismatch
from tic_tui.render import records
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import tic_app

_WIDEST = 20_000  # cells of one line; a longer raw line is cut there, with a mark


class InspectScreen(View):
    """Details of what was under the cursor, kept as they were when it was opened unless a newer reading has it."""

    name_in_table = bindings.INSPECT
    BINDINGS = TABLE.textual(bindings.INSPECT)

    def __init__(self, item: Mismatch | Fault) -> None:
        super().__init__()
        self.item = item
        self._drawn: Mismatch | Fault | None = None

    def body(self) -> ComposeResult:
        yield LineList(id="detail", cursor=False)

    def on_mount(self) -> None:
        self.query_one(LineList).focus()

    def crumbs(self) -> Sequence[str]:
        kind = "mismatch" if isinstance(self.item, Mismatch) else "fault"
        return ("tic", f"{self.item.run_id} #{self.item.attempt}", kind, f"line {self.item.line_no}")

    def sync(self) -> None:
        view = tic_app(self).run_view
        if view is not None:
            newer = view.window.rows if isinstance(self.item, Mismatch) else view.faults
            self.item = next((i for i in newer if i.key == self.item.key), self.item)
        if self.item != self._drawn:
            self._drawn = self.item
            glyphs = tic_app(self).glyphs
            if isinstance(self.item, Mismatch):
                lines = records.mismatch_detail(self.item, _WIDEST, glyphs)
            else:
                lines = records.fault_detail(self.item, _WIDEST, glyphs)
            self.query_one(LineList).show(lambda _: lines)

    def target_run(self) -> tuple[str, int | None, str] | None:
        record = self.item.target if isinstance(self.item, Mismatch) else ""
        return str(self.item.run_id), self.item.attempt, record

    def copy_text(self) -> str:
        return f"{self.item.place} offset {self.item.byte_offset} length {self.item.byte_length}\n{self.item.raw}"

    def action_back(self) -> None:
        tic_app(self).pop_screen()

    def action_left(self) -> None:
        self.query_one(LineList).shift(-20)

    def action_right(self) -> None:
        self.query_one(LineList).shift(20)
