"""The execution state beside a record: of its own process, else of the rollout's processes by time, else unknown and why."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tic_daemon.scan.events import At, Event, ExecState, Mismatch, ProcessSeen, SourceRun, WeightPhase
from tic_daemon.store import migrate
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

NINE = datetime(2026, 11, 29, 9)
COLUMNS = "graph_mode, prefix_cache, weight_phase, state_source, state_note"
SAID = tuple[object, ...]
BY_TIME: dict[float, str] = {}  # of the last `told`: which values of each record are from another log


@pytest.fixture(autouse=True)
def _whole_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))


class Log:
    """Lines of one log, ten bytes each; `at` is in seconds after nine, in UTC."""

    def __init__(self, name: str, host: str = "node7", **traits: object) -> None:
        self.name, self.host, self.traits = name, host, traits
        self.events: list[Event] = []
        self._lines = 0
        self._seen: set[str] = set()

    def _at(self, who: str, at: float | None, actor: str) -> At:
        offset = self._lines * 10
        self._lines += 1
        place = At(
            offset, 10, self._lines, f"pid:{who}" if who else "", int(who) if who else None, actor=actor,
            stamp=None if at is None else NINE + timedelta(seconds=at), stamp_res_us=1, stamp_utc=at is not None,
        )  # fmt: skip
        if who and who not in self._seen:
            self._seen.add(who)
            self.events.append(ProcessSeen(place))
        if offset == 0:
            self.events.append(SourceRun(place, "r", "record"))
        return place

    def state(self, who: str, value: str, at: float | None = None, field: str = "graph_mode", actor: str = "") -> None:
        self.events.append(ExecState(self._at(who, at, actor), "rollout", field, None, value, "x"))

    def claim(self, who: str, value: str, at: float | None = None) -> None:
        self.events.append(ExecState(self._at(who, at, ""), "rollout", "graph_mode", value, None, "x"))

    def weights(self, who: str, phase: str, at: float | None = None, actor: str = "") -> None:
        self.events.append(WeightPhase(self._at(who, at, actor), "rollout", "residency", phase, "", "", None, "x"))

    def line(self, who: str, actor: str = "") -> None:
        self._at(who, None, actor)

    def record(self, who: str, value: float, at: float | None = None, actor: str = "") -> None:
        self.events.append(Mismatch(self._at(who, at, actor), run="r", metric="logprob_mae", value=value))

    def delta(self) -> SourceDelta:
        path = f"/jobs/{self.name}"
        key = source_id(self.host, "file", path)
        row = SourceRow(key, kind="file", host=self.host, root="/jobs", path=path, **self.traits)  # type: ignore[arg-type]
        return SourceDelta(row, CursorRow(key, 0, byte_offset=self._lines * 10, path=path), tuple(self.events))


def told(tmp_path: Path, *logs: Log) -> dict[float, SAID]:
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.commit([log.delta() for log in logs])
    writer.settle_if_due(now=True)
    con = writer.reader_cursor()
    rows = con.execute(f"SELECT value, state_by_time, {COLUMNS} FROM mismatches").fetchall()
    con.close()
    writer.close()
    assert len({row[0] for row in rows}) == len(rows), "a record once"
    assert all((row[1] != "") == (row[5] == "by time") for row in rows)
    BY_TIME.clear()
    BY_TIME.update({row[0]: row[1] for row in rows})
    return {row[0]: row[2:] for row in rows}


NOTHING = ("unknown", "unknown", "unknown", "", "")


def test_two_writers_in_one_file_have_each_its_own(tmp_path: Path) -> None:
    log = Log("both.log")
    log.state("1", "FULL")
    log.state("2", "NONE")
    log.weights("1", "asleep")
    log.record("1", 1.0)
    log.record("2", 2.0)
    log.state("1", "PIECEWISE")
    log.record("2", 3.0)
    log.record("1", 4.0)
    log.record("", 5.0)  # nobody's
    got = told(tmp_path, log)
    assert got[1.0] == ("FULL", "unknown", "asleep", "own log", "")
    assert got[2.0] == got[3.0] == ("NONE", "unknown", "unknown", "own log", "")
    assert got[4.0] == ("PIECEWISE", "unknown", "asleep", "own log", "")
    assert got[5.0] == NOTHING


def test_in_a_file_of_one_process_lines_that_name_none_are_its(tmp_path: Path) -> None:
    log = Log("one.log")
    log.record("", 1.0)
    log.state("1", "FULL")
    log.record("", 2.0)
    log.state("", "NONE")
    log.record("1", 3.0)
    got = told(tmp_path, log)
    assert got[1.0] == NOTHING
    assert got[2.0][0] == "FULL" and got[3.0][0] == "NONE"


def test_the_processes_of_one_server_speak_for_each_other(tmp_path: Path) -> None:
    log = Log("server.log")
    log.line("3", "Worker_TP0")
    log.line("4", "Worker_TP1")
    log.state("1", "NONE", actor="EngineCore")
    log.weights("1", "asleep", actor="EngineCore")
    log.weights("2", "awake", actor="APIServer")
    log.record("3", 1.0, actor="Worker_TP0")
    log.record("4", 2.0, actor="Worker_TP1")
    log.record("", 3.0)
    got = told(tmp_path, log)
    assert set(got.values()) == {("NONE", "unknown", "awake", "own log", "")}


def test_two_servers_in_one_file_do_not(tmp_path: Path) -> None:
    log = Log("servers.log")
    log.weights("1", "asleep", actor="EngineCore")
    log.weights("2", "awake", actor="EngineCore")
    log.record("1", 1.0, actor="EngineCore")
    log.record("2", 2.0, actor="EngineCore")
    log.record("3", 3.0, actor="APIServer")
    log.record("", 4.0)
    got = told(tmp_path, log)
    assert [got[n][2] for n in (1.0, 2.0, 3.0, 4.0)] == ["asleep", "awake", "unknown", "unknown"]


def test_a_trainer_beside_a_server_is_not_of_it(tmp_path: Path) -> None:
    log = Log("mixed.log")
    log.state("1", "FULL", actor="EngineCore")
    log.record("9", 1.0, actor="TaskRunner")
    assert told(tmp_path, log)[1.0] == NOTHING


def test_a_claim_is_no_state_and_an_override_is(tmp_path: Path) -> None:
    log = Log("one.log")
    log.claim("1", "FULL_AND_PIECEWISE", at=0)
    log.record("1", 1.0, at=1)
    log.state("1", "FULL_DECODE_ONLY", at=2)
    log.claim("1", "FULL", at=3)
    log.record("1", 2.0, at=4)
    got = told(tmp_path, log)
    assert got[1.0] == NOTHING and got[2.0][0] == "FULL_DECODE_ONLY"


def test_by_time_from_another_log_of_the_host(tmp_path: Path) -> None:
    engine, trainer = Log("engine.log"), Log("trainer.log")
    engine.state("1", "FULL", at=10)
    engine.state("1", "NONE", at=20)
    for number, at in ((1.0, 9.9), (2.0, 10.5), (3.0, 19.5), (4.0, 20.5)):
        trainer.record("9", number, at=at)
    trainer.record("9", 5.0)
    got = told(tmp_path, engine, trainer)
    assert got[1.0] == NOTHING
    assert got[2.0] == got[3.0] == ("FULL", "unknown", "unknown", "by time", "")
    assert got[4.0] == ("NONE", "unknown", "unknown", "by time", "")
    assert got[5.0] == (*NOTHING[:4], "others told of their state, and the time of this record is not known")


def test_between_hosts_a_change_within_two_seconds_is_unknown(tmp_path: Path) -> None:
    engine, trainer = Log("engine.log", host="node1"), Log("trainer.log", host="node2")
    engine.state("1", "FULL", at=10)
    engine.state("1", "NONE", at=20)
    for number, at in ((1.0, 11.9), (2.0, 12.1), (3.0, 17.9), (4.0, 18.1), (5.0, 21.9), (6.0, 22.1)):
        trainer.record("9", number, at=at)
    got = told(tmp_path, engine, trainer)
    assert [got[float(n)][0] for n in range(1, 7)] == ["unknown", "FULL", "FULL", "unknown", "unknown", "NONE"]
    assert {got[float(n)][4] for n in (1, 4, 5)} == {
        "graph_mode: it changed too near in time for the clocks of two hosts"
    }
    assert {got[float(n)][4] for n in (2, 3, 6)} == {""}


def test_processes_that_differ_are_named_and_never_merged(tmp_path: Path) -> None:
    one, two, trainer = Log("e1.log"), Log("e2.log"), Log("trainer.log")
    one.state("1", "FULL", at=10)
    two.state("2", "NONE", at=20)
    two.state("2", "FULL", at=30)
    two.weights("2", "asleep", at=31)
    for number, at in ((1.0, 15), (2.0, 25), (3.0, 35)):
        trainer.record("9", number, at=at)
    two.record("2", 4.0, at=25)  # its own log comes first, in the order of its bytes
    got = told(tmp_path, one, two, trainer)
    assert got[1.0] == ("FULL", "unknown", "unknown", "by time", "")
    assert got[2.0] == (*NOTHING[:4], "graph_mode: 2 rollout processes differ: FULL, NONE")
    assert got[3.0] == ("FULL", "unknown", "asleep", "by time", "")
    assert got[4.0] == ("FULL", "unknown", "asleep", "own log", "")
    assert BY_TIME == {1.0: "graph_mode", 2.0: "", 3.0: "graph_mode, weight_phase", 4.0: ""}


def test_an_hour_whose_zone_is_unknown_says_nothing(tmp_path: Path) -> None:
    engine, trainer = Log("engine.log"), Log("trainer.log")
    engine.state("1", "FULL", at=10)
    event = engine.events[-1]
    assert isinstance(event, ExecState)
    engine.events[-1] = ExecState(
        At(0, 10, 1, "pid:1", 1, stamp=NINE, stamp_res_us=1, stamp_utc=False),
        "rollout",
        "graph_mode",
        None,
        "FULL",
        "x",
    )
    trainer.record("9", 1.0, at=15)
    assert told(tmp_path, engine, trainer)[1.0] == NOTHING


def test_another_run_and_a_trainer_say_nothing(tmp_path: Path) -> None:
    other, trainer = Log("other.log"), Log("trainer.log")
    other.state("1", "FULL", at=10)
    other.events = [e if not isinstance(e, SourceRun) else SourceRun(e.at, "another", "record") for e in other.events]
    trainer.record("9", 1.0, at=15)
    assert told(tmp_path, other, trainer)[1.0] == NOTHING


def test_a_value_that_changes_all_the_time_does_not_make_the_table_large(tmp_path: Path) -> None:
    engine, trainer = Log("engine.log"), Log("trainer.log")
    for second in range(5000):
        engine.state("1", "FULL" if second % 2 else "NONE", at=second)
    engine.state("1", "PIECEWISE", at=5000)
    trainer.record("9", 1.0, at=2500.5)
    trainer.record("9", 2.0, at=9000)
    got = told(tmp_path, engine, trainer)
    assert got[1.0] == (*NOTHING[:4], "graph_mode: it changes too often")
    assert got[2.0] == ("PIECEWISE", "unknown", "unknown", "by time", "")
    writer = Writer.open(StoreLayout.find(tmp_path))
    con = writer.reader_cursor()
    kept = con.execute("SELECT count(*) FROM i_in_force").fetchone()
    con.close()
    writer.close()
    assert kept is not None and kept[0] <= 1002


def test_a_state_of_long_ago_is_known_from_the_first_record_on(tmp_path: Path) -> None:
    """What a log says of itself is asked once a record is of it, also where that comes long after, and after a restart."""
    engine, other = Log("engine.log", single_process=True), Log("other.log", single_process=True)
    engine.state("", "graph")
    other.state("", "eager")
    writer = Writer.open(StoreLayout.find(tmp_path))
    writer.commit([engine.delta(), other.delta()])
    writer.settle_if_due(now=True)
    said = "SELECT value, graph_mode FROM mismatches ORDER BY value"
    con = writer.reader_cursor()
    engine.events.clear()
    other.events.clear()
    engine.record("", 1.0)
    writer.commit([engine.delta()])
    assert con.execute(said).fetchall() == [(1.0, "graph")]
    con.close()
    writer.close()
    writer = Writer.open(StoreLayout.find(tmp_path))
    con = writer.reader_cursor()
    assert con.execute(said).fetchall() == [(1.0, "graph")]
    other.record("", 2.0)
    writer.commit([other.delta()])
    assert con.execute(said).fetchall() == [(1.0, "graph"), (2.0, "eager")]
    con.close()
    writer.close()
