"""The terms of the means, each evaluated without loss where the two numbers are near."""

from __future__ import annotations

from math import factorial
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Float64

_NEAR: Final = 0.125
_SERIES: Final = tuple(1.0 / factorial(power) for power in range(12, 1, -1))


def k3(d: Float64) -> Float64:
    """exp(d) - 1 - d. Never negative; infinity beyond float64.

    expm1(d) - d loses a digit for each digit by which d is small. Below 1/8 the series d*d/2 + d**3/6 + ... to the
    twelfth power stands for it; what it leaves out is below 1e-18 of the whole.
    """
    near = np.abs(d) < _NEAR
    small = np.where(near, d, 0.0)
    series = np.full_like(small, _SERIES[0])
    for factor in _SERIES[1:]:
        series *= small
        series += factor
    series *= small
    series *= small
    if near.all():
        return series
    return np.where(near, series, np.expm1(d) - d)


def probability_gap(a: Float64, b: Float64) -> Float64:
    """abs(exp(b) - exp(a)) as exp(larger) * (1 - exp(-abs(b - a)))."""
    return np.exp(np.maximum(a, b)) * -np.expm1(-np.abs(b - a))


def bit_lengths(numbers: np.ndarray) -> np.ndarray:
    """How many binary digits each unsigned 64-bit integer has; 0 for 0."""
    high = (numbers >> np.uint64(32)).astype(np.float64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])
