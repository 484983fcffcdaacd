"""What must be said to Textual before it is imported, and what is asked of the terminal.

Textual reads its constants when it is imported: no animation, no smooth scrolling (both cost bytes over ssh), few
frames. Nothing here overrides what the user set.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping

_CONSTANTS = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0", "TEXTUAL_FPS": "20", "ESCDELAY": "50"}


def prepare() -> None:
    """Sets Textual's constants; call before `import textual`."""
    for name, value in _CONSTANTS.items():
        os.environ.setdefault(name, value)


def no_color(environ: Mapping[str, str] = os.environ) -> bool:
    """NO_COLOR is set and not empty (no-color.org)."""
    return bool(environ.get("NO_COLOR"))


def can_paint(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a terminal that can show a screen at all."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


def is_gone(fd: int = 0) -> bool:
    """Whether the terminal behind `fd` has hung up. Not every hang-up comes with a SIGHUP: a program that is no session
    leader gets none, and would read end-of-file in a circle for ever."""
    poll = select.poll()
    poll.register(fd, 0)  # hang-ups are reported whatever is asked for
    return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
