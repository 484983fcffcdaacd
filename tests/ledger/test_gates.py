"""The gates, rule by rule: what makes a cell pass, fail, inconclusive, stale, and what never does."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import ROOT
from tests.ledger.made import BITWISE, SHOWN, sha
from tests.store.samples import source
from tic_daemon import cli
from tic_daemon.ledger import closure, criterion, gates
from tic_daemon.ledger.canon import canonical
from tic_daemon.ledger.entries import EVIDENCE, Entry, as_json, complaint, parse
from tic_daemon.scan.events import At, Fault, Mismatch
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.comparison_rows import ComparisonFileRow, ComparisonRow
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import ArtifactRow, ConfigRow, CursorRow, MarkRow, ResultFileRow, SourceDelta
from tic_daemon.store.writer import Writer

MAE = 'metric = "logprob_mae"\nat_most = 0.1\ngoal = "cross_stack"\ngate = "zero_update"\ncell = "replay"\n'
LOOSE = MAE.replace("0.1", "9.0")
VERSIONS = 'metric = "bitwise"\ngoal = "cross_stack"\ngate = "per_version"\n'
MODULE = 'metric = "bitwise"\ngoal = "cross_stack"\ngate = "module"\ncell = "forward"\n'


class World:
    """One store, and short words for what happens in it. Each test has runs and candidates of its own."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.offsets: dict[str, int] = {}
        self.ready: list[str] = []

    def prepare(self, number: int) -> None:
        """So many runs whose logs are read, in one commit: what follows from a log is asked once."""
        deltas = []
        for _ in range(number):
            run = f"run-{uuid.uuid4().hex[:8]}"
            row = source(f"{run}.log", run_hint=run, run_how="path")
            cursor = CursorRow(row.source_id, 0, byte_offset=40, path=row.path)
            deltas.append(SourceDelta(row, cursor, (record(run)(At(0, 40, 1, step=1)),), lines=1))
            self.offsets[run] = 40
            self.ready.append(run)
        self.writer.commit(deltas)

    def say(self, kind: str, **said: Any) -> str:
        body, said["artifacts"] = canonical(said.pop("body", {})), canonical(said.pop("artifacts", []))
        moment = datetime.now(UTC).replace(tzinfo=None)
        entry = Entry(said.pop("id", uuid.uuid4().hex), kind, moment, "ann", "h", body=body, **said)
        assert complaint(entry) == ""
        self.writer.commit([], ledger=[entry])
        return entry.id

    def freeze(self, text: str) -> str:
        found = criterion.parse(text.encode())
        body = {"text": text, "path": "/c", **found.as_json()}
        self.say("criterion", id=f"criterion{found.sha256[:20]}", criterion=found.sha256, body=body)
        return found.sha256

    def run(self, *events: Any, run: str = "") -> str:
        """A run whose log is read; its name."""
        if not events and not run and self.ready:
            return self.ready.pop()
        run = run or f"run-{uuid.uuid4().hex[:8]}"
        at = self.offsets.get(run, 0)
        made = [one(At(at + 40 * n, 40, at // 40 + n + 1, step=n + 1)) for n, one in enumerate(events or [record(run)])]
        self.offsets[run] = at + 40 * len(made)
        row = source(f"{run}.log", run_hint=run, run_how="path")
        cursor = CursorRow(row.source_id, 0, byte_offset=self.offsets[run], path=row.path)
        self.writer.commit([SourceDelta(row, cursor, tuple(made), lines=len(made))])
        return run

    def candidate(self, run: str, parent: str = "", changed: tuple[str, ...] = (), **fields: str) -> str:
        found = closure.of({"object.model": uuid.uuid4().hex, **fields})
        stale = [[one.gate, one.cell, one.cause] for one in gates.stale(changed)]
        body = {"name": run, "fields": dict(found.fields), "changed": list(changed), "stale": stale}
        self.say("candidate", candidate=found.sha256, run_id=run, target=parent, body=body)
        return found.sha256

    def compare(self, run: str, label: str, sha_: str, policy: str | None = "1", name: str = "", **changes: Any) -> str:
        """A judged comparison; its evidence's id, or ""."""
        row = replace(compared(run, label, sha_, policy, name), **changes)
        self.writer.commit([], compared=[row])
        found = self.ask("SELECT id FROM ledger WHERE kind = 'evidence' AND target = ?", [row.id])
        return str(found[0][0]) if found else ""

    def ask(self, sql: str, params: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """What a view says, once the daemon has written what follows from what was said and compared."""
        self.writer.note_evidence(now=True)
        con = self.writer.reader_cursor()
        try:
            return con.execute(sql, params or []).fetchall()
        finally:
            con.close()

    def cell(self, candidate: str, place: str) -> tuple[str, bool, str]:
        gate, _, cell = place.partition("/")
        (row,) = self.ask(
            "SELECT state, stale, cause FROM gates WHERE candidate_id = ? AND gate = ? AND cell = ?",
            [candidate, gate, cell],
        )
        return row


def compared(run: str, label: str, sha_: str, policy: str | None = "1", name: str = "") -> ComparisonRow:
    """A judged comparison."""
    name = name or uuid.uuid4().hex[:16]
    return ComparisonRow(
        "node7", "/jobs", name, name, run=run, run_how="manifest", step=1, policy=policy, input="tokens7",
        manifest="/jobs/m.json", kind="tokens", goal="cross_stack", intervention="none", side_a=f"/jobs/a{name}",
        size_a=1, sha256_a=sha(name + "a"), side_b=f"/jobs/b{name}", size_b=2, sha256_b=sha(name + "b"), label=label,
        reason=f"said {label}", criterion=sha_,
    )  # fmt: skip


def record(run: str) -> Any:
    return lambda at: Mismatch(at, run=run, metric="logprob_mae", value=0.1)


def cuda(at: At) -> Fault:
    return Fault(at, "cuda-illegal-access", "confirmed", text="CUDA error: an illegal memory access was encountered")


def test_a_new_candidate_starts_with_every_cell_not_run(world: World) -> None:
    own = world.candidate(world.run())
    rows = world.ask(
        "SELECT gate, cell, state, stale, cause, gate_state FROM gates WHERE candidate_id = ? ORDER BY position", [own]
    )
    assert [row[:2] for row in rows] == gates.cells()
    assert {row[2:] for row in rows} == {("not run", False, "", "not run")}


def test_the_cells_of_the_view_are_those_of_the_data(world: World) -> None:
    text = (ROOT / "daemon/tic_daemon/store/schema/shared/gates.sql").read_text()
    listed = re.findall(r"\((\d+), (\d), '(\w+)', '([\w*]+)', (true|false)\)", text)
    numbers = {name: number for number, name in enumerate(gates.GATES, start=1)}
    wanted = [
        (str(place), str(numbers[gate]), gate, cell, str(gates.cell_of(gate, cell).lifecycle).lower())
        for place, (gate, cell) in enumerate(gates.cells(), start=1)
    ]
    assert listed == wanted


def test_a_judged_comparison_fills_the_cell_of_its_criterion(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    name = world.compare(run, "PASS", bits)
    assert world.cell(own, "zero_update/replay") == ("pass", False, "said PASS")
    (row,) = world.ask(
        "SELECT candidate_id, run_id, policy, workload, criterion_id, label, artifacts, who FROM ledger WHERE id = ?",
        [name],
    )
    assert row[:6] == (own, run, "1", "tokens7", bits, "PASS") and row[7] == "tic-daemon"
    assert [(one["size"], one["host"]) for one in json.loads(row[6])] == [(1, "node7"), (2, "node7")]
    states = dict(world.ask("SELECT DISTINCT gate, gate_state FROM gates WHERE candidate_id = ?", [own]))
    assert states["zero_update"] == "pass" and states["module"] == "not run", "one cell of a gate is not the gate"


def test_without_a_criterion_for_a_cell_no_cell_is_filled(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    assert world.compare(run, "PASS", world.freeze('metric = "bitwise"\n'))
    assert world.compare(run, "PASS", sha("a criterion that the ledger has not"))
    states = {row[0] for row in world.ask("SELECT state FROM gates WHERE candidate_id = ?", [own])}
    assert states == {"not run"}
    assert world.ask("SELECT count(*), count(gate) FROM evidence_current WHERE candidate_id = ?", [own]) == [(2, 0)]


def test_what_was_compared_before_the_candidate_was_declared_counts_once_it_is(world: World) -> None:
    run = world.run()
    bits = world.freeze(BITWISE)
    assert world.compare(run, "FAIL", bits) == "", "no candidate, no row"
    own = world.candidate(run)
    assert world.cell(own, "zero_update/replay") == ("fail", False, "said FAIL")
    assert world.ask("SELECT count(*) FROM ledger WHERE kind = 'evidence' AND candidate_id = ?", [own]) == [(1,)]


def test_planted_errors_and_traces_are_no_evidence_of_a_candidate(world: World) -> None:
    run = world.run()
    world.candidate(run)
    bits = world.freeze(BITWISE)
    assert world.compare(run, "FAIL", bits, plant="one bit") == ""
    assert world.compare(run, "", bits, kind="trace") == ""


def test_a_failure_stands_until_it_is_superseded(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    failed = world.compare(run, "FAIL", bits)
    world.compare(run, "PASS", bits)
    assert world.cell(own, "zero_update/replay")[0] == "fail", "a rerun of the same candidate does not wash it away"
    world.say("supersede", target=failed, reason="the image was not the candidate's")
    assert world.cell(own, "zero_update/replay") == ("not run", True, "stale: the image was not the candidate's")
    world.compare(run, "PASS", bits)
    assert world.cell(own, "zero_update/replay") == ("pass", False, "said PASS")
    kept = world.ask("SELECT label FROM ledger WHERE kind = 'evidence' AND candidate_id = ? ORDER BY seq", [own])
    assert kept == [("FAIL",), ("PASS",), ("PASS",)], "the ledger keeps all"


def test_each_criterion_of_a_cell_must_pass(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    world.compare(run, "FAIL", world.freeze(BITWISE))
    world.compare(run, "PASS", world.freeze(MAE))
    assert world.cell(own, "zero_update/replay")[0] == "fail"


def test_a_gate_passes_only_if_each_of_its_cells_does(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    cells = (("repeat", "repeatability"), ("forward", "cross_stack"), ("gradients", "training_loop"))
    told = []
    for cell, goal in cells:
        text = f'metric = "bitwise"\ngoal = "{goal}"\ngate = "module"\ncell = "{cell}"\n'
        last = world.freeze(text)
        world.compare(run, "PASS", last, goal=goal)
        told += world.ask("SELECT DISTINCT gate_state FROM gates WHERE candidate_id = ? AND gate = 'module'", [own])
    assert told == [("not run",), ("not run",), ("pass",)]
    for label, state in (("", "inconclusive"), ("FAIL", "fail")):
        world.compare(run, label, last, goal="training_loop")
        assert world.ask("SELECT DISTINCT gate_state FROM gates WHERE candidate_id = ? AND gate = 'module'", [own]) == [
            (state,)
        ]


def test_a_baseline_without_a_reviewer_is_pending_review(world: World) -> None:
    own, name = world.candidate(world.run()), uuid.uuid4().hex
    asked = "SELECT state, reviewer, reviewed_at IS NOT NULL FROM baselines WHERE name = ?"
    for reviewer, row in (
        ("", ("pending review", None, False)), ("eve", ("reviewed", "eve", True)), ("", ("pending review", None, False)),
    ):  # fmt: skip
        body = {"name": name, **({"reviewer": reviewer} if reviewer else {})}
        world.say("baseline", candidate=own, body=body)
        assert world.ask(asked, [name]) == [row], "what is said anew is reviewed anew"


def test_a_criterion_that_is_loosened_changes_no_verdict(world: World) -> None:
    run = world.run()
    own, strict, loose = world.candidate(run), world.freeze(MAE.replace("0.1", "0.01")), world.freeze(LOOSE)
    failed = world.compare(run, "FAIL", strict)
    world.say("replaced", criterion=strict, target=loose, reason="a budget is enough")
    assert world.ask("SELECT label FROM ledger WHERE id = ?", [failed]) == [("FAIL",)]
    assert world.cell(own, "zero_update/replay") == ("not run", False, "historical: its criterion was replaced")
    assert world.ask("SELECT count(*) FROM evidence_current WHERE id = ?", [failed]) == [(0,)]


def test_a_looser_criterion_makes_no_other_pass_stand_for_a_failure(world: World) -> None:
    run = world.run()
    own, strict, loose = (
        world.candidate(run),
        world.freeze(MAE.replace("0.1", "0.02")),
        world.freeze(MAE.replace("0.1", "8.0")),
    )
    world.compare(run, "FAIL", strict)
    world.compare(run, "PASS", world.freeze(MAE.replace("0.1", "0.3")))
    world.say("replaced", criterion=strict, target=loose, reason="a budget is enough")
    why = "it failed by a criterion that was replaced, and nothing newer passes"
    assert world.cell(own, "zero_update/replay") == ("inconclusive", False, why)
    world.compare(run, "FAIL", strict)
    assert world.cell(own, "zero_update/replay") == ("inconclusive", False, why), (
        "the run began before: it is judged by it still"
    )
    world.compare(run, "PASS", loose)
    assert world.cell(own, "zero_update/replay")[0] == "pass"


def test_what_is_said_of_a_failure_makes_no_other_pass_stand_for_it(world: World) -> None:
    """A mark, or another purpose that its manifest tells afterwards."""
    for mark in (True, False):
        run, again = world.run(), world.run()
        own, bits = world.candidate(run), world.freeze(BITWISE)
        (body,) = world.ask("SELECT body FROM ledger WHERE kind = 'candidate' AND candidate_id = ?", [own])[0]
        world.say("candidate", candidate=own, run_id=again, body=json.loads(body))
        failed = world.compare(run, "FAIL", bits, name=f"first-{run}")
        world.compare(again, "PASS", bits)
        assert world.cell(own, "zero_update/replay")[0] == "fail"
        if mark:
            moment = datetime.now(UTC).replace(tzinfo=None)
            row = MarkRow(uuid.uuid4().hex, run, None, "run", "", "inconclusive", "odd", "eve", moment, "h")
            world.writer.commit([], marks=[row])
        else:
            world.compare(run, "FAIL", bits, name=f"first-{run}", intervention="eager")
        why = "marked inconclusive" if mark else "intervention eager"
        assert world.cell(own, "zero_update/replay") == ("inconclusive", False, why)
        world.say("supersede", target=failed, reason="another image")
        assert world.cell(own, "zero_update/replay")[:2] == ("not run", True)
        world.compare(again, "PASS", bits)
        assert world.cell(own, "zero_update/replay")[0] == "pass"


def test_a_measurement_without_a_verdict_is_inconclusive(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    world.compare(run, "", world.freeze(BITWISE), reason="pending re-check: no planted error was judged FAIL by it")
    state, _, cause = world.cell(own, "zero_update/replay")
    assert state == "inconclusive" and cause.startswith("pending re-check")


@pytest.mark.parametrize("label", ["INVALID", "VACUOUS"])
def test_invalid_and_vacuous_are_inconclusive_with_their_reason(world: World, label: str) -> None:
    run = world.run()
    own = world.candidate(run)
    world.compare(run, label, world.freeze(BITWISE))
    assert world.cell(own, "zero_update/replay") == ("inconclusive", False, f"{label}: said {label}")


def test_a_fault_leaves_inconclusive_whatever_was_judged(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    world.compare(run, "PASS", bits)
    name = world.compare(run, "FAIL", world.freeze(MAE))
    world.run(cuda, record(run), run=run)
    state, _, cause = world.cell(own, "zero_update/replay")
    assert state == "inconclusive" and cause.startswith(("locked", "suspect")), cause
    assert world.ask("SELECT state, plane FROM evidence_current WHERE id = ?", [name]) == [
        ("inconclusive", "environment")
    ]


def test_people_only_lower(world: World) -> None:
    run = world.run()
    own, name = world.candidate(run), uuid.uuid4().hex[:16]
    world.compare(run, "PASS", world.freeze(BITWISE), name=name)
    moment = datetime.now(UTC).replace(tzinfo=None)
    for scope, target in (("run", ""), ("record", f"comparison:{name}")):
        mark = MarkRow(uuid.uuid4().hex, run, None, scope, target, "inconclusive", "odd", "eve", moment, "h")
        world.writer.commit([], marks=[mark])
        assert world.cell(own, "zero_update/replay") == ("inconclusive", False, "marked inconclusive")
        world.writer.commit([], marks=[replace(mark, id=uuid.uuid4().hex, verdict="retract", target=mark.id)])
        assert world.cell(own, "zero_update/replay")[0] == "pass"


def test_what_is_no_evidence_as_a_comparison_is_none_here(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    for changes, cause in (
        ({"intervention": "eager"}, "intervention eager"),
        ({"intervention": None}, "intervention not stated"),
        ({"scope": "sampled"}, "scope sampled"),
        ({"manifest": ""}, "no manifest names its files"),
    ):
        world.compare(run, "PASS", bits, **changes)
        assert world.cell(own, "zero_update/replay") == ("inconclusive", False, cause)
    unread = f"run-{uuid.uuid4().hex[:8]}"
    other = world.candidate(unread)
    world.compare(unread, "PASS", bits)
    assert world.cell(other, "zero_update/replay") == ("inconclusive", False, "no log of its run was read")


def test_a_clock_that_is_wrong_does_not_wash_a_failure_away(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    world.compare(run, "PASS", bits)
    failed = world.compare(run, "FAIL", bits)
    early = datetime(2001, 1, 1)
    said = Entry(uuid.uuid4().hex, "supersede", early, "ann", "h", target=failed, reason="an hour that never was")
    world.writer.commit([], ledger=[said])
    assert world.cell(own, "zero_update/replay") == ("not run", True, "stale: an hour that never was")
    other = closure.of({"object.model": uuid.uuid4().hex})
    body = canonical({"name": "late", "fields": dict(other.fields)})
    forged = Entry(uuid.uuid4().hex, "candidate", early, "ann", "h", candidate=other.sha256, run_id=run, body=body)
    world.writer.commit([], ledger=[forged])
    world.compare(run, "PASS", bits)
    assert world.cell(own, "zero_update/replay")[0] == "pass", "the run stays what it was declared for first"
    assert world.cell(other.sha256, "zero_update/replay")[0] == "not run"


def test_a_file_that_changes_takes_a_pass_away_and_no_failure(world: World) -> None:
    run = world.run()
    own = world.candidate(run)
    places = {"host": "node7", "root": "/jobs", "manifest": "/jobs/m.json", "run": run, "state": "changed", "why": "x"}
    for text, cell, label, side, told in (
        (BITWISE, "zero_update/replay", "PASS", "side_a", ("inconclusive", False, "file A is changed since")),
        (VERSIONS, "per_version/1", "PASS", "side_b", ("inconclusive", False, "file B is changed since")),
        (MODULE, "module/forward", "FAIL", "side_a", ("fail", False, "said FAIL")),
    ):
        path = f"/jobs/{uuid.uuid4().hex}"
        world.compare(run, label, world.freeze(text), **{side: path})
        world.writer.commit([], results=[ArtifactRow(path=path, sha256=sha("other"), kept_sha256=sha("x"), **places)])
        assert world.cell(own, cell) == told


def test_a_manifest_that_is_written_anew_takes_a_pass_away_and_no_failure(world: World) -> None:
    run = world.run()
    own = world.candidate(run)

    def manifest(digest: str) -> None:
        found = ResultFileRow("node7", "/jobs", path, "manifest", digest=sha(digest), run=run)
        world.writer.commit([], results=[found])

    for text, label, state in ((BITWISE, "PASS", "inconclusive"), (MODULE, "FAIL", "fail")):
        path, name = f"/jobs/{uuid.uuid4().hex}.json", uuid.uuid4().hex[:16]
        frozen = world.freeze(text)
        manifest("written before the row of evidence, after the comparison")
        world.writer.commit([], compared=[ComparisonFileRow(name, "manifest", path, sha("as read"))])
        evidence = world.compare(run, label, frozen, name=name, manifest=path)
        assert world.ask("SELECT manifest_sha256 FROM ledger WHERE id = ?", [evidence]) == [(sha("as read"),)]
        cell = "zero_update/replay" if text == BITWISE else "module/forward"
        assert world.cell(own, cell)[0] == state
        manifest("as read")
        assert world.cell(own, cell)[0] == label.lower()
    manifest("again")
    assert world.cell(own, "module/forward")[0] == "fail"


def test_each_policy_version_has_its_own_cell(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(VERSIONS)
    world.compare(run, "PASS", bits, policy="1")
    world.compare(run, "FAIL", bits, policy="2")
    world.compare(run, "PASS", bits, policy=None)
    rows = world.ask(
        "SELECT cell, state FROM gates WHERE candidate_id = ? AND gate = 'per_version' ORDER BY cell", [own]
    )
    assert rows == [("1", "pass"), ("2", "fail")]
    assert world.ask(
        "SELECT DISTINCT gate_state FROM gates WHERE candidate_id = ? AND gate = 'per_version'", [own]
    ) == [("fail",)]


def test_no_row_of_people_stands_where_a_failure_will(world: World) -> None:
    """The id that evidence will have can be worked out beforehand: nobody else may take it."""
    run = world.run()
    own = world.candidate(run)
    row_id = world.compare(run, "FAIL", world.freeze(BITWISE))
    said = Entry(row_id, "case", datetime(2026, 1, 1), "mal", "h", body=canonical({"name": "c", "parts": {"fix": "x"}}))
    assert complaint(said) == "" and "of evidence" in str(parse(as_json(said)))
    assert parse(as_json(replace(said, id=row_id.removeprefix(EVIDENCE)))) == replace(said, id=row_id[len(EVIDENCE) :])
    assert world.cell(own, "zero_update/replay")[0] == "fail"


def test_a_candidate_for_screening_does_not_pass_what_needs_a_lifecycle(world: World) -> None:
    run = world.run()
    own = world.candidate(run, **{"rollout.lifecycle": "None"})
    assert world.ask("SELECT screening FROM candidates WHERE candidate_id = ?", [own]) == [(True,)]
    world.compare(run, "PASS", world.freeze(BITWISE))
    world.compare(run, "PASS", world.freeze(MODULE))
    assert world.cell(own, "zero_update/replay") == ("inconclusive", False, "for screening only: said PASS")
    assert world.cell(own, "module/forward")[0] == "pass"
    heir = world.candidate(world.run(), own, ("rollout.lifecycle",))
    world.say(
        "exemption", candidate=heir, target=own, gate="module", reason="r", body={"closure": sha("c")}, artifacts=SHOWN
    )
    state, _, cause = world.cell(heir, "module/forward")
    assert state == "not run", cause


def test_what_a_change_makes_stale_and_what_carries_over(world: World) -> None:
    run = world.run()
    parent = world.candidate(run)
    for text in (BITWISE, MODULE):
        world.compare(run, "PASS", world.freeze(text))
    heir = world.candidate(world.run(), parent, ("graph.mode",))
    assert world.cell(heir, "zero_update/replay") == (
        "not run",
        True,
        "stale: graph.mode changed: graph, cache, packing or parallel layout",
    )
    state, stale, cause = world.cell(heir, "module/forward")
    assert (state, stale) == ("not run", False) and cause == f"parent {parent[:12]}: pass, which does not carry over"
    world.say(
        "exemption",
        candidate=heir,
        target=parent,
        gate="module",
        reason="graphs are off there",
        body={"closure": sha("c")},
        artifacts=SHOWN,
    )
    assert world.cell(heir, "module/forward") == ("pass", False, f"carried from {parent[:12]}: graphs are off there")
    assert world.cell(heir, "module/repeat") == (
        "not run",
        False,
        f"an exemption names {parent[:12]}, which has no pass here to carry over",
    )
    # Who comes after it needs an exemption of its own, and may name whoever has the pass by its own evidence.
    last = world.candidate(world.run(), heir, ("kernel.moe",))
    world.say(
        "exemption", candidate=last, target=heir, gate="module", reason="r", body={"closure": sha("c")}, artifacts=SHOWN
    )
    assert world.cell(last, "module/forward")[0] == "not run"
    world.say(
        "exemption",
        candidate=last,
        target=parent,
        gate="module",
        reason="r",
        body={"closure": sha("c")},
        artifacts=SHOWN,
    )
    assert world.cell(last, "module/forward")[0] == "pass"
    # One that is superseded carries nothing over any more.
    ((evidence,),) = world.ask("SELECT evidence_id FROM gates WHERE candidate_id = ? AND cell = 'forward'", [parent])
    world.say("supersede", target=evidence, reason="another reader")
    assert world.cell(last, "module/forward")[0] == "not run" and world.cell(parent, "module/forward")[1]


def test_a_change_of_no_class_makes_every_gate_stale_that_was_reached(world: World) -> None:
    run = world.run()
    parent = world.candidate(run)
    for text in (BITWISE, MODULE, VERSIONS):
        world.compare(run, "PASS", world.freeze(text))
    heir = world.candidate(world.run(), parent, ("object.tokenizer",))
    stale = {
        (gate, cell)
        for gate, cell in world.ask("SELECT gate, cell FROM gates WHERE candidate_id = ? AND stale", [heir])
    }
    assert stale == {("zero_update", "replay"), ("module", "forward"), ("per_version", "*")}


def test_candidates_side_by_side_inherit_nothing(world: World) -> None:
    run = world.run()
    one, other = world.candidate(run), world.candidate(world.run())
    world.compare(run, "PASS", world.freeze(MODULE))
    world.say(
        "exemption", candidate=other, target=one, gate="module", reason="r", body={"closure": sha("c")}, artifacts=SHOWN
    )
    assert world.cell(other, "module/forward")[0] == "not run"


def test_own_evidence_counts_before_what_is_carried_over(world: World) -> None:
    run, later = world.run(), world.run()
    parent = world.candidate(run)
    heir = world.candidate(later, parent)
    world.compare(run, "PASS", world.freeze(MODULE))
    world.say(
        "exemption",
        candidate=heir,
        target=parent,
        gate="module",
        reason="r",
        body={"closure": sha("c")},
        artifacts=SHOWN,
    )
    assert world.cell(heir, "module/forward")[0] == "pass"
    world.compare(later, "FAIL", world.freeze(MODULE))
    assert world.cell(heir, "module/forward") == ("fail", False, "said FAIL")


def test_a_failure_of_the_control_plane_gives_way_to_a_new_acceptor_of_the_same_files(world: World) -> None:
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    files = {"sha256_a": sha("A"), "sha256_b": sha("B")}
    failed = world.compare(run, "FAIL", bits, **files, comparator=1)
    world.compare(run, "PASS", bits, **files, comparator=1)
    assert world.ask("SELECT plane FROM evidence_current WHERE id = ?", [failed]) == [("numerical",)]
    world.say("plane", target=failed, plane="control", reason="the wrapper could not parse a mask")
    assert world.cell(own, "zero_update/replay")[0] == "fail", "the same acceptor again is no recovery"
    world.say("plane", target=failed, plane="numerical", reason="not shown")
    world.compare(run, "PASS", bits, **files, comparator=2)
    assert world.cell(own, "zero_update/replay")[0] == "fail", "not while it counts as a failure of the numbers"
    world.say("plane", target=failed, plane="control", reason="the wrapper could not parse a mask")
    assert world.cell(own, "zero_update/replay")[0] == "pass"
    again = world.compare(run, "FAIL", bits, comparator=1)
    world.say("plane", target=again, plane="control", reason="the same")
    world.compare(run, "PASS", bits, comparator=2)
    assert world.cell(own, "zero_update/replay")[0] == "fail", "other files are another trajectory"
    assert world.ask("SELECT label FROM ledger WHERE id = ?", [failed]) == [("FAIL",)]


def test_a_run_is_of_the_candidate_that_it_was_declared_for_first(world: World) -> None:
    run = world.run()
    first = world.candidate(run)
    second = world.candidate(run)
    world.compare(run, "PASS", world.freeze(BITWISE))
    assert world.cell(first, "zero_update/replay")[0] == "pass"
    assert world.cell(second, "zero_update/replay")[0] == "not run"


def test_a_run_whose_record_says_otherwise_is_of_another_candidate(world: World) -> None:
    run, other = world.run(), world.run()
    receipt = {
        "host": "node7",
        "root": "/jobs",
        "kind": "receipt",
        "side": "worker",
        "digest": "d",
        "key": "rollout.tp",
    }
    for each in (run, other):
        row = ConfigRow(path=f"/jobs/{each}/receipt.json", run_hint=each, name="rollout.tp", value="4", **receipt)
        world.writer.commit([], configs=[row])
    assert world.ask("SELECT value FROM run_records WHERE run_id = ? AND field = 'rollout.tp'", [run]) == [("4",)]
    own = world.candidate(run, **{"rollout.tp": "8"})
    world.compare(run, "PASS", world.freeze(BITWISE))
    assert world.cell(own, "zero_update/replay") == (
        "inconclusive", False, "another candidate: rollout.tp is 4, the closure says 8",
    )  # fmt: skip
    agreed = world.candidate(other, **{"rollout.tp": "4"})
    world.compare(other, "PASS", world.freeze(BITWISE))
    assert world.cell(agreed, "zero_update/replay")[0] == "pass"


def test_evidence_survives_a_daemon_that_was_killed_before_it_wrote_it(tmp_path: Path) -> None:
    layout = StoreLayout.find(tmp_path)
    world = World(Writer.open(layout))
    run = world.run()
    own, bits = world.candidate(run), world.freeze(BITWISE)
    world.writer._noting.unjudged = False
    name = uuid.uuid4().hex[:16]
    row = ComparisonRow(
        "n",
        "/j",
        name,
        name,
        run=run,
        kind="tokens",
        manifest="/m",
        intervention="none",
        label="PASS",
        reason="r",
        criterion=bits,
    )
    world.writer.commit([], compared=[row])
    world.writer.note_evidence = lambda **_: None  # type: ignore[method-assign]
    world.writer.close()
    again = World(Writer.open(layout))
    again.writer.note_evidence(now=True)
    assert again.cell(own, "zero_update/replay")[0] == "pass"
    again.writer.close()
    assert cli.main(["verify", str(tmp_path)]) == 0


def test_several_stores_stand_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence of one node, and what people said, which each node has: a supersede that one has not heard counts too."""
    worlds = []
    for host in ("n1", "n2"):
        monkeypatch.setattr("tic_daemon.store.layout.local_host", lambda host=host: host)
        worlds.append(World(Writer.open(StoreLayout.find(tmp_path))))
    one, two = worlds
    run = one.run()
    entries: list[Entry] = []
    monkeypatch.setattr(two, "say", None)
    commit = one.writer.commit

    def both(*args: Any, **said: Any) -> int:
        entries.extend(said.get("ledger", ()))
        return commit(*args, **said)

    monkeypatch.setattr(one.writer, "commit", both)
    own, bits = one.candidate(run), one.freeze(BITWISE)
    two.writer.commit([], ledger=[entry for entry in entries if entry.kind != "evidence"])
    failed = one.compare(run, "FAIL", bits)
    moment = datetime.now(UTC).replace(tzinfo=None)
    two.writer.commit(
        [], ledger=[Entry(uuid.uuid4().hex, "supersede", moment, "eve", "n2", target=failed, reason="wrong image")]
    )
    for world in worlds:
        world.writer.close()
    reader = open_reader(tmp_path)
    try:
        asked = "SELECT state, stale, cause FROM gates WHERE candidate_id = ? AND gate = 'zero_update'"
        assert reader.query(asked, [own]).rows == [("not run", True, "stale: wrong image")]
        assert reader.query("SELECT count(*) FROM evidence_current").rows == [(0,)]
        assert reader.query("SELECT kind, count(*) FROM ledger GROUP BY kind ORDER BY kind").rows == [
            ("candidate", 1), ("criterion", 1), ("evidence", 1), ("supersede", 1),
        ]  # fmt: skip
    finally:
        reader.close()
    assert cli.main(["verify", str(tmp_path)]) in (0, 12)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(Writer.open(StoreLayout.find(tmp_path)))
    run = world.run()
    own, bits = world.candidate(run, "", (), **{"graph.mode": "FULL"}), world.freeze(BITWISE)
    failed = world.compare(run, "FAIL", bits)
    world.writer.close()
    at = ["--at", str(tmp_path)]
    assert cli.main(["gates", own[:8], *at]) == 10
    out = capsys.readouterr().out
    assert "3 full model before the first update: fail" in out and re.search(r"replay +fail: said FAIL", out)
    assert "no version yet" in out
    assert cli.main(["gates", *at]) == 0
    assert (
        f"{own[:12]}  {run}: module not run, proxy not run, zero_update fail, per_version not run"
        in capsys.readouterr().out
    )
    assert cli.main(["evidence", "list", *at]) == 0
    assert f"zero_update/replay {run}: FAIL, fail (numerical plane): said FAIL" in capsys.readouterr().out
    assert cli.main(["evidence", "plane", failed[:8], "environment", "--reason", "the node", *at]) == 0
    assert cli.main(["evidence", "supersede", failed[:8], "--reason", "the node", *at]) == 0
    capsys.readouterr()
    assert cli.main(["evidence", "list", "--all", "--json", *at]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["label"], row["state"]) == (failed, "FAIL", "superseded")
    assert cli.main(["gates", run, "--json", *at]) == 15, "nothing is left that was run"
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == 15 and len(said["gates"]) == len(gates.cells())
    assert cli.main(["gates", "nobody", *at]) == 15
    assert cli.main(["evidence", "supersede", "abc", "--reason", "r", *at]) == 15


def test_gates_without_any_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Writer.open(StoreLayout.find(tmp_path)).close()
    assert cli.main(["gates", "--at", str(tmp_path)]) == 15
    assert "no candidate is declared" in capsys.readouterr().err


def test_exit_codes_of_gates() -> None:
    from tic_daemon.gates_command import exit_code

    for states, code in (
        (["pass", "pass"], 0), (["pass", "not run"], 12), (["not run"], 15), ([], 15), (["pass", "inconclusive"], 12),
        (["fail", "inconclusive", "pass"], 10),
    ):  # fmt: skip
        assert exit_code([{"state": state} for state in states]) == code


def test_no_row_is_ever_updated_or_deleted() -> None:
    """Nothing in the program changes the ledger's table but by adding to it."""
    for path in (ROOT / "daemon/tic_daemon").rglob("*.py"):
        assert not re.search(r"(UPDATE|DELETE FROM|INSERT OR REPLACE INTO)\s+ledger_row", path.read_text()), path


def test_a_fault_or_a_mark_of_another_store_takes_a_pass_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the daemon whose evidence it is has heard of it."""
    worlds = []
    for host in ("n1", "n2"):
        monkeypatch.setattr("tic_daemon.store.layout.local_host", lambda host=host: host)
        worlds.append(World(Writer.open(StoreLayout.find(tmp_path))))
        worlds[-1].writer.put_fault_rules(RuleSet.load([]).fault_rules())
    one, other = worlds
    bits = one.freeze(BITWISE)
    runs = [one.run() for _ in range(3)]
    for run in runs:
        one.candidate(run)
        one.compare(run, "PASS", bits)
    assert set(one.ask("SELECT state FROM evidence_current")) == {("pass",)}
    events = [record(runs[0])(At(0, 40, 1, step=0)), cuda(At(40, 40, 2, step=0))]
    row = source("other.log", host="n2", run_hint=runs[0], run_how="path")
    cursor = CursorRow(row.source_id, 0, byte_offset=80, path=row.path)
    mark = MarkRow("m", runs[1], None, "run", "", "inconclusive", "odd", "eve", datetime(2026, 1, 1), "h")
    other.writer.commit([SourceDelta(row, cursor, tuple(events), lines=2)], marks=[mark])
    for each in worlds:
        each.writer.close()
    reader = open_reader(tmp_path)
    try:
        said = "SELECT c.name, g.state, g.cause FROM gates g JOIN candidates c USING (candidate_id) WHERE g.cell = 'replay'"
        found = {row[0]: row[1:] for row in reader.query(said).rows}
    finally:
        reader.close()
    assert found == {
        runs[0]: ("inconclusive", "locked: a fault that another store saw"),
        runs[1]: ("inconclusive", "marked inconclusive"),
        runs[2]: ("pass", "said PASS"),
    }
