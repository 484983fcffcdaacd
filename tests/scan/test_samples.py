"""The sample logs: all that is expected of them, however the files arrive.

`expected.json` says what a correct reader finds. Here it is held against the events of the whole file, of its bytes in
random pieces with restarts between, of the lines between another writer's, and of what a Ray console shows of them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scan.support import TRAITS, of, scanner
from tic_daemon.scan.events import Compilation, Event, ExecState, Fault, StepEvent, Transport, WeightPhase

HERE = Path(__file__).parents[1] / "corpus" / "samples"
EXPECTED = json.loads((HERE / "expected.json").read_text())
RULES = scanner().rules
LOCKING = {rule.kind for rule in RULES.fault_rules() if rule.locks == "always"}
VLLM, TORCHRUN, KMSG, SGLANG, HARMLESS = EXPECTED


@dataclass(frozen=True)
class Found:
    """The facts of one reading of a file."""

    events: list[Event]

    def faults(self, *kinds: str, verdict: str = "confirmed") -> list[Fault]:
        return [f for f in of(self.events, Fault) if f.verdict == verdict and (not kinds or f.kind in kinds)]

    def who(self, *kinds: str) -> set[tuple[str, str]]:
        """(kind, rank or PCI id or name) of confirmed faults."""
        return {
            (f.kind, f.bus or (f"rank{f.at.rank}" if f.at.rank is not None else f.at.actor))
            for f in self.faults(*kinds)
        }

    def ranks(self, kind: str) -> set[int | None]:
        return {fault.at.rank for fault in self.faults(kind)}

    def codes(self, kind: str) -> list[int]:
        return [int(fault.code) for fault in self.faults(kind)]

    def steps(self) -> list[int | None]:
        return [step.at.step for step in of(self.events, StepEvent)]

    def transports(self) -> set[str]:
        return {line.transport for line in of(self.events, Transport) if line.what == "channel"}

    def phases(self, track: str, phase: str, rule: str = "") -> int:
        phases = [p for p in of(self.events, WeightPhase) if (p.track, p.phase) == (track, phase)]
        return sum(not rule or p.rule == rule for p in phases)


def vllm(found: Found, want: dict[str, object]) -> None:
    assert found.phases("residency", "asleep", "vllm.asleep") == want["sleep"]
    assert found.phases("residency", "awake") == want["wake"]
    assert found.phases("cache", "reset") == want["reset_ok"]
    assert found.phases("cache", "reset_refused") == want["reset_failed"]
    assert found.phases("graph", "captured") == want["capture_finished"]
    assert found.phases("residency", "reloading") == want["reload_first_line"]
    assert found.phases("residency", "reloaded") == want["reload_took"]
    compiled = [event for event in of(found.events, Compilation) if event.stage == "inference"]
    assert len(compiled) == want["jit_after_warmup"]


def torchrun(found: Found, want: dict[str, object]) -> None:
    assert found.steps() == want["steps"] and len(found.steps()) == want["iterations"]
    assert found.transports() == set(want["transports"])  # type: ignore[call-overload]
    locking = [fault for fault in found.faults() if fault.kind in LOCKING]
    assert {fault.at.rank for fault in locking} == {want["first_cause_rank"]}
    # "nccl_remote rank 2", "nccl_timeout ranks 0,1,4,5,6,7"
    remote, timeout = (set(map(int, re.findall(r"\d+", text))) for text in want["secondary"])  # type: ignore[attr-defined]
    assert (found.ranks("nccl.remote"), found.ranks("nccl.watchdog_timeout")) == (remote, timeout)


def kmsg(found: Found, want: dict[str, object]) -> None:
    for kind in ("app", "secondary", "info"):
        assert found.codes(f"xid.{kind}") == want[f"xid_{kind}"]
    assert found.codes("sxid.info") == want["sxid_nonfatal"]
    assert (len(found.faults("kern.oom_kill")), len(found.faults("kern.segfault"))) == (want["oom_kill"], want["segv"])


def sglang(found: Found, want: dict[str, object]) -> None:
    assert [f"{kind} {who}" for kind, who in found.who("num.sgl_nan")] == want["taint"]
    assert found.phases("version", "updated") == want["http_update_calls"]
    assert found.phases("cache", "reset") == want["flush_ok"]
    assert found.phases("cache", "reset_refused") == want["flush_refused"]
    text = (HERE / SGLANG).read_text()
    used = [state.observed for state in of(found.events, ExecState) if state.rule == "sglang.graph_used"]
    assert used == ["GRAPH" if on == "True" else "NONE" for on in re.findall(r"batch.*cuda graph: (\w+)", text)]


def harmless(found: Found, want: dict[str, object]) -> None:
    assert found.steps() == want["steps"]
    assert {RULES.by_name[fault.kind].severity for fault in found.faults()} <= {"I"}


CHECKS: dict[str, Callable[[Found, dict[str, object]], None]] = {
    VLLM: vllm, TORCHRUN: torchrun, KMSG: kmsg, SGLANG: sglang, HARMLESS: harmless,
}  # fmt: skip


def check(name: str, found: Found) -> None:
    locks = {(kind, who) for kind, who in found.who() if kind in LOCKING}
    assert locks == {tuple(pair) for pair in EXPECTED[name]["lock_set"]}
    CHECKS[name](found, EXPECTED[name])


def whole(data: bytes) -> Found:
    source = scanner().open(TRAITS)
    return Found([*source.feed(data[: data.rfind(b"\n") + 1]), *source.finish(data[data.rfind(b"\n") + 1 :])])


def in_pieces(data: bytes, seed: int) -> Found:
    """As a follower reads a growing file: what has no newline yet waits, and now and then the daemon starts anew."""
    rng = random.Random(seed)
    source, events, rest, place = scanner().open(TRAITS), [], b"", 0
    while place < len(data):
        size = rng.choice((1, 3, 80, 700, 4096, 20_000))
        rest += data[place : place + size]
        place += size
        cut = rest.rfind(b"\n") + 1
        if cut:
            events += source.feed(rest[:cut])
            rest = rest[cut:]
        if rng.random() < 0.2:
            source = scanner().open(TRAITS, source.state())
    return Found(events + source.finish(rest))


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_sample_as_a_whole(name: str) -> None:
    check(name, whole((HERE / name).read_bytes()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_sample_in_random_pieces(name: str, seed: int) -> None:
    data = (HERE / name).read_bytes()
    found = in_pieces(data, seed)
    check(name, found)
    assert list(map(repr, found.events)) == list(map(repr, whole(data).events))


STRANGER = [
    b"(Worker_TP9 pid=77) INFO 11-29 20:51:00 [loader.py:3] loading shard 3 of 9\n",
    b"\x1b[36m(WorkerDict pid=79)\x1b[0m allocated 3 GiB\n",
    b"(WorkerDict pid=78, ip=10.0.0.3) Traceback (most recent call last):\n",
    b'(WorkerDict pid=78, ip=10.0.0.3)   File "/srv/x.py", line 3, in f\n',
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_sample_between_another_writers_lines(name: str, seed: int) -> None:
    rng = random.Random(seed)
    lines: list[bytes] = []
    for line in re.findall(rb"[^\n]*\n", (HERE / name).read_bytes()):
        lines.append(line)
        lines += rng.choices(STRANGER, k=rng.choice((0, 0, 1, 2)))
    check(name, in_pieces(b"".join(lines), seed))


# What a Ray console shows of a worker's lines. A kernel's log does not come this way: there it is talk.
CONSOLES = {VLLM: "vLLMHttpServer", TORCHRUN: "TrainWorker", SGLANG: "SGLangEngine", HARMLESS: "TaskRunner"}


@pytest.mark.parametrize("head", ["({} pid=4242) ", "({} pid=4242, ip=10.31.4.12) ", "\x1b[36m({} pid=4242)\x1b[0m "])
@pytest.mark.parametrize("name", list(CONSOLES))
def test_a_sample_through_a_ray_console(name: str, head: str) -> None:
    prefix = head.format(CONSOLES[name]).encode()
    lines = [prefix + line for line in re.findall(rb"[^\n]*\n", (HERE / name).read_bytes())]
    found = in_pieces(b"".join(lines), 5)
    if name == HARMLESS:
        assert found.steps() == EXPECTED[name]["steps"]
        assert not {kind for kind, _who in found.who()} & LOCKING
    else:
        check(name, found)


@pytest.mark.parametrize("name", list(CONSOLES))
def test_a_console_that_shows_every_line_twice_names_nobody_else(name: str) -> None:
    """A copy is an echo: it may double the counts, but it makes no other process, rank or kind."""
    prefix = f"({CONSOLES[name]} pid=4242) ".encode()
    lines = [prefix + line for line in re.findall(rb"[^\n]*\n", (HERE / name).read_bytes())]
    once, twice = in_pieces(b"".join(lines), 7), in_pieces(b"".join(lines + lines), 8)
    assert twice.who() == once.who()
    assert {kind for kind, _who in twice.who()} & LOCKING == {kind for kind, _who in EXPECTED[name]["lock_set"]}
    assert set(twice.steps()) == set(once.steps())


def test_two_engines_in_one_console_are_told_apart() -> None:
    """SGLang's ranks are processes of their own, and each engine has the same ones."""
    text = (HERE / SGLANG).read_bytes()
    place = text.rindex(b"[2026", 0, text.index(b"Scheduler hit an exception"))
    crash = re.findall(rb"[^\n]*\n", text[place:])
    lines: list[bytes] = []
    for line in crash:
        lines += [b"(SGLangEngine pid=4242) " + line, b"(SGLangEngine pid=4243) " + line.replace(b" TP2]", b" TP1]")]
    found = in_pieces(b"".join(lines), 1).faults("cuda.illegal_address")
    assert [(fault.at.proc, fault.at.pid, fault.at.actor) for fault in found] == [
        ("pid:4242 TP2", 4242, "TP2"), ("pid:4243 TP1", 4243, "TP1")
    ]  # fmt: skip
