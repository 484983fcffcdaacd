"""tic.toml: what a person says about a workspace. It overrides everything that discovery decides.

    state_dir = ".tic"                 # where the daemon writes; relative paths lie beside tic.toml
    who = "mkl"                        # name put into marks
    host = "node17"                    # host name recorded with every row
    include = ["**/*.log.txt"]         # file names that discovery would not take for logs
    exclude = ["**/tensorboard/**"]
    rules = ["my-rules"]               # directories with more rule packs

    [poll]                             # seconds; see `PollConfig`
    [lock]                             # margin_s, staleness; see `LockConfig`
    [endpoint]                         # listen = "auto"; see listen.py
    [store]                            # local_dir, snapshot_s; see `StoreConfig`
    [gpu]                              # watch, every_s; see `GpuConfig`
    [wandb]                            # read, every_s, ...; see `WandbConfig`

    [[source]]                         # decides for all files that `path` matches; the last to speak wins
    path = "logs/trainer*.log"
    role = "trainer"
    zone = "Asia/Tokyo"

    [[run]]
    name = "grpo-a"
    path = "jobs/4711/**"              # sources under it belong to the run

    [compare]                          # watch, criterion, ...; see `CompareConfig`

    [[comparison]]                     # dumps that are to be compared; see `ComparisonConfig`
    a = "rollout/step_{step}/logprobs.pt"
    b = "trainer/step_{step}/logprobs.pt"

    [[pair]]
    name = "bi-on-off"                 # two arms of runs, and what is compared of them; see `PairConfig`
    a = ["bi0-1", "bi0-2"]
    b = ["bi1-1", "bi1-2"]

    [[step_key]], [[metric_key]]       # W&B keys of your own trainer; see wandb/keys.py

    [[wandb_run]]
    path = "entity/project/id"         # a W&B run whose history is read, where no log names it
    run = "grpo-a"

Globs: `*` and `?` stop at "/", `**` does not. A glob without "/" is held against the file name alone; a relative one
with "/" starts beside tic.toml. An unknown key, a wrong type or a value out of range is a `ConfigError` with file, line
(where it can be told) and what is allowed: a setting that is misspelt must never be ignored in silence.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tic_daemon.errors import ConfigError
from tic_daemon.listen import Listen
from tic_daemon.listen import parse as parse_listen
from tic_daemon.wandb import keys
from tic_daemon.wandb.keys import Keys

CONFIG_NAME = "tic.toml"
ROLES = ("rollout", "trainer", "driver", "kernel", "scheduler", "unknown")
STREAMS = ("stdout", "stderr", "")

_WANDB_NAME = re.compile(r"[^/\\#?%:\x00-\x1f\x7f-\x9f]{1,200}")
"""W&B's own rule for names of entities, projects and runs."""
PLACE = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
"""A part of a name in the paths of a `[[comparison]]`."""
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?(\d{2}))?\Z")


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
                said.update({k: getattr(entry, k) for k in _SOURCE_KEYS if getattr(entry, k) is not None})
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


def load_config(file: Path | None = None, *, workspace: Path | None = None) -> Config:
    """Reads `file`, else `<workspace>/tic.toml` if it is there, else gives the defaults.

    Raises:
        ConfigError: the file cannot be read or holds something that is not allowed.
    """
    base = Path(workspace or Path.cwd()).absolute()
    if file is None:
        candidate = base / CONFIG_NAME
        if not os.path.lexists(candidate):
            return Config(base=base, who=_user(), host=_host())
        if not candidate.is_file():  # a directory, a pipe, a link to nowhere: never ignored in silence
            raise ConfigError(f"{candidate}: no readable file", "Make it one, or remove it.")
        file = candidate
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}", "Name a readable tic.toml.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 (byte {error.start})", "Save the file as UTF-8.") from error
    return parse_config(text, file.absolute())


