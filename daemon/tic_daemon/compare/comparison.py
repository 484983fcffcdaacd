"""One comparison from two files to a verdict: reads, aligns, measures, looks at what manifests say, and judges.

What a person declares fills in what no manifest says and never overrides one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tic_daemon.collecting import seldom
from tic_daemon.compare import replay
from tic_daemon.compare.align import Alignment, align, input_digest
from tic_daemon.compare.figures import POSITIVE, Figures, measure
from tic_daemon.compare.manifests import Claims, claims
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.plainfiles import versions
from tic_daemon.compare.reading import Reading, token_file
from tic_daemon.compare.said import word
from tic_daemon.compare.sides import Sequence, Side
from tic_daemon.compare.signs import Signs, signs
from tic_daemon.compare.sweep import Sweep
from tic_daemon.compare.version import COMPARATOR
from tic_daemon.errors import CompareError
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.evidence.judge import BITWISE, Facts, Goal, Relation, Standing, Verdict, judge
from tic_daemon.evidence.labels import Label

if TYPE_CHECKING:  # what most comparisons do not need is loaded where it is needed
    from tic_daemon.compare.noise import Floor
    from tic_daemon.compare.updates import Update
    from tic_daemon.ledger.criterion import Criterion


@dataclass(frozen=True, slots=True)
class Declared:
    """What a person declares, and what is compared for.

    Attributes:
        basis, policy: of both sides.
        tokens: file of `{request: (prompt ids, response ids)}` that both sides scored.
        goal: what the comparison is to show.
        criterion: its file. planted: report of the planted error.
        plant: what error was planted in side B, if this run is to prove a criterion.
        standing: towards faults. standing_why: who says so.
        run, step, intervention: as in a `[mismatch]` record.
        repeats_a, repeats_b: the same side scored again, for its noise.
        early: both sides of the same tokens under an earlier version of the policy.
        order, proved: what a store shows, in words: that the criterion is older than the run's first number, and that
            it was seen to judge a planted error FAIL. "": nothing.
    """

    basis: str | None = None
    policy: str | None = None
    tokens: Path | None = None
    goal: Goal = Goal.UNKNOWN
    criterion: Path | None = None
    planted: Path | None = None
    plant: str = ""
    standing: Standing = Standing.UNKNOWN
    standing_why: str = ""
    run: str | None = None
    step: int | None = None
    intervention: str | None = None
    repeats_a: tuple[Path, ...] = ()
    repeats_b: tuple[Path, ...] = ()
    early: tuple[Path, Path] | None = None
    order: str = ""
    proved: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """What a comparison hangs on besides the bytes of its sides. `role`: tokens, repeat_a, repeat_b, manifest: a file;
    said: what a manifest says of that file, `sha256` being the hash of said.py."""

    role: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """All that one comparison found. `id` is the same for the same files, declarations and program."""

    id: str
    a: Side
    b: Side
    claims_a: Claims
    claims_b: Claims
    declared: Declared
    alignment: Alignment
    figures: Figures | None
    signs: Signs | None
    criterion: Criterion | None
    not_planted: str
    facts: Facts
    verdict: Verdict
    inputs: str
    through: Mapping[str, Any]
    floors: tuple[Floor | None, Floor | None] = (None, None)
    update: Update | None = None
    tokens_sha256: str = ""

    @property
    def beside(self) -> tuple[Beside, ...]:
        """What was read besides the two sides' files, as it was then."""
        found = [Beside("tokens", str(self.declared.tokens), self.tokens_sha256)] if self.tokens_sha256 else []
        both = ((self.a.path, self.claims_a), (self.b.path, self.claims_b))
        manifests = [(own.source, own.digest) for _path, own in both if own.source]
        said = [(path, own.said) for path, own in both if own.source]
        for letter, own in zip("ab", self.floors, strict=True):
            if own is not None:
                found += [Beside(f"repeat_{letter}", path, sha256) for path, sha256 in own.files[1:]]
                manifests += own.manifests
                said += own.said
        found += [Beside("manifest", path, sha256) for path, sha256 in manifests]
        return tuple(dict.fromkeys([*found, *(Beside("said", path, sha256) for path, sha256 in said)]))

    @property
    def made_at(self) -> datetime | None:
        """When the later side was made, by both receipts; None where one does not say it with its zone."""
        times = []
        for own in (self.claims_a, self.claims_b):
            try:
                time = datetime.fromisoformat(own.receipt.produced_at) if own.receipt else None
            except ValueError:
                return None
            if time is None or time.tzinfo is None:
                return None
            times.append(time)
        return max(times)

    def agreed(self, name: str) -> Any:
        """What both manifests say alike, or one of them if the other says nothing, else what was declared."""
        first, second = getattr(self.claims_a, name), getattr(self.claims_b, name)
        if first is not None and second is not None and first != second:
            return None
        found = first if first is not None else second
        return found if found is not None else getattr(self.declared, name, None)


