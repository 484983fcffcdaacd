"""Transaction logs that the real client wrote, offline, once a session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import needs

_SCRIPT = """
import math, os, sys, time
import wandb

def run(name, **changes):
    settings = wandb.Settings(x_disable_stats=True, mode="offline", console="off", **changes)
    return wandb.init(project="grpo", id=name, name=f"{name} ü", dir=os.environ["WANDB_DIR"], settings=settings,
                      config={"lr": 1e-6, "hf_token": "hf_" + "a" * 30, "model": {"path": "Qwen", "db_password": "x"}})

rich = run("rich")
for step in range(60):
    rich.log({
        "train/loss": 1 / (step + 1), "n": 2**53 + 1 + step, "a.b": step, "nest": {"x": {"y": step}}, "flag": step % 2 == 0,
        "bad": math.nan, "up": math.inf, "down": -math.inf, "text": 'h\\u00e9 "\\u001b[31m', "list": [1, 2.5],
        "training/global_step": step + 100,
    }, step=step)
rich.log({"hist": wandb.Histogram([1, 2, 3]), "table": wandb.Table(columns=["a"], data=[[1]])}, step=60)
rich.log({f"k/{i}": i for i in range(10_000)}, step=61)
rich.log({"x": 1}, step=5)  # below the current step: the client drops it
rich.config.update({"late": True})
rich.log({"pad": "p" * 70_000, "after": 1}, step=62)  # longer than two blocks
rich.finish(exit_code=3)

small = run("small")
for step in range(8):
    small.log({"loss": step / 7}, step=step)
small.finish()

killed = run("killed")
for step in range(40):
    killed.log({"loss": step / 7, "pad": "p" * 2000}, step=step)
print("ready", flush=True)
time.sleep(60)
"""


@dataclass(frozen=True)
class RealLogs:
    """Directory `wandb/` and the logs in it: `rich` has every kind of value, `small` fits a block, `killed` has no end."""

    wandb: Path
    rich: Path
    small: Path
    killed: Path


@pytest.fixture(scope="session")
def real_logs(tmp_path_factory: pytest.TempPathFactory) -> RealLogs:
    needs.wandb_client()
    home = tmp_path_factory.mktemp("wandb-real")
    env = {
        **os.environ, "WANDB_DIR": str(home), "HOME": str(home), "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
        "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "0.2",
    }  # fmt: skip

    def log(name: str) -> Path:
        (path,) = (home / "wandb").glob(f"offline-run-*/run-{name}.wandb")
        return path

    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], env=env, cwd=home, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    until = time.monotonic() + 60  # the client's core writes when it gets to it
    while log("killed").stat().st_size < 66_000 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()

    return RealLogs(home / "wandb", log("rich"), log("small"), log("killed"))