def parse_config(text: str, file: Path) -> Config:
    """`text` of a tic.toml that lies at `file`. Raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}", "tic.toml is TOML: https://toml.io") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: nested too deeply", "tic.toml is TOML: https://toml.io") from error
    reader = _Reader(file, text)
    top = reader.table(data, "", _TOP)
    base = file.parent
    return Config(
        base=base,
        file=file,
        state_dir=_under(base, top.get("state_dir")),
        who=str(top.get("who") or _user()),
        host=str(top.get("host") or _host()),
        include=reader.strings(data, "include"),
        exclude=reader.strings(data, "exclude"),
        rules=tuple(base / name for name in reader.strings(data, "rules")),
        poll=PollConfig(**reader.section(data, "poll", _POLL)),
        lock=LockConfig(**reader.section(data, "lock", _LOCK)),
        endpoint=_endpoint(reader.section(data, "endpoint", _ENDPOINT)),
        store=_store(base, reader.section(data, "store", _STORE)),
        gpu=GpuConfig(**reader.section(data, "gpu", _GPU)),
        wandb=WandbConfig(
            **reader.section(data, "wandb", _WANDB),
            runs=tuple(WandbRunConfig(**entry) for entry in reader.entries(data, "wandb_run", _WANDB_RUN)),
            keys=keys.load(data, str(file)),
        ),
        results=_results(reader.section(data, "results", _RESULTS)),
        compare=_compare(base, reader.section(data, "compare", _COMPARE)),
        comparisons=tuple(
            _comparison(reader, base, entry) for entry in reader.entries(data, "comparison", _COMPARISON)
        ),
        sources=tuple(SourceConfig(**entry) for entry in reader.entries(data, "source", _SOURCE)),
        runs=tuple(RunConfig(**entry) for entry in reader.entries(data, "run", _RUN)),
        pairs=tuple(_pair(entry) for entry in reader.entries(data, "pair", _PAIR)),
    )


def zone_offset(zone: str, at: datetime | None = None) -> int:
    """Seconds east of UTC of `zone` (an IANA name or an offset) at the instant `at` (now). Raises ValueError."""
    match = _OFFSET.match(zone)
    if match:
        sign, hours, minutes = match[1], int(match[2]), int(match[3] or 0)
        if hours > 14 or minutes > 59:
            raise ValueError(f"no such offset: {zone}")
        return (hours * 3600 + minutes * 60) * (-1 if sign == "-" else 1)
    try:
        offset = (at or datetime.now(UTC)).astimezone(ZoneInfo(zone)).utcoffset()
    except (OSError, ValueError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError; odd names are the others
        raise ValueError(f"no such time zone: {zone}") from error
    return int(offset.total_seconds()) if offset is not None else 0


def is_run_path(text: str) -> bool:
    """Whether `text` names a run as W&B does: entity/project/id."""
    names = text.split("/")
    return len(names) == 3 and all(
        _WANDB_NAME.fullmatch(name) and name == name.strip() and name not in (".", "..") for name in names
    )


def glob_match(pattern: str, path: str, base: str = "/") -> bool:
    """Whether the glob matches the absolute `path`. Rules in the module's docstring."""
    if "/" not in pattern:
        path = path.rsplit("/", 1)[-1]
    elif not pattern.startswith(("/", "**/")):
        pattern = f"{_escape(base.rstrip('/'))}/{pattern.removeprefix('./')}"
    return _compiled(pattern).fullmatch(path) is not None


