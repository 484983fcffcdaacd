"""Screen 4: who told of a state, lane by lane over one axis, with numbers, findings and faults on it.

What is asked again with every commit costs what is new: counts of numbers are kept on a grid that is finer than the
screen's columns. Lanes are asked for anew, as often as that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tic_tui import lane_queries, queries
from tic_tui.counting import ADD, LEAST, MOST, Groups, Question, Tally
from tic_tui.execution import Finding
from tic_tui.lane_queries import Scale
from tic_tui.lanes import (
    ALWAYS,
    MARKS,
    TRACKS,
    Changes,
    Lane,
    LaneAsk,
    Missing,
    Numbers,
    Spot,
    StateView,
    Teller,
    Who,
    column_of,
    micros,
)
from tic_tui.model import Fault, Key, Mismatch, Search
from tic_tui.queries import Span
from tic_tui.reading import Ask, Paced

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

_NOWHERE: Final = Scale("place", Teller(Who("", "", "", ""), (), (), (), 0, 0, None, None))


FINER: Final = 8
"""Spans that are counted within a column, at least: what is drawn from them is off by less than that."""
Sums = tuple[tuple[str, Callable[[Any, Any], Any]], ...]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The window that is shown, and its lanes. None of it moves before the lanes are asked for again."""

    first: int
    last: int
    low: int
    high: int
    lanes: dict[str, Lane]


