"""A file that its writer only adds to and that is read by offsets: opened for each look, held between none.

    file = AppendedFile(path, cursors)
    with file.look() as look:        raises OSError
        look.size, look.read(offset, length), look.began_anew
    file.cursor(source_id, offset)   with what the next daemon needs to know the file again

A file that is another one, was cut, or no longer holds what was read of it, is a new generation. That is seen by its
first bytes and by the last ones before the offset, as for logs (identity.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tic_daemon.sources.identity import HEAD_BYTES, TAIL_BYTES, fingerprint
from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import CursorRow


@dataclass(slots=True)
class Look:
    """An open file. `began_anew`: in words, why it is a new generation; ""."""

    fd: int
    size: int
    mtime_ns: int
    began_anew: str = ""

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from `offset`; fewer at the end."""
        return os.pread(self.fd, length, offset)


class AppendedFile:
    """See the module.

    Attributes:
        number: the generation. offset: how far it is read; the caller moves it with `moved`.
        row: what the store has of this generation; None: nothing.
    """

    def __init__(self, path: str, cursors: Mapping[int, CursorRow]) -> None:
        self.path = path
        self.number = max(cursors, default=0)
        self.row = cursors.get(self.number)
        self.offset = self.row.byte_offset if self.row else 0
        self._head = b""
        self._checked = self.row is None
        self._key = (0, 0)
        self._recent = b""

    @contextlib.contextmanager
    def look(self) -> Iterator[Look]:
        """Opens the file. Raises OSError: it cannot be."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            info = os.fstat(fd)
            look = Look(fd, info.st_size, info.st_mtime_ns)
            look.began_anew = self._compare(look, (info.st_dev, info.st_ino))
            yield look
        finally:
            os.close(fd)

    def moved(self, look: Look, offset: int) -> None:
        """All before `offset` is read."""
        self.offset = offset
        if len(self._head) < HEAD_BYTES:
            self._head = look.read(0, HEAD_BYTES)
        start = max(0, offset - TAIL_BYTES)
        self._recent = look.read(start, offset - start)

    def cursor(self, source_id: int, line_no: int, *, closed: bool, skipped: int, state: str = "") -> CursorRow:
        """Where the file stands."""
        head = self._head[: self.offset]
        return CursorRow(
            source_id, self.number, self.offset, line_no, len(head), fingerprint(head), fingerprint(self._recent),
            self._key[0], self._key[1], clean_text(self.path), closed=closed, lines=line_no, skipped_bytes=skipped,
            state=state,
        )  # fmt: skip

    def _compare(self, look: Look, key: tuple[int, int]) -> str:
        why = ""
        if not self._checked and self.row is not None:
            row = self.row
            head = look.read(0, row.head_len)
            start = max(0, row.byte_offset - TAIL_BYTES)
            tail = look.read(start, row.byte_offset - start)
            if look.size < row.byte_offset:
                why = f"it has {look.size} bytes, and {row.byte_offset} were read of it"
            elif fingerprint(head) != row.head_hash or fingerprint(tail) != row.tail_hash:
                why = "it does not hold what was read of it"
            self._head, self._recent = look.read(0, HEAD_BYTES), tail
        elif self._checked and self.offset:
            start = max(0, self.offset - TAIL_BYTES)
            if look.size < self.offset:
                why = f"it has {look.size} bytes, and {self.offset} were read of it"
            elif look.read(start, self.offset - start) != self._recent:
                why = "it does not hold what was read of it"
            elif key != self._key and not look.read(0, HEAD_BYTES).startswith(self._head):
                why = "it is another file"
        self._checked, self._key = True, key
        if why:
            self.number, self.offset, self.row = self.number + 1, 0, None
            self._head = self._recent = b""
        return why
