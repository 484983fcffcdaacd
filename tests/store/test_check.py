"""`check`: every code from a store written by the real writer, with what follows from the rules by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.store.opened import OpenedReader
from tic_daemon import cli
from tic_daemon.evidence.exit_codes import PRECEDENCE, WORDS, ExitCode, worst
from tic_daemon.scan.events import At, Event, Fault, Gap, Mismatch, ProcessSeen, StepEvent
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.check import check
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Connection, Reader, Result, open_reader
from tic_daemon.store.rows import AttemptRow, CursorRow, MarkRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

BEGAN = datetime(2026, 11, 29, 12, 0, 0)
LOCKS, DIES = "cuda.illegal_address", "proc.fatal_python"
HOSTILE = "no\x1b]0;owned\x07 good\nat \u202eall"


@pytest.fixture(autouse=True)
def _base_schema_only() -> None:
    """Not here: the public views are what is asked."""


def at(offset: int, **changes: Any) -> At:
    stamp = BEGAN + timedelta(seconds=offset)
    return At(offset, 10, offset // 10 + 1, stamp=stamp, stamp_res_us=1, stamp_utc=True, **changes)


def record(offset: int, step: int, **changes: Any) -> Mismatch:
    fields: dict[str, Any] = {
        "scope": "fixed-input",
        "intervention": "none",
        "value": 0.5,
        "value_text": "0.5",
        **changes,
    }
    return Mismatch(
        at(offset, step=step), run="r1", metric="logprob_mae", self_repeat=0.1, classification="unknown", **fields
    )


def fault(offset: int, step: int, kind: str = LOCKS, text: str = "CUDA error: an illegal memory access") -> Fault:
    return Fault(at(offset, step=step, pid=77, rank=3), kind, "confirmed", text=text)


def end(offset: int, step: int) -> StepEvent:
    return StepEvent(at(offset, step=step), "end", True, "step.verl")


def log(*events: Event, name: str = "a.log", read: int = 1000, **changes: Any) -> SourceDelta:
    values = {
        "kind": "file", "host": "node7", "root": "/jobs", "path": f"/jobs/{name}", "single_process": True, "run_hint": "r1",
        "run_how": "config", "stream": "stderr", "bytes_size": 1000, **changes,
    }  # fmt: skip
    row = SourceRow(source_id("node7", "file", values["path"]), **values)
    cursor = CursorRow(row.source_id, 0, byte_offset=read, path=row.path)
    return SourceDelta(row, cursor, (ProcessSeen(at(0)), *events), bytes=read, lines=20)


def mark(number: int, verdict: str = "inconclusive", scope: str = "run", **changes: Any) -> MarkRow:
    made = MarkRow(f"m{number}", "r1", None, scope, "", verdict, "looks odd", "ada", BEGAN, "node7")
    return dataclasses.replace(made, **changes)


def target(offset: int) -> str:
    return f"{source_id('node7', 'file', '/jobs/a.log')}:0:{offset}"


SECOND = AttemptRow(
    "a2", "r1", "now", None, "restarted", "ada", BEGAN, "node7", ((source_id("node7", "file", "/jobs/a.log"), 0, 1000),)
)
WELL = (record(10, 1), end(20, 1), record(30, 2), end(40, 2), record(50, 3))
FAULTED = (*WELL, end(60, 3), fault(100, 4))

Told = Callable[..., tuple[int, str]]


class Asked:
    """One store for all tests: what a test writes goes into runs, a host and a directory of its own, which its answer
    names as if it were alone."""

    def __init__(self, workspace: Path) -> None:
        self.writer = Writer.open(StoreLayout.find(workspace))
        self.writer.put_fault_rules(RuleSet.load().fault_rules())
        self.reader = OpenedReader(self.writer)
        self.number = 0

    def __call__(
        self, *ticks: list[SourceDelta], marks: Sequence[MarkRow] = (), attempts: Sequence[AttemptRow] = (), run: str = "r1"
    ) -> tuple[int, str]:  # fmt: skip
        """Writes one tick for each argument, and asks."""
        self.write(*ticks, marks=marks, attempts=attempts)
        code, lines = check(self.reader, f"{run}.{self.number}")
        assert all(line.isprintable() for line in lines), lines
        text = "\n".join(lines)
        return code, text.replace(f"/jobs/{self.number}/", "/jobs/").replace(f".{self.number}:", ":").replace(
            f"node7.{self.number},", "node7,"
        )

    def write(
        self, *ticks: list[SourceDelta], marks: Sequence[MarkRow] = (), attempts: Sequence[AttemptRow] = ()
    ) -> None:
        self.number += 1
        self.ids: dict[int, int] = {}
        told = [[self._own_log(delta) for delta in deltas] for deltas in ticks]
        for number, deltas in enumerate(told):
            self.writer.commit(
                deltas, marks=[self._own_mark(one) for one in marks] if number == len(told) - 1 else (),
                attempts=() if number else [self._own_attempt(one) for one in attempts], began_at=BEGAN, lag_us=0,
            )  # fmt: skip

    def _own_log(self, delta: SourceDelta) -> SourceDelta:
        row, here = delta.source, f"/jobs/{self.number}"
        path = row.path.replace("/jobs", here, 1) if row.path.startswith("/jobs/") else row.path
        own = dataclasses.replace(
            row, source_id=source_id("node7", "file", path), host=f"node7.{self.number}", root=here, path=path,
            run_hint=f"{row.run_hint}.{self.number}",
        )  # fmt: skip
        self.ids[row.source_id] = own.source_id
        events = tuple(
            dataclasses.replace(event, run=f"{event.run}.{self.number}") if isinstance(event, Mismatch) else event
            for event in delta.events
        )
        cursor = dataclasses.replace(delta.cursor, source_id=own.source_id, path=path)
        return dataclasses.replace(delta, source=own, cursor=cursor, events=events)

    def _own_mark(self, mark: MarkRow) -> MarkRow:
        place, colon, rest = mark.target.partition(":")
        target_ = f"{self.ids[int(place)]}:{rest}" if colon else mark.target and f"{mark.target}.{self.number}"
        return dataclasses.replace(
            mark, id=f"{mark.id}.{self.number}", run_id=f"{mark.run_id}.{self.number}", target=target_
        )

    def _own_attempt(self, attempt: AttemptRow) -> AttemptRow:
        cut = tuple((self.ids[place], generation, offset) for place, generation, offset in attempt.cut)
        return dataclasses.replace(
            attempt, id=f"{attempt.id}.{self.number}", run_id=f"{attempt.run_id}.{self.number}", cut=cut
        )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    asked = Asked(tmp_path_factory.mktemp("check"))
    yield asked
    asked.reader.close()
    asked.writer.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Writes ticks into a store of its own and lets go of it; the workspace."""

    def write(*ticks: list[SourceDelta], marks: Sequence[MarkRow] = ()) -> Path:
        with contextlib.closing(Writer.open(StoreLayout.find(tmp_path))) as writer:
            writer.put_fault_rules(RuleSet.load().fault_rules())
            for deltas in ticks:
                writer.commit(deltas, marks=marks, began_at=BEGAN, lag_us=0)
        return tmp_path

    return write


