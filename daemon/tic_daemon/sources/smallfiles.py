"""Small files that are read whole, in a thread since a mount may hang, and again when they have changed."""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

log = logging.getLogger("tic-daemon")

EVERY_S: Final = 20.0


def never() -> bool:
    """False."""
    return False


class SmallFiles(ABC):
    """Looks at the files that discovery names. One thread at a time does it, and nobody waits for it.

    Args:
        thread: name of the thread.
    """

    def __init__(self, thread: str) -> None:
        self._name = thread
        self._stats: dict[str, tuple[int, int, int]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next = 0.0

    @abstractmethod
    def _changed(self, path: str, root: str, fd: int, info: os.stat_result) -> None:
        """Reads a file that is new or has changed; in the thread. An OSError: it is tried again with the next look."""

    def _looked(self, files: Sequence[tuple[str, str]]) -> None:  # noqa: B027  not every kind has something to do
        """Called at the end of each look, in the thread."""

    def look(self, files: Sequence[tuple[str, str]], now: float) -> None:
        """Begins to read what changed of (path, root), unless it was done shortly before. `now` is monotonic."""
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + EVERY_S
        self._thread = threading.Thread(target=self._look_at, args=(tuple(files),), name=self._name, daemon=True)
        self._thread.start()

    def finish(self, files: Sequence[tuple[str, str]], wait_s: float, no_more: Callable[[], bool] = never) -> None:
        """A last look, for which so many seconds are waited, or until `no_more` says to stop. One that is under way may
        have begun before what is asked for was written."""
        until = time.monotonic() + wait_s
        self._join(until, no_more)
        self._next = 0.0
        self.look(files, 0.0)
        self._join(until, no_more)

    def _join(self, until: float, no_more: Callable[[], bool]) -> None:
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < until and not no_more():
            self._thread.join(max(0.0, min(0.2, until - time.monotonic())))

    def _look_at(self, files: tuple[tuple[str, str], ...]) -> None:
        for path, root in files:
            try:
                self._one(path, root)
            except OSError as error:
                log.debug("%s: %s", path, error)
        self._looked(files)

    def _one(self, path: str, root: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(fd)
            stat = (info.st_ino, info.st_size, info.st_mtime_ns)
            if self._stats.get(path) != stat:
                self._changed(path, root, fd, info)
                self._stats[path] = stat
        finally:
            os.close(fd)
