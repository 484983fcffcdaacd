"""Faults of a run, the lock, and what it locked."""

from __future__ import annotations

from typing import Final

from tic_daemon.report.model import Block, Inline, Section, Word, code, para, some, table, text
from tic_daemon.report.moment import Moment, Row

SHOWN: Final = 100
_FAULTS: Final = """
SELECT rec_id, store_id, attempt, severity, kind, title, verdict, locks, reason, code, rank, pid, host, step, text, echo_of, incident,
    witnesses, event_at, path, line_no
FROM faults WHERE run_id = ? AND severity <> 'I' AND verdict <> 'mention' AND echo_of IS NULL
ORDER BY locks DESC, attempt, event_at NULLS LAST, store_id, rec_id LIMIT 200"""  # noqa: E501
_OTHERS: Final = """
SELECT count(*) FILTER (verdict = 'mention') AS mentions,
    count(*) FILTER (echo_of IS NOT NULL AND verdict <> 'mention') AS echoes,
    count(*) FILTER (severity <> 'I' AND verdict <> 'mention' AND echo_of IS NULL) AS own
FROM faults WHERE run_id = ?"""
_FILES: Final = """
SELECT kind, path, host, pid, rank, bytes_size, present, why FROM fault_files WHERE run_id = ? ORDER BY kind, path"""


def section(moment: Moment, run: str) -> Section:
    """Faults, the lock and its two sides."""
    faults = moment.rows(_FAULTS, run)
    locks = sorted(moment.of("locks", run), key=lambda row: int(row["attempt"]))
    attempts = {row["attempt"]: row for row in moment.of("attempts", run)}
    (other,) = moment.rows(_OTHERS, run)
    blocks: list[Block] = []
    for lock in locks:
        blocks += _lock({**attempts.get(lock["attempt"], {}), **lock}, faults)
    if not locks:
        blocks.append(para("No fault locks it."))
    if faults:
        rows = [_fault(row) for row in faults]
        left = other["own"] - SHOWN
        columns = "attempt|fault|verdict|does|process|step|when (UTC)|line|text"
        blocks.append(
            table(
                columns, rows[:SHOWN], f"and {left:,} more, in the bundle's tables/faults.parquet" if left > 0 else ""
            )
        )
    else:
        blocks.append(para("No line of a fault was seen."))
    besides = [
        some(int(count), what)
        for count, what in ((other["echoes"], "forwarded copy"), (other["mentions"], "line that only talks of a fault"))
        if count
    ]
    if besides:
        blocks.append(para(f"Besides: {', '.join(besides)}; none of these acts."))
    files = moment.rows(_FILES, run)
    if files:
        told = [
            (
                row["kind"],
                code(row["path"]),
                code(row["host"]),
                text(row["pid"]),
                text(row["bytes_size"]),
                {True: "there", False: "gone", None: "not looked at"}[row["present"]],
                text(row["why"]),
            )
            for row in files
        ]
        blocks.append(
            Section(
                "Files that a fault left", (table("kind|file|host|pid|bytes|is|belongs to the fault", told[:SHOWN]),)
            )
        )
    return Section("Faults and the lock", tuple(blocks))


def _lock(lock: Row, faults: list[Row]) -> list[Block]:
    first = next(
        (
            row
            for row in faults
            if row["rec_id"] == lock["first_fault_rec_id"] and lock["first_fault_origin"] in (None, row["store_id"])
        ),
        None,
    )
    line: list[Inline] = [
        f"Attempt {lock['attempt']} is ",
        Word("locked", "bad"),
        f" by {some(lock['faults'], 'fault')}",
    ]
    if first is not None:
        line += [
            f"; shown as first: {first['title']}, ",
            code(first["text"]),
            " in ",
            code(f"{first['path']}:{first['line_no']}"),
        ]
    before = lock["admissible"] + lock["suspect"]
    told = [
        ("shown to be before the fault, and not locked", f"{before:,}"),
        ("after the fault: kept, and no evidence", f"{lock['after_fault']:,}"),
        ("not shown to be before it: kept, and no evidence", f"{lock['order_unknown']:,}"),
    ]
    blocks: list[Block] = [para(*line, "."), table("records of the attempt|how many", told)]
    if lock["first_fault_why"]:
        blocks.append(para(f"Which fault was first is undecided: {lock['first_fault_why']}."))
    if lock["would_help"]:
        blocks.append(para(f"To show the order: {lock['would_help']}."))
    return blocks


def _fault(row: Row) -> tuple[Inline | tuple[Inline, ...], ...]:
    does: tuple[Inline, ...] = (Word("locks", "bad"),) if row["locks"] else ("does not lock",)
    if row["reason"]:
        does = (*does, f": {row['reason']}")
    who = [f"{name} {row[name]}" for name in ("rank", "pid", "host") if row[name] not in (None, "")]
    said: tuple[Inline, ...] = (code(row["text"]),)
    if row["witnesses"]:
        said = (*said, f" ({some(row['witnesses'], 'other process')} of it, too)".replace("processs", "processes"))
    return (
        text(row["attempt"]),
        f"{row['title'] or row['kind']} [{row['severity']}]",
        row["verdict"],
        does,
        code(", ".join(who)),
        text(row["step"]),
        text(row["event_at"]),
        code(f"{row['path']}:{row['line_no']}"),
        said,
    )
