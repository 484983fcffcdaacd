"""The fields of a run record: all that the rules ask for, and which keys mean which field."""

from __future__ import annotations

import random

import pytest

from tests.evidence.worldstore import WorldStore
from tests.store.samples import NOON
from tic_daemon.record.fields import PREFIXES, fields, load

# What the evidence rules ask for, by heading, in their words; and the field that holds it.
ASKED = {
    "Environment fingerprint": {
        "code commit": "code.commit", "dirty patch hash": "code.patch", "untracked runtime files": "code.untracked",
        "image digest": "image.digest", "GPU architecture": "gpu.architecture", "Torch": "software.torch",
        "Triton": "software.triton", "CUDA": "software.cuda", "actual import path": "code.import_path",
        "native .so path": "native.path", "native .so hash": "native.sha256",
        "trainer TP": "trainer.tp", "trainer PP": "trainer.pp", "trainer CP": "trainer.cp", "trainer EP": "trainer.ep",
        "trainer DP": "trainer.dp", "rollout TP": "rollout.tp", "rollout PP": "rollout.pp", "rollout CP": "rollout.cp",
        "rollout EP": "rollout.ep", "rollout DP": "rollout.dp", "dtype": "rollout.dtype", "dtype of the trainer": "trainer.dtype",
        "quantization": "rollout.quantization", "scale": "quantization.scale", "kernel backend": "kernel.attention",
        "Graph": "graph.mode", "compile": "compile.mode", "cache": "cache.prefix", "autotune config": "kernel.autotune",
        "content version of weights": "weights.content", "derived weights/scales": "weights.derived",
        "known-good": "artifacts.known_good", "known-bad": "artifacts.known_bad",
    },
    "Recipe and coverage record: Workload": {
        "training context length": "workload.training_context", "rollout input lengths": "workload.prompt_lengths",
        "rollout output lengths": "workload.response_lengths", "concurrency": "workload.concurrency",
        "packing": "workload.packing", "training token batch": "workload.training_tokens",
    },
    "Recipe and coverage record: Hardware": {
        "architecture": "gpu.architecture", "count": "hardware.gpu_count", "GPU memory": "hardware.gpu_memory",
        "interconnect": "hardware.interconnect", "TP": "trainer.tp", "DP": "rollout.dp",
    },
    "Recipe and coverage record: Numerics": {
        "master weight": "numerics.master_dtype", "deployed weight": "numerics.deployed_dtype",
        "activation": "numerics.activation_dtype", "KV": "numerics.kv_dtype", "accumulation": "numerics.accumulation_dtype",
        "gradient": "numerics.gradient_dtype", "granularity": "quantization.granularity", "scale rule": "quantization.scale",
        "update method": "quantization.update",
    },
    "Recipe and coverage record: Scope": {
        "raw or full vocabulary": "scope.score", "applicable": "scope.applies", "Graph/cache path": "scope.path",
    },
    "Recipe and coverage record: Budget": {
        "throughput": "budget.throughput", "peak GPU memory": "budget.gpu_memory", "quality": "budget.quality",
        "gradient": "budget.gradient", "experiment count": "budget.experiments", "stop condition": "budget.stop",
        "machine budget": "budget.machines",
    },
    "Execution state": {
        "Graph mode": "graph.mode", "capture sizes": "graph.capture_sizes", "prefill/decode/mixed": "state.step_kind",
        "kernel call evidence": "state.kernel_calls", "prefix cache hit": "cache.prefix_hit", "isolated": "cache.isolated",
        "weight lifecycle": "weights.phases", "chunk boundary state": "state.chunk_boundary",
        "partial input buffers": "state.partial_buffers", "capture vs replay": "state.graph_replays",
        "override vs candidate": "state.override", "forward-only vs train()": "state.pass",
    },
}  # fmt: skip
# Settings are not what ran: these count only as a worker shows them.
WORKER_ONLY = (
    "software.torch", "code.import_path", "native.path", "native.sha256", "trainer.tp", "rollout.dp", "rollout.dtype",
    "graph.mode", "kernel.attention", "cache.prefix", "weights.content",
)  # fmt: skip
KEYS = [
    ("actor_rollout_ref.rollout.tensor_model_parallel_size", {"rollout.tp"}),
    ("actor_rollout_ref.actor.megatron.tensor_model_parallel_size", {"trainer.tp"}),
    ("rollout.tensor_parallel_size", {"rollout.tp"}),
    ("tensor_model_parallel_size", {"trainer.tp"}),
    ("actor_rollout_ref.actor.fsdp_config.model_dtype", {"numerics.master_dtype"}),
    ("git.commit", {"code.commit"}),
    ("trainer.commit", {"code.commit"}),
    ("deps.flash_attn.commit", set()),
    ("rollout.versions.torch", {"software.torch"}),
    ("native.deep_ep.sha256", {"native.sha256"}),
    ("rollout.imports.vllm", {"code.import_path"}),
    ("record.state.pass", {"state.pass"}),
    ("a.rollout.max_tensor_model_parallel_size", set()),
    ("data.max_response_length", {"workload.response_lengths"}),
    ("x.database.max_response_length", set()),
]


