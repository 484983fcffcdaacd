"""What the screen asks of the ledger: public views alone, of one store or of several united.

What of the evidence counts, the state of a cell and the state of a rule are the views' own words. Of a row of the
ledger two things are read off other rows as they stand there: that one supersedes it, and that one replaced its
criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tic_tui.comparison_model import Comparison
from tic_tui.comparison_queries import NEWEST_FIRST, comparisons
from tic_tui.evidence_model import (
    Baseline,
    Candidate,
    Case,
    Cell,
    Criterion,
    Entry,
    FirstDivergence,
    Pair,
    PairValue,
    Piece,
    Rule,
)
from tic_tui.model import build, columns
from tic_tui.queries import MOST, TIMEOUT_S

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

PIECES: Final = 200
"""Rows of a cell's past, and traces of a run, that are asked for at most."""

# A row with its standing. Nothing is called current here: view evidence_current alone says that.
LEDGER: Final = """(
SELECT l.* EXCLUDE (gate, cell), coalesce(nullif(l.gate, ''), c.gate, '') AS gate,
    CASE WHEN l.gate <> '' THEN l.cell WHEN c.gate = 'per_version' THEN l.policy ELSE coalesce(c.cell, '') END AS cell,
    CASE WHEN s.target IS NOT NULL THEN 'superseded' WHEN h.criterion_id IS NOT NULL THEN 'historical'
         ELSE '' END AS standing,
    coalesce(s.because, h.because, '') AS because
FROM ledger l
LEFT JOIN criteria c ON c.criterion_id = l.criterion_id AND l.kind IN ('evidence', 'criterion')
LEFT JOIN (
    SELECT target, arg_max(reason || ' (' || who || ')', (said_at, id)) AS because FROM ledger
    WHERE kind = 'supersede' GROUP BY target
) s ON s.target = l.id AND l.kind = 'evidence'
LEFT JOIN (
    SELECT criterion_id, arg_min(reason || ' (' || who || ')', (said_at, id)) AS because FROM ledger
    WHERE kind = 'replaced' GROUP BY criterion_id
) h ON h.criterion_id = l.criterion_id AND l.kind IN ('evidence', 'criterion')
)"""
_CRITERIA: Final = "(SELECT *, text AS raw FROM criteria)"
OF_RUN: Final = (
    "(run_id = ? OR candidate_id IN (SELECT candidate_id FROM ledger WHERE kind = 'candidate' AND run_id = ?))"
)


def rows(reader: Reader, kind: type[T], source: str, params: Sequence[object] = (), order: str = "") -> list[T]:
    """Models of a view and condition; several stores answer as one.

    Args:
        source: view and condition; a constant of this package, values are parameters.
    """
    sql = f"SELECT {columns(kind)} FROM {source} {order}"  # noqa: S608
    return [build(kind, row) for row in _all(reader, sql, params)]


