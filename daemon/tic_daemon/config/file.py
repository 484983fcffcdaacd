"""Reads a tic.toml: what is allowed in each table, and the settings that come of it."""

from __future__ import annotations

import getpass
import os
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tic_daemon.config.settings import (
    CONTROLS,
    GOALS,
    PLACE,
    ROLES,
    STREAMS,
    CompareConfig,
    ComparisonConfig,
    Config,
    EndpointConfig,
    GpuConfig,
    LockConfig,
    PairConfig,
    PollConfig,
    ResultsConfig,
    RunConfig,
    SourceConfig,
    StoreConfig,
    WandbConfig,
    WandbRunConfig,
)
from tic_daemon.config.tables import Kind, Reader
from tic_daemon.config.texts import is_run_path, zone_offset
from tic_daemon.errors import ConfigError
from tic_daemon.listen import parse as parse_listen
from tic_daemon.wandb import keys

CONFIG_NAME = "tic.toml"


def _wandb_path(text: str) -> None:
    if not is_run_path(text):
        raise ValueError(text)


_TEXT, _TRUTH, _TEXTS = Kind("text"), Kind("truth"), Kind("texts")
_ZONE = Kind("text", parse=zone_offset, form='a time zone such as "Asia/Tokyo" or "+08:00"')
_ADDRESS = Kind("text", parse=parse_listen, form='"auto", "HOST", "HOST:PORT" or "[V6-ADDRESS]:PORT"')
_WANDB_PATH = Kind("text", parse=_wandb_path, form='a W&B run as "entity/project/id"')
_TOP: dict[str, Kind] = {
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
        Kind("table"),
    ),
}
_SECONDS = Kind("number", 0.01, 86400)
_POLL: dict[str, Kind] = {
    "rest_s": Kind("number", 0, 10),
    **dict.fromkeys(("sweep_s", "rescan_s", "network_s", "network_cold_s", "tail_s", "linger_s", "idle_s"), _SECONDS),
    "network_threads": Kind("whole number", 1, 256),
    "max_open_files": Kind("whole number", 0, 1_000_000),
}
_LOCK: dict[str, Kind] = {
    "margin_s": Kind("number", 0, 86400),
    "staleness": Kind("whole number", 0, 1_000_000),
}
_ENDPOINT: dict[str, Kind] = {"listen": _ADDRESS}
_STORE: dict[str, Kind] = {"local_dir": _TEXT, "snapshot_s": Kind("number", 0, 86400)}
_GPU: dict[str, Kind] = {"watch": _TRUTH, "every_s": Kind("number", 1, 3600)}
_RESULTS: dict[str, Kind] = {"watch": _TRUTH, "hosts": _TEXTS}
_COMPARE: dict[str, Kind] = {
    "watch": _TRUTH,
    **dict.fromkeys(("criterion", "planted"), _TEXT),
    "deadline_s": Kind("number", 1, 604800),
    "memory_mb": Kind("whole number", 256, 1 << 20),
}
_COMPARISON: dict[str, Kind] = {
    **dict.fromkeys(
        ("a", "b", "tokens", "variant", "basis", "policy", "intervention", "criterion", "planted", "plant", "run"),
        _TEXT,
    ),
    **dict.fromkeys(("repeats_a", "repeats_b"), _TEXTS),
    "control": Kind("text", values=CONTROLS),
    "goal": Kind("text", values=GOALS),
    "step": Kind("whole number", 0, 2**62),
}
_SOURCE: dict[str, Kind] = {
    **dict.fromkeys(("path", "framework", "run", "host"), _TEXT),
    "role": Kind("text", values=ROLES),
    "stream": Kind("text", values=STREAMS),
    "rank": Kind("whole number", 0, 2**31 - 1),
    "zone": _ZONE,
    **dict.fromkeys(("single_process", "console", "network", "skip"), _TRUTH),
}
_RUN: dict[str, Kind] = {"name": _TEXT, "path": _TEXT}
_WANDB: dict[str, Kind] = {
    "read": _TRUTH,
    "every_s": Kind("number", 1, 86400),
    "full_s": Kind("number", 1, 604800),
    "deadline_s": Kind("number", 1, 86400),
    "grace_s": Kind("number", 1, 86400),
    **dict.fromkeys(("framework", "revision"), _TEXT),
}
_WANDB_RUN: dict[str, Kind] = {"path": _WANDB_PATH, "run": _TEXT}

_PAIR: dict[str, Kind] = {
    **dict.fromkeys(("name", "baseline", "criterion", "seeds", "tokens", "errors", "plant"), _TEXT),
    **dict.fromkeys(("a", "b", "excluded", "switch", "performance", "quality", "scores_a", "scores_b"), _TEXTS),
    "purpose": Kind("text", values=("iteration", "acceptance")),
    **dict.fromkeys(("full_steps", "full_response"), Kind("whole number", 1, 2**53)),
}


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
    reader = Reader(file, text)
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


def _results(said: Mapping[str, Any]) -> ResultsConfig:
    return ResultsConfig(said.get("watch", True), tuple(said.get("hosts", ())))


def _compare(base: Path, said: Mapping[str, Any]) -> CompareConfig:
    files = {key: _under(base, said.get(key)) for key in ("criterion", "planted")}
    return CompareConfig(**{**said, **files})


def _comparison(reader: Reader, base: Path, said: Mapping[str, Any]) -> ComparisonConfig:
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
