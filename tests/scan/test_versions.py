"""Lines as released versions print them: the text is composed from the format strings in the sources of the version named.

What is expected was read in the same sources, never taken from what a rule finds.
"""

from __future__ import annotations

import pytest

from tests.scan.support import of, scan
from tic_daemon.scan.events import Compilation, ExecState, Fault, FileSaid, WeightPhase

VLLM = "(EngineCore_DP0 pid=4377) WARNING 11-29 09:12:13 [{}:900] {}"
SGLANG = "[2026-11-29 08:12:13 TP0] {}"
ASSERTION = "{}: block: [21,0,0], thread: [32,0,0] Assertion `{}` failed."

FAULTS = [
    ("torch 2.2", "[E ProcessGroupNCCL.cpp:475] [Rank 7] NCCL watchdog thread terminated with exception: [Rank 7] "
     "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=BROADCAST, Timeout(ms)=1800000) ran for "
     "1806986 milliseconds before timing out.", "nccl.watchdog_timeout"),
    ("torch 2.3", "  what():  [PG 3 Rank 5] Process group watchdog thread terminated with exception: [Rank 5] Watchdog "
     "caught collective operation timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE, NumelIn=1, NumelOut=8, "
     "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.", "nccl.watchdog_timeout"),
    ("torch 2.4", "[rank7]:[F1129 14:27:40.123456789 ProcessGroupNCCL.cpp:1306] [PG 0 Rank 7] [PG 0 Rank 7] "
     "ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives.",
     "nccl.heartbeat"),
    ("torch 2.6", "[rank7]:[F1129 14:27:40.123456789 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 7] "
     "[PG ID 0 PG GUID 0(default_pg) Rank 7] Terminating the process after attempting to dump debug info, due to "
     "ProcessGroupNCCL watchdog hang.", "nccl.heartbeat"),
    ("torch 2.9", "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicators and retrieving "
     "ncclUniqueIds from roots via TCPStore by key '0', but got error: wait timeout", "nccl.setup"),
    ("vLLM 0.33, SGLang 0.5.23: pynccl", "(Worker_TP1 pid=881) ERROR 11-29 16:20:11 [multiproc_executor.py:1189] "
     "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "nccl.cuda"),
    ("torch 2.9, sampling on a CPU", "[rank3]: RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
     "num.torch_sampling"),
    ("Open MPI", "[gpu-b07:12345] Signal: Segmentation fault (11)", "proc.mpi_signal"),
    ("torch 2.2, elastic", "[2024-03-01 14:17:40,000] torch.distributed.elastic.multiprocessing.api: [ERROR] failed "
     "(exitcode: -6) local_rank: 3 (pid: 902203) of binary: /opt/venv/bin/python", "proc.torchrun_failed"),
    ("torch 2.9, inductor", ASSERTION.format("/tmp/torchinductor_u/ab/cabc.py:27: unknown",
     "index out of bounds: 0 <= tmp6 < 50257"), "cuda.device_assert_line"),
    ("SGLang 0.5.23", ASSERTION.format("/s/async_probe.py:118: _assert_no_nan_kernel", "NaN detected! sampler: logits"),
     "cuda.device_assert_line"),
    ("SGLang 0.5.14", SGLANG.format("NaN detected in sampler: next_token_logits; values were sanitized before sampling. "
     "Logged once; further occurrences are silent."), "num.sgl_nan"),
    ("SGLang 0.4.6", SGLANG.format("Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.41 -> 0.72"),
     "sgl.retract"),
    ("Megatron core 0.12", "ERROR:megatron.core.rerun_state_machine:Unexpected result nan at /a/pretrain_gpt.py line 140, "
     "invokation #3 at iteration #12 (message='found NaN in local forward loss calculation')", "megatron.bad_result"),
    ("verl 0.9.1", "(WorkerDict pid=184142) grad_norm is not finite: nan", "num.verl_grad"),
    ("Ray 2.40", "2026-11-29 12:53:00,741\tWARNING worker.py:2107 -- A worker died or was killed while executing a task by "
     "an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. Worker exit type: "
     "SYSTEM_ERROR", "proc.ray_died"),
    ("Ray 2.60", "2026-11-29 12:53:00,741\tERROR process_watcher.py:120 -- Raylet is terminated. Termination is "
     "unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer", "proc.raylet_died"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "line", "kind"), FAULTS, ids=[f"{v}: {k}" for v, _, k in FAULTS])
def test_fault_of_a_version_is_confirmed(version: str, line: str, kind: str) -> None:
    for prefix in ("", "trainer-1      | "):
        found = of(scan(prefix + line + "\n"), Fault)
        assert [(fault.kind, fault.verdict) for fault in found] == [(kind, "confirmed")], version


STATES = [
    ("vLLM 0.8.5", "WARNING 06-29 09:12:13 [gpu_model_runner.py:1439] Skipping CUDA graph capture. Please add -O 3 to use "
     "CUDA graphs.", "graph_mode", "NONE"),
    ("vLLM 0.8.5", VLLM.format("config.py", "CUDA graph is not supported for MllamaForConditionalGeneration on ROCm yet, "
     "fallback to the eager mode."), "graph_mode", "NONE"),
    ("vLLM 0.10.2", VLLM.format("__init__.py", "CUDA graph is not supported on BitsAndBytes 8bit yet, fallback to the eager "
     "mode."), "graph_mode", "NONE"),
    ("vLLM 0.10.2", VLLM.format("config.py", "Hybrid or mamba-based model detected: setting cudagraph mode to "
     "FULL_AND_PIECEWISE in order to optimize performance."), "graph_mode", "FULL_AND_PIECEWISE"),
    ("vLLM 0.10.2", VLLM.format("compilation.py", "When compilation level is piecewise with empty splitting_ops, PIECEWISE "
     "cudagraph_mode will be treated as FULL cudagraph_mode. Please ensure you are using attention backends that support "
     "cudagraph or set cudagraph_mode to NONE explicitly if encountering any problems."), "graph_mode", "FULL"),
    ("vLLM 0.17.1", VLLM.format("model_runner.py", "Skipping CUDA graph capture because pipeline parallel is enabled. "
     "Pipeline parallel is currently eager-only."), "graph_mode", "NONE"),
    ("vLLM 0.32", VLLM.format("compilation.py", "Cudagraph mode FULL requires piecewise capture, but the loaded model "
     "provides neither a compiled submodule nor breakable CUDA graphs. Overriding to NONE."), "graph_mode", "NONE"),
    ("vLLM 0.33", VLLM.format("model_runner.py", "Skipping encoder and decoder CUDA graph capture. To enable encoder "
     "capture, ensure `cudagraph_mm_encoder` is enabled."), "graph_mode", "NONE"),
    ("vLLM 0.10.2", VLLM.format("config.py", "Hybrid or mamba-based model detected: disabling prefix caching since it is "
     "not yet supported."), "prefix_cache", "off"),
    ("vLLM 0.12", VLLM.format("scheduler.py", "Encoder-decoder models do not support chunked prefill nor prefix caching; "
     "disabling both."), "prefix_cache", "off"),
    ("vLLM 0.10.2", VLLM.format("cuda.py", "Using FlashInfer backend with HND KV cache layout on V1 engine by default for "
     "Blackwell (SM 10.0) GPUs."), "attention_backend", "FlashInfer"),
    ("vLLM 0.17.1", VLLM.format("vllm.py", "Disabling cascade attention when VLLM_BATCH_INVARIANT is enabled."),
     "batch_invariant", "on"),
    ("vLLM 0.27", VLLM.format("vllm.py", "TORCH_COMPILE_DISABLE is set, disabling torch.compile. This is equivalent to "
     "setting -cc.mode=none"), "compile_mode", "NONE"),
    ("SGLang 0.5.23", SGLANG.format("Capture target decode CUDA graph end. bs=[1, 2, 4, 8], elapsed=9.31 s, mem usage=1.23 "
     "GB, avail mem=20.11 GB."), "capture_sizes", "[1, 2, 4, 8]"),
    ("SGLang 0.5.23", SGLANG.format("server_args={'model_path': '/m', 'cuda_graph_config': {'decode': {'backend': "
     "'disabled', 'max_bs': None}, 'prefill': {'backend': 'full'}}, 'tp_size': 1}"), "graph_mode", "NONE"),
    ("SGLang 0.5.23", SGLANG.format("Attention backend not specified. Falling back to 'fa3' for deterministic inference. "
     "You can explicitly set --attention-backend."), "attention_backend", "fa3"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "line", "field", "value"), STATES, ids=[f"{v}: {f}" for v, _, f, _ in STATES])
def test_state_of_a_version(version: str, line: str, field: str, value: str) -> None:
    found = [event for event in of(scan(line + "\n"), ExecState) if event.field == field]
    assert [event.observed or event.claimed for event in found] == [value], version


PHASES = [
    ("SGLang 0.4.6", SGLANG.format("Capture draft cuda graph end. Time elapsed: 2.31 s. avail mem=20.11 GB. mem usage=0.10 "
     "GB."), "captured", "draft"),
    ("SGLang 0.5.14", SGLANG.format("Capture target prefill CUDA graph end. elapsed=9.31 s, mem usage=1.23 GB, avail "
     "mem=20.11 GB."), "captured", "target prefill"),
    ("SGLang 0.5.23", SGLANG.format("Capture draft extend CUDA graph end. step=1, elapsed=2.31 s, mem usage=0.10 GB, avail "
     "mem=20.11 GB."), "captured", "draft extend"),
    ("vLLM 0.27, XPU", "(Worker pid=9) INFO 11-29 09:14:02 [xpumem.py:228] XpuMemAllocator: sleep freed 61.02 GiB memory in "
     "total, of which 0.00 GiB is backed up in CPU and the rest 61.02 GiB is discarded directly.", "asleep", "2"),
    ("verl 0.9.1", "(FullyAsyncTrainer pid=5) [FullyAsyncTrainer] _fit_update_weights, timing_s/param_sync: 2.1310 seconds "
     "self.current_param_version: 7", "updated", ""),
]  # fmt: skip


@pytest.mark.parametrize(("version", "line", "phase", "level"), PHASES, ids=[f"{v}: {p}" for v, _, p, _ in PHASES])
def test_phase_of_a_version(version: str, line: str, phase: str, level: str) -> None:
    assert [(event.phase, event.level) for event in of(scan(line + "\n"), WeightPhase)] == [(phase, level)], version


SAVED = [
    ("[2026-11-29 11:19:24.346793] saving checkpoint at iteration      20 to /ckpt/run in torch_dist format", "begin", 20),
    ("  [2026-11-29 11:19:24.346793] scheduled an async checkpoint save at iteration      20 to /ckpt/run", "begin", 20),
    ("(SFTTrainer pid=5) Saving checkpoint to: /ckpt/sft/global_step_40", "begin", 40),
    ("(WorkerDict pid=5) INFO:2026-11-29 16:20:11,123:[Rank 0] Checkpoint save completed for /c/global_step_20/actor",
     "end", 20),
    ("2026-11-29 14:07:29.123 | INFO     | skyrl_train.trainer:save_checkpoints:900 - Successfully saved checkpoint for "
     "global_step_20 to: /ckpt/run/global_step_20", "end", 20),
]  # fmt: skip


@pytest.mark.parametrize(("line", "edge", "step"), SAVED)
def test_checkpoint_of_a_version(line: str, edge: str, step: int) -> None:
    assert [(event.edge, event.at.step) for event in of(scan(line + "\n"), FileSaid)] == [(edge, step)]


def test_dynamo_that_gives_up_is_a_compilation() -> None:
    line = (
        "[rank3]:W1129 14:07:29.123000 4242 torch/_dynamo/convert_frame.py:906] [0/8] torch._dynamo hit config.{} (8)\n"
    )
    for name in ("recompile_limit", "cache_size_limit"):  # from 2.6, and before
        assert [event.compiler for event in of(scan(line.format(name)), Compilation)] == ["dynamo"]


@pytest.mark.parametrize("head", ["[ 1843.308145] ", "Nov 29 05:03:42 gpu-b07 kernel: "])
def test_a_gpu_that_falls_off_while_the_driver_loads_is_said_in_three_lines(head: str) -> None:
    """NVIDIA's driver from r570; dmesg and journalctl set what follows the first below its text."""
    more = " " * len(head)
    log = (
        f"{head}NVRM: The NVIDIA GPU 0000:b3:00.0\n{more}NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        f"{more}NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (fault,) = of(scan(log, role="kernel"), Fault)
    assert (fault.kind, fault.verdict, fault.at.line_no) == ("xid.fallen", "confirmed", 3)
    assert [found.verdict for found in of(scan(log), Fault)] == ["mention"], "anybody may print that"
