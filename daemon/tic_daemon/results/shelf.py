"""The artifacts that manifests name: looked at, hashed, and told when something of them is other than before.

    shelf.put(control, heading, entries, tell)   what a manifest names now
    shelf.look(now, tell)                        a `stat` an artifact, and more where that has changed
    shelf.work(bytes, tell, pace)                hashes what waits: small files first, a large one slice by slice

An artifact whose device, inode, size and times are those that its SHA-256 was kept with is not read again, also after a
restart. A file that changes while it is hashed is hashed again. What was hashed of a file when the daemon is killed is
hashed anew: SHA-256 cannot be taken up in the middle.
"""

from __future__ import annotations

import heapq
import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from tic_daemon.results import layout
from tic_daemon.results.judge import MISSING, PENDING, REFUSED, UNREADABLE, Before, Look, Said, Verdict, judge
from tic_daemon.results.manifest import Entry, Problem
from tic_daemon.results.safefile import CHUNK, GoneError, Hasher, RefusedError, open_inside, stamp
from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import ArtifactRow

MAX_ARTIFACTS: Final = 200_000
SLICE: Final = 64 << 20
"""A larger file is hashed in slices of so many bytes, between which smaller ones have their turn."""
_BREATH: Final = 500
"""After so many files looked at, others may have the interpreter."""
_FAIR: Final = 4
"""Every so many turns a large file goes on, however many small ones wait."""

Tell = Callable[[ArtifactRow], None]
Pace = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Shelved:
    """A manifest as its artifacts need it: path and root as the file system has them, when it was written, its name in
    words."""

    path: str
    root: str
    at: float
    words: str


@dataclass(slots=True, eq=False)
class _Item:
    """`row`: what is known of it, told or not. `queued`: it waits to be hashed, or is hashed."""

    path: str
    by: Shelved
    entry: Entry
    row: ArtifactRow
    queued: bool = False
    settling: bool = False


@dataclass(slots=True)
class _Big:
    """The large file that is hashed now."""

    item: _Item
    hasher: Hasher


@dataclass(slots=True)
class _Queue:
    """Items by size. One that was taken out of the queue otherwise is skipped."""

    heap: list[tuple[int, int, _Item]] = field(default_factory=list)
    number: itertools.count[int] = field(default_factory=itertools.count)
    bytes: int = 0

    def push(self, item: _Item, size: int) -> None:
        item.queued = True
        self.bytes += size
        heapq.heappush(self.heap, (size, next(self.number), item))

    def least(self) -> tuple[int, _Item] | None:
        while self.heap and not self.heap[0][2].queued:
            self.bytes -= heapq.heappop(self.heap)[0]
        return (self.heap[0][0], self.heap[0][2]) if self.heap else None

    def pop(self) -> None:
        self.bytes -= heapq.heappop(self.heap)[0]


