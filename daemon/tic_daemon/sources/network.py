"""Looks at files on network mounts: in a few threads, because open() waits for the server, perhaps for ever.

A generation has at most one look under way; its reader and its position are not touched meanwhile. What came back is
collected by the follower's own thread, so nothing else needs a lock. A server that hangs holds its threads, nothing
else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tic_daemon.sources.reading import AnyReader, Look
from tic_daemon.sources.source import Source
from tic_daemon.sources.tailfile import Generation

_LOOK_BYTES = 1 << 18


class NetworkLooks:
    """The pool. `done` is called from its threads after each look."""

    def __init__(self, threads: int, done: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, "tic-network")
        self._done = done
        self._results: deque[tuple[Source, Generation, AnyReader, Look]] = deque()
        self._under_way: set[int] = set()

    def busy(self) -> bool:
        """A look is under way or not collected."""
        return bool(self._under_way)

    def submit(self, source: Source, generation: Generation, reader: AnyReader) -> None:
        """Looks once, unless a look at this generation is under way."""
        if id(generation) in self._under_way:
            return
        self._under_way.add(id(generation))
        position, before, limit = generation.position, generation.before, min(_LOOK_BYTES, generation.room)
        self._pool.submit(self._look, source, generation, reader, position, before, limit)

    def _look(
        self, source: Source, generation: Generation, reader: AnyReader, position: int, before: bytes, limit: int
    ) -> None:
        try:
            look = reader.look(position, before, limit)
        except Exception as error:  # noqa: BLE001 - a thread must not die silently: the look is reported as failed
            look = Look("error", error=repr(error))
        self._results.append((source, generation, reader, look))
        self._done()

    def collect(self) -> list[tuple[Source, Generation, Look | None]]:
        """Generations whose look came back; None in place of a look through a reader that was replaced meanwhile."""
        out: list[tuple[Source, Generation, Look | None]] = []
        while self._results:
            source, generation, reader, look = self._results.popleft()
            self._under_way.discard(id(generation))
            out.append((source, generation, look if source.reader(generation) is reader else None))
        return out

    def close(self) -> None:
        """Does not wait for threads that hang."""
        self._pool.shutdown(wait=False, cancel_futures=True)
