"""A file under a watched root: looked at, opened and hashed, and nothing outside the root ever read.

    stamp(path)                    one `stat`, as text: another one means that the file must be looked at again
    open_inside(path, root)        a descriptor of a regular file that lies under `root`, links included
    read_inside(path, root, most)  its bytes
    Hasher                         its SHA-256, in slices

A link may lead anywhere under the root. One that leads out, a FIFO, a socket or a device is refused, and so is a file
whose directories were swapped for links while it was opened.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1 << 20


class RefusedError(Exception):
    """A file that is not read, and why: it lies outside of the watched root, or is no regular file."""


class GoneError(Exception):
    """There is no such file."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A regular file as `stat` shows it. `modified`: seconds since 1970."""

    stamp: str
    size: int
    modified: float


def stamp(path: str, root: str = "/") -> str:
    """Which content a path has, as far as one `stat` tells.

    Empty: there is nothing, it cannot be looked at, or its words lead out of `root`.
    """
    if not _under(os.path.normpath(path), root):
        return ""
    try:
        return _stamp(os.stat(path))  # noqa: PTH116  names need not be valid text
    except (OSError, ValueError):
        return ""


def resolve(path: str, root: str) -> str:
    """The canonical path of a file under `root`.

    Raises:
        GoneError: there is nothing. RefusedError: it leads out of the root. OSError: it cannot be looked at.
    """
    if not _under(os.path.normpath(path), os.path.normpath(root)):  # nor is it looked whether anything is there
        raise RefusedError("it leads out of the watched directory, and is not read")
    try:
        real = os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise GoneError("there is no such file") from error
    except ValueError as error:
        raise RefusedError("no file can have its name") from error  # a NUL, or a surrogate that no bytes stand for
    if not _under(real, os.path.realpath(root)):
        raise RefusedError("it leads out of the watched directory, and is not read")
    return real


def open_inside(path: str, root: str) -> tuple[int, Seen]:
    """An open descriptor of a regular file under `root`, and what it is. The caller closes it.

    Raises:
        GoneError, RefusedError: see `resolve`. OSError: it cannot be read.
    """
    real = resolve(path, root)
    mode = os.lstat(real).st_mode
    if not stat.S_ISREG(mode):  # opening a device may already do something
        raise RefusedError(f"it is no regular file but a {_kind(mode)}")
    fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise RefusedError(f"it is no regular file but a {_kind(info.st_mode)}")
        _require_place(fd, root)
        return fd, Seen(_stamp(info), info.st_size, info.st_mtime)
    except BaseException:
        os.close(fd)
        raise


def read_inside(path: str, root: str, most: int) -> tuple[bytes, Seen]:
    """The first `most` + 1 bytes of a file under `root`, and what it is. Raises as `open_inside`."""
    fd, seen = open_inside(path, root)
    try:
        parts, left = [], most + 1
        while left and (part := os.read(fd, min(left, CHUNK))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts), seen
    finally:
        os.close(fd)


class Hasher:
    """The SHA-256 of one open file, in as many slices as it takes. Closes the descriptor.

    Args:
        fd, seen: from `open_inside`.
    """

    def __init__(self, fd: int, seen: Seen) -> None:
        self.seen = seen
        self.done = 0
        self._fd = fd
        self._hash = hashlib.sha256()
        self._buffer = memoryview(bytearray(CHUNK))

    def advance(self, budget: int, pace: Callable[[int], bool] = lambda _: True) -> str | None:
        """Hashes at most `budget` bytes, calling `pace` after each piece; it ends the slice by returning False.

        Returns:
            The digest in hex once all is hashed; "" if the file changed meanwhile; None: there is more to hash.
        """
        while budget > 0:
            count = os.readv(self._fd, [self._buffer])
            if not count:
                same = _stamp(os.fstat(self._fd)) == self.seen.stamp and self.done == self.seen.size
                return self._hash.hexdigest() if same else ""
            self._hash.update(self._buffer[:count])
            self.done += count
            budget -= count
            if self.done > self.seen.size:
                return ""
            if not pace(count):
                return None
        return None

    def close(self) -> None:
        """Lets the file go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _stamp(info: os.stat_result) -> str:
    return f"{info.st_dev:x}:{info.st_ino:x}:{info.st_size:x}:{info.st_mtime_ns:x}:{info.st_ctime_ns:x}"


def _under(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _require_place(fd: int, root: str) -> None:
    """That the open file lies where it was looked for, where the system can tell (Linux)."""
    try:
        place = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    except OSError:
        return
    if not _under(place.removesuffix(" (deleted)"), os.path.realpath(root)):
        raise RefusedError("it leads out of the watched directory, and is not read")


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link"))
    return next((word for test, word in kinds if test(mode)), "device")
