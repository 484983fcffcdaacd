"""The questions of screen 4: who told of a state, what was told in each column, and which changes lie round a place.

`Scale` is an axis as SQL: where a row stands on it, and which rows of a view do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tic_tui.execution import PhaseChange, StateChange
from tic_tui.lanes import LATEST, TRACKS, Axis, Cell, Change, Changes, File, Lane, Order, Teller, Who, phase_words
from tic_tui.model import Fault, build, columns
from tic_tui.queries import everything, once, rows_of
from tic_tui.safe import safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

FILES: Final = 40  # newest generations of a log that have a place on the axis
FAULTS: Final = 1000
AROUND: Final = 200  # changes on each side of the cursor
_MINE: Final = " AND coalesce(host, '') = ? AND coalesce(path, '') = ?"
_LINES: Final = (
    "SELECT coalesce(role, 'unknown') AS role, coalesce(host, '') AS host, coalesce(path, '') AS path, voice,"
    " generation, count(*) AS lines, count(event_at) AS timed, min(event_at) AS first_at, max(event_at) AS last_at,"
    " max(line_no) AS last_line, list_slice(list_sort(list(DISTINCT rank)), 1, 8) AS ranks,"
    " list_slice(list_sort(list(DISTINCT pid)), 1, 8) AS pids FROM {view} WHERE run_id = ? GROUP BY ALL"
)
_ORDER_BUT_X: Final = "generation, byte_offset, rec_id"
_ORDER: Final = "x, generation, byte_offset, rec_id"
_DOWN: Final = "x DESC, generation DESC, byte_offset DESC, rec_id DESC"


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis for the rows of one run: all of them by time, those of one log by place."""

    axis: Axis
    teller: Teller

    @property
    def x(self) -> str:
        """Where a row stands; NULL: nowhere."""
        if self.axis == "time":
            return "epoch_us(event_at)"
        cases = " ".join(f"WHEN {f.generation} THEN {f.base} + line_no" for f in self.teller.files)
        return f"(CASE generation {cases} END)" if cases else "NULL::BIGINT"

    def where(self) -> tuple[str, tuple[object, ...]]:
        """Which rows of any view have a place: a condition that begins with AND, and its parameters."""
        if self.axis == "time":
            return " AND event_at IS NOT NULL", ()
        return f"{_MINE} AND {self.x} IS NOT NULL", (self.teller.who.host, self.teller.who.path)

    def told(self) -> tuple[str, tuple[object, ...]]:
        """As `where`, what the teller told."""
        who = self.teller.who
        text = f" AND coalesce(role, 'unknown') = ?{_MINE} AND voice = ? AND {self.x} IS NOT NULL"
        return text, (who.role, who.host, who.path, who.voice)


def tellers(reader: Reader, run_id: str) -> tuple[Teller, ...]:
    """Who told of the state or the weights of a run: the rollout first, then the trainer."""
    sql = f"{_LINES.format(view='exec_states')} UNION ALL {_LINES.format(view='weight_lifecycle')}"
    parts: dict[Who, list[tuple[Any, ...]]] = {}
    for row in everything(reader, sql, (run_id, run_id)):
        parts.setdefault(Who(*row[:4]), []).append(row[4:])
    order = {"rollout": 0, "trainer": 1}
    grown = _grown(reader, run_id)
    found = [_teller(who, rows, grown.get((who.host, who.path))) for who, rows in parts.items()]
    return tuple(sorted(found, key=lambda t: (order.get(t.who.role, 2), t.who)))


def faults(reader: Reader, run_id: str) -> list[Fault]:
    """Faults of a run that are more than a mention and no copy: those that lock first, then the newest."""
    source = "faults WHERE run_id = ? AND echo_of IS NULL AND verdict IN ('confirmed', 'suspect')"
    order = f"ORDER BY locks DESC NULLS LAST, observed_at DESC, store_id DESC, rec_id DESC LIMIT {FAULTS}"
    return once(rows_of(reader, Fault, source, (run_id,), order))


