"""Ending a process with all that it started, also what went into a session of its own (as wandb-core does)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_tree(pid: int, *, itself: bool = True) -> None:
    """Kills `pid` and its descendants. `pid` must be a child of the caller, or the caller with `itself` false.

    It is stopped first, so that it starts nothing more while the others are looked for. Without /proc its own group
    is all that can be named.
    """
    if itself:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
    for one in _below(pid):
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)
    if itself:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(pid, signal.SIGKILL)


def _below(pid: int) -> list[int]:
    """All descendants, the nearest first."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal() and (parent := _parent(entry.path)) is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found, nearer = [], [pid]
    while nearer:
        nearer = [child for one in nearer for child in children.get(one, ())]
        found += nearer
    return found


def _parent(directory: str) -> int | None:
    try:
        text = Path(directory, "stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[1])  # a name may hold blanks and brackets
    except (OSError, ValueError, IndexError):
        return None
