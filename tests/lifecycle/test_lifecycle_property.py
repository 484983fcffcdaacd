"""What the store says of an engine's weights, of its state and of the numbers, beside the definitions; in any pieces and order.

Each random run is stored twice in one store: whole, and in pieces that end within lines, sources in a random order, with
restarts of the daemon's store and scanners between. Both must say the same, and what tic_daemon.evidence says.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.lifecycle.worlds import FAULTS, File, Maker, World
from tests.scan.support import REFERENCE, scanner
from tic_daemon.evidence.bounds import Line, Source
from tic_daemon.evidence.lifecycle import Change, Lifecycle, Setting
from tic_daemon.evidence.lock import StepLine
from tic_daemon.evidence.made_in import MadeIn
from tic_daemon.evidence.writers import Declaration, FirstLine, Writers
from tic_daemon.scan.events import At, Event, ExecState, Mismatch, ProcessSeen, StepEvent, WeightPhase
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.store import migrate
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import AttemptRow, CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

EPOCH, DECLARED = datetime(1970, 1, 1), datetime(2026, 11, 30)
RUNS = 3
"""In one example: deriving costs more than one run more."""
# Not which of several faults without a time is called the first of an incident: the ids of their sources say, and the two
# ways of storing a run differ in names.
VIEWS = {
    "lifecycle_findings": "kind, path, byte_offset, until_offset, attempt, role, rank, pid, first_step, last_step, from_at, until_at",
    "weight_lifecycle": "path, byte_offset, rule, phase, level, attempt, rank, pid, legal, finding, before_phase, event_at",
    "exec_states": "path, byte_offset, rule, field, claimed, observed, attempt, rank, pid, event_at, voice",
    "exec_state_now": "path, proc, field, rank, claimed, observed, attempt, event_at",
    "faults": "path, byte_offset, kind, verdict, severity, locks, rank, pid, step, attempt, echo_of IS NULL",
    "attempts": "attempt, locked, faults, locking_faults, mismatches, admissible, suspect, locked_records, first_fault_why",
    "mismatches": "path, byte_offset, admissibility, reason, graph_mode, step_kind, prefix_cache, prefix_hit_rate, weight_phase, "
    "state_source, state_note, attempt, step, is_evidence",
}  # fmt: skip


class Store:
    """A store that goes on over examples, and can be closed and opened anew."""

    def __init__(self, folder: Path) -> None:
        self._layout = StoreLayout.find(folder)
        self.writer = self._open()
        self.numbers = itertools.count()

    def restart(self) -> None:
        self.writer.close()
        self.writer = self._open()

    def _open(self) -> Writer:
        writer = Writer.open(self._layout)
        writer.put_fault_rules(scanner().rules.fault_rules())
        return writer

    def rows(self, number: int) -> dict[tuple[str, str], list[tuple[object, ...]]]:
        """(view, run) -> rows, of all runs of an example: planning a view costs more than running it."""
        con, found = self.writer.reader_cursor(), defaultdict(list)
        for view, columns in VIEWS.items():
            sql = f"SELECT run_id, {columns} FROM {view} WHERE starts_with(run_id, 'r{number}x') ORDER BY ALL"
            for run, *row in con.execute(sql).fetchall():
                found[view, run].append(tuple(row))
        con.close()
        return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))
        made = Store(tmp_path_factory.mktemp("worlds"))
        yield made
        made.writer.close()


class Source_:
    """A log of a run as a daemon follows it."""

    def __init__(self, file: File, run: str) -> None:
        self.data = ("\n".join(file.lines) + "\n").replace("run=RUN", f"run={run}").encode()
        path = f"/{run}/{file.name}"
        self.row = SourceRow(
            source_id(file.host, "file", path), "file", f"{run}-{file.host}", f"/{run}", path, run_hint=run, run_how="config", **file.traits  # type: ignore[arg-type]
        )  # fmt: skip
        own = {key: value for key, value in file.traits.items() if key != "zone_s"}
        self.traits = SourceTraits(reference_time=REFERENCE, **own)  # type: ignore[arg-type]
        self.scan = scanner().open(self.traits)
        self.read = 0

    def until(self, end: int) -> SourceDelta:
        """What a poll gives when the log has grown to `end`."""
        whole = self.data.rfind(b"\n", 0, end) + 1
        events: list[Event] = self.scan.feed(self.data[self.read : whole]) if whole > self.read else []
        self.read = max(whole, self.read)
        tail = self.data[self.read : end]
        cursor = CursorRow(
            self.row.source_id, 0, self.read, self.scan.line_no, path=self.row.path, state=self.scan.state()
        )
        return SourceDelta(self.row, cursor, tuple(events), tuple(self.scan.peek(tail)) if tail else ())

    def again(self) -> None:
        """A new daemon goes on where the old one was."""
        self.scan = scanner().open(self.traits, self.scan.state())


def attempts(world: World, run: str, sources: list[Source_]) -> list[AttemptRow]:
    found = []
    for number, lines in enumerate(world.cuts):
        cut = []
        for file, source in zip(world.files, sources, strict=True):
            if file.name in lines:
                offset = len(b"".join(source.data.splitlines(keepends=True)[: lines[file.name]]))
                cut.append((source.row.source_id, 0, offset))
        row = AttemptRow(f"{run}-{number}", run, "now", None, "again", "ada", DECLARED, "node0", tuple(cut))
        found.append(row)
    return found


def whole(store: Store, world: World, run: str) -> None:
    """All of it in one tick."""
    sources = [Source_(file, run) for file in world.files]
    store.writer.commit([s.until(len(s.data)) for s in sources], attempts=attempts(world, run, sources))


def pieces(store: Store, world: World, run: str, rng: random.Random) -> None:
    """In pieces, each source at its own pace."""
    sources = [Source_(file, run) for file in world.files]
    polls = []
    for number, source in enumerate(sources):
        ends = sorted(rng.sample(range(1, len(source.data)), min(rng.randint(0, 3), len(source.data) - 1)))
        polls += [(number, end) for end in (*ends, len(source.data))]
    order = [number for number, _ in polls]
    rng.shuffle(order)
    left = {number: [end for of, end in polls if of == number] for number in set(order)}
    declared = attempts(world, run, sources)
    ticks = sorted(rng.sample(range(len(order)), min(rng.randint(1, 3), len(order))))
    when = rng.choice(ticks)
    for start, stop in itertools.pairwise([*sorted({0, *ticks}), len(order)]):
        deltas = []
        for number in order[start:stop]:
            if rng.random() < 0.5:
                sources[number].again()
            deltas.append(sources[number].until(left[number].pop(0)))
        store.writer.commit(deltas, attempts=declared if start == when else ())
        if rng.random() < 0.2:
            store.writer.settle_if_due(now=True)


def micros(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // timedelta(microseconds=1)


def line_of(at: At, source: int) -> Line:
    return Line(
        source, 0, at.byte_offset, at.proc, at.stream, micros(at.stamp), at.stamp_res_us, at.stamp_utc,
        micros(at.after_stamp), at.after_utc, at.step, at.step_carried,
    )  # fmt: skip


def defined(world: World, run: str) -> tuple[dict[tuple[str, str, int], object], dict[tuple[str, int], str]]:
    """By the definitions: (kind, path, offset) -> what `lifecycle_findings` must say; (path, offset) -> reason of a record."""
    sources = [Source_(file, run) for file in world.files]
    paths = {s.row.source_id: s.row.path for s in sources}
    firsts, changes, states, records, steps = [], [], [], [], []
    for source in sources:
        for event in source.until(len(source.data)).events:
            line = line_of(event.at, source.row.source_id)
            if isinstance(event, ProcessSeen):
                firsts.append(FirstLine(line, event.at.pid))
            elif isinstance(event, WeightPhase) and event.role == "rollout":
                changes.append(Change(line, event.phase, event.level, event.rule, event.at.pid))
            elif isinstance(event, ExecState):
                states.append(
                    Setting(line, event.field, event.observed, event.claimed, event.rule, event.role == "rollout")
                )
            elif isinstance(event, Mismatch):
                records.append(line)
            elif isinstance(event, StepEvent) and event.at.step is not None:
                steps.append(StepLine(line, event.at.step, event.edge == "end"))
    rows = [s.row for s in sources]
    known = {
        r.source_id: Source(r.source_id, r.host, r.stream, r.console, r.single_process, r.pid, r.zone_s) for r in rows
    }
    declared = [
        Declaration({number: (generation, offset) for number, generation, offset in row.cut})
        for row in attempts(world, run, sources)
    ]
    writers = Writers(known, firsts, declared)
    life = Lifecycle(
        writers, changes, states, records, steps, generations=[(r.source_id, 0) for r in rows]
    )  # fmt: skip
    found = {
        (f.kind, paths[f.at.line.source_id], f.at.line.offset): (
            None if f.until is None else f.until.line.offset, f.attempts[0], f.first_step, f.last_step, f.from_us, f.until_us
        )
        for f in life.findings
    }  # fmt: skip
    made_in = MadeIn(life)
    return found, {(paths[r.source_id], r.offset): made_in.of(r) for r in records}


def told(
    findings: list[tuple[Any, ...]], records: list[tuple[Any, ...]]
) -> tuple[dict[tuple[str, str, int], object], dict[tuple[str, int], str]]:
    """The same as the store's views say it; of a number that a fault has something to say of, nothing."""
    found = {r[:3]: (r[3], r[4], r[8], r[9], micros(r[10]), micros(r[11])) for r in findings}
    assert len(found) == len(findings)
    assert all((r[2] == "admissible") == (r[3] == "") for r in records)
    return found, {r[:2]: r[3] for r in records if r[2] != "locked" and r[3] not in OF_FAULTS}


