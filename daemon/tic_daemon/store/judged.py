"""What the daemon adds to the ledger by itself: evidence, and what speaks against it. Rows are only ever added.

    comparisons       of runs whose candidate is declared: label and reason as they were judged
    observed.py       how runs ended, which image their workers show, and what contradicts a closure
    paired.py         what pairs of arms measured, held against a frozen criterion

Nobody else makes evidence, and no row here is written twice: an id is made of all that it hangs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger.entries import EVIDENCE, Entry, artifact
from tic_daemon.store import observed, paired, receipts
from tic_daemon.store.ledger import BOUND

if TYPE_CHECKING:
    import duckdb

_JUDGED: Final = rf"""
WITH bound AS ({BOUND}),
manifest AS (SELECT host, path, arg_max(digest, rec_id) AS digest FROM result_file GROUP BY host, path),
-- As the comparison read it: it may have been written anew since.
read AS (SELECT DISTINCT comparison_id, path, sha256 FROM comparison_file WHERE role = 'manifest'),
weight AS (
    SELECT host, path, max(value) AS content FROM config_values
    WHERE kind = 'manifest' AND regexp_matches(name, '(^|\.)policy_content_id$') AND NOT secret GROUP BY host, path
)
SELECT c.id, b.candidate, c.run_id, c.step, c.policy, c.input, c.criterion, c.label, c.reason,
    coalesce(r.sha256, m.digest), w.content,
    c.host, c.side_a, c.size_a, c.sha256_a, c.side_b, c.size_b, c.sha256_b
FROM i_comparison c
JOIN bound b ON b.run_id = c.run_id
LEFT JOIN manifest m ON m.host = c.host AND m.path = c.manifest
LEFT JOIN read r ON r.comparison_id = c.id AND r.path = c.manifest
LEFT JOIN weight w ON w.host = c.host AND w.path = c.manifest
ANTI JOIN (SELECT target, candidate FROM ledger_row WHERE kind = 'evidence') l
    ON l.target = c.id AND l.candidate = b.candidate
WHERE c.kind = 'tokens' AND c.plant = ''
ORDER BY c.rec_id
"""  # noqa: S608  ours


def judged(
    con: duckdb.DuckDBPyConnection, host: str, now: datetime, *, seen: bool = True, measured: bool = True
) -> list[Entry]:
    """What the ledger lacks. Nothing is asked of a store without candidates.

    Args:
        host: who says it. now: naive UTC. seen, measured: what observed.py, what paired.py reads may be new.
    """
    if not con.execute("SELECT 1 FROM ledger_row WHERE kind = 'candidate' AND run_id <> '' LIMIT 1").fetchone():
        return []
    found = con.execute(_JUDGED).fetchall()
    kept = receipts.of_runs(con, sorted({str(row[2]) for row in found})) if found else {}
    said = [_evidence(row, host, now, kept.get(row[2], [])) for row in found]
    said += observed.entries(con, host, now) if seen else []
    said += paired.entries(con, host, now) if measured else []
    return [replace(entry, said_at=now + timedelta(microseconds=number)) for number, entry in enumerate(said)]


def _evidence(row: Sequence[Any], host: str, now: datetime, kept: Sequence[receipts.Receipt]) -> Entry:
    (
        comparison,
        candidate,
        run_id,
        step,
        policy,
        workload,
        criterion,
        label,
        reason,
        digest,
        content,
        made_on,
        *sides,
    ) = row
    own = [one for one in kept if one.fits(policy or "")]
    files = [
        artifact(path, size, sha256, made_on)
        for path, size, sha256 in dict.fromkeys((tuple(sides[:3]), tuple(sides[3:])))
        if path and sha256 and size is not None
    ]
    files += [artifact(one.path, one.size, one.sha256, one.host) for one in own]
    return Entry(
        EVIDENCE + named("evidence", comparison, candidate), "evidence", now, "tic-daemon", host, candidate=candidate,
        run_id=run_id, step=step, policy=policy or "", workload=workload or "", criterion=criterion, label=label,
        reason=reason, target=comparison, manifest_sha256=digest or "",
        policy_content_id=content or receipts.content_of(own), receipt_sha256=receipts.sha256_of(own),
        artifacts=canonical(files),
    )  # fmt: skip
