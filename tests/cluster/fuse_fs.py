"""A file system in user space that passes everything through, but for locks: `python fuse_fs.py ROOT MOUNT HOW`.

HOW is "lie" (every lock is granted, to everybody), "fail" (none is: ENOLCK), "full" (locks hold; while ROOT/.full exists
nothing can be written, and nothing new be made, but by removing that file: ENOSPC).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Any

import mfusepy


class Passing(mfusepy.Operations):
    use_ns = True

    def __init__(self, root: str, how: str) -> None:
        self._root, self._how = os.path.realpath(root), how

    def _at(self, path: str) -> str:
        return self._root + path

    def _room(self) -> None:
        if self._how == "full" and os.path.exists(f"{self._root}/.full"):
            raise mfusepy.FuseOSError(errno.ENOSPC)

    def access(self, path: str, amode: int) -> int:
        if not os.access(self._at(path), amode):
            raise mfusepy.FuseOSError(errno.EACCES)
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._at(path))
        names = ("st_gid", "st_mode", "st_nlink", "st_size", "st_uid", "st_blocks")
        told: dict[str, Any] = {name: getattr(found, name) for name in names}
        return {**told, **{f"st_{t}time": getattr(found, f"st_{t}time_ns") for t in "amc"}}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = (
            "f_bavail",
            "f_bfree",
            "f_blocks",
            "f_bsize",
            "f_favail",
            "f_ffree",
            "f_files",
            "f_frsize",
            "f_namemax",
        )
        return {name: getattr(found, name) for name in names}

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags & ~os.O_APPEND)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._room()
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._room()
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at(path), length)
        return 0

    def flush(self, path: str, fh: int) -> int:
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._room()
        os.mkdir(self._at(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at(path))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at(old), self._at(new))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at(path), mode)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._at(path), ns=times) if times else os.utime(self._at(path))
        return 0

    def lock(self, path: str, fh: int, cmd: int, lock: Any) -> int:
        if self._how == "lie":
            with contextlib.suppress(AttributeError, ValueError):  # "nobody holds it" to whoever asks
                lock.contents.l_type = 2
            return 0
        raise mfusepy.FuseOSError(errno.ENOLCK)

    def flock(self, path: str, fh: int, op: int) -> int:
        if self._how == "lie":
            return 0
        raise mfusepy.FuseOSError(errno.ENOLCK)


class Locking(Passing):
    """Without these two the kernel keeps the locks itself."""

    lock = None  # type: ignore[assignment]
    flock = None  # type: ignore[assignment]


if __name__ == "__main__":
    kind = Locking if sys.argv[3] == "full" else Passing
    mfusepy.FUSE(kind(sys.argv[1], sys.argv[3]), sys.argv[2], foreground=True, nothreads=True, fsname="tic-test")
