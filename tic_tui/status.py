"""`tic-tui status`: the runs as plain text or JSON, for a script, a mail, a screen reader, or where no screen can be.

Everything stands in the views; here it is asked for and written down. Every number has its age, states are a glyph and
a word, no colour is used, and every string from outside is sanitised. The exit code is `check`'s, the gravest of all
runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.evidence.exit_codes import WORDS, ExitCode, worst
from tic_daemon.store import plain
from tic_daemon.store.reader import Connection, Reader, open_reader
from tic_tui.age import age, day_and_clock
from tic_tui.glyphs import Glyphs, choose
from tic_tui.safe import safe, safe_lines

GAPS_SHOWN: Final = 5
MARKS_SHOWN: Final = 5
RUNS_SHOWN: Final = 50

Record = Mapping[str, Any]


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
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="workspace, store directory, .duckdb file, or a daemon's URL",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code. Raises TicError."""
    return show(args.path, as_json=args.json)


def show(path: str, *, as_json: bool) -> int:
    """Prints the report of the store at `path`; returns the exit code. Raises TicError."""
    reader = open_reader(path)
    try:
        told = report(reader, glyphs=choose())
    finally:
        reader.close()
    text = plain.to_json(dict(told.data)) if as_json else told.text
    sys.stdout.buffer.write((text + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
    return told.code


def report(reader: Reader, *, now: datetime | None = None, glyphs: Glyphs | None = None) -> Report:
    """Asks the store and writes the report.

    Args:
        now: aware; ages are counted from it. Default: this machine's clock.
        glyphs: signs of states; default: those that fit the terminal.
    """
    moment = now or datetime.now(UTC)
    runs = _ask(
        reader,
        "SELECT run_id, attempt, state, locked, first_fault_rec_id, last_step, last_event_at, last_observed_at,"
        " mismatches, faults, marked FROM runs ORDER BY last_observed_at DESC NULLS LAST, run_id, attempt DESC",
    )
    attempts = _ask(
        reader,
        "SELECT run_id, attempt, count(*) AS mismatches, count(*) FILTER (admissibility = 'admissible') AS admissible,"
        " count(*) FILTER (admissibility = 'suspect') AS suspect,"
        " count(*) FILTER (admissibility = 'locked') AS locked, count(*) FILTER (is_evidence) AS evidence,"
        " max(rec_id) AS newest_rec_id, max(observed_at) AS newest_observed_at"
        " FROM mismatches GROUP BY ALL ORDER BY ALL",
    )
    sources = _ask(
        reader, "SELECT state, count(*) AS sources, max(last_growth_at) AS last_growth_at FROM sources GROUP BY ALL"
    )
    shown = [_run(reader, run, [a for a in attempts if a["run_id"] == run["run_id"]]) for run in runs[:RUNS_SHOWN]]
    judged = _judged(reader, runs)
    for run in shown:
        run["exit_code"], run["findings"] = judged[run["run_id"]]
    code = int(worst(found for found, _ in judged.values())) if judged else int(ExitCode.NO_EVIDENCE)
    connection = reader.connection()
    data = {
        "connection": {
            "kind": connection.kind,
            "state": connection.state,
            "target": connection.target,
            "since": connection.since,
            "detail": connection.detail,
        },
        "asked_at": moment.astimezone(UTC).replace(tzinfo=None),
        "exit_code": code,
        "sources": sources,
        "runs": shown,
        "runs_left_out": len(runs) - len(shown),
    }
    return Report(_text(data, connection, moment, glyphs or choose()), data, code)


# -- asking


def _ask(reader: Reader, sql: str, params: Sequence[object] = ()) -> list[dict[str, Any]]:
    result = reader.query(sql, params, timeout_s=30.0)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def _run(reader: Reader, run: dict[str, Any], attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of `runs`, which shows the latest attempt, with what the other views say of it."""
    here = (run["run_id"], run["attempt"])
    found = dict(run)
    found["attempts"] = [{name: value for name, value in row.items() if name != "run_id"} for row in attempts]
    found["lock"] = _one(
        reader,
        "SELECT after_fault, order_unknown, would_help FROM locks WHERE run_id = ? AND attempt = ?",
        here,
    )
    found["first_fault"] = _one(
        reader,
        "SELECT rec_id, severity, kind, verdict, rank, pid, host, code, step, text, path, line_no, byte_offset,"
        " event_at, observed_at FROM faults WHERE run_id = ? AND ? BETWEEN attempt AND last_attempt AND rec_id = ?",
        (*here, run["first_fault_rec_id"]),
    )
    found["newest_mismatch"] = _one(
        reader,
        "SELECT rec_id, step, rank, phase, metric, value, noise_ratio, classification, admissibility, is_evidence,"
        " not_evidence_because, path, line_no, event_at, observed_at FROM mismatches WHERE rec_id = ?",
        (max((row["newest_rec_id"] for row in attempts), default=None),),
    )
    found["last_step_seen_at"] = (
        _one(reader, "SELECT max(first_observed_at) AS at FROM steps WHERE run_id = ? AND attempt = ?", here) or {}
    ).get("at")
    found["fault_kinds"] = _ask(
        reader,
        "SELECT severity, kind, verdict, count(*) AS faults, max(observed_at) AS last_observed_at FROM faults"
        " WHERE run_id = ? AND ? BETWEEN attempt AND last_attempt AND echo_of IS NULL"
        " GROUP BY ALL ORDER BY min(rec_id)",
        here,
    )
    found["gaps"] = _ask(
        reader,
        "SELECT kind, path, first_byte, last_byte, detail, host, observed_at FROM evidence_gaps WHERE run_id = ?"
        " ORDER BY observed_at DESC",
        (run["run_id"],),
    )
    found["marks"] = _ask(
        reader,
        "SELECT scope, target, verdict, reason, who, marked_at, retracted FROM marks"
        " WHERE run_id = ? AND (attempt = ? OR attempt IS NULL) ORDER BY marked_at DESC",
        here,
    )
    return found


def _one(reader: Reader, sql: str, params: Sequence[object]) -> dict[str, Any] | None:
    if any(value is None for value in params):
        return None
    rows = _ask(reader, sql, params)
    return rows[0] if rows else None


def _judged(reader: Reader, runs: list[dict[str, Any]]) -> dict[str, tuple[int, list[str]]]:
    """What `tic-daemon check` says of each run."""
    from tic_daemon.store.check import check  # noqa: PLC0415 -- only this needs it

    return {run_id: check(reader, run_id) for run_id in {run["run_id"] for run in runs}}


# -- writing


def _text(data: Record, connection: Connection, now: datetime, glyphs: Glyphs) -> str:
    lines = [f"{connection.kind}  {safe(connection.target)}  {connection.state} {age(connection.since, now)}"]
    if connection.detail:
        lines[0] += f"  {safe(connection.detail)}"
    lines.append(_sources(data["sources"], now))
    if not data["runs"]:
        lines += ["", "no run yet: no log has shown a record, a step or a fault"]
    for run in data["runs"]:
        lines += ["", *_run_lines(run, now, glyphs)]
    if data["runs_left_out"]:
        lines += ["", f"and {data['runs_left_out']} more, read longer ago"]
    return "\n".join(lines)


def _sources(rows: list[dict[str, Any]], now: datetime) -> str:
    if not rows:
        return "sources  none watched"
    grew = max((row["last_growth_at"] for row in rows if row["last_growth_at"]), default=None)
    words = ", ".join(f"{row['sources']} {safe(row['state'])}" for row in sorted(rows, key=lambda r: str(r["state"])))
    return f"sources  {words}; last growth {_ago(grew, now)}"


def _run_lines(run: Record, now: datetime, glyphs: Glyphs) -> list[str]:
    standing = "locked" if run["locked"] else "not locked"
    sign = glyphs.locked if run["locked"] else glyphs.admissible
    lines = [
        f"run {safe(run['run_id'])}  attempt {run['attempt']}  {sign} {standing}  {glyphs.state(run['state'])}"
        f" {safe(run['state'])}{f'  {glyphs.mark} marked' if run['marked'] else ''}"
        f"  last read {_ago(run['last_observed_at'], now)}"
    ]
    lines.append(_field("check", f"{run['exit_code']}, {WORDS[ExitCode(run['exit_code'])]}"))
    # The other codes are told by the lines below; why nothing counts is told here.
    nothing = f"{int(ExitCode.NO_EVIDENCE)}: "
    lines += [_field("", safe(text.removeprefix(nothing))) for text in run["findings"] if text.startswith(nothing)]
    fault = run["first_fault"]
    if fault is not None:
        lines += _fault_card(fault, now)
    for row in reversed(run["attempts"]):
        lines.append(_field("records", _records(run, row, now)))
    if not run["attempts"]:
        lines.append(_field("records", "no mismatch record"))
    if run["lock"] is not None and run["lock"]["would_help"]:
        lines.append(_field("", f"would tell the order: {safe(run['lock']['would_help'])}"))
    step = "unknown" if run["last_step"] is None else f"{run['last_step']}, {_ago(run['last_step_seen_at'], now)}"
    lines.append(_field("last step", step))
    lines.append(_field("newest", _mismatch(run["newest_mismatch"], now)))
    lines += _faults(run, now)
    lines += _listed("gaps", [_gap(gap, now) for gap in run["gaps"]], GAPS_SHOWN)
    lines += _listed("marks", [_mark(mark, now) for mark in run["marks"]], MARKS_SHOWN)
    return lines


def _records(run: Record, row: Record, now: datetime) -> str:
    text = (
        f"attempt {row['attempt']}: {row['mismatches']} mismatch records: {row['admissible']} admissible,"
        f" {row['suspect']} suspect, {row['locked']} locked"
    )
    lock = run["lock"]
    if lock is not None and row["attempt"] == run["attempt"] and row["locked"]:
        text += f" ({lock['after_fault']} after the fault, {lock['order_unknown']} order unknown)"
    return f"{text}; {row['evidence']} evidence; {_ago(row['newest_observed_at'], now)}"


def _field(name: str, text: str) -> str:
    return f"  {name:<12}{text}"


def _listed(name: str, entries: list[str], most: int) -> list[str]:
    if not entries:
        return [_field(name, "none seen")]
    lines = [_field(name if i == 0 else "", entry) for i, entry in enumerate(entries[:most])]
    if len(entries) > most:
        lines.append(_field("", f"and {len(entries) - most} more"))
    return lines


def _fault_card(fault: Record, now: datetime) -> list[str]:
    who = ", ".join(
        f"{word} {safe(fault[key])}"
        for word, key in (("rank", "rank"), ("pid", "pid"), ("host", "host"), ("code", "code"), ("step", "step"))
        if fault[key] not in (None, "")
    )
    head = f"{safe(fault['kind'])} [{safe(fault['severity'] or 'unknown severity')}] {safe(fault['verdict'])}"
    # Its own stamp says when it happened, if it had one; else all that is known is when the line was read.
    when = f"at {day_and_clock(fault['event_at'])}" if fault["event_at"] else "at an unknown time"
    lines = [
        _field("first fault", f"{head}; {who or 'process unknown'}"),
        _field(
            "", f"{when}, read {_ago(fault['observed_at'], now)}; {safe(fault['path'] or 'unknown')}:{fault['line_no']}"
        ),
    ]
    lines += [_field("", f"| {line}") for line in safe_lines(str(fault["text"] or ""))[:4]]
    return lines


def _mismatch(record: Record | None, now: datetime) -> str:
    if record is None:
        return "none"
    value = "no value" if record["value"] is None else plain.cell(record["value"])
    ratio = "" if record["noise_ratio"] is None else f" ({record['noise_ratio']:.3g} x noise)"
    standing = safe(record["admissibility"])
    if record["is_evidence"]:
        standing = safe(f"{standing}, evidence")
    elif record["not_evidence_because"]:
        standing = safe(f"{standing}, not evidence: {record['not_evidence_because']}")
    step = "unknown" if record["step"] is None else record["step"]
    rank = safe(record["rank"] if record["rank"] not in (None, "") else "unknown")
    return (
        f"{safe(record['metric'] or 'unknown metric')} {value}{ratio}, step {step}, rank {rank};"
        f" {standing}; {_ago(record['observed_at'], now)}"
    )


def _faults(run: Record, now: datetime) -> list[str]:
    entries = [
        f"{kind['faults']} {safe(kind['kind'])} [{safe(kind['severity'] or 'unknown')}] {safe(kind['verdict'])},"
        f" {_ago(kind['last_observed_at'], now)}"
        for kind in run["fault_kinds"]
    ]
    return _listed("faults", entries, 8)


def _gap(gap: Record, now: datetime) -> str:
    where = safe(gap["path"] or "unknown")
    span = "" if gap["first_byte"] is None else f" bytes {gap['first_byte']} to {gap['last_byte']}"
    detail = f": {safe(gap['detail'])}" if gap["detail"] else ""
    return f"{safe(gap['kind'])} {where}{span}{detail}; {_ago(gap['observed_at'], now)}"


def _mark(mark: Record, now: datetime) -> str:
    gone = "retracted: " if mark["retracted"] else ""
    who = safe(mark["who"] or "unknown")
    what = f"{safe(mark['verdict'])} ({safe(mark['scope'])}): {safe(mark['reason'])}"
    return f"{gone}{what} - {who}, {_ago(mark['marked_at'], now)}"


def _ago(then: datetime | None, now: datetime) -> str:
    word = age(then, now)
    return word if word in ("now", "unknown") else f"{word} ago"
