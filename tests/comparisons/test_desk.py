"""The queue and the process that compares: once each, restarts, hostile files, crashes, deadlines."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.comparisons.dumps import OTHER, SIDE, Bench, compared, dump, of_zeros, step
from tests.results.test_archive import OLD, manifest
from tic_daemon import linechild
from tic_daemon.comparisons import process
from tic_daemon.comparisons.desk import Desk
from tic_daemon.comparisons.worker import AMONG_SESSIONS, NICE
from tic_daemon.config import CompareConfig, ComparisonConfig, Config
from tic_daemon.evidence.judge import Standing
from tic_daemon.store.comparison_rows import (
    ComparisonFileRow,
    ComparisonSaidRow,
    ComparisonSequenceRow,
    ComparisonTokenRow,
    ComparisonVersionRow,
    TraceBoundaryRow,
)

PAIR = {"rollout_logprobs.pt": dump(SIDE), "trainer_logprobs.pt": dump(OTHER)}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "w")
    yield made
    made.close()


def test_a_pair_is_compared_once_also_after_a_restart_and_anew_when_its_bytes_change(bench: Bench) -> None:
    where = step(bench.root, 0, PAIR)
    (row,) = compared(bench.compare())
    assert (row.mismatched_tokens, row.valid_tokens, row.first_request, row.first_position) == (1, 5, "r1", 1)
    assert row.logprob_mae == 0.1 and row.rule == 8 and row.standing == "unknown"
    assert json.loads(Path(row.report).read_text())["observed"]["mismatched_tokens"] == 1
    assert Path(row.report).stat().st_mode & 0o777 == 0o600
    tokens = [
        (one.request, one.position, one.why, one.value_b) for one in bench.rows if isinstance(one, ComparisonTokenRow)
    ]
    assert tokens == [("r1", 1, "first, largest", -2.5)]
    strips = {one.request: (one.strip, one.strip_valid) for one in bench.rows if isinstance(one, ComparisonSequenceRow)}
    assert strips == {"r1": ((0, 1, 0), (1, 1, 1)), "r2": ((0, 0), (1, 1))}
    assert bench.states() == {"rollout_logprobs.pt": ("done", "inconclusive: " + row.reason)}
    assert bench.compare() == [], "nothing changed"
    bench.again()
    assert bench.compare() == [], "nor after a restart"
    step(bench.root, 0, {**PAIR, "trainer_logprobs.pt": dump(SIDE)})
    (again,) = compared(bench.compare())
    assert again.task == row.task and again.id != row.id and again.mismatched_tokens == 0
    assert again.rule == 8 and "producers of equal bytes" in again.reason
    (where / "trainer_logprobs.pt").write_bytes(dump(OTHER))  # the manifest says otherwise now
    assert compared(bench.compare()) == []


def test_self_comparison_is_seen_through_links_and_receipts(bench: Bench) -> None:
    data = dump(SIDE)
    where = step(bench.root, 0, {"rollout.pt": data})
    os.link(where / "rollout.pt", where / "trainer.pt")
    manifest(where, {"rollout.pt": data, "trainer.pt": data}, OLD, run="run-a", step=0)
    link = step(bench.root, 1, {"rollout.pt": data})
    (link / "trainer.pt").symlink_to("rollout.pt")
    manifest(link, {"rollout.pt": data, "trainer.pt": data}, OLD, run="run-a", step=1)
    receipt = {"host": "n1", "pid": 7, "produced_at": "2026-11-29T12:00:00+00:00", "command": "score"}
    one = step(bench.root, 2, {"rollout.pt": data, "trainer.pt": data})
    said = json.loads((one / "manifest.json").read_text())
    for entry in said["artifacts"].values():
        entry["producer"] = receipt
    (one / "manifest.json").write_text(json.dumps(said))
    os.utime(one / "manifest.json", (OLD, OLD))
    rows = {row.step: row for row in compared(bench.compare())}
    assert [rows[number].label for number in range(3)] == ["INVALID"] * 3
    assert "one file" in rows[0].reason and "one" in rows[1].reason and "receipt" in rows[2].reason
    assert (rows[2].producer_host_a, rows[2].producer_pid_b, rows[2].produced_how_a) == ("n1", 7, "receipt")


def test_hostile_files_are_recorded_with_their_reason_and_nothing_runs(bench: Bench) -> None:
    witness = bench.root / "it-ran"
    evil = b"\x80\x02cos\nsystem\n(S'touch " + str(witness).encode() + b"'\ntR."
    good = dump(SIDE)
    ten_gb = good.replace(struct.pack("<Q", len(good)), struct.pack("<Q", 10 << 30))[:1024]
    cases = {
        "bare pickle": (evil, "bare pickle"), "cut": (good[: len(good) // 2], ""), "too short": (ten_gb, ""),
        "empty": (b"", "empty"), "text": (b"hello", "no known form"), "scores": (b'{"problem_id": 1, "score": 1}\n', "scores"),
    }  # fmt: skip
    for number, (data, _why) in enumerate(cases.values()):
        step(bench.root, number, {"rollout.pt": data, "trainer.pt": good})
    bench.compare()
    found = {row.step: (row.state, row.why) for row in bench.tasks().values() if row.side_b}
    for number, (name, (_data, why)) in enumerate(cases.items()):
        state, told = found[number]
        assert state == "failed" and why in told and told, (name, told)
    assert not witness.exists()
    before = len(bench.rows)
    bench.again()
    bench.compare()
    assert bench.rows[before:] == [], "what failed is not tried again while nothing changed"
    step(bench.root, 1, {"rollout.pt": good, "trainer.pt": dump(OTHER)})
    assert [row.step for row in compared(bench.compare())] == [1], "but when it is mended"


def test_files_that_hold_both_sides_are_found_by_their_keys(bench: Bench) -> None:
    line = {
        "generation_logprobs": [[0.0, -1.0, -2.0]], "prev_logprobs": [[0.0, -1.0, -2.5]], "token_loss_mask": [[0, 1, 1]],
        "sample_loss_mask": [1.0], "token_ids": [[1, 2, 3]],
    }  # fmt: skip
    step(
        bench.root,
        0,
        {"step_dump.jsonl": json.dumps(line).encode() + b"\n", "notes.txt": b"nothing", "metrics.jsonl": b'{"a": 1}\n'},
    )
    rows = compared(bench.compare())
    assert [(row.how, row.reader_a, row.part_a, row.part_b) for row in rows] == [
        ("alone", "nemo-rl", "rollout", "trainer")
    ]
    assert rows[0].side_a == rows[0].side_b and rows[0].mismatched_tokens == 1
    states = sorted(row.state for row in bench.tasks().values())
    assert states == ["done", "held", "none", "none"]
    bench.again()
    assert bench.compare() == [], "nor is it looked into again"


def test_declared_files_without_a_manifest(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path / "w", comparisons=(ComparisonConfig("a/{step}.pt", "b/{step}.pt", basis="raw", policy="4"),)
    )
    for side, values in (("a", SIDE), ("b", OTHER)):
        (bench.root / side).mkdir()
        (bench.root / side / "7.pt").write_bytes(dump(values))
    (bench.root / "a" / "8.pt").write_bytes(dump(SIDE))
    (bench.root / "a" / "9.pt").symlink_to("/etc/hostname")
    (row,) = compared(bench.compare())
    assert (row.how, row.step, row.manifest, row.basis_a, row.policy) == ("declared", 7, "", "raw", "4")
    states = bench.states()
    assert states["8.pt"][0] == "waiting" and "b/8.pt is not there" in states["8.pt"][1]
    assert states["9.pt"][0] == "refused" and "leads out" in states["9.pt"][1]
    (bench.root / "b" / "8.pt").write_bytes(dump(SIDE))
    assert [one.step for one in compared(bench.compare())] == [8]
    bench.close()


def test_traces_are_kept_probe_by_probe(bench: Bench) -> None:
    def lines(*digests: str) -> bytes:
        said = [
            {"request": "r", "boundary": f"layer{n}", "slice": "all", "order": n, "sha256": digest * 64, "shape": [2], "dtype": "float32",
             "discrete": n == 2}
            for n, digest in enumerate(digests)
        ]  # fmt: skip
        return "".join(json.dumps(one) + "\n" for one in said).encode()

    step(
        bench.root,
        0,
        {"rollout_trace.jsonl": lines("a", "b", "c", "d"), "trainer_trace.jsonl": lines("a", "b", "e", "f")},
    )
    step(bench.root, 1, {"rollout_trace.jsonl": lines("a", "b"), "trainer_trace.jsonl": lines("a")})
    rows = {row.step: row for row in compared(bench.compare())}
    assert (rows[0].kind, rows[0].label, rows[0].probes, rows[0].probes_differing) == ("trace", "", 4, 2)
    assert rows[1].label == "INVALID" and "lacks probe" in rows[1].reason
    assert "same 4 probes" in rows[0].proved[0] and "is the cause" in rows[0].unproven[0]
    probes = [row for row in bench.rows if isinstance(row, TraceBoundaryRow)]
    assert [(one.boundary, one.state) for one in probes if one.comparison_id == rows[0].id] == [
        ("layer0", "equal"), ("layer1", "equal"), ("layer2", "differs"), ("layer3", "downstream"),
    ]  # fmt: skip
    assert [(one.boundary, one.state) for one in probes if one.comparison_id == rows[1].id] == [("layer1", "missing")]


def test_a_worker_that_is_killed_is_started_again_and_a_file_that_kills_it_twice_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    step(bench.root, 0, PAIR)
    kills: list[int] = []
    ask = process.Worker.ask

    def asked(self: process.Worker, message: dict[str, Any], deadline_s: float) -> Any:
        for found in ask(self, message, deadline_s):
            if len(set(kills)) < most and "at" in found:
                kills.append(self.pid)
                os.kill(self.pid, signal.SIGKILL)
            yield found

    monkeypatch.setattr(process.Worker, "ask", asked)
    most = 1
    (row,) = compared(bench.compare())
    assert len(set(kills)) == 1 and row.mismatched_tokens == 1
    whys = [one.why for one in bench.rows if getattr(one, "state", "") == "waiting"]
    assert any("SIGKILL" in why and "once more" in why for why in whys)
    most = 9
    step(bench.root, 1, PAIR)
    assert compared(bench.compare()) == []
    (task,) = (one for one in bench.tasks().values() if one.step == 1)
    assert task.state == "failed" and "SIGKILL" in task.why and len(set(kills)) == 3


def test_too_slow_is_a_failure_and_the_next_one_is_compared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    step(bench.root, 0, PAIR)
    step(bench.root, 1, PAIR)
    ask = process.Worker.ask

    def slow(self: process.Worker, message: dict[str, Any], deadline_s: float) -> Any:
        stuck = message["compare"]["pair"]["step"] == 0
        if stuck:
            os.kill(self.pid, signal.SIGSTOP)
        return ask(self, message, 0.3 if stuck else deadline_s)

    monkeypatch.setattr(process.Worker, "ask", slow)
    assert [row.step for row in compared(bench.compare())] == [1]
    (task,) = (one for one in bench.tasks().values() if one.step == 0)
    assert task.state == "failed" and task.why == "it took longer than 0.3 s"


def test_the_process_ends_with_whoever_started_it(tmp_path: Path) -> None:
    worker = process.Worker(1024, lambda: False)
    assert list(worker.ask({"alone": str(tmp_path / "none")}, 60)) == [{"held": ""}]
    assert os.getpriority(os.PRIO_PROCESS, worker.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    if (group := Path(f"/proc/{worker.pid}/autogroup")).exists():
        assert group.read_text().split()[-1] == str(AMONG_SESSIONS)
    worker._child._in.close()  # as the end of the daemon does
    limit = time.monotonic() + 20
    while worker.alive and time.monotonic() < limit:
        time.sleep(0.02)
    assert not worker.alive
    worker.close()


@pytest.mark.slow
def test_memory_is_bounded_and_that_is_the_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "w", compare=CompareConfig(memory_mb=256))
    step(bench.root, 0, dict.fromkeys(("rollout.pt", "trainer.pt"), of_zeros(1 << 24)))
    step(bench.root, 1, PAIR)
    assert [row.step for row in compared(bench.compare())] == [1], "one sequence does not fit, the others do"
    (task,) = (one for one in bench.tasks().values() if one.step == 0)
    assert task.state == "failed" and "memory_mb" in task.why
    bench.close()


def judged(bench: Bench) -> None:
    """As if a criterion had judged the only pair: the task says so."""
    (task,) = bench.tasks().values()
    bench.rows.append(replace(task, state="judged"))
    bench.again()


def test_a_criterions_verdict_is_not_judged_by_another_one(tmp_path: Path) -> None:
    criterion = tmp_path / "criterion.toml"
    criterion.write_text('metric = "logprob_mae"\nat_most = 0.5\n')
    bench = Bench(tmp_path / "w", compare=CompareConfig(criterion=criterion))
    step(bench.root, 0, PAIR)
    (first,) = compared(bench.compare())
    assert first.criterion and first.rule == 8
    criterion.write_text('metric = "logprob_mae"\nat_most = 0.25\n')
    bench.again()
    (second,) = compared(bench.compare())
    assert second.criterion != first.criterion, "nothing had judged it"
    criterion.write_text('metric = "logprob_mae"\nat_most = 0.75\n')
    judged(bench)
    assert compared(bench.compare()) == []
    step(bench.root, 0, {**PAIR, "trainer_logprobs.pt": dump(SIDE)})
    assert len(compared(bench.compare())) == 1
    bench.close()


def test_what_waits_for_a_planted_error_is_judged_once_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean differences by hand: 0.5 / 5, and of the planted ones 0.5 / 5 and 87 / 5; the criterion asks for 0.5."""
    criterion = tmp_path / "criterion.toml"
    criterion.write_text('metric = "logprob_mae"\nat_most = 0.5\n')
    bench = Bench(tmp_path / "w", compare=CompareConfig(criterion=criterion))
    names = (
        "task", "id", "plant", "label", "rule", "criterion", "criterion_metric", "reader_a", "reader_b", "dtype_a", "dtype_b", "comparator", "host",
    )  # fmt: skip

    bare = bench._no_store

    def store() -> duckdb.DuckDBPyConnection:
        con = bare()
        con.execute(f"CREATE TABLE i_comparison ({', '.join(f'{name} VARCHAR' for name in names)})")
        for row in compared(bench.rows):
            con.execute(
                f"INSERT INTO i_comparison VALUES ({', '.join('?' * len(names))})",
                [str(getattr(row, name)) for name in names],
            )
        return con

    def standing(_desk: Desk, _where: Any) -> Any:
        found = [row for row in compared(bench.rows) if row.plant and row.label == "FAIL"]
        return Standing.CLEAR, "", "it was frozen before", "a planted error" if found else ""

    monkeypatch.setattr(bench, "_no_store", store)
    monkeypatch.setattr(Desk, "_standing", standing)
    said = {"basis": "raw", "policy_version": "7", "input_sha256": "ab"}

    def plant(number: int, values: dict[str, list[float]]) -> None:
        listed = [{"a": "rollout.pt", "b": "trainer.pt", "plant": "one number"}]
        step(bench.root, number, {"rollout.pt": dump(SIDE), "trainer.pt": dump(values)}, comparisons=listed, **said)

    step(bench.root, 0, PAIR, **said)
    (waits,) = compared(bench.compare())
    assert (waits.label, waits.rule) == ("", 10), waits.reason
    plant(1, OTHER)
    assert [(row.step, row.label) for row in compared(bench.compare())] == [(1, "INVALID")], "one that is not found"
    far = {**SIDE, "r1": [-1.0, -2.0, -90.0]}
    plant(2, far)
    found, judged = compared(bench.compare())
    assert (found.step, found.label, found.rule) == (2, "FAIL", 11)
    assert (judged.step, judged.label, judged.rule) == (0, "PASS", 11)
    assert judged.task == waits.task and judged.id != waits.id, "a row of its own: the old one stays"
    plant(3, far)
    assert [(row.step, row.label) for row in compared(bench.compare())] == [(3, "FAIL")], "and once"
    bench.again()
    assert bench.compare() == [], "nor after a restart"
    bench.close()