def _escape(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 3
        elif pattern.startswith("**", i):
            out.append(".*")
            i += 2
        elif char == "[" and (end := pattern.find("]", i + 2)) > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
            i = end + 1
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
            i += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


# --- what is allowed -----------------------------------------------------------------------------------------------


def _wandb_path(text: str) -> None:
    if not is_run_path(text):
        raise ValueError(text)


_PARSERS: dict[str, Callable[[str], object]] = {
    "zone": zone_offset,
    "address": parse_listen,
    "wandb run": _wandb_path,
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Type and range of one key. `values` closes a text to a list; `low` and `high` bound a number."""

    type: str
    low: float = 0.0
    high: float = float("inf")
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.values:
            return "one of " + ", ".join(f'"{value}"' for value in self.values)
        if self.type in ("number", "whole number"):
            return f"a {self.type} from {self.low:g} to {self.high:g}"
        return {
            "text": "a text",
            "truth": "true or false",
            "zone": 'a time zone such as "Asia/Tokyo" or "+08:00"',
            "address": '"auto", "HOST", "HOST:PORT" or "[V6-ADDRESS]:PORT"',
            "wandb run": 'a W&B run as "entity/project/id"',
        }.get(self.type, self.type)

    def accepts(self, value: object) -> bool:  # noqa: PLR0911 - one return a type
        if self.type == "truth":
            return isinstance(value, bool)
        if self.type in ("number", "whole number"):
            fits = isinstance(value, int) or (self.type == "number" and isinstance(value, float))
            return fits and not isinstance(value, bool) and self.low <= value <= self.high  # type: ignore[operator]
        if self.type == "texts":
            return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        if not isinstance(value, str) or "\0" in value:
            return False
        if self.type in _PARSERS:
            try:
                _PARSERS[self.type](value)
            except (ValueError, ConfigError):
                return False
            return True
        return value in self.values if self.values else value != ""


_TEXT, _TRUTH, _TEXTS = _Kind("text"), _Kind("truth"), _Kind("texts")
_TOP: dict[str, _Kind] = {
    **dict.fromkeys(("state_dir", "who", "host"), _TEXT),
    **dict.fromkeys(("include", "exclude", "rules"), _TEXTS),
    **dict.fromkeys(
        (
            "poll",
            "lock",
            "endpoint",
            "store",
            "gpu",
            "wandb",
            "results",
            "compare",
            "comparison",
            "source",
            "run",
            "wandb_run",
            "pair",
        ),
        _Kind("table"),
    ),
}
_SECONDS = _Kind("number", 0.01, 86400)
_POLL: dict[str, _Kind] = {
    "rest_s": _Kind("number", 0, 10),
    **dict.fromkeys(("sweep_s", "rescan_s", "network_s", "network_cold_s", "tail_s", "linger_s", "idle_s"), _SECONDS),
    "network_threads": _Kind("whole number", 1, 256),
    "max_open_files": _Kind("whole number", 0, 1_000_000),
}
_LOCK: dict[str, _Kind] = {
    "margin_s": _Kind("number", 0, 86400),
    "staleness": _Kind("whole number", 0, 1_000_000),
}
_ENDPOINT: dict[str, _Kind] = {"listen": _Kind("address")}
_STORE: dict[str, _Kind] = {"local_dir": _TEXT, "snapshot_s": _Kind("number", 0, 86400)}
_GPU: dict[str, _Kind] = {"watch": _TRUTH, "every_s": _Kind("number", 1, 3600)}
_RESULTS: dict[str, _Kind] = {"watch": _TRUTH, "hosts": _TEXTS}
_COMPARE: dict[str, _Kind] = {
    "watch": _TRUTH,
    **dict.fromkeys(("criterion", "planted"), _TEXT),
    "deadline_s": _Kind("number", 1, 604800),
    "memory_mb": _Kind("whole number", 256, 1 << 20),
}
CONTROLS = ("inference_alone", "training_alone", "cross_stack", "score_layer")
GOALS = ("repeatability", "layout_invariance", "prefill_decode", "cross_stack", "training_loop")
_COMPARISON: dict[str, _Kind] = {
    **dict.fromkeys(
        ("a", "b", "tokens", "variant", "basis", "policy", "intervention", "criterion", "planted", "plant", "run"),
        _TEXT,
    ),
    **dict.fromkeys(("repeats_a", "repeats_b"), _TEXTS),
    "control": _Kind("text", values=CONTROLS),
    "goal": _Kind("text", values=GOALS),
    "step": _Kind("whole number", 0, 2**62),
}
_SOURCE: dict[str, _Kind] = {
    **dict.fromkeys(("path", "framework", "run", "host"), _TEXT),
    "role": _Kind("text", values=ROLES),
    "stream": _Kind("text", values=STREAMS),
    "rank": _Kind("whole number", 0, 2**31 - 1),
    "zone": _Kind("zone"),
    **dict.fromkeys(("single_process", "console", "network", "skip"), _TRUTH),
}
_SOURCE_KEYS = tuple(key for key in _SOURCE if key != "path")
_RUN: dict[str, _Kind] = {"name": _TEXT, "path": _TEXT}
_WANDB: dict[str, _Kind] = {
    "read": _TRUTH,
    "every_s": _Kind("number", 1, 86400),
    "full_s": _Kind("number", 1, 604800),
    "deadline_s": _Kind("number", 1, 86400),
    "grace_s": _Kind("number", 1, 86400),
    **dict.fromkeys(("framework", "revision"), _TEXT),
}
_WANDB_RUN: dict[str, _Kind] = {"path": _Kind("wandb run"), "run": _TEXT}

_PAIR: dict[str, _Kind] = {
    **dict.fromkeys(("name", "baseline", "criterion", "seeds", "tokens", "errors", "plant"), _TEXT),
    **dict.fromkeys(("a", "b", "excluded", "switch", "performance", "quality", "scores_a", "scores_b"), _TEXTS),
    "purpose": _Kind("text", values=("iteration", "acceptance")),
    **dict.fromkeys(("full_steps", "full_response"), _Kind("whole number", 1, 2**53)),
}


class _Reader:
    """Checks tables against what is allowed; finds lines for its errors."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()

    def table(self, data: Mapping[str, Any], name: str, allowed: dict[str, _Kind], nth: int = 0) -> dict[str, Any]:
        for key, value in data.items():
            kind = allowed.get(key)
            if kind is None:
                where = f"[{name}] " if name else ""
                raise self._error(name, key, nth, f"{where}unknown key `{key}`", f"Allowed here: {', '.join(allowed)}.")
            if kind.type != "table" and not kind.accepts(value):
                raise self._error(name, key, nth, f"`{key}` is {value!r}", f"`{key}` must be {_words(kind)}.")
        return dict(data)

    def strings(self, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = data.get(key, [])
        return tuple(str(item) for item in value) if isinstance(value, list) else ()

    def section(self, data: Mapping[str, Any], name: str, allowed: dict[str, _Kind]) -> dict[str, Any]:
        value = data.get(name, {})
        if not isinstance(value, dict):
            raise self._error("", name, 0, f"`{name}` is no table", f"Write [{name}] and its keys below it.")
        return self.table(value, name, allowed)

    def entries(self, data: Mapping[str, Any], name: str, allowed: dict[str, _Kind]) -> list[dict[str, Any]]:
        value = data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._error("", name, 0, f"`{name}` is no list of tables", f"Write [[{name}]], with two brackets.")
        out = []
        for nth, item in enumerate(value):
            entry = self.table(item, name, allowed, nth)
            for needed in ("name", "path", "a"):
                if needed in allowed and needed not in entry:
                    raise self._error(name, "", nth, f"[[{name}]] without `{needed}`", f'Add {needed} = "...".')
            entry["line"] = self._line(name, "", nth)
            out.append(entry)
        return out

    def wrong(self, table: str, entry: Mapping[str, Any], what: str, hint: str) -> ConfigError:
        """An error of a whole entry, as `entries` gave it."""
        line = f":{entry['line']}" if entry.get("line") else ""
        return ConfigError(f"{self._file}{line}: [[{table}]] {what}", hint)

    def _error(self, table: str, key: str, nth: int, what: str, hint: str) -> ConfigError:
        line = self._line(table, key, nth)
        return ConfigError(f"{self._file}{f':{line}' if line else ''}: {what}", hint)

    def _line(self, table: str, key: str, nth: int) -> int:
        """1-based line of `key` (of the header if key is "") in the nth table of that name; 0: cannot be told."""
        current, seen = "", -1
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[\[?\s*([\w.\"'-]+)\s*\]?\]", line)
            if header:
                current = header[1].strip("\"'")
                seen += current == table
                if (current == table and seen == nth and not key) or (not table and current == key):
                    return number
                continue
            inside = bool(key) and current == table and (not table or seen == nth)
            if inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return number
        return 0


def _words(kind: _Kind) -> str:
    return "a list of texts" if kind.type == "texts" else str(kind)


def _results(said: Mapping[str, Any]) -> ResultsConfig:
    return ResultsConfig(said.get("watch", True), tuple(said.get("hosts", ())))


def _compare(base: Path, said: Mapping[str, Any]) -> CompareConfig:
    files = {key: _under(base, said.get(key)) for key in ("criterion", "planted")}
    return CompareConfig(**{**said, **files})


def _comparison(reader: _Reader, base: Path, said: Mapping[str, Any]) -> ComparisonConfig:
    names = set(PLACE.findall(said["a"]))
    for key in ("b", "tokens", "repeats_a", "repeats_b"):
        listed = said.get(key, ())
        for text in (listed,) if isinstance(listed, str) else listed:
            unknown = sorted(set(PLACE.findall(text)) - names)
            if unknown or "*" in text or "?" in text:
                what = f"{{{unknown[0]}}}, which `a` does not name" if unknown else "a glob"
                raise reader.wrong("comparison", said, f"`{key}` holds {what}", "Name the part in `a`: {name}.")
    files = {key: _under(base, said.get(key)) for key in ("criterion", "planted")}
    lists = {key: tuple(said.get(key, ())) for key in ("repeats_a", "repeats_b")}
    return ComparisonConfig(**{**said, **files, **lists})


def _pair(said: Mapping[str, Any]) -> PairConfig:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}
    return PairConfig(**values)


def _endpoint(said: Mapping[str, Any]) -> EndpointConfig:
    return EndpointConfig(parse_listen(said["listen"])) if "listen" in said else EndpointConfig()


def _store(base: Path, said: Mapping[str, Any]) -> StoreConfig:
    return StoreConfig(**{**said, "local_dir": _under(base, said.get("local_dir"))})


def _under(base: Path, value: object) -> Path | None:
    return None if value is None else base / str(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a uid without a name, as in containers
        return ""


def _host() -> str:
    return socket.gethostname() or "localhost"
