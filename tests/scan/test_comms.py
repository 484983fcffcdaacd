"""Transports: which communicator a channel belongs to, and that thousands of lines become a handful of rows."""

from __future__ import annotations

from tests.scan.support import of, opened, scan
from tic_daemon.scan.events import BenchMark, Compilation, EnvSeen, Event, Transport


def said(thread: int, text: str, pid: int = 10) -> str:
    return f"gpu-a01:{pid}:{thread} [0] NCCL INFO {text}\n"


def begins(comm: str, rank: int, nranks: int, thread: int, comm_id: str) -> str:
    head = f"ncclCommInitRankConfig comm {comm} rank {rank} nranks {nranks}"
    return said(thread, f"{head} cudaDev 0 nvmlDev 0 busId 5d000 commId {comm_id} - Init START")


def channels(events: list[Event]) -> list[tuple[str, str, str, str]]:
    return [(e.transport, e.direction, e.comm, e.comm_by) for e in of(events, Transport) if e.what == "channel"]


def test_a_large_communicator_is_a_handful_of_rows() -> None:
    """4,000 channel lines with three labels, one of them in both directions."""
    lines = [begins("0xa", 0, 2048, 7, "0x1")]
    for number in range(1000):
        peer = number + 8
        lines += [
            said(7, f"Channel {number % 32:02}/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
            said(7, f"Channel {number % 32:02}/0 : 0[0] -> {peer}[0] [send] via NET/IB/{number % 8}/GDRDMA"),
            said(7, f"Channel {number % 32:02}/0 : {peer}[0] -> 0[0] [receive] via NET/IB/{number % 8}/GDRDMA"),
            said(7, f"Channel {number % 32:02}/0 : {peer}[0] -> 0[0] [receive] via NET/IB/{number % 8}({peer})"),
        ]
    assert channels(scan("".join(lines))) == [
        ("P2P/CUMEM/read", "", "0xa", "thread"),
        ("NET/IB/GDRDMA", "send", "0xa", "thread"),
        ("NET/IB/GDRDMA", "receive", "0xa", "thread"),
        ("NET/IB", "receive", "0xa", "thread"),
    ]


def test_each_communicator_has_its_own_first_lines() -> None:
    p2p = "Channel 00/0 : {0}[0] -> {1}[1] via P2P/CUMEM"
    text = begins("0xa", 0, 8, 7, "0x1") + begins("0xb", 1, 2, 9, "0x2")
    text += said(7, p2p.format(0, 1)) + said(9, p2p.format(1, 0)) + said(7, p2p.format(0, 2))
    assert channels(scan(text)) == [("P2P/CUMEM", "", "0xa", "thread"), ("P2P/CUMEM", "", "0xb", "thread")]


def test_a_channel_opened_in_a_thread_of_its_own_goes_to_the_last_communicator_that_it_fits() -> None:
    """Rank 5 of 8 cannot be in a communicator of two; an unfitting rank belongs to none that is known."""
    text = begins("0xa", 5, 8, 7, "0x1") + begins("0xb", 0, 2, 7, "0x2")
    text += said(99, "Channel 00/0 : 5[5] -> 6[6] via SHM/direct/direct")
    text += said(99, "Channel 00/0 : 3[3] -> 4[4] via P2P/IPC")
    assert channels(scan(text)) == [("SHM/direct/direct", "", "0xa", "process"), ("P2P/IPC", "", "", "")]


def test_a_line_that_names_its_communicator_is_believed() -> None:
    text = begins("0xa", 0, 8, 7, "0x1") + begins("0xb", 0, 8, 7, "0x2")
    text += said(7, "Channel 00 : 0[1000] -> 1[2000] via P2P/IPC comm 0xa nRanks 08")
    assert channels(scan(text)) == [("P2P/IPC", "", "0xa", "line")]


def test_a_communicator_that_begins_anew_at_the_same_address_says_it_again() -> None:
    one = said(7, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
    other = said(7, "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")
    text = begins("0xa", 0, 8, 7, "0x1") + one + begins("0xa", 0, 8, 7, "0x2") + other + one
    found = [e for e in of(scan(text), Transport) if e.what == "channel"]
    assert [(e.transport, e.comm_id) for e in found] == [("P2P/CUMEM", "0x1"), ("P2P/IPC", "0x2"), ("P2P/CUMEM", "0x2")]


def test_topology_and_fabric_are_learnt_of_the_communicator() -> None:
    text = begins("0xa", 0, 8, 7, "0x1")
    text += said(7, "MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 3")
    text += said(7, "comm 0xa rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1")
    text += said(7, "Channel 00/0 : 0[0] -> 5[1] via P2P/MNNVL")
    last = of(scan(text), Transport)[-1]
    assert (last.nranks, last.nnodes, last.mnnvl, last.clique_id, last.clique_size) == (8, 2, True, "7ffe", 72)
    assert (last.own_rank, last.peer_rank, last.channel) == (0, 5, "00/0")


def test_a_restart_between_any_two_lines_changes_nothing() -> None:
    text = begins("0xa", 0, 8, 7, "0x1") + said(7, "Using network IB")
    text += said(7, "NCCL_IB_HCA set by environment to mlx5")
    text += said(7, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM") * 3 + said(7, "NCCL_IB_HCA set by environment to mlx5")
    source, events = opened(), []
    for line in text.splitlines(keepends=True):
        events += source.feed(line.encode())
        state = source.state()
        source = opened()._scanner.open(source._traits, state)
    assert list(map(repr, events + source.finish(b""))) == list(map(repr, scan(text)))
    assert [(e.name, e.value) for e in of(events, EnvSeen)] == [("NCCL_IB_HCA", "mlx5")]


def test_what_talks_of_transports_is_none() -> None:
    """A document, a prompt, and the list of a ring's ranks."""
    text = "[prompt] Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    text += "In NCCL, Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA is RDMA\n" + said(
        7, "Channel 00/08 :    0   1   2   3"
    )
    assert not of(scan(text), Transport)


def test_compilations_and_the_begin_of_a_benchmark() -> None:
    text = "Triton autotuning for function fused_moe_kernel,\nwith key as (64,),\nfinished after\n1.26s,\n"
    text += "[2026-11-29 08:12:03 TP0] Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=2048, K=7168, num_groups=1 with all Ms.\n"
    text += "Initial test run completed. Starting main benchmark run...\n"
    events = scan(text)
    assert [(e.compiler, e.what) for e in of(events, Compilation)] == [
        ("Triton autotuning", "fused_moe_kernel"),
        ("DeepGEMM", "<GEMM_NT_F8F8BF16> N=2048, K=7168, num_groups=1"),
    ]
    assert [e.what for e in of(events, BenchMark)] == ["serving benchmark"]
