"""`tic-tui status`: the runs as plain text or JSON, for a script, a mail, a screen reader, or where no screen can be.

Everything stands in the views; here it is asked for and written down. Every number has its age, states are a glyph and
a word, no colour is used, and every string from outside is sanitised. The exit code is `check`'s, the gravest of all
runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from tic_daemon.evidence.exit_codes import ExitCode, worst
from tic_daemon.store import histories, plain
from tic_daemon.store.check import check, stale
from tic_daemon.store.reader import Connection, Reader, open_reader
from tic_tui import comparing, coverage, statetext
from tic_tui.glyphs import Glyphs, choose
from tic_tui.plainwatch import FINDING
from tic_tui.sqlcmd import emit
from tic_tui.status_text import Record, text

LACKS_ASKED: Final = 1000
RUNS_SHOWN: Final = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """`text` for eyes, `data` for programs (what --json prints), `code` the exit code."""

    text: str
    data: Record
    code: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.description = "Print how the runs stand. Exit codes: docs/reference/exit-codes.md"
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--state", action="store_true", help="also how each process executes, and where its weights are"
    )
    parser.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="workspace, store directory, .duckdb file, or a daemon's URL",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code. Raises TicError."""
    return show(args.path, as_json=args.json, with_state=args.state)


def show(path: str, *, as_json: bool, with_state: bool = False) -> int:
    """Prints the report of the store at `path`; returns the exit code. Raises TicError."""
    reader = open_reader(path)
    try:
        told = report(reader, glyphs=choose(), with_state=with_state)
    finally:
        reader.close()
    text = plain.to_json(dict(told.data)) if as_json else told.text
    emit([text + "\n"])  # a reader that leaves early (`| head`) changes nothing in how the runs stand
    return told.code


def report(
    reader: Reader, *, now: datetime | None = None, glyphs: Glyphs | None = None, with_state: bool = False
) -> Report:
    """Asks the store and writes the report.

    Args:
        now: aware; ages are counted from it. Default: this machine's clock.
        glyphs: signs of states; default: those that fit the terminal.
        with_state: also how each process executes, and where its weights are.
    """
    moment = now or datetime.now(UTC)
    asked = _Asked(reader)
    runs = asked.rows(
        "SELECT run_id, attempt, state, locked, first_fault_rec_id, first_fault_origin, last_step, last_event_at,"
        " last_observed_at, mismatches, faults, marked FROM runs"
        " ORDER BY last_observed_at DESC NULLS LAST, run_id, attempt DESC",
    )
    sources = asked.rows(
        "SELECT state, count(*) AS sources, max(last_growth_at) AS last_growth_at FROM sources GROUP BY ALL"
    )
    gpus = asked.rows(
        "SELECT host, gpu_index, uuid, name, driver, run_id, origin, path, why, observed_at FROM gpus"
        " ORDER BY host, gpu_index, uuid, path"
    )
    shown = _details(asked, runs[:RUNS_SHOWN])
    if with_state:
        _add_states(asked, shown)
    judged = _judged(reader, runs)
    for run in shown:
        run["exit_code"], run["findings"] = judged[run["run_id"]]
    connection = reader.connection()
    codes = [ExitCode(found) for found, _ in judged.values()] or [ExitCode.NO_EVIDENCE]
    code = worst([*codes, *_of_stores(connection, asked.missing, moment)])
    data = {
        "connection": _connection(connection),
        "missing": sorted(asked.missing),
        "asked_at": moment.astimezone(UTC).replace(tzinfo=None),
        "exit_code": int(code),
        "sources": sources,
        "gpus": gpus,
        "runs": shown,
        "runs_left_out": len(runs) - len(shown),
    }
    return Report(text(data, connection, moment, glyphs or choose()), data, int(code))


# -- asking


