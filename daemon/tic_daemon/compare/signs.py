"""Diagnostics of a pair of sides: what to look at next. None of them is a verdict, and none can pass anything.

offsets       the same figures with one side shifted by -2 to +2 positions
last tokens   only the last valid token of sequences differs: an end-of-text token that one side does not count
temperature   least squares of b on a: a slope away from 1 is what another temperature would leave
lanes         differing tokens by position modulo a block: a page or chunk whose edge is wrong
reach         share of differing tokens by position, in powers of two
versions      figures for each policy version
siblings      samples of one prompt, over the response prefix that they share
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from tic_daemon.compare.align import Alignment, ids, token_digest
from tic_daemon.compare.exact import ExactSum
from tic_daemon.compare.figures import Figures
from tic_daemon.compare.sides import Segments, Sequence, Side
from tic_daemon.compare.sweep import SHIFTS, Sweep

LANES: Final = (16, 64, 256)
POSSIBLE: Final = 0.1  # of the difference at offset 0
_PER_GROUP: Final = 64  # siblings of one prompt that are held against the first


@dataclass(frozen=True, slots=True)
class Offset:
    """A[t + k] against B[t] where both positions are valid. `mae` is None without a pair, or if one is not finite."""

    k: int
    tokens: int
    mismatched: int | None
    mae: float | None


@dataclass(frozen=True, slots=True)
class Lane:
    """Positions modulo `block`: the residue with the largest share of differing tokens, `times` the share of all."""

    block: int
    residue: int
    mismatched: int
    tokens: int
    times: float


@dataclass(frozen=True, slots=True)
class Siblings:
    """Samples of one prompt over their shared prefix, on one side. `tokens` 0: vacuous, nothing was shared."""

    side: str
    pairs: int
    tokens: int
    mismatched: int
    first: tuple[str, str, int] | None


@dataclass(frozen=True, slots=True)
class Signs:
    """All diagnostics of one comparison. `remarks` are what they suggest, in words."""

    offsets: tuple[Offset, ...]
    last_only: int
    slope: float | None
    correlation: float | None
    lanes: tuple[Lane, ...]
    reach: Mapping[int, tuple[int, int]]
    versions: Mapping[str, tuple[int, int | None, float | None]]
    siblings: tuple[Siblings, ...]
    remarks: tuple[str, ...]


def signs(a: Side, b: Side, alignment: Alignment, figures: Figures, sweep: Sweep) -> Signs:
    """Everything that the two sides show beyond their figures.

    Args:
        sweep: that saw each block of them.

    Raises:
        CompareError: a file cannot be read.
    """
    sweep.close()
    offsets = _offsets(sweep, alignment.same_elements) if figures.mismatched != 0 else ()
    slope, correlation = sweep.line() if not figures.non_finite else (None, None)
    lanes, reach = _places(sweep) if alignment.same_elements else ((), {})
    last_only = sum(
        1
        for row in figures.per_sequence
        if row.mismatched == 1 and row.valid > 1 and row.first_mismatch == row.last_valid
    )
    siblings = tuple(found for name, side in (("A", a), ("B", b)) if (found := _siblings(name, side)) is not None)
    remarks = _remarks(figures, offsets, last_only, slope, lanes, siblings)
    return Signs(offsets, last_only, slope, correlation, lanes, reach, _versions(a, b, figures), siblings, remarks)


def _offsets(sweep: Sweep, same_elements: bool) -> tuple[Offset, ...]:
    return tuple(
        Offset(
            k,
            sweep.tokens[k],
            sweep.mismatched[k] if same_elements else None,
            sweep.gaps[k].over(sweep.tokens[k]) if sweep.tokens[k] and not sweep.gaps[k].skipped else None,
        )
        for k in SHIFTS
    )


def _places(sweep: Sweep) -> tuple[tuple[Lane, ...], dict[int, tuple[int, int]]]:
    """Differing tokens by position modulo each block, and by the position's power of two."""
    reach = {}
    for power in range(len(sweep.reached).bit_length() + 1):
        own = slice(1 << power - 1 if power else 0, 1 << power)
        if every := int(sweep.reached[own].sum()):
            reach[power] = int(sweep.differing[own].sum()), every
    lanes = tuple(
        lane
        for size in LANES
        if (lane := _lane(size, _folded(sweep.reached, size), _folded(sweep.differing, size))) is not None
    )
    return lanes, reach


def _folded(by_position: np.ndarray, size: int) -> np.ndarray:
    """Numbers by position, added up modulo `size`."""
    padded = np.append(by_position, np.zeros(-len(by_position) % size, by_position.dtype))
    folded: np.ndarray = padded.reshape(-1, size).sum(axis=0)
    return folded


def _lane(size: int, tokens: np.ndarray, differ: np.ndarray) -> Lane | None:
    whole, wrong = int(tokens.sum()), int(differ.sum())
    if not wrong or np.count_nonzero(tokens) < size:
        return None
    shares = differ / tokens
    residue = int(shares.argmax())
    return Lane(size, residue, int(differ[residue]), int(tokens[residue]), float(shares[residue] / (wrong / whole)))


def _versions(a: Side, b: Side, figures: Figures) -> dict[str, tuple[int, int | None, float | None]]:
    """Valid tokens, differing tokens and mean difference for each policy version: of sequences that one version made,
    and of the segments of others, where the dump says where they begin."""
    found: dict[str, list[_Share]] = {}
    for row in figures.per_sequence:
        one, other = a.sequences[row.request], b.sequences[row.request]
        segments = one.segments or other.segments
        if segments:
            for version, share in _shares(one, other, segments):
                found.setdefault(version, []).append(share)
        elif row.policy:
            total = None if row.mean_abs is None and row.valid else (row.mean_abs or 0.0) * row.valid
            found.setdefault("+".join(row.policy), []).append((row.valid, row.mismatched, total))
    return {version: _together(shares) for version, shares in sorted(found.items())}


