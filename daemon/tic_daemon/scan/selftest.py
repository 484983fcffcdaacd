"""A pack's own lines, sent through the scanner: every `match` line must yield its rule, every `no_match` line must not.

check(rules)          -> what went wrong, one `Failure` a line; empty if the packs keep their word
events_of(rules, ...) -> the events that one text gives, and which rule each comes from
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tic_daemon.errors import RuleError
from tic_daemon.scan.events import (
    BenchMark,
    Compilation,
    Device,
    EnvSeen,
    Event,
    ExecState,
    Fault,
    FileSaid,
    Gap,
    Metric,
    Mismatch,
    StepEvent,
    Timing,
    Transport,
    WandbNamed,
    WeightPhase,
)
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.stamps import Years
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.wrappers import peel

PLAIN = SourceTraits(reference_time=datetime(2026, 11, 29, 23, 0))


@dataclass(frozen=True, slots=True)
class Failure:
    """One line of a pack that does not keep its word."""

    pack: str
    rule: str
    line: str
    what: str


def check(rules: RuleSet, scanner: Scanner | None = None) -> list[Failure]:
    """Send all `match` and `no_match` lines of all rules through the scanner, each as a log of its own."""
    scanner = scanner or Scanner(rules)
    failures: list[Failure] = []
    for rule in rules.rules:
        for line in rule.match:
            if problem := _match_problem(rule, scan(scanner, line)):
                failures.append(Failure(rule.pack, rule.name, line, problem))
        for line in rule.no_match:
            if _yielded(rule, scan(scanner, line), acting=True) or _hit(rule, line):
                failures.append(Failure(rule.pack, rule.name, line, "no_match line yields the rule"))
    return failures


def require(rules: RuleSet, scanner: Scanner) -> None:
    """Refuse packs that do not keep their word.

    Raises:
        RuleError: names the first line that fails, its rule and its pack.
    """
    for failure in check(rules, scanner):
        raise RuleError(
            f"pack {failure.pack}: rule {failure.rule}: {failure.what}: {failure.line[:200]!r}",
            "correct the rule or its line; `tic-daemon rules test DIR` shows all that fail",
        )


def scan(scanner: Scanner, text: str, traits: SourceTraits = PLAIN) -> list[Event]:
    """All events of a text that is a whole log."""
    source = scanner.open(traits)
    data = text.encode()
    return [*source.feed(data if data.endswith(b"\n") else data + b"\n"), *source.finish(b"")]


def _match_problem(rule: Rule, events: list[Event]) -> str:
    if any(isinstance(event, Gap) and event.kind == "rule_error" for event in events):
        return "a rule failed on it"
    if rule.yields == "context":  # yields nothing; that its pattern matches was seen when the pack was loaded
        return ""
    found = _yielded(rule, events, acting=False)
    if not found:
        kinds = sorted({event.kind for event in events if isinstance(event, Fault)})
        return f"match line does not yield the rule; faults found: {', '.join(kinds) or 'none'}"
    if rule.yields == "fault":
        verdicts = {event.verdict for event in found if isinstance(event, Fault)}
        if verdicts != {rule.match_verdict}:
            return f"verdict {'/'.join(sorted(verdicts))} instead of {rule.match_verdict}"
    return ""


def _hit(rule: Rule, line: str) -> bool:
    """Whether a line hits a rule that yields nothing."""
    if rule.yields != "context":
        return False
    return any(rule.find(peel(part, Years(None)).text) is not None for part in line.split("\n"))


def _yielded(rule: Rule, events: list[Event], *, acting: bool) -> list[Event]:
    """Events that come from the rule; with `acting`, mentions and suspects, which change nothing, do not count."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, Fault):
            own = rule.yields == "fault" and event.kind == rule.name and (event.verdict == "confirmed" or not acting)
        elif isinstance(
            event, (StepEvent, ExecState, WeightPhase, Transport, Compilation, BenchMark, EnvSeen, FileSaid, WandbNamed)
        ):
            own = event.rule == rule.name
        elif isinstance(event, Mismatch):
            own = rule.yields == "mismatch"
        elif isinstance(event, Device):
            own = rule.yields == "device"
        elif isinstance(event, Metric):
            own = rule.yields == "metric"
        else:
            own = isinstance(event, Timing) and rule.yields == "timing"
        if own:
            found.append(event)
    return found
