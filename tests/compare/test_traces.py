"""Layer traces with planted divergences, tensors against numpy, vocabularies by hand."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare import made
from tests.compare.ptfile import T, f32, mask, write
from tests.compare.test_command import run
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.sides import Held
from tic_daemon.compare.tensors import tensor_figures, vocab_figures
from tic_daemon.compare.trace_report import next_step, text
from tic_daemon.compare.traces import compare_traces
from tic_daemon.errors import CompareError

BOUNDARIES = ("embed", "layer0.attn.out", "layer0.router", "layer0.mlp.out", "final.logits")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go to the working directory."""
    monkeypatch.chdir(tmp_path)


def _line(request: str, boundary: str, order: int, content: str, **more: Any) -> dict[str, Any]:
    return {
        "request": request, "boundary": boundary, "slice": "tokens=0:4", "order": order, "shape": [4, 8], "dtype": "bfloat16",
        "sha256": hashlib.sha256(content.encode()).hexdigest(), **more,
    }  # fmt: skip


def _trace(path: Path, differ: dict[tuple[str, str], str] = {}, **more: Any) -> Path:  # noqa: B006
    lines = [
        _line(
            request, boundary, 10 * place + order, differ.get((request, boundary), "same"),
            discrete=boundary.endswith("router"), **more,
        )
        for order, request in enumerate("pq")
        for place, boundary in enumerate(BOUNDARIES)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return path


def test_equal_traces(tmp_path: Path) -> None:
    found = compare_traces(_trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl"))
    assert (found.unfit, found.probes, found.requests, found.first, found.differences) == ((), 10, 2, None, ())


def test_a_trace_against_itself_shows_nothing(tmp_path: Path) -> None:
    a, b = _trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl")
    (tmp_path / "link.jsonl").symlink_to(a)
    (tmp_path / "hard.jsonl").hardlink_to(a)
    for other in (a, tmp_path / "link.jsonl", tmp_path / "hard.jsonl"):
        assert "self-comparison" in compare_traces(a, other).unfit[0]
    assert run(a, a)[0] == 11
    assert "no whole receipt of both sides" in run(a, b)[1], "equal files alone are no agreement of two"
    receipts = [{"host": "h", "pid": pid, "produced_at": "2026-01-01T00:00:00+00:00", "command": "c"} for pid in (1, 2)]
    for second, words in (
        (receipts[0], ("self-comparison: both sides have one producer's receipt",)),
        (receipts[1], ()),
    ):
        for path, receipt in ((a, receipts[0]), (b, second)):
            path.with_name(f"{path.name}.meta.json").write_text(json.dumps({"producer": receipt}))
        assert compare_traces(a, b).unfit == words
    assert "no whole receipt" not in run(a, b)[1]
    a.with_name("a.jsonl.meta.json").write_text(json.dumps({"bypass": "bypass_mode"}))
    assert "bypass_mode" in compare_traces(a, b).unfit[0]


def test_a_trace_may_begin_with_a_blank_line(tmp_path: Path) -> None:
    a, b = _trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl")
    b.write_text(f"\n{b.read_text()}")
    assert run(a, b)[0] == 12


def test_the_first_difference_in_execution_order(tmp_path: Path) -> None:
    """q differs from the router on (order 21), p from its attention on (order 10): p's comes first."""
    b = {
        ("q", "layer0.router"): "x",
        ("q", "layer0.mlp.out"): "x",
        ("p", "layer0.attn.out"): "x",
        ("p", "final.logits"): "x",
    }
    found = compare_traces(_trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl", b))
    assert found.first == ("p", "layer0.attn.out", "tokens=0:4") and found.last_equal == ("p", "embed", "tokens=0:4")
    assert [(one.key[:2], one.downstream) for one in found.differences] == [
        (("p", "layer0.attn.out"), False), (("q", "layer0.router"), False), (("q", "layer0.mlp.out"), True),
        (("p", "final.logits"), False),
    ]  # fmt: skip


def test_the_last_that_agrees_is_of_the_same_request(tmp_path: Path) -> None:
    found = compare_traces(_trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl", {("q", "layer0.router"): "x"}))
    assert found.last_equal == ("q", "layer0.attn.out", "tokens=0:4")
    found = compare_traces(_trace(tmp_path / "a.jsonl"), _trace(tmp_path / "b.jsonl", {("q", "embed"): "x"}))
    assert found.last_equal is None, "what p agrees in says nothing of q"


@pytest.mark.parametrize(
    ("inputs", "word", "step"),
    [
        (("", ""), "not recorded", "record the input's hash"),
        (("aa", "AA"), "input is equal", "replay the operator"),
        (("aa", "bb"), "differs already", "put a boundary between"),
    ],
)
def test_an_operator_is_blamed_only_with_equal_inputs(
    tmp_path: Path, inputs: tuple[str, str], word: str, step: str
) -> None:
    found = compare_traces(
        _trace(tmp_path / "a.jsonl", input_sha256=inputs[0]),
        _trace(tmp_path / "b.jsonl", {("p", "embed"): "x"}, input_sha256=inputs[1]),
    )
    assert word in found.differences[0].operator and step in next_step(found) and found.last_equal is None


def test_what_spoils_a_trace(tmp_path: Path) -> None:
    a = _trace(tmp_path / "a.jsonl")
    whole = a.read_text().splitlines()
    b = tmp_path / "b.jsonl"
    b.write_text("\n".join(whole[1:]))
    assert "side B lacks probe" in compare_traces(a, b).unfit[0] and "side A lacks" in compare_traces(b, a).unfit[0]
    b.write_text("\n".join([*whole, whole[0]]))
    with pytest.raises(CompareError, match="twice"):
        compare_traces(a, b)
    lines = [json.loads(line) for line in whole]
    for change, words in (
        ({"order": 99}, "another order"),
        ({"shape": [4, 9]}, "[4, 9]"),
        ({"dtype": "float32"}, "float32"),
    ):
        b.write_text(
            "\n".join(json.dumps({**line, **change} if line["boundary"] == "embed" else line) for line in lines)
        )
        found = compare_traces(a, b)
        assert words in found.unfit[0] and found.first is None
    for wrong in ({"sha256": None}, {"order": "1"}, {"shape": 3}, {"request": 1}, {"slice": ""}):
        b.write_text(json.dumps({**lines[0], **wrong}))
        with pytest.raises(CompareError, match="no probe"):
            compare_traces(a, b)


def _tensors(path: Path, **changed: np.ndarray) -> Path:
    rng = np.random.default_rng(7)
    value = {
        ("p", "embed", "t"): T(rng.normal(size=(4, 8)).astype(np.float32), "float32"),
        ("p", "router", "t"): T(np.arange(8, dtype=np.int64).reshape(4, 2), "int64"),
        ("p", "logits", "t"): T(rng.normal(size=(4, 16)).astype(np.float32), "float32"),
    }
    for name, array in changed.items():
        value["p", name, "t"] = T(array, value["p", name, "t"].dtype)
    return write(path, value)


def test_tensors_are_hashed_and_measured(tmp_path: Path) -> None:
    a = _tensors(tmp_path / "a.pt")
    rng = np.random.default_rng(7)
    embed = rng.normal(size=(4, 8)).astype(np.float32)
    moved = embed.copy()
    moved[1, 3:5] += np.float32(0.5)
    experts = np.arange(8, dtype=np.int64).reshape(4, 2)
    experts[0, 0] = 9
    found = compare_traces(
        a, _tensors(tmp_path / "b.pt", embed=moved, router=experts, logits=np.ones((4, 16), np.float32))
    )
    assert [one.key[1] for one in found.differences] == ["embed", "router", "logits"]
    assert [one.downstream for one in found.differences] == [False, False, True]
    own = found.differences[0].figures
    assert own is not None and (own.size, own.mismatched, own.first, own.finite) == (32, 2, (1, 3), 1.0)
    d = moved.astype(np.float64) - embed.astype(np.float64)
    assert own.max_abs == np.abs(d).max() and own.mean_abs == pytest.approx(np.abs(d).mean(), rel=1e-14, abs=0)
    assert own.relative_l2 == pytest.approx(
        np.linalg.norm(d) / np.linalg.norm(moved.astype(np.float64)), rel=1e-13, abs=0
    )
    flat = embed.astype(np.float64).ravel(), moved.astype(np.float64).ravel()
    assert own.cosine == pytest.approx(
        flat[0] @ flat[1] / np.linalg.norm(flat[0]) / np.linalg.norm(flat[1]), rel=1e-13, abs=0
    )
    experts_found = found.differences[1].figures
    assert experts_found is not None and experts_found.max_abs == 9 and experts_found.first == (0, 0)
    assert found.differences[2].vocab is not None and found.differences[2].vocab.rows == 4
    assert compare_traces(a, _tensors(tmp_path / "c.pt")).first is None


def _logits(*rows: list[float]) -> Held:
    return Held.of(ELEMENTS["float32"], np.array(rows, np.float32))


def test_vocabulary_by_hand() -> None:
    """p = (1/2, 1/2), q = (3/4, 1/4): distance 1/4; log 1/2 against log 1/4: log 2."""
    found = vocab_figures(_logits([0.0, 0.0]), Held.of(ELEMENTS["float64"], np.array([[math.log(3), 0.0]])))
    assert found.tv_mean == pytest.approx(0.25, rel=1e-15, abs=0) and found.tv_max == found.tv_mean
    assert found.logsoftmax_max == pytest.approx(math.log(2), rel=1e-15, abs=0)
    assert found.argmax == 1 and found.ties == 1, "the tie of p holds q's largest"
    assert vocab_figures(_logits([1.0, 1.0, 0.0]), _logits([0.0, 1.0, 0.0])).argmax == 1, "not the first of a tie alone"
    assert vocab_figures(_logits([1.0, 1.0, 0.0]), _logits([0.0, 0.0, 1.0])).argmax == 0


def test_a_shift_of_all_logits_is_no_change() -> None:
    rows = np.random.default_rng(2).normal(size=(5, 33)).astype(np.float32)
    shifted = rows.astype(np.float64) + 64.0
    found = vocab_figures(Held.of(ELEMENTS["float32"], rows), Held.of(ELEMENTS["float64"], shifted))
    assert found.tv_max is not None and found.tv_max < 1e-14 and found.argmax == 1
    assert found.logsoftmax_max is not None and found.logsoftmax_max < 1e-13


def test_masked_and_broken_rows() -> None:
    inf, nan = math.inf, math.nan
    a = _logits([0, -inf, 1], [0, 0, 1], [nan, 0, 0], [0, 0, 9], [-inf, -inf, -inf])
    b = _logits([0, -inf, 1], [0, -inf, 1], [0, 0, 0], [9, 0, 0], [-inf, -inf, -inf])
    found = vocab_figures(a, b)
    assert (found.rows, found.other_support, found.not_finite) == (2, 1, 2)
    assert found.argmax == 0.5 and found.tv_max == pytest.approx(1, abs=1e-3)
    assert vocab_figures(_logits([nan]), _logits([0])).tv_mean is None


def test_tensors_with_what_is_not_finite_or_zero() -> None:
    def floats(*values: float) -> Held:
        return made.tensor(np.array(values, np.float32).view(np.uint32).tolist(), "float32")

    bad = tensor_figures(floats(1, math.nan, 3), floats(1, 2, 4))
    assert (bad.mismatched, bad.first, bad.max_abs, bad.cosine) == (
        2,
        (1,),
        None,
        None,
    ) and bad.finite == pytest.approx(2 / 3)
    zero = tensor_figures(floats(0, 0), floats(0, 0))
    assert zero.cosine is None and zero.relative_l2 is None and zero.mismatched == 0
    with pytest.raises(ValueError, match="different types"):
        tensor_figures(floats(1), floats(1, 2))


def test_the_command_knows_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    a, b = _trace(Path("a.jsonl")), _trace(Path("b.jsonl"), {("p", "layer0.attn.out"): "x"})
    code, out, _errors = run(a, b)
    assert code == 12 and "first difference at p layer0.attn.out tokens=0:4" in out and "[mismatch]" not in out
    code, out, _errors = run(a, b, "--json", "--report", "r.json")
    whole = json.loads(out)
    assert whole.keys() == {"identity", "observed", "controls_proved", "not_yet_proven", "next_step"}
    assert json.loads(Path("r.json").read_text()) == whole
    (kept,) = Path("tic-reports").iterdir()
    assert json.loads(kept.read_text()) == whole, "as the first call wrote it without being asked"
    assert [whole["identity"][side] for side in "ab"] == [
        {
            "path": str(path),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "manifest": None,
            "manifest_sha256": None,
        }
        for path in (a, b)
    ]
    b.write_text("\n".join(b.read_text().splitlines()[1:]))
    assert run(a, b)[0] == 11
    code, _out, errors = run(a)
    assert code == 2 and "layer trace" in errors
    code, _out, errors = run(a, write(Path("dump.pt"), {"r": (f32(-1), mask(1))}))
    assert code == 2 and "no trace" in errors
    assert run(_tensors(Path("s.pt")), _tensors(Path("t.pt")))[0] == 12
    assert "VACUOUS" in text(compare_traces(*(write(Path(name), {}) for name in ("x.pt", "y.pt"))), "x", "y")
