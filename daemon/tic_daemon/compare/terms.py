"""The terms of the means, each evaluated without loss where the two numbers are near."""

from __future__ import annotations

from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.blocks import Scratch
from tic_daemon.compare.elements import Bits, Element, Float64

NEAR: Final = 0.125
_EVEN: Final = (1 / 23950080, -1 / 604800, 1 / 15120, -1 / 360, 1 / 6)
_CLOSE: Final = 2.0**-8
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

    exp(d) - 1 - d is d**2/2! + d**3/3! + ...; so the sum of it is made of the sums of d**2, d**3, ..., each one dot
    product. The first is never smaller than the others together. Below 1/8 what follows d**10 is less than 1e-15 of
    it, below 2**-8 what follows d**6.

    Args:
        d: differences of all sequences, all below 1/8 in size. scratch: for their powers.
        largest: the largest size of all.
    """

    __slots__ = ("_close", "_d", "_even")

    def __init__(self, d: Float64, scratch: Scratch, largest: float) -> None:
        size = len(d)
        second = np.multiply(d, d, out=scratch.of("second", size))
        fourth = np.multiply(second, second, out=scratch.of("fourth", size))
        self._d, self._even, self._close = d, [second, fourth], largest < _CLOSE
        if not self._close:
            self._even.append(np.multiply(fourth, second, out=scratch.of("sixth", size)))
            self._even.append(np.multiply(fourth, fourth, out=scratch.of("eighth", size)))

    def total(self, begin: int, end: int, largest: float) -> float:
        """The sum over one sequence, or a piece of one, in which no difference is larger in size."""
        d = self._d[begin:end]
        even = [own[begin:end] for own in self._even]
        second, fourth = even[:2]
        sums = [second.dot(second), fourth.dot(d), fourth.dot(second)]  # of the powers 4 to 6
        if not largest < _CLOSE:
            sums += [even[2].dot(d), fourth.dot(fourth), even[3].dot(d), even[3].dot(second)]
        found = 0.0
        for power in range(len(sums) + 3, 3, -1):
            found += float(sums[power - 4]) * _INVERSES[power]
        return found + float(second.dot(d)) * _INVERSES[3] + float(d.dot(d)) * _INVERSES[2]


def probability_gap(a: Float64, b: Float64) -> Float64:
    """abs(exp(b) - exp(a)) as exp(larger) * (1 - exp(-abs(b - a)))."""
    return np.exp(np.maximum(a, b)) * -np.expm1(-np.abs(b - a))


def bit_lengths(numbers: np.ndarray) -> np.ndarray:
    """How many binary digits each unsigned 64-bit integer has; 0 for 0."""
    high = (numbers >> np.uint64(32)).astype(np.float64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])


def distance_lengths(element: Element, a: Bits, b: Bits, scratch: Scratch) -> NDArray[np.int64]:
    """How many pairs lie so many representable numbers apart, by the binary length of that distance."""
    if element.size <= 4 and len(a):
        sign = element.bits.type(1 << 8 * element.size - 1)
        low = np.minimum(a, b, out=scratch.of("low", len(a), element.bits))
        if low.min() >= sign:  # all are below 0: their distance is that of their bits
            apart = np.subtract(np.maximum(a, b, out=scratch.of("high", len(a), element.bits)), low, out=low)
            wide = scratch.of("wide", len(a))
            np.copyto(wide, apart)
            # The exponent of a number as float64 is its length: 1 has 1023 there.
            lengths = np.right_shift(wide.view(np.int64), 52, out=scratch.of("lengths", len(a), np.int64))
            exponents = np.bincount(lengths, minlength=1023)
            return np.concatenate([exponents[:1], exponents[1023:]])
    return np.bincount(bit_lengths(element.ulps(a, b)))
