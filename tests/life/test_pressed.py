"""What can wait does so while a line waits that could be committed, and gets its turn between two commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.harness import wait_until
from tic_daemon import watch
from tic_daemon.config import Config
from tic_daemon.store.layout import StoreLayout
from tic_daemon.watch import Daemon


def test_a_line_goes_before_what_can_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "trainer.log"
    log.write_text("start\n")
    daemon = Daemon([tmp_path], Config(base=tmp_path), StoreLayout.find(tmp_path), listen=None)
    settled: list[bool] = []
    checkpoints: list[float] = []

    def settle(*, now: bool = False, backlog: bool = False, pressed: Callable[[], bool] = lambda: False) -> bool:
        settled.append(pressed())
        return not settled[-1]

    try:
        until = time.monotonic() + 60
        while not daemon._begun or daemon._follower.rings():
            assert time.monotonic() < until
            daemon._read()
        daemon._commit(force=True)
        with monkeypatch.context() as patch:
            patch.setattr(daemon._writer, "settle_if_due", settle)
            patch.setattr(daemon._writer, "checkpoint_if_due", lambda: checkpoints.append(time.monotonic()))
            wait_until(lambda: not daemon._pace.remaining(time.monotonic()), 10, lambda: "no commit is due any more")
            daemon._upkeep()
            assert settled == [False] and len(checkpoints) == 1

            with log.open("a") as file:
                file.write("step:1 - actor/pg_loss:0.001\n")
            daemon._upkeep()
            assert settled == [False, True] and len(checkpoints) == 1, "the line is not read yet"

            daemon._read()
            assert daemon._batch.deltas and not daemon._follower.rings()
            daemon._upkeep()
            assert settled == [False, True, True] and len(checkpoints) == 1, "it is read and not committed yet"

            patch.setattr(daemon._pace, "apart_s", 60.0)
            daemon._commit()  # what can wait follows each commit
            assert settled == [False, True, True, False] and len(checkpoints) == 2

            with log.open("a") as file:
                file.write("step:2 - actor/pg_loss:0.001\n")
            daemon._upkeep()
            assert settled[-1] is False and len(checkpoints) == 3, "this line could not be committed yet"

            patch.setattr(daemon._pace, "apart_s", 0.0)
            wait_until(lambda: not daemon._pace.remaining(time.monotonic()), 10, lambda: "no commit is due any more")
            daemon._kept_up = time.monotonic() + 60
            daemon._upkeep()
            assert settled[-1] is True and len(checkpoints) == 3, "the line waits, and all had its turn just now"
            daemon._kept_up = time.monotonic() - watch.PUT_OFF_S
            daemon._upkeep()
            assert settled[-1] is False and len(checkpoints) == 4, "the line waits, but the rest waited for too long"
            assert time.monotonic() - daemon._kept_up < watch.PUT_OFF_S
            daemon._kept_up = time.monotonic() + 60
            daemon._upkeep()
            assert settled[-1] is True and len(checkpoints) == 4
    finally:
        daemon._close()
