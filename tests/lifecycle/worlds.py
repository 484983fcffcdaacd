"""Random runs in the engines' own words: servers of several processes and ranks, a console that repeats them, trainers.

Cycles of sleep, wake, update and reset stand in order, with lines dropped and others put between; numbers stand in every
kind of log, with a time or a step, with both or with neither. All are texts: what they mean is the scanner's to say.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lifecycle.test_findings import FIELDS

REST = "abstract.py:320"
GIB = "[cumem.py:228] CuMemAllocator: sleep freed 61.02 GiB memory in total, of which {kept} GiB is backed up in CPU and the rest {rest} GiB is discarded directly."
HTTP = 'INFO:     10.31.9.3:40222 - "POST {path} HTTP/1.1" 200 OK'
# op: who prints it (core, each worker, api), and its text behind the stamp; an access line has none.
VLLM = {
    "new": ("core", "[core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny', enable_prefix_caching={cache}, enforce_eager=True"),
    "loaded": ("worker", "[default_loader.py:501] Loading weights took 0.05 seconds"),
    "sleep1": ("worker", GIB.format(kept="8.13", rest="52.89")),
    "sleep2": ("worker", GIB.format(kept="0.00", rest="61.02")),
    "slept": ("core", f"[{REST}] It took 1.234567 seconds to fall asleep."),
    "http2": ("api", HTTP.format(path="/sleep?level=2")),
    "http0": ("api", HTTP.format(path="/sleep?level=0")),
    "still": ("core", f"[{REST}] Executor is already sleeping."),
    "weights": ("core", f"[{REST}] It took 0.412345 seconds to wake up tags ['weights']."),
    "kv": ("core", f"[{REST}] It took 0.412345 seconds to wake up tags ['kv_cache']."),
    "wake": ("core", f"[{REST}] It took 0.412345 seconds to wake up tags {{'weights', 'kv_cache'}}."),
    "reloading": ("worker", "[inplace.py:91] Reloading weights inplace..."),
    "reloaded": ("worker", "[inplace.py:113] Reloading and processing weights took 0.07 seconds"),
    "prime": ("worker", "[nccl.py:80] Receiving weights from trainer"),
    "updated": ("api", HTTP.format(path="/update_weights")),
    "reset": ("core", "[block_pool.py:861] Successfully reset prefix cache"),
    "refused": ("core", "[block_pool.py:850] Failed to reset prefix cache because some blocks (17) are not freed yet"),
    "captured": ("worker", "[gpu_model_runner.py:6516] Graph capturing finished in 3 secs, took 0.36 GiB"),
    "lowered": ("worker", "[gpu_model_runner.py:3900] CUDAGraphMode.FULL is not supported with FLASHINFER backend (support: NEVER); setting cudagraph_mode={mode}"),
    "use": ("api log", "[loggers.py:178] Engine 000: Iteration(4): 3 context requests, 2382 context tokens, {gen} generation requests, 44 generation tokens, iteration elapsed time: 70.53 ms"),
    "stats": ("api log", "[loggers.py:335] Engine 000: Avg prompt throughput: 18.7 tokens/s, Avg generation throughput: 17.6 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: {rate}%"),
}  # fmt: skip
SGLANG = {
    "new": "server_args=ServerArgs(model_path='/m', disable_radix_cache={cache}, enable_memory_saver=True)",
    "loaded": "Load weight end. elapsed=21.31 s, type=Qwen3MoeForCausalLM, avail mem=30.11 GB, mem usage=48.12 GB.",
    "released": HTTP.format(path="/release_memory_occupation"),
    "resumed": HTTP.format(path="/resume_memory_occupation"),
    "begun": "Update engine weights online from disk begin. avail mem=10.11 GB",
    "ended": "Update weights end.",
    "ipc": "Starting IPC weight update",
    "version": "Weight version changed. old_version='3' new_version='4' num_recorded=0",
    "reset": "Cache flushed successfully!",
    "refused": "Cache not flushed because there are pending requests. #queue-req: 0, #running-req: 3",
    "use": "Decode batch, #running-req: 31, #token: 40112, token usage: 0.07, cuda graph: {graph}, gen throughput (token/s): 2312.11, #queue-req: 0",
    "prefill": "Prefill batch, #new-seq: 4, #new-token: 2101, #cached-token: {gen}, token usage: 0.08, #running-req: 35, #queue-req: 2",
}  # fmt: skip
FAULTS = (
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error",
)  # fmt: skip
SAID_BY_MUTE = {"refused", "updated", "http2", "http0", "released", "resumed"}
CYCLES = {
    "vllm": [
        ["sleep2", "slept", "http2", "weights", "reloading", "reloaded", "kv", "reset", "use"], ["sleep1", "slept", "wake", "use"],
        ["reloading", "reloaded", "reset", "use", "stats"], ["reset", "updated", "use"], ["updated", "refused", "use"], ["refused", "use"],
        ["sleep2", "wake", "reset", "use"], ["slept", "http2", "wake", "use"], ["sleep1", "weights", "reset", "use"], ["http0", "use"],
        ["sleep1", "updated", "wake", "reset", "use"], ["sleep1", "still", "http2", "wake", "use"], ["prime", "use"],
        ["captured", "lowered", "use"],
    ],
    "sglang": [
        ["released", "resumed", "use"], ["begun", "ended", "reset", "use"], ["begun", "use"], ["version", "reset", "use"],
        ["version", "refused", "use", "prefill"], ["released", "begun", "ended", "resumed", "reset", "use"], ["ipc", "reset", "prefill"],
    ],
}  # fmt: skip


@dataclass(slots=True)
class File:
    """A log before it is anybody's: `traits` are of its source."""

    name: str
    host: str
    lines: list[str] = field(default_factory=list)
    traits: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """Logs of one run named RUN in their texts. `cuts`: attempts declared, each as the number of lines of each log.
    `faulty`: some process raises a fault."""

    files: list[File]
    cuts: list[dict[str, int]]
    faulty: bool = False


