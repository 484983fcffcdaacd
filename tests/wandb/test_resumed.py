"""A real trainer is killed and resumed behind its last step, while a real daemon watches: what the client drops is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.wandb_server import WandbServer
from tic_daemon.errors import TicError
from tic_daemon.store.reader import open_reader

needs.wandb_client()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_TRAINER = """
import os, sys, time
import wandb

name, first, last, pause, kill, resume = sys.argv[1], *map(float, sys.argv[2:6]), sys.argv[6]
run = wandb.init(project="grpo", id=name, dir=os.environ["WANDB_DIR"], resume=resume or None,
                 settings=wandb.Settings(x_disable_stats=True, console="off"))
with open(os.path.join(os.environ["WANDB_DIR"], "train.log"), "a") as out:
    for step in range(int(first), int(last)):
        values = {f"actor/m{n}": step / 8 + n for n in range(38)}
        values |= {"training/global_step": step, "training/rollout_probs_diff_mean": step / 1024}
        run.log(values, step=step)
        print(f"step:{step} - " + " - ".join(f"{key}:{value}" for key, value in values.items()), file=out, flush=True)
        time.sleep(pause)
if kill:
    time.sleep(kill)
    os.kill(os.getpid(), 9)
run.finish()
"""


class Site:
    """A server, a workspace, a daemon, and trainers."""

    def __init__(self, home: Path, server: WandbServer) -> None:
        self.home, self.server = home, server
        self.env = {**os.environ, **server.env(home), "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "0.5"}
        self.daemons: list[subprocess.Popen[bytes]] = []

    def watch(self, name: str) -> Path:
        """A workspace with a daemon."""
        workspace = self.home / name
        workspace.mkdir()
        (workspace / "tic.toml").write_text("[wandb]\nevery_s = 1\ngrace_s = 3\n[gpu]\nwatch = false\n")
        out = (self.home / f"{name}.out").open("wb")
        command = [sys.executable, "-m", "tic_daemon", "watch", str(workspace)]
        self.daemons.append(subprocess.Popen(command, env=self.env, cwd=self.home, stdout=out, stderr=out))
        out.close()
        return workspace

    def train(
        self,
        workspace: Path,
        run: str,
        first: int,
        last: int,
        *,
        pause: float = 0.0,
        kill: float = 0.0,
        resume: str = "",
    ) -> None:
        env = {**self.env, "WANDB_DIR": str(workspace)}
        words = [run, str(first), str(last), str(pause), str(kill), resume]
        subprocess.run([sys.executable, "-c", _TRAINER, *words], env=env, cwd=self.home, timeout=120, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def steps(self, run: str) -> set[int]:
        """What the server holds."""
        return {row["_step"] for row in self.server.runs[f"lab/grpo/{run}"].rows()}


def until(
    workspace: Path, sql: str, holds: Callable[[list[tuple[object, ...]]], bool], seconds: float = 240.0
) -> list[tuple[object, ...]]:
    """Asks again and again until the rows are as wanted."""
    deadline, rows = time.monotonic() + seconds, []
    while time.monotonic() < deadline:
        try:
            reader = open_reader(workspace)
            try:
                rows = reader.query(sql).rows
            finally:
                reader.close()
            if holds(rows):
                return rows
        except TicError:
            pass  # its daemon is just beginning
        time.sleep(0.5)
    raise AssertionError(f"never came: {sql}: {rows}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with WandbServer() as server:
        made = Site(tmp_path, server)
        yield made
        for daemon in made.daemons:
            daemon.send_signal(signal.SIGTERM)
        for daemon in made.daemons:
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()


GAPS = "SELECT kind, source, first_step, last_step, cause FROM wandb_gaps WHERE confirmed ORDER BY first_step"


def test_killed_then_resumed_behind_its_last_step(site: Site) -> None:
    workspace = site.watch("ws")
    site.train(workspace, "cut", 0, 30, pause=0.02, kill=1.5)
    site.train(workspace, "cut", 10, 40, pause=0.02, resume="must")
    dropped = {
        int(json.loads(line)["step"])
        for log in (workspace / "wandb").glob("run-*/logs/debug-internal.log")
        for line in log.read_text().splitlines()
        if "ignoring partial history record" in line
    }
    assert dropped and dropped == set(range(10, 10 + len(dropped)))

    def found(rows: list[tuple[object, ...]]) -> bool:
        return {step for row in rows for step in range(int(str(row[2])), int(str(row[3])) + 1)} == dropped

    rows = until(workspace, GAPS, found)
    assert {row[4] for row in rows} == {"dropped_by_sdk"}
    assert site.steps("cut") == set(range(40))
    reads = "SELECT count(*) FROM step_coverage WHERE source = 'wandb_api' AND state = 'ok'"
    until(workspace, reads, lambda rows: rows == [(40,)])
    until(workspace, GAPS, found)
