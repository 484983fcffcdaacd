"""Element types: a number's bits in its own width, and the exact float64 that they stand for.

An array of bits holds unsigned integers of the element's own width (8, 16, 32 or 64 bits, little-endian). It is what a
bitwise comparison looks at: +0.0 and -0.0 differ, two NaNs of the same bits do not. Every type here has at most 53
significant bits, so that `values` loses nothing.

Sources: IEEE 754-2019 for 16 to 64 bits; "FP8 Formats for Deep Learning" (arXiv:2209.05433) for e4m3fn and e5m2;
"8-bit Numerical Formats for Deep Neural Networks" (arXiv:2206.02915) for the fnuz forms, which have no -0 and no
infinities and whose only NaN is 0x80.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]
Float64 = NDArray[np.float64]

PIECE: Final = 1 << 13
"""Numbers that are added at a time."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element type. `kind` is "float", "int" or "bool"; `size` is in bytes."""

    name: str
    kind: str
    size: int

    @property
    def bits(self) -> np.dtype[Any]:
        """The numpy type of its bits."""
        return np.dtype(f"<u{self.size}")

    def values(self, bits: Bits, out: Float64 | None = None) -> Float64:
        """The exact values of an array of bits, as float64. NaN stays NaN.

        Args:
            out: where they go.

        Raises:
            ValueError: the type is no floating-point type.
        """
        found = np.empty(bits.shape) if out is None else out
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
            if self.name in _NATIVE:
                np.copyto(found, bits.view(_NATIVE[self.name]))
            elif self.name == "bfloat16":
                np.copyto(found, (bits.astype("<u4") << np.uint32(16)).view("<f4"))
            elif self.name in _FORMATS:
                np.take(_table(self.name), bits, out=found)
            else:
                raise ValueError(f"{self.name} is no floating-point type")
        return found

    @property
    def digits(self) -> int:
        """How many significant bits its numbers have at most."""
        return _DIGITS[self.name] if self.name in _DIGITS else _FORMATS[self.name][1] + 1

    def native(self, bits: Bits) -> NDArray[Any] | None:
        """The bits as numbers of numpy's own type of that kind; None where it has none that is fast."""
        return bits.view(_NATIVE[self.name]) if self.size >= _FAST and self.name in _NATIVE else None

    def ulps(self, a: Bits, b: Bits) -> NDArray[np.uint64]:
        """How many representable numbers lie between: 0 for equal values, +0.0 and -0.0 among them.

        The bits are a sign and a magnitude, and magnitudes of floating-point numbers are ordered as integers.
        """
        sign = np.uint64(1) << np.uint64(8 * self.size - 1)
        first, second = a.astype(np.uint64), b.astype(np.uint64)
        low, high = first & (sign - np.uint64(1)), second & (sign - np.uint64(1))
        apart = (first & sign) != (second & sign)
        return np.where(apart, low + high, np.maximum(low, high) - np.minimum(low, high))


_NATIVE: Final = {"float64": "<f8", "float32": "<f4", "float16": "<f2"}
_DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_FAST: Final = 4  # bytes of the smallest type whose extremes numpy finds with vector instructions


_FORMATS: Final[Mapping[str, tuple[int, int, int, str]]] = MappingProxyType(
    {
        "float8_e4m3fn": (4, 3, 7, "fn"),
        "float8_e5m2": (5, 2, 15, "ieee"),
        "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
        "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
    }
)
"""Of each 8-bit format: bits of exponent and mantissa, the exponent's bias, and what is special: "ieee" (infinities),
"fn" (one NaN each sign), "fnuz"."""


@cache
def _table(name: str) -> Float64:
    """All 256 values of an 8-bit format."""
    exponent_bits, mantissa_bits, bias, special = _FORMATS[name]
    found = np.empty(256, np.float64)
    top = (1 << exponent_bits) - 1
    for code in range(256):
        exponent, mantissa = code >> mantissa_bits & top, code & (1 << mantissa_bits) - 1
        if exponent == 0:
            value = float(np.ldexp(mantissa, 1 - bias - mantissa_bits))
        else:
            value = float(np.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits))
        if special == "ieee" and exponent == top:
            value = float("nan") if mantissa else float("inf")
        if special == "fn" and code & 0x7F == 0x7F:
            value = float("nan")
        found[code] = -value if code & 0x80 else value
    if special == "fnuz":
        found[0x80] = float("nan")
    return found


ELEMENTS: Final[Mapping[str, Element]] = MappingProxyType(
    {
        element.name: element
        for element in (
            Element("float64", "float", 8),
            Element("float32", "float", 4),
            Element("float16", "float", 2),
            Element("bfloat16", "float", 2),
            *(Element(name, "float", 1) for name in _FORMATS),
            *(Element(f"int{8 * size}", "int", size) for size in (1, 2, 4, 8)),
            *(Element(f"uint{8 * size}", "int", size) for size in (1, 2, 4, 8)),
            Element("bool", "bool", 1),
        )
    }
)
"""The types that can be read, by the name that torch gives them."""
