"""The lock by its definitions, written from the rules in docs/explanation/evidence.md and from nothing else: a second opinion.

It shares no code and no author with the store's SQL and with `tic_daemon.evidence`: loops over rows, no thresholds, no
staircases. Times are microseconds. It is slow and is meant to be read beside the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

MARGIN = 2_000_000  # microseconds between the clocks of two hosts
STALENESS = 1  # steps between two processes


@dataclass(frozen=True, slots=True)
class Src:
    id: int
    host: str
    root: str
    path: str = "x.log"
    stream: str = ""
    console: bool = False
    single: bool = False
    pid: int | None = None
    run_hint: str = ""
    run_how: str = ""
    zone_s: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an event table. `live` False: a provisional row that a later one has replaced."""

    table: str
    src: int
    gen: int
    off: int
    proc: str = ""
    pid: int | None = None
    stream: str = ""
    stamp: int | None = None
    res: int = 0
    utc: bool = False
    after: int | None = None
    after_utc: bool = False
    step: int | None = None
    carried: bool = False
    live: bool = True
    kind: str = ""
    verdict: str = "confirmed"
    text: str = ""
    bus: str = ""
    node: str = ""
    edge: str = "end"
    gpu: bool = False
    run: str = ""
    rank: int | None = None
    field: str = ""
    observed: str | None = None
    claimed: str | None = None
    rule: str = ""
    phase: str = ""
    level: str = ""

    @property
    def place(self) -> tuple[int, int]:
        return self.gen, self.off


@dataclass(frozen=True, slots=True)
class Attempt:
    """A declaration. `cut`: (source, generation, offset)."""

    run: str
    id: str
    declared_at: int
    time: int | None = None
    cut: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    severity: str = "L"
    locks: str = "always"
    node_scope: bool = False


@dataclass(slots=True)
class World:
    sources: dict[int, Src] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)

    def of(self, *tables: str) -> list[Row]:
        return [row for row in self.rows if row.live and row.table in tables]


@dataclass(frozen=True, slots=True)
class Who:
    """A process: `key` the same for all its lines, `epoch` where its start is known; None unknown."""

    key: tuple[object, ...] | None
    epoch: tuple[object, ...] | None
    alone: bool


@dataclass(frozen=True, slots=True)
class Span:
    lo: float = -math.inf
    hi: float = math.inf


