"""What tic.toml says, as values with their defaults. tic.toml's keys are the attributes' names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tic_daemon.config.globs import glob_match
from tic_daemon.listen import Listen
from tic_daemon.wandb import keys
from tic_daemon.wandb.keys import Keys

ROLES = ("rollout", "trainer", "driver", "kernel", "scheduler", "unknown")
STREAMS = ("stdout", "stderr", "")
CONTROLS = ("inference_alone", "training_alone", "cross_stack", "score_layer")
GOALS = ("repeatability", "layout_invariance", "prefill_decode", "cross_stack", "training_loop")

PLACE = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
"""A part of a name in the paths of a `[[comparison]]`."""


@dataclass(frozen=True, slots=True)
class PollConfig:
    """How files are looked at. Seconds, but for the two counts.

    Attributes:
        rest_s: pause between two looks, so that one look serves many writes.
        sweep_s: every local file is looked at this often, whatever the doorbell says.
        rescan_s: the roots are walked this often, whatever the file system's name events say.
        network_s, network_cold_s: files on network mounts are opened and read this often, if they grew in the last
            minute or not.
        tail_s: an unterminated last line that did not change for this long is shown (provisionally).
        linger_s: a rotated or deleted file is taken for ended when nothing was added for this long.
        idle_s: a source without growth for this long is called idle.
        network_threads: threads that wait for network mounts.
        max_open_files: descriptors held open at most; 0: as many as the system allows.
    """

    rest_s: float = 0.02
    sweep_s: float = 1.0
    rescan_s: float = 5.0
    network_s: float = 1.0
    network_cold_s: float = 5.0
    tail_s: float = 1.0
    linger_s: float = 1.0
    idle_s: float = 60.0
    network_threads: int = 8
    max_open_files: int = 0


@dataclass(frozen=True, slots=True)
class LockConfig:
    """What counts as surely earlier than a fault (docs/explanation/evidence.md).

    Attributes:
        margin_s: seconds by which the clocks of two hosts may differ. On one host the margin is 0.
        staleness: steps by which rollout and trainer may be apart. Within a process it is 0.
    """

    margin_s: float = 2.0
    staleness: int = 1


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """The live endpoint. `listen` as `--listen` says it (listen.py)."""

    listen: Listen = Listen()  # noqa: RUF009  frozen


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the live store lies, and how often it is published (docs/how-to/cluster.md).

    Attributes:
        local_dir: directory on a disk of this machine for the live store, if the state directory is on a network file
            system or file locks do not hold there. None: the first of several usual ones that will do.
        snapshot_s: seconds between two snapshots, at least. 0: none are published.
    """

    local_dir: Path | None = None
    snapshot_s: float = 10.0


@dataclass(frozen=True, slots=True)
class GpuConfig:
    """NVIDIA GPUs of this machine, through NVML (sources/gpu.py).

    Attributes:
        watch: false: the driver is never asked.
        every_s: seconds between two readings. Xid and ECC events are told as they happen.
    """

    watch: bool = True
    every_s: float = 10.0


@dataclass(frozen=True, slots=True)
class WandbRunConfig:
    """One `[[wandb_run]]`: the history of `path` (entity/project/id) belongs to run `run` (""; not said)."""

    path: str
    run: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class WandbConfig:
    """W&B histories, read back through its API (sources/wandb_api.py).

    Attributes:
        read: false: the API is never asked.
        every_s: seconds between two readings of what is new.
        full_s: seconds between two readings of everything.
        deadline_s: a reading is ended after so long; a longer history is read in several.
        grace_s: a row that is younger is under way, not missing.
        framework, revision: whose keys the histories have, and of which commit; "": as the histories show.
        runs: see `WandbRunConfig`.
        keys: which keys are training steps and what they measure: the program's tables, and `[[step_key]]` and
            `[[metric_key]]` before them (wandb/keys.py).
    """

    read: bool = True
    every_s: float = 60.0
    full_s: float = 3600.0
    deadline_s: float = 300.0
    grace_s: float = 45.0
    framework: str = ""
    revision: str = ""
    runs: tuple[WandbRunConfig, ...] = ()
    keys: Keys = field(default_factory=keys.built_in)


@dataclass(frozen=True, slots=True)
class ResultsConfig:
    """Results directories (sources/results.py).

    Attributes:
        watch: false: no manifest is read and nothing is hashed.
        hosts: only the daemons on these hosts do; empty: all. Of many nodes on one shared directory one is enough.
    """

    watch: bool = True
    hosts: tuple[str, ...] = ()

    def on(self, host: str) -> bool:
        """Whether the daemon on `host` looks at results."""
        return self.watch and (not self.hosts or host in self.hosts)


