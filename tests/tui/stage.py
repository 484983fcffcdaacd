"""An app on a fake store, driven by keys: what the tests of the screens share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from itertools import count
from time import monotonic

from textual.pilot import Pilot

from tests.tui.fake import NOW, FakeStore
from tic_tui import theming
from tic_tui.app import TicApp
from tic_tui.bindings import Keymap
from tic_tui.glyphs import ASCII
from tic_tui.screens.mark import Said
from tic_tui.screens.run import RunScreen
from tic_tui.widgets.lists import MismatchTable


@dataclass
class Stage:
    """An app on a store, with what was said."""

    app: TicApp
    store: FakeStore
    pilot: Pilot[str | None]
    said: list[Said] = field(default_factory=list)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = monotonic() + 60
        while monotonic() < deadline:
            if condition():
                await self.pilot.pause()
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"never came true; the screen shows\n{self.text}")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def text(self) -> str:
        return self.app.frame_text()

    async def shows(self, *words: str) -> None:
        await self.until(lambda: all(w in self.text for w in words))

    async def open_run(self, run: str = "grpo-tiny-a") -> MismatchTable:
        await self.app.show_run(run)
        await self.until(lambda: self.app.run_view is not None and isinstance(self.app.screen, RunScreen))
        return self.app.screen.query_one(MismatchTable)


@asynccontextmanager
async def stage(
    size: tuple[int, int] = (80, 24), *, demo: bool = True, store: FakeStore | None = None, read_only: bool = False,
    acknowledge: bool = True, ascii_only: bool = False, notice_s: float = 600,
) -> AsyncIterator[Stage]:  # fmt: skip
    """`notice_s`: longer than any test, since a busy machine may let a notice go before a test has looked."""
    store = store or FakeStore()
    if demo:
        store.demo()
    said: list[Said] = []
    ids = map("id-{}".format, count(1))

    def say(what: Said) -> str:
        said.append(what)
        mark_id = next(ids)
        if acknowledge:
            store.mark(mark_id, what.run_id, verdict=what.verdict, reason=what.reason)
        if acknowledge and what.verdict == "retract":
            store.write("UPDATE marks SET retracted = true WHERE id = ?", [what.target])
        return mark_id

    app = TicApp(
        "/ws", opener=store.open, say=say, look=theming.load_all()["tic-dark"], keymap=Keymap(read_only=read_only),
        clock=lambda: NOW.replace(tzinfo=UTC), notice_s=notice_s,
        **({"glyphs": ASCII} if ascii_only else {}),
    )  # fmt: skip
    async with app.run_test(size=size) as pilot:
        made = Stage(app, store, pilot, said)
        await made.until(lambda: app.runs_view is not None)
        yield made
