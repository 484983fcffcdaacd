"""The members of a zip archive: where each lies, as its list at the end says.

A file of torch.save has a member for each tensor, and `zipfile` takes as long over its entry as the tensor takes to be
read. So the usual list is read here: at the very end of the file, of one disk, names of ASCII, sizes within four
gigabytes, nothing extra. Any other, and any that is malformed, is left to `zipfile`, which reads it or says what is
wrong.

Source: .ZIP File Format Specification 6.3.10 (PKWARE, 2022), sections 4.3.12 to 4.3.16.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tic_daemon.compare.opened import Opened
from tic_daemon.errors import CompareError

_ENTRY: Final = Struct("<4s4xHH8xIIHHH8xI")
"""Signature, flags, method, sizes, lengths of name, extra field and comment, offset of the local header."""
_END: Final = Struct("<4s4H2IH")
_END_64: Final = Struct("<4sQ2H2I4Q")
_LOCATOR: Final = Struct("<4sIQI")
_FULL_32, _FULL_16 = 0xFFFFFFFF, 0xFFFF
_VERSION: Final = 63  # of the format, the last that `zipfile` reads


class Member(NamedTuple):
    """One member: where its own header is, its bytes, and those that it has in the file (the same with method 0)."""

    offset: int
    size: int
    packed: int
    method: int
    encrypted: bool


def members(file: Opened) -> dict[str, Member]:
    """All members by name.

    Raises:
        CompareError: it is no whole archive, or two members share a name.
    """
    listed = _usual(file)
    if listed is None:
        listed = _any(file)
    found = dict(listed)
    if len(found) < len(listed):
        raise CompareError(f"{file.path} has two members of one name: which one is meant is not known")
    return found


def _usual(file: Opened) -> list[tuple[str, Member]] | None:
    """The members of an archive whose list is as torch.save writes it, else None."""
    listed = _listed(file)
    if listed is None:
        return None
    at, size, number = listed
    found: list[tuple[str, Member]] = []
    data, place = file.head(at, size), 0
    while place + _ENTRY.size <= size:
        signature, flags, method, packed, whole, named, extra, comment, offset = _ENTRY.unpack_from(data, place)
        begin = place + _ENTRY.size
        name = data[begin : begin + named]
        place = begin + named + extra + comment
        if (
            signature != b"PK\x01\x02" or place > size or not name.isascii() or b"\0" in name or extra
            or _FULL_32 in (packed, whole, offset) or data[begin - _ENTRY.size + 6] > _VERSION
        ):  # fmt: skip
            return None
        found.append((name.decode(), Member(offset, whole, packed, method, bool(flags & 1))))
    return found if place == size and len(found) == number else None


def _listed(file: Opened) -> tuple[int, int, int] | None:
    """Where the list of members begins, its bytes, and how many there are; None if the end of the file is unusual."""
    end = file.size - _END.size
    if end < 0:
        return None
    signature, disk, first, here, number, size, at, comment = _END.unpack(file.head(end, _END.size))
    if signature != b"PK\x05\x06" or comment or disk or first or here != number:
        return None
    before = end - _LOCATOR.size - _END_64.size
    if before >= 0:
        tail = file.head(before, _LOCATOR.size + _END_64.size)
        if tail[_END_64.size :][:4] == b"PK\x06\x07":
            _sign, on, _place, disks = _LOCATOR.unpack_from(tail, _END_64.size)
            signature, _length, _by, _for, disk, first, here, number, size, at = _END_64.unpack_from(tail)
            if signature != b"PK\x06\x06" or on or disks != 1 or disk or first or here != number:
                return None
            end = before
    if number == _FULL_16 or at + size != end:
        return None
    return at, size, number


def _any(file: Opened) -> list[tuple[str, Member]]:
    import zipfile  # noqa: PLC0415  it is rarely asked, and loads compressors

    try:
        with zipfile.ZipFile(Stream(file)) as archive:
            return [
                (
                    info.filename,
                    Member(
                        info.header_offset,
                        info.file_size,
                        info.compress_size,
                        info.compress_type,
                        bool(info.flag_bits & 1),
                    ),
                )
                for info in archive.infolist()
            ]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise CompareError(
            f"{file.path} is no whole file of torch.save: {error}", "it may be cut, or not written to its end yet"
        ) from error


class Stream:
    """What `zipfile` needs of a file."""

    def __init__(self, file: Opened) -> None:
        self._file, self._place = file, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = max(0, offset + (0, self._place, self._file.size)[whence])
        return self._place

    def read(self, length: int = -1) -> bytes:
        left = max(0, self._file.size - self._place)
        found = bytes(self._file.read(self._place, left if length < 0 else min(length, left))) if left else b""
        self._place += len(found)
        return found
