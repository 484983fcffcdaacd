"""What a screen's view is made of, kept from one reading to the next so that only what is new is asked for.

    reading = RunReading("grpo-tiny-a")
    view = reading.view(reader, Ask(demand, standing, news, until))

A reading belongs to one reader: positions of stores and what their rows read like hold for that reader alone. What does
not follow from records (faults, marks, logs) is asked anew when the standing changed, and else as often as its cost
allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tic_daemon.store.sqlguard import SqlError
from tic_tui import comparison_queries, histories, queries
from tic_tui.counting import ADD, LEAST, MOST, Groups, Question, Tally
from tic_tui.evidence_model import Lamp
from tic_tui.model import (
    Bucket,
    Demand,
    Facts,
    Fault,
    Key,
    Mismatch,
    Run,
    RunsView,
    RunView,
    Series,
    Standing,
)
from tic_tui.queries import Span, State
from tic_tui.safe import safe
from tic_tui.windows import Page, Scope

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

RUNS: Final = 5000  # listed, those that moved last
SHARE: Final = 20  # what is asked often takes at most one part in so many of the time
BUCKETS: Final = 4096  # spans of steps that are held of all metrics together; a terminal shows a few hundred


@dataclass(frozen=True, slots=True)
class News:
    """What came since the last reading: new records, how many besides, and whether anything was committed at all."""

    rows: tuple[Mismatch, ...] = ()
    missed: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What a view is to answer.

    Attributes:
        standing: as `Tail.standing`. news: None: anything may have come.
        fresh: also what turns by time alone is asked anew.
        until: `time.monotonic` at which work that can go on later stops.
    """

    demand: Demand
    standing: str
    news: News | None
    until: float
    fresh: bool = False

    @property
    def new(self) -> bool:
        """Something may have been committed since the last reading."""
        return self.news is None or self.news.moved

    @property
    def new_records(self) -> bool:
        """Records may have come."""
        return self.news is None or bool(self.news.rows) or self.news.missed > 0


class Paced(Generic[T]):
    """An answer that is asked for again when it must be, and else after a rest that its cost sets."""

    def __init__(self, ask: Callable[[Reader], T]) -> None:
        self._ask = ask
        self._held: list[T] = []
        self._standing = ""
        self._due = 0.0

    def get(self, reader: Reader, ask: Ask) -> T:
        """The answer, of now or of a little while ago."""
        began = time.monotonic()
        if not self._held or ask.fresh or ask.standing != self._standing or (ask.new and began >= self._due):
            self._held, self._standing = [self._ask(reader)], ask.standing
            now = time.monotonic()
            self._due = now + SHARE * (now - began)
        return self._held[0]


class _Lines:
    """Counts and times of records and step lines, by run and attempt, of all runs or of one."""

    def __init__(self, span: Span, run_id: str | None = None, records: Tally | None = None) -> None:
        where, params = ("", ()) if run_id is None else (" AND run_id = ?", (run_id,))
        sums = (("max(step)", MOST), ("max(event_at)", MOST))
        by = ("run_id", "attempt")
        self.steps = Tally(Question("step_lines", by, sums, where, params), span)
        self.records = records or Tally(Question("mismatches", by, (*sums, ("count(*)", ADD)), where, params), span)

    @property
    def complete(self) -> bool:
        """All is counted."""
        return self.records.complete and self.steps.complete

    def update(self, reader: Reader, ask: Ask) -> None:
        """Counts what is new, and works on what is old as long as it may."""
        self.steps.update(reader, ask.standing, ask.until, new=ask.new)
        self.records.update(reader, ask.standing, ask.until, new=ask.new_records)


def _run(state: State, records: Iterable[list[Any]], lines: Iterable[list[Any]]) -> Run:
    """The run's line. `records`: sums (key, step, time, count, ...) of its attempts; `lines`: (key, step, time)."""
    records = list(records)
    seen = [*records, *lines]
    times = [sums[0].observed_at for sums in seen]
    if state.last_growth_at is not None:
        times.append(state.last_growth_at)
    return Run(
        run_id=state.run_id,
        attempt=state.attempt,
        state=state.state,
        locked=state.locked,
        first_fault_rec_id=state.first_fault_rec_id,
        last_step=max((s[1] for s in seen if s[1] is not None), default=None),
        last_event_at=max((s[2] for s in seen if s[2] is not None), default=None),
        last_observed_at=max(times, default=None),
        mismatches=sum(s[3] for s in records),
        faults=state.faults,
        marked=state.marked,
        named_by_us=state.named_by_us,
        first_fault_store_id=state.first_fault_store_id,
    )


def _unnamed(run_id: str, attempt: int) -> State:
    """A run that only a record of no known place names."""
    return State(run_id, attempt, safe("silent"), False, None, "", 0, False, False, None)


