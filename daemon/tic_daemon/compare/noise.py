"""The noise of one side: the same side scored again, same tokens and policy, every pair held against each other.

A floor is the largest pairwise value. It is shown only if each repeat has a receipt of its own: a copy of a file agrees
with itself and says nothing. "Within noise" needs the floors of both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from tic_daemon.compare.align import align
from tic_daemon.compare.figures import measure
from tic_daemon.compare.manifests import Claims, Receipt, claims
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.sides import Side

METRICS: Final = ("logprob_mae", "logprob_max", "probability_mae")

_Read = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise of one side.

    Attributes:
        repeats, pairs: files, and pairs of them that were compared.
        mismatched: the most tokens that differ in a pair; None where bits cannot be compared.
        metrics: the largest of each over all pairs; None where a pair has none.
        valid: valid tokens of a pair.
        shown: each repeat has a receipt of its own.
        undefined: why there is no floor, or "".
        files: path and SHA-256 of each file as it was read; `manifests` the same of what names them.
        said: path of each file and the hash of what its manifest says of it.
    """

    side: str
    repeats: int
    pairs: int
    mismatched: int | None
    metrics: Mapping[str, float | None]
    valid: int
    shown: bool
    undefined: str
    files: tuple[tuple[str, str], ...] = ()
    manifests: tuple[tuple[str, str], ...] = ()
    said: tuple[tuple[str, str], ...] = ()

    @property
    def value(self) -> float | None:
        """The floor of `logprob_mae` where it is shown."""
        return self.metrics.get("logprob_mae") if self.shown and not self.undefined else None


def floor(name: str, part: str, paths: Sequence[Path], manifests: Mapping[str, Path] | None = None) -> Floor:
    """The floor of one side from its own file and its repeats.

    Args:
        name: "A" or "B".
        part: which side of files that hold both: "rollout", "trainer" or "".
        paths: the side's file, then the repeats.
        manifests: that name them, where they are not beside them.

    Raises:
        CompareError: a file cannot be read.
    """
    with ExitStack() as stack:
        readings = [stack.enter_context(Reading(path)) for path in paths]
        sides = [_own(reading, part) for reading in readings]
        said = [claims(side, (manifests or {}).get(side.path)) for side in sides]
        read = (
            tuple((side.path, side.sha256) for side in sides),
            tuple((claim.source, claim.digest) for claim in said if claim.source),
            tuple((side.path, claim.said) for side, claim in zip(sides, said, strict=True) if claim.source),
        )
        copies = [
            f"{one.path} and {other.path} are one thing: a copy, or one receipt"
            for (one, first), (other, second) in combinations(zip(sides, said, strict=True), 2)
            if _copied(one.sha256 == other.sha256, first.receipt, second.receipt)
        ]
        if copies:
            return _none(name, read, copies[0])
        found = [(align(one, other), one, other) for one, other in combinations(sides, 2)]
        unlike = next((alignment.differs[0] for alignment, _one, _other in found if alignment.differs), "")
        if unlike or _several(said):
            return _none(name, read, unlike or "the repeats are of different policy versions, inputs or bases")
        figures = [measure(one, other, alignment) for alignment, one, other in found]
        for reading in readings:
            reading.unchanged()
    every = [own for own in figures if own is not None]
    if len(every) < len(figures):
        return _none(name, read, "nothing was compared")
    metrics = {metric: _largest([own.metrics[metric] for own in every]) for metric in METRICS}
    mismatched = [own.mismatched for own in every]
    most = None if any(one is None for one in mismatched) else max(one or 0 for one in mismatched)
    receipts = {claim.receipt for claim in said}
    shown = None not in receipts and len(receipts) == len(said)
    bad = next((own.undefined["logprob_mae"] for own in every if own.metrics["logprob_mae"] is None), "")
    return Floor(name, len(paths), len(every), most, metrics, every[0].valid, shown, bad, *read)


def _copied(equal_files: bool, first: Receipt | None, second: Receipt | None) -> bool:
    """Whether two files are of one act of producing: by their receipt, or equal and without two receipts."""
    if first is None or second is None:
        return equal_files
    return first == second


def _own(reading: Reading, part: str) -> Side:
    return next((side for side in reading.sides if side.part == part), reading.sides[0])


def _several(said: Sequence[Claims]) -> bool:
    """Whether the manifests name different things that must be the same."""
    return any(
        len({getattr(claim, key) for claim in said if getattr(claim, key) is not None}) > 1
        for key in ("policy", "inputs", "basis")
    )


def _largest(values: Sequence[float | None]) -> float | None:
    return None if any(value is None for value in values) else max(value or 0.0 for value in values)


def _none(name: str, read: tuple[_Read, _Read, _Read], why: str) -> Floor:
    return Floor(name, len(read[0]), 0, None, dict.fromkeys(METRICS), 0, False, why, *read)


def says(a: Floor | None, b: Floor | None, mismatched: int | None, value: float | None) -> list[str]:
    """What the floors say of a comparison, in words: the side that they rule out, and whether it lies within noise."""
    found = [f"noise of side {own.side}: undefined: {own.undefined}" for own in (a, b) if own and own.undefined]
    if a is None or b is None or a.undefined or b.undefined:
        return found
    found += _ruled_out(a, b, mismatched)
    floors = a.value, b.value
    if floors[0] is None or floors[1] is None:
        return [*found, "within noise: not shown, each repeat needs a receipt of its own"]
    larger = max(floors[0], floors[1])
    if value is None:
        return found
    if larger == 0:
        return [*found, "floor 0: " + ("no difference" if value == 0 else f"{value:.6g} has no ratio to it")]
    word = "within" if value <= larger else "beyond"
    return [*found, f"{word} noise: {value:.6g} against a floor of {larger:.6g}, {value / larger:.3g} times"]


def _ruled_out(a: Floor, b: Floor, mismatched: int | None) -> list[str]:
    """Whichever two are equal rule out that side."""
    if a.mismatched is None or b.mismatched is None:
        return []
    if a.mismatched and b.mismatched:
        return ["neither side repeats itself bit for bit: make each repeatable before the sides are compared"]
    if a.mismatched or b.mismatched:
        moving, still = ("A", "B") if a.mismatched else ("B", "A")
        return [f"side {still} repeats itself bit for bit and side {moving} does not: look at side {moving} first"]
    if mismatched:
        return ["both sides repeat themselves bit for bit: look at weights, arithmetic and the scoring path"]
    return []
