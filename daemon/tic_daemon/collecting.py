"""Python's search for cycles, less often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = 100_000  # objects more than there were


@contextmanager
def seldom() -> Iterator[None]:
    """For work that makes thousands of objects which hold no cycles: to look for some at every 700th takes a thirtieth
    of the time of a comparison."""
    former = gc.get_threshold()
    gc.set_threshold(_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*former)