class RunLine:
    """One run's line, for a screen that shows little else of its records."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lines: _Lines | None = None
        self._state = Paced(lambda reader: queries.states(reader, run_id))

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        return self._lines is not None and self._lines.complete

    def read(self, reader: Reader, ask: Ask) -> Run | None:
        """The line as it is now; None: there is no such run."""
        if self._lines is None:
            self._lines = _Lines(queries.span(reader), self._run_id)
        self._lines.update(reader, ask)
        records, steps = _by_run(self._lines.records.groups()), _by_run(self._lines.steps.groups())
        states = self._state.get(reader, ask)
        found = records.get(self._run_id, {})
        if not states and not found:
            return None
        state = states[0] if states else _unnamed(self._run_id, max(found))
        return _run(state, found.values(), steps.get(self._run_id, {}).values())


class RunsReading:
    """Screen 1."""

    def __init__(self) -> None:
        self._lines: _Lines | None = None
        self._newest: dict[Key, Mismatch] = {}
        self._standing = ""
        self._facts = Paced(lambda reader: queries.facts(reader, queries.span(reader).last))
        self._metrics = Paced(queries.has_metrics)
        self._states = Paced(queries.states)
        self._lamps = Paced(queries.lamps)
        self._shown = self._lit = False

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        return self._lines is not None and self._lines.complete and self._lit

    def view(self, reader: Reader, ask: Ask) -> RunsView:
        """Screen 1 as it is now."""
        if self._lines is None:
            self._lines = _Lines(queries.span(reader))
        lines = self._lines
        lines.update(reader, ask)
        states = list(self._states.get(reader, ask))
        records, steps = _by_run(lines.records.groups()), _by_run(lines.steps.groups())
        known = {s.run_id for s in states}
        states += [_unnamed(name, max(found)) for name, found in records.items() if name not in known]
        runs, metrics, facts = [], self._metrics.get(reader, ask), self._facts.get(reader, ask)
        for state in states:
            found = _run(state, records.get(state.run_id, {}).values(), steps.get(state.run_id, {}).values())
            # A run that we named ourselves is shown once it has something to show.
            shows = found.mismatches or found.faults or found.last_step is not None or metrics
            if not state.named_by_us or shows or facts.get(state.run_id, Facts()).findings:
                runs.append(found)
        runs.sort(key=lambda r: r.run_id)
        runs.sort(key=lambda r: r.last_observed_at or datetime.min, reverse=True)
        del runs[RUNS:]
        newest = self._records(
            reader, ask, {(r.run_id, a): s[0] for r in runs for a, s in records.get(r.run_id, {}).items()}
        )
        lit, unlit = self._lamps_after(reader, ask)
        return RunsView(tuple(runs), newest, _now(), facts, lines.records.search, lit, safe(unlit))

    def _lamps_after(self, reader: Reader, ask: Ask) -> tuple[dict[str, tuple[Lamp, ...]] | None, str]:
        """(lamps, why not). They cost more than the rest: the list does not wait for them, and stands without them."""
        self._lit, self._shown = self._shown, True
        try:
            return self._lamps.get(reader, ask) if self._lit else None, ""
        except SqlError as error:  # a store of an older daemon has no such view
            return None, error.what.splitlines()[0]

    def _records(self, reader: Reader, ask: Ask, keys: dict[tuple[str, int], Key]) -> dict[tuple[str, int], Mismatch]:
        """The newest record of each run and attempt: from those held, those that came, or the store."""
        if ask.standing != self._standing:
            self._newest, self._standing = {}, ask.standing
        held = self._newest | {r.key: r for r in (ask.news.rows if ask.news else ())}
        missing = [key for key in keys.values() if key not in held]
        held |= queries.records_at(reader, missing)
        self._newest = {key: held[key] for key in keys.values() if key in held}
        return {name: held[key] for name, key in keys.items() if key in held}


def _by_run(groups: Groups) -> dict[str, dict[int, list[Any]]]:
    found: dict[str, dict[int, list[Any]]] = {}
    for (run_id, attempt), sums in groups.items():
        found.setdefault(run_id, {})[attempt] = sums
    return found


_DRAWN: Final = "(step IS NOT NULL AND value IS NOT NULL AND isfinite(value))"


def _plotted(run_id: str, shift: int) -> Question:
    """A run's records by standing, metric and span of 2^shift steps.

    Sums after the key: largest step, newest time, count; smallest and largest value drawn, first and last step drawn,
    how many are not drawn, the noise floor.
    """
    return Question(
        "mismatches",
        ("attempt", "admissibility", "reason", "is_evidence", "metric", f"CASE WHEN {_DRAWN} THEN step >> {shift} END"),
        (
            ("max(step)", MOST), ("max(event_at)", MOST), ("count(*)", ADD),
            (f"min(value) FILTER ({_DRAWN})", LEAST), (f"max(value) FILTER ({_DRAWN})", MOST),
            (f"min(step) FILTER ({_DRAWN})", LEAST), (f"max(step) FILTER ({_DRAWN})", MOST),
            (f"count(*) FILTER (NOT {_DRAWN})", ADD),
            ("max(self_repeat) FILTER (isfinite(self_repeat))", MOST),
        ),
        " AND run_id = ?",
        (run_id,),
    )  # fmt: skip


class RunReading:
    """Screen 2, of one run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lines: _Lines | None = None
        self._shift = 0
        self._page: Page | None = None
        self._evidence: tuple[Any, Mismatch | None] = (None, None)
        self._state = Paced(lambda reader: queries.states(reader, run_id))
        self._faults = Paced(lambda reader: queries.faults(reader, run_id))
        self._first = Paced(self._first_fault)
        self._about: State | None = None
        self._exec = Paced(lambda reader: (queries.exec_fields(reader, run_id), queries.phases(reader, run_id)))
        self._findings = Paced(lambda reader: (queries.findings(reader, run_id), queries.gpus(reader, run_id)))
        self._wandb = Paced(lambda reader: histories.read(reader, run_id))
        self._artifacts = Paced(lambda reader: queries.artifacts(reader, run_id))
        self._compared = Paced(lambda reader: comparison_queries.of_run(reader, run_id))
        self._changes = Paced(lambda reader: queries.phase_changes(reader, run_id))
        self._steps = Paced(lambda reader: queries.steps(reader, run_id))
        self._sources = Paced(lambda reader: queries.sources(reader, run_id))
        self._marks = Paced(lambda reader: queries.marks(reader, run_id))
        self._facts = Paced(lambda reader: queries.facts(reader, queries.span(reader).last))
        self._standing = ""

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        return self._lines is not None and self._lines.complete and self._page is not None and self._page.done

    def view(self, reader: Reader, ask: Ask) -> RunView | None:
        """Screen 2 as it is now; None: there is no such run."""
        span = queries.span(reader) if self._lines is None or self._page is None else None
        if self._lines is None:
            assert span is not None  # noqa: S101  asked for in the line above
            self._lines = _Lines(span, self._run_id, Tally(_plotted(self._run_id, 0), span))
        lines = self._lines
        tops = lines.records.tops()
        lines.update(reader, ask)
        groups = self._bounded(lines.records)
        page = self._window(reader, ask, tops, span)
        states = self._state.get(reader, ask)
        if not states and not groups:
            return None
        self._about = states[0] if states else _unnamed(self._run_id, max(group[0] for group in groups))
        run = _run(self._about, groups.values(), lines.steps.groups().values())
        found, phases = self._exec.get(reader, ask)
        window = page.window()
        findings, gpus = self._findings.get(reader, ask)
        return RunView(
            run=run,
            standings=_standings(groups),
            first_fault=self._first.get(reader, ask),
            faults=tuple(self._faults.get(reader, ask)),
            faults_total=run.faults,
            exec_fields=found,
            phases=phases,
            newest_evidence=self._newest_evidence(reader, ask, groups, window.rows),
            window=window,
            series=_series(groups, self._shift, ask.demand),
            steps=self._steps.get(reader, ask),
            sources=self._sources.get(reader, ask),
            marks=self._marks.get(reader, ask),
            read_at=_now(),
            facts=self._facts.get(reader, ask).get(self._run_id, Facts()),
            counted=lines.records.search,
            findings=findings,
            gpus=gpus,
            wandb=self._wandb.get(reader, ask),
            artifacts=self._artifacts.get(reader, ask),
            changes=self._changes.get(reader, ask),
            compared=self._compared.get(reader, ask),
        )

    def _bounded(self, records: Tally) -> Groups:
        """The groups; if there are too many spans of steps, two become one until there are not."""
        groups = records.groups()
        while len({group[4:] for group in groups}) > BUCKETS:
            self._shift += 1
            records.regroup(
                _plotted(self._run_id, self._shift), lambda g: (*g[:5], None if g[5] is None else g[5] >> 1)
            )
            groups = records.groups()
        return groups

    def _window(self, reader: Reader, ask: Ask, tops: dict[str, datetime], span: Span | None) -> Page:
        scope = Scope(self._run_id)
        if ask.standing != self._standing:
            self._page, self._standing = None, ask.standing
        self._page = paged(self._page, scope, reader, ask, tops, span)
        return self._page

    def _first_fault(self, reader: Reader) -> Fault | None:
        about = self._about
        if about is None or about.first_fault_rec_id is None:
            return None
        return queries.fault(reader, self._run_id, about.first_fault_rec_id, about.first_fault_store_id)

    def _newest_evidence(
        self, reader: Reader, ask: Ask, groups: Groups, shown: tuple[Mismatch, ...]
    ) -> Mismatch | None:
        """The newest record of the largest step that is evidence."""
        steps = [-1 if sums[1] is None else sums[1] for group, sums in groups.items() if group[3]]
        if not steps:
            return None
        best = max(steps)
        last = max(s[0] for g, s in groups.items() if g[3] and (-1 if s[1] is None else s[1]) == best)
        asked = (ask.standing, best, last)
        if self._evidence[0] != asked:
            # The newest record of that group may be of an earlier step: it is the one only if its step is the largest.
            at = next((r for r in shown if r.key == last and r.is_evidence and r.step == best), None)
            step = None if best == -1 and not any(s[1] == -1 for g, s in groups.items() if g[3]) else best
            self._evidence = (asked, at or queries.newest_evidence(reader, self._run_id, step, last.observed_at))
        return self._evidence[1]


