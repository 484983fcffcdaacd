"""Rows of the ledger that follow from what was seen of a run, without a comparison.

    contradictions   the run's record, or a shard that its receipts name, says otherwise than the closure: none of the
                     run's evidence passes from then on. One row a field and value
    exits            cell acceptance/clean_exit: the exit code that an attempt's processes told
    images           cell acceptance/final_image: image, installed source and native build as workers show them

What a fault or a mark does to them is worked out when they are read, as of all evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.ledger.canon import named
from tic_daemon.ledger.closure import NAMES, UNKNOWN, fitting
from tic_daemon.ledger.entries import EVIDENCE, Entry
from tic_daemon.store.ledger import BOUND

if TYPE_CHECKING:
    import duckdb

TABLES: Final = frozenset({"config_value", "exec_state", "env_pin", "env_seen", "transport", "wandb_run", "gpu_info"})
"""Tables that a run's record is made of, but those of logs and manifests, which tell no field of a closure."""
_TOLD: Final = "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in sorted(TABLES))  # noqa: S608
_BOUND: Final = f"""
SELECT b.run_id, b.candidate, f.body FROM ({BOUND}) b
JOIN (SELECT candidate, arg_min(body, seq) AS body FROM ledger_row WHERE kind = 'candidate' GROUP BY candidate) f
    ON f.candidate = b.candidate ORDER BY b.run_id
"""  # noqa: S608  ours
_RECORD: Final = """
SELECT run_id, field, coalesce(same_value, value), worker IS NOT NULL FROM run_records
WHERE list_contains(?, run_id) AND value <> 'unknown' AND list_contains(?, field)
"""
_OVERLAYS: Final = r"""
SELECT run_id, lower(trim(value)), side = 'worker' FROM config_values
WHERE list_contains(?, run_id) AND NOT secret AND regexp_matches(name, '(^|\.)overlay(_sha256|_hash|\.sha256)?$')
"""
_NO_OVERLAY: Final = ("none", "null", "false", "no", "")
_IMAGES: Final = (("image.digest",), ("trainer.image", "rollout.image"))
"""Either of them shows the image."""
_BUILT: Final = ("code.commit", "native.sha256")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A run, its candidate, and the closure's fields."""

    run: str
    candidate: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Value:
    """What a run's record says of a field, and whether a worker says it."""

    text: str
    by_worker: bool


def entries(con: duckdb.DuckDBPyConnection, host: str, now: datetime) -> list[Entry]:
    """All rows that follow now, with ids that stay: what the ledger has of them already is left out when they are
    taken in."""
    bound = [
        _Bound(run, candidate, json.loads(body)["fields"]) for run, candidate, body in con.execute(_BOUND).fetchall()
    ]
    records = _records(con, [one.run for one in bound])
    found = _contradictions(con, bound, records, host, now)
    found += _exits(con, {one.run: one.candidate for one in bound}, host, now)
    overlays = _overlays(con, [one.run for one in bound]) if records else {}
    for one in bound:
        found += _image(one, records.get(one.run, {}), overlays.get(one.run, UNKNOWN), host, now)
    return found


def _records(con: duckdb.DuckDBPyConnection, runs: list[str]) -> dict[str, dict[str, _Value]]:
    row = con.execute(_TOLD).fetchone()
    if row is None or not row[0]:
        return {}  # the question costs a third of a second
    found: dict[str, dict[str, _Value]] = {}
    for run, field, value, by_worker in con.execute(_RECORD, [runs, list(NAMES.recorded)]).fetchall():
        found.setdefault(run, {})[field] = _Value(value, by_worker)
    return found


def _overlays(con: duckdb.DuckDBPyConnection, runs: list[str]) -> dict[str, str]:
    """The overlay that anybody names, else "" where a worker says that there is none."""
    found: dict[str, str] = {}
    for run, value, by_worker in con.execute(_OVERLAYS, [runs]).fetchall():
        if value not in _NO_OVERLAY:
            found[run] = value
        elif by_worker:
            found.setdefault(run, "")
    return found


def _contradictions(
    con: duckdb.DuckDBPyConnection,
    bound: list[_Bound],
    records: Mapping[str, Mapping[str, _Value]],
    host: str,
    now: datetime,
) -> list[Entry]:
    shards: dict[str, list[str]] = {}
    if records:
        asked = (
            "SELECT run_id, shard, path, why FROM receipt_shards WHERE state = 'differs' AND list_contains(?, run_id)"
        )
        for run, shard, path, why in con.execute(asked, [[one.run for one in bound]]).fetchall():
            shards.setdefault(run, []).append(f"shard {shard} of {path}: {why}")
    found = []
    for one in bound:
        for name, value in sorted(records.get(one.run, {}).items()):
            said = one.fields.get(name, UNKNOWN)
            if said != UNKNOWN and not _same(said, value.text):
                found.append((one, name, f"{name} is {value.text[:200]}, the closure says {said[:200]}"))
        found += [(one, "shard", why[:1000]) for why in sorted(shards.get(one.run, ()))]
    return [
        Entry(
            EVIDENCE + named("contradiction", one.candidate, one.run, why), "contradiction", now, "tic-daemon", host,
            candidate=one.candidate, run_id=one.run, reason=why, target=what,
        )
        for one, what, why in found
    ]  # fmt: skip


def _same(said: str, recorded: str) -> bool:
    return said == fitting(recorded) or said.lower() == fitting(recorded).lower()


def _exits(con: duckdb.DuckDBPyConnection, candidates: Mapping[str, str], host: str, now: datetime) -> list[Entry]:
    rows = con.execute("SELECT run_id, attempt, exit_code FROM i_wandb_exit ORDER BY run_id, attempt").fetchall()
    return [
        _seen(
            "clean_exit", candidates[run], run, host, now, "PASS" if code == 0 else "FAIL",
            f"attempt {attempt} ended with exit code {code}", attempt,
        )
        for run, attempt, code in rows
        if run in candidates
    ]  # fmt: skip


def _image(one: _Bound, record: Mapping[str, _Value], overlay: str, host: str, now: datetime) -> list[Entry]:
    """Passes only if workers show image, source and native build, with no overlay, and the closure has each of them.
    What they show otherwise is a contradiction. Where no worker shows an image there is nothing to say."""
    shown = {
        name for name, value in record.items() if value.by_worker and _same(one.fields.get(name, UNKNOWN), value.text)
    }
    if not any(set(names) & shown for names in _IMAGES):
        return []
    lacking = [] if any(set(names) <= shown for names in _IMAGES) else [f"{_IMAGES[1][0]} and {_IMAGES[1][1]}"]
    lacking += [name for name in _BUILT if name not in shown]
    if overlay == UNKNOWN:
        lacking.append("overlay")
    if overlay not in ("", UNKNOWN):
        label, why = "", f"an overlay is not the final image: {overlay[:200]}"
    elif lacking:
        label, why = "", f"no worker shows that these are the closure's: {', '.join(lacking)}"
    else:
        label, why = "PASS", "image, source and native build of the workers are the closure's, without an overlay"
    return [_seen("final_image", one.candidate, one.run, host, now, label, why)]


def _seen(
    cell: str, candidate: str, run: str, host: str, now: datetime, label: str, why: str, attempt: int | None = None
) -> Entry:
    told: dict[str, Any] = {"label": label, "reason": why, "attempt": attempt}
    return Entry(
        EVIDENCE + named(cell, candidate, run, str(attempt), label, why), "evidence", now, "tic-daemon", host,
        candidate=candidate, run_id=run, gate="acceptance", cell=cell, target=f"{cell}:{run}", **told,
    )  # fmt: skip
