"""A process of this program that is asked and answers in lines: started, heard with a deadline, ended.

It has a session of its own, and ends with whoever started it, whatever ends that: its standard input does. What it
writes on standard error goes into a file, of which the end is told if it dies.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

_PIECE: Final = 1 << 16
_POLL_MS: Final = 100


class Died(Exception):
    """It ended. `code`: its exit code, negative for a signal. `words`: the last line that it wrote, or ""."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(code, words)
        self.code, self.words = code, words


class Late(Exception):
    """The time was up."""


class Stopped(Exception):
    """Whoever asks is to end."""


class TooLong(Exception):
    """A line is longer than is held."""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class LineChild:
    """One process. After an error it is ended.

    Args:
        module: that it runs, with `arguments`.
        errors: file for its standard error; closed with it.
        most: bytes of a line.
        stopped: asked often; true ends what it does.
        end: how it is ended.
    """

    def __init__(
        self, module: str, *arguments: str, environ: Mapping[str, str], errors: IO[bytes], most: int,
        stopped: Callable[[], bool], cwd: Path | None = None, end: Callable[[int], None] = _kill,
    ) -> None:  # fmt: skip
        self._errors, self._most, self._stopped, self._end = errors, most, stopped, end
        # Where this program lies is where the child finds it, whatever its working directory.
        paths = [str(Path(__file__).parents[1]), *map(os.path.abspath, filter(None, sys.path))]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, cwd=cwd, env={**environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101  a pipe was asked for
        assert self._process.stdout is not None  # noqa: S101
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
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
            self._end(self._process.pid)
        self._process.wait()
        for pipe in (self._in, self._out, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()

    def say(self, line: bytes) -> None:
        """One line to it. Raises Died."""
        text = memoryview(line)
        try:
            while text:
                text = text[self._in.write(text) :]
        except (OSError, ValueError) as error:
            raise self.died() from error

    def line(self, until: float) -> bytes:
        """The next line that it says, without its end.

        Args:
            until: `time.monotonic()` at which the time is up.

        Raises:
            Died, Late, Stopped, TooLong: it is ended.
        """
        poll = select.poll()
        poll.register(self._out, select.POLLIN | select.POLLHUP)
        while (end := self._waiting.find(b"\n", self._from)) < 0:
            self._from = len(self._waiting)
            left = until - time.monotonic()
            if self._stopped() or left <= 0:
                self.close()
                raise Late if left <= 0 else Stopped
            if not poll.poll(min(_POLL_MS, left * 1000)):
                continue
            piece = os.read(self._out.fileno(), _PIECE)
            if not piece:
                raise self.died()
            self._waiting += piece
            if len(self._waiting) > self._most:
                self.close()
                raise TooLong
        text = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        self._from = 0
        return text

    def died(self) -> Died:
        """What became of it; it is ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # its own end tells more than ours
        words = self.last_words()
        self.close()
        return Died(self._process.returncode, words)

    def last_words(self) -> str:
        """The last line of its standard error; "": none."""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - 2000))
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return ""
