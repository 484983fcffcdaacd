"""What the screens ask of comparisons beside lists: those of a run in short, what waits, a step's control groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tic_tui.comparison_model import QUEUE, Board, Compared, Comparison, Queued
from tic_tui.model import build, columns
from tic_tui.queries import TIMEOUT_S, everything
from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

NEWEST: Final = 6  # of a run, on screen 2
NEWEST_FIRST: Final = "ORDER BY observed_at DESC, rec_id DESC, comparison_id DESC"
_COUNTS: Final = (
    "coalesce(label, '')"
    " || CASE WHEN label IN ('PASS', 'FAIL') AND state = 'inconclusive' THEN ' (not counted)' ELSE '' END"
)
_ONCE: Final = (
    "row_number() OVER (PARTITION BY comparison_id ORDER BY marked DESC,"
    " CASE admissibility WHEN 'locked' THEN 0 WHEN 'suspect' THEN 1 ELSE 2 END, observed_at DESC) = 1"
)


def of_run(reader: Reader, run_id: str) -> Compared:
    """Comparisons of one run, in short. What costs is the view: it is asked once, for the newest and for all labels."""
    of = "comparisons WHERE run_id = ?"
    if reader.connection().kind == "several":
        newest = comparisons(reader, of, (run_id,), f"{NEWEST_FIRST} LIMIT {NEWEST}")
        labels = counted(reader, _COUNTS, of, (run_id,))
    else:
        rows = everything(
            reader,
            f"SELECT count(*) OVER (PARTITION BY {_COUNTS}) AS n, {_COUNTS} AS word, {columns(Comparison)} FROM {of}"  # noqa: S608
            f" QUALIFY row_number() OVER ({NEWEST_FIRST}) <= {NEWEST}"
            f" OR row_number() OVER (PARTITION BY {_COUNTS} {NEWEST_FIRST}) = 1 {NEWEST_FIRST}",
            (run_id,),
        )
        newest = [build(Comparison, row[2:]) for row in rows[:NEWEST]]
        labels = by_count({row[1]: row[0] for row in rows})
    return Compared(tuple(newest), labels, queue(reader, run_id))


def comparisons(reader: Reader, source: str, params: Sequence[object], order: str) -> list[Comparison]:
    """Comparisons of a view and condition. Of several stores that have one, that which lowers it most counts."""
    rows = everything(
        reader,
        f"SELECT {columns(Comparison)} FROM {source} {order}",  # noqa: S608
        params,
        f"SELECT * FROM part QUALIFY {_ONCE} {order}",  # noqa: S608
    )
    return [build(Comparison, row) for row in rows]


def counted(reader: Reader, value: str, source: str, params: Sequence[object]) -> tuple[tuple[Safe, int], ...]:
    """How many comparisons have each value, most first. Of several stores each comparison counts once.

    Args:
        value: SQL text of a column's value, a constant of this package. source: view and condition.
    """
    counts: dict[str, int] = {}
    if reader.connection().kind == "several":
        sql = f"SELECT DISTINCT comparison_id, {value} AS value FROM {source}"  # noqa: S608
        # A word that lowers another is that word and more: of two stores that which lowers it counts.
        once = (
            "SELECT comparison_id, max(value) FROM part GROUP BY ALL"
            if value == _COUNTS
            else "SELECT DISTINCT * FROM part"
        )
        for _, name in everything(reader, sql, params, once):
            counts[name] = counts.get(name, 0) + 1
    else:
        sql = f"SELECT {value} AS value, count(*) AS n FROM {source} GROUP BY ALL"  # noqa: S608
        counts = dict(everything(reader, sql, params))
    return by_count(counts)


def by_count(counts: Mapping[str, int]) -> tuple[tuple[Safe, int], ...]:
    """Values with their counts, most first."""
    return tuple(sorted(((safe(v), n) for v, n in counts.items()), key=lambda pair: (-pair[1], pair[0])))


def queue(reader: Reader, run_id: str | None) -> tuple[Queued, ...]:
    """What waits, runs or failed: of a run, with what names none, or of all; of several stores each file once."""
    of, params = ("", ()) if run_id is None else (" WHERE coalesce(run_id, ?) = ?", (run_id, run_id))
    # What waits comes last: there may be more of it than is asked for.
    order = f"ORDER BY state = 'waiting', state <> 'running', observed_at, side_a, side_b LIMIT {QUEUE}"
    sql = f"SELECT {columns(Queued)} FROM comparison_queue{of} {order}"  # noqa: S608
    return tuple(build(Queued, row) for row in reader.query(sql, params, timeout_s=TIMEOUT_S).rows)


def board(reader: Reader, about: tuple[str | None, int | None, int | None] | None) -> Board | None:
    """The control groups of a step of a run, of all stores together."""
    if about is None or about[0] is None:
        return None
    of = "run_id = ? AND attempt IS NOT DISTINCT FROM ? AND step IS NOT DISTINCT FROM ?"
    sql = f"SELECT {columns(Board)} FROM control_groups WHERE {of}"  # noqa: S608
    rows = reader.query(sql, about, timeout_s=TIMEOUT_S).rows
    return build(Board, rows[0]) if rows else None
