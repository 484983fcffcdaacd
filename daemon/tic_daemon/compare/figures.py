"""The numbers of a pair of sides, over their valid tokens and for each sequence.

Let a be the log-probability of side A (rollout) and b that of side B (trainer), both as exact float64, d = b - a.

    logprob_mae       mean abs(d)                        logprob_max   max abs(d)
    probability_mae   mean abs(exp(b) - exp(a))
    kl_k1, kl_k2, kl_k3   mean of -d, of d*d/2, of exp(d) - 1 - d
    relative_l2       sqrt(sum d*d / sum b*b)            cosine        sum a*b / sqrt(sum a*a * sum b*b)

Each term is one float64 number; how they are made and added stands in `terms` and `gather`. Neither the order of
requests nor the size of the pieces changes a bit. Quantiles are nearest ranks: the value of a real token, with its
place.

Source: tic's evidence rules; k1 to k3 after J. Schulman, "Approximating KL Divergence" (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Final

import numpy as np

from tic_daemon.compare.align import Alignment
from tic_daemon.compare.blocks import BLOCK, Block, Place, blocks
from tic_daemon.compare.elements import Float64
from tic_daemon.compare.exact import select
from tic_daemon.compare.gather import Gathered, Own
from tic_daemon.compare.means import Metrics, Reasons, Totals, means
from tic_daemon.compare.sides import Sequence, Side, count

KEEP: Final = 1 << 20
"""Differences that are kept for quantiles: all, and once they are many those that an answer may be among. Where that
was expected wrongly the files are read again."""

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


def measure(
    a: Side,
    b: Side,
    alignment: Alignment,
    *,
    block: int = BLOCK,
    keep: int = KEEP,
    tell: Callable[[int], None] | None = None,
    also: Callable[[Block], None] | None = None,
) -> Figures | None:
    """All figures, or None where there is nothing that may be compared.

    Args:
        block: tokens that are held at a time.
        keep: differences that are kept for quantiles.
        tell: called after each block with the tokens so far.
        also: called with each block, which is valid until it returns.

    Raises:
        CompareError: a file cannot be read.
    """
    if not alignment.requests or not alignment.valid:
        return None
    found = Gathered(keep, QUANTILES)
    parts = blocks(a, b, alignment.requests, block, whole=alignment.valid == alignment.positions)
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN, and differences beyond float64
        for part in parts:
            found.add(part)
            if also is not None:
                also(part)
            if tell is not None:
                tell(found.valid)
    return _figures(found, a, b, alignment, block)


def _figures(found: Gathered, a: Side, b: Side, alignment: Alignment, block: int) -> Figures:
    rows = [_row(own, a.sequences[own.request]) for own in found.own]
    known = found.mismatched is not None
    differing = [row for row in rows if row.mismatched]
    longest = max(rows, key=lambda row: row.longest_run or 0)
    earliest = min(differing, key=lambda row: row.first_mismatch or 0, default=None)
    bad = sum(found.counts["non_finite"].values())
    totals = Totals(found.totals(), found.valid, bad, found.overflow, found.largest, found.peaks)
    metrics, undefined = means(totals)
    if not bad:
        _quantiles(found, a, b, alignment, block, metrics, undefined)
    return Figures(
        found.valid, len(rows), found.mismatched, len(differing) if known else None,
        (differing[0].request, differing[0].first_mismatch or 0) if differing else None,
        (earliest.request, earliest.first_mismatch or 0) if earliest else None,
        longest.longest_run if known else None, longest.request if known and longest.longest_run else "",
        max(row.longest_run_raw or 0 for row in rows) if known else None,
        found.counts["classes"], _counted(found.ulps), found.magnitudes(),
        found.counts["non_finite"], found.places.get("non_finite"),
        found.positive, found.positive_max if found.positive else None,
        tuple(sorted(found.zeros, key=lambda zero: (zero[1], zero[0]))), found.counts["zero_tokens"],
        found.ends_in_zero,
        found.overflow, metrics, found.places, undefined, tuple(rows),
    )  # fmt: skip


def _counted(numbers: np.ndarray) -> dict[int, int]:
    """What is not 0, by its place."""
    return {place: int(numbers[place]) for place in np.flatnonzero(numbers).tolist()}


def _row(own: Own, sequence: Sequence) -> SequenceFigures:
    prompt = sequence.prompt_length if sequence.prompt is None else count(sequence.prompt) or None
    return SequenceFigures(
        own.request, count(sequence.logprobs), prompt, sequence.group, sequence.policy, own.valid, own.first_valid,
        own.last_valid, own.mismatched, own.first_mismatch, own.longest_run, own.longest_run_raw,
        own.peak if own.peak is not None and isfinite(own.peak) else None, own.peak_at, own.mean_abs, own.bad,
    )  # fmt: skip


def _quantiles(
    found: Gathered, a: Side, b: Side, alignment: Alignment, block: int, metrics: Metrics, undefined: Reasons
) -> None:
    """Nearest ranks of abs(d): the smallest value that so many in a hundred do not exceed, and its first place.

    Those that were not given come first, with 0; the others are looked at one by one.
    """

    def again() -> Iterator[Float64]:
        for part in blocks(a, b, alignment.requests, block, whole=alignment.valid == alignment.positions):
            with np.errstate(over="ignore"):
                gap = np.abs(part.values_b - part.values_a)
            edges = part.starts.tolist()
            for place, request in enumerate(part.requests):
                own, begin, end = given[request], edges[place], edges[place + 1]
                mine = gap[begin:end]
                if part.differ is not None and own.given < own.valid:
                    mine = mine[part.differ[begin:end]]
                yield mine

    kept = found.kept
    given = {own.request: own for own in found.own}
    equal = found.valid - kept.count
    ranks = {share: ceil(found.valid * share / 100) - 1 - equal for share in QUANTILES}
    above = [rank for rank in ranks.values() if rank >= 0]
    answers = kept.at(above) if above else []
    if answers is None:
        answers = select(again, above, KEEP, kept.leading.reshape(1 << 15, -1).sum(axis=1))
    values = dict(zip(above, answers, strict=True))
    for share, rank in ranks.items():
        name = f"p{share}"
        value, index = values.get(rank, (0.0, 0))
        metrics[name] = value if isfinite(value) else None
        if not isfinite(value):
            undefined[name] = "a difference leaves float64's range"
        elif value:
            found.places[name] = _place(found.own, a, b, index)
        elif found.zero_at is not None:
            found.places[name] = found.zero_at


def _place(rows: list[Own], a: Side, b: Side, index: int) -> Place:
    """The place of a token by its number among those that were given."""
    for row in rows:
        if index < row.given:
            one, other = a.sequences[row.request], b.sequences[row.request]
            counted = one.mask.bits() != 0
            if row.given < row.valid:
                counted &= one.logprobs.bits() != other.logprobs.bits()
            return row.request, int(np.flatnonzero(counted)[index])
        index -= row.given
    raise IndexError(index)
