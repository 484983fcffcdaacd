"""Random runs whose truth is known: processes with true times, and the bytes they leave, as the scanner would report them.

Standard output waits in a buffer and standard error does not; clocks of hosts differ by less than the margin; files are
of one process, of one stream, or shared; names, stamps, steps and streams are printed or not; files rotate; attempts are
declared while all this goes on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tic_daemon.evidence.bounds import Line, Source
from tic_daemon.evidence.lock import FaultLine, Lock, Placed, StepLine
from tic_daemon.evidence.writers import Declaration, FirstLine, Writers

SECOND = 1_000_000
EPOCH = 1_767_225_600 * SECOND
STEP_US = 10 * SECOND
END = 100 * SECOND
# kind -> severity, locks; a kind that no rule knows locks
RULES = {
    "lock": ("L", "always"), "hard": ("LH", "always"), "watchdog": ("S", "if_continues"), "nan": ("N", "never"),
    "oom": ("E", "never"), "info": ("I", "never"),
}  # fmt: skip


@dataclass(slots=True)
class Process:
    pid: int
    skew: int
    ahead: int
    start: int
    prefixed: bool
    jump_at: int | None = None


@dataclass(slots=True)
class Said:
    """One line, first as said, then with its place: `made` is the true time, `written` when it left the buffer."""

    process: Process
    file: int
    made: int
    written: int
    what: str
    stream: str
    stream_known: bool
    stamped: bool
    step_mode: str
    kind: str = ""
    verdict: str = "confirmed"
    step: int = 0
    line: Line | None = None
    ghost: bool = False


@dataclass(slots=True)
class File:
    source: Source
    processes: list[Process]
    zone_s: int
    prints_utc: bool
    res: int
    rotate_at: int | None


@dataclass(slots=True)
class World:
    run: str
    files: list[File] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    firsts: list[FirstLine] = field(default_factory=list)
    stamp_after: list[Line] = field(default_factory=list)
    declarations: list[Declaration] = field(default_factory=list)
    jumps: bool = False

    def of(self, what: str) -> list[Said]:
        return [s for s in self.said if s.what == what and not s.ghost]

    def writers(self) -> Writers:
        return Writers({f.source.source_id: f.source for f in self.files}, self.firsts, self.declarations)

    def lock(self) -> Lock:
        faults = [
            FaultLine(line_of(s), s.verdict, *RULES.get(s.kind, ("L", "always"))) for s in self.of("fault")
        ]  # fmt: skip
        steps = [StepLine(line_of(s), s.step) for s in self.of("step")]
        generations = {(line_of(s).source_id, line_of(s).generation) for s in self.said}
        return Lock(
            self.writers(),
            faults,
            steps,
            self.stamp_after,
            [line_of(s) for s in self.of("record")],
            generations=generations,
        )


def line_of(said: Said) -> Line:
    assert said.line is not None
    return said.line


def build(seed: int, number: int, plain: bool = False) -> World:
    """A world. `plain`: one process a file, everything stamped in UTC and on a known stream, no attempts, no jumps."""
    rng = random.Random(seed * 1009 + number)
    world = World(f"run{number}")
    skews = {f"h{number}-{i}": rng.randint(-900_000, 900_000) for i in range(rng.choice((1, 1, 2)))}
    pids = iter(range(1000, 9999))
    world.jumps = not plain and rng.random() < 0.2
    for index in range(rng.randint(1, 3)):
        _file(rng, world, index, skews, pids, plain)
    for process in {id(p): p for f in world.files for p in f.processes}.values():
        _speak(rng, world, process, plain)
    if not plain and rng.random() < 0.4:
        _declare(rng, world)
    _write(rng, world)
    if world.declarations:
        world.declarations = [_cut(world, d) for d in world.declarations]
    return world


def _file(rng: random.Random, world: World, index: int, skews: dict[str, int], pids: object, plain: bool) -> None:
    host = rng.choice(sorted(skews))
    kind = "own" if plain else rng.choice(("own", "pure", "shared", "shared"))
    number = int(world.run[3:])
    zone = rng.choice((0, 3600, -1800))
    traits = {
        "zone_s": zone if plain or rng.random() < 0.6 else None,
        "console": kind == "shared" and rng.random() < 0.2,
    }
    home = rng.choice(sorted(skews)) if traits["console"] else host

    def process() -> Process:
        start = 0 if rng.random() < 0.6 else rng.randint(0, END)
        jump = rng.randint(0, END) if world.jumps and rng.random() < 0.5 else None
        return Process(next(pids), skews[home], rng.randint(0, 1), start, rng.random() < 0.7, jump)  # type: ignore[call-overload]

    processes = [process() for _ in range(rng.randint(2, 3) if kind == "shared" else 1)]
    # Lines without a name in one file are taken for one process's: here they are.
    for other in [p for p in processes if not p.prefixed][1:]:
        other.prefixed = True
    single = kind != "shared" and (plain or rng.random() < 0.6)
    pid = processes[0].pid if single and rng.random() < 0.7 else None
    streams = ("stdout", "stderr") if kind == "pure" else (("stderr" if plain else ""),)
    for stream in streams:
        source_id = (number + 1) * 100 + index * 10 + (stream == "stderr")
        source = Source(source_id, host, stream, bool(traits["console"]), single, pid, traits["zone_s"])  # type: ignore[arg-type]
        world.files.append(
            File(
                source, processes, zone, plain or rng.random() < 0.3, rng.choice((SECOND, 1000)),
                rng.randint(0, END) if not plain and rng.random() < 0.2 else None,
            )
        )  # fmt: skip


def _speak(rng: random.Random, world: World, process: Process, plain: bool) -> None:
    files = [i for i, f in enumerate(world.files) if process in f.processes]
    times = sorted(rng.randint(process.start, END) for _ in range(rng.randint(1, 7)))
    said = [(t, rng.choice(("record", "record", "record", "fault", "line"))) for t in times]
    if rng.random() < 0.7:  # a process that prints steps prints each
        said.extend((t, "step") for t in range(STEP_US, END + 1, STEP_US) if t >= process.start)
    step_stream = rng.choice(("stdout", "stderr"))  # one logger prints all of them
    held: list[Said] = []
    flushed = process.start
    for made, what in sorted(said):
        stream = "stderr" if rng.random() < (0.8 if what == "fault" else 0.4) else "stdout"
        if what == "step":
            stream = step_stream
        by_stream = {world.files[i].source.stream: i for i in files}
        file = by_stream.get(stream, files[0])
        if plain:
            stream = "stderr"
        line = Said(
            process, file, made, made, what, stream, plain or rng.random() < 0.5,
            plain or rng.random() < 0.5, "own" if plain else rng.choice(("own", "carried", "none")),
        )  # fmt: skip
        if what == "fault":
            line.kind = "lock" if plain else rng.choice((*RULES, "lock", "lock", "never heard of"))
            line.verdict = (
                "confirmed" if plain else rng.choice(("confirmed", "confirmed", "confirmed", "suspect", "mention"))
            )
            line.ghost = not plain and rng.random() < 0.1
        if what == "step":
            line.step = made // STEP_US + process.ahead - 1
        if stream == "stdout":
            held.append(line)
            if rng.random() < 0.4:
                flushed = max(flushed, made)
                for waiting in held:
                    waiting.written = flushed
                held = []
        world.said.append(line)
    for waiting in held:
        waiting.written = END + 1


def _declare(rng: random.Random, world: World) -> None:
    for at in sorted(rng.randint(0, END) for _ in range(rng.choice((1, 1, 2)))):
        if rng.random() < 0.3:
            world.declarations.append(Declaration({}, EPOCH + at))
        else:
            world.declarations.append(Declaration({-1: (0, at)}))


def _cut(world: World, declaration: Declaration) -> Declaration:
    if declaration.from_us is not None:
        return declaration
    at = declaration.cut[-1][1]
    cut: dict[int, tuple[int, int]] = {}
    for said in world.said:
        if said.written <= at and said.line is not None:
            place = (said.line.generation, said.line.offset + 10)
            cut[said.line.source_id] = max(cut.get(said.line.source_id, place), place)
    return Declaration(cut)


def _write(rng: random.Random, world: World) -> None:
    order = {id(s): i for i, s in enumerate(world.said)}
    for index, file in enumerate(world.files):
        lines = sorted((s for s in world.said if s.file == index), key=lambda s: (s.written, order[id(s)]))
        generation, offset = 0, 0
        seen: set[str] = set()
        after: dict[str, tuple[int, bool]] = {}
        waiting: set[str] = set()
        ended: dict[str, int] = {}
        for said in lines:
            if file.rotate_at is not None and generation == 0 and said.written >= file.rotate_at:
                generation, offset = 1, 0
                seen, after, waiting, ended = set(), {}, set(), {}
            process = said.process
            proc = f"pid:{process.pid}" if process.prefixed else ""
            clock = said.made + process.skew
            if process.jump_at is not None and said.made > process.jump_at:
                clock -= 50 * SECOND
            stamp = None
            if said.stamped:
                stamp = EPOCH + clock + (0 if file.prints_utc else file.zone_s * SECOND)
                stamp -= stamp % file.res
            step, carried = None, False
            if said.step_mode == "own" or said.what == "step":
                step = said.made // STEP_US + process.ahead - (said.what == "step")
            elif said.step_mode == "carried" and proc and proc in ended:
                step, carried = ended[proc], True
            known = after.get(proc) if stamp is None else None
            said.line = Line(
                file.source.source_id, generation, offset, proc,
                said.stream if said.stream_known and not file.source.stream else "", stamp, file.res if stamp else 0,
                file.prints_utc and stamp is not None, known[0] if known else None, known[1] if known else False, step, carried,
            )  # fmt: skip
            if proc and proc not in seen:
                seen.add(proc)
                world.firsts.append(FirstLine(said.line, process.pid))
            if stamp is not None:
                if proc in waiting:
                    world.stamp_after.append(said.line)
                    waiting.discard(proc)
                after[proc] = (stamp, file.prints_utc)
            else:
                waiting.add(proc)
            if said.what == "step":
                ended[proc] = said.step
            offset += 10


def truly_admissible(world: World, record: Said, locking: list[Placed], placed: Placed) -> bool:
    """No locking fault that concerns the record's attempts was truly made before it."""
    made = {(line_of(s).source_id, *line_of(s).place): s.made for s in world.of("fault")}
    return all(
        record.made < made[(f.line.source_id, *f.line.place)]
        for f in locking
        if f.attempts[0] <= placed.attempts[1] and f.attempts[1] >= placed.attempts[0]
    )
