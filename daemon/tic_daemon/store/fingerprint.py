"""Tells whether the files of a store changed, by their names, sizes and times alone.

A finished store is read from its file, and DuckDB lets no daemon write a file that someone holds open. So the screen
opens it, reads, closes it, and looks at the directory entries until one changes. Nothing is opened here: closing any
descriptor of a DuckDB file drops the locks that this process holds on it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

Fingerprint = tuple[tuple[str, int, int, int], ...]
_MOST: Final = 10_000  # entries looked at; a workspace's .tic holds a handful


def fingerprint(target: str) -> Fingerprint:
    """(path, inode, size, mtime_ns) of the store's files: the file itself, or what lies in `.tic` two levels deep.

    A URL has none. Files that cannot be seen are left out: a change of that is a change too.
    """
    if "://" in target:
        return ()
    if "\0" in target:
        return ()  # no file can have that name
    path = Path(target)
    if path.is_file():
        roots = [path.parent]
        if path.parent.parent.name == ".tic":
            roots.append(path.parent.parent / "spool")
    elif (path / ".tic").is_dir():
        roots = [path / ".tic"]
    else:
        roots = [path]
    found: list[tuple[str, int, int, int]] = []
    for root in roots:
        _look(str(root), 2, found)
    return tuple(sorted(found))


def _look(directory: str, depth: int, found: list[tuple[str, int, int, int]]) -> None:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if len(found) >= _MOST:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if depth > 1:
                        _look(entry.path, depth - 1, found)
                elif entry.name.endswith((".duckdb", ".wal", ".json", ".jsonl")):
                    stat = entry.stat(follow_symlinks=False)
                    # owner.json is touched by the daemon's heartbeat; its name and inode say all that matters here.
                    still = entry.name == "owner.json"
                    size, time = (0, 0) if still else (stat.st_size, stat.st_mtime_ns)
                    found.append((entry.path, stat.st_ino, size, time))
    except OSError:
        return
