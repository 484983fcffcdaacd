"""The lifecycle of an engine's weights by its definitions: line by line, in the order of the log. Slow, to be read.

The store finds the same fast (store/schema/derive/3_state.sql, view `lifecycle_findings`); a property test holds one
against the other. What a finding does to numbers is in `made_in`.

    Change     one line that tells of the weights: loaded, asleep, awake, updated, the cache reset
    Setting    one line that tells of a setting: a batch of some kind is a use, a cache that is off needs no reset
    Lifecycle  all of one run -> findings

An engine is what one server prints into one log. What it did before a new process is forgotten: an epoch begins with
it. Every rule reads: at this line, after what came before it, something is wrong; it stays so up to a line that ends
it; it is a finding if the engine was used in between.

Source of the rules: docs/explanation/evidence.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tic_daemon.evidence.bounds import UTC_CLOCK, Line, Source, clock_of, to_clock
from tic_daemon.evidence.lock import Setting as Margins
from tic_daemon.evidence.lock import StepLine
from tic_daemon.evidence.writers import Writers

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the lifecycle. Phases and levels: scan/rule.py; `pid` as printed."""

    line: Line
    phase: str
    level: str = ""
    rule: str = ""
    pid: int | None = None

    @property
    def order(self) -> tuple[Place, str]:
        """Several rules may read one line."""
        return self.line.place, self.rule

    @property
    def sleeps(self) -> bool:
        return self.phase == "asleep" and self.level != "0"

    @property
    def drops_weights(self) -> bool:
        return self.phase == "asleep" and self.level == "2"

    @property
    def sleeps_whole(self) -> bool:
        """SGLang does not print which tags it releases."""
        return self.sleeps and self.level != "unstated"

    @property
    def wakes_weights(self) -> bool:
        return self.phase == "awake" and self.level != "kv_cache"

    @property
    def wakes_cache(self) -> bool:
        return self.phase == "awake" and self.level != "weights"

    @property
    def begins(self) -> bool:
        """The begin of an update whose end is printed, too."""
        return self.phase == "reloading" and self.level == "begun"

    @property
    def updates(self) -> bool:
        """Other weights than before."""
        return self.phase in {"reloaded", "updated"} or (self.phase == "reloading" and not self.begins)

    @property
    def loads(self) -> bool:
        """Weights are there anew."""
        return self.updates or self.phase in {"cold_load", "new_process"}

    @property
    def answers(self) -> bool:
        """An answer to the question for a reset."""
        return self.phase in {"reset", "reset_refused", "new_process"}

    @property
    def tells(self) -> bool:
        """Shows that the engine prints such lines. Access lines and refusals come even where nothing else does."""
        return self.phase not in {"updated", "reset_refused"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of the execution state; `value` None: it only claims."""

    line: Line
    field: str
    value: str | None
    claimed: str | None = None
    rule: str = ""
    rollout: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong from `at` on, up to `until` (None: still). Times UTC, in microseconds, None unknown.

    first_step, last_step: under way when it began and ended, by the step lines of its attempt.
    """

    kind: str
    at: Change
    until: Change | None
    attempts: tuple[int, int]
    from_us: int | None
    until_us: int | None
    first_step: int | None
    last_step: int | None


@dataclass(slots=True)
class _Engine:
    """What an engine has come to within its epoch, after the lines read so far."""

    weights_gone: bool = False  # a sleep dropped them, and nothing has loaded them
    slept_whole: bool = False  # its last sleep
    weights_woken: bool = False  # since that sleep
    cache_woken: bool = False
    updated_asleep: bool = False
    heard: bool = False
    reset: Place | None = None  # the last of each
    update: Place | None = None
    answer: Place | None = None
    use: Place | None = None

    def see(self, change: Change) -> None:
        """One more line."""
        place = change.line.place
        if change.drops_weights:
            self.weights_gone = True
        if change.sleeps:
            self.slept_whole = change.sleeps_whole
            self.weights_woken = self.cache_woken = self.updated_asleep = False
        if change.loads:
            self.weights_gone = False
        self.weights_woken |= change.wakes_weights
        self.cache_woken |= change.wakes_cache
        self.heard |= change.tells
        if change.phase == "reset":
            self.reset = place
        if change.updates:
            self.update, self.updated_asleep = place, True
        if change.answers:
            self.answer = place

    def wrong(self, now: Change, *, keeps_cache: bool) -> Iterator[tuple[str, Callable[[Change], bool] | None]]:
        """(kind, what ends it) of all that is wrong at this line; `None`: the line itself ends it.

        Args:
            keeps_cache: its framework keeps or salts the cache on purpose.
        """
        if now.wakes_weights and self.weights_gone and not self.weights_woken:
            yield "wake_without_weights", lambda c: c.loads or c.sleeps
        if self.slept_whole and now.wakes_weights != now.wakes_cache:
            if now.wakes_weights and not self.cache_woken:
                yield "wake_tags_missing", lambda c: c.loads or c.sleeps or c.wakes_cache
            elif now.wakes_cache and not self.weights_woken:
                yield "wake_tags_missing", lambda c: c.loads or c.sleeps or c.wakes_weights
        if (now.updates or now.begins) and self.slept_whole and not self.weights_woken and not self.updated_asleep:
            yield "update_while_asleep", lambda c: c.updates
        # An update that nobody has answered nor used is one with the next.
        same = _after(self.update, self.answer) and _after(self.update, self.use)
        if now.updates and self.heard and not keeps_cache and not same and not _after(self.reset, self.use):
            yield "update_without_reset", lambda c: c.answers
        if now.phase == "reset_refused" and not keeps_cache:
            if not self.heard:
                yield "reset_refused", None
            elif _after(self.update, self.reset) and not _after(self.answer, self.update):
                yield "reset_refused", lambda c: c.phase == "reset"
        if now.begins:
            yield "update_missing", lambda c: c.loads


def _after(one: Place | None, other: Place | None) -> bool:
    """`one` is there, and nothing of `other` is as late."""
    return one is not None and (other is None or one > other)


NEEDS_NO_USE = frozenset({"update_while_asleep"})
"""Weights that sleep are written to: no use is needed."""
OF_THE_CACHE = frozenset({"update_without_reset", "reset_refused"})


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One life of an engine in one attempt: its lines in order, and where it was used."""

    source_id: int
    outer: str
    number: int
    changes: Sequence[Change]
    uses: Mapping[Place, Sequence[Place]]  # of the changes, those up to the next


@dataclass
class Lifecycle:
    """All of one run that the lifecycle looks at.

    Args:
        writers: sources, processes and attempts.
        changes: of the rollout.
        settings: lines of the execution state.
        records: numeric records; one in an engine's log is a use of it.
        steps: ends of steps.
        generations: (source, generation) of the run that nothing else here names.
    """

    writers: Writers
    changes: Sequence[Change]
    settings: Sequence[Setting] = ()
    records: Sequence[Line] = ()
    steps: Sequence[StepLine] = ()
    margins: Margins = field(default_factory=Margins)
    generations: Iterable[tuple[int, int]] = ()
    _all: list[tuple[int, int]] = field(init=False)
    _known: dict[Line, tuple[int, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        lines = [*self.records, *(c.line for c in self.changes), *(s.line for s in self.settings)]
        lines += [s.line for s in self.steps]
        self._all = sorted(
            {(line.source_id, line.generation) for line in lines} | self.writers.generations | set(self.generations)
        )

    def attempts(self, line: Line) -> tuple[int, int]:
        """Lowest and highest attempt that a line may belong to."""
        if line not in self._known:
            self._known[line] = self.writers.attempts(line, self._all)
        return self._known[line]

    def utc(self, line: Line) -> int | None:
        """When a line was written, or the last stamped one of its writer before it."""
        source = self.writers.sources[line.source_id]
        stamp, utc = (line.stamp, line.utc) if line.stamp is not None else (line.after, line.after_utc)
        return in_utc(stamp, utc, source)

    @cached_property
    def step_ends(self) -> dict[tuple[int, int], int | None]:
        """(attempt, step) -> when a line first says that it ended."""
        found: dict[tuple[int, int], int | None] = {}
        for step in self.steps:
            if step.ended:
                source = self.writers.sources[step.line.source_id]
                at = in_utc(step.line.stamp, step.line.utc, source) if step.line.stamp is not None else None
                key = (self.attempts(step.line)[0], step.step)
                known = found.get(key)
                found[key] = at if known is None else known if at is None else min(known, at)
        return found

    def steps_of(self, attempt: int, ended: Callable[[int], bool]) -> list[int]:
        """Steps of an attempt whose end fits."""
        return [step for (of, step), at in self.step_ends.items() if of == attempt and at is not None and ended(at)]

    @cached_property
    def _epochs(self) -> list[_Epoch]:
        by_engine: dict[tuple[int, str], list[Change]] = defaultdict(list)
        for change in sorted(self.changes, key=lambda c: c.order):
            by_engine[change.line.source_id, outer_of(change.rule, change.line.proc)].append(change)
        uses: dict[tuple[int, str], dict[Place, list[Place]]] = {key: defaultdict(list) for key in by_engine}
        for key, place in self._used(by_engine):
            before = [c.line.place for c in by_engine[key] if c.line.place <= place]
            if before:
                uses[key][before[-1]].append(place)
        found = []
        for (source_id, outer), changes in by_engine.items():
            attempts = {self.attempts(c.line)[0] for c in changes}
            for attempt in sorted(attempts):
                epoch, mine = 0, [c for c in changes if self.attempts(c.line)[0] == attempt]
                lives: dict[int, list[Change]] = defaultdict(list)
                for change in mine:
                    epoch += change.phase == "new_process"
                    lives[epoch].append(change)
                found += [_Epoch(source_id, outer, n, life, uses[source_id, outer]) for n, life in lives.items()]
        return found

    def _used(self, engines: Iterable[tuple[int, str]]) -> Iterator[tuple[tuple[int, str], Place]]:
        engines = list(engines)
        for setting in self.settings:
            key = (setting.line.source_id, outer_of(setting.rule, setting.line.proc))
            if setting.field == "step_kind" and setting.value is not None and key in engines:
                yield key, setting.line.place
        for record in self.records:
            for key in engines:
                if key[0] == record.source_id:
                    yield key, record.place

    def _cache_off(self, epoch: _Epoch, at: Change) -> bool:
        told = [
            (s.line.place, s.value if s.value is not None else s.claimed)
            for s in self.settings
            if s.field == "prefix_cache" and s.rollout and s.line.source_id == epoch.source_id
            and outer_of(s.rule, s.line.proc) == epoch.outer and s.line.place < at.line.place
        ]  # fmt: skip
        return bool(told) and max(told, key=lambda t: t[0])[1] == "off"

    def _of(self, epoch: _Epoch) -> Iterator[tuple[str, Change, Change | None]]:
        engine = _Engine()
        keeps_cache = any(c.rule.startswith("prime.") for c in epoch.changes)
        for number, now in enumerate(epoch.changes):
            for kind, ends in engine.wrong(now, keeps_cache=keeps_cache):
                later = epoch.changes[number + 1 :]
                until = now if ends is None else next((c for c in later if ends(c)), None)
                if kind == "update_while_asleep" and until is None:
                    until = next((c for c in later if c.sleeps), None)
                if kind in OF_THE_CACHE and self._cache_off(epoch, now):
                    continue
                used = any(
                    epoch.uses.get(c.line.place)
                    for c in epoch.changes
                    if c.line.place >= now.line.place and (until is None or c.line.place < until.line.place)
                )
                if used or kind in NEEDS_NO_USE or ends is None:
                    yield kind, now, until
            engine.see(now)
            if now.line.place not in {c.line.place for c in epoch.changes[number + 1 : number + 2]}:
                # A use is behind the whole line, which several rules may read.
                engine.use = max(filter(None, (engine.use, *epoch.uses.get(now.line.place, ()))), default=None)

    @cached_property
    def findings(self) -> list[Finding]:
        """All of them. At one printed time the same finding is one: an engine's log goes before a console's copy."""
        told = []
        for epoch in self._epochs:
            counted: dict[tuple[object, ...], int] = defaultdict(int)
            for kind, at, until in sorted(self._of(epoch), key=lambda f: f[1].order):
                printed = at.line.stamp if at.line.stamp is not None else at.line.after
                who = (self.attempts(at.line)[0], kind, self._pid(at), printed)
                counted[who] += 1
                told.append((who, counted[who], at, until))
        sources = self.writers.sources
        told.sort(key=lambda t: (sources[t[2].line.source_id].console, t[2].line.source_id, t[2].line.place))
        seen: set[tuple[object, ...]] = set()
        found = []
        for who, nth, at, until in told:
            if who[3] is None or (*who, nth) not in seen:
                seen.add((*who, nth))
                found.append(self._finding(str(who[1]), at, until))
        return found

    def _finding(self, kind: str, at: Change, until: Change | None) -> Finding:
        attempts, begun = self.attempts(at.line), self.utc(at.line)
        ended = None if until is None else self.utc(until.line)
        first = [] if begun is None else self.steps_of(attempts[0], lambda end: end >= begun)
        last = [] if ended is None else self.steps_of(attempts[0], lambda end: end >= ended)
        return Finding(
            kind, at, until, attempts, begun, ended, min(first) if first else at.line.step, min(last) if last else None
        )

    def _pid(self, at: Change) -> int | None:
        line = at.line
        return at.pid if at.pid is not None else self.writers.writer(line.source_id, line.generation, line.proc).pid


def in_utc(stamp: int | None, utc: bool, source: Source) -> int | None:
    """A stamp in UTC, or None if its zone is not known."""
    if stamp is None or clock_of(utc, source) != UTC_CLOCK:
        return None
    return to_clock(stamp, utc, source)


def outer_of(rule: str, proc: str) -> str:
    """The engine of a line within its log: a container's name tells servers apart, and the pid that Ray puts before
    their lines those of SGLang."""
    words = proc.split(" ")
    outer = words.pop(0) + " " if words[0].startswith("in:") else ""
    if not rule.startswith("sglang."):
        return outer
    return outer + "sglang " + (words[0] if words and words[0].startswith("pid:") else "")