Look = Callable[[Side, Side, Alignment, Figures], None]
Manifests = Mapping[str, Path]


def compare(
    a: Path,
    b: Path | None,
    declared: Declared | None = None,
    *,
    manifests: Manifests | None = None,
    look: Look | None = None,
    tell: Callable[[int], None] | None = None,
    aligned: Callable[[Alignment], None] | None = None,
) -> Comparison:
    """Compare two dumps, or the two sides of one file that holds both.

    Args:
        manifests: by file that is compared the manifest that names it, where it is not beside it.
        look: called while the files are open, if there is something that may be compared.
        aligned: called when it is known what there is to compare.
        tell: called with the number of tokens that were compared, now and then.

    Raises:
        CompareError: a file cannot be read, is malformed or asks for what is not safe; or what is declared contradicts
            a manifest.
    """
    declared, manifests = declared or Declared(), manifests or {}
    declared = replace(declared, basis=word(declared.basis), policy=word(declared.policy), run=word(declared.run))
    with ExitStack() as stack:
        stack.enter_context(seldom())
        first = stack.enter_context(Reading(a))
        second = first if b is None else stack.enter_context(Reading(b))
        left, right = _sides(first, second)
        claims_a, claims_b = claims(left, manifests.get(left.path)), claims(right, manifests.get(right.path))
        _no_contradiction(declared, claims_a, claims_b)
        tokens = ""
        if declared.tokens is not None:
            file = stack.enter_context(Opened(declared.tokens))
            left, right, tokens = *_with_tokens(left, right, file), file.sha256()
        left, right = _with_segments(left, claims_a), _with_segments(right, claims_b)
        alignment = align(left, right)
        if aligned is not None:
            aligned(alignment)
        sweep = Sweep(left, right, alignment)
        figures = measure(left, right, alignment, tell=tell, also=sweep.add)
        if look is not None and figures is not None:
            look(left, right, alignment, figures)
        shown = signs(left, right, alignment, figures, sweep) if figures is not None else None
        inputs = input_digest(left.sequences) if alignment.tokens is Relation.EQUAL else ""
        moved = _moved(declared.early, left, right, (claims_a, claims_b), figures) if declared.early else None
        first.unchanged()
        second.unchanged()
        if declared.tokens is not None:
            file.unchanged()
    bound = _criterion(declared.criterion) if declared.criterion is not None else None
    through = {
        "criterion": bound.sha256 if bound else None,
        "metric": bound.bound.metric if bound else None,
        "readers": [left.reader, right.reader],
        "elements": [list(pair) for pair in alignment.elements],
        "comparator": COMPARATOR,
    }
    not_planted = "no report of a planted error is given"
    if declared.planted is not None:
        not_planted = _planted(declared.planted, through)
    facts = _facts(left, right, claims_a, claims_b, declared, alignment, figures, bound, moved, not not_planted)
    verdict = _planting(facts) if declared.plant else judge(facts)
    floors = tuple(
        _floor(name, side, repeats, manifests) if repeats else None
        for name, side, repeats in (("A", left, declared.repeats_a), ("B", right, declared.repeats_b))
    )
    return Comparison(
        _id(left, right, declared, claims_a, claims_b, through), left, right, claims_a, claims_b, declared, alignment,
        figures, shown, bound, not_planted, facts, verdict, inputs, through, (floors[0], floors[1]), moved, tokens,
    )  # fmt: skip


def _moved(early: tuple[Path, Path], a: Side, b: Side, said: tuple[Claims, Claims], figures: Figures | None) -> Update:
    from tic_daemon.compare.updates import update  # noqa: PLC0415

    return update(early, a, b, said, figures)


