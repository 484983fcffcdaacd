"""`tic-daemon rules`: list and explain the rules in force, test packs, try them on a log.

rules list                 one line a rule
rules explain NAME         all that a rule says
rules test [DIR ...]       every pack's own lines through the real scanner
rules try FILE             which rules hit where, and the commonest lines that no rule knows
"""

from __future__ import annotations

import argparse
import gzip
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from tic_daemon.config import load_config
from tic_daemon.errors import RuleError, TicError
from tic_daemon.output import say
from tic_daemon.scan.events import Device, Event, Fault, Gap, Metric, Mismatch, Timing
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.rules_docs import markdown
from tic_daemon.scan.scanner import Scanner, SourceScanner
from tic_daemon.scan.selftest import check
from tic_daemon.scan.stamps import Years
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.wrappers import peel

CHUNK: Final = 1 << 20
MAX_SHAPES: Final = 50_000  # distinct shapes of unknown lines that are counted at a time
SHAPE_BYTES: Final = 400
_HEX: Final = re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b")
_NUMBERS: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_ALARM: Final = re.compile(
    r"error|fail|fatal|abort|nan\b|assert|exception|corrupt|killed|timed? ?out|illegal|xid", re.IGNORECASE
)
_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `rules` and its four actions to the command line."""
    parser = commands.add_parser("rules", help="list, explain and try rule packs")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="one line a rule")
    listing.add_argument("--pack", help="only this pack")
    listing.add_argument("--markdown", action="store_true", help="as docs/reference/rules.md")

    explain = actions.add_parser("explain", help="all that a rule says")
    explain.add_argument("name", metavar="NAME")

    test = actions.add_parser("test", help="send every pack's own lines through the real scanner")
    test.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="directories with more packs")

    attempt = actions.add_parser("try", help="which rules hit where, and the commonest lines that no rule knows")
    attempt.add_argument("file", type=Path, metavar="FILE", help="a log; .gz is read too")
    attempt.add_argument("--top", type=int, default=20, metavar="N", help="unknown lines to show; default 20")

    for action in (listing, explain, test, attempt):
        action.add_argument("--config", type=Path, metavar="FILE", help="tic.toml; default: the one in this directory")
        action.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run one action. Returns 0, or 2 if packs do not keep their word.

    Raises:
        TicError: a pack is refused, or the file cannot be read.
    """
    extra = list(load_config(args.config, workspace=Path()).rules)
    if args.action == "test":
        return _test(RuleSet.load([*extra, *args.dirs]))
    rules = RuleSet.load(extra)
    if args.action == "list":
        say(markdown(rules).rstrip("\n")) if args.markdown else _list(rules, args.pack)
    elif args.action == "explain":
        say(explain(rules, args.name))
    else:
        say(report(try_file(rules, args.file), args.top))
    return 0


def _list(rules: RuleSet, pack: str | None) -> None:
    names = [one.name for one in rules.packs]
    if pack is not None and pack not in names:
        raise RuleError(f"no pack named {pack!r}", f"there are {', '.join(sorted(names))}")
    chosen = sorted(
        (rule for rule in rules.rules if pack in {None, rule.pack}), key=lambda rule: (rule.pack, rule.name)
    )
    width = max(len(rule.name) for rule in chosen)
    rows = [
        f"{rule.name:<{width}}  {rule.yields:<12}  {rule.severity:<2}  {rule.title or says(rule)}" for rule in chosen
    ]
    say(safe("\n".join(rows)))


def says(rule: Rule) -> str:
    """What a rule without a title yields, in words."""
    if rule.yields == "exec_state":
        return f"{'claims' if rule.claimed else 'observes'} {rule.field} = {rule.claimed or rule.observed}"
    if rule.yields == "weight_phase":
        return f"{rule.track}: {rule.phase}"
    if rule.yields == "compile":
        return f"{rule.compiler} compiles"
    return f"seconds of {rule.phase}" if rule.yields == "timing" else rule.yields


def explain(rules: RuleSet, name: str) -> str:
    """All that a rule says, as text.

    Raises:
        RuleError: there is no such rule.
    """
    rule = rules.by_name.get(name)
    if rule is None:
        near = [known for known in rules.by_name if name and name.rsplit(".", 1)[-1] in known]
        raise RuleError(
            f"no rule named {name!r}", f"near: {', '.join(near[:8])}" if near else "see `tic-daemon rules list`"
        )
    lines = [f"{rule.name}   (pack {rule.pack}, yields {rule.yields})", f"  {rule.title or says(rule)}"]
    if rule.yields == "fault":
        proof = "the runtime must have written it" if rule.needs_level else "its shape alone proves it"
        lines.append(f"  severity   {rule.severity}, locks: {rule.locks}; {proof}")
    if rule.yields == "step":
        lines.append(f"  edge       {rule.edge} of step; {'proves' if rule.gpu else 'does not prove'} GPU work")
    if rule.wrap:
        lines.append(f"  wrapper    {rule.wrap}")
    lines += [
        f"  printed by {rule.product}",
        f"  read from  {rule.source}",
        f"  literals   {', '.join(map(repr, rule.literals))}",
        f"  pattern    ({'anywhere' if rule.anchor == 'any' else 'at the start'}) {rule.pattern}",
        *(f"  yields on  {line}" for line in rule.match),
        *(f"  not on     {line}" for line in rule.no_match),
    ]
    return safe("\n".join(lines))


