"""Statements that write sources, cursors and what other stores said at once, from an Arrow table.

Not by lists as parameters: binding them, DuckDB's Python client looks for the module pandas once per element, which
costs 300 ms for a hundred cursors where it is not installed (measured).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from types import UnionType
from typing import TypeVar, get_args, get_type_hints

import pyarrow as pa

from tic_daemon.store.columns import STAMP, column
from tic_daemon.store.comparison_rows import (
    ComparisonFileRow,
    ComparisonRow,
    ComparisonSaidRow,
    ComparisonSequenceRow,
    ComparisonTaskRow,
    ComparisonTokenRow,
    ComparisonVersionRow,
    TraceBoundaryRow,
)
from tic_daemon.store.rows import (
    ArtifactRow,
    CheckpointRow,
    ConfigRow,
    CursorRow,
    EnvPinRow,
    FaultFileRow,
    LedgerRow,
    RemoteFaultRow,
    RemoteGapRow,
    RemotePlaceRow,
    ResultFileRow,
    ResultGapRow,
    SourceRow,
)

_Key = TypeVar("_Key")

_ARROW = {
    str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), datetime: STAMP,
    tuple[int, ...]: pa.list_(pa.int64()), tuple[str, ...]: pa.list_(pa.string()),
}  # fmt: skip
_INT32 = frozenset({"generation", "rank", "proc_rank", "zone_s", "attempt"})


@dataclass(frozen=True, slots=True)
class Statement:
    """`sql` reads the registered table `_batch`, which `table` makes, and writes into table `name`."""

    name: str
    sql: str
    columns: tuple[tuple[str, pa.DataType], ...]

    def table(self, rows: Iterable[object], observed_at: datetime, first_rec_id: int | None = None) -> pa.Table:
        """Rows with the fields in `columns`, as Arrow. Text that is no UTF-8 is escaped, what does not fit is NULL.

        `first_rec_id`: of an event table, whose rows are numbered from it on.
        """
        listed = list(rows)
        names = [*(name for name, _ in self.columns), "observed_at"]
        arrays = [column([getattr(row, name) for row in listed], kind) for name, kind in self.columns]
        arrays.append(pa.repeat(pa.scalar(observed_at, STAMP), len(listed)))
        if first_rec_id is not None:
            names.insert(0, "rec_id")
            arrays.insert(0, pa.array(range(first_rec_id, first_rec_id + len(listed)), pa.int64()))
        return pa.table(arrays, names=names)


@dataclass(frozen=True, slots=True)
class Keyed:
    """Of a table that holds one row a key: what adds rows, and what changes those that are there.

    Two, because whoever writes knows which is which, and to plan one INSERT that must find out takes DuckDB 2 ms more.
    """

    insert: Statement
    update: Statement

    def of(
        self, rows: Mapping[_Key, object], known: Collection[_Key], observed_at: datetime
    ) -> Iterator[tuple[str, pa.Table]]:
        """SQL and the table that it reads. `known`: keys of the rows that are there."""
        for statement, there in ((self.insert, False), (self.update, True)):
            if some := [row for key, row in rows.items() if (key in known) == there]:
                yield statement.sql, statement.table(some, observed_at)


def _keyed(table: str, cls: type, key: tuple[str, ...]) -> Keyed:
    insert = _statement(table, cls, _names(cls))
    changed = ", ".join(f"{c} = b.{c}" for c in (*_names(cls), "observed_at") if c not in key)
    sql = f"UPDATE {table} SET {changed} FROM _batch b WHERE " + " AND ".join(f"b.{k} = {table}.{k}" for k in key)  # noqa: S608  as below
    return Keyed(insert, replace(insert, sql=sql))


def _statement(table: str, cls: type, names: tuple[str, ...], *, numbered: bool = False) -> Statement:
    hints = get_type_hints(cls)

    def arrow_type(name: str) -> pa.DataType:
        hint = hints[name]
        options = [arg for arg in get_args(hint) if arg is not type(None)] if isinstance(hint, UnionType) else [hint]
        base = options[0]
        return pa.int32() if name in _INT32 else _ARROW[base]

    listed = ", ".join((*(("rec_id",) if numbered else ()), *names, "observed_at"))
    sql = f"INSERT INTO {table} ({listed}) SELECT {listed} FROM _batch"  # noqa: S608  names from classes
    return Statement(table, sql, tuple((name, arrow_type(name)) for name in names))


def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


SOURCES = _keyed("source", SourceRow, ("source_id",))
CURSORS = _keyed("cursor", CursorRow, ("source_id", "generation"))
SOURCE_CHANGE_INSERT = _statement(
    "source_change", SourceRow, ("source_id", "state", "error", "zone_s", "generation", "bytes_size")
)
CHECKPOINT_INSERT = _statement("checkpoint", CheckpointRow, _names(CheckpointRow))
FAULT_FILE_INSERT = _statement("fault_file", FaultFileRow, _names(FaultFileRow))
REMOTE_INSERTS = {
    RemotePlaceRow: _statement("remote_place", RemotePlaceRow, _names(RemotePlaceRow), numbered=True),
    RemoteFaultRow: _statement("remote_fault", RemoteFaultRow, _names(RemoteFaultRow), numbered=True),
    RemoteGapRow: _statement("remote_gap", RemoteGapRow, _names(RemoteGapRow), numbered=True),
}
NUMBERED_INSERTS = {
    **REMOTE_INSERTS,
    EnvPinRow: _statement("env_pin", EnvPinRow, _names(EnvPinRow), numbered=True),
    ConfigRow: _statement("config_value", ConfigRow, _names(ConfigRow), numbered=True),
    ResultFileRow: _statement("result_file", ResultFileRow, _names(ResultFileRow), numbered=True),
    ArtifactRow: _statement("artifact", ArtifactRow, _names(ArtifactRow), numbered=True),
    ResultGapRow: _statement("result_gap", ResultGapRow, _names(ResultGapRow), numbered=True),
    ComparisonTaskRow: _statement("comparison_task", ComparisonTaskRow, _names(ComparisonTaskRow), numbered=True),
    ComparisonRow: _statement("comparison", ComparisonRow, _names(ComparisonRow), numbered=True),
    ComparisonSequenceRow: _statement(
        "comparison_sequence", ComparisonSequenceRow, _names(ComparisonSequenceRow), numbered=True
    ),
    ComparisonFileRow: _statement("comparison_file", ComparisonFileRow, _names(ComparisonFileRow), numbered=True),
    ComparisonSaidRow: _statement("comparison_said", ComparisonSaidRow, _names(ComparisonSaidRow), numbered=True),
    ComparisonVersionRow: _statement(
        "comparison_version", ComparisonVersionRow, _names(ComparisonVersionRow), numbered=True
    ),
    ComparisonTokenRow: _statement("comparison_token", ComparisonTokenRow, _names(ComparisonTokenRow), numbered=True),
    TraceBoundaryRow: _statement("trace_boundary", TraceBoundaryRow, _names(TraceBoundaryRow), numbered=True),
    LedgerRow: _statement("ledger_row", LedgerRow, _names(LedgerRow), numbered=True),
}
"""Tables whose rows are numbered with the store's records."""
