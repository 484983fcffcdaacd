"""What an engine's lines say of its state, together: the graph mode that several lines settle, the hit rate of SGLang's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import ask
from tic_daemon.cli import main

RECORD = (
    "[mismatch] run=r step={} policy=1 input=abc phase=decode rank=0 repeat=0 scope=fixed-input intervention=none "
    "metric=logprob_mae value=0.01 reference=x self_repeat=0 report=r classification=unknown\n"
)
API, CORE, WORKER = "(APIServer pid=4101) ", "(EngineCore pid=4377) ", "(Worker_TP{0} pid=452{0}) "
EAGER_HINT = (
    "WARNING 11-29 09:12:10 [compilation.py:1259] fuse_attn_quant is incompatible with piecewise cudagraph when "
    "use_inductor_graph_partition is off. In this case, splitting_ops will be set to empty list, and cudagraph_mode will be set "
    "to FULL. Please ensure you are using attention backends that support cudagraph or set cudagraph_mode to NONE explicitly if "
    "encountering any problems.\n"
)
DUMP = (
    "INFO 11-29 09:12:13 [core.py:139] Initializing a V1 LLM engine (v0.32.0) with config: model='/m', enforce_eager=False, "
    "compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL: 2>}\n"
)
LOWERED = (
    "WARNING 11-29 09:12:{at} [gpu_model_runner.py:3900] CUDAGraphMode.{was} is not supported with FLASHINFER backend (support: "
    "AttentionCGSupport.NEVER); setting cudagraph_mode={now} because attention is compiled piecewise\n"
)
VLLM = [
    API + EAGER_HINT, CORE + DUMP, RECORD.format(1),
    *(WORKER.format(rank) + LOWERED.format(at=20, was="FULL", now="FULL_DECODE_ONLY") for rank in (0, 1)),
    *(WORKER.format(rank) + LOWERED.format(at=21, was="FULL_DECODE_ONLY", now="PIECEWISE") for rank in (0, 1)),
    RECORD.format(2),
]  # fmt: skip
BATCH = "[2026-11-29 08:12:{at} TP0] {kind}, #running-req: 0, #queue-req: 0\n"
SGLANG = [
    BATCH.format(at=40, kind="Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00"), RECORD.format(3),
    BATCH.format(at=41, kind="Prefill batch [7], #new-seq: 4, #new-token: 2101, #cached-token: 930, token usage: 0.08"),
    BATCH.format(at=42, kind="Decode batch, #running-req: 31, #token: 40112, token usage: 0.07"),
    BATCH.format(at=43, kind="Prefill batch, #new-seq: 0, #new-token: 0, #cached-token: 0, full token usage: 0.08"), RECORD.format(4),
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    (folder / "vllm.log").write_text("".join(VLLM))
    (folder / "sglang.log").write_text("".join(SGLANG))
    assert main(["watch", "--once", str(folder)]) in (0, 12)
    (found,) = folder.glob(".tic/*/tic.duckdb")
    return found


def test_of_several_lines_of_one_server_its_workers_last_one_counts(store: Path) -> None:
    told = ask(store, "SELECT pid, claimed, observed FROM exec_states WHERE field = 'graph_mode' ORDER BY line_no")
    assert told[:2] == [(4101, None, "FULL"), (4377, "FULL", None)], "the hint to set NONE is no setting"
    rows = ask(
        store,
        "SELECT pid, claimed, observed FROM exec_state_now WHERE field = 'graph_mode' AND pid IS NOT NULL ORDER BY pid",
    )
    assert rows == [
        (4101, None, "unknown"),
        (4377, "FULL", "unknown"),
        (4520, None, "PIECEWISE"),
        (4521, None, "PIECEWISE"),
    ]
    beside = ask(store, "SELECT step, graph_mode FROM mismatches WHERE step < 3 ORDER BY step")
    assert beside == [(1, "FULL"), (2, "PIECEWISE")]


def test_the_hit_rate_is_the_cached_share_of_a_batch(store: Path) -> None:
    """930 of 3031 tokens are 30.68 percent. A batch of no tokens has no rate."""
    rows = ask(store, "SELECT observed FROM exec_states WHERE field = 'prefix_hit_rate' ORDER BY line_no")
    assert rows == [("0.0",), ("30.7",)]
    beside = ask(store, "SELECT step, prefix_hit_rate FROM mismatches WHERE step > 2 ORDER BY step")
    assert beside == [(3, "0.0"), (4, "30.7")]