def _all(reader: Reader, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    return reader.query(sql, params, max_rows=MOST, timeout_s=TIMEOUT_S).rows


def grouped(found: Sequence[T], by: Callable[[T], str]) -> dict[str, tuple[T, ...]]:
    """Rows by a name, in their order."""
    held: dict[str, list[T]] = {}
    for one in found:
        held.setdefault(by(one), []).append(one)
    return {name: tuple(told) for name, told in held.items()}


# --- candidates and cells ---


def candidates(reader: Reader, run_id: str | None) -> tuple[Candidate, ...]:
    """Candidates of a run, or all; the newest first."""
    of, params = ("candidates", ()) if run_id is None else ("candidates WHERE list_contains(run_ids, ?)", (run_id,))
    return tuple(rows(reader, Candidate, of, params, "ORDER BY said_at DESC, candidate_id"))


def cells(reader: Reader, run_id: str | None) -> dict[str, tuple[Cell, ...]]:
    """The cells of these candidates, in the order of the gates; of policy versions by their number."""
    of, params = ("gates", ()) if run_id is None else (
        "gates WHERE candidate_id IN (SELECT candidate_id FROM candidates WHERE list_contains(run_ids, ?))",
        (run_id,),
    )  # fmt: skip
    order = "ORDER BY candidate_id, position, try_cast(cell AS BIGINT) NULLS LAST, cell"
    return grouped(rows(reader, Cell, of, params, order), lambda cell: cell.candidate_id)


def in_force(reader: Reader) -> int:
    """How many criteria are in force."""
    return int(_all(reader, "SELECT count(*) FROM criteria WHERE state = 'in force'")[0][0])


def known(reader: Reader, candidate_id: str | None) -> Candidate | None:
    """One candidate."""
    found = rows(reader, Candidate, "candidates WHERE candidate_id = ?", (candidate_id,)) if candidate_id else []
    return found[0] if found else None


def cell(reader: Reader, candidate_id: str, gate: str, name: str) -> Cell | None:
    """One cell."""
    found = rows(reader, Cell, "gates WHERE candidate_id = ? AND gate = ? AND cell = ?", (candidate_id, gate, name))
    return found[0] if found else None


def pieces(reader: Reader, candidate_id: str, gate: str, name: str) -> tuple[Piece, ...]:
    """Current evidence of a cell, the newest first."""
    of = "evidence_current WHERE candidate_id = ? AND gate = ? AND cell = ?"
    return tuple(rows(reader, Piece, of, (candidate_id, gate, name), "ORDER BY said_at DESC, id DESC"))


def past(reader: Reader, candidate_id: str, gate: str, name: str, current: Sequence[str]) -> tuple[Entry, ...]:
    """Evidence that was judged for a cell and is not among the current, the newest first."""
    of = f"{LEDGER} WHERE kind = 'evidence' AND candidate_id = ? AND gate = ? AND cell = ?"
    order = f"ORDER BY said_at DESC, id DESC LIMIT {PIECES + len(current)}"
    known = frozenset(current)
    found = rows(reader, Entry, of, (candidate_id, gate, name), order)
    return tuple(one for one in found if one.id not in known)[:PIECES]


def exemptions(reader: Reader, candidate_id: str, gate: str, name: str) -> tuple[Entry, ...]:
    """What people declared to carry over into a cell, the newest first."""
    of = f"{LEDGER} WHERE kind = 'exemption' AND candidate_id = ? AND gate = ? AND cell IN ('', ?)"
    return tuple(rows(reader, Entry, of, (candidate_id, gate, name), "ORDER BY said_at DESC, id DESC"))


def criteria(reader: Reader, gate: str | None = None, name: str = "") -> tuple[Criterion, ...]:
    """Criteria, the newest first; with a gate those for its cell."""
    of, params = (_CRITERIA, ()) if gate is None else (
        _CRITERIA + " WHERE gate = ? AND (gate = 'per_version' OR cell = ?)", (gate, name),
    )  # fmt: skip
    return tuple(rows(reader, Criterion, of, params, "ORDER BY frozen_at DESC, criterion_id"))


def compared(reader: Reader, ids: Sequence[str | None]) -> dict[str, Comparison]:
    """Comparisons by their names."""
    wanted = list(dict.fromkeys(name for name in ids if name))[: 2 * PIECES]
    if not wanted:
        return {}
    held = ", ".join("?" * len(wanted))
    found = comparisons(reader, f"comparisons WHERE comparison_id IN ({held})", wanted, NEWEST_FIRST)
    return {one.comparison_id: one for one in found}


# --- the ledger ---


def entries(reader: Reader, condition: str, params: Sequence[object], order: str) -> list[Entry]:
    """Rows of the ledger."""
    return rows(reader, Entry, f"{LEDGER} WHERE {condition}", params, order)


def counted(reader: Reader, condition: str, params: Sequence[object]) -> tuple[int, int, int]:
    """(rows, superseded ones, historical ones)."""
    each = "count(*), count(*) FILTER (standing = 'superseded'), count(*) FILTER (standing = 'historical')"
    total, superseded, historical = _all(reader, f"SELECT {each} FROM {LEDGER} WHERE {condition}", params)[0]  # noqa: S608
    return total, superseded, historical


def values_of(reader: Reader, value: str, condition: str, params: Sequence[object], most: int) -> dict[str, int]:
    """Values of a column and how many rows have each, most first."""
    sql = (
        f"SELECT {value} AS value, count(*) AS n FROM {LEDGER} WHERE {condition}"  # noqa: S608
        f" GROUP BY ALL ORDER BY n DESC, value LIMIT {most}"
    )
    return dict(_all(reader, sql, params))


# --- pairs, baselines, cases, traces ---


def pairs(reader: Reader) -> tuple[Pair, ...]:
    """Declared pairs of arms, the ones that are not comparable first."""
    return tuple(rows(reader, Pair, "pairs", (), "ORDER BY state = 'comparable', pair"))


def rules(reader: Reader) -> dict[str, tuple[Rule, ...]]:
    """The nine rules of each pair."""
    return grouped(rows(reader, Rule, "pair_rules", (), "ORDER BY pair, number"), lambda rule: rule.pair)


def values(reader: Reader) -> dict[str, tuple[PairValue, ...]]:
    """The numbers of each pair."""
    order = "ORDER BY pair, cell, key, position NULLS LAST, run_a, run_b"
    return grouped(rows(reader, PairValue, "pair_values", (), order), lambda value: value.pair)


def baselines(reader: Reader) -> tuple[Baseline, ...]:
    """Baselines, the newest first."""
    return tuple(rows(reader, Baseline, "baselines", (), "ORDER BY said_at DESC, id"))


def cases(reader: Reader) -> tuple[Case, ...]:
    """Case records, the newest first."""
    return tuple(rows(reader, Case, "cases", (), "ORDER BY said_at DESC, name"))


def divergences(reader: Reader, run_id: str) -> tuple[FirstDivergence, ...]:
    """Where the traces of a run begin to differ, the newest step first."""
    order = f"ORDER BY step DESC NULLS LAST, observed_at DESC, comparison_id LIMIT {PIECES}"
    return tuple(rows(reader, FirstDivergence, "trace_first_divergence WHERE run_id = ?", (run_id,), order))