@dataclass(frozen=True, slots=True)
class CompareConfig:
    """Comparisons that the daemon makes by itself (tic_daemon/comparisons).

    Attributes:
        watch: false: nothing is compared.
        criterion: file of the criterion that judges where a `[[comparison]]` names none. planted: report of its
            planted error.
        deadline_s: a comparison that takes longer is ended, and counts as failed.
        memory_mb: what the process that compares may have.
    """

    watch: bool = True
    criterion: Path | None = None
    planted: Path | None = None
    deadline_s: float = 3600.0
    memory_mb: int = 4096


@dataclass(frozen=True, slots=True)
class ComparisonConfig:
    """One `[[comparison]]`: files that are to be held against each other, and what no manifest says of them.

    `a` is a path or glob, in which `{name}` stands for a part of a name; `b`, `tokens` and repeats are paths in which
    the same names stand for the same text. Without `b` the file holds both sides.
    """

    a: str
    b: str = ""
    line: int = 0
    tokens: str = ""
    repeats_a: tuple[str, ...] = ()
    repeats_b: tuple[str, ...] = ()
    control: str = ""
    variant: str = ""
    goal: str = "unknown"
    basis: str | None = None
    policy: str | None = None
    intervention: str | None = None
    criterion: Path | None = None
    planted: Path | None = None
    plant: str = ""
    run: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One `[[source]]`. None: not said, discovery decides.

    `zone` is an IANA name ("Asia/Tokyo") or an offset ("+08:00", "UTC"); `network` true forces re-opening polls, false
    forbids them; `skip` true leaves the files out.
    """

    path: str
    line: int = 0
    role: str | None = None
    framework: str | None = None
    rank: int | None = None
    run: str | None = None
    stream: str | None = None
    single_process: bool | None = None
    console: bool | None = None
    zone: str | None = None
    host: str | None = None
    network: bool | None = None
    skip: bool | None = None


_SAID = tuple(one.name for one in fields(SourceConfig) if one.default is None)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One `[[run]]`: sources whose path matches `path` belong to run `name`."""

    name: str
    path: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class PairConfig:
    """One `[[pair]]`: two arms of runs that are to be compared (docs/how-to/pair-arms.md).

    Attributes:
        name: names the pair.
        a, b: run ids of the arms, in the order in which they are paired.
        baseline: id of the reviewed baseline that arm a stands for.
        excluded: "RUN: reason" of runs that were made for it and do not count.
        switch: keys, variables or record fields in which the arms may differ.
        purpose: iteration or acceptance. full_steps, full_response: steps and response length of the recipe's default.
        criterion: SHA-256 of the frozen criterion. seeds: why there are several; "" there is one.
        performance, quality: full keys of metrics. tokens, errors: keys of effective tokens and of the error count.
        scores_a, scores_b: files of scored problems, pair by pair, relative to this file.
        plant: the error that was planted in arm b, if the pair is to show that a criterion can fail.
    """

    name: str
    line: int = 0
    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    baseline: str = ""
    excluded: tuple[str, ...] = ()
    switch: tuple[str, ...] = ()
    purpose: str = ""
    full_steps: int | None = None
    full_response: int | None = None
    criterion: str = ""
    seeds: str = ""
    performance: tuple[str, ...] = ()
    quality: tuple[str, ...] = ()
    tokens: str = ""
    errors: str = ""
    scores_a: tuple[str, ...] = ()
    scores_b: tuple[str, ...] = ()
    plant: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that tic.toml can say, with its defaults.

    Attributes:
        base: absolute directory that relative paths and globs start from.
        file: the tic.toml read, or None.
    """

    base: Path
    file: Path | None = None
    state_dir: Path | None = None
    who: str = ""
    host: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    poll: PollConfig = field(default_factory=PollConfig)
    lock: LockConfig = field(default_factory=LockConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    gpu: GpuConfig = field(default_factory=GpuConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    results: ResultsConfig = field(default_factory=ResultsConfig)
    compare: CompareConfig = field(default_factory=CompareConfig)
    comparisons: tuple[ComparisonConfig, ...] = ()
    sources: tuple[SourceConfig, ...] = ()
    runs: tuple[RunConfig, ...] = ()
    pairs: tuple[PairConfig, ...] = ()

    def matches(self, pattern: str, path: str) -> bool:
        """Whether `pattern` of this configuration matches the absolute path `path`."""
        return glob_match(pattern, path, str(self.base))

    def source_for(self, path: str) -> SourceConfig:
        """All that `[[source]]` entries say about `path`, later entries over earlier ones; `line` is the last one's."""
        said: dict[str, Any] = {}
        for entry in self.sources:
            if self.matches(entry.path, path):
                said.update({k: getattr(entry, k) for k in _SAID if getattr(entry, k) is not None})
                said["line"] = entry.line
        said["path"] = path
        return SourceConfig(**said)

    def run_for(self, path: str) -> str:
        """The run given to `path`: by `[[source]] run`, else by the last `[[run]]` that matches, else ""."""
        own = self.source_for(path).run
        if own is not None:
            return own
        names = [run.name for run in self.runs if self.matches(run.path, path)]
        return names[-1] if names else ""
