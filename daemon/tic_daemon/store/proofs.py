"""What a store shows of a criterion, besides the hash in manifests: that it is older than the run's first number, and
that it can fail.

    order     its row in the ledger was there before the run's first number was made, or a line of the run's start that
              names its hash, or the hash of a manifest that does. All numbers of the run count, and
              each must show when it was made at the earliest: by its own time stamp, the stamp before it, or the
              receipt of its file. When something was read, or a file was written, shows nothing
    planted   a comparison of a planted error was judged FAIL by it, through one set of readers, types and comparator
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

TIMEOUT_S: Final = 60.0

ONE: Final = """
WITH number AS (
    SELECT coalesce(m.event_at, CASE WHEN b.after_utc THEN b.after_stamp END) AS made_at
    FROM mismatches m JOIN b_mismatch b ON b.rec_id = m.rec_id AND b.prov IS NULL
    WHERE m.run_id = $1
    UNION ALL
    SELECT CASE WHEN c.produced_how_a = 'receipt' THEN c.produced_a END FROM comparisons c
    WHERE c.run_id = $1 AND c.kind = 'tokens'
    UNION ALL
    SELECT CASE WHEN c.produced_how_b = 'receipt' THEN c.produced_b END FROM comparisons c
    WHERE c.run_id = $1 AND c.kind = 'tokens'
)
SELECT
    (SELECT min(frozen_at) FROM criteria WHERE criterion_id = $2) AS frozen_at,
    (SELECT min(replaced_at) FROM criteria WHERE criterion_id = $2) AS replaced_at,
    (SELECT min(e.event_at + to_microseconds(b.stamp_res_us)) FROM env_pins e JOIN b_env_seen b ON b.rec_id = e.rec_id
     WHERE e.run_id = $1 AND e.form = 'observed' AND ((e.name = 'criterion_sha256' AND e.value = $2)
        OR (e.name = 'manifest_sha256' AND e.value IN (
            SELECT m.digest FROM manifests m JOIN config_values v ON v.host = m.host AND v.path = m.path
            WHERE v.name = 'criterion_sha256' AND lower(v.value) = $2)))) AS started_at,
    (SELECT margin_us FROM i_lock_setting) AS margin_us,
    (SELECT min(made_at) FROM number) AS first_at,
    (SELECT count(*) FROM number WHERE made_at IS NULL) AS timeless,
    (SELECT min(comparison_id) FROM comparisons
     WHERE planted_error IS NOT NULL AND label = 'FAIL' AND rule = 11 AND criterion_id = $2
        AND criterion_metric = $3 AND reader_a = $4 AND reader_b = $5 AND dtype_a = $6
        AND dtype_b = $7 AND comparator = $8) AS planted
"""
AGAIN: Final = """
SELECT c.task, min(p.id) FROM i_comparison c
JOIN i_comparison p ON p.plant <> '' AND p.label = 'FAIL' AND p.rule = 11 AND p.criterion = c.criterion
    AND p.criterion_metric = c.criterion_metric AND p.reader_a = c.reader_a AND p.reader_b = c.reader_b
    AND p.dtype_a = c.dtype_a AND p.dtype_b = c.dtype_b AND p.comparator = c.comparator
WHERE c.rule = 10 AND c.plant = '' AND c.host = ? GROUP BY c.task
"""
"""Tasks that wait for a planted error which was judged FAIL since, each with a comparison that shows it."""
ALL: Final = """
SELECT min(frozen_at), min(replaced_at), min(started_at), max(margin_us), min(first_at), sum(timeless)::BIGINT,
    min(planted) FROM part
"""
"""Several stores as one."""


@dataclass(frozen=True, slots=True)
class Through:
    """What judged: a criterion, and the program's parts. Types as table comparison has them."""

    run: str
    criterion: str
    metric: str
    readers: tuple[str, str]
    dtypes: tuple[str, str]
    comparator: int
    made: tuple[datetime | None, datetime | None]
    """When each side was made, by its receipt, naive UTC."""

    def params(self) -> list[object]:
        """The values that `ONE` asks for."""
        return [self.run, self.criterion, self.metric, *self.readers, *self.dtypes, self.comparator]


@dataclass(frozen=True, slots=True)
class Proofs:
    """What is shown, and by what in words; "": it is not shown."""

    order: str = ""
    planted: str = ""


def proofs(row: Sequence[Any], through: Through) -> Proofs:
    """What a row of `ONE`, or of `ALL`, shows of what is judged now."""
    frozen_at, replaced_at, started_at, margin_us, first_at, timeless, planted = row
    shown = f"comparison {planted}, a planted error, was judged FAIL by it" if planted else ""
    times = [*through.made, *([first_at] if first_at is not None else [])]
    known = [time for time in (frozen_at, started_at) if time is not None]
    if not known or timeless or not through.run or any(time is None for time in times):
        return Proofs("", shown)
    first = min(time for time in times if time is not None)
    seconds = (first - min(known)).total_seconds()
    governs = replaced_at is None or first < replaced_at
    if seconds * 1e6 <= (margin_us or 0) or not governs:
        return Proofs("", shown)
    where = "the start record named it" if min(known) == started_at else "it was in the ledger"
    return Proofs(f"{where} {seconds:.0f} s before the run's first number", shown)


def asked(reader: Reader, through: Through) -> Proofs:
    """What all stores that a reader reads show. A store that cannot be read may know of an earlier number.

    Raises:
        StoreError, ConnectError: they cannot be asked.
    """
    found = reader.query(ONE, through.params(), timeout_s=TIMEOUT_S, gather=ALL)
    shown = proofs(found.rows[0], through)
    return Proofs("", shown.planted) if found.missing else shown
