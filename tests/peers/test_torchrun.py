"""A real torchrun with four ranks over gloo, its log directory and its console with --tee, read by a real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("torchrun_job.py")


def test_one_rank_of_four_fails(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-all installs the extra `peers`")
    logs = tmp_path / "logs"
    logs.mkdir()
    console = logs / "console.log"
    watcher = Watcher(tmp_path / "state", logs)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--tee", "3"]
    try:
        watcher.start()
        with console.open("wb") as out:
            done = subprocess.run(
                [*command, "--log-dir", str(logs / "ranks"), str(JOB)], stdout=out, stderr=out, timeout=600, check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
    finally:
        watcher.stop()
    said = console.read_text(errors="replace")
    assert done.returncode == 1, said
    assert "Root Cause" in said
    store = watcher.store()

    locking = "SELECT rank, kind, severity, path LIKE '%/attempt_0/2/stderr.log' FROM faults WHERE locks"
    assert ask(store, locking) == [(2, "cuda.illegal_address", "L", True)]
    copies = ask(
        store,
        "SELECT c.rank, o.rank, c.kind = o.kind FROM faults c JOIN faults o ON o.rec_id = c.echo_of"
        " WHERE c.path LIKE '%console.log' AND c.kind = 'cuda.illegal_address'",
    )
    assert copies == [(2, 2, True)]
    first = "SELECT a.locked, f.rank, f.severity FROM attempts a JOIN faults f ON f.rec_id = a.first_fault_rec_id"
    assert ask(store, first) == [(True, 2, "L")]
    launcher = ask(
        store,
        "SELECT DISTINCT severity, incident = (SELECT first_fault_rec_id FROM attempts) FROM faults"
        " WHERE path LIKE '%console.log' AND kind LIKE 'proc.torchrun%' AND severity <> 'I'",
    )
    assert launcher == [("S", True)], said
    assert ask(store, "SELECT count(DISTINCT incident) FROM faults WHERE verdict = 'confirmed'") == [(1,)]
    # The ranks that lost a peer are witnesses, each once, however often the line stands in files and on the console.
    lost = "SELECT DISTINCT rank FROM faults WHERE kind = 'nccl.gloo_closed' AND echo_of IS NULL AND witness_of IS NOT NULL"
    seen = {rank for (rank,) in ask(store, lost)}
    assert seen <= {0, 1, 3}
    assert ask(store, "SELECT max(witnesses) FROM faults") == [(len(seen) + 1,)]  # and the launcher
