"""The numbers of a pair of sides, over their valid tokens and for each sequence.

Let a be the log-probability of side A (rollout) and b that of side B (trainer), both as exact float64, d = b - a.

    logprob_mae       mean abs(d)                        logprob_max   max abs(d)
    probability_mae   mean abs(exp(b) - exp(a))
    kl_k1, kl_k2, kl_k3   mean of -d, of d*d/2, of exp(d) - 1 - d
    relative_l2       sqrt(sum d*d / sum b*b)            cosine        sum a*b / sqrt(sum a*a * sum b*b)

Each term is one float64 number; terms are added exactly and rounded once at the end (`exact`), so that neither the
order of requests nor the size of the pieces changes a bit. abs(exp(b) - exp(a)) is exp(max) * -expm1(-abs(d)), and
exp(d) - 1 - d its series below abs(d) = 1/8: the plain forms lose digits where a and b are near. Quantiles are nearest
ranks: the value of a real token, with its place.

Source: tic's evidence rules; k1 to k3 after J. Schulman, "Approximating KL Divergence" (2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, Final

import numpy as np

from tic_daemon.compare.align import Alignment
from tic_daemon.compare.blocks import BLOCK, Block, Place, blocks
from tic_daemon.compare.elements import Float64
from tic_daemon.compare.exact import ExactSum, select
from tic_daemon.compare.means import OVERFLOW, SUMS, Metrics, Reasons, Totals, means
from tic_daemon.compare.runs import first_true, longest_runs, per_sequence
from tic_daemon.compare.sides import Side, count
from tic_daemon.compare.terms import bit_lengths, k3, probability_gap

KEEP: Final = 1 << 24
"""Differences that are kept for quantiles; beyond that the files are read again."""

POSITIVE: Final = 1e-6
"""A log-probability above this is none: rounding of log_softmax stays below."""

QUANTILES: Final = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class SequenceFigures:
    """What one sequence shows. Value figures are None where a valid number is not finite."""

    request: str
    response_length: int
    prompt_length: int | None
    group: str
    policy: tuple[str, ...]
    valid: int
    first_valid: int | None
    last_valid: int | None
    mismatched: int | None
    first_mismatch: int | None
    longest_run: int | None
    longest_run_raw: int | None
    max_abs: float | None
    max_at: int | None
    mean_abs: float | None
    non_finite: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What all sequences show together. Figures that have no value are None, and `undefined` says why.

    Attributes:
        mismatched: valid tokens whose bits differ; None where the element types differ.
        sequences_differing: sequences with such a token.
        first_mismatch: the first of the first request that differs, in the order of ids.
        earliest_mismatch: the smallest position at which any request differs, of the first request that does.
        longest_run: most differing tokens in a row among the valid tokens of one request; `longest_run_raw`: a masked
            position ends a run.
        classes: mismatched tokens by kind: signed_zero, nan, infinite, finite.
        ulps: mismatched tokens by the binary length of their distance in representable numbers: 0, 1, 2 to 3, 4 to 7
        magnitudes: tokens with d != 0 by power of two: key e counts 2**(e-1) <= abs(d) < 2**e.
        non_finite: valid numbers that are NaN, +Inf or -Inf, by side and kind; `non_finite_at`: the first place.
        positive: valid numbers above 0 by side; `positive_max`: the largest.
        zeros: (side, request) where every valid number of that side is 0.
        zero_tokens: valid numbers that are exactly 0, by side.
        ends_in_zero: sequences of more than one token whose last valid number is exactly 0 on a side.
        overflow: tokens with d > 709.
        metrics: by name; quantiles as p50, p95, p99.
        undefined: reasons by name.
    """

    valid: int
    sequences: int
    mismatched: int | None
    sequences_differing: int | None
    first_mismatch: Place | None
    earliest_mismatch: Place | None
    longest_run: int | None
    longest_run_at: str
    longest_run_raw: int | None
    classes: Mapping[str, int]
    ulps: Mapping[int, int]
    magnitudes: Mapping[int, int]
    non_finite: Mapping[str, int]
    non_finite_at: Place | None
    positive: int
    positive_max: float | None
    zeros: tuple[tuple[str, str], ...]
    zero_tokens: Mapping[str, int]
    ends_in_zero: int
    overflow: int
    metrics: Mapping[str, float | None]
    places: Mapping[str, Place]
    undefined: Mapping[str, str]
    per_sequence: tuple[SequenceFigures, ...]