OF_FAULTS = {"fault reported in or before this step", "step voided by a fault"}
STATE = ("graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", "weight_phase")


def in_force(world: World, run: str) -> dict[tuple[str, int], dict[str, str]]:
    """(path, offset) of a number in the log of one vLLM server -> what the server's lines before it observed last."""
    found = {}
    for file in world.files:
        if file.traits.get("console") or not any(line.startswith("(APIServer pid=") for line in file.lines):
            continue
        source, last = Source_(file, run), {}
        # A record is told when the line behind it shows that it is whole.
        for event in sorted(source.until(len(source.data)).events, key=lambda event: event.at.byte_offset):
            if isinstance(event, ExecState) and event.observed is not None:
                last[event.field] = event.observed
            elif isinstance(event, WeightPhase) and event.track == "residency":
                last["weight_phase"] = event.phase
            elif isinstance(event, Mismatch):
                found[source.row.path, event.at.byte_offset] = {f: v for f, v in last.items() if f in STATE}
    return found


def check(store: Store, seed: int) -> list[dict[tuple[str, str, int], object]]:
    rng = random.Random(seed)
    number = next(store.numbers)
    runs = [(Maker(rng.getrandbits(40)).make(), f"r{number}x{n}") for n in range(RUNS)]
    for n, (world, run) in enumerate(runs):
        whole(store, world, run + "a")
        if n == RUNS // 2:
            store.restart()
        pieces(store, world, run + "b", rng)
    store.writer.settle_if_due(now=True)
    seen = []
    rows = store.rows(number)
    for world, run in runs:
        expected = defined(world, run + "a")
        found, reasons = told(rows["lifecycle_findings", run + "a"], rows["mismatches", run + "a"])
        assert found == expected[0], (seed, run)
        assert reasons == {place: expected[1][place] for place in reasons}, (seed, run)
        assert world.faulty or reasons.keys() == expected[1].keys(), (seed, run)
        beside = {row[:2]: dict(zip(STATE, row[4:9], strict=True)) for row in rows["mismatches", run + "a"]}
        for place, state in in_force(world, run + "a").items():
            assert {field: beside[place][field] for field in state} == state, (seed, run, place)
        for view in VIEWS:
            one, other = (rows[view, run + end] for end in "ab")
            renamed = [tuple(str(v).replace(run + "b", run + "a") for v in row) for row in other]
            assert sorted(renamed) == sorted(tuple(str(v) for v in row) for row in one), (seed, run, view)
        seen.append(expected[0])
    return seen


@settings(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**6))
def test_whole_and_in_pieces_as_defined(store: Store, seed: int) -> None:
    check(store, seed)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**9))
def test_whole_and_in_pieces_as_defined_at_length(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))
        fresh = Store(tmp_path_factory.mktemp("long"))
        check(fresh, seed)
        fresh.writer.close()


def test_the_worlds_reach_every_kind_and_every_way() -> None:
    """By the definitions alone, without a store."""
    kinds, reasons, ranks, ended, faults = set(), set(), set(), set(), set()
    for seed in range(60):
        world = Maker(seed).make()
        found, records = defined(world, "r")
        kinds |= {kind for kind, _, _ in found}
        ended |= {value[0] is None for value in found.values()}  # type: ignore[index]
        reasons |= {(reason != "", "trainer" in path) for (path, _), reason in records.items()}
        faults |= {next((text for text in FAULTS if text in line), "") for file in world.files for line in file.lines}
        ranks |= {"Worker_TP1" in line for file in world.files for line in file.lines}
    assert len(kinds) == 6 and ended == {True, False} and len(reasons) == 4 and ranks == {True, False}
    assert len(faults) == 1 + len(FAULTS)
