"""One followed log: its generations, and what becomes of them when files are rotated, truncated, replaced or deleted.

`settle` is the only place where generations begin and end. It is called with the pieces that lie on disk whenever they
may have changed, and decides from them and from the cursors alone (`lineage`), so that a restart at any moment leads to
the same generations.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from tic_daemon.scan.events import Gap
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources.discover import Candidate
from tic_daemon.sources.identity import HEAD_BYTES, Prints, Seen, begins_as, reaches, read_range
from tic_daemon.sources.lineage import Known, Lineage, trace
from tic_daemon.sources.reading import AnyReader, GzipReader, PlainReader
from tic_daemon.sources.rotation import piece_of
from tic_daemon.sources.sniff import SNIFF_BYTES, why_not_a_log
from tic_daemon.sources.tailfile import Generation, ScannerLike, printable
from tic_daemon.sources.zones import ZoneGuess
from tic_daemon.store.rows import CursorRow, SourceRow, source_id

KIND = "file"
_RECALLED = 1024
_SECOND_LOOKS, _SECOND_LOOK_S = 3, 0.02


class Fresh(NamedTuple):
    """A file in which a generation is to begin. `number`: a free one where it stands before known ones, else None."""

    file: Seen
    number: int | None = None


class Source:
    """One log with all its generations.

    Attributes:
        row: what the store is to know; `changed` while it has not been handed on.
        open: generations that are being read, by number.
        past: cursors of the others, by number.
        empty: pieces that were passed over because nothing was in them, with their size.
        moved: cursors of closed generations whose file lies elsewhere now, not yet handed on.
    """

    def __init__(
        self,
        candidate: Candidate,
        scanner: ScannerLike,
        cursors: Mapping[int, CursorRow],
        stored: SourceRow | None,
        now: float,
        *,
        dirty: set[Source],
    ) -> None:
        self._dirty = dirty
        self.candidate = candidate
        self.id = self.id_of(candidate)
        self.open: dict[int, Generation] = {}
        self.past: dict[int, CursorRow] = dict(cursors)
        self.moved: list[CursorRow] = []
        self.changed = True
        self.rejected = ""
        self.files: tuple[Seen, ...] = ()
        self.empty: dict[str, int] = {}
        self.grown_at = float("-inf")
        self._scanner = scanner
        self._zone = ZoneGuess()
        self._stored_size = (stored.generation, stored.bytes_size) if stored else (-1, 0)
        self.row = SourceRow(
            self.id,
            KIND,
            candidate.host,
            printable(candidate.root),
            printable(candidate.path),
            generation=max(cursors, default=0),
            bytes_size=self._stored_size[1],
            zone_s=stored.zone_s if stored else None,
            zone_how=stored.zone_how if stored else "",
            first_seen_at=(stored.first_seen_at if stored else None) or utc(now),
            last_growth_at=stored.last_growth_at if stored else None,
            state=stored.state if stored else "idle",
        )
        self.changed = self.row != stored
        self.describe(candidate)
        self._dirty.add(self)

    @staticmethod
    def id_of(candidate: Candidate) -> int:
        """The id that the candidate's source has in every store."""
        return source_id(candidate.host, KIND, candidate.path)

    # --- what discovery says -----------------------------------------------------------------------------------------

    def describe(self, candidate: Candidate) -> None:
        """Takes over what discovery says now."""
        self.candidate = candidate
        facts = candidate.facts
        zone = (self.row.zone_s, self.row.zone_how)
        if candidate.zone_s is not None:
            zone = (candidate.zone_s, "configured")
        elif zone[1] == "configured":
            zone = (None, "")
        self.set(
            role=facts.role,
            framework=facts.framework,
            rank=facts.rank,
            pid=facts.pid,
            single_process=facts.single_process,
            stream=facts.stream,
            console=facts.console,
            run_hint=candidate.run_hint,
            run_how=candidate.run_how,
            network=candidate.network,
            why="; ".join(printable(why) for why in candidate.why),
            zone_s=zone[0],
            zone_how=zone[1],
        )
        if candidate.error:
            self.set(state="unreadable", error=candidate.error)

    def set(self, **fields: object) -> None:
        """Changes fields of the row; remembers whether anything did change."""
        row = replace(self.row, **fields)  # type: ignore[arg-type]
        if row != self.row:
            self.row, self.changed = row, True
            self._dirty.add(self)

    def note_stamp(self, stamp: datetime, now: float) -> None:
        """See `FileFollower.note_live_stamp`."""
        if self.row.zone_how in {"configured", "changed"} or (zone := self._zone.note(stamp, now)) is None:
            return
        if self.row.zone_how == "inferred" and zone != self.row.zone_s:
            # Clocks were put back or forward, or the log has lines of two: no number fits all of its stamps.
            self.set(zone_s=None, zone_how="changed")
        else:
            self.set(zone_s=zone, zone_how="inferred")

    # --- generations -------------------------------------------------------------------------------------------------

    def settle(self, files: Sequence[Seen], tick: float, now: float) -> None:
        """Brings the generations in line with the pieces on disk."""
        files = _once_each(files)
        if self.rejected and files and why_not_a_log(read_range(files[-1], 0, SNIFF_BYTES) or b"", named_like_log=True):
            return
        self.rejected = ""
        self.files = tuple(files)
        untouched = [self.open.pop(n) for n, one in list(self.open.items()) if one.position == 0]
        lineage = self._trace(files)
        for _ in range(_SECOND_LOOKS):
            if not self._seems_truncated(lineage):
                break
            # Perhaps files were being renamed while they were listed, and one was read under another's name.
            time.sleep(_SECOND_LOOK_S)
            files = _once_each(pieces_on_disk(self.candidate.path))
            self.files = tuple(files)
            lineage = self._trace(files)
        # The log is drained in order: what is older first, so that rows come out in the order of the bytes.
        for number, row in sorted(self.past.items()):
            self._settle_past(row, lineage.place.get(number), tick, now)
        for number, generation in sorted(self.open.items()):
            if not generation.closed:
                self._settle_open(generation, lineage.place.get(number))
        self.empty = {}
        begun = [Fresh(file, number) for number, file in lineage.begun.items()]
        for file, free in self._keep_unread(untouched, [*begun, *map(Fresh, lineage.new)]):
            # A piece without a byte does not count: who was there when it was rotated did not count it either.
            if file.path == self.candidate.path or (file.size > 0 and read_range(file, 0, 1) != b""):
                self._begin(file, free, untouched, tick, now)
            else:
                self.empty[file.path] = file.size
        for generation in untouched:
            if self.open.get(generation.number) is not generation:
                generation.drop_reader()
        newest = max((*self.open, *self.past), default=0)
        for number, generation in self.open.items():
            generation.ending = generation.ending or number < newest
        self._name_state(tick)

    def _seems_truncated(self, lineage: Lineage) -> bool:
        """After a restart: the file of a generation that was being read is there, and not what was read of it."""
        here = {(file.device, file.inode) for file in self.files}
        return any(
            not row.closed and lineage.place.get(number) is None and (row.device, row.inode) in here
            for number, row in self.past.items()
        )

    def _trace(self, files: Sequence[Seen]) -> Lineage:
        return trace(files, list(self._known()), self.candidate.path, {*self.open, *self.past})

    def _known(self) -> Iterable[Known]:
        for row in self.past.values():
            if row.head_len == 0:
                continue  # lost before a byte of it was read: nothing can be recognised as it
            prints = Prints(row.head_len, row.head_hash, row.byte_offset, row.tail_hash)
            yield Known(row.generation, row.device, row.inode, prints, row.closed)
        for one in self.open.values():
            yield Known(one.number, one.file.device, one.file.inode, one.prints, False, one.recent)

    def _settle_past(self, row: CursorRow, place: Seen | None, tick: float, now: float) -> None:
        at_base = place is not None and place.path == self.candidate.path
        if row.closed and not at_base and (place is None or not _has_more(place, row)):
            if place is not None and (printable(place.path), place.device, place.inode) != (
                row.path,
                row.device,
                row.inode,
            ):
                self.past[row.generation] = new = replace(
                    row, path=printable(place.path), device=place.device, inode=place.inode
                )
                self.moved.append(new)
                self._dirty.add(self)
            return
        # Still open; or closed, and bytes came after all: they are read as more of the same generation.
        was = Seen(row.path, row.device, row.inode, row.byte_offset, now, row.path.endswith(".gz"))
        generation = Generation(self._scanner, self._traits(place), row.generation, place or was, row)
        if row.generation == self._stored_size[0]:
            generation.size = max(generation.size, self._stored_size[1])
        del self.past[row.generation]
        self.open[row.generation] = generation
        if place is None:
            self._lose(generation)
            return
        generation.closed = False
        generation.ending = not at_base
        start = max(0, row.byte_offset - _RECALLED)
        before = read_range(place, start, row.byte_offset - start) or b""
        generation.recall(before, read_range(place, 0, min(HEAD_BYTES, row.head_len)) or b"")
        self._opened(generation, tick, now)

    def _settle_open(self, generation: Generation, place: Seen | None) -> None:
        reader = generation.reader
        if place is not None:
            same = reader is not None and (place.device, place.inode) == (reader.file.device, reader.file.inode)
            if reader is None or not same or reader.broken:
                generation.drop_reader()
                generation.reader = self._reader(place)
            else:
                reader.file = place
            generation.file = place
            generation.ending = generation.ending or place.path != self.candidate.path
        elif generation.reads_without_name():
            generation.ending = True
        else:
            self._lose(generation)

    def _keep_unread(self, untouched: Sequence[Generation], fresh: Sequence[Fresh]) -> list[Fresh]:
        """Generations of which nothing was read and whose file lies nowhere any more; gives what is left of `fresh`.

        With a held descriptor they can still be read, unless one of the fresh files is their copy and has all
        (gzip, copytruncate). If bytes were seen in them and no fresh file can be theirs, those are lost. And if
        nothing was ever in them they do not count, and their number is the next one's.
        """
        here = {(file.device, file.inode) for file in self.files}
        left, pieces = list(fresh), [one for one in fresh if one.file.path != self.candidate.path]
        for generation in untouched:
            reader = generation.reader
            if (generation.file.device, generation.file.inode) in here:
                continue
            held = reader.fd if reader is not None and generation.reads_without_name() else -1
            size = os.fstat(held).st_size if held >= 0 else 0
            if size > 0:
                copy = next((one for one in pieces if begins_as(one.file, held, size)), None)
                if copy is not None:
                    pieces.remove(copy)
                    if reaches(copy.file, held, size):
                        continue
                    left.remove(copy)  # still in the making: the descriptor has more
            elif generation.size > 0:
                copy = next((one for one in pieces if one.file.gz or one.file.size >= generation.size), None)
                if copy is not None:
                    pieces.remove(copy)
                    continue
            else:
                continue
            taken = {*self.open, *self.past, *(one.number for one in left)}
            passed = generation.number < max((*self.open, *self.past), default=-1) and generation.number not in taken
            self._number(generation, generation.number if passed else None)
            generation.ending = True
            if size == 0:
                self._lose(generation)
        return left

    def _number(self, generation: Generation, number: int | None = None) -> None:
        generation.number = max((*self.open, *self.past), default=-1) + 1 if number is None else number
        self.open[generation.number] = generation

    def _lose(self, generation: Generation) -> None:
        """The generation's unread rest is nowhere any more: the gap says from where, and to where if that is known."""
        truncated = any(file.inode == generation.file.inode for file in self.files)
        size, at = generation.size, generation.position
        shrunk = generation.reader is not None and generation.reader.broken == "shrunk"
        if size > at:
            gap = generation.gap(
                "truncated" if truncated else "vanished", size, "up to the size last seen, perhaps more"
            )
        elif truncated and shrunk and generation.at_end:
            # We were there and had read it to its end. Only what came in the moment before can be missing.
            gap = generation.gap("shrank", at, "all that was seen of it had been read")
        else:
            gap = generation.gap("truncated" if truncated else "vanished", -1, "unknown end")
        self.end(generation, gap)

    def _begin(self, file: Seen, number: int | None, untouched: Sequence[Generation], tick: float, now: float) -> None:
        """The next generation, or that of a free `number`; one known as empty until now goes on with its descriptor."""
        key = (file.device, file.inode)
        same = [one for one in untouched if (one.file.device, one.file.inode) == key and not one.file.gz]
        if same and same[0].reader is not None and not same[0].reader.broken:
            generation = same[0]
            generation.file = generation.reader.file = file  # type: ignore[union-attr]
        else:
            generation = Generation(self._scanner, self._traits(file), 0, file)
            self._opened(generation, tick, now)
        generation.ending = file.path != self.candidate.path
        generation.size = 0 if file.gz else file.size
        self._number(generation, number)
        if generation.number >= self.row.generation:
            self.set(generation=generation.number, bytes_size=generation.size)

    def _opened(self, generation: Generation, tick: float, now: float) -> None:
        generation.reader = self._reader(generation.file)
        generation.grown_at = tick - max(0.0, now - generation.file.mtime)

    def _reader(self, file: Seen) -> AnyReader:
        return GzipReader(file) if file.gz else PlainReader(file, hold=not self.candidate.network)

    def _traits(self, file: Seen | None) -> SourceTraits:
        when = datetime.fromtimestamp(file.mtime) if file else None
        return replace(self.candidate.traits, reference_time=when)

    def reader(self, generation: Generation) -> AnyReader | None:
        """What reads the generation now; None if nothing does, or if its number is another one's by now."""
        return generation.reader if self.open.get(generation.number) is generation else None

    def name_leads_elsewhere(self, generation: Generation) -> bool:
        """The path of the generation is missing or another file now."""
        try:
            info = os.lstat(generation.file.path)
        except OSError:
            return True
        return (info.st_dev, info.st_ino) != (generation.file.device, generation.file.inode)

    def holds_the_only_way(self, generation: Generation) -> bool:
        """The generation has no name any more, and no newer one has taken its place."""
        reader = generation.reader
        newest = max((*self.open, *self.past), default=0)
        return reader is not None and generation.number == newest and reader.unlinked()

    def reject(self, why: str) -> None:
        """Its first bytes are no log's. It is left alone until another file takes the name."""
        self.rejected = why
        self.close()
        self.open.clear()
        self.set(state="unreadable", error=f"no log: {why}")

    def end(self, generation: Generation, gap: Gap | None = None) -> None:
        """Finishes the generation. It stays in `open` until `reaped`."""
        generation.finish(gap)
        generation.at_end = True
        generation.drop_reader()

    def reaped(self, row: CursorRow) -> None:
        """The cursor was handed on; a closed generation becomes past."""
        if row.closed:
            self.open.pop(row.generation, None)
            self.past[row.generation] = row

    # --- state -------------------------------------------------------------------------------------------------------

    def took(self, generation: Generation, tick: float, now: float) -> None:
        """Bytes were read: keeps size, time and state up."""
        generation.grown_at = self.grown_at = tick
        generation.size = max(generation.size, generation.position)
        if generation.number >= self.row.generation:
            self.set(
                generation=generation.number,
                bytes_size=generation.size,
                last_growth_at=utc(now),
                error="",
                state=self.row.state if generation.ending else "growing",
            )

    def _name_state(self, tick: float) -> None:
        if self.candidate.error or self.rejected:
            self.set(state="unreadable", error=self.candidate.error or self.rejected)
        elif any(file.path == self.candidate.path for file in self.files):
            if self.row.state in ("rotated", "vanished", "unreadable"):
                self.set(state="idle", error="")
        elif self.files:
            self.set(state="rotated")
        else:
            self.set(state="vanished")

    def close(self) -> None:
        """Lets all descriptors go."""
        for generation in self.open.values():
            generation.drop_reader()


