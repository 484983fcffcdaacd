"""What appears, moves and vanishes: watchdog on the watched roots and on every directory that links lead to.

watchdog is asked for names only (created, moved, deleted). Its modify events cost ten times the doorbell's and are
lost in a storm, so growth is not its business. Here too an event only says that a walk is due: what was missed, the
periodic walk finds.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

# Directories that are made one within the other, as W&B's client makes them, are met twice by watchdog. It then warns
# with a text that names every directory it watches, tens of kilobytes each time; nothing is lost. Its debug lines are
# one an event.
warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
logging.getLogger("watchdog").setLevel(logging.WARNING)

_NAMES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]


class Names(FileSystemEventHandler):
    """Calls `rang(paths, is_directory)` from watchdog's thread when names under the watched directories changed.

    Attributes:
        broken: why (some) names cannot be heard; "" if all is well.
    """

    def __init__(self, rang: Callable[[list[str], bool], None]) -> None:
        self.broken = ""
        self._rang = rang
        self._observer: BaseObserver | None = None
        self._watched: dict[str, tuple[ObservedWatch, bool]] = {}
        self._started = False
        self._failed = False

    def watch(self, roots: Iterable[str], directories: Iterable[str]) -> None:
        """Watches `roots` with all below them, and those of `directories` that lie below none of them."""
        observer = self._open()
        if observer is None or self._failed:
            return
        wanted = {root: True for root in roots if os.path.isdir(root)}  # noqa: PTH112
        above = tuple(f"{root.rstrip('/')}/" for root in wanted)
        wanted.update({path: False for path in directories if path not in wanted and not path.startswith(above)})
        for path, (watch, recursive) in list(self._watched.items()):
            if wanted.get(path) is not recursive:
                observer.unschedule(watch)
                del self._watched[path]
        self.broken = ""
        for path, recursive in wanted.items():
            if path not in self._watched:
                self._schedule(observer, path, recursive)
        if self._watched and not self._started:
            try:
                observer.start()
                self._started = True
            except (OSError, RuntimeError) as error:
                # Mostly the limit of watches. It would be hit again at every walk, and walks find all names anyway.
                self._failed = True
                self._fail(", ".join(self._watched), error)

    def _open(self) -> BaseObserver | None:
        """The observer. It takes an inotify instance when it is made, and there may be none left."""
        if self._observer is None:
            try:
                self._observer = Observer()
            except OSError as error:
                self._fail("/", error)
            else:
                self._observer.daemon = True
        return self._observer

    def _schedule(self, observer: BaseObserver, path: str, recursive: bool) -> None:
        try:
            watch = observer.schedule(self, path, recursive=recursive, event_filter=_NAMES)
        except (OSError, UnicodeError, KeyError) as error:
            self._fail(path, error)
        else:
            self._watched[path] = (watch, recursive)

    def _fail(self, path: str, error: Exception) -> None:
        self.broken = f"names under {path} cannot be heard: {error}"

    def on_any_event(self, event: FileSystemEvent) -> None:
        """watchdog's call."""
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if not any("/.tic/" in f"{path}/" for path in paths):
            self._rang(paths, event.is_directory)

    def close(self) -> None:
        """Ends watchdog's threads."""
        if self._observer is not None:
            self._observer.stop()  # also when it never started: it reads inotify from the beginning
            if self._started:
                self._observer.join(timeout=5)
            self._observer, self._started = None, False
