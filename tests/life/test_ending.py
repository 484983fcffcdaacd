"""The end of a daemon: real processes, with one thing broken in each, and the clock of `Ending` by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, environment, here, wait_until
from tic_daemon import ending as ending_module
from tic_daemon.ending import BUDGET_S, CUT_SHORT, HURRY_S, OWN_BUDGET_S, STORM_S, Ending
from tic_daemon.store.reader import open_reader

RECORD = "[mismatch] run=r step={} metric=kl_k3 value=0.5\n"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_signals_of_one_storm_are_one_and_a_later_one_hurries() -> None:
    clock = Clock()
    ending = Ending(clock=clock)
    assert not ending.requested and ending.left() == float("inf")
    for _ in range(50):
        ending.signalled(signal.SIGTERM)
        clock.now += STORM_S / 100
    assert ending.requested and not ending.hurried and ending.why == "SIGTERM"
    assert ending.deadline == 100.0 + BUDGET_S
    clock.now = 100.0 + STORM_S
    ending.signalled(signal.SIGINT)
    assert ending.hurried and ending.left() == 0
    assert ending.deadline == 100.0 + BUDGET_S, "not before all that was read is committed"
    ending.keep()
    assert ending.deadline == clock.now + HURRY_S and ending.exit_code == 0


def test_a_signal_shortens_an_end_of_its_own() -> None:
    clock = Clock()
    ending = Ending(clock=clock)
    ending.request("process 7 is gone")
    assert ending.deadline == 100.0 + OWN_BUDGET_S
    clock.now += 5
    ending.signalled(signal.SIGTERM)
    assert (ending.deadline, ending.why, ending.hurried) == (105.0 + BUDGET_S, "process 7 is gone", False)
    ending.request("again")
    assert ending.deadline == 105.0 + BUDGET_S


def test_the_budget_is_within_what_schedulers_give() -> None:
    assert BUDGET_S + 2 <= 20


def start(tmp_path: Path, patch: str, *, budget_s: float = 6.0, reserve: float = 0.1) -> subprocess.Popen[str]:
    """`tic-daemon watch tmp_path` with something broken by `patch`, and a shorter budget."""
    script = f"""
