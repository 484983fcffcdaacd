"""Replays by their receipts, versions by their segments, updates by a fixed set of tokens: each rule by what breaks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare.ptfile import f32, mask, write
from tests.compare.test_command import _frozen, _meta, _planted, _receipt, report, run
from tests.compare.test_traces import _trace
from tic_daemon.compare.traces import compare_traces


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FROZEN: dict[str, Any] = {
    "weights_sha256": "ab", "weights_sha256_after": "ab", "generated_tokens": 0, "optimizer_steps": 0, "packing": "A",
    "packing_declared": "A", "variable": "packing",
}  # fmt: skip


def test_a_replay_passes_with_its_four_proofs_and_not_without_one() -> None:
    criterion, digest = _frozen()
    a, b = (write(Path(f"{side}.pt"), {"r": (f32(-1, -2), mask(1, 1))}) for side in "ab")
    shown = {"criterion_sha256": digest, "basis": "raw", "policy_version": 7, "input_sha256": "ab"}
    state = {"graph_mode": "FULL", "kernel": "k1"}
    other = {**FROZEN, "packing": "C", "packing_declared": "C"}
    _meta(a, producer=_receipt(1), replay=FROZEN, execution=state, **shown)
    _meta(b, producer=_receipt(2), replay=other, execution=state, **shown)
    planted = _planted(a, criterion)
    arguments = (a, b, "--criterion", criterion, "--planted", planted, "--faults", "none")
    code, out, _errors = run(*arguments)
    assert code == 0 and "the replays are frozen" in out
    broken: list[tuple[dict[str, Any], dict[str, Any], str, int]] = [
        ({"weights_sha256": None}, {}, "not shown: weight fingerprint of side B", 12),
        ({"generated_tokens": None}, {}, "not shown: no generation of side B", 12),
        ({"optimizer_steps": None}, {}, "not shown: no optimizer step of side B", 12),
        ({"packing": None}, {}, "not shown: packing in effect of side B", 12),
        ({"weights_sha256": "cd", "weights_sha256_after": None}, {}, "INVALID: replays of different weights", 11),
        ({"weights_sha256_after": "cd"}, {}, "INVALID: side B: the weights changed during the replay", 11),
        ({"generated_tokens": 3}, {}, "INVALID: side B: the replay generated 3 tokens", 11),
        ({"optimizer_steps": 1}, {}, "INVALID: side B: the replay made 1 optimizer steps", 11),
        ({"packing_declared": "B"}, {}, "INVALID: side B: packing 'C' was in effect, 'B' was asked for", 11),
        ({"packing": "A", "packing_declared": None}, {}, "VACUOUS: replay of packing: it is 'A' on both sides", 11),
        ({"variable": "kernel"}, {}, "INVALID: replays of different variables", 11),
        ({}, {"kernel": "k2"}, "INVALID: execution state kernel differs too, besides packing", 11),
    ]
    for change, states, word, expected in broken:
        _meta(b, producer=_receipt(2), replay={**other, **change}, execution={**state, **states}, **shown)
        code, out, _errors = run(*arguments)
        assert (code, word in out) == (expected, True), (change, out)
    _meta(b, producer=_receipt(2), execution=state, **shown)
    assert "not shown: weight fingerprint of side B, no generation of side B" in run(*arguments)[1]


def test_a_variable_of_the_execution_state() -> None:
    a, b = (write(Path(f"{side}.pt"), {"r": (f32(-1, -2), mask(1, 1))}) for side in "ab")
    _meta(a, replay={**FROZEN, "variable": "kernel"}, execution={"kernel": "k1"})
    _meta(b, replay={**FROZEN, "variable": "kernel"}, execution={"kernel": "k1"})
    assert report(a, b)["identity"]["verdict"]["label"] == "VACUOUS"
    _meta(b, replay={**FROZEN, "variable": "kernel"}, execution={"kernel": "k2"})
    assert report(a, b)["identity"]["verdict"]["rule"] == 8
    _meta(b, replay={**FROZEN, "variable": "kernel"})
    assert "variable kernel in effect" in report(a, b)["identity"]["verdict"]["reason"]
    _meta(
        b, replay={**FROZEN, "packing": "C", "packing_declared": "C", "variable": "kernel"}, execution={"kernel": "k2"}
    )
    assert "packing differs too, besides kernel" in report(a, b)["identity"]["verdict"]["reason"]


@pytest.mark.parametrize(
    ("hooks", "captures", "steps", "bad"), [(4, 4, 128, True), (128, 4, 128, False), (4, 4, 4, False), (0, 0, 9, False)]
)
def test_hooks_that_saw_the_capture_show_no_replay(hooks: int, captures: int, steps: int, bad: bool) -> None:
    said = {"hook_count": hooks, "graph_captures": captures, "forward_steps": steps}
    a, b = _trace(Path("a.jsonl")), _trace(Path("b.jsonl"))
    _meta(a, **said)
    found = compare_traces(a, b)
    assert bool(found.unfit) == bad
    if bad:
        assert "hooks ran 4 times, as often as graphs were captured, in 128 forward steps" in found.unfit[0]
    one, other = (write(Path(f"{side}.pt"), {"r": (f32(-1, -2), mask(1, 1))}) for side in "ab")
    _meta(other, **said)
    verdict = report(one, other)["identity"]["verdict"]
    assert (verdict["label"] == "INVALID" and "side B: hooks ran 4 times" in verdict["reason"]) == bad


def test_a_trace_that_is_not_the_one_of_its_manifest() -> None:
    a, b = _trace(Path("a.jsonl")), _trace(Path("b.jsonl"))
    _meta(a, sha256="00")
    assert "has SHA-256" in compare_traces(a, b).unfit[0]


def _jsonl(path: Path, values: list[float], **more: Any) -> Path:
    line = {"request_id": "r", "logprobs": values, "response_mask": [True] * len(values), "dtype": "float32", **more}
    path.write_text(json.dumps(line) + "\n")
    return path


def test_versions_are_split_by_their_segments() -> None:
    """Positions 0 and 1 are of version 7, 2 to 4 of version 8: d is 0, 0.5 and 1, 0, 2."""
    values, other = [-1.0, -2.0, -3.0, -4.0, -5.0], [-1.0, -2.5, -4.0, -4.0, -7.0]
    segments = [[0, "7"], [2, 8]]
    a = _jsonl(Path("a.jsonl"), values, policy_segments=segments)
    found = report(a, _jsonl(Path("b.jsonl"), other))["observed"]["signs"]["versions"]
    assert found == {"7": [2, 1, 0.25], "8": [3, 2, 1.0]}
    one, two = (
        write(Path(f"{side}.pt"), {"r": (f32(*own), mask(1, 1, 1, 0, 1)), "s": (f32(-1), mask(1))})
        for side, own in (("a", values), ("b", other))
    )
    _meta(one, policy_segments={"r": segments}, policy_version="7")
    found = report(one, two)["observed"]["signs"]["versions"]
    assert found == {"7": [2, 1, 0.25], "8": [2, 2, 1.5]}, "position 3 is masked"


@pytest.mark.parametrize("segments", [[], [[1, "7"]], [[0, "7"], [0, "8"]], [[0, "7"], [2.5, "8"]], "7", [[0]]])
def test_segments_that_are_none_are_refused(segments: Any) -> None:
    a = _jsonl(Path("a.jsonl"), [-1.0], policy_segments=segments)
    code, _out, errors = run(a, _jsonl(Path("b.jsonl"), [-1.0]))
    assert code == 2 and "policy_segments is no list" in errors
    one = write(Path("a.pt"), {"r": (f32(-1), mask(1))})
    _meta(one, policy_segments={"other": [[0, "7"]]})
    code, _out, errors = run(one, write(Path("b.pt"), {"r": (f32(-1), mask(1))}))
    assert code == 2 and "which a.pt lacks" in errors


def test_segments_of_a_manifest_contradict_no_version_of_the_dump() -> None:
    """Split by them, figures of version 3 would stand under version 7."""
    a = _jsonl(Path("a.jsonl"), [-1.0, -2.0], policy="3")
    b = _jsonl(Path("b.jsonl"), [-1.0, -2.5], policy="3")
    for segments, refused in (([[0, "3"]], False), ([[0, "7"]], True), ([[0, "3"], [1, "7"]], True)):
        _meta(b, policy_segments={"r": segments})
        code, _out, errors = run(a, b)
        assert (code == 2 and "the dump says" in errors) == refused, segments


def _pair(name: str, rows: dict[str, list[float]], version: str | None, **said: Any) -> Path:
    path = write(Path(f"{name}.pt"), {key: (f32(*own), mask(*([1] * len(own)))) for key, own in rows.items()})
    _meta(path, **({"policy_version": version} if version else {}), input_sha256="ab", **said)
    return path


ROWS = {"p": [-1.0, -2.0], "q": [-3.0, -0.5]}


def _moved(rows: dict[str, list[float]], *by: float) -> dict[str, list[float]]:
    return {key: [value + own for value in values] for (key, values), own in zip(rows.items(), by, strict=True)}


def test_growth_is_seen_on_fixed_tokens_alone() -> None:
    """Early: 1/8 apart everywhere. Late: 1/4 in p and 1/16 in q, so that the mean grows in one of two requests."""
    early = _pair("a0", ROWS, "1"), _pair("b0", _moved(ROWS, -0.125, -0.125), "1")
    late_rows = _moved(ROWS, -1, -1)
    late = _pair("a", late_rows, "9"), _pair("b", _moved(late_rows, -0.25, -0.0625), "9")
    found = report(*late, "--early", *early)
    own = found["observed"]["update"]
    assert (own["early"], own["late"], own["grown"], own["requests"]) == (0.125, 0.15625, 1, 2)
    assert (own["versions"], own["changed_a"], own["changed_b"], own["moved_a"]) == (["1", "9"], 4, 4, 1.0)
    assert own["same_tokens"] is True
    words = " ".join(found["controls_proved"])
    assert "grew in 1 of 2 requests" in words and "beyond noise: not shown" in words
    repeats = [_pair(f"{side}2", rows, "9", producer=_receipt(pid)) for side, pid, rows in
               (("a", 3, late_rows), ("b", 4, _moved(late_rows, -0.25, -0.0625)))]  # fmt: skip
    for path, pid in ((late[0], 1), (late[1], 2)):
        _meta(path, policy_version="9", input_sha256="ab", producer=_receipt(pid))
    found = report(*late, "--early", *early, "--repeat-a", repeats[0], "--repeat-b", repeats[1])
    assert "a change of +0.03125 is beyond the noise floor of 0" in " ".join(found["controls_proved"])


def test_an_update_that_did_not_arrive_is_seen() -> None:
    """Side B moved with the update, side A gives the same bits: it still holds the old weights."""
    early = _pair("a0", ROWS, "1"), _pair("b0", ROWS, "1")
    late = _pair("a", ROWS, "2"), _pair("b", _moved(ROWS, -0.5, 0), "2")
    verdict = report(*late, "--early", *early)["identity"]["verdict"]
    assert verdict["label"] == "INVALID"
    assert (
        "the update from 1 to 2 changed 2 of 4 tokens of side B and none of side A: it did not arrive there"
        in verdict["reason"]
    )
    back = report(late[1], late[0], "--early", early[1], early[0])["identity"]["verdict"]
    assert "of side A and none of side B" in back["reason"]
    arrived = _pair("a", _moved(ROWS, -0.5, 0), "2")
    assert report(arrived, late[1], "--early", *early)["identity"]["verdict"]["rule"] == 8
    nothing = _pair("a", ROWS, "2"), _pair("b", ROWS, "2")
    verdict = report(*nothing, "--early", *early)["identity"]["verdict"]
    assert verdict["label"] == "VACUOUS" and "changed no number on either side" in verdict["reason"]


def test_an_early_pair_that_shows_nothing_is_said_to() -> None:
    early = _pair("a0", ROWS, "1"), _pair("b0", ROWS, "1")
    same = _pair("a", ROWS, "1"), _pair("b", _moved(ROWS, 0, -1), "1")
    assert "no update lies between them" in report(*same, "--early", *early)["identity"]["verdict"]["reason"]
    unknown = _pair("a", ROWS, None), _pair("b", _moved(ROWS, 0, -1), None)
    verdict = report(*unknown, "--early", *early)["identity"]["verdict"]
    assert verdict["rule"] == 8 and "policy versions of the early and the late pair" in verdict["reason"]
    other = write(Path("b0.pt"), {"p": (f32(-1, -2), mask(1, 1))})
    assert "request sets differ" in report(*unknown, "--early", early[0], other)["identity"]["verdict"]["reason"]
    _meta(other)
    more = write(Path("b0.pt"), {key: (f32(*own), mask(1, 1)) for key, own in ROWS.items()})
    _meta(more, policy_version="1")
    assert (
        "same tokens in the early and the late pair"
        in report(*unknown, "--early", early[0], more)["identity"]["verdict"]["reason"]
    )
    assert np.isfinite(report(*unknown, "--early", *early)["observed"]["update"]["late"])
