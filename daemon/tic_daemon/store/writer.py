"""The one writer of a store: rows and cursors of a tick in one transaction, so that nothing is lost or counted twice.

    open     take ownership, open and migrate the file, read back where the last daemon stopped
    commit   one tick: events, provisional rows, sources, cursors, marks, attempts, and the tick's own record
    close    checkpoint, let the file and its ownership go

What is remembered here (cursors, the next rec_id, ids of marks) changes only after a COMMIT has succeeded. A commit
that failed has written nothing and can be tried again with the same deltas.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from tic_daemon.errors import StoreError, StoreFull, StoreOwnedError
from tic_daemon.scan.events import Event
from tic_daemon.store import declared as declare
from tic_daemon.store import migrate, restore
from tic_daemon.store.columns import EVENT_TABLES, STAMP, Batch
from tic_daemon.store.declared import Cut, Declared
from tic_daemon.store.derive import Derived
from tic_daemon.store.engine import Engine, is_full
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.owner import Owner
from tic_daemon.store.rows import (
    AttemptRow,
    CursorRow,
    FaultRuleLike,
    MarkRow,
    Progress,
    RemoteFaultRow,
    RemoteGapRow,
    RemotePlaceRow,
    SourceDelta,
    SourceRow,
)
from tic_daemon.store.upsert import CURSOR_UPSERT, REMOTE_INSERTS, SOURCE_CHANGE_INSERT, SOURCE_UPSERT

__all__ = ["StoreFull", "Writer"]

log = logging.getLogger(__name__)

# Arrow's own pool keeps what a large tick needed; the system's gives it back (tens of MB of a daemon's resident set).
pa.set_memory_pool(pa.system_memory_pool())

_Row = TypeVar("_Row", SourceRow, CursorRow, RemoteGapRow)

Key = tuple[int, int]
"""(source_id, generation)"""
RemoteRow = RemoteFaultRow | RemotePlaceRow | RemoteGapRow

WAL_BYTES = 24 << 20
"""What is not checkpointed is memory, too: about three times as much."""
IDLE_S = 60.0
RETRY_S = 30.0


@dataclass(slots=True)
class _Memory:
    """What the store holds that the next commit builds on; read from the file when it is opened."""

    rec_id: int
    prov: int
    tick: int
    observed_at: datetime
    cursors: dict[Key, CursorRow]
    sources: dict[int, SourceRow]
    mark_ids: set[str]
    attempt_ids: set[str]
    provisional: dict[Key, tuple[Event, ...]]
    revisions: dict[tuple[object, ...], int]
    gaps: set[RemoteGapRow]


@dataclass(slots=True)
class _Tick:
    """Everything that one transaction writes, made before it begins."""

    batches: dict[str, Batch]
    sources: dict[int, SourceRow]
    changed: list[SourceRow]
    cursors: dict[Key, CursorRow]
    provisional: dict[Key, tuple[Event, ...]]
    rec_id: int
    prov: int
    events: int
    bytes: int
    lines: int

    @property
    def mismatches(self) -> int:
        """How many rows of table `mismatch` it writes."""
        return len(self.batches["mismatch"].events) if "mismatch" in self.batches else 0


class Writer:
    """See the module. Not thread-safe, except `reader_cursor()`, `changes()` and `lost()`."""

    def __init__(self, layout: StoreLayout, owner: Owner, engine: Engine, derived: Derived) -> None:
        self.layout = layout
        self.store_id = layout.store_id
        self._owner = owner
        self._engine = engine
        self._derived = derived
        self._session = uuid.uuid4().hex[:12]
        self._memory = self._load()
        self._rows = 0
        self._said = 0  # what changed the standing of records besides the derived tables
        self._last_commit = time.monotonic()
        self._checkpoint_after = 0.0
        self._changes = 0

    @classmethod
    def open(
        cls,
        layout: StoreLayout,
        *,
        memory_limit: str = "256MB",
        take_over: bool = False,
        network: bool | None = None,
        local_dir: Path | None = None,
        margin_s: float = 2.0,
        staleness: int = 1,
    ) -> Writer:
        """Opens the store for writing; creates it if it is not there.

        Args:
            layout: from `StoreLayout.find`.
            memory_limit: DuckDB's own limit.
            take_over: take the store from an owner elsewhere that has been silent for over a minute.
            network: whether the state directory is on a network file system; None: as the mount says.
            local_dir: where on this node the live store lies if it must (place.py).
            margin_s, staleness: settings of the lock (config.py `LockConfig`).

        Raises:
            StoreOwnedError: another daemon writes it. StoreVersionError: written by a newer program.
            StoreError: it cannot be opened.
        """
        layout.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = Owner.acquire(layout.owner_file, take_over=take_over)
        engine: Engine | None = None
        try:
            layout = layout.settle(network=network, local_dir=local_dir)
            restore.if_lost(layout)
            engine = Engine(layout, memory_limit)
            workspace = str(layout.state_dir.parent)
            migrate.migrate(engine.con, layout.store_id, workspace, layout.host, _utcnow())
            derived = Derived(margin_s, staleness)
            derived.rebuild(engine.con, _utcnow())
            migrate.public_views(engine.con)
            engine.lock_down()
            pa.array(["warm"])  # the first one may import pandas: not inside a transaction
            return cls(layout, owner, engine, derived)
        except BaseException as error:
            if engine is not None:
                engine.close()
            owner.release()
            if isinstance(error, duckdb.Error):
                raise StoreError(f"cannot use {layout.database}: {error}") from error
            raise

    # --- what is stored -------------------------------------------------------------------------------------------

    def cursors(self) -> dict[Key, CursorRow]:
        """How far every generation of every source is read, by (source_id, generation)."""
        return dict(self._memory.cursors)

    def sources(self) -> dict[int, SourceRow]:
        """All sources known to this store, by source_id."""
        return dict(self._memory.sources)

    @property
    def derived_version(self) -> int:
        """Grows whenever what follows from the events changed: places, faults, thresholds."""
        return self._derived.changes

    def reader_cursor(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection for one request of the live endpoint; close it afterwards. From any thread."""
        return self._engine.cursor()

    def changes(self) -> int:
        """A number that grows whenever what the store holds has changed. From any thread."""
        return self._changes

    def lost(self) -> bool:
        """Whether another daemon has taken the store over. From any thread."""
        return self._owner.lost

    def knows_attempt(self, attempt_id: str) -> bool:
        """Whether this attempt was taken in."""
        return attempt_id in self._memory.attempt_ids

    def runs_between(self, after: Cut, before: Cut | None) -> set[str]:
        """Runs that were read between two cuts; see `declared.runs_between`. Raises StoreError."""
        try:
            return declare.runs_between(self._engine.con, after, before)
        except duckdb.Error as error:
            raise self._failed(error, "a question about runs") from error

    def runs_in(self, source_ids: Iterable[int]) -> set[str]:
        """Runs that were read in these sources. Raises StoreError."""
        try:
            return declare.runs_in(self._engine.con, source_ids)
        except duckdb.Error as error:
            raise self._failed(error, "a question about runs") from error

    def _load(self) -> _Memory:
        con = self._engine.con
        newest = [f"SELECT max(rec_id) r, max(prov) p FROM {table}" for table in EVENT_TABLES]  # noqa: S608
        others = ("mark", "run_attempt", "remote_fault", "remote_place", "remote_gap")
        newest += [f"SELECT max(rec_id), NULL FROM {table}" for table in others]  # noqa: S608
        rows = con.execute(
            f"SELECT coalesce(max(r), 0), coalesce(max(p), 0) FROM ({' UNION ALL '.join(newest)})"  # noqa: S608
        ).fetchone()
        last = con.execute(
            "SELECT coalesce(max(tick), 0), max(observed_at), (SELECT max(created_at) FROM store) FROM ingest"
        ).fetchone()
        assert rows is not None and last is not None  # noqa: S101  aggregates always give a row
        return _Memory(
            rec_id=rows[0],
            prov=rows[1],
            tick=last[0],
            observed_at=last[1] or last[2],
            cursors={(row.source_id, row.generation): row for row in _read_rows(con, CursorRow, "cursor")},
            sources={row.source_id: row for row in _read_rows(con, SourceRow, "source")},
            mark_ids={str(row[0]) for row in con.execute("SELECT id FROM mark").fetchall()},
            attempt_ids={str(row[0]) for row in con.execute("SELECT id FROM run_attempt").fetchall()},
            provisional={},
            revisions=_revisions(con),
            gaps=set(_read_rows(con, RemoteGapRow, "remote_gap")),
        )

    @property
    def progress(self) -> Progress:
        """How far this writer has come; for long polls (`Reader.tail`)."""
        memory = self._memory
        return Progress(memory.tick, memory.rec_id, self._rows, self._said + self._derived.changes)

    # --- writing --------------------------------------------------------------------------------------------------

    def put_fault_rules(self, rules: Iterable[FaultRuleLike]) -> None:
        """Replaces table `fault_rule`: what a rule's faults do is decided by the rules of today, for old rows too."""
        rows = {
            rule.kind: [rule.kind, rule.severity, rule.locks, rule.node_scope, rule.title, rule.pack, rule.product]
            for rule in rules
        }
        con = self._engine.con
        stored = con.execute("SELECT * FROM fault_rule").fetchall()
        if {tuple(row) for row in stored} == {tuple(row) for row in rows.values()}:
            return
        try:
            con.execute("BEGIN")
            # Not DELETE and INSERT: DuckDB refuses a key that was deleted in the same transaction (1.2).
            con.execute("DELETE FROM fault_rule WHERE NOT list_contains(?, kind)", [list(rows)])
            for row in rows.values():
                con.execute("INSERT OR REPLACE INTO fault_rule VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            con.execute("COMMIT")
        except duckdb.Error as error:
            raise self._failed(error, "the fault rules") from error
        self._derived.rebuild(con, max(_utcnow(), self._memory.observed_at))
        self._changes += 1

    def commit(
        self,
        deltas: Sequence[SourceDelta],
        *,
        marks: Sequence[MarkRow] = (),
        attempts: Sequence[AttemptRow] = (),
        remote: Sequence[RemoteRow] = (),
        began_at: datetime | None = None,
        lag_us: int = 0,
    ) -> int:
        """Writes one tick in one transaction and returns the store's last rec_id. Writes nothing if there is nothing.

        Several deltas of one (source, generation) are joined, the last cursor and its provisional set win. Marks whose
        id is stored already are left out, of attempts what is not stored yet is added (declared.py), and so is what
        other stores said if its revision is newer.

        Args:
            began_at: when the tick began to read, naive UTC. lag_us: age of the oldest line in it, microseconds.

        Raises:
            StoreFull: no space left; nothing was written, call again with the same arguments when there is some.
            StoreOwnedError: another daemon has taken the store over. StoreError: anything else; nothing was written.
        """
        if self._owner.lost:
            raise StoreOwnedError(
                f"another daemon has taken over {self.layout.directory.name}", "this daemon writes no more"
            )
        memory = self._memory
        new_marks = {mark.id: mark for mark in marks if mark.id not in memory.mark_ids}
        declared = self._declared(attempts)
        new_remote, revisions = _news(remote, memory)
        if not (deltas or new_marks or declared or new_remote):
            return memory.rec_id
        # Strictly increasing, whatever the clock does: as-of then cuts between two ticks, never through one.
        now = max(_utcnow(), memory.observed_at + timedelta(microseconds=1))
        tick = self._plan(deltas)
        number = memory.tick + 1
        write = partial(
            self._write, tick, new_marks.values(), declared, new_remote,
            now=now, number=number, began_at=began_at or now, lag_us=lag_us,
        )  # fmt: skip
        try:
            try:
                write(derive=self._derived.usable())
            except _NotDerived as error:
                if is_full(error) or not self._engine.rollback():
                    raise
                # Rows come first. Until it succeeds again, records of places that are not known count as locked.
                log.error("what follows from the events could not be derived, and is tried again: %s", error)
                self._derived.failed()
                write(derive=False)
        except duckdb.Error as error:
            failure = self._failed(error, "a tick")
            self._said += bool(new_marks or declared)  # they wait in the spool, where readers see them
            if self._memory is memory or self._memory.tick < number:
                raise failure from error
            self._rows += tick.mismatches
            return self._memory.rec_id  # the instance died after the commit: it is in the file
        except BaseException:
            self._engine.rollback()
            raise
        self._rows += tick.mismatches
        self._said += bool(new_marks or declared or _withdrawn(tick, memory))
        for key, cursor in tick.cursors.items():
            memory.cursors[key] = cursor
            memory.provisional[key] = tick.provisional[key]
        memory.sources.update(tick.sources)
        memory.mark_ids.update(new_marks)
        memory.attempt_ids.update(row.id for row in declared.rows)
        memory.revisions.update(revisions)
        memory.gaps.update(row for row in new_remote if isinstance(row, RemoteGapRow))
        memory.rec_id = tick.rec_id + len(new_marks) + len(declared.rows) + len(new_remote)
        memory.prov, memory.tick, memory.observed_at = tick.prov, number, now
        self._last_commit = time.monotonic()
        self._changes += 1
        return memory.rec_id

    def _declared(self, attempts: Sequence[AttemptRow]) -> Declared:
        if not attempts:
            return Declared()
        memory = self._memory
        return declare.take_in(self._engine.con, attempts, memory.attempt_ids, memory.sources, memory.cursors)

    def _plan(self, deltas: Sequence[SourceDelta]) -> _Tick:
        """Numbers the rows of a tick. Reads what is remembered, changes nothing of it."""
        memory = self._memory
        tick = _Tick({}, {}, [], {}, {}, memory.rec_id, memory.prov, 0, 0, 0)
        for delta in deltas:
            source, cursor = delta.source, delta.cursor
            tick.sources[source.source_id] = source
            tick.bytes += delta.bytes
            tick.lines += delta.lines
            generation = source.generation if cursor is None else cursor.generation
            _add(tick, delta.events, source, generation, None)
            if cursor is not None:
                key = (cursor.source_id, cursor.generation)
                tick.cursors[key] = cursor
                tick.provisional[key] = delta.provisional
            elif delta.provisional:
                raise ValueError("a delta without a cursor cannot hold provisional events")
        for key, cursor in tick.cursors.items():
            live = tick.provisional[key]
            before = memory.cursors.get(key)
            prov = None
            if live and before is not None and before.prov is not None and memory.provisional.get(key) == live:
                prov = before.prov  # the same set as the one that stands: nothing to write
            elif live:
                tick.prov += 1
                prov = tick.prov
                _add(tick, live, tick.sources[key[0]], key[1], prov)
            tick.cursors[key] = replace(cursor, prov=prov)
        for source in tick.sources.values():
            known = memory.sources.get(source.source_id)
            if known is None or _visible(known) != _visible(source):
                tick.changed.append(source)
        return tick

    def _write(
        self,
        tick: _Tick,
        marks: Iterable[MarkRow],
        declared: Declared,
        remote: Sequence[RemoteRow],
        *,
        now: datetime,
        number: int,
        began_at: datetime,
        lag_us: int,
        derive: bool,
    ) -> None:
        con = self._engine.con
        inserts = [
            (f"INSERT INTO {table} SELECT * FROM _batch", batch.to_arrow(table, self.store_id, now))  # noqa: S608
            for table, batch in tick.batches.items()
        ]
        for statement, rows in (
            (SOURCE_UPSERT, tick.sources.values()),
            (SOURCE_CHANGE_INSERT, tick.changed),
            (CURSOR_UPSERT, tick.cursors.values()),
        ):
            if rows:
                inserts.append((statement.sql, statement.table(rows, now)))
        con.execute("BEGIN")
        for sql, table in inserts:
            self._insert(sql, table)
        rec_id = tick.rec_id
        for mark in marks:
            rec_id += 1
            con.execute(f"INSERT INTO mark VALUES ({'?, ' * 11}?)", [rec_id, *astuple(mark), now])  # noqa: S608
        for attempt in declared.rows:
            rec_id += 1
            con.execute(
                f"INSERT INTO run_attempt VALUES ({'?, ' * 9}?)",  # noqa: S608
                [rec_id, *(getattr(attempt, field.name) for field in fields(attempt) if field.name != "cut"), now],
            )
        if declared.cuts:
            names, ids, generations, offsets = zip(*declared.cuts, strict=True)
            self._insert(
                "INSERT INTO attempt_cut SELECT * FROM _batch",
                pa.table(
                    {
                        "id": pa.array(names, pa.string()),
                        "source_id": pa.array(ids, pa.int64()),
                        "generation": pa.array(generations, pa.int32()),
                        "byte_offset": pa.array(offsets, pa.int64()),
                        "observed_at": pa.repeat(pa.scalar(now, STAMP), len(ids)),
                    }
                ),
            )
        touched = self._touched(tick, bool(declared))
        for cls, statement in REMOTE_INSERTS.items():
            if told := [row for row in remote if isinstance(row, cls)]:
                self._insert(statement.sql, statement.table(told, now, rec_id + 1))
                rec_id += len(told)
                touched.add(statement.name)
        if derive:
            try:
                self._derived.after(con, touched, now)
            except duckdb.Error as error:
                raise _NotDerived(str(error)) from error
        con.execute(
            "INSERT INTO ingest VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                number, self._session, began_at, _utcnow(),
                tick.bytes, tick.lines, tick.events, len(tick.sources), lag_us, now,
            ],
        )  # fmt: skip
        con.execute("COMMIT")

    def _touched(self, tick: _Tick, attempts: bool) -> set[str]:
        """What a tick changes, as `Derived.after` wants it."""
        memory = self._memory
        touched = {str(table) for table in tick.batches}
        for key in tick.cursors:
            if key not in memory.cursors:
                touched.add("generation")
            # Provisional rows that no longer count are a change of their tables, too.
            before = memory.cursors.get(key)
            if key in memory.provisional:
                if memory.provisional[key] != tick.provisional[key]:
                    touched |= {event.table for event in memory.provisional[key]}
            elif before is not None and before.prov is not None:  # since the start, which tables is not known
                touched |= {"fault", "process_seen", "source_run"}
        if any(_placing(memory.sources.get(source.source_id)) != _placing(source) for source in tick.sources.values()):
            touched.add("source_place")
        if attempts:
            touched |= {"run_attempt", "attempt_cut"}
        return touched

    def require_file(self) -> None:
        """Raises StoreError if the store's file was deleted: going on would look like work and keep nothing."""
        if self._engine.deleted():
            raise StoreError(
                f"the store {self.layout.database} was deleted while this daemon wrote it", "start the daemon again"
            )

    def settle_if_due(self, *, now: bool = False) -> None:
        """Brings bounds up to date that could wait (derive.py), if they have waited long enough, or `now`."""
        if self._derived.retry_due() and not self._owner.lost:
            try:
                self._derived.rebuild(self._engine.con, self._memory.observed_at)
                self._changes += 1
            except StoreError as error:
                log.error("%s", error)
                self._derived.failed()
        if not (self._derived.due() or (now and self._derived.waiting)) or self._owner.lost:
            return
        con = self._engine.con
        try:
            con.execute("BEGIN")
            self._derived.settle(con, self._memory.observed_at)
            con.execute("COMMIT")
            self._changes += 1
        except duckdb.Error as error:
            log.warning("%s", self._failed(error, "the bounds of faults"))

    def _insert(self, sql: str, table: pa.Table) -> None:
        con = self._engine.con
        con.register("_batch", table)
        try:
            con.execute(sql)
        finally:
            con.unregister("_batch")

    def _failed(self, error: duckdb.Error, what: str) -> StoreError:
        """Brings the writer back to what the file holds, and says what happened."""
        self._derived.forget()
        if not self._engine.rollback():
            self._reopen()
        if is_full(error):
            return StoreFull(
                f"no space left for {self.layout.database}; {what} waits", "free some space: it goes on by itself"
            )
        return StoreError(f"cannot write {what} into {self.layout.database}: {error}")

    def _reopen(self) -> None:
        self._engine.reopen()
        self._memory = self._load()
        self._said += 1
        self._derived.rebuild(self._engine.con, self._memory.observed_at)
        self._changes += 1

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def checkpoint_if_due(self) -> bool:
        """Moves the WAL into the file if it is over 24 MB, or if nothing was written for a minute. True if it did.

        Only with twice the WAL free: a full disk here kills the instance. That is survived by reopening.
        """
        now = time.monotonic()
        wal = self._engine.wal_bytes()
        due = wal > WAL_BYTES or (wal > 0 and now - self._last_commit >= IDLE_S)
        if not due or now < self._checkpoint_after:
            return False
        return self._checkpoint(wal)

    def _checkpoint(self, wal: int) -> bool:
        self._checkpoint_after = time.monotonic() + RETRY_S
        free = self._engine.free_bytes()
        if free <= 2 * wal:
            log.warning("no checkpoint: %d MB free, twice the WAL's %d MB are needed", free >> 20, wal >> 20)
            return False
        try:
            self._engine.checkpoint()
        except duckdb.FatalException as error:
            log.error("checkpoint failed: %s", error)
            self._reopen()
            return False
        except duckdb.Error as error:
            log.info("checkpoint put off: %s", error)  # a reader's transaction is open
            return False
        self._checkpoint_after = 0.0
        return True

    def close(self, deadline: float = float("inf")) -> None:
        """Checkpoints, closes the file, publishes a node-local store into the state directory, gives ownership up.

        After `deadline` (monotonic) only what must be: a WAL is replayed when the file is opened the next time.
        """
        try:
            wal = self._engine.wal_bytes()
            if time.monotonic() < deadline:
                self.settle_if_due(now=True)
                if wal:
                    self._checkpoint(wal)
            elif wal:
                log.warning("left out: the checkpoint; %d bytes are replayed at the next opening", wal)
            self._engine.close()
            if not self._owner.lost:
                self.layout.publish_whole(deadline)
        finally:
            self._engine.close()
            self._owner.release()


