"""Several stores as one, of fakes: order, what is missing and said to be, deadlines, and tails."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster.fakes import Cluster
from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.store import union
from tic_daemon.store.failover import FailoverReader
from tic_daemon.store.layout import STATE_DIR, StoreLayout
from tic_daemon.store.reader import Reader, Tail
from tic_daemon.store.sqlguard import SqlError, SqlRefused
from tic_daemon.store.union import UnionReader
from tic_daemon.store.union_tail import merged

T0 = datetime(2026, 11, 29, 12, 0, 0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(union, "LOOK_S", 0.05)
    monkeypatch.setattr(union, "SLACK_S", 0.2)


def two(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path, "a", "b")
    for name, values in (("a", (1, 4)), ("b", (2, 3))):
        cluster[name].db.execute("CREATE TABLE t (n BIGINT, moment TIMESTAMP, said VARCHAR)")
        for n in values:
            cluster[name].db.execute("INSERT INTO t VALUES (?, ?, ?)", [n, T0 + timedelta(seconds=n), name])
    return cluster


def test_rows_of_all_stores_are_gathered(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    found = cluster.reader.query(
        "SELECT * FROM t WHERE n < ?", [4], gather="SELECT n, said, moment FROM part ORDER BY moment DESC LIMIT 2"
    )
    assert found.rows == [(3, "b", T0 + timedelta(seconds=3)), (2, "b", T0 + timedelta(seconds=2))]
    assert (found.columns, found.types) == (("n", "said", "moment"), ("BIGINT", "VARCHAR", "TIMESTAMP"))
    assert found.missing == () and not found.truncated
    told = cluster.reader.connection()
    assert (told.kind, told.state, told.detail, len(told.stores)) == ("several", "connected", "", 2)
    cluster.reader.close()


def test_types_outlive_parts_without_rows(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    found = cluster.reader.query(
        "SELECT n, moment, said FROM t WHERE n > 99", gather="SELECT max(moment) AS m, sum(n) AS n FROM part"
    )
    assert (found.types, found.rows) == (("TIMESTAMP", "HUGEINT"), [(None, None)])
    found = cluster.reader.query("SELECT moment FROM t WHERE said = 'b'", gather="SELECT max(moment) AS m FROM part")
    assert found.rows == [(T0 + timedelta(seconds=3),)]
    cluster.reader.close()


def test_a_store_that_fails_is_named_and_hides_nobody(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    cluster["a"].error = ConnectError("the node is down", "wait")
    found = cluster.reader.query("SELECT n FROM t", gather="SELECT sum(n)::BIGINT FROM part")
    assert found.rows == [(5,)]
    assert found.missing == (f"{cluster.names['a']}: the node is down",)
    told = cluster.reader.connection()
    assert told.state == "connected"
    assert told.detail == f"1 of 2 stores cannot be read: {cluster.names['a']}: the node is down"
    assert [store.state for store in told.stores] == ["disconnected", "connected"]
    cluster["a"].error = None
    assert cluster.reader.query("SELECT n FROM t", gather="SELECT sum(n)::BIGINT FROM part").rows == [(10,)]
    assert cluster.reader.connection().detail == ""
    cluster["a"].error = cluster["b"].error = ConnectError("gone")
    with pytest.raises(ConnectError, match="none of 2 stores"):
        cluster.reader.query("SELECT n FROM t", gather="SELECT sum(n) FROM part")
    assert cluster.reader.connection().state == "disconnected"
    cluster.reader.close()


def test_the_slowest_store_is_not_waited_for(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    cluster["b"].delay_s = 60
    began = time.monotonic()
    found = cluster.reader.query("SELECT n FROM t", gather="SELECT sum(n)::BIGINT FROM part", timeout_s=0.3)
    assert time.monotonic() - began < 10
    assert found.rows == [(5,)]
    # The stores are asked twice, first which logs they read. An interrupt that comes before that question has begun is
    # lost, on a busy machine, and then it is still open.
    (missing,) = found.missing
    name, _, why = missing.partition(": ")
    assert name == cluster.names["b"]
    assert why in {"no answer within 0.3 s", f"{name} still owes the answer to an earlier question"}
    assert why in cluster.reader.connection().detail
    assert cluster["b"].interrupted.is_set()
    cluster.reader.close()


def test_a_store_that_may_not_be_looked_into_is_missing_and_hides_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = two(tmp_path)
    shut = tmp_path / STATE_DIR / "other-0123456789ab"
    shut.mkdir()
    stat = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if path.is_relative_to(shut):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refused)

    def opened(layout: StoreLayout) -> Reader:
        return FailoverReader(layout) if layout.directory == shut else cluster.open(layout)

    reader = UnionReader(tmp_path, opened)
    found = reader.query("SELECT n FROM t", gather="SELECT sum(n)::BIGINT FROM part")
    assert found.rows == [(10,)]
    assert [text.partition(":")[0] for text in found.missing] == [shut.name] and "Permission denied" in found.missing[0]
    cluster.reader.close()
    reader.close()


def test_a_wrong_query_is_the_persons_and_said_once(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    with pytest.raises(SqlError, match="nowhere"):
        cluster.reader.query("SELECT nowhere FROM t", gather="SELECT * FROM part")
    with pytest.raises(SqlRefused):
        cluster.reader.query("DROP TABLE t")
    with pytest.raises(SqlRefused):
        cluster.reader.query("SELECT * FROM read_csv('/etc/passwd')")
    assert cluster.reader.query("SELECT 1 + 1").rows == [(2,)]
    cluster.reader.close()


def test_an_interrupt_ends_the_query_whatever_part_is_done(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    cluster["b"].delay_s = 60
    threading.Timer(0.3, cluster.reader.interrupt).start()
    with pytest.raises(SqlError, match="interrupted"):
        cluster.reader.query("SELECT n FROM t", gather="SELECT * FROM part", timeout_s=50)
    cluster.reader.close()


def test_stores_come_and_go(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a")
    cluster["a"].db.execute("CREATE TABLE t AS SELECT 1::BIGINT AS n")
    total = "SELECT sum(n)::BIGINT FROM part"
    assert cluster.reader.query("SELECT n FROM t", gather=total).rows == [(1,)]  # one store: nothing is gathered
    assert cluster.reader.connection().kind == "live"
    began = cluster.reader.tail()
    cluster.add("b").db.execute("CREATE TABLE t AS SELECT 2::BIGINT AS n")
    woken = cluster.reader.tail(began.position, wait_s=30)
    assert woken.position != began.position and woken.standing != began.standing
    assert cluster.reader.query("SELECT n FROM t", gather=total).rows == [(3,)]
    (tmp_path / ".tic" / cluster.names["a"] / "daemon.json").unlink()
    time.sleep(0.1)
    assert cluster.reader.query("SELECT n FROM t").rows == [(2,)]
    assert cluster["a"].closed
    cluster.reader.close()
    with pytest.raises(ConnectError, match="closed"):
        cluster.reader.query("SELECT 1")
    with pytest.raises(StoreError, match="no store"):
        Cluster(tmp_path / "empty")


def test_a_tail_gives_rows_of_all_stores_once_and_in_order(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    here = cluster.reader.tail()
    assert here.rows == ()
    for second in range(6):
        name = "ab"[second % 2]
        cluster[name].commit((T0 + timedelta(seconds=second), name, second // 2))
    seen: list[tuple[object, ...]] = []
    while len(seen) < 6:
        here = cluster.reader.tail(here.position, wait_s=30)
        assert list(here.rows) == sorted(here.rows)  # type: ignore[type-var]
        seen += here.rows
    assert sorted(seen) == [(T0 + timedelta(seconds=s), "ab"[s % 2], s // 2) for s in range(6)]  # type: ignore[type-var]
    assert cluster.reader.tail(here.position, wait_s=0.05).rows == ()
    standing = here.standing
    cluster["b"].commit(standing="a fault")
    here = cluster.reader.tail(here.position, wait_s=30)
    assert here.standing != standing and here.rows == ()
    cluster.reader.close()


def test_a_tail_wakes_when_a_store_is_lost_and_when_it_is_back(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    here = cluster.reader.tail()
    cluster["a"].error = ConnectError("gone")
    lost = cluster.reader.tail(here.position, wait_s=30)
    assert lost.standing != here.standing
    cluster["b"].commit((T0, "b", 1))
    came = cluster.reader.tail(lost.position, wait_s=30)
    assert came.rows == ((T0, "b", 1),)
    cluster["a"].commit((T0, "a", 1))
    cluster["a"].error = None
    back = came
    rows: list[tuple[object, ...]] = []
    while len(rows) < 1:
        back = cluster.reader.tail(back.position, wait_s=30)
        rows += back.rows
    assert rows == [(T0, "a", 1)] and back.standing != came.standing
    cluster.reader.close()


def test_an_interrupt_ends_a_tail(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    here = cluster.reader.tail()
    threading.Timer(0.2, cluster.reader.interrupt).start()
    assert cluster.reader.tail(here.position, wait_s=60).rows == ()
    cluster.reader.close()


def test_the_newest_rows_are_kept_and_the_others_counted() -> None:
    columns = ("observed_at", "store_id", "rec_id")
    a = Tail("", "", columns, ((T0, "a", 1), (T0, "a", 3)), 2)
    b = Tail(
        "", "", ("rec_id", "store_id", "observed_at", "new"), ((2, "b", T0, "x"), (1, "b", T0 + timedelta(1), "y")), 0
    )
    assert merged([a, b], 3) == (columns, ((T0, "a", 3), (T0, "b", 2), (T0 + timedelta(1), "b", 1)), 3)


def reads(cluster: Cluster, name: str, *logs: tuple[str, str, int]) -> None:
    """The store has read these logs: path, first bytes, how far."""
    db = cluster[name].db
    db.execute("CREATE OR REPLACE TABLE b_source (source_id BIGINT, path VARCHAR, host VARCHAR, network BOOLEAN)")
    db.execute(
        "CREATE OR REPLACE TABLE b_cursor (source_id BIGINT, byte_offset BIGINT, head_len BIGINT, head_hash VARCHAR)"
    )
    for number, (path, head, offset) in enumerate(logs):
        db.execute("INSERT INTO b_source VALUES (?, ?, ?, true)", [number, path, name])
        db.execute("INSERT INTO b_cursor VALUES (?, ?, 9, ?)", [number, offset, head])


def test_a_store_whose_logs_another_has_read_is_not_counted_twice(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    total = "SELECT sum(n)::BIGINT FROM part"
    reads(cluster, "a", ("/w/x.log", "one", 100), ("/w/y.log", "two", 100))
    reads(cluster, "b", ("/w/x.log", "one", 100), ("/w/y.log", "two", 100), ("/w/z.log", "three", 7))
    cluster["a"].kind = "file"
    assert cluster.reader.query("SELECT sum(n)::BIGINT FROM t", gather=total).rows == [(5,)]
    assert cluster.reader.connection().kind == "live"
    cluster.reader.close()


@pytest.mark.parametrize(
    ("of_b", "words"),
    [
        ([("/w/x.log", "one", 99), ("/w/y.log", "two", 101)], "both read 2 logs"),  # each is ahead in one
        ([("/w/x.log", "one", 100), ("/w/z.log", "three", 1)], "both read 1 log:"),
        ([("/w/x.log", "written anew", 500), ("/w/y.log", "two", 500)], "both read 1 log:"),
        ([("/v/x.log", "one", 100), ("/v/y.log", "two", 100)], ""),
    ],
)
def test_what_only_one_store_has_is_never_left_out(
    tmp_path: Path, of_b: list[tuple[str, str, int]], words: str
) -> None:
    cluster = two(tmp_path)
    reads(cluster, "a", ("/w/x.log", "one", 100), ("/w/y.log", "two", 100))
    reads(cluster, "b", *of_b)
    cluster["a"].kind = cluster["b"].kind = "file"
    assert cluster.reader.query("SELECT n FROM t", gather="SELECT sum(n)::BIGINT FROM part").rows == [(10,)]
    told = cluster.reader.connection().detail
    assert words in told and bool(words) == bool(told)
    cluster.reader.close()


def test_of_two_daemons_on_the_same_logs_always_the_same_one_is_read(tmp_path: Path) -> None:
    cluster = two(tmp_path)
    reads(cluster, "a", ("/w/x.log", "one", 90))
    reads(cluster, "b", ("/w/x.log", "one", 100))
    assert cluster.reader.query("SELECT sum(n)::BIGINT FROM t").rows == [(5,)]
    cluster["a"].kind = "file"  # its daemon ended: it has not read on as the other did
    cluster["a"].db.execute("UPDATE t SET n = n * 1000")
    assert cluster.reader.query("SELECT sum(n)::BIGINT FROM t").rows == [(5,)], "at once, not at the next look"
    again = type(cluster.reader)(tmp_path, cluster.open)
    assert again.query("SELECT sum(n)::BIGINT FROM t").rows == [(5,)]
    cluster.reader.close()
