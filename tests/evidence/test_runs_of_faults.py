"""A fault in a log that names no run reaches the run it belongs to; through the real daemon, with several runs in one root."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.harness import ask, once

RECORD = (
    "[mismatch] run={run} step={step} policy=1 input=a phase=decode rank=0 repeat=0 scope=fixed-input intervention=none "
    "metric=logprob_mae value=0.25 reference=x self_repeat=0.125 report=r classification=unknown\n"
)
FAULT = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "train.py", line 402, in <module>\n'
    "[rank{rank}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
)
WORKER = "worker-" + "ab" * 28 + "-01000000-{pid}.{end}"


def told(root: Path) -> dict[str, tuple[bool, str]]:
    rows = ask(
        once(root),
        "SELECT r.run_id, r.locked, min(m.admissibility) FROM runs r JOIN mismatches m USING (run_id) GROUP BY ALL",
    )
    return {str(run): (bool(locked), str(state)) for run, locked, state in rows}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_stderr_beside_a_torchrun_stdout(tmp_path: Path) -> None:
    for run, launch in (("A", "none_aaaaaaaa"), ("B", "none_bbbbbbbb")):
        write(tmp_path / launch / "attempt_0" / "0" / "stdout.log", RECORD.format(run=run, step=5))
    write(tmp_path / "none_aaaaaaaa" / "attempt_0" / "0" / "stderr.log", FAULT.format(rank=0))
    assert told(tmp_path) == {"A": (True, "locked"), "B": (False, "admissible")}


def test_another_rank_of_the_launch_that_printed_no_record(tmp_path: Path) -> None:
    for run, launch in (("A", "none_aaaaaaaa"), ("B", "none_bbbbbbbb")):
        write(tmp_path / launch / "attempt_0" / "0" / "stdout.log", RECORD.format(run=run, step=5))
    write(tmp_path / "none_bbbbbbbb" / "attempt_0" / "3" / "stderr.log", FAULT.format(rank=3))
    assert told(tmp_path) == {"A": (False, "admissible"), "B": (True, "locked")}


def test_the_err_of_a_ray_worker(tmp_path: Path) -> None:
    logs = tmp_path / "session_2026-11-29_10-00-00_000000_1" / "logs"
    for run, pid in (("A", 184142), ("B", 184143)):
        write(logs / WORKER.format(pid=pid, end="out"), ":actor_name:WorkerDict\n" + RECORD.format(run=run, step=5))
    write(logs / WORKER.format(pid=184142, end="err"), ":actor_name:WorkerDict\n" + FAULT.format(rank=0))
    assert told(tmp_path) == {"A": (True, "locked"), "B": (False, "admissible")}


def test_a_worker_of_no_known_run_makes_all_suspect_and_locks_none(tmp_path: Path) -> None:
    logs = tmp_path / "session_2026-11-29_10-00-00_000000_1" / "logs"
    for run, pid in (("A", 184142), ("B", 184143)):
        write(logs / WORKER.format(pid=pid, end="out"), ":actor_name:WorkerDict\n" + RECORD.format(run=run, step=5))
    write(logs / WORKER.format(pid=184199, end="err"), ":actor_name:WorkerDict\n" + FAULT.format(rank=1))
    assert told(tmp_path) == {"A": (False, "suspect"), "B": (False, "suspect")}
