"""The one writer of a store: rows and cursors of a tick in one transaction, so that nothing is lost or counted twice.

    open     take ownership, open and migrate the file, read back where the last daemon stopped
    commit   one tick: events, provisional rows, sources, cursors, marks, attempts, and the tick's own record
    close    checkpoint, let the file and its ownership go

What is remembered here (cursors, the next rec_id, ids of marks) changes only after a COMMIT has succeeded. A commit
that failed has written nothing and can be tried again with the same deltas.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from tic_daemon.errors import StoreError, StoreFull, StoreOwnedError
from tic_daemon.ledger.entries import Entry
from tic_daemon.store import arrow, migrate, restore
from tic_daemon.store import declared as declare
from tic_daemon.store import ledger as ledgers
from tic_daemon.store.columns import STAMP
from tic_daemon.store.comparison_rows import ComparisonRow, ComparisonTaskRow, ComparisonTold
from tic_daemon.store.declared import Cut, Declared
from tic_daemon.store.derive import Derived
from tic_daemon.store.engine import Engine, is_full, is_short
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.noting import Noting
from tic_daemon.store.owner import Owner
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.store.rows import (
    AttemptRow,
    CheckpointRow,
    ConfigRow,
    CursorRow,
    EnvPinRow,
    FaultFileRow,
    FaultRuleLike,
    LedgerRow,
    MarkRow,
    Progress,
    RemoteGapRow,
    ResultRow,
    SourceDelta,
    SourceRow,
)
from tic_daemon.store.tick import Key, Looked, RemoteRow, Tick, load, looked, news, plan, touched, withdrawn
from tic_daemon.store.upsert import (
    CHECKPOINT_INSERT,
    CURSORS,
    FAULT_FILE_INSERT,
    NUMBERED_INSERTS,
    REMOTE_INSERTS,
    SOURCE_CHANGE_INSERT,
    SOURCES,
)

__all__ = ["StoreFull", "Writer"]

log = logging.getLogger(__name__)

# Arrow's own pool keeps what a large tick needed; the system's gives it back (tens of MB of a daemon's resident set).
pa.set_memory_pool(pa.system_memory_pool())

WAL_BYTES = 12 << 20
"""What is not checkpointed is memory, too: about three times as much. A checkpoint of so much holds lines up for a
tenth of a second; half as many of twice the size take as long together, and hold up longer."""
MERGE_AFTER = 8
"""Of so many checkpoints of that size one puts together what they wrote (`Engine.checkpoint`), or the next in quiet."""
IDLE_S = 60.0
RETRY_S = 30.0
WHOLE_S = 20.0
"""How long W&B histories are held against each other before the store is closed; the next start goes on."""
_RULE_COLUMNS = ("kind", "severity", "locks", "node_scope", "title", "pack", "product")


class Writer:
    """See the module. Not thread-safe, except `reader_cursor()`, `changes()` and `lost()`."""

    def __init__(self, layout: StoreLayout, owner: Owner, engine: Engine, derived: Derived) -> None:
        self.layout = layout
        self.store_id = layout.store_id
        self._owner = owner
        self._engine = engine
        self._derived = derived
        self._session = uuid.uuid4().hex[:12]
        self._memory = load(self._engine.con)
        self._rows = 0
        self._said = 0  # what changed the standing of records besides the derived tables
        self._alone = False  # while a commit is tried again, without the queries of others
        self._noting = Noting(engine.cursor, layout.host, _utcnow, lambda rows: self.commit([], ledger=rows))
        self._last_commit = time.monotonic()
        self._checkpoint_after = 0.0
        self._unmerged = 0  # checkpoints whose rows stand apart from those before
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
        wandb: Reconciler | None = None,
    ) -> Writer:
        """Opens the store for writing; creates it if it is not there.

        Args:
            layout: from `StoreLayout.find`.
            memory_limit: DuckDB's own limit.
            take_over: take the store from an owner elsewhere that has been silent for over a minute.
            network: whether the state directory is on a network file system; None: as the mount says.
            local_dir: where on this node the live store lies if it must (place.py).
            margin_s, staleness: settings of the lock (`config.LockConfig`).
            wandb: how W&B histories are held against each other; default: without configuration.

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
            derived = Derived(margin_s, staleness, wandb=wandb)
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

    def pins(self) -> dict[str, str]:
        """By path, the digest of the settings that are stored of it; "" if it holds none any more."""
        return dict(self._memory.pins)

    def configs(self) -> dict[str, str]:
        """By path, the digest of what the store holds of a configuration or receipt; "" if it is gone."""
        return dict(self._memory.configs)

    def sources(self) -> dict[int, SourceRow]:
        """All sources known to this store, by source_id."""
        return dict(self._memory.sources)

    def checkpoints(self) -> list[CheckpointRow]:
        """The newest row of every checkpoint."""
        return list(self._memory.checkpoints.values())

    def wandb_rows(self) -> dict[int, list[tuple[int | None, str]]]:
        """By source_id, (_step, digest) of every row that was read through W&B's API."""
        rows = self._engine.con.execute(
            "SELECT source_id, wandb_step, digest FROM wandb_row "
            "WHERE source_id IN (SELECT source_id FROM source WHERE kind = 'wandb_api')"
        )
        found: dict[int, list[tuple[int | None, str]]] = {}
        while some := rows.fetchmany(10_000):
            for number, step, digest in some:
                found.setdefault(number, []).append((step, digest))
        return found

    def wandb_hand_reads(self) -> list[str]:
        """`read_id` of every reading of a W&B history that was made elsewhere and brought here."""
        return [
            row[0] for row in self._engine.con.execute("SELECT read_id FROM wandb_read WHERE who = 'hand'").fetchall()
        ]

    def fault_files(self) -> list[FaultFileRow]:
        """The newest row of every file that a fault left."""
        return list(self._memory.fault_files.values())

    def results(self) -> list[ResultRow]:
        """Of results directories, the newest row of every key."""
        return list(self._memory.results.values())

    def tasks(self) -> list[ComparisonTaskRow]:
        """The newest row of everything that was or is to be compared."""
        return list(self._memory.tasks.values())

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

    @property
    def progress(self) -> Progress:
        """How far this writer has come; for long polls (`Reader.tail`)."""
        memory = self._memory
        return Progress(memory.tick, memory.rec_id, self._rows, self._said + self._derived.changes)

    # --- writing --------------------------------------------------------------------------------------------------

    def put_fault_rules(self, rules: Iterable[FaultRuleLike]) -> None:
        """Replaces table `fault_rule`: what a rule's faults do is decided by the rules of today, for old rows too."""
        rows = {rule.kind: tuple(getattr(rule, name) for name in _RULE_COLUMNS) for rule in rules}
        con = self._engine.con
        stored = con.execute("SELECT * FROM fault_rule").fetchall()
        if set(stored) == set(rows.values()):
            return
        table = pa.table({name: [row[i] for row in rows.values()] for i, name in enumerate(_RULE_COLUMNS)})
        try:
            con.execute("BEGIN")
            # Not DELETE and INSERT: DuckDB refuses a key that was deleted in the same transaction (1.2).
            self._insert("DELETE FROM fault_rule WHERE kind NOT IN (SELECT kind::VARCHAR FROM _batch)", table)
            self._insert("INSERT OR REPLACE INTO fault_rule SELECT * FROM _batch", table)
            con.execute("COMMIT")
        except duckdb.Error as error:
            raise self._failed(error, "the fault rules") from error
        self._derived.rules_changed(con, max(_utcnow(), self._memory.observed_at))
        self._changes += 1

    def commit(
        self,
        deltas: Sequence[SourceDelta],
        *,
        marks: Sequence[MarkRow] = (),
        attempts: Sequence[AttemptRow] = (),
        remote: Sequence[RemoteRow] = (),
        pins: Sequence[EnvPinRow] = (),
        configs: Sequence[ConfigRow] = (),
        checkpoints: Sequence[CheckpointRow] = (),
        fault_files: Sequence[FaultFileRow] = (),
        results: Sequence[ResultRow] = (),
        compared: Sequence[ComparisonTold] = (),
        ledger: Sequence[Entry] = (),
        began_at: datetime | None = None,
        lag_us: int = 0,
    ) -> int:
        """Writes one tick in one transaction and returns the store's last rec_id. Writes nothing if there is nothing.

        Several deltas of one (source, generation) are joined, the last cursor and its provisional set win. Marks whose
        id is stored already are left out, of attempts what is not stored yet is added (declared.py), and so is what
        other stores said if its revision is newer. Rows of the ledger are chained behind those that are there
        (ledger.py).

        Args:
            began_at: when the tick began to read, naive UTC. lag_us: age of the oldest line in it, microseconds.

        Raises:
            StoreFull: no space left, or DuckDB's memory does not reach though all queries were ended; nothing was
                written, call again with the same arguments after a while.
            StoreOwnedError: another daemon has taken the store over. StoreError: anything else; nothing was written.
        """
        if self._owner.lost:
            raise StoreOwnedError(
                f"another daemon has taken over {self.layout.directory.name}", "this daemon writes no more"
            )
        memory = self._memory
        new_marks = {mark.id: mark for mark in marks if mark.id not in memory.mark_ids}
        declared = self._declared(attempts)
        chained = self._chained(ledger)
        new_remote, revisions = news(remote, memory)
        beside = looked(checkpoints, fault_files, results, compared, memory)
        if not (deltas or new_marks or declared or new_remote or pins or configs or beside or chained):
            return memory.rec_id
        # Strictly increasing, whatever the clock does: as-of then cuts between two ticks, never through one.
        now = max(_utcnow(), memory.observed_at + timedelta(microseconds=1))
        tick = plan(deltas, memory)
        number = memory.tick + 1
        write = partial(
            self._write, tick, new_marks.values(), declared, new_remote, [*pins, *configs], beside, chained,
            now=now, number=number, began_at=began_at or now, lag_us=lag_us,
        )  # fmt: skip
        try:
            self._written(write)
        except duckdb.Error as error:
            again = is_short(error) and not self._alone
            with self._engine.held() if again else contextlib.nullcontext():
                failure = self._failed(error, "a tick")
                self._said += bool(new_marks or declared)  # they wait in the spool, where readers see them
                if self._memory is memory or self._memory.tick < number:
                    if not again:
                        raise failure from error
                    return self._commit_alone(
                        partial(
                            self.commit, deltas, marks=marks, attempts=attempts, remote=remote, pins=pins,
                            configs=configs, checkpoints=checkpoints, fault_files=fault_files, results=results,
                            compared=compared, ledger=ledger, began_at=began_at, lag_us=lag_us,
                        )
                    )  # fmt: skip
            self._rows += tick.mismatches
            return self._memory.rec_id  # the instance died after the commit: it is in the file
        except BaseException:
            self._engine.rollback()
            raise
        self._rows += tick.mismatches
        self._said += bool(new_marks or declared or withdrawn(tick, memory))
        for key, cursor in tick.cursors.items():
            memory.cursors[key] = cursor
            memory.provisional[key] = tick.provisional[key]
        memory.sources.update(tick.sources)
        memory.mark_ids.update(new_marks)
        memory.attempt_ids.update(row.id for row in declared.rows)
        memory.revisions.update(revisions)
        beside.keep(memory)
        self._noting.committed(
            tick.batches.keys(),
            compared=any(isinstance(row, ComparisonRow) for row in beside.compared),
            declared=any(row.kind == "candidate" for row in chained),
            chained=bool(chained),
            told=bool(configs or pins or beside.results),
        )
        memory.gaps.update(row for row in new_remote if isinstance(row, RemoteGapRow))
        others = (new_marks, declared.rows, new_remote, pins, configs, beside.results, beside.compared, chained)
        memory.rec_id = tick.rec_id + sum(map(len, others))
        memory.pins.update((pin.path, pin.digest) for pin in pins)
        memory.configs.update((row.path, row.digest) for row in configs)
        memory.prov, memory.tick, memory.observed_at = tick.prov, number, now
        self._last_commit = time.monotonic()
        self._changes += 1
        return memory.rec_id

    def _commit_alone(self, again: Callable[[], int]) -> int:
        """Once more what did not get the memory it needs, while no query holds any. Lines come before questions, which
        can be asked again."""
        self._alone = True
        try:
            return again()
        finally:
            self._alone = False

    def _written(self, write: Callable[..., None]) -> None:
        try:
            write(derive=self._derived.usable())
        except _NotDerived as error:
            if is_full(error) or is_short(error) or not self._engine.rollback():
                raise
            # Rows come first. Until it succeeds again, records of places that are not known count as locked.
            log.error("what follows from the events could not be derived, and is tried again: %s", error)
            self._derived.failed()
            write(derive=False)

    def _declared(self, attempts: Sequence[AttemptRow]) -> Declared:
        if not attempts:
            return Declared()
        memory = self._memory
        return declare.take_in(self._engine.con, attempts, memory.attempt_ids, memory.sources, memory.cursors)

    def _chained(self, entries: Sequence[Entry]) -> list[LedgerRow]:
        try:
            return ledgers.new(self._engine.con, entries, self.store_id)
        except duckdb.Error as error:
            raise self._failed(error, "rows of the ledger") from error

    def _write(
        self,
        tick: Tick,
        marks: Iterable[MarkRow],
        declared: Declared,
        remote: Sequence[RemoteRow],
        files: Sequence[EnvPinRow | ConfigRow],
        beside: Looked,
        chained: Sequence[LedgerRow],
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
        inserts += [
            ("INSERT INTO wandb_value SELECT * FROM _batch", table)
            for batch in tick.batches.values()
            if (table := batch.values_to_arrow(now)) is not None
        ]
        for statement, rows in (
            (SOURCE_CHANGE_INSERT, tick.changed),
            (CHECKPOINT_INSERT, beside.checkpoints.values()),
            (FAULT_FILE_INSERT, beside.fault_files.values()),
        ):
            if rows:
                inserts.append((statement.sql, statement.table(rows, now)))
        inserts += SOURCES.of(tick.sources, self._memory.sources, now)
        inserts += CURSORS.of(tick.cursors, self._memory.cursors, now)
        con.execute("BEGIN")
        while inserts:  # each table's memory is free when it is in: what follows needs some, too
            self._insert(*inserts.pop(0))
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
        changed = touched(tick, self._memory, attempts=bool(declared))
        changed |= {REMOTE_INSERTS[type(row)].name for row in remote}
        numbered: list[object] = [*remote, *files, *beside.results.values(), *beside.compared, *chained]
        for cls, statement in NUMBERED_INSERTS.items():
            if said := [row for row in numbered if isinstance(row, cls)]:
                self._insert(statement.sql, statement.table(said, now, rec_id + 1))
                rec_id += len(said)
        if derive:
            try:
                self._derived.after(con, changed, now)
            except duckdb.Error as error:
                raise _NotDerived(str(error)) from error
        else:
            self._derived.left_out(con)
        con.execute(
            "INSERT INTO ingest VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                number, self._session, began_at, _utcnow(),
                tick.bytes, tick.lines, tick.events, len(tick.sources), lag_us, now,
            ],
        )  # fmt: skip
        con.execute("COMMIT")

    def require_file(self) -> None:
        """Raises StoreError if the store's file was deleted: going on would look like work and keep nothing."""
        if self._engine.deleted():
            raise StoreError(
                f"the store {self.layout.database} was deleted while this daemon wrote it", "start the daemon again"
            )

    def settle_if_due(
        self, *, now: bool = False, backlog: bool = False, pressed: Callable[[], bool] = lambda: False
    ) -> bool:
        """Brings bounds up to date that could wait (derive.py), if they have waited long enough, or `now`, and the
        ledger to what was compared. False: pieces of it were put off.

        Args:
            backlog: what is read was written before; bounds wait longer.
            pressed: asked between its pieces; true puts off the others until the next call.
        """
        pieces: tuple[Callable[[], None], ...] = (
            self._derive_again, partial(self._settle, now=now, backlog=backlog),
            partial(self.note_evidence, now=now),
            partial(self._reconcile, whole=now, pressed=pressed),
        )  # fmt: skip
        for piece in pieces:
            if pressed():
                return False
            piece()
        return True

    def _derive_again(self) -> None:
        if self._derived.retry_due() and not self._owner.lost:
            try:
                self._derived.rebuild(self._engine.con, self._memory.observed_at)
                self._changes += 1
            except StoreError as error:
                if isinstance(error.__cause__, duckdb.Error) and is_short(error.__cause__):
                    self._failed(error.__cause__, "what follows from the events")
                log.error("%s", error)
                self._derived.failed()

    def _settle(self, *, now: bool, backlog: bool) -> None:
        if not self._owner.lost and (self._derived.due(backlog=backlog) or (now and self._derived.waiting)):
            con = self._engine.con
            try:
                con.execute("BEGIN")
                self._derived.settle(con, self._memory.observed_at)
                con.execute("COMMIT")
                self._changes += 1
            except duckdb.Error as error:
                log.warning("%s", self._failed(error, "the bounds of faults"))

    def note_evidence(self, *, now: bool = False) -> None:
        """Rows of the ledger for what was compared and seen (noting.py); with `now` all of it, and it is waited for."""
        if self._owner.lost:
            return
        self._noting.take(wait=now)
        if now:
            self._noting.ask_now(
                lambda: self._engine.con, lambda error: log.warning("%s", self._failed(error, "evidence"))
            )
        else:
            self._noting.ask_if_due()

    def _reconcile(self, *, whole: bool, pressed: Callable[[], bool]) -> None:
        """A slice of holding W&B histories against each other, if one is due; `whole`: all that waits, for a time."""
        wandb, memory = self._derived.wandb, self._memory
        until = time.monotonic() + (WHOLE_S if whole else 0.0)
        while not self._owner.lost and (wandb.due(_utcnow()) or (whole and wandb.waiting)):
            con = self._engine.con
            now = max(_utcnow(), memory.observed_at + timedelta(microseconds=1))
            try:
                con.execute("BEGIN")
                wandb.slice(con, now, memory.rec_id, pressed)
                if wandb.made:
                    self._derived.after(con, {"mismatch"}, now)
                    con.execute(
                        "INSERT INTO ingest VALUES (?, ?, ?, ?, 0, 0, ?, 0, 0, ?)",
                        [memory.tick + 1, self._session, now, _utcnow(), wandb.made, now],
                    )
                con.execute("COMMIT")
            except duckdb.Error as error:
                log.warning("%s", self._failed(error, "what W&B histories lack"))
                wandb.failed()
                return
            self._changes += 1
            if wandb.made:
                memory.tick, memory.observed_at = memory.tick + 1, now
                memory.rec_id += wandb.made
                self._rows += wandb.made
            if time.monotonic() >= until:
                return

    def _insert(self, sql: str, table: pa.Table) -> None:
        with arrow.laid(self._engine.con, _batch=table):
            self._engine.con.execute(sql)

    def _failed(self, error: duckdb.Error, what: str) -> StoreError:
        """Brings the writer back to what the file holds, and says what happened."""
        self._derived.forget()
        if is_short(error):
            # What an append left behind that got no memory for a column is no table any more: DuckDB 1.5.6 rolls it
            # back, and then finds columns of different lengths. What is in the file is well.
            log.warning("queries are ended: %s needs the memory that they hold (%s)", what, str(error).splitlines()[0])
            self._reopen()
        elif not self._engine.rollback():
            self._reopen()
        if is_full(error):
            return StoreFull(
                f"no space left for {self.layout.database}; {what} waits", "free some space: it goes on by itself"
            )
        if is_short(error):
            return StoreFull(
                f"DuckDB's memory does not reach for {self.layout.database}; {what} waits",
                "ask less of the daemon at a time: it goes on by itself",
            )
        return StoreError(f"cannot write {what} into {self.layout.database}: {error}")

    def _reopen(self) -> None:
        self._engine.reopen()
        self._memory = load(self._engine.con)
        self._said += 1
        self._derived.rebuild(self._engine.con, self._memory.observed_at)
        self._changes += 1

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def checkpoint_if_due(self) -> bool:
        """Moves the WAL into the file if it is over 12 MB, or if nothing was written for a minute. True if it did.

        Only with twice the WAL free: a full disk here kills the instance. That is survived by reopening.
        """
        now = time.monotonic()
        wal = self._engine.wal_bytes()
        due = wal > WAL_BYTES or (wal > 0 and now - self._last_commit >= IDLE_S)
        if not due or now < self._checkpoint_after:
            return False
        return self._checkpoint(wal, merge=wal <= WAL_BYTES or self._unmerged + 1 >= MERGE_AFTER)

    def _checkpoint(self, wal: int, *, merge: bool) -> bool:
        self._checkpoint_after = time.monotonic() + RETRY_S
        free = self._engine.free_bytes()
        if free <= 2 * wal:
            log.warning("no checkpoint: %d MB free, twice the WAL's %d MB are needed", free >> 20, wal >> 20)
            return False
        try:
            self._engine.checkpoint(merge=merge)
        except duckdb.FatalException as error:
            log.error("checkpoint failed: %s", error)
            self._reopen()
            return False
        except duckdb.Error as error:
            if is_short(error):
                self._failed(error, "a checkpoint")
            log.info("checkpoint put off: %s", error)  # a reader's transaction is open
            return False
        self._checkpoint_after = 0.0
        self._unmerged = 0 if merge else self._unmerged + 1
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
                    self._checkpoint(wal, merge=not self._unmerged)  # the next daemon does, in quiet
            elif wal:
                log.warning("left out: the checkpoint; %d bytes are replayed at the next opening", wal)
            self._engine.close()
            if not self._owner.lost:
                self.layout.publish_whole(deadline)
        finally:
            self._engine.close()
            self._owner.release()


class _NotDerived(duckdb.Error):
    """The rows of a tick are well, what should follow from them is not."""


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
