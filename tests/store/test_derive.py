"""What is derived tick by tick is what a rebuild from the events gives; as-of sees what followed then."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.store.samples import source
from tic_daemon.scan.events import (
    At,
    Event,
    ExecState,
    Fault,
    Metric,
    Mismatch,
    ProcessSeen,
    SourceRun,
    StampAfter,
    StepEvent,
    WeightPhase,
)
from tic_daemon.store import derive, migrate
from tic_daemon.store.derive import DERIVE, Derived, load
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import AttemptRow, CursorRow, SourceDelta
from tic_daemon.store.statements import NOTHING, kept_prints, store_kept
from tic_daemon.store.writer import Writer

NOON = datetime(2026, 11, 29, 12)
RULES = (("locks", "L", "always"), ("asks", "S", "if_continues"), ("voids", "E", "never"))
KEPT = [s.name for path in sorted(DERIVE.glob("*.sql")) for s in load(path) if s.kept]
LATE = datetime(2100, 1, 1)


class Rule:
    def __init__(self, kind: str, severity: str, locks: str) -> None:
        self.kind, self.severity, self.locks = kind, severity, locks
        self.node_scope, self.title, self.pack, self.product = False, kind, "test", "test"


@pytest.fixture(autouse=True)
def _whole_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real schema: the fixture of this folder leaves the public views out."""
    monkeypatch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))


