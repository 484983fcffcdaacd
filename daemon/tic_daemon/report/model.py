"""A report as a document, before it is Markdown or HTML.

What came from outside (names, paths, lines of logs, what people wrote) is `Code`; `Word` is a word with a meaning that
is also shown as a colour; a plain `str` is prose, ours or a view's, and is escaped all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

Tone = Literal["good", "bad", "warn", "dim"]


@dataclass(frozen=True, slots=True)
class Code:
    """Text from outside, as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A word that means something by itself, and its colour."""

    text: str
    tone: Tone


Inline = str | Code | Word
Line = tuple[Inline, ...]
Cell = Inline | Line


@dataclass(frozen=True, slots=True)
class Para:
    """One paragraph."""

    line: Line


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns. `note`: what is not in it, such as how many rows there are besides; ""."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind. `filled`: they are evidence; else they are drawn hollow. `joined`: with a line."""

    name: str
    points: tuple[tuple[float, float], ...]
    filled: bool = True
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Values over steps. `marks`: steps at which something happened, with a word. `name`: a file name's stem."""

    name: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """Counts by class."""

    name: str
    title: str
    x: str
    bars: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...] = field(default_factory=tuple)


Block = Para | Bullets | Table | Plot | Bars | Section
NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report. `title` may hold a name from outside."""

    title: Line
    blocks: tuple[Block, ...]


def para(*line: Inline) -> Para:
    """A paragraph."""
    return Para(line)


def table(columns: str, rows: Iterable[Sequence[Cell]], note: str = "") -> Table:
    """A table. `columns`: their names, with bars between."""
    return Table(tuple(columns.split("|")), tuple(tuple(row) for row in rows), note)


def code(value: object) -> Inline:
    """Text from outside; a dash if nothing was said."""
    return Code(str(value)) if value not in (None, "") else NOTHING


def text(value: object) -> str:
    """A number, a time or a word in prose; a dash for nothing."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value)


def some(count: int, what: str) -> str:
    """`3 faults`, `1 fault`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {_many(what)}"


def _many(what: str) -> str:
    return what[:-1] + "ies" if what.endswith("y") else what + "s"


def spans(steps: Iterable[int]) -> str:
    """`0 to 4, 7`: whole numbers as spans, in order."""
    parts: list[list[int]] = []
    for step in sorted(set(steps)):
        if parts and step == parts[-1][1] + 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in parts)


TONES: Final[dict[str, Tone]] = {
    "pass": "good",
    "PASS": "good",
    "admissible": "good",
    "met": "good",
    "agree": "good",
    "verified": "good",
    "equal": "good",
    "comparable": "good",
    "in force": "good",
    "current": "good",
    "ok": "good",
    "confirmed": "bad",
    "fail": "bad",
    "FAIL": "bad",
    "locked": "bad",
    "unmet": "bad",
    "disagree": "bad",
    "differs": "bad",
    "missing": "bad",
    "changed": "bad",
    "inconclusive": "warn",
    "INVALID": "warn",
    "VACUOUS": "warn",
    "suspect": "warn",
    "stale": "warn",
    "partial": "warn",
    "value_differs": "warn",
    "superseded": "warn",
    "pending": "warn",
    "duplicate": "warn",
    "out_of_order": "warn",
    "not run": "dim",
    "unknown": "dim",
    "historical": "dim",
    "not watched": "dim",
    "retracted": "dim",
}


def word(value: object) -> Inline:
    """A state, with the tone that it has everywhere."""
    shown = text(value)
    tone = TONES.get(shown)
    return Word(shown, tone) if tone else shown
