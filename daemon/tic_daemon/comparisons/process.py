"""The comparing process from the daemon's side: started, asked, heard with a deadline, ended.

    worker = Worker(memory_mb, stopped)
    for message in worker.ask({"compare": ...}, deadline_s): ...     the last one is an answer
    worker.close()

It ends with the daemon, whatever ends that: its standard input does.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

from tic_daemon import linechild
from tic_daemon.comparisons import wire
from tic_daemon.errors import TicError
from tic_daemon.linechild import LineChild

MODULE: Final = "tic_daemon.comparisons.worker"
ANSWERS: Final = ("done", "failed", "changed", "held")
_LINE: Final = 64 << 20
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerDied(TicError):
    """The process ended before it answered."""


class TooSlow(TicError):
    """The time was up; the process is ended."""


class Stopped(TicError):
    """The daemon ends; the process is ended."""


class Worker:
    """One process; asked one thing after the other. After a failure it is gone.

    Args:
        memory_mb: what it may have.
        stopped: asked often; true ends what it does.
    """

    def __init__(self, memory_mb: int, stopped: Callable[[], bool]) -> None:
        environ = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "CUDA_VISIBLE_DEVICES": ""}
        errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by the child's `close`
        self._child = LineChild(
            MODULE, str(memory_mb), environ=environ, errors=errors, most=_LINE, stopped=stopped
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.alive

    def close(self) -> None:
        """Ends it now, whatever it does."""
        self._child.close()

    def say(self, message: wire.Message) -> None:
        """One line to it. Raises WorkerDied."""
        try:
            self._child.say(wire.line(message))
        except linechild.Died as error:
            raise _died(error) from error

    def ask(self, message: wire.Message, deadline_s: float) -> Iterator[wire.Message]:
        """All that it says to a question; the last one is an answer.

        Raises:
            WorkerDied, TooSlow, Stopped: it is gone.
        """
        until = time.monotonic() + deadline_s
        self.say(message)
        while True:
            found = self._next(until, deadline_s)
            yield found
            if any(key in found for key in ANSWERS):
                return

    def _next(self, until: float, deadline_s: float) -> wire.Message:
        try:
            return wire.read(self._child.line(until))
        except linechild.Stopped as error:
            raise Stopped("the daemon ends") from error
        except linechild.Late as error:
            raise TooSlow(
                f"it took longer than {deadline_s:g} s", "`deadline_s` under [compare] in tic.toml"
            ) from error
        except linechild.Died as error:
            raise _died(error) from error
        except linechild.TooLong as error:
            raise WorkerDied("the comparing process said a line that is longer than can be held") from error
        except ValueError as error:
            raise _died(self._child.died()) from error


def _died(how: linechild.Died) -> WorkerDied:
    name = f"signal {signal.Signals(-how.code).name}" if how.code < 0 else f"exit code {how.code}"
    return WorkerDied(f"the comparing process ended with {name}{how.words and f': {how.words[:300]}'}")
