"""A file held open while it is read.

Read with pread, never mapped: a file that is cut by its writer gives a short read and not a bus error. Anything but a
plain file (a pipe, a device, a directory, a loop of links) is refused before a byte is read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Bits
from tic_daemon.errors import CompareError

_CHUNK: Final = 1 << 18  # stays in a core's cache between being read and being hashed


class Opened:
    """A plain file, its size and identity as they were when it was opened.

    Raises:
        CompareError: it is not there, cannot be read, or is no plain file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # O_NONBLOCK: a pipe without a writer must not hold the program.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise CompareError(f"{path} cannot be read: {why}", "give the path of a file that was dumped") from error
        self.stat = os.fstat(self._fd)
        if not stat.S_ISREG(self.stat.st_mode):
            os.close(self._fd)
            raise CompareError(f"{path} is no plain file", "give the path of a file that was dumped")
        self.size = self.stat.st_size

    def __enter__(self) -> Opened:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def link(self) -> str:
        """A path to this very file, without a character that means more than itself."""
        return f"/proc/self/fd/{self._fd}"

    def read(self, offset: int, length: int) -> bytearray:
        """Exactly `length` bytes from `offset`.

        Raises:
            CompareError: they do not all lie within the file, or it was cut since it was opened.
        """
        self._require(offset, length)
        found = bytearray(length)
        self._fill(offset, memoryview(found))
        return found

    def head(self, offset: int, length: int) -> bytes:
        """The same of a few bytes, sooner."""
        self._require(offset, length)
        found = os.pread(self._fd, length, offset)
        return found if len(found) == length else bytes(self.read(offset, length))

    def bits(self, offset: int, count: int, dtype: np.dtype[np.unsignedinteger]) -> Bits:
        """`count` elements from `offset`. Raises as `read`."""
        self._require(offset, count * dtype.itemsize)
        found = np.empty(count, dtype)
        self.into(offset, found)
        return found

    def into(self, offset: int, found: Bits) -> None:
        """Fills a contiguous array with what lies at `offset`. Raises as `read`."""
        self._require(offset, found.nbytes)
        if found.size and os.preadv(self._fd, [found.data], offset) != found.nbytes:  # seldom: it is large, or was cut
            self._fill(offset, found.view(np.uint8).data)

    def _require(self, offset: int, length: int) -> None:
        """Before memory is taken for them."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise CompareError(
                f"{self.path} names bytes {offset} to {offset + length} and has {self.size}", "it is cut or malformed"
            )

    def _fill(self, offset: int, view: memoryview) -> None:
        done = 0
        while done < len(view):
            got = os.preadv(self._fd, [view[done : done + (1 << 30)]], offset + done)
            if got == 0:
                raise CompareError(f"{self.path} was cut while it was read", "compare it again once it is written")
            done += got

    def sha256(self) -> str:
        """SHA-256 of all its bytes, in hexadecimal."""
        digest, offset = hashlib.sha256(), 0
        whole = memoryview(bytearray(min(_CHUNK, self.size)))
        while offset < self.size:
            piece = whole[: min(_CHUNK, self.size - offset)]
            self._fill(offset, piece)
            digest.update(piece)
            offset += len(piece)
        return digest.hexdigest()

    def unchanged(self) -> None:
        """Checks that the file is still the one that was opened.

        Raises:
            CompareError: it was written to, cut, or replaced by another since.
        """
        now = os.fstat(self._fd)
        try:
            there = self.path.stat()
        except OSError:
            there = None
        # The time of the last write can be set back; the one of the last change cannot.
        before = self.size, self.stat.st_mtime_ns, self.stat.st_ctime_ns
        same = (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == before
        if not same or there is None or (there.st_dev, there.st_ino) != (now.st_dev, now.st_ino):
            raise CompareError(f"{self.path} changed while it was compared", "compare it again once it is written")
