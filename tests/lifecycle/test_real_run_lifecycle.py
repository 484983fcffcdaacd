"""The lifecycle of the real run, complete: each change with its line, as a person reads it in the log."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.harness import ROOT, ask
from tic_daemon.cli import main

LOG = ROOT / "tests" / "corpus" / "real_run" / "worker_raw.log"
BEGIN = [("new_process", 21), ("cold_load", 46), ("reloading", 69)]
RELOADED = (76, 93, 109, 124, 140, 155, 170, 185, 201, 216, 231, 246)
"""Lines of "Reloading and processing weights took"; "Reloading weights inplace..." is printed once, and a reset follows each."""


def test_every_phase_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "worker_raw.log").write_bytes(LOG.read_bytes())
    assert main(["watch", "--once", str(tmp_path)]) in (0, 12)
    (store,) = tmp_path.glob(".tic/*/tic.duckdb")
    want = [*BEGIN, *(change for line in RELOADED for change in (("reloaded", line), ("reset", line + 1)))]
    rows = ask(store, "SELECT phase, line_no, legal FROM weight_lifecycle ORDER BY line_no, rec_id")
    assert [(str(phase), line) for phase, line, _ in rows] == want
    assert all(legal for _, _, legal in rows)
    assert ask(store, "SELECT count(*) FROM lifecycle_findings") == [(0,)]
