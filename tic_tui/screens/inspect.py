"""One record or fault: all its fields, and the bytes it came from between the lines round them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
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

    def __init__(self, item: Mismatch | Fault) -> None:
        super().__init__()
        self.item = item

    def body(self) -> ComposeResult:
        yield DetailPane(id="detail", wide=True)

    def on_mount(self) -> None:
        self.query_one(DetailPane).focus()

    def crumbs(self) -> Sequence[str]:
        kind = "mismatch" if isinstance(self.item, Mismatch) else "fault"
        return ("tic", f"{self.item.run_id} #{self.item.attempt}", kind, f"line {self.item.line_no}")

    def sync(self) -> None:
        view = tic_app(self).run_view
        if view is not None:
            newer = view.window.rows if isinstance(self.item, Mismatch) else view.faults
            self.item = next((i for i in newer if i.key == self.item.key), self.item)
        self.query_one(DetailPane).show_item(self.item)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    def target_run(self) -> tuple[str, int | None, str] | None:
        record = self.item.target if isinstance(self.item, Mismatch) else ""
        return str(self.item.run_id), self.item.attempt, record

    def copy_text(self) -> str:
        return f"{self.item.place} offset {self.item.byte_offset} length {self.item.byte_length}\n{self.item.raw}"

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
