"""Copies of a worker's line do nothing, and what many lines say of one fault is counted once; through the real daemon."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.harness import ask, once

RAY = "session_2026-11-29_10-00-00_000000_1/logs/worker-" + "ab" * 28 + "-01000000-{pid}.{end}"
TORCHRUN = "none_ab12cd/attempt_0/{rank}/stderr.log"
IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
OPEN = ["Traceback (most recent call last):", '  File "train.py", line 402, in <module>']
TRACE = [*OPEN, IMA]


def write(root: Path, name: str, *lines: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def read(root: Path, sql: str) -> list[tuple[object, ...]]:
    """What a daemon that reads what is new says."""
    return ask(once(root), sql)


def also(root: Path, sql: str) -> list[tuple[object, ...]]:
    """What it says besides: nothing was written since."""
    (store,) = (root / ".tic").glob("*/tic.duckdb")
    return ask(store, sql)


def each(prefix: str, lines: list[str], suffix: str = "") -> list[str]:
    return [f"{prefix}{line}{suffix}" for line in lines]


COPIES = (
    "SELECT c.pid, c.rank, c.locks, o.locks, o.path LIKE '%.err' OR o.path LIKE '%stderr.log', c.incident = o.incident "
    "FROM faults c JOIN faults o ON o.rec_id = c.echo_of ORDER BY ALL"
)


def test_rays_console_copies_though_it_was_read_first(tmp_path: Path) -> None:
    """The console alone: it acts. Then the workers' own files are there, and its lines are theirs."""
    forwarded = each("\x1b[36m(WorkerDict pid=7)\x1b[0m ", TRACE)
    forwarded += each("\x1b[36m(WorkerDict pid=8)\x1b[0m ", TRACE, "\x1b[32m [repeated 3x across cluster]\x1b[0m")
    write(tmp_path, "console.log", *forwarded)
    alone = read(tmp_path, "SELECT pid, echo_of IS NULL, locks, witness_of IS NULL, witnesses FROM faults ORDER BY pid")
    assert alone == [(7, True, True, True, 1), (8, True, True, False, 0)]
    for pid in (7, 8):
        write(tmp_path, RAY.format(pid=pid, end="err"), ":job_id:01000000", ":actor_name:WorkerDict", *TRACE)
    assert read(tmp_path, COPIES) == [(pid, None, False, True, True, True) for pid in (7, 8)]
    assert also(tmp_path, "SELECT count(*), count(DISTINCT incident), max(witnesses) FROM faults") == [(4, 1, 1)]


def test_torchruns_tee_copies_by_rank(tmp_path: Path) -> None:
    printed = "Failed: Cuda error /w/csrc/custom_all_reduce.cuh:455 'misaligned address'"
    write(tmp_path, TORCHRUN.format(rank=3), *each("[rank3]: ", TRACE), printed)
    write(tmp_path, "console.log", *each("[default3]:[rank3]: ", TRACE), f"[default3]:{printed}")
    assert read(tmp_path, COPIES) == [(None, 3, False, True, True, True), (None, None, False, True, True, True)]
    assert also(tmp_path, "SELECT faults, locking_faults, first_fault_why FROM attempts") == [(2, 2, "")]


def test_another_ranks_line_in_the_console_is_its_own(tmp_path: Path) -> None:
    write(tmp_path, TORCHRUN.format(rank=3), *each("[rank3]: ", TRACE))
    write(tmp_path, "console.log", *each("[default4]:[rank4]: ", TRACE))
    found = read(tmp_path, "SELECT rank, echo_of, locks, witnesses FROM faults ORDER BY rank")
    assert sorted(row[:3] for row in found) == [(3, None, True), (4, None, True)]
    assert sorted(row[3] for row in found) == [0, 1]


def test_a_log_of_all_processes_copies_a_workers(tmp_path: Path) -> None:
    """`python train.py 2>&1 | tee train.log` has no console's name."""
    write(tmp_path, RAY.format(pid=7, end="err"), ":actor_name:WorkerDict", *TRACE)
    write(tmp_path, "train.log", *each("(WorkerDict pid=7) ", TRACE), "(WorkerDict pid=8) hello")
    assert read(tmp_path, COPIES) == [(7, None, False, True, True, True)]


def test_what_an_actor_raised_in_its_callers_traceback_is_the_actors(tmp_path: Path) -> None:
    report = [
        *OPEN,
        "ray.exceptions.RayTaskError(AcceleratorError): ray::WorkerDict.update() (pid=7, ip=10.0.0.1, actor_id=9c)",
        '  File "/srv/verl/workers/actor/dp_actor.py", line 412, in update_policy',
        IMA,
    ]
    write(tmp_path, RAY.format(pid=5, end="err"), ":actor_name:TaskRunner", *report)
    said = "SELECT pid, echo_of IS NULL, locks FROM faults ORDER BY path"
    assert read(tmp_path, said) == [(7, True, True)]
    write(tmp_path, RAY.format(pid=7, end="err"), ":actor_name:WorkerDict", *TRACE)
    assert read(tmp_path, said) == [(7, False, False), (7, True, True)]


def test_a_hundred_ranks_are_one_fault_with_its_witnesses(tmp_path: Path) -> None:
    """One illegal access; the other ranks say ten minutes later that a peer is gone. Each L still locks by itself."""
    head = "[rank{}]:[E1129 14:{}:00.123456789 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0 Rank {}] "
    first = (
        "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered"
    )
    for rank in range(100):
        minute, text = (
            ("07", first) if rank == 3 else ("17", f"Process group watchdog thread terminated with exception: {REMOTE}")
        )
        line = head.format(rank, minute, rank) + text
        write(tmp_path, TORCHRUN.format(rank=rank), line)
    found = read(tmp_path, "SELECT severity, rank, witnesses FROM faults WHERE witness_of IS NULL")
    assert found == [("L", 3, 99)]
    assert also(tmp_path, "SELECT count(*), count(DISTINCT incident) FROM faults") == [(100, 1)]