def _halved(group: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*group[:5], None if group[5] is None else group[5] >> 1)


def paged(
    page: Page | None, scope: Scope, reader: Reader, ask: Ask, tops: dict[str, datetime], span: Span | None = None
) -> Page:
    """The page that the demand asks for: the one held with what is new in it, or another one."""
    demand = ask.demand
    if page is None or (page.scope, page.anchor, page.want) != (scope, demand.anchor, demand.rows) or ask.news is None:
        page = Page(scope, demand.anchor, demand.rows, span or queries.span(reader), page)
    elif ask.new_records and not (page.replace(ask.news.rows) if ask.news.missed else page.add(ask.news.rows)):
        since = _since(ask.news, tops)
        if since is None or not page.renew(reader, since):
            page = Page(scope, demand.anchor, demand.rows, span or queries.span(reader), page)
    if not page.done:
        page.advance(reader, ask.until)
    return page


def _since(news: News, tops: dict[str, datetime]) -> datetime | None:
    """The time from which on rows may be new; None: it is not known. `tops`: how far each store was counted before."""
    named = {r.store_id for r in news.rows}
    if not named <= set(tops):
        return None
    stores = set(tops) if news.missed else named
    return min((tops[s] + timedelta(microseconds=1) for s in stores), default=None)


def _standings(groups: Groups) -> tuple[Standing, ...]:
    found: dict[tuple[Any, ...], int] = {}
    for (attempt, admissibility, reason, *_), sums in groups.items():
        kind = (attempt, admissibility, reason)
        found[kind] = found.get(kind, 0) + sums[3]
    return tuple(Standing(int(a), safe(b), safe(c), n) for (a, b, c), n in sorted(found.items()))


