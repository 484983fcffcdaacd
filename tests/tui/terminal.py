"""A real process at a real pty, and a terminal emulator that shows what it painted."""

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
from collections.abc import Callable
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[2]


class Terminal:
    """Runs a command of this Python at a pty of the given size. `raw` keeps all bytes that it wrote."""

    def __init__(self, args: list[str], size: tuple[int, int] = (80, 24), env: dict[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        base = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLORTERM"}}
        base |= {
            "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'daemon'}",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, *args], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=base | (env or {}),
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.raw = b""
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)

    def pump(self, seconds: float) -> int:
        """Reads for a while; returns how many bytes came."""
        end, before = time.monotonic() + seconds, len(self.raw)
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    break
                if not data:
                    break
                self.raw += data
                self._stream.feed(data)
        return len(self.raw) - before

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, condition: Callable[[str], object], seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(0.05)
            if condition(self.text):
                return
        raise AssertionError(f"never came true; the terminal shows\n{self.text}")

    def shows(self, *words: str) -> None:
        self.until(lambda text: all(w in text for w in words))

    def send(self, keys: str) -> None:
        os.write(self.master, keys.encode())
        self.pump(0.3 if keys.endswith("\x1b") else 0.05)  # Escape and a key at once would be another key

    def end(self, number: int | None = None) -> int:
        """Sends a signal if one is given, and waits; the exit status."""
        if number is not None:
            self.process.send_signal(number)
        try:
            deadline = time.monotonic() + 60
            while self.process.poll() is None and time.monotonic() < deadline:
                self.pump(0.05)
            self.pump(0.1)
            return self.process.wait(10)
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
            os.close(self.master)
