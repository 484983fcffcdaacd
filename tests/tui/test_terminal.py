"""The terminal itself: what it can do, and that it can go away."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path

from tests.e2e.terminal import Terminal
from tic_tui import terminal


def test_a_closed_terminal_is_gone() -> None:
    main, child = pty.openpty()
    assert not terminal.is_gone(child)
    os.close(main)
    assert terminal.is_gone(child)
    os.close(child)
    assert terminal.is_gone(child), "a closed descriptor too"


def test_a_dropped_connection_ends_the_screen(tmp_path: Path) -> None:
    """Without SIGHUP, as when the program leads no session: it must not go on reading end-of-file."""
    with Terminal(tmp_path) as screen:
        screen.wait_for("no store")
        os.close(screen._main)
        screen._main = os.open(os.devnull, os.O_RDONLY)
        deadline = time.monotonic() + 60
        while screen.process.poll() is None:
            assert time.monotonic() < deadline, "still running without a terminal"
            time.sleep(0.1)
