"""A real Ray cluster: its session's logs and the driver's console, both read by a real daemon while they grow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.e2e.harness import Watcher, ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("ray_job.py")


@pytest.fixture
def session() -> Iterator[Path]:
    """A short path: Ray's sockets lie in it."""
    pytest.importorskip("ray", reason="Ray is not installed: make test-all installs the extra `peers`")
    directory = Path(tempfile.mkdtemp(prefix="tic-ray-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_one_actor_of_three_fails(session: Path, tmp_path: Path) -> None:
    console = session / "driver.log"
    watcher = Watcher(tmp_path / "state", session)
    watcher.start()
    try:
        with console.open("wb") as out:
            done = subprocess.run(
                [sys.executable, str(JOB), str(session / "ray")], stdout=out, stderr=out, timeout=600, check=False,
                env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)},
            )  # fmt: skip
        said = console.read_text(errors="replace")
        assert done.returncode == 0, said
    finally:
        watcher.stop()
    store = watcher.store()
    pids = [int(pid) for pid in next(line for line in said.splitlines() if line.startswith("workers")).split()[1:]]

    own = ask(
        store,
        "SELECT pid, rank, locks, echo_of FROM faults WHERE kind = 'cuda.illegal_address' AND path LIKE '%.err'",
    )
    assert own == [(pids[1], 1, True, None)]
    copies = ask(
        store,
        "SELECT DISTINCT c.pid, c.rank, c.locks, o.pid, o.path LIKE '%.err' FROM faults c JOIN faults o ON o.rec_id = c.echo_of"
        " WHERE c.path LIKE '%driver.log' AND c.kind = 'cuda.illegal_address'",
    )
    assert copies == [(pids[1], 1, False, pids[1], True)]
    deaths = ask(store, "SELECT count(*) FROM faults WHERE starts_with(kind, 'proc.ray_') AND verdict = 'confirmed'")
    assert deaths[0][0] >= 1, said
    assert ask(store, "SELECT count(DISTINCT incident) FROM faults WHERE verdict = 'confirmed'") == [(1,)]
    first = (
        "SELECT a.locked, f.rank, f.pid, f.severity FROM attempts a JOIN faults f ON f.rec_id = a.first_fault_rec_id"
    )
    assert ask(store, first) == [(True, 1, pids[1], "L")]
    assert ask(store, "SELECT max(step) FROM steps") == [(5,)]

    with duckdb.connect(str(store), read_only=True) as con:
        ((run, worker_at, console_at),) = con.execute("SELECT run_id, worker_at, console_at FROM liveness").fetchall()
        assert worker_at > console_at  # the console was closed, and the workers went on
        con.execute("SET VARIABLE now = ?::TIMESTAMP + INTERVAL 59 SECOND", [worker_at])
        (verdict,) = con.execute("SELECT verdict FROM liveness WHERE run_id = ?", [run]).fetchone() or ("none",)
        assert verdict == "console only silent"
