"""The symptom router: each pattern from facts made by hand, the handling order, and what comes next."""

from __future__ import annotations

import pytest

from tic_daemon.hints.router import Compared, Facts, Sequence_, Trace, data, route

# From the rules of fault localization: symptom, and what to do first.
FIRST = {
    "differs_at_start": "four control groups", "some_sequences": "same-prefix sibling", "from_position": "single-request prefill",
    "grows_with_updates": "save a small batch", "same_operator_input": "numerical contracts",
    "communication": "communication fault ladder", "nothing_saved": "save and compare", "first_token": "original prompt alone",
    "all_drift": "noise floor",
}  # fmt: skip


def compared(step: int | None, differing: int, of: int = 8, bad: int | None = None, **more: object) -> Compared:
    """A comparison of eight sequences of 100 tokens; `bad` of them differ."""
    count = bad if bad is not None else (1 if differing else 0)
    return Compared(f"c{step}", step, of * 100, differing, of, count, **more)  # type: ignore[arg-type]


def one(first: int, differing: int, prompt: int | None = 50, name: str = "s") -> Sequence_:
    return Sequence_(name, 100, differing, first, prompt)


def names(facts: Facts) -> set[str]:
    return {hint.name for hint in route(facts).hints}


CLEAN = compared(0, 0)
CASES: list[tuple[str, Facts, set[str]]] = [
    ("nothing", Facts(), {"nothing_saved"}),
    ("equal", Facts(compared=(CLEAN,)), set()),
    ("few, from the first token", Facts(compared=(compared(0, 150, bad=2),), sequences={"c0": (one(0, 90), one(0, 60))}),
     {"differs_at_start", "some_sequences", "first_token"}),
    ("few, late", Facts(compared=(CLEAN, compared(1, 9, bad=1)), sequences={"c1": (one(40, 9),)}), {"some_sequences"}),
    # 100 - 40 tokens are left from the position on, 59 of them differ.
    ("wrong from a position", Facts(compared=(CLEAN, compared(1, 59, bad=1)), sequences={"c1": (one(40, 59),)}),
     {"some_sequences", "from_position"}),
    ("all drift", Facts(compared=(CLEAN, compared(1, 790, bad=8)), sequences={"c1": (one(0, 99),) * 8}), {"all_drift"}),
    ("half of them, dense from a position", Facts(compared=(CLEAN, compared(1, 100, bad=2)), sequences={"c1": (one(14, 50), one(78, 20))}),
     {"some_sequences", "from_position"}),
    ("grows", Facts(compared=(compared(0, 0), compared(1, 4), compared(2, 8), compared(3, 80, bad=4))), {"grows_with_updates", "some_sequences"}),
    ("does not grow", Facts(compared=(compared(0, 50), compared(1, 60), compared(2, 55))), {"differs_at_start", "some_sequences"}),
    ("two points show no growth", Facts(compared=(compared(0, 0), compared(9, 80))), {"some_sequences"}),
    ("up and down", Facts(compared=(compared(0, 10), compared(1, 90), compared(2, 5), compared(3, 60))), {"differs_at_start", "some_sequences"}),
    ("known to be of other inputs", Facts(compared=(compared(0, 50, differs=("token ids differ",)),)), set()),
    ("operator", Facts(compared=(CLEAN,), traces=(Trace("layer2.attn.out", "equal", False, True),)), {"same_operator_input"}),
    ("operator whose input differs", Facts(compared=(CLEAN,), traces=(Trace("layer2.attn.out", "differs", False, True),)), set()),
    ("routing", Facts(compared=(CLEAN,), traces=(Trace("layer2.topk", "equal", True, False),)), set()),
    ("NCCL", Facts(compared=(CLEAN,), communication=("NCCL watchdog: a collective timed out",)), {"communication"}),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_patterns(facts: Facts, expected: set[str]) -> None:
    assert names(facts) == expected


def test_each_symptom_has_its_first_step() -> None:
    assert {name: FIRST[name] in told["first_step"] for name, told in data()["symptoms"].items()} == dict.fromkeys(
        FIRST, True
    )


def seen(facts: Facts, name: str) -> str:
    return next(hint.seen for hint in route(facts).hints if hint.name == name)


def test_what_was_seen_is_told_in_numbers() -> None:
    base = (CLEAN, compared(1, 90, bad=2))
    # 50 + 14 = 64 and 50 + 78 = 128: both are multiples of 64, and not of 128.
    told = seen(Facts(compared=base, sequences={"c1": (one(14, 50), one(78, 20))}), "from_position")
    assert (
        told
        == "2 of 2 differing sequences are wrong from a position on at step 1: each begins at a multiple of 64 tokens, the prompt counted"
    )
    same = seen(Facts(compared=base, sequences={"c1": (one(14, 50), one(14, 50, prompt=51))}), "from_position")
    assert same.endswith("all from position 14 of the response")
    odd = seen(Facts(compared=base, sequences={"c1": (one(15, 50), one(78, 20))}), "from_position")
    assert odd.endswith("the first from position 15 of the response")
    drift = compared(1, 790, bad=8, mean=1e-4, floor=2e-4)
    assert seen(Facts(compared=(CLEAN, drift)), "all_drift") == (
        "8 of 8 sequences differ, 790 of 800 tokens, at step 1; mean difference 0.0001, within the noise floor of 0.0002"
    )
    grown = Facts(compared=(compared(0, 4), compared(5, 4), compared(9, 80, bad=2)))
    assert seen(grown, "grows_with_updates") == "0.005 of the tokens differ at step 0, 0.1 at step 9, over 3 steps"


def lamps(facts: Facts) -> dict[str, str]:
    return {lamp.name: lamp.state for lamp in route(facts).lamps}


SURE = {"inputs_known": True, "same_policy": True}


def test_each_class_is_ruled_out_before_the_next() -> None:
    assert list(data()["lamps"]) == ["input", "weight", "discrete", "kernel", "precision"], "precision comes last"
    differs = compared(0, 5, **SURE)
    nothing = Facts(compared=(compared(0, 5),))
    assert lamps(nothing) == {
        "input": "open",
        **dict.fromkeys(("weight", "discrete", "kernel", "precision"), "not reached"),
    }
    inputs = Facts(compared=(differs,))
    assert list(lamps(inputs).values()) == ["ruled out", "open", "not reached", "not reached", "not reached"]
    weights = Facts(compared=(differs,), weights="worker only")
    assert list(lamps(weights).values()) == ["ruled out", "ruled out", "open", "not reached", "not reached"]
    claimed = Facts(compared=(differs,), weights="launcher only")
    assert lamps(claimed)["weight"] == "open", "a path or a setting is not the content of the weights"
    traced = Facts(compared=(differs,), weights="agree", traces=(Trace("layer1.norm", "equal", False, True),))
    assert list(lamps(traced).values()) == ["ruled out", "ruled out", "ruled out", "suspected", "not reached"]
    equal = Facts(compared=(differs,), weights="agree", traces=(Trace("", "unknown", False, True),), quantized="fp8")
    assert list(lamps(equal).values()) == ["ruled out"] * 4 + ["open"]


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (Facts(compared=(compared(0, 5, differs=("token ids differ",)),)), "input"),
        (Facts(compared=(compared(0, 5, inputs_known=True, same_policy=False),)), "weight"),
        (Facts(compared=(compared(0, 5, **SURE),), findings=("weights woken without a reload",)), "weight"),
        (Facts(compared=(compared(0, 5, **SURE),), weights="disagree"), "weight"),
        (Facts(compared=(compared(0, 5),), traces=(Trace("layer2.topk", "equal", True, False),)), "discrete"),
    ],
)
def test_a_suspicion_is_shown_wherever_it_stands(facts: Facts, name: str) -> None:
    assert lamps(facts)[name] == "suspected"


