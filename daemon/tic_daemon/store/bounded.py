"""One stranger's SELECT, run within bounds: rows, bytes, and a stop from another thread at any moment.

    query = BoundedSelect(connect, ask, packed(max_bytes))
    answer = query.run()         # in a worker thread
    query.stop()                 # from any other thread; may come before, during and after run()

The result is streamed out of DuckDB batch by batch into what was asked for (`packed`, `taken`, or a consumer of the
caller's own), so that an endless SELECT costs no more memory than its caps. A stop takes effect within milliseconds
wherever DuckDB looks for it. It does not look inside one call of a scalar function or while it plans a query of
hundreds of nested operators (tried: up to 20 s with 1.5.6); therefore callers answer their client at the deadline,
whether the thread has come back or not.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from tic_daemon.store import plain, wire
from tic_daemon.store.sqlguard import SqlError, only_select

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Rows a batch: DuckDB's vector size, the smallest unit in which it hands out a stream.
BATCH_ROWS = 2048

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Rows:
    """What a running query gives: the schema, with DuckDB's type names in its metadata, and batches as they come.

    The iterator raises Stopped at the next batch after `stop()`. A consumer need not take all of it.
    """

    schema: pa.Schema
    types: list[str]
    batches: Iterator[pa.RecordBatch]
    began: float = field(default_factory=time.monotonic)


class BoundedSelect(Generic[T]):
    """One run of one SELECT on a cursor of its own, which is closed at the end whatever happens.

    Args:
        connect: gives the cursor.
        consume: makes the result of the rows, in the thread of `run`.
        spool: the marks to overlay, see store/spool.py.
    """

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        ask: Ask,
        consume: Callable[[Rows], T],
        *,
        spool: Callable[[], str | None] | None = None,
    ) -> None:
        self._connect = connect
        self._ask = ask
        self._consume = consume
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
        import duckdb  # noqa: PLC0415  as in `run`

        self._stopped = True
        con = self._con
        if con is not None and not self._ended:
            with contextlib.suppress(duckdb.Error):  # it was closed meanwhile
                con.interrupt()

    def run(self) -> T:
        """Runs the query.

        Raises:
            SqlError, SqlRefused: as `only_select`; SqlError also for what fails at run time.
            Stopped: `stop()` was called.
            duckdb.Error: the store itself failed (I/O, memory).
            Whatever `consume` raises.
        """
        import duckdb  # noqa: PLC0415 -- value types of this module are used where no DuckDB is wanted

        try:
            self._con = con = self._connect()
            try:
                return self._run(con)
            finally:
                con.interrupt()  # rows that nobody took: else close() would wait for the rest of them
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

    def _run(self, con: duckdb.DuckDBPyConnection) -> T:
        began = time.monotonic()
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
        result = self._consume(Rows(schema, types, self._batches(reader), began))
        self._check()
        return result

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self._check()
            yield batch

    def _check(self) -> None:
        if self._stopped:
            raise Stopped


def taken(rows: Rows, max_rows: int, max_bytes: int) -> tuple[list[pa.RecordBatch], bool]:
    """Batches up to the caps, and whether there was more."""
    kept: list[pa.RecordBatch] = []
    rows_left, bytes_left = max_rows, max_bytes
    for batch in rows.batches:
        keep = batch.slice(0, rows_left) if batch.num_rows > rows_left else batch
        while keep.num_rows and keep.nbytes > bytes_left:
            keep = keep.slice(0, keep.num_rows // 2)
        if keep.num_rows:
            kept.append(keep)
            rows_left -= keep.num_rows
            bytes_left -= keep.nbytes
        if keep.num_rows < batch.num_rows:
            return kept, True
    return kept, False


def packed(ask: Ask, max_bytes: int) -> Callable[[Rows], Answer]:
    """A consumer that packs the rows for the wire, in the form and up to the number that `ask` says."""

    def consume(rows: Rows) -> Answer:
        batches, truncated = taken(rows, ask.max_rows, max_bytes)
        if ask.as_json:
            told: dict[str, object] = {"truncated": truncated, "elapsed_s": round(time.monotonic() - rows.began, 6)}
            body = json_body(rows.schema, batches, rows.types, told)
        else:
            body = arrow_body(rows.schema, batches)
        return Answer(body, sum(batch.num_rows for batch in batches), truncated, time.monotonic() - rows.began)

    return consume


def arrow_body(schema: pa.Schema, batches: list[pa.RecordBatch]) -> memoryview:
    """An Arrow IPC stream. Batches may lack the schema's metadata."""
    import pyarrow as pa  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return memoryview(sink.getvalue())


def json_body(
    schema: pa.Schema, batches: list[pa.RecordBatch], types: list[str], told: dict[str, object]
) -> memoryview:
    """JSON: columns, types, what else is `told`, and the rows, one a line."""
    import pyarrow as pa  # noqa: PLC0415

    table = pa.Table.from_batches([batch.replace_schema_metadata(schema.metadata) for batch in batches], schema)
    head = json.dumps({"columns": schema.names, "types": types, **told})
    body = ",\n".join(plain.to_json(list(row)) for row in wire.rows_of(table, types))
    return memoryview(f'{head[:-1]}, "rows": [\n{body}\n]}}\n'.encode())
