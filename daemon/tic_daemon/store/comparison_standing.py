"""Where a comparison that is being judged stands towards the faults of its run: asked of an open store.

The same SQL as view `comparisons` (schema/shared/), over one row that is no comparison yet. What the store cannot show
is unknown: a run without logs, logs that are not read to their ends, what a person doubts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tic_daemon.evidence.judge import Standing
from tic_daemon.store import sqltext
from tic_daemon.store.check import AT_REST

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of how the numbers came about. Names as in table comparison; `path`: manifest, else side A."""

    host: str
    root: str
    path: str
    run: str
    step: int | None
    produced_a: datetime | None = None
    produced_how_a: str = ""
    producer_host_a: str = ""
    producer_pid_a: int | None = None
    produced_b: datetime | None = None
    produced_how_b: str = ""
    producer_host_b: str = ""
    producer_pid_b: int | None = None


_SQL: Final = """
WITH one AS (
    SELECT ?::VARCHAR AS host, ?::VARCHAR AS root, ?::VARCHAR AS path, ?::VARCHAR AS run, ?::BIGINT AS step,
        ?::TIMESTAMP AS produced_a, ?::VARCHAR AS produced_how_a,
        ?::VARCHAR AS producer_host_a, ?::BIGINT AS producer_pid_a,
        ?::TIMESTAMP AS produced_b, ?::VARCHAR AS produced_how_b,
        ?::VARCHAR AS producer_host_b, ?::BIGINT AS producer_pid_b
),
lost AS (SELECT host, root, path FROM one WHERE run = ''),
-- include near_run.sql
,
made AS MATERIALIZED (
    SELECT 0 AS key,
        CASE WHEN c.run <> '' THEN c.run WHEN n.runs = 1 THEN n.run_id WHEN n.runs IS NULL THEN o.run_id END AS run_id,
        c.* EXCLUDE (host, root, path, run)
    FROM one c LEFT JOIN near n ON n.host = c.host AND n.path = c.path CROSS JOIN sole o
),
-- include comparison_standing.sql
SELECT * FROM standing
"""
_UNREAD: Final = """
SELECT count(*), coalesce(min(path), '') FROM sources
WHERE run_id = ? AND state NOT IN ('rotated', 'vanished') AND bytes_size - bytes_read > ? AND NOT ends_with(path, '.gz')
"""
CLEAR: Final = "no fault may be before them"


def standing_of(con: duckdb.DuckDBPyConnection, made: Made) -> tuple[Standing, str]:  # noqa: PLR0911  a return a case
    """The standing, and why. `con` is a connection of the open store, e.g. `Writer.reader_cursor()`.

    Raises:
        duckdb.Error: the store cannot be asked.
    """
    values = [getattr(made, name) for name in Made.__slots__]
    row = con.execute(sqltext.filled(_SQL), values).fetchone()
    assert row is not None  # noqa: S101  one row in, one out
    _key, run_id, _attempt, _lo, admissibility, why, known, marked = row
    if admissibility == "locked":
        return Standing.LOCKED, str(why)
    if admissibility == "suspect":
        return Standing.SUSPECT, str(why)
    if run_id is None:
        return Standing.UNKNOWN, "nothing names the run"
    if not known:
        return Standing.UNKNOWN, f"no log of run {run_id} was read"
    if marked:
        return Standing.UNKNOWN, "a person marked the run or the attempt inconclusive"
    unread = con.execute(_UNREAD, [run_id, AT_REST]).fetchone()
    if unread is not None and unread[0]:
        return Standing.UNKNOWN, f"{unread[0]} logs are not read to their ends, the first {unread[1]}"
    return Standing.CLEAR, CLEAR
