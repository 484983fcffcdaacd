"""A program in a real pseudo-terminal, its screen kept by a terminal emulator, and all bytes that it sent."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

import pyte

from tests.e2e.harness import PATIENCE, environment
from tests.e2e.nodes import Node


class Terminal:
    """`tic-tui` at `columns` x `lines`, here or on a node of a cluster. A context manager; kills the child at the end."""

    def __init__(
        self, *argv: str | Path, columns: int = 120, lines: int = 40, node: Node | None = None, **extra: str
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self._main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        env = {**environment(), "TERM": "xterm-256color", "COLORTERM": "truecolor", **extra}
        command = [sys.executable, "-m", "tic_tui", *map(str, argv)]
        self.process = subprocess.Popen(
            command if node is None else node.argv(*command), stdin=child, stdout=child, stderr=child, env=env,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
        os.close(child)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        os.close(self._main)

    def pump(self, seconds: float) -> None:
        """Take in what the program sends for `seconds`."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._main], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self._main, 65536)
            except OSError:  # the child is gone
                return
            if not data:
                return
            self.sent += data
            self._stream.feed(data)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, *words: str, limit_s: float = 20.0, gone: bool = False) -> str:
        """Until all `words` stand on the screen (or none does, with `gone`); returns the screen's text."""
        deadline = time.monotonic() + PATIENCE * limit_s
        while True:
            self.pump(0.05)
            shown = self.text()
            if all((word in shown) != gone for word in words):
                return shown
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"{words} {'still' if gone else 'not'} on the screen:\n{shown}")

    def press(self, keys: str) -> None:
        """Send keys as typed."""
        os.write(self._main, keys.encode())
        self.pump(0.1)

    def wait_exit(self, limit_s: float = 10.0) -> int:
        deadline = time.monotonic() + PATIENCE * limit_s
        while self.process.poll() is None:
            self.pump(0.05)
            assert time.monotonic() < deadline, "the program does not end"
        self.pump(0.2)
        return int(self.process.returncode)
