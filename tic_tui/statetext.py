"""The execution state and the weights of processes in words: `tic-tui status --state` and `watch --plain --state`.

    rollout pid 31361 worker_raw.log: graph_mode NONE (claimed NONE), prefix_hit_rate 0.0
    rollout pid 32354 worker_raw.log: reloaded; policy: KV kept

What was observed stands first; what a configuration claims is said where it differs, or where nothing was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from tic_tui.lanes import phase_words
from tic_tui.safe import safe

Record = Mapping[str, Any]

STATES: Final = (
    "SELECT run_id, attempt, role, rank, host, pid, path, proc, field, claimed, observed, observed_at"
    " FROM exec_state_now"
)
_AT: Final = "(generation, byte_offset, rec_id)"
WEIGHTS: Final = (
    "SELECT run_id, max(attempt) AS attempt, role, rank, host, pid, path, track,"  # noqa: S608
    f" arg_max(phase, {_AT}) AS phase, arg_max(coalesce(level, ''), {_AT}) AS level,"
    f" arg_max(coalesce(version, ''), {_AT}) AS version, bool_or(keeps_kv) AS keeps_kv, max(observed_at) AS observed_at"
    " FROM weight_lifecycle GROUP BY run_id, role, rank, host, pid, path, track"
)
CHANGES: Final = (
    "SELECT run_id, attempt, role, rank, host, pid, path, line_no, track, phase, level, version, finding, keeps_kv,"
    " generation, byte_offset, event_at, observed_at FROM weight_lifecycle"
)
PART: Final = "SELECT * FROM part"
_UNKNOWN: Final = (None, "", "unknown")
_WHO: Final = ("role", "rank", "host", "pid", "path")
_PREFIX: Final = {"residency": "", "version": "", "cache": "cache ", "graph": "graph "}


def who(row: Record) -> str:
    """rollout pid 31361 worker_raw.log; a rank goes before a pid."""
    name = (
        f"rank {row['rank']}" if row["rank"] is not None else f"pid {'unknown' if row['pid'] is None else row['pid']}"
    )
    return f"{row['role'] or 'unknown'} {name} {PurePosixPath(row['path'] or 'unknown').name}"


def field(row: Record) -> str:
    """One field: graph_mode FULL (claimed NONE); prefix_cache claimed on, not observed."""
    observed, claimed = row["observed"], row["claimed"]
    if observed in _UNKNOWN:
        return f"{row['field']} claimed {claimed}, not observed" if claimed else f"{row['field']} unknown"
    return f"{row['field']} {observed}" + (f" (claimed {claimed})" if claimed not in (None, "", observed) else "")


def phase(row: Record) -> str:
    """reloaded v12, cache reset, graph captured."""
    track = str(row["track"])
    return _PREFIX.get(track, f"{track} ") + phase_words(track, str(row["phase"]), row["level"], row["version"])


def processes(rows: Iterable[Record]) -> list[list[Record]]:
    """The rows of each process together, rollout first, then trainer."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in _WHO), []).append(row)
    order = {"rollout": 0, "trainer": 1}
    return [found[key] for key in sorted(found, key=lambda key: (order.get(key[0], 2), *map(str, key)))]


def states_of(rows: Sequence[Record]) -> str:
    """What one process told of its state: what was observed, then what is only claimed."""
    seen: dict[str, list[str]] = {}
    claims: dict[str, list[str]] = {}
    for row in rows:
        into, value = (claims, row["claimed"]) if row["observed"] in _UNKNOWN else (seen, row["observed"])
        if value and value not in into.setdefault(str(row["field"]), []):
            into[str(row["field"])].append(value)
    others = {str(row["field"]): row["claimed"] for row in rows if row["claimed"] and row["observed"] not in _UNKNOWN}
    said = []
    for name, values in sorted(seen.items()):
        claimed = others.get(name)
        text = f"{name} {' and '.join(values)}"
        said.append(text if claimed is None or claimed in values else f"{text} (claimed {claimed})")
    only = [f"{name} {' and '.join(values)}" for name, values in sorted(claims.items()) if values and name not in seen]
    parts = [", ".join(said), f"only claimed: {', '.join(only)}" if only else ""]
    return safe(f"{who(rows[0])}: " + ("; ".join(part for part in parts if part) or "nothing known"))


def weights_of(rows: Sequence[Record]) -> str:
    """Where the weights of one process are."""
    ordered = sorted(
        rows, key=lambda row: list(_PREFIX).index(row["track"]) if row["track"] in _PREFIX else len(_PREFIX)
    )
    kept = "; policy: KV kept" if any(row["keeps_kv"] for row in rows) else ""
    return safe(f"{who(rows[0])}: " + ", ".join(phase(row) for row in ordered) + kept)
