"""The terms of the means, each evaluated without loss where the two numbers are near."""

from __future__ import annotations

from itertools import pairwise
from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.blocks import Scratch, dots
from tic_daemon.compare.elements import Bits, Element, Float64

NEAR: Final = 0.125
_EVEN: Final = (1 / 23950080, -1 / 604800, 1 / 15120, -1 / 360, 1 / 6)
_CLOSE, _MIDDLE = 0.0047, 0.04
_SPACES: Final = ("work", "larger", "fourth", "fifth")  # where powers of d go
_EXACT: Final = 4  # bytes of the largest type whose distances float64 has exactly
_INVERSES: Final = tuple(1 / factorial(power) for power in range(11))


def k3(d: Float64) -> Float64:
    """exp(d) - 1 - d, of numbers that are not NaN. Never negative; infinity beyond float64.

    Below abs(d) = 1/8 it is made of q = d*d/6 - d**4/360 + ..., of which five terms leave out less than 1e-18:
    exp(d) - 1 = 2d / (2 + q - d), so that exp(d) - 1 - d = d (d - q) / (2 + q - d). The plain form loses a digit for
    each digit by which d is small.

    Source: the remainder function of fdlibm's e_exp.c (Sun Microsystems, 1993), with Taylor's coefficients
    (Bernoulli's numbers).
    """
    near = np.where(np.abs(d) < NEAR, d, 0.0)
    square = near * near
    q = square * _EVEN[0]
    for factor in _EVEN[1:]:
        q += factor
        q *= square
    over = near * (near - q) / (2 + q - near)
    far = np.flatnonzero(np.abs(d) >= NEAR)
    over[far] = np.expm1(d[far]) - d[far]
    return over


class Powers:
    """Sums of exp(d) - 1 - d over sequences, by the sums of the powers of d.

    exp(d) - 1 - d is d**2/2! + d**3/3! + ...; so the sum of it is made of the sums of d**2, d**3, ..., each the dot
    product of a power with itself or with the next one. The first is never smaller than the others together. What
    follows the last is less than 1e-15 of it: d**10 below 1/8, d**8 below 0.04, d**6 below 0.0047.

    Args:
        d: differences of all sequences, all below 1/8 in size. scratch: for their powers.
        largest: the largest size of all.
    """

    __slots__ = ("_powers",)

    def __init__(self, d: Float64, scratch: Scratch, largest: float) -> None:
        self._powers = [d]
        for name in _SPACES[: _reach(largest) - 1]:
            self._powers.append(np.multiply(self._powers[-1], d, out=scratch.of(name, len(d))))

    def totals(self, edges: list[int], largest: list[float]) -> tuple[list[float], list[float]]:
        """The sums of d**2 and of exp(d) - 1 - d over each sequence.

        Args:
            edges: where each begins, and the end of the last. largest: of the sizes of each.
        """
        sums = [dots(self._powers[0], self._powers[0], edges)]
        for one, other in pairwise(self._powers):
            sums += [dots(one, other, edges), dots(other, other, edges)]
        found = []
        for own, peak in zip(zip(*sums, strict=True), largest, strict=True):
            total = 0.0
            for power in range(2 * _reach(peak), 1, -1):  # how many depends on no neighbour
                total += own[power - 2] * _INVERSES[power]
            found.append(total)
        return sums[0], found


def _reach(largest: float) -> int:
    """Up to which power of d arrays are needed, for sums up to twice that."""
    return 3 if largest < _CLOSE else 4 if largest < _MIDDLE else 5


def probability_gap(a: Float64, b: Float64) -> Float64:
    """abs(exp(b) - exp(a)) as exp(larger) * (1 - exp(-abs(b - a)))."""
    return np.exp(np.maximum(a, b)) * -np.expm1(-np.abs(b - a))


def bit_lengths(numbers: np.ndarray) -> np.ndarray:
    """How many binary digits each unsigned 64-bit integer has; 0 for 0."""
    high = (numbers >> np.uint64(32)).astype(np.float64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])


def distance_lengths(
    element: Element, a: Bits, b: Bits, scratch: Scratch, *, one_sign: bool = False
) -> NDArray[np.int64]:
    """How many pairs lie so many representable numbers apart, by the binary length of that distance.

    Args:
        one_sign: it is known that both numbers of each pair have one sign. Their distance is then that of their bits.
    """
    if not one_sign or element.size > _EXACT:
        return np.bincount(bit_lengths(element.ulps(a, b)))
    signed, size = np.dtype(f"<i{element.size}"), len(a)
    apart = np.subtract(a.view(signed), b.view(signed), out=scratch.of("larger", size).view(signed)[:size])
    wide = scratch.of("work", size)
    np.copyto(wide, np.abs(apart, out=apart))
    # The exponent of a number as float64 is its length: 1 has 1023 there, 0 has none.
    lengths = wide.view(np.int64)
    lengths >>= 52
    exponents = np.bincount(lengths, minlength=1023)
    return np.concatenate([exponents[:1], exponents[1023:]])
