"""Reads a store as its daemon published it (snapshot.py), when neither the daemon nor the file can be reached.

An in-memory DuckDB gets the store's tables and, on top of them, the store's own views: large tables are views over the
Parquet files, small ones are loaded. So every query, as-of and the spool's overlay work as on the file. DuckDB may read
the snapshot's directory and nothing else.

The files belong to somebody else, who replaces them: a newer manifest is looked for at most once a second, and what it
adds is loaded. Files that an older manifest named stay for a minute; one that is gone all the same makes the manifest
be read again.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tic_daemon.errors import StoreError, TicError
from tic_daemon.store import migrate
from tic_daemon.store.duck_reader import DuckReader, Vanished, base_config
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Connection
from tic_daemon.store.snapshot import (
    Piece,
    Snapshot,
    TableFiles,
    create_of,
    make_views,
    quote,
    read_manifest,
    select_of,
    snapshot_of,
)

if TYPE_CHECKING:
    import duckdb

__all__ = ["SnapshotReader", "snapshot_of"]

LOOK_S = 1.0
"""How often a newer manifest is looked for."""
LOADED_ROWS = 50_000
"""A table of so many rows is loaded; a larger one is read from its files at each query."""


class SnapshotReader(DuckReader):
    """A `Reader` on the published snapshot of a store.

    Args:
        layout: of the store; its spool is laid over what is read.

    Raises:
        StoreError, StoreVersionError: there is no usable snapshot.
    """

    def __init__(self, layout: StoreLayout) -> None:
        super().__init__(layout.snapshot_dir, layout)
        self._snapshot: Snapshot | None = None
        self._loaded: dict[str, TableFiles] = {}
        self._looked = float("-inf")
        with self._lock:
            self._open()

    def connection(self) -> Connection:
        """See `Reader.connection`."""
        at = self._snapshot.at if self._snapshot is not None else None
        return Connection("snapshot", self._state, self._since, self._detail, str(self._path), at)

    def _state_now(self) -> str:
        """Id of the snapshot that is published now; of the one that is read, if none can be found."""
        try:
            newest = read_manifest(self._path)
        except StoreError:
            return self._snapshot.id if self._snapshot is not None else ""
        with self._lock:
            known = self._snapshot
            if known is not None and known.id == newest.id:
                self._snapshot = newest  # the same content, said again later
            else:
                self._looked = float("-inf")
        return newest.id

    # --- the snapshot -----------------------------------------------------------------------------------------------

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._con is None or time.monotonic() - self._looked >= LOOK_S:
            try:
                con = self._refreshed()
            except TicError as error:
                self._let_go()
                self._say("disconnected", error.what)
                raise
            self._say("connected", "")
            self._looked = time.monotonic()
            return con
        return self._con

    def _refreshed(self) -> duckdb.DuckDBPyConnection:
        """The connection on what is published now."""
        for last_try in (False, True):
            newest = read_manifest(self._path)
            if self._layout is not None and newest.store_id != self._layout.store_id:
                raise StoreError(f"the snapshot in {self._path} is of store {newest.store_id[:40]!r}, another one")
            if self._con is not None and self._snapshot is not None and newest.id == self._snapshot.id and not last_try:
                try:
                    self._check_files(newest.pieces())
                except Vanished:
                    continue
                self._snapshot = newest
                return self._con
            try:
                migrate.refuse_newer(newest.schema_version)
                self._check_files(newest.pieces())
                con = self._load(newest)
            except Vanished:
                self._let_go()
                if last_try:
                    raise
                continue
            self._con, self._snapshot, self._loaded = con, newest, dict(newest.tables)
            return con
        raise AssertionError("the loop returns or raises")

    def _check_files(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            path = self._path / piece.name
            try:
                status = path.lstat()
            except OSError as error:
                raise Vanished(
                    f"the snapshot in {self._path} is not whole: {piece.name}: {error.strerror or error}",
                    "its daemon publishes another one within seconds, if it runs",
                ) from error
            size = status.st_size
            if not stat.S_ISREG(status.st_mode):
                raise StoreError(f"{path} is no file", "no daemon of tic wrote it")
            if size != piece.bytes:
                raise Vanished(
                    f"the snapshot in {self._path} is not whole: {piece.name} has {size} of {piece.bytes} bytes",
                    "its daemon publishes another one within seconds, if it runs",
                )

    def _load(self, newest: Snapshot) -> duckdb.DuckDBPyConnection:
        """A connection that shows `newest`: the one that there is, brought up to date, or a new one."""
        import duckdb  # noqa: PLC0415  the screen paints before this

        con = self._con
        known = self._snapshot
        anew = con is None or known is None or known.lineage != newest.lineage or known.views != newest.views
        anew = anew or known is None or known.tables.keys() != newest.tables.keys()
        if anew or con is None:
            self._let_go()
            con = self._connect()
        try:
            con.execute("BEGIN")
            for name, table in newest.tables.items():
                before = None if anew else self._loaded.get(name)
                for statement in self._statements(name, table, before):
                    con.execute(statement)
            if anew:
                make_views(con, self._path, newest)
            con.execute("COMMIT")
        except duckdb.Error as error:
            con.close()
            self._con = None
            why = f"the snapshot in {self._path} cannot be read: {str(error).splitlines()[0]}"
            raise (Vanished if self._names_a_file(error) else StoreError)(why) from error
        except BaseException:
            con.close()
            self._con = None
            raise
        return con

    def _connect(self) -> duckdb.DuckDBPyConnection:
        import duckdb  # noqa: PLC0415

        con = duckdb.connect(":memory:", config=base_config())
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        con.execute(f"SET allowed_directories = [{quote(str(self._path))}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        return con

    def _statements(self, name: str, table: TableFiles, before: TableFiles | None) -> list[str]:
        """What makes relation `name` hold `table`, if it holds `before` now (None: there is none)."""
        if before == table:
            return []
        read = select_of(table, self._path)
        if table.key and table.rows > LOADED_ROWS:
            drop = [] if before is None or before.rows > LOADED_ROWS else [f"DROP TABLE {name}"]
            return [*drop, f"CREATE OR REPLACE VIEW {name} AS {read}"]
        drop = [f"DROP VIEW {name}"] if before is not None and before.key and before.rows > LOADED_ROWS else []
        if before is None or drop or not table.key or before.columns != table.columns:
            fill = [f"INSERT INTO {name} {read}"] if table.pieces else []
            return [*drop, create_of(name, table), *fill]
        # It has only grown. A merged file holds rows that are loaded, and new ones.
        last = before.pieces[-1].last if before.pieces else 0
        added = [piece for piece in table.pieces if piece.last > last]
        if not added:
            return []
        floor = f"make_timestamp({last}::BIGINT)" if dict(table.columns)[table.key] == "TIMESTAMP" else str(last)
        return [f'INSERT INTO {name} {select_of(table, self._path, added)} WHERE "{table.key}" > {floor}']

    def _names_a_file(self, error: duckdb.Error) -> bool:
        return ".parquet" in str(error)

    def _unreadable(self, error: duckdb.Error) -> StoreError | None:
        import duckdb  # noqa: PLC0415

        if isinstance(error, duckdb.FatalException | duckdb.IOException) or str(self._path) in str(error):
            self._let_go()
            return Vanished(f"the snapshot in {self._path} cannot be read: {str(error).splitlines()[0]}")
        return None

    def _let_go(self) -> None:
        self._loaded = {}
        super()._let_go()
