"""Between the feed and the app: of each kind of message only the newest waits.

The toolkit coalesces messages as it takes them; while its loop stands still, behind a terminal that nobody reads, they
would pile up instead, each with hundreds of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message


class Mailbox:
    """`wake` is called, from any thread, when the box was empty: then someone has to `take`."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[type[Message], Message] = {}

    def post(self, message: Message) -> None:
        """Leaves a message; it replaces one of its kind. Never waits."""
        with self._lock:
            empty = not self._waiting
            self._waiting.pop(type(message), None)
            self._waiting[type(message)] = message
        if empty:
            self._wake()

    def take(self) -> list[Message]:
        """All that wait, in the order in which the newest of each kind came."""
        with self._lock:
            found, self._waiting = list(self._waiting.values()), {}
        return found
