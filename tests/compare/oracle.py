"""The figures of two sides, calculated slowly and on their own: Python integers, fractions and mpmath, token by token.

Nothing of `tic_daemon.compare` is used. A side is {request: (bits, mask)} with lists of integers and booleans; the
value of bits comes from `struct` or from the definition of the format.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import mpmath

Side = dict[str, tuple[list[int], list[bool]]]
WIDTH = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8,
         "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8}  # fmt: skip


def value(bits: int, dtype: str) -> float:  # noqa: PLR0911
    if dtype == "float64":
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if dtype == "float32":
        return struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if dtype == "float16":
        return struct.unpack("<e", bits.to_bytes(2, "little"))[0]
    if dtype == "bfloat16":
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    _exponent_bits, mantissa_bits, bias = {
        "float8_e4m3fn": (4, 3, 7), "float8_e5m2": (5, 2, 15), "float8_e4m3fnuz": (4, 3, 8), "float8_e5m2fnuz": (5, 2, 16),
    }[dtype]  # fmt: skip
    sign = -1 if bits >> 7 else 1
    exponent, mantissa = (bits & 0x7F) >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
    if dtype.endswith("fnuz") and bits == 0x80:
        return math.nan
    if dtype == "float8_e4m3fn" and bits & 0x7F == 0x7F:
        return math.nan
    if dtype == "float8_e5m2" and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        found = Fraction(mantissa, 1 << mantissa_bits) * Fraction(2) ** (1 - bias)
    else:
        found = (1 + Fraction(mantissa, 1 << mantissa_bits)) * Fraction(2) ** (exponent - bias)
    return math.copysign(float(found), sign)


def figures(a: Side, b: Side, dtype: str) -> dict[str, Any]:
    """Counts, places and means of all valid tokens. Means are mpmath numbers of 60 digits."""
    mpmath.mp.dps = 60
    found: dict[str, Any] = {
        "valid": 0,
        "mismatched": 0,
        "first": None,
        "earliest": None,
        "runs": {},
        "raw_runs": {},
        "bad": 0,
    }
    terms: dict[str, list[Any]] = {name: [] for name in ("abs", "d", "dd", "k3", "p", "aa", "bb", "ab")}
    gaps: list[Fraction] = []
    for request in sorted(a):
        run = best = raw_run = raw_best = 0
        for place, (x, y, counts) in enumerate(zip(a[request][0], b[request][0], a[request][1], strict=True)):
            if not counts:
                raw_run = 0
                continue
            found["valid"] += 1
            if x != y:
                found["mismatched"] += 1
                found["first"] = found["first"] or (request, place)
                if found["earliest"] is None or place < found["earliest"][1]:
                    found["earliest"] = (request, place)
                run, raw_run = run + 1, raw_run + 1
                best, raw_best = max(best, run), max(raw_best, raw_run)
            else:
                run = raw_run = 0
            u, v = value(x, dtype), value(y, dtype)
            if not (math.isfinite(u) and math.isfinite(v)):
                found["bad"] += 1
                continue
            d = Fraction(v) - Fraction(u)
            gaps.append(abs(d))
            m, p, q = mpmath.mpf(d.numerator) / d.denominator, mpmath.mpf(u), mpmath.mpf(v)
            terms["abs"].append(abs(m))
            terms["d"].append(m)
            terms["dd"].append(m * m)
            # 60 digits are too few for what differs in the hundredth.
            terms["k3"].append(mpmath.expm1(m) - m if abs(m) > 1e-20 else m * m / 2 + m**3 / 6)
            terms["p"].append(abs(mpmath.exp(p) * mpmath.expm1(m)))
            terms["aa"].append(p * p)
            terms["bb"].append(q * q)
            terms["ab"].append(p * q)
        found["runs"][request], found["raw_runs"][request] = best, raw_best
    n = found["valid"]
    if gaps and not found["bad"]:
        total = {name: mpmath.fsum(own) for name, own in terms.items()}
        found["logprob_mae"], found["logprob_max"] = total["abs"] / n, max(terms["abs"])
        found["probability_mae"] = total["p"] / n
        found["kl_k1"], found["kl_k2"], found["kl_k3"] = -total["d"] / n, total["dd"] / 2 / n, total["k3"] / n
        found["relative_l2"] = mpmath.sqrt(total["dd"] / total["bb"]) if total["bb"] else None
        both = total["aa"] * total["bb"]
        found["cosine"] = total["ab"] / mpmath.sqrt(both) if both else None
        ordered = sorted(gaps)
        for share in (50, 95, 99):
            found[f"p{share}"] = float(ordered[-(-n * share // 100) - 1])
    return found
