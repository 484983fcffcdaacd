"""What discovery knows of a file that scanning needs: facts from its path and configuration, never from its lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """Facts about one source, fixed for a generation.

    Attributes:
        role: rollout | trainer | driver | kernel | scheduler | unknown. A driver has no CUDA context: what it prints
            about CUDA faults is a mention.
        framework: ray | torchrun | slurm | kubernetes | plain | ...
        rank: global rank from the path, or None.
        pid: process id from the path (Ray worker files), or None.
        actor: actor name that the path or the file's first lines tell ("WorkerDict"), or "".
        single_process: one process writes this file, so every line has the same writer.
        stream: "stdout" | "stderr" | "" (both, or unknown).
        console: a driver's or launcher's console: forwarded copies of other processes' lines.
        reference_time: a naive local time near the file's last line (its modification time at first sight), which
            gives stamps without a year their year. Without it such stamps stay unknown.
    """

    role: str = "unknown"
    framework: str = "plain"
    rank: int | None = None
    pid: int | None = None
    actor: str = ""
    single_process: bool = False
    stream: str = ""
    console: bool = False
    reference_time: datetime | None = None
