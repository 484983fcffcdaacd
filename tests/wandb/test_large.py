"""What a reading of 10,000 steps with 200 keys costs: the child, the client's own process, and who hears them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.e2e.harness import environment
from tests.wandb.test_hanging import below
from tests.wandb_server import WandbServer
from tic_daemon.wandb.reading import ReadingChild
from tic_daemon.wandb.target import Intake, Named, Target
from tic_daemon.wandb.wire import Asked

pytestmark = pytest.mark.slow
pytest.importorskip("wandb", reason="the W&B client is not installed")

STEPS, KEYS = 10_000, 200


def resident(pid: int) -> int:
    """Resident set in MB; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError):
        return 0


def cpu_s(pid: int) -> float:
    """CPU seconds so far; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_large_history_is_read_within_its_bounds(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.wandb_server", str(STEPS), str(KEYS)],
        env=environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        environ = {**os.environ, **WandbServer().env(tmp_path), "WANDB_BASE_URL": url}
        values = 0

        def count(delta: object) -> None:
            nonlocal values
            values += sum(event.keys for event in delta.events if event.table == "wandb_row")  # type: ignore[attr-defined]

        target = Target(Named("lab/grpo/large", "/ws"), "node1")
        intake = Intake(target, count, 0)
        most, spent, over = 0, 0.0, threading.Event()
        before, began = resident(os.getpid()), cpu_s(os.getpid())

        def watch(pids: set[int]) -> None:
            nonlocal most, spent
            while not over.wait(0.1):
                most = max(most, sum(map(resident, pids)))
                spent = max(spent, sum(map(cpu_s, pids)))

        with ReadingChild(environ) as child:
            messages = child.read(Asked("lab/grpo/large", budget_s=250.0), 250.0)
            intake.take(next(messages))  # its client is up
            thread = threading.Thread(target=watch, args=({child.pid, *below(child.pid)},))
            thread.start()
            for message in messages:
                intake.take(message)
            over.set()
            thread.join()
        done = intake.done
        assert done.outcome == "ok" and str(done.reading.seen) == "0-9999"
        assert values == STEPS * (KEYS + 1), "every key, and the time of the row"
        own = resident(os.getpid()) - before
        print(
            f"child and core: {most} MB, {spent:.1f} s of CPU; hearing them: {own} MB, {cpu_s(os.getpid()) - began:.1f} s"
        )
        assert most < 220, "the page is bounded, not the history"
        assert own < 80
        assert spent + cpu_s(os.getpid()) - began < 60
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
