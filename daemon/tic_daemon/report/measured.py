"""What was measured, and under what: `[mismatch]` records with their execution state, and why some are no evidence.

Numbers made in different states are never put together: a row is one metric in one state.
"""

from __future__ import annotations

from typing import Final

from tic_daemon.report.model import (
    Block,
    Inline,
    Plot,
    Section,
    Series,
    code,
    para,
    some,
    spans,
    table,
    text,
    word,
)
from tic_daemon.report.moment import Moment, Row

LINES: Final = 200
GROUPS: Final = 200
PLOTS: Final = 6
POINTS: Final = 400
_STATE: Final = "graph_mode, step_kind, prefix_cache, weight_phase"
_GROUPS: Final = f"""
SELECT attempt, metric, coalesce(phase, '') AS phase, {_STATE}, admissibility, is_evidence, not_evidence_because, count(*) AS lines,
    min(step) AS first_step, max(step) AS last_step, min(value) AS low, max(value) AS high, min(noise_ratio) AS low_ratio,
    max(noise_ratio) AS high_ratio, max(self_repeat) AS floor
FROM mismatches WHERE run_id = ? GROUP BY ALL"""  # noqa: E501, S608
_ADDED: Final = f"""
SELECT attempt, metric, phase, {_STATE}, admissibility, is_evidence, not_evidence_because, sum(lines)::BIGINT AS lines,
    min(first_step) AS first_step, max(last_step) AS last_step, min(low) AS low, max(high) AS high, min(low_ratio) AS low_ratio,
    max(high_ratio) AS high_ratio, max(floor) AS floor
FROM part GROUP BY ALL ORDER BY ALL"""  # noqa: E501, S608
_LINES: Final = f"""
SELECT attempt, step, step_carried, policy, phase, rank, metric, value, value_text, self_repeat, noise_ratio, {_STATE},
    prefix_hit_rate, admissibility, reason, marked, is_evidence, not_evidence_because, finding_ids, state_by_time, state_note,
    provisional, path, line_no, store_id, rec_id
FROM mismatches WHERE run_id = ? ORDER BY attempt DESC, step DESC NULLS LAST, store_id DESC, rec_id DESC LIMIT {LINES}"""  # noqa: E501, S608
_NEWEST: Final = (
    f"SELECT * FROM part ORDER BY attempt DESC, step DESC NULLS LAST, store_id DESC, rec_id DESC LIMIT {LINES}"  # noqa: S608
)
_CURVE: Final = """
SELECT metric, step, is_evidence, max(value) AS value, max(self_repeat) AS floor FROM mismatches
WHERE run_id = ? AND step IS NOT NULL AND value IS NOT NULL GROUP BY ALL"""
_CURVES: Final = """
SELECT metric, step, is_evidence, max(value) AS value, max(floor) AS floor FROM part GROUP BY ALL ORDER BY ALL"""
_EVENTS: Final = """
SELECT step, min(title) AS what, bool_or(locks) AS locks FROM faults
WHERE run_id = ? AND verdict = 'confirmed' AND step IS NOT NULL AND echo_of IS NULL AND severity <> 'I' GROUP BY step ORDER BY step LIMIT 12"""  # noqa: E501


def section(moment: Moment, run: str) -> Section:
    """The numbers of one run."""
    groups = moment.rows(f"{_GROUPS} ORDER BY ALL", run, gather=_ADDED)
    if not groups:
        nothing = para(
            "Nothing: no log of the run has a ",
            code("[mismatch]"),
            " record, and no history a number of its metrics. "
            "The format is in docs/reference/rules.md; `tic-daemon doctor` says which logs are read.",
        )
        return Section("Measured", (nothing,))
    total = sum(row["lines"] for row in groups)
    evidence = sum(row["lines"] for row in groups if row["is_evidence"])
    blocks: list[Block] = [
        para(f"{some(total, 'record')}, of which {evidence:,} {'is' if evidence == 1 else 'are'} evidence.")
    ]
    blocks += [*_because(groups), _grouped(groups), *_plots(moment, run), *_lines(moment, run, total)]
    return Section("Measured", tuple(blocks))


def _because(groups: list[Row]) -> list[Block]:
    """Why records are no evidence, the most frequent reason first."""
    found: dict[tuple[str, str], int] = {}
    for row in groups:
        if not row["is_evidence"]:
            key = (row["admissibility"], because(row))
            found[key] = found.get(key, 0) + row["lines"]
    if not found:
        return []
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    rows = [(f"{count:,}", word(state), text(why)) for (state, why), count in ordered]
    return [table("records|admissibility|no evidence because", rows)]


def _grouped(groups: list[Row]) -> Section:
    rows = [
        (
            text(row["attempt"]),
            code(row["metric"]),
            code(row["phase"]),
            *_in_state(row),
            _counts(row),
            f"{row['lines']:,}",
            _span(row["first_step"], row["last_step"]),
            text(row["low"]),
            text(row["high"]),
            _ratio(row),
        )
        for row in groups[:GROUPS]
    ]
    left = len(groups) - GROUPS
    note = f"and {left:,} more combinations" if left > 0 else ""
    columns = "attempt|metric|phase|graph mode|step kind|prefix cache|weights|counts|records|steps|smallest|largest|over the noise floor"  # noqa: E501
    return Section("By metric and execution state", (table(columns, rows, note),))


