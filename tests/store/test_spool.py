"""The spool: one line a mark, whoever writes it and however it is torn or forged."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.harness import wait_until
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import AttemptRow, MarkRow
from tic_daemon.store.spool import LINE_BYTES, PatientSpool, Spool, SpoolError, SpoolReader, overlay, parse_line


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout.find(tmp_path)


GOOD = {
    "id": "a1", "kind": "mark", "run_id": "r", "attempt": None, "scope": "run", "target": "", "verdict": "note",
    "reason": "why", "who": "me", "marked_at": "2026-11-29T12:00:00", "host": "h",
}  # fmt: skip


def test_what_was_written_is_read(layout: StoreLayout) -> None:
    spool = Spool.at(layout.state_dir.parent, who="ann")
    mark = spool.mark("run-1", reason="'); DROP TABLE mark; --\n\x1b[31m", scope="record", target="77:0:1234")
    shanghai = datetime(2026, 11, 29, 8, 0, tzinfo=timezone(timedelta(hours=8)))
    attempt = spool.attempt("run-1", reason="restarted", from_kind="time", from_time=shanghai, cut=[(2**63 - 1, 3, 9)])
    assert attempt.from_time == datetime(2026, 11, 29, 0, 0)
    reader = SpoolReader(layout)
    pending = reader.pending()
    assert (pending.marks, pending.attempts) == ((mark,), (attempt,))
    assert mark.who == "ann" and abs(datetime.now(UTC).replace(tzinfo=None) - mark.marked_at) < timedelta(minutes=1)
    assert reader.pending(), "not taken yet"
    reader.taken(pending)
    assert not reader.pending()
    later = spool.mark("run-1", reason="again")
    assert reader.pending().marks == (later,)
    assert SpoolReader(layout).pending().marks == (mark, later), "a new daemon sees all of them again"
    assert spool.path.stat().st_mode & 0o777 == 0o600
    assert spool.path.parent.stat().st_mode & 0o777 == 0o700


def test_rows_of_the_ledger_are_laid_over_nothing(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tic_daemon.store.spool.OVERLAY_BYTES", 1000)
    spool = Spool.at(layout.directory)
    for number in range(20):
        spool.declare("case", body=json.dumps({"name": f"c{number}", "parts": {"fix": "x"}}, separators=(",", ":")))
    assert overlay(layout.spool_dir) is None
    mark = spool.mark("r", reason="why")
    assert [row["id"] for row in json.loads(overlay(layout.spool_dir) or "")] == [mark.id]
    pending = SpoolReader(layout).pending()
    assert (len(pending.ledger), pending.marks) == (20, (mark,))
    for _ in range(5):
        spool.mark("r", reason="why")
    with pytest.raises(SpoolError, match="holds over"):
        overlay(layout.spool_dir)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"reason": " \n"}, "reason is required"),
        ({"reason": "x" * 4001}, "reason is longer"),
        ({"verdict": "pass"}, "verdict"),
        ({"scope": "world"}, "scope"),
        ({"scope": "record", "target": "1:2"}, "target of a record"),
        ({"scope": "attempt"}, "attempt's number"),
        ({"run_id": ""}, "run is not named"),
        ({"reason": "\udc80"}, "surrogate"),
    ],
)
def test_what_is_not_accepted_is_not_written(layout: StoreLayout, changes: dict[str, str], complaint: str) -> None:
    spool = Spool.at(layout.directory)
    with pytest.raises(SpoolError, match=complaint):
        spool.mark(
            changes.get("run_id", "r"), **{"reason": "why", **{k: v for k, v in changes.items() if k != "run_id"}}
        )
    assert not spool.path.exists()
    assert isinstance(parse_line(json.dumps({**GOOD, **changes}).encode()), str), "nor read, if someone else writes it"


def test_a_place_without_workspace_or_permission(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="in no workspace"):
        Spool.at(tmp_path)
    with pytest.raises(SpoolError, match="in no workspace"):
        Spool.at("http://127.0.0.1:1/")
    (tmp_path / ".tic").mkdir()
    (tmp_path / ".tic" / "spool").write_text("a file is in the way")
    with pytest.raises(SpoolError, match="cannot write"):
        Spool.at(tmp_path).mark("r", reason="why")


def test_a_torn_last_line_waits_for_its_end(layout: StoreLayout) -> None:
    layout.spool_dir.mkdir()
    path = layout.spool_dir / "other-1-x.jsonl"
    line = json.dumps(GOOD).encode() + b"\n"
    reader = SpoolReader(layout)
    for cut in range(0, len(line), 7):
        path.write_bytes(line + line[:cut])
        assert len(reader.pending().marks) == 1
        assert json.loads(overlay(layout.spool_dir) or "[]")[0]["id"] == "a1"
    reader.taken(reader.pending())
    path.write_bytes(line + line[:20])
    assert not reader.pending()
    path.write_bytes(line + line.replace(b"a1", b"a2"))
    assert [mark.id for mark in reader.pending().marks] == ["a2"]


def test_bad_lines_are_left_out_and_counted(layout: StoreLayout) -> None:
    layout.spool_dir.mkdir()
    lines = [
        b"\xff\xfe\x00", b"[]", b"null", b'{"kind": "mark"}', b"[" * 100_000, b"x" * (LINE_BYTES + 100),
        json.dumps({**GOOD, "marked_at": "soon"}).encode(), json.dumps({**GOOD, "attempt": 2**70}).encode(),
        json.dumps({**GOOD, "attempt": True}).encode(), json.dumps({**GOOD, "id": ["a"]}).encode(),
        json.dumps({**GOOD, "kind": "drop"}).encode(), json.dumps(GOOD).encode(),
    ]  # fmt: skip
    (layout.spool_dir / "h-1-a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (layout.spool_dir / "notes.txt").write_text("not a spool file")
    (layout.spool_dir / "h-2-b.jsonl").symlink_to("/etc/passwd")
    reader = SpoolReader(layout)
    assert [mark.id for mark in reader.pending().marks] == ["a1"]
    assert reader.rejected == len(lines) - 1
    assert len(json.loads(overlay(layout.spool_dir) or "[]")) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys([*GOOD, "cut", "from_kind", "from_time", "declared_at"], json_values)
        | {"kind": st.sampled_from(["mark", "attempt"])},
    ).map(lambda value: json.dumps({**GOOD, **value}).encode())
)
def test_no_line_is_worse_than_a_complaint(line: bytes) -> None:
    row = parse_line(line)
    if isinstance(row, MarkRow):
        assert row.reason.strip() and row.verdict in ("inconclusive", "note", "retract")
    elif isinstance(row, AttemptRow):
        assert row.reason.strip() and all(len(piece) == 3 for piece in row.cut)
    else:
        assert row


def test_readers_of_the_live_store_see_a_mark_at_once_and_never_hang_with_the_spool(layout: StoreLayout) -> None:
    hang = threading.Event()
    reader = SpoolReader(layout)
    look = reader.peek

    def peek() -> list[MarkRow | AttemptRow]:
        hang.wait(30)
        return look()

    reader.peek = peek  # type: ignore[method-assign]
    hang.set()
    patient = PatientSpool(reader, patience_s=0.2)
    assert patient.waiting() is None
    mark = Spool.at(layout.state_dir.parent).mark("run-1", reason="wrong tokenizer")
    told = patient.waiting()
    assert [(row["id"], row["kind"]) for row in json.loads(told or "[]")] == [(mark.id, "mark")], "at once"
    hang.clear()  # the file system does not answer
    Spool.at(layout.state_dir.parent).mark("run-2", reason="not seen yet")
    assert patient.waiting() == told, "what was known last"
    hang.set()
    patient.pending()
    found = patient.pending()
    patient.taken(found)
    wait_until(lambda: patient.waiting() is None, 10, lambda: "the store has all of them")


def test_cuts_of_one_declaration_by_several_daemons_are_laid_over_together(layout: StoreLayout) -> None:
    """Each daemon of a requeued job cuts its own logs under one id; a log without a cut would count as begun afterwards."""
    line = {
        "kind": "attempt", "id": "job-1", "run_id": "r", "from_kind": "scheduler", "from_time": None, "reason": "requeued",
        "who": "slurm", "declared_at": "2026-11-29T12:00:00", "host": "h",
    }  # fmt: skip
    layout.spool_dir.mkdir()
    cuts = {"node-a": [[1, 0, 100]], "node-b": [[2, 0, 200]], "node-c": [[1, 0, 999], [3, 1, 300]]}
    for node, cut in cuts.items():
        (layout.spool_dir / f"{node}-1-x.jsonl").write_text(json.dumps({**line, "cut": cut}) + "\n")
    (told,) = json.loads(overlay(layout.spool_dir) or "[]")
    assert told["id"] == "job-1"
    assert sorted(told["cut"]) == [[1, 0, 100], [2, 0, 200], [3, 1, 300]], "of a log that two name, the first counts"
