"""What the readers share that run SQL in a DuckDB of their own process: the guard, the deadline, the variables.

DuckReader      a `Reader` without `connection`; a subclass says where DuckDB's connection comes from
    FileReader      file_reader.py: a store's file
    SnapshotReader  snapshot_reader.py: a store as its daemon published it
"""

from __future__ import annotations

import abc
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.store import spool, sqlguard
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import MAX_ROWS, TAIL_ROWS, TIMEOUT_S, Result, Tail
from tic_daemon.store.sqlguard import SqlError, only_select
from tic_daemon.store.unheard import Told

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "512MB"
LOOK_S = 1.0
"""How often a waiting `tail` looks for another state."""
_NO_LOCKS = ("no locks available", "function not implemented", "not supported")


class Vanished(StoreError):
    """Files that are read are not there, or not what they were: somebody replaced them. Once, it is asked again."""


class DuckReader(abc.ABC):
    """See the module.

    Args:
        path: the file or the directory that is read.
        layout: of the store that is read, over which are laid its spool and what other stores tell of faults; None for
            a file that was copied away.
    """

    def __init__(self, path: Path, layout: StoreLayout | None) -> None:
        self._path = path
        self._layout = layout
        self._told = Told(layout) if layout is not None else None
        self._lock = threading.RLock()
        self._con: duckdb.DuckDBPyConnection | None = None
        self._running: duckdb.DuckDBPyConnection | None = None
        self._closed = False
        self._waiting = threading.Event()  # set: a `tail` that waits returns
        self._state: Literal["pending", "connected", "disconnected"] = "pending"
        self._since = utcnow()
        self._detail = ""

    # --- what a subclass says ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _open(self) -> duckdb.DuckDBPyConnection:
        """The connection, made if there is none. Called with the lock held, of a reader that is not closed.

        Raises:
            ConnectError, StoreError: it cannot be had.
        """

    @abc.abstractmethod
    def _state_now(self) -> str:
        """Changes with what is to be read. Without the lock."""

    @abc.abstractmethod
    def _unreadable(self, error: duckdb.Error) -> StoreError | None:
        """What to raise if `error` says that the data themselves cannot be read; None if the query is to blame."""

    def _after(self) -> None:  # noqa: B027  only a file is let go of
        """A query has ended. Called with the lock held."""

    def _let_go(self) -> None:
        """Closes the connection. Called with the lock held."""
        con, self._con = self._con, None
        if con is not None:
            con.close()

    # --- one query --------------------------------------------------------------------------------------------------

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
        sqlguard.sound_parameters(params)
        timeout_s = sqlguard.deadline(timeout_s)
        with self._lock:
            try:
                return self._ask(sql, params, as_of, max_rows, timeout_s)
            except Vanished:
                return self._ask(sql, params, as_of, max_rows, timeout_s)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`. There are no single new rows, only another state of everything."""
        deadline = time.monotonic() + wait_s
        self._waiting.clear()
        while True:
            self._refuse_if_closed()
            now = self._state_now()
            left = deadline - time.monotonic()
            if now != after or left <= 0 or self._waiting.wait(min(LOOK_S, left)):
                return Tail(now, now)

    def interrupt(self) -> None:
        """See `Reader.interrupt`."""
        self._waiting.set()
        running = self._running
        if running is not None:
            stop(running)

    def close(self) -> None:
        """See `Reader.close`."""
        self._closed = True
        self._waiting.set()
        with self._lock:
            self._let_go()
            self._say("disconnected", "closed")

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConnectError(f"the reader of {self._path} is closed", "open another one")

    def _ask(
        self, sql: str, params: Sequence[object], as_of: datetime | None, max_rows: int, timeout_s: float
    ) -> Result:
        began = time.monotonic()
        self._refuse_if_closed()
        cursor = self._open().cursor()
        self._running = cursor
        late = threading.Event()
        timer = threading.Timer(timeout_s, stop, (cursor, late))
        timer.daemon = True
        timer.start()
        try:
            return self._run(cursor, sql, params, as_of, max_rows, began)
        except SqlError as error:
            if late.is_set():
                raise SqlError(f"the query was stopped after {timeout_s:g} s", "ask for less") from error
            raise
        finally:
            timer.cancel()
            self._running = None
            cursor.close()
            self._after()

    def _set_variables(self, cursor: duckdb.DuckDBPyConnection, as_of: datetime | None) -> None:
        if as_of is not None:
            moment = as_of.astimezone(UTC).replace(tzinfo=None) if as_of.tzinfo else as_of
            cursor.execute("SET VARIABLE as_of = ?", [moment])
        else:  # views have no clock: without this a run would be "moving" for as long as nothing is written
            cursor.execute("SET VARIABLE now = ?", [datetime.now(UTC).replace(tzinfo=None)])
        lines = spool.overlay(self._layout.spool_dir) if self._layout is not None else None
        if lines is not None:
            cursor.execute("SET VARIABLE spool = ?", [lines])
        faults = self._told.overlay() if self._told is not None else None
        if faults is not None:
            cursor.execute("SET VARIABLE told = ?", [faults])

    def _run(
        self,
        cursor: duckdb.DuckDBPyConnection,
        sql: str,
        params: Sequence[object],
        as_of: datetime | None,
        max_rows: int,
        began: float,
    ) -> Result:
        import duckdb  # noqa: PLC0415

        try:
            self._set_variables(cursor, as_of)  # may be interrupted like the query itself
            statement = only_select(cursor, sql)
            cursor.execute(statement, list(params) or None)
            described = cursor.description or []
            types = tuple(str(column[1]) for column in described)
            rows = fetch(cursor, types, max_rows + 1)
        except duckdb.OutOfMemoryException as error:  # its own text advises settings that cannot be set here
            raise SqlError(f"the query needs more memory than {MEMORY_LIMIT}", "aggregate or narrow it") from error
        except duckdb.Error as error:
            unreadable = self._unreadable(error)
            if unreadable is not None:
                self._say("disconnected", unreadable.what)
                raise unreadable from error
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
            self._state, self._detail, self._since = state, detail, utcnow()


def base_config() -> dict[str, str | bool | int | float | list[str]]:
    """Settings of every reader's DuckDB."""
    return {
        "threads": 2,
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(Path(tempfile.gettempdir()) / f"tic-{os.getuid()}-{os.getpid()}"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


def without_locks(error: BaseException) -> bool:
    """Whether DuckDB could not open a file because its file system grants no locks at all (ENOLCK, ENOSYS, ...)."""
    text = str(error).lower()
    return "could not set lock" in text and any(why in text for why in _NO_LOCKS)


def stop(cursor: duckdb.DuckDBPyConnection, late: threading.Event | None = None) -> None:
    """Ends what runs on the connection, from any thread. `late` is set to tell that it was the deadline."""
    import duckdb  # noqa: PLC0415

    if late is not None:
        late.set()
    with contextlib.suppress(duckdb.Error):  # it ended and was closed meanwhile
        cursor.interrupt()


def fetch(cursor: duckdb.DuckDBPyConnection, types: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
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


def utcnow() -> datetime:
    """Now as the store keeps times: naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)