def _in_state(row: Row) -> list[Inline]:
    return [word(row[name]) for name in ("graph_mode", "step_kind", "prefix_cache", "weight_phase")]


def _counts(row: Row) -> tuple[Inline, ...]:
    if row["is_evidence"]:
        return ("evidence",)
    if row["admissibility"] == "admissible":
        return ("no evidence: ", row["not_evidence_because"])
    return (word(row["admissibility"]), ": ", because(row))


def because(row: Row) -> str:
    """Why it is no evidence, without the state that is said before it."""
    return str(row["not_evidence_because"]).removeprefix(f"{row['admissibility']}: ")


def _span(first: int | None, last: int | None) -> str:
    return "unknown" if first is None else spans([first]) if first == last else f"{first} to {last}"


def _ratio(row: Row) -> str:
    if row["high_ratio"] is None:
        return "floor 0" if row["floor"] == 0 else "floor unknown"
    return (
        f"{text(row['low_ratio'])} to {text(row['high_ratio'])}"
        if row["low_ratio"] != row["high_ratio"]
        else text(row["high_ratio"])
    )


def _plots(moment: Moment, run: str) -> list[Block]:
    """The largest value of each step, by metric: evidence filled, other records hollow, with the noise floor."""
    points = moment.rows(f"{_CURVE} ORDER BY ALL", run, gather=_CURVES)
    marks = tuple(
        (float(row["step"]), f"{'lock: ' if row['locks'] else ''}{row['what']}") for row in moment.rows(_EVENTS, run)
    )
    by_metric: dict[str, list[Row]] = {}
    for row in points:
        by_metric.setdefault(str(row["metric"]), []).append(row)
    chosen = sorted(by_metric.items(), key=lambda one: (-len(one[1]), one[0]))[:PLOTS]
    return [_plot(number, metric, rows, marks) for number, (metric, rows) in enumerate(sorted(chosen)) if len(rows) > 1]


def _plot(number: int, metric: str, rows: list[Row], marks: tuple[tuple[float, str], ...]) -> Plot:
    counted = _thinned([(float(row["step"]), float(row["value"])) for row in rows if row["is_evidence"]])
    other = _thinned([(float(row["step"]), float(row["value"])) for row in rows if not row["is_evidence"]])
    floor = _thinned(
        sorted({float(row["step"]): float(row["floor"]) for row in rows if row["floor"] is not None}.items())
    )
    series = [
        Series("evidence", counted),
        Series("no evidence", other, filled=False),
        Series("noise floor", floor, joined=True),
    ]
    shown = tuple(one for one in series if one.points)
    return Plot(f"mismatch-{number}", f"{metric}: the largest value of each step", "step", metric, shown, marks)


def _thinned(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """At most `POINTS`, the largest of each stretch of steps."""
    size = -(-len(points) // POINTS) or 1
    return tuple(max(points[start : start + size], key=lambda one: one[1]) for start in range(0, len(points), size))


def _lines(moment: Moment, run: str, total: int) -> list[Block]:
    rows = moment.rows(_LINES, run, gather=_NEWEST)
    told = [
        (
            text(row["attempt"]),
            _step(row),
            code(row["policy"]),
            code(row["rank"]),
            code(row["metric"]),
            text(row["value"]) if row["value"] is not None else code(row["value_text"]),
            text(row["self_repeat"]),
            "floor 0" if row["self_repeat"] == 0 else text(row["noise_ratio"]),
            *_in_state(row),
            _note(row),
            _worth(row),
            _place(row),
        )
        for row in rows
    ]
    note = (
        f"the newest {len(rows)} of {total:,}; all are in the bundle's tables/mismatches.parquet"
        if total > len(rows)
        else ""
    )
    columns = "attempt|step|policy|rank|metric|value|noise floor|ratio|graph mode|step kind|prefix cache|weights|of the state|worth|line"  # noqa: E501
    return [Section("Records", (table(columns, told, note),))]


def _step(row: Row) -> str:
    if row["step"] is None:
        return "unknown"
    return f"{row['step']} or the next" if row["step_carried"] else str(row["step"])


def _note(row: Row) -> str:
    """What else is known of the state: the hit rate, and what is from another log or unknown though others told of it."""  # noqa: E501
    parts = [f"hits {row['prefix_hit_rate']} %"] if row["prefix_hit_rate"] not in (None, "unknown") else []
    parts += [f"by time: {row['state_by_time']}"] if row["state_by_time"] else []
    parts += [row["state_note"]] if row["state_note"] else []
    return "; ".join(parts)


def _worth(row: Row) -> tuple[Inline, ...]:
    parts: list[Inline] = ["evidence"] if row["is_evidence"] else list(_counts(row))
    if row["finding_ids"]:
        parts.append("; made while something was wrong with the weights")
    if row["provisional"]:
        parts.append("; still being written")
    return tuple(parts)


def _place(row: Row) -> Inline:
    return code(f"{row['path']}:{row['line_no']}" if row["path"] else "")