def clock(second: int) -> str:
    return f"09:{second // 60:02}:{second % 60:02}"


class Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.moments: list[int] = []  # at which engines print
        self.faulty = self.chance(0.25)
        self.pids = iter(range(self.rng.randint(1000, 4000), 9999))

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, step: int | None) -> str:
        return f"[mismatch] run=RUN {'' if step is None else f'step={step} '}{FIELDS}"

    def script(self, engine: str) -> Iterator[str]:
        """What an engine does: cycles with lines dropped, and others between."""
        everything = list(VLLM if engine == "vllm" else SGLANG)
        mute = self.chance(0.15)  # at level WARN
        if not mute:
            yield "new"
            yield "loaded"
        for _ in range(self.rng.randint(1, 5)):
            for op in self.rng.choice(CYCLES[engine]):
                if self.chance(0.85) and (not mute or op in SAID_BY_MUTE):
                    yield op
                if mute:
                    continue
                if self.chance(0.1):
                    yield self.rng.choice(everything)
                if self.chance(0.15):
                    yield "number"

    def filled(self, text: str) -> str:
        some = self.rng.choice
        return text.format(
            cache=some(("True", "False")), gen=some((0, 44)), rate=some(("0.0", "43.5")), mode=some(("NONE", "PIECEWISE")),
            graph=some(("True", "False")),
        ) if "{" in text and "{'" not in text else text  # fmt: skip

    def times(self) -> Iterator[int]:
        at = self.rng.randint(0, 200)
        while True:
            self.moments.append(min(at, 3590))
            yield min(at, 3590)
            at += self.rng.choice((0, 1, 5, 20, 60))

    def fault(self, prefix: str) -> list[str]:
        """A traceback as its process prints it."""
        text = self.rng.choice(FAULTS)
        return [
            prefix + line
            for line in ("Traceback (most recent call last):", '  File "/srv/a.py", line 4, in step', text)
        ]

    def vllm(self, host: str, name: str) -> File:
        """One server: an API process, its core, workers with ranks."""
        api, core = next(self.pids), next(self.pids)
        workers = [(rank, next(self.pids)) for rank in range(self.rng.choice((1, 2, 2, 3)))]
        file = File(name, host)
        for op, at in zip(self.script("vllm"), self.times(), strict=False):
            if op == "number":
                file.lines.append(self.number(self.rng.choice((None, at // 100))))
                continue
            if self.faulty and self.chance(0.05):
                for rank, pid in workers[: self.rng.choice((1, 2))]:
                    file.lines += self.fault(
                        f"(Worker_TP{rank} pid={pid}) ERROR 11-29 {clock(at)} [multiproc_executor.py:1189] "
                    )
            who, text = VLLM[op]
            stamp = f"INFO 11-29 {clock(at)} "
            told = self.filled(text)
            if who == "worker":
                heard = [w for w in workers if self.chance(0.9)] or workers[:1]
                file.lines += [f"(Worker_TP{rank} pid={pid}) {stamp}{told}" for rank, pid in heard]
            elif who == "core":
                file.lines.append(f"(EngineCore pid={core}) {stamp}{told}")
            else:
                file.lines.append(f"(APIServer pid={api}) {stamp if who == 'api log' else ''}{told}")
        return file

    def sglang(self, host: str, name: str, servers: int) -> File:
        """Servers of their own log, or several in one Ray console."""
        file = File(name, host)
        streams: list[list[str]] = []
        for _ in range(servers):
            actor = f"(SGLangEngine pid={next(self.pids)}) " if servers > 1 else ""
            mine: list[str] = []
            for op, at in zip(self.script("sglang"), self.times(), strict=False):
                if op == "number":
                    mine.append(actor + self.number(self.rng.choice((None, at // 100))))
                    continue
                ranks = self.rng.sample(("TP0", "TP1", "DP1 TP3"), self.rng.choice((1, 1, 2)))
                access = op in {"released", "resumed", "new"}
                mine += [
                    f"{actor}[2026-11-29 {clock(at)}{'' if access else ' ' + rank}] {self.filled(SGLANG[op])}"
                    for rank in (ranks[:1] if access else ranks)
                ]
            streams.append(mine)
        while any(streams):
            stream = self.rng.choice([s for s in streams if s])
            file.lines.append(stream.pop(0))
        return file

    def console(self, of: File, host: str) -> File:
        """What Ray's driver shows of a server: each of its lines, or most."""
        head = f"(vLLMHttpServer pid={next(self.pids)}) "
        lines = [head + line for line in of.lines if self.chance(0.95)]
        return File("driver.log", host, lines, {"console": True})

    def trainer(self, host: str, name: str) -> File:
        """Steps and numbers, of one process or of a launch's ranks."""
        ranks = self.rng.choice(([""], [""], ["[rank0]: ", "[rank1]: "]))
        traits: dict[str, object] = {"stream": self.rng.choice(("", "stdout", "stderr"))}
        if ranks == [""] and self.chance(0.5):
            traits |= {"single_process": True, "pid": next(self.pids)}
        file, prints_steps = File(name, host, [], traits), self.chance(0.7)
        at, step, end = self.rng.randint(0, 300), self.rng.randint(1, 4), self.rng.choice((900, 3500))
        while at < end:
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                # As near to what the engine does as clocks and stamps are apart.
                near = [moment for moment in self.moments if at <= moment < at + 300]
                if near and self.chance(0.5):
                    at = max(at, self.rng.choice(near) + self.rng.randint(-4, 4))
                stamp = f"[2026-11-29 {clock(at)}] trainer.py:231 - " if self.chance(0.6) else ""
                told = self.number(step if self.chance(0.5) else None)
                file.lines.append(self.rng.choice(ranks) + stamp + told)
                at += self.rng.choice((0, 3, 40))
            if self.faulty and self.chance(0.1):
                for rank in ranks:
                    file.lines += self.fault(rank)
            if prints_steps:
                stamp = f"[2026-11-29 {clock(min(at, 3590))}] trainer.py:90 - " if self.chance(0.85) else ""
                file.lines.append(f"{ranks[0]}{stamp}step:{step} - actor/loss:0.1 - training/global_step:{step}")
            step += 1
            at += self.rng.choice((60, 200, 500))
        return file

    def make(self) -> World:
        hosts = ["node0", "node1"]
        files = [
            self.vllm("node0", "engine.log") if self.chance(0.6) else self.sglang("node0", "engine.log", self.rng.choice((1, 2)))
        ]  # fmt: skip
        if self.chance(0.3):
            files.append(self.vllm(self.rng.choice(hosts), "other.log"))
        if self.chance(0.4) and "(APIServer" in "".join(files[0].lines):
            files.append(self.console(files[0], self.rng.choice(hosts)))
        files += [self.trainer(self.rng.choice(hosts), f"trainer{n}.log") for n in range(self.rng.choice((0, 1, 1, 2)))]
        zone = self.rng.choice((0, 0, 3600, None))
        for file in files:
            file.traits["zone_s"] = zone if self.chance(0.85) else None
        cuts = []  # of every log: one without a cut is cut where a store had read it
        if self.chance(0.3):
            cuts = [{f.name: self.rng.randint(0, len(f.lines)) for f in files}]
        return World(files, cuts, self.faulty)
