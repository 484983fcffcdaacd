"""Events as Arrow columns, one table an event class: the fastest way into DuckDB.

The columns follow the event's own definition, so an event class and its table cannot drift apart unseen: see
tests/store/test_schema.py. The values of a W&B row are rows of a table of their own.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, chain, compress, islice
from operator import attrgetter, is_not, itemgetter

import pyarrow as pa

from tic_daemon.scan import events as ev
from tic_daemon.scan.events import At, Event
from tic_daemon.wandb.events import WandbEvent, WandbRow

STAMP = pa.timestamp("us")
AnyEvent = Event | WandbEvent

# Shared columns before and after those that come from `At`, in the order of the tables.
LEADING = ("rec_id", "store_id", "host", "source_id", "generation")
BETWEEN = "prov"  # stands after line_no
TRAILING = ("observed_at",)

_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: STAMP}
_INT32 = frozenset({"proc_rank", "generation"})


def _arrow_type(hint: object) -> pa.DataType:
    """The Arrow type of a field's annotation; `X | None` is X, since every column may be NULL."""
    options = [arg for arg in typing.get_args(hint) if arg is not type(None)] or [hint]
    return _ARROW[typing.cast("type", options[0])]


Columns = tuple[tuple[str, str, pa.DataType], ...]


def _columns(cls: type, rename: dict[str, str]) -> Columns:
    """(field, column, type) of every field of `cls` but `at` and `values`, in order."""
    hints = typing.get_type_hints(cls)
    fields = [field.name for field in dataclasses.fields(cls) if field.name not in ("at", "values")]
    named = [(field, rename.get(field, field)) for field in fields]
    return tuple(
        (field, column, pa.int32() if column in _INT32 else _arrow_type(hints[field])) for field, column in named
    )


AT_COLUMNS = _columns(At, {"rank": "proc_rank"})
EVENT_CLASSES: tuple[type[AnyEvent], ...] = (*typing.get_args(ev.Event), *typing.get_args(WandbEvent))
OWN_COLUMNS = {cls.table: _columns(cls, {}) for cls in EVENT_CLASSES}
EVENT_TABLES = tuple(OWN_COLUMNS)


def table_columns(table: str) -> list[str]:
    """All columns of an event table, in order."""
    shared: list[str] = [*LEADING]
    for _, column, _ in AT_COLUMNS:
        shared.append(column)
        if column == "line_no":
            shared.append(BETWEEN)
    return [*shared, *TRAILING, *(column for _, column, _ in OWN_COLUMNS[table])]


@dataclass(slots=True)
class Batch:
    """The rows of one event table in one tick; lists of equal length."""

    events: list[AnyEvent] = dataclasses.field(default_factory=list)
    rec_id: list[int] = dataclasses.field(default_factory=list)
    host: list[str] = dataclasses.field(default_factory=list)
    source_id: list[int] = dataclasses.field(default_factory=list)
    generation: list[int] = dataclasses.field(default_factory=list)
    prov: list[int | None] = dataclasses.field(default_factory=list)

    def to_arrow(self, table: str, store_id: str, observed_at: datetime) -> pa.Table:
        """The rows as an Arrow table with the columns of `table`, in order."""
        n = len(self.events)
        names, arrays = [], []

        def put(name: str, array: pa.Array) -> None:
            names.append(name)
            arrays.append(array)

        put("rec_id", pa.array(self.rec_id, pa.int64()))
        put("store_id", pa.repeat(pa.scalar(store_id), n))
        put("host", column(self.host, pa.string()))
        put("source_id", column(self.source_id, pa.int64()))
        put("generation", column(self.generation, pa.int32()))
        ats, places = _each_once([event.at for event in self.events])
        for (_, name, kind), said in zip(AT_COLUMNS, _fields(ats, AT_COLUMNS), strict=True):
            values = column(said, kind)
            put(name, values if places is None else values.take(places))
            if name == "line_no":
                put("prov", column(self.prov, pa.int64()))
        put("observed_at", pa.repeat(pa.scalar(observed_at, STAMP), n))
        own = OWN_COLUMNS[table]
        for (_, name, kind), said in zip(own, _fields(self.events, own), strict=True):
            put(name, column(said, kind))
        return pa.table(arrays, names=names)

    def values_to_arrow(self, observed_at: datetime) -> pa.Table | None:
        """Rows of table `wandb_value`, in order; None where the events have none."""
        rows = [event for event in self.events if isinstance(event, WandbRow)]  # all of them or none
        if not rows:
            return None
        ids = pa.array([rec_id for rec_id, row in zip(self.rec_id, rows, strict=True) for _ in row.values], pa.int64())
        flat = list(chain.from_iterable(row.values for row in rows))
        kinds = (pa.string(), pa.float64(), pa.string(), pa.string())
        columns = [column(list(map(itemgetter(i), flat)), kind) for i, kind in enumerate(kinds)]
        observed = pa.repeat(pa.scalar(observed_at, STAMP), len(flat))
        return pa.table(
            [ids, *columns, observed], names=["row_id", "key", "value", "value_text", "kind", "observed_at"]
        )


def _fields(rows: Sequence[object], columns: Columns) -> list[list[object]]:
    """The values of each column's field, in order. Block by block, which stays in the processor's cache while one
    column after the other is taken from it: that is twice as fast."""
    gets = [attrgetter(field) for field, _, _ in columns]
    found: list[list[object]] = [[] for _ in gets]
    for first in range(0, len(rows), _BLOCK):
        block = rows[first : first + _BLOCK]
        for values, get in zip(found, gets, strict=True):
            values.extend(map(get, block))
    return found


def _each_once(ats: list[At]) -> tuple[list[At], pa.Array | None]:
    """Each `At` of a run of the same ones, and for each row which of them it has; None: nearly each has its own. The
    metrics of a line share one."""
    first = [True, *map(is_not, ats, islice(ats, 1, None))]
    if first.count(True) * 4 > len(ats) * 3:
        return ats, None
    return list(compress(ats, first)), pa.array([place - 1 for place in accumulate(first)], pa.int32())


def column(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """`values` as one Arrow column.

    A value that the column cannot hold (a rank of 10**30, a lone surrogate out of a file name) must not stop the tick:
    text is escaped, anything else becomes NULL.
    """
    try:
        if _same(values, kind):
            return pa.repeat(pa.scalar(values[0], kind), len(values))
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
        fix = clean_text if pa.types.is_string(kind) else _fitting(kind)
        return pa.array([None if value is None else fix(value) for value in values], kind)


def _same(values: Sequence[object], kind: pa.DataType) -> bool:
    """Whether all values are one, as in most columns of most batches. Not of floats: -0.0 is equal to 0.0."""
    if len(values) < _FEW or pa.types.is_floating(kind):
        return False
    first = values[0]
    return first == values[-1] and values.count(first) == len(values)


_FEW = 16
_BLOCK = 512


def clean_text(value: object) -> str:
    """Text that is valid UTF-8: lone surrogates are escaped."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _fitting(kind: pa.DataType) -> Callable[[object], object]:
    def fit(value: object) -> object:
        try:
            return pa.scalar(value, kind).as_py()
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
            return None

    return fit
