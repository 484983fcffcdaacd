"""How many heaps this process has.

glibc gives each thread that asks for memory while others do a heap of its own, up to eight for each core (mallopt(3),
M_ARENA_MAX), and gives back next to nothing of what lies free in one. A daemon's questions are threads that come and
go: with twenty clients it held 70 MB in heaps of threads that had ended.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

HEAPS: Final = 2
"""One for the thread that follows the logs, one for the questions."""
_M_ARENA_MAX: Final = -8


def limit(heaps: int = HEAPS) -> bool:
    """Bounds the heaps of this process. False: the person chose, or the C library knows no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, heaps) == 1)
    except (AttributeError, OSError):  # musl
        return False
