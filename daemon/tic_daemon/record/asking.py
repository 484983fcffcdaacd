"""The record of a run out of the views, from one store or several.

rows_of(reader, run)       rows of view run_records, in the order of the fields
fingerprint_of(reader, run)
record_of(reader, run)     field -> value, or "unknown"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tic_daemon.errors import UnknownRunError

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

TIMEOUT_S: Final = 60.0
_ROWS: Final = (
    "SELECT heading, field, item, value, launcher, worker, state, launcher_source, worker_source, note, needs,"
    " in_fingerprint, closure, position FROM run_records WHERE run_id = ? ORDER BY position"
)
_PRINT: Final = (
    "SELECT fingerprint, known, unknown, unknown_fields, disagreeing_fields FROM run_fingerprints WHERE run_id = ?"
)
_SECRETS: Final = (
    "SELECT path, detail FROM evidence_gaps WHERE run_id = ? AND kind IN ('config_secret', 'meta_secret') ORDER BY ALL"
)
Row = dict[str, Any]


def rows_of(reader: Reader, run: str) -> list[Row]:
    """All fields of a run's record.

    Raises:
        UnknownRunError: no store knows the run. StoreError, ConnectError, SqlError: it cannot be asked.
    """
    found = ask(reader, _ROWS, run)
    if not found:
        known = [
            row["run_id"] for row in ask(reader, "SELECT DISTINCT run_id FROM run_fingerprints ORDER BY 1 LIMIT 10")
        ]
        raise UnknownRunError(f"no run {run!r} in this store", f"known: {', '.join(known) or 'none yet'}")
    return found


def fingerprint_of(reader: Reader, run: str) -> Row:
    """The row of view run_fingerprints."""
    return ask(reader, _PRINT, run)[0]


def secrets_of(reader: Reader, run: str) -> list[Row]:
    """Where files of the run hold what looks like a secret: path and what is wrong. Never the value."""
    return ask(reader, _SECRETS, run)


def record_of(reader: Reader, run: str) -> dict[str, str]:
    """What counts of each field, or "unknown". Raises as `rows_of`."""
    return {row["field"]: row["value"] for row in rows_of(reader, run)}


def ask(reader: Reader, sql: str, *params: object) -> list[Row]:
    """Rows as dictionaries. Views of several stores are united, so that a run on many nodes has one record."""
    result = reader.query(sql, params, timeout_s=TIMEOUT_S)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]
