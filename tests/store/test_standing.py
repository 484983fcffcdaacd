"""Where a dump stands towards the faults of its run, from a store written by the real writer; what follows is by hand.

Record and fault of `test_check` at offset n are n seconds after 12:00:00; the lock's margin is 2 s, its staleness 1 step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.compare.ptfile import f32, mask, write
from tests.store.test_check import BEGAN, DIES, FAULTED, SECOND, WELL, empty, end, fault, log, record  # noqa: F401
from tic_daemon.cli import main
from tic_daemon.evidence.judge import Standing
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.standing import standing
from tic_daemon.store.writer import Writer


@pytest.fixture(autouse=True)
def _base_schema_only() -> None:
    """Not here: the public views are what is asked."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> dict[str, Path]:  # noqa: F811
    """One store a story, each written once."""
    stories: dict[str, dict[str, Any]] = {
        "well": {"deltas": [log(*WELL)]},
        "faulted": {"deltas": [log(*FAULTED)]},
        "stepless": {"deltas": [log(*WELL, fault(100, None))]},  # type: ignore[arg-type]
        "died": {"deltas": [log(*WELL, end(60, 3), fault(100, 4, DIES, "Fatal Python error: Segmentation fault"))]},
        "unread": {"deltas": [log(*WELL, read=400, bytes_size=4_000_000)]},
        "again": {"deltas": [log(*FAULTED), log(record(10, 9), end(20, 9), name="b.log")], "attempts": [SECOND]},
    }  # fmt: skip
    found = {}
    for name, story in stories.items():
        found[name] = tmp_path_factory.mktemp(name)
        shutil.copytree(empty / ".tic", found[name] / ".tic")
        writer = Writer.open(StoreLayout.find(found[name]))
        writer.commit(story["deltas"], marks=(), attempts=story.get("attempts", ()), began_at=BEGAN, lag_us=0)
        writer.close()
    return found


@pytest.fixture(scope="module")
def readers(stores: dict[str, Path]) -> Iterator[dict[str, Reader]]:
    """One reader a store; opening one takes longer than all questions."""
    with ExitStack() as stack:
        found = {name: open_reader(place) for name, place in stores.items()}
        for reader in found.values():
            stack.callback(reader.close)
        yield found


def ask(reader: Reader, step: int | None, after_s: float | None, run: str = "r1") -> tuple[Standing, str]:
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
        ("unread", 2, None, Standing.UNKNOWN, "not read yet"),
    ],
)
def test_step_and_time(
    readers: dict[str, Reader], story: str, step: int | None, after_s: float | None, expected: Standing, words: str
) -> None:
    found, why = ask(readers[story], step, after_s)
    assert found is expected and words in why, why


def test_a_run_that_no_store_knows(readers: dict[str, Reader]) -> None:
    found, why = ask(readers["well"], 1, None, run="r2\x1b")
    assert found is Standing.UNKNOWN and "no run r2\\x1b" in why


def test_a_fault_of_an_older_attempt_locks_no_later_one(readers: dict[str, Reader]) -> None:
    """The second attempt was declared without a time: a dump may be of either, whatever its own time is."""
    assert ask(readers["again"], 9, None)[0] is Standing.LOCKED
    assert ask(readers["again"], 2, None)[0] is Standing.CLEAR


def test_a_zone_is_understood(readers: dict[str, Reader]) -> None:
    early = datetime.fromisoformat("2026-11-29T17:31:00+05:30")
    assert standing(readers["faulted"], "r1", None, early)[0] is Standing.SUSPECT, "12:01:00 UTC, 40 s before the fault"
    late = datetime.fromisoformat("2026-11-29T13:01:00+00:00")
    assert standing(readers["faulted"], "r1", None, late)[0] is Standing.LOCKED


def test_the_command_asks_the_store(
    stores: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [
        write(tmp_path / name, {"q": (f32(-1, value), mask(1, 1))}) for name, value in (("a.pt", -2), ("b.pt", -3))
    ]

    def said(step: int, at: str) -> tuple[int, str]:
        for place, path in enumerate(paths):
            receipt = {"host": "n", "pid": place, "produced_at": at, "command": "score"}
            told = {
                "run": "r1",
                "step": step,
                "basis": "raw",
                "policy_version": 1,
                "input_sha256": "x",
                "producer": receipt,
            }
            path.with_name(path.name + ".meta.json").write_text(json.dumps(told))
        code = main(["compare", *map(str, paths), "--at", str(stores["faulted"]), "--no-report"])
        return code, capsys.readouterr().out

    code, out = said(5, "2026-11-29T12:30:00Z")
    assert code == 13 and "INVALID: CUDA fault: after the fault" in out
    code, out = said(2, "2026-11-29T12:00:30Z")
    assert code == 12 and "no criterion" in out and "no CUDA fault stands before the numbers" in out
    code, out = said(4, "2026-11-29T12:00:30")
    assert code == 13 and "order unknown" in out, "a time without its zone is none"