def test_every_field_that_the_rules_ask_for_is_there_under_its_heading() -> None:
    known = {field.name: field for field in fields()}
    for heading, asked in ASKED.items():
        for item, name in asked.items():
            assert name in known, item
            assert heading in known[name].heading.split("; "), f"{name} does not cite {heading}"
    assert all(known[name].fingerprint for name in ASKED["Environment fingerprint"].values() if "known" not in name)


def test_what_only_a_worker_can_know_needs_a_worker() -> None:
    known = {field.name: field for field in fields()}
    assert {known[name].needs for name in WORKER_ONLY} == {"worker"}


@pytest.mark.parametrize(("key", "expected"), KEYS, ids=lambda value: value if isinstance(value, str) else "")
def test_keys(key: str, expected: set[str]) -> None:
    found = {field.name for field in fields() for pattern in field.patterns if pattern.matches(key)}
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        '[[field]]\nname = "a"\nheading = "h"\nsays = "s"\nneeds = "nobody"',
        '[[field]]\nname = "a"\nheading = "h"\nsays = "s"\nneeds = "any"\nkey = ["x"]',
        '[[field]]\nname = "a b"\nheading = "h"\nsays = "s"\nneeds = "any"',
        '[[field]]\nname = "a"\nheading = "h"\nsays = "s"\nneeds = "any"\n' * 2,
    ],
)
def test_a_field_that_is_not_as_described_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="field"):
        load(text)


def test_the_store_matches_as_the_plain_twin_does() -> None:
    rng = random.Random(7)
    patterns = [pattern for field in fields() for pattern in field.patterns if pattern.kind in ("name", "glob")]
    keys = {key for key, _ in KEYS}
    for pattern in rng.sample(patterns, 120):
        middle = rng.choice(["", "x", "x.y", "actor", pattern.mid])
        whole = pattern.leaf if pattern.kind == "name" else f"{pattern.head}{middle}{pattern.mid}{middle}{pattern.tail}"
        keys |= {
            whole,
            f"{rng.choice(PREFIXES)}{whole}",
            f"other.{whole}",
            f"{whole}.x",
            f"{rng.choice(PREFIXES)}run.{whole}",
        }
    listed = sorted(keys - {""})
    store = WorldStore()
    store.put("config_value", [
        {"rec_id": number, "host": "h", "root": "/w", "path": "/w/c.yaml", "run_hint": "r", "kind": "config", "side": "launcher",
         "digest": "d", "gone": False, "key": key, "name": key, "value": "true", "secret": False, "problem": "", "observed_at": NOON}
        for number, key in enumerate(listed)
    ])  # fmt: skip
    found = store.con.execute(
        "SELECT DISTINCT key, field, value FROM record_values WHERE origin = 'config' AND key <> 'config_digest'"
    )
    expected = {
        (key, field.name, pattern.gives if pattern.when else "true")
        for key in listed
        for field in fields()
        for pattern in field.patterns
        if pattern.matches(key) and pattern.when in ("", "true")
    }
    assert set(found.fetchall()) == expected and len(expected) > 150
