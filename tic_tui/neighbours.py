"""The lines round a record, out of its file: the bytes themselves, or the reason why they cannot be shown.

    look(place)   reads; blocks for as long as the file system does, and for no size of file longer than that
    Lookout       does so in threads of its own, the newest request only, and says when a file system does not answer

A file is believed only where the bytes at the record's offset read as the kept ones do: a rotated file, one that was
written anew, and one of the same name on another host are told apart by that alone. Then its neighbours are shown as
from the file; else the kept bytes, and why. Nothing else of a file is ever shown, whatever a path points to.

Reads are a few hundred kilobytes by pread, never mmap: a log that shrinks under a mapping kills the reader.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LINES: Final = 40  # on each side
AROUND: Final = 1 << 16  # bytes on each side
SPAN: Final = 1 << 20  # bytes of a record that are read; longer ones are shown up to there
WIDEST: Final = 4096  # bytes of one line that are shown
INFLATED_MOST: Final = 1 << 29  # bytes that are decompressed on the way to a record
INFLATED_S: Final = 10.0
LATE_S: Final = 2.0
_SIBLINGS: Final = 12
_ENTRIES: Final = 5000
_CHUNK: Final = 1 << 18
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands, and how it was kept.

    Attributes:
        path, host: as the view has them; "" is unknown.
        offset, length: bytes of its generation; decompressed ones of a .gz.
        line_no: of its first line, from 1.
        raw: the kept bytes as text: what is no UTF-8 is written as \\xNN, NUL as \\x00.
    """

    path: str
    host: str
    offset: int
    length: int
    line_no: int
    raw: str
    unkept: bool = False  # the store holds no bytes of it: whatever whole line stands there is shown


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of the file. `hidden`: bytes of it that are not shown. `number` None: not known."""

    number: int | None
    text: str  # not yet safe
    mine: bool = False
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is shown: with `why` empty `lines` are the file's, from `path`; else they are the kept bytes."""

    place: Place
    lines: tuple[FileLine, ...]
    path: str = ""
    why: str = ""

    @property
    def from_file(self) -> bool:
        """The lines were read from the file just now."""
        return not self.why


class _Unusable(Exception):
    """Why a file cannot be read, or is not the one."""


def kept(place: Place, why: str) -> Neighbours:
    """The kept bytes alone."""
    rows = place.raw.removesuffix("\n").split("\n")
    return Neighbours(
        place,
        tuple(
            FileLine(place.line_no if n == 0 else None, row[:WIDEST], True, max(0, len(row) - WIDEST))
            for n, row in enumerate(rows)
        ),
        why=why,
    )


def look(place: Place, *, here: str = "", lines: int = LINES) -> Neighbours:
    """The record with up to `lines` lines on each side.

    Args:
        here: this host's name; "" asks the system.
    """
    if not place.path:
        return kept(place, "its file is not known")
    here = here or socket.gethostname()
    problem = ""
    for path in _candidates(place.path):
        try:
            return _read(place, path, lines)
        except _Unusable as error:
            problem = problem or str(error)
        except (OSError, ValueError) as error:
            problem = problem or _why(error)
    return kept(place, _told(place, problem, here))


def _told(place: Place, problem: str, here: str) -> str:
    """The reason in words: another host's file that is missing or different here is simply elsewhere."""
    elsewhere = place.host not in {"", "unknown", here, here.partition(".")[0]}
    if elsewhere and problem == _GONE:
        return f"the file is on {place.host}"
    if elsewhere:
        return f"the file is on {place.host}; here, {problem}"
    return problem


_GONE: Final = "the file is not here any more: removed, or rotated away"
_CHANGED: Final = "the file was rotated or changed since: other bytes stand at this place"


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _GONE
    return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"


def _candidates(path: str) -> list[bytes]:
    """The path, and what rotation may have made of it: files beside it whose names begin with its own."""
    # A name that is no UTF-8 is kept with \xNN, as is a name that really holds a backslash: both are tried.
    names = [os.fsencode(path)]
    if _ESCAPED.search(path):
        names.append(_ESCAPED.sub(lambda m: chr(0xDC00 + int(m[1], 16)), path).encode("utf-8", "surrogateescape"))
    found: list[tuple[float, bytes]] = []
    folder, base = os.path.split(names[0])
    stem = base.removesuffix(b".log")
    with contextlib.suppress(OSError, ValueError), os.scandir(folder or b".") as entries:
        for count, entry in enumerate(entries):
            if count >= _ENTRIES:
                break
            if entry.name != base and stem and entry.name.startswith(stem) and entry.is_file():
                found.append((-entry.stat().st_mtime, entry.path))
    return names + [name for _, name in sorted(found)[:_SIBLINGS]]


