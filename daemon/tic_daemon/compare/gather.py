"""What one block adds to the figures of a pair of sides.

Most blocks are calm: finite log-probabilities of ordinary size. Their terms are made for the tokens that differ alone
(the others add nothing), with as few passes as there can be: what is a sum of products is one dot product over each
sequence, or over each 8,192 tokens of it, which keeps twelve digits at worst. The sums of the sequences are then
added exactly, so that neither the order of requests nor the size of the pieces changes a bit. The signed sum of d may
cancel and is exact throughout. A block that is not calm is taken apart, and a sequence that is not calm has all its
terms added exactly (`exact`).
"""

from __future__ import annotations

from itertools import pairwise
from math import frexp, fsum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.blocks import Block, Place, Scratch, dots, partial
from tic_daemon.compare.elements import PIECE, Float64
from tic_daemon.compare.exact import LEAST, ExactSum
from tic_daemon.compare.kept import Kept
from tic_daemon.compare.means import OVERFLOW, SUMS
from tic_daemon.compare.runs import first_true, longest_runs, per_sequence, runs_but_few, runs_of_few
from tic_daemon.compare.terms import NEAR, Powers, distance_lengths, k3, probability_gap

_LOW: Final = -700.0  # exp of what is not below keeps all its digits
_HIGH: Final = 1.0
_NORMAL: Final = 2.0**-1022
_LENGTHS: Final = 66  # of a distance in representable numbers, which has 65 bits at most


class Own(NamedTuple):
    """One sequence's share, in the terms of `figures.SequenceFigures`. `peak` may be infinite. `given`: how many of its
    differences went to `Gathered.kept`, all of its tokens' or those of tokens that differ."""

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
    given: int