class _Gathered:
    """Figures under way."""

    def __init__(self, valid: int, keep: int) -> None:
        self.keep = keep
        self.sums = {name: ExactSum() for name in SUMS}
        self.gaps = np.empty(valid if valid <= keep else 0)
        self.gap_count = 0
        self.valid = self.overflow = self.positive = self.ends_in_zero = 0
        self.mismatched: int | None = 0
        self.largest, self.positive_max = -1.0, 0.0
        self.peaks = 0.0, 0.0
        self.counts: dict[str, dict[Any, int]] = {
            "classes": {},
            "ulps": {},
            "magnitudes": {},
            "non_finite": {},
            "zero_tokens": {},
        }
        self.places: dict[str, Place] = {}
        self.zeros: list[tuple[str, str]] = []
        self.own: list[SequenceFigures] = []

    def count(self, what: str, key: Any, number: int) -> None:
        if number:
            self.counts[what][key] = self.counts[what].get(key, 0) + number


def measure(a: Side, b: Side, alignment: Alignment, *, block: int = BLOCK, keep: int = KEEP) -> Figures | None:
    """All figures, or None where there is nothing that may be compared.

    Args:
        block: tokens that are held at a time.
        keep: differences that are kept for quantiles.

    Raises:
        CompareError: a file cannot be read.
    """
    if not alignment.requests or not alignment.valid:
        return None
    found = _Gathered(alignment.valid, keep)
    for part in blocks(a, b, alignment.requests, block):
        _add(found, part, a)
    return _figures(found, a, b, alignment, block)


def _add(found: _Gathered, part: Block, a: Side) -> None:
    """One block."""
    size = len(part.a)
    finite_a, finite_b = np.isfinite(part.values_a), np.isfinite(part.values_b)
    finite = finite_a & finite_b
    comparable = part.elements[0] is part.elements[1]
    differ = part.a != part.b if comparable else None
    if not finite.all():
        _not_finite(found, part, finite)
    with np.errstate(invalid="ignore", over="ignore"):
        d = part.values_b - part.values_a
    gap = np.abs(d)
    found.valid += size
    _positive(found, part)
    _value_sums(found, part, d, gap, finite)
    if differ is None:
        found.mismatched = None
    elif found.mismatched is not None:
        found.mismatched += int(np.count_nonzero(differ))
        _kinds(found, part, differ, finite)
    found.own += _each(found, part, differ, gap, finite, a)


def _not_finite(found: _Gathered, part: Block, finite: np.ndarray) -> None:
    for side, values in (("A", part.values_a), ("B", part.values_b)):
        found.count("non_finite", f"{side} NaN", int(np.isnan(values).sum()))
        found.count("non_finite", f"{side} +Inf", int(np.isposinf(values).sum()))
        found.count("non_finite", f"{side} -Inf", int(np.isneginf(values).sum()))
    if "non_finite" not in found.places:
        found.places["non_finite"] = part.place(int(np.flatnonzero(~finite)[0]))


def _positive(found: _Gathered, part: Block) -> None:
    for values in (part.values_a, part.values_b):
        above = values > 0
        if above.any():
            found.positive += int(above.sum())
            found.positive_max = max(found.positive_max, float(values[above].max()))


