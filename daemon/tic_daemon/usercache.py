"""Directories that are ours alone; and the one of the user's cache, where what a start has made waits for the next.

Nothing depends on what lies there: each file's name says what it was made of, and one that is missing, spoilt or where
others may write is made anew.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Final

STALE_S: Final = 30 * 86400.0
"""After so long without use by a start that made another one, a file of another program version is removed."""


def folder() -> Path | None:
    """`$XDG_CACHE_HOME/tic-daemon` or `~/.cache/tic-daemon`, made if need be; None: it cannot be, or is not ours."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if not base.is_absolute():
            return None
        found = base / "tic-daemon"
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_ours(found)
    except (OSError, RuntimeError, ValueError):
        return None
    return found


def require_ours(directory: Path) -> None:
    """Raises OSError if another user made the directory, or may write in it, or if it is a link."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{directory.name} is a link or no directory")
    if found.st_uid != os.getuid():
        raise OSError(f"{directory.name} belongs to another user")
    if found.st_mode & 0o022:
        raise OSError(f"others may write in {directory.name}")


def holds(path: Path) -> bool:
    """Whether there is a file of ours, and no link, pipe or device, of which reading might never end."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()


def part_of(path: Path) -> Path:
    """Where the file at `path` is written before it is moved there."""
    return path.with_name(f"{path.stem}.{os.getpid()}.{time.monotonic_ns()}.part")


def put(part: Path, path: Path) -> None:
    """Moves the finished `part` to `path`, for us alone, and takes away older files of its kind that nobody uses.

    Raises:
        OSError: it cannot be.
    """
    part.chmod(0o600)
    part.replace(path)
    kind = path.name.partition("-")[0]
    for other in path.parent.glob(f"{kind}-*"):
        if other != path and other.stat().st_mtime < time.time() - STALE_S:
            other.unlink()


def used(path: Path) -> None:
    """Notes that the file is in use."""
    with contextlib.suppress(OSError):
        os.utime(path)
