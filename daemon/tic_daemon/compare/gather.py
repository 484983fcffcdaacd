"""What one block adds to the figures of a pair of sides.

Most blocks are calm: finite log-probabilities of ordinary size. Their terms are made with as few passes as there can
be, for the tokens that differ alone (the others add nothing), and each sequence's terms are added in pairs, which keeps
fifteen digits; the sums of the sequences are then added exactly, so that neither the order of requests nor the size of
the pieces changes a bit. The signed sum of d may cancel and is exact throughout. A block that is not calm is taken
apart, and a sequence that is not calm has all its terms added exactly (`exact`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tic_daemon.compare.blocks import Block, Place
from tic_daemon.compare.elements import Float64
from tic_daemon.compare.exact import ExactSum, leading_counts
from tic_daemon.compare.means import OVERFLOW, SUMS
from tic_daemon.compare.runs import first_true, longest_runs, per_sequence
from tic_daemon.compare.terms import distance_lengths, k3, k3_and_drop, probability_gap

_LOW: Final = -700.0  # exp of what is not below keeps all its digits
_HIGH: Final = 1.0
_FIELD: Final = 16  # leading bits of one power of two: 11 of the exponent, 4 more
_NORMAL: Final = 2.0**-1022


@dataclass(frozen=True, slots=True)
class Own:
    """One sequence's share, in the terms of `figures.SequenceFigures`. `peak` may be infinite."""

    request: str
    valid: int
    bad: int
    first_valid: int | None
    last_valid: int | None
    mismatched: int | None
    first_mismatch: int | None
    longest_run: int | None
    longest_run_raw: int | None
    peak: float | None
    peak_at: int | None
    mean_abs: float | None


