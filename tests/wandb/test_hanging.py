"""A W&B server that hangs holds up neither the logs nor the end of the daemon; the child is ended with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests import needs
from tests.e2e.harness import environment, wait_until
from tests.wandb.conftest import RealLogs
from tests.wandb_server import Fault, Hang, WandbServer
from tic_daemon.store.reader import open_reader
from tic_daemon.wandb.process_tree import end_tree
from tic_daemon.wandb.reading import ReadFailed, ReadingChild
from tic_daemon.wandb.wire import Asked

needs.wandb_client()


def below(pid: int) -> set[int]:
    """Processes that `pid` started, and those that they did."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.splitlines())}
    found, new = set(), {pid}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in found} - found
    return found - {pid}


def gone(pids: set[int]) -> bool:
    """Whether none of them runs any more."""
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            return False
    return True


def test_the_child_and_its_core_end_at_the_deadline(tmp_path: Path) -> None:
    with WandbServer() as server:
        server.add_run("lab/grpo/a", [{"_step": n} for n in range(5)])
        server.faults.append(Fault("HistoryPage", Hang()))
        child = ReadingChild({**os.environ, **server.env(tmp_path)})
        messages = child.read(Asked("lab/grpo/a"), deadline_s=60.0)
        next(messages)
        started = below(child.pid)
        assert len(started) >= 1, "wandb-core is in a session of its own"
        wait_until(lambda: bool(server.asked("HistoryPage")), 30, lambda: "no page was asked for")
        messages.close()
        wait_until(lambda: gone(started | {child.pid}), 10, lambda: "something is left")
        with ReadingChild({**os.environ, **server.env(tmp_path)}) as child:
            began = time.monotonic()
            with pytest.raises(ReadFailed) as failed:
                list(child.read(Asked("lab/grpo/a"), deadline_s=3.0))
            assert failed.value.outcome == "timeout" and time.monotonic() - began > 2.9
            assert not child.alive


def test_a_tree_is_ended_whatever_session_its_parts_are_in() -> None:
    script = (
        "import subprocess, sys, time; subprocess.Popen(['setsid', 'sleep', '100']);"
        "print('up', flush=True); time.sleep(100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None and parent.stdout.readline() == b"up\n"
    started = below(parent.pid)
    assert started
    end_tree(parent.pid)
    assert parent.wait(10) == -signal.SIGKILL
    wait_until(lambda: gone(started), 10, lambda: "something is left")
    parent.stdout.close()


def test_logs_are_followed_while_the_server_hangs(tmp_path: Path) -> None:
    """And when the daemon is killed, nothing of the reading is left."""
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    log = work / "trainer.log"
    log.write_text("start\n")
    (work / "tic.toml").write_text(
        '[store]\nsnapshot_s = 1\n[wandb]\nevery_s = 1\n[[wandb_run]]\npath = "lab/grpo/a"\n'
    )
    with WandbServer() as server:
        server.add_run("lab/grpo/a", [{"_step": n} for n in range(5)])
        server.faults.append(Fault("HistoryPage", Hang()))
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tic_daemon", "watch", str(work)],
            env={**environment(), **server.env(tmp_path / "home"), "TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: bool(server.asked("HistoryPage")), 60, lambda: "it does not read")
            started = below(daemon.pid)
            assert started
            with log.open("a") as file:
                file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")

            def seen() -> bool:
                reader = open_reader(str(work))
                try:
                    return bool(reader.query("SELECT 1 FROM faults").rows)
                finally:
                    reader.close()

            wait_until(seen, 20, lambda: "the line did not come through")  # the server hangs for ever
        finally:
            daemon.kill()
            daemon.wait()
        wait_until(lambda: gone(started), 10, lambda: "a child outlived its daemon")
        wait_until(lambda: not list(temporary.glob("tic-wandb-*")), 10, lambda: "its directory is left")


@pytest.mark.slow
def test_a_server_that_hangs_for_long_holds_up_nothing_else(tmp_path: Path, real_logs: RealLogs) -> None:
    """Deadlines of seconds stand for ten minutes: reading after reading ends at its own, and all else goes on."""
    work = tmp_path / "work"
    directory = work / "wandb" / real_logs.killed.parent.name.replace("offline-run", "run")
    directory.mkdir(parents=True)
    log, history = work / "trainer.log", directory / real_logs.killed.name
    log.write_text("start\n")
    whole = real_logs.killed.read_bytes()
    history.write_bytes(whole[: len(whole) // 2])
    (work / "tic.toml").write_text(
        '[store]\nsnapshot_s = 1\n[wandb]\nevery_s = 1\ndeadline_s = 2\n[[wandb_run]]\npath = "lab/grpo/a"\n'
    )
    with WandbServer() as server:
        server.add_run("lab/grpo/a", [{"_step": n} for n in range(5)])
        server.faults.append(Fault("*", Hang()))
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tic_daemon", "watch", str(work)],
            env={**environment(), **server.env(tmp_path / "home")}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: bool(list(work.glob(".tic/*/daemon.json"))), 60, lambda: "it does not start")
            reader = open_reader(str(work))

            def ask(sql: str) -> list[tuple[object, ...]]:
                return [tuple(row) for row in reader.query(sql).rows]

            def holds(what: str, at_least: int) -> bool:
                return int(str(ask(f"SELECT count(*) FROM {what}")[0][0])) >= at_least

            ended = "wandb_reads WHERE outcome = 'timeout'"
            steps = "step_coverage WHERE source = 'wandb_local'"
            wait_until(partial(holds, ended, 1), 60, lambda: "no reading ended at its deadline")
            before = int(str(ask(f"SELECT count(*) FROM {steps}")[0][0]))
            for number in (1, 2):
                with log.open("a") as file:
                    file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
                wait_until(partial(holds, "faults", number), 20, lambda: "a line did not come through")
            history.write_bytes(whole)
            wait_until(partial(holds, steps, before + 1), 60, lambda: "the local log is not followed")
            wait_until(partial(holds, ended, 3), 90, lambda: "it is not read again")
            assert ask("SELECT DISTINCT outcome FROM wandb_reads") == [("timeout",)]
            assert ask("SELECT DISTINCT confirmed FROM wandb_gaps") == [(False,)]
            reader.close()
            began = time.monotonic()
            daemon.terminate()
            assert daemon.wait(60) == 0 and time.monotonic() - began < 30
        finally:
            daemon.kill()
            daemon.wait()
