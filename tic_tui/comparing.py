"""Comparisons in words: how many came out how, and what waits or is under way. For status and `watch --plain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

COMPARISON: Final = (
    "comparison_id, run_id, attempt, step, kind, side_a, side_b, valid_tokens, mismatched_tokens, logprob_mae,"
    " probes_differing, label, state, reason, admissibility, is_evidence, not_evidence_because, host, observed_at"
)
QUEUE: Final = (
    "task, run_id, step, side_a, side_b, state, why, tokens_done, tokens_total, host, observed_at"
)  # fmt: skip
COUNTS: Final = (
    "SELECT run_id, coalesce(label, 'no verdict') AS label, admissibility, count(*)::BIGINT AS comparisons,"
    " count(*) FILTER (is_evidence)::BIGINT AS evidence FROM comparisons GROUP BY ALL ORDER BY ALL"
)
_ORDER: Final = ("FAIL", "INVALID", "VACUOUS", "PASS", "no verdict")


def counts(rows: Sequence[Mapping[str, Any]]) -> str:
    """`1 FAIL, 11 PASS; 2 locked; 12 evidence` of rows of COUNTS of one run."""
    labels: Counter[str] = Counter()
    doubts: Counter[str] = Counter()
    for row in rows:
        labels[row["label"]] += row["comparisons"]
        if row["admissibility"] != "admissible":
            doubts[row["admissibility"]] += row["comparisons"]
    words = ", ".join(f"{labels[label]} {label}" for label in _ORDER if labels[label])
    low = ", ".join(f"{number} {word}" for word, number in sorted(doubts.items()))
    evidence = sum(row["evidence"] for row in rows)
    return "; ".join(part for part in (words, low, f"{evidence} evidence") if part)


def waits(row: Mapping[str, Any]) -> str:
    """One row of view comparison_queue."""
    step = "" if row["step"] is None else f"step {row['step']}, "
    name = str(row["side_a"]).rpartition("/")[2]
    if row["state"] == "running" and row["tokens_total"]:
        done = 100 * (row["tokens_done"] or 0) // row["tokens_total"]
        return f"comparing {step}{name}: {row['tokens_done'] or 0} of {row['tokens_total']} tokens, {done} %"
    why = f": {row['why']}" if row["why"] else ""
    return f"{row['state']} {step}{name}{why}"


def queue(rows: Sequence[Mapping[str, Any]], shown: int) -> list[str]:
    """What is under way, what could not be compared, and how many wait."""
    told = [waits(row) for row in rows if row["state"] in ("running", "failed", "refused")]
    more = [f"and {len(told) - shown} more"] if len(told) > shown else []
    waiting = sum(row["state"] == "waiting" for row in rows)
    return [*told[:shown], *more, *([f"{waiting} wait"] if waiting else [])]


def verdict(row: Mapping[str, Any]) -> str:
    """One comparison in one line: what differs, the verdict, what it is worth."""
    step = "" if row["step"] is None else f"step {row['step']}, "
    if row["kind"] == "trace":
        figures = f"{row['probes_differing']} probes differ"
    elif row["mismatched_tokens"] is None:
        figures = "bits not compared"
    else:
        figures = f"{row['mismatched_tokens']} of {row['valid_tokens']} tokens differ"
    if row["logprob_mae"] is not None:
        figures += f", logprob_mae {row['logprob_mae']:.6g}"
    worth = "evidence" if row["is_evidence"] else f"not evidence: {row['not_evidence_because']}"
    return f"{step}{figures}; {row['label'] or row['state']}: {row['reason']}; {worth}"
