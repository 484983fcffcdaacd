"""A bundle as it lies there, read without trusting it: a directory, or the tar that `bundle.py` writes.

    is_bundle(path)      whether it looks like one
    opened(path)         its files by name with their sizes, and what is wrong about how it lies there
    header(name, size)   of a file within a tar; exactly one form

No link is followed, nothing is unpacked, and a file is read only by a name that a bundle may have (shape.py). A tar is
compared byte by byte with what would be written, so that no byte of it can differ unseen; a compressed one is none.
"""

from __future__ import annotations

import os
import stat
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tic_daemon.errors import StoreError
from tic_daemon.report import shape

CHUNK: Final = 1 << 20
_BLOCK: Final = tarfile.BLOCKSIZE
_RECORD: Final = tarfile.RECORDSIZE
_MAGIC: Final = b"ustar"


class Container(ABC):
    """Files of a bundle. `sizes`: by name; `wrong`: (name, why), in the order in which it was seen."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.wrong: list[tuple[str, str]] = []

    @abstractmethod
    def read(self, name: str) -> BinaryIO:
        """A file, from its beginning. Raises OSError: it cannot be read, or is no more what it was."""

    @abstractmethod
    def close(self) -> None:
        """Lets everything go."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of a file, not more than its size said."""
        left = self.sizes[name]
        with self.read(name) as file:
            while left and (piece := file.read(min(CHUNK, left))):
                left -= len(piece)
                yield piece


def is_bundle(path: Path) -> bool:
    """A directory with bundle.json or statement.json in it, or a tar. Of a workspace it is False."""
    try:
        if path.is_dir():
            return any(os.path.lexists(path / name) for name in (shape.INDEX, shape.STATEMENT))
        if not path.is_file():  # a pipe would wait for its writer
            return False
        with path.open("rb") as file:
            return file.read(_BLOCK)[257:262] == _MAGIC or path.suffix == ".tar"
    except OSError:
        return False


def opened(path: Path) -> Container:
    """The bundle. Raises StoreError: it cannot be looked at."""
    try:
        return _Directory(path) if path.is_dir() else _Tar(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def header(name: str, size: int) -> tarfile.TarInfo:
    """The only header that a file of a bundle may have in a tar: no owner, no time."""
    found = tarfile.TarInfo(name)
    found.size, found.mode = size, 0o600
    return found


class _Directory(Container):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._look(self._fd, "")
        except BaseException:
            self.close()
            raise

    def _look(self, fd: int, within: str) -> None:
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        if within and not found:
            self.wrong.append((within, "an empty directory, which no bundle has"))
        for entry in found:
            name = within + entry.name
            info = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            if len(self.sizes) + len(self.wrong) > shape.FILES:
                self.wrong.append((name, f"over {shape.FILES} files"))
                return
            if stat.S_ISDIR(info.st_mode) and not within and entry.name in _FOLDERS:
                below = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                try:
                    self._look(below, f"{name}/")
                finally:
                    os.close(below)
            elif not stat.S_ISREG(info.st_mode):
                self.wrong.append((name, "no regular file, and no directory of a bundle"))
            elif not shape.NAME.fullmatch(name):
                self.wrong.append((name, "no file of a bundle is called so"))
            else:
                self.sizes[name] = info.st_size

    def read(self, name: str) -> BinaryIO:
        folder, slash, last = name.rpartition("/")
        fd = (
            os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
            if slash
            else self._fd
        )
        try:
            file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        finally:
            if slash:
                os.close(fd)
        found = os.fdopen(file, "rb")
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_size != self.sizes[name]:
            found.close()
            raise OSError("it changed while it was read")
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_FOLDERS: Final = ("plots", "tables", "ledger", "criteria", "files")


class _Tar(Container):
    """Read once for its headers, in the order in which it must be written; the first that is wrong ends it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._file = os.fdopen(fd, "rb")
        self._starts: dict[str, int] = {}
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise OSError("it is no regular file")
            why = self._headers(info.st_size)
        except BaseException:
            self.close()
            raise
        if why:
            self.wrong.append((path.name, why))

    def _headers(self, size: int) -> str:  # noqa: PLR0911  one return a way to be wrong
        at, last = 0, ""
        while True:
            raw = self._file.read(_BLOCK)
            if len(raw) < _BLOCK:
                return f"it ends within a header, at byte {at}"
            if not any(raw):
                return self._end(at, size)
            try:
                told = tarfile.TarInfo.frombuf(raw, "ascii", "strict")
            except (tarfile.HeaderError, ValueError) as error:
                return f"no header of a tar at byte {at}: {error}"
            name, length = told.name, told.size
            if not shape.NAME.fullmatch(name):
                return f"at byte {at}: no file of a bundle is called {name[:100]!r}"
            if not 0 <= length <= size - at - _BLOCK:
                return f"at byte {at}: {name} is longer than what is there"
            if header(name, length).tobuf(tarfile.GNU_FORMAT, "ascii", "strict") != raw:
                return f"at byte {at}: the header of {name} is not as a bundle's: unpack it and verify the directory"
            if name <= last:
                return f"at byte {at}: {name} stands after {last}"
            if len(self.sizes) >= shape.FILES:
                return f"over {shape.FILES} files"
            self.sizes[name], self._starts[name], last = length, at + _BLOCK, name
            at += _BLOCK + length
            self._file.seek(at)
            room = -length % _BLOCK
            if self._file.read(room) != bytes(room):
                return f"at byte {at}: something stands behind the end of {name}"
            at += room

    def _end(self, at: int, size: int) -> str:
        whole = -(-(at + 2 * _BLOCK) // _RECORD) * _RECORD
        if size != whole:
            return f"it has {size} bytes, and a bundle of these files {whole}"
        self._file.seek(at)
        return "" if not any(self._file.read(whole - at)) else f"something stands behind its end, from byte {at}"

    def read(self, name: str) -> BinaryIO:
        file = os.fdopen(os.dup(self._file.fileno()), "rb")
        file.seek(self._starts[name])
        return file

    def close(self) -> None:
        self._file.close()
