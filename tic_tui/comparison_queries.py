"""What the screens ask of comparisons beside lists: those of a run in short, what waits, a step's control groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tic_tui.comparison_model import Board, Compared, Comparison, Queued
from tic_tui.model import build, columns
from tic_tui.queries import everything, rows_of
from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

NEWEST: Final = 6  # of a run, on screen 2
QUEUE: Final = 200
NEWEST_FIRST: Final = "ORDER BY observed_at DESC, comparison_id DESC, rec_id DESC"
_ONCE: Final = (
    "row_number() OVER (PARTITION BY comparison_id ORDER BY marked DESC,"
    " CASE admissibility WHEN 'locked' THEN 0 WHEN 'suspect' THEN 1 ELSE 2 END, observed_at DESC) = 1"
)


def of_run(reader: Reader, run_id: str) -> Compared:
    """Comparisons of one run, in short."""
    newest = comparisons(reader, "comparisons WHERE run_id = ?", (run_id,), f"{NEWEST_FIRST} LIMIT {NEWEST}")
    return Compared(tuple(newest), _labels(reader, run_id), queue(reader, run_id))


def comparisons(reader: Reader, source: str, params: Sequence[object], order: str) -> list[Comparison]:
    """Comparisons of a view and condition. Of several stores that have one, that which lowers it most counts."""
    rows = everything(
        reader,
        f"SELECT {columns(Comparison)} FROM {source} {order}",  # noqa: S608
        params,
        f"SELECT * FROM part QUALIFY {_ONCE} {order}",  # noqa: S608
    )
    return [build(Comparison, row) for row in rows]


def _labels(reader: Reader, run_id: str) -> tuple[tuple[Safe, int], ...]:
    rows = everything(
        reader,
        "SELECT comparison_id, coalesce(label, '') AS label FROM comparisons WHERE run_id = ?",
        [run_id],
        "SELECT DISTINCT * FROM part",
    )
    return counted(label for _, label in rows)


def counted(values: Iterable[str]) -> tuple[tuple[Safe, int], ...]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return tuple(sorted(((safe(v), n) for v, n in counts.items()), key=lambda pair: (-pair[1], pair[0])))


def queue(reader: Reader, run_id: str | None) -> tuple[Queued, ...]:
    """What waits, runs or failed: of a run, with what names none, or of all."""
    source, params = ("comparison_queue", ()) if run_id is None else (
        "comparison_queue WHERE coalesce(run_id, ?) = ?", (run_id, run_id)
    )  # fmt: skip
    order = f"ORDER BY observed_at, side_a, side_b LIMIT {QUEUE}"
    return tuple(dict.fromkeys(rows_of(reader, Queued, source, params, order)))


def board(reader: Reader, about: tuple[str | None, int | None, int | None] | None) -> Board | None:
    """The control groups of a step of a run; of several stores the one that counts most comparisons."""
    if about is None or about[0] is None:
        return None
    run_id, attempt, step = about
    of = "control_groups WHERE run_id = ? AND attempt IS NOT DISTINCT FROM ? AND step IS NOT DISTINCT FROM ?"
    rows = rows_of(reader, Board, of, (run_id, attempt, step))
    return max(rows, key=lambda row: row.comparisons, default=None)