import sys, time, threading
from tic_daemon import ending, live, watch
from tic_daemon.store import layout, writer
ending.BUDGET_S = {budget_s}
watch.SWEEP_RESERVE_S, watch.COMMIT_RESERVE_S = {budget_s} * 0.3, {budget_s} * {reserve}
{patch}
from tic_daemon.cli import entry
from tic_daemon.store.reader import open_reader
sys.argv = ["tic-daemon", "watch", {str(tmp_path)!r}]
entry()
"""
    return subprocess.Popen([sys.executable, "-c", script], env=environment(), stderr=subprocess.PIPE, text=True)


def until_up(process: subprocess.Popen[str], tmp_path: Path) -> None:
    wait_until(lambda: process.poll() is not None or any(tmp_path.glob(".tic/*/daemon.json")), 30)
    assert process.poll() is None, process.communicate()


def ended(process: subprocess.Popen[str], within: float) -> tuple[int, str, float]:
    began = time.monotonic()
    _, said = process.communicate(timeout=within)
    return process.returncode, said, time.monotonic() - began


def records(tmp_path: Path) -> int:
    (store,) = tmp_path.glob(".tic/*/tic.duckdb")
    return int(str(ask(store, "SELECT count(*) FROM mismatches")[0][0]))


HANGS = {
    "publish": "writer.StoreLayout.publish_whole = lambda self, deadline: time.sleep(600)",
    "endpoint": "live.LiveServer.stop = lambda self: time.sleep(600)",
}


@pytest.mark.parametrize("what", HANGS)
def test_what_hangs_after_the_commit_is_left(tmp_path: Path, what: str) -> None:
    log = tmp_path / "worker.log"
    log.write_text(RECORD.format(1))
    process = start(tmp_path, HANGS[what], budget_s=6.0)
    until_up(process, tmp_path)
    with log.open("a") as more:
        more.write(RECORD.format(2) + RECORD.format(3).rstrip("\n"))
    process.terminate()
    code, said, took = ended(process, 30)
    assert code == 0 and "nothing that was read is lost" in said, said
    assert took < 20
    assert records(tmp_path) == 3, "the unterminated last line counts as well"


STUCK = {
    "reading": (  # in C, as open() of a dead server: no handler of Python's runs there
        "import ctypes\nwatch.FileFollower.hasten = lambda self: ctypes.CDLL(None).sleep(600) or time.sleep(600)"
    ),
    "commit": (
        "real = writer.Writer.commit\n"
        "writer.Writer.commit = lambda self, *a, **k: time.sleep(600) if guard.is_set() else real(self, *a, **k)\n"
        "guard = threading.Event()\n"
        "asked = ending.Ending.signalled\n"
        "ending.Ending.signalled = lambda self, n, **k: (guard.set(), asked(self, n, **k))"
    ),
}


@pytest.mark.parametrize("what", STUCK)
def test_what_hangs_before_the_commit_is_left_too(tmp_path: Path, what: str) -> None:
    (tmp_path / "worker.log").write_text(RECORD.format(1))
    process = start(tmp_path, STUCK[what], budget_s=2.0)
    until_up(process, tmp_path)
    process.send_signal(signal.SIGHUP)
    code, said, took = ended(process, 30)
    assert code == CUT_SHORT and "SIGHUP: left while" in said and "read again" in said, said
    assert took < 15
    assert here("watch", "--once", tmp_path).returncode == 0
    assert records(tmp_path) == 1


def test_a_log_that_nobody_reads_keeps_no_daemon(tmp_path: Path) -> None:
    """Its standard error is a pipe that is full: whoever logs waits for ever."""
    process = start(tmp_path, "writer.StoreLayout.publish_whole = lambda self, deadline: time.sleep(600)", budget_s=2.0)
    until_up(process, tmp_path)
    assert process.stderr is not None
    fd = process.stderr.fileno()
    filler = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, b"x" * 4096)
    except BlockingIOError:
        pass
    finally:
        os.close(filler)
    process.terminate()
    assert process.wait(20) in (0, CUT_SHORT)
    os.set_blocking(fd, False)


def test_a_storm_of_signals_ends_well(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(RECORD.format(1) * 2000)
    watcher = Watcher(tmp_path / ".tic", tmp_path)
    watcher.start()
    process = watcher.process
    assert process is not None
    until = time.monotonic() + STORM_S / 2
    while process.poll() is None and time.monotonic() < until:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
    assert process.wait(30) == 0, watcher.log()
    assert records(tmp_path) == 2000
    assert "Traceback" not in watcher.log()
    assert not list(tmp_path.glob(".tic/*/owner.json")), "ownership is given up"


def test_a_second_signal_leaves_the_backlog_for_later(tmp_path: Path) -> None:
    with (tmp_path / "worker.log").open("w") as log:
        for number in range(200):
            log.write(RECORD.format(number))
    slow = (
        "real = watch.FileFollower.poll\n"
        "watch.FileFollower.poll = lambda self, budget, now: (time.sleep(0.2), real(self, 60, now))[1]"
    )
    process = start(tmp_path, slow, budget_s=60.0)
    until_up(process, tmp_path)
    reader = open_reader(tmp_path)
    wait_until(lambda: reader.query("SELECT count(*) FROM mismatches").rows[0][0] > 0, 20)
    reader.close()
    process.terminate()
    time.sleep(STORM_S + 0.3)
    assert process.poll() is None, "it reads on"
    process.terminate()
    code, said, took = ended(process, 30)
    assert code == 0 and took < 15, said
    assert "left out: 1 logs are not read to their ends" in said, said
    assert 0 < records(tmp_path) < 200
    assert here("watch", "--once", tmp_path).returncode == 0
    assert records(tmp_path) == 200


def test_no_space_at_the_end_is_given_up_in_time(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text(RECORD.format(1))
    full = (
        "def full(self, *a, **k):\n"
        "    if a[0]: raise writer.StoreFull('no space left', 'free some')\n"
        "    return 0\n"
        "writer.Writer.commit = full\n"
    )
    process = start(tmp_path, full, budget_s=5.0, reserve=0.5)
    until_up(process, tmp_path)
    process.terminate()
    code, said, took = ended(process, 30)
    assert code == CUT_SHORT and "gave up committing" in said, said
    assert took < 15
    assert here("watch", "--once", tmp_path).returncode == 0
    assert records(tmp_path) == 1


@pytest.mark.parametrize("daemon", [False, True])
def test_threads_that_wait_for_ever_keep_no_process(daemon: bool) -> None:
    script = (
        "import atexit, os, threading, time\n"
        "from tic_daemon.ending import leave_stuck_threads\n"
        "atexit.register(os._exit, 99)  # the interpreter's own end has begun\n"
        f"threading.Thread(target=time.sleep, args=(600,), daemon={daemon}).start()\n"
        "print('said', flush=False)\n"
        "leave_stuck_threads(7, 0.2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (7, "said\n")


@pytest.mark.parametrize("package", ["tic_daemon", "tic_tui"])
def test_no_command_ends_round_a_thread_that_runs(package: str) -> None:
    script = (
        f"import atexit, os, threading, time\nfrom {package} import cli\n"
        "atexit.register(os._exit, 99)  # the interpreter's own end has begun\n"
        "def main():\n"
        "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "    print('said', flush=False)\n"
        "    return 7\n"
        "cli.main = main\n"
        "cli.entry()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (7, "said\n")


def test_handlers_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    with ending_module.signals() as ending:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: ending.requested, 5)
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1
