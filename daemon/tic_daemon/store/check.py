"""What the evidence of one run is worth, as one exit code and in words. Asked of the public views alone.

The latest attempt counts: a person opens a new one after a fault, and what older ones showed is named, not counted.

    15  a store that cannot be read, or was read from a snapshot over a minute old though its daemon should live, or
        ended without closing it; unknown run; no record in the attempt; records, and none is evidence without a lock or
        a mark to explain it; or its logs are longer than what was read of them, and a fault may stand in the rest
    13  a fault locks the attempt
    10  a comparison of the attempt FAILs
    11  one is INVALID or VACUOUS
    12  one has no verdict; or a person marked the run or the attempt; or marked records, and no evidence is left
    14  bytes of the run's logs are lost, or cannot be read; or its results are not as their manifests say; or its W&B
        history has confirmed gaps

So 0 is given for one record of evidence or more, and for nothing else. Of comparisons those count that are admissible,
not marked and still of the files that were compared; traces and planted errors do not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tic_daemon.evidence.exit_codes import WORDS, ExitCode, worst
from tic_daemon.store import histories
from tic_daemon.store.reader import Connection, Reader, Result

TIMEOUT_S: Final = 60.0
REASONS_SHOWN: Final = 5
GAPS_SHOWN: Final = 5
LOST: Final = ("truncated", "vanished", "gzip_cut", "unreadable")
"""Kinds of `evidence_gaps` that hide bytes. `shrank` is a report: all that was there had been read."""
WRONG: Final = (
    "artifact_missing", "artifact_differs", "artifact_changed", "artifact_refused", "artifact_unreadable",
    "manifest_malformed", "manifest_missing", "overwritten", "identity", "index_missing", "chat_only",
    "result_unreadable", "comparison_failed", "report_missing", "report_differs",
)  # fmt: skip
"""Kinds that say that results are not what is said of them. The others say what nobody said: they lower nothing."""

AT_REST: Final = 1 << 20
"""A line without its newline is not counted as read, and none is longer than this (docs/explanation/following.md)."""

Row = dict[str, Any]
Findings = list[tuple[ExitCode, str]]

SETTLED_S: Final = 30.0
"""Of several stores some may be live: a log written so long ago would have been read by a daemon that follows it."""

STALE: Final = timedelta(seconds=60)
"""A snapshot older than this is no answer while its daemon should live: it is published every ten seconds."""

_RECORDS: Final = """
SELECT attempt, count(*) AS records, count(*) FILTER (is_evidence) AS evidence,
    count(*) FILTER (admissibility = 'admissible') AS admissible,
    count(*) FILTER (admissibility = 'suspect') AS suspect,
    count(*) FILTER (admissibility = 'locked') AS locked_records,
    count(*) FILTER (not_evidence_because = 'marked inconclusive') AS marked_records
FROM mismatches WHERE run_id = ? GROUP BY attempt
"""
_ADDED: Final = """
SELECT attempt, sum(records)::BIGINT AS records, sum(evidence)::BIGINT AS evidence,
    sum(admissible)::BIGINT AS admissible, sum(suspect)::BIGINT AS suspect,
    sum(locked_records)::BIGINT AS locked_records, sum(marked_records)::BIGINT AS marked_records
