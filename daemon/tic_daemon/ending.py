"""How a daemon comes to its end: who asks for it, how long it may take, and what happens if it takes longer.

    running ──signal────────────> ending: sweep, commit, checkpoint, publish; each gets what is left of 18 s
            ──own reason────────> ending: the same, in ten minutes; a signal shortens them
    ending  ──another signal────> hurried: what was read is committed, everything else is left out
            ──the time is over──> left by force, wherever the work stands

Schedulers kill after 20 or 30 s, and a file system that hangs can hold the thread that works for ever. So signals are
heard, and the clock is watched, by a thread of its own: Python runs signal handlers in the main thread, and only
between two steps of it. Leaving by force loses nothing that was committed: the store is as after a
`kill -9`, which is safe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

log = logging.getLogger("tic-daemon")

BUDGET_S = 18.0
"""From the first signal to the end of the process, whatever happens. Slurm and Kubernetes kill after 30 s."""
OWN_BUDGET_S = 600.0
"""The same for an end that nobody but the daemon asked for: nobody is about to kill it."""
HURRY_S = 3.0
"""After a second signal, once all is committed: time to close the store and to let go of its ownership."""
STORM_S = 1.0
"""Signals within this time are one: a cancelled job's process gets it from Slurm, its shell and its launcher."""
CUT_SHORT = 130
"""Exit code of an end that came before all that had been read was committed."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """The end of one daemon. Methods may be called from any thread; signal handlers go through `signals`.

    Attributes:
        why: what asked for the end; "" while nothing has.
        deadline: monotonic; infinite while nothing has asked.
        hurried: a second signal came: nothing but a commit is worth waiting for.
        stage: what is being done, for the line that says what was left out.
        kept: all that was read is committed: the process may be left at any moment.
        exit_code: of the process, if it is left now.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._requested = threading.Event()
        self._signalled_at: float | None = None
        self.changed: Callable[[], None] = lambda: None
        self.why = ""
        self.deadline = float("inf")
        self.hurried = False
        self.stage = "starting"
        self.kept = False
        self.exit_code = CUT_SHORT

    def request(self, why: str, *, budget_s: float = OWN_BUDGET_S) -> None:
        """Asks for the end. What was asked for first stays the reason; the earlier deadline holds."""
        self.why = self.why or why
        self.deadline = min(self.deadline, self._clock() + budget_s)
        self._requested.set()
        self.changed()

    def signalled(self, number: int, *, budget_s: float | None = None) -> None:
        """A signal came: the first asks for the end, one that comes later than a storm of them hurries it."""
        now = self._clock()
        if self._signalled_at is None:
            self._signalled_at = now
            self.request(signal.Signals(number).name, budget_s=BUDGET_S if budget_s is None else budget_s)
        elif now - self._signalled_at >= STORM_S and not self.hurried:
            self.hurried = True
            self._hurry()

    @property
    def requested(self) -> bool:
        """Whether the daemon is to end."""
        return self._requested.is_set()

    def wait(self, timeout: float) -> bool:
        """Until the end is asked for, at most `timeout` seconds; whether it is."""
        return self._requested.wait(timeout)

    def left(self) -> float:
        """Seconds until the deadline; none if hurried."""
        return 0.0 if self.hurried else max(0.0, self.deadline - self._clock())

    def keep(self, exit_code: int = 0) -> None:
        """Says that all that was read is committed, and what the process exits with from now on."""
        self.kept, self.exit_code = True, exit_code
        self._hurry()

    def _hurry(self) -> None:
        if self.hurried and self.kept:
            self.deadline = min(self.deadline, self._clock() + HURRY_S)
        self.changed()


@contextlib.contextmanager
def signals() -> Iterator[Ending]:
    """SIGTERM, SIGINT and SIGHUP ask the ending that is given, and its deadline is kept, by force if need be.

    From before the store is opened: DuckDB ends its statement with an error when a handler raises, and what opens a
    store can hang as well.
    """
    ending = Ending()
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def poke() -> None:
        with contextlib.suppress(OSError):  # full: it will be read; closed: nobody waits any more
            os.write(writing, b"\0")

    ending.changed = poke
    over = threading.Event()
    guard = threading.Thread(target=_guard, args=(ending, reading, over), name="tic-ending", daemon=True)
    guard.start()
    # The interpreter's own handler writes the number, in whatever thread and whatever the main one is stuck in.
    before_fd = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        over.set()
        poke()
        guard.join()
        os.close(reading)
        os.close(writing)


def _guard(ending: Ending, reading: int, over: threading.Event) -> None:
    while not over.is_set():
        left = ending.deadline - time.monotonic()
        if left <= 0:
            _leave(ending)
        select.select([reading], [], [], None if left == float("inf") else left)
        with contextlib.suppress(BlockingIOError):
            for number in os.read(reading, 4096):
                if number in _SIGNALS:
                    ending.signalled(number)


def _leave(ending: Ending) -> None:
    """Leaves the process as it is. What says so may itself hang: on the pipe of a reader that went to sleep."""
    lost = "nothing that was read is lost" if ending.kept else "what was read since the last commit is read again"
    words = f"{ending.why}: left while {ending.stage}; {lost}"
    teller = threading.Thread(target=log.error, args=(words,), daemon=True)
    teller.start()
    teller.join(0.5)
    os._exit(ending.exit_code)


def leave_stuck_threads(exit_code: int, patience_s: float = 1.0) -> None:
    """Leaves the process if threads of ours still run: the interpreter's own end is not made for them.

    It would wait for one that waits for a file system, for ever. A daemon thread it would tear down where it stands:
    inside of DuckDB or Arrow that aborts the process. Called last by every command of both packages, with everything
    written and closed. Returns if there are none.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    deadline = time.monotonic() + patience_s
    for thread in others:
        if not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(exit_code)
