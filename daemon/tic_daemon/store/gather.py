"""Where the answers of several stores become one: a DuckDB in memory that reaches nothing outside it.

    local = Local()
    local.gather(parts, "SELECT ... FROM part", ...)      rows of each store in table `part`, columns by name

Types come from the stores, not from the rows, so an empty part still says what its columns are. A column that a store
lacks is NULL for its rows.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tic_daemon.errors import StoreError
from tic_daemon.store import arrow
from tic_daemon.store.duck_reader import fetch, stop
from tic_daemon.store.reader import Result
from tic_daemon.store.sqlguard import SqlError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY_LIMIT = "1GB"
STORE_COLUMN = "part_store"


@dataclass(frozen=True, slots=True)
class Part:
    """What one store answered."""

    store_id: str
    result: Result


class Local:
    """The database. Thread-safe: each piece of work has a cursor of its own, whose tables vanish with it."""

    def __init__(self) -> None:
        self._con = _connect()
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._lock = threading.Lock()

    def gather(
        self, parts: Sequence[Part], sql: str, *, as_of: datetime | None = None, max_rows: int, timeout_s: float
    ) -> Result:
        """The result of `sql` over table `part`.

        Raises:
            SqlError: it failed, or was stopped. StoreError: a part cannot be understood.
        """
        began = time.monotonic()
        with self.cursor(timeout_s, as_of) as cursor:
            lay_out(cursor, "part", parts)
            return run(cursor, sql, (), max_rows, began)

    @contextlib.contextmanager
    def cursor(self, timeout_s: float, as_of: datetime | None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that is interrupted after `timeout_s`; errors of DuckDB come out as ours."""
        import duckdb  # noqa: PLC0415

        cursor = self._con.cursor()
        late = threading.Event()
        timer = threading.Timer(max(0.0, timeout_s), stop, (cursor, late))
        timer.daemon = True
        with self._lock:
            self._running.add(cursor)
        timer.start()
        try:
            _set_time(cursor, as_of)
            yield cursor
        except duckdb.InterruptException as error:
            why = f"was stopped after {timeout_s:g} s" if late.is_set() else "was interrupted"
            raise SqlError(f"putting the answers of the stores together {why}", "ask for less") from error
        except duckdb.OutOfMemoryException as error:  # its own text advises settings that cannot be set here
            raise SqlError(f"the query needs more memory than {MEMORY_LIMIT}", "aggregate or narrow it") from error
        except duckdb.Error as error:
            raise SqlError(str(error)) from error
        finally:
            timer.cancel()
            with self._lock:
                self._running.discard(cursor)
            cursor.close()

    def interrupt(self) -> None:
        """Stops what runs. From any thread."""
        with self._lock:
            for cursor in self._running:
                stop(cursor)

    def close(self) -> None:
        """Lets the memory go; a second call does nothing."""
        self.interrupt()
        self._con.close()


def lay_out(
    cursor: duckdb.DuckDBPyConnection, name: str, parts: Sequence[Part], *, named: bool = False, empty: str = ""
) -> None:
    """Makes temporary table `name` of the parts, columns by name.

    Args:
        named: adds the column `part_store`, the store that a row came from.
        empty: name of a table without rows, whose columns it has at least.
    """
    selects = [f"SELECT * FROM {empty}"] if empty else []  # noqa: S608
    for number, part in enumerate(parts):
        table = f"{name}_{number}"
        _part(cursor, table, part.result)
        store = f", {text(part.store_id)} AS {STORE_COLUMN}" if named else ""
        selects.append(f"SELECT *{store} FROM {table}")  # noqa: S608
    if not selects:
        raise StoreError("no store answered")
    cursor.execute(f"CREATE TEMP VIEW {identifier(name)} AS " + " UNION ALL BY NAME ".join(selects))


