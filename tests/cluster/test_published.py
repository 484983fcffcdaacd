"""A daemon that does not answer: what it published is read, with its age, and the daemon again when it answers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, wait_until
from tic_daemon.store.layout import stores_under
from tic_daemon.store.reader import open_reader
from tic_daemon.store.snapshot import snapshot_of

LINE = "[mismatch] run=r step={n} policy={n} input=abc phase=decode rank=0 metric=logprob_mae value=0.5\n"


@pytest.mark.slow
def test_a_daemon_that_was_stopped_and_went_on(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "tic.toml").write_text("[store]\nsnapshot_s = 0.2\n")
    (logs / "worker.log").write_text("".join(LINE.format(n=number) for number in range(5)))
    watcher = Watcher(logs / ".tic", logs)
    watcher.start()
    assert watcher.process is not None
    (layout,) = stores_under(logs)
    try:
        wait_until(lambda: (told := snapshot_of(layout)) is not None and "mismatch" in told.tables, 30, watcher.log)
        wait_until(lambda: told.tables["mismatch"].rows >= 5 if (told := snapshot_of(layout)) else False, 30)
        os.kill(watcher.process.pid, signal.SIGSTOP)
        reader = open_reader(layout.directory)
        assert reader.query("SELECT count(*) FROM mismatches", timeout_s=20).rows == [(5,)]
        told = reader.connection()
        assert told.kind == "snapshot" and told.data_at is not None and told.detail
        with (logs / "worker.log").open("a") as file:
            file.write(LINE.format(n=5))
        os.kill(watcher.process.pid, signal.SIGCONT)
        asked = "SELECT count(*) FROM mismatches"
        wait_until(lambda: reader.query(asked, timeout_s=20).rows == [(6,)], 40, watcher.log)
        wait_until(lambda: reader.query("SELECT 1").rows == [(1,)] and reader.connection().kind == "live", 40)
        reader.close()
    finally:
        os.kill(watcher.process.pid, signal.SIGCONT)
        watcher.stop()
