"""Pairs of scored problems, by hand and against the definition of the binomial test."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.compare.test_command import run
from tic_daemon.compare.scores import compare_scores, mcnemar
from tic_daemon.errors import CompareError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go to the working directory."""
    monkeypatch.chdir(tmp_path)


def _file(path: Path, scores: dict[Any, Any], *more: dict[str, Any]) -> Path:
    lines = [{"problem_id": problem, "score": score, "text": "x"} for problem, score in scores.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
    return path


def test_the_same_mean_may_hide_other_problems(tmp_path: Path) -> None:
    """Two of four right on both sides, and only one of them the same."""
    a = _file(tmp_path / "a.jsonl", {"p1": 1, "p2": True, "p3": 0, 4: 0.0})
    b = _file(tmp_path / "b.jsonl", {4: False, "p3": 1, "p2": 0, "p1": 1})
    found = compare_scores(a, b)
    assert (found.problems, found.same, found.difference, found.mean_a, found.changed) == (4, 2, 0, 0.5, 0.5)
    assert (found.both, found.only_a, found.only_b, found.neither) == (1, 1, 1, 1)
    assert found.p_value == 1 and found.largest == (("p2", 1, 0), ("p3", 0, 1))


def test_scores_against_themselves_show_nothing(tmp_path: Path) -> None:
    a = _file(tmp_path / "a.jsonl", {"p1": 1})
    (tmp_path / "b.jsonl").symlink_to(a)
    for other in (a, tmp_path / "b.jsonl"):
        assert compare_scores(a, other).unfit == (f"self-comparison: {a} and {other} are one file",)
        assert run(a, other)[0] == 11


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (0, 5, 2 / 32),
        (6, 2, 2 * (1 + 8 + 28) / 256),
        (10, 1, 2 * 12 / 2048),
        (3, 3, 1.0),
    ],
)
def test_mcnemar_by_hand(only_a: int, only_b: int, p: float) -> None:
    assert mcnemar(only_a, only_b) == p


def test_graded_scores(tmp_path: Path) -> None:
    found = compare_scores(
        _file(tmp_path / "a.jsonl", {"p": 0.25, "q": 1}), _file(tmp_path / "b.jsonl", {"p": 0.75, "q": 0.75})
    )
    assert (found.mean_a, found.mean_b, found.difference, found.changed) == (0.625, 0.75, 0.125, 0.375)
    assert found.both is None and found.p_value is None and found.largest[0] == ("p", 0.25, 0.75)


def test_what_cannot_be_paired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    a = _file(Path("a.jsonl"), {"p": 1, "q": 0})
    assert "side B lacks 'q'" in compare_scores(a, _file(Path("b.jsonl"), {"p": 1})).unfit[0]
    assert "side A lacks 'r'" in compare_scores(a, _file(Path("b.jsonl"), {"p": 1, "q": 1, "r": 1})).unfit[0]
    again = _file(Path("c.jsonl"), {"p": 1, "q": 0}, {"problem_id": "q", "score": 1})
    assert compare_scores(a, again).unfit == ("side B: problem 'q' stands there twice",)
    for score in (None, "1", float("nan")):
        with pytest.raises(CompareError, match="no finite score"):
            compare_scores(a, _file(Path("d.jsonl"), {"p": score}))
    code, out, _errors = run(a, _file(Path("e.jsonl"), {"p": 0, "q": 0}))
    assert code == 12 and "1 of 2 problems have another score" in out and "p: 1 and 0" in out
    assert run(a, again)[0] == 11
    before = set(Path("tic-reports").iterdir())
    code, out, _errors = run(a, Path("e.jsonl"), "--json")
    whole = json.loads(out)
    assert whole.keys() == {"identity", "observed", "controls_proved", "not_yet_proven", "next_step"}
    assert whole["observed"]["same"] == 1 and whole["controls_proved"] == [
        "both sides have the same 2 problems, each once"
    ]
    assert whole["identity"]["b"] == {
        "path": "e.jsonl",
        "sha256": hashlib.sha256(Path("e.jsonl").read_bytes()).hexdigest(),
    }
    (kept,) = set(Path("tic-reports").iterdir()) - before
    assert json.loads(kept.read_text()) == whole, "written by itself, and the report of the first call stays"
    assert kept.name.removesuffix("-2.json") in {path.stem for path in before}
    code, out, _errors = run(a, _file(Path("f.jsonl"), {"p": 1, "q": 0}), "--json", "--no-report")
    assert json.loads(out)["observed"]["same"] == 2 and "equal results" in json.loads(out)["next_step"]
    assert run(a)[0] == 2
