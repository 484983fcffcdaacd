"""Which numbers were made while something was wrong with an engine's weights, by its definitions: record by record.

The store answers the same fast (store/schema/derive/3_state.sql and view `mismatches`); a property test holds one
against the other.

A number is of a finding unless something shows that it is not:

    in the engine's own log   the order of lines
    elsewhere                 its step; else its time; else a step on one side of all of them, or a line before it that
                              tells a later time

Findings whose stretches touch are one stretch, with the words of all. Times are UTC in microseconds, a stamp being one
of a second at the coarsest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tic_daemon.evidence.bounds import INF, STEP_LIMIT, Line, step_bounds, written_at_once
from tic_daemon.evidence.lifecycle import Finding, Lifecycle, in_utc

SECOND = 1_000_000
WORDS = {
    "wake_without_weights": "weights woken without a reload",
    "wake_tags_missing": "weights or KV cache still asleep",
    "update_while_asleep": "weights updated while asleep",
    "update_without_reset": "weights updated without a reset of the prefix cache",
    "reset_refused": "reset of the prefix cache refused",
    "update_missing": "update of the weights not finished",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """[lo, hi] of places (`_place`), steps or times. `since`: what is surely earlier is not of it."""

    lo: int
    hi: int
    words: frozenset[str]
    since: int = -INF


@dataclass(frozen=True, slots=True)
class Bound:
    """What a finding bounds. `time` None: its time is not known. `step` None: nothing tells the steps."""

    finding: Finding
    words: str
    own: bool  # its log is the engine's alone
    time: tuple[int, int] | None
    step: tuple[int, int] | None


class MadeIn:
    """What each finding of a run does to its numbers."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._bounds = [self._bound(finding) for finding in lifecycle.findings]

    def _bound(self, finding: Finding) -> Bound:
        life, stale = self._lifecycle, self._lifecycle.margins.staleness
        wide = life.margins.margin_us + SECOND
        attempt, begun, first = finding.attempts[0], finding.from_us, self._first_step(finding)
        ended, last = None if finding.until is None else self._told_from(finding.until.line), None
        if (told := ended) is not None:
            last = min(life.steps_of(attempt, lambda end: end >= told), default=None)
            if any(of == attempt for of, _ in life.step_ends):
                ended = self._over(attempt, told, None if last is None else last + stale)
        time = None if begun is None else (begun - wide, INF if ended is None else ended + wide)
        step = None if first is None else (first - stale, INF if last is None else last + stale)
        source = life.writers.sources[finding.at.line.source_id]
        own = not source.console and not any(s.ended and s.line.source_id == source.source_id for s in life.steps)
        return Bound(finding, WORDS[finding.kind], own, time, step)

    def _over(self, attempt: int, ended: int, step: int | None) -> int | None:
        """When the steps that were under way at its end are over, and as many more as processes may be apart."""
        if step is None:
            return None
        ends = [
            at
            for (of, number), at in self._lifecycle.step_ends.items()
            if of == attempt and number >= step and at is not None
        ]
        return min((at for at in ends if at >= ended), default=None)

    def _told_from(self, line: Line) -> int | None:
        """The time of a line, or of the next one of its log that tells the engine's state and a time."""
        life = self._lifecycle
        told = [
            (of.place, in_utc(of.stamp, of.utc, life.writers.sources[of.source_id]))
            for of in (*(c.line for c in life.changes), *(s.line for s in life.settings))
            if of.source_id == line.source_id and of.place >= line.place
        ]
        known = [(place, at) for place, at in told if at is not None]
        first = min((place for place, _ in known), default=None)
        return max((at for place, at in known if place == first), default=None)

    def _first_step(self, finding: Finding) -> int | None:
        """Under way when it began; else the last that had ended; else the one that its line is of."""
        life, attempt, begun = self._lifecycle, finding.attempts[0], finding.from_us
        if begun is not None and (later := life.steps_of(attempt, lambda end: end >= begun)):
            return min(later)
        if begun is not None and (before := life.steps_of(attempt, lambda end: end < begun)):
            return max(before)
        step = finding.first_step
        return None if step is None else max(min(step, STEP_LIMIT), -STEP_LIMIT)

    def of(self, record: Line) -> str:
        """The words of what was wrong when the number was made, joined; "" nothing."""
        mine = [b for b in self._bounds if b.finding.at.line.source_id == record.source_id]
        if words := _at(_places(mine), _place(record), _place(record)):
            return words
        attempt = self._lifecycle.attempts(record)[0]
        acting = [b for b in self._bounds if b.finding.attempts[0] <= attempt <= b.finding.attempts[1]]
        if any(b.own for b in acting if b.finding.at.line.source_id == record.source_id):
            acting = [b for b in acting if b.finding.at.line.source_id != record.source_id]
        return self._elsewhere(record, acting) if acting else ""

    def _elsewhere(self, record: Line, acting: Sequence[Bound]) -> str:
        """By step, by time, or by neither."""
        life = self._lifecycle
        source = life.writers.sources[record.source_id]
        known = life.writers.writer(record.source_id, record.generation, record.proc).key is not None
        step = step_bounds(record, source, known)
        at = in_utc(record.stamp, record.utc, source) if record.stamp is not None else None
        unheld = written_at_once(record, source) or (source.stream != "" and known)
        after = in_utc(record.after, record.after_utc, source) if record.stamp is None and unheld else None
        steps, times = [b.step for b in acting if b.step is not None], [b.time for b in acting if b.time is not None]
        all_steps, all_times = len(steps) == len(acting), len(times) == len(acting)
        has_step = step.lo > -INF and step.hi < INF
        words = _at(_steps(acting), step.lo, step.hi, at) if has_step else ""
        if not words and at is not None and not (has_step and all_steps):
            words = _at(_times(acting), at, at)
        beside = all_steps and (step.lo > max(hi for _, hi in steps) or step.hi < min(lo for lo, _ in steps))
        later = at is None and after is not None and all_times and after > max(hi for _, hi in times)
        if words or (has_step and all_steps) or (at is not None and all_times) or beside or later:
            return words
        return _joined(b.words for b in acting)


