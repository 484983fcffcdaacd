"""What one comparison may be called. One code path for the daemon and for `tic-daemon compare`.

The rules are tried in order and the first that holds decides (docs/reference/compare.md):

 1  its attempt is locked, or the numbers are suspect                               INVALID, exit code 13 if locked
 2  something that must be equal is known to differ, or the numbers are none        INVALID
 3  nothing was compared                                                            VACUOUS
    a sequence has no valid token                                                   INVALID
 4  both sides are one thing                                                        INVALID
 5  a valid number is not finite                                                    FAIL
 6  a sequence of zeros, and no proof that they are real                            INVALID
 7  the path that the criterion is about was not taken, or nothing was changed      VACUOUS
    the recorded state is another than the declared one                             INVALID
 8  something that must be equal is not shown to be                                 no label: the measurement
 9  no criterion, or none shown to be older than the numbers                        no label: the measurement
10  the criterion has not been seen to judge a planted error FAIL                   no label: pending re-check
11  the criterion                                                                   PASS or FAIL

What is unknown never counts as equal: taking a fact away never turns a verdict into PASS, nor into a FAIL of rule 11.
One fact is otherwise: who made bytes that differ. One producer of both is rule 4; producers that nobody names are asked
for only where all bytes are equal (rule 8), as two files that differ are not one file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Final

from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.evidence.labels import Label

BITWISE: Final = "bitwise"


class Relation(StrEnum):
    """How what both sides say of one thing relates."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Standing(StrEnum):
    """Where a comparison stands towards the CUDA faults of its attempt."""

    CLEAR = "clear"
    SUSPECT = "suspect"
    LOCKED = "locked"
    UNKNOWN = "unknown"


