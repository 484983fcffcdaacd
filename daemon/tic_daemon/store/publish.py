"""Publishes the store as Parquet while it is written: every ten seconds, if something changed. Format: snapshot.py.

    tables that only grow    closed ranges of rows are written once, and small files are merged into larger ones
    all other tables         written whole when they differ from what is published

All of it is read in one transaction, so that it is one moment; the manifest that names it is put in place last. A
thread of its own, with a cursor of its own, does the work: nothing here delays the tail, and a network file system that
hangs holds this thread and nothing else. It rests twenty times as long as it worked, so that it takes a twentieth of a
core at most. DuckDB writes into the staging directory beside its file; Python moves the files on.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from tic_daemon import __version__, priority
from tic_daemon.errors import StoreError
from tic_daemon.store import migrate
from tic_daemon.store.columns import EVENT_TABLES
from tic_daemon.store.engine import is_full
from tic_daemon.store.layout import StoreLayout, make_private_dir
from tic_daemon.store.snapshot import CARRIED, MANIFEST, Piece, Snapshot, TableFiles, read_manifest

log = logging.getLogger(__name__)

EVERY_S = 10.0
FIRST_S = 2.0
RENEW_S = 30.0
"""With nothing new, the manifest says this often that it still holds."""
NICE = 10
REST = 20.0
"""Rests this many times as long as a publication took of a core."""
GRACE_S = 60.0
"""How long files stay that the manifest no longer names: readers of the older one come to their end."""
SAY_S = 60.0
MAX_ROWS = 1 << 20
"""A file of so many rows is never merged again."""
SMALL_ROWS = 1000
FAN_OUT = 4

# Tables that only grow, and by which column: each tick's values are larger than all before.
GROWING = {
    **dict.fromkeys(EVENT_TABLES, "rec_id"),
    "wandb_value": "row_id",
    "artifact": "rec_id",
    "result_file": "rec_id",
    "result_gap": "rec_id",
    "comparison_task": "rec_id",
    "comparison": "rec_id",
    "comparison_file": "rec_id",
    "comparison_said": "rec_id",
    "comparison_version": "rec_id",
    "comparison_sequence": "rec_id",
    "comparison_token": "rec_id",
    "trace_boundary": "rec_id",
    "ledger_row": "rec_id",
    "ingest": "tick",
    "source_change": "observed_at",
}

# Row groups of DuckDB's own size, 122,880, cost 180 MB more of resident memory while they are written, and no less CPU
# or disk. Of the compressions this one took the least of both; pyarrow's writer took as much CPU (measured on 500,000
# mismatch rows: 0.8 s, 25 MB).
_FORMAT = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, PARQUET_VERSION v2, ROW_GROUP_SIZE 10240"


@dataclass(slots=True)
class _Work:
    """One publication under way: what the new manifest will name, and what was written for it."""

    number: int
    tables: dict[str, TableFiles]
    prints: dict[str, tuple[int, int]]
    seen: dict[str, str]
    staged: list[Path]


class Publisher:
    """See the module. `start` once, `finish` once; between them everything happens in its own thread.

    Args:
        connect: gives a new cursor on the store (`Writer.reader_cursor`).
        layout: settled.
        changes: a number that grows whenever the store changes (`Writer.changes`).
        lost: whether another daemon has taken the store over: then nothing is published any more.
        every_s: pause between two publications, at least.
    """

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        layout: StoreLayout,
        changes: Callable[[], int],
        *,
        lost: Callable[[], bool] = lambda: False,
        every_s: float = EVERY_S,
    ) -> None:
        self._connect = connect
        self._layout = layout
        self._elsewhere = layout.database != layout.published
        self._changes = changes
        self._lost = lost
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tic-publish", daemon=True)
        self._running: duckdb.DuckDBPyConnection | None = None
        self._current: Snapshot | None = None
        self._early: dict[str, TableFiles] = {}  # written ahead of the manifest that will name them
        self._prints: dict[str, tuple[int, int]] = {}
        self._lineage = ""
        self._views_text = ""
        self._done_changes = -1
        self._manifest_at = float("-inf")
        self._garbage: list[tuple[float, str]] = []
        self._complained_at = float("-inf")
        self._ready = False
        self._abandoned = False

    def start(self) -> None:
        """Begins to publish."""
        self._thread.start()

    def finish(self, deadline: float) -> bool:
        """Publishes what is new, and ends. From the writer's thread, before it closes the store.

        A store whose file lies in the state directory is not published once more: the file itself can be read then.

        Args:
            deadline: monotonic; afterwards what runs is broken off, and what was published before stands.

        Returns:
            Whether the state directory holds all that the store does.
        """
        self._stop.set()
        if self._thread.ident is None:
            return False
        self._thread.join(min(3600.0, max(0.0, deadline - time.monotonic())))
        if self._thread.is_alive():
            self._abandoned = True
            running = self._running
            if running is not None:
                with contextlib.suppress(duckdb.Error):
                    running.interrupt()
            self._thread.join(0.5)
        done = self._done_changes == self._changes() or not self._elsewhere
        return done and not self._thread.is_alive()

    @property
    def current(self) -> Snapshot | None:
        """What is published; None before the first time."""
        return self._current

    def _run(self) -> None:
        priority.behind(NICE)
        rest = min(FIRST_S, self._every_s)
        while not self._stop.wait(rest):
            began = time.thread_time()
            self.publish()
            rest = max(self._every_s, REST * (time.thread_time() - began))
        if self._elsewhere:
            self.publish()

    def publish(self) -> bool:
        """Once: all that is new, if something is. False: it could not be done; it is logged once a minute."""
        try:
            self._publish()
        except (duckdb.Error, OSError, StoreError) as error:
            now = time.monotonic()
            if now - self._complained_at >= SAY_S:
                self._complained_at = now
                full = "; it goes on by itself when there is space" if is_full(error) else "; it is tried again"
                log.warning("the snapshot in %s cannot be published: %s%s", self._layout.snapshot_dir, error, full)
            return False
        return True

    def _publish(self) -> None:
        if self._lost():
            return
        changes = self._changes()
        self._sweep()
        if not self._ready:
            self._prepare()
        current = self._current
        if changes == self._done_changes and current is not None:
            if time.monotonic() - self._manifest_at >= RENEW_S:
                self._put_manifest(replace(current, at=_utcnow()))
            return
        work = _Work(current.number + 1 if current else 1, {}, dict(self._prints), {}, [])
        try:
            con = self._running = self._connect()
            try:
                self._catch_up(con)
                snapshot = self._moment(con, work)
            finally:
                self._running = None
                con.close()
            for path in work.staged:
                self._move(path)
            self._put_manifest(snapshot)
        except BaseException:
            now = time.monotonic()
            for path in work.staged:
                path.unlink(missing_ok=True)
                self._garbage.append((now, path.name))
            raise
        before = (current.files() if current else set()) | {p.name for t in self._early.values() for p in t.pieces}
        now = time.monotonic()
        self._garbage += [(now, name) for name in before - snapshot.files()]
        self._prints, self._early = work.prints, {}
        self._done_changes = changes
        if self._elsewhere:
            # It is of an earlier end, and the snapshot holds all of it. A stale one would be taken for the whole.
            self._layout.published.unlink(missing_ok=True)

    # --- reading the store ----------------------------------------------------------------------------------------

    def _catch_up(self, con: duckdb.DuckDBPyConnection) -> None:
        """Writes what a long transaction would: large closed ranges one by one, with rests. They join the manifest
        that follows; until then nobody knows of them."""
        for table, columns in _tables(con).items():
            key = GROWING.get(table)
            while key is not None and not self._stop.is_set():
                done = self._known(table, columns).pieces
                last = done[-1].last if done else 0
                count, top = _ahead(con, table, columns, key, last)
                if count <= MAX_ROWS + MAX_ROWS // 2:
                    break
                began = time.thread_time()
                piece, path = self._write(con, table, columns, key, last, last + (top - last) * MAX_ROWS // count)
                self._move(path)
                self._early[table] = TableFiles(columns, key, (*done, piece))
                self._stop.wait(4 * (time.thread_time() - began))

    def _moment(self, con: duckdb.DuckDBPyConnection, work: _Work) -> Snapshot:
        """Writes all that is new, read in one transaction."""
        at = _utcnow()
        con.execute("BEGIN TRANSACTION READ ONLY")
        row = con.execute(
            "SELECT store_id, host, schema_version, (SELECT coalesce(max(tick), 0) FROM ingest) FROM store"
        )
        store_id, host, version, tick = row.fetchone() or ("", "", 0, 0)
        for table, columns in _tables(con).items():
            key = GROWING.get(table)
            if key is not None:
                work.tables[table] = self._grown(con, work, table, columns, key)
            else:
                work.tables[table] = self._whole(con, work, table, columns)
        views = self._views(con, work)
        con.execute("COMMIT")
        return Snapshot(
            at, store_id, host, version, __version__, self._lineage, work.number, tick, work.tables, views,
            work.seen,
        )  # fmt: skip

    def _grown(
        self, con: duckdb.DuckDBPyConnection, work: _Work, table: str, columns: tuple[tuple[str, str], ...], key: str
    ) -> TableFiles:
        known = self._known(table, columns)
        last = known.pieces[-1].last if known.pieces else 0
        count, top = _ahead(con, table, columns, key, last)
        if count:
            keep = merge_from([piece.rows for piece in known.pieces], count)
            kept = known.pieces[:keep]
            piece, path = self._write(con, table, columns, key, kept[-1].last if kept else 0, top)
            work.staged.append(path)
            known = replace(known, pieces=(*kept, piece))
        if count:
            work.seen[table] = _seen(con, table, columns, key, top)
        elif self._current and table in self._current.seen:
            work.seen[table] = self._current.seen[table]
        return known

    def _whole(
        self, con: duckdb.DuckDBPyConnection, work: _Work, table: str, columns: tuple[tuple[str, str], ...]
    ) -> TableFiles:
        row = con.execute(f"SELECT count(*), coalesce(sum(hash(t)::HUGEINT), 0) FROM {table} t").fetchone()  # noqa: S608
        print_ = row or (0, 0)
        known = self._known(table, columns)
        if known.pieces and self._prints.get(table) == print_:
            return known
        name = f"{table}-{work.number:012d}-{self._lineage}.parquet"
        path = self._layout.staging_dir / name
        work.staged.append(path)
        rows = _copy(con, f"SELECT {_listed(columns)} FROM {table}", path)  # noqa: S608  names from the catalog
        work.prints[table] = print_
        return TableFiles(columns, "", (Piece(name, work.number, work.number, rows, path.stat().st_size),))

    def _views(self, con: duckdb.DuckDBPyConnection, work: _Work) -> Piece:
        """This program's views as the store has them: a reader of another version then sees what this one means.

        A person's own view is left out. It may read what only its file has, and a snapshot is read with all views.
        """
        stored = dict(migrate.stored_views(con))
        found = [(name, stored[name]) for name in migrate.view_names() if name in stored]
        text = json.dumps(found)
        if self._current and self._views_text == text:
            return self._current.views
        name = f"views-{work.number:08d}-{self._lineage}.json"
        path = self._layout.staging_dir / name
        work.staged.append(path)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        self._views_text = text
        return Piece(name, work.number, work.number, len(found), path.stat().st_size)

    def _write(
        self,
        con: duckdb.DuckDBPyConnection,
        table: str,
        columns: tuple[tuple[str, str], ...],
        key: str,
        after: int,
        upto: int,
    ) -> tuple[Piece, Path]:
        """Rows with `after` < key <= `upto` as a file in the staging directory."""
        name = f"{table}-{after + 1:012d}-{upto:012d}-{self._lineage}.parquet"
        path = self._layout.staging_dir / name
        where = f"{key} > {_literal(columns, key, after)} AND {key} <= {_literal(columns, key, upto)}"
        rows = _copy(con, f"SELECT {_listed(columns)} FROM {table} WHERE {where}", path)  # noqa: S608  from the catalog
        return Piece(name, after + 1, upto, rows, path.stat().st_size), path

    def _known(self, table: str, columns: tuple[tuple[str, str], ...]) -> TableFiles:
        known = self._early.get(table) or (self._current.tables.get(table) if self._current else None)
        if known is None or known.columns != columns:
            return TableFiles(columns, GROWING.get(table, ""), ())
        return known

    # --- the snapshot directory -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """At the first time: goes on with the snapshot that is there, if it is of this store; else begins another."""
        layout = self._layout
        layout.snapshot_dir.mkdir(mode=0o700, exist_ok=True)
        make_private_dir(layout.staging_dir)
        for left in layout.staging_dir.glob("*-*.*"):
            left.unlink(missing_ok=True)
        self._current, self._early, self._prints = None, {}, {}
        self._lineage, self._views_text, self._done_changes = secrets.token_hex(3), "", -1
        with contextlib.suppress(StoreError):
            found = read_manifest(layout.snapshot_dir)
            con = self._connect()
            try:
                if self._fits(con, found):
                    self._current, self._lineage = found, found.lineage
            finally:
                con.close()
        now = time.monotonic()
        self._garbage = [(now, path.name) for path in layout.snapshot_dir.iterdir() if path.name != MANIFEST]
        self._ready = True

    def _fits(self, con: duckdb.DuckDBPyConnection, found: Snapshot) -> bool:
        """Whether the snapshot is of this store and its files are whole: the last row of each table is looked at."""
        tables = _tables(con)
        if found.store_id != self._layout.store_id or not all(map(self._sound, found.pieces())):
            return False
        for table, files in found.tables.items():
            if files.key and files.pieces:
                columns = tables.get(table)
                if columns != files.columns or GROWING.get(table) != files.key:
                    return False
                if _seen(con, table, columns, files.key, files.pieces[-1].last) != found.seen.get(table):
                    return False
        return True

    def _sound(self, piece: Piece) -> bool:
        try:
            with (self._layout.snapshot_dir / piece.name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 4))
                return size == piece.bytes and (not piece.name.endswith(".parquet") or file.read() == b"PAR1")
        except OSError:
            return False

    def _move(self, path: Path) -> None:
        """From the staging directory into the snapshot, whole or not at all."""
        target = self._layout.snapshot_dir / path.name
        try:
            path.replace(target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        part = target.with_name(target.name + ".part")
        try:
            with path.open("rb") as source, _create(part) as file:
                shutil.copyfileobj(source, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        finally:
            path.unlink(missing_ok=True)

    def _put_manifest(self, snapshot: Snapshot) -> None:
        if self._abandoned:  # the store is closed, and perhaps another daemon's
            raise StoreError("broken off at the daemon's end")
        path = self._layout.snapshot_dir / MANIFEST
        part = path.with_name(f"{MANIFEST}.{secrets.token_hex(4)}.part")
        try:
            with _create(part) as file:
                file.write(json.dumps(snapshot.to_json()).encode())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        self._current = snapshot
        self._manifest_at = time.monotonic()

    def _sweep(self) -> None:
        """Deletes what no manifest has named for a while. Begins anew if somebody deleted what one names."""
        if not self._ready:
            return
        named = self._current.files() if self._current else set()
        old = time.monotonic() - GRACE_S
        for when, name in self._garbage:
            if when <= old and name not in named:
                (self._layout.snapshot_dir / name).unlink(missing_ok=True)
        self._garbage = [(when, name) for when, name in self._garbage if when > old]
        try:
            there = {entry.name for entry in os.scandir(self._layout.snapshot_dir)}
        except FileNotFoundError:
            there = set()
        self._ready = named <= there


def merge_from(rows: Sequence[int], fresh: int) -> int:
    """Index of the first of the files of `rows` rows each, oldest first, that are written anew with `fresh` new rows.

    Files of one size class are merged when a fourth comes: so a row is rewritten once a class, and there are at most
    three files of a class, besides those of `MAX_ROWS` and more.
    """
    start = len(rows)
    while True:
        first = start
        while first > 0 and rows[first - 1] < MAX_ROWS and _size_class(rows[first - 1]) <= _size_class(fresh):
            first -= 1
        if start - first < FAN_OUT - 1 or fresh >= MAX_ROWS:
            return start
        fresh += sum(rows[first:start])
        start = first


def _size_class(rows: int) -> int:
    size, limit = 0, SMALL_ROWS
    while rows >= limit:
        size, limit = size + 1, limit * FAN_OUT
    return size


def _tables(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[tuple[str, str], ...]]:
    """All tables of the store with their columns and types, as the catalog has them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in con.execute(
        "SELECT c.table_name, c.column_name, c.data_type FROM duckdb_columns() c JOIN duckdb_tables() t "
        "ON t.table_oid = c.table_oid AND t.database_name = c.database_name "
        "WHERE NOT t.internal AND NOT t.temporary AND t.database_name = current_database() "
        "ORDER BY c.table_name, c.column_index"
    ).fetchall():
        found.setdefault(str(table), []).append((str(column), str(kind)))
    return {table: tuple(columns) for table, columns in found.items()}


