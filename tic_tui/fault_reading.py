"""Screen 5: what there is to say of the faults of one attempt of a run.

Faults are few beside records: they are read whole where an order in time or a count needs it, as often as that costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tic_tui.model import Demand, Fault, FaultFile, FaultsView, FaultWindow, Key
from tic_tui.queries import everything, once, rows_of
from tic_tui.reading import Ask, Paced, RunLine
from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

CASCADE: Final = 500
ECHOES: Final = 500
_FILES: Final = "ORDER BY modified_at NULLS LAST, path LIMIT 100"
_OF: Final = "faults WHERE run_id = ? AND ? BETWEEN attempt AND coalesce(last_attempt, attempt)"
_BELOW: Final = "(observed_at < ? OR (observed_at = ? AND (store_id < ? OR (store_id = ? AND rec_id <= ?))))"


@dataclass(frozen=True, slots=True)
class _Told:
    """What the store says of one attempt's faults."""

    demand: Demand
    attempt: int
    attempts: tuple[int, ...]
    first: Fault | None
    candidates: tuple[Fault, ...]
    faults: FaultWindow
    kinds: tuple[tuple[Safe, int], ...]
    cascade: tuple[Fault, ...]
    echoes: dict[Key, tuple[Fault, ...]]
    state: tuple[tuple[Safe, Safe], ...]
    why: Safe
    files: tuple[FaultFile, ...]


