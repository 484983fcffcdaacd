"""The bits of one number, spelled: sign, exponent, mantissa, what they mean, and how far two of them lie apart.

    spell("bfloat16", "bf80")  ->  sign 1, exponent 01111111 (2^0), mantissa 0000000: -1.0 x 2^0

Bits come as hexadecimal text of the element's own width. Nothing is rounded: a significand of any of these types is
a float64. Formats: IEEE 754-2019 for 16 to 64 bits, arXiv:2209.05433 for e4m3fn and e5m2, arXiv:2206.02915 for the fnuz
forms, which have no -0 and no infinities and whose only NaN is 0x80.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Layout:
    """A format: bits of exponent and mantissa, bias, and what is special: "ieee", "fn" (one NaN a sign), "fnuz"."""

    exponent: int
    mantissa: int
    bias: int
    special: str = "ieee"

    @property
    def width(self) -> int:
        """Bits of a number."""
        return 1 + self.exponent + self.mantissa


LAYOUTS: Final = {
    "float64": Layout(11, 52, 1023),
    "float32": Layout(8, 23, 127),
    "float16": Layout(5, 10, 15),
    "bfloat16": Layout(8, 7, 127),
    "float8_e4m3fn": Layout(4, 3, 7, "fn"),
    "float8_e5m2": Layout(5, 2, 15),
    "float8_e4m3fnuz": Layout(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Layout(5, 2, 16, "fnuz"),
}


@dataclass(frozen=True, slots=True)
class Spelled:
    """A number taken apart: `sign`, `exponent`, `mantissa` are binary digits.

    Attributes:
        kind: normal, subnormal, zero, infinite, NaN. words: the value, exactly, as a significand and a power of two.
    """

    layout: Layout
    code: int
    sign: str
    exponent: str
    mantissa: str
    kind: str
    words: str

    @property
    def hex(self) -> str:
        """As 0x and all digits of its width."""
        return f"0x{self.code:0{self.layout.width // 4}x}"

    @property
    def digits(self) -> str:
        """All bits, the parts with a blank between."""
        return f"{self.sign} {self.exponent} {self.mantissa}"


def spell(dtype: str, bits: str | None) -> Spelled | None:
    """A number's bits taken apart; None: a type that is not known here, or no bits of its width."""
    layout = LAYOUTS.get(dtype)
    try:
        code = int(bits or "", 16)
    except ValueError:
        return None
    if layout is None or not 0 <= code < 1 << layout.width:
        return None
    digits = f"{code:0{layout.width}b}"
    raw, mantissa = int(digits[1 : 1 + layout.exponent], 2), code & ((1 << layout.mantissa) - 1)
    kind, sign = _kind(layout, code, raw, mantissa), "-" if digits[0] == "1" else "+"
    if kind in {"normal", "subnormal"}:
        power = (raw if kind == "normal" else 1) - layout.bias
        lead = 1 if kind == "normal" else 0
        words = f"{sign}{lead + mantissa / (1 << layout.mantissa)!r} x 2^{power}"
    else:
        words = "NaN" if kind == "NaN" else f"{sign}{'0' if kind == 'zero' else 'infinity'}"
    return Spelled(layout, code, digits[0], digits[1 : 1 + layout.exponent], digits[1 + layout.exponent :], kind, words)


def _kind(layout: Layout, code: int, raw: int, mantissa: int) -> str:
    top = (1 << layout.exponent) - 1
    if layout.special == "fnuz" and code == 1 << (layout.width - 1):
        return "NaN"
    if layout.special == "fn" and raw == top and mantissa == (1 << layout.mantissa) - 1:
        return "NaN"
    if layout.special == "ieee" and raw == top:
        return "NaN" if mantissa else "infinite"
    if raw:
        return "normal"
    return "subnormal" if mantissa else "zero"


def apart(a: Spelled, b: Spelled) -> int | None:
    """How many representable numbers b lies from a, as the comparison counts them; None: other formats, or a NaN."""
    if a.layout != b.layout or "NaN" in {a.kind, b.kind}:
        return None
    return abs(_signed(a) - _signed(b))


def _signed(one: Spelled) -> int:
    magnitude = one.code & ((1 << (one.layout.width - 1)) - 1)
    return -magnitude if one.sign == "1" else magnitude


def differing(a: Spelled, b: Spelled) -> str:
    """A caret under every digit of `digits` that differs; "" for other formats."""
    if a.layout != b.layout:
        return ""
    return "".join("^" if x != y else " " for x, y in zip(a.digits, b.digits, strict=True)).rstrip()
