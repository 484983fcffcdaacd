"""Files that faults left, joined to their runs and faults; as the real daemon finds them, at other times, and united."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.harness import ask, once
from tests.evidence.store import Store
from tic_daemon.store import united
from tic_daemon.store.rows import source_id

RAY = "{run}/session_2026-11-29_10-00-00_000000_1/logs/worker-" + "ab" * 28 + "-01000000-{pid}.err"
IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
HOST = socket.gethostname()
NOON = datetime(2026, 6, 1, 12)
MIN = timedelta(minutes=1)


def log(root: Path, name: str, *lines: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def left(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes(60))
    os.utime(path, (1_700_000_000, 1_700_000_000))


def read(root: Path, sql: str) -> list[tuple[object, ...]]:
    return ask(once(root), sql)


JOINED = (
    "SELECT regexp_extract(v.path, '[^/]*$'), v.kind, v.pid, v.rank, f.pid, f.rank, v.run_id = f.run_id, v.why "
    "FROM fault_files v LEFT JOIN faults f ON f.rec_id = v.rec_id AND f.run_id = v.run_id ORDER BY v.path"
)


def test_by_process_and_by_rank(tmp_path: Path) -> None:
    for pid in (71, 72):
        log(tmp_path, RAY.format(run="r1", pid=pid), ":actor_name:WorkerDict", IMA)
    log(tmp_path, "r1/logs/rank_3.log", IMA)
    for name in (
        "core.72",
        f"core_1764417600_{HOST}_71.nvcudmp",
        "core_1764417600_elsewhere_71.nvcudmp",
        "nccl_trace_rank_3",
    ):
        left(tmp_path, f"r1/{name}")
    rows = {row[0]: row[1:] for row in read(tmp_path, JOINED)}
    assert rows["core.72"] == ("core", 72, None, 72, None, True, f"its name has pid 72, the fault's on {HOST}")
    assert rows[f"core_1764417600_{HOST}_71.nvcudmp"][:4] == ("cuda_core", 71, None, 71)
    assert rows["nccl_trace_rank_3"] == (
        "flight_recorder", None, 3, None, 3, True, "its name has rank 3, the fault's",
    )  # fmt: skip
    alone = rows["core_1764417600_elsewhere_71.nvcudmp"]
    assert alone[3:6] == (None, None, None) and alone[-1].startswith("no fault of its run")


def test_the_daemon_tells_each_once_and_when_it_is_gone(tmp_path: Path) -> None:
    log(tmp_path, "r1/logs/rank_3.log", "hello")
    left(tmp_path, "r1/core.9")
    os.close(os.open(os.fsencode(tmp_path) + b"/r1/core.a\xff\x1b[2J\n';--.88", os.O_CREAT | os.O_WRONLY, 0o600))
    said = "SELECT kind, pid, bytes_size, present FROM fault_files ORDER BY pid"
    stored = "SELECT count(*) FROM b_fault_file"
    assert read(tmp_path, said) == [("core", 9, 64, True), ("core", 88, 0, True)]
    assert read(tmp_path, stored) == [(2,)], "read again: nothing new"
    (tmp_path / "r1" / "core.9").unlink()
    assert read(tmp_path, said) == [("core", 9, 64, False), ("core", 88, 0, True)]
    assert read(tmp_path, stored) == [(3,)]


@pytest.fixture(scope="module")
def shared() -> Store:
    return Store()


class Case:
    """Runs with one log each, faults in them and files beside them. Minutes are after `NOON`."""

    def __init__(self, store: Store, *runs: str) -> None:
        self.store = store
        store.clear()
        store.rules()
        self.numbers = 0
        for run in runs:
            store.con.execute(
                "INSERT INTO source (source_id, kind, host, root, path, role, console, single_process, stream, run_hint,"
                " run_how, zone_s, state, generation, first_seen_at, observed_at)"
                " VALUES (?, 'file', 'h', '/w', ?, 'trainer', false, false, '', ?, 'path', 0, 'growing', 0, ?, ?)",
                [source_id("h", run, ""), f"/w/{run}/logs/all.log", run, NOON - 600 * MIN, NOON],
            )
            store.con.execute(
                "INSERT INTO cursor (source_id, generation, byte_offset, observed_at) VALUES (?, 0, 9999, ?)",
                [source_id("h", run, ""), NOON],
            )

    def fault(
        self, run: str, pid: int | None, rank: int | None, minute: float, kind: str = "lock", stamped: bool = True
    ) -> int:
        self.numbers += 1
        at = NOON + minute * MIN
        row = (
            self.numbers, "s", "h", source_id("h", run, ""), 0, self.numbers * 100, 50, self.numbers, None, f"p{pid}", pid, rank,
            "", "", at if stamped else None, 1, True, None, None, None, False, "", at, kind, "confirmed", f"boom {self.numbers}", "", "", "", "raw",
        )  # fmt: skip
        self.store.con.execute(f"INSERT INTO fault VALUES ({', '.join('?' * len(row))})", list(row))
        return self.numbers

    def file(
        self, path: str, minute: float, pid: int | None = None, rank: int | None = None, seen: float | None = None,
        size: int = 5, root: str = "/w", named_host: str = "", host: str = "h",
    ) -> None:  # fmt: skip
        at = NOON + minute * MIN
        observed = NOON + (minute if seen is None else seen) * MIN
        row = (host, root, path, "core", pid, rank, named_host, size, at, True, observed)
        self.store.con.execute(f"INSERT INTO fault_file VALUES ({', '.join('?' * len(row))})", list(row))

    def ask(self, sql: str, as_of: datetime | None = None) -> list[tuple[object, ...]]:
        con = self.store.con
        self.store.derived.rebuild(con, NOON - 600 * MIN)
        if as_of is not None:
            con.execute("SET VARIABLE as_of = ?::TIMESTAMP", [as_of])
        try:
            return con.execute(sql).fetchall()
        finally:
            con.execute("RESET VARIABLE as_of")

    def joined(self) -> dict[str, tuple[object, ...]]:
        rows = self.ask("SELECT path, run_id, rec_id, why FROM fault_files")
        return {str(row[0]): row[1:] for row in rows}


def test_by_time_within_ten_minutes_of_its_own_run(shared: Store) -> None:
    case = Case(shared, "one", "two")
    far, near, other = case.fault("one", 5, 0, 0), case.fault("one", 6, 1, 8), case.fault("two", 5, 0, 9)
    case.file("/w/one/core.1", 9, pid=1)
    case.file("/w/one/core", -3)
    case.file("/w/one/a/b/core.2", 18.5, pid=2)
    case.file("/w/two/core.3", 9.5, pid=3)
    case.file("/w/core.4", 9, pid=4)
    assert case.joined() == {
        "/w/one/core.1": (
            "one",
            near,
            "the nearest fault of its run in time, 60 s apart; it is of another process, pid 1",
        ),
        "/w/one/core": ("one", far, "the nearest fault of its run in time, 3 min apart"),
        "/w/one/a/b/core.2": ("one", None, "no fault of its run is of its process or rank, or within 10 min"),
        "/w/two/core.3": (
            "two",
            other,
            "the nearest fault of its run in time, 30 s apart; it is of another process, pid 3",
        ),
        "/w/core.4": (None, None, "no logs beside it tell its run"),
    }


def test_process_before_rank_before_time_and_what_acts_before_what_informs(shared: Store) -> None:
    case = Case(shared, "one", "two")
    mine, ranks = case.fault("one", 7, 2, 0), case.fault("one", 8, 3, 20)
    case.fault("one", 9, 4, 30)
    case.fault("one", 7, 2, 29.5, kind="info")
    case.fault("two", 7, 3, 30)
    case.file("/w/one/core.7", 30, pid=7)
    case.file("/w/one/nccl_trace_rank_3", 30, rank=3)
    case.file("/w/core.8", 21, pid=8)
    case.file("/w/core.8b", 21, pid=8, named_host="H.cluster.local")
    case.file("/w/core.8c", 21, pid=8, named_host="other")
    case.file("/w/one/late.7", 95, pid=7)
    found = case.joined()
    assert found["/w/one/core.7"] == ("one", mine, "its name has pid 7, the fault's on h")
    assert found["/w/one/nccl_trace_rank_3"] == ("one", ranks, "its name has rank 3, the fault's")
    assert found["/w/core.8"][:2] == found["/w/core.8b"][:2] == ("one", ranks), "the process tells the run"
    assert found["/w/core.8c"][:2] == (None, None), "the pid is of another machine"
    assert found["/w/one/late.7"][1] != mine, "an hour and a half later the pid may be another's"


def test_a_fault_without_a_time_is_joined_by_process_however_late_it_was_read(shared: Store) -> None:
    case = Case(shared, "one")
    fault = case.fault("one", 7, 2, 6000, stamped=False)
    case.file("/big/core.7", 0, pid=7, root="/big")
    case.file("/big/core.6", 0, pid=6, root="/big")
    assert {path: row[:2] for path, row in case.joined().items()} == {
        "/big/core.7": ("one", fault), "/big/core.6": ("one", None),
    }  # fmt: skip


def test_as_it_was_at_another_time(shared: Store) -> None:
    case = Case(shared, "one")
    fault = case.fault("one", 7, 2, 5)
    case.file("/w/one/core.7", 4, pid=7, seen=4, size=1)
    case.file("/w/one/core.7", 6, pid=7, seen=6, size=9)
    sql = "SELECT bytes_size, rec_id FROM fault_files"
    assert case.ask(sql) == [(9, fault)]
    assert case.ask(sql, NOON + 5.5 * MIN) == [(1, fault)]
    assert case.ask(sql, NOON + 4.5 * MIN) == [(1, None)]
    assert case.ask(sql, NOON + 3 * MIN) == []


def united_rows(case: Case, stores: Sequence[str]) -> list[tuple[object, ...]]:
    """The same rows as two stores would give them: the second saw the file, and was told of the fault by the first."""
    con = case.store.con
    plan = united.plan_for(["fault_files"])
    for part, reading in plan.read.items():
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE part_{part} AS SELECT *, '{stores[0]}' AS part_store FROM ({reading.sql})"
        )
    con.execute("UPDATE part_faults SET store_id = 's'")
    con.execute(
        f"INSERT INTO part_faults SELECT * REPLACE (rec_id + 500 AS rec_id, 't' AS store_id, 's' AS origin_store_id,"
        f" rec_id AS origin_rec_id, '{stores[1]}' AS part_store) FROM part_faults"
    )
    con.execute(
        f"INSERT INTO part_fault_files SELECT * REPLACE (rec_id + 500 AS rec_id, replace(store_id, 's', 't') AS store_id, 'g' AS host, 'g' AS seen_on,"
        f" '{stores[1]}' AS part_store) FROM part_fault_files"
    )
    (sql,) = [sql for name, sql in plan.make if name == "fault_files"]
    return con.execute(f"SELECT path, rec_id, store_id, run_id FROM ({sql}) ORDER BY path").fetchall()


def test_united_a_file_is_one_and_its_fault_is_called_as_its_own_store_does(shared: Store) -> None:
    case = Case(shared, "one")
    fault = case.fault("one", 7, 2, 5)
    case.file("/w/one/core.7", 4, pid=7)
    case.file("/w/one/core.8", 50, pid=8)
    case.ask("SELECT 1")
    expected = [("/w/one/core.7", fault, "s", "one"), ("/w/one/core.8", None, None, "one")]
    assert united_rows(case, ("a", "b")) == united_rows(case, ("b", "a")) == expected
