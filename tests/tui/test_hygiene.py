"""Start-up stays quick because of what is not imported: kept by processes, not by clocks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("duckdb", "pyarrow", "torch", "wandb", "numpy")

FIRST_PAINT = """
import asyncio, gc, sys
from tic_tui import start, terminal

terminal.can_paint = lambda: True
seen, told = [], start._collect_from_now_on
def painted():
    told()
    seen.append(gc.isenabled())
    print(sorted(set(sys.modules) & set({heavy})))
    print(sorted(n for n in sys.modules if n.startswith("tic_tui.screens.")))
    print(sorted(n for n in sys.modules if n.startswith("tic_daemon")))
start._collect_from_now_on = painted

def run(app, **settings):
    async def shown():
        assert not gc.isenabled()
        async with app.run_test(size=(80, 24)) as pilot:
            while not seen:
                await pilot.pause(0.01)
            assert "reading the store" in app.frame_text() or "cannot be read" in app.frame_text()
    asyncio.run(shown())

from textual.app import App
App.run = run
start.run_screen("/nowhere", start.Settings())
assert seen == [True]
"""


def python(code: str) -> str:
    path = f"{ROOT}:{ROOT / 'daemon'}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_first_paint_loads_no_engine() -> None:
    heavy, screens, store = python(FIRST_PAINT.replace("{heavy}", repr(HEAVY))).splitlines()
    assert heavy == "[]"
    assert screens == "['tic_tui.screens.base', 'tic_tui.screens.runs']", (
        "other screens are loaded when they are gone to"
    )
    assert store == "['tic_daemon', 'tic_daemon.errors']", "a mark's spool is loaded by the first mark"


def test_bindings_and_render_load_no_toolkit() -> None:
    code = "import sys, tic_tui.bindings, tic_tui.render.plot, tic_tui.theming, tic_tui.start; print('textual' in sys.modules)"
    assert python(code) == "False"


def test_textual_is_told_before_it_is_imported() -> None:
    code = "import tic_tui.app, textual.constants as c; print(c.MAX_FPS, c.TEXTUAL_ANIMATIONS, c.SMOOTH_SCROLL)"
    assert python(code) == "20 none False"


def test_modules_stay_small() -> None:
    for path in (ROOT / "tic_tui").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path
