"""What the screens of comparisons show: a list, and one comparison with a window of its sequences or probes.

Comparisons are few beside records: each takes a worker seconds to make. A list is read as a window round its anchor, as
often as that costs; what belongs to one comparison never changes once it is written, and is read once a window.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tic_tui.anchored import Ordering, around
from tic_tui.comparison_model import (
    WINDOW,
    Artifact,
    Board,
    Boundary,
    Comparison,
    ComparisonsView,
    ComparisonView,
    ComparisonWindow,
    Divergence,
    SequenceRow,
    TokenRow,
    VersionRow,
)
from tic_tui.comparison_queries import NEWEST_FIRST, board, comparisons, counted, queue
from tic_tui.filters import COMPARISON_COLUMNS, UNKNOWN, Filter, chosen, where
from tic_tui.model import build, columns
from tic_tui.queries import everything, rows_of
from tic_tui.reading import Ask, Paced
from tic_tui.safe import Safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

TOKENS: Final = 2000
VERSIONS: Final = 1000
CHOICES: Final = 200
KEPT: Final = 9  # windows of one comparison that are held
# The key of a comparison names no store: of several that have it one counts.
_BY_TIME: Final = Ordering(
    "(observed_at < ? OR (observed_at = ? AND rec_id <= ?))",
    lambda key: (key.observed_at, key.observed_at, key.rec_id),
    NEWEST_FIRST,
    "ORDER BY observed_at, rec_id, comparison_id",
)
_WORST: Final = "mismatched_tokens DESC NULLS FIRST, max_abs DESC NULLS FIRST, request"


class ComparisonsReading:
    """The list: comparisons of a run, or of all, that a stack of filters leaves."""

    complete: Final = True

    def __init__(self, run_id: str | None, filters: tuple[Filter, ...]) -> None:
        self._run_id = run_id
        text, params = where(filters)
        self._filtered = bool(text)
        own: tuple[object, ...] = () if run_id is None else (run_id,)
        self._all = ("comparisons WHERE " + ("true" if run_id is None else "run_id = ?"), own)
        self._matching = (self._all[0] + text, (*own, *params))
        self._demands: dict[object, Any] = {}
        self._queue = Paced(lambda reader: queue(reader, run_id))
        self._counts = Paced(self._count)

    def view(self, reader: Reader, ask: Ask) -> ComparisonsView:
        """The list as it is now."""
        demand = ask.demand
        about = demand.compare.board if demand.compare is not None else None
        total, matching = self._counts.get(reader, ask)
        return ComparisonsView(
            demand=demand,
            window=self._paced(("window", demand.anchor, demand.rows), lambda r: self._window(r, ask)).get(reader, ask),
            total=total,
            matching=matching,
            choices=self._paced(("choices", demand.choices), lambda r: self._choices(r, demand.choices)).get(
                reader, ask
            ),
            queue=self._queue.get(reader, ask),
            board=self._paced(("board", about), lambda r: board(r, about)).get(reader, ask),
            read_at=datetime.now(UTC),
        )

    def _paced(self, name: tuple[object, ...], ask: Callable[[Reader], T]) -> Paced[T]:
        """The answer to a part of the demand; only that of the newest demand is held."""
        held = self._demands.get(name[0])
        if held is None or held[0] != name:
            held = self._demands[name[0]] = (name, Paced(ask))
        return held[1]

    def _count(self, reader: Reader) -> tuple[int, int]:
        """(all of them, those that the filters leave)."""

        def number(source: str, params: tuple[object, ...]) -> int:
            return sum(n for _, n in counted(reader, "''", source, params))

        total = number(*self._all)
        return total, number(*self._matching) if self._filtered else total

    def _window(self, reader: Reader, ask: Ask) -> ComparisonWindow:
        """Rows round the anchor, or the newest ones."""
        source, params = self._matching
        rows, older, newer = around(
            lambda where, more, order: comparisons(reader, source + where, (*params, *more), order),
            ask.demand.anchor, ask.demand.rows, _BY_TIME,
        )  # fmt: skip
        return ComparisonWindow(rows, older, newer)

    def _choices(self, reader: Reader, column: str) -> dict[str, tuple[tuple[Safe, int], ...]]:
        """Values of a column and how many comparisons have each."""
        if column not in chosen("comparisons"):
            return {}
        name, kind = COMPARISON_COLUMNS[column]
        text = f"CASE WHEN {name} THEN 'yes' ELSE 'no' END" if kind == "yes or no" else f"CAST({name} AS VARCHAR)"
        value = f"coalesce(nullif({text}, ''), '{UNKNOWN}')"
        return {column: counted(reader, value, *self._all)[:CHOICES]}


class ComparisonReading:
    """One comparison."""

    complete: Final = True

    def __init__(self, comparison_id: str) -> None:
        self._id = comparison_id
        self._row = Paced(self._read_row)
        self._read: Comparison | None = None
        self._board: tuple[object, Paced[Board | None]] | None = None
        self._artifacts = Paced(self._read_artifacts)
        self._held: dict[object, Any] = {}

    def view(self, reader: Reader, ask: Ask) -> ComparisonView:
        """The comparison as it is now."""
        one = ask.demand.compare
        assert one is not None  # noqa: S101  the desk makes a reading of it
        self._read = row = self._row.get(reader, ask)
        if row is None:
            return ComparisonView(
                ask.demand, None, 0, 0, (), (), None, 0, None, None, None, None, (), datetime.now(UTC)
            )
        trace, about, request = row.kind == "trace", (row.run_id, row.attempt, row.step), one.request
        if self._board is None or self._board[0] != about:
            self._board = (about, Paced(lambda r: board(r, about)))
        divergence, divergence_at = None, 0
        sequences: tuple[SequenceRow, ...] = ()
        boundaries: tuple[Boundary, ...] = ()
        sequence, tokens = None, None
        if trace:
            divergence, divergence_at = self._once("divergence", lambda: self._divergence(reader))
            boundaries = self._once(("probes", one.first), lambda: self._boundaries(reader, one.first))
        else:
            windows = ("sequences", one.worst, one.first)
            sequences = self._once(windows, lambda: self._sequences(reader, one.worst, one.first))
        if request is not None:
            sequence = self._once(("sequence", request), lambda: self._sequence(reader, request))
            tokens = self._once(("tokens", request), lambda: self._tokens(reader, request))
        return ComparisonView(
            demand=ask.demand,
            row=row,
            total=self._once("total", lambda: self._total(reader, trace=trace)),
            first=one.first,
            sequences=sequences,
            boundaries=boundaries,
            divergence=divergence,
            divergence_at=divergence_at,
            sequence=sequence,
            tokens=tokens,
            artifacts=self._artifacts.get(reader, ask) if one.artifacts else None,
            board=self._board[1].get(reader, ask),
            versions=() if trace else self._once("versions", lambda: self._versions(reader)),
            read_at=datetime.now(UTC),
        )

    def _once(self, name: object, ask: Callable[[], T]) -> T:
        """An answer that never changes; those asked for longest ago are let go."""
        if name not in self._held:
            while len(self._held) >= KEPT:
                del self._held[next(iter(self._held))]
            self._held[name] = ask()
        found: T = self._held[name]
        return found

    def _read_row(self, reader: Reader) -> Comparison | None:
        found = comparisons(reader, "comparisons WHERE comparison_id = ?", (self._id,), NEWEST_FIRST)
        return found[0] if found else None

    def _total(self, reader: Reader, *, trace: bool) -> int:
        """Sequences, or probes, that are kept; several stores keep the same ones."""
        view = "trace_boundaries" if trace else "comparison_sequences"
        rows = everything(reader, f"SELECT count(*) AS n FROM {view} WHERE comparison_id = ?", [self._id])  # noqa: S608
        return max((row[0] for row in rows), default=0)

    def _sequences(self, reader: Reader, worst: bool, first: int) -> tuple[SequenceRow, ...]:
        order = f"ORDER BY {_WORST}" if worst else "ORDER BY request"
        return self._window(reader, SequenceRow, "comparison_sequences", order, first)

    def _versions(self, reader: Reader) -> tuple[VersionRow, ...]:
        """By version, numbers in the order of numbers."""
        of = "comparison_versions WHERE comparison_id = ?"
        found = dict.fromkeys(rows_of(reader, VersionRow, of, (self._id,), f"ORDER BY policy LIMIT {VERSIONS}"))
        return tuple(sorted(found, key=_by_version))

    def _boundaries(self, reader: Reader, first: int) -> tuple[Boundary, ...]:
        order = "ORDER BY execution_order, request, boundary, slice"
        return self._window(reader, Boundary, "trace_boundaries", order, first)

    def _divergence(self, reader: Reader) -> tuple[Divergence | None, int]:
        """Where it begins to differ, and the number of that probe among those that are kept."""
        found = rows_of(reader, Divergence, "trace_first_divergence WHERE comparison_id = ?", (self._id,))
        if not found or found[0].execution_order is None:
            return found[0] if found else None, 0
        first = found[0]
        rows = everything(
            reader,
            "SELECT count(*) AS n FROM trace_boundaries WHERE comparison_id = ? AND (execution_order < ?"
            " OR (execution_order = ? AND (request, boundary, slice) < (?, ?, ?)))",
            (self._id, first.execution_order, first.execution_order, first.request, first.boundary, first.slice),
        )
        return first, max((row[0] for row in rows), default=0)

    def _tokens(self, reader: Reader, request: str) -> tuple[TokenRow, ...]:
        order = f"ORDER BY position LIMIT {TOKENS}"
        of = "comparison_tokens WHERE comparison_id = ? AND request = ?"
        return tuple(dict.fromkeys(rows_of(reader, TokenRow, of, (self._id, request), order)))

    def _sequence(self, reader: Reader, request: str) -> SequenceRow | None:
        of = "comparison_sequences WHERE comparison_id = ? AND request = ?"
        found = rows_of(reader, SequenceRow, of, (self._id, request), "LIMIT 1")
        return found[0] if found else None

    def _window(self, reader: Reader, kind: type[T], view: str, order: str, first: int) -> tuple[T, ...]:
        """Rows from one on. Stores that keep one comparison keep the same rows of it: each is taken once."""
        rows = everything(
            reader,
            f"SELECT {columns(kind)} FROM {view} WHERE comparison_id = ? {order} LIMIT {WINDOW} OFFSET {first:d}",  # noqa: S608
            [self._id],
            f"SELECT DISTINCT * FROM part {order} LIMIT {WINDOW}",  # noqa: S608
        )
        return tuple(build(kind, row) for row in rows)

    def _read_artifacts(self, reader: Reader) -> tuple[Artifact, ...]:
        """The files of both sides as a manifest names them; a file that none names is not among them."""
        row = self._read
        if row is None:
            return ()
        paths = [path for path in (row.side_a, row.side_b) if path]
        marks = ", ".join("?" * len(paths))
        of = f"artifacts WHERE path IN ({marks}) AND host IS NOT DISTINCT FROM ?"
        rows = rows_of(reader, Artifact, of, (*paths, row.host), "ORDER BY path, observed_at DESC LIMIT 20")
        return tuple({artifact.path: artifact for artifact in reversed(rows)}.values())


def _by_version(row: VersionRow) -> tuple[bool, int, str]:
    """Numbers first and as numbers, other names behind them as text."""
    name = str(row.policy or "")
    number = name.isascii() and name.isdigit()
    return not number, int(name) if number else 0, name
