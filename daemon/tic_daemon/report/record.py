"""What a run was made of and how it went: its record with both sides, attempts, execution state, life of the weights,
marks, steps, W&B, ranks, gaps of its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tic_daemon.record import asking
from tic_daemon.record.words import STATES
from tic_daemon.report.model import Block, Bullets, Inline, Section, Word, code, para, some, spans, table, text, word
from tic_daemon.report.moment import Moment, Row
from tic_daemon.store import histories

SHOWN: Final = 200
_NOW: Final = """
SELECT role, rank, host, pid, proc, field, claimed, observed, path FROM exec_state_now WHERE run_id = ?
ORDER BY field, role, rank NULLS LAST, host, pid, proc, path, claimed, observed"""
_LIFE: Final = """
SELECT role, track, phase, coalesce(level, '') AS level, count(*) AS changes, count(DISTINCT (host, pid, path)) AS processes,
    min(event_at) AS first_at, max(event_at) AS last_at, count(*) FILTER (NOT legal) AS illegal
FROM weight_lifecycle WHERE run_id = ? GROUP BY ALL ORDER BY ALL"""  # noqa: E501
_FINDINGS: Final = """
SELECT kind, detail, severity, role, rank, host, pid, first_step, last_step, from_at, until_at, path, line_no FROM lifecycle_findings
WHERE run_id = ? ORDER BY from_at NULLS LAST, path, line_no, kind"""  # noqa: E501
_MARKS: Final = """
SELECT scope, attempt, target, verdict, reason, who, host, marked_at, retracted FROM marks WHERE run_id = ? ORDER BY marked_at, id"""  # noqa: E501
_STEPS: Final = "SELECT source, axis, state, step FROM step_coverage WHERE run_id = ? AND main ORDER BY ALL"
_OWN_STEPS: Final = """
SELECT source_kind, count(DISTINCT step) AS steps, min(step) AS low, max(step) AS high FROM steps WHERE run_id = ?
GROUP BY 1 ORDER BY 1"""
_COVERAGE: Final = "SELECT rank, state FROM coverage WHERE run_id = ? ORDER BY rank"
_GAPS: Final = """
SELECT kind, path, first_byte, last_byte, detail, observed_at FROM evidence_gaps WHERE run_id = ?
ORDER BY observed_at, kind, path, first_byte, detail"""
_ARTIFACTS: Final = """
SELECT state, count(*) AS files, sum(bytes_size)::BIGINT AS bytes FROM artifacts WHERE run_id = ? GROUP BY 1 ORDER BY 1"""  # noqa: E501
_BENCH: Final = """
SELECT compiler, what, seconds, path, line_no FROM compile_after_bench WHERE run_id = ?
ORDER BY path, line_no, compiler, what"""


def made_of(moment: Moment, run: str) -> Section:
    """The run record: what launcher and workers say, side by side, and the fingerprint."""
    rows = sorted(moment.of("run_records", run), key=lambda row: int(row["position"]))
    prints = moment.of("run_fingerprints", run)
    if not rows or not prints:
        return Section(
            "What it was made of", (para("Nothing is known: no log and no file beside the run tells of it."),)
        )
    known = [row for row in rows if row["state"] != "unknown"]
    one = prints[0]
    summary: list[Inline] = [
        f"{some(one['known'], 'field')} of the fingerprint known, {one['unknown']} unknown. Fingerprint "
    ]
    summary += [code(one["fingerprint"])] if one["fingerprint"] else ["none: nothing that enters it is known"]
    blocks: list[Block] = [para(*summary, ".")]
    if one["disagreeing_fields"]:
        blocks.append(para(Word("Said differently", "bad"), f": {', '.join(one['disagreeing_fields'])}."))
    told = [
        (
            row["field"],
            code(row["value"]) if row["value"] != "unknown" else word("unknown"),
            _side(row, "launcher"),
            _side(row, "worker"),
            Word("DISAGREE", "bad") if row["state"] == "disagree" else STATES[row["state"]],
            text(row["note"]),
        )
        for row in known
    ]
    if told:
        blocks.append(table("field|counts|launcher says|workers show|both|note", told))
    unknown = [row["field"] for row in rows if row["state"] == "unknown"]
    if unknown:
        blocks.append(para(word("unknown"), f" ({len(unknown)} of {len(rows)}): {', '.join(unknown)}."))
    secrets = asking.secrets_of(moment, run)
    if secrets:
        blocks.append(para(f"{some(len(secrets), 'place')} with what looks like a secret; the values are not kept:"))
        blocks.append(Bullets(tuple((code(row["path"]), ": ", row["detail"]) for row in secrets)))
    return Section("What it was made of", tuple(blocks))


def _side(row: Row, side: str) -> tuple[Inline, ...]:
    if row[side] is None:
        return ("–",)
    source = row[f"{side}_source"]
    return (code(row[side]), " in ", code(source)) if source else (code(row[side]),)


def attempts(rows: Sequence[Row]) -> Section:
    """Attempts: how each began, and what its records are worth."""
    told = [
        (
            text(row["attempt"]),
            _begun(row),
            word("locked") if row["locked"] else "not locked",
            Word("marked inconclusive", "warn") if row["marked"] else "no",
            f"{row['admissible']:,}",
            f"{row['suspect']:,}",
            f"{row['locked_records']:,}",
            f"{row['faults']:,}",
            text(row["last_step"]),
            text(row["exit_code"]),
        )
        for row in rows
    ]
    columns = "attempt|declared|lock|mark|admissible|suspect|locked|faults|last step|exit code"
    return Section("Attempts", (table(columns, told),))


def _begun(row: Row) -> tuple[Inline, ...]:
    if row["from_kind"] is None:
        return ("the first",)
    line: list[Inline] = [f"{row['from_kind']} {text(row['from_time'])}" if row["from_time"] else str(row["from_kind"])]
    if row["who"]:
        line += [" by ", code(row["who"])]
    return (*line, ": ", code(row["reason"])) if row["reason"] else tuple(line)


def state(moment: Moment, run: str) -> Section:
    """Execution state in force at the end, the life of the weights, and what was wrong with it."""
    now = moment.rows(_NOW, run)
    blocks: list[Block] = []
    if now:
        merged: dict[tuple[object, ...], list[Row]] = {}
        for row in now:
            merged.setdefault((row["field"], row["role"], row["claimed"], row["observed"]), []).append(row)
        told = [
            (
                str(field),
                text(role),
                code(claimed),
                word("unknown") if observed == "unknown" else code(observed),
                str(len(same)),
                _process(same[0]),
            )
            for (field, role, claimed, observed), same in merged.items()
        ]
        blocks.append(table("field|role|claimed|observed|processes|for one", told[:SHOWN], _left(told)))
    else:
        blocks.append(para("No line tells of the execution state of any process."))
    life = moment.rows(_LIFE, run)
    if life:
        told_life = [
            (
                text(row["role"]),
                row["track"],
                row["phase"],
                code(row["level"]),
                f"{row['changes']:,}",
                str(row["processes"]),
                text(row["first_at"]),
                text(row["last_at"]),
                Word(str(row["illegal"]), "bad") if row["illegal"] else "0",
            )
            for row in life
        ]
        columns = "role|track|phase|level|changes|processes|first (UTC)|last (UTC)|findings begin"
        blocks.append(Section("Life of the weights", (table(columns, told_life),)))
    blocks += _findings(moment.rows(_FINDINGS, run))
    compiled = moment.rows(_BENCH, run)
    if compiled:
        rows = [
            (row["compiler"], code(row["what"]), text(row["seconds"]), code(f"{row['path']}:{row['line_no']}"))
            for row in compiled
        ]
        blocks.append(
            Section(
                "Compiled after the measurement began",
                (table("compiler|what|seconds|line", rows[:SHOWN], _left(rows)),),
            )
        )
    return Section("Execution state", tuple(blocks))


def _findings(rows: Sequence[Row]) -> list[Block]:
    if not rows:
        return []
    told = [
        (row["kind"], row["detail"], _process(row), _between(row), code(f"{row['path']}:{row['line_no']}"))
        for row in rows
    ]
    return [Section("Wrong with the weights", (table("kind|what|process|steps|line", told[:SHOWN], _left(told)),))]


def _between(row: Row) -> str:
    if row["first_step"] is None:
        return "unknown"
    return (
        f"{row['first_step']} to {text(row['last_step'])}"
        if row["last_step"] is not None
        else f"{row['first_step']} on"
    )


def _process(row: Row) -> tuple[Inline, ...]:
    named = [f"{name} {row[name]}" for name in ("role", "rank", "host", "pid") if row.get(name) not in (None, "")]
    return (code(", ".join(named)),) if named else ("unknown",)


def marks(moment: Moment, run: str) -> Section:
    """What people said."""
    rows = [
        (
            word("retracted") if row["retracted"] else word(row["verdict"]),
            _target(row),
            code(row["reason"]),
            code(row["who"]),
            code(row["host"]),
            text(row["marked_at"]),
        )
        for row in moment.rows(_MARKS, run)
    ]
    if not rows:
        return Section("Marks", (para("Nobody marked anything of it."),))
    return Section("Marks", (table("said|of|why|who|host|when (UTC)", rows),))


def _target(row: Row) -> tuple[Inline, ...]:
    if row["scope"] == "run":
        return ("the run",)
    if row["scope"] == "attempt":
        return (f"attempt {row['attempt']}",)
    return ("record ", code(row["target"]))


def steps(moment: Moment, run: str) -> Section:
    """Which steps which source has, and how the W&B histories differ."""
    blocks: list[Block] = []
    covered: dict[tuple[str, str, str], list[int]] = {}
    for row in moment.rows(_STEPS, run):
        covered.setdefault((row["source"], row["axis"], row["state"]), []).append(row["step"])
    if covered:
        told = [
            (histories.place(source), text(axis), word(found), f"{len(set(which)):,}", spans(which))
            for (source, axis, found), which in covered.items()
        ]
        blocks.append(table("source|counted by|state|steps|which", told))
    else:
        lines = [
            (histories.place(row["source_kind"]), f"{row['steps']:,}", f"{row['low']} to {row['high']}")
            for row in moment.rows(_OWN_STEPS, run)
        ]
        blocks.append(table("source|steps|from, to", lines) if lines else para("No step was seen."))
    runs = moment.rows(
        f"SELECT {histories.HISTORIES} FROM wandb_runs WHERE run_id = ? ORDER BY wandb_id, run_path",  # noqa: S608
        run,
    )
    if not runs:
        return Section("Steps and W&B", (*blocks, para("No W&B history of it is known.")))
    told_runs = [
        (
            code(row["run_path"] or row["wandb_id"]),
            text(row["mode"]),
            text(row["state"]),
            text(row["local_steps"]),
            text(row["server_steps"]),
            text(row["uploader"]),
            text(row["read_outcome"]),
            text(row["read_ok_at"]),
        )
        for row in runs
    ]
    blocks.append(
        table("W&B run|mode|state|steps locally|steps at the server|uploader|last reading|read whole (UTC)", told_runs)
    )
    gaps = moment.rows(
        f"SELECT {histories.GAPS} FROM wandb_gaps WHERE run_id = ? {histories.ORDER}, kind, cause",  # noqa: S608
        run,
        gather=f"{histories.GATHERED}, kind, cause",
    )
    if gaps:
        rows = [
            (
                Word("confirmed", "bad") if row["confirmed"] else "not confirmed",
                histories.kind(row["kind"]),
                histories.place(row["source"]),
                histories.steps(row),
                code(row["key"]),
                text(row["cause"]),
                text(row["detail"]),
            )
            for row in gaps
        ]
        blocks.append(Section("Gaps", (table("counts|kind|where|steps|key|cause|detail", rows[:SHOWN], _left(rows)),)))
    else:
        blocks.append(para("No difference between what the trainer printed, the local log and the server's history."))
    return Section("Steps and W&B", tuple(blocks))


def evidence_gaps(moment: Moment, run: str) -> Section:
    """What could not be read or is not as manifests say, ranks that nobody watches, and results."""
    blocks: list[Block] = []
    gaps = moment.rows(_GAPS, run)
    if gaps:
        rows = [
            (row["kind"], code(row["path"]), _bytes(row), text(row["detail"]), text(row["observed_at"])) for row in gaps
        ]
        blocks.append(table("kind|file|bytes|what|seen (UTC)", rows[:SHOWN], _left(rows)))
    else:
        blocks.append(para("None: all that was found could be read, and is as its manifests say."))
    unwatched = [row["rank"] for row in moment.rows(_COVERAGE, run) if row["state"] == "not watched"]
    if unwatched:
        line = "that no fault was seen there is no evidence of none."
        blocks.append(para(f"Ranks {spans(unwatched)} are ", word("not watched"), f": {line}"))
    files = moment.rows(_ARTIFACTS, run)
    if files:
        rows_of = [(word(row["state"]), f"{row['files']:,}", f"{row['bytes'] or 0:,}") for row in files]
        blocks.append(Section("Artifacts", (table("state|files|bytes", rows_of),)))
    manifests = sorted(
        moment.of("manifests", run), key=lambda row: (-1 if row["step"] is None else row["step"], row["path"])
    )
    if manifests:
        told = [
            (
                text(row["step"]),
                code(row["policy"]),
                row["kind"],
                code(row["path"]),
                code(row["digest"]),
                f"{row['verified']} of {row['artifacts']}",
                text(row["wrong"]),
                "" if row["present"] else Word("gone", "bad"),
            )
            for row in manifests
        ]
        columns = "step|policy|kind|file|SHA-256|files verified|wrong|"
        blocks.append(Section("Manifests", (table(columns, told[:SHOWN], _left(told)),)))
    return Section("Gaps of the evidence", tuple(blocks))


def _bytes(row: Row) -> str:
    if row["first_byte"] is None:
        return "–"
    return f"{row['first_byte']} to {'an unknown end' if row['last_byte'] == -1 else row['last_byte']}"


def _left(rows: Sequence[object]) -> str:
    return f"and {len(rows) - SHOWN:,} more, in the bundle's tables" if len(rows) > SHOWN else ""
