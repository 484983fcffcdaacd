"""Random lives of log files, with restarts at any moment: every byte is fed once and in order, or is in a gap.

The model knows what was written to each generation. A generation that was written and destroyed while nobody looked
leaves no trace anywhere, so only such a one may be missing.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.sources.fakes import Harness

NAMES = ("a.log", "b.log")


@dataclass
class Written:
    """One generation as written. `destroyed`: its bytes lie nowhere any more."""

    data: bytes = b""
    destroyed: bool = False


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="tic-life-")))
        self.harness = Harness([self.directory])
        self.serial = 0
        self.written: dict[str, list[Written]] = {name: [] for name in NAMES}
        self.pieces: dict[str, list[tuple[Path, Written, bool]]] = {name: [] for name in NAMES}

    @initialize(before=st.booleans())
    def begin(self, before: bool) -> None:
        if before:
            self.append(NAMES[0], 3, True)
        self.harness.start()

    # --- the writers -------------------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        return self.directory / name

    def current(self, name: str) -> Written:
        if not self.path(name).exists():
            self.path(name).touch()
            self.written[name].append(Written())
        return self.written[name][-1]

    def text(self, lines: int, ends: bool) -> bytes:
        out = b""
        for _ in range(lines):
            self.serial += 1
            out += b"line %d %s\n" % (self.serial, b"x" * (self.serial % 90))
        self.serial += 1
        return out if ends else out + b"part %d " % self.serial

    @rule(name=st.sampled_from(NAMES), lines=st.integers(0, 30), ends=st.booleans())
    def append(self, name: str, lines: int, ends: bool) -> None:
        generation = self.current(name)
        data = self.text(lines, ends)
        with self.path(name).open("ab") as file:
            file.write(data)
        generation.data += data

    def shift(self, name: str) -> None:
        """x.log.1 -> x.log.2 and so on, as logrotate does."""
        shifted = []
        for path, generation, is_copy in reversed(self.pieces[name]):
            stem, number = path.name.removesuffix(".gz").rsplit(".", 1)
            new = path.with_name(f"{stem}.{int(number) + 1}{'.gz' if path.name.endswith('.gz') else ''}")
            path.rename(new)
            shifted.append((new, generation, is_copy))
        self.pieces[name] = shifted[::-1]

    @rule(name=st.sampled_from(NAMES))
    def rotate(self, name: str) -> None:
        if self.path(name).exists():
            self.shift(name)
            first = self.path(f"{name}.1")
            self.path(name).rename(first)
            self.pieces[name].insert(0, (first, self.written[name][-1], False))

    @rule(name=st.sampled_from(NAMES))
    def copytruncate(self, name: str) -> None:
        if self.path(name).exists():
            self.shift(name)
            first = self.path(f"{name}.1")
            shutil.copyfile(self.path(name), first)
            os.truncate(self.path(name), 0)
            self.pieces[name].insert(0, (first, self.written[name][-1], True))
            self.written[name].append(Written())

    @rule(name=st.sampled_from(NAMES))
    def truncate(self, name: str) -> None:
        if self.path(name).exists():
            os.truncate(self.path(name), 0)
            self.written[name][-1].destroyed = True
            self.written[name].append(Written())

    @rule(name=st.sampled_from(NAMES))
    def unlink(self, name: str) -> None:
        if self.path(name).exists():
            self.path(name).unlink()
            self.written[name][-1].destroyed = True

    @rule(name=st.sampled_from(NAMES), lines=st.integers(0, 30))
    def replace(self, name: str, lines: int) -> None:
        if self.path(name).exists():
            data = self.text(lines, True)
            temporary = self.path("new.tmp")
            temporary.write_bytes(data)
            self.written[name][-1].destroyed = True
            temporary.rename(self.path(name))
            self.written[name].append(Written(data))

    @rule(name=st.sampled_from(NAMES))
    def compress(self, name: str) -> None:
        for i, (path, generation, is_copy) in enumerate(self.pieces[name]):
            if not path.name.endswith(".gz"):
                packed = path.with_name(path.name + ".gz")
                packed.write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
                self.pieces[name][i] = (packed, generation, is_copy)
                break

    @rule(name=st.sampled_from(NAMES))
    def slow_writer(self, name: str) -> None:
        """A process that was not told of the rotation writes on into the renamed file."""
        for path, generation, is_copy in self.pieces[name]:
            if not is_copy and not path.name.endswith(".gz") and generation.data:
                data = self.text(1, True)
                with path.open("ab") as file:
                    file.write(data)
                generation.data += data
                break

    # --- the follower ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.harness.follower is not None)
    @rule(seconds=st.sampled_from([0.1, 1.2, 6.0]), budget=st.sampled_from([100, 1 << 20]))
    def poll(self, seconds: float, budget: int) -> None:
        self.harness.clock.now += seconds
        self.harness.poll(budget)

    @precondition(lambda self: self.harness.follower is not None)
    @rule(polls=st.integers(0, 3))
    def die(self, polls: int) -> None:
        """kill -9 before the last polls were committed."""
        for _ in range(polls):
            self.harness.clock.now += 1.5
            self.harness.follower.poll(1 << 20, self.harness.clock.now)
        self.harness.stop()

    @precondition(lambda self: self.harness.follower is None)
    @rule()
    def restart(self) -> None:
        self.harness.start()

    # --- the truth ---------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.harness.follower is None:
                self.harness.start()
            self.harness.settle(80, 1.0)
            self.check()
        finally:
            if self.harness.follower is not None:
                self.harness.stop()
            shutil.rmtree(self.directory)

    def check(self) -> None:
        known = {row.path for row in self.harness.sources.values()}
        assert known <= {str(self.path(name)) for name in NAMES}, "a piece became a source of its own"
        for name in NAMES:
            path = str(self.path(name))
            if path not in known:
                assert not any(one.data and not one.destroyed for one in self.written[name])
                continue
            read = self.harness.read(path)
            gaps = dict(self.harness.gaps(path))
            shown = "".join(self.harness.shown(path)).encode()
            left = [(number, data) for number, data in enumerate(read) if data]  # a file may be seen while it is empty
            for one in self.written[name]:
                if not one.data:
                    continue
                fit = [(number, data) for number, data in left[:1] if one.data.startswith(data)]
                if not fit:
                    # Nothing of it was fed: then nobody can have seen it, or all of it is in a gap or still open.
                    assert one.destroyed or (one is self.written[name][-1] and shown == one.data), (one, left)
                    continue
                [(number, data)] = fit
                left.pop(0)
                rest = one.data[len(data) :]
                if not rest:
                    continue
                if one is self.written[name][-1] and not one.destroyed and rest == shown:
                    continue
                assert one.destroyed, f"{len(rest)} bytes were there to be read and were not"
                assert number in gaps, f"{len(rest)} bytes are lost without a gap"
                assert gaps[number].first_byte == len(data)
                assert gaps[number].last_byte == -1 or gaps[number].last_byte <= len(one.data)
            assert not left, "something was read twice"


Life.TestCase.settings = settings(
    max_examples=60, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase


class ManyLives(Life):
    pass


ManyLives.TestCase.settings = settings(
    max_examples=1500, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
class TestManyLives(ManyLives.TestCase):
    pass
