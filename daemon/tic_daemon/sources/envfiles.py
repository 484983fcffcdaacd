"""Settings of the environment that files beside a run pin: names, values, and whether they give way.

    is_env_file(name)     what looks like an environment file or a launch script
    pins(text)            what such a file sets, of the names on the list
    EnvFiles              the daemon's side: files read in a thread, again when they have changed

A plain `export NAME=value` wins over what a container or a shell passes in; `${NAME:-value}` gives way to it. Files are
read as text and never run: what a loop, a condition or another file does to a name is not known here. Only names on the
list are kept, and none that could hold a secret.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tic_daemon.sources.smallfiles import SmallFiles
from tic_daemon.store.rows import EnvPinRow

MAX_BYTES: Final = 256 * 1024
"""A longer file is no environment file; its first part is read."""
MAX_FILES: Final = 2000
MAX_PINS: Final = 500
_VALUE: Final = 500

_FILE: Final = re.compile(r"\.env(?:\.[\w-]+)?|env|[\w.-]+\.env|[\w.-]+\.(?:sh|bash|sbatch|slurm)")
_LISTED: Final = re.compile(
    r"(?:(?:DEEP_?EP|DEEPGEMM|DG|NVSHMEM|NCCL|RCCL|TORCH_NCCL|SGLANG|TRITON|TILELANG|FLASHINFER|TORCHINDUCTOR|NVTE|UCX)"
    r"_[A-Z0-9_]+"
    r"|VLLM_(?:DEEPEP_|USE_|ALL2ALL_|ATTENTION_|FLASH_ATTN_|MOE_)[A-Z0-9_]+|VLLM_[A-Z0-9_]*BATCH_INVARIANT[A-Z0-9_]*"
    r"|VLLM_LOGGING_LEVEL|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_MODULE_LOADING|CUBLAS_WORKSPACE_CONFIG"
    r"|PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF|TORCH_USE_CUDA_DSA|TORCH_LOGS|NVIDIA_TF32_OVERRIDE|RAY_DEDUP_LOGS)"
)
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE|AUTH")
_SET: Final = re.compile(
    r"""(?<![\w$.{/-])(?P<name>[A-Z][A-Z0-9_]{2,80})=(?P<value>"[^"\n]{0,2000}"|'[^'\n]{0,2000}'|[^\s;&|#"')]{0,2000})"""
)
_DEFAULT: Final = re.compile(r"""\$\{(?P<name>[A-Z][A-Z0-9_]{2,80}):?=(?P<value>[^}\n]{0,2000})\}""")
_GIVES_WAY: Final = re.compile(r"\$\{(?P<name>[A-Z][A-Z0-9_]{2,80}):?-(?P<value>[^}\n]{0,2000})\}")
_SAID: Final = re.compile(r"\s*(?:echo|printf|cat|grep|#|//|:?\s*<<)")
_EXPORT: Final = re.compile(
    r"(?:^|[;&|({]|\bthen|\bdo|\belse)\s*(?:export|declare\s+-\w*x\w*|typeset\s+-\w*x\w*)\s[^;&|]*$"
)
_ARGUMENT: Final = re.compile(r"(?:^|\s)(?:-e|--env)[\s=]+[\"']?$|\benv\s[^;&|]*$")
_ALONE: Final = re.compile(r"(?:^|[;&|({]|\bthen|\bdo|\belse)\s*(?:[A-Za-z_]\w*=\S*\s+)*$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One setting. `form`: export | assign | default | argument; `hard`: it wins over what is passed in."""

    line_no: int
    name: str
    value: str
    form: str
    hard: bool


def is_env_file(name: str) -> bool:
    """Whether a file of this name may set the environment of a run."""
    return _FILE.fullmatch(name) is not None


def is_listed(name: str) -> bool:
    """Whether this variable's value is kept."""
    return _LISTED.fullmatch(name) is not None and not _SECRET.search(name)


def pins(text: str) -> list[Pin]:
    """What the text sets, line by line, at most `MAX_PINS`. Nothing is expanded."""
    found: list[Pin] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if "=" in line and not _SAID.match(line):
            found += _of_line(number, line)
        if len(found) >= MAX_PINS:
            break
    return found[:MAX_PINS]


def _of_line(number: int, line: str) -> list[Pin]:
    line = re.sub(r"(?:^|\s)#.*$", "", line)
    found = [
        Pin(number, hit["name"], _cleaned(hit["value"]), "default", hard=False)
        for hit in _DEFAULT.finditer(line)
        if is_listed(hit["name"])
    ]
    for hit in _SET.finditer(line):
        if not is_listed(hit["name"]):
            continue
        before, value = line[: hit.start()], _cleaned(hit["value"])
        given = _GIVES_WAY.fullmatch(value)
        if given is not None and given["name"] == hit["name"]:
            found.append(Pin(number, hit["name"], _cleaned(given["value"]), "default", hard=False))
        elif _EXPORT.search(before):
            found.append(Pin(number, hit["name"], value, "export", hard=True))
        elif _ARGUMENT.search(before):
            found.append(Pin(number, hit["name"], value, "argument", hard=True))
        elif _ALONE.search(before):
            found.append(Pin(number, hit["name"], value, "assign", hard=True))
    return found


def _cleaned(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return value[:_VALUE]


class EnvFiles(SmallFiles):
    """Keeps the pins of the files that discovery names.

    Args:
        host: name of this machine. run_for: the run that tic.toml gives to a path, "" if none.
        known: by path, the digest of what the store holds; "" if it holds none any more.
    """

    def __init__(self, host: str, run_for: Callable[[str], str], known: Mapping[str, str]) -> None:
        super().__init__("tic-env")
        self._host, self._run_for = host, run_for
        self._known = dict(known)
        self._rows: tuple[EnvPinRow, ...] = ()

    def look(self, files: Sequence[tuple[str, str]], now: float) -> None:
        """As of all small files; one that the store knows and that is gone is told, too."""
        if files or self._known:
            super().look(files, now)

    def pending(self) -> tuple[EnvPinRow, ...]:
        """Rows that are to be stored."""
        with self._lock:
            return self._rows

    def taken(self, rows: Iterable[EnvPinRow]) -> None:
        """Says that `rows` are committed."""
        done = set(rows)
        with self._lock:
            self._rows = tuple(row for row in self._rows if row not in done)

    def _looked(self, files: Sequence[tuple[str, str]]) -> None:
        for path in set(self._known).difference(path for path, _ in files):
            if self._known[path] and not os.path.lexists(path):
                self._known[path] = ""
                self._stats.pop(path, None)
                self._put([EnvPinRow(self._host, "", path, gone=True)])

    def _put(self, rows: Iterable[EnvPinRow]) -> None:
        with self._lock:
            self._rows += tuple(rows)

    def _changed(self, path: str, root: str, fd: int, info: os.stat_result) -> None:
        said = pins(os.read(fd, MAX_BYTES).decode("utf-8", "backslashreplace"))
        digest = hashlib.sha256(repr(said).encode()).hexdigest()[:16] if said else ""
        if self._known.get(path, "") == digest:
            return
        self._known[path] = digest
        if not said:
            self._put([EnvPinRow(self._host, root, path, gone=True)])
            return
        run, modified = self._run_for(path), datetime.fromtimestamp(info.st_mtime, UTC).replace(tzinfo=None)
        self._put(
            EnvPinRow(
                self._host, root, path, run, digest, False, pin.line_no, pin.name, pin.value,
                pin.form, pin.hard, modified,
            )
            for pin in said
        )  # fmt: skip
