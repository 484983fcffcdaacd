"""The means and norms of a comparison from its exact sums, and why one has no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final

from tic_daemon.compare.exact import ExactSum, ratio

OVERFLOW: Final = 709.0
"""exp(d) leaves float64 beyond this."""

MEANS: Final = ("logprob_mae", "logprob_max", "probability_mae", "kl_k1", "kl_k2", "kl_k3", "relative_l2", "cosine")
SUMS: Final = ("abs", "d", "dd", "k3", "p", "aa", "bb", "ab")

_FAINT: Final = 2.0**-480  # squares of what is smaller lose digits in float64, or vanish

Metrics = dict[str, float | None]
Reasons = dict[str, str]


@dataclass(frozen=True, slots=True)
class Totals:
    """What the means are made from.

    Attributes:
        sums: of abs(d), d, d*d, exp(d)-1-d, abs(exp(b)-exp(a)), a*a, b*b and a*b, by the names of SUMS.
        valid: tokens. non_finite: numbers among them that are not finite.
        overflow: tokens with d > OVERFLOW.
        largest: the largest abs(d).
        peaks: the largest abs(a) and abs(b).
    """

    sums: Mapping[str, ExactSum]
    valid: int
    non_finite: int
    overflow: int
    largest: float
    peaks: tuple[float, float]


def means(totals: Totals) -> tuple[Metrics, Reasons]:
    """All means and norms by name, and for each that is None the reason."""
    metrics: Metrics = dict.fromkeys(MEANS)
    if totals.non_finite:
        return metrics, dict.fromkeys(MEANS, f"{totals.non_finite} valid numbers are not finite")
    undefined: Reasons = {}
    for name, total, factor in (
        ("logprob_mae", "abs", 1.0), ("probability_mae", "p", 1.0), ("kl_k1", "d", -1.0), ("kl_k2", "dd", 0.5),
        ("kl_k3", "k3", 1.0),
    ):  # fmt: skip
        own = totals.sums[total]
        value = own.over(totals.valid) * factor + 0.0  # no -0.0: it would be printed
        if own.skipped or not isfinite(value):
            undefined[name] = f"{max(own.skipped, 1)} terms leave float64's range"
        else:
            metrics[name] = value
    if totals.overflow:
        metrics["kl_k3"], undefined["kl_k3"] = None, f"{totals.overflow} tokens with d > {OVERFLOW:g}: not clipped"
    if isfinite(totals.largest):
        metrics["logprob_max"] = totals.largest
    else:
        undefined["logprob_max"] = "a difference leaves float64's range"
    _norms(totals, metrics, undefined)
    return metrics, undefined


def _norms(totals: Totals, metrics: Metrics, undefined: Reasons) -> None:
    """relative_l2 and cosine."""
    sums, (peak_a, peak_b) = totals.sums, totals.peaks
    if any(sums[name].skipped for name in ("aa", "bb", "ab", "dd")) or any(0 < peak < _FAINT for peak in totals.peaks):
        undefined["relative_l2"] = undefined["cosine"] = "squares leave float64's range"
        return
    if not peak_b:
        undefined["relative_l2"] = "zero norm of side B" if peak_a else "both_zero"
    elif 0 < totals.largest < _FAINT:
        undefined["relative_l2"] = "squares leave float64's range"
    elif isfinite(found := ratio(sums["dd"], sums["bb"])):
        metrics["relative_l2"] = sqrt(found)
    else:
        undefined["relative_l2"] = "the ratio leaves float64's range"
    if not peak_a or not peak_b:
        undefined["cosine"] = "zero norm"
        return
    over, under = sums["ab"].scaled, sums["aa"].scaled * sums["bb"].scaled
    # Squared, as one division of integers: equal sides give 1 exactly. Rounded products may lift it above.
    metrics["cosine"] = (1 if over >= 0 else -1) * min(1.0, sqrt(over * over / under))
