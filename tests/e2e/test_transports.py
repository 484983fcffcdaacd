"""Transports and compilations of two arms, from their logs to the views: what a person asks before comparing them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.e2e.harness import ROOT, once

SAMPLES = ROOT / "tests" / "corpus" / "samples"
BEGIN = "ncclCommInitRankConfig comm 0xa rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 5d000 commId {id} - Init START"


def arm(folder: Path, comm_id: str, via: str) -> None:
    """Logs of two ranks of one communicator."""
    folder.mkdir(parents=True)
    for rank in (0, 1):
        head = f"gpu-a01:{100 + rank}:7 [{rank}] NCCL INFO "
        lines = [
            BEGIN.format(rank=rank, id=comm_id),
            f"comm 0xa rank {rank} nRanks 2 nNodes 1 localRanks 2 localRank {rank} MNNVL 0",
        ]
        lines += [
            f"Channel {channel:02}/0 : {rank}[{rank}] -> {1 - rank}[{1 - rank}] via {via}" for channel in range(24)
        ]
        (folder / f"rank{rank}.log").write_text("".join(f"{head}{line}\n" for line in lines))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    root = tmp_path_factory.mktemp("arms")
    arm(root / "a", "0x1", "P2P/CUMEM/read")
    arm(root / "b", "0x2", "P2P/CUMEM/read")
    arm(root / "c", "0x3", "SHM/direct/direct")
    (root / "fault").mkdir()
    (root / "fault" / "train.log").write_bytes((SAMPLES / "03_torchrun_ima_rank3.log").read_bytes())
    (root / "serve").mkdir()
    (root / "serve" / "server.log").write_text(
        "(Worker_TP0 pid=4521) WARNING 11-29 09:14:04 [jit_monitor.py:141] Triton kernel JIT compilation during inference: early. This causes a latency spike\n"
        "Initial test run completed. Starting main benchmark run...\n"
        "(Worker_TP0 pid=4521) WARNING 11-29 09:14:09 [jit_monitor.py:141] Triton kernel JIT compilation during inference: late. This causes a latency spike\n"
    )
    (root / "serve" / "other.log").write_text(
        "(Worker_TP1 pid=4523) WARNING 11-29 09:14:05 [jit_monitor.py:141] Triton kernel JIT compilation during inference: unknown. This causes a latency spike\n"
    )
    (root / "a" / "arm.env").write_text("export NVSHMEM_IB_GID_INDEX=3\nexport WANDB_API_KEY=secret\n")
    (root / "b" / "scripts").mkdir()
    (root / "b" / "scripts" / "launch.sh").write_text(
        "#!/bin/bash\nexport NVSHMEM_IB_GID_INDEX=${NVSHMEM_IB_GID_INDEX:-3}\n"
    )
    (root / "common.sh").write_text("export CUDA_LAUNCH_BLOCKING=1\n")
    (root / "tic.toml").write_text(
        "".join(f'[[run]]\nname = "{name}"\npath = "{name}/*"\n' for name in ("a", "b", "c", "fault", "serve"))
    )
    file = once(root, state=root / "state")
    return duckdb.connect(str(file), read_only=True)


def test_thousands_of_channel_lines_are_one_row_a_process_and_label(store: duckdb.DuckDBPyConnection) -> None:
    rows = store.execute(
        "SELECT run_id, pid, transport, comm, peer_rank, nranks, mnnvl FROM transports"
        " WHERE what = 'channel' AND run_id = 'a' ORDER BY pid"
    ).fetchall()
    assert rows == [("a", 100, "P2P/CUMEM/read", "0xa", 1, 2, False), ("a", 101, "P2P/CUMEM/read", "0xa", 0, 2, False)]


def test_both_arms_used_the_same_transport_or_not(store: duckdb.DuckDBPyConnection) -> None:
    rows = store.execute("SELECT run_a, run_b, same FROM transport_pairs WHERE nranks = 2 ORDER BY ALL").fetchall()
    assert rows == [("a", "b", True), ("a", "c", False), ("b", "c", False)]


def test_the_set_of_a_communicator_over_two_nodes(store: duckdb.DuckDBPyConnection) -> None:
    rows = store.execute(
        "SELECT comm_id, nranks, nnodes, ranks_seen, transports, mnnvl, nvls, network FROM transport_sets WHERE run_id = 'fault'"
    ).fetchall()
    transports = "NET/IB/GDRDMA, NET/IB/GDRDMA(PCI), P2P/CUMEM/read"
    assert rows == [("0x5d1f0c77a2b94410", 16, 2, 8, transports, False, "NVLS available", "IB")]


def test_what_the_environment_set_is_kept_once_a_process(store: duckdb.DuckDBPyConnection) -> None:
    rows = store.execute(
        "SELECT name, value, hard, form, count(*) FROM env_pins WHERE run_id = 'fault' AND form = 'observed' GROUP BY ALL"
    ).fetchall()
    assert rows == [("NCCL_SOCKET_IFNAME", "bond0", None, "observed", 8)]


def test_a_file_pins_the_runs_whose_logs_lie_nearest(store: duckdb.DuckDBPyConnection) -> None:
    rows = store.execute(
        "SELECT run_id, parse_filename(path), line_no, name, value, hard FROM env_pins WHERE form <> 'observed' ORDER BY ALL"
    ).fetchall()
    name = "NVSHMEM_IB_GID_INDEX"
    assert rows == [
        ("a", "arm.env", 1, name, "3", True),
        ("a", "common.sh", 1, "CUDA_LAUNCH_BLOCKING", "1", True),
        ("b", "common.sh", 1, "CUDA_LAUNCH_BLOCKING", "1", True),
        ("b", "launch.sh", 2, name, "3", False),
        ("c", "common.sh", 1, "CUDA_LAUNCH_BLOCKING", "1", True),
        ("fault", "common.sh", 1, "CUDA_LAUNCH_BLOCKING", "1", True),
        ("serve", "common.sh", 1, "CUDA_LAUNCH_BLOCKING", "1", True),
    ]


def test_a_compilation_is_after_the_bench_only_where_that_is_sure(store: duckdb.DuckDBPyConnection) -> None:
    """In the mark's own log its place decides; without clocks nothing is known of another log; without a mark nothing."""
    rows = store.execute("SELECT what, after_bench FROM compiles WHERE run_id = 'serve' ORDER BY what").fetchall()
    assert rows == [("early", False), ("late", True), ("unknown", None)]
    assert store.execute("SELECT what FROM compile_after_bench").fetchall() == [("late",)]