def test_the_side_is_isolated_before_anything_is_bisected() -> None:
    differs = compared(0, 5, **SURE)
    groups = {"inference_alone": "equal", "training_alone": "inconclusive", "score_layer": "not run"}
    assert route(Facts(compared=(differs,))).next_probe.startswith("control group inference alone")
    assert route(Facts(compared=(differs,), groups=groups)).next_probe.startswith("control group training alone")
    done = dict.fromkeys(groups, "equal")
    assert route(Facts(compared=(differs,), groups=done)).next_probe == data()["lamps"]["weight"]["probe"]
    wrong = Facts(compared=(compared(0, 5, differs=("token ids differ",)),))
    assert route(wrong).next_probe == data()["lamps"]["input"]["probe"], "other inputs are no numerical difference"
    assert route(Facts(compared=(CLEAN,))).next_probe == "", "nothing differs"


def test_three_rounds_without_new_ground_say_so_and_what_is_ruled_out_stays() -> None:
    differs = compared(0, 5)
    assert route(Facts(compared=(differs,), rounds=2)).stuck == ""
    assert "add observation points" in route(Facts(compared=(differs,), rounds=3)).stuck
    kept = Facts(
        compared=(differs,),
        groups={"training_alone": "equal"},
        ruled_out=("block size (case c1)", "block size (case c1)"),
    )
    assert route(kept).ruled_out == ("training alone: equal", "block size (case c1)")