class FaultsReading:
    """Screen 5, of one run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._line = RunLine(run_id)
        self._told: Paced[_Told] | None = None
        self._demand = Demand()
        self._newest = 0  # the run's newest attempt, when the answer was asked for

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        return self._line.complete

    def view(self, reader: Reader, ask: Ask) -> FaultsView | None:
        """Screen 5 as it is now; None: there is no such run."""
        run = self._line.read(reader, ask)
        if run is None:
            return None
        demand = ask.demand
        # An attempt that begins while this is shown is the newest one at once: what was told of the one before must not
        # stand there as if it were of this.
        if self._told is None or demand != self._demand or run.attempt != self._newest:
            self._demand, self._newest = demand, run.attempt
            self._told = Paced(lambda reader: _told(reader, demand, self._run_id, run.attempt))
        told = self._told.get(reader, ask)
        return FaultsView(
            demand=demand,
            run=run,
            attempt=told.attempt,
            attempts=told.attempts,
            first=told.first,
            candidates=told.candidates,
            faults=told.faults,
            total=sum(count for _, count in told.kinds),
            cascade=told.cascade,
            echoes=told.echoes,
            kinds=told.kinds,
            read_at=datetime.now(UTC),
            state=told.state,
            why=told.why,
            files=told.files,
        )


def _told(reader: Reader, demand: Demand, run_id: str, newest: int) -> _Told:
    states = everything(
        reader,
        "SELECT attempt, first_fault_rec_id, first_fault_candidates, store_id, first_fault_why FROM attempt_states"
        " WHERE run_id = ?",
        [run_id],
    )
    attempt = newest if demand.attempt is None else demand.attempt
    here = (run_id, attempt)
    first, candidates = _candidates(reader, run_id, [row for row in states if row[0] == attempt])
    return _Told(
        demand=demand,
        attempt=attempt,
        attempts=tuple(sorted({row[0] for row in states} | {newest})),
        first=first,
        candidates=candidates,
        faults=_window(reader, here, demand),
        kinds=_kinds(reader, here),
        cascade=_cascade(reader, here),
        echoes=_echoes(reader, here),
        state=() if first is None else _state_before(reader, first),
        why=safe("; ".join(sorted({row[4] for row in states if row[0] == attempt and row[4]}))),
        files=_files(reader, here),
    )


def _candidates(reader: Reader, run_id: str, states: list[tuple[Any, ...]]) -> tuple[Fault | None, tuple[Fault, ...]]:
    """The first fault that is shown, and all that may have been; each store names its own."""
    named = [(row[1], row[2] or [], row[3]) for row in states if row[1] is not None]
    ids = sorted({int(i) for first, others, _ in named for i in (first, *others)})
    if not ids:
        return None, ()
    marks = ", ".join("?" * len(ids))
    rows = once(rows_of(reader, Fault, f"faults WHERE run_id = ? AND rec_id IN ({marks})", (run_id, *ids)))
    wanted = {(store, i) for first, others, store in named for i in (first, *others)}
    # A fault that another store told of is named by a number of the store that names it.
    found = [f for f in rows if (f.store_id, f.rec_id) in wanted] or rows
    found.sort(key=_in_time)
    shown = {(store, first) for first, _, store in named}
    return next((f for f in found if (f.store_id, f.rec_id) in shown), found[0] if found else None), tuple(found)


def _window(reader: Reader, here: tuple[str, int], demand: Demand) -> FaultWindow:
    """Faults round the anchor, or the newest ones."""
    newest = "ORDER BY observed_at DESC, store_id DESC, rec_id DESC"
    anchor, want = demand.anchor, demand.rows
    if anchor is None:
        rows = once(rows_of(reader, Fault, _OF, here, f"{newest} LIMIT {2 * want + 1}"))
        return FaultWindow(_ordered(rows[: 2 * want]), len(rows) > 2 * want, False)
    below = [anchor.observed_at, anchor.observed_at, anchor.store_id, anchor.store_id, anchor.rec_id]
    before = once(rows_of(reader, Fault, f"{_OF} AND {_BELOW}", (*here, *below), f"{newest} LIMIT {want + 1}"))
    oldest = f"ORDER BY observed_at, store_id, rec_id LIMIT {want + 1}"
    after = once(rows_of(reader, Fault, f"{_OF} AND NOT {_BELOW}", (*here, *below), oldest))
    return FaultWindow(_ordered([*before[:want], *after[:want]]), len(before) > want, len(after) > want)


def _ordered(rows: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(rows, key=lambda f: f.key))


def _in_time(fault: Fault) -> tuple[datetime, Key]:
    return fault.event_at or fault.observed_at, fault.key


def _kinds(reader: Reader, here: tuple[str, int]) -> tuple[tuple[Safe, int], ...]:
    rows = everything(
        reader,
        "SELECT kind, coalesce(origin_store_id, store_id) AS origin,"  # noqa: S608
        f" count(DISTINCT coalesce(origin_rec_id, rec_id)) AS n FROM {_OF} GROUP BY ALL",
        here,
    )
    of_origin: dict[tuple[str, str], int] = {}
    for kind, origin, number in rows:
        of_origin[kind, origin] = max(of_origin.get((kind, origin), 0), number)
    counts: dict[str, int] = {}
    for (kind, _), number in of_origin.items():
        counts[kind] = counts.get(kind, 0) + number
    return tuple(sorted(((safe(k), n) for k, n in counts.items()), key=lambda pair: (-pair[1], pair[0])))


def _cascade(reader: Reader, here: tuple[str, int]) -> tuple[Fault, ...]:
    """The first line of every rank and host that is no copy and more than a mention, in the order of time."""
    order = "ORDER BY coalesce(event_at, observed_at), observed_at, store_id, rec_id"
    source = (
        f"(SELECT *, row_number() OVER (PARTITION BY host, rank {order}) AS nth FROM {_OF}"  # noqa: S608
        " AND echo_of IS NULL AND verdict IN ('confirmed', 'suspect')) WHERE nth = 1"
    )
    rows = once(rows_of(reader, Fault, source, here, f"{order} LIMIT {CASCADE}"))
    first: dict[tuple[Any, ...], Fault] = {}
    for row in sorted(rows, key=_in_time):
        first.setdefault((row.host, row.rank), row)
    return tuple(first.values())


def _echoes(reader: Reader, here: tuple[str, int]) -> dict[Key, tuple[Fault, ...]]:
    """Copies by the key of the line that they copy."""
    order = f"ORDER BY observed_at, store_id, rec_id LIMIT {ECHOES}"
    copies = once(rows_of(reader, Fault, f"{_OF} AND echo_of IS NOT NULL", here, order))
    ids = sorted({c.echo_of for c in copies if c.echo_of is not None})
    if not ids:
        return {}
    marks = ", ".join("?" * len(ids))
    lines = everything(
        reader,
        f"SELECT DISTINCT observed_at, store_id, rec_id FROM faults WHERE run_id = ? AND rec_id IN ({marks})",  # noqa: S608
        (here[0], *ids),
    )
    by_number = {(store, number): Key(at, store, number) for at, store, number in lines}
    found: dict[Key, list[Fault]] = {}
    for copy in copies:
        key = by_number.get((copy.store_id, copy.echo_of or 0))
        if key is not None:
            found.setdefault(key, []).append(copy)
    return {key: tuple(rows) for key, rows in found.items()}


def _files(reader: Reader, here: tuple[str, int]) -> tuple[FaultFile, ...]:
    """What the faults left beside, each once: daemons of two nodes may see the same shared directory."""
    rows = rows_of(reader, FaultFile, "fault_files WHERE run_id = ? AND attempt = ?", here, _FILES)
    return tuple({(str(f.host or ""), f.path): f for f in rows}.values())


def _state_before(reader: Reader, fault: Fault) -> tuple[tuple[Safe, Safe], ...]:
    """The execution state that the fault's own log had shown before it."""
    rows = everything(
        reader,
        "SELECT e.field, arg_max(e.observed, e.byte_offset) AS observed FROM exec_states e"
        " JOIN (SELECT DISTINCT source_id, generation, byte_offset FROM faults WHERE rec_id = ? AND store_id = ?) f"
        " ON e.source_id = f.source_id AND e.generation = f.generation AND e.byte_offset < f.byte_offset"
        " WHERE e.observed IS NOT NULL GROUP BY e.field ORDER BY e.field",
        [fault.rec_id, fault.store_id],
    )
    return tuple((safe(field), safe(value)) for field, value in rows)
