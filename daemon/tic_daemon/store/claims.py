"""What records say of their reports, for those who look whether they are there (tic_daemon/results/reports.py).

of(deltas)       of what was just read
known(cursor)    of what the store has, the newest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import duckdb

from tic_daemon.results.reports import MAX_REPORTS, Claim
from tic_daemon.scan.events import Mismatch
from tic_daemon.store.rows import SourceDelta

_KNOWN: Final = """
SELECT s.path, s.root, m.report, coalesce(m.run, ''), coalesce(m.metric, ''), coalesce(m.value_text, ''),
    CASE WHEN NOT m.step_carried THEN m.step END, coalesce(m.policy, ''), coalesce(m.input, '')
FROM mismatch m JOIN source s ON s.source_id = m.source_id
WHERE m.report NOT IN ('', 'unknown') AND starts_with(s.path, '/')
GROUP BY ALL ORDER BY max(m.rec_id) DESC LIMIT ?
"""


def of(deltas: Iterable[SourceDelta]) -> list[Claim]:
    """Of all records that name a report."""
    return [
        Claim(
            delta.source.path, delta.source.root, event.report, event.run, event.metric, event.value_text,
            None if event.at.step_carried else event.at.step, event.at.policy, event.input,
        )
        for delta in deltas
        for event in delta.events
        if type(event) is Mismatch and event.report and event.report != "unknown"
    ]  # fmt: skip


def known(cursor: Callable[[], duckdb.DuckDBPyConnection]) -> list[Claim]:
    """Of the newest records of the store."""
    with cursor() as connection:
        return [Claim(*row) for row in connection.execute(_KNOWN, [MAX_REPORTS]).fetchall()]