class Shelf:
    """Artifacts of one daemon. `known`: the newest row of each that the store has."""

    def __init__(self, known: Iterable[ArtifactRow] = ()) -> None:
        self._known: dict[str, dict[str, ArtifactRow]] = {}
        for row in known:
            self._known.setdefault(row.manifest, {})[row.path] = row
        self._items: dict[str, dict[str, _Item]] = {}
        self._count = 0
        self._queue = _Queue()
        self._big: _Big | None = None
        self._turn = 0

    @property
    def waiting(self) -> bool:
        """Whether something is to be hashed."""
        return self._big is not None or self._queue.least() is not None

    @property
    def settling(self) -> bool:
        """Whether something may still be written, and is judged a little later."""
        return any(item.settling for items in self._items.values() for item in items.values())

    def known(self, manifest: str) -> dict[str, ArtifactRow]:
        """By path, what is known of the artifacts that a manifest names or named; all as the store has them."""
        return dict(self._known.get(manifest, {}))

    def entries(self, manifest: str) -> list[Entry]:
        """What a manifest named when it was last put. `manifest` as the file system has it."""
        return [item.entry for item in self._items.get(manifest, {}).values()]

    def close(self) -> None:
        """Lets an open file go."""
        if self._big is not None:
            self._big.hasher.close()
            self._big = None

    # --- what is named -----------------------------------------------------------------------------------------------

    def put(self, by: Shelved, heading: ArtifactRow, entries: Iterable[Entry], tell: Tell) -> list[Problem]:
        """Takes over what a manifest names; `heading` is what all its artifacts share. Returns what is not watched."""
        before, known = self._items.pop(by.path, {}), self._known.get(heading.manifest, {})
        self._count -= len(before)
        items: dict[str, _Item] = {}
        problems = []
        for entry in entries:
            path = place_of(by.path, entry)
            item = before.pop(path, None)
            if item is None and self._count + len(items) >= MAX_ARTIFACTS:
                problems = [Problem("too_many", "", f"more than {MAX_ARTIFACTS} artifacts: not all are checked")]
                continue
            row = _headed(heading, path, entry, known.get(clean_text(path)))
            if item is None:
                item = _Item(path, by, entry, row)
            elif item.queued and item.entry != entry:
                self._unqueue(item)
            item.by, item.entry, item.row = by, entry, row
            items[path] = item
            if row.state and row != known.get(row.path):
                self._tell(row, tell)  # what it should be is the same, its run or step is not
        for item in before.values():
            self._unqueue(item)
        named = {item.row.path for item in items.values()}
        for row in [row for row in known.values() if row.named and row.path not in named]:
            self._tell(replace(row, named=False), tell)
        self._items[by.path] = items
        self._count += len(items)
        return problems

    def drop(self, path: str, tell: Tell) -> None:
        """Of a manifest that is gone: what it named is named no more."""
        for item in self._items.pop(path, {}).values():
            self._count -= 1
            self._unqueue(item)
        for row in self.known(clean_text(path)).values():
            if row.named:
                self._tell(replace(row, named=False), tell)

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self, now: float, tell: Tell) -> None:
        """Looks at every artifact once. `now` in seconds; infinity: nothing is taken for still being written."""
        seen = 0
        for items in list(self._items.values()):
            for item in items.values():
                seen += 1
                if seen % _BREATH == 0:
                    time.sleep(0.001)
                if not item.queued and self._changed(item):
                    self._look_at(item, now, tell)

    def _changed(self, item: _Item) -> bool:
        return item.row.state in ("", PENDING) or stamp(item.path, item.by.root) != item.row.stamp

    def _look_at(self, item: _Item, now: float, tell: Tell) -> None:
        mark = stamp(item.path, item.by.root)
        try:
            fd, seen = open_inside(item.path, item.by.root)
        except (GoneError, RefusedError, OSError) as error:
            self._judge(item, _failed(error), mark, now, tell)
            return
        os.close(fd)
        look = Look(size=seen.size, modified=seen.modified)
        verdict = self._verdict(item, look, now)
        if verdict.hash:
            item.settling = False
            self._queue.push(item, seen.size)
            if self._queue.bytes <= SLICE:
                return  # done in a moment; until then what was said of it stands
        self._say(item, look, verdict, "" if verdict.hash else seen.stamp, tell)

    def _verdict(self, item: _Item, look: Look, now: float) -> Verdict:
        said = Said(item.entry.size, item.entry.sha256, item.by.words, item.by.at)
        return judge(Before(item.row.kept_sha256), said, look, now)

    def _judge(self, item: _Item, look: Look, mark: str, now: float, tell: Tell) -> None:
        self._say(item, look, self._verdict(item, look, now), mark, tell)

    def _say(self, item: _Item, look: Look, verdict: Verdict, mark: str, tell: Tell) -> None:
        item.settling = verdict.state == PENDING and not verdict.hash
        item.row = replace(
            item.row,
            bytes_size=None if look.failed else look.size,
            sha256=look.sha256,
            kept_sha256=verdict.kept,
            modified_at=None if look.failed else when(look.modified),
            stamp=mark,
            state=verdict.state,
            why=clean_text(verdict.why),
        )
        self._tell(item.row, tell)

    def _tell(self, row: ArtifactRow, tell: Tell) -> None:
        of_manifest = self._known.setdefault(row.manifest, {})
        if of_manifest.get(row.path) != row:
            of_manifest[row.path] = row
            tell(row)

    # --- hashing -----------------------------------------------------------------------------------------------------

    def work(self, budget: int, now: float, tell: Tell, pace: Pace = lambda _: True) -> None:
        """Hashes about `budget` bytes of what waits. `pace` is called with the size of each piece; False: stop now."""
        while budget > 0:
            self._turn += 1
            least = self._queue.least()
            if self._big is not None and (least is None or least[0] > SLICE or self._turn % _FAIR == 0):
                item, hasher = self._big.item, self._big.hasher
            elif least is not None:
                self._queue.pop()
                item = least[1]
                started = self._start(item, now, tell)
                if started is None:
                    continue
                hasher = started
                if self._big is None:
                    self._big = _Big(item, hasher)
            else:
                return
            done = hasher.done
            whole = self._big is None or self._big.hasher is not hasher
            digest = self._advance(item, hasher, SLICE + CHUNK if whole else min(budget, SLICE), now, tell, pace)
            budget -= max(1, hasher.done - done)
            if digest is None:
                if self._big is None or self._big.hasher is not hasher:
                    hasher.close()  # a small file beside a large one, cut short: from its start the next time
                    self._queue.push(item, hasher.seen.size)
                return
            self._end(item, hasher)
            if digest:
                look = Look(size=hasher.seen.size, modified=hasher.seen.modified, sha256=digest)
                self._judge(item, look, hasher.seen.stamp, now, tell)

    def _start(self, item: _Item, now: float, tell: Tell) -> Hasher | None:
        mark = stamp(item.path, item.by.root)
        try:
            return Hasher(*open_inside(item.path, item.by.root))
        except (GoneError, RefusedError, OSError) as error:
            item.queued = False
            self._judge(item, _failed(error), mark, now, tell)
            return None

    def _advance(self, item: _Item, hasher: Hasher, budget: int, now: float, tell: Tell, pace: Pace) -> str | None:
        try:
            return hasher.advance(budget, pace)
        except OSError as error:
            self._judge(item, _failed(error), hasher.seen.stamp, now, tell)
            return ""

    def _end(self, item: _Item, hasher: Hasher) -> None:
        item.queued = False
        hasher.close()
        if self._big is not None and self._big.hasher is hasher:
            self._big = None

    def _unqueue(self, item: _Item) -> None:
        item.queued = False
        if self._big is not None and self._big.item is item:
            self.close()


