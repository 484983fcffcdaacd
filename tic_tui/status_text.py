"""The status report as text: `status.py` asks, this writes down. Every number has its age, and no colour is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tic_daemon.evidence.exit_codes import WORDS, ExitCode
from tic_daemon.store import histories, plain
from tic_daemon.store.check import stale
from tic_daemon.store.reader import Connection
from tic_tui import artifacts, comparing, coverage, statetext
from tic_tui.age import age, day_and_clock
from tic_tui.glyphs import Glyphs
from tic_tui.plural import plural
from tic_tui.safe import safe, safe_lines

GAPS_SHOWN: Final = 5
FINDINGS_SHOWN: Final = 8
STATES_SHOWN: Final = 16
MARKS_SHOWN: Final = 5
Record = Mapping[str, Any]


def text(data: Record, connection: Connection, now: datetime, glyphs: Glyphs) -> str:
    lines = _reached(connection, now)
    for store in connection.stores:
        lines += [f"  {line}" for line in _reached(store, now)]
    lines += [f"  missing  {safe(text)}" for text in data["missing"]]
    lines.append(_sources(data["sources"], now))
    lines.append(_gpus(data["gpus"]))
    if not data["runs"]:
        lines += ["", "no run yet: no log has shown a record, a step or a fault"]
    for run in data["runs"]:
        lines += ["", *_run_lines(run, now, glyphs)]
    if data["runs_left_out"]:
        lines += ["", f"and {data['runs_left_out']} more, read longer ago"]
    return "\n".join(lines)


def _reached(connection: Connection, now: datetime) -> list[str]:
    """How a store is reached, how old what it says is, and what can be done."""
    line = f"{connection.kind}  {safe(connection.target)}  {connection.state} {age(connection.since, now)}"
    if connection.data_at is not None:
        line += f"  as of {_ago(connection.data_at, now)}"
        line += " (stale)" if stale(connection, now) else ""
    if connection.detail:
        line += f"  {safe(connection.detail)}"
    hints = connection.hint.splitlines() if connection.hint and not connection.stores else []
    return [line, *(f"  {safe(hint)}" for hint in hints)]


def _sources(rows: list[dict[str, Any]], now: datetime) -> str:
    if not rows:
        return "sources  none watched"
    grew = max((row["last_growth_at"] for row in rows if row["last_growth_at"]), default=None)
    words = ", ".join(f"{row['sources']} {safe(row['state'])}" for row in sorted(rows, key=lambda r: str(r["state"])))
    return f"sources  {words}; last growth {_ago(grew, now)}"


def _gpus(rows: list[dict[str, Any]]) -> str:
    """Which are watched, which only a file tells of, and what is not known of how many."""
    if not rows:
        return "gpus  none watched, and no file tells of any; `tic-daemon doctor` says why"
    watched = [row for row in rows if row["origin"] == "nvml"]
    words = [f"{len(watched)} watched" if watched else "none watched"]
    hosts = sorted({str(row["host"]) for row in watched})
    if watched:
        words[0] += f" on {safe(', '.join(hosts[:4]))}{f' and {len(hosts) - 4} more' if len(hosts) > 4 else ''}"
    if len(rows) > len(watched):
        words.append(f"{len(rows) - len(watched)} told of by files")
    unknown = [row for row in rows if row["why"]]
    if unknown:
        words.append(f"{len(unknown)} with something unknown, as {safe(unknown[0]['why'])}")
    return f"gpus  {'; '.join(words)}"


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
    if run["liveness"] is not None:
        lines.append(_field("liveness", safe(f"{run['liveness']['verdict']}: {run['liveness']['why']}")))
    lines.append(_field("newest", _mismatch(run["newest_mismatch"], now)))
    lines += _faults(run, now)
    lines += _listed("findings", [_finding(finding, now) for finding in run["lifecycle_findings"]], FINDINGS_SHOWN)
    if "exec_state" in run:
        lines += _states("execution", run["exec_state"], statetext.states_of, now)
        lines += _states("weights", run["weights"], statetext.weights_of, now)
    if run["ranks"] is not None:
        lines.append(_field("ranks", safe(coverage.words(run["ranks"]))))
    if run["wandb"]:
        told = [histories.standing(row, lambda then: _ago(then, now)) for row in run["wandb"]]
        lines += _listed("W&B", [safe(line) for line in told], GAPS_SHOWN)
        lines += _listed("W&B gaps", [safe(histories.gap(row)) for row in run["wandb_gaps"]], GAPS_SHOWN)
    if run["artifacts"]:
        lines.append(_field("artifacts", safe(artifacts.words(run["artifacts"]))))
    if run["comparisons"]:
        lines.append(_field("compared", safe(comparing.counts(run["comparisons"]))))
        if (last := run["newest_comparison"]) is not None:
            lines.append(_field("", f"newest {safe(comparing.verdict(last))}; {_ago(last['observed_at'], now)}"))
    if run["comparison_queue"]:
        told = [safe(line) for line in comparing.queue(run["comparison_queue"], GAPS_SHOWN)]
        lines += _listed("comparing", told, GAPS_SHOWN + 2)
    lines += _listed("gaps", [_gap(gap, now) for gap in run["gaps"]], GAPS_SHOWN)
    lines += _listed("marks", [_mark(mark, now) for mark in run["marks"]], MARKS_SHOWN)
    return lines


def _records(run: Record, row: Record, now: datetime) -> str:
    text = (
        f"attempt {row['attempt']}: {row['mismatches']}"
        f" mismatch {plural(row['mismatches'], 'record')}: {row['admissible']} admissible,"
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


def _finding(finding: Record, now: datetime) -> str:
    who = f"rank {finding['rank']}" if finding["rank"] is not None else f"pid {finding['pid'] or 'unknown'}"
    first, last = finding["first_step"], finding["last_step"]
    steps = (
        "steps unknown" if first is None else f"from step {first} on" if last is None else f"steps {first} to {last}"
    )
    when = _ago(finding["from_at"] or finding["observed_at"], now)
    return f"{safe(finding['kind'])}, {who}, {steps}: {safe(finding['detail'])}; {when}"


def _states(
    name: str, rows: list[dict[str, Any]], words: Callable[[Sequence[Record]], str], now: datetime
) -> list[str]:
    """One line a process, with the age of its newest line."""
    told = statetext.processes(rows)
    return _listed(
        name, [f"{words(some)}; {_ago(max(row['observed_at'] for row in some), now)}" for some in told], STATES_SHOWN
    )


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
