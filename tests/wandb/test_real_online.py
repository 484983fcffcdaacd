"""Real online, shared and resumed runs against a server on loopback, as their local directories tell of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import needs
from tests.wandb.test_local_source import Daemon
from tests.wandb_server import Fault, Status, WandbServer
from tic_daemon.wandb.events import WandbRow, WandbRun, WandbUpload

# The client names a directory by the second and the id: a process that resumes within it finds the name taken.
_SCRIPT = """
import sys
import time
import wandb

def run(wandb_id, **changes):
    settings = wandb.Settings(x_disable_stats=True, console="off", **changes.pop("settings", {}))
    return wandb.init(project="grpo", entity="lab", id=wandb_id, settings=settings, **changes)

first = run("again")
for step in range(8):
    first.log({"loss": step}, step=step)
first.log({"loss": -1}, step=3)
first.finish()
time.sleep(1.1)
second = run("again", resume="must")
for step in range(5, 11):  # a trainer that went back: the client drops 5, 6 and 7
    second.log({"loss": step}, step=step)
second.finish()
shared = run("many", mode="shared", settings={"x_label": "rank0", "x_primary": True})
for step in range(4):
    shared.log({"train/step": step, "train/train_rollout_kl": 0.5})
shared.finish()
print("dying", flush=True)
sys.stdin.readline()
dead = run("dead")
for step in range(4):
    dead.log({"loss": step}, step=step)
dead.finish(exit_code=1)
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """What a daemon read of them all."""
    needs.wandb_client()
    home = tmp_path_factory.mktemp("online")
    with WandbServer() as server:
        env = {**os.environ, **server.env(home), "WANDB_DIR": str(home), "WANDB_SILENT": "true"}
        process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT], env=env, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() == "dying\n":
            server.faults.append(Fault("file_stream", Status(403)))
        _, error = process.communicate("\n", timeout=120)
        assert process.returncode == 0, error[-2000:]
    daemon = Daemon()
    daemon.read(*(home / "wandb").glob("run-*/run-*.wandb"), last=True)
    yield daemon
    daemon.runs.stop()


def events(read: Daemon, cls: type, wandb_id: str) -> list[list[object]]:
    """Events of a class, by directory in time order."""
    found: dict[str, list[object]] = {}
    for delta in read.deltas:
        if f"-{wandb_id}/" in delta.source.path:
            found.setdefault(delta.source.path, []).extend(e for e in delta.events if isinstance(e, cls))
    return [told for _, told in sorted(found.items()) if told]


def test_a_resumed_run_has_a_directory_for_each_attempt(read: Daemon) -> None:
    before, after = events(read, WandbRow, "again")
    assert [row.wandb_step for row in before] == list(range(8))  # type: ignore[attr-defined]
    assert [row.wandb_step for row in after] == [8, 9, 10]  # type: ignore[attr-defined]
    first, second = (told[-1] for told in events(read, WandbRun, "again"))
    assert isinstance(first, WandbRun) and isinstance(second, WandbRun)
    assert (first.run_path, first.mode, first.starting_step, first.state) == ("lab/grpo/again", "online", 0, "finished")
    assert second.starting_step == 8


def test_what_the_client_dropped(read: Daemon) -> None:
    dropped = [
        [(told.dropped_step, told.current_step) for told in each if told.state == "dropped"]  # type: ignore[attr-defined]
        for each in events(read, WandbUpload, "again")
    ]
    assert dropped == [[(3, 7)], [(5, 8), (6, 8), (7, 8)]]


def test_a_shared_run_s_rows_have_a_writer_and_no_step_of_w_b(read: Daemon) -> None:
    (rows,) = events(read, WandbRow, "many")
    assert [(row.wandb_step, row.at.step) for row in rows] == [(None, n) for n in range(4)]  # type: ignore[attr-defined]
    assert len({row.writer for row in rows}) == 1 and rows[0].writer  # type: ignore[attr-defined]
    run = events(read, WandbRun, "many")[0][-1]
    assert isinstance(run, WandbRun) and (run.mode, run.framework) == ("shared", "miles")


def test_an_uploader_that_died_while_training_went_on(read: Daemon) -> None:
    (rows,) = events(read, WandbRow, "dead")
    assert len(rows) == 4
    (told,) = events(read, WandbUpload, "dead")
    states = [(upload.state, upload.status) for upload in told]  # type: ignore[attr-defined]
    assert ("dead", 403) in states and "acknowledged" not in [state for state, _ in states]
    acknowledged = [
        (upload.history_offset or 0) + (upload.history_lines or 0)  # type: ignore[attr-defined]
        for each in events(read, WandbUpload, "again") for upload in each if upload.state == "acknowledged"  # type: ignore[attr-defined]
    ]  # fmt: skip
    assert max(acknowledged) == 11  # all lines of both processes