def _series(groups: Groups, shift: int, demand: Demand) -> Series | None:
    """The metric that is asked for, or else the newest one, over its steps."""
    newest: dict[str, Key] = {}
    for group, sums in groups.items():
        if group[4]:
            newest[group[4]] = max(newest.get(group[4], sums[0]), sums[0])
    if not newest:
        return None
    metric = demand.metric if demand.metric in newest else max(newest, key=lambda name: newest[name])
    mine = [(group, sums) for group, sums in groups.items() if group[4] == metric]
    low = min((s[6] for _, s in mine if s[6] is not None), default=None)
    high = max((s[7] for _, s in mine if s[7] is not None), default=None)
    floor = max((s[9] for _, s in mine if s[9] is not None), default=None)
    low, high = (0, 0) if low is None or high is None else (low, high)
    spans = min(demand.columns, high - low + 1)
    held: dict[tuple[int, str], list[Any]] = {}
    for (_, admissibility, _, is_evidence, _, bucket), sums in mine:
        if bucket is None or not spans:
            continue
        # A span of steps that is held stands in the column of its first step: off by a fraction of a column at most.
        column = (max(low, bucket << shift) - low) * spans // (high - low + 1)
        standing = admissibility if admissibility != "admissible" else "evidence" if is_evidence else "not evidence"
        at = held.setdefault((column, standing), [sums[4], sums[5], 0])
        at[0], at[1], at[2] = min(at[0], sums[4]), max(at[1], sums[5]), at[2] + sums[3] - sums[8]
    buckets = tuple(Bucket(c, safe(s), *at) for (c, s), at in sorted(held.items()))
    unplotted = sum(s[8] for _, s in mine)
    if not buckets:
        spans = 0
    return Series(metric, tuple(sorted(newest)), low, high, demand.columns, spans, buckets, floor, unplotted)


def _now() -> datetime:
    return datetime.now(UTC)