class Goal(StrEnum):
    """What a comparison is to show. No goal fills another's cell."""

    REPEATABILITY = "repeatability"
    LAYOUT_INVARIANCE = "layout_invariance"
    PREFILL_DECODE = "prefill_decode"
    CROSS_STACK = "cross_stack"
    TRAINING_LOOP = "training_loop"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bound:
    """A criterion as the judge sees it: `metric` must not be above `at_most`, or not below `at_least`.

    Metric `bitwise` has no bound: no bit of any valid token differs.

    Raises:
        ValueError: it has not exactly the bound that its metric needs.
    """

    metric: str
    at_most: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        given = [bound for bound in (self.at_most, self.at_least) if bound is not None]
        if len(given) != (0 if self.metric == BITWISE else 1) or not all(isfinite(bound) for bound in given):
            raise ValueError(f"{self.metric} needs one finite bound; {BITWISE} has none")

    def holds(self, value: float) -> bool:
        """Whether a value keeps it. NaN never does."""
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is not None and value >= self.at_least


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the judge looks at.

    Attributes:
        standing: towards faults. standing_why: in words.
        differs: what is known to be different, in words: request sets, shapes, masks, tokens, receipts.
        elements: what keeps the bits from being compared (types that differ or are not the original ones), or "".
        no_logprobs: why the numbers are no log-probabilities, or "".
        sequences, valid, empty: numbers of sequences, of valid tokens, of sequences without one.
        same_thing: why both sides are one thing, or "".
        equal_bytes: all valid numbers are equal bit for bit.
        producers: whether the sides are from one producer (EQUAL) or from two (DIFFERENT).
        non_finite: valid numbers that are not. non_finite_at: where the first is.
        zeros: sequences of nothing but zeros. zeros_proved: hook count, score source and negative control are there.
        path: the path that the criterion names, or "". path_hits: how often it was taken; None where nothing tells.
        state_differs: how the recorded execution state differs from the declared one, or "".
        state_unknown: declared states that nothing recorded.
        unexercised: why what was to be shown never happened (a replay's variable, an update), or "".
        unshown: what a replay or an update does not show, in words.
        inputs, basis, policy: whether both sides say the same.
        goal, wanted_goal: what is compared for, what the criterion is for.
        bound: the criterion, or None. bound_shown: it is shown to be older than the first number.
        outside: why the criterion does not cover this comparison, or "".
        planted: a planted error was judged FAIL through the same reader, metric, type and program.
        mismatched: valid tokens whose bits differ; None where they cannot be compared.
        value: of the criterion's metric, None where undefined. value_undefined: why.
    """

    standing: Standing = Standing.UNKNOWN
    standing_why: str = ""
    differs: tuple[str, ...] = ()
    elements: str = ""
    no_logprobs: str = ""
    sequences: int = 0
    valid: int = 0
    empty: int = 0
    same_thing: str = ""
    equal_bytes: bool = False
    producers: Relation = Relation.UNKNOWN
    non_finite: int = 0
    non_finite_at: str = ""
    zeros: int = 0
    zeros_proved: bool = False
    path: str = ""
    path_hits: int | None = None
    state_differs: str = ""
    state_unknown: tuple[str, ...] = ()
    unexercised: str = ""
    unshown: tuple[str, ...] = ()
    inputs: Relation = Relation.UNKNOWN
    basis: Relation = Relation.UNKNOWN
    policy: Relation = Relation.UNKNOWN
    goal: Goal = Goal.UNKNOWN
    wanted_goal: Goal = Goal.UNKNOWN
    bound: Bound | None = None
    bound_shown: bool = False
    outside: str = ""
    planted: bool = False
    mismatched: int | None = None
    value: float | None = None
    value_undefined: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`label` is None for a measurement that nothing judges; `rule` is the number of the rule that decided."""

    label: Label | None
    reason: str
    rule: int
    exit_code: ExitCode

    @property
    def words(self) -> str:
        """As a person reads it."""
        return f"{self.label or 'inconclusive'}: {self.reason}" if self.reason else str(self.label)


def judge(facts: Facts) -> Verdict:
    """The verdict on one comparison."""
    for rule in _RULES:
        found = rule(facts)
        if found is not None:
            return found
    raise AssertionError("the last rule always decides")


def _invalid(reason: str, rule: int, code: ExitCode = ExitCode.INVALID) -> Verdict:
    return Verdict(Label.INVALID, reason, rule, code)


def _fault(facts: Facts) -> Verdict | None:
    if facts.standing is Standing.LOCKED:
        return _invalid(f"CUDA fault: {facts.standing_why or 'the attempt is locked'}", 1, ExitCode.LOCKED)
    if facts.standing is Standing.SUSPECT:
        return _invalid(f"CUDA fault: {facts.standing_why or 'suspect'}", 1)
    return None


def _bitwise(facts: Facts) -> bool:
    """Whether the claim is one on bits: it is unless a criterion says otherwise."""
    return facts.bound is None or facts.bound.metric == BITWISE


def _different(facts: Facts) -> Verdict | None:
    known = list(facts.differs)
    known += [
        f"{name} differs between the sides"
        for name, relation in (("basis", facts.basis), ("policy version", facts.policy))
        if relation is Relation.DIFFERENT
    ]
    if facts.inputs is Relation.DIFFERENT and not facts.differs:
        known.append("inputs differ between the sides")
    if facts.elements and _bitwise(facts):
        known.append(facts.elements)
    if facts.no_logprobs:
        known.append(facts.no_logprobs)
    goals = {facts.goal, facts.wanted_goal}
    if facts.bound is not None and len(goals) > 1 and Goal.UNKNOWN not in goals:
        known.append(f"the criterion is for {facts.wanted_goal}, this comparison for {facts.goal}")
    return _invalid("; ".join(known), 2) if known else None


def _nothing(facts: Facts) -> Verdict | None:
    if not facts.sequences:
        return Verdict(Label.VACUOUS, "no sequence was compared", 3, ExitCode.INVALID)
    if not facts.valid:
        return Verdict(Label.VACUOUS, "no valid token in any sequence", 3, ExitCode.INVALID)
    if facts.empty:
        return _invalid(f"{facts.empty} of {facts.sequences} sequences have no valid token", 3)
    return None


def _itself(facts: Facts) -> Verdict | None:
    if facts.same_thing:
        return _invalid(f"self-comparison: {facts.same_thing}", 4)
    if facts.producers is Relation.EQUAL:
        return _invalid("self-comparison: both sides have one producer's receipt", 4)
    return None


def _not_finite(facts: Facts) -> Verdict | None:
    if not facts.non_finite:
        return None
    where = f", first at {facts.non_finite_at}" if facts.non_finite_at else ""
    return Verdict(Label.FAIL, f"non-finite: {facts.non_finite} valid numbers{where}", 5, ExitCode.FAIL)


def _placeholder(facts: Facts) -> Verdict | None:
    if not facts.zeros or facts.zeros_proved:
        return None
    lacking = "no hook count, score source and negative control shows them to be real"
    return _invalid(f"placeholder: {facts.zeros} sequences of nothing but zeros, and {lacking}", 6)


def _path(facts: Facts) -> Verdict | None:
    if facts.path and facts.path_hits == 0:
        return Verdict(Label.VACUOUS, f"path {facts.path} was never taken", 7, ExitCode.INVALID)
    if facts.unexercised:
        return Verdict(Label.VACUOUS, facts.unexercised, 7, ExitCode.INVALID)
    if facts.state_differs:
        return _invalid(f"execution state: {facts.state_differs}", 7)
    return None


def _unshown(facts: Facts) -> Verdict | None:
    lacking = [
        name
        for name, relation in (("basis", facts.basis), ("inputs", facts.inputs), ("policy version", facts.policy))
        if relation is Relation.UNKNOWN
    ]
    if facts.equal_bytes and facts.producers is Relation.UNKNOWN:
        lacking.append("producers of equal bytes")
    if facts.standing is Standing.UNKNOWN:
        lacking.append("faults of the attempt")
    lacking += facts.unshown
    if facts.bound is not None:
        if facts.path and facts.path_hits is None:
            lacking.append(f"hits of path {facts.path}")
        lacking += [f"execution state {name}" for name in facts.state_unknown]
        if facts.wanted_goal is not Goal.UNKNOWN and facts.goal is Goal.UNKNOWN:
            lacking.append("goal")
    return _measured("not shown: " + ", ".join(lacking), 8) if lacking else None


def _measured(reason: str, rule: int) -> Verdict:
    return Verdict(None, reason, rule, ExitCode.INCONCLUSIVE)


def _criterion(facts: Facts) -> Verdict | None:
    if facts.bound is None:
        return _measured("no criterion", 9)
    if facts.outside:
        return _measured(facts.outside, 9)
    if not facts.bound_shown:
        return _measured("nothing shows the criterion to be older than the first number", 9)
    return None


def _planted(facts: Facts) -> Verdict | None:
    return None if facts.planted else _measured("pending re-check: no planted error was judged FAIL by it", 10)


def _by_criterion(facts: Facts) -> Verdict:
    bound = facts.bound
    if bound is None:
        raise AssertionError("rule 9 decides without a criterion")
    if bound.metric == BITWISE:
        if facts.mismatched is None:
            return _invalid("bits cannot be compared", 11)
        label, code = (Label.FAIL, ExitCode.FAIL) if facts.mismatched else (Label.PASS, ExitCode.WELL)
        return Verdict(label, f"bitwise: {facts.mismatched} of {facts.valid} valid tokens differ", 11, code)
    if facts.value is None or not isfinite(facts.value):
        return _invalid(f"{bound.metric} has no value: {facts.value_undefined or 'undefined'}", 11)
    holds = bound.holds(facts.value)
    words = f"at most {bound.at_most!r}" if bound.at_most is not None else f"at least {bound.at_least!r}"
    label, code = (Label.PASS, ExitCode.WELL) if holds else (Label.FAIL, ExitCode.FAIL)
    return Verdict(label, f"{bound.metric} {facts.value!r}, criterion {words}", 11, code)


_RULES: Final = (
    _fault, _different, _nothing, _itself, _not_finite, _placeholder, _path, _unshown, _criterion, _planted,
    _by_criterion,
)  # fmt: skip
