"""The framing of a `.wandb` file: records in blocks of 32 KiB, as LevelDB's log has them, each chunk with a CRC-32.

    7 bytes               ":W&B", E1 BE, version 0
    blocks of 32,768      counted from the first byte of the file, so that the first is 7 bytes short
        chunk             CRC-32 of kind and payload, u32; length, u16; kind, u8: 1 whole, 2 first, 3 middle, 4 last
        padding           zeros, where fewer than 7 bytes are left

    scan(data, base)      the records that begin in a piece of the file, and the damage in it

A record whose end is not there yet is waited for. Damage costs the rest of its block: the length in a damaged chunk
says nothing about where the next one begins. It is told when the whole block is there, and until then waited for: bytes
that a network file system has not brought yet look the same. Nothing is a record but what its checksums cover.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

BLOCK: Final = 32_768
HEADER: Final = b":W&B\xe1\xbe\x00"
MAX_RECORD: Final = 32 << 20
"""Bytes of a record that is read; the client itself refuses history lines of 10 MiB."""

_CHUNK: Final = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Frame:
    """One record: where its first chunk begins and its last ends in the file, and its payload."""

    offset: int
    end: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [first, last) of the file that hold no whole record, and why."""

    first: int
    last: int
    why: str


def begin(data: bytes) -> tuple[int, Damage | None]:
    """Of a file's first bytes: where its records begin (0: too short yet), and what is wrong with its header."""
    if len(data) < len(HEADER):
        return 0, None
    head = data[: len(HEADER)]
    if head == HEADER:
        return len(HEADER), None
    known = head[:-1] == HEADER[:-1]
    why = f"version {head[-1]} of the format is not known" if known else "it does not begin as a log of W&B does"
    return len(HEADER), Damage(0, len(HEADER), why)


def scan(data: bytes, base: int) -> tuple[list[Frame | Damage], int]:
    """Records and damage, in the order of the file.

    Args:
        data: bytes from `base` on, which is where a former call stopped, or where records begin.

    Returns:
        What was found; and up to where: the next call begins there, with more bytes. The rest is a record or a damaged
        block whose end is not in `data`.
    """
    scanner = _Scanner(data, base)
    scanner.run()
    return scanner.found, base + scanner.done


class _Scanner:
    """Positions are in `data`. `done`: all before it is told."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data, self._base = data, base
        self.found: list[Frame | Damage] = []
        self.done = 0
        self._start = -1  # of the record whose first chunks are in `_parts`
        self._parts: list[bytes] = []
        self._odd: list[Damage] = []  # padding within the record that is being put together

    def run(self) -> None:
        data, base, size = self._data, self._base, len(self._data)
        view = memoryview(data)
        at = 0
        while True:
            left = BLOCK - (base + at) % BLOCK
            if left < _CHUNK.size:
                if at + left > size:
                    return
                self._pad(at, at + left)
                at += left
                continue
            if at + _CHUNK.size > size:
                return
            crc, length, kind = _CHUNK.unpack_from(data, at)
            end = at + _CHUNK.size + length
            if length > left - _CHUNK.size:
                wrong = "a chunk reaches beyond its block"
            elif not _WHOLE <= kind <= _LAST:
                wrong = f"a chunk is of the unknown kind {kind}"
            elif end > size:
                return
            elif zlib.crc32(view[at + _CHUNK.size - 1 : end]) != crc:
                wrong = "a checksum does not fit"
            else:
                self._chunk(at, end, kind)
                at = end
                continue
            if at + left > size:
                return
            self._damage(self._start if self._start >= 0 else at, at + left, wrong)
            at += left

    def _chunk(self, at: int, end: int, kind: int) -> None:
        payload = self._data[at + _CHUNK.size : end]
        if kind in (_WHOLE, _FIRST):
            if self._start >= 0:
                self._damage(self._start, at, "a record has no end")
            self._start, self._parts = at, [payload]
        elif self._start < 0:
            self._damage(at, end, "a record has no beginning")
            return
        else:
            self._parts.append(payload)
        if kind in (_WHOLE, _LAST):
            self.found.append(Frame(self._base + self._start, self._base + end, b"".join(self._parts)))
            self.found += self._odd
            self._start, self.done, self._odd = -1, end, []

    def _pad(self, at: int, end: int) -> None:
        # If it is not zero, no record is lost by that; but the file is not as it was written.
        odd = any(self._data[at:end])
        if self._start < 0:
            self.done = end
            if odd:
                self._damage(at, end, "padding is not zero")
        elif odd:
            self._odd.append(Damage(self._base + at, self._base + end, "padding is not zero"))

    def _damage(self, first: int, last: int, why: str) -> None:
        before = self.found[-1] if self.found else None
        if isinstance(before, Damage) and 0 <= self._base + first - before.last < _CHUNK.size:
            self.found[-1] = Damage(before.first, self._base + last, before.why)
        else:
            self.found.append(Damage(self._base + first, self._base + last, why))
        self._start, self.done, self._odd = -1, last, []
