"""The feed from a file: closed between readings, opened again when something changed, quiet otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tui.fake import Connection, FakeReader, FakeStore
from tic_daemon.store.fingerprint import fingerprint
from tic_tui.feed import Feed
from tic_tui.messages import LinkChanged, RunFetched, RunsFetched
from tic_tui.model import Demand


class FileReader(FakeReader):
    """A reader that says it is a file's, and counts how many are open."""

    open_now = 0

    def __init__(self, store: FakeStore) -> None:
        super().__init__(store)
        FileReader.open_now += 1

    def connection(self) -> Connection:
        return Connection("file", "connected", None, "", "fake")

    def close(self) -> None:
        FileReader.open_now -= 1


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.01)


def workspace(tmp_path: Path) -> Path:
    store = tmp_path / ".tic" / "host-0123456789ab"
    store.mkdir(parents=True)
    (store / "tic.duckdb").write_bytes(b"x")
    return tmp_path


def test_a_file_is_closed_between_readings_and_read_again_when_it_changed(tmp_path: Path) -> None:
    store, posted = FakeStore(), list[Any]()
    store.demo()
    target = workspace(tmp_path)

    def opener(_: str) -> FileReader:
        store.opened += 1
        return FileReader(store)

    feed = Feed(str(target), posted.append, opener)  # type: ignore[arg-type]  # a test's Result is like the reader's
    feed.start()
    try:
        until(lambda: any(isinstance(m, RunsFetched) for m in posted))
        until(lambda: FileReader.open_now == 0)
        opened = store.opened
        time.sleep(1.5)
        assert store.opened == opened == 1 and FileReader.open_now == 0
        feed.show(Demand("run", "grpo-tiny-a"))
        until(lambda: any(isinstance(m, RunFetched) for m in posted))
        until(lambda: FileReader.open_now == 0)
        opened = store.opened
        (target / ".tic" / "host-0123456789ab" / "daemon.json").write_text("{}")
        until(lambda: store.opened > opened)
    finally:
        feed.stop()
    assert FileReader.open_now == 0
    links = [m.link.state for m in posted if isinstance(m, LinkChanged)]
    assert links == ["connected"], "the connection is not said to come and go with each reading"


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
    assert time.monotonic() - began < 1.0 and not feed._thread.is_alive()