def _test(rules: RuleSet) -> int:
    failures = check(rules)
    for failure in failures:
        say(safe(f"FAIL {failure.pack}: {failure.rule}: {failure.what}\n     {failure.line}"))
    lines = sum(len(rule.match) + len(rule.no_match) for rule in rules.rules)
    say(f"{len(rules.rules)} rules of {len(rules.packs)} packs, {lines} lines, {len(failures)} failures")
    return 2 if failures else 0


def safe(text: str) -> str:
    """Text from a log or a pack for a terminal: control characters and direction overrides shown as `\\xNN`."""
    return _UNSAFE.sub(lambda hit: f"\\x{ord(hit[0]):02x}", text)


# Trying a log


@dataclass(slots=True)
class Trial:
    """What the rules make of one log.

    Attributes:
        lines: lines read. `known`: lines that some rule knows.
        hits: events by (rule or kind of event, verdict). `first`: line number of each one's first.
        unknown: how often each shape of unknown line came; `examples`: one line of each shape, and its number.
        dropped: unknown lines whose shape was too rare to be kept.
    """

    lines: int = 0
    known: int = 0
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], int] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    dropped: int = 0


def try_file(rules: RuleSet, path: Path) -> Trial:
    """Scan one log and count.

    Raises:
        TicError: it cannot be read.
    """
    trial = Trial()
    try:
        reference = datetime.fromtimestamp(path.stat().st_mtime)
        source = Scanner(rules).open(SourceTraits(reference_time=reference))
        source.keep_repeats()
        with _opened(path) as stream:
            spans = sorted(_count(trial, source, stream))
        with _opened(path) as stream:
            _unknown(trial, spans, stream)
    except (OSError, EOFError) as error:
        raise TicError(f"{path}: cannot be read: {error}", "give a readable log") from error
    return trial


def _opened(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _count(trial: Trial, source: SourceScanner, stream: BinaryIO) -> Iterator[tuple[int, int]]:
    """Count events; yields the byte ranges that some rule knows."""

    def events() -> Iterator[list[Event]]:
        rest = b""
        while data := stream.read(CHUNK):
            data = rest + data
            cut = data.rfind(b"\n") + 1
            if cut:
                yield source.feed(data[:cut])
            rest = data[cut:]
            if len(rest) > CHUNK:
                yield source.feed_piece(rest)
                rest = b""
        yield source.finish(rest)

    for batch in events():
        for event in batch:
            key = _key(event)
            if key is None:
                continue
            trial.hits[key] += 1
            trial.first.setdefault(key, event.at.line_no)
            yield event.at.byte_offset, event.at.byte_offset + event.at.byte_length


def _key(event: Event) -> tuple[str, str] | None:
    """(rule or kind, verdict) of an event that a rule made, else None."""
    if isinstance(event, Fault):
        return event.kind, event.verdict
    if isinstance(event, Mismatch):
        return "tic.mismatch", event.parse_state
    if isinstance(event, (Device, Metric, Timing)):
        return f"({event.table})", ""
    if isinstance(event, Gap):
        return f"({event.kind})", ""
    name = getattr(event, "rule", "")
    return (name, "") if name else None


def _unknown(trial: Trial, spans: list[tuple[int, int]], stream: BinaryIO) -> None:
    """Count the lines that lie in no span, by shape."""
    starts = [start for start, _end in spans]
    years = Years(None)
    offset, whole = 0, True
    while line := stream.readline(CHUNK):
        end = offset + len(line)
        trial.lines += whole
        goes_on, whole = not whole, line.endswith(b"\n")
        place = bisect_right(starts, end - 1) - 1
        if place >= 0 and spans[place][1] > offset:
            trial.known += not goes_on
        elif line.strip() and not goes_on:
            text = line[:SHAPE_BYTES].decode("utf-8", "replace").rstrip()
            shape = _NUMBERS.sub("N", _HEX.sub("H", peel(text, years).text))
            trial.unknown[shape] += 1
            trial.examples.setdefault(shape, (trial.lines, text))
            if len(trial.unknown) > MAX_SHAPES:
                _forget_rare(trial)
        offset = end


def _forget_rare(trial: Trial) -> None:
    """Drop the rarer half of the shapes."""
    kept = dict(trial.unknown.most_common(MAX_SHAPES // 2))
    trial.dropped += trial.unknown.total() - sum(kept.values())
    trial.unknown = Counter(kept)
    trial.examples = {shape: trial.examples[shape] for shape in kept}


def report(trial: Trial, top: int) -> str:
    """A trial as text: hits by rule, then unknown lines, those that sound alarming first."""
    out = [f"{trial.lines} lines, {trial.known} known to some rule"]
    for key, count in sorted(trial.hits.items(), key=lambda item: (-item[1], item[0])):
        name, verdict = key
        out.append(f"{count:>9}  {name:<28} {verdict:<11} first at line {trial.first[key]}")
    alarming = [(shape, n) for shape, n in trial.unknown.most_common() if _ALARM.search(shape)][:top]
    common = trial.unknown.most_common(top)
    for title, chosen in (("unknown lines that sound alarming", alarming), ("commonest unknown lines", common)):
        if chosen:
            out += ["", f"{title} (numbers as N, one example's line number):"]
            out += [f"{n:>9}  line {trial.examples[shape][0]}: {shape[:160]}" for shape, n in chosen]
    if trial.dropped:
        out += ["", f"{trial.dropped} unknown lines had shapes too rare to be kept"]
    return safe("\n".join(out))