class Gathered:
    """Figures under way.

    Attributes:
        sums: by the names of SUMS, without what `totals` adds.
        gaps: abs(d) of the tokens whose bits differ (of all where types differ), as far as `keep` allows; `gap_count`
            of them. `leading`: their leading bits, counted. Tokens with equal bits have a gap of 0.
        zero_at: the first token with d = 0.
    """

    def __init__(self, differing: int, keep: int) -> None:
        self.keep = keep
        self.sums = {name: ExactSum() for name in SUMS}
        self._partials: dict[str, list[Float64]] = {name: [] for name in SUMS}
        self.gaps = np.empty(differing if differing <= keep else 0)
        self.leading = np.zeros(1 << 15, np.int64)
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
        self.zero_at: Place | None = None
        self.zeros: list[tuple[str, str]] = []
        self.own: list[Own] = []

    def count(self, what: str, key: Any, number: int) -> None:
        """Adds to one of `counts`."""
        if number:
            self.counts[what][key] = self.counts[what].get(key, 0) + number

    def add(self, part: Block) -> None:
        """One block."""
        differ = _differ(part)
        if differ is None:
            self.mismatched = None
        if not part.a.size:
            self._rows(part, differ, np.zeros(0), None, [])
            return
        low_a, low_b = float(part.values_a.min()), float(part.values_b.min())
        high_a, high_b = float(part.values_a.max()), float(part.values_b.max())
        calm = low_a >= _LOW and low_b >= _LOW and high_a <= _HIGH and high_b <= _HIGH  # NaN is not
        if not calm and len(part.requests) > 1:
            # How a sequence is added must not depend on its neighbours.
            for one in part.apart():
                self.add(one)
            return
        if calm:
            self.peaks = max(self.peaks[0], -low_a, high_a), max(self.peaks[1], -low_b, high_b)
            self._calm(part, differ, max(high_a, high_b))
        else:
            self._wild(part, differ)

    def _calm(self, part: Block, differ: np.ndarray | None, high: float) -> None:
        a, b, starts = part.values_a, part.values_b, part.starts
        for name, one in (("aa", a), ("bb", b)):
            self._sum(name, one * one, starts)
        self._product(a, b, starts, signed=high > 0)
        own = None if differ is None or differ.all() else np.flatnonzero(differ)
        if own is not None:
            a, b, starts = a[own], b[own], np.searchsorted(own, starts)
        d = b - a
        gap = np.abs(d)
        self.sums["d"].add(d)
        self._sum("dd", d * d, starts)
        over, drop = k3_and_drop(d, gap)
        self._sum("k3", over, starts)
        larger = np.maximum(a, b, out=over)
        np.exp(larger, out=larger)
        drop *= larger
        self._sum("p", drop, starts)
        self._keep(gap)
        if differ is not None:
            self._kinds(part, own, None if high >= 0 else len(gap))
        self._values(part, high)
        sums = partial(gap, starts)
        self._partials["abs"].append(sums)
        self._rows(part, differ, gap, own, (sums / np.maximum(np.diff(part.starts), 1)).tolist())

    def _sum(self, name: str, terms: Float64, starts: np.ndarray) -> None:
        """Adds the terms of sequences that begin at `starts`, none of them below 0."""
        self._partials[name].append(partial(terms, starts))

    def _product(self, a: Float64, b: Float64, starts: np.ndarray, *, signed: bool) -> None:
        """The sum of a*b. `signed`: numbers of both signs may be there, and their products cancel: they are added
        exactly, for the sequences that have them."""
        terms = a * b
        sums = partial(terms, starts)
        if signed:
            for place, (begin, end) in enumerate(pairwise(starts.tolist())):
                own = terms[begin:end]
                if len(own) and own.min() < 0:
                    sums[place] = 0.0
                    self.sums["ab"].add(own)
        self._partials["ab"].append(sums)

    def _wild(self, part: Block, differ: np.ndarray | None) -> None:
        """One sequence with numbers of any kind. No figure is made of what is not finite."""
        finite = np.isfinite(part.values_a) & np.isfinite(part.values_b)
        if not finite.all():
            self._not_finite(part, finite)
        with np.errstate(invalid="ignore", over="ignore"):
            d = part.values_b - part.values_a
            gap = np.abs(d)
            a, b, own = part.values_a[finite], part.values_b[finite], d[finite]
            self.overflow += int(np.count_nonzero(own > OVERFLOW))
            self.peaks = _peak(self.peaks[0], a), _peak(self.peaks[1], b)
            for name, terms in (
                ("abs", np.abs(own)), ("d", own), ("dd", own * own), ("k3", k3(own)), ("p", probability_gap(a, b)),
                ("aa", a * a), ("bb", b * b), ("ab", a * b),
            ):  # fmt: skip
                self.sums[name].add(terms)
        known = gap if differ is None else gap[differ]
        self._keep(known if finite.all() else np.where(np.isfinite(known), known, 0.0))
        if differ is not None:
            self._kinds(part, np.flatnonzero(differ), None)
        self._values(part, float("inf"))
        exact = ExactSum()
        exact.add(gap)
        mean = None if exact.skipped else exact.over(len(gap))
        self._rows(part, differ, gap, None, [mean], bad=int(np.count_nonzero(~finite)))

    def _not_finite(self, part: Block, finite: np.ndarray) -> None:
        for side, values in (("A", part.values_a), ("B", part.values_b)):
            self.count("non_finite", f"{side} NaN", int(np.isnan(values).sum()))
            self.count("non_finite", f"{side} +Inf", int(np.isposinf(values).sum()))
            self.count("non_finite", f"{side} -Inf", int(np.isneginf(values).sum()))
        if "non_finite" not in self.places:
            self.places["non_finite"] = part.place(int(np.flatnonzero(~finite)[0]))

    def _keep(self, gap: Float64) -> None:
        """For quantiles and magnitudes."""
        if len(self.gaps):
            self.gaps[self.gap_count : self.gap_count + len(gap)] = gap
        self.gap_count += len(gap)
        if not len(gap):
            return
        counts = leading_counts(gap)
        self.leading[: len(counts)] += counts
        if counts[:_FIELD].any():  # too small for a power of two of their own in the bits
            faint = gap[(gap > 0) & (gap < _NORMAL)]
            for power, number in zip(*np.unique(np.frexp(faint)[1], return_counts=True), strict=True):
                self.count("magnitudes", int(power), int(number))

    def _kinds(self, part: Block, own: np.ndarray | None, finite: int | None) -> None:
        """Why the mismatched tokens differ, and by how many representable numbers.

        Args:
            own: their places, None for all tokens.
            finite: their number, if it is known that they all are finite and not 0; else None.
        """
        first, second = (part.a, part.b) if own is None else (part.a[own], part.b[own])
        if self.mismatched is not None:
            self.mismatched += len(first)
        if not len(first):
            return
        if finite is None:
            a, b = (part.values_a, part.values_b) if own is None else (part.values_a[own], part.values_b[own])
            nan = np.isnan(a) | np.isnan(b)
            infinite = ~nan & (np.isinf(a) | np.isinf(b))
            zero = (a == 0) & (b == 0)
            for name, flags in (("nan", nan), ("infinite", infinite), ("signed_zero", zero)):
                self.count("classes", name, int(np.count_nonzero(flags)))
            finite = int(np.count_nonzero(~nan & ~infinite & ~zero))
            ordered = np.isfinite(a) & np.isfinite(b)
            first, second = first[ordered], second[ordered]
        self.count("classes", "finite", finite)
        if len(first):
            lengths = distance_lengths(part.elements[0], first, second)
            for length in np.flatnonzero(lengths).tolist():
                self.count("ulps", length, int(lengths[length]))

    def _values(self, part: Block, high: float) -> None:
        """Numbers above 0, and zeros. `high`: no number of the block is larger."""
        if self.zero_at is None:
            equal = part.values_a == part.values_b
            if equal.any():
                self.zero_at = part.place(int(equal.argmax()))
        if high < 0:
            return
        for side, values in (("A", part.values_a), ("B", part.values_b)):
            above = values[values > 0]
            if above.size:
                self.positive += above.size
                self.positive_max = max(self.positive_max, float(above.max()))
            zeros = per_sequence(values == 0, part.starts)
            self.count("zero_tokens", side, int(zeros.sum()))
            sizes = np.diff(part.starts)
            for own in np.flatnonzero((zeros == sizes) & (sizes > 0)).tolist():
                self.zeros.append((side, part.requests[own]))
        for begin, end in zip(part.starts[:-1].tolist(), part.starts[1:].tolist(), strict=True):
            if end - begin > 1 and (part.values_a[end - 1] == 0 or part.values_b[end - 1] == 0):
                self.ends_in_zero += 1

    def _rows(
        self,
        part: Block,
        differ: np.ndarray | None,
        gap: Float64,
        own: np.ndarray | None,
        means: list[float | None],
        bad: int = 0,
    ) -> None:
        """The sequences of a block.

        Args:
            gap: abs(d) of all tokens, or of those at the places `own`.
            means: of abs(d) of each sequence.
            bad: numbers that are not finite, of a block of one sequence.
        """
        starts = part.starts
        inner = starts if own is None else np.searchsorted(own, starts)
        counts = firsts = runs = raw = None
        if differ is not None:
            counts, firsts = per_sequence(differ, starts), first_true(differ, starts)
            runs = longest_runs(differ, starts, None)
            raw = runs if part.masks is None else longest_runs(differ, starts, part.positions)
        self.valid += len(part.a)
        for place, request in enumerate(part.requests):
            begin, end = int(starts[place]), int(starts[place + 1])
            valid = end - begin
            # Response positions of the sequence's valid tokens.
            where = range(valid) if part.masks is None else np.flatnonzero(part.masks[place])
            peak = at = mean = None
            if valid and not bad:
                mine = gap[int(inner[place]) : int(inner[place + 1])]
                index = int(mine.argmax()) if len(mine) else 0
                peak = float(mine[index]) if len(mine) else 0.0
                # Tokens with equal bits are not among `mine`: the first of all is the first with a gap of 0.
                within = index if own is None else int(own[int(inner[place]) + index]) - begin if peak else 0
                at, mean = int(where[within]), means[place]
                if peak > self.largest:
                    self.largest = peak
                    self.places["logprob_max"] = (request, at)
            first = None if firsts is None or firsts[place] < 0 else int(where[int(firsts[place]) - begin])
            self.own.append(
                Own(
                    request, valid, bad, int(where[0]) if valid else None, int(where[-1]) if valid else None,
                    None if counts is None else int(counts[place]), first,
                    None if runs is None else int(runs[place]), None if raw is None else int(raw[place]),
                    peak, at, mean,
                )
            )  # fmt: skip

    def totals(self) -> dict[str, ExactSum]:
        """`sums`, once all blocks are added."""
        for name, parts in self._partials.items():
            if parts:
                self.sums[name].add(np.concatenate(parts))
            parts.clear()
        return self.sums

    def magnitudes(self) -> dict[int, int]:
        """Tokens with d != 0 by power of two."""
        found = dict(self.counts["magnitudes"])
        powers = self.leading.reshape(-1, _FIELD).sum(axis=1)
        for field in np.flatnonzero(powers[1:-1]).tolist():  # the first holds 0 and what is faint, the last infinity
            found[field + 1 - 1022] = found.get(field + 1 - 1022, 0) + int(powers[field + 1])
        return dict(sorted(found.items()))


def partial(terms: Float64, starts: np.ndarray) -> Float64:
    """The sum of each sequence, added in pairs."""
    found = np.zeros(len(starts) - 1)
    if len(terms):
        there = starts[1:] > starts[:-1]
        found[there] = np.add.reduceat(terms, starts[:-1][there])
    return found


def _differ(part: Block) -> np.ndarray | None:
    return part.a != part.b if part.elements[0] is part.elements[1] else None


def _peak(former: float, values: Float64) -> float:
    return max(former, float(np.abs(values).max(initial=0.0)))