def live(con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    rows = con.execute(
        f"SELECT to_json(t) FROM (SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_{name} WHERE valid_to IS NULL) t"
    ).fetchall()
    return sorted(str(row[0]) for row in rows)


def fresh(path: Path, scratch: Path) -> dict[str, list[str]]:
    """The derived rows of a copy of the store whose derived tables were thrown away and made anew."""
    shutil.copy(path, scratch)
    with duckdb.connect(str(scratch)) as con:
        con.execute("DELETE FROM derived")
        Derived().rebuild(con, LATE)
        return {name: live(con, name) for name in KEPT}


class World:
    """Random sources, processes, faults and attempts, told in ticks."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.offsets = dict.fromkeys(("a.log", "b.log", "c.log"), 0)
        self.seen: set[tuple[str, str]] = set()
        self.generation = dict.fromkeys(self.offsets, 0)
        self.traits = {name: self._roll() for name in self.offsets}

    def _roll(self) -> dict[str, object]:
        rng = self.rng
        return {
            "single_process": rng.random() < 0.3, "zone_s": rng.choice((None, 0, 3600)), "stream": rng.choice(("", "stderr")),
        }  # fmt: skip

    def event(self, name: str) -> list[Event]:
        rng, offset = self.rng, self.offsets[name]
        self.offsets[name] += 10
        proc, pid = rng.choice((("", None), ("pid:1", 1), ("pid:2", 2)))
        stamp = NOON + timedelta(seconds=offset) if rng.random() < 0.5 else None
        step = offset // 20 if rng.random() < 0.6 else None
        at = At(
            offset, 10, offset // 10 + 1, proc, pid, stream=rng.choice(("", "stdout", "stderr")), stamp=stamp,
            stamp_res_us=1_000_000, stamp_utc=rng.random() < 0.7, step=step, step_carried=rng.random() < 0.3,
        )  # fmt: skip
        events: list[Event] = []
        if proc and (name, proc) not in self.seen:
            self.seen.add((name, proc))
            events.append(ProcessSeen(at))
        kind = rng.random()
        if kind < 0.25:
            events.append(Mismatch(at, run=rng.choice(("", "r", "s")), value=1.0))
        elif kind < 0.4:
            verdict = rng.choice(("confirmed", "suspect", "mention"))
            events.append(Fault(at, rng.choice(RULES)[0], verdict, text="t"))
        elif kind < 0.6:
            events.append(StepEvent(at, rng.choice(("begin", "end")), rng.random() < 0.5, "x"))
        elif kind < 0.7:
            events.append(Metric(at, "k", 1.0, "1"))
        elif kind < 0.73:
            events.append(SourceRun(at, rng.choice(("r", "s")), "record"))
        elif kind < 0.8:
            field = rng.choice(("graph_mode", "prefix_cache", "step_kind"))
            events.append(
                ExecState(at, rng.choice(("rollout", "trainer")), field, None, rng.choice(("FULL", "NONE")), "x")
            )
        elif kind < 0.85:
            events.append(WeightPhase(at, "rollout", "residency", rng.choice(("asleep", "awake")), "2", "", None, "x"))
        elif stamp is not None:
            events.append(StampAfter(at))
        return events

    def tick(self) -> list[SourceDelta]:
        rng = self.rng
        deltas = []
        for name in rng.sample(sorted(self.offsets), rng.randint(1, 3)):
            if rng.random() < 0.05:
                self.traits[name] = self._roll()
            if rng.random() < 0.05:
                self.generation[name] += 1
                self.offsets[name] = 0
                self.seen = {item for item in self.seen if item[0] != name}
            events = [event for _ in range(rng.randint(0, 3)) for event in self.event(name)]
            row = source(name, generation=self.generation[name], **self.traits[name])
            cursor = CursorRow(row.source_id, row.generation, byte_offset=self.offsets[name], path=row.path)
            tail = (
                (Fault(At(self.offsets[name], 5, 99), "locks", "confirmed", text="tail"),) if rng.random() < 0.2 else ()
            )
            deltas.append(SourceDelta(row, cursor, tuple(events), tail))
        return deltas

    def attempts(self) -> list[AttemptRow]:
        if self.rng.random() > 0.15:
            return []
        number = self.rng.getrandbits(40)
        cut = tuple((source(name).source_id, self.generation[name], offset) for name, offset in self.offsets.items())
        when = NOON + timedelta(seconds=number % 1000)
        return [AttemptRow(f"{number:x}", "r", "now", None, "because", "me", when, "node7", cut)]


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), ticks=st.integers(1, 12))
def test_tick_by_tick_equals_a_rebuild(tmp_path_factory: pytest.TempPathFactory, seed: int, ticks: int) -> None:
    root = tmp_path_factory.mktemp("derive")
    world = World(random.Random(seed))
    writer = Writer.open(StoreLayout.find(root))
    path = writer.layout.database
    writer.put_fault_rules([Rule(*rule) for rule in RULES])
    snapshots = []
    for number in range(ticks):
        writer.commit(world.tick(), attempts=world.attempts())
        if world.rng.random() < 0.2:  # a restart
            writer.close()
            writer = Writer.open(StoreLayout.find(root))
        if number == ticks // 2:
            writer.settle_if_due(now=True)
            con = writer.reader_cursor()
            told = con.execute("SELECT * FROM mismatches ORDER BY rec_id").fetchall()
            snapshots.append((writer._memory.observed_at, told))
            con.close()
    writer.close()
    with duckdb.connect(str(path), read_only=True) as con:
        kept = {name: live(con, name) for name in KEPT}
        provisional = con.execute("SELECT count(*) FROM cursor WHERE prov IS NOT NULL").fetchone()
        for moment, told in snapshots:
            con.execute(f"SET VARIABLE as_of = TIMESTAMP '{moment}'")
            then = con.execute("SELECT * FROM mismatches ORDER BY rec_id").fetchall()
            assert provisional is not None
            assert then == told, "as-of shows what the view said then"
    assert kept == fresh(path, root / "copy.duckdb")


def test_nothing_follows_from_nothing() -> None:
    """A store without events is not asked: its derived tables are what the statements give all the same."""
    statements = [s for path in sorted(DERIVE.glob("*.sql")) for s in load(path)]
    with duckdb.connect() as con:
        migrate.migrate(con, "s", "/w", "h", NOON)
        Derived(margin_s=3.5).rebuild(con, NOON)
        told = {s.name: con.execute(f"FROM t_{s.name}").fetchall() for s in statements}
        types = {s.name: con.execute(f"DESCRIBE t_{s.name}").fetchall() for s in statements}
        kept = {name: len(live(con, name)) for name in KEPT}
        for statement in statements:
            con.execute(statement.sql)
        assert told == {s.name: con.execute(f"FROM t_{s.name}").fetchall() for s in statements}
        assert types == {s.name: con.execute(f"DESCRIBE t_{s.name}").fetchall() for s in statements}
    assert told["lock_setting"] == [(3_500_000, 1)]
    assert kept == {name: len(told[name]) for name in KEPT}


def test_what_is_not_asked_for_want_of_rows_holds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each relation is empty without the rows that it is said to spring from, whatever else there is; and a new
    process in a store without faults asks nothing about faults."""
    asked: list[str] = []
    fill = derive._fill
    monkeypatch.setattr(
        derive, "_fill", lambda con, listed, *rest: (asked.extend(s.name for s in listed), fill(con, listed, *rest))
    )
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.put_fault_rules([Rule(*rule) for rule in RULES])
    asked.clear()
    row = source("a.log")
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 10), (ProcessSeen(At(0, 10, 1, "pid:1", 1)),))])
    assert {"place", "lock_", "stand"} <= set(asked) and not set(asked) & set(derive._SPRINGS)
    asked.clear()
    fault = Fault(At(10, 5, 2, "pid:1", 1), "locks", "confirmed", text="t")
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 20), (fault,))])
    assert {"fault", "threshold_", "attempt_fault", "witness"} <= set(asked)
    world = World(random.Random(7))
    with monkeypatch.context() as patch:
        patch.setattr(Derived, "after", lambda *_: None)  # their rows are what is wanted: what follows is asked below
        for _ in range(20):
            writer.commit(world.tick(), attempts=world.attempts())
    path = writer.layout.database
    writer.close()
    statements = [s for name in ("1_place.sql", "2_lock.sql") for s in load(DERIVE / name)]
    with duckdb.connect(str(path)) as con:
        for tables in set(derive._SPRINGS.values()):
            con.execute("BEGIN")
            for table in tables:
                con.execute(f"DELETE FROM {table}")
            for statement in statements:
                con.execute(statement.sql)
            names = [name for name, wants in derive._SPRINGS.items() if wants <= tables]
            held = {name: con.execute(f"SELECT count(*) FROM t_{name}").fetchone() for name in names}
            assert held == dict.fromkeys(names, (0,))
            con.execute("ROLLBACK")


