"""The screen without a terminal: one picture of a store, as SVG or as text. For reports, mails, and tests."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tic_daemon.errors import StoreError
from tic_tui import theming
from tic_tui.app import TicApp
from tic_tui.feed import Opener
from tic_tui.glyphs import UNICODE, Glyphs


def save_svg(
    target: str | Path,
    path: Path,
    *,
    run_id: str | None = None,
    size: tuple[int, int] = (120, 40),
    theme: str = "",
    timeout_s: float = 30.0,
) -> None:
    """Writes what the screen shows of a store as SVG: the list of runs, or one run.

    Raises:
        StoreError: the store, or the run in it, could not be read in time.
    """
    app = TicApp(str(target), look=theming.choose(theming.load_all(), theme, no_color=False), glyphs=UNICODE)
    svg, _ = asyncio.run(_paint(app, run_id, size, timeout_s))
    path.write_text(svg, encoding="utf-8")


def text(
    target: str | Path,
    *,
    run_id: str | None = None,
    size: tuple[int, int] = (80, 24),
    glyphs: Glyphs = UNICODE,
    opener: Opener | None = None,
    timeout_s: float = 30.0,
) -> str:
    """What the screen shows of a store, as lines of text without colour."""
    app = TicApp(str(target), look=theming.load_all()[theming.ANSI], glyphs=glyphs, opener=opener)
    return asyncio.run(_paint(app, run_id, size, timeout_s))[1]


async def _paint(app: TicApp, run_id: str | None, size: tuple[int, int], timeout_s: float) -> tuple[str, str]:
    deadline = time.monotonic() + timeout_s
    async with app.run_test(size=size) as pilot:
        while app.runs_view is None:
            await _wait(pilot.pause, deadline, app)
        if run_id is not None:
            await app.show_run(run_id)
            while app.run_view is None:
                await _wait(pilot.pause, deadline, app)
        await pilot.pause(0.1)
        return app.export_screenshot(title="tic-tui"), app.frame_text()


async def _wait(pause, deadline: float, app: TicApp) -> None:  # type: ignore[no-untyped-def]  # a bound Pilot.pause
    if time.monotonic() > deadline:
        raise StoreError(f"{app.target} was not read in time: {app.notice[0] or app.link.detail or app.link.state}")
    await pause(0.05)