def pieces_on_disk(base: str) -> list[Seen]:
    """The log `base` and its rotated pieces as they lie there now, the oldest first."""
    directory, _, name = base.rpartition("/")
    out = []
    try:
        with os.scandir(directory or "/") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    for found in names:
        if found != name and piece_of(found).base != name:
            continue
        path = f"{directory}/{found}"
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            gz = piece_of(found).gz
            out.append(Seen(path, info.st_dev, info.st_ino, info.st_size, info.st_mtime, gz))
    return sorted(out, key=lambda seen: piece_of(seen.path.rpartition("/")[2]).age)


def _has_more(place: Seen, row: CursorRow) -> bool:
    """The file in which a closed generation lies holds more than was read of it: a late writer wrote on."""
    if not place.gz:
        return place.size > row.byte_offset
    # Looked at once, when it has just been compressed: that decompresses all of it, as recognising it did.
    return (place.device, place.inode) != (row.device, row.inode) and read_range(place, row.byte_offset, 1) != b""


def _once_each(files: Sequence[Seen]) -> list[Seen]:
    """Of hard links within one log, the newest name."""
    last = {(file.device, file.inode): file.path for file in files}
    return [file for file in files if last[(file.device, file.inode)] == file.path]


def utc(seconds: float) -> datetime:
    """Naive UTC of seconds since the epoch, as the store keeps times."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