def _place(line: Line) -> int:
    """Places of a log in the order of its bytes, over generations."""
    return (line.generation << 44) + line.offset


def _places(bounds: Iterable[Bound]) -> list[Stretch]:
    found = []
    for bound in bounds:
        until = INF if bound.finding.until is None else _place(bound.finding.until.line)
        found.append(Stretch(_place(bound.finding.at.line), until - 1, frozenset({bound.words})))
    return _merged(found, 0)


def _steps(bounds: Iterable[Bound]) -> list[Stretch]:
    found = [
        Stretch(*b.step, frozenset({b.words}), -INF if b.time is None else b.time[0])
        for b in bounds
        if b.step is not None
    ]
    return _merged(found, 1)


def _times(bounds: Iterable[Bound]) -> list[Stretch]:
    return _merged([Stretch(*b.time, frozenset({b.words})) for b in bounds if b.time is not None], 0)


def _merged(stretches: list[Stretch], gap: int) -> list[Stretch]:
    """Those that touch as one: with no more than `gap` from the end of one to the begin of the next."""
    found: list[Stretch] = []
    for one in sorted(stretches, key=lambda s: (s.lo, s.hi)):
        if found and one.lo <= found[-1].hi + gap:
            last = found.pop()
            found.append(Stretch(last.lo, max(last.hi, one.hi), last.words | one.words, min(last.since, one.since)))
        else:
            found.append(one)
    return found


def _at(stretches: Iterable[Stretch], lo: int, hi: int, at: int | None = None) -> str:
    """The words of the stretches that meet [lo, hi], but those that are surely later than `at`."""
    met = [s for s in stretches if s.lo <= hi and s.hi >= lo and (at is None or at >= s.since)]
    return _joined(word for s in met for word in s.words)


def _joined(words: Iterable[str]) -> str:
    return "; ".join(sorted(set(words)))
