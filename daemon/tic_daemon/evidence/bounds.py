"""What bounds a line: the values that the lock is decided from, and the bounds of time and step that follow from them.

    Source     a followed file: host, stream, clock
    Line       one line or record: position, process, stamps, step
    Bounds     [lo, hi] of integers; INF and -INF where nothing is known

Times are microseconds since 1970, UTC if the clock is UTC_CLOCK, else in a source's own clock of unknown zone, which
can be compared with nothing but itself. Everything comes from bytes; nothing here knows when a line was read.

Source of the rules: docs/explanation/evidence.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INF: Final = 1 << 62
STEP_LIMIT: Final = 1 << 61  # a printed step beyond it is taken as this one
UTC_CLOCK: Final = 0
NO_CLOCK: Final = -1


@dataclass(frozen=True, slots=True)
class Source:
    """What the lock needs of a source. `stream`: stdout, stderr or "" (both, or unknown); `zone_s` None: unknown."""

    source_id: int
    host: str = "h"
    stream: str = ""
    console: bool = False
    single_process: bool = False
    pid: int | None = None
    zone_s: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line or record, as the scanner saw it (`scan.events.At`); times in microseconds as printed."""

    source_id: int
    generation: int
    offset: int
    proc: str = ""
    stream: str = ""
    stamp: int | None = None
    res: int = 0
    utc: bool = False
    after: int | None = None
    after_utc: bool = False
    step: int | None = None
    carried: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """(generation, offset): the order of bytes within a source."""
        return self.generation, self.offset


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed interval. `clock` says what a time may be compared with."""

    lo: int = -INF
    hi: int = INF
    lo_clock: int = NO_CLOCK
    hi_clock: int = NO_CLOCK


def stream_of(line: Line, source: Source) -> str:
    """The line's own stream, else its source's; "" unknown."""
    return line.stream or source.stream


def written_at_once(line: Line, source: Source) -> bool:
    """Written when it was made: standard error has no buffer. What a console forwards was held on its way."""
    return stream_of(line, source) == "stderr" and not source.console


def clock_of(utc: bool, source: Source) -> int:
    """The clock of a stamp: UTC, or the source's own."""
    return UTC_CLOCK if utc or source.zone_s is not None else source.source_id


def to_clock(stamp: int, utc: bool, source: Source) -> int:
    """A stamp in its clock."""
    return stamp - (0 if utc or source.zone_s is None else source.zone_s * 1_000_000)


def bounded_by_next(line: Line, later: Line, source: Source, known_writer: bool) -> bool:
    """Whether the stamp of a later line of the same process bounds `line`, which has none, from above.

    Standard output is buffered and standard error is not. A later line on standard error was written when it was made,
    so all that stands before it is older; one on standard output may have waited in a buffer with an old stamp, and
    says something only of what went through the same buffer.
    """
    stream = stream_of(later, source)
    return written_at_once(later, source) or (known_writer and stream != "" and stream == stream_of(line, source))


def time_bounds(line: Line, source: Source, later: list[Line], known_writer: bool) -> Bounds:
    """When `line` was made, from its own stamp, else from its stamped neighbours.

    Args:
        later: stamped lines of the same source, generation and proc that followed unstamped ones.
        known_writer: the lines of this proc are one process.

    The upper bound is the greatest stamp up to the next stamped line, so that a clock that jumped back bounds nothing.
    Of two clocks in one process only UTC counts.
    """
    if line.stamp is not None:
        start, clock = to_clock(line.stamp, line.utc, source), clock_of(line.utc, source)
        return Bounds(start, start + line.res, clock, clock)
    lo, lo_clock = -INF, NO_CLOCK
    # The neighbour before was written earlier; that bounds this line if it was not itself held in a buffer.
    unheld = written_at_once(line, source) or (source.stream != "" and known_writer)
    if line.after is not None and unheld:
        lo, lo_clock = to_clock(line.after, line.after_utc, source), clock_of(line.after_utc, source)
    hi, hi_clock = INF, NO_CLOCK
    usable = [s for s in later if s.stamp is not None and bounded_by_next(line, s, source, known_writer)]
    if any(clock_of(s.utc, source) == UTC_CLOCK for s in usable):
        usable = [s for s in usable if clock_of(s.utc, source) == UTC_CLOCK]
    following = [s.offset for s in usable if s.offset > line.offset]
    if following:
        reach = [s for s in usable if s.offset <= min(following)]
        hi = max(to_clock(s.stamp, s.utc, source) + s.res for s in reach if s.stamp is not None)
        hi_clock = clock_of(reach[0].utc, source)
    return Bounds(lo, hi, lo_clock, hi_clock)


def step_bounds(line: Line, source: Source, known_writer: bool) -> Bounds:
    """The step that `line` belongs to: its own; else [N, N + 1] by the line of its process that ended N; else unknown.

    What a neighbour says bounds from below what was not held in a buffer, and from above what shared one with it.
    """
    if line.step is None:
        return Bounds()
    step = max(min(line.step, STEP_LIMIT), -STEP_LIMIT)
    if not line.carried:
        return Bounds(step, step)
    one_pipe = source.stream != "" and known_writer
    unheld = one_pipe or written_at_once(line, source)
    return Bounds(step if unheld else -INF, step + 1 if one_pipe else INF)
