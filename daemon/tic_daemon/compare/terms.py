"""The terms of the means, each evaluated without loss where the two numbers are near."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.elements import Bits, Element, Float64

NEAR: Final = 0.125
_EVEN: Final = (1 / 23950080, -1 / 604800, 1 / 15120, -1 / 360, 1 / 6)


def k3_and_drop(d: Float64, gap: Float64) -> tuple[Float64, Float64]:
    """exp(d) - 1 - d, never negative and infinity beyond float64; and 1 - exp(-gap).

    Below abs(d) = 1/8 both are made of q = d*d/6 - d**4/360 + ..., of which five terms leave out less than 1e-18:
    exp(d) - 1 = 2d / (2 + q - d), so that exp(d) - 1 - d = d (d - q) / (2 + q - d). The plain forms lose a digit for
    each digit by which d is small.

    Args:
        d: differences, none NaN. gap: abs(d).

    Source: the remainder function of fdlibm's e_exp.c (Sun Microsystems, 1993), with Taylor's coefficients
    (Bernoulli's numbers).
    """
    far = np.flatnonzero(gap >= NEAR) if len(gap) and gap.max() >= NEAR else None
    whole, wide = d, gap
    if far is not None:
        d, gap = d.copy(), gap.copy()
        d[far] = gap[far] = 0.0
    square = d * d
    q = square * _EVEN[0]
    for factor in _EVEN[1:]:
        q += factor
        q *= square
    over = d - q
    over *= d
    q += 2.0
    over /= np.subtract(q, d, out=square)
    q += gap
    drop = np.divide(gap, q, out=q)
    drop *= 2.0
    if far is not None:
        over[far] = np.expm1(whole[far]) - whole[far]
        drop[far] = -np.expm1(-wide[far])
    return over, drop


def k3(d: Float64) -> Float64:
    """exp(d) - 1 - d. Never negative; infinity beyond float64."""
    return k3_and_drop(d, np.abs(d))[0]


def probability_gap(a: Float64, b: Float64) -> Float64:
    """abs(exp(b) - exp(a)) as exp(larger) * (1 - exp(-abs(b - a)))."""
    return np.exp(np.maximum(a, b)) * -np.expm1(-np.abs(b - a))


def bit_lengths(numbers: np.ndarray) -> np.ndarray:
    """How many binary digits each unsigned 64-bit integer has; 0 for 0."""
    high = (numbers >> np.uint64(32)).astype(np.float64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])


def distance_lengths(element: Element, a: Bits, b: Bits) -> NDArray[np.int64]:
    """How many pairs lie so many representable numbers apart, by the binary length of that distance."""
    if element.size <= 4:
        sign = element.bits.type(1 << 8 * element.size - 1)
        if len(a) and min(a.min(), b.min()) >= sign:  # all are below 0: their distance is that of their bits
            apart = np.maximum(a, b) - np.minimum(a, b)
            # The exponent of a number as float64 is its length: 1 has 1023 there.
            exponents = np.bincount(apart.astype(np.float64).view(np.int64) >> 52, minlength=1023)
            return np.concatenate([exponents[:1], exponents[1023:]])
    return np.bincount(bit_lengths(element.ulps(a, b)))
