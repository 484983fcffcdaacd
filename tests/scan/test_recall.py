"""Recall and precision of faults over the whole corpus, counted in one place: both must be 1.

What is expected of a log is told beside it or by where it lies, never by what a rule finds:

    samples             expected.json: which faults lock, and whose
    markers, the table of the CUDA runtime   one line a log: its kind; whether it locks
    match lines of packs   the rule's kind, of a fault; no fault, of any other rule
    harmless lines, talk of faults, logs of real runs   nothing that may lock

`pytest -s` prints the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.scan.test_packs import (
    CORPUS,
    CUDA_ERRORS,
    FORWARDED,
    HARMLESS,
    LOCKING,
    MARKERS,
    MAY_LOCK,
    RULES,
    SCANNER,
    cases,
    payload,
    wrapped,
)
from tic_daemon.scan.events import Event, Fault
from tic_daemon.scan.selftest import PLAIN, scan

SAMPLES = json.loads((CORPUS / "samples" / "expected.json").read_text())
SEVERITY = {rule.kind: rule.severity for rule in RULES.fault_rules()}
REAL = (
    "real_run/worker_raw.log",
    "real_vllm/vllm-0.32.0-cpu.log",
    "trainers/hf_progress.log",
    "trainers/nemo_grpo.log",
)
CUDA = "[rank3]: torch.AcceleratorError: CUDA error: {}"


@dataclass(slots=True)
class Count:
    """Logs, and faults in them: found and due, due and not found, found and not due."""

    logs: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    def add(self, log: str, due: Iterable[object], got: Iterable[object]) -> None:
        due, got = set(due), set(got)
        self.logs += 1
        self.found += len(due & got)
        self.missed += [f"{what} in {log[:200]!r}" for what in due - got]
        self.false += [f"{what} in {log[:200]!r}" for what in got - due]

    @property
    def recall(self) -> float:
        due = self.found + len(self.missed)
        return self.found / due if due else 1.0

    @property
    def precision(self) -> float:
        told = self.found + len(self.false)
        return self.found / told if told else 1.0

    def __str__(self) -> str:
        return (
            f"{self.logs:6} logs {self.found:5} found {len(self.missed):3} missed {len(self.false):3} false   "
            f"recall {self.recall:.3f} precision {self.precision:.3f}"
        )


def confirmed(events: Iterable[Event]) -> list[Fault]:
    return [event for event in events if isinstance(event, Fault) and event.verdict == "confirmed"]


def acting(events: Iterable[Event]) -> set[str]:
    """Kinds that do something: information does not."""
    return {fault.kind for fault in confirmed(events) if SEVERITY.get(fault.kind, "L") != "I"}


def whose(fault: Fault) -> str:
    return fault.bus or (f"rank{fault.at.rank}" if fault.at.rank is not None else fault.at.actor)


def samples() -> Count:
    count = Count()
    for name, want in SAMPLES.items():
        source = SCANNER.open(PLAIN)
        events = [*source.feed((CORPUS / "samples" / name).read_bytes()), *source.finish(b"")]
        got = {(fault.kind, whose(fault)) for fault in confirmed(events) if fault.kind in LOCKING}
        count.add(name, {tuple(pair) for pair in want["lock_set"]}, got)
    return count


def arriving(kind: str, line: str) -> str:
    """A marker as the program prints it: kernel lines by the kernel, exceptions below their traceback."""
    rule = RULES.by_name[kind]
    if rule.wrap == "kernel" and not line.startswith("["):
        return f"Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] {line.removeprefix('kernel: ')}"
    if rule.needs_level and rule.wrap == "":
        return wrapped(payload(line))["excepthook"][0]
    return line


def marked() -> Count:
    count = Count()
    for kind, severity, line in MARKERS:
        assert SEVERITY[kind] == severity, kind
        got = acting(scan(SCANNER, arriving(kind, line)))
        count.add(line, {kind} if severity != "I" else (), got)
    return count


def cuda_table() -> Count:
    count = Count()
    for _code, group, text in CUDA_ERRORS:
        got = {SEVERITY[kind] in {"L", "LH"} for kind in acting(scan(SCANNER, CUDA.format(text)))}
        count.add(text, {group == "lock"}, got)
    return count


def packs() -> Count:
    count = Count()
    for rule in RULES.rules:
        own = rule.yields == "fault" and rule.match_verdict == "confirmed" and rule.severity != "I"
        for line in rule.match:
            got = acting(scan(SCANNER, line))
            # A line of several may end in another fault of the same process; it is that rule's to show.
            count.add(f"{rule.name}: {line}", {rule.name} if own else (), got if own else got & MAY_LOCK)
    return count


def harmless() -> Count:
    count = Count()
    for log in _harmless():
        count.add(log, (), acting(scan(SCANNER, log)) & MAY_LOCK)
    return count


def _harmless() -> Iterator[str]:
    for reason, text in HARMLESS:
        yield text
        for prefix in FORWARDED:
            yield "\n".join(prefix + line for line in text.splitlines())
        if not reason.startswith("context: "):
            yield from text.splitlines()
    for _title, text in cases("mentions.txt"):
        yield text
        yield from text.splitlines()
    for name in REAL:
        yield (CORPUS / name).read_text(encoding="utf-8", errors="replace")


def test_every_fault_is_found_and_nothing_else() -> None:
    counts = {
        "samples": samples(),
        "markers": marked(),
        "CUDA runtime": cuda_table(),
        "packs": packs(),
        "harmless": harmless(),
    }
    total = Count(
        sum(c.logs for c in counts.values()), sum(c.found for c in counts.values()),
        [what for c in counts.values() for what in c.missed], [what for c in counts.values() for what in c.false],
    )  # fmt: skip
    print()
    for name, count in (*counts.items(), ("all", total)):
        print(f"{name:14}{count}")
    assert counts["harmless"].logs >= 300 and counts["packs"].logs >= 300 and total.found >= 400, "the corpus is there"
    assert total.missed == []
    assert total.false == []
    assert (total.recall, total.precision) == (1.0, 1.0)


def test_the_count_can_be_less_than_one() -> None:
    count = Count()
    count.add("a log", {"a", "b"}, {"b", "c", "d"})
    assert (count.recall, count.precision) == (0.5, 1 / 3)
    assert len(count.missed) == 1 and len(count.false) == 2