def test_one_process_says_its_fault_several_times(tmp_path: Path) -> None:
    at = "(Worker_TP0 pid=881) ERROR 11-29 16:20:{} [multiproc_executor.py:1189] "
    core = "(EngineCore pid=802) ERROR 11-29 16:20:{} [core.py:866] "
    write(
        tmp_path, "server.log",
        at.format(11) + "WorkerProc hit an exception.",
        *each(at.format(11), TRACE),
        core.format(12) + "EngineCore encountered a fatal error.",
        core.format(13) + "Worker proc VllmWorker-0 died unexpectedly (exit code: -15), shutting down executor.",
    )  # fmt: skip
    found = read(tmp_path, "SELECT kind, incident = rec_id, witness_of IS NOT NULL FROM faults ORDER BY line_no")
    assert found == [
        ("vllm.worker_hit", False, False), ("cuda.illegal_address", True, False), ("vllm.core_fatal", False, True),
        ("vllm.worker_died", False, True),
    ]  # fmt: skip
    assert also(tmp_path, "SELECT sum(witnesses) FROM faults") == [(1,)]  # EngineCore


def test_faults_an_hour_apart_are_two(tmp_path: Path) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    lines = [
        f"(Worker_TP{rank} pid=88{rank}) ERROR 11-29 1{hour}:20:11 [a.py:1] {oom}" for hour in (6, 7) for rank in (0, 1)
    ]
    write(tmp_path, "server.log", *lines)
    write(tmp_path, "tic.toml", "[[source]]", 'path = "server.log"', 'zone = "+00:00"')
    found = read(tmp_path, "SELECT incident = rec_id, witnesses FROM faults ORDER BY line_no")
    assert found == [(True, 1), (False, 0), (True, 1), (False, 0)]


def test_what_leaves_the_first_fault_undecided_is_said(tmp_path: Path) -> None:
    def why() -> list[tuple[object, ...]]:
        return read(tmp_path, "SELECT len(first_fault_candidates), first_fault_why FROM attempts")

    write(tmp_path, TORCHRUN.format(rank=0), f"2026-11-29T10:00:00.000000Z [rank0]: {IMA}")
    assert why() == [(1, "")]
    write(tmp_path, TORCHRUN.format(rank=1), f"2026-11-29T10:00:01.000000Z [rank1]: {IMA}")
    assert why() == [(1, "")]  # one host has one clock
    write(tmp_path, TORCHRUN.format(rank=2), *each("[rank2]: ", TRACE))
    assert why() == [(2, "2 may be the first: 1 without a time stamp")]


def test_the_end_of_a_process_is_no_first_fault_for_having_a_stamp(tmp_path: Path) -> None:
    """Ray's core log stamps the signal; the traceback that explains it has no time."""
    died = "[2026-11-29 10:00:00,123 E 7 7] logging.cc:497: *** SIGABRT received at time=1796021468 on cpu 1 ***"
    write(tmp_path, RAY.format(pid=7, end="err"), ":actor_name:WorkerDict", *TRACE)
    write(tmp_path, f"{RAY.partition('worker')[0]}python-core-worker-{'ab' * 28}_7.log", died)
    write(tmp_path, "tic.toml", "[[source]]", 'path = "**/python-core-*.log"', 'zone = "+00:00"')
    found = read(tmp_path, "SELECT kind, incident = rec_id, witness_of FROM faults ORDER BY severity")
    assert found == [("proc.ray_signal", False, None), ("cuda.illegal_address", True, None)]
    shown = (
        "SELECT f.kind, len(a.first_fault_candidates) FROM attempts a JOIN faults f ON f.rec_id = a.first_fault_rec_id"
    )
    assert also(tmp_path, shown) == [("cuda.illegal_address", 2)]


def rooted_apart(tmp_path: Path, forwarded: list[str]) -> Path:
    """Ray's session in one watched directory, the driver's console in another; nothing names a run."""
    for pid in (7, 8):
        lines = TRACE if pid == 7 else ["hello"]
        write(tmp_path / "ray", RAY.format(pid=pid, end="err"), ":job_id:01000000", ":actor_name:WorkerDict", *lines)
    write(tmp_path / "home", "driver.log", *forwarded)
    return once(tmp_path / "ray", tmp_path / "home", state=tmp_path / "state")


def test_a_console_in_another_root_is_of_the_run_whose_processes_it_shows(tmp_path: Path) -> None:
    forwarded = [*each("(WorkerDict pid=7) ", TRACE), "(WorkerDict pid=8) hello", "(TaskRunner pid=5) step:1 - a:1.0"]
    store = rooted_apart(tmp_path, forwarded)
    assert ask(store, COPIES) == [(7, None, False, True, True, True)]
    assert ask(store, "SELECT run_id, locked, faults FROM attempts") == [("ray", True, 1)]
    assert ask(store, "SELECT DISTINCT run_id FROM steps") == [("ray",)]


def test_one_pid_of_several_says_nothing_of_a_console(tmp_path: Path) -> None:
    """Pids come again: the console of another job may show the same number."""
    store = rooted_apart(tmp_path, [*each("(WorkerDict pid=7) ", TRACE), "(WorkerDict pid=19) hello"])
    assert ask(store, COPIES) == []
    assert ask(store, "SELECT run_id, locked FROM attempts ORDER BY run_id") == [("home", True), ("ray", True)]
