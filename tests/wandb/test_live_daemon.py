"""The real client logs while a real daemon follows it and is killed with SIGKILL: every row once, values exact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import needs
from tests.e2e.harness import Watcher, ask, tic, wait_until
from tests.wandb.conftest import RealLogs
from tic_daemon import watch
from tic_daemon.config import Config
from tic_daemon.sources import wandb_local
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader

_SCRIPT = """
import os, sys, time
import wandb
from pathlib import Path
settings = wandb.Settings(x_disable_stats=True, mode="offline", console="off")
run = wandb.init(project="grpo", id="live", settings=settings)
halt, step = Path("halt"), 0
while not halt.exists():
    run.log({"actor/pg_loss": step / 7, "training/global_step": step, "n": 2**53 + 1 + step}, step=step)
    step += 1
    time.sleep(0.01)
run.finish(exit_code=7)
print(step)
"""
ROWS = "SELECT count(*), count(DISTINCT wandb_step), coalesce(max(wandb_step), -1) FROM b_wandb_row"


def test_kill_9_of_the_daemon_in_mid_read_loses_and_doubles_nothing(tmp_path: Path) -> None:
    needs.wandb_client()
    root = tmp_path / "job"
    root.mkdir()
    env = {
        **os.environ, "HOME": str(tmp_path), "WANDB_DIR": str(root), "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
        "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "0.1",
    }  # fmt: skip
    daemon = Watcher(tmp_path / "state", root)
    daemon.start()
    trainer = subprocess.Popen([sys.executable, "-c", _SCRIPT], env=env, cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        seen = 0
        for number in range(2):
            before = seen

            def grew(before: int = before) -> bool:
                nonlocal seen
                reader = open_reader(daemon.state)
                try:
                    count, distinct, last = reader.query(ROWS).rows[0]
                finally:
                    reader.close()
                assert count == distinct == last + 1  # at any moment a prefix of what was logged, without holes
                seen = count
                return count > before + 20

            wait_until(grew, 60, daemon.log)
            time.sleep(0.05 * number)
            daemon.kill()
            if not number:
                daemon.start()
    finally:
        (root / "halt").touch()
        logged = int(trainer.communicate(timeout=60)[0])
    tic("watch", "--once", root, "--state", daemon.state)
    (store,) = daemon.state.glob("*/tic.duckdb")
    assert logged > 100
    assert ask(store, ROWS) == [(logged, logged, logged - 1)]
    # The doubles and digits of each row, worked out here and not read from the log.
    wrong = ask(
        store,
        "SELECT count(*) FROM wandb_row r JOIN wandb_value v ON v.row_id = r.rec_id WHERE "
        "(v.key = 'actor/pg_loss' AND v.value <> r.wandb_step / 7) OR (v.key = 'training/global_step' AND v.value <> r.wandb_step) "
        "OR (v.key = 'n' AND coalesce(v.value_text::HUGEINT, v.value::HUGEINT) <> 9007199254740993 + r.wandb_step)",
    )
    assert wrong == [(0,)]
    assert ask(store, "SELECT count(*) FROM wandb_value") == [(logged * 5,)]  # with _timestamp and _runtime
    assert ask(store, "SELECT run_id, last_step FROM runs") == [("live", logged - 1)]
    assert ask(store, "SELECT max(step), count(*) FROM step_lines WHERE edge = 'logged'") == [(logged - 1, logged)]
    assert ask(store, "SELECT arg_max(state, rec_id), arg_max(exit_code, rec_id) FROM wandb_run") == [("failed", 7)]
    assert ask(store, "SELECT attempt, exit_code FROM attempts") == [(1, 7)]
    assert ask(store, "SELECT count(*) FROM source_gap WHERE prov IS NULL") == [(0,)]


def test_a_commit_takes_in_no_more_than_its_share_of_a_history(
    real_logs: RealLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history that is there all at once comes in with many commits, so that other lines wait for none of them long."""
    monkeypatch.setattr(wandb_local, "VALUES", 20)
    root = tmp_path / "job"
    shutil.copytree(real_logs.killed.parent, root / "wandb" / real_logs.killed.parent.name)
    daemon = watch.Daemon([root], Config(base=root, host="n"), StoreLayout.find(root), listen=None)
    try:
        daemon._beside._wandb.start(hurry=True)
        until = time.monotonic() + 60
        while not (daemon._begun and daemon._beside.drained() and not daemon._batch.deltas):
            assert time.monotonic() < until
            for _ in range(5):  # looks at the logs between two commits
                daemon._read()
                time.sleep(0.01)
            daemon._commit(force=True)
        cursor = daemon._writer.reader_cursor()
        values = [n for (n,) in cursor.execute("SELECT count(*) FROM wandb_value GROUP BY observed_at").fetchall()]
        (most,) = cursor.execute("SELECT max(keys) FROM wandb_row").fetchone() or (0,)
        cursor.close()
    finally:
        daemon._close()
    assert sum(values) > 100 and max(values) <= 2 * (20 + most)  # a delta, and the one that goes over the mark
