"""Lifecycles that are asked by what is new are those that all lines give; and no number looks better for what waits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tic_daemon.scan.events import (
    At,
    Event,
    ExecState,
    Mismatch,
    ProcessSeen,
    SourceRun,
    StampAfter,
    StepEvent,
    WeightPhase,
)
from tic_daemon.store import migrate
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.lifecycles import Lifecycles
from tic_daemon.store.rows import AttemptRow, CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

NOON = datetime(2026, 11, 30, 12)
KEPT = ("finding_line", "finding", "finding_zone", "finding_span")
PHASES = (
    ("residency", "asleep", "1"), ("residency", "asleep", "2"), ("residency", "asleep", "unstated"), ("residency", "awake", ""),
    ("residency", "awake", "weights"), ("residency", "awake", "kv_cache"), ("residency", "reloaded", ""), ("residency", "reloading", "begun"),
    ("residency", "cold_load", ""), ("residency", "new_process", ""), ("version", "updated", ""), ("cache", "reset", ""),
    ("cache", "reset_refused", ""), ("graph", "captured", ""),
)  # fmt: skip


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))
        made = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("lives")))
        yield made
        made.close()


class Log:
    """A log that grows in ticks: of one engine, of several in a Ray console, or of a trainer."""

    def __init__(self, rng: random.Random, run: str, name: str) -> None:
        self.rng, self.name, self.run = rng, name, run
        self.kind = rng.choice(("engine", "engine", "console", "trainer"))
        self.zone_s = rng.choice((None, 0, 0, 3600))
        self.hint = rng.choice((run, run, ""))
        self.offset, self.generation, self.line = 0, 0, 0
        self.procs: set[str] = set()
        self.late: list[Event] = []  # a record is told when the lines behind it show that it is whole
        self.prime = rng.random() < 0.2

    @property
    def row(self) -> SourceRow:
        path = f"/{self.run}/{self.name}"
        return SourceRow(
            source_id("h", "file", path), "file", f"h-{self.run}", f"/{self.run}", path, run_hint=self.hint,
            run_how="config" if self.hint else "", zone_s=self.zone_s, console=self.kind == "console",
            single_process=self.kind == "engine",
        )  # fmt: skip

    def _events(self, offset: int) -> Iterator[Event]:
        rng = self.rng
        self.line += 1
        proc, pid = rng.choice((("", None), ("pid:1 a", 1), ("pid:2 b", 2))) if self.kind == "console" else ("", None)
        stamp = NOON + timedelta(seconds=10 * self.line + rng.randint(-2, 2)) if rng.random() < 0.6 else None
        step = self.line // 3 if rng.random() < 0.4 else None
        at = At(
            offset, 10, self.line, proc, pid, stamp=stamp, stamp_res_us=1_000_000, stamp_utc=rng.random() < 0.3, step=step,
            after_stamp=None if stamp else NOON + timedelta(seconds=10 * self.line - 10), after_utc=False,
        )  # fmt: skip
        if proc not in self.procs:
            self.procs.add(proc)
            yield ProcessSeen(at)
        what = rng.random()
        if self.kind == "trainer":
            if what < 0.4:
                yield StepEvent(
                    At(offset, 10, self.line, stamp=stamp, stamp_utc=True, step=self.line // 3), "end", False, "x"
                )
            elif what < 0.9:
                yield Mismatch(at, run=self.run if rng.random() < 0.2 else "", value=1.0)
            return
        engine = "sglang.x" if self.kind == "console" else "prime.x" if self.prime and what > 0.9 else "vllm.x"
        if what < 0.65:
            for phase in rng.sample(PHASES, rng.choice((1, 1, 1, 2))):  # several rules may read one line
                yield WeightPhase(at, "rollout", *phase, "", None, f"{engine}.{phase[1]}{phase[2]}")
        elif what < 0.75:
            yield ExecState(at, "rollout", "step_kind", None, "decode", engine)
        elif what < 0.8:
            yield ExecState(at, "rollout", "prefix_cache", None, rng.choice(("on", "off")), engine)
        elif what < 0.95:
            yield Mismatch(at, run="", value=1.0)
        else:
            yield StampAfter(at)

    def tick(self) -> SourceDelta:
        rng = self.rng
        if rng.random() < 0.04:
            self.generation, self.offset, self.procs, self.late = self.generation + 1, 0, set(), []
        if rng.random() < 0.04:
            self.zone_s = 0
        if rng.random() < 0.04:
            self.hint = self.run
        events, self.late = self.late, []
        for _ in range(rng.randint(0, 5)):
            told = list(self._events(self.offset))
            self.offset += 10
            if rng.random() < 0.06:
                self.late += told
            else:
                events += told
        if rng.random() < 0.02:
            events.append(SourceRun(At(self.offset, 10, self.line), self.run, "record"))
        tail = (
            tuple(e for e in self._events(self.offset) if not isinstance(e, ProcessSeen)) if rng.random() < 0.3 else ()
        )
        row = self.row
        cursor = CursorRow(row.source_id, self.generation, self.offset, path=row.path)
        return SourceDelta(row, cursor, tuple(events), tail)


def kept(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: con.execute(
            f"SELECT * EXCLUDE (row_hash, valid_from, valid_to) FROM d_{name} WHERE valid_to IS NULL ORDER BY ALL"
        ).fetchall()
        for name in KEPT
    }


def anew(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    """What all lines give, read at once; the store is left as it was."""
    mark = con.execute("SELECT getvariable('tic_life_mark')").fetchone()
    con.execute("BEGIN")
    life = Lifecycles()
    life.begin(con)
    for statement in life.statements:
        con.execute(statement.sql)
    found = {name: con.execute(f"FROM t_{name} ORDER BY ALL").fetchall() for name in KEPT}
    con.execute("ROLLBACK")
    con.execute(f"SET VARIABLE tic_life_mark = {mark[0] if mark else -1}")
    return found


def admissible(con: duckdb.DuckDBPyConnection, run: str) -> set[int]:
    sql = f"SELECT rec_id FROM mismatches WHERE path ^@ '/{run}/' AND admissibility = 'admissible'"
    return {row[0] for row in con.execute(sql).fetchall()}


def live_through(writer: Writer, rng: random.Random, ticks: int) -> dict[str, int]:
    """Ticks of a run of its own; what was seen of each kind."""
    con, run = writer._engine.con, f"r{rng.getrandbits(40):x}"
    logs = [Log(rng, run, f"{n}.log") for n in range(rng.randint(1, 3))]
    seen = {"findings": 0, "waited": 0, "provisional": 0}
    for number in range(ticks):
        attempts = []
        if rng.random() < 0.08:
            cut = tuple((log.row.source_id, log.generation, log.offset) for log in logs)
            attempts.append(AttemptRow(f"{run}-{number}", run, "now", None, "again", "ada", NOON, "h", cut))
        writer.commit([log.tick() for log in rng.sample(logs, rng.randint(1, len(logs)))], attempts=attempts)
        if rng.random() < 0.1:
            writer._derived.forget()  # as after a transaction that was rolled back
        before = admissible(con, run)
        seen["waited"] += writer._derived.waiting
        if rng.random() < 0.6 or number == ticks - 1:
            writer.settle_if_due(now=True)
            assert before <= admissible(con, run), "a number looked better while something waited"
            told = kept(con)
            assert told == anew(con)
            seen["findings"] += len(told["finding"])
        seen["provisional"] += con.execute("SELECT count(*) FROM cursor WHERE prov IS NOT NULL").fetchone() != (0,)
    return seen


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**9))
def test_ask_by_ask_equals_all_at_once(writer: Writer, seed: int) -> None:
    live_through(writer, random.Random(seed), 10)


@pytest.mark.slow
def test_ask_by_ask_equals_all_at_once_at_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))
    seen: Counter[str] = Counter()
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        fresh = Writer.open(StoreLayout.find(folder))
        seen.update(live_through(fresh, random.Random(seed), 40))
        fresh.close()
    assert seen["findings"] and seen["waited"] and seen["provisional"]


@pytest.mark.parametrize("cut", [3, 4])
def test_a_line_that_two_rules_read_is_one_update(writer: Writer, cut: int) -> None:
    """The use behind it comes after both, whether it is read with the line or later."""
    path = f"/two{cut}/e.log"
    row = SourceRow(
        source_id("h", "file", path), "file", "h", f"/two{cut}", path, run_hint=f"two{cut}", run_how="config"
    )
    reset = WeightPhase(At(0, 10, 1), "rollout", "cache", "reset", "", "", None, "x.reset")
    first = ExecState(At(10, 10, 2), "rollout", "step_kind", None, "decode", "x.use")
    updates = [
        WeightPhase(At(20, 10, 3), "rollout", "residency", phase, "", "", None, f"x.{phase}")
        for phase in ("reloaded", "updated")
    ]
    use = ExecState(At(30, 10, 4), "rollout", "step_kind", None, "decode", "x.use")
    events = (reset, first, *updates, use)
    for part in (events[: cut + 1], events[cut + 1 :]):
        cursor = CursorRow(row.source_id, 0, 10 * len(part), path=path)
        writer.commit([SourceDelta(row, cursor, part)] if part else [])
    sql = f"SELECT kind, byte_offset FROM lifecycle_findings WHERE path = '{path}'"
    assert writer._engine.con.execute(sql).fetchall() == [("update_without_reset", 20)]


def test_a_finding_reaches_an_attempt_that_all_its_processes_may_be_of(writer: Writer) -> None:
    """No process of the console tells a time, so that all their lines may be of an attempt that began at one."""
    path = "/both/console.log"
    row = SourceRow(
        source_id("h", "file", path), "file", "h", "/both", path, run_hint="both", run_how="config", console=True
    )

    def of(place: int, pid: int) -> At:
        return At(10 * place, 10, place + 1, f"pid:{pid} e", pid)

    events: tuple[Event, ...] = (
        *(ProcessSeen(of(pid - 1, pid)) for pid in (1, 2, 3)),
        WeightPhase(of(3, 1), "rollout", "cache", "reset", "", "", None, "x.reset"),
        ExecState(of(4, 1), "rollout", "step_kind", None, "decode", "x.use"),
        WeightPhase(of(5, 1), "rollout", "residency", "reloaded", "", "", None, "x.reloaded"),
        ExecState(of(6, 1), "rollout", "step_kind", None, "decode", "x.use"),
    )  # fmt: skip
    writer.commit([SourceDelta(row, CursorRow(row.source_id, 0, 70, path=path), events)])
    reached = "SELECT DISTINCT attempt FROM d_finding_zone WHERE run_id = 'both' AND valid_to IS NULL ORDER BY 1"
    con = writer._engine.con
    assert con.execute(reached).fetchall() == [(1,)]
    writer.commit([], attempts=[AttemptRow("both-2", "both", "time", NOON, "again", "ada", NOON, "h", ())])
    assert con.execute(reached).fetchall() == [(1,), (2,)]
    assert kept(con) == anew(con)
