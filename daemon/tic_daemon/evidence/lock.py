"""The CUDA-fault lock by its definitions: record by record, fault by fault. Slow, and meant to be read.

The store answers the same question fast (store/schema/derive/*.sql and view `mismatches`); a property test holds one
against the other.

    before(r, f)   the bytes show that record r was made before fault f. Unknown is not before.
    locked         a locking fault of the attempt exists that r is not shown to be before
    suspect        not locked, but in or after the step of a locking fault, or in a step voided by a fault N, S or E
    admissible     all others
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tic_daemon.evidence.bounds import (
    INF,
    STEP_LIMIT,
    UTC_CLOCK,
    Bounds,
    Line,
    Source,
    step_bounds,
    stream_of,
    time_bounds,
    written_at_once,
)
from tic_daemon.evidence.writers import Writer, Writers

AFTER = "after the fault"
UNKNOWN = "order unknown"
REPORTED_LATE = "fault reported in or before this step"
VOIDED = "step voided by a fault"


@dataclass(frozen=True, slots=True)
class Setting:
    """`margin_us` between clocks of two hosts; `staleness` steps between two processes."""

    margin_us: int = 2_000_000
    staleness: int = 1


@dataclass(frozen=True, slots=True)
class FaultLine:
    """A fault with what its rule says: severity L LH N S E I; locks always | if_continues | never."""

    line: Line
    verdict: str = "confirmed"
    severity: str = "L"
    locks: str = "always"


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line that begins or ends `step`."""

    line: Line
    step: int
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """A line with all that the comparison needs."""

    line: Line
    source: Source
    writer: Writer
    stream: str
    time: Bounds
    step: Bounds
    attempts: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """admissible | suspect | locked, and the first reason; "" when admissible."""

    admissibility: str
    reason: str


def same_writer(a: Placed, b: Placed) -> bool:
    """Both writers are known and one."""
    return a.writer.key is not None and a.writer.key == b.writer.key


def _one_process(a: Placed, b: Placed) -> bool:
    """Surely one process. A line without a name in a file with one name may be another's: nothing is shared."""
    return same_writer(a, b) and (a.source.single_process or a.line.proc == b.line.proc)


def _one_pipe(a: Placed, b: Placed) -> bool:
    """Lines of one writer through one buffer: one known stream, one process name unless the file is one process."""
    return bool(a.stream) and a.stream == b.stream and (a.source.single_process or a.line.proc == b.line.proc)


def ordered(a: Placed, b: Placed) -> bool:
    """Whether offsets decide if a was made before b."""
    return same_writer(a, b) and (written_at_once(b.line, b.source) or _one_pipe(a, b))


def _one_clock(a: Placed, b: Placed) -> bool:
    """One host, surely: a console forwards lines of other hosts."""
    return a.source.host == b.source.host and not a.source.console and not b.source.console


def _earlier(a: Placed, b: Placed, margin: int, staleness: int) -> bool:
    """By time or by step, a was surely made before b."""
    by_time = a.time.hi_clock == b.time.lo_clock and a.time.hi_clock >= UTC_CLOCK and a.time.hi + margin < b.time.lo
    by_step = a.step.hi < INF and b.step.lo > -INF and a.step.hi + staleness < b.step.lo
    return by_time or by_step


def before(r: Placed, f: Placed, setting: Setting) -> bool:
    """The bytes show that r was made before f.

    Offsets, where they decide, decide alone: a clock that jumped unlocks nothing.
    """
    if ordered(r, f):
        return r.line.place < f.line.place
    if _one_process(r, f):
        return _earlier(r, f, 0, 0)
    return _earlier(r, f, 0 if _one_clock(r, f) else setting.margin_us, setting.staleness)


def after(r: Placed, f: Placed, setting: Setting) -> bool:
    """The bytes show that r was made after f. Only chooses the words of a reason."""
    at_once = written_at_once(r.line, r.source)
    if same_writer(r, f) and (at_once or _one_pipe(r, f)) and r.line.place > f.line.place:
        return True
    margin = 0 if _one_clock(r, f) else setting.margin_us
    return not ordered(r, f) and _earlier(f, r, margin, setting.staleness)