def _value_sums(found: _Gathered, part: Block, d: Float64, gap: Float64, finite: np.ndarray) -> None:
    """Sums over the tokens whose both numbers are finite. If there are others, no figure is made of them."""
    whole = bool(finite.all())
    a, b = (part.values_a, part.values_b) if whole else (part.values_a[finite], part.values_b[finite])
    if not whole:
        d, gap = d[finite], gap[finite]
    found.overflow += int(np.count_nonzero(d > OVERFLOW))
    found.peaks = _peak(found.peaks[0], a), _peak(found.peaks[1], b)
    with np.errstate(over="ignore", invalid="ignore"):
        found.sums["abs"].add(gap)
        found.sums["d"].add(d)
        found.sums["dd"].add(d * d)
        found.sums["k3"].add(k3(d))
        found.sums["p"].add(probability_gap(a, b))
        found.sums["aa"].add(a * a)
        found.sums["bb"].add(b * b)
        found.sums["ab"].add(a * b)
    for power, number in zip(*_powers(gap), strict=True):
        found.count("magnitudes", power, number)
    if len(found.gaps):
        found.gaps[found.gap_count : found.gap_count + len(gap)] = gap
        found.gap_count += len(gap)


def _peak(former: float, values: Float64) -> float:
    return max(former, float(np.abs(values).max(initial=0.0)))


def _powers(gap: Float64) -> tuple[list[int], list[int]]:
    """Powers of two and how many of the numbers that are not 0 have them."""
    exponents = np.frexp(gap[(gap > 0) & np.isfinite(gap)])[1]
    if not len(exponents):
        return [], []
    low = int(exponents.min())
    counts = np.bincount(exponents - low)
    used = np.flatnonzero(counts)
    return (used + low).tolist(), counts[used].tolist()


def _kinds(found: _Gathered, part: Block, differ: np.ndarray, finite: np.ndarray) -> None:
    """Why the mismatched tokens differ, and by how many representable numbers."""
    places = np.flatnonzero(differ)
    if not places.size:
        return
    a, b = part.values_a[places], part.values_b[places]
    nan = np.isnan(a) | np.isnan(b)
    infinite = ~nan & (np.isinf(a) | np.isinf(b))
    zero = (a == 0) & (b == 0)
    found.count("classes", "nan", int(nan.sum()))
    found.count("classes", "infinite", int(infinite.sum()))
    found.count("classes", "signed_zero", int(zero.sum()))
    found.count("classes", "finite", int((~nan & ~infinite & ~zero).sum()))
    ordered = places[finite[places]]
    if ordered.size:
        lengths = np.bincount(bit_lengths(part.elements[0].ulps(part.a[ordered], part.b[ordered])))
        for length in np.flatnonzero(lengths).tolist():
            found.count("ulps", length, int(lengths[length]))


def _each(
    found: _Gathered, part: Block, differ: np.ndarray | None, gap: Float64, finite: np.ndarray, a: Side
) -> list[SequenceFigures]:
    """The figures of each sequence of a block."""
    starts, rows = part.starts, []
    bad = per_sequence(~finite, starts)
    zero_a, zero_b = (per_sequence(values == 0, starts) for values in (part.values_a, part.values_b))
    found.count("zero_tokens", "A", int(zero_a.sum()))
    found.count("zero_tokens", "B", int(zero_b.sum()))
    mismatched = None if differ is None else per_sequence(differ, starts)
    firsts = None if differ is None else first_true(differ, starts)
    runs = None if differ is None else longest_runs(differ, starts, None)
    raw_runs = None if differ is None else longest_runs(differ, starts, part.positions)
    for own, request in enumerate(part.requests):
        begin, end = int(starts[own]), int(starts[own + 1])
        valid = end - begin
        sequence = a.sequences[request]
        mean = largest = at = None
        if valid and not bad[own]:
            mine = gap[begin:end]
            index = int(mine.argmax())
            peak, at = float(mine[index]), int(part.positions[begin + index])
            largest = peak if isfinite(peak) else None
            exact = ExactSum()
            exact.add(mine)
            mean = exact.over(valid) if not exact.skipped else None
            if peak > found.largest:
                found.largest = peak
                found.places["logprob_max"] = (request, at)
        if valid:
            found.zeros += [(side, request) for side, zeros in (("A", zero_a), ("B", zero_b)) if zeros[own] == valid]
        if valid > 1 and (part.values_a[end - 1] == 0 or part.values_b[end - 1] == 0):
            found.ends_in_zero += 1
        first = None if firsts is None or firsts[own] < 0 else int(part.positions[firsts[own]])
        prompt = sequence.prompt_length if sequence.prompt is None else count(sequence.prompt) or None
        rows.append(
            SequenceFigures(
                request, count(sequence.logprobs), prompt, sequence.group, sequence.policy, valid,
                int(part.positions[begin]) if valid else None, int(part.positions[end - 1]) if valid else None,
                None if mismatched is None else int(mismatched[own]), first,
                None if runs is None else int(runs[own]), None if raw_runs is None else int(raw_runs[own]),
                largest, at, mean, int(bad[own]),
            )
        )  # fmt: skip
    return rows


