"""Reads a store's file that no daemon writes: after the run, or after its daemon died (its WAL is replayed in memory).

Whoever holds the file open for reading keeps a daemon from writing it. So the file is let go of after a second without
a query, and as soon as `owner.json` says that a daemon wants it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tic_daemon.errors import ConnectError, StoreError, StoreVersionError, TicError
from tic_daemon.store import migrate, spool, sqlguard
from tic_daemon.store.fingerprint import fingerprint
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.owner import live_owner
from tic_daemon.store.reader import MAX_ROWS, TAIL_ROWS, TIMEOUT_S, Connection, Result, Tail
from tic_daemon.store.sqlguard import SqlError, only_select

if TYPE_CHECKING:
    import duckdb

IDLE_S = 1.0
LOOK_S = 1.0
"""How often a waiting `tail` looks at the directory entries."""
MEMORY_LIMIT = "512MB"

# Two readers of one file in one process share an instance, whose settings can be made only once.
_opening = threading.Lock()


class FileReader:
    """A `Reader` on a file.

    Args:
        path: the DuckDB file; opened read-only, never changed.
        layout: of the store it belongs to, whose spool is laid over it; None for a file that was copied away.

    Raises:
        StoreError, ConnectError, StoreVersionError: it cannot be read.
    """

    def __init__(self, path: Path, layout: StoreLayout | None = None) -> None:
        self._path = path
        self._layout = layout
        self._lock = threading.RLock()
        self._con: duckdb.DuckDBPyConnection | None = None
        self._running: duckdb.DuckDBPyConnection | None = None
        self._idle: threading.Timer | None = None
        self._closed = False
        self._waiting = threading.Event()  # set: a `tail` that waits returns
        self._state: Literal["pending", "connected", "disconnected"] = "pending"
        self._since = _utcnow()
        self._detail = ""
        with self._lock:
            self._open()
            self._let_go_later()

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MAX_ROWS,
        timeout_s: float = TIMEOUT_S,
        gather: str = "",  # one store: there is nothing to gather
    ) -> Result:
        """See `Reader.query`."""
        began = time.monotonic()
        sqlguard.sound_parameters(params)
        timeout_s = sqlguard.deadline(timeout_s)
        with self._lock:
            cursor = self._open().cursor()
            self._running = cursor
            late = threading.Event()
            timer = threading.Timer(timeout_s, _stop, (cursor, late))
            timer.daemon = True
            timer.start()
            try:
                self._set_variables(cursor, as_of)
                return self._run(cursor, sql, params, max_rows, began)
            except SqlError as error:
                if late.is_set():
                    raise SqlError(f"the query was stopped after {timeout_s:g} s", "ask for less") from error
                raise
            finally:
                timer.cancel()
                self._running = None
                cursor.close()
                self._let_go_later()

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`. A file has no new rows, only another state; its names tell, and it stays closed."""
        deadline = time.monotonic() + wait_s
        self._waiting.clear()
        while True:
            if self._closed:
                raise ConnectError(f"the reader of {self._path} is closed", "open another one")
            now = _print(self._path)
            left = deadline - time.monotonic()
            if now != after or left <= 0 or self._waiting.wait(min(LOOK_S, left)):
                return Tail(now, now)

    def connection(self) -> Connection:
        """See `Reader.connection`."""
        return Connection("file", self._state, self._since, self._detail, str(self._path))

    def interrupt(self) -> None:
        """See `Reader.interrupt`."""
        self._waiting.set()
        running = self._running
        if running is not None:
            _stop(running)

    def close(self) -> None:
        """See `Reader.close`."""
        self._closed = True
        self._waiting.set()
        with self._lock:
            self._let_go()
            self._say("disconnected", "closed")

    # --- the file -------------------------------------------------------------------------------------------------

    def _open(self) -> duckdb.DuckDBPyConnection:
        """The connection, opened if it was let go of. Called with the lock held."""
        if self._closed:
            raise ConnectError(f"the reader of {self._path} is closed", "open another one")
        owner = live_owner(self._layout.owner_file) if self._layout is not None else None
        if owner is not None:
            self._let_go()
            self._say("disconnected", f"pid {owner.pid} on {owner.host} writes it now")
            raise ConnectError(f"{self._path} is written by pid {owner.pid} on {owner.host} now", "open it again")
        if self._con is None:
            try:
                self._con = self._connect()
            except TicError as error:
                self._say("disconnected", error.what)
                raise
            self._say("connected", "")
        return self._con

    def _connect(self) -> duckdb.DuckDBPyConnection:
        import duckdb  # noqa: PLC0415  the screen paints before this

        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": 2,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(Path(tempfile.gettempdir()) / f"tic-{os.getuid()}-{os.getpid()}"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            with _opening:
                con = duckdb.connect(str(self._path), read_only=True, config=config)
                if not (con.execute("SELECT current_setting('lock_configuration')").fetchone() or (True,))[0]:
                    con.execute("SET GLOBAL TimeZone = 'UTC'")
                    con.execute("SET enable_external_access = false")
                    con.execute("SET lock_configuration = true")
            migrate.refuse_newer(migrate.store_version(con))
        except StoreVersionError:
            con.close()
            raise
        except duckdb.Error as error:
            text = str(error).splitlines()[0]
            if "could not set lock" in text.lower():  # a corrupt "block" is another matter
                raise ConnectError(f"{self._path} is being written: {text}", "name its workspace instead") from error
            raise StoreError(f"cannot read {self._path}: {text}", "is it a store of tic?") from error
        return con

    def _let_go_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = threading.Timer(IDLE_S, self._if_idle)
        self._idle.daemon = True
        self._idle.start()

    def _if_idle(self) -> None:
        # A query that runs now will set a new timer when it ends; waiting for it would close the file behind it.
        if self._lock.acquire(blocking=False):
            try:
                if self._running is None:
                    self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        con, self._con = self._con, None
        if con is not None:
            con.close()

    # --- one query ------------------------------------------------------------------------------------------------

    def _set_variables(self, cursor: duckdb.DuckDBPyConnection, as_of: datetime | None) -> None:
        if as_of is not None:
            moment = as_of.astimezone(UTC).replace(tzinfo=None) if as_of.tzinfo else as_of
            cursor.execute("SET VARIABLE as_of = ?", [moment])
        else:  # views have no clock: without this a run would be "moving" for as long as nothing is written
            cursor.execute("SET VARIABLE now = ?", [datetime.now(UTC).replace(tzinfo=None)])
        lines = spool.overlay(self._layout.spool_dir) if self._layout is not None else None
        if lines is not None:
            cursor.execute("SET VARIABLE spool = ?", [lines])

    def _run(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, params: Sequence[object], max_rows: int, began: float
    ) -> Result:
        import duckdb  # noqa: PLC0415

        statement = only_select(cursor, sql)
        try:
            cursor.execute(statement, list(params) or None)
            described = cursor.description or []
            types = tuple(str(column[1]) for column in described)
            rows = _fetch(cursor, types, max_rows + 1)
        except duckdb.OutOfMemoryException as error:  # its own text advises settings that cannot be set here
            raise SqlError(f"the query needs more memory than {MEMORY_LIMIT}", "aggregate or narrow it") from error
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException | duckdb.IOException):
                self._let_go()
                self._say("disconnected", str(error).splitlines()[0])
                raise StoreError(f"cannot read {self._path}: {error}") from error
            raise SqlError(str(error)) from error
        truncated = len(rows) > max_rows
        return Result(
            tuple(str(column[0]) for column in described),
            types,
            rows[:max_rows],
            truncated,
            time.monotonic() - began,
        )

    def _say(self, state: Literal["pending", "connected", "disconnected"], detail: str) -> None:
        if (state, detail) != (self._state, self._detail):
            self._state, self._detail, self._since = state, detail, _utcnow()


def _print(path: Path) -> str:
    return hashlib.sha256(repr(fingerprint(str(path))).encode()).hexdigest()[:16]


def _stop(cursor: duckdb.DuckDBPyConnection, late: threading.Event | None = None) -> None:
    import duckdb  # noqa: PLC0415

    if late is not None:
        late.set()
    with contextlib.suppress(duckdb.Error):  # it ended and was closed meanwhile
        cursor.interrupt()


def _fetch(cursor: duckdb.DuckDBPyConnection, types: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
    """Up to `count` rows as DuckDB's client gives them.

    Times with a zone go through Arrow: the client wants the package pytz for them, and we do without it.
    """
    if not any("WITH TIME ZONE" in name for name in types):
        return cursor.fetchmany(count)
    import pyarrow as pa  # noqa: PLC0415  only such results need it

    from tic_daemon.store.wire import rows_of  # noqa: PLC0415

    batches, rows = [], 0
    reader = cursor.to_arrow_reader(min(count, 10_000))
    while rows < count:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            break
        batches.append(batch)
        rows += batch.num_rows
    return rows_of(pa.Table.from_batches(batches, reader.schema), types)[:count]


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
