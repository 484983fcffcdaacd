"""What /proc tells of a process that the driver names: whose it is, not what it does.

The driver's pid is of the namespace that the daemon asks in, or of the host's. A pid that /proc does not have is of
another namespace: nothing is known of it then. A process in a container of its own prints the innermost of its pids.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """`log_pid`: what its own log lines print. `started_at`: naive UTC. Paths: its stdout and stderr, "" if no file."""

    log_pid: int
    started_at: datetime
    command: str
    out_path: str
    err_path: str


def look_at(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """None: there is no such process here, or it cannot be looked at."""
    own = proc / str(pid)
    try:
        # The command stands in brackets and may hold any character; 22 is the start in ticks since boot.
        _, _, rest = (own / "stat").read_text("utf-8", "backslashreplace").rpartition(")")
        ticks = int(rest.split()[19])
        boot = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
        status = (own / "status").read_text("utf-8", "backslashreplace").splitlines()
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    started = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    said = {key: value.strip() for key, _, value in (line.partition(":") for line in status)}
    return Process(
        int((said.get("NSpid") or str(pid)).split()[-1]),
        datetime.fromtimestamp(started, UTC).replace(tzinfo=None),
        said.get("Name", ""),
        _file(own / "fd/1"),
        _file(own / "fd/2"),
    )


def _file(link: Path) -> str:
    try:
        path = os.readlink(link)  # noqa: PTH115  names need not be valid text
    except OSError:  # of another user
        return ""
    return path if path.startswith("/") and not path.startswith("/dev/") else ""