def test_a_verdict_hangs_on_what_manifests_say_and_on_what_is_declared(tmp_path: Path) -> None:
    criterion = tmp_path / "criterion.toml"
    criterion.write_text('metric = "logprob_mae"\nat_most = 0.5\n')
    bench = Bench(tmp_path / "w", compare=CompareConfig(criterion=criterion))
    where = step(bench.root, 0, PAIR, basis="raw")
    (first,) = compared(bench.compare())
    judged(bench)
    assert compared(bench.compare()) == [], "nothing is other than it was"
    # The same bytes, of which the manifest says something else now.
    step(bench.root, 0, PAIR, basis="processed")
    (second,) = compared(bench.compare())
    assert (first.basis_a, second.basis_a) == ("raw", "processed")
    assert (second.sha256_a, second.sha256_b, second.task) == (first.sha256_a, first.sha256_b, first.task)
    assert second.id != first.id and Path(first.report).exists() and second.report != first.report
    read = [
        (one.comparison_id, one.role, one.path, one.sha256)
        for one in bench.rows
        if isinstance(one, ComparisonFileRow) and one.role == "manifest"
    ]
    manifest_now = hashlib.sha256((where / "manifest.json").read_bytes()).hexdigest()
    assert read[-1] == (second.id, "manifest", str(where / "manifest.json"), manifest_now) and len(read) == 2
    judged(bench)
    bench.config = Config(bench.root, compare=CompareConfig(criterion=criterion), comparisons=(
        ComparisonConfig(a="results/{run}/step{step}/rollout_logprobs.pt", b="results/{run}/step{step}/trainer_logprobs.pt",
                         policy="7", control="cross_stack"),
    ))  # fmt: skip
    bench.again()
    (third,) = compared(bench.compare())
    assert (third.policy_a, third.basis_a, third.task) == ("7", "processed", first.task)
    bench.close()


