"""What screen 4 holds: whose state it shows, on which axis, lane by lane, with the marks on the same axis. See `model`.

    teller   who told of a state: one voice of one log (view `exec_states`): a process, or the processes of a server
    axis     time, microseconds UTC; or place, lines of the teller's own log. Never both: what has no place on the axis
             that is shown is counted and not drawn
    lane     one field of the execution state, or one track of the weights' lifecycle

A lane holds what was told last before its first column, and one cell for each column in which something was told.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Final, Literal

from tic_tui.coverage import spans
from tic_tui.execution import Finding, PhaseChange, StateChange
from tic_tui.model import Demand, Fault, Key, Mismatch, Search
from tic_tui.queries import State
from tic_tui.safe import Safe

Axis = Literal["time", "place"]
Order = tuple[int, int, int, int]  # x, generation, byte_offset, rec_id: the order of changes on an axis
Change = StateChange | PhaseChange

NUMBERS, FINDINGS, FAULTS = "numbers", "findings", "faults"
MARKS: Final = (NUMBERS, FINDINGS, FAULTS)
TRACKS: Final = ("residency", "version", "cache", "graph")
ALWAYS: Final = {
    "rollout": ("graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", *TRACKS),
    "trainer": ("graph_mode", "residency", "version"),
}
"""Lanes that are drawn also where nothing told of them: that is unknown, and worth knowing."""
LATEST: Final[Order] = (1 << 62, 1 << 31, 1 << 62, 1 << 62)
_EPOCH: Final = datetime(1970, 1, 1)


def phase_words(track: str, phase: str, level: str | None, version: str | None) -> str:
    """A phase in its lane: asleep L2, awake weights, awake (tags unstated), reloaded v12, reset refused."""
    text = phase.replace("_", " ")
    if level == "unstated":
        text += " (tags unstated)" if phase == "awake" else " (level unstated)"
    elif level:
        text += f" L{level}" if track == "residency" and level.isdecimal() else f" {level}"
    return f"{text} v{version}" if version else text


def micros(at: datetime) -> int:
    """A naive UTC time as microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def moment(x: int) -> datetime:
    """The inverse of `micros`."""
    return _EPOCH + timedelta(microseconds=x)


def column_of(x: int, low: int, high: int, columns: int) -> int:
    """The column of a place in a window of so many columns; below 0 or beyond the last one outside of it."""
    return (x - low) * columns // (high - low + 1)


@dataclass(frozen=True, slots=True, order=True)
class Who:
    """The name of a teller, as it goes back into queries."""

    role: str
    host: str
    path: str
    voice: str


@dataclass(frozen=True, slots=True)
class File:
    """One generation of a log: its first line on the axis of places, and how many lines of it are known."""

    generation: int
    base: int
    lines: int


@dataclass(frozen=True, slots=True)
class Teller:
    """Who told of a state.

    Attributes:
        ranks, pids: of its lines, smallest first; at most eight.
        files: the newest generations of its log that tell of its state, oldest first.
        lines: how many lines tell of its state; `timed` of them have a time in UTC, from `first_at` to `last_at`.
    """

    who: Who
    ranks: tuple[int, ...]
    pids: tuple[int, ...]
    files: tuple[File, ...]
    lines: int
    timed: int
    first_at: datetime | None
    last_at: datetime | None

    @property
    def best_axis(self) -> Axis:
        """Time, if every line has one."""
        return "time" if self.timed == self.lines else "place"

    def place(self, generation: int, line_no: int) -> int | None:
        """A line of its log on the axis of places; None: it is of a generation that is not on it."""
        return next((f.base + line_no for f in self.files if f.generation == generation), None)

    def x(self, axis: Axis, event_at: datetime | None, generation: int, line_no: int) -> int | None:
        """Where a line of its log is on an axis; None: nowhere."""
        if axis == "time":
            return None if event_at is None else micros(event_at)
        return self.place(generation, line_no)

    def line_at(self, x: int) -> tuple[int, int]:
        """(generation, line number) of a place."""
        held = self.files[0] if self.files else File(0, 0, 0)
        for one in self.files:
            if one.base < x:
                held = one
        return held.generation, x - held.base


def told_by(teller: Teller) -> str:
    """Who tells: "rank 3", "pid 31361", "pids 31361, 32114 and more"; "" where nothing tells."""
    if teller.who.voice == "unknown":
        return "lines of no known process"
    if teller.ranks:
        return f"rank{'s' * (len(teller.ranks) > 1)} {spans(teller.ranks)}"
    if not teller.pids:
        return ""
    some_ = ", ".join(map(str, teller.pids[:3]))
    return f"pid{'s' * (len(teller.pids) > 1)} {some_}{' and more' * (len(teller.pids) > 3)}"


