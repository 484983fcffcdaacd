"""Quantiles of numbers that come once: those that an answer may be among are kept, the others are counted.

Numbers that are not negative are ordered as the integers of their bits. The leading 16 bits of each are counted, so
that it is known in the end which of them the number of a rank has. While numbers come, those are kept whose leading
bits the answers may still have: all at first, and once they are many those around the ranks so far. What was expected
wrongly is not answered: then the numbers are looked at again (`exact.select`).
"""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.blocks import Scratch
from tic_daemon.compare.elements import Float64

_FIRST: Final = 48  # of a number's bits, what lies above this is counted
_BINS: Final = 1 << 15
_WIDE: Final = 0.02  # of all numbers: so far from the ranks so far an answer may be
_SAMPLE: Final = 1 << 17  # so many numbers show where the answers will be; four times as many show it better


class Kept:
    """Numbers that are not negative and not NaN.

    Args:
        keep: how many may be held.
        shares: the answers that will be asked for, in hundredths.

    Attributes:
        count: how many came.
        leading: how many there are of each leading 16 bits.
    """

    def __init__(self, keep: int, shares: tuple[int, ...]) -> None:
        self.count = 0
        self.leading = np.zeros(_BINS, np.int64)
        self._keep, self._shares, self._wide = keep, shares, _WIDE
        self._wanted: NDArray[np.bool_] | None = None  # by leading bits; None: all
        self._values: list[Float64] = []
        self._places: list[NDArray[np.int64]] = []
        self._held = 0
        self._next = _SAMPLE

    def add(self, values: Float64, before: int, scratch: Scratch) -> NDArray[np.int64]:
        """More of them, after `before` numbers that are 0 and are not given. Returns how many there are of each leading
        16 bits."""
        leading = np.right_shift(values.view(np.int64), _FIRST, out=scratch.of("leading", len(values), np.int64))
        counts = np.bincount(leading)
        self.leading[: len(counts)] += counts
        if self._keep:
            if self._wanted is None:
                own, places = values.copy(), np.arange(self.count, self.count + len(values))
            else:
                found = np.flatnonzero(np.take(self._wanted, leading))
                own, places = values[found], found + self.count
            self._values.append(own)
            self._places.append(places)
            self._held += len(own)
        self.count += len(values)
        while self._held > self._keep or self.count > self._next:
            self._next = max(self._next, self.count) * 4
            self._narrow(before)
        return counts

    def _narrow(self, before: int) -> None:
        """Keeps less: what lies around the ranks so far, or nothing if that is still too much."""
        reached = np.cumsum(self.leading)
        wanted = np.zeros(_BINS, np.bool_)
        room = max(1, int(self._wide * (before + self.count)))
        for share in self._shares:
            rank = ceil((before + self.count) * share / 100) - 1 - before
            low, high = max(rank - room, 0), min(max(rank + room, 0), self.count - 1)
            first, last = np.searchsorted(reached, [low, high], side="right")
            wanted[first : last + 1] = True
        self._wanted = wanted if self._wanted is None else self._wanted & wanted
        chosen = [np.take(self._wanted, own.view(np.int64) >> _FIRST) for own in self._values]
        self._values = [own[flags] for own, flags in zip(self._values, chosen, strict=True)]
        self._places = [own[flags] for own, flags in zip(self._places, chosen, strict=True)]
        left = sum(map(len, self._values))
        if left > self._keep // 2 and self._wide < _WIDE / 64:
            self._values, self._places, left, self._keep = [], [], 0, 0
        self._held, self._wide = left, self._wide / 2

    def at(self, ranks: list[int]) -> list[tuple[float, int]] | None:
        """The numbers of the given ranks (0 is the smallest) and where each stands first; None if they are not kept."""
        if not self._keep:
            return None
        reached = np.cumsum(self.leading)
        bins = [int(np.searchsorted(reached, rank, side="right")) for rank in ranks]
        if self._wanted is not None and not all(self._wanted[one] for one in bins):
            return None
        found = []
        for rank, one in zip(ranks, bins, strict=True):
            # The numbers of a place lie in the order in which they came.
            chosen = [np.flatnonzero(own.view(np.int64) >> _FIRST == one) for own in self._values]
            values = np.concatenate([own[picked] for own, picked in zip(self._values, chosen, strict=True)])
            within = rank - (int(reached[one - 1]) if one else 0)
            value = np.partition(values, within)[within]
            nth = int((values == value).argmax())
            for picked, places in zip(chosen, self._places, strict=True):
                if nth < len(picked):
                    found.append((float(value), int(places[picked[nth]])))
                    break
                nth -= len(picked)
        return found
