"""Attempts that a scheduler declares, from the environment of a job that was started again to what `check` says."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, here, wait_until
from tic_daemon import readiness, watch
from tic_daemon.config import LockConfig, load_config
from tic_daemon.ending import Ending
from tic_daemon.scheduler import Start, start_of
from tic_daemon.sources.layouts import torchrun_attempt
from tic_daemon.store import spool
from tic_daemon.store.layout import StoreLayout

RECORD = (
    "[2026-11-29 20:00:{second:02}] trainer.py:231 - [mismatch] run={run} step={step} policy={step} input=abc "
    "phase=decode rank=0 repeat=0\n  scope=fixed-input intervention=none\n  metric=logprob_mae value=0.001 "
    "reference=trainer/old\n  self_repeat=0.0002 report=r.json classification=unknown\n"
)
FAULT = "[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"


@pytest.mark.parametrize(
    ("environ", "start"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7"}, Start("slurm::7", "Slurm job 7", 0)),  # unset at the first start: Slurm 22.05
        (
            {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2", "SLURM_CLUSTER_NAME": "big"},
            Start("slurm:big:7", "Slurm job 7", 2),
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "-1"}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "\u0663"}, None),
        ({"SLURM_RESTART_COUNT": "3"}, None),
        ({"TIC_POD_UID": "u", "TIC_RESTART_COUNT": ""}, Start("tic:u", "job u", 0)),  # an annotation that is not there
        (
            {"TIC_JOB_ID": "j", "TIC_POD_UID": "u", "TIC_RESTART_COUNT": "1", "SLURM_JOB_ID": "7"},
            Start("tic:j", "job j", 1),
        ),
    ],
)
def test_what_a_scheduler_says(environ: dict[str, str], start: Start | None) -> None:
    assert start_of(environ) == start


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/d/none_a1b2/attempt_0/3/stderr.log", ("/d/none", 0)),
        ("/d/my_run_a1b2/attempt_12/0/stdout.log", ("/d/my_run", 12)),
        ("/d/none_a1b2/attempt_0/3/other.log", None),
        ("/d/none_a1b2/attempt_x/3/stderr.log", None),
        ("/d/none_a1b2/attempt_0/stderr.log", None),
        ("/stderr.log", None),
    ],
)
def test_directories_of_torchrun(path: str, place: tuple[str, int] | None) -> None:
    assert torchrun_attempt(path) == place


class Job:
    """A daemon in a thread, as it is started on a node of a job: with a host's name and what its scheduler says.

    All have one clock, so that a restart need not come seconds after what it follows.
    """

    def __init__(self, watched: Path, host: str = "a", *, state: Path | None = None, **environ: str) -> None:
        self.ending, began = Ending(), threading.Event()
        layout = StoreLayout.find(watched, host=host, state_dir=state)
        config = replace(load_config(workspace=watched), host=host, state_dir=state, lock=LockConfig(margin_s=0.0))
        daemon = watch.Daemon([watched], config, layout, listen=None, start=start_of(environ), ending=self.ending)
        self._thread = threading.Thread(target=daemon.run, kwargs={"begun": began.set}, daemon=True)
        self._thread.start()
        RUNNING.append(self)
        assert began.wait(30)

    def stop(self) -> None:
        self.ending.request("the test")
        self._thread.join(30)
        assert not self._thread.is_alive() and self.ending.exit_code == 0


RUNNING: list[Job] = []


@pytest.fixture(autouse=True)
def _nothing_goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tic_daemon.attempts.LOOK_S", 0.05)
    yield
    for job in RUNNING:
        job.ending.request("the end of the test")
    RUNNING.clear()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "job"
    place.mkdir()
    return place


def write(workspace: Path, name: str, text: str) -> None:
    path = workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.write(text)


def store(workspace: Path, host: str = "a") -> Path:
    (found,) = workspace.glob(f".tic/{host}-*/tic.duckdb")
    return found


STANDS = "SELECT attempt, step, admissibility FROM mismatches ORDER BY step"


def test_a_requeued_job_starts_clean_and_the_old_attempt_stays_locked(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With real processes, and the environment that Slurm gives them."""
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    ready = workspace / "ready"
    daemon = Watcher(workspace / ".tic", workspace, options=("--no-endpoint", "--ready", str(ready)))

    def start() -> None:
        daemon._spawn()
        assert daemon.process is not None
        pid = f"{daemon.process.pid}\n"
        wait_until(lambda: ready.exists() and ready.read_text() == pid, 30, daemon.log)

    def found() -> Path:
        return next(workspace.glob(".tic/*/tic.duckdb"))

    start()
    write(workspace, "start-0/rank_0.err", RECORD.format(run="r", step=1, second=1) + FAULT)
    write(workspace, "start-0/rank_0.err", RECORD.format(run="r", step=2, second=2))
    daemon.stop()
    assert ask(found(), STANDS) == [(1, 1, "suspect"), (1, 2, "locked")]
    write(workspace, "start-0/rank_0.err", RECORD.format(run="r", step=3, second=3))  # its last words, unwatched
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    start()
    write(workspace, "start-1/rank_0.err", RECORD.format(run="r", step=4, second=30))
    write(workspace, "start-1/rank_0.err", RECORD.format(run="new", step=9, second=30))
    daemon.stop()
    expected = [(1, 1, "suspect"), (1, 2, "locked"), (1, 3, "locked"), (2, 4, "admissible"), (1, 9, "admissible")]
    assert ask(found(), STANDS) == expected
    told = "SELECT run_id, attempt, from_kind, reason, who FROM attempts ORDER BY ALL"
    attempts = [
        ("new", 1, None, None, None),
        ("r", 1, None, None, None),
        ("r", 2, "scheduler", "restart 1 of Slurm job 4711", "Slurm job 4711"),
    ]
    assert ask(found(), told) == attempts
    assert here("check", "r", "--at", workspace).returncode == 0
    start()  # the daemon alone was started again
    write(workspace, "start-1/rank_0.err", RECORD.format(run="r", step=5, second=31))
    daemon.stop()
    assert ask(found(), told) == attempts
    assert ask(found(), STANDS)[4] == (2, 5, "admissible")