def _of_update(moved: Update | None) -> tuple[list[str], str, tuple[str, ...]]:
    """What an early pair shows to be wrong, why it shows nothing, and what of it is not shown."""
    if moved is None:
        return [], "", ()
    from tic_daemon.compare.updates import idle, known, unshown  # noqa: PLC0415

    return known(moved), idle(moved), unshown(moved)


def _criterion(path: Path) -> Criterion:
    from tic_daemon.compare.criteria import criterion  # noqa: PLC0415

    return criterion(path)


def _planted(report: Path, through: Mapping[str, Any]) -> str:
    from tic_daemon.compare.criteria import planted  # noqa: PLC0415

    return planted(report, through)


def _floor(name: str, side: Side, repeats: tuple[Path, ...], manifests: Manifests) -> Floor:
    from tic_daemon.compare.noise import floor  # noqa: PLC0415

    return floor(name, side.part, [Path(side.path), *repeats], manifests)


def judged_again(found: Comparison, standing: Standing, why: str, order: str = "", proved: str = "") -> Comparison:
    """The same comparison, once a store has said where its numbers stand, and what it shows of the criterion."""
    declared = replace(found.declared, standing=standing, standing_why=why, order=order, proved=proved)
    facts = replace(
        found.facts, standing=standing, standing_why=why, bound_shown=found.facts.bound_shown or bool(order),
        planted=found.facts.planted or bool(proved),
    )  # fmt: skip
    verdict = _planting(facts) if declared.plant else judge(facts)
    own_id = _id(found.a, found.b, declared, found.claims_a, found.claims_b, found.through)
    return replace(found, id=own_id, declared=declared, facts=facts, verdict=verdict)


def _sides(first: Reading, second: Reading) -> tuple[Side, Side]:
    """Which side of each file is meant: of files that hold both, the rollout's first and the trainer's second."""
    if first is second:
        if len(first.sides) != 2:
            raise CompareError(f"{first.path} holds one side alone", "name the file of the other side too")
        return first.sides[0], first.sides[1]
    return first.sides[0], second.sides[-1]


def _no_contradiction(declared: Declared, claims_a: Claims, claims_b: Claims) -> None:
    for name in ("basis", "policy", "run", "step", "intervention"):
        wanted = getattr(declared, name)
        for side, said in (("A", getattr(claims_a, name)), ("B", getattr(claims_b, name))):
            if wanted is not None and said is not None and said != wanted:
                source = (claims_a if side == "A" else claims_b).source
                raise CompareError(
                    f"--{name} {wanted} contradicts {source}, which says {said} of side {side}",
                    "leave it out: a declaration fills in what no manifest says",
                )


def _with_tokens(a: Side, b: Side, file: Opened) -> tuple[Side, Side]:
    """Both sides with the tokens of a file where they have none of their own."""
    tokens = token_file(file)

    def own(side: Side) -> Side:
        lacking = [request for request in side.sequences if request not in tokens]
        refused = side.refused
        if lacking:
            refused += (f"{file.path} lacks the tokens of {len(lacking)} requests, first {lacking[0]!r}",)
        found: dict[str, Sequence] = {}
        for request, sequence in side.sequences.items():
            prompt, response = tokens.get(request, (None, None))
            given = sequence.tokens is None
            found[request] = replace(
                sequence,
                tokens=response if given else sequence.tokens,
                prompt=prompt if given and sequence.prompt is None else sequence.prompt,
            )
        return replace(side, sequences=found, refused=refused)

    return own(a), own(b)


def _with_segments(side: Side, said: Claims) -> Side:
    """The side with the segments that its manifest names, where it has none of its own.

    Raises:
        CompareError: the manifest names requests that the dump lacks, or contradicts its versions.
    """
    found = dict(side.sequences)
    for request, segments in (said.segments or {}).items():
        own = found.get(request)
        policy = versions([version for _start, version in segments])
        if own is None:
            raise CompareError(f"{said.source} names segments of {request!r}, which {side.path} lacks")
        if own.policy and set(own.policy) != set(policy):
            raise CompareError(f"{said.source}: segments of {request!r} are of {policy}, the dump says {own.policy}")
        if not own.segments:
            found[request] = replace(own, segments=segments, policy=policy)
    return replace(side, sequences=found)


