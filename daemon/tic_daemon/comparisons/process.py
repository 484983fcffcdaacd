"""The comparing process from the daemon's side: started, asked, heard with a deadline, ended.

    worker = Worker(memory_mb, stopped)
    for message in worker.ask({"compare": ...}, deadline_s): ...     the last one is an answer
    worker.close()

It ends with the daemon, whatever ends that: its standard input does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tic_daemon.comparisons import wire
from tic_daemon.errors import TicError

MODULE: Final = "tic_daemon.comparisons.worker"
ANSWERS: Final = ("done", "failed", "changed", "held")
_PIECE: Final = 1 << 16
_POLL_MS: Final = 100
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
        self._stopped = stopped
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        paths = [str(Path(__file__).parents[2]), *map(os.path.abspath, filter(None, sys.path))]
        environ = {
            **os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(memory_mb)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, env=environ, start_new_session=True, bufsize=0,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101  a pipe was asked for
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._waiting = bytearray()
        self._from = 0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends it now, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def say(self, message: wire.Message) -> None:
        """One line to it. Raises WorkerDied."""
        assert self._process.stdin is not None  # noqa: S101  see above
        text = memoryview(wire.line(message))
        try:
            while text:
                text = text[self._process.stdin.write(text) :]
        except (OSError, ValueError) as error:
            raise self._died() from error

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
        poll = select.poll()
        poll.register(self._out, select.POLLIN | select.POLLHUP)
        while (end := self._waiting.find(b"\n", self._from)) < 0:
            self._from = len(self._waiting)
            if self._stopped():
                self.close()
                raise Stopped("the daemon ends")
            left = until - time.monotonic()
            if left <= 0:
                self.close()
                raise TooSlow(f"it took longer than {deadline_s:g} s", "`deadline_s` under [compare] in tic.toml")
            if not poll.poll(min(_POLL_MS, left * 1000)):
                continue
            piece = os.read(self._out, _PIECE)
            if not piece or len(self._waiting) > _LINE:
                raise self._died()
            self._waiting += piece
        text = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        self._from = 0
        try:
            return wire.read(text)
        except ValueError as error:
            raise self._died() from error

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # its own end tells more than ours
        words = self._last_words()
        self.close()
        code = self._process.returncode
        name = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return WorkerDied(f"the comparing process ended with {name}{words}")

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - 2000))
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                return f": {lines[-1][:300]}"
        return ""