def _add(tick: _Tick, events: Iterable[Event], source: SourceRow, generation: int, prov: int | None) -> None:
    for event in events:
        batch = tick.batches.get(event.table)
        if batch is None:
            batch = tick.batches[event.table] = Batch()
        tick.rec_id += 1
        tick.events += 1
        batch.events.append(event)
        batch.rec_id.append(tick.rec_id)
        batch.host.append(source.host)
        batch.source_id.append(source.source_id)
        batch.generation.append(generation)
        batch.prov.append(prov)


def _withdrawn(tick: _Tick, memory: _Memory) -> bool:
    """Whether provisional records are gone without one at the same place instead: a line grew, and is none any more."""
    written = tick.batches.get("mismatch")
    there = set(zip(written.source_id, written.generation, _offsets(written.events), strict=True)) if written else set()
    for key, cursor in tick.cursors.items():
        before = memory.cursors.get(key)
        if before is None or before.prov is None or before.prov == cursor.prov:
            continue
        if key not in memory.provisional:  # of the time before this daemon was started: which they were is not known
            return True
        gone = [event for event in memory.provisional[key] if event.table == "mismatch"]
        if any((*key, offset) not in there for offset in _offsets(gone)):
            return True
    return False


def _offsets(events: Iterable[Event]) -> list[int]:
    return [event.at.byte_offset for event in events]


