"""One stranger's SELECT, run within bounds: rows, bytes, and a stop from another thread at any moment.

    query = BoundedSelect(connect, ask, max_rows=..., max_bytes=...)
    answer = query.run()         # in a worker thread
    query.stop()                 # from any other thread; may come before, during and after run()

The result is streamed out of DuckDB batch by batch and packed as it comes, so that an endless SELECT costs no more
memory than its caps. A stop takes effect within milliseconds wherever DuckDB looks for it. It does not look inside one
call of a scalar function or while it plans a query of hundreds of nested operators (tried: up to 20 s with 1.5.6);
therefore callers answer their client at the deadline, whether the thread has come back or not.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tic_daemon.store import plain, wire
from tic_daemon.store.sqlguard import SqlError, only_select

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import duckdb
    import pyarrow as pa

# Rows a batch: DuckDB's vector size, the smallest unit in which it hands out a stream.
BATCH_ROWS = 2048


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked: the text and its parameters, the as-of time (naive UTC), the form of the answer."""

    sql: str
    params: tuple[object, ...] = ()
    as_of: datetime | None = None
    max_rows: int = 100_000
    timeout_s: float = 5.0
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The packed result. `body` is an Arrow IPC stream or JSON; `truncated` says that a cap cut it."""

    body: memoryview
    rows: int
    truncated: bool
    elapsed_s: float


class Stopped(Exception):
    """The query was stopped by `stop()`."""


class BoundedSelect:
    """One run of one SELECT on a cursor of its own, which is closed at the end whatever happens."""

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        ask: Ask,
        *,
        max_bytes: int,
        spool: Callable[[], str | None] | None = None,
    ) -> None:
        self._connect = connect
        self._ask = ask
        self._max_bytes = max_bytes
        self._spool = spool
        self._con: duckdb.DuckDBPyConnection | None = None
        self._stopped = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether `run` has returned or raised."""
        return self._ended

    def stop(self) -> None:
        """Asks the query to end. Repeat it until `ended`: DuckDB forgets an interrupt that comes between statements."""
        self._stopped = True
        con = self._con
        if con is not None and not self._ended:
            con.interrupt()

    def run(self) -> Answer:
        """Runs the query.

        Raises:
            SqlError, SqlRefused: as `only_select`; SqlError also for what fails at run time.
            Stopped: `stop()` was called.
            duckdb.Error: the store itself failed (I/O, memory).
        """
        import duckdb  # noqa: PLC0415 -- value types of this module are used where no DuckDB is wanted

        began = time.monotonic()
        try:
            self._con = con = self._connect()
            try:
                return self._run(con, began)
            finally:
                con.close()
        except duckdb.InterruptException as e:
            raise Stopped from e
        except SqlError:
            if self._stopped:
                raise Stopped from None
            raise
        except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException):
            if self._stopped:
                raise Stopped from None
            raise
        except duckdb.Error as e:
            if self._stopped:
                raise Stopped from e
            raise SqlError(str(e)[:2000]) from e
        finally:
            self._ended = True

    def _run(self, con: duckdb.DuckDBPyConnection, began: float) -> Answer:
        statement = only_select(con, self._ask.sql)
        spool = self._spool() if self._spool else None
        if spool:
            con.execute("SET VARIABLE spool = ?::VARCHAR", [spool])
        if self._ask.as_of is not None:
            con.execute("SET VARIABLE as_of = ?::TIMESTAMP", [self._ask.as_of])
        else:  # views have no clock: without this a run would be "moving" for as long as nothing is written
            con.execute("SET VARIABLE now = ?::TIMESTAMP", [datetime.now(UTC).replace(tzinfo=None)])
        self._check()
        con.execute(statement, list(self._ask.params))
        names = [str(column[0]) for column in con.description or ()]
        types = [str(column[1]) for column in con.description or ()]
        for name, kind in zip(names, types, strict=True):
            if wire.NOT_CARRIED.search(kind):
                raise SqlError(f"column {name!r} has type {kind}, which cannot be carried", "cast it to VARCHAR")
        self._check()
        reader = con.to_arrow_reader(BATCH_ROWS)
        schema = reader.schema.with_metadata({wire.TYPES_KEY: json.dumps(types).encode()})
        batches, truncated = self._take(reader)
        rows = sum(batch.num_rows for batch in batches)
        if truncated:
            con.interrupt()  # else close() would wait for the rest of it
        if self._ask.as_json:
            body = _json(schema, batches, types, truncated, time.monotonic() - began)
        else:
            body = _arrow(schema, batches)
        self._check()
        return Answer(body, rows, truncated, time.monotonic() - began)

    def _take(self, reader: pa.RecordBatchReader) -> tuple[list[pa.RecordBatch], bool]:
        """Batches up to the caps, and whether there was more."""
        taken: list[pa.RecordBatch] = []
        rows_left, bytes_left = self._ask.max_rows, self._max_bytes
        for batch in reader:
            self._check()
            keep = batch.slice(0, rows_left) if batch.num_rows > rows_left else batch
            while keep.num_rows and keep.nbytes > bytes_left:
                keep = keep.slice(0, keep.num_rows // 2)
            if keep.num_rows:
                taken.append(keep)
                rows_left -= keep.num_rows
                bytes_left -= keep.nbytes
            if keep.num_rows < batch.num_rows:
                return taken, True
        return taken, False

    def _check(self) -> None:
        if self._stopped:
            raise Stopped


def _arrow(schema: pa.Schema, batches: list[pa.RecordBatch]) -> memoryview:
    import pyarrow as pa  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return memoryview(sink.getvalue())


def _json(
    schema: pa.Schema, batches: list[pa.RecordBatch], types: list[str], truncated: bool, elapsed_s: float
) -> memoryview:
    import pyarrow as pa  # noqa: PLC0415

    table = pa.Table.from_batches([batch.replace_schema_metadata(schema.metadata) for batch in batches], schema)
    rows = wire.rows_of(table, types)
    head = json.dumps(
        {"columns": schema.names, "types": types, "truncated": truncated, "elapsed_s": round(elapsed_s, 6)}
    )
    body = ",\n".join(plain.to_json(list(row)) for row in rows)
    return memoryview(f'{head[:-1]}, "rows": [\n{body}\n]}}\n'.encode())
