"""What must not hold up the logs takes the processor after what follows them, and after the job that is watched.

    behind(nice)                            this thread alone
    session_behind(nice, among_sessions)    this process, which leads a session of its own

Where the system knows no such thing, nothing changes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

_AUTOGROUP: Final = Path("/proc/self/autogroup")
_TRIES: Final = 5
_TRY_S: Final = 0.12
"""The kernel takes one such change of a process without rights in a tenth of a second, of all that there are."""


def behind(nice: int) -> None:
    """This thread gets a nice value of at least `nice`. Linux gives threads values of their own, POSIX does not: a
    thread's number may be that of another process there."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))


def session_behind(nice: int, among_sessions: int) -> None:
    """This process gets a nice value of `nice` more, and its session one of `among_sessions`.

    Where Linux groups processes by session (sched_autogroup_enabled), nice values count within a session alone, and
    sessions share the processor by values of their own: sched(7).
    """
    with contextlib.suppress(OSError):
        os.nice(nice)
    if os.getsid(0) != os.getpid():
        return  # the session is another's, too
    for _ in range(_TRIES):
        try:
            _AUTOGROUP.write_text(str(among_sessions), encoding="ascii")
        except BlockingIOError:
            time.sleep(_TRY_S)
        except OSError:
            return
        else:
            return
