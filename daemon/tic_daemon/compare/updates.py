"""Two versions of a policy, the same tokens: an early pair of dumps beside the late one.

It answers two questions. Does the difference between the sides grow with the updates? Only fixed tokens can tell:
samples of another round are other tokens. And did an update arrive? A fixed set of tokens, scored before and after
it, is an oracle: a side that gives the same bits while the other one moved still holds the old weights.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tic_daemon.compare.align import align
from tic_daemon.compare.figures import Figures, measure
from tic_daemon.compare.manifests import Claims, claims
from tic_daemon.compare.noise import Floor
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.sides import Side
from tic_daemon.evidence.judge import Relation


@dataclass(frozen=True, slots=True)
class Update:
    """An early pair beside the late one.

    Attributes:
        unfit: why they cannot be held against each other, or "". Then no number is given.
        versions: of the early and of the late pair, None where nobody says it or the sides of a pair disagree.
        same_tokens: token ids or manifests show that both pairs scored the same tokens.
        valid: tokens of a pair.
        early, late: mean difference between the sides.
        grown, requests: requests whose mean difference grew, of all that have one.
        changed_a, changed_b: tokens of a side whose bits differ between the versions, None if they cannot be compared.
        moved_a, moved_b: their mean difference.
    """

    unfit: str
    versions: tuple[str | None, str | None] = (None, None)
    same_tokens: bool = False
    valid: int = 0
    early: float | None = None
    late: float | None = None
    grown: int = 0
    requests: int = 0
    changed_a: int | None = None
    changed_b: int | None = None
    moved_a: float | None = None
    moved_b: float | None = None


def update(early: tuple[Path, Path], a: Side, b: Side, said: tuple[Claims, Claims], late: Figures | None) -> Update:
    """An early pair beside the sides of a comparison, which are open.

    Args:
        early: its A and its B. said: claims of the late sides. late: figures of the late pair.

    Raises:
        CompareError: a file cannot be read.
    """
    with ExitStack() as stack:
        readings = [stack.enter_context(Reading(path)) for path in early]
        old_a, old_b = readings[0].sides[0], readings[1].sides[-1]
        old_said = claims(old_a), claims(old_b)
        versions = _version(old_a, old_b, old_said), _version(a, b, said)
        if versions[0] is not None and versions[0] == versions[1]:
            return Update(f"both pairs are of policy version {versions[0]}: no update lies between them", versions)
        figures, tokens = [], []
        for name, one, other in (("early pair", old_a, old_b), ("side A", old_a, a), ("side B", old_b, b)):
            aligned = align(one, other)
            if aligned.differs:
                return Update(f"{name}: {aligned.differs[0]}", versions)
            own = measure(one, other, aligned)
            if own is None:
                return Update(f"{name}: nothing was compared", versions)
            figures.append(own)
            tokens.append(aligned.tokens is Relation.EQUAL)
        for reading in readings:
            reading.unchanged()
    first, changed_a, changed_b = figures
    inputs = {claim.inputs for claim in (*old_said, *said)}
    pairs = _pairs(first, late) if late is not None else []
    return Update(
        "", versions, all(tokens[1:]) or (len(inputs) == 1 and None not in inputs), first.valid,
        first.metrics["logprob_mae"], late.metrics["logprob_mae"] if late else None,
        sum(after > before for before, after in pairs), len(pairs),
        changed_a.mismatched, changed_b.mismatched, changed_a.metrics["logprob_mae"], changed_b.metrics["logprob_mae"],
    )  # fmt: skip


def _version(a: Side, b: Side, said: tuple[Claims, Claims]) -> str | None:
    """The one version that both sides of a pair name."""
    found = {claim.policy for claim in said if claim.policy is not None}
    found |= {"+".join(own.policy) for side in (a, b) for own in side.sequences.values() if own.policy}
    return found.pop() if len(found) == 1 else None


def _pairs(early: Figures, late: Figures) -> list[tuple[float, float]]:
    means = {row.request: row.mean_abs for row in early.per_sequence}
    return [
        (before, row.mean_abs)
        for row in late.per_sequence
        if (before := means.get(row.request)) is not None and row.mean_abs is not None
    ]


def known(found: Update | None) -> list[str]:
    """What an update that is known to lie between the pairs shows to be wrong."""
    if found is None:
        return []
    if found.unfit:
        return [f"early pair: {found.unfit}"]
    if not _apart(found) or None in (found.changed_a, found.changed_b):
        return []
    return [
        f"the update from {found.versions[0]} to {found.versions[1]} changed {moved} of {found.valid} tokens of side "
        f"{other} and none of side {name}: it did not arrive there"
        for name, changed, other, moved in (
            ("A", found.changed_a, "B", found.changed_b), ("B", found.changed_b, "A", found.changed_a),
        )
        if not changed and moved
    ]  # fmt: skip


def idle(found: Update | None) -> str:
    """Why an update shows nothing: it changed no number on either side; or ""."""
    if found is None or found.unfit or not _apart(found) or found.changed_a != 0 or found.changed_b != 0:
        return ""
    return f"the update from {found.versions[0]} to {found.versions[1]} changed no number on either side"


def _apart(found: Update) -> bool:
    return None not in found.versions and found.versions[0] != found.versions[1]


def unshown(found: Update | None) -> tuple[str, ...]:
    """What is not shown of an early pair."""
    if found is None or found.unfit:
        return ()
    words = [] if found.same_tokens else ["same tokens in the early and the late pair"]
    return (*words, *([] if _apart(found) else ["policy versions of the early and the late pair"]))


def says(found: Update | None, floors: tuple[Floor | None, Floor | None]) -> list[str]:
    """What the two versions show, in words."""
    if found is None or found.unfit or found.early is None or found.late is None:
        return []
    change = found.late - found.early
    words = [
        f"the mean difference is {found.early:.6g} early and {found.late:.6g} late, and grew in {found.grown} of "
        f"{found.requests} requests"
    ]
    noise = [own.value for own in floors if own is not None and own.value is not None]
    if len(noise) < len(floors):
        words.append("whether that is beyond noise: not shown, both sides need repeats with receipts")
    else:
        word = "within" if abs(change) <= max(noise) else "beyond"
        words.append(f"a change of {change:+.6g} is {word} the noise floor of {max(noise):.6g}")
    words += [
        f"between the versions {changed} of {found.valid} tokens of side {name} changed"
        for name, changed in (("A", found.changed_a), ("B", found.changed_b))
        if changed is not None
    ]
    return words
