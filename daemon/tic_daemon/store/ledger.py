"""Rows of the ledger on their way into a store: what is new of them, and their places in the store's chain.

    new      of what people said, the rows that the store does not have, chained
    judged   evidence: the comparisons of runs whose candidate is declared, of which there is no row yet

The chain is the store's own; what a row says is the same in every store that takes it in. Rows are only ever added.
Only `judged` makes evidence, and it takes label and reason from the comparison as it was judged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger.chain import NAMES, Link, link
from tic_daemon.ledger.closure import NAMES as CLOSURE
from tic_daemon.ledger.closure import UNKNOWN, fitting
from tic_daemon.ledger.entries import EVIDENCE, Entry, artifact
from tic_daemon.store.rows import LedgerRow

if TYPE_CHECKING:
    import duckdb

LINK_NAMES = tuple(field.name for field in fields(Link))
SELECTED = ", ".join((*NAMES, *LINK_NAMES))
"""What a walk along a chain needs of each row."""


def new(con: duckdb.DuckDBPyConnection, entries: Sequence[Entry], store_id: str) -> list[LedgerRow]:
    """The entries that the store does not have, chained behind its last row."""
    if not entries:
        return []
    listed = {entry.id: entry for entry in reversed(entries)}
    con.register("_ids", pa.table({"id": pa.array(listed, pa.string())}))
    try:
        known = con.execute("SELECT DISTINCT id FROM ledger_row WHERE id IN (SELECT id FROM _ids)").fetchall()
    finally:
        con.unregister("_ids")
    for (name,) in known:
        del listed[name]
    before = head(con)
    found = []
    for entry in reversed(listed.values()):
        before = link(entry, before, store_id)
        found.append(LedgerRow(**{name: getattr(entry, name) for name in NAMES}, **asdict(before)))
    return found


_RECORDED: Final = (
    "config_value",
    "exec_state",
    "env_pin",
    "env_seen",
    "weight_phase",
    "transport",
    "wandb_run",
    "gpu_info",
)
"""Tables that a run's record is made of, but those of logs and manifests, which tell no field of a closure."""
_JUDGED: Final = """
WITH bound AS (
    SELECT run_id, candidate FROM ledger_row WHERE kind = 'candidate' AND run_id <> ''
    QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY seq) = 1
),
manifest AS (SELECT host, path, arg_max(digest, rec_id) AS digest FROM result_file GROUP BY host, path),
-- As the comparison read it: it may have been written anew since.
read AS (SELECT DISTINCT comparison_id, path, sha256 FROM comparison_file WHERE role = 'manifest')
SELECT c.id, b.candidate, c.run_id, c.step, c.policy, c.input, c.criterion, c.label, c.reason,
    coalesce(r.sha256, m.digest), c.host, c.side_a, c.size_a, c.sha256_a, c.side_b, c.size_b, c.sha256_b
FROM i_comparison c
JOIN bound b ON b.run_id = c.run_id
LEFT JOIN manifest m ON m.host = c.host AND m.path = c.manifest
LEFT JOIN read r ON r.comparison_id = c.id AND r.path = c.manifest
ANTI JOIN (SELECT target, candidate FROM ledger_row WHERE kind = 'evidence') l
    ON l.target = c.id AND l.candidate = b.candidate
WHERE c.kind = 'tokens' AND c.plant = ''
ORDER BY c.rec_id
"""


def judged(con: duckdb.DuckDBPyConnection, host: str, now: datetime) -> list[Entry]:
    """Evidence that the ledger lacks. Nothing is asked of a store without candidates.

    Args:
        host: who says it. now: naive UTC.
    """
    if not con.execute("SELECT 1 FROM ledger_row WHERE kind = 'candidate' AND run_id <> '' LIMIT 1").fetchone():
        return []
    found = con.execute(_JUDGED).fetchall()
    against = _contradictions(con, {(row[1], row[2]) for row in found}) if found else {}
    return [
        _evidence(row, host, now + timedelta(microseconds=number), against.get((row[1], row[2]), []))
        for number, row in enumerate(found)
    ]


def _contradictions(con: duckdb.DuckDBPyConnection, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """By (candidate, run), what the run's record says otherwise than the closure that the run was declared for."""
    told = " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in _RECORDED)  # noqa: S608  constants
    row = con.execute(f"SELECT {told}").fetchone()
    if row is None or not row[0]:
        return {}  # the question costs a third of a second
    bodies = con.execute(
        "SELECT candidate, arg_min(body, seq) FROM ledger_row WHERE kind = 'candidate' AND list_contains(?, candidate) "
        "GROUP BY candidate",
        [sorted({candidate for candidate, _ in pairs})],
    ).fetchall()
    fields = {candidate: json.loads(body)["fields"] for candidate, body in bodies}
    records = con.execute(
        "SELECT run_id, field, coalesce(same_value, value) FROM run_records WHERE list_contains(?, run_id) "
        "AND value <> 'unknown' AND list_contains(?, field)",
        [sorted({run for _, run in pairs}), list(CLOSURE.recorded)],
    ).fetchall()
    found: dict[tuple[str, str], list[str]] = {}
    for candidate, run in pairs:
        for run_id, name, value in records:
            said = fields.get(candidate, {}).get(name, UNKNOWN)
            if run_id == run and said not in (UNKNOWN, fitting(value)) and said.lower() != fitting(value).lower():
                found.setdefault((candidate, run), []).append(f"{name} is {value[:200]}, the closure says {said[:200]}")
    return found


def _evidence(row: Sequence[Any], host: str, now: datetime, against: Sequence[str]) -> Entry:
    comparison, candidate, run_id, step, policy, workload, criterion, label, reason, digest, made_on, *sides = row
    files = [
        artifact(path, size, sha256, made_on)
        for path, size, sha256 in dict.fromkeys((tuple(sides[:3]), tuple(sides[3:])))
        if path and sha256 and size is not None
    ]
    return Entry(
        EVIDENCE + named("evidence", comparison, candidate), "evidence", now, "tic-daemon", host, candidate=candidate,
        run_id=run_id, step=step, policy=policy or "", workload=workload or "", criterion=criterion, label=label,
        reason=reason, target=comparison, manifest_sha256=digest or "", artifacts=canonical(files),
        body=canonical({"contradicts": sorted(against)} if against else {}),
    )  # fmt: skip


def head(con: duckdb.DuckDBPyConnection) -> Link:
    """The last row's place; `Link()` of an empty chain."""
    row = con.execute("SELECT seq, prev_hash, row_hash FROM ledger_row ORDER BY seq DESC LIMIT 1").fetchone()
    return Link(*row) if row else Link()


def of_row(row: Sequence[object]) -> tuple[Entry, Link]:
    """One row of `SELECT {SELECTED}` as a walk takes it."""
    return Entry(*row[: len(NAMES)]), Link(*row[len(NAMES) :])  # type: ignore[arg-type]