class _Asked:
    """A reader, and which of several stores were missing from any answer."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.missing: set[str] = set()

    @property
    def several(self) -> bool:
        return self._reader.connection().kind == "several"

    def rows(self, sql: str, params: Sequence[object] = (), gather: str = "") -> list[dict[str, Any]]:
        result = self._reader.query(sql, params, timeout_s=30.0, gather=gather)
        self.missing.update(result.missing)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


_RECORDS: Final = (
    "SELECT run_id, attempt, count(*) AS mismatches, count(*) FILTER (admissibility = 'admissible') AS admissible,"
    " count(*) FILTER (admissibility = 'suspect') AS suspect,"
    " count(*) FILTER (admissibility = 'locked') AS locked, count(*) FILTER (is_evidence) AS evidence,"
    " max(rec_id) AS newest_rec_id, max(observed_at) AS newest_observed_at, max(store_id) AS newest_store_id"
    " FROM mismatches GROUP BY ALL ORDER BY run_id, attempt"
)
_ADDED: Final = (
    "SELECT run_id, attempt, sum(mismatches)::BIGINT AS mismatches, sum(admissible)::BIGINT AS admissible,"
    " sum(suspect)::BIGINT AS suspect, sum(locked)::BIGINT AS locked, sum(evidence)::BIGINT AS evidence,"
    " arg_max(newest_rec_id, (newest_observed_at, newest_store_id, newest_rec_id)) AS newest_rec_id,"
    " max(newest_observed_at) AS newest_observed_at,"
    " arg_max(newest_store_id, (newest_observed_at, newest_store_id, newest_rec_id)) AS newest_store_id"
    " FROM part GROUP BY ALL ORDER BY run_id, attempt"
)
_NEWEST: Final = (
    "SELECT store_id, rec_id, step, rank, phase, metric, value, noise_ratio, classification, admissibility,"
    " is_evidence, not_evidence_because, path, line_no, event_at, observed_at FROM mismatches WHERE rec_id IN"
)
_FAULTS: Final = (
    "SELECT run_id, attempt, last_attempt, store_id, rec_id, severity, kind, verdict, rank, pid, host, code, step,"
    " text, path, line_no, byte_offset, event_at, observed_at FROM faults WHERE rec_id IN"
)
_KINDS: Final = (
    "SELECT run_id, attempt, last_attempt, severity, kind, verdict, count(*) AS faults,"
    " max(observed_at) AS last_observed_at, min(observed_at) AS first_observed_at, min(rec_id) AS first_rec_id"
    " FROM faults WHERE echo_of IS NULL GROUP BY ALL ORDER BY first_observed_at, first_rec_id"
)


def _details(asked: _Asked, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `runs`, which show the latest attempt, with what the other views say. Each view is asked once."""
    if not runs:
        return []
    records = asked.rows(_RECORDS, gather=_ADDED)
    locks = asked.rows("SELECT run_id, attempt, after_fault, order_unknown, would_help FROM locks")
    first = [run["first_fault_rec_id"] for run in runs if run["first_fault_rec_id"] is not None]
    faults = asked.rows(f"{_FAULTS} {_places(first)}", first) if first else []
    kinds = asked.rows(_KINDS)
    steps = asked.rows("SELECT run_id, attempt, max(first_observed_at) AS seen_at FROM steps GROUP BY ALL")
    gaps = asked.rows(
        "SELECT run_id, kind, path, first_byte, last_byte, detail, host, observed_at FROM evidence_gaps"
        " ORDER BY observed_at DESC"
    )
    told_of = asked.rows(f"SELECT {histories.HISTORIES} FROM wandb_runs ORDER BY run_id, wandb_id")  # noqa: S608
    lacks = asked.rows(
        f"SELECT {histories.GAPS} FROM wandb_gaps {histories.ORDER} LIMIT {LACKS_ASKED}",  # noqa: S608
        gather=histories.GATHERED,
    )
    held = asked.rows("SELECT run_id, state, count(*)::BIGINT AS artifacts FROM artifacts GROUP BY ALL")
    compared, last_compared = asked.rows(comparing.COUNTS), asked.rows(comparing.NEWEST)
    queue = asked.rows(f"SELECT {comparing.QUEUE} FROM comparison_queue ORDER BY state, step NULLS LAST, side_a")  # noqa: S608
    marks = asked.rows(
        "SELECT run_id, attempt, scope, target, verdict, reason, who, marked_at, retracted FROM marks"
        " ORDER BY marked_at DESC"
    )
    alive = asked.rows("SELECT run_id, verdict, why FROM liveness")
    ranks = asked.rows(coverage.RANKS, gather=coverage.GATHERED)
    wrong = asked.rows(f"SELECT {FINDING} FROM lifecycle_findings ORDER BY observed_at DESC, finding_id")  # noqa: S608
    top = {
        name: max(rows, key=lambda row: (row["newest_observed_at"], row["newest_store_id"], row["newest_rec_id"]))
        for name, rows in _by_run(records).items()
    }
    ids = [row["newest_rec_id"] for row in top.values()]
    found = asked.rows(f"{_NEWEST} {_places(ids)}", ids, "SELECT * FROM part") if ids else []
    newest = {(row["store_id"], row["rec_id"]): row for row in found}
    told = []
    for run in runs:
        name, attempt = run["run_id"], run["attempt"]
        best = top.get(name)
        told.append(
            {
                **run,
                "attempts": [_without(row, "run_id") for row in _by_run(records).get(name, [])],
                "lock": _first(_without(row, "run_id", "attempt") for row in locks if _of(row, name, attempt)),
                "first_fault": _first(
                    _without(row, "run_id", "attempt", "last_attempt")
                    for row in faults
                    if _acts(row, name, attempt)
                    and row["rec_id"] == run["first_fault_rec_id"]
                    # Of one store all numbers are its own, also those of what others told it.
                    and (not asked.several or row["store_id"] == run["first_fault_origin"])
                ),
                "newest_mismatch": best and newest.get((best["newest_store_id"], best["newest_rec_id"])),
                "last_step_seen_at": _first(row["seen_at"] for row in steps if _of(row, name, attempt)),
                "fault_kinds": _added([row for row in kinds if _acts(row, name, attempt)]),
                "ranks": coverage.of_run(ranks, name),
                "lifecycle_findings": [_without(row, "run_id") for row in wrong if row["run_id"] == name],
                "liveness": _first(_without(row, "run_id") for row in alive if row["run_id"] == name),
                "gaps": [_without(row, "run_id") for row in gaps if row["run_id"] == name],
                "wandb": [_without(row, "run_id") for row in told_of if row["run_id"] == name],
                "wandb_gaps": [_without(row, "run_id") for row in lacks if row["run_id"] == name],
                "artifacts": {row["state"]: row["artifacts"] for row in held if row["run_id"] == name},
                "comparisons": [_without(row, "run_id") for row in compared if row["run_id"] == name],
                "newest_comparison": _first(_without(row, "run_id") for row in last_compared if row["run_id"] == name),
                "comparison_queue": [_without(row, "run_id") for row in queue if row["run_id"] == name],
                "marks": [
                    _without(row, "run_id", "attempt")
                    for row in marks
                    if row["run_id"] == name and row["attempt"] in (None, attempt)
                ],
            }
        )
    return told


