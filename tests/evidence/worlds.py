"""Runs whose truth is known: processes that make lines at true times, buffers that hold them, and the files that result.

Everything that a store would hold follows from the files as the scanner reads them: keys, carried steps, neighbours' stamps.
The truth (when a line was made, by which attempt) goes beside it and is never stored.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.evidence.oracle import Attempt, Row, Rule, Src, World

SECOND = 1_000_000
NOON = 1_795_953_600 * SECOND  # 2026-11-29 12:00 UTC
RULES = {
    "illegal": Rule("L", "always"),
    "ecc": Rule("LH", "always"),
    "xid": Rule("LH", "always", node_scope=True),
    "timeout": Rule("S", "if_continues"),
    "skipped": Rule("N", "never"),
    "oom": Rule("E", "never"),
    "dead": Rule("S", "never"),
    "note": Rule("I", "never"),
}
ACTING = ("illegal", "illegal", "ecc", "unheard-of", "timeout", "skipped", "oom", "dead", "note")


@dataclass(slots=True)
class Proc:
    name: int
    host: int
    pid: int
    knows_pid: bool
    start: int
    end: int
    attempt: int
    lag: int
    step_stream: str
    stamps: float
    utc: bool
    res: int
    steps_printed: float
    knows_rank: bool = True  # beside a pid; without one its rank is all that names it


@dataclass(slots=True)
class Line:
    """One line as made: `at` true time, `stream` true stream."""

    proc: Proc
    at: int
    stream: str
    table: str  # "" for a line that is no event
    fields: dict[str, object]
    own_step: int | None = None
    stamped: bool = False
    first: bool = False


@dataclass(slots=True)
class Truth:
    """made: (source, generation, offset) -> (time, attempt) of records and faults. `fair`: the clocks keep the rules."""

    made: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    fair: bool = True


class Maker:
    def __init__(self, seed: int, number: int, clean: bool = False) -> None:
        self.rng = random.Random(seed)
        self.number, self.clean = number, clean
        self.world, self.truth = World(rules=dict(RULES)), Truth()
        self.root = f"/w{number}/run{number}"
        self.zone = self.rng.choice((0, 3600, -18000, 20700))
        self.skew = [self.rng.randint(-900_000, 900_000) for _ in range(2)]
        self.jump = None if clean or self.rng.random() > 0.06 else self.rng.randint(20, 90) * SECOND
        self.truth.fair = self.jump is None
        self.length = 120 * SECOND
        self.boundaries = self._boundaries()
        self.cuts: list[int] = []
        if not clean and self.rng.random() < 0.4:
            self.cuts = [self.rng.randint(40, 60) * SECOND, self.rng.randint(80, 95) * SECOND][: self.rng.randint(1, 2)]
        self.sources = 0
        self.sizes: list[tuple[int, int, int, int]] = []  # (source, generation, written at, end offset)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def _boundaries(self) -> list[int]:
        found, at = [], 0
        while at < self.length:
            at += self.rng.randint(4, 20) * SECOND + self.rng.randint(0, 999_999)
            found.append(at)
        return found

    def step_at(self, proc: Proc, at: int) -> int:
        return 10 + sum(b <= at for b in self.boundaries) - proc.lag

    # -- what is made

    def procs(self) -> list[Proc]:
        rng = self.rng
        found: list[Proc] = []
        for attempt in range(1, 2 + len(self.cuts)):
            for _ in range(rng.randint(1, 3)):
                start = (
                    self.cuts[attempt - 2] + rng.randint(3, 10) * SECOND if attempt > 1 else rng.randint(0, 5) * SECOND
                )
                end = self.length
                if attempt <= len(self.cuts) and not self.chance(0.2):  # else an old process lives on
                    end = self.cuts[attempt - 1] - 3 * SECOND
                name = len(found)
                found.append(Proc(
                    name, rng.randint(0, 1), 1000 + name, self.clean or self.chance(0.6), start, end, attempt, rng.randint(0, 1),
                    rng.choice(("stdout", "stderr")), 1.0 if self.clean else rng.choice((0.0, 0.3, 0.6, 1.0)),
                    self.clean or self.chance(0.5), rng.choice((SECOND, 1000)), 1.0 if self.clean else rng.choice((0.3, 0.9)), self.clean or self.chance(0.5),
                ))  # fmt: skip
        return found

    def lines(self, proc: Proc) -> list[Line]:
        rng, found = self.rng, []

        def add(at: int, stream: str, table: str, step: int | None = None, **fields: object) -> None:
            found.append(Line(proc, at, stream, table, fields, step, self.chance(proc.stamps)))

        # A carried step is one of two only where every step's end is printed.
        ends = self.clean or self.chance(0.7)
        for b in self.boundaries:
            if proc.start < b < proc.end and ends:
                ended = self.step_at(proc, b) - 1
                add(b, proc.step_stream, "step_event", ended, edge="end", gpu=self.chance(0.5))
                if self.chance(0.2):
                    add(b + 1, proc.step_stream, "step_event", ended + 1, edge="begin")
        for _ in range(rng.randint(2, 7)):
            at = rng.randint(proc.start + 1, proc.end)
            printed = self.step_at(proc, at) if self.chance(proc.steps_printed) else None
            table = rng.choice(("mismatch", "mismatch", "mismatch", "metric", ""))
            add(at, rng.choice(("stdout", "stderr")), table, printed if table else None)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            at = rng.randint(proc.start + 1, proc.end)
            add(
                at, rng.choice(("stderr", "stderr", "stderr", "stdout")), "fault",
                self.step_at(proc, at) if self.clean or self.chance(0.3) else None,
                kind="illegal" if self.clean else rng.choice(ACTING),
                verdict=rng.choice(("confirmed", "confirmed", "confirmed", "suspect", "mention")),
                text=rng.choice(("a", "b", f"at {at}")),
            )  # fmt: skip
        if self.chance(0.5):
            add(
                proc.start + 2,
                "stderr",
                "device",
                bus=rng.choice((f"{proc.name + 16:x}000", f"0000:{proc.name + 16:02x}:00")),
            )
        found.sort(key=lambda line: line.at)
        found.insert(0, Line(proc, proc.start, "stderr", "", {}, None, self.chance(proc.stamps), first=True))
        return found

    # -- where it is written

    def source(self, **traits: object) -> Src:
        self.sources += 1
        zone = self.zone if self.clean or self.chance(0.6) else None
        src = replace(
            Src(
                self.number * 100 + self.sources,
                f"w{self.number}h0",
                self.root,
                f"{self.root}/{self.sources}.log",
                zone_s=zone,
            ),
            **traits,  # type: ignore[arg-type]
        )
        self.world.sources[src.id] = src
        return src

    def written(self, lines: list[Line], forwarded: bool) -> list[tuple[int, Line]]:
        """(time of writing, line): standard error at once, standard output when its buffer is flushed; a console after both."""
        poll = self.rng.randint(200_000, 2_500_000)
        found: list[tuple[int, Line]] = []
        for proc in {line.proc.name: line.proc for line in lines}.values():
            for stream in ("stdout", "stderr"):
                mine = [line for line in lines if line.proc is proc and line.stream == stream]
                flushes = sorted(self.rng.randint(proc.start, proc.end) for _ in range(self.rng.randint(0, 4)))
                for line in mine:
                    at = line.at
                    if stream == "stdout" and not line.first:
                        at = next((f for f in flushes if f >= at), proc.end)
                    if forwarded:
                        at += -at % poll  # a launcher looks at each file now and then
                    found.append((at, line))
        found.sort(key=lambda pair: (pair[0], pair[1].proc.name, pair[1].stream == "stderr", pair[1].at))
        return found

    @staticmethod
    def through(lines: list[Line], stream: str) -> list[Line]:
        """What a file of one stream gets. Every process shows itself at its start in every file that it writes."""
        if not stream:
            return lines
        return [replace(line, stream=stream) for line in lines if line.first or line.stream == stream]

    def printed(self, src: Src, line: Line) -> tuple[int | None, int, bool]:
        if not line.stamped:
            return None, 0, False
        proc, at = line.proc, line.at + self.skew[line.proc.host]
        if self.jump is not None and line.at > self.jump and proc.host == 0:
            at -= 30 * SECOND
        at -= at % proc.res
        return NOON + at + (0 if proc.utc else self.zone * SECOND), proc.res, proc.utc

    def write(
        self, src: Src, lines: list[Line], marked: float, key: str, tells_stream: float, forwarded: bool = False
    ) -> None:
        """The rows of one file. `key`: of all lines, or "" where lines are marked or not; `tells_stream`: how often."""
        rng, rows = self.rng, self.world.rows
        # A file that was turned may be the old process' or a new one's: with a pid its lines tell, without one nothing does.
        tells = not self.cuts or not src.single or src.pid is not None
        turn = rng.randint(10, 110) * SECOND if not self.clean and tells and self.chance(0.2) else None
        marked_steps = marked == 1 or self.chance(marked)
        several = len({line.proc.name for line in lines}) > 1
        gen, off = 0, 0
        seen: set[str] = set()
        marked_in: set[int] = set()
        ended: dict[tuple[str, str], int] = {}
        last: dict[str, tuple[int, bool]] = {}
        wants: set[str] = set()
        for at, line in self.written(lines, forwarded):
            if turn is not None and at > turn and gen == 0:
                gen, off, seen, marked_in, ended, last, wants = 1, 0, set(), set(), {}, {}, set()
            proc = line.proc
            name = key
            # Where several write, and where a file is rotated, each shows itself: else two would be taken for one.
            shows = several or (turn is not None and marked > 0)
            # Step lines look alike: a step is carried by the lines of one key, so another look would carry an old one.
            mark = marked_steps if line.table == "step_event" else self.chance(marked)
            if not key and (mark or (shows and proc.name not in marked_in)):
                name = f"pid:{proc.pid}" if proc.knows_pid else f"rank:{proc.name}"
            marked_in.add(proc.name)
            rank = proc.name if not key and name and (proc.knows_rank or not proc.knows_pid) else None
            pid = src.pid if key else (proc.pid if name and proc.knows_pid else None)
            stamp, res, utc = self.printed(src, line)
            stream = src.stream or (line.stream if self.chance(0.8 if line.table == "fault" else tells_stream) else "")
            row = Row("", src.id, gen, off, name, pid, stream, stamp, res, utc, rank=rank)
            if stamp is None and name in last:
                row = replace(row, after=last[name][0], after_utc=last[name][1])
            carried = ended.get((name, line.stream))
            if line.own_step is not None:
                row = replace(row, step=line.own_step)
            elif carried is not None:
                row = replace(row, step=carried, carried=True)
            if name and name not in seen:
                seen.add(name)
                rows.append(replace(row, table="process_seen"))
            if stamp is not None:
                last[name] = (stamp, utc)
                if name in wants:
                    wants.discard(name)
                    rows.append(replace(row, table="stamp_after"))
            if line.table:
                event = replace(row, table=line.table, **line.fields)  # type: ignore[arg-type]
                if not self.clean and self.chance(0.05):  # an open record, replaced by the final row
                    rows.append(replace(event, kind="ecc", step=1, edge="end", live=False))
                rows.append(event)
                if stamp is None:
                    wants.add(name)
                if line.table in {"mismatch", "fault"}:
                    self.truth.made[src.id, gen, off] = (line.at, proc.attempt)
                if line.table == "step_event" and event.edge == "end" and event.step is not None:
                    ended[name, line.stream] = event.step
            off += rng.randint(20, 120)
            self.sizes.append((src.id, gen, at, off))

    def make(self) -> tuple[World, Truth]:
        rng, procs = self.rng, self.procs()
        lines = {proc.name: self.lines(proc) for proc in procs}
        shared: list[Proc] = []
        for proc in procs:
            host = f"w{self.number}h{proc.host}"
            mine, layout = lines[proc.name], rng.choice(("apart", "merged", "shared"))
            single = self.chance(0.6)
            pid = proc.pid if single and proc.knows_pid else None
            key = "" if not single else f"pid:{pid}" if pid else "file"
            rank = proc.name if single and proc.knows_rank else None
            if layout == "apart":
                for stream in ("stdout", "stderr"):
                    src = self.source(host=host, single=single, pid=pid, rank=rank, stream=stream)
                    self.write(src, self.through(mine, stream), 0.5, key, 0)
            elif layout == "merged":
                src = self.source(host=host, single=single, pid=pid, rank=rank)
                self.write(src, mine, rng.choice((0.0, 0.5)), key, rng.choice((0.0, 0.6)))
            else:
                shared.append(proc)
            if self.chance(0.2):  # and a launcher's console, of several hosts and without order between streams
                src = self.source(console=True, host=f"w{self.number}h0")
                self.write(src, mine, 1.0, "", rng.choice((0.0, 0.6)), forwarded=True)
        for number in (0, 1):
            here = [proc for proc in shared if proc.host == number]
            if here:
                src = self.source(host=f"w{self.number}h{number}", stream=rng.choice(("", "", "stdout", "stderr")))
                every = [line for proc in here for line in self.through(lines[proc.name], src.stream)]
                self.write(src, every, 0.7, "", rng.choice((0.0, 0.6)))
        self.kernel(procs)
        self.runs()
        for number, cut in enumerate(self.cuts, start=2):
            self.declare(number, cut)
        return self.world, self.truth

    def kernel(self, procs: list[Proc]) -> None:
        if self.clean or not self.chance(0.3):
            return
        host = self.rng.randint(0, 1)
        src, off = self.source(host=f"w{self.number}h{host}.example.org"), 0
        for at in sorted(self.rng.randint(0, self.length) for _ in range(self.rng.randint(1, 2))):
            here = [proc for proc in procs if proc.host == host] or procs
            bus = f"00000000:{self.rng.choice(here).name + 16:02X}:00.0"
            stamp = NOON + at + self.skew[host] if self.chance(0.8) else None
            self.world.rows.append(Row(
                "fault", src.id, 0, off, stream="", stamp=stamp, res=1000 if stamp else 0, utc=stamp is not None,
                kind="xid", bus=bus, node=self.rng.choice(("", f"w{self.number}h{host}")),
            ))  # fmt: skip
            off += 80

    def runs(self) -> None:
        """How runs are named: by nobody, by one source for all, or differently; a server that changes runs."""
        if self.clean:
            return
        how, sources = self.rng.random(), list(self.world.sources.values())
        name = f"run{self.number}"
        if how < 0.3:
            one = self.rng.choice(sources)
            self.world.sources[one.id] = replace(one, run_hint=f"{name}-a", run_how="path")
        elif how < 0.5:
            for one in sources:
                if self.chance(0.7):
                    hint = replace(
                        one, run_hint=f"{name}-{self.rng.choice('ab')}", run_how=self.rng.choice(("path", "config"))
                    )
                    self.world.sources[one.id] = hint
        if self.chance(0.25):
            places = sorted({(r.src, r.gen, r.off) for r in self.world.rows})
            for place in self.rng.sample(places, min(len(places), self.rng.randint(1, 2))):
                self.world.rows.append(Row("source_run", *place, run=f"{name}-{self.rng.choice('ab')}"))

    def declare(self, number: int, cut: int) -> None:
        sizes: dict[tuple[int, int], int] = {}
        for src, gen, at, end in self.sizes:
            if at <= cut:
                sizes[src, gen] = max(end, sizes.get((src, gen), 0))
        newest = {src: max(g for s, g in sizes if s == src) for src, _ in sizes}
        places = tuple((src, gen, sizes[src, gen]) for src, gen in newest.items())
        by_time = self.chance(0.3)
        names = {f"run{self.number}{end}" for end in ("", "-a", "-b")}
        for name in names:
            self.world.attempts.append(Attempt(
                name, f"{name}-{number}", NOON + cut, NOON + cut if by_time else None, () if by_time else places
            ))  # fmt: skip
