"""Which files form a comparison: every rule, and that what cannot be paired is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tic_daemon.comparisons import pairing
from tic_daemon.comparisons.pair import Pair
from tic_daemon.comparisons.pairing import Known, Said, pairs, pattern, unpaired
from tic_daemon.config import ComparisonConfig, parse_config
from tic_daemon.errors import ConfigError
from tic_daemon.store.rows import ArtifactRow

D = "/w/results/r/step3"


def artifact(file: str, directory: str = D, manifest: str = "manifest.json", **values: Any) -> ArtifactRow:
    said: dict[str, Any] = {
        "name": file,
        "run": "r",
        "run_how": "manifest",
        "step": 3,
        "sha256": f"sha-{file}",
        "state": "verified",
    }
    return ArtifactRow("h", "/w", f"{directory}/{manifest}", f"{directory}/{file}", **{**said, **values})


def made(*rows: ArtifactRow, **known: Any) -> list[Pair]:
    return pairs(Known("h", rows, **known))


def short(found: list[Pair]) -> list[tuple[str, str, str, str]]:
    return [(one.how, one.a.rpartition("/")[2], one.b.rpartition("/")[2], one.refused) for one in found]


def test_sides_of_one_directory_with_the_same_rest() -> None:
    found = made(
        artifact("trainer_logprobs.pt"), artifact("rollout_logprobs.pt"), artifact("token_ids.pt"), artifact("config.yaml"),
        artifact("rollout_trace.jsonl"), artifact("trainer_trace.jsonl"),
    )  # fmt: skip
    assert short(found) == [
        ("manifest", "rollout_logprobs.pt", "trainer_logprobs.pt", ""), ("manifest", "rollout_trace.jsonl", "trainer_trace.jsonl", ""),
    ]  # fmt: skip
    assert found[0].tokens == f"{D}/token_ids.pt" and found[0].control == "cross_stack" and found[0].goal == "unknown"
    assert (found[0].run, found[0].step, found[0].manifest) == ("r", 3, f"{D}/manifest.json")


def test_one_manifest_of_a_whole_run_pairs_within_its_directories() -> None:
    def at(step: int, file: str) -> ArtifactRow:
        return artifact(f"step{step}/{file}", name=f"step{step}/{file}", step=step)

    rows = [at(step, f"{side}.pt") for step in (1, 2) for side in ("rollout", "trainer")]
    found = made(*rows, at(2, "token_ids.pt"))
    assert [(one.step, one.a, one.b, one.tokens) for one in found] == [
        (1, f"{D}/step1/rollout.pt", f"{D}/step1/trainer.pt", ""),
        (2, f"{D}/step2/rollout.pt", f"{D}/step2/trainer.pt", f"{D}/step2/token_ids.pt"),
    ], "what lies beside one pair are not the tokens of another"
    found = made(*rows, artifact("token_ids.pt"))
    assert [one.tokens for one in found] == [f"{D}/token_ids.pt"] * 2
    apart = [artifact("a/rollout.pt", name="rollout"), artifact("b/trainer.pt", name="trainer")]
    assert short(made(*apart)) == [("manifest", "rollout.pt", "trainer.pt", "")]
    (late,) = [one for one in made(*rows, at(1, "rollout.jsonl")) if one.refused]
    assert late.a == f"{D}/step1/rollout.pt" and "several entries are named rollout" in late.refused


def test_keys_of_the_manifest_count_before_names_of_files() -> None:
    a, b = artifact("x1.pt", name="rollout"), artifact("x2.pt", name="trainer")
    assert short(made(a, b)) == [("manifest", "x1.pt", "x2.pt", "")]


def test_sidecars_of_one_directory_belong_together() -> None:
    rows = [artifact(f"{side}.pt", manifest=f"{side}.pt.meta.json") for side in ("rollout", "trainer")]
    assert short(made(*rows)) == [("manifest", "rollout.pt", "trainer.pt", "")]
    apart = [rows[0], artifact("trainer.pt", directory="/w/results/r/step4")]
    known = {(row.path, row.sha256): "" for row in apart}
    assert [one.refused != "" for one in made(*apart, both=known)] == [True, True], "never over two directories"


def test_a_side_without_its_other_side_and_two_of_one_name_are_said() -> None:
    lone = artifact("rollout_logprobs.pt")
    assert made(lone) == [], "whether it holds both is looked at first"
    (one,) = made(lone, both={(lone.path, lone.sha256): ""})
    assert one.refused == "trainer_logprobs is named by no manifest beside it: it has no other side"
    (one,) = made(lone, both={(lone.path, lone.sha256): "slime"})
    assert (one.how, one.b, one.refused) == ("alone", "", "")
    two = [artifact("rollout.pt"), artifact("rollout.jsonl"), artifact("trainer.pt")]
    assert [one.refused for one in made(*two)] == ["several entries are named rollout: declare which belong together"]


def test_token_exports_and_files_that_hold_both() -> None:
    step = "/w/out/token_exports/step_4"
    ranks = [artifact(f"rank_{n}.jsonl", directory=step, manifest="STABLE", step=4) for n in (0, 1)]
    other = artifact("train_data_step7.jsonl")
    known = {(other.path, other.sha256): "nemo-rl"}
    found = made(*ranks, other, both=known)
    assert [(one.how, one.a, one.b, one.step) for one in found] == [
        ("alone", other.path, "", 3),
        ("alone", step, "", 4),
    ]
    again = Known("h", [*ranks, other, artifact("log.txt")], both=known)
    assert [row.name for row in unpaired(again, pairs(again))] == ["log.txt"]


def test_a_manifests_list() -> None:
    rows = [artifact("rollout.pt"), artifact("again.pt"), artifact("trainer.pt")]
    listed = [
        {"a": "rollout.pt", "b": "again.pt", "control": "inference_alone", "variant": "A/A", "goal": "repeatability"},
        {"a": "rollout.pt", "b": "trainer.pt", "repeats_a": ["again.pt"], "basis": "raw"},
    ]
    found = made(*rows, said={f"{D}/manifest.json": Said(listed, goal="cross_stack")})
    assert [(one.a[-10:], one.b[-10:], one.control, one.goal, one.repeats_a, one.basis) for one in found] == [
        ("rollout.pt", f"{D}/again.pt"[-10:], "inference_alone", "repeatability", (), None),
        ("rollout.pt", "trainer.pt", "", "cross_stack", (f"{D}/again.pt",), "raw"),
    ], "the pair by names is the one that is listed"


def test_a_criterion_for_all_judges_what_it_is_for() -> None:
    """A side held against itself is judged by none that is for the stacks: it would be INVALID, and rule out nothing."""
    rows = [artifact(f"{name}.pt") for name in ("rollout", "again", "trainer", "bare", "other")]
    listed = [
        {"a": "rollout.pt", "b": "again.pt", "control": "inference_alone"},
        {"a": "rollout.pt", "b": "trainer.pt", "control": "cross_stack"},
        {"a": "bare.pt", "b": "other.pt"},
        {"a": "bare.pt", "b": "again.pt", "goal": "repeatability"},
        {"a": "bare.pt", "b": "trainer.pt", "goal": "cross_stack", "control": "cross_stack"},
    ]

    def judged(goal: str) -> list[bool]:
        said = {f"{D}/manifest.json": Said(listed)}
        found = {
            one.a + one.b: one
            for one in made(*rows, said=said, criterion="/c.toml", planted="/p.json", criterion_goal=goal)
        }
        assert all((one.criterion, one.planted) in {("", ""), ("/c.toml", "/p.json")} for one in found.values())
        return [bool(found[f"{D}/{one['a']}{D}/{one['b']}"].criterion) for one in listed]

    assert judged("cross_stack") == [False, True, True, False, True]
    assert judged("repeatability") == [True, True, True, True, False]
    assert judged("") == [True] * 5
    config = [ComparisonConfig("x/{step}.pt", "y/{step}.pt", control="inference_alone", criterion=Path("/own.toml"))]
    (own,) = made(
        declared=config,
        on_disk=[[("/w/x/1.pt", "/w")]],
        base="/w",
        criterion="/c.toml",
        criterion_goal="cross_stack",
        planted="/p.json",
    )
    assert (own.criterion, own.planted) == ("/own.toml", "/p.json"), "one that is named for it judges it"


def test_what_a_manifests_list_says_wrongly_is_said() -> None:
    rows = [artifact("x.pt"), artifact("y.pt")]
    for entry, why in (
        ("x.pt", "no object"), ({"a": "z.pt", "b": "y.pt"}, "`a` is no artifact"), ({"b": "y.pt"}, "`a` is no artifact"),
        ({"a": "x.pt", "b": "../../etc/passwd"}, "`b` is no artifact"), ({"a": "x.pt", "b": ["y.pt"]}, "`b` is no artifact"),
        ({"a": "x.pt", "b": "y.pt", "control": "mine"}, "`control` is none of"), ({"a": "x.pt", "goal": "win"}, "`goal` is none of"),
        ({"a": "x.pt", "repeats_a": "y.pt"}, "no list of artifacts"), ({"a": "x.pt", "basis": 3}, "`basis` is no text"),
    ):  # fmt: skip
        (one,) = made(*rows, said={f"{D}/manifest.json": Said([entry])})
        assert why in one.refused and one.refused.startswith("entry 1 of `comparisons`"), (entry, one.refused)


def test_declared_pairs_fill_names_into_the_other_paths() -> None:
    config = ComparisonConfig(
        "roll/{run}/step_{step}/lp.pt", "train/{run}/step_{step}/lp.pt", tokens="tok/{step}.pt", repeats_b=("t2/{run}.{step}",),
        goal="cross_stack", basis="raw",
    )  # fmt: skip
    disk = [[("/w/roll/a/step_12/lp.pt", "/w"), ("/w/roll/a/step_x/lp.pt", "/w")]]
    (one,) = made(declared=[config], on_disk=disk, base="/w", run_for=lambda path: "from-toml")
    assert (one.how, one.a, one.b) == ("declared", "/w/roll/a/step_12/lp.pt", "/w/train/a/step_12/lp.pt")
    assert (one.tokens, one.repeats_b, one.step, one.run, one.run_how) == (
        "/w/tok/12.pt",
        ("/w/t2/a.12",),
        12,
        "from-toml",
        "config",
    )
    same = ComparisonConfig("{x}/{x}.pt")
    found = made(declared=[same], on_disk=[[("/w/a/a.pt", "/w"), ("/w/a/b.pt", "/w")]], base="/w")
    assert [one.a for one in found] == ["/w/a/a.pt"], "one name is one text"


def test_a_declaration_stands_in_place_of_the_pair_by_names() -> None:
    rows = [artifact("rollout.pt"), artifact("trainer.pt")]
    config = ComparisonConfig(
        "results/r/step3/rollout.pt", "results/r/step3/trainer.pt", policy="7", control="training_alone"
    )
    (one,) = made(*rows, declared=[config], base="/w")
    assert (one.how, one.policy, one.control, one.step, one.manifest) == (
        "declared",
        "7",
        "training_alone",
        3,
        f"{D}/manifest.json",
    )


def test_names_of_pairs_hang_on_files_and_group_alone() -> None:
    pair = made(artifact("rollout.pt"), artifact("trainer.pt"))[0]
    for other in (
        replace(pair, host="g"),
        replace(pair, basis="raw"),
        replace(pair, criterion="/c"),
        replace(pair, step=9),
    ):
        assert other.task == pair.task
    for other in (replace(pair, b="/x"), replace(pair, control=""), replace(pair, plant="one bit")):
        assert other.task != pair.task
    assert replace(pair, basis="raw").declaration != pair.declaration
    assert replace(pair, host="g").declaration == pair.declaration


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('a = "x/{step}"\nb = "y/{run}"', r":1: .*`b` holds \{run\}"), ('a = "x"\nrepeats_b = ["y/*"]', "`repeats_b` holds a glob"),
        ('b = "y"', "without `a`"), ('a = "x"\ngoal = "win"', "goal"), ('a = "x"\ncontrol = "mine"', "control"), ('a = "x"\nq = 1', "q"),
    ],
)  # fmt: skip
def test_what_a_declaration_cannot_mean_is_an_error_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_config(f"[[comparison]]\n{text}\n", tmp_path / "tic.toml")


def test_globs_of_a_declaration(tmp_path: Path) -> None:
    parsed = parse_config('[[comparison]]\na = "**/{x}/d?.pt"\nb = "{x}.pt"\n', tmp_path / "tic.toml").comparisons[0]
    matching = pattern(parsed, "/w")
    assert matching.fullmatch("/w/d1.pt") is None
    assert [
        bool(matching.fullmatch(path)) for path in ("/w/k/d1.pt", "/w/a/b/k/d1.pt", "/w/k/d12.pt", "/v/k/d1.pt")
    ] == [True, True, False, False]
    odd = ComparisonConfig("{1x}/[a].pt")
    assert pattern(odd, "/w").fullmatch("/w/{1x}/[a].pt"), "what is no name stands for itself"


def test_the_same_pair_declared_twice_with_other_words_is_said() -> None:
    rows = [artifact("rollout.pt"), artifact("trainer.pt")]
    entry = {"a": "rollout.pt", "b": "trainer.pt", "goal": "repeatability"}
    others: list[dict[str, Any]] = [{"goal": "cross_stack"}, {"basis": "raw"}, {"repeats_a": ["trainer.pt"]}]
    for other in others:
        found = made(*rows, said={f"{D}/manifest.json": Said([entry, {**entry, **other}, entry])})
        assert [(one.goal, one.basis, "declared twice" in one.refused) for one in found] == [
            ("repeatability", None, False), (other.get("goal", "repeatability"), other.get("basis"), True),
        ]  # fmt: skip
        assert len({one.task for one in found}) == 2
    assert len(made(*rows, said={f"{D}/manifest.json": Said([entry, entry])})) == 1, "the same words are no doubt"
    twice = [ComparisonConfig("results/r/step3/rollout.pt", "results/r/step3/trainer.pt", policy=p) for p in "78"]
    found = made(*rows, declared=twice, base="/w")
    assert [(one.policy, bool(one.refused)) for one in found] == [("7", False), ("8", True)]


def test_more_pairs_than_are_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MOST", 2)
    rows = [artifact(f"{side}_{n}.pt") for n in range(5) for side in ("rollout", "trainer")]
    found = made(*rows)
    assert [one.a.rpartition("/")[2] for one in found] == ["rollout_0.pt", "rollout_1.pt", "rollout_2.pt"]
    assert [one.refused for one in found] == [
        "", "", "there are more than 2 pairs: this one and 2 after it are not compared",
    ]  # fmt: skip
    assert len(made(*rows[:4])) == 2 and not any(one.refused for one in made(*rows[:4]))
