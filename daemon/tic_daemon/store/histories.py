"""How the W&B histories of a run stand, in words that `check`, `status`, `tic-daemon wandb` and the screen share.

    HISTORIES, GAPS      what is asked of the public views
    gap(row)             a difference as one line: where, which steps, why
    standing(row, ago)   a history as one line: how many steps where, the uploader, the last reading
    told(reader, path)   both for a run at W&B, with what each source covers

Text from outside is not made harmless here: who prints it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

TIMEOUT_S: Final = 60.0
SHOWN: Final = 200
HISTORIES: Final = (
    "run_id, attempt, wandb_id, run_path, mode, state, step_key, local_steps, server_steps, last_step, uploader,"
    " uploader_at, uploader_status, acknowledged_lines, dropped, read_outcome, read_at, read_ok_at, reads, gaps,"
    " findings, project_note, observed_at"
)
GAPS: Final = (
    "run_id, attempt, wandb_id, kind, source, other, first_step, last_step, steps, axis, key, cause, detail, evidence,"
    " confirmed_reads, confirmed, first_seen_at"
)
ORDER: Final = "ORDER BY confirmed DESC, first_step NULLS LAST, source, key NULLS FIRST"
GATHERED: Final = f"SELECT DISTINCT * FROM part {ORDER}"  # noqa: S608  constants
"""Several stores may have seen the same."""
PLACES: Final[Mapping[str, str]] = {
    "wandb_local": "local log", "wandb_api": "server", "console": "console", "file": "log file",
}  # fmt: skip
KINDS: Final[Mapping[str, str]] = {
    "value_differs": "value differs", "out_of_order": "out of order", "not_synced": "not synced",
    "not_compared": "not compared",
}  # fmt: skip
Row = Mapping[str, Any]


def place(source: str) -> str:
    """A source as people call it."""
    return PLACES.get(source, source)


def kind(name: str) -> str:
    """A kind of gap in words."""
    return KINDS.get(name, name)


def steps(row: Row) -> str:
    """Which steps: "step 7", "steps 40-59", "from step 8 on", "steps unknown"."""
    first, last = row["first_step"], row["last_step"]
    if first is None:
        return "steps unknown"
    if last is None:
        return f"from step {first} on"
    return f"step {first}" if first == last else f"steps {first}-{last}"


def gap(row: Row) -> str:
    """A gap as one line."""
    key = f" {row['key']}" if row["key"] else ""
    return f"{kind(row['kind'])} {place(row['source'])}, {steps(row)}{key}: {row['detail']}"


def uploader(row: Row, ago: Callable[[datetime | None], str]) -> str:
    """What the client's own log told of its uploads last; "" if nothing."""
    if not row["uploader"]:
        return ""
    status = f" with status {row['uploader_status']}" if row["uploader_status"] else ""
    return f"uploader {row['uploader']}{status} {ago(row['uploader_at'])}"


def reading(row: Row, ago: Callable[[datetime | None], str]) -> str:
    """How the last reading through the API came out; "" if there was none."""
    if not row["read_outcome"]:
        return ""
    words = "no account" if row["read_outcome"] == "no_account" else row["read_outcome"]
    ok = "" if row["read_outcome"] == "ok" or row["read_ok_at"] is None else f", last well {ago(row['read_ok_at'])}"
    return f"read {words} {ago(row['read_at'])}{ok}"


def standing(row: Row, ago: Callable[[datetime | None], str]) -> str:
    """A history as one line."""
    words = [f"{row['run_path'] or row['wandb_id']} {row['mode']} {row['state']}".replace("  ", " ").strip()]
    if row["local_steps"] is not None:
        asked = row["server_steps"] or row["read_ok_at"] is not None
        served = f"{row['server_steps']} on the server" if asked else "the server's not known"
        words.append(f"steps: {row['local_steps']} in local logs, {served}")
    words += [text for text in (uploader(row, ago), reading(row, ago)) if text]
    if row["dropped"]:
        words.append(f"{row['dropped']} {'call' if row['dropped'] == 1 else 'calls'} of log dropped by the client")
    if row["project_note"]:
        words.append(row["project_note"])
    return "; ".join(words)


def told(reader: Reader, wandb_path: str, ago: Callable[[datetime | None], str]) -> tuple[list[str], dict[str, Any]]:
    """What the store knows of a run at W&B (its path or id there, or its name here): lines, and the same as data.

    Raises:
        StoreError, ConnectError, SqlError: the store cannot be asked.
    """
    name = wandb_path.rsplit("/", 1)[-1]
    histories = _rows(
        reader,
        f"SELECT {HISTORIES} FROM wandb_runs WHERE run_path = ? OR wandb_id = ? OR run_id = ?",  # noqa: S608
        (wandb_path, name, name),
    )
    runs = sorted({(row["run_id"], row["wandb_id"]) for row in histories})
    gaps: list[dict[str, Any]] = []
    coverage: list[dict[str, Any]] = []
    for run_id, wandb_id in runs:
        gaps += _rows(
            reader,
            f"SELECT {GAPS} FROM wandb_gaps WHERE run_id = ? AND wandb_id IN (?, '') {ORDER} LIMIT {SHOWN + 1}",  # noqa: S608
            (run_id, wandb_id),
        )
        coverage += _rows(
            reader,
            "SELECT run_id, source, state, count(*) AS steps, min(step) AS first_step, max(step) AS last_step"
            " FROM step_coverage WHERE run_id = ? AND main GROUP BY ALL ORDER BY ALL",
            (run_id,),
        )
    lines = [standing(row, ago) for row in histories] or ["the store knows of no such run at W&B"]
    lines += [f"  {place(row['source'])}: {row['steps']} {kind(row['state'])}, {steps(row)}" for row in coverage]
    lines += [f"  {gap(row)}" for row in gaps[:SHOWN]]
    if len(gaps) > SHOWN:
        lines.append("  and more: ask view wandb_gaps")
    return lines, {"histories": histories, "coverage": coverage, "gaps": gaps}


def _rows(reader: Reader, sql: str, params: tuple[object, ...]) -> list[dict[str, Any]]:
    result = reader.query(sql, params, timeout_s=TIMEOUT_S, gather="SELECT DISTINCT * FROM part")
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]
