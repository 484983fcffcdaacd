"""One generation of one source: its bytes in order, cut into whole lines, given to its scanner once.

The caller brings bytes (`take`), this module decides what the scanner sees: whole lines; the first mebibyte of a line
that is longer, as a piece, then the rest of it piece by piece; at the generation's end what is left without its
newline. What the scanner is given depends on the bytes alone, never on how they arrived.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tic_daemon.scan.events import At, Event, Gap
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources.identity import HEAD_BYTES, TAIL_BYTES, Prints, Seen, fingerprint
from tic_daemon.sources.reading import AnyReader, PlainReader
from tic_daemon.store.rows import CursorRow

LINE_LIMIT = 1 << 20
"""Bytes of one line that are scanned; the rest of a longer line is skipped and counted."""


class SourceScannerLike(Protocol):
    """What a generation needs of `scan.scanner.SourceScanner`."""

    @property
    def byte_offset(self) -> int: ...
    @property
    def line_no(self) -> int: ...
    @property
    def counters(self) -> Any: ...
    def feed(self, data: bytes) -> list[Event]: ...
    def feed_piece(self, data: bytes) -> Iterable[Event] | None: ...
    def peek(self, tail: bytes) -> list[Event]: ...
    def finish(self, tail: bytes) -> list[Event]: ...
    def state(self) -> str: ...


class ScannerLike(Protocol):
    """What following needs of `scan.scanner.Scanner`."""

    def open(self, traits: SourceTraits, state: str | None = None) -> SourceScannerLike: ...


@dataclass(slots=True)
class Harvest:
    """What one poll got out of one generation, not yet handed on."""

    events: list[Event] = field(default_factory=list)
    provisional: tuple[Event, ...] = ()
    bytes: int = 0
    lines_before: int = 0
    cursor_moved: bool = False


class Generation:
    """A generation that is being read.

    Attributes:
        number: 0 for the oldest known of its source.
        file: where its bytes lie now.
        offset: everything before it has been given to the scanner.
        pending: bytes read after `offset`: the beginning of a line.
        ending: no writer is expected to add to it any more (rotated, deleted, replaced): drain it, then `finish`.
        closed: finished.
        at_end: nothing more was there at the last look; complete: nothing more can come (gzip);
            failed: the last look ended in an error.
        swept: the follower's sweep has it.
        reader: what reads its bytes; None if they lie nowhere.
        size: bytes that it was last seen to have.
        grown_at: when bytes were last found, by the follower's clock.
        head: its first bytes, at most 1 KiB; b"" if not known.
    """

    def __init__(
        self, scanner: ScannerLike, traits: SourceTraits, number: int, file: Seen, row: CursorRow | None = None
    ) -> None:
        """A new generation, or with `row` the one that the store knows; then `recall` must follow before reading."""
        shown, _, state = (row.state if row else "").partition(_STATE)
        self.number = number
        self.file = file
        self.offset = self.size = row.byte_offset if row else 0
        self.pending = b""
        self.ending = False
        self.closed = row.closed if row else False
        self.at_end = False
        self.complete = False
        self.failed = False
        self.swept = False
        self.reader: AnyReader | None = None
        self.grown_at = 0.0
        self.head = b""
        self._before = b""
        self._head_len, self._head_hash = (row.head_len, row.head_hash) if row else (0, "")
        self._tail_hash = row.tail_hash if row else ""
        self._shown = int(shown.removeprefix(_SHOWN)) if row and row.prov is not None and state else 0
        self._peeked = 0
        self._scanner = scanner.open(traits, state[:-1] if state else None)
        self.harvest = Harvest(lines_before=int(self._scanner.counters.lines))

    @property
    def position(self) -> int:
        """Next byte to read."""
        return self.offset + len(self.pending)

    @property
    def before(self) -> bytes:
        """The up to 64 bytes before `position`, which a read must find unchanged."""
        return (self._before[-TAIL_BYTES:] + self.pending[-TAIL_BYTES:])[-TAIL_BYTES:]

    @property
    def recent(self) -> bytes:
        """The last bytes before `offset` that are remembered, up to 1 KiB."""
        return self._before

    @property
    def room(self) -> int:
        """Most bytes that `take` accepts now: what keeps a line within its limit."""
        return LINE_LIMIT - len(self.pending)

    @property
    def prints(self) -> Prints:
        """Fingerprints at `offset`."""
        return Prints(self._head_len, self._head_hash, self.offset, self._tail_hash)

    def recall(self, before: bytes, head: bytes) -> None:
        """After `resume`: the 64 bytes before `offset` and the first bytes, as read back from the file."""
        self._before = before
        self.head = head[:HEAD_BYTES]

    def reads_without_name(self) -> bool:
        """A held descriptor still reads it, wherever its name went."""
        return isinstance(self.reader, PlainReader) and self.reader.fd >= 0 and not self.reader.broken

    def unchanged(self) -> bool:
        """A held file ends where reading stopped, behind the bytes that stood there: one pread, nothing else."""
        reader = self.reader
        if not isinstance(reader, PlainReader) or reader.fd < 0 or not self.at_end:
            return False
        before = self.before
        try:
            return os.pread(reader.fd, len(before) + 1, self.position - len(before)) == before
        except OSError:
            return False

    def drop_reader(self) -> None:
        """Closes and forgets the reader."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def take(self, data: bytes) -> None:
        """Takes the bytes at `position`; at most `room`."""
        self.harvest.bytes += len(data)
        unknown = len(self.head) - self.position  # after a restart the head may reach behind the position
        if len(self.head) < HEAD_BYTES and 0 <= unknown < len(data):
            self._grow_head(data[unknown:])
        newline = data.rfind(b"\n") + 1
        if newline:
            self._advance(b"".join((self.pending, memoryview(data)[:newline])), whole=True)
            self.pending = data[newline:]
        else:
            self.pending += data
        if len(self.pending) >= LINE_LIMIT:
            self._advance(self.pending, whole=False)
            self.pending = b""

    def _grow_head(self, data: bytes) -> None:
        self.head = (self.head + data)[:HEAD_BYTES]
        self._head_len, self._head_hash = len(self.head), fingerprint(self.head)

    def _advance(self, data: bytes, *, whole: bool) -> None:
        events = self._scanner.feed(data) if whole else self._scanner.feed_piece(data)
        self._moved(data, events)

    def _moved(self, data: bytes, events: Iterable[Event] | None) -> None:
        self.harvest.events.extend(events or ())
        self.harvest.provisional = ()
        self.harvest.cursor_moved = True
        self.offset += len(data)
        if data:
            self._before = (self._before + data[-_RECENT:])[-_RECENT:]
            self._tail_hash = fingerprint(self._before[-TAIL_BYTES:])

    def show(self, *, with_tail: bool) -> None:
        """At the end of what there is: prepares provisional rows for open records, and for the tail if asked.

        A set is named by the byte it reaches: the same name means the same bytes, so that the same rows are never
        given twice, neither in one life nor after a restart.
        """
        name = (self.position if with_tail else self.offset) + 1
        if self._live >= name or self._peeked == name:
            return
        self._peeked = name
        rows = tuple(self._scanner.peek(self.pending if with_tail else b""))
        if rows or self._live:
            self.harvest.cursor_moved = True
        self.harvest.provisional, self._shown = rows, name if rows else 0

    @property
    def _live(self) -> int:
        """Name of the provisional set that still counts; 0 if the offset has passed it."""
        return self._shown if self._shown > self.offset else 0

    def finish(self, gap: Gap | None = None) -> None:
        """The generation ends: what is pending is its last line. `gap` says what could not be read after it."""
        self._moved(self.pending, self._scanner.finish(self.pending))
        self.pending = b""
        if gap is not None:
            self.harvest.events.append(gap)
        self.closed = True
        self._shown = 0
        self.harvest.provisional = ()

    def gap(self, kind: str, last_byte: int, detail: str) -> Gap:
        """A gap from the end of what was read to `last_byte` (-1: unknown)."""
        at = At(self.position, 0, int(self._scanner.line_no) + bool(self.pending))
        return Gap(at, kind, self.position, last_byte, detail)

    def cursor(self, source_id: int) -> CursorRow:
        """The cursor as it is to be committed with the harvest."""
        count = self._scanner.counters
        return CursorRow(
            source_id=source_id,
            generation=self.number,
            byte_offset=self.offset,
            line_no=int(self._scanner.line_no),
            head_len=self._head_len,
            head_hash=self._head_hash,
            tail_hash=self._tail_hash,
            device=self.file.device,
            inode=self.file.inode,
            path=printable(self.file.path),
            closed=self.closed,
            prov=self._live or None,
            lines=int(count.lines),
            skipped_bytes=int(count.skipped_bytes),
            bad_utf8=int(count.bad_utf8),
            capped_lines=int(count.capped_lines),
            nul_bytes=int(count.nul_bytes),
            state=f"{_SHOWN}{self._live}{_STATE}{self._scanner.state()}}}",
        )

    def reap(self) -> tuple[Harvest, int]:
        """Hands the harvest over with its number of lines, and begins an empty one."""
        lines = int(self._scanner.counters.lines)
        done, self.harvest = self.harvest, Harvest(lines_before=lines)
        return done, lines - done.lines_before


# The cursor's state is the scanner's, in an object that also remembers how far the provisional rows reach.
_RECENT = 1024
_SHOWN, _STATE = '{"shown":', ',"scan":'


def printable(path: str) -> str:
    """A path as stored: bytes that are no UTF-8 are written as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
