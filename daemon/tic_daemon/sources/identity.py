"""Is this file the one that was read before?

Device and inode are not enough: a file system gives an inode number away again at once (300 of 300 times on ext4). So
a generation is also known by the hash of its first bytes and by the hash of the 64 bytes before the point it is read
to. The second is what betrays a file that was truncated and grew past that point before anybody looked.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass

HEAD_BYTES = 1024
TAIL_BYTES = 64


def fingerprint(data: bytes) -> str:
    """Hash of a short piece: 128 bits, hexadecimal; "" for none."""
    return hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as a directory listing saw it. `gz`: read through gzip. Times in seconds, wall clock."""

    path: str
    device: int
    inode: int
    size: int
    mtime: float
    gz: bool = False


@dataclass(frozen=True, slots=True)
class Prints:
    """What is known of a generation's content.

    `head_len` first bytes hash to `head_hash`; the up to 64 bytes before `offset` hash to `tail_hash`.
    """

    head_len: int
    head_hash: str
    offset: int
    tail_hash: str


def same_head(file: Seen, prints: Prints) -> bool:
    """The file's first bytes are the generation's. False if nothing is known of them or the file cannot be read."""
    if prints.head_len == 0:
        return False
    data = read_range(file, 0, prints.head_len)
    return data is not None and len(data) == prints.head_len and fingerprint(data) == prints.head_hash


def same_tail(file: Seen, prints: Prints) -> bool:
    """The file reaches `offset`, and the bytes before it are the generation's."""
    length = min(TAIL_BYTES, prints.offset)
    if length == 0:
        return True
    data = read_range(file, prints.offset - length, length)
    return data is not None and len(data) == length and fingerprint(data) == prints.tail_hash


def is_prefix(part: Seen, whole: Seen) -> bool:
    """`part` holds a beginning of `whole`: as a copy in the making does. Judged by both ends of `part`."""
    size = part.size
    if part.gz or size == 0 or (not whole.gz and size > whole.size):
        return False
    head, tail = min(HEAD_BYTES, size), min(TAIL_BYTES, size)
    return all(
        (ours := read_range(part, start, length)) is not None and ours == read_range(whole, start, length)
        for start, length in ((0, head), (size - tail, tail))
    )


def begins_as(file: Seen, fd: int, size: int) -> bool:
    """`file` begins as the `size` bytes behind the descriptor do, as far as both reach: perhaps a copy of them."""
    head = os.pread(fd, min(HEAD_BYTES, size), 0)
    data = read_range(file, 0, len(head))
    return bool(data) and head.startswith(data or b"?")


def reaches(file: Seen, fd: int, size: int) -> bool:
    """`file` holds the last of the `size` bytes behind the descriptor where they stand there."""
    length = min(TAIL_BYTES, size)
    return read_range(file, size - length, length) == os.pread(fd, length, size - length)


def read_range(file: Seen, start: int, length: int) -> bytes | None:
    """`length` bytes from `start` (decompressed), fewer at the end; None if the file cannot be read."""
    try:
        # O_NONBLOCK: a FIFO that took the name in between must not stop the daemon.
        fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _gunzip_range(fd, start, length) if file.gz else os.pread(fd, length, start)
        finally:
            os.close(fd)
    except (OSError, zlib.error):
        return None


def _gunzip_range(fd: int, start: int, length: int) -> bytes:
    """Decompresses and throws away up to `start`; gzip has no other way. Several members count as one stream."""
    stream, at, out, skip = zlib.decompressobj(wbits=31), 0, b"", start
    while len(out) < length:
        raw = stream.unused_data if stream.eof else stream.unconsumed_tail
        if not raw:
            raw = os.pread(fd, 1 << 18, at)
            at += len(raw)
        if not raw:
            break
        if stream.eof:
            stream = zlib.decompressobj(wbits=31)
        data = stream.decompress(raw, 1 << 20)
        drop = min(skip, len(data))
        skip -= drop
        out += data[drop:]
    return out[:length]
