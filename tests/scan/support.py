"""What the scanner's tests share: one scanner with the packs of the program, and short ways to feed it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TypeVar

from tic_daemon.scan.events import Event, Mismatch
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner, SourceScanner
from tic_daemon.scan.traits import SourceTraits

E = TypeVar("E")
REFERENCE = datetime(2026, 11, 30, 12, 0, 0)
TRAITS = SourceTraits(reference_time=REFERENCE)


@cache
def scanner(engine: str = "auto") -> Scanner:
    return Scanner(RuleSet.load(), engine)


def opened(**traits: object) -> SourceScanner:
    return scanner().open(SourceTraits(**{"reference_time": REFERENCE, **traits}))  # type: ignore[arg-type]


def scan(text: str | bytes, **traits: object) -> list[Event]:
    """Events of a whole file."""
    data = text.encode() if isinstance(text, str) else text
    whole = data.rfind(b"\n") + 1
    source = opened(**traits)
    return source.feed(data[:whole]) + source.finish(data[whole:])


def of(events: Sequence[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def fields_of(record: Mismatch) -> dict[str, str]:
    """The seed's fields of a record as they were printed, by the seed's names."""
    return {
        "run": record.run,
        "step": str(record.at.step),
        "policy": record.at.policy,
        "input": record.input,
        "phase": record.phase,
        "rank": record.rank_text,
        "repeat": record.repeat,
        "scope": record.scope,
        "intervention": record.intervention,
        "metric": record.metric,
        "value": record.value_text,
        "reference": record.reference,
        "self_repeat": record.self_repeat_text,
        "report": record.report,
        "classification": record.classification,
    }
