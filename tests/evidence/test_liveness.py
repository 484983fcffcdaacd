"""The verdict of `liveness` and its words, in one store and united, and where checkpoints belong."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.evidence.store import Store
from tic_daemon.store import united
from tic_daemon.store.rows import source_id

NOON = datetime(2026, 6, 1, 12)
MIN = timedelta(minutes=1)


@pytest.fixture(scope="module")
def shared() -> Store:
    return Store()


class Case:
    """One run of a worker, a rollout and a console log. Ages in minutes before `NOON`; None: there is no such log."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.clear()

    def logs(
        self, worker: float | None, console: float | None = None, rollout: float | None = None, run: str = "r"
    ) -> None:
        ages = (("trainer", worker, False), ("rollout", rollout, False), ("driver", console, True))
        for role, age, is_console in ages:
            if age is None:
                continue
            source = source_id("h", run, role)
            self.store.con.execute(
                "INSERT INTO source (source_id, kind, host, root, path, role, console, single_process, stream, run_hint,"
                " run_how, state, generation, last_growth_at, first_seen_at, observed_at)"
                " VALUES (?, 'file', 'h', '/w', ?, ?, ?, true, '', ?, 'path', 'growing', 0, ?, ?, ?)",
                [source, f"/w/{run}/logs/{role}.log", role, is_console, run, NOON - age * MIN, NOON - 600 * MIN, NOON],
            )
            self.store.con.execute(
                "INSERT INTO cursor (source_id, generation, byte_offset, observed_at) VALUES (?, 0, 9999, ?)",
                [source, NOON],
            )
        self.source = source_id("h", run, "trainer")

    def steps(self, *ages: float) -> None:
        """Steps 1, 2, ... that ended so many minutes before noon, and were read then."""
        for step, age in enumerate(ages, 1):
            at = NOON - age * MIN
            self.store.con.execute(
                "INSERT INTO step_event (rec_id, store_id, host, source_id, generation, byte_offset, byte_length, line_no,"
                " proc, stream, step, step_carried, edge, gpu, rule, observed_at)"
                " VALUES (?, 's', 'h', ?, 0, ?, 10, ?, '', '', ?, false, 'end', true, 't', ?)",
                [step, self.source, step * 10, step, step, at],
            )

    def checkpoint(self, path: str, age: float, observed: float | None = None, **over: object) -> None:
        at = NOON - age * MIN
        row = {
            "host": "h", "root": "/w", "path": path, "step": 7, "layout": "step", "bytes_size": 5, "files": 1,
            "modified_at": at, "complete": True, "present": True, "why": "",
            "observed_at": at if observed is None else NOON - observed * MIN, **over,
        }  # fmt: skip
        self.store.con.execute(f"INSERT INTO checkpoint VALUES ({', '.join('?' * len(row))})", list(row.values()))

    def ask(self, sql: str, *, as_of: datetime | None = None) -> list[tuple[object, ...]]:
        con = self.store.con
        self.store.derived.rebuild(con, NOON - 600 * MIN)
        con.execute("SET VARIABLE now = ?::TIMESTAMP", [as_of or NOON])
        if as_of is not None:
            con.execute("SET VARIABLE as_of = ?::TIMESTAMP", [as_of])
        try:
            return con.execute(sql).fetchall()
        finally:
            con.execute("RESET VARIABLE as_of")

    def verdict(self) -> tuple[str, str]:
        ((verdict, why),) = self.ask("SELECT verdict, why FROM liveness")
        # The union judges the same: of one store it says the same.
        con = self.store.con
        plan = united.plan_for(["liveness"])
        con.execute("SET VARIABLE now = ?::TIMESTAMP", [NOON])
        for part, reading in plan.read.items():
            con.execute(f"CREATE OR REPLACE TEMP TABLE part_{part} AS SELECT *, 's' AS part_store FROM ({reading.sql})")
        for name, sql in plan.make:
            con.execute(f"CREATE OR REPLACE TEMP TABLE united_{name} AS {sql}")
        assert con.execute("SELECT verdict, why FROM united_liveness").fetchall() == [(verdict, why)]
        return str(verdict), str(why)


