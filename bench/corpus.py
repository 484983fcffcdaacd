"""A large log in the formats of real engines and trainers: mostly lines that say nothing, three in a hundred that do."""

from __future__ import annotations

import random
from pathlib import Path

INTERESTING = 0.03
"""Share of lines that a rule knows. In real worker logs it is less; under verl's WARN level far less."""

_NOISE = (
    "(Worker_TP{r} pid={pid}) INFO 11-29 {t} [gpu_model_runner.py:4009] batch {n} scheduled, {m} tokens in {k} requests, waiting {w}",
    "(WorkerDict pid={pid}, ip=10.31.4.{r}) update_policy micro batch {n} of {m}: loss {f} lr 1e-06 tokens {k}",
    "[2026-11-29 {t} TP{r}] scheduler loop {n}: running {k}, queue {w}, free slots {m}, extend input {f}",
    "{t} DEBUG trainer.dataloader prefetch queue {k}/{m}, worker {r} produced sample {n} of shard {w}",
    "    at line {n} of the prompt: the answer is {m} because {k} divides {w}, and {f} is close enough to round up here",
)
_KNOWN = (
    "step:{n} - actor/pg_loss:{f} - actor/grad_norm:0.0{k} - training/rollout_probs_diff_mean:{f} - timing_s/gen:{m}.5",
    "(APIServer pid={pid}) INFO 11-29 {t} [loggers.py:178] Engine 000: Avg prompt throughput: {m}.4 tokens/s, Avg generation "
    "throughput: {k}.4 tokens/s, Running: {k} reqs, Waiting: {w} reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: {w}.7%",
    "(EngineCore pid={pid}) INFO 11-29 {t} [block_pool.py:861] Successfully reset prefix cache",
    "(Worker_TP{r} pid={pid}) INFO 11-29 {t} [inplace.py:113] Reloading and processing weights took 0.{k} seconds",
    "[mismatch] run=bench step={n} policy={n} input=9d987a6e8ef0fc4a phase=prefill rank={r} repeat=0 scope=fixed-input "
    "intervention=none metric=logprob_mae value={f} reference=trainer/old_log_probs self_repeat=0.0003 report=r/{n}.json "
    "classification=unknown",
    "tests/test_x.py::test_illegal_memory_access_{n} PASSED [ {k}%]",
)


def write(path: Path, megabytes: int, seed: int = 11) -> int:
    """Write about `megabytes` MB of log into `path`; returns its lines. The same seed gives the same bytes."""
    rng = random.Random(seed)
    blocks = [_block(rng) for _ in range(24)]
    lines = 0
    with path.open("wb") as out:
        while out.tell() < megabytes * 1_000_000:
            block = rng.choice(blocks)
            out.write(block)
            lines += block.count(b"\n")
    return lines


def _block(rng: random.Random) -> bytes:
    rows = []
    for _ in range(4000):
        template = rng.choice(_KNOWN) if rng.random() < INTERESTING else rng.choice(_NOISE)
        rows.append(
            template.format(
                r=rng.randrange(8),
                pid=rng.choice((4521, 4522, 4523, 4524)),
                n=rng.randrange(100_000),
                m=rng.randrange(4096),
                k=rng.randrange(99),
                w=rng.randrange(64),
                f=f"{rng.uniform(1e-6, 1e-2):.9f}",
                t=f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}",
            )
        )
    return ("\n".join(rows) + "\n").encode()