_Share = tuple[int, int | None, float | None]
"""Valid tokens, differing ones, and the sum of abs(d)."""


def _shares(one: Sequence, other: Sequence, segments: Segments) -> Iterator[tuple[str, _Share]]:
    """The share of each segment of one response."""
    bits, twin, mask = one.logprobs.bits(), other.logprobs.bits(), one.mask.bits() != 0
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(other.logprobs.element.values(twin) - one.logprobs.element.values(bits))
    same = one.logprobs.element is other.logprobs.element
    ends = [start for start, _version in segments[1:]] + [len(mask)]
    for (start, version), end in zip(segments, ends, strict=True):
        own = mask[start:end]
        total = ExactSum()
        total.add(gap[start:end][own])
        wrong = int(np.count_nonzero((bits[start:end] != twin[start:end]) & own)) if same else None
        yield version, (int(np.count_nonzero(own)), wrong, None if total.skipped else total.over(1))


def _together(shares: list[_Share]) -> _Share:
    """Of several shares: tokens, differing ones, and the mean difference."""
    valid = sum(share[0] for share in shares)
    wrong = None if any(share[1] is None for share in shares) else sum(share[1] or 0 for share in shares)
    if not valid or any(share[2] is None for share in shares):
        return valid, wrong, None
    total = ExactSum()
    total.add(np.array([share[2] for share in shares]))
    return valid, wrong, total.over(valid)


def _siblings(name: str, side: Side) -> Siblings | None:
    """Samples of one prompt: over a shared prefix the conditional probabilities must be equal.

    A prompt is what stands before the first valid position. None where tokens or prompts are not known, or no prompt
    stands there twice.
    """
    groups: dict[bytes, list[Sequence]] = {}
    for sequence in side.sequences.values():
        if sequence.tokens is None or sequence.prompt is None:
            return None
        valid = np.flatnonzero(sequence.mask.bits())
        before = ids(sequence.tokens)[: int(valid[0])] if valid.size else ids(sequence.tokens)
        groups.setdefault(ids(sequence.prompt).tobytes() + b"|" + before.tobytes(), []).append(sequence)
    tokens = mismatched = pairs = 0
    first = None
    for one, other in _couples(groups):
        own, other_ids = ids(one.tokens), ids(other.tokens)  # type: ignore[arg-type]
        if token_digest(one) == token_digest(other):
            shared = len(own)
        else:
            size = min(len(own), len(other_ids))
            fork = np.flatnonzero(own[:size] != other_ids[:size])
            shared = int(fork[0]) if fork.size else size
        pairs += 1
        both = (one.mask.bits()[:shared] != 0) & (other.mask.bits()[:shared] != 0)
        wrong = np.flatnonzero((one.logprobs.bits()[:shared] != other.logprobs.bits()[:shared]) & both)
        tokens += int(np.count_nonzero(both))
        mismatched += len(wrong)
        if wrong.size and first is None:
            first = (one.request, other.request, int(wrong[0]))
    return Siblings(name, pairs, tokens, mismatched, first) if pairs else None


def _couples(groups: Mapping[bytes, list[Sequence]]) -> Iterator[tuple[Sequence, Sequence]]:
    for members in groups.values():
        same = [one for one in members if one.logprobs.element is members[0].logprobs.element]
        yield from (
            combinations(same[:_PER_GROUP], 2)
            if len(same) <= _PER_GROUP // 8
            else ((same[0], other) for other in same[1:])
        )


def _remarks(
    figures: Figures,
    offsets: tuple[Offset, ...],
    last_only: int,
    slope: float | None,
    lanes: tuple[Lane, ...],
    siblings: tuple[Siblings, ...],
) -> tuple[str, ...]:
    found = []
    mae = figures.metrics.get("logprob_mae")
    for offset in offsets:
        if mae and offset.mae is not None and offset.tokens > 1 and offset.mae < POSSIBLE * mae:
            found.append(
                f"shifted by {offset.k:+d} positions the mean difference is {offset.mae:.6g} instead of {mae:.6g}: "
                "a token shift is possible"
            )
    if last_only and last_only == figures.sequences_differing:
        found.append(
            f"only the last valid token differs, in {last_only} sequences: is the end-of-text token counted alike?"
        )
    for side, number in figures.zero_tokens.items():
        if number > POSSIBLE * figures.valid:
            found.append(f"{number} of {figures.valid} numbers of side {side} are exactly 0: scores that nobody made?")
    if figures.ends_in_zero:
        found.append(
            f"{figures.ends_in_zero} sequences end in a log-probability of exactly 0: a token that nobody scored?"
        )
    if slope is not None and mae and abs(slope - 1) > POSSIBLE:
        found.append(f"b grows with a by {slope:.4g}: a temperature or another basis is possible (hypothesis only)")
    for lane in lanes:
        if lane.times > 4 and lane.mismatched > 8:
            found.append(
                f"positions {lane.residue} modulo {lane.block} differ {lane.times:.2g} times as often as others"
            )
    for own in siblings:
        if not own.tokens:
            found.append(f"siblings of side {own.side} share no token: VACUOUS")
        elif own.mismatched and own.first is not None:
            found.append(
                f"side {own.side}: {own.mismatched} of {own.tokens} tokens differ between samples of one prompt over "
                f"their shared prefix, first {own.first[0]} against {own.first[1]} at {own.first[2]}: that side is "
                "sensitive to layout or state"
            )
    return tuple(found)
