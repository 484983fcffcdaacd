"""A scanner that only remembers what it was fed, and a small store for deltas."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from tic_daemon.config import Config, PollConfig
from tic_daemon.scan.events import At, Event, Gap, SourceRun
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources.follow import FileFollower
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow

NOW = 1_800_000_000.0


@dataclass
class Counters:
    lines: int = 0
    bad_utf8: int = 0
    nul_bytes: int = 0
    capped_lines: int = 0
    skipped_bytes: int = 0


class FakeSourceScanner:
    """One event a feed: `SourceRun` whose `run` is what was fed and whose `how` is the call."""

    def __init__(self, traits: SourceTraits, state: str | None) -> None:
        self.traits = traits
        self.counters = Counters()
        self.byte_offset = 0
        self.in_piece = False
        if state is not None:
            self.byte_offset, self.counters.lines, self.in_piece = json.loads(state)

    @property
    def line_no(self) -> int:
        return self.counters.lines + 1

    def _event(self, data: bytes, how: str) -> list[Event]:
        return [SourceRun(At(self.byte_offset, len(data), self.line_no), data.decode("latin-1"), how)]

    def feed(self, data: bytes) -> list[Event]:
        assert data.endswith(b"\n")
        lines = data.split(b"\n")
        assert self.in_piece or max(map(len, lines)) < 1 << 20, "a line over the limit was not handed over in pieces"
        self.in_piece = False
        events = self._event(data, "feed")
        self.byte_offset += len(data)
        self.counters.lines += data.count(b"\n")
        return events

    def feed_piece(self, data: bytes) -> list[Event]:
        assert data and b"\n" not in data
        if not self.in_piece:
            assert len(data) == 1 << 20, "the first piece is not the first mebibyte"
            self.counters.capped_lines += 1
        self.in_piece = True
        events = self._event(data, "piece")
        self.byte_offset += len(data)
        return events

    def peek(self, tail: bytes) -> list[Event]:
        assert b"\n" not in tail
        return self._event(tail, "peek") if tail else []

    def finish(self, tail: bytes) -> list[Event]:
        assert b"\n" not in tail
        events = self._event(tail, "finish") if tail else []
        self.byte_offset += len(tail)
        return events

    def state(self) -> str:
        return json.dumps([self.byte_offset, self.counters.lines, self.in_piece], separators=(",", ":"))


class FakeScanner:
    """Keeps the traits that each generation was opened with."""

    def __init__(self) -> None:
        self.traits: list[SourceTraits] = []

    def open(self, traits: SourceTraits, state: str | None = None) -> FakeSourceScanner:
        self.traits.append(traits)
        return FakeSourceScanner(traits, state)


class Clock:
    """Monotonic seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Harness:
    """A follower, a clock, and what was committed of its deltas."""

    roots: list[Path]
    config: Config | None = None
    cursors: dict[tuple[int, int], CursorRow] = field(default_factory=dict)
    sources: dict[int, SourceRow] = field(default_factory=dict)
    events: dict[tuple[int, int], list[Event]] = field(default_factory=dict)
    provisional: dict[tuple[int, int], tuple[Event, ...]] = field(default_factory=dict)
    provisional_rows: int = 0
    deltas: list[SourceDelta] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    follower: FileFollower | None = None

    def start(self) -> Harness:
        config = self.config or Config(base=self.roots[0], host="h", poll=PollConfig(rest_s=0))
        self.scanner = FakeScanner()
        self.follower = FileFollower(
            self.roots, config, dict(self.cursors), self.scanner, sources=dict(self.sources), clock=self.clock
        )
        return self

    def stop(self) -> None:
        assert self.follower is not None
        self.follower.close()
        self.follower = None

    def commit(self, deltas: list[SourceDelta]) -> None:
        """As the store's writer does it."""
        for delta in deltas:
            self.deltas.append(delta)
            self.sources[delta.source.source_id] = delta.source
            if delta.cursor is None:
                assert not delta.events and not delta.provisional
                continue
            key = (delta.cursor.source_id, delta.cursor.generation)
            before = self.cursors.get(key)
            assert before is None or delta.cursor.byte_offset >= before.byte_offset, "a cursor went back"
            self.cursors[key] = delta.cursor
            self.events.setdefault(key, []).extend(delta.events)
            self.provisional[key] = delta.provisional
            self.provisional_rows += len(delta.provisional)

    def poll(self, budget: int = 1 << 30) -> list[SourceDelta]:
        assert self.follower is not None
        deltas = self.follower.poll(budget, NOW + self.clock.now)
        self.commit(deltas)
        return deltas

    def settle(self, seconds: float = 12.0, step: float = 0.5) -> None:
        """Lets time pass until everything is read and every end is noticed."""
        for _ in range(int(seconds / step)):
            self.clock.now += step
            self.poll()
        assert self.follower is not None
        give_up = time.monotonic() + 60
        while not self.follower.drained():
            assert time.monotonic() < give_up, "never drained"
            time.sleep(0.002)
            self.poll()

    def once(self) -> None:
        """What `--once` does."""
        self.start()
        assert self.follower is not None
        for _ in range(10_000):
            self.poll()
            if self.follower.drained():
                break
            self.follower.wait(0.05)
        self.commit(self.follower.finish())
        self.stop()

    # --- what was read -----------------------------------------------------------------------------------------------

    def id_of(self, path: Path | str) -> int:
        [row] = [row for row in self.sources.values() if row.path == str(path)]
        return row.source_id

    def row(self, path: Path | str) -> SourceRow:
        return self.sources[self.id_of(path)]

    def read(self, path: Path | str) -> list[bytes]:
        """Bytes fed, a generation each, oldest first; checks that they are in order and without holes."""
        source, out = self.id_of(path), []
        for key in sorted(k for k in self.cursors if k[0] == source):
            data = b""
            for event in self.events.get(key, []):
                if isinstance(event, SourceRun):
                    assert event.at.byte_offset == len(data), "bytes were fed twice or out of order"
                    data += event.run.encode("latin-1")
            assert self.cursors[key].byte_offset == len(data)
            out.append(data)
        return out

    def gaps(self, path: Path | str) -> list[tuple[int, Gap]]:
        source = self.id_of(path)
        return [
            (key[1], event)
            for key in sorted(self.events)
            if key[0] == source
            for event in self.events[key]
            if isinstance(event, Gap)
        ]

    def shown(self, path: Path | str) -> list[str]:
        source = self.id_of(path)
        return [
            e.run
            for key in sorted(self.provisional)
            if key[0] == source
            for e in self.provisional[key]
            if isinstance(e, SourceRun)
        ]