def _read(place: Place, path: bytes, lines: int) -> Neighbours:
    """From this file; _Unusable or OSError if it is not the one."""
    # Looked at before it is opened: opening a FIFO waits, opening a device may do something.
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  bytes, as the system has them
        raise _Unusable("that is no regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Unusable("that is no regular file")
        start = max(0, place.offset - AROUND)
        behind = place.offset + min(place.length, SPAN)
        if os.pread(descriptor, 2, 0) == b"\x1f\x8b":
            data = _inflated(descriptor, start, behind + AROUND)
        else:
            data = _at(descriptor, start, behind + AROUND)
    finally:
        os.close(descriptor)
    before = data[: place.offset - start]
    record = data[place.offset - start : behind - start]
    if place.unkept:
        ends = record.endswith(b"\n") or data[behind - start : behind - start + 1] in {b"", b"\n", b"\r"}
        if not record or not (place.offset == 0 or before.endswith(b"\n")) or not ends:
            raise _Unusable(_CHANGED)
    elif not holds(record, place.raw, whole=place.length <= SPAN):
        raise _Unusable(_CHANGED)
    after = data[behind - start :]
    return Neighbours(place, _lines(place, before, record, after, start, lines), os.fsdecode(path))


def _at(descriptor: int, start: int, end: int) -> bytes:
    """Bytes [start, end), or as many as there are; a pread may give fewer than asked."""
    parts = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _inflated(descriptor: int, start: int, end: int) -> bytes:
    """Decompressed bytes [start, end), or as many as there are; bounded in size and time."""
    if start > INFLATED_MOST:
        raise _Unusable("the place is too deep in a compressed file to be read here")
    deadline = time.monotonic() + INFLATED_S
    made, position, kept_bytes = zlib.decompressobj(31), 0, bytearray()
    taken, pending = 0, b""
    while position < end:
        if time.monotonic() > deadline:
            raise _Unusable("the place is too deep in a compressed file to be read in time")
        if not pending:
            pending = os.pread(descriptor, _CHUNK, taken)
            taken += len(pending)
            if not pending:
                break
        try:
            piece = made.decompress(pending, _CHUNK)
        except zlib.error as error:
            raise _Unusable(f"the compressed file is damaged: {error}") from error
        pending = made.unconsumed_tail
        if made.eof:  # members may follow one another
            pending = made.unused_data
            made = zlib.decompressobj(31)
        kept_bytes += piece[max(0, start - position) : max(0, end - position)]
        position += len(piece)
    return bytes(kept_bytes)


def holds(record: bytes, raw: str, *, whole: bool = True) -> bool:
    """Whether bytes of a file are the kept record: its lines, in order, the first at the start, the last at the end.

    Between them may stand what other processes wrote into the same file, and carriage returns. With `whole` off the
    record was longer than what was read of it, and only lines that lie in `record` are compared.
    """
    if not raw or not record:
        return False
    text = record.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    at, wanted = 0, raw.removesuffix("\n").split("\n")
    for n, line in enumerate(wanted):
        found = text.find(line, at)
        if found < 0:
            return not whole and n > 0
        if n == 0 and found > 0:
            return False
        at = found + len(line)
    rest = text[at:]
    # A line is kept up to 64 KiB of it; of a shorter one nothing may follow but the end of the line.
    return not whole or not rest.strip("\r\n") or (len(wanted[-1]) >= AROUND and "\n" not in rest.rstrip("\n"))


def _split(data: bytes) -> list[bytes]:
    rows = data.split(b"\n")
    if rows and not rows[-1]:
        rows.pop()
    return rows


def _lines(
    place: Place, before: bytes, record: bytes, after: bytes, start: int, most: int
) -> tuple[FileLine, ...]:  # fmt: skip
    """The three parts as lines. A record that stands inside a line keeps the rest of that line round it."""
    above = before.split(b"\n")
    head = above.pop()  # what stands before the record on its own line, mostly nothing
    first = 0 if start == 0 else None  # the oldest line begins before what was read
    rows = []
    for n, row in enumerate(above[-most:]):
        number = place.line_no - len(above[-most:]) + n
        torn = first is None and n == 0 and len(above) <= most
        rows.append(_line(number if number > 0 else None, row, hidden_before=torn))
    if head:
        rows.append(_line(place.line_no, head, hidden_before=start > 0 and not above))
    mine = _split(record)
    for n, row in enumerate(mine):
        rows.append(_line(place.line_no + n, row, mine=True))
    ended = record.endswith(b"\n")
    number = place.line_no + len(mine) - (0 if ended else 1)
    below = _split(after)
    for n, row in enumerate(below[:most]):
        if n == 0 and not ended and not row:
            continue
        rows.append(_line(number + n, row))
    return tuple(rows)


def _line(number: int | None, row: bytes, *, mine: bool = False, hidden_before: bool = False) -> FileLine:
    shown = row[-WIDEST:] if hidden_before else row[:WIDEST]
    text = shown.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    hidden = len(row) - len(shown)
    if hidden_before:
        text, hidden = "... " + text, max(1, hidden)
    return FileLine(number, text.removesuffix("\r"), mine, hidden)


class Lookout:
    """Looks in the background. `told` is called from its threads; it must not wait.

    A thread that hangs on a dead mount is left behind: it is a daemon thread and keeps nobody from leaving. With
    `MOST_HUNG` of them nothing more is tried until one comes back.
    """

    MOST_HUNG = 3

    def __init__(self, told: Callable[[Neighbours], object], looker: Callable[[Place], Neighbours] = look) -> None:
        self._told, self._look = told, looker
        self._lock = threading.Lock()
        self._running: dict[Place, threading.Timer] = {}

    def ask(self, place: Place) -> None:
        """Looks; the answer comes by `told`, and a word after two seconds without one."""
        with self._lock:
            if place in self._running:
                return
            hung = len(self._running) >= self.MOST_HUNG
            if not hung:
                late = self._running[place] = threading.Timer(LATE_S, self._late, (place,))
                late.daemon = True
        if hung:
            self._told(kept(place, "the file system does not answer"))
            return
        late.start()
        threading.Thread(target=self._run, args=(place,), name="tic-neighbours", daemon=True).start()

    def _run(self, place: Place) -> None:
        try:
            found = self._look(place)
        except Exception as error:  # noqa: BLE001  a file must not end the screen, whatever it holds
            found = kept(place, f"the file cannot be read: {error}")
        with self._lock:
            late = self._running.pop(place)
        late.cancel()
        self._told(found)

    def _late(self, place: Place) -> None:
        with self._lock:
            waits = place in self._running
        if waits:
            self._told(kept(place, "the file system does not answer (yet)"))
