"""Where a dump stands towards the faults of its run, from a store written by the real writer; what follows is by hand.

Record and fault of `test_check` at offset n are n seconds after 12:00:00; the lock's margin is 2 s, its staleness 1 step.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.compare.ptfile import f32, mask, write
from tests.store.test_check import BEGAN, DIES, FAULTED, SECOND, WELL, end, fault, log, mark, record
from tic_daemon.cli import main
from tic_daemon.evidence.judge import Standing
from tic_daemon.scan.events import Mismatch
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.rows import SourceDelta, source_id
from tic_daemon.store.standing import standing
from tic_daemon.store.writer import Writer


@pytest.fixture(autouse=True)
def _base_schema_only() -> None:
    """Not here: the public views are what is asked."""


def _log(run: str, *events: Any, name: str = "", **changes: Any) -> SourceDelta:
    """A log of one run, with the records of `test_check` as that run's."""
    own = [dataclasses.replace(event, run=run) if isinstance(event, Mismatch) else event for event in events]
    return log(*own, name=name or f"{run}.log", run_hint=run, **changes)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store with a run for each story."""
    found = tmp_path_factory.mktemp("standing")
    cut = ((source_id("node7", "file", "/jobs/again.log"), 0, 1000),)
    second = dataclasses.replace(SECOND, run_id="again", cut=cut)
    writer = Writer.open(StoreLayout.find(found))
    writer.put_fault_rules(RuleSet.load().fault_rules())
    writer.commit(
        [
            _log("well", *WELL),
            _log("marked", *WELL),
            _log("faulted", *FAULTED),
            _log("stepless", *WELL, fault(100, None)),  # type: ignore[arg-type]
            _log("died", *WELL, end(60, 3), fault(100, 4, DIES, "Fatal Python error: Segmentation fault")),
            _log("unread", *WELL, read=400, bytes_size=4_000_000),
            _log("again", *FAULTED),
            _log("again", record(10, 9), end(20, 9), name="b.log"),
        ],
        marks=[dataclasses.replace(mark(1), run_id="marked")], attempts=[second], began_at=BEGAN, lag_us=0,
    )  # fmt: skip
    writer.close()
    return found


@pytest.fixture(scope="module")
def reader(store: Path) -> Iterator[Reader]:
    """Opened once: that takes longer than all questions."""
    found = open_reader(store)
    yield found
    found.close()


def ask(reader: Reader, run: str, step: int | None, after_s: float | None) -> tuple[Standing, str]:
    time = None if after_s is None else BEGAN.replace(tzinfo=UTC) + timedelta(seconds=after_s)
    return standing(reader, run, step, time)


@pytest.mark.parametrize(
    ("story", "step", "after_s", "expected", "words"),
    [
        ("well", 2, None, Standing.CLEAR, "no fault"),
        ("well", None, None, Standing.CLEAR, "no fault"),
        # The fault is of step 4 at 100 s.
        ("faulted", 2, None, Standing.CLEAR, "no fault"),
        ("faulted", 3, None, Standing.LOCKED, "order unknown"),
        ("faulted", 3, 97, Standing.SUSPECT, "by time alone"),
        ("faulted", 3, 99, Standing.LOCKED, "order unknown"),
        ("faulted", 2, 500, Standing.CLEAR, "no fault"),
        ("faulted", 5, 500, Standing.LOCKED, "after the fault"),
        ("faulted", None, None, Standing.LOCKED, "order unknown"),
        ("faulted", None, 50, Standing.SUSPECT, "by time alone"),
        # A death without a corrupted device voids the step in flight, and one step on each side.
        ("died", 2, None, Standing.CLEAR, "no fault"),
        ("died", 3, None, Standing.SUSPECT, "voids its step"),
        ("died", 6, None, Standing.SUSPECT, "voids its step"),
        ("died", 7, None, Standing.CLEAR, "no fault"),
        ("died", None, None, Standing.SUSPECT, "voids its step"),
        ("stepless", 2, None, Standing.LOCKED, "order unknown"),
        ("stepless", 2, 50, Standing.SUSPECT, "by time alone"),
        ("marked", 2, None, Standing.UNKNOWN, "marked"),
        ("unread", 2, None, Standing.UNKNOWN, "not read yet"),
    ],
)
def test_step_and_time(
    reader: Reader, story: str, step: int | None, after_s: float | None, expected: Standing, words: str
) -> None:
    found, why = ask(reader, story, step, after_s)
    assert found is expected and words in why, why


def test_a_run_that_no_store_knows(reader: Reader) -> None:
    found, why = ask(reader, "r2\x1b", 1, None)
    assert found is Standing.UNKNOWN and "no run r2\\x1b" in why


def test_a_fault_of_an_older_attempt_locks_no_later_one(reader: Reader) -> None:
    """The second attempt was declared without a time: a dump may be of either, whatever its own time is."""
    assert ask(reader, "again", 9, None)[0] is Standing.LOCKED
    assert ask(reader, "again", 2, None)[0] is Standing.CLEAR


def test_a_zone_is_understood(reader: Reader) -> None:
    early = datetime.fromisoformat("2026-11-29T17:31:00+05:30")
    assert standing(reader, "faulted", None, early)[0] is Standing.SUSPECT, "12:01:00 UTC, 40 s before the fault"
    late = datetime.fromisoformat("2026-11-29T13:01:00+00:00")
    assert standing(reader, "faulted", None, late)[0] is Standing.LOCKED


def test_the_command_asks_the_store(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [
        write(tmp_path / name, {"q": (f32(-1, value), mask(1, 1))}) for name, value in (("a.pt", -2), ("b.pt", -3))
    ]

    def said(step: int, at: str) -> tuple[int, str]:
        for place, path in enumerate(paths):
            receipt = {"host": "n", "pid": place, "produced_at": at, "command": "score"}
            told = {
                "run": "faulted",
                "step": step,
                "basis": "raw",
                "policy_version": 1,
                "input_sha256": "x",
                "producer": receipt,
            }
            path.with_name(path.name + ".meta.json").write_text(json.dumps(told))
        code = main(["compare", *map(str, paths), "--at", str(store), "--no-report"])
        return code, capsys.readouterr().out

    code, out = said(5, "2026-11-29T12:30:00Z")
    assert code == 13 and "INVALID: CUDA fault: after the fault" in out
    code, out = said(2, "2026-11-29T12:00:30Z")
    assert code == 12 and "no criterion" in out and "no CUDA fault stands before the numbers" in out
    code, out = said(4, "2026-11-29T12:00:30")
    assert code == 13 and "order unknown" in out, "a time without its zone is none"
