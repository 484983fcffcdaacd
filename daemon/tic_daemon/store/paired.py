"""Rows of the ledger for what pairs of arms measured: cells acceptance/performance and acceptance/quality.

Of each pair and key for which a criterion is frozen: arm b's candidate is judged against the baseline that arm a is.
A pair with a planted error judges nobody: it shows that the criterion can fail. A number that changed is another row,
and of one pair and criterion the newest counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.evidence.judge import Bound
from tic_daemon.evidence.labels import Label
from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger.criterion import PAIRED
from tic_daemon.ledger.entries import EVIDENCE, Entry
from tic_daemon.ledger.paired import Measured, verdict
from tic_daemon.store.ledger import BOUND

if TYPE_CHECKING:
    import duckdb

_CRITERIA: Final = """
SELECT criterion_id, cell, key, metric, at_most, at_least, frozen_at FROM criteria
WHERE list_contains(?, metric) AND state = 'in force' ORDER BY frozen_at, criterion_id
"""
_PAIRS: Final = "SELECT pair, a, b, baseline, plant FROM pair_declarations ORDER BY pair"
_VALUES: Final = """
SELECT pair, cell, key, any_value(state), any_value(reason), any_value(median_ratio), any_value(median_difference),
    list(ratio ORDER BY position), list(difference ORDER BY position)
FROM pair_values WHERE cell IN ('performance', 'quality') GROUP BY pair, cell, key
"""
_FIRST: Final = """
SELECT run_id, min(until_at), count(*) FILTER (until_at IS NULL) FROM arm_facts WHERE fact = 'metric' GROUP BY run_id
"""
_BASELINES: Final = "SELECT name, candidate_id, state FROM baselines"
_PLANTED: Final = "SELECT DISTINCT criterion FROM ledger_row WHERE kind = 'planted' AND label = 'FAIL'"

Row = Sequence[Any]


def entries(con: duckdb.DuckDBPyConnection, host: str, now: datetime) -> list[Entry]:
    """All rows that follow now. Without a criterion of pairs, or without a pair, nothing more is asked."""
    criteria = con.execute(_CRITERIA, [list(PAIRED)]).fetchall()
    pairs = con.execute(_PAIRS).fetchall() if criteria else []
    if not pairs:
        return []
    values: dict[tuple[str, str, str], Row] = {
        (row[0], row[1], row[2]): row[3:] for row in con.execute(_VALUES).fetchall()
    }
    first = {run: (at, timeless) for run, at, timeless in con.execute(_FIRST).fetchall()}
    candidates: dict[str, str] = dict(con.execute(BOUND).fetchall())
    baselines = {name: (candidate, state) for name, candidate, state in con.execute(_BASELINES).fetchall()}
    (margin_us,) = con.execute("SELECT margin_us FROM i_lock_setting").fetchone() or (0,)
    proved = {row[0] for row in con.execute(_PLANTED).fetchall()}
    found: list[Entry] = []
    # Pairs that plant an error come first: what they prove holds for the others.
    for pair, a, b, baseline, plant in sorted(pairs, key=lambda row: (not row[4], row[0])):
        for criterion, cell, key, metric, at_most, at_least, frozen_at in criteria:
            told = values.get((pair, cell, key))
            if told is None or told[0] == "not run":
                continue
            state, reason, ratio, difference, ratios, differences = told
            before = frozen_at + timedelta(microseconds=margin_us or 0)
            older = bool(b) and all(run in first and not first[run][1] and first[run][0] > before for run in b)
            measured = Measured(
                state, reason, ratio, difference, ratios, differences,
                baseline=_lacking(baseline, baselines, a, candidates), older=older, plant=plant,
                proved=criterion in proved,
            )  # fmt: skip
            label, why = verdict(Bound(metric, at_most, at_least), measured)
            said = {"criterion": criterion, "label": str(label or ""), "reason": why, "target": f"pair:{pair}"}
            body = {"pair": pair, "key": key, "runs": [*b, *a], "of": b, "against": a, "baseline": baseline}
            if plant:
                if label is not None:
                    proved |= {criterion} if label is Label.FAIL else set()
                    found.append(_row("planted", said, {**body, "plant": plant}, host, now))
                continue
            own = {candidates.get(run, "") for run in b}
            if len(own) == 1 and "" not in own:
                place = {"candidate": own.pop(), "run_id": b[0], "gate": "acceptance", "cell": cell}
                found.append(_row("evidence", {**said, **place}, body, host, now))
    return found


def _lacking(name: str, known: Mapping[str, tuple[str, str]], a: Sequence[str], candidates: Mapping[str, str]) -> str:
    """What is wrong with a pair's baseline; "" if nothing is."""
    if not name:
        return "the pair names no baseline"
    if name not in known:
        return f"baseline {name} is not in the ledger"
    candidate, state = known[name]
    if state != "reviewed":
        return f"baseline {name} is {state}"
    other = [run for run in a if candidates.get(run) != candidate]
    return f"nothing shows that {other[0]} is of baseline {name}" if other else ""


def _row(kind: str, said: dict[str, str], body: dict[str, Any], host: str, now: datetime) -> Entry:
    text = canonical(body)
    row_id = EVIDENCE + named(kind, *said.values(), text)
    return Entry(row_id, kind, now, "tic-daemon", host, body=text, **said)  # type: ignore[arg-type]