USUAL = (60, 57, 54, 51)


@pytest.mark.parametrize(
    ("logs", "steps", "verdict", "why"),
    [
        ((0.1, 0.2, 0.1), (9, 6, 3, 0.2), "moving", "the worker log moved 6 s ago"),
        ((0.1, 0.2, 30), (9, 6, 3, 0.2), "moving",
         "the worker log moved 6 s ago; rollout logs have been silent for 30 min, as those of an engine without requests are"),
        ((0.1, 20, None), (), "console only silent",
         "the worker log moved 6 s ago, the console has been silent for 20 min: a console is a forwarded copy"),
        ((0.1, 0.1, None), (*USUAL, 40), "quiet", "logs move, no step has ended for 40 min, usual 3 min"),
        ((0.1, None, None), (5,), "moving", "the worker log moved 6 s ago"),
        # 6 min are over 5 min, but not over five usual steps.
        ((0.1, None, None), (12, 9, 6), "moving", "the worker log moved 6 s ago"),
        ((5, 5, None), (), "quiet", "nothing has moved for 5 min, the worker log last"),
        ((40, 40, None), (), "silent everywhere", "nothing has moved for 40 min, the worker log last"),
        # A step takes half an hour here: 40 minutes of silence are not unusual.
        ((40, None, None), (131, 101, 71, 41), "quiet",
         "nothing has moved for 40 min, the worker log last; a step usually takes 30 min"),
        ((None, 0.1, None), (), "moving", "the console moved 6 s ago"),
    ],
)  # fmt: skip
def test_verdict(
    shared: Store, logs: tuple[float | None, ...], steps: tuple[float, ...], verdict: str, why: str
) -> None:
    case = Case(shared)
    case.logs(*logs)
    case.steps(*steps)
    found, words = case.verdict()
    assert (found, words) == (verdict, why)
    assert "hung" not in words and "hang" not in words


def test_a_checkpoint_that_is_written_is_movement(shared: Store) -> None:
    case = Case(shared)
    case.logs(20, 20)
    case.checkpoint("/w/r/ckpt/step_7", 0.5)
    assert case.verdict()[0] == "console only silent"
    assert case.ask("SELECT moved_last, checkpoint_at FROM liveness") == [("checkpoint", NOON - 0.5 * MIN)]


def test_a_checkpoint_is_of_the_nearest_logs_run(shared: Store) -> None:
    case = Case(shared)
    case.logs(1, run="one")
    case.logs(1, run="two")
    case.checkpoint("/w/one/ckpt/step_7", 30)
    case.checkpoint("/w/two/step_7", 30)
    case.checkpoint("/w/ckpt/step_7", 30)
    rows = case.ask("SELECT path, run_id, attempt FROM checkpoints ORDER BY path")
    assert rows == [("/w/ckpt/step_7", None, 1), ("/w/one/ckpt/step_7", "one", 1), ("/w/two/step_7", "two", 1)]


def test_a_checkpoint_under_a_root_of_its_own_is_of_the_only_run(shared: Store) -> None:
    case = Case(shared)
    case.logs(1)
    case.checkpoint("/big/ckpt/step_7", 30, root="/big")
    assert case.ask("SELECT run_id, step FROM checkpoints") == [("r", 7)]


def test_as_of_shows_a_checkpoint_as_it_was(shared: Store) -> None:
    case = Case(shared)
    case.logs(1)
    case.checkpoint("/w/r/step_7", 30, complete=False)
    case.checkpoint("/w/r/step_7", 20)
    case.checkpoint("/w/r/step_7", 20, observed=10, present=False, complete=False)
    look = "SELECT modified_at, complete, present FROM checkpoints"
    assert case.ask(look) == [(NOON - 20 * MIN, False, False)]
    assert case.ask(look, as_of=NOON - 25 * MIN) == [(NOON - 30 * MIN, False, True)]
    assert case.ask(look, as_of=NOON - 15 * MIN) == [(NOON - 20 * MIN, True, True)]
    assert case.ask(look, as_of=NOON - 40 * MIN) == []