def test_evidence_and_nothing_against_it(told: Told) -> None:
    assert told([log(*WELL)]) == (
        0,
        "r1: well (exit code 0)\nattempt 1: 3 records: 3 evidence; 3 admissible, 0 suspect, 0 locked",
    )


def test_a_run_that_no_log_has_shown(alone: Callable[..., Path]) -> None:
    with contextlib.closing(open_reader(alone([log(*WELL)]))) as reader:
        code, lines = check(reader, "r2\x1b[2J")
    assert code == 15
    assert "\n".join(lines) == "r2\\x1b[2J: no evidence (exit code 15)\n15: no such run in this store; known: r1"


def test_no_record(told: Told) -> None:
    code, text = told([log(end(20, 1))])
    assert (code, "15: attempt 1 has no mismatch record" in text) == (15, True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scope": "free-run"}, "scope free-run"),
        ({"intervention": "forced routing"}, "intervention forced routing"),
    ],
)
def test_records_of_which_none_is_evidence(told: Told, changes: dict[str, Any], why: str) -> None:
    code, text = told([log(record(10, 1, **changes), record(20, 2, **changes))])
    assert code == 15
    assert "15: none of 2 records of attempt 1 is evidence" in text
    assert f"  2 not evidence: {why}" in text


def test_one_record_of_evidence_is_enough(told: Told) -> None:
    code, text = told([log(record(10, 1), record(20, 2, scope="free-run"))])
    assert code == 0
    assert "2 records: 1 evidence; 2 admissible" in text
    assert "  1 not evidence: scope free-run" in text


