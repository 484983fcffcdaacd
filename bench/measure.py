"""Processor time and memory of child processes, as the kernel counted them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TAIL = 4096
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finished child cost: processor seconds (user and system; children that it waited for included), wall
    seconds, peak resident MiB. `output`: the end of what it printed."""

    cpu_s: float
    wall_s: float
    rss_mib: float
    output: bytes = b""


def run(command: Sequence[str]) -> Cost:
    """Run to the end. What it prints goes through a pipe and is read: GNU grep and others do less work when they see
    that their output is /dev/null.

    Raises:
        RuntimeError: it failed; with the end of its standard error.
    """
    started = time.perf_counter()
    tail = bytearray()
    with subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as child:
        reader = threading.Thread(target=_drain, args=(child.stdout, tail))
        reader.start()
        error = child.stderr.read() if child.stderr is not None else b""
        reader.join()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with {child.returncode}: {error[-500:].decode(errors='replace')}")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(cpu, time.perf_counter() - started, usage.ru_maxrss / 1024, bytes(tail))


def _drain(pipe: IO[bytes] | None, tail: bytearray) -> None:
    while pipe is not None and (data := pipe.read(1 << 16)):
        tail += data
        del tail[:-_TAIL]


def environment() -> dict[str, str]:
    """The environment of children: this tree's packages, and compiled once, as what is installed is."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "daemon")])}
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        env.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / "bench-out" / "bytecode"))
    return env


def python(*args: str) -> list[str]:
    """A command line for this interpreter."""
    return [sys.executable, *args]


def process_cpu(pid: int) -> float:
    """Processor seconds that a running process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_rss(pid: int) -> float:
    """Resident MiB of a running process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def spread(values: Sequence[float]) -> str:
    """Median and range of a few runs."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie; nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