def test_a_manifest_that_grows_has_only_what_changed_compared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One manifest of a whole run, written again with each step: the process is asked for what is new or changed."""
    asked: list[int] = []
    ask = process.Worker.ask

    def counted(self: process.Worker, message: dict[str, Any], deadline_s: float) -> Any:
        if "compare" in message:
            asked.append(message["compare"]["pair"]["step"])
        return ask(self, message, deadline_s)

    monkeypatch.setattr(process.Worker, "ask", counted)
    run = bench.root / "results" / "run-a"
    entries: dict[str, dict[str, Any]] = {}
    listed: list[dict[str, Any]] = []
    at = itertools.count(1)

    def grow(number: int, **said: object) -> None:
        for side, values in (("rollout", SIDE), ("trainer", OTHER)):
            path = run / f"step{number}" / f"{side}.pt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dump(values))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entries[f"step{number}/{side}.pt"] = {
                "sha256": digest,
                "step": number,
                "policy_version": str(number),
                **said,
            }

    def looked(**heading: object) -> list[int]:
        """Writes the manifest, looks, and tells which steps the process was asked to compare."""
        asked.clear()
        (run / "manifest.json").write_text(
            json.dumps({"run": "run-a", "artifacts": entries, "comparisons": listed, **heading})
        )
        os.utime(run / "manifest.json", (OLD, OLD + next(at)))
        bench.compare()
        return sorted(asked)

    for number in range(3):
        grow(number)
    assert looked() == [0, 1, 2]
    grow(3)
    assert looked(written_at="later", steps=4) == [3], "nor does what no comparison reads count"
    bench.again()
    assert looked() == [], "also after a restart"
    entries["step1/rollout.pt"]["policy_version"] = "other"
    assert looked() == [1]
    assert looked(basis="raw") == [0, 1, 2, 3], "what stands at the top is said of all"
    listed.append({"a": "step2/rollout.pt", "b": "step2/trainer.pt", "control": "cross_stack", "goal": "cross_stack"})
    assert looked(basis="raw") == [2], "what is declared for one pair"
    (run / "step0" / "trainer.pt").write_bytes(dump(SIDE))
    entries["step0/trainer.pt"]["sha256"] = hashlib.sha256(dump(SIDE)).hexdigest()
    assert looked(basis="raw") == [0]
    (run / "step3" / "rollout.pt.meta.json").write_text(json.dumps({"basis": "raw", "policy_version": "sidecar"}))
    assert looked(basis="raw") == [3], "a sidecar without a hash speaks for its file too"
    both = {name: entries.pop(name) for name in ("step1/rollout.pt", "step1/trainer.pt")}
    assert looked(basis="raw") == []
    gone = [row for row in bench.tasks().values() if ":gone:" in row.content]
    assert [(row.step, row.state) for row in gone] == [(1, "done")]
    entries.update(both)
    assert looked(basis="raw") == [1]
    made = [row.id for row in compared(bench.rows)]
    assert len(set(made)) == len(made), "what is as it once was is another comparison all the same"


def test_a_manifest_that_leads_out_of_the_directory_is_not_read(bench: Bench) -> None:
    where = step(bench.root, 0, PAIR)
    outside = bench.root.parent / "outside.json"
    outside.write_text(json.dumps({"basis": "raw"}))
    (where / "trainer_logprobs.pt.meta.json").symlink_to(outside)
    assert compared(bench.compare()) == []
    (task,) = bench.tasks().values()
    assert task.state == "refused" and "leads out of the watched directory" in task.why, task


def test_a_manifest_that_is_written_while_it_is_compared_is_read_again(bench: Bench) -> None:
    """The one that was looked at is not the one that the process reads: nothing is told of either."""
    where = step(bench.root, 0, PAIR, basis="raw")
    bench.world.look(final=True)
    asked = Desk._asked

    def late(desk: Desk, pair: Any, stand: Any) -> dict[str, Any]:
        found = asked(desk, pair, stand)
        step(bench.root, 0, PAIR, basis="processed")
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Desk, "_asked", late)
        assert compared(bench.compare()) == []
    (task,) = bench.tasks().values()
    assert task.state == "waiting" and task.why.startswith(f"the manifest of {where / 'rollout_logprobs.pt'} says")
    (row,) = compared(bench.compare())
    assert row.basis_a == "processed"


def test_repeats_and_tokens_are_told_with_what_was_read_of_them(bench: Bench) -> None:
    again = {"r1": [-1.0, -2.0, -3.5], "r2": [-0.5, -0.25]}
    listed = [{"a": "rollout.pt", "b": "trainer.pt", "repeats_a": ["more.pt"]}]
    files = {"rollout.pt": dump(SIDE), "trainer.pt": dump(OTHER), "more.pt": dump(again)}
    where = step(bench.root, 0, files, comparisons=listed)
    (row,) = compared(bench.compare())
    read = {
        (one.role, one.path): one.sha256 for one in bench.rows if isinstance(one, ComparisonFileRow) and one.comparison_id == row.id
    }  # fmt: skip
    said = {path: sha256 for (role, path), sha256 in read.items() if role == "said"}
    assert {path: sha256 for path, sha256 in read.items() if path[0] != "said"} == {
        (role, str(where / name)): hashlib.sha256((where / name).read_bytes()).hexdigest()
        for role, name in (("repeat_a", "more.pt"), ("manifest", "manifest.json"))
    }
    told = {one.path: one.said for one in bench.rows if isinstance(one, ComparisonSaidRow)}
    assert sorted(said) == [str(where / name) for name in ("more.pt", "rollout.pt", "trainer.pt")]
    assert {path: told[path] for path in said} == said, "the daemon and the process that compares take it alike"


def test_segments_give_a_row_for_each_version(bench: Bench) -> None:
    said = {"r1": [[0, "7"], [1, "8"]], "r2": [[0, "8"]]}
    step(bench.root, 0, PAIR, policy_segments=said)
    (row,) = compared(bench.compare())
    versions = [
        (one.comparison_id, one.policy, one.valid_tokens, one.mismatched_tokens, one.logprob_mae)
        for one in bench.rows
        if isinstance(one, ComparisonVersionRow)
    ]
    # r1 is -1 | -2 to -2.5, -3; r2 is -0.5, -0.25: by hand 0/1 and 0.5/4.
    assert versions == [(row.id, "7", 1, 0, 0.0), (row.id, "8", 4, 1, 0.125)]


def test_a_process_that_cannot_be_started_holds_up_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    step(bench.root, 0, PAIR)

    def refused(*_args: object, **_more: object) -> None:
        raise OSError("no process can be made")

    with monkeypatch.context() as broken:
        broken.setattr(linechild.subprocess, "Popen", refused)
        assert compared(bench.compare(20)) == [], "`watch --once` comes to its end"
    bench.again()
    assert [row.step for row in compared(bench.compare())] == [0]


def test_a_manifests_list_makes_control_groups(bench: Bench) -> None:
    listed = [{"a": "rollout.pt", "b": "again.pt", "control": "inference_alone", "variant": "A/A"}]
    step(
        bench.root, 0, {"rollout.pt": dump(SIDE), "again.pt": dump(SIDE), "trainer.pt": dump(OTHER)}, comparisons=listed
    )
    rows = {row.control: (row.mismatched_tokens, row.variant) for row in compared(bench.compare())}
    assert rows == {"inference_alone": (0, "A/A"), "cross_stack": (1, "")}


def test_what_failed_is_tried_again_with_other_limits_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "w", compare=CompareConfig(deadline_s=0.001))
    step(bench.root, 0, PAIR)
    assert compared(bench.compare()) == []
    assert bench.states() == {"rollout_logprobs.pt": ("failed", "it took longer than 0.001 s")}
    bench.again()
    assert bench.compare() == [], "nothing is other than it was"
    bench.config = Config(bench.root, compare=CompareConfig(deadline_s=60.0))
    bench.again()
    assert [row.mismatched_tokens for row in compared(bench.compare())] == [1]
    bench.close()


def test_a_defect_between_question_and_answer_costs_one_comparison(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        step(bench.root, number, PAIR)
    stands = Desk._standing

    def broken(self: Desk, where: Any) -> Any:
        if where["step"] == 1:
            raise RuntimeError("no answer")  # while the process waits for it
        return stands(self, where)

    monkeypatch.setattr(Desk, "_standing", broken)
    rows = compared(bench.compare())
    assert [(row.step, row.mismatched_tokens) for row in rows] == [(0, 1), (2, 1)]
    (task,) = (one for one in bench.tasks().values() if one.step == 1)
    assert (task.state, task.why) == ("failed", "a defect of the program: RuntimeError: no answer")


def test_a_report_that_cannot_be_written_is_tried_again_by_the_next_daemon_alone(bench: Bench) -> None:
    step(bench.root, 0, PAIR)
    (bench.root / "reports").write_text("no directory")
    assert compared(bench.compare()) == []
    state, why = bench.states()["rollout_logprobs.pt"]
    assert state == "failed" and why.endswith("reports: File exists")
    assert bench.compare() == [], "not all the time"
    (bench.root / "reports").unlink()
    bench.again()
    assert [row.mismatched_tokens for row in compared(bench.compare())] == [1]


def test_names_that_are_no_text_are_asked_of_the_store_as_it_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "w", comparisons=(ComparisonConfig("a.pt", "b.pt"),))
    for name, values in (("a.pt", SIDE), ("b.pt", OTHER)):
        (bench.root / name).write_bytes(dump(values))
        (bench.root / f"{name}.meta.json").write_text('{"run": "\\ud800x", "producer": {"host": "\\udfffh", "pid": 1}}')
    asked: list[str] = []

    def standing(_con: object, made: Any) -> Any:
        asked.append(made.run)
        return Standing.UNKNOWN, "nothing is known"

    monkeypatch.setattr("tic_daemon.comparisons.desk.standing_of", standing)
    monkeypatch.setattr(bench, "_no_store", duckdb.connect)
    (row,) = compared(bench.compare())
    assert row.mismatched_tokens == 1 and asked == ["\\ud800x"]
    bench.close()
