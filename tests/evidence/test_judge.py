"""The judge: each rule by the fact that makes it hold, their order, and that less is never more."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.evidence.judge import BITWISE, Bound, Facts, Goal, Relation, Standing, judge
from tic_daemon.evidence.labels import Label

EQUAL, DIFFERENT, UNKNOWN = Relation.EQUAL, Relation.DIFFERENT, Relation.UNKNOWN
PERFECT = Facts(
    standing=Standing.CLEAR, sequences=2, valid=10, equal_bytes=True, producers=DIFFERENT, inputs=EQUAL, basis=EQUAL,
    policy=EQUAL, goal=Goal.CROSS_STACK, wanted_goal=Goal.CROSS_STACK, bound=Bound(BITWISE), bound_shown=True, planted=True,
    mismatched=0,
)  # fmt: skip
"""Two producers agree bit for bit under a frozen criterion that can fail."""

BUDGET = replace(PERFECT, bound=Bound("logprob_mae", at_most=0.01), equal_bytes=False, mismatched=3, value=0.002)


def test_what_everyone_hopes_for_passes() -> None:
    found = judge(PERFECT)
    assert (found.label, found.rule, found.exit_code) == (Label.PASS, 11, ExitCode.WELL)
    assert judge(BUDGET).label is Label.PASS


RULES: list[tuple[dict[str, Any], Label | None, int, ExitCode]] = [
    ({"standing": Standing.LOCKED, "standing_why": "Xid 31"}, Label.INVALID, 1, ExitCode.LOCKED),
    ({"standing": Standing.SUSPECT}, Label.INVALID, 1, ExitCode.INVALID),
    ({"differs": ("request sets differ",)}, Label.INVALID, 2, ExitCode.INVALID),
    ({"inputs": DIFFERENT}, Label.INVALID, 2, ExitCode.INVALID),
    ({"basis": DIFFERENT}, Label.INVALID, 2, ExitCode.INVALID),
    ({"policy": DIFFERENT}, Label.INVALID, 2, ExitCode.INVALID),
    ({"elements": "element types differ"}, Label.INVALID, 2, ExitCode.INVALID),
    ({"no_logprobs": "3 numbers are above 0"}, Label.INVALID, 2, ExitCode.INVALID),
    ({"goal": Goal.REPEATABILITY}, Label.INVALID, 2, ExitCode.INVALID),
    ({"sequences": 0}, Label.VACUOUS, 3, ExitCode.INVALID),
    ({"valid": 0, "empty": 2}, Label.VACUOUS, 3, ExitCode.INVALID),
    ({"empty": 1}, Label.INVALID, 3, ExitCode.INVALID),
    ({"same_thing": "one file"}, Label.INVALID, 4, ExitCode.INVALID),
    ({"producers": EQUAL}, Label.INVALID, 4, ExitCode.INVALID),
    ({"non_finite": 1, "non_finite_at": "'r' position 3"}, Label.FAIL, 5, ExitCode.FAIL),
    ({"zeros": 1}, Label.INVALID, 6, ExitCode.INVALID),
    ({"path": "decode_graph", "path_hits": 0}, Label.VACUOUS, 7, ExitCode.INVALID),
    ({"unexercised": "replay of packing: it is the same"}, Label.VACUOUS, 7, ExitCode.INVALID),
    ({"state_differs": "graph_mode is NONE"}, Label.INVALID, 7, ExitCode.INVALID),
    ({"basis": UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"inputs": UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"policy": UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"producers": UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"standing": Standing.UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"path": "decode_graph", "path_hits": None}, None, 8, ExitCode.INCONCLUSIVE),
    ({"state_unknown": ("graph_mode",)}, None, 8, ExitCode.INCONCLUSIVE),
    ({"unshown": ("weight fingerprint of side A",)}, None, 8, ExitCode.INCONCLUSIVE),
    ({"goal": Goal.UNKNOWN}, None, 8, ExitCode.INCONCLUSIVE),
    ({"bound": None}, None, 9, ExitCode.INCONCLUSIVE),
    ({"bound_shown": False}, None, 9, ExitCode.INCONCLUSIVE),
    ({"outside": "step 9 lies outside"}, None, 9, ExitCode.INCONCLUSIVE),
    ({"planted": False}, None, 10, ExitCode.INCONCLUSIVE),
    ({"mismatched": 1, "equal_bytes": False}, Label.FAIL, 11, ExitCode.FAIL),
]


@pytest.mark.parametrize(("change", "label", "rule", "code"), RULES, ids=lambda value: str(value)[:60])
def test_each_rule_by_itself(change: dict[str, Any], label: Label | None, rule: int, code: ExitCode) -> None:
    found = judge(replace(PERFECT, **change))
    assert (found.label, found.rule, found.exit_code) == (label, rule, code)
    assert found.reason, "a verdict always says why"


def test_the_first_rule_that_holds_decides() -> None:
    """Every pair of changes that touch different facts: the smaller rule wins."""
    for one, _label, first, _code in RULES:
        for other, _other_label, second, _other_code in RULES:
            about_a_criterion = other == {"bound": None} and one.keys() & {"goal", "path", "state_unknown"}
            about_equal_bytes = one == {"producers": UNKNOWN} and "equal_bytes" in other
            apart = not one.keys() & other.keys() and not about_a_criterion and not about_equal_bytes
            if first < second and apart:
                assert judge(replace(PERFECT, **{**other, **one})).rule == first, (one, other)


def test_types_that_differ_spoil_a_claim_on_bits_alone() -> None:
    assert judge(replace(BUDGET, elements="element types differ", mismatched=None)).label is Label.PASS
    assert judge(replace(PERFECT, elements="element types differ", bound=None)).rule == 2


def test_a_value_that_is_near_never_passes_for_bits() -> None:
    found = judge(replace(PERFECT, mismatched=1, equal_bytes=False, value=0.0))
    assert found.label is Label.FAIL and "1 of 10" in found.reason


@pytest.mark.parametrize(
    ("bound", "value", "label"),
    [
        (Bound("logprob_mae", at_most=0.002), 0.002, Label.PASS),
        (Bound("logprob_mae", at_most=0.002), 0.0020000001, Label.FAIL),
        (Bound("cosine", at_least=0.99), 0.99, Label.PASS),
        (Bound("cosine", at_least=0.99), 0.98, Label.FAIL),
        (Bound("kl_k3", at_most=1.0), None, Label.INVALID),
        (Bound("kl_k3", at_most=1.0), float("nan"), Label.INVALID),
    ],
)
def test_bounds(bound: Bound, value: float | None, label: Label) -> None:
    assert judge(replace(BUDGET, bound=bound, value=value)).label is label


@pytest.mark.parametrize(
    ("metric", "bounds"),
    [
        ("logprob_mae", {}),
        (BITWISE, {"at_most": 0.0}),
        ("cosine", {"at_most": 1.0, "at_least": 0.0}),
        ("kl_k1", {"at_most": float("nan")}),
    ],
)
def test_a_criterion_has_exactly_its_bound(metric: str, bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="one finite bound"):
        Bound(metric, **bounds)


def test_zeros_that_are_proved_count() -> None:
    assert judge(replace(PERFECT, zeros=1, zeros_proved=True)).label is Label.PASS


def test_a_path_that_nothing_requires_is_not_asked_for() -> None:
    assert judge(replace(PERFECT, path="", path_hits=None)).label is Label.PASS


LESS: dict[str, Any] = {
    "standing": Standing.UNKNOWN, "producers": UNKNOWN, "inputs": UNKNOWN, "basis": UNKNOWN, "policy": UNKNOWN,
    "zeros_proved": False, "path_hits": None, "bound_shown": False, "planted": False, "goal": Goal.UNKNOWN, "bound": None,
    "value": None,
}  # fmt: skip
"""What each fact is when nobody knows it."""

_RELATIONS = st.sampled_from(Relation)


@st.composite
def worlds(draw: st.DrawFn) -> Facts:
    """Facts at random, all but two or fewer such that they do not decide: else hardly any world would pass."""
    touched = draw(st.sets(st.integers(0, 23), max_size=2))
    number = itertools.count()

    def seldom(value: Any, otherwise: Any) -> Any:
        return value if next(number) in touched else otherwise

    bounds = (Bound(BITWISE), Bound("logprob_mae", at_most=0.01), Bound("cosine", at_least=0.9))
    bound = seldom(None, draw(st.sampled_from(bounds)))
    mismatched = draw(st.sampled_from([0, 0, 3, None]))
    goal = draw(st.sampled_from(Goal))
    return Facts(
        standing=seldom(draw(st.sampled_from(Standing)), Standing.CLEAR), differs=seldom(("masks differ",), ()),
        elements=seldom("types differ", ""), no_logprobs=seldom("above 0", ""), sequences=seldom(0, 3), valid=seldom(0, 9),
        empty=seldom(1, 0), same_thing=seldom("one file", ""), equal_bytes=mismatched == 0,
        producers=seldom(draw(_RELATIONS), DIFFERENT), non_finite=seldom(2, 0), zeros=seldom(1, 0),
        zeros_proved=draw(st.booleans()), path=seldom("graph", ""), path_hits=draw(st.sampled_from([None, 0, 5])),
        state_differs=seldom("graph_mode", ""), state_unknown=seldom(("graph_mode",), ()), inputs=seldom(draw(_RELATIONS), EQUAL),
        basis=seldom(draw(_RELATIONS), EQUAL), policy=seldom(draw(_RELATIONS), EQUAL), goal=goal,
        wanted_goal=seldom(draw(st.sampled_from(Goal)), goal), bound=bound, bound_shown=seldom(False, True), planted=seldom(False, True),
        unexercised=seldom("nothing was changed", ""), unshown=seldom(("weight fingerprint of side A",), ()),
        mismatched=mismatched, value=draw(st.sampled_from([0.0, 0.95, 0.5, None])),
    )  # fmt: skip


def _certain(facts: Facts) -> bool:
    found = judge(facts)
    return found.label is Label.PASS or (found.label is Label.FAIL and found.rule == 11)


@settings(max_examples=600, deadline=None)
@given(worlds(), st.sets(st.sampled_from(sorted(LESS))))
def test_less_known_is_never_more_certain(facts: Facts, forgotten: set[str]) -> None:
    """What is forgotten may have been a difference: then the verdict was INVALID, and becomes at most a measurement.

    Not so of who made bytes that differ: they are not taken for one thing only because nobody names their producers.
    """
    differing = [replace(facts, **{name: DIFFERENT}) for name in ("inputs", "basis", "policy")]
    for known, names in itertools.product((facts, *differing), (forgotten, *({name} for name in LESS))):
        if "producers" in names and known.producers is EQUAL and not known.equal_bytes:
            continue
        less = replace(known, **{name: LESS[name] for name in names})
        if _certain(less):
            assert _certain(known) and judge(less).label is judge(known).label, names


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_a_pass_has_everything(facts: Facts) -> None:
    found = judge(facts)
    if found.label is not Label.PASS:
        return
    assert (
        facts.standing is Standing.CLEAR and not facts.differs and facts.valid and facts.sequences and not facts.empty
    )
    assert facts.inputs is facts.basis is facts.policy is EQUAL and facts.bound_shown and facts.planted
    assert not facts.non_finite and not facts.same_thing and facts.producers is not EQUAL
    assert facts.bound is not None and (facts.mismatched == 0 or facts.bound.metric != BITWISE)
    assert not facts.equal_bytes or facts.producers is DIFFERENT
    assert not facts.unexercised and not facts.unshown
    for name in ("planted", "bound_shown", "bound", "inputs", "basis", "policy", "standing"):
        assert judge(replace(facts, **{name: LESS[name]})).label is None, name


def test_every_fact_is_of_use() -> None:
    """A fact that no rule looks at would be a hole: each is among the changes above, or is of a verdict's words."""
    looked_at = {name for change, *_rest in RULES for name in change} | {"bound", "value", "wanted_goal"}
    words = {"standing_why", "non_finite_at", "value_undefined", "equal_bytes", "zeros_proved"}
    assert {field.name for field in fields(Facts)} == looked_at | words