def run(
    cursor: duckdb.DuckDBPyConnection,
    sql: str | duckdb.Statement,
    params: Sequence[object],
    max_rows: int,
    began: float,
) -> Result:
    """Rows of a statement, as every reader gives them."""
    cursor.execute(sql, list(params) or None)
    described = cursor.description or []
    types = tuple(str(column[1]) for column in described)
    rows = fetch(cursor, types, max_rows + 1)
    columns = tuple(str(column[0]) for column in described)
    return Result(columns, types, rows[:max_rows], len(rows) > max_rows, time.monotonic() - began)


def identifier(name: str) -> str:
    """A name as SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string as SQL."""
    return "'" + value.replace("'", "''") + "'"


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415  the screen paints before this

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 2,
        "memory_limit": MEMORY_LIMIT,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    con = duckdb.connect(":memory:", config=config)
    con.execute("SET GLOBAL TimeZone = 'UTC'")
    con.execute("SET GLOBAL temp_directory = ''")  # nothing is spilled: what is too large is refused
    con.execute("SET GLOBAL python_enable_replacements = false")  # else SQL could read this program's variables
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def _set_time(cursor: duckdb.DuckDBPyConnection, as_of: datetime | None) -> None:
    """The variables that views and merges count from, as in each store."""
    if as_of is not None:
        moment = as_of.astimezone(UTC).replace(tzinfo=None) if as_of.tzinfo else as_of
        cursor.execute("SET VARIABLE as_of = ?::TIMESTAMP", [moment])
    else:
        moment = datetime.now(UTC).replace(tzinfo=None)
    cursor.execute("SET VARIABLE now = ?::TIMESTAMP", [moment])


# --- one part -----------------------------------------------------------------------------------------------------


def _part(cursor: duckdb.DuckDBPyConnection, table: str, result: Result) -> None:
    """Temporary table `table` with the rows of a result, in the types that its store gave them."""
    names = _distinct(result.columns)
    types = [_type(cursor, kind) for kind in result.types]
    columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in zip(names, types, strict=True))
    cursor.execute(f"CREATE TEMP TABLE {table} ({columns})")
    if not result.rows:
        return
    batch = _arrow(cursor, table, result)
    if batch is not None:
        with arrow.laid(cursor, arriving=batch):
            cursor.execute(f"INSERT INTO {table} SELECT * FROM arriving")  # noqa: S608
        return
    # A value that Arrow has no form for, such as 24:00:00. Rare and slow: 48 times, tried.
    marks = ", ".join("?" for _ in names)
    cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", result.rows)  # noqa: S608


def _distinct(columns: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise SqlError(f"two columns are named {name!r}", "name each column once: several stores are put together")
        seen.add(name.lower())
    return list(columns)


def _type(cursor: duckdb.DuckDBPyConnection, name: str) -> str:
    """A type's name as it may stand in SQL: parsed as a type, since another program wrote it."""
    import duckdb  # noqa: PLC0415

    try:
        return str(cursor.type(name))
    except duckdb.Error as error:
        raise StoreError(f"a store gave a column of type {name[:60]!r}, which is not known here") from error


def _arrow(cursor: duckdb.DuckDBPyConnection, table: str, result: Result) -> pa.Table | None:
    """The rows as Arrow in the types of `table`; None if a value does not fit into Arrow."""
    import pyarrow as pa  # noqa: PLC0415  100 ms that the first paint does not wait for

    schema = cursor.execute(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema  # noqa: S608
    try:
        columns = [
            pa.array(_plain(field.type, values), field.type)
            for field, values in zip(schema, zip(*result.rows, strict=True), strict=True)
        ]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return pa.table(columns, schema=schema)


def _plain(kind: pa.DataType, values: Sequence[Any]) -> Sequence[Any]:
    """What Arrow does not take as DuckDB's client gives it."""
    import pyarrow as pa  # noqa: PLC0415

    convert: Callable[[Any], Any] | None = None
    if pa.types.is_string(kind):
        convert = str  # UUID
        if all(value is None or isinstance(value, str) for value in values):
            return values
    elif pa.types.is_map(kind):
        convert = lambda value: list(value.items())  # noqa: E731
    return values if convert is None else [None if value is None else convert(value) for value in values]