def _relation(first: str | None, second: str | None, declared: str | None = None) -> Relation:
    first, second = first if first is not None else declared, second if second is not None else declared
    if first is None or second is None:
        return Relation.UNKNOWN
    return Relation.EQUAL if first == second else Relation.DIFFERENT


def _inputs(tokens: Relation, said: Relation) -> Relation:
    """Whether both sides scored the same inputs, by token ids and by manifests. Neither outweighs that the other knows
    them to differ: equal tokens may stand at other positions, and a file of tokens is a declaration."""
    if Relation.DIFFERENT in {tokens, said}:
        return Relation.DIFFERENT
    return tokens if tokens is not Relation.UNKNOWN else said


def _policy(a: Side, b: Side, said_a: str | None, said_b: str | None) -> Relation:
    """Whether both sides name the same policy versions for each request: the dumps, else what is said of them.

    A dump that names another version than its manifest, or than was declared, is known to differ.
    """
    both = [request for request in a.sequences if request in b.sequences]
    found = Relation.EQUAL if both else _relation(said_a, said_b)
    for request in both:
        one, other = a.sequences[request], b.sequences[request]
        first, second = one.policy or _one(said_a), other.policy or _one(said_b)
        contradicted = any(
            own.policy and said and own.policy != (said,) for own, said in ((one, said_a), (other, said_b))
        )
        if contradicted or (first and second and first != second):
            return Relation.DIFFERENT
        if not (first and second):
            found = Relation.UNKNOWN
    return found


def _one(said: str | None) -> tuple[str, ...]:
    return () if said is None else (said,)


def _facts(
    a: Side,
    b: Side,
    claims_a: Claims,
    claims_b: Claims,
    declared: Declared,
    alignment: Alignment,
    figures: Figures | None,
    bound: Criterion | None,
    moved: Update | None,
    is_planted: bool,
) -> Facts:
    said_inputs = _relation(claims_a.inputs, claims_b.inputs)
    wrong, idle, unshown = _of_update(moved)
    differs = (
        *alignment.differs, *claims_a.gaps, *claims_b.gaps, *replay.known(claims_a, claims_b), *wrong,
        *(["inputs differ, as the manifests say"] if said_inputs is Relation.DIFFERENT else []),
    )  # fmt: skip
    one_file = a.inode is not None and a.inode == b.inode
    step = claims_a.step if claims_a.step is not None else claims_b.step if claims_b.step is not None else declared.step
    target = bound.target if bound else ""
    state_differs, state_unknown = _execution(bound, claims_a, claims_b)
    metric = bound.bound.metric if bound else ""
    zeros = figures.zeros if figures else ()
    proved = all((claims_a if side == "A" else claims_b).zeros_proved for side, _request in zeros)
    return Facts(
        standing=declared.standing,
        standing_why=declared.standing_why,
        differs=differs,
        elements=_elements(a, b, alignment, metric),
        no_logprobs=_no_logprobs(figures),
        sequences=len({*a.sequences, *b.sequences}),
        valid=alignment.valid,
        empty=len(alignment.empty),
        same_thing=_same_thing(a, b, claims_a, claims_b),
        equal_bytes=figures is not None and figures.mismatched == 0,
        producers=Relation.UNKNOWN if one_file else _receipts(claims_a, claims_b),
        non_finite=sum(figures.non_finite.values()) if figures else 0,
        non_finite_at=_place(figures.non_finite_at) if figures and figures.non_finite_at else "",
        zeros=len(zeros),
        zeros_proved=bool(zeros) and proved,
        path=target,
        path_hits=_hits(target, claims_a, claims_b) if target else None,
        state_differs=state_differs,
        state_unknown=state_unknown,
        unexercised=replay.unchanged(claims_a, claims_b) or idle,
        unshown=(*replay.unshown(claims_a, claims_b), *unshown),
        inputs=_inputs(alignment.tokens, said_inputs),
        basis=_relation(claims_a.basis, claims_b.basis, declared.basis),
        policy=_policy(a, b, claims_a.policy or declared.policy, claims_b.policy or declared.policy),
        goal=declared.goal,
        wanted_goal=bound.goal if bound else Goal.UNKNOWN,
        bound=bound.bound if bound else None,
        bound_shown=bool(bound and claims_a.criterion == claims_b.criterion == bound.sha256),
        outside=bound.outside(step) if bound else "",
        planted=is_planted,
        mismatched=figures.mismatched if figures else None,
        value=figures.metrics.get(metric) if figures else None,
        value_undefined=figures.undefined.get(metric, "") if figures else "",
    )