def test_only_suspect_records_without_a_lock(told: Told) -> None:
    """A process died in step 3: no corruption, and so no lock, but that step's numbers are nothing."""
    code, text = told([log(record(50, 3), fault(100, 3, DIES))])
    assert code == 15
    assert "1 record: 0 evidence; 0 admissible, 1 suspect, 0 locked" in text
    assert "not evidence: suspect: step voided by a fault" in text
    assert "locked by" not in text


def test_locked(told: Told) -> None:
    """Steps 1 to 3 end before a fault of step 4: they count, what follows does not."""
    code, text = told([log(*FAULTED, record(150, 5), record(200, 6))])
    assert code == 13
    lines = text.splitlines()
    assert lines[0] == "r1: locked by a fault (exit code 13)"
    assert lines[1] == "13: attempt 1 is locked by 1 fault"
    assert lines[2] == (
        "  first fault: cuda.illegal_address [L] at 2026-11-29 12:01:40Z, rank 3, pid 77, host node7, step 4, /jobs/a.log:11: "
        "CUDA error: an illegal memory access"
    )
    assert lines[3] == "  2 records after the fault, 0 of unknown order"
    assert lines[4] == "attempt 1: 5 records: 3 evidence; 3 admissible, 0 suspect, 2 locked"
    assert lines[5] == "  2 not evidence: locked: after the fault"


def test_what_would_show_the_order_is_said(told: Told) -> None:
    """Another process, no time and no step to compare: its record is not shown to be before the fault."""
    bare = Mismatch(At(10, 10, 2), run="r1", metric="logprob_mae", value=0.5, scope="fixed-input", intervention="none")
    code, text = told([log(*FAULTED), log(bare, name="b.log")])
    assert code == 13
    assert "  0 records after the fault, 1 of unknown order; to show the order, print a time stamp" in text


def test_a_first_fault_that_does_not_lock_is_not_taken_for_the_one_that_does(told: Told) -> None:
    code, text = told([log(record(10, 1), end(20, 1), end(30, 2), fault(50, 3, DIES, "died"), fault(100, 4))])
    assert code == 13
    assert "  first fault, it does not lock: proc.fatal_python [E]" in text
    assert "  a locking fault: cuda.illegal_address [L]" in text


def test_locked_without_a_single_record_is_no_evidence_first(told: Told) -> None:
    code, text = told([log(end(20, 1), fault(100, 4))])
    assert code == 15
    assert "13: attempt 1 is locked by 1 fault" in text


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([mark(1)], 12),
        ([mark(1, "note")], 0),
        ([mark(1), mark(2, "retract", target="m1")], 0),
        ([mark(1, scope="attempt", attempt=1)], 12),
        ([mark(1, scope="attempt", attempt=2)], 0),
        ([mark(1, scope="record", attempt=1, target=target(10))], 0),
        ([mark(n, scope="record", attempt=1, target=target(n)) for n in (10, 30, 50)], 12),
        ([mark(1, run_id="another")], 0),
    ],
    ids=[
        "run",
        "note",
        "retracted",
        "attempt",
        "other attempt",
        "one record",
        "all",
        "other run",
    ],
)
def test_marks(told: Told, marks: list[MarkRow], expected: int) -> None:
    code, text = told([log(*WELL)], marks=marks)
    assert code == expected, text
    assert ("12: " in text) == (expected == 12)