def name_of(teller: Teller) -> str:
    """Who tells and where: "rollout pid 31361 worker_raw.log"."""
    return " ".join(filter(None, (teller.who.role, told_by(teller), PurePosixPath(teller.who.path).name)))


@dataclass(frozen=True, slots=True)
class LaneAsk:
    """What of screen 4 is on the screen.

    Attributes:
        who: None: the first teller. axis: None: the best one for it.
        span: how much of the axis is shown; 0: all. end: its last place; None: the end of all.
        columns: cells of a lane. lane: whose changes the cursor moves over. around: those around it; None: the newest.
        record: a number that is opened or read out.
    """

    who: Who | None = None
    axis: Axis | None = None
    span: int = 0
    end: int | None = None
    columns: int = 60
    lane: str = ""
    around: Order | None = None
    record: Key | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What was told within one column.

    Attributes:
        changes: how often the value changed there. observed, claimed: told last; None: nothing of that kind there.
        legal: every change of the weights there may follow what came before it.
    """

    column: int
    changes: int
    observed: Safe | None
    claimed: Safe | None
    legal: bool = True


@dataclass(frozen=True, slots=True)
class Lane:
    """One line: `before` is what was told last left of it, or None."""

    name: str
    before: Cell | None
    cells: tuple[Cell, ...]

    @property
    def told(self) -> bool:
        """Anything at all."""
        return self.before is not None or bool(self.cells)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Mismatch records within one column: how many of each standing, and the newest of each."""

    column: int
    x: int
    counts: dict[str, int]  # locked | suspect | not evidence | evidence
    newest: dict[str, Key]

    @property
    def worst(self) -> str:
        """The standing that is shown: a cell is never better than the worst in it."""
        return next(s for s in STANDINGS if s in self.counts)


STANDINGS: Final = ("locked", "suspect", "not evidence", "evidence")


@dataclass(frozen=True, slots=True)
class Spot:
    """A fault or finding on the axis. `end`: where a finding ends; None: it holds, or nothing tells."""

    x: int
    item: Fault | Finding
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Neighbouring changes of one lane in the order of the axis; `older`, `newer`: there are more on that side."""

    rows: tuple[Change, ...] = ()
    orders: tuple[Order, ...] = ()
    older: bool = False
    newer: bool = False

    def at(self, order: Order) -> int:
        """The last change that is not later; -1: all are later."""
        return bisect_right(self.orders, order) - 1


@dataclass(frozen=True, slots=True)
class Missing:
    """What has no place on the axis that is shown: lines of the teller, numbers, faults, findings."""

    lines: int = 0
    numbers: int = 0
    faults: int = 0
    findings: int = 0


@dataclass(frozen=True, slots=True)
class StateView:
    """Screen 4.

    Attributes:
        demand: what this answers. run: how the run stands.
        tellers: all; `teller` is the one shown; None: nothing told of any state.
        first, last: the whole axis. low, high: what is shown of it, in `columns` columns.
        lanes: in the order of the screen. changes: of the lane that the demand asks for.
        numbers, steps: by column; steps as (column, step): the first column in which a step was told.
        record: the number that the demand asks for.
        counted: how far back numbers are counted.
    """

    demand: Demand
    run: State
    tellers: tuple[Teller, ...]
    teller: Teller | None
    axis: Axis
    first: int
    last: int
    low: int
    high: int
    columns: int
    lanes: tuple[Lane, ...]
    changes: Changes
    numbers: tuple[Numbers, ...]
    steps: tuple[tuple[int, int], ...]
    findings: tuple[Spot, ...]
    faults: tuple[Spot, ...]
    missing: Missing
    record: Mismatch | None
    read_at: datetime
    counted: Search = field(default_factory=Search)

    @property
    def run_id(self) -> str:
        """The run."""
        return self.run.run_id

    def column(self, x: int) -> int:
        """The column of a place, also outside of what is shown."""
        return column_of(x, self.low, self.high, self.columns)

    def order(self, change: Change) -> Order:
        """Where a change stands among those of its lane."""
        x = None
        if self.teller is not None:
            x = self.teller.x(self.axis, change.event_at, change.generation, change.line_no)
        return (-1 if x is None else x, change.generation, change.byte_offset, change.rec_id)
