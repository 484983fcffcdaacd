"""Sums without rounding and quantiles without estimate, over pieces in any order.

`ExactSum` adds float64 numbers as integers; the total is one Python integer in units of 2**-1074. So the sum of the
pieces is the sum of the whole, whatever their order, and a mean is rounded once, at its end. Numbers are cut into
layers of 37 bits below their largest, the error-free splitting of Rump, Ogita and Oishi (Accurate Floating-Point
Summation, SIAM J. Sci. Comput. 31, 2008): the integers of one layer add up to at most 2**52 units, which float64 holds
exactly. A layer is what is left of a number when so large a one was added to it and taken away again that no more of
its bits fit.

`select` finds values by their rank. Numbers that are not negative are ordered as the integers of their bits, so that
one pass counts the leading 16 bits, and only the numbers that share them with an answer are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import frexp, ldexp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.elements import Float64

Blocks = Callable[[], Iterable[Float64]]

_UNIT: Final = 1074
LEAST: Final = -_UNIT  # all numbers of float64 are whole multiples of this power of two
_PIECE: Final = 1 << 15  # numbers that are added at a time
_LAYER: Final = 37  # bits; 2**15 numbers of as many add up to 2**52 at most
_ROOM: Final = 15  # 1.5 * 2**15 of the largest has its last bit 37 below that
_LAYERS: Final = 3
_HALF: Final = 26
_FIRST: Final = 48  # of a number's bits, what lies above this is looked at first
_CALM: Final = (2.0**-500, 2.0**900)  # largest numbers of which no layer leaves float64's range


class ExactSum:
    """The exact sum of finite float64 numbers. `skipped` counts what was not finite and is in no sum."""

    __slots__ = ("scaled", "skipped")

    def __init__(self) -> None:
        self.scaled = 0
        self.skipped = 0

    def add(
        self, values: Float64, peak: float | None = None, work: Float64 | None = None, unit: int | None = None
    ) -> None:
        """Add all of an array.

        Args:
            peak: none of the values is larger in size, if that is known.
            work: an array that may be written to, as long as a piece.
            unit: all of them are whole multiples of 2**unit, if that is known; at least LEAST.
        """
        if unit is not None and peak is not None and len(values) * peak <= ldexp(1.0, min(53 + unit, 1000)):
            # No sum of any of them has more than 53 bits.
            self.scaled += int(ldexp(float(values.sum()), -unit)) << _UNIT + unit
            return
        for start in range(0, len(values), _PIECE):
            self._piece(np.ascontiguousarray(values[start : start + _PIECE]), peak, work)

    def _piece(self, values: Float64, peak: float | None, work: Float64 | None) -> None:
        if peak is None:
            peak = max(float(values.max()), -float(values.min()))
        if not _CALM[0] < peak < _CALM[1]:  # NaN is not
            if peak != 0:
                self._by_power(values)
            return
        power = frexp(peak)[1]
        layer = np.empty_like(values) if work is None or len(work) < len(values) else work[: len(values)]
        for _layer in range(_LAYERS):
            unit = _LAYER - power  # the layer has whole numbers of 2**-unit, as far as float64 goes
            large = 1.5 * 2.0 ** (_ROOM + power)
            np.subtract(np.add(values, large, out=layer), large, out=layer)
            self.scaled += int(ldexp(float(layer.sum()), unit)) << _UNIT - unit
            rest = np.subtract(values, layer, out=layer)
            # As integers nothing but +0.0 is 0. Of most numbers nothing is left.
            left = rest.view(np.int64)
            if not np.count_nonzero(left):
                return
            values = rest[np.flatnonzero(left)]
            layer = layer[: len(values)]
            power -= _LAYER + 1
        self._by_power(values)

    def _by_power(self, values: Float64) -> None:
        """Numbers of any size: significands are added within their power of two."""
        bits = values.view(np.int64)
        power = (bits >> 52) & 0x7FF
        significand = bits & ((1 << 52) - 1)
        significand |= (power != 0).astype(np.int64) << 52
        outside = power == 0x7FF
        if outside.any():
            self.skipped += int(outside.sum())
            significand = np.where(outside, 0, significand)
        np.negative(significand, where=bits < 0, out=significand)
        # Halves of 27 bits: 2**15 of them add up to less than 2**53.
        high = np.bincount(power, weights=significand >> _HALF, minlength=2048)
        low = np.bincount(power, weights=significand & ((1 << _HALF) - 1), minlength=2048)
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            part = (int(high[place]) << _HALF) + int(low[place])
            self.scaled += part << max(place, 1) - 1

    def merge(self, other: ExactSum) -> None:
        """Add what another one has."""
        self.scaled += other.scaled
        self.skipped += other.skipped

    def over(self, count: int) -> float:
        """The sum divided by `count`, rounded once. Infinity beyond float64."""
        try:
            return self.scaled / (count << _UNIT)
        except OverflowError:
            return float("inf") if self.scaled > 0 else float("-inf")


def ratio(over: ExactSum, under: ExactSum) -> float:
    """One exact sum divided by another that is not 0, rounded once. Infinity beyond float64."""
    try:
        return over.scaled / under.scaled
    except OverflowError:
        return float("inf") if (over.scaled > 0) == (under.scaled > 0) else float("-inf")


@dataclass(slots=True)
class _Target:
    """One rank that is looked for: `within` is its rank among the numbers whose leading bits are `prefix`."""

    prefix: int
    within: int


def select(
    blocks: Blocks, ranks: Iterable[int], keep: int, leading: NDArray[np.int64] | None = None
) -> list[tuple[float, int]]:
    """The numbers of the given ranks (0 is the smallest) among all of `blocks`, none of them negative, and where each
    of them stands first, counted over all blocks.

    Args:
        blocks: gives the same numbers at each call; NaN is not among them.
        ranks: each below the number of numbers.
        keep: how many numbers may be held at a time.
        leading: `leading_counts` of all numbers, if they are known.
    """
    targets = [_Target(0, rank) for rank in ranks]
    for shift in (_FIRST, 32, 16, 0):
        counts = {target.prefix: np.zeros(1 << 16, np.int64) for target in targets}
        if shift == _FIRST and leading is not None:
            counts = {0: leading}
        else:
            _count(blocks, counts, shift)
        held: dict[int, int] = {}
        for target in targets:
            own = counts[target.prefix]
            reached = np.cumsum(own)
            digit = int(np.searchsorted(reached, target.within, side="right"))
            target.within -= int(reached[digit - 1]) if digit else 0
            target.prefix = target.prefix << 16 | digit
            held[target.prefix] = int(own[digit])
        if shift and sum(held.values()) <= keep:
            return _among(blocks, targets, shift)
    return _first(blocks, [float(np.uint64(target.prefix).view(np.float64)) for target in targets])


def _count(blocks: Blocks, counts: dict[int, NDArray[np.int64]], shift: int) -> None:
    """How often each 16 bits follow each prefix."""
    for block in blocks():
        bits = np.abs(block).view(np.uint64)  # -0.0 is 0
        leading = bits >> np.uint64(shift)
        for prefix, tally in counts.items():
            own = leading if shift == _FIRST else leading[leading >> np.uint64(16) == prefix]
            np.add(tally, np.bincount((own & np.uint64(0xFFFF)).astype(np.int64), minlength=1 << 16), out=tally)


def _among(blocks: Blocks, targets: list[_Target], shift: int) -> list[tuple[float, int]]:
    """The answers, once few enough numbers share their leading bits."""
    pools: dict[int, list[tuple[Float64, NDArray[np.int64]]]] = {target.prefix: [] for target in targets}
    before = 0
    for block in blocks():
        whole = np.abs(block)
        leading = whole.view(np.int64) >> shift
        for prefix, pool in pools.items():
            own = np.flatnonzero(leading == prefix)
            pool.append((whole[own], own + before))
        before += len(block)
    joined = {
        prefix: (np.concatenate([one for one, _at in pool]), np.concatenate([at for _one, at in pool]))
        for prefix, pool in pools.items()
    }
    found = []
    for target in targets:
        values, places = joined[target.prefix]
        value = np.partition(values, target.within)[target.within]
        found.append((float(value), int(places[(values == value).argmax()])))
    return found


def _first(blocks: Blocks, values: list[float]) -> list[tuple[float, int]]:
    """Each value and where it stands first."""
    found: dict[float, int] = {}
    before = 0
    for block in blocks():
        for value in values:
            if value not in found:
                equal = np.flatnonzero(np.abs(block) == value)
                if equal.size:
                    found[value] = before + int(equal[0])
        before += len(block)
    return [(value, found[value]) for value in values]