def _figures(found: _Gathered, a: Side, b: Side, alignment: Alignment, block: int) -> Figures:
    rows = found.own
    known = found.mismatched is not None
    differing = [row for row in rows if row.mismatched]
    longest = max(rows, key=lambda row: row.longest_run or 0)
    earliest = min(differing, key=lambda row: row.first_mismatch or 0, default=None)
    bad = sum(found.counts["non_finite"].values())
    totals = Totals(found.sums, found.valid, bad, found.overflow, found.largest, found.peaks)
    metrics, undefined = means(totals)
    if not bad:
        _quantiles(found, a, b, alignment, block, metrics, undefined)
    return Figures(
        found.valid, len(rows), found.mismatched, len(differing) if known else None,
        (differing[0].request, differing[0].first_mismatch or 0) if differing else None,
        (earliest.request, earliest.first_mismatch or 0) if earliest else None,
        longest.longest_run if known else None, longest.request if known and longest.longest_run else "",
        max(row.longest_run_raw or 0 for row in rows) if known else None,
        found.counts["classes"], dict(sorted(found.counts["ulps"].items())),
        dict(sorted(found.counts["magnitudes"].items())), found.counts["non_finite"], found.places.get("non_finite"),
        found.positive, found.positive_max if found.positive else None, tuple(found.zeros), found.counts["zero_tokens"],
        found.ends_in_zero,
        found.overflow, metrics, found.places, undefined, tuple(rows),
    )  # fmt: skip


def _quantiles(
    found: _Gathered, a: Side, b: Side, alignment: Alignment, block: int, metrics: Metrics, undefined: Reasons
) -> None:
    """Nearest ranks of abs(d): the smallest value that so many in a hundred do not exceed, and its first place."""

    def again() -> Iterator[Float64]:
        for part in blocks(a, b, alignment.requests, block):
            with np.errstate(over="ignore"):
                yield np.abs(part.values_b - part.values_a)

    ranks = [ceil(found.valid * share / 100) - 1 for share in QUANTILES]
    if len(found.gaps):
        sorted_out = found.gaps.copy()
        sorted_out.partition(ranks)
        values = sorted_out[ranks].tolist()
    else:
        values = select(again, ranks, found.keep)
    indices = _first([found.gaps] if len(found.gaps) else again(), values)
    for share, value in zip(QUANTILES, values, strict=True):
        name = f"p{share}"
        metrics[name] = value if isfinite(value) else None
        if isfinite(value):
            found.places[name] = _place(found.own, a, indices[value])
        else:
            undefined[name] = "a difference leaves float64's range"


def _first(parts: Iterable[Float64], values: list[float]) -> dict[float, int]:
    """Where each value stands first, counted over all parts."""
    found: dict[float, int] = {}
    before = 0
    for part in parts:
        for value in values:
            if value not in found:
                places = np.flatnonzero(part == value)
                if places.size:
                    found[value] = before + int(places[0])
        before += len(part)
        if len(found) == len(set(values)):
            break
    return found


def _place(rows: list[SequenceFigures], a: Side, index: int) -> Place:
    """The place of a valid token by its number among all."""
    for row in rows:
        if index < row.valid:
            return row.request, int(np.flatnonzero(a.sequences[row.request].mask.bits())[index])
        index -= row.valid
    raise IndexError(index)
