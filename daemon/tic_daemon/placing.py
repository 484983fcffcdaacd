"""A finished file into its place: whole or not at all, nothing overwritten unless asked, its owner's alone."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from pathlib import Path
from typing import Final

_REPLACED: Final = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)
"""What may stand in a file's place; that no file replaces a directory says the system."""


def work_beside(target: Path) -> Path:
    """A new directory of our own beside `target`, on the same file system. The caller removes it."""
    work = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    work.mkdir(mode=0o700)
    return work


def put(part: Path, target: Path, *, force: bool) -> None:
    """Gives a file its name.

    Raises:
        FileExistsError: there is something of this name, and not `force`. OSError: it cannot be written, or what is
            there is a device or a pipe: those are written to, and no file takes their place.
    """
    if force and os.path.lexists(target) and stat.S_IFMT(target.lstat().st_mode) not in _REPLACED:
        raise OSError(errno.EINVAL, "it is no regular file")
    part.chmod(0o600)
    fd = os.open(part, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    if force:
        part.replace(target)
        return
    try:
        os.link(part, target)  # unlike a rename it overwrites nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        part.replace(target)
