"""The end by a signal. The terminal is left clean, also one that nobody reads from any more.

A terminal that is not read (a laptop asleep, a hung ssh) stops the toolkit's event loop in the middle of a write:
it cannot hear that it is to end. So the signals are heard outside of the loop, and if it has not ended a few seconds
later the terminal is put back by hand and the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
PATIENCE_S: Final = 3.0
# Mouse, focus, paste and keyboard reports off, line wrap and cursor on, colours off, alternate screen left.
LEAVE: Final = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[<u\x1b[?7h\x1b[0m"
    b"\x1b[?1049l\x1b[?25h"
)


class Ending:
    """Hears SIGTERM and SIGHUP from `install` to `remove`; both from the main thread.

    Args:
        leave: ends the app with this exit code; called outside of its loop.
        attributes: what the terminal was set to before, as `termios.tcgetattr` gives it; None: not known.
    """

    def __init__(self, leave: Callable[[int], object], attributes: Callable[[], list[Any] | None]) -> None:
        self._leave, self._attributes = leave, attributes
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    def install(self) -> None:
        """Hears them from now on."""
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._heard)

    def remove(self) -> None:
        """As it was before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def done(self) -> None:
        """The terminal has been left; nothing has to be forced."""
        if self._timer is not None:
            self._timer.cancel()

    def _heard(self, number: int, _: FrameType | None) -> None:
        if self._timer is None:
            self._timer = threading.Timer(PATIENCE_S, self._force, (number,))
            self._timer.daemon = True
            self._timer.start()
            self._leave(128 + number)

    def _force(self, number: int) -> None:
        put_back(self._attributes())
        os._exit(128 + number)


def put_back(attributes: list[Any] | None, fd: int = 2) -> None:
    """Leaves the alternate screen and restores the modes without waiting for a terminal that does not read.

    What it has no room for is left to a shell that waits in this process' place, until the terminal reads or is closed.
    """
    with contextlib.suppress(OSError, termios.error):
        kept = os.dup(fd)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, fd)  # a thread that hangs in a write may finish that one, and sends no other
        if attributes is not None:
            termios.tcsetattr(kept, termios.TCSANOW, attributes)
        os.set_blocking(kept, False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            written = os.write(kept, LEAVE)
        os.set_blocking(kept, True)  # the setting is shared with the shell that the user returns to
        if written < len(LEAVE):
            command: list[str | bytes] = ["/bin/sh", "-c", 'printf %s "$1"', "tic-tui", LEAVE[written:]]
            subprocess.Popen(command, stdin=null, stdout=kept, stderr=null)
