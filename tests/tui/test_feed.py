"""The feed: it listens in long polls, asks only what is new, and goes on whatever the reader does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tui.fake import FakeStore
from tic_daemon.store.fingerprint import fingerprint
from tic_tui import feed as feeding
from tic_tui.feed import Feed, wanted
from tic_tui.filters import Filter
from tic_tui.messages import FaultsFetched, LinkChanged, MismatchesFetched, QueryFailed, RunFetched, RunsFetched
from tic_tui.model import FIRST, Demand


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.01)


@contextmanager
def feeding_from(store: FakeStore, demand: Demand) -> Iterator[tuple[Feed, list[Any]]]:
    posted: list[Any] = []
    feed = Feed("x", posted.append, store.open)  # type: ignore[arg-type]  # a test's Result is like the reader's
    feed.show(demand)
    feed.start()
    try:
        yield feed, posted
    finally:
        feed.stop()
    until(lambda: not {"tic-feed", "tic-listener"} & {thread.name for thread in threading.enumerate()})


def quiet(store: FakeStore, seconds: float = 0.4) -> None:
    """Waits until nothing was asked for so long."""
    asked = -1
    while asked != len(store.asked):
        asked = len(store.asked)
        time.sleep(seconds)


def of(posted: list[Any], kind: type[Any]) -> list[Any]:
    return [message for message in posted if type(message) is kind]


def test_a_quiet_store_is_asked_nothing_and_a_record_goes_into_the_window_without_a_query_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeding, "RECHECK_S", ())
    store = FakeStore()
    store.demo()
    with feeding_from(store, Demand("run", "grpo-tiny-a")) as (_, posted):
        until(lambda: of(posted, RunFetched))
        quiet(store)
        store.asked.clear()
        before = len(posted)
        time.sleep(0.8)
        assert store.asked == [] and len(posted) == before
        store.mismatch(500, "grpo-tiny-a", step=30)
        until(lambda: of(posted, RunFetched)[-1].view.window.rows[-1].rec_id == 500)
        assert not any(sql.startswith("SELECT rec_id, run_id, attempt, step") for sql in store.asked)
        view = of(posted, RunFetched)[-1].view
        assert (view.run.mismatches, view.newest_evidence.rec_id, view.window.rows[-1].step) == (41, 500, 30)


def test_a_change_of_standing_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "RECHECK_S", ())
    store = FakeStore()
    store.demo()
    with feeding_from(store, Demand("mismatches", "grpo-tiny-a")) as (_, posted):
        until(lambda: of(posted, MismatchesFetched))
        quiet(store)
        store.write("UPDATE mismatches SET admissibility = 'locked', is_evidence = false WHERE rec_id = 100")
        until(lambda: of(posted, MismatchesFetched)[-1].view.window.rows[0].admissibility == "locked")


def test_filters_faults_and_runs_are_answered_each_by_its_message() -> None:
    store = FakeStore()
    store.demo()
    evidence = (Filter("is_evidence", "is", "yes"), Filter("step", ">=", "5"), Filter("host", "is", "no", on=False))
    demand = Demand("mismatches", "grpo-tiny-a", filters=evidence, choices="admissibility")
    with feeding_from(store, demand) as (feed, posted):
        until(lambda: of(posted, MismatchesFetched) and of(posted, MismatchesFetched)[-1].view.search.complete)
        view = of(posted, MismatchesFetched)[-1].view
        assert [r.rec_id for r in view.window.rows] == list(range(110, 125))
        assert (view.matching, view.total, view.demand) == (15, 40, demand)
        assert view.choices == {"admissibility": (("admissible", 25), ("locked", 11), ("suspect", 4))}
        store.mismatch(600, "grpo-tiny-a", step=4)
        store.mismatch(601, "grpo-tiny-a", step=40)
        until(lambda: of(posted, MismatchesFetched)[-1].view.matching == 16)
        assert [r.rec_id for r in of(posted, MismatchesFetched)[-1].view.window.rows][-2:] == [124, 601]
        feed.show(Demand("faults", "grpo-tiny-a"))
        until(lambda: of(posted, FaultsFetched))
        faults = of(posted, FaultsFetched)[-1].view
        assert faults.first.rec_id == 9001 and faults.total == 2 and [f.rec_id for f in faults.cascade] == [9001]
        assert {str(kind): n for kind, n in faults.kinds} == {
            "cuda_illegal_memory_access": 1,
            "nccl_watchdog_timeout": 1,
        }
        feed.show(Demand("faults", "no such run"))
        until(lambda: of(posted, FaultsFetched)[-1].view is None)
        feed.show(Demand())
        until(lambda: of(posted, RunsFetched))
        assert [r.mismatches for r in of(posted, RunsFetched)[-1].view.runs] == [42, 12, 0]


def test_an_attempt_that_begins_while_its_runs_faults_are_shown_is_the_one_shown() -> None:
    store = FakeStore()
    store.run("r")
    with feeding_from(store, Demand("faults", "r")) as (_, posted):
        until(lambda: of(posted, FaultsFetched))
        view = of(posted, FaultsFetched)[-1].view
        assert (view.attempt, view.attempts, view.first) == (1, (1,), None)
        store.fault(9001, "r")
        store.write("UPDATE faults SET attempt = 2, last_attempt = 2")
        store.write("UPDATE runs SET attempt = 2, locked = true, first_fault_rec_id = 9001")
        until(lambda: of(posted, FaultsFetched)[-1].view.attempt == 2)
        view = of(posted, FaultsFetched)[-1].view
        assert view.first is not None and view.first.rec_id == 9001 and view.total == 1


def test_a_query_that_fails_is_said_and_tried_again() -> None:
    store = FakeStore()
    store.demo()
    store.write("ALTER TABLE metrics RENAME TO away")
    with feeding_from(store, Demand()) as (_, posted):
        until(lambda: of(posted, QueryFailed))
        assert [m.link.state for m in of(posted, LinkChanged)] == ["connected"]
        with store.lock:
            store.db.execute("ALTER TABLE away RENAME TO metrics")
        until(lambda: of(posted, RunsFetched))


def test_a_reader_that_is_lost_is_opened_again_and_all_is_read_anew() -> None:
    store = FakeStore()
    store.demo()
    with feeding_from(store, Demand()) as (_, posted):
        until(lambda: of(posted, RunsFetched))
        store.up = False
        store.grow()
        until(lambda: of(posted, LinkChanged)[-1].link.state == "disconnected")
        store.up = True
        store.run("later")
        until(lambda: any(r.run_id == "later" for r in of(posted, RunsFetched)[-1].view.runs))
        assert of(posted, LinkChanged)[-1].link.state == "connected"


def test_a_dead_store_is_tried_less_and_less_often_and_stopping_does_not_wait() -> None:
    store, posted = FakeStore(), list[Any]()
    store.up = False
    feed = Feed("x", posted.append, store.open)  # type: ignore[arg-type]
    feed.start()
    until(lambda: store.opened >= 2)
    waits = [m.link.retry_s for m in posted if isinstance(m, LinkChanged)]
    assert waits == [1, 2] and all("\x1b" not in m.link.detail for m in posted)
    began = time.monotonic()
    feed.stop()
    assert time.monotonic() - began < 1.8 and not feed._thread.is_alive()


def test_as_many_rows_are_wanted_as_a_window_that_follows_shows() -> None:
    assert wanted(Demand("run", "r", rows=50)) > 2 * 50
    for other in (
        Demand("run", "r", anchor=FIRST), Demand("runs"), Demand("faults", "r"),
        Demand("mismatches", "r", filters=(Filter("step", "is", "1"),)),
    ):  # fmt: skip
        assert wanted(other) < wanted(Demand("run", "r"))
    assert wanted(Demand("mismatches", filters=(Filter("step", "is", "1", on=False),))) == wanted(Demand("run", "r"))


def workspace(tmp_path: Path) -> Path:
    store = tmp_path / ".tic" / "host-0123456789ab"
    store.mkdir(parents=True)
    (store / "tic.duckdb").write_bytes(b"x")
    return tmp_path


def test_a_heartbeat_is_no_change_and_a_spool_line_is_one(tmp_path: Path) -> None:
    target = workspace(tmp_path)
    owner = target / ".tic" / "host-0123456789ab" / "owner.json"
    owner.write_text("{}")
    before = fingerprint(str(target))
    assert len(before) == 2
    owner.write_text('{"beat": 2}')
    assert fingerprint(str(target)) == before
    spool = target / ".tic" / "spool"
    spool.mkdir()
    (spool / "h-1-a.jsonl").write_text("{}\n")
    after = fingerprint(str(target))
    assert after != before
    assert {Path(p).name for p, *_ in fingerprint(str(target / ".tic" / "host-0123456789ab" / "tic.duckdb"))} == {
        "tic.duckdb", "owner.json", "h-1-a.jsonl",
    }  # fmt: skip


def test_targets_without_files_have_an_empty_fingerprint(tmp_path: Path) -> None:
    assert fingerprint("http://127.0.0.1:1/") == fingerprint(str(tmp_path / "none")) == fingerprint("a\0b") == ()
