"""Where comparisons stand towards faults: by hand, from the step and production time of the later side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tic_daemon.evidence.judge import Standing
from tic_daemon.scan.events import At, Fault, ProcessSeen
from tic_daemon.store import restore
from tic_daemon.store.check import _no_evidence, _verdicts
from tic_daemon.store.comparison_rows import (
    ComparisonFileRow,
    ComparisonPart,
    ComparisonRow,
    ComparisonSaidRow,
    ComparisonSequenceRow,
    ComparisonTaskRow,
    ComparisonTokenRow,
    ComparisonVersionRow,
    TraceBoundaryRow,
)
from tic_daemon.store.comparison_standing import Made, standing_of
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import Publisher
from tic_daemon.store.rows import (
    ArtifactRow,
    AttemptRow,
    CursorRow,
    MarkRow,
    ResultFileRow,
    ResultRow,
    SourceDelta,
    SourceRow,
    source_id,
)
from tic_daemon.store.snapshot import read_manifest
from tic_daemon.store.writer import Writer

NOON = datetime(2026, 11, 29, 12)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Rule:
    kind: str
    severity: str
    locks: str
    node_scope: bool = False
    title: str = ""
    pack: str = "test"
    product: str = ""


def log(run: str, *events: Any, pid: int = 10) -> SourceDelta:
    """A log of one process of a run."""
    path = f"/w/{run}/{pid}.log"
    row = SourceRow(
        source_id("h", "file", path),
        "file",
        "h",
        f"/w/{run}",
        path,
        pid=pid,
        single_process=True,
        run_hint=run,
        run_how="config",
    )
    return SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=1000, path=path), events, bytes=1000, lines=10)


def seen(at: datetime, pid: int = 10) -> ProcessSeen:
    return ProcessSeen(At(0, 10, 1, proc="", pid=pid, stamp=at, stamp_utc=True))


def fault(kind: str, step: int | None, at: datetime | None = NOON) -> Fault:
    place = At(500, 10, 5, stamp=at, stamp_utc=at is not None, step=step)
    return Fault(place, kind, "confirmed", text="CUDA error: an illegal memory access was encountered")


NUMBER = iter(range(1 << 16))


def row(run: str, step: int | None, at: datetime | None = None, how: str = "file", **more: Any) -> ComparisonRow:
    name = f"{next(NUMBER):016x}"
    made: dict[str, Any] = {
        "produced_a": at and at - HOUR, "produced_b": at, "produced_how_a": how if at else "", "produced_how_b": how if at else "",
        "task": name, "side_a": f"/w/{run}/a.pt", "side_b": f"/w/{run}/b.pt", "how": "manifest", "run": run, "run_how": "manifest",
        "step": step, "kind": "tokens", "label": "PASS", "rule": 11, "intervention": "none", "manifest": f"/w/{run}/manifest.json",
    }  # fmt: skip
    return ComparisonRow("h", f"/w/{run}", **{"id": name, **made, **more})


ON_PID_20 = {"producer_host_a": "h", "producer_pid_a": 20, "producer_host_b": "h", "producer_pid_b": 20}
AFTER, UNKNOWN, LATE = "after the fault", "order unknown", "fault reported in or before this step"
# A fault at noon, in step 5. Two seconds and one step are what clocks and sides may be apart.
CASES: dict[str, tuple[ComparisonRow, str, str, int]] = {
    "two steps before": (row("a", 3, NOON + HOUR), "admissible", "", 1),
    "one step before is not surely before, nor is its time": (row("a", 4, NOON + HOUR), "locked", UNKNOWN, 1),
    "a step after": (row("a", 7, NOON - HOUR), "suspect", LATE, 1),
    "a step and a time after": (row("a", 7, NOON + HOUR), "locked", AFTER, 1),
    "receipts after": (row("a", None, NOON + HOUR, "receipt"), "locked", AFTER, 1),
    "receipts before, without a step": (row("a", None, NOON - HOUR, "receipt"), "suspect", LATE, 1),
    "a step before without a time": (row("a", 2), "admissible", "", 1),
    "neither": (row("a", None), "locked", UNKNOWN, 1),
    "a file of the second before": (row("a", 4, NOON - SECOND), "locked", UNKNOWN, 1),
    "a file of three seconds before": (row("a", 4, NOON - 3 * SECOND), "admissible", "", 1),
    "one side without a time": (row("a", 4, NOON - HOUR, produced_a=None), "locked", UNKNOWN, 1),
    "the step of an error": (row("b", 5, NOON + HOUR), "suspect", "step voided by a fault", 1),
    "the step after an error": (row("b", 6, NOON + HOUR), "admissible", "", 1),
    "no step, and an error": (row("b", None, NOON + HOUR), "suspect", "step voided by a fault", 1),
    "a new attempt by its process": (row("c", 9, NOON + HOUR, **ON_PID_20), "admissible", "", 2),
    "the old process": (row("c", 9, NOON + HOUR, **{**ON_PID_20, "producer_pid_b": 10, "producer_pid_a": 10}), "locked", AFTER, 1),
    "one side of each": (row("c", 9, NOON + HOUR, **{**ON_PID_20, "producer_pid_b": 10}), "locked", AFTER, 2),
    "a file time tells no attempt": (row("c", 9, NOON + HOUR), "locked", AFTER, 2),
    "receipts behind a cut by time": (row("c", 9, NOON + HOUR, "receipt"), "admissible", "", 2),
    "nobody read a log": (row("d", 5, NOON), "admissible", "", 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    made = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("ws")))
    made.put_fault_rules([Rule("lock", "L", "always"), Rule("error", "E", "never")])
    made.commit(
        [
            log("a", seen(NOON - 2 * HOUR), fault("lock", 5)), log("b", seen(NOON - 2 * HOUR), fault("error", 5)),
            log("c", seen(NOON - 2 * HOUR), fault("lock", 5)), log("c", seen(NOON + HOUR / 2, 20), pid=20), log("e", seen(NOON)),
        ],
        attempts=[AttemptRow("x", "c", "time", NOON + HOUR / 3, "again", "me", NOON + HOUR / 3, "h")],
    )  # fmt: skip
    made.commit([], compared=[case[0] for case in CASES.values()])
    yield made
    made.close()


@pytest.fixture(scope="module")
def shown(writer: Writer) -> dict[str, tuple[object, ...]]:
    """What the view says of all cases: planning it costs more than running it."""
    sql = "SELECT comparison_id, admissibility, admissibility_reason, attempt FROM comparisons"
    return {str(row[0]): row[1:] for row in writer.reader_cursor().execute(sql).fetchall()}


@pytest.mark.parametrize("name", CASES)
def test_by_hand(writer: Writer, shown: dict[str, tuple[object, ...]], name: str) -> None:
    given, admissibility, why, attempt = CASES[name]
    con = writer.reader_cursor()
    assert shown[given.id] == (admissibility, why, attempt)
    made = Made(given.host, given.root, given.manifest, **{name: getattr(given, name) for name in Made.__slots__[3:]})
    standing, told = standing_of(con, made)
    if given.run == "d":
        assert standing is Standing.UNKNOWN and "no log of run d" in told
    else:
        expected = {"locked": Standing.LOCKED, "suspect": Standing.SUSPECT, "admissible": Standing.CLEAR}[admissibility]
        assert standing is expected and (told == why or standing is Standing.CLEAR)
    con.close()


def test_the_label_stays_and_is_no_evidence(writer: Writer) -> None:
    rows = (
        writer.reader_cursor()
        .execute("SELECT label, is_evidence, admissibility, not_evidence_because FROM comparisons")
        .fetchall()
    )
    assert {row[0] for row in rows} == {"PASS"}
    assert not any(row[1] for row in rows if row[2] != "admissible")
    states = writer.reader_cursor().execute(
        "SELECT DISTINCT state FROM comparisons WHERE admissibility <> 'admissible'"
    )
    assert states.fetchall() == [("inconclusive",)]


def test_evidence_needs_files_as_they_were_a_shown_basis_and_no_intervention(writer: Writer) -> None:
    named = [
        ArtifactRow("h", "/w/e", "/w/e/manifest.json", f"/w/e/{name}.pt", sha256=name * 64, state="verified", run="e")
        for name in "ab"
    ]
    files = {"sha256_a": "a" * 64, "sha256_b": "b" * 64}
    cases: dict[str, dict[str, Any]] = {
        "": {}, "no manifest names its files": {"manifest": ""}, "INVALID: x": {"label": "INVALID", "reason": "x", "rule": 2},
        "not shown: basis": {"label": "", "rule": 8, "reason": "not shown: basis"}, "a planted error": {"plant": "one bit"},
        "a trace is a diagnosis": {"kind": "trace"}, "intervention not stated": {"intervention": None},
        "intervention head 3 off": {"intervention": "head 3 off"}, "scope proxy": {"scope": "proxy"},
        "file B is another since": {"sha256_b": "c" * 64},
    }  # fmt: skip
    rows = {why: row("e", 1, NOON, **{**files, **changes}) for why, changes in cases.items()}
    writer.commit([], results=named, compared=list(rows.values()))
    con = writer.reader_cursor()
    sql = "SELECT is_evidence, not_evidence_because FROM comparisons WHERE comparison_id = ?"
    every = "SELECT comparison_id, is_evidence, not_evidence_because FROM comparisons WHERE run_id = 'e'"
    said = {row[0]: row[1:] for row in con.execute(every).fetchall()}
    assert {why: said[given.id] for why, given in rows.items()} == {why: (why == "", why) for why in rows}
    fail = row("e", 2, NOON, **files, label="FAIL", rule=5, reason="non-finite")
    writer.commit([], compared=[fail])
    assert con.execute(sql, [fail.id]).fetchall() == [(True, "")]
    states = dict(con.execute("SELECT comparison_id, state FROM comparisons WHERE run_id = 'e'").fetchall())
    assert [states[one.id] for one in (fail, rows[""], rows["INVALID: x"])] == ["fail", "pass", "inconclusive"]
    writer.commit([], results=[replace(named[0], sha256="d" * 64, state="changed")])
    sql = (
        "SELECT is_evidence, not_evidence_because, artifact_a IS NOT NULL, artifact_b IS NOT NULL FROM comparisons"
        " WHERE comparison_id = ?"
    )
    assert con.execute(sql, [fail.id]).fetchall() == [(False, "file A is changed since", True, True)]
    writer.commit([], results=[replace(named[0], named=False)])
    assert con.execute("SELECT changed FROM comparisons WHERE comparison_id = ?", [fail.id]).fetchall() == [
        ("no manifest names file A",)
    ]


def test_what_is_compared_anew_is_no_evidence_until_it_is(writer: Writer) -> None:
    named = [
        ArtifactRow(
            "h", "/w/e", "/w/e/manifest.json", f"/w/e/anew-{name}.pt", sha256=name * 64, state="verified", run="e"
        )
        for name in "ab"
    ]
    own = row(
        "e", 9, NOON, content="one:words", sha256_a="a" * 64, sha256_b="b" * 64, side_a="/w/e/anew-a.pt", side_b="/w/e/anew-b.pt"
    )  # fmt: skip
    task = ComparisonTaskRow("h", own.root, own.task, "manifest", content="one:words", state="judged")
    writer.commit([], results=named, compared=[own, task])
    con = writer.reader_cursor()
    sql = "SELECT state, is_evidence, changed FROM comparisons WHERE comparison_id = ?"

    def shown() -> tuple[object, ...]:
        return con.execute(sql, [own.id]).fetchall()[0]

    assert shown() == ("pass", True, "")
    writer.commit([], compared=[replace(task, content="one:words:another criterion", state="waiting")])
    assert shown() == ("pass", True, ""), "of the same files, of which the same is said"
    said = ("inconclusive", False, "what is said of it is another: it is to be judged anew")
    writer.commit([], compared=[replace(task, content="one:other words", state="waiting")])
    assert shown() == said
    anew = ("inconclusive", False, "its files are to be compared anew")
    for state in ("waiting", "running", "failed"):  # its tokens, say, are others: no side is
        writer.commit([], compared=[replace(task, content="other:words", state=state)])
        assert shown() == anew
    writer.commit([], compared=[replace(task, content="", state="waiting")])
    assert shown() == anew, "nor while the new ones are not there"
    writer.commit([], compared=[task])
    assert shown() == ("pass", True, "")


def test_what_is_no_more_as_it_was_read_counts_no_more(writer: Writer) -> None:
    """A manifest and tokens take the verdict away, a repeat the floor of its side alone."""

    def artifact(name: str, sha256: str, state: str = "verified") -> ArtifactRow:
        return ArtifactRow("h", "/w/e", "/w/e/beside.json", f"/w/e/{name}.pt", sha256=sha256, state=state, run="e")

    def manifest(digest: str, present: bool = True) -> ResultFileRow:
        return ResultFileRow("h", "/w/e", "/w/e/beside.json", "manifest", digest=digest, present=present)

    names = {"ba": "a", "bb": "b", "tokens": "t", "again-a": "c", "again-b": "d"}
    files = {name: artifact(name, sha256 * 64) for name, sha256 in names.items()}
    own = row(
        "e", 11, NOON, side_a=files["ba"].path, side_b=files["bb"].path, sha256_a="a" * 64, sha256_b="b" * 64, floor_a=0.25,
        floor_b=0.5, logprob_mae=2.0, noise=("beyond",), manifest="/w/e/beside.json",
    )  # fmt: skip
    parts = [
        ComparisonFileRow(own.id, role, files[name].path, files[name].sha256)
        for role, name in (("tokens", "tokens"), ("repeat_a", "again-a"), ("repeat_b", "again-b"))
    ] + [ComparisonFileRow(own.id, "said", files["ba"].path, "s" * 32)]
    writer.commit(
        [],
        results=[*files.values(), manifest("m" * 64)],
        compared=[own, *parts, ComparisonFileRow(own.id, "manifest", "/w/e/beside.json", "m" * 64)],
    )
    con = writer.reader_cursor()
    sql = "SELECT state, changed, floor_a, floor_b, noise_ratio, noise FROM comparisons WHERE comparison_id = ?"

    def after(*rows: ResultRow) -> tuple[Any, ...]:
        """What is shown once this is told; then all is as it was at first."""
        writer.commit([], results=list(rows))
        found = con.execute(sql, [own.id]).fetchall()[0]
        writer.commit([], results=[*files.values(), manifest("m" * 64)])
        return found

    whole = ("pass", "", 0.25, 0.5, 4.0, ["beyond"])
    assert after() == whole
    assert after(manifest("n" * 64))[:2] == ("inconclusive", "its manifest is another since")
    assert after(manifest("", present=False))[1] == "its manifest is gone since"
    assert after(artifact("tokens", "x" * 64, "changed"))[:2] == ("inconclusive", "the file of tokens is changed since")
    assert after(artifact("tokens", "x" * 64))[1] == "the file of tokens is another since"
    lost = "repeat /w/e/again-b.pt is changed since: the floor of its side does not count"
    assert after(artifact("again-b", "x" * 64, "changed")) == ("pass", "", 0.25, None, None, ["beyond", lost])
    assert after(artifact("again-a", "", "missing"))[2:5] == (None, 0.5, None)
    assert after() == whole
    # A manifest that grew counts again once it was looked at, and nothing else is said of these files.
    looked = ComparisonSaidRow("h", "/w/e/beside.json", "n" * 64)
    writer.commit([], compared=[ComparisonSaidRow("h", files["ba"].path, "s" * 32), looked])
    assert after(manifest("n" * 64)) == whole
    assert after(manifest("o" * 64))[1] == "its manifest is another since", "it was written again"
    writer.commit([], compared=[ComparisonSaidRow("h", files["ba"].path, "t" * 32)])
    anew = "what is said of it is another: it is to be judged anew"
    assert after()[:2] == after(manifest("n" * 64))[:2] == ("inconclusive", anew)
    writer.commit([], compared=[ComparisonSaidRow("h", files["ba"].path, "s" * 32)])
    assert after() == whole


def test_figures_of_each_policy_version(writer: Writer) -> None:
    own = row("e", 12, NOON, policy=None)
    versions = [ComparisonVersionRow(own.id, "7", 3, 1, 0.5), ComparisonVersionRow(own.id, "8", 5, None, None)]
    writer.commit([], compared=[own, *versions])
    found = writer.reader_cursor().execute(
        "SELECT run_id, step, policy, valid_tokens, mismatched_tokens, logprob_mae FROM comparison_versions"
        " WHERE comparison_id = ? ORDER BY policy", [own.id],
    )  # fmt: skip
    assert found.fetchall() == [("e", 12, "7", 3, 1, 0.5), ("e", 12, "8", 5, None, None)]


def test_a_control_group_of_copies_or_of_numbers_that_are_none_rules_out_nothing(writer: Writer) -> None:
    shown = {"produced_a": None, "produced_b": None, "control": "inference_alone", "manifest": ""}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"label": "PASS", "rule": 11}, "equal"), ({"label": "", "rule": 9}, "equal"), ({"label": "", "rule": 10}, "equal"),
        ({"label": "", "rule": 8, "reason": "not shown: producers of equal bytes"}, "inconclusive"),
        ({"label": "FAIL", "rule": 5, "reason": "non-finite", "non_finite": 3}, "inconclusive"),
        ({"label": "FAIL", "rule": 11, "mismatched_tokens": 1}, "differs"),
        ({"label": "", "rule": 8, "mismatched_tokens": 1}, "differs"),
    ]  # fmt: skip
    rows = [
        row("board", number, **{**shown, "mismatched_tokens": 0, **values}) for number, (values, _) in enumerate(cases)
    ]
    writer.commit([log("board", seen(NOON))], compared=list(rows))
    found = writer.reader_cursor().execute(
        "SELECT inference_alone, rules_out FROM control_groups WHERE run_id = 'board' ORDER BY step"
    )
    assert found.fetchall() == [(state, "inference" if state == "equal" else "") for _, state in cases]


def test_marks_of_a_comparison_an_attempt_and_a_run(writer: Writer) -> None:
    one, other = row("m", 1, NOON), row("m", 2, NOON)
    writer.commit([log("m", seen(NOON))], compared=[one, other])
    con = writer.reader_cursor()
    sql = "SELECT marked FROM comparisons WHERE run_id = 'm' ORDER BY step"
    assert con.execute(sql).fetchall() == [(False,), (False,)]
    mark = MarkRow("m1", "m", 1, "record", f"comparison:{other.id}", "inconclusive", "odd", "me", NOON, "h")
    writer.commit([], marks=[mark])
    assert con.execute(sql).fetchall() == [(False,), (True,)]
    writer.commit([], marks=[MarkRow("m2", "m", 1, "record", "m1", "retract", "no", "me", NOON, "h")])
    assert con.execute(sql).fetchall() == [(False,), (False,)]
    writer.commit([], marks=[MarkRow("m3", "m", None, "run", "", "inconclusive", "all", "me", NOON, "h")])
    assert con.execute(sql).fetchall() == [(True,), (True,)]
    made = Made("h", "/w/m", "/w/m/manifest.json", "m", 1, NOON, "file", "", None, NOON, "file", "", None)
    assert standing_of(con, made) == (Standing.UNKNOWN, "a person marked the run or the attempt inconclusive")


def test_a_fault_that_is_read_later_locks_what_was_judged_before(writer: Writer) -> None:
    given = row("late", 8, NOON + HOUR)
    writer.commit([log("late", seen(NOON - HOUR))], compared=[given])
    con = writer.reader_cursor()
    sql = "SELECT label, admissibility FROM comparisons WHERE run_id = 'late'"
    assert con.execute(sql).fetchall() == [("PASS", "admissible")]
    before = con.execute("SELECT max(observed_at) FROM b_ingest").fetchall()[0][0]
    writer.commit([log("late", seen(NOON - HOUR, 11), fault("lock", 5), pid=11)])
    assert con.execute(sql).fetchall() == [("PASS", "locked")]
    con.execute("SET VARIABLE as_of = ?", [before])
    assert con.execute(sql).fetchall() == [("PASS", "admissible")]


def test_several_comparisons_of_one_pair_show_the_newest_alone(writer: Writer, tmp_path: Path) -> None:
    first = row("n", 1, NOON, task="t" * 16, reason="old")
    second = row("n", 1, NOON, task="t" * 16, reason="new")
    writer.commit([], compared=[first])
    writer.commit([], compared=[second])
    con = writer.reader_cursor()
    assert con.execute("SELECT reason FROM comparisons WHERE run_id = 'n'").fetchall() == [("new",)]


def test_a_store_made_again_from_its_snapshot_has_them_all(writer: Writer, tmp_path: Path) -> None:
    parts: list[ComparisonPart] = [
        ComparisonFileRow("s" * 16, "manifest", "/w/s/m.json", "f" * 64), ComparisonVersionRow("s" * 16, "7", 3, 1, 0.5),
        ComparisonSequenceRow("s" * 16, "r", 3, 1, strip=(0, 1), strip_valid=(2, 1)), ComparisonTokenRow("s" * 16, "r", 2, value_a=-0.0),
        TraceBoundaryRow("s" * 16, 0, "r", "b", "all", "differs", shape=(2, 3), first_index=(1, 0)),
    ]  # fmt: skip
    whole = row("s", 1, NOON, id="s" * 16, magnitude_powers=(-3, 1), magnitude_counts=(5, 1), remarks=("it's",))
    writer.commit(
        [],
        compared=[
            whole,
            *parts,
            ComparisonTaskRow("h", "/w/s", "q" * 16, "manifest", side_b="/w/s/b.pt", state="failed", why="x"),
        ],
    )
    publisher = Publisher(writer.reader_cursor, writer.layout, writer.changes)
    assert publisher.publish()
    again = tmp_path / "again.duckdb"
    restore.build(again, writer.layout.snapshot_dir, read_manifest(writer.layout.snapshot_dir), views=True)
    with duckdb.connect(str(again), read_only=True) as con:
        for view in (
            "comparisons",
            "comparison_sequences",
            "comparison_tokens",
            "comparison_versions",
            "trace_boundaries",
            "comparison_queue",
        ):
            sql = f"SELECT * FROM {view} ORDER BY ALL"
            found = con.execute(sql).fetchall()
            assert found == writer.reader_cursor().execute(sql).fetchall() and found, view
        gaps = con.execute("SELECT kind, detail FROM evidence_gaps WHERE starts_with(kind, 'comparison_')").fetchall()
        assert gaps == [("comparison_failed", "x; to be compared with /w/s/b.pt")]


def test_verdicts_as_exit_codes() -> None:
    def one(label: str | None, evidence: bool = False) -> dict[str, Any]:
        return {"step": 1, "side_a": "/a", "label": label, "reason": "r", "is_evidence": evidence}

    cases = [("PASS", None), ("FAIL", 10), ("INVALID", 11), ("VACUOUS", 11), (None, 12)]
    for label, code in cases:
        assert [int(found) for found, _ in _verdicts([one(label)])] == ([code] if code else [])
    assert [int(found) for found, _ in _verdicts([one(None), one("FAIL"), one("PASS"), one("FAIL")])] == [10, 12]
    assert _verdicts([one("FAIL"), one("FAIL")])[0][1] == "2 comparisons FAIL, the first of step 1: r"
    bare = {"attempt": 1, "evidence": 0, "records": 0, "locked": False, "marked": False, "marked_records": 0}
    assert [int(found) for found, _ in _no_evidence(bare, [one("PASS")])] == [15], "no comparison of it is evidence"
    assert _no_evidence(bare, [one("PASS", evidence=True)]) == []
