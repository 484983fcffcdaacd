"""The state of a record's own process, kept tick by tick, against a plain reading of the same lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import source
from tic_daemon.scan.events import At, Event, ExecState, Mismatch, ProcessSeen, WeightPhase
from tic_daemon.store import migrate
from tic_daemon.store.derive import Derived
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, SourceDelta
from tic_daemon.store.writer import Writer

FIELDS = ("graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", "weight_phase")
Said = tuple[str, ...]
LINE = 7_001  # bytes: nine lines or so to a piece of a log


@pytest.fixture(autouse=True)
def _whole_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))


@dataclass
class Log:
    """Random lines; what its process said is remembered line by line.

    Attributes:
        shared: its lines are of two processes, each of which speaks for itself; else of one.
        open: by process, a record whose lines go on while others' come, with the state that it began in.
    """

    name: str
    rng: random.Random
    shared: bool
    size: int = 0
    now: dict[str, dict[str, str]] = field(default_factory=dict)
    open: dict[str, Mismatch] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def tick(self, wanted: dict[float, Said]) -> SourceDelta:
        rng = self.rng
        final = [event for _ in range(rng.randint(0, 8)) for event in self._line(wanted)]
        tail: list[Event] = list(self.open.values())
        if rng.random() < 0.3:  # a last line without its newline, that says something else when it is whole
            tail.append(ExecState(At(self.size, 5, 1, "pid:1", 1), "trainer", "graph_mode", None, "TORN", "x"))
        row = source(self.name, single_process=not self.shared, role="trainer")
        cursor = CursorRow(row.source_id, 0, byte_offset=self.size, path=row.path)
        return SourceDelta(row, cursor, tuple(final), tuple(tail))

    def _line(self, wanted: dict[float, Said]) -> list[Event]:
        rng, proc = self.rng, self.rng.choice(("pid:1", "pid:2") if self.shared else ("pid:1",))
        at = At(self.size, LINE, self.size // LINE + 1, proc, int(proc[4:]))
        self.size += LINE
        told: list[Event] = [] if proc in self.seen else [ProcessSeen(at)]
        self.seen.add(proc)
        state, kind = self.now.setdefault(proc, {}), rng.random()
        if kind < 0.4:
            name = rng.choice(FIELDS)
            state[name] = rng.choice(("one", "two"))
            told.append(
                WeightPhase(at, "trainer", "residency", state[name], "", "", None, "x")
                if name == "weight_phase"
                else ExecState(at, "trainer", name, None, state[name], "x")
            )
        elif kind < 0.5:
            told.append(ExecState(at, "trainer", "graph_mode", "claimed", None, "x"))
        elif kind < 0.9 or proc in self.open:
            if proc in self.open:
                told.append(self.open.pop(proc))
            told.append(self._record(at, state, wanted))
        else:
            self.open[proc] = self._record(at, state, wanted)
        return told

    def _record(self, at: At, state: dict[str, str], wanted: dict[float, Said]) -> Mismatch:
        value = float(len(wanted) + 1)
        wanted[value] = tuple(state.get(name, "unknown") for name in FIELDS)
        return Mismatch(at, run="r", value=value)


def fails(_: Derived, con: duckdb.DuckDBPyConnection, *__: object) -> None:
    con.execute("SELECT no_such_function()")


def said(con: duckdb.DuckDBPyConnection) -> dict[float, Said]:
    rows = con.execute(f"SELECT value, {', '.join(FIELDS)} FROM mismatches").fetchall()
    assert len({row[0] for row in rows}) == len(rows), "a record once"
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("seed", range(3))
def test_each_tick_says_what_its_lines_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Also of records that are open while others' lines go on, after restarts, and after ticks that were not derived."""
    rng = random.Random(seed)
    logs = [Log("one.log", rng, shared=False), Log("two.log", rng, shared=True)]
    wanted: dict[float, Said] = {}
    writer = Writer.open(StoreLayout.find(tmp_path))
    first = [log.tick(wanted) for log in logs]
    # Whose lines of a shared log are whose is known when both have come.
    both = tuple(ProcessSeen(At(0, 1, 1, proc, int(proc[4:]))) for proc in ("pid:1", "pid:2"))
    logs[1].seen |= {"pid:1", "pid:2"}
    writer.commit(
        [first[0], SourceDelta(first[1].source, first[1].cursor, (*both, *first[1].events), first[1].provisional)]
    )
    for number in range(16):
        left_out = number == 8
        with monkeypatch.context() as patch:
            if left_out:
                patch.setattr(Derived, "after", fails)
            writer.commit([log.tick(wanted) for log in rng.sample(logs, rng.randint(1, 2))])
        if left_out or rng.random() < 0.1:
            writer.close()
            writer = Writer.open(StoreLayout.find(tmp_path))
        if rng.random() < 0.3:
            writer.settle_if_due(now=True)
        if number % 3 == 0:
            con = writer.reader_cursor()
            assert said(con) == wanted
            con.close()
    con = writer.reader_cursor()
    kept = con.execute("SELECT count(*), max(to_off - from_off) FROM i_own_state").fetchone()
    con.close()
    writer.close()
    assert kept is not None
    assert 0 < kept[0] <= len(wanted)
    assert kept[1] <= 1 << 16


def test_a_process_that_turns_out_to_share_its_log_speaks_for_itself_from_its_first_line_on(tmp_path: Path) -> None:
    """Lines that were read as one process' are two's: what was kept of the first is read anew, and as-of shows it."""
    row = source("w.log", role="trainer")

    def at(line: int, proc: str) -> At:
        return At(line * 10, 10, line + 1, proc, int(proc[4:]) if proc else None)

    def delta(size: int, *events: Event) -> SourceDelta:
        return SourceDelta(row, CursorRow(row.source_id, 0, byte_offset=size, path=row.path), events)

    def state(line: int, proc: str, value: str) -> ExecState:
        return ExecState(at(line, proc), "trainer", "graph_mode", None, value, "x")

    writer = Writer.open(StoreLayout.find(tmp_path))
    first = at(0, "pid:1")
    writer.commit(
        [
            delta(
                30,
                ProcessSeen(first),
                state(0, "pid:1", "FULL"),
                state(1, "", "NONE"),
                Mismatch(at(2, "pid:1"), value=1.0),
            )
        ]
    )
    con = writer.reader_cursor()
    asked = "SELECT value, graph_mode FROM mismatches ORDER BY value"
    assert con.execute(asked).fetchall() == [(1.0, "NONE")]
    then = datetime.now(UTC).replace(tzinfo=None)
    second = at(3, "pid:2")
    writer.commit([delta(50, ProcessSeen(second), state(3, "pid:2", "PIECEWISE"), Mismatch(at(4, "pid:2"), value=2.0))])
    assert con.execute(asked).fetchall() == [(1.0, "FULL"), (2.0, "PIECEWISE")]
    con.execute("SET VARIABLE as_of = ?::TIMESTAMP", [then])
    assert con.execute(asked).fetchall() == [(1.0, "NONE")]
    con.close()
    writer.close()
