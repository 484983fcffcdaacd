"""Quantiles of numbers that come once: those that an answer may be among are kept, the others are counted.

Numbers that are not negative are ordered as the integers of their bits. The leading 18 bits of each are counted, so
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
from tic_daemon.compare.elements import PIECE, Float64

_FIRST: Final = 46  # of a number's bits, what lies above this is counted
_POWERS: Final = 1 << 11  # of two, and infinity
_PARTS: Final = 1 << 6  # of one power of two
_WIDE: Final = 0.02  # of all numbers: so far from the ranks so far an answer may be
_SAMPLE: Final = 1 << 17  # so many numbers show where the answers will be; four times as many show it better


class Kept:
    """Numbers that are not negative and not NaN.

    Args:
        keep: how many may be held.
        shares: the answers that will be asked for, in hundredths.

    Attributes:
        count: how many came. held: how many of them are kept.
        leading: how many there are of each power of two (of its exponent's bits), and of each 64th part of it.
    """

    def __init__(self, keep: int, shares: tuple[int, ...]) -> None:
        self.count = 0
        self.leading = np.zeros((_POWERS, _PARTS), np.int64)
        self._keep, self._shares, self._wide = keep, shares, _WIDE
        self._wanted: NDArray[np.bool_] | None = None  # by leading bits; None: all
        self._values, self._places = np.empty(0), np.empty(0, np.int64)  # of which the first `held` count
        self.held = 0
        self._next = _SAMPLE

    def add(self, values: Float64, before: int, scratch: Scratch) -> None:
        """More of them, after `before` numbers that are 0 and are not given."""
        leading = np.right_shift(values.view(np.int64), _FIRST, out=scratch.of("work", len(values)).view(np.int64))
        np.add.at(self.leading.reshape(-1), leading, 1)
        if self._keep:
            found = None if self._wanted is None else np.flatnonzero(np.take(self._wanted, leading))
            own = self._more(len(values) if found is None else len(found))
            if found is None:
                self._values[own], self._places[own] = values, np.arange(self.count, self.count + len(values))
            else:
                np.take(values, found, out=self._values[own], mode="clip")  # it checks no place, and takes no memory
                np.add(found, self.count, out=self._places[own])
        self.count += len(values)
        while self.held > self._keep or self.count >= self._next:
            self._next = max(self._next, self.count) * 4
            self._narrow(before)

    def _narrow(self, before: int) -> None:
        """Keeps less: what lies around the ranks so far, or nothing if that is still too much."""
        wanted = np.zeros(_POWERS * _PARTS, np.bool_)
        room = max(1, int(self._wide * (before + self.count)))
        around = []
        for share in self._shares:
            rank = ceil((before + self.count) * share / 100) - 1 - before
            around += [max(rank - room, 0), min(max(rank + room, 0), self.count - 1)]
        bins = [own for own, _below in self._bins(around)]
        for first, last in zip(bins[::2], bins[1::2], strict=True):
            own = slice(first, last + 1)
            wanted[own] = True if self._wanted is None else self._wanted[own]
        self._wanted = wanted
        end, self.held = self.held, 0
        for at in range(0, end, PIECE):
            own = slice(at, min(at + PIECE, end))
            flags = np.take(self._wanted, self._values[own].view(np.int64) >> _FIRST)
            values, places = self._values[own][flags], self._places[own][flags]
            own = self._more(len(values))
            self._values[own], self._places[own] = values, places
        if self.held > self._keep // 2 and self._wide < _WIDE / 64:
            self.held = self._keep = 0
        self._wide /= 2

    def _more(self, number: int) -> slice:
        """Room for more, behind what is held: for the sample, and for all that may be held once that is not enough."""
        begin, self.held = self.held, self.held + number
        if self.held > len(self._values):
            room = max(self.held, self._keep if begin else min(_SAMPLE, self._keep))
            for name in ("_values", "_places"):
                former = getattr(self, name)
                larger = np.empty(room, former.dtype)
                larger[:begin] = former[:begin]
                setattr(self, name, larger)
        return slice(begin, self.held)

    def at(self, ranks: list[int]) -> list[tuple[float, int]] | None:
        """The numbers of the given ranks (0 is the smallest) and where each stands first; None if they are not kept."""
        if not self._keep:
            return None
        bins = self._bins(ranks)
        if self._wanted is not None and not all(self._wanted[own] for own, _below in bins):
            return None
        found = []
        for rank, (one, below) in zip(ranks, bins, strict=True):
            # The numbers of a place lie in the order in which they came.
            picked = np.concatenate([
                at + np.flatnonzero(self._values[at : min(at + PIECE, self.held)].view(np.int64) >> _FIRST == one)
                for at in range(0, self.held, PIECE)
            ])  # fmt: skip
            own = self._values[picked]
            value = np.partition(own, rank - below)[rank - below]
            found.append((float(value), int(self._places[picked[(own == value).argmax()]])))
        return found

    def _bins(self, ranks: list[int]) -> list[tuple[int, int]]:
        """The leading bits of the number of each rank, and how many numbers have smaller ones."""
        powers = np.cumsum(self.leading.sum(axis=1))
        found = []
        for rank in ranks:
            power = int(np.searchsorted(powers, rank, side="right"))
            below = int(powers[power - 1]) if power else 0
            parts = np.cumsum(self.leading[power])
            part = int(np.searchsorted(parts, rank - below, side="right"))
            found.append((power * _PARTS + part, below + (int(parts[part - 1]) if part else 0)))
        return found
