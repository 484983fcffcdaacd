"""One store and the ways to it: which is taken, when it is left, and when it is come back to."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from tests.cluster.fakes import SINCE, FakeReader
from tic_daemon.errors import ConnectError, StoreError, StoreVersionError
from tic_daemon.store import failover
from tic_daemon.store.check import stale
from tic_daemon.store.failover import FailoverReader, Openers
from tic_daemon.store.layout import StoreLayout, local_host
from tic_daemon.store.owner import Process
from tic_daemon.store.reader import Reader
from tic_daemon.store.sqlguard import SqlError


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "LOOK_S", 0.02)
    monkeypatch.setattr(failover, "SLICE_S", 0.05)
    monkeypatch.setattr(failover, "PROBE_S", (0.05, 0.1))
    monkeypatch.setattr(failover, "PATIENCE_S", 0.3)
    monkeypatch.setattr(failover, "TAIL_PATIENCE_S", 0.3)


class Store:
    """A store of which a test says what can be reached; it counts what was opened."""

    def __init__(self, root: Path, host: str = "") -> None:
        directory = root / ".tic" / f"{host or local_host()}-0123456789ab"
        directory.mkdir(parents=True)
        found = StoreLayout.of(directory)
        assert found is not None
        self.layout = found
        self.host = host
        self.down: ConnectError | None = None
        self.refused: StoreError | None = None
        self.opened: list[str] = []
        self.last: dict[str, FakeReader] = {}
        self.reader = FailoverReader(self.layout, Openers(self._live, self._snapshot, self._file))

    def own(self) -> None:
        me = Process.current(self.host or None)
        self.layout.owner_file.write_text(json.dumps({name: getattr(me, name) for name in me.__slots__}))
        self.layout.daemon_file.write_text(json.dumps({"pid": me.pid, "url": "http://127.0.0.1:4321", "token": "t"}))

    def release(self) -> None:
        self.layout.owner_file.unlink()

    def publish(self) -> None:
        self.layout.snapshot_dir.mkdir(exist_ok=True)
        (self.layout.snapshot_dir / "manifest.json").write_text("{}")

    def _live(self, _: StoreLayout) -> Reader:
        self.opened.append("live")
        if self.down is not None:
            raise self.down
        return self._made("live")

    def _snapshot(self, layout: StoreLayout) -> Reader:
        self.opened.append("snapshot")
        if not (layout.snapshot_dir / "manifest.json").exists():
            raise StoreError("nothing is published")
        return self._made("snapshot")

    def _file(self, _: StoreLayout) -> Reader:
        self.opened.append("file")
        if self.refused is not None:
            raise self.refused
        return self._made("file")

    def _made(self, kind: str) -> FakeReader:
        reader = self.last[kind] = FakeReader(kind)
        return reader

    def ask(self) -> str:
        assert self.reader.query("SELECT 1").rows == [(1,)]
        return self.reader.connection().kind


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_live_while_somebody_owns_it_and_the_file_afterwards(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.own()
    assert store.reader.connection().state == "pending"
    assert (store.ask(), store.ask(), store.opened) == ("live", "live", ["live"])
    store.layout.published.write_bytes(b"x")
    store.release()
    store.last["live"].error = ConnectError("connection refused")
    assert store.ask() == "file"
    assert store.last["live"].closed
    store.own()
    store.last["file"].error = ConnectError("written by another process now")
    assert store.ask() == "live" and store.last["file"].closed
    assert "snapshot" not in store.opened
    store.reader.close()
    with pytest.raises(ConnectError, match="closed"):
        store.reader.query("SELECT 1")


def test_from_the_snapshot_while_the_endpoint_is_away_and_back_by_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.own()
    store.publish()
    store.layout.published.write_bytes(b"x")  # somebody owns it: the file must stay closed
    assert store.ask() == "live"
    here = store.reader.tail()
    store.down = store.last["live"].error = ConnectError("connection refused", "is it running?")
    began = time.monotonic()
    away = store.reader.tail(here.position, wait_s=30)
    assert away.standing != here.standing and time.monotonic() - began < 20
    told = store.reader.connection()
    assert (told.kind, told.state) == ("snapshot", "connected")
    assert "connection refused" in told.detail and f"pid {os.getpid()}" in told.detail
    asked = len([kind for kind in store.opened if kind == "live"])
    assert store.ask() == "snapshot"
    until(lambda: len([kind for kind in store.opened if kind == "live"]) > asked)  # the thread, not the query
    store.down = None
    back = store.reader.tail(away.position, wait_s=30)
    assert back.standing != away.standing
    assert store.ask() == "live" and store.reader.connection().detail == ""
    assert "file" not in store.opened and store.last["snapshot"].closed
    store.reader.close()


def test_of_another_host_the_line_that_makes_it_reachable_is_offered(tmp_path: Path) -> None:
    store = Store(tmp_path, host="node7")
    store.own()
    store.down = ConnectError("nothing listens on port 4321 here")
    with pytest.raises(ConnectError, match=r"node7.*nothing listens.*nothing is published") as caught:
        store.reader.query("SELECT 1")
    assert caught.value.hint.startswith("ssh -N -L 4321:127.0.0.1:4321 node7 ")
    told = store.reader.connection()
    assert (told.state, told.hint) == ("disconnected", caught.value.hint)
    tries = len(store.opened)
    with pytest.raises(ConnectError):
        store.reader.query("SELECT 1")
    assert store.opened[tries:].count("live") <= 1  # only the thread may have tried
    store.publish()
    assert store.ask() == "snapshot"
    assert store.reader.connection().hint == caught.value.hint
    store.reader.close()


@pytest.mark.parametrize("host", ["node7; rm -rf ~", "-oProxyCommand=x", "node7\x1b[2J", ""])
def test_no_odd_host_gets_into_a_line_for_the_shell(tmp_path: Path, host: str) -> None:
    store = Store(tmp_path)
    store.own()
    told = json.loads(store.layout.owner_file.read_text())
    store.layout.owner_file.write_text(json.dumps({**told, "host": host}))
    store.down = ConnectError("no")
    with pytest.raises(ConnectError) as caught:
        store.reader.query("SELECT 1")
    assert "ssh" not in caught.value.hint
    store.reader.close()


def test_a_wrong_query_is_no_reason_to_go_elsewhere(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.own()
    store.publish()
    with pytest.raises(SqlError, match="nowhere"):
        store.reader.query("SELECT nowhere")
    with_busy = store.last["live"]
    with_busy.error = StoreError("busy: four queries run")
    with pytest.raises(StoreError, match="busy"):
        store.reader.query("SELECT 1")
    with_busy.error = None
    assert (store.ask(), store.opened) == ("live", ["live"])
    store.reader.close()


def test_a_daemon_that_hangs_is_left_though_its_connection_stands(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.own()
    store.publish()
    assert store.ask() == "live"
    store.last["live"].delay_s = 60
    store.down = ConnectError("no answer within 3 s")
    began = time.monotonic()
    assert store.ask() == "snapshot"
    assert time.monotonic() - began < 30
    store.reader.close()


def test_a_slow_query_of_a_daemon_that_lives_is_waited_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.own()
    store.publish()
    assert store.ask() == "live"
    slow = store.last["live"]
    slow.delay_s = 1.0
    assert store.ask() == "live" and not slow.closed
    assert store.opened.count("live") > 1  # it was asked whether it lives
    store.reader.close()


def test_of_a_copy_and_a_snapshot_the_newer_one_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.layout.pointer_file.write_text(json.dumps({"database": "/nvme/tic.duckdb", "host": "node7"}))
    store.layout.published.write_bytes(b"x")
    store.publish()
    os.utime(store.layout.published, (SINCE.timestamp(), SINCE.timestamp()))
    assert store.ask() == "snapshot"  # the daemon died after it had published this
    assert store.reader.connection().detail == ""
    store.layout.published.write_bytes(b"xx")
    os.utime(store.layout.snapshot_dir / "manifest.json", (SINCE.timestamp(), SINCE.timestamp()))
    until(lambda: store.ask() == "file")
    store.reader.close()


def test_the_snapshot_of_a_daemon_that_never_closed_its_store_is_not_taken_for_all(tmp_path: Path) -> None:
    store = Store(tmp_path, host="node7")
    store.publish()
    store.layout.owner_file.write_text(json.dumps({"host": "node7", "pid": 4711}))
    os.utime(store.layout.owner_file, (SINCE.timestamp(), SINCE.timestamp()))  # its node is gone
    assert store.ask() == "snapshot"
    told = store.reader.connection()
    assert "pid 4711 on node7 ended without closing" in told.detail and "--take-over" in told.hint
    assert stale(replace(told, data_at=SINCE), SINCE.replace(tzinfo=UTC) + timedelta(minutes=2))
    store.layout.owner_file.unlink()  # taken over, and ended in order
    until(lambda: store.ask() == "snapshot" and store.reader.connection().detail == "")
    store.reader.close()


def test_a_file_that_cannot_be_opened_does_not_take_the_snapshot_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "PROBE_S", (600.0,))
    store = Store(tmp_path)
    store.layout.published.write_bytes(b"x")
    store.publish()
    store.refused = StoreVersionError("the store has schema version 7 of an older program", "bring it forward")
    assert store.ask() == "snapshot"
    told = store.reader.connection()
    assert (told.detail, told.hint) == ("the store has schema version 7 of an older program", "bring it forward")
    assert told.unreadable
    store.opened.clear()
    for _ in range(5):
        time.sleep(0.03)  # each time owner.json is looked at
        assert store.ask() == "snapshot"
    assert store.opened == [] and not store.last["snapshot"].closed, "what lies there unchanged is tried now and then"
    store.refused = None
    os.utime(store.layout.published, (SINCE.timestamp(), SINCE.timestamp()))  # brought forward
    until(lambda: store.ask() == "file")
    told = store.reader.connection()
    assert store.last["snapshot"].closed and told.detail == "" and not told.unreadable
    store.reader.close()


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path, host="node7")
    with pytest.raises(StoreError, match="has no file here") as caught:
        store.reader.open()
    assert "node7" in caught.value.hint
    store.reader.close()
