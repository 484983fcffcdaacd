"""A document as Markdown (GitHub's). No text of it can be anything but text: no HTML, link, image, mention or heading.

Text from outside is a code span. Prose is escaped, and becomes a code span where a reader might make a link or a
mention out of it. Control characters, and those that hide or reorder text, are shown as escapes.
"""

from __future__ import annotations

import re
from typing import Final

from tic_daemon.output import one_line
from tic_daemon.report import svg
from tic_daemon.report.model import (
    Bars,
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Inline,
    Line,
    Para,
    Plot,
    Section,
    Table,
    Word,
)
from tic_daemon.report.model import text as told

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~&$])")
_BEGIN: Final = re.compile(r"^([-+=#>]|\d+[.)])")
_LIVELY: Final = re.compile(r"@|://|www\.|#\d|mailto:|xmpp:", re.IGNORECASE)
_WORDS: Final = re.compile(r"\w([\w ]*\w)?", re.ASCII)
_BOLD: Final = ("bad", "warn")
POINTS: Final = 60


def render(document: Document, plots: str = "") -> str:
    """The document.

    Args:
        plots: directory that holds its plots as `NAME.svg`; "": they are tables alone.
    """
    lines = [f"# {_line(document.title)}", ""]
    for block in document.blocks:
        lines += _block(block, 2, plots)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def _block(block: Block, level: int, plots: str) -> list[str]:
    if isinstance(block, Section):
        lines = [f"{'#' * min(level, 6)} {escaped(block.title)}", ""]
        for one in block.blocks:
            lines += _block(one, level + 1, plots)
        return lines
    if isinstance(block, Para):
        return [_begun(_line(block.line)), ""]
    if isinstance(block, Bullets):
        return [*(f"- {_begun(_line(line))}" for line in block.lines), ""]
    if isinstance(block, Table):
        return _table(block)
    image = [f"![{escaped(block.title)}]({plots}/{block.name}.svg)", ""] if plots else []
    return [*image, *(_points(block) if isinstance(block, Plot) else _bars(block))]


def _table(block: Table) -> list[str]:
    lines = [
        f"| {' | '.join(escaped(name) for name in block.columns)} |",
        f"| {' | '.join('---' for _ in block.columns)} |",
        *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in block.rows),
        "",
    ]
    return [*lines, _begun(escaped(block.note)), ""] if block.note else lines


def _points(block: Plot) -> list[str]:
    """The plotted numbers: all, or evenly chosen ones with the largest among them."""
    lines: list[str] = []
    for series in block.series:
        points = sorted(series.points)
        chosen = points
        if len(points) > POINTS:
            chosen = sorted({*points[:: -(-len(points) // POINTS)], max(points, key=lambda one: one[1])})
        rows = [(told(x), told(y)) for x, y in chosen]
        note = f"{len(chosen)} of {len(points)} points" if len(chosen) < len(points) else ""
        lines += [f"{escaped(block.title)}: {escaped(series.name)}", ""]
        lines += _table(Table((block.x, block.y), tuple(rows), note))
    return lines


def _bars(block: Bars) -> list[str]:
    lines = [escaped(block.title), ""]
    return lines + _table(Table((block.x, "count"), tuple((name, f"{count:,}") for name, count in block.bars)))


def _cell(cell: Cell) -> str:
    return _line(cell, row=True) if isinstance(cell, tuple) else _inline(cell, row=True)


def _line(line: Line, *, row: bool = False) -> str:
    return "".join(_inline(one, row=row) for one in line)


def _inline(one: Inline, *, row: bool = False) -> str:
    if isinstance(one, Code):
        return span(one.text, row=row)
    if isinstance(one, Word):
        bold = one.tone in _BOLD and _WORDS.fullmatch(
            one.text
        )  # what bold may begin and end with is a science of its own
        return f"**{escaped(one.text)}**" if bold else escaped(one.text, row=row)
    return escaped(one, row=row)


def escaped(text: str, *, row: bool = False) -> str:
    """Prose that is prose for every reader of Markdown."""
    if _LIVELY.search(text):
        return span(text, row=row)
    return _SPECIAL.sub(r"\\\1", _single(text))


def span(text: str, *, row: bool = True) -> str:
    """A code span that shows `text`. `row`: within a table, where a bar would end the cell."""
    shown = _single(text)
    shown = shown.replace("|", r"\x7c") if row else shown
    if not shown.strip(" "):
        return f'"{shown}"'
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    # One space at either end is taken off by the reader, if both are there.
    room = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{room}{shown}{room}{fence}"


def _begun(line: str) -> str:
    """A line that begins no list, heading, quote, rule or block of code."""
    return _BEGIN.sub(lambda found: _guarded(found[1]), line.lstrip(" "))


def _guarded(begin: str) -> str:
    return f"{begin[:-1]}\\{begin[-1]}"


def _single(text: str) -> str:
    return one_line(text).replace("\t", " ")


def plots_of(document: Document) -> dict[str, str]:
    """The document's plots as SVG, by file name."""
    found: dict[str, str] = {}

    def walk(block: Block) -> None:
        if isinstance(block, Section):
            for one in block.blocks:
                walk(one)
        elif isinstance(block, Plot | Bars):
            found[f"{block.name}.svg"] = svg.drawn(block, alone=True)

    for block in document.blocks:
        walk(block)
    return found
