"""miles' parquet mirror of a rollout dump (`dashboard_columns/rollout_*.parquet`): the engine's side, without a pickle.

Columns: sample_index, response_length, total_length, tokens, loss_mask, rollout_log_probs (list<float>); tokens of
prompt and response together. Source: miles, `dashboard` and `ray/rollout/debug_data.py` (31f1ca9).
"""

from __future__ import annotations

from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.sides import Held, Sequence, in_order
from tic_daemon.errors import CompareError

_COLUMNS: Final = ("sample_index", "response_length", "tokens", "loss_mask", "rollout_log_probs")
_VALUES: Final = 1 << 26
_PER_BYTE: Final = 8  # numbers do not compress further

Found = tuple[dict[str, Sequence], tuple[str, ...]]


def miles_columns(file: Opened) -> Found:
    """The sequences of such a file, and what makes it unfit.

    Raises:
        CompareError: it is cut, malformed, holds more than it could, or has other columns.
    """
    try:
        reader = pq.ParquetFile(pa.BufferReader(bytes(file.read(0, file.size))))
        lacking = [name for name in _COLUMNS if name not in reader.schema_arrow.names]
        if lacking:
            raise CompareError(f"{file.path} has no column {lacking[0]}: no rollout columns of miles")
        values = _declared(file)
        if values > max(_VALUES, _PER_BYTE * file.size):
            raise CompareError(f"{file.path} declares {values} values in {file.size} bytes: not read")
        table = reader.read(columns=list(_COLUMNS))
    except (pa.ArrowException, duckdb.Error, OSError, ValueError) as error:
        raise CompareError(f"{file.path} is no whole parquet file: {error}") from error
    rows = zip(*(table.column(name) for name in _COLUMNS), strict=True)
    return in_order([_sequence(place, f"{file.path}: row {place}", *row) for place, row in enumerate(rows)])


def _declared(file: Opened) -> int:
    """How many values its columns have, as its footer says. DuckDB is asked: pyarrow ends the process where what it has
    of a column is malformed."""
    with duckdb.connect() as asked:
        asked.execute("SET threads = 1")
        found = asked.execute("SELECT sum(num_values) FROM parquet_metadata(?)", [file.link]).fetchone()
    return int(found[0] or 0) if found else 0


def _sequence(place: int, where: str, index: Any, length: Any, tokens: Any, mask: Any, logprobs: Any) -> Sequence:
    numbers = _array(logprobs, np.float32, f"{where}: rollout_log_probs")
    ids, flags = _array(tokens, np.int64, f"{where}: tokens"), _array(mask, np.int64, f"{where}: loss_mask")
    size = len(numbers)
    if length.as_py() != size or len(flags) != size or len(ids) < size:
        raise CompareError(
            f"{where}: {size} log-probabilities, a mask of {len(flags)}, {len(ids)} tokens: they do not fit"
        )
    if not np.isin(flags, (0, 1)).all():
        raise CompareError(f"{where}: loss_mask holds other values than 0 and 1")
    name = index.as_py()
    split, element = len(ids) - size, ELEMENTS["int64"]
    return Sequence(
        str(name if name is not None else f"position{place}"),
        Held.of(ELEMENTS["float32"], numbers),
        Held.of(ELEMENTS["bool"], flags == 1),
        Held.of(element, ids[split:]),
        Held.of(element, ids[:split]),
    )


def _array(cell: Any, kind: type[np.generic], where: str) -> np.ndarray:
    """A list of numbers of one row. Raises CompareError if it is missing or has holes."""
    values = cell.values if isinstance(cell, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar) else None
    if values is None or values.null_count:
        raise CompareError(f"{where} is missing or has holes")
    found = values.to_numpy(zero_copy_only=False)
    if kind is np.float32 and found.dtype != np.float32:
        raise CompareError(f"{where} is {found.dtype}, no float32")
    if found.dtype.kind not in "iuf":
        raise CompareError(f"{where} is {found.dtype}, no numbers")
    return np.ascontiguousarray(found, kind)