def _ahead(
    con: duckdb.DuckDBPyConnection, table: str, columns: Iterable[tuple[str, str]], key: str, last: int
) -> tuple[int, int]:
    """How many rows come after key `last`, and the largest key."""
    value = f"epoch_us(max({key}))" if dict(columns)[key] == "TIMESTAMP" else f"max({key})"
    row = con.execute(
        f"SELECT count(*), coalesce({value}, 0) FROM {table} WHERE {key} > {_literal(columns, key, last)}"  # noqa: S608
    ).fetchone()
    return row or (0, 0)


def _seen(con: duckdb.DuckDBPyConnection, table: str, columns: Iterable[tuple[str, str]], key: str, last: int) -> str:
    """`observed_at` of the row with key `last`; "" if there is none."""
    row = con.execute(
        f"SELECT max(observed_at) FROM {table} WHERE {key} = {_literal(columns, key, last)}"  # noqa: S608
    ).fetchone()
    return row[0].isoformat() if row and row[0] is not None else ""


def _literal(columns: Iterable[tuple[str, str]], key: str, value: int) -> str:
    return f"make_timestamp({value}::BIGINT)" if dict(columns)[key] == "TIMESTAMP" else f"{value}::BIGINT"


def _listed(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(
        f'"{name}"' if CARRIED.fullmatch(kind) else f'CAST("{name}" AS VARCHAR) AS "{name}"' for name, kind in columns
    )


def _copy(con: duckdb.DuckDBPyConnection, select: str, path: Path) -> int:
    """Rows written."""
    try:
        row = con.execute(f"COPY ({select}) TO {_quote(str(path))} ({_FORMAT})").fetchone()
    except duckdb.Error:
        path.unlink(missing_ok=True)
        raise
    path.chmod(0o600)
    return int(row[0]) if row else 0


def _create(path: Path):  # type: ignore[no-untyped-def]
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
