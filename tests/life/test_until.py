"""A daemon that ends by itself: with processes that are real, and a Slurm that is played."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, environment, tic, wait_until
from tests.life.fakes import NO_ACCOUNTING, NOTHING, UNKNOWN, UNREACHABLE, Programs
from tic_daemon import until
from tic_daemon.ending import Ending
from tic_daemon.errors import ConfigError
from tic_daemon.slurm import Job, Judge, Seen
from tic_daemon.until import JobOver, PidGone

RECORD = "[mismatch] run=r step={} metric=kl_k3 value=0.5\n"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    (tmp_path / "programs").mkdir()
    programs = Programs(tmp_path / "programs", "squeue", "sacct")
    monkeypatch.setenv("PATH", programs.path)
    monkeypatch.setattr(until, "ASK_S", 0.02)
    return programs


# What each answer means, from Slurm's manual pages and from Slurm 22.05 itself.
LOOKS = [
    ((0, "RUNNING\n", ""), NOTHING, "alive"),
    ((0, "PENDING\n", ""), NOTHING, "alive"),  # also after a requeue
    ((0, "COMPLETING\n", ""), NOTHING, "alive"),
    ((0, "SPECIAL_EXIT\n", ""), NOTHING, "alive"),
    ((0, "COMPLETED\nRUNNING\n", ""), NOTHING, "alive"),  # an array, half done
    ((0, "CLUSTER: tic\nRUNNING\n", ""), NOTHING, "alive"),
    ((0, "COMPLETED\n", ""), NOTHING, "over"),
    ((0, "FAILED\nTIMEOUT\n", ""), NOTHING, "over"),
    (UNKNOWN, (0, "CANCELLED by 1000\n", ""), "gone"),
    (NOTHING, (0, "COMPLETED\n", ""), "gone"),
    (UNKNOWN, NO_ACCOUNTING, "unaccounted"),
    (UNKNOWN, NOTHING, "unaccounted"),
    (UNKNOWN, (0, "RUNNING\n", ""), "contradicted"),
    (UNREACHABLE, (0, "COMPLETED\n", ""), "unreachable"),
    ((1, "", "slurm_load_jobs error: Socket timed out on send/recv operation"), NOTHING, "unreachable"),
]


@pytest.mark.parametrize(("squeue", "sacct", "kind"), LOOKS)
def test_what_slurm_says_of_a_job(
    slurm: Programs, squeue: tuple[int, str, str], sacct: tuple[int, str, str], kind: str
) -> None:
    slurm.answer("squeue", *squeue)
    slurm.answer("sacct", *sacct)
    assert Job("4711").look().kind == kind
    assert slurm.calls("squeue") == ["squeue -h -t all -j 4711 -o %T"]


def test_filters_of_the_user_do_not_hide_the_job(slurm: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    (slurm.bin / "squeue").write_text('#!/bin/sh\necho "${SQUEUE_USERS-RUNNING}"\n')
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    assert Job("1").look().detail == "RUNNING"


def test_a_squeue_that_hangs_is_not_waited_for(slurm: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    (slurm.bin / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("tic_daemon.slurm.TIMEOUT_S", 0.2)
    assert Job("1").look() == Seen("unreachable", "squeue did not answer within 0.2 s")


@pytest.mark.parametrize(
    ("kinds", "over"),
    [
        (["over"], False), (["over", "over"], True), (["gone", "alive", "gone"], False), (["gone", "gone"], True),
        (["gone", "unreachable", "gone"], False), (["unreachable"] * 1000, False), (["alive"] * 1000, False),
        (["unaccounted"] * 3, False), (["unaccounted"] * 4, True),
        (["contradicted"] * 29, False), (["contradicted"] * 30, True),
    ],
)  # fmt: skip
def test_how_many_looks_make_an_end(kinds: list[str], over: bool) -> None:
    judge = Judge()
    found = [judge.over(Seen(kind, "")) for kind in kinds]  # type: ignore[arg-type]
    assert found[-1] is over and not any(found[:-1])


@pytest.mark.parametrize("job_id", ["", "-1", "4711;rm -rf /", "--help", "a", "1_2_3", "1\n", "\u0661", "1" * 11])
def test_what_is_no_job_id(job_id: str) -> None:
    with pytest.raises(ConfigError, match="no Slurm job id"):
        Job(job_id)


def test_a_job_that_slurm_does_not_know(slurm: Programs) -> None:
    slurm.answer("squeue", *UNKNOWN)
    slurm.answer("sacct", *NO_ACCOUNTING)
    with pytest.raises(ConfigError, match="does not know the job 4711"):
        JobOver("4711")
    (slurm.bin / "squeue").unlink()
    if not any((Path(place) / "squeue").exists() for place in slurm.path.split(":")[1:]):
        with pytest.raises(ConfigError, match="squeue cannot be run"):
            JobOver("4711")


def test_a_job_from_start_to_end_with_a_controller_that_goes_away(slurm: Programs) -> None:
    slurm.answer("squeue", 0, "RUNNING\n")
    ending = Ending()
    until.watch([JobOver("4711_3")], ending, linger_s=0.0)
    for answer in ((0, "COMPLETING\n", ""), UNREACHABLE, (0, "PENDING\n", "")):
        slurm.answer("squeue", *answer)
        before = len(slurm.calls("squeue"))
        wait_until(lambda b=before: len(slurm.calls("squeue")) > b + 3, 10)
        assert not ending.requested, answer
    slurm.answer("sacct", 0, "COMPLETED\n")
    slurm.answer("squeue", *UNKNOWN)
    wait_until(lambda: ending.requested, 10)
    assert ending.why == "job 4711_3 is over: COMPLETED"


def test_a_process_and_the_one_that_gets_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pidfd: the same number with another start is another process."""
    monkeypatch.delattr("os.pidfd_open")
    child = subprocess.Popen(["sleep", "60"])
    try:
        condition = PidGone(child.pid)
        assert not condition._gone()
        monkeypatch.setattr(until, "process_start", lambda pid: "12345678901")
        assert condition._gone()
        monkeypatch.undo()
        child.kill()
        wait_until(condition._gone, 10, lambda: "a zombie has ended")
    finally:
        child.kill()
        child.wait()
    assert condition.wait(Ending()) == f"process {child.pid} has ended"


