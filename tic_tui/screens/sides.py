"""One step of a gap in all sources side by side: what was printed, the local log's row, the server's."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.histories import Lack, Side
from tic_tui.render import histories
from tic_tui.render.text import Line, text_of
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import tic_app


class SidesScreen(View):
    """The gap as it was when it was opened; `more` and `fewer` go to its next step and back."""

    name_in_table = bindings.SIDES
    BINDINGS = TABLE.textual(bindings.SIDES)

    def __init__(self, lack: Lack) -> None:
        super().__init__()
        self.lack = lack
        self.step = lack.first_step or 0
        self._sides: Sequence[Side] | None = None

    def body(self) -> ComposeResult:
        yield LineList(id="sides", cursor=False)

    def on_mount(self) -> None:
        self.query_one(LineList).focus()
        self._ask()

    def crumbs(self) -> Sequence[str]:
        return ("tic", f"{self.lack.run_id} #{self.lack.attempt}", "W&B gap", f"step {self.step}")

    def sync(self) -> None:
        self.query_one(LineList).show(self._lines)

    def _lines(self, width: int) -> Sequence[Line]:
        return histories.side_by_side(self.lack, self.step, self._sides, width, tic_app(self).glyphs)

    def _ask(self) -> None:
        tic_app(self).feed.look_at_step(self.lack.run_id, str(self.lack.axis), self.step)

    def take_sides(self, step: int, sides: tuple[Side, ...]) -> None:
        if step == self.step:
            self._sides = sides
            self.sync()

    def target_run(self) -> tuple[str, int | None, str] | None:
        return str(self.lack.run_id), self.lack.attempt, ""

    def copy_text(self) -> str:
        return text_of(self._lines(200))

    def action_back(self) -> None:
        tic_app(self).pop_screen()

    def action_next_step(self) -> None:
        self._go(1)

    def action_previous_step(self) -> None:
        self._go(-1)

    def _go(self, by: int) -> None:
        first, last = self.lack.first_step or 0, self.lack.last_step
        step = self.step + by
        if step < first or (last is not None and step > last):
            tic_app(self).tell("there is no later step in this gap" if by > 0 else "this is the gap's first step")
            return
        self.step, self._sides = step, None
        self._ask()
        self.refresh_all()