@dataclass(frozen=True, slots=True)
class When(Span):
    """Clocks: "utc", a source's id, or None where that end is open."""

    lo_clock: object = None
    hi_clock: object = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as it acts on attempts first..last of `run`."""

    row: Row
    run: str
    first: int
    last: int
    step: Span
    rule: Rule
    when: When
    loose: bool = False  # of no known run, where several share its root


class Oracle:
    """Of one store that holds all of the world; or, with `store_of` (source id -> store), of the store `viewer` among several
    that tell each other of faults: then steps are known to the store of their log alone."""

    def __init__(self, world: World, store_of: Mapping[int, int] | None = None, viewer: int = 0) -> None:
        self.w = world
        self.store_of, self.viewer = store_of, viewer
        self._homeless: set[tuple[int, int, int]] = set()
        self.who = lru_cache(None)(self._who)
        self.when = lru_cache(None)(self._when)
        self.run_of = lru_cache(None)(self._run_of)
        self.attempts_of = lru_cache(None)(self._attempts_of)
        self.generations = sorted({(row.src, row.gen) for row in world.rows if row.live})
        self.faults = self._faults()
        self.locking = [f for f in self.faults if self._locks(f)]

    # -- who, where

    def procs(self, src: int, gen: int) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.w.of("process_seen", "fault"):
            if (row.src, row.gen) == (src, gen) and row.proc:
                found.setdefault(row.proc, []).append(row)
        return found

    def _who(self, src_id: int, gen: int, proc: str) -> Who:
        src, procs = self.w.sources[src_id], self.procs(src_id, gen)
        alone = src.single or len(procs) <= 1
        if not alone and not proc:
            return Who(None, None, False)

        def pid_of(name: str) -> int | None:
            return max((r.pid for r in procs.get(name, []) if r.pid is not None), default=None)

        pid: int | None
        if src.single and src.pid is not None:
            pid = src.pid
        elif len(procs) <= 1:
            shown = next((pid_of(name) for name in procs), None)
            pid = src.pid if shown is None else shown
        elif src.single:
            pid = None  # several processes named in the file of one: which is meant nobody knows
        else:
            pid = pid_of(proc)
        # A console's pid is of some host that nobody names.
        if pid is not None and not src.console:
            return Who((src_id, "pid", pid), ("pid", src.host, pid), alone)
        key: tuple[object, ...] = (src_id, gen) if alone else (src_id, gen, proc)
        if pid is not None:
            return Who(key, ("console", src_id, pid), alone)
        return Who(key, ("file", src_id) if src.single else None, alone)

    def _run_of(self, src_id: int, gen: int, off: int) -> str:  # noqa: PLR0911  one return a rule, in the order of trust
        src = self.w.sources[src_id]
        if src.run_hint and src.run_how == "config":
            return src.run_hint
        said = sorted((r.off, r.run) for r in self.w.of("source_run") if (r.src, r.gen) == (src_id, gen) and r.run)
        if said:
            return ([run for at, run in said if at <= off] or [said[0][1]])[-1]
        if src.run_hint:
            return src.run_hint
        # The only run of its pid on its host, else of the nearest directory above that knows any, up to the root.
        if src.pid is not None:
            own = self._names(s for s in self.w.sources.values() if (s.host, s.pid) == (src.host, src.pid))
            if len(own) == 1:
                return own.pop()
        mates = [s for s in self.w.sources.values() if (s.host, s.root) == (src.host, src.root)]
        root = src.root.rstrip("/")
        folder = src.path.rpartition("/")[0]
        while folder.startswith(root):
            near = self._names(s for s in mates if s.path.startswith(folder + "/"))
            if near:
                if len(near) == 1:
                    return near.pop()
                break
            folder = folder.rpartition("/")[0]
        if len(all_ := self._names(mates)) == 1:
            return all_.pop()
        # A console shows processes: of the only run of their files, where those are two or all of them.
        if src.console:
            pids = {
                r.pid for r in self.w.of("process_seen", "fault") if r.src == src_id and r.proc and r.pid is not None
            }
            files = [
                s
                for s in self.w.sources.values()
                if s.single and not s.console and s.host == src.host and s.pid in pids
            ]
            files = [s for s in files if any(at == s.id for at, _ in self.generations)]
            runs = {run for s in files for at, g in self.generations if at == s.id for run in self.runs_in(at, g)}
            found = {s.pid for s in files}
            if len(runs) == 1 and (len(found) > 1 or found == pids):
                if all((at, g, 0) in self._homeless for s in files for at, g in self.generations if at == s.id):
                    self._homeless.add((src_id, gen, off))
                return runs.pop()
        self._homeless.add((src_id, gen, off))
        return src.root.rstrip("/").rsplit("/", 1)[-1] or "unnamed"

    def _names(self, sources: Iterable[Src]) -> set[str]:
        """Runs that some sources are known by: hints, and what their records say unless configuration overrides it."""
        mine = {s.id: s for s in sources}
        said = {
            r.run
            for r in self.w.of("source_run")
            if r.run and r.src in mine and not (mine[r.src].run_hint and mine[r.src].run_how == "config")
        }
        return said | {s.run_hint for s in mine.values() if s.run_hint}

    def runs_in(self, src_id: int, gen: int) -> set[str]:
        """Runs that a generation serves in turn: a process of it may have begun under an earlier one."""
        offs = [0, *(r.off for r in self.w.of("source_run") if (r.src, r.gen) == (src_id, gen))]
        return {self.run_of(src_id, gen, off) for off in offs}

    # -- attempts

    def declared(self, run: str) -> list[tuple[int, Attempt]]:
        mine = sorted((a for a in self.w.attempts if a.run == run), key=lambda a: (a.declared_at, a.id))
        return list(enumerate(mine, start=2))

    def first_lines(self, epoch: tuple[object, ...]) -> Iterable[tuple[int, tuple[int, int], int | None]]:
        """(source, place, UTC time) of the first line of a process in each generation where it shows."""
        for src_id, gen in self.generations:
            src, procs = self.w.sources[src_id], self.procs(src_id, gen)
            for name in procs or [""]:
                who = self.who(src_id, gen, name)
                if who.epoch != epoch:
                    continue
                seen = sorted((r for r in procs.get(name, ())), key=lambda r: r.off)
                off = 0 if who.alone or not seen else seen[0].off
                first = next((r for r in seen if r.table == "process_seen"), None)
                # In a file of one process the first line is the file's: what an unmarked line before it says of time is lost.
                at = self.utc(first) if first is not None and (not who.alone or first.off == 0 or src.single) else None
                yield src_id, (gen, off), at

    def utc(self, row: Row) -> int | None:
        zone = self.w.sources[row.src].zone_s
        if row.stamp is None or (not row.utc and zone is None):
            return None
        return row.stamp if row.utc else row.stamp - (zone or 0) * 1_000_000

    @staticmethod
    def past(cut: Attempt, src: int, place: tuple[int, int]) -> bool:
        """At or after the cut; a source without one appeared later."""
        return all(place >= (gen, off) for at, gen, off in cut.cut if at == src)

    def _attempts_of(self, row: Row, run: str, latest: float | None = None) -> tuple[int, int]:
        """First and last attempt that a line may belong to; shown under the first."""
        who = self.who(row.src, row.gen, row.proc)
        declared = self.declared(run)
        if who.epoch is not None:
            shows = list(self.first_lines(who.epoch))
            own = highest = 1
            for number, a in declared:
                if a.time is not None:
                    inside = all(at is not None and at >= a.time for _, _, at in shows)
                    # A process whose first line tells no time may have begun before or after.
                    possible = all(at is None or at >= a.time for _, _, at in shows) and (
                        latest is None or latest >= a.time
                    )
                else:
                    inside = possible = all(self.past(a, src, place) for src, place, _ in shows)
                own = number if inside else own
                highest = number if possible else highest
            return own, max(own, highest)
        last = 1
        for number, a in declared:
            by_time = latest is None or a.time is None or latest >= a.time
            possible = by_time if a.time is not None else self.past(a, row.src, row.place)
            last = number if possible else last
        return 1, last

    # -- bounds

    def stream(self, row: Row) -> str:
        return row.stream or self.w.sources[row.src].stream

    def unbuffered(self, row: Row) -> bool:
        """Written when it was made. What a console forwards was written elsewhere."""
        return self.stream(row) == "stderr" and not self.w.sources[row.src].console

    def same(self, a: Row, b: Row) -> bool:
        one, two = self.who(a.src, a.gen, a.proc).key, self.who(b.src, b.gen, b.proc).key
        return one is not None and one == two

    def surely_same(self, a: Row, b: Row) -> bool:
        """An unmarked line beside the marked ones of one process may be another's after all."""
        return self.same(a, b) and (self.w.sources[a.src].single or a.proc == b.proc)

    def one_buffer(self, a: Row, b: Row) -> bool:
        """Through one stream of one process: in the order in which they were made."""
        return self.surely_same(a, b) and self.stream(a) != "" and self.stream(a) == self.stream(b)

    def clock(self, src: Src, utc: bool) -> object:
        return "utc" if utc or src.zone_s is not None else src.id

    def _when(self, row: Row) -> When:
        src = self.w.sources[row.src]

        def real(stamp: int, utc: bool) -> int:
            return stamp if utc else stamp - (src.zone_s or 0) * 1_000_000

        if row.stamp is not None:
            clock = self.clock(src, row.utc)
            return When(real(row.stamp, row.utc), real(row.stamp, row.utc) + row.res, clock, clock)
        lo, lo_clock = -math.inf, None
        known = self.who(row.src, row.gen, row.proc).key is not None
        if row.after is not None and (self.unbuffered(row) or (src.stream and known)):
            lo, lo_clock = real(row.after, row.after_utc), self.clock(src, row.after_utc)
        bounding = [
            n for n in self.w.of("stamp_after")
            if (n.src, n.gen, n.proc) == (row.src, row.gen, row.proc) and n.stamp is not None
            and (self.unbuffered(n) or self.one_buffer(row, n))
        ]  # fmt: skip
        utc = any(self.clock(src, n.utc) == "utc" for n in bounding)
        bounding = [n for n in bounding if (self.clock(src, n.utc) == "utc") == utc]
        later = min((n.off for n in bounding if n.off > row.off), default=None)
        if later is None:
            return When(lo, math.inf, lo_clock, None)
        hi = max(real(n.stamp or 0, n.utc) + n.res for n in bounding if n.off <= later)
        return When(lo, hi, lo_clock, "utc" if utc else src.id)

    def step(self, row: Row) -> Span:
        """Its own, or what a neighbour says: bounds as with time."""
        if row.step is None or not row.carried:
            return Span() if row.step is None else Span(row.step, row.step)
        one = bool(self.w.sources[row.src].stream) and self.who(row.src, row.gen, row.proc).key is not None
        return Span(row.step if one or self.unbuffered(row) else -math.inf, row.step + 1 if one else math.inf)

    # -- order

    def margin(self, a: Row, b: Row) -> int:
        """A console forwards lines of hosts that it does not name."""
        one, two = self.w.sources[a.src], self.w.sources[b.src]
        return 0 if one.host == two.host and not one.console and not two.console else MARGIN

    def by_offset(self, a: Row, b: Row) -> bool:
        """Offsets decide whether a was made before b."""
        return self.same(a, b) and (self.unbuffered(b) or self.one_buffer(a, b))

    @staticmethod
    def earlier(a: tuple[When, Span], b: tuple[When, Span], margin: int, stale: int) -> bool:
        """By time or by step, what is bounded by `a` was made before what is bounded by `b`."""
        clock = a[0].hi_clock
        by_time = clock is not None and clock == b[0].lo_clock and a[0].hi + margin < b[0].lo
        return by_time or a[1].hi + stale < b[1].lo

    def before(self, r: Row, f: Fault) -> bool:
        if self.by_offset(r, f.row):
            return r.place < f.row.place
        same = self.surely_same(r, f.row)
        return self.earlier(
            (self.when(r), self.step(r)), (f.when, f.step), 0 if same else self.margin(r, f.row), 0 if same else STALENESS
        )  # fmt: skip

    def after(self, r: Row, f: Fault) -> bool:
        """Shown to be later: chooses the words only."""
        if self.same(r, f.row) and r.place > f.row.place and (self.unbuffered(r) or self.one_buffer(r, f.row)):
            return True
        if self.by_offset(r, f.row):
            return False
        return self.earlier((f.when, f.step), (self.when(r), self.step(r)), self.margin(r, f.row), STALENESS)

    # -- faults

    def _faults(self) -> list[Fault]:
        """Those that act: confirmed, mapped, no copies."""
        found = []
        for row in self.w.of("fault"):
            if row.verdict != "confirmed" or self._copy(row):
                continue
            rule, when = self.w.rules.get(row.kind, Rule()), self.when(row)
            if rule.node_scope:
                spans = self._mapped(row, when)
            else:
                run = self.run_of(row.src, row.gen, row.off)
                latest = when.hi if when.hi_clock == "utc" else None
                spans = {(run, *self.attempts_of(row, run, latest))}
            spread: set[tuple[str, int, int]] = set()
            if (
                not rule.node_scope
                and (row.src, row.gen, row.off) in self._homeless
                and (others := self._neighbours(row))
            ):
                # It may be of any run of the watched root: it locks none and makes the numbers of all suspect.
                spread = {(run, 1, 1 + len(self.declared(run))) for run in others}
            found += [
                Fault(
                    row,
                    run,
                    a,
                    b,
                    self._fault_step(row, when, run, a, b, (run, a, b) not in spans),
                    rule,
                    when,
                    (run, a, b) not in spans,
                )
                for run, a, b in spans | spread
            ]
        return found

    def _neighbours(self, row: Row) -> set[str]:
        """Runs that lines of the same watched root are known to belong to."""
        src, found = self.w.sources[row.src], set()
        for src_id, gen in self.generations:
            other = self.w.sources[src_id]
            if (other.host, other.root) == (src.host, src.root):
                for off in [0, *(r.off for r in self.w.of("source_run") if (r.src, r.gen) == (src_id, gen))]:
                    run = self.run_of(src_id, gen, off)
                    if (src_id, gen, off) not in self._homeless:
                        found.add(run)
        return found

    def _copy(self, row: Row) -> bool:
        """A copy of a line that stands in the worker's own file: not what is surely earlier than it."""
        run, when = self.run_of(row.src, row.gen, row.off), self.when(row)
        return any(
            not self.w.sources[o.src].console and o.verdict == "confirmed"
            and not self.earlier((when, Span()), (self.when(o), Span()), MARGIN, 0)
            and not self.w.rules.get(o.kind, Rule()).node_scope
            and (o.kind, o.text) == (row.kind, row.text) and self.run_of(o.src, o.gen, o.off) == run
            and self._copies(row, o, run)
            for o in self.w.of("fault")
        )  # fmt: skip

    def _copies(self, row: Row, o: Row, run: str) -> bool:  # noqa: PLR0911  one return a rule
        """Whether both speak of one process, `o` in a file nearer to it."""
        src, own = self.w.sources[row.src], self.w.sources[o.src]
        same_pid = row.pid is not None and row.pid == o.pid
        if src.console and same_pid:
            return True
        first, last = self.attempts_of(o, run)
        if first != last or self.attempts_of(row, run) != (first, last):
            return False  # a rank is used again by the next attempt
        same_rank = None in (row.pid, o.pid) and self._rank(row) is not None and self._rank(row) == self._rank(o)
        if src.console:
            return same_rank
        if self.store_of is not None and self.store_of[row.src] != self.store_of[o.src]:
            return False
        if not own.single or (o.pid is not None and self._file_pid(o) not in (None, o.pid)):
            return False
        if same_pid:  # a log of several processes, or one that reports of another's
            return not src.single or self._file_pid(row) not in (None, row.pid)
        return same_rank and not src.single

    def _rank(self, row: Row) -> int | None:
        return self.w.sources[row.src].rank if row.rank is None else row.rank

    def _file_pid(self, row: Row) -> int | None:
        """Of a file that is no console: the process whose file it is, as far as known."""
        epoch = self.who(row.src, row.gen, row.proc).epoch
        return int(str(epoch[2])) if epoch is not None and epoch[0] == "pid" else None

    def _mapped(self, row: Row, when: When) -> set[tuple[str, int, int]]:
        """Runs whose GPU a kernel line names, if its time is not before the attempt."""
        spans = set()
        host = (row.node or self.w.sources[row.src].host).lower().split(".")[0]
        for d in self.w.of("device"):
            hosts = {self.w.sources[d.src].host.lower().split(".")[0], d.node.lower().split(".")[0]}
            if not row.bus or not d.bus or gpu(d.bus) != gpu(row.bus) or host not in hosts:
                continue
            run = self.run_of(d.src, d.gen, d.off)
            first, last = self.attempts_of(d, run)
            began = min(
                (
                    t for p in self.w.of("process_seen")
                    if run in self.runs_in(p.src, p.gen) and self.attempts_of(p, run)[0] == first
                    and (t := self.utc(p)) is not None
                ),
                default=None,
            )  # fmt: skip
            if when.hi_clock == "utc" and began is not None and when.hi + MARGIN >= began:
                spans.add((run, first, last))
        return spans

    def _knows(self, step: Row, fault: Row, loose: bool) -> bool:
        """Whether a step bounds a fault: the store of the fault told what its own steps say, and ours are here."""
        if self.store_of is None or self.store_of[step.src] == self.viewer:
            return True
        return self.store_of[step.src] == self.store_of[fault.src] and not loose

    def _fault_step(self, row: Row, when: When, run: str, first: int, last: int, loose: bool = False) -> Span:
        known = self.step(row)
        if (row.step is not None and not row.carried) or first != last:
            return known
        lo, hi = known.lo, known.hi
        for s in self.w.of("step_event"):
            if s.step is None or self.run_of(s.src, s.gen, s.off) != run or self.attempts_of(s, run) != (first, last):
                continue
            if not self._knows(s, row, loose):
                continue
            margin = self.margin(s, row)
            at = self.utc(s)
            ended = at is not None and when.lo_clock == "utc" and at + s.res + margin < when.lo
            follows = at is not None and when.hi_clock == "utc" and when.hi + margin < at
            if s.edge == "end" and (ended or (self.by_offset(s, row) and s.place < row.place)):
                lo = max(lo, s.step)
            if follows or (self.by_offset(row, s) and row.place < s.place):
                hi = min(hi, s.step)
        return Span(lo, hi)

    def _locks(self, f: Fault) -> bool:
        if f.rule.locks == "never" or f.loose:
            return False
        return f.rule.locks == "always" or any(
            self.same(e, f.row) and e.place > f.row.place
            for e in self.w.of("step_event", "mismatch", "metric") if e.table != "step_event" or e.edge == "end"
        )  # fmt: skip

    # -- the answer

    def judge(self, r: Row) -> tuple[str, int, str, str]:
        """(run, attempt, admissibility, reason) of a record."""
        run = self.run_of(r.src, r.gen, r.off)
        first, last = self.attempts_of(r, run)

        def concerns(f: Fault) -> bool:
            return f.run == run and f.first <= last and f.last >= first

        locking = [f for f in self.locking if concerns(f)]
        if not all(self.before(r, f) for f in locking):
            shown = any(self.after(r, f) for f in locking)
            return run, first, "locked", "after the fault" if shown else "order unknown"
        step = self.step(r)
        if not all(step.hi < f.step.lo for f in locking):
            return run, first, "suspect", "fault reported in or before this step"
        for f in self.faults:
            voids = f.rule.severity in {"N", "S", "E"} or (f.loose and f.rule.severity != "I")
            if voids and concerns(f) and f.step.lo <= step.hi and step.lo <= f.step.hi:
                return run, first, "suspect", "step voided by a fault"
        return run, first, "admissible", ""

    def all(self) -> dict[tuple[int, int, int], tuple[str, int, str, str]]:
        return {(r.src, r.gen, r.off): self.judge(r) for r in self.w.of("mismatch")}


def gpu(bus: str) -> tuple[int, int, int]:
    """5d000, 5d:00.0, 0000:5d:00 and 00000000:5D:00.0 are one GPU: (domain, bus, device)."""
    if ":" not in bus:
        number = int(bus, 16)  # NCCL prints domain, bus, device and function as one number
        return number >> 20, number >> 12 & 0xFF, number >> 4 & 0xFF
    parts = bus.partition(".")[0].split(":")
    return int(parts[0], 16) if len(parts) > 2 else 0, int(parts[-2], 16), int(parts[-1], 16)