def test_pids_that_are_none(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    done = tic("watch", tmp_path, "--until-pid", str(child.pid), check=False)
    assert done.returncode == 2 and f"{child.pid}: no such process" in done.stderr
    assert tic("watch", tmp_path, "--until-pid=0", check=False).returncode == 2
    assert "do not go with it" in tic("watch", "--once", tmp_path, "--until-pid=1", check=False).stderr
    assert not list(tmp_path.glob(".tic/*")), "nothing was made"


def test_the_daemon_ends_with_the_processes_and_reads_their_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    writing = f"import time; log = open({str(log)!r}, 'a'); time.sleep(3); log.write({RECORD.format(2)[:-1]!r})"
    log.write_text(RECORD.format(1))
    short, long = subprocess.Popen(["sleep", "0.2"]), subprocess.Popen([sys.executable, "-c", writing])
    options = ("--until-pid", str(short.pid), "--until-pid", str(long.pid), "--linger", "0.5")
    watcher = Watcher(tmp_path / ".tic", tmp_path, options=options)
    watcher.start()
    assert watcher.process is not None
    short.wait()
    long.wait()
    assert watcher.process.wait(30) == 0, watcher.log()
    assert f"process {long.pid} has ended" in watcher.log()
    assert ask(watcher.store(), "SELECT step FROM mismatches ORDER BY step") == [(1,), (2,)]


def test_the_daemon_ends_with_the_job_it_runs_in(tmp_path: Path, slurm: Programs) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    slurm.answer("squeue", 0, "RUNNING\n")
    script = (
        "import sys\nfrom tic_daemon import until\nuntil.ASK_S = 0.1\nfrom tic_daemon.cli import entry\n"
        f"sys.argv = ['tic-daemon', 'watch', {str(logs)!r}, '--linger', '1', '--until-job']\nentry()\n"
    )
    env = {**environment(), "SLURM_JOB_ID": "815"}
    daemon = subprocess.Popen([sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(logs.glob(".tic/*/daemon.json")), 30)
    slurm.answer("squeue", 0, "COMPLETED\n")
    asked = len(slurm.calls("squeue -h -t all -j 815"))
    wait_until(lambda: len(slurm.calls("squeue -h -t all -j 815")) >= asked + 2, 20)
    (logs / "other-node.log").write_text(RECORD.format(7))  # while it lingers
    began = time.monotonic()
    _, said = daemon.communicate(timeout=30)
    assert daemon.returncode == 0 and "job 815 is over: COMPLETED" in said, said
    assert time.monotonic() - began < 15
    (store,) = logs.glob(".tic/*/tic.duckdb")
    assert ask(store, "SELECT step FROM mismatches") == [(7,)]