def _place(place: tuple[str, int]) -> str:
    return f"{place[0]!r} position {place[1]}"


def _elements(a: Side, b: Side, alignment: Alignment, metric: str) -> str:
    """What keeps the bits from being compared, or ""."""
    apart = [f"{one} in A and {other} in B" for one, other in alignment.elements if one != other]
    if apart:
        return f"element types differ: {', '.join(apart)}"
    if metric == BITWISE:
        cast = [f"{side.provenance} in {name}" for name, side in (("A", a), ("B", b)) if side.provenance != "native"]
        if cast:
            return f"the numbers are not in their original type: {', '.join(cast)}"
    return ""


def _no_logprobs(figures: Figures | None) -> str:
    if figures is None or figures.positive_max is None or figures.positive_max <= POSITIVE:
        return ""
    return f"{figures.positive} numbers are above 0, the largest {figures.positive_max:.6g}: no log-probabilities"


def _same_thing(a: Side, b: Side, claims_a: Claims, claims_b: Claims) -> str:
    if a.part == b.part or not (a.part and b.part):
        if a.inode is not None and a.inode == b.inode:
            return f"{a.path} and {b.path} are one file"
        if Path(a.path).resolve() == Path(b.path).resolve():
            return f"{a.path} and {b.path} are one path"
    bypass = claims_a.bypass or claims_b.bypass
    return f"with {bypass} both sides are one thing" if bypass else ""


def _receipts(claims_a: Claims, claims_b: Claims) -> Relation:
    if claims_a.receipt is None or claims_b.receipt is None:
        return Relation.UNKNOWN
    return Relation.EQUAL if claims_a.receipt == claims_b.receipt else Relation.DIFFERENT


def _hits(path: str, claims_a: Claims, claims_b: Claims) -> int | None:
    known = [claim.path_hits[path] for claim in (claims_a, claims_b) if claim.path_hits and path in claim.path_hits]
    return max(known) if known else None


def _execution(bound: Criterion | None, claims_a: Claims, claims_b: Claims) -> tuple[str, tuple[str, ...]]:
    """How the recorded state differs from what the criterion is for, and what of it nobody recorded."""
    differs, unknown = [], []
    for name, wanted in (bound.execution if bound else {}).items():
        said = [claim.execution[name] for claim in (claims_a, claims_b) if claim.execution and name in claim.execution]
        if not said:
            unknown.append(name)
        differs += [f"{name} is {one}, the criterion is for {wanted}" for one in said if one != wanted]
    return "; ".join(dict.fromkeys(differs)), tuple(unknown)


def _planting(facts: Facts) -> Verdict:
    """The verdict of a run that is to prove a criterion: whether the error is found, and nothing of a candidate."""

    def assumed(relation: Relation) -> Relation:
        return Relation.EQUAL if relation is Relation.UNKNOWN else relation

    found = judge(
        replace(
            facts,
            standing=Standing.CLEAR,
            inputs=assumed(facts.inputs),
            basis=assumed(facts.basis),
            policy=assumed(facts.policy),
            producers=Relation.DIFFERENT,
            bound_shown=True,
            planted=True,
            goal=facts.wanted_goal,
            path_hits=1 if facts.path else None,
            state_differs="",
            state_unknown=(),
            unexercised="",
            unshown=(),
            outside="",
        )
    )
    if found.label is Label.PASS:
        return Verdict(Label.INVALID, "the planted error was not found by the criterion", 10, ExitCode.INVALID)
    return found


def _id(a: Side, b: Side, declared: Declared, claims_a: Claims, claims_b: Claims, through: Mapping[str, Any]) -> str:
    """16 hexadecimal digits of what decides the result."""
    said = {key: str(value) for key, value in asdict(declared).items()}
    # Of a manifest that names other files too it counts what it says of these.
    claimed = [asdict(replace(own, digest="")) for own in (claims_a, claims_b)]
    whole = [COMPARATOR, a.sha256, a.part, b.sha256, b.part, said, *claimed, dict(through)]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[:16]
