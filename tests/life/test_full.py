"""While the disk is full the daemon rests, reads no more than it may hold, and goes on when there is space again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tic_daemon import watch
from tic_daemon.config import Config
from tic_daemon.errors import StoreFull
from tic_daemon.store.layout import StoreLayout
from tic_daemon.watch import Daemon

LINE = b"step:%06d - actor/pg_loss:0.5\n"


def test_a_full_disk_costs_neither_time_nor_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "trainer.log"
    log.write_bytes(b"".join(LINE % number for number in range(10)))
    daemon = Daemon([tmp_path], Config(base=tmp_path), StoreLayout.find(tmp_path), listen=None)
    waits: list[float] = []
    wait = daemon._follower.wait

    def waited(timeout: float) -> bool:
        waits.append(timeout)
        return wait(timeout)

    def full(*_args: object, **_more: object) -> int:
        raise StoreFull("no space left", "free some space")

    try:
        until = time.monotonic() + 60
        while not daemon._batch.deltas:
            assert time.monotonic() < until
            daemon._read()
        with monkeypatch.context() as patch:
            patch.setattr(daemon._writer, "commit", full)
            patch.setattr(daemon._follower, "wait", waited)
            assert not daemon._commit(force=True)
            daemon._full_until = time.monotonic() + 600
            for _ in range(3):
                daemon._tick()
            assert waits == [watch.SPOOL_S] * 3, "a commit that cannot be is no reason to hurry"

            patch.setattr(watch, "PENDING_BYTES", daemon._batch.bytes)
            with log.open("ab") as file:
                file.write(LINE % 10)
            began = time.monotonic()
            for _ in range(3):
                daemon._tick()
            assert time.monotonic() - began > 2 * watch.FULL_S, "a line that is not read ends no wait"

            size, turns = 40 * len(LINE % 0), iter(range(200))
            patch.setattr(watch, "SWEEP_BYTES", size)
            patch.setattr(watch, "POLL_BYTES", size // 4)
            with log.open("ab") as file:
                file.write(b"".join(LINE % number for number in range(11, 500)))
            patch.setattr(time, "sleep", lambda _seconds: None)
            assert not daemon._sweep(lambda: next(turns, None) is None)
            assert size <= daemon._batch.bytes < 2 * size
        assert daemon._sweep(lambda: False) and daemon._commit(force=True)
        cursor = daemon._writer.reader_cursor()
        assert cursor.execute("SELECT count(DISTINCT step), max(step) FROM b_metric").fetchone() == (500, 499)
        cursor.close()
    finally:
        daemon._close()