class Lock:
    """All of one run that the lock looks at.

    Args:
        writers: sources, processes and attempts.
        faults, steps: of the run.
        stamp_lines: stamped lines that followed unstamped ones.
        records: numeric records and metrics; they show that a process went on.
        generations: (source, generation) of the run that nothing else here names.
    """

    def __init__(
        self,
        writers: Writers,
        faults: Sequence[FaultLine],
        steps: Sequence[StepLine],
        stamp_lines: Iterable[Line],
        records: Sequence[Line],
        setting: Setting = Setting(),
        generations: Iterable[tuple[int, int]] = (),
    ) -> None:
        self._writers = writers
        self._faults = faults
        self._steps = steps
        self._stamps: dict[tuple[int, int, str], list[Line]] = {}
        for stamp in stamp_lines:
            self._stamps.setdefault((stamp.source_id, stamp.generation, stamp.proc), []).append(stamp)
        self._records = records
        self._setting = setting
        lines = [f.line for f in faults] + [s.line for s in steps] + list(records)
        self._generations = sorted(
            {(line.source_id, line.generation) for line in lines} | writers.generations | set(generations)
        )

    def place(self, line: Line, is_fault: bool = False) -> Placed:
        """A line with its bounds."""
        source = self._writers.sources[line.source_id]
        writer = self._writers.writer(line.source_id, line.generation, line.proc)
        later = self._stamps.get((line.source_id, line.generation, line.proc), [])
        time = time_bounds(line, source, later, writer.key is not None)
        latest = time.hi if is_fault and time.hi_clock == UTC_CLOCK else None
        attempts = self._writers.attempts(line, self._generations, latest)
        step = step_bounds(line, source, writer.key is not None)
        return Placed(line, source, writer, stream_of(line, source), time, step, attempts)

    @cached_property
    def _placed_steps(self) -> list[tuple[Placed, int, bool]]:
        return [(self.place(s.line), max(min(s.step, STEP_LIMIT), -STEP_LIMIT), s.ended) for s in self._steps]

    def _with_step(self, fault: Placed) -> Placed:
        """A fault that prints no step lies between the steps of its attempt surely earlier and surely later."""
        exact = fault.line.step is not None and not fault.line.carried
        if exact or fault.attempts[0] != fault.attempts[1]:
            return fault
        lo, hi = fault.step.lo, fault.step.hi
        for step, number, ended in self._placed_steps:
            if step.attempts != fault.attempts:
                continue
            margin = 0 if _one_clock(step, fault) else self._setting.margin_us
            stamped = step.line.stamp is not None and step.time.lo_clock == UTC_CLOCK
            if ended and (
                (ordered(step, fault) and step.line.place < fault.line.place)
                or (stamped and fault.time.lo_clock == UTC_CLOCK and step.time.hi + margin < fault.time.lo)
            ):
                lo = max(lo, number)
            if (ordered(fault, step) and fault.line.place < step.line.place) or (
                stamped and fault.time.hi_clock == UTC_CLOCK and fault.time.hi < step.time.lo - margin
            ):
                hi = min(hi, number)
        return Placed(
            fault.line, fault.source, fault.writer, fault.stream, fault.time, Bounds(lo, hi), fault.attempts
        )  # fmt: skip

    def _goes_on(self, fault: Placed) -> bool:
        """The writer later ends a step or prints a number."""
        later = [s.line for s in self._steps if s.ended] + list(self._records)
        return any(
            line.place > fault.line.place and same_writer(self.place(line), fault)
            for line in later if line.source_id == fault.line.source_id
        )  # fmt: skip

    @cached_property
    def locking(self) -> list[Placed]:
        """Faults that lock."""
        found = []
        for fault in self._faults:
            if fault.verdict == "confirmed" and fault.locks != "never":
                placed = self.place(fault.line, is_fault=True)
                if fault.locks != "if_continues" or self._goes_on(placed):
                    found.append(self._with_step(placed))
        return found

    @cached_property
    def voiding(self) -> list[Placed]:
        """Faults that make the numbers of their steps suspect."""
        return [
            self._with_step(self.place(f.line, is_fault=True))
            for f in self._faults
            if f.verdict == "confirmed" and f.severity in {"N", "S", "E"}
        ]

    def judge(self, record: Line) -> Judgement:
        """The state of one numeric record."""
        r = self.place(record)

        def concerns(f: Placed) -> bool:
            return f.attempts[0] <= r.attempts[1] and f.attempts[1] >= r.attempts[0]

        locking = [f for f in self.locking if concerns(f)]
        if any(not before(r, f, self._setting) for f in locking):
            shown = any(after(r, f, self._setting) for f in locking)
            return Judgement("locked", AFTER if shown else UNKNOWN)
        if any(not r.step.hi < f.step.lo for f in locking):
            return Judgement("suspect", REPORTED_LATE)
        if any(f.step.lo <= r.step.hi and r.step.lo <= f.step.hi for f in self.voiding if concerns(f)):
            return Judgement("suspect", VOIDED)
        return Judgement("admissible", "")
