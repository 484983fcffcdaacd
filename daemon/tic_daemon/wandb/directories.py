"""Directories of W&B runs: what their names tell, and what lies beside a transaction log.

wandb/run-20261130_120000-ID/               an online run; each process of a shared run and each resumption has its own
wandb/offline-run-20261130_120000-ID/       an offline run; a taken name gets -1, -2, ...
    run-ID.wandb                            the transaction log
    run-ID.wandb.synced                     put there by `wandb sync`
    run-ID.wandb.syncstate                  JSON with the step at which this process began to count
    logs/debug-internal.log                 what the uploader says of itself
wandb/latest-run                            a link to the newest: the same directory, never another run
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Final

_LOG: Final = re.compile(r"run-(?P<id>.+)\.wandb", re.DOTALL)
_DIRECTORY: Final = re.compile(r"(?P<offline>offline-)?run-\d{8}_\d{6}-.+", re.DOTALL)
_SIDE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class RunFile:
    """A transaction log by its path.

    Attributes:
        wandb_id: from the file's own name: a directory's may have -1 behind it.
        offline: the directory says that nothing was uploaded while it was written.
    """

    path: str
    wandb_id: str
    offline: bool

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def uploader_log(self) -> str:
        return f"{self.directory}/logs/debug-internal.log"


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside a log now. `starting_step` None: nothing tells."""

    synced: bool = False
    starting_step: int | None = None

    def to_json(self) -> str:
        """As the cursor keeps it."""
        return json.dumps([self.synced, self.starting_step])

    @classmethod
    def of_json(cls, text: str) -> Beside:
        """What `to_json` gave; of other text, that nothing lies there."""
        try:
            synced, step = json.loads(text)
            return cls(synced is True, step if isinstance(step, int) else None)
        except (ValueError, TypeError):
            return cls()


def is_log_name(name: str) -> bool:
    """Whether a file may be a transaction log."""
    return _LOG.fullmatch(name) is not None


def run_file(path: str) -> RunFile | None:
    """What a path tells; None if it is no transaction log's."""
    head, _, name = path.rpartition("/")
    match = _LOG.fullmatch(name)
    if match is None:
        return None
    directory = _DIRECTORY.fullmatch(head.rpartition("/")[2])
    return RunFile(path, match["id"], bool(directory and directory["offline"]))


def beside(path: str) -> Beside:
    """Looks at the small files beside a log."""
    starting = None
    try:
        fd = os.open(f"{path}.syncstate", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            told = json.loads(os.read(fd, _SIDE_BYTES))
        finally:
            os.close(fd)
        step = told.get("starting_step") if isinstance(told, dict) else None
        if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 1 << 63:
            starting = step
    except (OSError, ValueError, RecursionError):
        pass  # there is none, or it is being written
    return Beside(os.path.lexists(f"{path}.synced"), starting)