def _add_states(asked: _Asked, shown: list[dict[str, Any]]) -> None:
    """The state in force and the newest phases of the weights, of every process."""
    states = _by_run(asked.rows(statetext.STATES, gather=statetext.PART))
    weights = _by_run(asked.rows(statetext.WEIGHTS, gather=statetext.PART))
    for run in shown:
        run["exec_state"] = [_without(row, "run_id") for row in states.get(run["run_id"], [])]
        run["weights"] = [_without(row, "run_id") for row in weights.get(run["run_id"], [])]


def _places(values: Sequence[object]) -> str:
    return "(" + ", ".join("?" for _ in values) + ")"


def _by_run(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run_id"], []).append(row)
    return found


def _of(row: Record, run_id: str, attempt: int) -> bool:
    return bool(row["run_id"] == run_id and row["attempt"] == attempt)


def _acts(row: Record, run_id: str, attempt: int) -> bool:
    return bool(row["run_id"] == run_id and row["attempt"] <= attempt <= row["last_attempt"])


def _without(row: Record, *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _first(values: Iterable[T]) -> T | None:
    return next(iter(values), None)


def _added(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a kind and verdict, in the order in which they came first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["severity"], row["kind"], row["verdict"])
        one = found.setdefault(key, {**dict(zip(("severity", "kind", "verdict"), key, strict=True)), "faults": 0})
        one["faults"] += row["faults"]
        one["last_observed_at"] = max(one.get("last_observed_at", row["last_observed_at"]), row["last_observed_at"])
    return list(found.values())


def _judged(reader: Reader, runs: list[dict[str, Any]]) -> dict[str, tuple[int, list[str]]]:
    """What `tic-daemon check` says of each run."""
    return {run_id: check(reader, run_id) for run_id in {run["run_id"] for run in runs}}


def _connection(connection: Connection) -> dict[str, Any]:
    """As JSON has it; `stores` only if they are several."""
    told: dict[str, Any] = {
        "kind": connection.kind,
        "state": connection.state,
        "target": connection.target,
        "since": connection.since,
        "detail": connection.detail,
        "data_at": connection.data_at,
        "hint": connection.hint,
    }
    if connection.stores:
        told["stores"] = [_connection(store) for store in connection.stores]
    return told


def _of_stores(connection: Connection, missing: set[str], now: datetime) -> list[ExitCode]:
    """A store that is missing or old is a finding, also where no run shows it."""
    old = any(stale(store, now) for store in connection.stores or (connection,))
    return [ExitCode.NO_EVIDENCE] if missing or old else []
