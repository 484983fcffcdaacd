"""Sides made in memory, for tests of what is calculated from them."""

from __future__ import annotations

import numpy as np

from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.sides import Held, Sequence, Side, in_order

Bits = dict[str, tuple[list[int], list[bool]]]


def tensor(bits: list[int], dtype: str) -> Held:
    element = ELEMENTS[dtype]
    return Held.of(element, np.array(bits, element.bits))


def bools(flags: list[bool]) -> Held:
    return Held.of(ELEMENTS["bool"], np.array(flags, np.bool_))


def side(bits: Bits, dtype: str = "float32", path: str = "a.pt") -> Side:
    sequences, twice = in_order(
        [Sequence(request, tensor(own, dtype), bools(flags)) for request, (own, flags) in bits.items()]
    )
    return Side(path, "", "torch", "native", sequences, refused=twice)


def of_values(values: dict[str, list[float]], path: str = "a.pt", dtype: str = "float32") -> Side:
    """A side of float32 or float64 numbers that all count."""
    kind = {"float32": np.float32, "float64": np.float64, "float16": np.float16}[dtype]
    element = ELEMENTS[dtype]
    return side(
        {
            request: (np.array(own, kind).view(element.bits).tolist(), [True] * len(own))
            for request, own in values.items()
        },
        dtype,
        path,
    )
