"""Every wrapper of the reference table, its traps, and text that must not be peeled."""

from __future__ import annotations

from datetime import datetime

import pytest

from tic_daemon.scan.stamps import Years
from tic_daemon.scan.wrapped import Wrapped
from tic_daemon.scan.wrappers import peel


def peeled(text: str) -> Wrapped:
    return peel(text, Years(datetime(2026, 11, 30)))


WRAPPED = [
    # text, kinds, writer, level class, payload
    ("2026-11-29T16:20:11.123456789Z stderr F hello", ("cri",), "", "none", "hello"),
    ("2026-11-29T16:20:11.123456789Z (Worker_TP0 pid=7) hi", ("docker", "vllm"), "pid:7", "none", "hi"),
    ("2026-11-29 16:20:11.123 | hello", ("compose",), "", "none", "hello"),
    ("Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("[918233.112011] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("kernel: [918233.112011] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("6,1234,918233112011,-;NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("[Sun Nov 29 14:07:29 2026] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("2026-11-29T14:07:29+0100 node1 kernel: NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("Nov 29 14:07:29 node1 python[311]: NVRM: x", ("syslog",), "pid:311", "none", "NVRM: x"),
    (" 3: [rank3]: text", ("srun_label", "rank"), "rank:3", "none", "text"),
    ("12: [mismatch] run=a step=1", ("srun_label",), "actor:task12", "none", "[mismatch] run=a step=1"),
    ("(WorkerDict pid=184142, ip=10.31.4.12) text", ("ray",), "pid:184142", "none", "text"),
    ("(MyActor(x=1) pid=12) text", ("ray",), "pid:12", "none", "text"),
    ("(raylet, ip=10.31.4.12) A worker died", ("raylet",), "actor:raylet", "error", "A worker died"),
    ("(autoscaler +12m3s) text", ("raylet",), "actor:autoscaler", "none", "text"),
    ("[default3]:text", ("torchrun",), "actor:default3", "none", "text"),
    ("[default3]:[rank3]: text", ("torchrun", "rank"), "rank:3", "none", "text"),
    ("[rank3]: text", ("rank",), "rank:3", "none", "text"),
    (
        "[rank3]:[E311 14:07:29.123456789 ProcessGroupNCCL.cpp:688] text",
        ("rank_glog", "glog"),
        "rank:3",
        "error",
        "text",
    ),
    ("[W1129 20:49:27.002157921 utils.cpp:68] Warning: x", ("glog",), "", "warning", "Warning: x"),
    (
        "E1129 14:29:32.724500 902110 torch/distributed/elastic/api.py:987] failed",
        ("torch_log",),
        "pid:902110",
        "error",
        "failed",
    ),
    (
        "[rank0]:W1129 14:07:29.123456 4242 torch/_dynamo/x.py:12] [0/1] [__recompiles] text",
        ("rank_glog", "torch_log"),
        "pid:4242",
        "warning",
        "text",
    ),
    ("gpu-b07:902203:903103 [3] NCCL INFO comm", ("nccl",), "pid:902203", "info", "comm"),
    (
        "[2026-11-29 20:12:03] gpu-a01:6120:6120 [3] transport/net_ib/init.cc:179 NCCL WARN NET/IB : x",
        ("nccl", "nccl_warn"),
        "pid:6120",
        "error",
        "NET/IB : x",
    ),
    ("gpu-b07:1:2 [2] misc/socket.cc:71 (recv) NCCL WARN x", ("nccl", "nccl_warn"), "pid:1", "error", "x"),
    (
        "(RayWorkerProc pid=9) (Worker_DP0_TP0_EP0 pid=9) INFO 11-29 16:20:11 [core.py:866] text",
        ("ray", "vllm", "vllm_record"),
        "pid:9",
        "info",
        "text",
    ),
    (
        "(EngineCore_DP0 pid=7) [Stage-0] ERROR 11-29 16:20:11 [v1/core.py:8] x",
        ("vllm", "vllm_record"),
        "pid:7",
        "error",
        "x",
    ),
    ("(VllmWorker rank=2 pid=31) WARNING 11-29 16:20:11 [a.py:8] x", ("vllm", "vllm_record"), "pid:31", "warning", "x"),
    ("[2026-11-29 08:12:03 TP0] text", ("sglang",), "actor:TP0", "none", "text"),
    ("[2026-11-29 08:12:03.123 TP1 DP0] text", ("sglang",), "actor:DP0 TP1", "none", "text"),
    ("[2026-11-29 08:12:03 DP0 TP1] text", ("sglang",), "actor:DP0 TP1", "none", "text"),
    ("[2026-11-29 08:12:03] INFO:     10.31.9.3:1 - x", ("sglang", "uvicorn"), "", "info", "10.31.9.3:1 - x"),
    ("[2026-11-29 16:04:11] model.py:918 - step 7: {}", ("slime",), "", "none", "step 7: {}"),
    ("INFO 11-29 16:00:01 ppo_trainer.py:33] ✨ Global step 3: {}", ("openrlhf",), "", "info", "✨ Global step 3: {}"),
    ("09:12:03 SUCCESS Step 14 | 1", ("loguru",), "", "info", "Step 14 | 1"),
    ("2026-11-29 14:07:29.123 | ERROR    | a.b:c:12 - text", ("loguru",), "", "error", "text"),
    ("WARNING:root:text", ("python",), "", "warning", "text"),
    ("ERROR:2026-11-29 14:07:29,123:text", ("python",), "", "error", "text"),
    ("(AReaL) 20261129-14:07:29.123 RL Trainer INFO: text", ("areal",), "", "info", "text"),
    ("[2026-11-29 10:00:00,123 E 44 55] (raylet) node.cc:3: text", ("raycpp",), "pid:44", "error", "text"),
    ("2026-11-29 10:00:00,123 - INFO - flashinfer.jit: text", ("flashinfer",), "", "info", "text"),
    ("2026-11-29 10:00:00  [TileLang:tilelang.jit:WARNING] (a.py:3): text", ("tilelang",), "", "warning", "text"),
    ("  what():  CUDA error: x", ("what",), "", "error", "CUDA error: x"),
    ("2026-11-29 20:00:00,123 - trainer.a - INFO - [mismatch] run=a", ("pylog",), "", "info", "[mismatch] run=a"),
    ("[2026-11-29 10:00:00,123][root][ERROR] - text", ("pylog",), "", "error", "text"),
    ("[11/29/26 14:07:29] INFO     text                train.py:41", ("rich",), "", "info", "text"),
    ("[14:07:29] CRITICAL a message without a file", ("rich",), "", "error", "a message without a file"),
    (f"{'':20}WARNING  text with a long tail <stdin>:41   ", ("rich",), "", "warning", "text with a long tail"),
    (f"{'':11}ERROR    text                 train.py:41", ("rich",), "", "error", "text"),
    (f"(W pid=7) {'':20}ERROR    text         train.py:41", ("ray", "rich"), "pid:7", "error", "text"),
    ("W1129 14:07:29.123456    4242 torch/x.py:12] text", ("torch_log",), "pid:4242", "warning", "text"),
    ("[  +0.000012] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("[Nov29 14:07] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    ("[918233.112011 <    0.000012>] NVRM: x", ("kernel",), "actor:kernel", "none", "NVRM: x"),
    (
        "(Worker_TP7 pid=380351) ERROR 11-29-2026-15:50:31.931 [multiproc_executor.py:706] x",
        ("vllm", "vllm_record"),
        "pid:380351",
        "error",
        "x",
    ),
    (
        "[2026-11-29 14:07:29,123] [ERROR] [launch.py:321:f] ['x'] exits",
        ("pylog",),
        "",
        "error",
        "[launch.py:321:f] ['x'] exits",
    ),
]


@pytest.mark.parametrize(("text", "kinds", "proc", "level", "payload"), WRAPPED, ids=[row[0][:50] for row in WRAPPED])
def test_wrapper(text: str, kinds: tuple[str, ...], proc: str, level: str, payload: str) -> None:
    found = peeled(text)
    assert (found.kinds, found.proc, found.level_class, found.text) == (kinds, proc, level, payload)


BARE = [
    "3: foo in prose",
    "see (process pid=12) for this",
    "ERROR    vllm.v1.engine.core:core.py:866 EngineCore encountered a fatal error.",
    "INFO but no date",
    "/var/log/jobs/0001.log:77:[rank3]: torch.AcceleratorError: x",
    "12:30 is no stamp",
    "Note: this is prose",
    "[gw0] [  0%] PASSED tests/x.py",
    "Traceback (most recent call last):",
    f"{'':20}ERROR    an indented text without a file at its end",
    f"{'':19}ERROR    text                 train.py:41",
    "[11/29/26 14:07:29] ERROR text in narrow columns",
    "[11/29/26] ERROR    text                 train.py:41",
]


@pytest.mark.parametrize("text", BARE)
def test_prose_keeps_its_first_words(text: str) -> None:
    found = peeled(text)
    assert (found.text, found.kinds, found.proc, found.stamp) == (text, (), "", None)


def test_ray_repeats_are_counted_and_stripped() -> None:
    found = peeled("(WorkerDict pid=5, ip=10.0.0.1) loading done [repeated 7x across cluster]")
    assert (found.text, found.repeat, found.ip) == ("loading done", 7, "10.0.0.1")


def test_glog_fraction_is_not_wall_time() -> None:
    stamp = peeled("[rank3]:[E1129 14:07:29.123456789 F.cpp:688] x").stamp
    assert stamp is not None
    assert (stamp.at, stamp.res_us, stamp.utc) == (datetime(2026, 11, 29, 14, 7, 29), 1_000_000, False)


def test_torch_python_log_is_wall_time() -> None:
    stamp = peeled("W1129 14:07:29.123456 4242 torch/x.py:12] x").stamp
    assert stamp is not None and (stamp.at.microsecond, stamp.res_us) == (123456, 1)


@pytest.mark.parametrize("zone", ["Z", "+00:00"])
def test_cri_is_utc_and_knows_its_stream(zone: str) -> None:
    found = peeled(f"2026-11-29T16:20:11.5{zone} stderr P (W pid=1) INFO 11-29 17:20:11 [a.py:1] x")
    assert found.stamp is not None
    assert (found.stamp.at, found.stamp.utc) == (datetime(2026, 11, 29, 16, 20, 11, 500_000), True)
    assert (found.stream, found.partial, found.pid) == ("stderr", True, 1)


def test_zone_is_converted() -> None:
    stamp = peeled("2026-11-29T01:20:11.123456+02:00 stdout F x").stamp
    assert stamp is not None and stamp.at == datetime(2026, 11, 28, 23, 20, 11, 123456)


def test_a_clock_without_a_date_is_no_stamp() -> None:
    assert peeled("09:12:03 SUCCESS Step 14 | 1").stamp is None


def test_ten_thousand_wrappers_end() -> None:
    text = "[rank3]: " * 10_000
    assert len(peeled(text).kinds) <= 12


def test_uptime_inside_an_actor_is_no_kernel_line() -> None:
    assert "kernel" not in peeled("(TaskRunner pid=5) [918233.112011] NVRM: Xid (PCI:0000:3b:00): 31").kinds


@pytest.mark.parametrize(
    ("text", "proc"),
    [
        ("vllm-1  | (EngineCore pid=12) INFO 11-29 09:12:13 [x.py:1] hello", "in:vllm-1 pid:12"),
        ("[pod/vllm-0/server] (EngineCore pid=12) INFO 11-29 09:12:13 [x.py:1] hello", "in:vllm-0 pid:12"),
        ("sglang-1  | [2026-11-29 09:12:13 TP1] hello", "in:sglang-1 actor:TP1"),
        ("[pod/head/ray] (SGLangEngine pid=9) [2026-11-29 09:12:13 TP1] hello", "in:head pid:9 TP1"),
        ("[pod/train-3/pytorch] [rank11]: hello", "rank:11"),  # counted over the whole job
        ("[pod/train-3/pytorch] [default3]:hello", "in:train-3 actor:default3"),
        ("vllm-1  | hello", "in:vllm-1"),
        ("loss | 0.3", ""),
    ],
)
def test_a_container_is_a_namespace_of_pids_and_names(text: str, proc: str) -> None:
    assert peel(text, Years(None)).proc == proc