def test_a_mark_is_told_with_its_reason_and_harmless(told: Told) -> None:
    _, text = told([log(*WELL)], marks=[mark(1, reason=HOSTILE)])
    assert (
        "12: the run is marked inconclusive by ada at 2026-11-29 12:00:00Z: no\\x1b]0;owned\\x07 good\\nat \\u202eall"
        in text
    )


@pytest.mark.parametrize(("kind", "expected"), [("truncated", 14), ("vanished", 14), ("gzip_cut", 14), ("shrank", 0)])
def test_gaps(told: Told, kind: str, expected: int) -> None:
    code, text = told([log(*WELL, Gap(at(0), kind, 500, -1, "cut\x1b[2J"))])
    assert code == expected, text
    assert (f"14: {kind} /jobs/a.log from byte 500 to an unknown end: cut\\x1b[2J" in text) == (expected == 14)


def test_an_unreadable_log_is_a_gap(told: Told) -> None:
    unreadable = log(name="b.log", state="unreadable", error="Permission denied")
    code, text = told([log(*WELL), unreadable])
    assert (code, "14: unreadable /jobs/b.log: Permission denied" in text) == (14, True), text


def test_a_server_that_could_not_be_read_is_no_gap_of_the_run(told: Told) -> None:
    server = log(kind="wandb_api", path="e/p/r1", state="unreadable", error="no_account: No API key configured.")
    code, text = told([log(*WELL), server])
    assert (code, "14:" in text) == (0, False), text


def test_a_gap_of_another_run_is_not_this_ones(told: Told) -> None:
    assert told([log(*WELL), log(Gap(at(0), "truncated", 5, 9, ""), name="b.log", run_hint="other")])[0] == 0


def test_the_gravest_of_several_is_given_and_all_are_told(told: Told) -> None:
    gap = Gap(at(0), "truncated", 500, 700, "")
    code, text = told([log(*FAULTED, gap)], marks=[mark(1)])
    assert code == 13
    assert [line[:4] for line in text.splitlines() if line[:2].isdigit()] == ["13: ", "12: ", "14: "]


def test_mark_before_gap(told: Told) -> None:
    assert told([log(*WELL, Gap(at(0), "truncated", 500, 700, ""))], marks=[mark(1)])[0] == 12


# -- attempts


def test_a_new_attempt_with_evidence_of_its_own(told: Told) -> None:
    code, text = told([log(*FAULTED, record(150, 5))], [log(record(10, 1), name="b.log")], attempts=[SECOND])
    assert code == 0
    assert "attempt 2: 1 record: 1 evidence" in text
    assert "attempt 1, older and not counted: locked, 4 records, 3 evidence" in text
    assert "cuda.illegal_address" not in text


def test_a_new_attempt_in_which_nothing_was_measured(told: Told) -> None:
    """Evidence of the older attempt fills no place of the newer one."""
    code, text = told([log(*WELL)], [log(end(20, 1), name="b.log")], attempts=[SECOND])
    assert code == 15
    assert "15: attempt 2 has no mismatch record" in text
    assert "attempt 1, older and not counted: not locked, 3 records, 3 evidence" in text


def test_a_new_attempt_can_be_locked_too(told: Told) -> None:
    code, text = told([log(*WELL)], [log(*FAULTED, name="b.log")], attempts=[SECOND])
    assert code == 13
    assert "13: attempt 2 is locked by 1 fault" in text
    assert "/jobs/b.log:11" in text


@pytest.mark.parametrize(("attempt", "expected"), [(1, 0), (2, 12)])
def test_a_mark_lowers_its_own_attempt(told: Told, attempt: int, expected: int) -> None:
    marks = [mark(1, scope="attempt", attempt=attempt)]
    assert told([log(*WELL)], [log(record(10, 1), name="b.log")], attempts=[SECOND], marks=marks)[0] == expected