FROM part GROUP BY attempt
"""
_ATTEMPTS: Final = "SELECT * FROM attempts WHERE run_id = ? ORDER BY attempt"
_NO_RECORDS: Final = {
    "records": 0, "evidence": 0, "admissible": 0, "suspect": 0, "locked_records": 0, "marked_records": 0,
}  # fmt: skip


def check(reader: Reader, run_id: str) -> tuple[int, list[str]]:
    """Judges one run.

    Returns:
        The exit code (evidence/exit_codes.py), and what was found: first the code in words, then a line for each
        finding, with numbers. The lines may be printed: what came from logs and people is made harmless.

    Raises:
        StoreError, ConnectError, SqlError: the store cannot be asked. No code stands for that here.
    """
    asked = _Asked(reader)
    # Records before locks: what a daemon writes between the two can only lock what was counted.
    records = {row["attempt"]: row for row in _ask(asked, _RECORDS, run_id, gather=_ADDED)}
    attempts = [{**row, **_NO_RECORDS, **records.get(row["attempt"], {})} for row in _ask(asked, _ATTEMPTS, run_id)]
    if not attempts:
        known = _ask(asked, "SELECT run_id FROM runs ORDER BY last_observed_at DESC NULLS LAST, run_id LIMIT 5")
        names = ", ".join(_clean(row["run_id"]) for row in known) or "none yet"
        unknown = (ExitCode.NO_EVIDENCE, f"no such run in this store; known: {names}")
        return _told(run_id, [*_stores(asked), unknown], [])
    return _judged(asked, run_id, attempts)


def _judged(reader: _Asked, run_id: str, attempts: list[Row]) -> tuple[int, list[str]]:
    latest, older = attempts[-1], attempts[:-1]
    findings = _unread(reader, run_id)
    compared = _compared(reader, run_id, latest["attempt"])
    findings += _no_evidence(latest, compared)
    findings += _verdicts(compared)
    findings += _lock(reader, run_id, latest)
    findings += _marks(reader, run_id, latest)
    findings += _gaps(reader, run_id)
    findings += _histories(reader, run_id)
    findings = _stores(reader) + findings
    notes = [_counts(latest), *_reasons(reader, run_id, latest), *(_older(row) for row in older)]
    return _told(run_id, findings, notes)


def _told(run_id: str, findings: Findings, notes: list[str]) -> tuple[int, list[str]]:
    code = worst(found for found, _ in findings)
    lines = [f"{_clean(run_id)}: {WORDS[code]} (exit code {int(code)})"]
    lines += [text if text.startswith("  ") else f"{int(found)}: {text}" for found, text in findings]
    return int(code), lines + notes


# -- what lowers a run


def _no_evidence(latest: Row, compared: list[Row]) -> Findings:
    if latest["evidence"] or any(row["is_evidence"] for row in compared):
        return []
    if not latest["records"]:
        beside = ", and no comparison of it is evidence" if compared else ""
        return [(ExitCode.NO_EVIDENCE, f"attempt {latest['attempt']} has no mismatch record{beside}")]
    if latest["locked"] or latest["marked"] or latest["marked_records"]:
        return []  # there were numbers; why they do not count is said with the lock or the mark
    return [(ExitCode.NO_EVIDENCE, f"none of {latest['records']} records of attempt {latest['attempt']} is evidence")]


def _compared(reader: _Asked, run_id: str, attempt: int) -> list[Row]:
    """Comparisons of the attempt that count."""
    return _ask(
        reader,
        "SELECT step, side_a, label, reason, exit_code, is_evidence FROM comparisons WHERE run_id = ? AND attempt = ?"
        " AND kind = 'tokens' AND planted_error IS NULL"
        " AND admissibility = 'admissible' AND NOT marked AND changed = ''"
        " ORDER BY step NULLS LAST, side_a",
        run_id, attempt,
    )  # fmt: skip


def _verdicts(compared: list[Row]) -> Findings:
    """What comparisons say: their worst verdicts, each with the first that has it."""
    found: Findings = []
    for code, words in (
        (ExitCode.FAIL, "FAIL"), (ExitCode.INVALID, "INVALID or VACUOUS"), (ExitCode.INCONCLUSIVE, "without a verdict"),
    ):  # fmt: skip
        rows = [row for row in compared if _code(row["label"]) is code]
        if rows:
            first = rows[0]
            where = _clean(first["side_a"]) if first["step"] is None else f"step {first['step']}"
            many = f"{_some(len(rows), 'comparison')} {words}"
            found.append((code, f"{many}, the first of {where}: {_clean(first['reason'])}"))
    return found


def _code(label: str | None) -> ExitCode:
    """The code of a verdict. Not the stored one: a lock that was known then is not asked here."""
    return {None: ExitCode.INCONCLUSIVE, "PASS": ExitCode.WELL, "FAIL": ExitCode.FAIL}.get(label, ExitCode.INVALID)


def _lock(reader: _Asked, run_id: str, latest: Row) -> Findings:
    if not latest["locked"]:
        return []
    here = (run_id, latest["attempt"])
    several = reader.several
    first = "rec_id = ? AND store_id = ?" if several else "rec_id = ?"
    its = (latest["first_fault_rec_id"], latest["first_fault_origin"])[: 2 if several else 1]
    faults = _ask(
        reader,
        "SELECT rec_id, severity, kind, locks, rank, pid, host, code, step, text, path, line_no, event_at FROM faults"  # noqa: S608
        f" WHERE run_id = ? AND ? BETWEEN attempt AND last_attempt AND (({first}) OR locks)"
        f" ORDER BY coalesce({first}, false) DESC, event_at NULLS LAST, rec_id LIMIT 2",
        *here, *its, *its,
    )  # fmt: skip
    many = _some(latest["locking_faults"], "fault")
    found: Findings = [(ExitCode.LOCKED, f"attempt {latest['attempt']} is locked by {many}")]
    for number, fault in enumerate(faults):
        name = ("first fault" if number == 0 else "a locking fault") + ("" if fault["locks"] else ", it does not lock")
        found.append((ExitCode.LOCKED, f"  {name}: {_fault(fault)}"))
        if fault["locks"]:
            break
    for lock in _ask(reader, "SELECT * FROM locks WHERE run_id = ? AND attempt = ?", *here):
        text = f"  {_some(lock['after_fault'], 'record')} after the fault, {lock['order_unknown']} of unknown order"
        help_ = f"; to show the order, {_clean(lock['would_help'])}" if lock["would_help"] else ""
        found.append((ExitCode.LOCKED, text + help_))
    return found


def _fault(fault: Row) -> str:
    who = [f"{name} {_clean(fault[name])}" for name in ("rank", "pid", "host", "step") if fault[name] not in (None, "")]
    where = f"{_clean(fault['path'] or 'unknown file')}:{fault['line_no']}"
    when = "" if fault["event_at"] is None else f" at {fault['event_at']:%Y-%m-%d %H:%M:%S}Z"
    kind = f"{_clean(fault['kind'])} [{_clean(fault['severity'])}]"
    return f"{kind}{when}, {', '.join(who) or 'process unknown'}, {where}: {_clean(fault['text'])}"


def _marks(reader: _Asked, run_id: str, latest: Row) -> Findings:
    """Marks of the run and of this attempt lower it. A marked record is one less, and lowers when none is left."""
    if latest["marked"]:
        marks = _ask(
            reader,
            "SELECT scope, reason, who, marked_at FROM marks"
            " WHERE run_id = ? AND verdict = 'inconclusive' AND NOT retracted"
            " AND (scope = 'run' OR (scope = 'attempt' AND attempt = ?)) ORDER BY marked_at DESC",
            run_id, latest["attempt"],
        )  # fmt: skip
        return [
            (
                ExitCode.INCONCLUSIVE,
                f"the {_clean(mark['scope'])} is marked inconclusive by {_clean(mark['who'] or 'unknown')} at"
                f" {mark['marked_at']:%Y-%m-%d %H:%M:%S}Z: {_clean(mark['reason'])}",
            )
            for mark in marks
        ] or [(ExitCode.INCONCLUSIVE, f"attempt {latest['attempt']} is marked inconclusive")]
    if latest["marked_records"] and not latest["evidence"]:
        marked = _some(latest["marked_records"], "record")
        return [(ExitCode.INCONCLUSIVE, f"{marked} marked inconclusive, and no evidence left")]
    return []


def _gaps(reader: _Asked, run_id: str) -> Findings:
    """Of the whole run: gaps have a place in a log or among the results, and no attempt."""
    gaps = [
        gap
        for gap in _ask(
            reader,
            "SELECT kind, path, first_byte, last_byte, detail FROM evidence_gaps WHERE run_id = ?"
            " ORDER BY observed_at DESC, path, first_byte",
            run_id,
        )
        if gap["kind"] in LOST or gap["kind"] in WRONG
    ]
    found: Findings = []
    for gap in gaps[:GAPS_SHOWN]:
        last = "an unknown end" if gap["last_byte"] == -1 else gap["last_byte"]
        span = "" if gap["first_byte"] is None else f" from byte {gap['first_byte']} to {last}"
        detail = f": {_clean(gap['detail'])}" if gap["detail"] else ""
        found.append((ExitCode.GAPS, f"{_clean(gap['kind'])} {_clean(gap['path'] or 'unknown file')}{span}{detail}"))
    if len(gaps) > GAPS_SHOWN:
        found.append((ExitCode.GAPS, f"  and {len(gaps) - GAPS_SHOWN} more gaps"))
    return found


def _histories(reader: _Asked, run_id: str) -> Findings:
    """Of the whole run: confirmed gaps of its W&B histories."""
    gaps = _ask(
        reader,
        f"SELECT {histories.GAPS} FROM wandb_gaps WHERE run_id = ? AND confirmed {histories.ORDER}",  # noqa: S608
        run_id,
        gather=histories.GATHERED,
    )
    found: Findings = [(ExitCode.GAPS, f"W&B: {_clean(histories.gap(row))}") for row in gaps[:GAPS_SHOWN]]
    if len(gaps) > GAPS_SHOWN:
        found.append((ExitCode.GAPS, f"  and {len(gaps) - GAPS_SHOWN} more gaps of its W&B history"))
    return found


def _unread(reader: _Asked, run_id: str) -> Findings:
    """Logs that are longer than what was read: a daemon that is behind, or one that ended while the job went on."""
    sources = _ask(
        reader, "SELECT path, state, bytes_read, bytes_size FROM sources WHERE run_id = ? ORDER BY path", run_id
    )
    kinds = {store.kind for store in reader.stores}
    ended = kinds == {"file"}
    behind = [
        (row["path"], rest)
        for row in sources
        if row["state"] not in ("rotated", "vanished") and not str(row["path"]).endswith(".gz")
        if (rest := _rest(row, after_s=None if kinds == {"live"} else 0.0 if ended else SETTLED_S)) > 0
    ]
    if not behind:
        return []
    first, total = _clean(behind[0][0]), sum(rest for _, rest in behind)
    hint = "`tic-daemon watch --once` reads them" if ended else "the daemon is behind"
    text = f"{total} bytes of {_some(len(behind), 'log')} are not read yet, the first in {first}: {hint}"
    return [(ExitCode.NO_EVIDENCE, text)]


def _rest(source: Row, *, after_s: float | None) -> int:
    """Bytes that no one has looked at. What lies on disk counts if it was written so many seconds ago; None: never."""
    size = int(source["bytes_size"] or 0)
    rest = size - int(source["bytes_read"] or 0)
    rest = rest if rest > AT_REST else 0
    if after_s is not None:
        with suppress(OSError, ValueError):  # not here, or no more: what was read is all that is known
            stat = Path(source["path"]).stat()
            if time.time() - stat.st_mtime >= after_s:
                rest += max(0, stat.st_size - size)
    return rest


def _stores(reader: _Asked) -> Findings:
    """Stores that cannot be read, and snapshots that are too old: what they do not say may be a fault."""
    found: Findings = [(ExitCode.NO_EVIDENCE, f"a store is missing: {_clean(text)}") for text in sorted(reader.missing)]
    now = datetime.now(UTC)
    for store in reader.stores:
        if stale(store, now) and store.data_at is not None:
            old = int((now.replace(tzinfo=None) - store.data_at).total_seconds())
            text = f"a snapshot is {old} s old: {_clean(store.detail)}"
            found.append((ExitCode.NO_EVIDENCE, text + (f"; {_clean(store.hint)}" if store.hint else "")))
    return found


def stale(store: Connection, now: datetime) -> bool:
    """Whether a store is read from a snapshot over a minute old that is not all: its daemon should live, or was killed.

    `now` is aware.
    """
    if store.kind != "snapshot" or not store.detail or store.data_at is None:
        return False
    return now.astimezone(UTC).replace(tzinfo=None) - store.data_at > STALE


# -- what stands beside it


def _counts(latest: Row) -> str:
    return (
        f"attempt {latest['attempt']}: {_some(latest['records'], 'record')}: {latest['evidence']} evidence;"
        f" {latest['admissible']} admissible, {latest['suspect']} suspect, {latest['locked_records']} locked"
    )


def _reasons(reader: _Asked, run_id: str, latest: Row) -> list[str]:
    if latest["records"] == latest["evidence"]:
        return []
    rows = _ask(
        reader,
        "SELECT not_evidence_because AS why, count(*) AS records FROM mismatches WHERE run_id = ? AND attempt = ?"
        " AND NOT is_evidence GROUP BY 1 ORDER BY 2 DESC, 1",
        run_id, latest["attempt"],
        gather="SELECT why, sum(records)::BIGINT AS records FROM part GROUP BY 1 ORDER BY 2 DESC, 1",
    )  # fmt: skip
    lines = [f"  {row['records']} not evidence: {_clean(row['why'])}" for row in rows[:REASONS_SHOWN]]
    if len(rows) > REASONS_SHOWN:
        rest = sum(row["records"] for row in rows[REASONS_SHOWN:])
        lines.append(f"  {rest} not evidence for {len(rows) - REASONS_SHOWN} other reasons")
    return lines


def _older(row: Row) -> str:
    state = "locked" if row["locked"] else "not locked"
    records = f"{_some(row['records'], 'record')}, {row['evidence']} evidence"
    return f"attempt {row['attempt']}, older and not counted: {state}, {records}"


# -- helpers


class _Asked:
    """A reader, and which stores were missing from any of its answers."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.missing: set[str] = set()

    def query(self, sql: str, params: Sequence[object], gather: str) -> Result:
        result = self._reader.query(sql, params, timeout_s=TIMEOUT_S, gather=gather)
        self.missing.update(result.missing)
        return result

    @property
    def several(self) -> bool:
        return self._reader.connection().kind == "several"

    @property
    def stores(self) -> tuple[Connection, ...]:
        connection = self._reader.connection()
        return connection.stores or (connection,)


def _ask(reader: _Asked, sql: str, *params: object, gather: str = "") -> list[Row]:
    result = reader.query(sql, params, gather)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _clean(text: object, most: int = 300) -> str:
    """Text from outside as one line: what is not printable is escaped, what is long is cut."""
    shown = str(text)
    shown = shown if len(shown) <= most else shown[: most - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
