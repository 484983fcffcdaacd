"""How many files are held open, and which is let go when there are too many."""

from __future__ import annotations

import contextlib
import resource
from collections import OrderedDict

from tic_daemon.sources.reading import AnyReader

_RESERVED = 256
_MOST = 1 << 20


class HeldDescriptors:
    """Readers with an open descriptor, the one that was used least recently first.

    Args:
        limit: most that are held; 0: what the system allows, less what the rest of the process needs.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit or raise_limit()
        self._held: OrderedDict[AnyReader, None] = OrderedDict()

    def used(self, reader: AnyReader) -> None:
        """The reader has just been used; another one may lose its descriptor for it."""
        if not reader.hold or reader.fd < 0:
            return
        self._held[reader] = None
        self._held.move_to_end(reader)
        for _ in range(len(self._held) - self._limit):
            oldest, _none = self._held.popitem(last=False)
            if oldest.unlinked():
                self._held[oldest] = None  # without its descriptor the file could not be read any more
            else:
                oldest.close()


def raise_limit() -> int:
    """Raises the soft limit of open files to the hard one; how many the follower may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    limit = _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)
    return max(64, limit - _RESERVED)
