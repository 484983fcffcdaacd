"""Reading the bytes of one file from a position on, and noticing that they are not the file's that was read before.

    `broken` says by which look it was found that the file behind a reader is not the generation's any more.

    PlainReader   a descriptor that is held (local file systems) or opened anew at every look (network mounts)
    GzipReader    the decompressed bytes of a .gz, also while it is still being written

A look reads the up to 64 bytes before the position together with the new ones: one pread tells growth, truncation and
a file that was truncated and grew again past the position.
"""

from __future__ import annotations

import os
import threading
import zlib
from dataclasses import dataclass
from typing import Literal

from tic_daemon.sources.identity import Seen

Status = Literal["ok", "shrunk", "changed", "gone", "error"]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look gave.

    Attributes:
        status: ok; shrunk: the file ends before the position; changed: other bytes stand before the position;
            gone: the path is missing or another file now; error: see `error`.
        data: bytes at the position, possibly none.
        end: nothing more is there now.
        complete: nothing more can ever come (the end of a gzip stream).
    """

    status: Status
    data: bytes = b""
    end: bool = True
    complete: bool = False
    error: str = ""


_CHUNK = 1 << 17
_CLOSING = threading.Lock()
_STEP = 1 << 20  # most that is decompressed at once: a small file can hold terabytes of zeros


class PlainReader:
    """Reads a file as it is. `hold`: keep the descriptor, so that a renamed or deleted file stays readable."""

    def __init__(self, file: Seen, *, hold: bool) -> None:
        self.file = file
        self.hold = hold
        self.broken: Status | None = None
        self.fd = -1

    def look(self, position: int, before: bytes, limit: int) -> Look:
        """Up to `limit` bytes at `position`, if `before` still stands in front of it."""
        if self.fd < 0 and (problem := self._open()) is not None:
            return problem
        try:
            data = os.pread(self.fd, len(before) + limit, position - len(before))
        except OSError as error:
            self.close()
            return Look("error", error=error.strerror or str(error))
        finally:
            if not self.hold:
                self.close()
        if len(data) < len(before):
            return Look("shrunk")
        if not data.startswith(before):
            return Look("changed")
        new = data[len(before) :]
        return Look("ok", new, end=len(new) < limit)

    def unlinked(self) -> bool:
        """The held file has no name any more."""
        return self.fd >= 0 and os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        """Lets the descriptor go; the next look opens by path again."""
        with _CLOSING:  # a network look may close while the follower drops the reader: never the same number twice
            fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> Look | None:
        fd, problem = open_known(self.file)
        self.fd = fd
        return problem


class GzipReader:
    """Reads what a .gz decompresses to. Positions count decompressed bytes; going back means starting anew."""

    def __init__(self, file: Seen) -> None:
        self.file = file
        self.fd = -1
        self.hold = False
        self.broken: Status | None = None
        self._stream = zlib.decompressobj(wbits=31)
        self._raw_at = 0
        self._at = 0
        self._bad: tuple[int, int, str] | None = None

    def look(self, position: int, before: bytes, limit: int) -> Look:
        """As `PlainReader.look`; `complete` when the stream's end has been reached."""
        fd, problem = open_known(self.file)
        if problem is not None:
            return problem
        try:
            info = os.fstat(fd)
            if self._bad is not None and self._bad[:2] == (info.st_size, info.st_mtime_ns):
                return Look("error", error=self._bad[2])  # decompressing it again would only fail again
            if position != self._at:
                self._rewind()
                behind = self._read(fd, position, keep=len(before))
                if self._at < position:
                    return Look("shrunk")
                if behind != before:
                    return Look("changed")
            data = self._read(fd, position + limit, keep=limit)
            end = len(data) < limit
            return Look("ok", data, end=end, complete=end and self._stream.eof)
        except (OSError, zlib.error) as error:
            self._rewind()
            if isinstance(error, zlib.error):
                self._bad = (info.st_size, info.st_mtime_ns, f"gzip: {error}")
            return Look("error", error=f"gzip: {error}")
        finally:
            os.close(fd)

    def _read(self, fd: int, until: int, keep: int) -> bytes:
        """Decompresses up to position `until` and gives the last `keep` bytes of that."""
        kept = bytearray()
        while self._at < until:
            raw = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if not raw:
                raw = os.pread(fd, _CHUNK, self._raw_at)
                self._raw_at += len(raw)
            if not raw:
                break
            if self._stream.eof:
                if not raw.lstrip(b"\0"):  # gzip allows zeros as padding behind a member
                    continue
                self._stream = zlib.decompressobj(wbits=31)
            data = self._stream.decompress(raw, min(until - self._at, _STEP))
            self._at += len(data)
            kept += data
            if len(kept) > 2 * keep:
                del kept[: len(kept) - keep]
        return bytes(kept[max(0, len(kept) - keep) :]) if keep else b""

    def _rewind(self) -> None:
        self._stream, self._raw_at, self._at = zlib.decompressobj(wbits=31), 0, 0

    def unlinked(self) -> bool:
        """Never known: no descriptor is held."""
        return False

    def close(self) -> None:
        """Nothing is held."""


AnyReader = PlainReader | GzipReader


def open_known(file: Seen) -> tuple[int, Look | None]:
    """A descriptor of `file` if its path still leads to that device and inode; else (-1, what is wrong)."""
    try:
        # O_NONBLOCK: a FIFO that took the name in between must not stop the daemon.
        fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1, Look("gone")
    except OSError as error:
        return -1, Look("error", error=error.strerror or str(error))
    info = os.fstat(fd)
    if (info.st_dev, info.st_ino) != (file.device, file.inode):
        os.close(fd)
        return -1, Look("gone")
    return fd, None
