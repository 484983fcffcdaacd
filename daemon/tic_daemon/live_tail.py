"""The newest records for long polls: what GET /tail answers from.

The writer's thread calls `note` after each commit: a comparison, and a wake-up of the event loop if somebody waits.
The rows are read through the public view, once for all who wait and only if somebody does, into a ring of a few
thousand. A statement prepared for it was tried and is no faster: DuckDB plans the view anew each time, and that is most
of the cost (30 to 70 ms with 1.5.6, whatever the number of rows). So readings are paced: at most an eighth of the time,
but for some that are rare, which come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tic_daemon.live_run import Limits, Refusal, Runner, first
from tic_daemon.pace import Pace
from tic_daemon.store.bounded import Ask, Rows, arrow_body, json_body, taken
from tic_daemon.store.rows import Progress

if TYPE_CHECKING:
    import pyarrow as pa

SQL = "SELECT * FROM mismatches WHERE rec_id > ? AND rec_id <= ? ORDER BY rec_id DESC LIMIT ?"
READ_S = 10.0
"""Deadline of the shared reading."""
SHARE = 8
"""A reading that cost t seconds of processor time needs a pause of SHARE * t, at most of PAUSE_S, and some that are
rare may owe it: pace.py."""
PAUSE_S = 0.5
BURST_S = 1.0
FAILED_S = 1.0
"""After a reading that failed there is none for so long."""
KEPT_BODIES = 8


@dataclass(frozen=True, slots=True)
class Polled:
    """One answer: its place in the sequence of commits, and the packed rows."""

    position: str
    standing: str
    missed: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class _Ring:
    """Rows of the view with floor < rec_id <= covers.rec_id, oldest first, as they read under `covers.standing`."""

    table: pa.Table
    types: list[str]
    recs: list[int]
    floor: int
    covers: Progress
    cost_s: float


class Tail:
    """Long polls over one store. `note` and `stop` from any thread, the rest from the event loop.

    Args:
        runner: who runs the shared reading, in one of its places.
        progress: where the writer stands now.
    """

    def __init__(self, runner: Runner, limits: Limits, progress: Progress) -> None:
        self._runner, self._limits = runner, limits
        self._id = secrets.token_hex(4)  # positions of another daemon, or of this one before it was started anew
        self._now = progress
        self._commits: deque[tuple[int, int]] = deque()  # (rec_id before, rows) of those that had records
        self._commit_rows = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._waiting = 0
        self._stopping = False
        self._origin: int | None = None  # nobody has a position from before this rec_id
        self._ring: _Ring | None = None
        self._reading: asyncio.Future[None] | None = None
        self._pace = Pace(SHARE, 0.0, PAUSE_S, BURST_S)
        self._failed_until = 0.0
        self._bodies: dict[tuple[int, int, bool], memoryview] = {}

    # -- the writer's side

    def note(self, progress: Progress) -> None:
        """Where the writer stands after a commit. Never waits."""
        before = self._now
        if progress == before:
            return
        rows = progress.rows - before.rows
        if rows:
            self._commits.append((before.rec_id, rows))
            self._commit_rows += rows
            while self._commit_rows - self._commits[0][1] >= self._limits.ring_rows:
                self._commit_rows -= self._commits.popleft()[1]
        self._now = progress  # before the look at who waits, as those look at it after they said that they wait
        if self._waiting:
            self._call(self._wake)

    def stop(self) -> None:
        """Ends all waits."""
        self._stopping = True
        self._call(self._wake)

    def _call(self, what: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(what)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # -- a poll

    async def poll(
        self, after: str, wait_s: float, limit: int, gone: asyncio.Future[None], *, as_json: bool
    ) -> Polled | None:
        """What came after the position, see `Reader.tail`; None if the client left.

        Raises:
            Refusal: too many wait, the store cannot be read now, or the daemon stops.
        """
        before = self._parsed(after)
        if before is not None:
            await self._until_changed(before, wait_s, gone)
        now = self._now
        if before is None:
            before = now
        if self._origin is None:
            self._origin = before.rec_id
        wants = limit > 0 and now.rows > before.rows
        while (ring := self._ring) is None or (wants and not _reaches(ring.covers, now)):
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
                self._reading.add_done_callback(self._read_ended)
            reading = self._reading
            await first(time.monotonic() + READ_S + FAILED_S, reading, gone)
            if gone.done():
                return None
            if reading.done():
                reading.result()
        if gone.done():
            return None
        if not wants:
            body = await self._packed(ring, len(ring.recs), as_json, self._told(now, now.rows - before.rows))
            return Polled(self._position(now), self._standing(now), now.rows - before.rows, body)
        available = len(ring.recs) - bisect_right(ring.recs, before.rec_id)
        given = min(limit, available)
        whole = before.rec_id >= ring.floor
        missed = available - given if whole else max(0, ring.covers.rows - before.rows - given)
        body = await self._packed(ring, len(ring.recs) - given, as_json, self._told(ring.covers, missed))
        return Polled(self._position(ring.covers), self._standing(ring.covers), missed, body)

    async def _until_changed(self, before: Progress, wait_s: float, gone: asyncio.Future[None]) -> None:
        if self._now != before or wait_s <= 0:
            return
        deadline = time.monotonic() + wait_s
        if self._waiting >= self._limits.waiting:
            raise Refusal(503, f"{self._waiting} clients wait already", "ask without wait", Retry_After="2")
        self._loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            while self._now == before and time.monotonic() < deadline and not (self._stopping or gone.done()):
                news = asyncio.ensure_future(self._news.wait())
                try:
                    await first(deadline, news, gone)
                finally:
                    news.cancel()
        finally:
            self._waiting -= 1
        if self._stopping:
            raise Refusal(503, "the daemon is stopping", Retry_After="5")

    # -- positions

    def _position(self, at: Progress) -> str:
        return f"{self._id}-{at.tick}-{at.rec_id}-{at.rows}-{at.standing}"

    def _standing(self, at: Progress) -> str:
        return f"{self._id}-{at.standing}"

    def _told(self, at: Progress, missed: int) -> dict[str, object]:
        return {"position": self._position(at), "standing": self._standing(at), "missed": missed}

    def _parsed(self, position: str) -> Progress | None:
        """The position, if it is one of ours."""
        name, *numbers = position.split("-")
        if name != self._id or len(numbers) != 4 or not all(n.isascii() and n.isdecimal() for n in numbers):
            return None
        if len(position) > 120:
            return None
        at, now = Progress(*(int(n) for n in numbers)), self._now
        return at if at.tick <= now.tick and at.rec_id <= now.rec_id and at.rows <= now.rows else None

    # -- the shared reading

    def _read_ended(self, reading: asyncio.Future[None]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # marked as seen: those who waited may be gone

    async def _read(self) -> None:
        """Brings the ring to where the writer stands."""
        before = time.monotonic()
        await asyncio.sleep(max(self._failed_until - before, self._pace.remaining(before)))
        ring, now = self._ring, self._now
        start = self._start(ring, now)
        limits = self._limits
        ask = Ask(SQL, (start, now.rec_id, limits.ring_rows), timeout_s=READ_S)

        def consume(rows: Rows) -> _Ring:
            return _ring_of(rows, start, now, limits)

        began = time.monotonic()
        self._failed_until = began + FAILED_S
        read = await self._runner.run(ask, consume, began + READ_S)
        assert read is not None  # noqa: S101  only a client that left makes it None
        self._failed_until = 0.0
        self._pace.done(began, time.monotonic(), read.cost_s)
        extends = ring is not None and start == ring.covers.rec_id and read.floor == start
        self._ring = _joined(ring, read, limits) if ring is not None and extends else read
        self._bodies.clear()

    def _start(self, ring: _Ring | None, now: Progress) -> int:
        """The rec_id after which is read: what is new, or all of it if it reads differently now."""
        start = self._origin or 0
        if ring is not None:
            start = ring.covers.rec_id if ring.covers.standing == now.standing else ring.floor
        left = self._limits.ring_rows
        for before, rows in reversed(tuple(self._commits)):
            left -= rows
            if left <= 0:
                return max(start, before)
        return start

    async def _packed(self, ring: _Ring, at: int, as_json: bool, told: dict[str, object]) -> memoryview:
        """The rows from index `at` on. Kept for the others who ask the same, which those who wait do."""
        rows = ring.table.slice(at)
        if as_json:
            return await asyncio.to_thread(json_body, rows.schema, rows.to_batches(), ring.types, told)
        key = (ring.recs[at] if at < len(ring.recs) else -1, len(ring.recs) - at, as_json)
        body = self._bodies.get(key)
        if body is None:
            body = arrow_body(rows.schema, rows.to_batches())
            if ring is self._ring and len(self._bodies) < KEPT_BODIES:
                self._bodies[key] = body
        return body


def _reaches(covers: Progress, now: Progress) -> bool:
    return covers.rows >= now.rows and covers.standing >= now.standing


def _ring_of(rows: Rows, start: int, now: Progress, limits: Limits) -> _Ring:
    """The ring that a reading gave, newest first and up to the limits."""
    import pyarrow as pa  # noqa: PLC0415

    batches, cut = taken(rows, limits.ring_rows, limits.ring_bytes)
    batches = [batch.replace_schema_metadata(rows.schema.metadata) for batch in batches]
    table = pa.Table.from_batches(batches, rows.schema).sort_by("rec_id").combine_chunks()
    recs = table.column("rec_id").to_pylist()
    full = cut or len(recs) == limits.ring_rows
    floor = start if not full else recs[0] - 1 if recs else now.rec_id
    # The thread was made for this reading, and DuckDB reads in the thread that asks.
    return _Ring(table, rows.types, recs, floor, now, time.thread_time())


def _joined(ring: _Ring, read: _Ring, limits: Limits) -> _Ring:
    import pyarrow as pa  # noqa: PLC0415

    table = pa.concat_tables([ring.table, read.table])
    drop = max(0, table.num_rows - limits.ring_rows)
    while table.slice(drop).nbytes > limits.ring_bytes:
        drop += max(1, (table.num_rows - drop) // 4)
    recs = ring.recs + read.recs
    floor = recs[drop - 1] if drop else ring.floor
    return _Ring(table.slice(drop).combine_chunks(), read.types, recs[drop:], floor, read.covers, read.cost_s)