def place_of(manifest: str, entry: Entry) -> str:
    """Where an entry of a manifest lies. Links and `..` are not resolved here."""
    return os.path.join(manifest.rpartition("/")[0], entry.path)  # noqa: PTH118  names need not be valid text


def when(seconds: float) -> datetime:
    """Naive UTC. Times that a calendar cannot show are the nearest that it can."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253_402_300_799.0), UTC).replace(tzinfo=None)


def _headed(heading: ArtifactRow, path: str, entry: Entry, known: ArtifactRow | None) -> ArtifactRow:
    """What is known of an artifact, under what its manifest says now. That it should be something else is looked at."""
    row = replace(
        heading,
        path=clean_text(path),
        name=clean_text(entry.name),
        expected_size=entry.size,
        expected_sha256=entry.sha256,
        step=next((one for one in (entry.step, heading.step, layout.step_of(path)) if one is not None), None),
        policy=clean_text(entry.policy) or heading.policy,
    )
    if known is None:
        return row
    row = replace(
        row,
        bytes_size=known.bytes_size,
        sha256=known.sha256,
        kept_sha256=known.kept_sha256,
        modified_at=known.modified_at,
    )
    if (known.expected_size, known.expected_sha256, known.named) != (entry.size, entry.sha256, True):
        return row
    return replace(row, stamp=known.stamp, state=known.state, why=known.why)


def _failed(error: Exception) -> Look:
    if isinstance(error, GoneError):
        return Look(failed=MISSING)
    if isinstance(error, RefusedError):
        return Look(failed=REFUSED, why=str(error))
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Look(failed=UNREADABLE, why=f"it cannot be read: {why}")