# -- logs that nobody has read


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bytes_size": 1000 + (1 << 20)}, 0),  # may be one line that is still being written
        ({"bytes_size": 1001 + (1 << 20)}, 15),
        ({"bytes_size": 1001 + (1 << 20), "name": "a.log.gz"}, 0),  # sizes of compressed bytes say nothing
        ({"bytes_size": 1001 + (1 << 20), "state": "vanished"}, 0),  # a gap tells what was lost
    ],
)
def test_a_daemon_that_is_behind(told: Told, changes: dict[str, Any], expected: int) -> None:
    code, text = told([log(*WELL, **changes)])
    assert code == expected, text
    assert ("1048577 bytes of 1 log are not read yet, the first in /jobs/a.log" in text) == (expected == 15)


@pytest.mark.parametrize(("size", "expected"), [(1000, 0), (1001, 15), (10, 0)])
def test_a_log_that_grew_after_the_daemon_ended(told: Told, tmp_path: Path, size: int, expected: int) -> None:
    path = tmp_path / "grown.log"
    path.write_bytes(b"x" * size)
    code, text = told([log(*WELL, path=str(path))])
    assert code == expected, text
    assert ("1 bytes of 1 log" in text) == (expected == 15)


# -- the command, and the list


def test_the_command_as_text_and_json(alone: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    workspace = alone([log(*FAULTED)], marks=[mark(1)])
    with contextlib.closing(open_reader(workspace)) as reader:
        code, lines = check(reader, "r1")
    assert code == 13
    assert cli.main(["check", "r1", "--at", str(workspace)]) == 13
    assert capsys.readouterr().out == "\n".join(lines) + "\n"
    assert cli.main(["check", "r1", "--at", str(workspace), "--json"]) == 13
    assert json.loads(capsys.readouterr().out) == {"run": "r1", "exit_code": 13, "findings": lines}


def test_worst_is_the_first_of_the_documented_order() -> None:
    order = [15, 13, 10, 11, 12, 14]
    assert list(PRECEDENCE) == order
    assert set(ExitCode) == set(WORDS) == {0, *order}
    for size in range(8):
        for codes in itertools.combinations([0, *order], size):
            assert worst(codes) == next((code for code in order if code in codes), 0)
    for unknown in (1, 2, 16, -1):
        with pytest.raises(ValueError, match=str(unknown)):
            worst([13, unknown])


class Partly:
    """A reader of a workspace of which a part does not answer, or answers from long ago."""

    def __init__(self, reader: Reader, missing: tuple[str, ...] = (), **connection: Any) -> None:
        self._reader, self._missing, self._connection = reader, missing, connection

    def query(self, *args: Any, **named: Any) -> Result:
        return dataclasses.replace(self._reader.query(*args, **named), missing=self._missing)

    def connection(self) -> Connection:
        return dataclasses.replace(self._reader.connection(), **self._connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def ago(seconds: float) -> datetime:
    return datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("missing", "connection", "code", "words"),
    [
        ((), {}, 0, ""),
        (("node-b-0123456789ab: no answer within 5 s",), {}, 15, "a store is missing: node-b-0123456789ab: no answer"),
        ((), {"kind": "snapshot", "detail": "port blocked", "data_at": 30.0}, 0, ""),
        ((), {"kind": "snapshot", "detail": "port blocked", "data_at": 90.0}, 15, "a snapshot is 9"),
        ((), {"kind": "snapshot", "detail": "", "data_at": 90.0}, 0, ""),  # its daemon ended well: that is all there is
    ],
    ids=["all there", "a store is missing", "a fresh snapshot", "an old snapshot", "the snapshot is all"],
)
def test_what_a_store_does_not_say_may_be_a_fault(
    told: Asked, missing: tuple[str, ...], connection: dict[str, Any], code: int, words: str
) -> None:
    told.write([log(*WELL)])
    if "data_at" in connection:
        connection = {**connection, "data_at": ago(connection["data_at"])}
    found, lines = check(Partly(told.reader, missing, **connection), f"r1.{told.number}")  # type: ignore[arg-type]
    assert found == code
    assert words in "\n".join(lines)
