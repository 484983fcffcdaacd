"""What of a comparison is kept besides its figures: each sequence with a strip, and a choice of its tokens.

The files are read a second time, in the same pieces as for the figures, while they are open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Final

import numpy as np

from tic_daemon.compare.align import Alignment, ids
from tic_daemon.compare.blocks import Block, blocks
from tic_daemon.compare.figures import Figures, SequenceFigures
from tic_daemon.compare.sides import Side, Tensor, count
from tic_daemon.store.comparison_rows import ComparisonSequenceRow, ComparisonTokenRow

SEQUENCES: Final = 2000
"""Sequences that are kept: those that differ first, then in the order of ids."""
FIRSTS: Final = 1000
LARGEST: Final = 100
PIECES: Final = 128
QUANTILES: Final = (50, 95, 99)


@dataclass(slots=True)
class Detail:
    """Rows of one comparison."""

    sequences: list[ComparisonSequenceRow] = field(default_factory=list)
    tokens: list[ComparisonTokenRow] = field(default_factory=list)


@dataclass(slots=True)
class _Token:
    """A token that may be kept."""

    request: str
    position: int
    bits: tuple[str, str]
    values: tuple[float, float]
    why: list[str]

    @property
    def difference(self) -> float | None:
        found = self.values[1] - self.values[0]
        return found if isfinite(found) else None


def detail(comparison_id: str, a: Side, b: Side, alignment: Alignment, figures: Figures) -> Detail:
    """Sequences and tokens of a comparison.

    Raises:
        CompareError: a file cannot be read.
    """
    rows = {row.request: row for row in figures.per_sequence}
    order = sorted(figures.per_sequence, key=lambda row: (not (row.mismatched or row.non_finite), row.request))
    kept = {row.request for row in order[:SEQUENCES]}
    found: dict[str, ComparisonSequenceRow] = {}
    tokens: dict[tuple[str, int], _Token] = {}
    largest: list[tuple[float, str, int]] = []
    counts = {"first": 0, "not finite": 0}
    for block in blocks(a, b, alignment.requests, whole=alignment.valid == alignment.positions):
        places = block.positions
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(block.values_b - block.values_a)
        differ = block.differ
        if differ is not None:
            _firsts(tokens, counts, "first", block, places, differ)
        finite = np.isfinite(block.values_a) & np.isfinite(block.values_b)
        _firsts(tokens, counts, "not finite", block, places, ~finite)
        largest = _largest(tokens, largest, block, places, gap)
        for own, request in enumerate(block.requests):
            if request in kept:
                begin, end = int(block.starts[own]), int(block.starts[own + 1])
                length = count(a.sequences[request].logprobs)
                strips = _strips(places[begin:end], None if differ is None else differ[begin:end], length)
                found[request] = _sequence(comparison_id, rows[request], gap[begin:end], strips)
    for value, request, position in largest:
        if value > 0:
            tokens[request, position].why.append("largest")
    chosen = [token for token in tokens.values() if token.why]
    return Detail(
        [found[row.request] for row in order[:SEQUENCES]],
        [
            ComparisonTokenRow(
                comparison_id, token.request, token.position, ", ".join(token.why), *token.values, *token.bits,
                token.difference, _token_id(a.sequences[token.request].tokens, token.position),
            )
            for token in sorted(chosen, key=lambda token: (token.request, token.position))
        ],
    )  # fmt: skip


def _token_id(tokens: Tensor | None, position: int) -> int | None:
    known = ids(tokens) if tokens is not None else ()
    return int(known[position]) if position < len(known) else None


def _token(block: Block, index: int, place: tuple[str, int]) -> _Token:
    bits = (
        f"{int(side[index]):0{2 * element.size}x}"
        for side, element in ((block.a, block.elements[0]), (block.b, block.elements[1]))
    )
    values = float(block.values_a[index]), float(block.values_b[index])
    first, second = bits
    return _Token(*place, (first, second), values, [])


def _firsts(
    tokens: dict[tuple[str, int], _Token],
    counts: dict[str, int],
    why: str,
    block: Block,
    places: np.ndarray,
    flags: np.ndarray,
) -> None:
    """The first flagged token of each sequence of a block. `places`: the response position of each token."""
    flagged = np.flatnonzero(flags)
    owners = np.searchsorted(block.starts, flagged, side="right") - 1
    _, firsts = np.unique(owners, return_index=True)
    for at in firsts.tolist():
        if counts[why] >= FIRSTS:
            return
        counts[why] += 1
        index = int(flagged[at])
        key = block.requests[int(owners[at])], int(places[index])
        tokens.setdefault(key, _token(block, index, key)).why.append(why)


def _largest(
    tokens: dict[tuple[str, int], _Token],
    before: list[tuple[float, str, int]],
    block: Block,
    places: np.ndarray,
    gap: np.ndarray,
) -> list[tuple[float, str, int]]:
    """The largest differences so far; earlier tokens win over later ones of the same difference."""
    values = np.where(np.isfinite(gap), gap, 0.0)
    candidates = np.arange(len(values))
    if len(before) == LARGEST:
        candidates = np.flatnonzero(values > before[-1][0])
    order = candidates[np.argsort(-values[candidates], kind="stable")[:LARGEST]]
    found = list(before)
    for index in order.tolist():
        own = int(np.searchsorted(block.starts, index, side="right")) - 1
        key = block.requests[own], int(places[index])
        tokens.setdefault(key, _token(block, index, key))
        found.append((float(values[index]), *key))
    found.sort(key=lambda one: -one[0])  # stable: in the order in which they were read
    for _value, request, position in found[LARGEST:]:
        if not tokens[request, position].why:
            del tokens[request, position]
    return found[:LARGEST]


def _strips(positions: np.ndarray, differ: np.ndarray | None, length: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Differing and valid tokens in equal pieces of a response of so many positions."""
    pieces = min(PIECES, length)
    if not pieces:
        return (), ()
    piece = positions * pieces // length
    valid = tuple(np.bincount(piece, minlength=pieces).tolist())
    return () if differ is None else tuple(np.bincount(piece[differ], minlength=pieces).tolist()), valid


def _sequence(
    comparison_id: str, row: SequenceFigures, gap: np.ndarray, strips: tuple[tuple[int, ...], tuple[int, ...]]
) -> ComparisonSequenceRow:
    p50 = p95 = p99 = None
    if len(gap) and not row.non_finite and np.isfinite(gap).all():
        ranks = [ceil(len(gap) * share / 100) - 1 for share in QUANTILES]
        p50, p95, p99 = np.partition(gap, ranks)[ranks].tolist()
    return ComparisonSequenceRow(
        comparison_id, row.request, row.valid, row.mismatched, row.first_mismatch, row.longest_run, row.longest_run_raw,
        row.max_abs, row.max_at, row.mean_abs, p50, p95, p99, row.non_finite, row.prompt_length, row.response_length,
        row.group, ", ".join(row.policy), *strips,
    )  # fmt: skip
