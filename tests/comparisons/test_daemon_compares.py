"""Comparisons through the real daemon: kills of it and of its worker, a later change, a mark, exit codes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from pathlib import Path

from tests.comparisons.dumps import OTHER, SIDE, dump, step
from tests.e2e.harness import Watcher, ask, here, wait_until
from tic_daemon.store.check import check
from tic_daemon.store.reader import open_reader

LOG = "[mismatch] run=run-a step={step} policy=1 metric=logprob_mae value=0.1 scope=fixed-input intervention=none\n  input=x\n"


def declared(root: Path, *steps: int) -> None:
    """Steps whose manifests say all that a measurement needs."""
    for number in steps:
        directory = step(
            root, number, {"rollout.pt": dump(SIDE), "trainer.pt": dump(OTHER)}, basis="raw", policy_version="1", input_sha256="ab" * 32,
            intervention="none",
        )  # fmt: skip
        said = json.loads((directory / "manifest.json").read_text())
        for number_of, entry in enumerate(said["artifacts"].values()):
            entry["producer"] = {
                "host": "n",
                "pid": number_of + 1,
                "produced_at": "2026-11-29T12:00:00Z",
                "command": "score",
            }
        (directory / "manifest.json").write_text(json.dumps(said))
        os.utime(directory / "manifest.json", (1_700_000_000.0, 1_700_000_000.0))


def checked(root: Path) -> tuple[int, str]:
    """What `tic-daemon check` ends with and prints."""
    reader = open_reader(root)
    try:
        code, lines = check(reader, "run-a")
    finally:
        reader.close()
    return code, "\n".join(lines)


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and "tic_daemon.comparisons.worker" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


def test_exit_codes_marks_and_a_later_change(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (root / "run.log").write_text("2026-11-29T11:00:00Z run=run-a begins\n" + LOG.format(step=1))
    declared(root, 1, 2)
    here("watch", "--once", root)
    (store,) = root.glob(".tic/*/tic.duckdb")
    sql = "SELECT step, label, reason, is_evidence, not_evidence_because FROM comparisons ORDER BY step"
    assert ask(store, sql) == [(1, None, "no criterion", True, ""), (2, None, "no criterion", True, "")]
    manifest = root / "results/run-a/step001/manifest.json"
    said = json.loads(manifest.read_text())
    (manifest.parent / "more.bin").write_bytes(b"more")
    said["artifacts"]["more"] = {"path": "more.bin", "size": 4, "sha256": hashlib.sha256(b"more").hexdigest()}
    manifest.write_text(json.dumps(said))
    here("watch", "--once", root)
    assert ask(store, sql) == [(1, None, "no criterion", True, ""), (2, None, "no criterion", True, "")]
    assert ask(store, "SELECT count(*) FROM comparison") == [(2,)], "a manifest that grew is looked at, and that is all"
    code, told = checked(root)
    assert code == 12 and "2 comparisons without a verdict, the first of step 1: no criterion" in told
    (one,) = ask(store, "SELECT comparison_id FROM comparisons WHERE step = 1")
    here("mark", "run-a", "--at", root, "--comparison", str(one[0]), "--reason", "wrong layout")
    assert "1 comparison without a verdict, the first of step 2" in checked(root)[1]
    (root / "results/run-a/step002/trainer.pt").write_bytes(dump(SIDE))
    here("watch", "--once", root)
    assert ask(store, sql) == [
        (1, None, "no criterion", False, "marked inconclusive"), (2, None, "no criterion", False, "file B is changed since"),
    ]  # fmt: skip
    assert ask(store, "SELECT count(*) FROM comparison") == [(2,)], "what is not as its manifest says is not compared"


def test_killed_in_the_middle_each_pair_is_compared_exactly_once(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (root / "run.log").write_text("run=run-a begins\n")
    declared(root, *range(12))
    watcher = Watcher(tmp_path / "state", root)

    watcher.start()
    assert watcher.process is not None
    pid = watcher.process.pid
    wait_until(lambda: bool(children(pid)), 60, watcher.log)
    for child in children(pid):  # of the worker, once
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    wait_until(lambda: bool(children(pid)), 60, watcher.log)
    orphans = children(pid)
    watcher.kill()
    wait_until(
        lambda: (
            not any(
                Path(f"/proc/{child}/cmdline").exists() and b"worker" in Path(f"/proc/{child}/cmdline").read_bytes()
                for child in orphans
            )
        ),
        20,
    )
    here("watch", "--once", root, "--state", watcher.state)
    store = watcher.store()
    assert ask(store, "SELECT count(*), count(DISTINCT id), count(DISTINCT task) FROM comparison") == [(12, 12, 12)]
    assert ask(store, "SELECT count(*), count(DISTINCT (comparison_id, request)) FROM comparison_sequence") == [
        (24, 24)
    ]
    assert ask(store, "SELECT DISTINCT mismatched_tokens, valid_tokens FROM comparisons") == [(1, 5)]
    assert ask(store, "SELECT count(*) FROM comparison_queue") == [(0,)]
    reports = sorted(path.name for path in store.parent.glob("reports/*"))
    assert len(reports) == 12 and not any(name.startswith(".") for name in reports)
