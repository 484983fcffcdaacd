"""`tic-daemon compare` as a person and a script use it: exit codes, verdicts, the report and the record."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compare.ptfile import T, f32, mask, write
from tests.compare.test_figures import RESULTS, pairs
from tic_daemon import cli
from tic_daemon.compare.align import ids
from tic_daemon.compare.comparison import Declared, compare
from tic_daemon.compare.criteria import METRICS
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.reading import token_file
from tic_daemon.compare.reporting import dumped, record, text
from tic_daemon.errors import CompareError
from tic_daemon.evidence.judge import Standing
from tic_daemon.evidence.labels import Label
from tic_daemon.scan import records

SHOWN = ["--basis", "raw", "--policy", "7", "--faults", "none"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*argv: Any) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = cli.main(["compare", *map(str, argv)])
    return code, out.getvalue(), errors.getvalue()


def report(*argv: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*argv, "--json", "--no-report")[1])
    return found


def sides(a: dict[Any, Any], b: dict[Any, Any]) -> tuple[Path, Path]:
    return write(Path("a.pt"), a), write(Path("b.pt"), b)


ONE = {"r": (f32(-1, -2), mask(1, 1))}
OTHER = {"r": (f32(-1, -2.5), mask(1, 1))}
KINDS: dict[str, Callable[..., T]] = {
    "float64": lambda *v: T(np.array(v, np.float64), "float64"),
    "float32": f32,
    "float16": lambda *v: T(np.array(v, np.float16), "float16"),
    "bfloat16": lambda *v: T((np.array(v, np.float32).view(np.uint32) >> 16).astype(np.uint16), "bfloat16"),
    "float8_e5m2": lambda *v: T((np.array(v, np.float16).view(np.uint16) >> 8).astype(np.uint8), "float8_e5m2"),
}
"""Tensors of numbers that each type holds exactly."""


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("dtype", sorted(KINDS))
def test_the_edge_table(dtype: str, swap: bool) -> None:
    """Every row, for every type, in both orders: label and exit code."""
    t, nan, inf = KINDS[dtype], math.nan, math.inf
    good = {"r": (t(-1, -2, -4), mask(1, 1, 1))}
    other_type = f32 if dtype != "float32" else KINDS["bfloat16"]
    rows: list[tuple[dict[Any, Any], dict[Any, Any], str | None, int, str]] = [
        ({}, {}, "VACUOUS", 11, "no sequence"),
        ({"r": (t(), mask())}, {"r": (t(), mask())}, "VACUOUS", 11, "no valid token"),
        ({"r": (t(-1), mask(0))}, {"r": (t(-1), mask(0))}, "VACUOUS", 11, "no valid token"),
        ({**good, "s": (t(-1), mask(0))}, {**good, "s": (t(-1), mask(0))}, "INVALID", 11, "1 of 2 sequences"),
        ({"r": (t(nan, -2, -4), mask(1, 1, 1))}, good, "FAIL", 10, "non-finite: 1 valid numbers, first at 'r' position 0"),
        ({"r": (t(-1, nan, -4), mask(1, 1, 1))}, {"r": (t(-1, nan, -4), mask(1, 1, 1))}, "FAIL", 10, "position 1"),
        ({"r": (t(-1, -2, -inf), mask(1, 1, 1))}, {"r": (t(-1, -2, -inf), mask(1, 1, 1))}, "FAIL", 10, "position 2"),
        ({"r": (t(0, 0), mask(1, 1))}, {"r": (t(0, 0), mask(1, 1))}, "INVALID", 11, "placeholder"),
        ({"r": (t(0, -0.0, nan), mask(1, 1, 0))}, {"r": (t(-1, -1, nan), mask(1, 1, 0))}, "INVALID", 11, "placeholder"),
        (good, {"r": (other_type(-1, -2, -4), mask(1, 1, 1))}, "INVALID", 11, "element types differ"),
        (good, {"r": (t(-1, -2, -4), T(np.array([1, 1, 1]), "int64"))}, "INVALID", 11, "it must be bool"),
        (good, {"r": (t(-1, -2, -4), mask(1, 1, 0))}, "INVALID", 11, "masks differ at 1 positions, first at 2"),
        (good, {"r": (t(-1, -2, -4), T(np.array([1, 1, 2], np.uint8), "bool"))}, "INVALID", 11, "holds bytes that are no bool"),
        (good, {"r": (t(-1, -2), mask(1, 1))}, "INVALID", 11, "shapes differ"),
        (good, {**good, "s": (t(-1), mask(1))}, "INVALID", 11, "request sets differ: only in"),
        (good, {}, "INVALID", 11, "'r'"),
        ({1: (t(-1), mask(1)), "a": (t(-2), mask(1))}, {"1": (t(-1), mask(1)), "a": (t(-4), mask(1))}, None, 12, "no criterion"),
        ({1: (t(-1), mask(1)), "1": (t(-2), mask(1))}, {"1": (t(-1), mask(1))}, "INVALID", 11, "stands there twice"),
        (good, {"r": (t(-1, -2, 4), mask(1, 1, 1))}, "INVALID", 11, "no log-probabilities"),
        (good, {"r": (t(-1, -2, -8), mask(1, 1, 1))}, None, 12, "no criterion"),
        (good, good, None, 12, "producers of equal bytes"),
        ({"r": (t(0, -2), mask(1, 1))}, {"r": (t(-0.0, -2), mask(1, 1))}, None, 12, "no criterion"),
    ]  # fmt: skip
    for place, (a, b, label, code, words) in enumerate(rows):
        first, second = write(Path(f"a{place}.pt"), a), write(Path(f"b{place}.pt"), b)
        if swap:
            first, second = second, first
        found = compare(
            first, second, Declared("raw", "7", standing=_clear(), tokens=_tokens(Path(f"t{place}.pt"), a, b))
        )
        assert (found.verdict.label, int(found.verdict.exit_code)) == (label, code), (place, found.verdict)
        assert words in found.verdict.reason, (place, found.verdict)
        if words == "request sets differ: only in" or "masks differ" in words:
            assert found.figures is None, "never over an intersection"
        if "non-finite" in found.verdict.reason:
            assert found.figures is not None and found.figures.metrics["logprob_max"] is None
        if place == len(rows) - 1:
            assert found.figures is not None and found.figures.classes == {"signed_zero": 1}


def _clear() -> Any:
    from tic_daemon.evidence.judge import Standing

    return Standing.CLEAR


def _tokens(path: Path, a: dict[Any, Any], b: dict[Any, Any]) -> Path:
    """Tokens for every request of both sides, as many as the longer has positions."""
    found = {}
    for request in {str(key) for key in (*a, *b)}:
        sizes = [len(side[key][0].array) for side in (a, b) for key in side if str(key) == request]
        found[request] = ([9, 9], list(range(max(sizes))))
    return write(path, found)


def test_types_that_differ_are_compared_by_value_and_said_to_be() -> None:
    a, b = sides({"r": (f32(-1, -2), mask(1, 1))}, {"r": (KINDS["bfloat16"](-1, -2.5), mask(1, 1))})
    found = report(a, b)
    assert found["observed"]["metrics"]["logprob_mae"] == 0.25 and found["observed"]["mismatched_tokens"] is None
    Path("c.toml").write_text('metric = "logprob_mae"\nat_most = 0.5\n')
    assert "not shown" in report(a, b, "--criterion", "c.toml")["identity"]["verdict"]["reason"]


def test_bare_files_give_a_measurement(tmp_path: Path) -> None:
    code, out, _errors = run(*sides(ONE, OTHER))
    assert code == 12 and "inconclusive: not shown: basis, inputs, policy version, faults of the attempt" in out
    assert "logprob_mae 0.25" in out and "[mismatch] run=unknown" in out
    (kept,) = (tmp_path / "tic-reports").iterdir()
    whole = json.loads(kept.read_text())
    assert whole.keys() == {"identity", "observed", "controls_proved", "not_yet_proven", "next_step"}
    assert whole["observed"]["metrics"]["logprob_mae"] == 0.25 and whole["observed"]["sequences"][0]["max_at"] == 1
    assert kept.stat().st_mode & 0o777 == 0o600
    run(*sides(ONE, OTHER))
    assert len(list((tmp_path / "tic-reports").iterdir())) == 2, "a report is never overwritten"
    assert run(*sides(ONE, OTHER), "--report", "mine.json")[0] == 12
    assert run(*sides(ONE, OTHER), "--report", "mine.json")[0] == 2


def test_a_report_that_cannot_be_written_takes_nothing_else_away() -> None:
    Path("tic-reports").write_text("a file")
    code, out, errors = run(*sides(ONE, OTHER))
    assert code == 2 and "logprob_mae 0.25" in out and "the report cannot be written" in errors
    code, out, errors = run(*sides(ONE, OTHER), "--report", "absent/x.json")
    assert code == 2 and "logprob_mae 0.25" in out and "No such file" in errors


def test_one_file_twice_is_no_comparison() -> None:
    a, _b = sides(ONE, OTHER)
    Path("link.pt").symlink_to(a)
    Path("hard.pt").hardlink_to(a)
    for other in (a, "link.pt", "hard.pt"):
        code, out, _errors = run(a, other, *SHOWN)
        assert code == 11 and "self-comparison" in out


def test_a_copy_is_equal_bytes_and_nothing_more() -> None:
    a, _b = sides(ONE, OTHER)
    shutil.copy(a, "copy.pt")
    code, out, _errors = run(a, "copy.pt", *SHOWN)
    assert code == 12 and "producers of equal bytes" in out


def _receipt(pid: int) -> dict[str, Any]:
    return {"host": "n1", "pid": pid, "produced_at": "2026-11-29T12:00:00Z", "command": "python score.py"}


def _meta(path: Path, **said: Any) -> None:
    path.with_name(path.name + ".meta.json").write_text(json.dumps(said))


def _frozen(metric: str = "bitwise", **bounds: Any) -> tuple[Path, str]:
    """A criterion file and its SHA-256."""
    import hashlib

    path = Path("criterion.toml")
    path.write_text(f'metric = "{metric}"\n' + "".join(f"{key} = {value!r}\n" for key, value in bounds.items()))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def _planted(a: Path, criterion: Path) -> Path:
    """The report of a run with one bit of side B flipped."""
    write(Path("planted.pt"), {"r": (f32(-1, float(np.nextafter(np.float32(-2), np.float32(0)))), mask(1, 1))})
    code, out, _errors = run(
        a, "planted.pt", "--criterion", criterion, "--plant", "last bit of r:1", "--report", "planted.json"
    )
    assert code == 10 and "a planted error" in out
    return Path("planted.json")


def test_a_perfect_match_of_two_producers_passes() -> None:
    criterion, digest = _frozen()
    a, b = sides(ONE, ONE)
    shown = {"criterion_sha256": digest, "basis": "raw", "policy_version": 7, "input_sha256": "ab"}
    _meta(a, producer=_receipt(1), **shown)
    _meta(b, producer=_receipt(2), **shown)
    planted = _planted(a, criterion)
    arguments = (a, b, "--criterion", criterion, "--planted", planted, "--faults", "none")
    code, out, _errors = run(*arguments)
    assert code == 0 and "PASS: bitwise: 0 of 2 valid tokens differ" in out
    for change, word in (
        ({"criterion_sha256": ""}, "older than"), ({"criterion_sha256": "cd"}, "older than"), ({"basis": None}, "basis"),
        ({"input_sha256": None}, "inputs"), ({"policy_version": None}, "policy"), ({"producer": None}, "producers"),
        ({"producer": {"pid": 2}}, "producers"), ({"producer": _receipt(1)}, "one producer's receipt"),
        ({"basis": "processed:temperature=0.7"}, "basis differs"), ({"policy_version": 8}, "policy version differs"),
        ({"input_sha256": "cd"}, "inputs differ"), ({"sha256": "00"}, "has SHA-256"), ({"size": 1}, "bytes"),
        ({"bypass": "bypass_mode"}, "bypass_mode"),
    ):  # fmt: skip
        _meta(b, **{"producer": _receipt(2), **shown, **change})
        code, out, _errors = run(*arguments)
        assert code in {11, 12} and word in out, change
    _meta(b, producer=_receipt(2), **shown)
    assert run(*arguments[:4], "--faults", "none")[0] == 12, "without a planted error"
    assert run(*arguments[:-2])[0] == 12, "without a word on faults"
    criterion.write_text(criterion.read_text() + "# changed\n")
    code, out, _errors = run(*arguments)
    assert code == 12, "a changed criterion is another one"


def test_a_budget_passes_and_fails_by_its_bound() -> None:
    for bound, code, label in ((0.25, 0, "PASS"), (0.2499, 10, "FAIL")):
        criterion, digest = _frozen("logprob_mae", at_most=bound)
        a, b = sides(ONE, OTHER)
        for path in (a, b):
            _meta(path, criterion_sha256=digest, basis="raw", policy_version="7", input_sha256="ab")
        write(Path("planted.pt"), {"r": (f32(-1, -9), mask(1, 1))})
        run(a, "planted.pt", "--criterion", criterion, "--plant", "-2 for -9", "--report", f"planted{code}.json")
        found = run(a, b, "--criterion", criterion, "--planted", f"planted{code}.json", "--faults", "none")
        assert found[0] == code and f"{label}: logprob_mae 0.25" in found[1]


def test_a_planted_error_must_be_found() -> None:
    criterion, _digest = _frozen("logprob_mae", at_most=5.0)
    a, b = sides(ONE, OTHER)
    code, out, _errors = run(a, b, "--criterion", criterion, "--plant", "half a nat", "--report", "p.json")
    assert code == 11 and "was not found" in out
    found = report(a, b, "--criterion", criterion, "--planted", "p.json", *SHOWN)
    assert "did not judge" in found["identity"]["criterion"]["planted_error"]
    plain = run(a, b, "--report", "plain.json")
    assert plain[0] == 12
    found = report(a, b, "--criterion", criterion, "--planted", "plain.json", *SHOWN)
    assert "no report of a planted error" in found["identity"]["criterion"]["planted_error"]
    Path("x.json").write_text("[]")
    assert run(a, b, "--criterion", criterion, "--planted", "x.json")[0] == 2


def test_a_planted_error_proves_one_reader_type_and_metric() -> None:
    criterion, _digest = _frozen()
    a, b = sides(ONE, OTHER)
    planted = _planted(a, criterion)
    halves = (
        write(Path("h.pt"), {"r": (KINDS["float16"](-1, -2), mask(1, 1))}),
        write(Path("i.pt"), {"r": (KINDS["float16"](-1, -2.5), mask(1, 1))}),
    )
    found = report(*halves, "--criterion", criterion, "--planted", planted)
    assert "through another elements" in found["identity"]["criterion"]["planted_error"]
    np.savez("c.npz", **{"r/logprobs": np.array([-1, -2], np.float32), "r/mask": np.array([True, True])})
    found = report("c.npz", b, "--criterion", criterion, "--planted", planted)
    assert "through another readers" in found["identity"]["criterion"]["planted_error"]
    _frozen("logprob_max", at_most=1.0)
    found = report(a, b, "--criterion", criterion, "--planted", planted)
    assert "through another criterion" in found["identity"]["criterion"]["planted_error"]


@pytest.mark.parametrize(
    "body",
    ["", "metric = 3", 'metric = "mae"\nat_most = 1', 'metric = "logprob_mae"', 'metric = "bitwise"\nat_most = 0', "metric = ",
     'metric = "logprob_mae"\nat_most = "1"', 'metric = "logprob_mae"\nat_most = true', 'metric = "logprob_mae"\nat_most = nan',
     'metric = "bitwise"\nfoo = 1', 'metric = "kl_k1"\nat_most = 1', 'metric = "logprob_mae"\nat_least = 1', 'metric = "cosine"\nat_most = 1', 'metric = "bitwise"\nsteps = [3, 1]', 'metric = "bitwise"\ngoal = "fame"'],
)  # fmt: skip
def test_criteria_that_are_none(body: str) -> None:
    Path("c.toml").write_text(body)
    code, _out, errors = run(*sides(ONE, OTHER), "--criterion", "c.toml")
    assert code == 2 and "is no criterion" in errors


def test_a_criterion_covers_its_steps_path_and_state() -> None:
    path = Path("c.toml")
    path.write_text('metric = "bitwise"\nsteps = [2, 4]\npath = "decode"\n[execution]\ngraph_mode = "FULL"\n')
    a, b = sides(ONE, OTHER)
    said = {"input_sha256": "ab"}
    for more, words in (
        ({}, "not shown: hits of path decode, execution state graph_mode"),
        ({"path_hits": {"decode": 0}}, "path decode was never taken"),
        ({"path_hits": {"decode": 3}, "execution": {"graph_mode": "NONE"}}, "graph_mode is NONE"),
        ({"path_hits": {"decode": 3}, "execution": {"graph_mode": "FULL"}}, "the step is not known"),
        ({"path_hits": {"decode": 3}, "execution": {"graph_mode": "FULL"}, "step": 9}, "step 9 lies outside"),
        ({"path_hits": {"decode": 3}, "execution": {"graph_mode": "FULL"}, "step": 2}, "older than the first number"),
    ):  # fmt: skip
        _meta(a, **said, **more)
        _meta(b, **said)
        assert words in report(a, b, "--criterion", path, *SHOWN)["identity"]["verdict"]["reason"]


def test_zeros_count_once_they_are_proved() -> None:
    a, b = sides({"r": (f32(0), mask(1)), "s": (f32(-1), mask(1))}, {"r": (f32(0), mask(1)), "s": (f32(-2), mask(1))})
    assert "placeholder" in run(a, b)[1]
    proofs = {"hook_count": 2, "score_source": "engine", "negative_control": "report-3"}
    _meta(a, **proofs)
    assert "placeholder" in run(a, b)[1], "each side needs its own"
    _meta(b, **proofs)
    assert "placeholder" not in run(a, b)[1]
    for lacking in ({"hook_count": 0}, *({name: None} for name in proofs)):
        _meta(b, **{**proofs, **lacking})
        assert "placeholder" in run(a, b)[1], lacking


def test_four_samples_that_are_repeated_are_four() -> None:
    names = [f"r{number}" for number in range(32)]
    values = {name: (f32(-1, -2), mask(1, 1)) for name in names}
    a, b = sides(values, values)
    tokens = {name: ([1], [2, 3 + number % 4]) for number, name in enumerate(names)}
    for told, independent in ((tokens, 4), ({**tokens, "r0": ([9], [2, 3])}, 5)):
        found = compare(a, b, Declared(tokens=write(Path("t.pt"), told)))
        assert (len(found.alignment.requests), found.alignment.independent) == (32, independent)


def token_file_of(own: T) -> list[int]:
    """The ids of a file of tokens as they are compared."""
    with Opened(write(Path("t.pt"), {"r": (T(np.array([1], np.int64), "int64"), own)})) as file:
        return [int(one) for one in ids(token_file(file)["r"][1])]


def test_prompts_and_responses_are_told_apart_and_ids_keep_their_size() -> None:
    """What is independent: the same ids cut elsewhere, and ids that only differ above 32 bits, are others."""
    a, b = sides(*({name: (f32(value, value), mask(1, 1)) for name in "rst"} for value in (-1, -2)))
    for told, independent in (
        ({"r": ([1], [2, 3]), "s": ([1], [2, 3]), "t": ([1], [2, 3])}, 1),
        ({"r": ([1], [2, 3]), "s": ([1], [2, 3 + (1 << 32)]), "t": ([1 << 40], [2, 3])}, 3),
    ):
        assert compare(a, b, Declared(tokens=write(Path("t.pt"), told))).alignment.independent == independent, told
    a, b = sides(*({"r": (f32(own, own), mask(1, 1)), "s": (f32(own), mask(1))} for own in (-1, -2)))
    cut = write(Path("t.pt"), {"r": ([1], [2, 3]), "s": ([1, 2], [3])})
    assert compare(a, b, Declared(tokens=cut)).alignment.independent == 2
    wide = T(np.array([2**32 - 1, 3], np.uint32), "uint32"), T(np.array([-1, 3], np.int64), "int64")
    held = [token_file_of(one) for one in wide]
    assert held == [[2**32 - 1, 3], [-1, 3]], "unsigned ids have no sign"


def test_equal_tokens_do_not_outweigh_manifests_that_name_different_inputs() -> None:
    """The file of tokens is declared; positions and masks of the inputs may differ where the tokens do not."""
    a, b = sides(ONE, ONE)
    tokens = write(Path("t.pt"), {"r": ([1], [2, 3])})
    for said_a, said_b, relation in (
        (None, None, "equal"),
        ("ab", None, "equal"),
        ("ab", "ab", "equal"),
        ("ab", "cd", "different"),
    ):
        _meta(a, input_sha256=said_a)
        _meta(b, input_sha256=said_b)
        found = compare(a, b, Declared(tokens=tokens))
        assert found.facts.inputs == relation, (said_a, said_b)
    assert (found.verdict.rule, found.verdict.label) == (2, "INVALID") and "inputs differ" in found.verdict.reason
    _meta(b, input_sha256="cd", policy_version="8")
    _meta(a, input_sha256="ab", policy_version="7")
    reason = report(a, b)["identity"]["verdict"]["reason"]
    assert "inputs differ" in reason and "policy version differs" in reason, "each difference is named"
    write(Path("b.pt"), {"s": ONE["r"]})
    assert "inputs differ" in report(a, b)["identity"]["verdict"]["reason"], "also beside others"


def test_numbers_above_0_are_no_log_probabilities() -> None:
    """Rounding of log_softmax leaves up to 1e-6; anything above is another number, a probability of 0.3 too."""
    for value, words in (
        (9e-7, ""),
        (2e-6, "are above 0"),
        (0.3, "the largest 0.3: no log-probabilities"),
        (7, "above 0"),
    ):
        for one, other in ((value, -1), (-1, value)):
            found = compare(*sides({"r": (f32(-2, one), mask(1, 1))}, {"r": (f32(-2, other), mask(1, 1))}))
            assert (found.verdict.rule == 2) == bool(words) and words in found.verdict.reason, (one, other)
    masked = compare(*sides({"r": (f32(-2, 0.3), mask(1, 0))}, {"r": (f32(-2, 0.3), mask(1, 0))}))
    assert masked.verdict.rule != 2, "what does not count says nothing"


def test_a_path_that_one_side_took_was_taken() -> None:
    """A path of the engine alone is one: neither side's record outweighs the other's hits."""
    Path("c.toml").write_text('metric = "bitwise"\npath = "decode"\n')
    a, b = sides(ONE, OTHER)
    for hits_a, hits_b, words in (
        (2, 0, "older than"), (0, 2, "older than"), (0, 0, "never taken"), (0, None, "never taken"), (None, None, "hits of path"),
    ):  # fmt: skip
        for path, hits in ((a, hits_a), (b, hits_b)):
            _meta(path, input_sha256="ab", **({} if hits is None else {"path_hits": {"decode": hits}}))
        assert words in report(a, b, "--criterion", Path("c.toml"), *SHOWN)["identity"]["verdict"]["reason"], words


@pytest.mark.parametrize("nothing", ["unknown", "Unknown ", "", " "])
def test_unknown_on_both_sides_is_unknown_and_not_equal(nothing: str) -> None:
    """A manifest marks what it does not know as unknown: two of them agree in nothing."""
    criterion, digest = _frozen()
    a, b = sides(ONE, ONE)
    shown = {"criterion_sha256": digest, "basis": "raw", "policy_version": 7, "input_sha256": "ab"}
    for lacking, words in (
        ({"basis": nothing}, "not shown: basis"), ({"policy_version": nothing}, "not shown: policy version"),
        ({"input_sha256": nothing}, "not shown: inputs"), ({}, ""),
    ):  # fmt: skip
        for path, pid in ((a, 1), (b, 2)):
            _meta(path, producer=_receipt(pid), **{**shown, **lacking})
        found = compare(a, b, Declared(criterion=criterion, standing=Standing.CLEAR))
        assert (found.verdict.rule, found.verdict.label) == (8 if words else 10, None) and words in found.verdict.reason
    _meta(a)
    _meta(b)
    facts = compare(a, b, Declared(nothing, nothing)).facts
    assert (facts.basis, facts.policy) == ("unknown", "unknown"), "a declaration of nothing declares nothing"
    zeros = {"r": (f32(0, -0.0), mask(1, 1))}
    a, b = sides(zeros, zeros)
    for path in (a, b):
        _meta(path, hook_count=3, score_source=nothing, negative_control="report-3")
    assert compare(a, b).verdict.rule == 6, "an unknown source proves no zero"
    for path in ("x.jsonl", "y.jsonl"):
        line = {"request_id": "r", "logprobs": [-1, -2], "response_mask": [True, True], "policy": ["3", nothing]}
        Path(path).write_text(json.dumps(line))
    assert compare(Path("x.jsonl"), Path("y.jsonl")).facts.policy == "unknown"


def test_a_state_that_is_unknown_is_not_another_one() -> None:
    Path("c.toml").write_text('metric = "bitwise"\n[execution]\ngraph_mode = "FULL"\n')
    a, b = sides(ONE, OTHER)
    for path in (a, b):
        _meta(path, input_sha256="ab", execution={"graph_mode": "unknown"})
    verdict = report(a, b, "--criterion", Path("c.toml"), *SHOWN)["identity"]["verdict"]
    assert verdict["rule"] == 8 and "execution state graph_mode" in verdict["reason"]


def test_a_declaration_that_either_manifest_contradicts_is_refused() -> None:
    a, b = sides(ONE, OTHER)
    for path, other in ((a, b), (b, a)):
        _meta(path, basis="raw", policy_version="7")
        _meta(other)
        for declared in (Declared("processed:temperature=0.7"), Declared(policy="8")):
            with pytest.raises(CompareError, match="contradicts"):
                compare(a, b, declared)
        assert compare(a, b, Declared("raw", "7")).facts.basis == "equal"


@pytest.mark.parametrize("which", ["a.pt", "b.pt", "t.pt"])
def test_no_file_may_change_while_it_is_compared(which: str) -> None:
    a, b = sides(ONE, OTHER)
    tokens = write(Path("t.pt"), {"r": ([1], [2, 3])})
    with pytest.raises(CompareError, match=f"{which} changed while it was compared"):
        compare(a, b, Declared(tokens=tokens), look=lambda *_: os.utime(which, ns=(1, 1)))


def test_declarations_never_override_a_manifest() -> None:
    a, b = sides(ONE, OTHER)
    _meta(a, policy_version="6")
    code, _out, errors = run(a, b, "--policy", "7")
    assert code == 2 and "contradicts" in errors and "says 6 of side A" in errors


def test_a_dump_that_names_another_version_than_is_said_differs() -> None:
    line = {"request_id": "r", "logprobs": [-1, -2], "response_mask": [True, True], "policy": 3}
    for which in ("x.jsonl", "y.jsonl"):
        Path(which).write_text(json.dumps(line))
    assert compare(Path("x.jsonl"), Path("y.jsonl")).facts.policy == "equal"
    assert compare(Path("x.jsonl"), Path("y.jsonl"), Declared(policy="3")).facts.policy == "equal"
    assert compare(Path("x.jsonl"), Path("y.jsonl"), Declared(policy="4")).facts.policy == "different"
    _meta(Path("y.jsonl"), policy_version=4)
    assert compare(Path("x.jsonl"), Path("y.jsonl")).facts.policy == "different"
    Path("z.jsonl").write_text(json.dumps({**line, "request_id": "q"}))
    assert compare(Path("x.jsonl"), Path("z.jsonl")).facts.policy == "unknown", "nothing in common shows nothing"


def test_tokens_are_compared_before_scores() -> None:
    a, b = sides(ONE, OTHER)
    write(Path("t.pt"), {"r": ([5, 6], [7])})
    assert "1 response tokens and 2 log-probabilities" in run(a, b, "--tokens", "t.pt")[1]
    write(Path("t.pt"), {"q": ([5, 6], [7, 8])})
    assert "lacks the tokens of 1 requests" in run(a, b, "--tokens", "t.pt")[1]
    lines = {"request_id": "r", "logprobs": [-1, -2], "response_mask": [True, True], "dtype": "float32"}
    for which in ("x.jsonl", "y.jsonl"):
        Path(which).write_text(json.dumps({**lines, "token_ids": [7, 8]}))
    assert report("x.jsonl", "y.jsonl")["identity"]["inputs"] == "unknown", "the prompts are not known"
    for which in ("x.jsonl", "y.jsonl"):
        Path(which).write_text(json.dumps({**lines, "token_ids": [7, 8], "prompt_ids": [1]}))
    assert len(report("x.jsonl", "y.jsonl")["identity"]["inputs"]) == 64
    Path("x.jsonl").write_text(json.dumps({**lines, "token_ids": [7, 8]}))
    Path("y.jsonl").write_text(json.dumps({**lines, "token_ids": [7, 9]}))
    code, out, _errors = run("x.jsonl", "y.jsonl")
    assert code == 11 and "'r': response tokens differ, first at position 1: 8 in A and 9 in B" in out


def test_numbers_that_were_text_never_pass_for_bits() -> None:
    criterion, digest = _frozen()
    line = {
        "request_id": "r",
        "logprobs": [-1, -2],
        "response_mask": [True, True],
        "dtype": "float32",
        "token_ids": [7, 8],
    }
    for which in ("x.jsonl", "y.jsonl"):
        Path(which).write_text(json.dumps(line))
        _meta(Path(which), criterion_sha256=digest, producer=_receipt(ord(which[0])))
    code, out, _errors = run("x.jsonl", "y.jsonl", "--criterion", criterion, *SHOWN)
    assert code == 11 and "not in their original type" in out


@pytest.mark.parametrize("metric", [*METRICS, "kl_k1"])
def test_the_record_is_one_that_the_daemon_reads(metric: str) -> None:
    where = RESULTS / "step003"
    found = compare(
        where / "rollout_logprobs.pt", where / "trainer_logprobs.pt", Declared("raw", tokens=where / "token_ids.pt")
    )
    printed = record(found, "reports/x y.json", metric)
    lines = printed.splitlines()
    assert lines[0].startswith("[mismatch] run=grpo-tiny-a step=3 policy=3 input=")
    fields = dict(pair for line in lines for pair in records.tokens(line.removeprefix("[mismatch]"))[0])
    assert list(fields)[:15] == list(records.FIELDS) and all(fields.values())
    assert fields["report"] == "reports/x y.json" and fields["producer"] == "tic" and fields["scope"] == "fixed-input"
    assert found.figures is not None and float(fields["value"]) == found.figures.metrics[metric]
    assert records.Records().whole(_at(), 10, fields, printed) == [], "the daemon does not count its own words"
    (event,) = (
        records.Records().whole(_at(), 10, {key: value for key, value in fields.items() if key != "producer"}, printed)
        or []
    )
    assert event.parse_state == ("ok" if metric in records.METRICS else "unknown_metric")


def _at() -> Any:
    from tic_daemon.scan.events import At

    return At(0, 10, 1)


def test_metrics_are_of_the_closed_list() -> None:
    assert set(METRICS) - {"p50", "p95", "p99"} < records.METRICS


def test_json_stays_json_whatever_a_name_holds() -> None:
    """DEL, C1, a soft hyphen and tag characters may stand raw in JSON and must not in a terminal."""
    names = ["a\x7f", "b\x85", "c\u00ad", "d\U000e0041", "e\u202e", "f\x1b[2J", "g\n", "h\u2028"]
    a, b = sides(*({name: (f32(value), mask(1)) for name in names} for value in (-1, -2)))
    _code, out, _errors = run(a, b, "--json", "--no-report")
    assert [row["request"] for row in json.loads(out)["observed"]["sequences"]] == sorted(names)
    assert all(char.isprintable() or char == "\n" for char in out)


def test_a_hostile_name_moves_no_cursor() -> None:
    a, b = sides({"\x1b[2J\u202e": (f32(-1), mask(1))}, {"\x1b[2J\u202e": (f32(-2), mask(1))})
    for extra in ([], ["--json"]):
        _code, out, _errors = run(a, b, "--no-report", *extra)
        assert "\x1b" not in out and "\u202e" not in out
    Path("evil \n[mismatch] x=1.pt").write_bytes(a.read_bytes())
    _code, out, _errors = run(a, "evil \n[mismatch] x=1.pt")
    assert sum(line.startswith("[mismatch]") for line in out.splitlines()) == 1


def test_files_that_cannot_be_used_are_said_to_be() -> None:
    a, b = sides(ONE, OTHER)
    for argv in (
        (a, "absent.pt"),
        (a,),
        (a, "."),
        (a, b, "--planted", "absent"),
        (a, b, "--plant", "x"),
        (a, b, "--tokens", a),
    ):
        code, out, errors = run(*argv)
        assert code == 2 and not out and errors.startswith("tic-daemon: ") and len(errors.splitlines()) <= 2, argv
    with pytest.raises(CompareError):
        compare(a, Path("\0"))


def test_kl_is_called_so_only_for_samples_of_the_compared_policy() -> None:
    a, b = sides(ONE, OTHER)
    assert report(a, b, *SHOWN)["observed"]["kl_is"] == "diagnostic statistic"
    for path in (a, b):
        _meta(path, policy_version="7", samples_policy="7")
    assert report(a, b, "--basis", "raw")["observed"]["kl_is"] == "KL estimate"
    assert report(a, b)["observed"]["kl_is"] == "diagnostic statistic", "the basis is not shown"
    _meta(b, policy_version="7", samples_policy="6")
    assert report(a, b, "--basis", "raw")["observed"]["kl_is"] == "diagnostic statistic"


def test_numbers_at_the_end_of_float64_give_a_report(tmp_path: Path) -> None:
    big = KINDS["float64"]
    a, b = sides({"r": (big(-1.7e308, -1), mask(1, 1))}, {"r": (big(1.7e308, -1), mask(1, 1))})
    whole = json.loads(dumped(compare(a, b)), parse_constant=pytest.fail)
    assert whole["observed"]["metrics"]["p99"] is None and whole["observed"]["sequences"][0]["max_abs"] is None
    assert whole["observed"]["metrics"]["p50"] == 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_numbers_are_there_is_a_report(tmp_path: Path, data: st.DataObject) -> None:
    """Any bits of any type: a verdict, JSON without NaN, a summary and a record."""
    dtype = data.draw(st.sampled_from(["float64", "float32", "bfloat16", "float16", "float8_e5m2"]))
    a, b = data.draw(pairs(dtype))
    width = {"float64": "<u8", "float32": "<u4", "bfloat16": "<u2", "float16": "<u2", "float8_e5m2": "u1"}[dtype]
    paths = []
    for which, side in (("a", a), ("b", b)):
        value = {key: (T(np.array(bits, width), dtype), mask(*flags)) for key, (bits, flags) in side.items()}
        paths.append(write(tmp_path / f"{which}.pt", value))
    found = compare(*paths)
    whole = json.loads(dumped(found), parse_constant=pytest.fail)
    assert whole["identity"]["verdict"]["exit_code"] == found.verdict.exit_code
    assert text(found).startswith(found.id) and record(found, "x").startswith("[mismatch] ")
    assert found.verdict.label is not Label.PASS