def _grown(reader: Reader, run_id: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(newest generation, its lines) of each log."""
    rows = everything(
        reader,
        "SELECT coalesce(host, ''), coalesce(path, ''), generation, lines FROM sources WHERE run_id = ?",
        [run_id],
    )
    return {(row[0], row[1]): (row[2] or 0, row[3] or 0) for row in rows}


def _teller(who: Who, rows: list[tuple[Any, ...]], grown: tuple[int, int] | None) -> Teller:
    last: dict[int, int] = {}
    for generation, *_, last_line, _, _ in rows:
        last[generation] = max(last.get(generation, 0), last_line)
    if grown is not None and grown[0] in last:
        last[grown[0]] = max(last[grown[0]], grown[1])
    files, base = list[File](), 0
    for generation in sorted(last)[-FILES:]:
        files.append(File(generation, base, last[generation]))
        base += last[generation]
    return Teller(
        who=who,
        ranks=tuple(sorted({rank for row in rows for rank in row[6] if rank is not None})[:8]),
        pids=tuple(sorted({pid for row in rows for pid in row[7] if pid is not None})[:8]),
        files=tuple(files),
        lines=sum(row[1] for row in rows),
        timed=sum(row[2] for row in rows),
        first_at=min((row[3] for row in rows if row[3] is not None), default=None),
        last_at=max((row[4] for row in rows if row[4] is not None), default=None),
    )


# --- what was told in each column ---


def lanes(reader: Reader, run_id: str, scale: Scale, low: int, high: int, wide: int) -> dict[str, Lane]:
    """All lanes of a teller over [low, high] in `wide` columns, by name."""
    condition, params = scale.told()
    x = scale.x
    column = f"CASE WHEN x < {low} THEN -1 ELSE (x - {low}) * {wide} // {high - low + 1} END"
    # Of 1,000,000 lines that name a kind of batch the changes alone leave this question.
    fields_sql = (
        f"WITH told AS (SELECT field AS name, {x} AS x, {_ORDER_BUT_X}, observed, claimed,"  # noqa: S608
        f" observed IS NOT NULL AS seen FROM exec_states WHERE run_id = ?{condition} AND {x} <= {high}),"
        f" changed AS (SELECT *, coalesce(observed, claimed) AS value FROM told QUALIFY value IS DISTINCT FROM"
        f" lag(value) OVER (PARTITION BY name, seen ORDER BY {_ORDER}))"
        f" SELECT name, seen, {column} AS col, count(*) AS changes, max(x) AS x,"
        f" arg_max(value, ({_ORDER})) AS value FROM changed GROUP BY ALL"
    )
    tracks_sql = (
        f"WITH told AS (SELECT track AS name, {x} AS x, {_ORDER_BUT_X}, phase, level, version, legal"  # noqa: S608
        f" FROM weight_lifecycle WHERE run_id = ?{condition}),"
        f" here AS (SELECT *, {column} AS col FROM told WHERE x <= {high})"
        " SELECT name, col, count(*) OVER w AS changes, bool_and(legal) OVER w AS legal, x, phase, level, version"
        " FROM here WINDOW w AS (PARTITION BY name, col)"
        f" QUALIFY row_number() OVER (PARTITION BY name, col ORDER BY {_DOWN}) = 1"
    )
    found: dict[tuple[str, int], Cell] = {}
    newest: dict[tuple[str, int, bool], int] = {}
    # Two stores that read one log tell of the same changes: of a column the most that one of them tells counts.
    times: dict[tuple[str, int, bool], int] = {}
    for name, seen, col, changes, at, value in everything(reader, fields_sql, (run_id, *params)):
        held, key = found.get((name, col), Cell(col, 0, None, None)), (name, col, seen)
        late = at >= newest.get(key, at)
        newest[key], times[key] = max(at, newest.get(key, at)), max(changes, times.get(key, 0))
        told = safe(value) if late else held.observed if seen else held.claimed
        number = times[key] + times.get((name, col, not seen), 0)
        found[name, col] = Cell(col, number, told if seen else held.observed, held.claimed if seen else told)
    for name, col, changes, legal, at, phase, level, version in everything(reader, tracks_sql, (run_id, *params)):
        held, key = found.get((name, col), Cell(col, 0, None, None)), (name, col, True)
        late = at >= newest.get(key, at)
        newest[key], times[key] = max(at, newest.get(key, at)), max(changes, times.get(key, 0))
        told = safe(phase_words(name, phase, level, version)) if late else held.observed
        found[name, col] = Cell(col, times[key], told, None, held.legal and legal)
    cells: dict[str, list[Cell]] = {}
    for (name, _), cell in sorted(found.items()):
        cells.setdefault(name, []).append(cell)
    return {
        name: Lane(name, next((c for c in some if c.column < 0), None), tuple(c for c in some if c.column >= 0))
        for name, some in cells.items()
    }


# --- the changes of one lane ---


def changes(reader: Reader, run_id: str, scale: Scale, lane: str, around: Order | None) -> Changes:
    """The changes of a lane round a place, or the newest ones."""
    kind: type[Change] = PhaseChange if lane in TRACKS else StateChange
    source, params = _source(run_id, scale, lane)
    names, at = f"{columns(kind)}, x", around or LATEST
    places = "(?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT)"
    want = AROUND if around is not None else 2 * AROUND
    older = _sorted(
        reader, f"SELECT {names} FROM {source} WHERE ({_ORDER}) <= {places}", (*params, *at),  # noqa: S608
        f"ORDER BY {_DOWN} LIMIT {want + 1}",
    )  # fmt: skip
    newer = list[tuple[Any, ...]]()
    if around is not None:
        newer = _sorted(
            reader, f"SELECT {names} FROM {source} WHERE ({_ORDER}) > {places}", (*params, *at),  # noqa: S608
            f"ORDER BY {_ORDER} LIMIT {want + 1}",
        )  # fmt: skip
    found: dict[tuple[object, ...], tuple[Order, Change]] = {}
    for row in (*reversed(older[:want]), *newer[:want]):
        one = build(kind, row[:-1])
        told = (one.phase, one.level, one.version) if isinstance(one, PhaseChange) else (one.claimed, one.observed)
        # Once, also if two stores read the log.
        found.setdefault((one.generation, one.byte_offset, told), ((row[-1], *_place(one)), one))
    orders, rows = [order for order, _ in found.values()], [one for _, one in found.values()]
    return Changes(tuple(rows), tuple(orders), len(older) > want, len(newer) > want)


def _place(change: Change) -> tuple[int, int, int]:
    return change.generation, change.byte_offset, change.rec_id


def _sorted(reader: Reader, sql: str, params: Iterable[object], order: str) -> list[tuple[Any, ...]]:
    return everything(reader, f"{sql} {order}", tuple(params), f"SELECT * FROM part {order}")  # noqa: S608


def _source(run_id: str, scale: Scale, lane: str) -> tuple[str, tuple[object, ...]]:
    """The changes of a lane as a table with the columns of its model and x."""
    condition, params = scale.told()
    if lane in TRACKS:
        told = f"(SELECT *, {scale.x} AS x FROM weight_lifecycle WHERE run_id = ?{condition} AND track = ?)"  # noqa: S608
        return told, (run_id, *params, lane)
    told = (
        f"(SELECT *, lag(value) OVER w AS before FROM (SELECT *, coalesce(observed, claimed) AS value, {scale.x} AS x"  # noqa: S608
        f" FROM exec_states WHERE run_id = ?{condition} AND field = ?)"
        f" WINDOW w AS (PARTITION BY observed IS NOT NULL ORDER BY {_ORDER}) QUALIFY value IS DISTINCT FROM before)"
    )
    return told, (run_id, *params, lane)