class Gathered:
    """Figures under way.

    Attributes:
        sums: by the names of SUMS, without what `totals` adds.
        kept: abs(d), for quantiles and magnitudes, but of tokens of which no term is made: their difference is 0.
        ulps: mismatched tokens by the binary length of their distance.
        zero_at: the first token with d = 0.
    """

    def __init__(self, keep: int, shares: tuple[int, ...]) -> None:
        self.sums = {name: ExactSum() for name in SUMS}
        self._partials: dict[str, list[float]] = {name: [] for name in SUMS}
        self.kept = Kept(keep, shares)
        self.valid = self.overflow = self.positive = self.ends_in_zero = 0
        self.mismatched: int | None = 0
        self.largest, self.positive_max = -1.0, 0.0
        self.peaks = 0.0, 0.0
        self.ulps = np.zeros(_LENGTHS, np.int64)
        self.counts: dict[str, dict[Any, int]] = {
            "classes": {},
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
        if part.differ is None:
            self.mismatched = None
        if not len(part.a):
            self._rows(part, _flagged(part), np.zeros(0), None, part.edges, [(0, None)] * len(part.requests), [])
            return
        low_a, high_a = part.extremes(0)
        same = part.differ is not None and not part.mismatched
        low_b, high_b = (low_a, high_a) if same else part.extremes(1)
        calm = low_a >= _LOW and low_b >= _LOW and high_a <= _HIGH and high_b <= _HIGH  # NaN is not
        if not calm and len(part.requests) > 1:
            # How a sequence is added must not depend on its neighbours.
            for one in part.apart():
                self.add(one)
            return
        if calm:
            self.peaks = max(self.peaks[0], -low_a, high_a), max(self.peaks[1], -low_b, high_b)
            self._calm(part, max(high_a, high_b))
        else:
            self._wild(part, part.differ)

    def _calm(self, part: Block, high: float) -> None:
        a, b, starts = part.values_a, part.values_b, part.starts
        self._squares(part, signed=high > 0)
        flags = _flagged(part)
        own = _chosen(part, flags)
        edges = part.edges
        if own is not None:
            a, b = np.take(a, own), np.take(b, own)
            starts = np.searchsorted(own, part.starts)
            edges = starts.tolist()
        scratch = part.scratch
        d = np.subtract(b, a, out=scratch.of("d", len(a)))
        gap = np.abs(d, out=scratch.of("gap", len(a)))
        peaks = [_largest(gap, begin, end) for begin, end in pairwise(edges)]
        self._keep(gap, part)
        if part.differ is not None:
            self._kinds(part, own, None if high >= 0 else part.mismatched)
        self._values(part, high)
        sums = [0.0] * len(peaks)
        if len(gap):
            largest = [peak or 0.0 for _at, peak in peaks]
            sums = self._differences(a, b, d, gap, starts, edges, largest, scratch, _unit(part, high))
        means: list[float | None] = [
            total / max(end - begin, 1) for total, (begin, end) in zip(sums, pairwise(part.edges), strict=True)
        ]
        self._rows(part, flags, gap, own, edges, peaks, means)

    def _squares(self, part: Block, *, signed: bool) -> None:
        """The sums of a*a, b*b and a*b of each sequence.

        Args:
            signed: numbers of both signs may be there, and products cancel: those are added exactly.
        """
        aa, bb, ab = part.squares
        if signed:
            ab = list(ab)
            for place, (begin, end) in enumerate(pairwise(part.edges)):
                terms = part.values_a[begin:end] * part.values_b[begin:end]
                if end > begin and terms.min() < 0:
                    self.sums["ab"].add(terms)
                    ab[place] = 0.0
        for name, own in (("aa", aa), ("bb", bb), ("ab", ab)):
            self._partials[name] += own

    def _differences(
        self, a: Float64, b: Float64, d: Float64, gap: Float64, starts: np.ndarray, edges: list[int],
        peaks: list[float], scratch: Scratch, unit: int | None,
    ) -> list[float]:  # fmt: skip
        """Adds what is made of d, of tokens that differ. Writes to d. Returns the sum of abs(d) of each sequence."""
        size, largest = len(d), max(peaks)
        work = scratch.of("work", size)
        totals = partial(gap, starts, edges)
        self._partials["abs"] += totals
        self.sums["d"].add(d, largest, work, unit)  # exact, so that it may be added across sequences
        # abs(exp(b) - exp(a)) = exp(max(a, b)) * (1 - exp(-abs(d)))
        larger = scratch.of("larger", size)
        for at in range(0, size, PIECE):  # each of both in a core's own cache
            piece = slice(at, min(at + PIECE, size))
            drop, top = work[piece], larger[piece]
            np.expm1(np.negative(gap[piece], out=drop), out=drop)
            np.exp(np.maximum(a[piece], b[piece], out=top), out=top)
        self._partials["p"] += [-own for own in dots(larger, work, edges)]
        self._powers(d, gap, edges, peaks, largest, scratch)
        return totals

    def _powers(
        self, d: Float64, gap: Float64, edges: list[int], peaks: list[float], largest: float, scratch: Scratch
    ) -> None:
        """Adds d * d and exp(d) - 1 - d. Writes to d."""
        squares = None
        if largest >= NEAR:
            squares = dots(d, d, edges)
            places = np.flatnonzero(gap >= NEAR)
            far = d[places]
            terms = np.expm1(far)
            terms -= far
            d[places] = 0.0
            cuts = np.searchsorted(places, edges).tolist()
            self._partials["k3"] += [fsum(terms[begin:end].tolist()) for begin, end in pairwise(cuts)]
        near, found = Powers(d, scratch, largest).totals(edges, peaks)
        self._partials["dd"] += near if squares is None else squares
        self._partials["k3"] += found

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
        known = gap
        self._keep(known if finite.all() else np.where(np.isfinite(known), known, 0.0), part)
        if differ is not None:
            self._kinds(part, None, None)
        self._values(part, float("inf"))
        exact = ExactSum()
        exact.add(gap)
        mean = None if exact.skipped else exact.over(len(gap))
        bad = int(np.count_nonzero(~finite))
        peak = (0, None) if bad else _largest(gap, 0, len(gap))
        self._rows(part, _flagged(part), gap, None, part.edges, [peak], [mean], bad)

    def _not_finite(self, part: Block, finite: np.ndarray) -> None:
        for side, values in (("A", part.values_a), ("B", part.values_b)):
            self.count("non_finite", f"{side} NaN", int(np.isnan(values).sum()))
            self.count("non_finite", f"{side} +Inf", int(np.isposinf(values).sum()))
            self.count("non_finite", f"{side} -Inf", int(np.isneginf(values).sum()))
        if "non_finite" not in self.places:
            self.places["non_finite"] = part.place(int(np.flatnonzero(~finite)[0]))

    def _keep(self, gap: Float64, part: Block) -> None:
        """For quantiles and magnitudes."""
        if not len(gap):
            return
        equal = len(part.a) - len(gap) + self.valid - self.kept.count
        before = int(self.kept.leading[0].sum())
        self.kept.add(gap, equal, part.scratch)
        zeros = 0 if part.differ is None else len(gap) - part.mismatched
        if int(self.kept.leading[0].sum()) - before > zeros:  # too small for a power of two of their own in the bits
            faint = gap[(gap > 0) & (gap < _NORMAL)]
            for power, number in zip(*np.unique(np.frexp(faint)[1], return_counts=True), strict=True):
                self.count("magnitudes", int(power), int(number))

    def _kinds(self, part: Block, own: np.ndarray | None, finite: int | None) -> None:
        """Why the mismatched tokens differ, and by how many representable numbers.

        Args:
            own: places that they are among, None for all tokens.
            finite: their number, if it is known that they all are finite and below 0; else None.
        """
        if self.mismatched is not None:
            self.mismatched += part.mismatched
        if part.differ is None or not part.mismatched:
            return
        one_sign = finite is not None
        if finite is not None:
            first, second = (part.a, part.b) if own is None else (np.take(part.a, own), np.take(part.b, own))
            self.ulps[0] -= len(first) - finite  # those with equal bits, which are found 0 apart
        else:
            own = np.flatnonzero(part.differ)
            first, second = np.take(part.a, own), np.take(part.b, own)
            a, b = np.take(part.values_a, own), np.take(part.values_b, own)
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
            lengths = distance_lengths(part.elements[0], first, second, part.scratch, one_sign=one_sign)
            self.ulps[: len(lengths)] += lengths

    def _values(self, part: Block, high: float) -> None:
        """Numbers above 0, and zeros. `high`: no number of the block is larger."""
        if self.zero_at is None:
            self._first_zero(part, high)
        if high < 0:
            return
        for side, values in (("A", part.values_a), ("B", part.values_b)):
            above = values[values > 0]
            if above.size:
                self.positive += above.size
                self.positive_max = max(self.positive_max, float(above.max()))
            zeros = per_sequence(values == 0, part.edges)
            self.count("zero_tokens", side, sum(zeros))
            for number, request, (begin, end) in zip(zeros, part.requests, pairwise(part.edges), strict=True):
                if number == end - begin > 0:
                    self.zeros.append((side, request))
        for begin, end in pairwise(part.edges):
            if end - begin > 1 and (part.values_a[end - 1] == 0 or part.values_b[end - 1] == 0):
                self.ends_in_zero += 1

    def _first_zero(self, part: Block, high: float) -> None:
        """The first token without a difference. Of numbers below 0 it is the first whose bits are equal."""
        if part.differ is not None and high < 0:
            if part.mismatched < len(part.a):
                self.zero_at = part.place(int(part.differ.argmin()))
            return
        equal = part.values_a == part.values_b
        if equal.any():
            self.zero_at = part.place(int(equal.argmax()))

    def _rows(
        self,
        part: Block,
        flags: Flags,
        gap: Float64,
        own: np.ndarray | None,
        chosen: list[int],
        peaks: list[tuple[int, float | None]],
        means: list[float | None],
        bad: int = 0,
    ) -> None:
        """The sequences of a block.

        Args:
            gap: abs(d) of all tokens, or of those at the places `own`. chosen: where each sequence begins in it.
            peaks: of each sequence the place of its largest in `gap`, and the largest; None without any.
            means: of abs(d) of each sequence; none in a block without tokens.
            bad: numbers that are not finite, of a block of one sequence.
        """
        edges = part.edges
        counts, firsts, runs, raw, _places = flags
        self.valid += len(part.a)
        for place, request in enumerate(part.requests):
            begin, end = edges[place], edges[place + 1]
            valid = end - begin
            # Response positions of the sequence's valid tokens.
            where = range(valid) if part.masks is None else np.flatnonzero(part.masks[place])
            largest = at = mean = None
            if valid and not bad:
                index, peak = peaks[place]
                largest = peak or 0.0
                # Tokens with equal bits are not in `gap`: the first of all is the first with a difference of 0.
                within = index - begin if own is None else int(own[index]) - begin if largest else 0
                at, mean = int(where[within]), means[place]
                if largest > self.largest:
                    self.largest = largest
                    self.places["logprob_max"] = (request, at)
            given = chosen[place + 1] - chosen[place]
            first = None if firsts is None or firsts[place] < 0 else int(where[firsts[place] - begin])
            self.own.append(
                Own(
                    request, valid, bad, int(where[0]) if valid else None, int(where[-1]) if valid else None,
                    None if counts is None else counts[place], first, None if runs is None else runs[place],
                    None if raw is None else raw[place], largest, at, mean, given,
                )
            )  # fmt: skip

    def totals(self) -> dict[str, ExactSum]:
        """`sums`, once all blocks are added."""
        for name, parts in self._partials.items():
            if parts:
                self.sums[name].add(np.array(parts))
            parts.clear()
        return self.sums

    def magnitudes(self) -> dict[int, int]:
        """Tokens with d != 0 by power of two."""
        found = dict(self.counts["magnitudes"])
        powers = self.kept.leading.sum(axis=1)
        for field in np.flatnonzero(powers[1:-1]).tolist():  # the first holds 0 and what is faint, the last infinity
            found[field + 1 - 1022] = found.get(field + 1 - 1022, 0) + int(powers[field + 1])
        return dict(sorted(found.items()))


class Flags(NamedTuple):
    """Of each sequence: tokens that differ, the first of them (-1: none), the longest run among the valid tokens, and
    the longest that no masked position breaks; None where the types differ. `places`: of all tokens that differ, where
    they are few."""

    counts: list[int] | None = None
    firsts: list[int] | None = None
    runs: list[int] | None = None
    raw: list[int] | None = None
    places: NDArray[np.int64] | None = None


def _chosen(part: Block, flags: Flags) -> np.ndarray | None:
    """Places of the tokens that terms are made of: those that differ, and all of a sequence of which half do, which
    costs less than to pick them out. None: all tokens. What is taken of a sequence hangs on it alone."""
    if flags.counts is None or part.differ is None or part.mismatched == len(part.a):
        return None
    dense = [2 * number >= end - begin for number, (begin, end) in zip(flags.counts, pairwise(part.edges), strict=True)]
    if all(dense):
        return None
    if not any(dense):
        return np.flatnonzero(part.differ) if flags.places is None else flags.places
    return np.flatnonzero(np.repeat(dense, np.diff(part.starts)) | part.differ)


def _flagged(part: Block) -> Flags:
    differ, starts, edges = part.differ, part.starts, part.edges
    if differ is None:
        return Flags()
    if not part.mismatched:
        none = [0] * len(part.requests)
        return Flags(none, [-1] * len(none), none, none, np.zeros(0, np.int64))
    few = 2 * part.mismatched < len(differ)
    places = np.flatnonzero(differ if few else np.logical_not(differ))
    cuts = np.searchsorted(places, starts)
    counts: list[int] = np.diff(cuts).tolist()
    if few:
        runs = runs_of_few(places, cuts)
        firsts = [int(places[at]) if number else -1 for at, number in zip(cuts.tolist(), counts, strict=False)]
    else:
        runs = runs_but_few(places, cuts, starts)
        counts = [end - begin - number for number, (begin, end) in zip(counts, pairwise(edges), strict=True)]
        firsts = first_true(differ, edges)
    raw = runs if part.masks is None else longest_runs(differ, starts, part.positions)
    return Flags(counts, firsts, runs, raw, places if few else None)


def _unit(part: Block, high: float) -> int | None:
    """Of which power of two all numbers of a block are whole multiples, and so their differences; None if some may be 0
    or above it. `high`: no number is larger."""
    return max(frexp(high)[1] - max(own.digits for own in part.elements), LEAST) if high < 0 else None


def _largest(gap: Float64, begin: int, end: int) -> tuple[int, float | None]:
    """Where the largest of a sequence stands first, and the largest."""
    if begin == end:
        return begin, None
    at = begin + int(gap[begin:end].argmax())
    return at, float(gap[at])


def _peak(former: float, values: Float64) -> float:
    return max(former, float(np.abs(values).max(initial=0.0)))
