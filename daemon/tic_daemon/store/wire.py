"""How queries and rows travel between the live endpoint and its readers.

    parameters   JSON scalars; what JSON lacks is an object with one key: {"$timestamp": "2026-01-02T03:04:05.000006"},
                 {"$date": "2026-01-02"}, {"$decimal": "1.50"}, {"$bytes": base64}, {"$double": "nan" | "inf" | "-inf"}
    rows         an Arrow IPC stream, whose schema metadata holds DuckDB's own type names (key "tic.types", a JSON list)

`rows_of` turns Arrow back into exactly the Python values that DuckDB's own client gives for the same column, so that a
caller cannot tell the live endpoint from the file. Types that Arrow would change (`NOT_CARRIED`) are refused by name
instead of altered.
"""

from __future__ import annotations

import base64
import json
import math
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

ARROW_TYPE = "application/vnd.apache.arrow.stream"
PARQUET_TYPE = "application/vnd.apache.parquet"
TYPES_KEY = b"tic.types"
TRUNCATED_HEADER = "X-Tic-Truncated"
ELAPSED_HEADER = "X-Tic-Elapsed"
STORE_HEADER = "X-Tic-Store"
POSITION_HEADER = "X-Tic-Position"
STANDING_HEADER = "X-Tic-Standing"
MISSED_HEADER = "X-Tic-Missed"

# Tried with DuckDB 1.5.6 and pyarrow 26: unsigned 128 bits come out negative, bits packed, zones of times dropped.
NOT_CARRIED = re.compile(r"\b(UHUGEINT|BIGNUM|VARINT|BIT|TIME_NS|TIME WITH TIME ZONE)\b")

Row = tuple[Any, ...]


def encode_parameter(value: object) -> object:
    """One query parameter as JSON. Raises TypeError for a type that has no form here."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$double": str(value)}
    if isinstance(value, datetime):
        return {"$timestamp": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(f"a query parameter cannot be of type {type(value).__name__}")


_DECODERS: dict[str, Callable[[str], object]] = {
    "$double": float,
    "$timestamp": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$decimal": Decimal,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
}


def decode_parameter(value: object) -> object:
    """The inverse of `encode_parameter`, for untrusted JSON. Raises ValueError."""
    if isinstance(value, str):
        value.encode()  # a lone surrogate, which JSON can spell and DuckDB cannot take, is a ValueError
        return value
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((tag, text),) = value.items()
        if tag in _DECODERS and isinstance(text, str):
            try:
                return _DECODERS[tag](text)
            except ArithmeticError as e:  # Decimal's own complaint is no ValueError
                raise ValueError(f"not a decimal: {text[:40]!r}") from e
    raise ValueError('a parameter is a JSON scalar, or an object such as {"$timestamp": "2026-01-02T03:04:05"}')


def types_of(schema: pa.Schema) -> tuple[str, ...]:
    """DuckDB's type names from the schema's metadata; Arrow's own where a foreign server left them out."""
    noted = json.loads((schema.metadata or {}).get(TYPES_KEY, b"[]"))
    if isinstance(noted, list) and len(noted) == len(schema) and all(isinstance(name, str) for name in noted):
        return tuple(noted)
    return tuple(str(field.type) for field in schema)


def rows_of(table: pa.Table, types: Sequence[str]) -> list[Row]:
    """The table's rows as tuples of what DuckDB's Python client would give for columns of these DuckDB types."""
    columns = [_column(table.column(i), types[i]) for i in range(table.num_columns)]
    return list(zip(*columns, strict=True)) if columns else []


def _column(column: pa.ChunkedArray, duckdb_type: str) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415 -- the screen starts without it

    if pa.types.is_time64(column.type):
        # DuckDB has a 24:00:00, Python has not: its client gives text for it.
        return [_time(value) for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)  # Python's datetime ends at microseconds
    convert = _converter(column.type, duckdb_type)
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        # A date or time that Python cannot hold, such as DuckDB's infinity: one by one, so that only that one is text.
        values = [_scalar(item) for item in column]
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _time(microseconds: int | None) -> time | str | None:
    if microseconds is None:
        return None
    if microseconds >= 86_400_000_000:
        return "24:00:00"
    return (datetime.min + timedelta(microseconds=microseconds)).time()


def _scalar(item: pa.Scalar) -> Any:
    try:
        return item.as_py()
    except (ValueError, OverflowError):
        raw = getattr(item, "value", None)
        if not isinstance(raw, int):
            return f"{item.type} outside Python's calendar"
        if abs(raw) in (2**63 - 1, 2**31 - 1):
            # DuckDB's client gives Python's last and first moment for infinity.
            return _infinity(str(item.type), raw > 0)
        return f"{raw} ({item.type} since 1970, outside Python's calendar)"


def _infinity(arrow_type: str, positive: bool) -> date:
    if arrow_type.startswith("date"):
        return date.max if positive else date.min
    moment = datetime.max if positive else datetime.min
    return moment.replace(tzinfo=UTC) if "tz=" in arrow_type else moment


def _converter(arrow_type: pa.DataType, duckdb_type: str) -> Callable[[Any], Any] | None:
    """What must be done to Arrow's Python value to get DuckDB's; None if nothing."""
    if duckdb_type == "UUID":
        return uuid.UUID
    # Arrow carries HUGEINT as decimal(38, 0); a type that holds both stays Decimal.
    return _nested(arrow_type, "HUGEINT" in duckdb_type and "DECIMAL(38,0)" not in duckdb_type)


def _nested(kind: pa.DataType, huge: bool) -> Callable[[Any], Any] | None:
    import pyarrow as pa  # noqa: PLC0415 -- the screen starts without it

    is_a = pa.types
    convert: Callable[[Any], Any] | None = None
    if is_a.is_interval(kind):
        convert = _timedelta
    elif huge and is_a.is_decimal(kind) and kind.precision == 38 and kind.scale == 0:
        convert = int
    elif is_a.is_map(kind):
        key, item = _nested(kind.key_type, huge), _nested(kind.item_type, huge)
        convert = lambda pairs: {_apply(key, k): _apply(item, v) for k, v in pairs}  # noqa: E731
    elif is_a.is_fixed_size_list(kind):
        inner = _nested(kind.value_type, huge)
        convert = lambda items: tuple(_apply(inner, item) for item in items)  # noqa: E731
    elif is_a.is_list(kind) or is_a.is_large_list(kind):
        element = _nested(kind.value_type, huge)
        if element is not None:
            convert = lambda items: [_apply(element, item) for item in items]  # noqa: E731
    elif is_a.is_struct(kind):
        fields = {field.name: _nested(field.type, huge) for field in kind}
        if any(fields.values()):
            convert = lambda struct: {name: _apply(fields[name], value) for name, value in struct.items()}  # noqa: E731
    return convert


def _apply(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _timedelta(value: Any) -> timedelta:
    # DuckDB's client counts a month as 30 days.
    return timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds // 1000)