class _NotDerived(duckdb.Error):
    """The rows of a tick are well, what should follow from them is not."""


def _placing(source: SourceRow | None) -> tuple[object, ...]:
    """What of a source decides whose its lines are and which clock they have."""
    if source is None:
        return ()
    return (
        source.host, source.root, source.pid, source.single_process, source.stream, source.console, source.run_hint,
        source.run_how, source.zone_s,
    )  # fmt: skip


def _visible(source: SourceRow) -> tuple[object, ...]:
    """What of a source has a past: a change of it is a row of `source_change`."""
    return (source.state, source.error, source.zone_s, source.generation)


def _news(remote: Sequence[RemoteRow], memory: _Memory) -> tuple[list[RemoteRow], dict[tuple[object, ...], int]]:
    """What of `remote` is not in the store yet, and the revisions that it brings."""
    found: list[RemoteRow] = []
    revisions: dict[tuple[object, ...], int] = {}
    gaps: set[RemoteGapRow] = set()
    for row in remote:
        if isinstance(row, RemoteGapRow):
            if not _told_before(row, memory.gaps) and row not in gaps:
                gaps.add(row)
                found.append(row)
        elif row.revision > max(memory.revisions.get(row.key, -1), revisions.get(row.key, -1)):
            revisions[row.key] = row.revision
            found.append(row)
    return found, revisions


def _told_before(gap: RemoteGapRow, known: set[RemoteGapRow]) -> bool:
    """A file that is read again gives the same bad lines, perhaps fewer or more at a time."""
    last = gap.last_byte
    if last is None:
        return gap in known
    return any(
        (old.kind, old.path) == (gap.kind, gap.path) and old.last_byte is not None and old.last_byte >= last
        for old in known
    )


def _revisions(con: duckdb.DuckDBPyConnection) -> dict[tuple[object, ...], int]:
    rows = con.execute(
        "SELECT 'fault', origin_store_id, origin_rec_id, run_id, lo_attempt, max(revision) FROM remote_fault "
        "GROUP BY ALL"
    ).fetchall()
    rows += con.execute(
        "SELECT what, origin_store_id, run_id, host, root, lo_attempt, hi_attempt, node, bus, max(revision) "
        "FROM remote_place GROUP BY ALL"
    ).fetchall()
    return {tuple(row[:-1]): row[-1] for row in rows}


def _read_rows(con: duckdb.DuckDBPyConnection, cls: type[_Row], table: str) -> list[_Row]:
    names = [field.name for field in fields(cls)]
    rows = con.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()  # noqa: S608  names from the row class
    return [cls(*row) for row in rows]


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
