"""The configuration that the real client kept becomes the launcher's word in the run's record."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.harness import ask, here
from tests.wandb.conftest import RealLogs


def test_the_configuration_is_in_the_record_without_its_secrets(real_logs: RealLogs, tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(real_logs.rich.parent, job / "wandb" / real_logs.rich.parent.name)
    here("watch", "--once", job)
    (store,) = job.glob(".tic/*/tic.duckdb")
    rows = ask(store, "SELECT run_id, key, value, side, secret FROM config_values WHERE kind = 'wandb' ORDER BY key")
    assert rows == [
        ("rich", "hf_token", "[secret: see hf_token in run-rich.wandb]", "launcher", True),
        ("rich", "late", "true", "launcher", False),
        ("rich", "lr", "1e-06", "launcher", False),
        ("rich", "model.db_password", "[secret: see model.db_password in run-rich.wandb]", "launcher", True),
        ("rich", "model.path", "Qwen", "launcher", False),
    ]
    told = ask(store, "SELECT value, launcher, worker, state FROM run_records WHERE field = 'object.model'")
    assert told == [("Qwen", "Qwen", None, "launcher only")]
    gaps = ask(store, "SELECT kind, count(*) FROM evidence_gaps WHERE kind = 'config_secret' GROUP BY kind")
    assert gaps == [("config_secret", 2)]
    before = ask(store, "SELECT count(*) FROM config_value")
    here("watch", "--once", job)
    assert ask(store, "SELECT count(*) FROM config_value") == before, "the next start has nothing new to tell"
