"""Comparisons in words: how many came out how, and what waits or is under way. For status and `watch --plain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

COMPARISON: Final = (
    "comparison_id, run_id, attempt, step, kind, side_a, side_b, valid_tokens, mismatched_tokens, logprob_mae,"
    " probes_differing, label, state, reason, admissibility, is_evidence, not_evidence_because, host, observed_at"
)
QUEUE: Final = (
    "task, run_id, step, side_a, side_b, state, why, tokens_done, tokens_total, host, observed_at"
)  # fmt: skip
COUNTS: Final = (
    "SELECT run_id, coalesce(label, 'no verdict') AS label, admissibility,"
    " label IN ('PASS', 'FAIL') AND state = 'inconclusive' AS idle, count(*)::BIGINT AS comparisons,"
    " count(*) FILTER (is_evidence)::BIGINT AS evidence FROM comparisons GROUP BY ALL ORDER BY ALL"
)
BACK: Final = timedelta(hours=1)
PAGE: Final = 5000
SINCE: Final = (
    f"SELECT {COMPARISON} FROM comparisons WHERE observed_at > ? OR (observed_at = ? AND comparison_id > ?)"  # noqa: S608
    f" ORDER BY observed_at, comparison_id LIMIT {PAGE}"
)
NEWEST: Final = (
    f"SELECT {COMPARISON} FROM comparisons"  # noqa: S608
    " QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY observed_at DESC, rec_id DESC, comparison_id DESC) = 1"
)
"""The newest of each run."""
_ORDER: Final = ("FAIL", "INVALID", "VACUOUS", "PASS", "no verdict")


class ComparedNews:
    """What was compared, what is under way and what could not be, since it was asked last.

    Args:
        ask: asks the store: rows of a statement, with its parameters and `gather`.
    """

    def __init__(self, ask: Callable[..., Sequence[dict[str, Any]]]) -> None:
        self._ask = ask
        self._known: set[str] = set()
        self._newest = datetime.min
        self._under_way: dict[str, str] = {}

    def told(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(word, what, all of it) of each."""
        for row in self._compared():
            yield "comparison", verdict(row), row
        rows = self._ask(f"SELECT {QUEUE} FROM comparison_queue WHERE state <> 'waiting'", gather="")  # noqa: S608
        before, self._under_way = self._under_way, {row["task"]: waits(row) for row in rows}
        for row in rows:
            if before.get(row["task"]) != self._under_way[row["task"]]:
                yield "comparing", self._under_way[row["task"]], row

    def _compared(self) -> Iterator[dict[str, Any]]:
        """New ones, from a while before the newest one that was told on: stores do not all tell at once."""
        since, name = self._newest if self._newest == datetime.min else self._newest - BACK, ""
        while True:
            rows = self._ask(SINCE, [since, since, name], gather="")
            for row in rows:
                since, name = row["observed_at"], row["comparison_id"]
                if name not in self._known:
                    self._known.add(name)
                    yield row
            self._newest = max(self._newest, since)
            if len(rows) < PAGE:
                return


def counts(rows: Sequence[Mapping[str, Any]]) -> str:
    """`1 FAIL, 11 PASS (2 not counted); 2 locked; 10 evidence` of rows of COUNTS of one run."""
    labels: Counter[str] = Counter()
    doubts: Counter[str] = Counter()
    for row in rows:
        labels[row["label"]] += row["comparisons"]
        if row["admissibility"] != "admissible":
            doubts[row["admissibility"]] += row["comparisons"]
    idle = Counter(
        {label: sum(row["comparisons"] for row in rows if row["idle"] and row["label"] == label) for label in labels}
    )
    words = ", ".join(
        f"{labels[label]} {label}{f' ({idle[label]} not counted)' if idle[label] else ''}"
        for label in _ORDER
        if labels[label]
    )
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