def test_tables_of_another_program_version_are_made_anew() -> None:
    with duckdb.connect() as con:
        migrate.migrate(con, "s", "/w", "h", NOON)
        Derived().rebuild(con, NOON)
        con.execute("UPDATE derived SET print = 'older'")
        con.execute("CREATE TABLE d_older AS SELECT 1 AS a")
        con.execute("ALTER TABLE d_place ADD COLUMN older INTEGER")
        Derived().rebuild(con, NOON)
        names = {row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        columns = [row[0] for row in con.execute("DESCRIBE d_place").fetchall()]
    assert {f"d_{name}" for name in KEPT} <= names
    assert "d_older" not in names and "older" not in columns


def test_rows_that_change_are_closed_not_lost(tmp_path: Path) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    row = source("w.log", single_process=True, stream="stderr")
    record = Mismatch(At(0, 10, 1, step=1), run="r", scope="fixed-input", intervention="none", value=0.5)
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 10), (record,))])
    con = writer.reader_cursor()
    before = con.execute("SELECT max(observed_at) FROM mismatches").fetchone()
    fault = Fault(At(10, 10, 2), "a kind without a rule", "confirmed", text="boom")
    later = Mismatch(At(20, 10, 3, step=2), run="r", scope="fixed-input", intervention="none", value=0.5)
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 30), (fault, later))])
    told = "SELECT admissibility FROM mismatches ORDER BY byte_offset"
    assert con.execute(told).fetchall() == [("suspect",), ("locked",)]
    assert con.execute("SELECT locked FROM runs").fetchall() == [(True,)]
    con.execute(
        "SET VARIABLE as_of = ?::TIMESTAMP" if before is None else f"SET VARIABLE as_of = TIMESTAMP '{before[0]}'"
    )
    assert con.execute(told).fetchall() == [("admissible",)]
    assert con.execute("SELECT locked FROM runs").fetchall() == [(False,)]
    con.close()
    writer.close()