def test_each_restart_is_an_attempt_of_the_runs_of_the_start_before(workspace: Path) -> None:
    write(workspace, "finished.err", RECORD.format(run="finished", step=1, second=1))
    for restart, run in enumerate(["r", "r", "s"]):
        job = Job(workspace, SLURM_JOB_ID="5", SLURM_RESTART_COUNT=str(restart or ""))
        write(workspace, f"{restart}/rank_0.err", RECORD.format(run=run, step=restart, second=restart))
        job.stop()
    Job(workspace, SLURM_JOB_ID="5", SLURM_RESTART_COUNT="4").stop()  # one start was never watched
    attempts = "SELECT run_id, attempt FROM attempts WHERE from_kind = 'scheduler' ORDER BY ALL"
    assert ask(store(workspace), attempts) == [("r", 2), ("r", 3), ("s", 2)]


def test_a_job_that_nobody_saw_before_is_proposed_to_a_person(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(workspace, "rank_0.err", RECORD.format(run="r", step=1, second=1))
    write(workspace, "other.err", RECORD.format(run="s", step=1, second=1))
    Job(workspace, SLURM_JOB_ID="1").stop()
    late = Job(workspace, SLURM_JOB_ID="2", SLURM_RESTART_COUNT="1")
    wait_until(lambda: "which of 2 runs it goes on with is not known" in caplog.text, 20)
    late.stop()
    assert not list(workspace.glob(".tic/spool/*"))


def test_the_only_run_needs_no_record_of_the_start_before(workspace: Path) -> None:
    write(workspace, "rank_0.err", RECORD.format(run="r", step=1, second=1) + FAULT)
    daemon = Job(workspace, SLURM_JOB_ID="2", SLURM_RESTART_COUNT="1")
    write(workspace, "new/rank_0.err", RECORD.format(run="r", step=2, second=9))
    wait_until(lambda: bool(list(workspace.glob(".tic/spool/*"))), 20)
    daemon.stop()
    assert ask(store(workspace), STANDS) == [(1, 1, "suspect"), (2, 2, "admissible")]


def test_daemons_of_several_nodes_declare_once_and_cut_their_own_logs(workspace: Path) -> None:
    """Each sees its own directory alone. Node b is not part of the restart, and c is new to the job.

    Both faults act on the first attempt everywhere, and the order of lines on two nodes is not known without stamps.
    """

    def node(host: str, **environ: str) -> Job:
        (workspace / host).mkdir(exist_ok=True)
        return Job(workspace / host, host, state=workspace / ".tic", **{"SLURM_JOB_ID": "8", **environ})

    first = [node("a"), node("b")]
    write(workspace, "a/old/rank_0.err", RECORD.format(run="r", step=1, second=1) + FAULT)
    write(workspace, "b/old/rank_1.err", RECORD.format(run="r", step=1, second=1) + FAULT.replace("rank0", "rank1"))
    for job in first:
        job.stop()
    second = [node("c", SLURM_RESTART_COUNT="1"), node("a", SLURM_RESTART_COUNT="1")]
    for host in "ac":
        write(workspace, f"{host}/new/rank_0.err", RECORD.format(run="r", step=2, second=30))
    for job in second:
        job.stop()
    for host, stands in (("a", [(1, 1, "locked"), (2, 2, "admissible")]), ("c", [(2, 2, "admissible")])):
        assert ask(store(workspace, host), STANDS) == stands, host
        assert ask(store(workspace, host), "SELECT count(*), count(DISTINCT id) FROM run_attempt") == [(1, 1)]
        cuts = ask(store(workspace, host), "SELECT count(*), count(DISTINCT source_id) FROM attempt_cut")
        assert cuts == [(1, 1)], "one source was there before, on a"
    # When the store of b is opened again, for another job, its old logs stay old.
    later = node("b", SLURM_JOB_ID="9")
    write(workspace, "b/newer/rank_1.err", RECORD.format(run="r", step=3, second=40))
    later.stop()
    assert ask(store(workspace, "b"), STANDS) == [(1, 1, "locked"), (2, 3, "admissible")]


@pytest.mark.slow
def test_a_run_that_another_live_job_sees_is_left_to_a_person(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(workspace, "rank_0.err", RECORD.format(run="r", step=1, second=1))
    other = Job(workspace, "b", SLURM_JOB_ID="1")
    first = Job(workspace, "a", SLURM_JOB_ID="2")
    write(workspace, "rank_0.err", RECORD.format(run="r", step=2, second=2))
    (theirs,) = workspace.glob(".tic/b-*/jobs.json")
    wait_until(lambda: json.loads(theirs.read_text())["starts"][0]["runs"] == ["r"], 20)
    first.stop()
    Job(workspace, "a", SLURM_JOB_ID="2", SLURM_RESTART_COUNT="1").stop()
    other.stop()
    assert "another job's daemon sees r as well" in caplog.text
    assert not list(workspace.glob(".tic/spool/*"))


def test_restarts_of_torchrun(workspace: Path) -> None:
    """Read in one go after the end, and told by the directories alone."""
    write(workspace, "t/none_aa/attempt_0/0/stderr.log", RECORD.format(run="r", step=1, second=1) + FAULT)
    write(workspace, "t/none_aa/attempt_1/0/stderr.log", RECORD.format(run="r", step=2, second=20))
    write(workspace, "t/none_aa/attempt_2/0/stderr.log", FAULT + RECORD.format(run="r", step=3, second=40))
    write(workspace, "t/none_aa/attempt_3/0/stderr.log", RECORD.format(run="r", step=4, second=50))
    write(workspace, "t/x_bb/attempt_1/0/stderr.log", RECORD.format(run="other", step=9, second=1))
    for _ in range(2):
        here("watch", "--once", workspace)
        assert ask(next(workspace.glob(".tic/*/tic.duckdb")), STANDS) == [
            (1, 1, "suspect"), (2, 2, "admissible"), (3, 3, "locked"), (4, 4, "admissible"), (1, 9, "admissible"),
        ]  # fmt: skip
    assert here("check", "r", "--at", workspace).returncode == 0


def test_a_spool_that_hangs_delays_no_log(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state directory is shared; its server may be away while a node's own logs grow."""
    write(workspace, "rank_0.err", RECORD.format(run="r", step=1, second=1))
    daemon = Job(workspace, SLURM_JOB_ID="1")
    path = store(workspace)
    files, back = spool._files, threading.Event()

    def hanging(directory: Path) -> Iterator[tuple[Path, int]]:
        back.wait(60)
        return files(directory)

    monkeypatch.setattr(spool, "_files", hanging)
    spool.Spool.at(workspace).mark("r", reason="tokenizer")
    wal = path.with_name(path.name + ".wal")
    try:
        time.sleep(1.0)  # a look hangs by now
        size = wal.stat().st_size
        write(workspace, "rank_0.err", RECORD.format(run="r", step=2, second=2))
        wait_until(lambda: wal.stat().st_size > size, 20)
        assert not back.is_set()
    finally:
        back.set()
    daemon.stop()
    assert ask(path, "SELECT count(*), (SELECT count(*) FROM marks) FROM mismatches") == [(2, 1)]


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        for address in (str(tmp_path / "s"), f"@tic-test-{os.getpid()}"):
            receiver = listener if address[0] == "/" else socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            receiver.bind(address if address[0] == "/" else f"\0{address[1:]}")
            receiver.settimeout(5)
            monkeypatch.setenv("NOTIFY_SOCKET", address)
            readiness.tell(tmp_path / "ready")
            assert receiver.recv(100) == b"READY=1"
            receiver.close()
    assert (tmp_path / "ready").read_text() == f"{os.getpid()}\n"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    readiness.tell(None)