class _Grid:
    """Counts of a view's rows by span of the axis, from some way before the window to some way behind it.

    The last sum is the first place of a row in its span.

    Spans are powers of two and begin at multiples of themselves: a window that moves a little needs no other count.
    """

    def __init__(self, run_id: str, view: str, keys: tuple[str, ...], sums: Sums) -> None:
        self._run_id, self._view, self._keys, self._sums = run_id, view, keys, sums
        self._name: object = None
        self._tally: Tally | None = None

    def update(self, reader: Reader, ask: Ask, scale: Scale, drawn: _Drawn, columns: int, span: Span) -> Groups:
        """Sums by (first place >> shift, *keys)."""
        size = drawn.high - drawn.low + 1
        shift, chunk = max(0, (size // (FINER * columns)).bit_length() - 1), size.bit_length()
        low, high = drawn.low >> chunk, drawn.high >> chunk
        name = (scale, shift, chunk, low, high)
        if self._tally is None or name != self._name:
            self._name = name
            condition, params = scale.where()
            bounds = f" AND {scale.x} BETWEEN {low << chunk} AND {((high + 1) << chunk) - 1}"
            question = Question(
                self._view,
                (f"{scale.x} >> {shift}", *self._keys),
                (*self._sums, (f"min({scale.x})", LEAST)),
                f" AND run_id = ?{condition}{bounds}", (self._run_id, *params),
            )  # fmt: skip
            self._tally = Tally(question, span)
        self._tally.update(reader, ask.standing, ask.until, new=ask.new)
        return self._tally.groups()

    @property
    def search(self) -> Search:
        """How far back it has counted."""
        return Search(False) if self._tally is None else self._tally.search


class StateReading:
    """Screen 4, of one run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._state = Paced(lambda reader: queries.states(reader, run_id))
        self._tellers = Paced(lambda reader: lane_queries.tellers(reader, run_id))
        self._findings = Paced(lambda reader: queries.findings(reader, run_id))
        self._faults = Paced(lambda reader: lane_queries.faults(reader, run_id))
        self._all: Tally | None = None
        self._placed: tuple[object, Tally | None] = (None, None)
        self._numbers = _Grid(run_id, "mismatches", ("admissibility", "is_evidence"), (("count(*)", ADD),))
        self._steps = _Grid(run_id, "step_lines", (), (("min(step)", LEAST),))
        self._asked, self._scale, self._marks = LaneAsk(), _NOWHERE, list[int]()
        self._drawn: tuple[object, Paced[_Drawn] | None] = (None, None)
        self._changes: tuple[object, Paced[Changes] | None] = (None, None)
        self._record: tuple[object, Mismatch | None] = (None, None)

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        tallies = [t for t in (self._all, self._placed[1]) if t is not None]
        return all(t.complete for t in tallies) and self._numbers.search.complete and self._steps.search.complete

    def view(self, reader: Reader, ask: Ask) -> StateView | None:
        """Screen 4 as it is now; None: there is no such run."""
        states = self._state.get(reader, ask)
        if not states:
            return None
        asked = self._asked = ask.demand.lanes or LaneAsk()
        tellers, span = self._tellers.get(reader, ask), queries.span(reader)
        teller = next((t for t in tellers if t.who == asked.who), tellers[0] if tellers else None)
        axis = asked.axis or (teller.best_axis if teller is not None else "place")
        scale = self._scale = Scale(axis, teller) if teller is not None else _NOWHERE
        total, placed, ends = self._counts(reader, ask, scale, span)
        findings, faults = self._findings.get(reader, ask), self._faults.get(reader, ask)
        wrong, happened = _wrong(findings, scale), _happened(faults, scale)
        self._marks = [x for s in (*wrong, *happened) for x in (s.x, s.end) if x is not None] + ends
        drawn = self._window(reader, ask)
        numbers = self._numbers.update(reader, ask, scale, drawn, asked.columns, span)
        steps = self._steps.update(reader, ask, scale, drawn, asked.columns, span)
        return StateView(
            demand=ask.demand,
            run=states[0],
            tellers=tellers,
            teller=teller,
            axis=axis,
            first=drawn.first,
            last=drawn.last,
            low=drawn.low,
            high=drawn.high,
            columns=asked.columns,
            lanes=_lanes(drawn.lanes, teller),
            changes=self._around(reader, ask),
            numbers=_by_column(numbers, drawn, asked.columns),
            steps=_begun(steps, drawn, asked.columns),
            findings=wrong,
            faults=happened,
            missing=Missing(
                teller.lines - teller.timed if teller is not None and axis == "time" else 0,
                max(0, total - placed),
                len(faults) - len(happened),
                len(findings) - len(wrong),
            ),
            record=self._number(reader, ask, asked.record),
            read_at=datetime.now(UTC),
            counted=self._numbers.search,
        )

    def _counts(self, reader: Reader, ask: Ask, scale: Scale, span: Span) -> tuple[int, int, list[int]]:
        """Numbers of the run, how many of them are on the axis, and the first and last place of those."""
        if self._all is None:
            self._all = Tally(
                Question("mismatches", (), (("count(*)", ADD),), " AND run_id = ?", (self._run_id,)), span
            )
        condition, params = scale.where()
        tally = self._placed[1]
        if tally is None or self._placed[0] != scale:
            sums: Sums = (("count(*)", ADD), (f"min({scale.x})", LEAST), (f"max({scale.x})", MOST))
            question = Question("mismatches", (), sums, f" AND run_id = ?{condition}", (self._run_id, *params))
            tally = Tally(question, span)
            self._placed = (scale, tally)
        for one in (self._all, tally):
            one.update(reader, ask.standing, ask.until, new=ask.new_records)
        total, placed = self._all.groups().get(()), tally.groups().get(())
        ends = [] if placed is None else [x for x in placed[2:4] if x is not None]
        return total[1] if total else 0, placed[1] if placed else 0, ends

    def _window(self, reader: Reader, ask: Ask) -> _Drawn:
        """The window that is asked for, of now or of a little while ago: it grows with its lanes, not before them."""
        asked = self._asked
        name, paced = (self._scale.axis, self._scale.teller.who, asked.span, asked.end, asked.columns), self._drawn[1]
        if paced is None or self._drawn[0] != name:
            paced = Paced(self._draw)
            self._drawn = (name, paced)
        return paced.get(reader, ask)

    def _draw(self, reader: Reader) -> _Drawn:
        asked, scale = self._asked, self._scale
        first, last = _extent(scale, self._marks)
        span = min(asked.span or last - first + 1, last - first + 1)
        high = last if asked.end is None else max(first + span - 1, min(asked.end, last))
        low = high - span + 1
        lanes = lane_queries.lanes(reader, self._run_id, scale, low, high, asked.columns) if scale.teller.lines else {}
        return _Drawn(first, last, low, high, lanes)

    def _around(self, reader: Reader, ask: Ask) -> Changes:
        """The changes round the cursor, or the newest."""
        lane, around, teller = self._asked.lane, self._asked.around, self._scale.teller
        if not lane or lane in MARKS or not teller.lines:
            return Changes()
        name, paced = (self._scale.axis, teller.who, lane, around), self._changes[1]
        if paced is None or self._changes[0] != name:
            paced = Paced(lambda reader: lane_queries.changes(reader, self._run_id, self._scale, lane, around))
            self._changes = (name, paced)
        return paced.get(reader, ask)

    def _number(self, reader: Reader, ask: Ask, key: Key | None) -> Mismatch | None:
        if key is None:
            return None
        name = (key, ask.standing)
        if self._record[0] != name:
            self._record = (name, queries.records_at(reader, [key]).get(key))
        return self._record[1]


def _extent(scale: Scale, marks: Sequence[int]) -> tuple[int, int]:
    """The whole axis."""
    teller = scale.teller
    if scale.axis == "place":
        return 1, max(1, sum(f.lines for f in teller.files))
    ends = [micros(at) for at in (teller.first_at, teller.last_at) if at is not None]
    return min([*ends, *marks], default=0), max([*ends, *marks], default=0)


def _wrong(findings: Iterable[Finding], scale: Scale) -> tuple[Spot, ...]:
    """Findings on the axis."""
    spots, teller = [], scale.teller
    for one in findings:
        if scale.axis == "time":
            x = None if one.from_at is None else micros(one.from_at)
            end = None if one.until_at is None else micros(one.until_at)
        else:
            mine = (str(one.host or ""), one.path or "") == (teller.who.host, teller.who.path)
            x = teller.place(one.generation, one.line_no) if mine else None
            ended = one.until_generation is not None and one.until_line is not None
            end = teller.place(one.until_generation, one.until_line) if ended else None  # type: ignore[arg-type]
        if x is not None:
            spots.append(Spot(x, one, end))
    return tuple(sorted(spots, key=lambda s: s.x))


def _happened(faults: Iterable[Fault], scale: Scale) -> tuple[Spot, ...]:
    """Faults on the axis."""
    spots, teller = [], scale.teller
    for one in faults:
        mine = scale.axis == "time" or (str(one.host or ""), one.path or "") == (teller.who.host, teller.who.path)
        x = teller.x(scale.axis, one.event_at, one.generation, one.line_no) if mine else None
        if x is not None:
            spots.append(Spot(x, one))
    return tuple(sorted(spots, key=lambda s: s.x))


def _lanes(told: dict[str, Lane], teller: Teller | None) -> tuple[Lane, ...]:
    """In the order of the screen: those of every teller of this role, then whatever else was told."""
    if teller is None:
        return ()
    always = ALWAYS.get(teller.who.role, ())
    names = [*always, *(n for n in TRACKS if n in told and n not in always)]
    names += sorted(n for n in told if n not in names)
    return tuple(told.get(name, Lane(name, None, ())) for name in names)


def _standing(admissibility: str, is_evidence: bool) -> str:
    return "evidence" if is_evidence else "not evidence" if admissibility == "admissible" else admissibility


def _by_column(groups: Groups, drawn: _Drawn, columns: int) -> tuple[Numbers, ...]:
    """All of a span stands in the column of its first row: off by a fraction of a column at most."""
    counts: dict[int, dict[str, int]] = {}
    newest: dict[int, dict[str, Key]] = {}
    places: dict[int, int] = {}
    for (_, admissibility, is_evidence), (key, number, x) in groups.items():
        if not drawn.low <= x <= drawn.high:
            continue
        column, standing = column_of(x, drawn.low, drawn.high, columns), _standing(admissibility, is_evidence)
        places[column] = min(places.get(column, x), x)
        held, keys = counts.setdefault(column, {}), newest.setdefault(column, {})
        held[standing] = held.get(standing, 0) + number
        keys[standing] = max(keys.get(standing, key), key)
    return tuple(Numbers(column, places[column], counts[column], newest[column]) for column in sorted(counts))


def _begun(groups: Groups, drawn: _Drawn, columns: int) -> tuple[tuple[int, int], ...]:
    """(column, step) where a line tells of a later step than all before it."""
    found, last = list[tuple[int, int]](), -1
    for _, (_, step, x) in sorted(groups.items(), key=lambda item: item[0]):
        if step is None or step <= last or not drawn.low <= x <= drawn.high:
            continue
        last, column = step, column_of(x, drawn.low, drawn.high, columns)
        if not found or found[-1][0] != column:
            found.append((column, step))
    return tuple(found)