def test_a_new_process_leaves_the_rows_of_others_as_they_are(tmp_path: Path) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    for number in range(6):
        row = source(f"w{number}.log", single_process=True, pid=number + 1)
        at = At(0, 10, 1, f"pid:{number + 1}", number + 1)
        events = (ProcessSeen(at), SourceRun(at, "r", "record"), Mismatch(at, run="r", value=1.0))
        writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 10), events)])
    con = writer.reader_cursor()
    closed = "SELECT count(*) FILTER (valid_to IS NOT NULL), count(*) > 0 FROM"
    assert con.execute(f"{closed} d_place").fetchall() == [(0, True)]
    assert con.execute(f"{closed} d_stand").fetchall() == [(0, True)]
    con.close()
    writer.close()


@pytest.mark.parametrize("column", [0, 1, 2])
def test_two_rows_that_change_alike_are_stored(column: int) -> None:
    rows, later = [["pos", 1, "a"], ["time", 2, "a"]], [["pos", 1, "a"], ["time", 2, "a"]]
    for row in later:
        row[column] = ["step", 9, "b"][column]
    known: dict[str, tuple[int, int]] = {"x": NOTHING}
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t_x (axis VARCHAR, key BIGINT, ids VARCHAR)")
        con.execute(
            "CREATE TABLE d_x AS SELECT *, 0::UBIGINT AS row_hash, NOW()::TIMESTAMP AS valid_from, NULL::TIMESTAMP AS valid_to FROM t_x"
        )
        for put in (rows, later):
            con.execute("DELETE FROM t_x")
            con.executemany("INSERT INTO t_x VALUES (?, ?, ?)", put)
            assert store_kept(con, ["x"], known, NOON) == 1
            assert known == kept_prints(con, ["x"])
            assert con.execute("SELECT axis, key, ids FROM d_x WHERE valid_to IS NULL").fetchall() == [*map(tuple, put)]
        assert store_kept(con, ["x"], known, NOON) == 0


def test_a_rule_that_is_classed_anew_reaches_old_rows(tmp_path: Path) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.put_fault_rules([Rule("k", "I", "never")])
    row = source("w.log", single_process=True, stream="stderr")
    events = (Fault(At(0, 10, 1), "k", "confirmed"), Mismatch(At(10, 10, 2, step=2), run="r", value=0.5))
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 20), events)])
    con = writer.reader_cursor()
    assert con.execute("SELECT admissibility FROM mismatches").fetchall() == [("admissible",)]
    writer.put_fault_rules([Rule("k", "L", "always")])
    assert con.execute("SELECT admissibility FROM mismatches").fetchall() == [("locked",)]
    con.close()
    writer.close()


def test_rows_come_first_when_deriving_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer.open(StoreLayout.find(tmp_path))
    row = source("w.log", single_process=True, stream="stderr")

    def fails(*_: object, **__: object) -> None:
        writer._engine.con.execute("SELECT no_such_function()")

    with monkeypatch.context() as patch:
        patch.setattr(Derived, "after", fails)
        fault = Fault(At(0, 10, 1), "k", "confirmed")
        record = Mismatch(At(10, 10, 2, step=2), run="r", scope="fixed-input", intervention="none", value=0.5)
        writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 20), (fault, record))])
    con = writer.reader_cursor()
    told = "SELECT count(*), min(admissibility) FROM mismatches"
    assert con.execute(told).fetchall() == [(1, "locked")], (
        "not placed, but there is a fault: nothing shows it to be before"
    )
    assert not writer._derived.usable()
    writer._derived._retry_at = 0.0
    writer.settle_if_due(pressed=lambda: True)
    assert not writer._derived.usable(), "a line goes first"
    writer.settle_if_due()
    assert con.execute("SELECT reason FROM mismatches").fetchall() == [("after the fault",)]
    con.close()
    writer.close()


def test_a_store_that_nobody_writes_falls_silent(tmp_path: Path) -> None:
    """The views have no clock: the reader tells them the time, or an ended run would be moving for ever."""
    writer = Writer.open(StoreLayout.find(tmp_path))
    then = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    row = source("w.log", last_growth_at=then, state="growing")
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 10), (Mismatch(At(0, 10, 1), run="r", value=0.5),))])
    writer.close()
    reader = open_reader(tmp_path)
    told = "SELECT state FROM runs"
    assert reader.query(told).rows == [("silent",)]
    reader.close()
