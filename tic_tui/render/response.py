"""Where in a response two sides differ, and how large the differences are: a strip, and a histogram.

A strip is how many valid tokens differ in each of equal pieces of a response. A cell shows the share of its valid
tokens as one of four shades, and one token is enough for the first. The histogram counts by powers of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp, isfinite
from typing import Final

from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line, count, width_of
from tic_tui.safe import Safe

_SHADES: Final = "·░▒▓█"
_ASCII: Final = ".:+*#"
_TONES: Final = ("dim", "text", "text", "suspect", "suspect")
NOTHING: Final = -1
"""The level of a cell without a valid token."""


def shades(glyphs: Glyphs) -> str:
    """Five signs: nothing differs, then up to a quarter, a half, three quarters, all of a cell's valid tokens."""
    return _SHADES if glyphs.braille else _ASCII


def legend(width: int, glyphs: Glyphs) -> Line:
    """The signs in words, as many as fit."""
    none, few, half, many, most = tuple(shades(glyphs))
    b = Builder(width, glyphs).add_if_fits(f"  {none} equal", "dim")
    if b.room >= width_of(words := f"  {few} to 25  {half} to 50  {many} to 75  {most} to 100 % differ"):
        return b.add(words, "dim").add_if_fits("  blank: masked", "dim").line()
    return b.add_if_fits(f"  {few}{half}{many}{most} some to all differ", "dim").line()


def levels(strip: Sequence[int], valid: Sequence[int], cells: int) -> list[int]:
    """The shade of each cell, 0 to 4, or NOTHING.

    Args:
        strip, valid: in each of equal pieces of the response, how many valid tokens differ, and how many there are.
        cells: how many are drawn, at most; never more than there are pieces.
    """
    pieces = min(len(strip), len(valid))
    shown = min(cells, pieces)
    found = []
    for cell in range(shown):
        first, behind = cell * pieces // shown, (cell + 1) * pieces // shown
        differ, of = sum(strip[first:behind]), sum(valid[first:behind])
        found.append(NOTHING if not of else min(4, -(-4 * differ // of)))
    return found


def add_strip(b: Builder, strip: Sequence[int] | None, valid: Sequence[int] | None, cells: int) -> Builder:
    """Appends a strip of at most so many cells; in words where there is none."""
    if not strip or not valid:
        return b.add_if_fits("not recorded", "dim")
    signs, run, tone = shades(b.glyphs), "", ""
    for level in levels(strip, valid, cells):
        shade = _TONES[level] if level != NOTHING else "dim"
        if shade != tone and run:
            b.add(Safe(run), tone)
            run = ""
        run, tone = run + (signs[level] if level != NOTHING else " "), shade
    return b.add(Safe(run), tone)


def ruler(length: int, pieces: int, cells: int, width: int, glyphs: Glyphs) -> Line:
    """Positions under a strip: its first, its last, and how many a cell holds."""
    shown = min(cells, pieces)
    b = Builder(width, glyphs).add(" 0")
    each = f"{length / shown:.3g} positions a cell" if shown else ""
    last = str(max(0, length - 1))
    if shown > width_of(each) + len(last) + 5:
        b.add("  ").add(each, "dim")
    return b.add(Safe(" " * max(2, 1 + shown - b.used - len(last)))).add(last).line()


def histogram(
    magnitudes: Mapping[int, int], valid: int | None, marks: Mapping[str, float | None], rows: int, width: int,
    glyphs: Glyphs,
) -> list[Line]:  # fmt: skip
    """Tokens by the size of their difference, the largest first.

    Args:
        magnitudes: key e counts 2^(e-1) <= abs(d) < 2^e, of tokens with d != 0.
        valid: all valid tokens; what is left has the same value.
        marks: values by name, named in the row in which each lies.
        rows: at most so many; powers are put together until there are no more.
    """
    if not magnitudes:
        return [Builder(width, glyphs).add("  no token has another value", "dim").line()]
    step = 1
    while len(groups := _grouped(magnitudes, step)) > max(1, rows):
        step *= 2
    most = max(groups.values())
    named = _named(marks, groups, step)
    digits = max(5, *(len(count(n)) for n in groups.values()))
    label = max(width_of(_label(top, step)) for top in groups)
    room = max(4, min(48, width - label - digits - 8 - max((width_of(n) for n in named.values()), default=0)))
    bar, lines = "█" if glyphs.braille else "#", []
    for top in sorted(groups, reverse=True):
        b = Builder(width, glyphs).add("  ").cell(_label(top, step), label, "dim")
        number = groups[top]
        b.cell(count(number) if number else "-", digits, "text" if number else "dim", right=True).add(" ")
        cells = max(1, round(room * number / most)) if number else 0
        b.add(Safe(bar * cells), "text")
        if top in named:
            b.add_if_fits(f"  {named[top]}", "key")
        lines.append(b.line())
    if valid is not None:
        same = valid - sum(magnitudes.values())
        b = Builder(width, glyphs).add("  ").cell("same value", label, "dim")
        lines.append(b.cell(count(same), digits, "text", right=True).line())
    return lines


def _grouped(magnitudes: Mapping[int, int], step: int) -> dict[int, int]:
    """Counts by the upper power of each row, without a hole between the smallest and the largest."""
    tops = {e: -(-e // step) * step for e in magnitudes}
    found = dict.fromkeys(range(min(tops.values()), max(tops.values()) + 1, step), 0)
    for e, number in magnitudes.items():
        found[tops[e]] += number
    return found


def _label(top: int, step: int) -> str:
    return f"2^{top - step} to 2^{top}"


def _named(marks: Mapping[str, float | None], groups: Mapping[int, int], step: int) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for name, value in marks.items():
        if value is not None and value > 0 and isfinite(value):
            e = _power(value)
            top = -(-e // step) * step
            if top in groups:
                found.setdefault(top, []).append(name)
    return {top: ", ".join(names) for top, names in found.items()}


def _power(value: float) -> int:
    """e with 2^(e-1) <= value < 2^e."""
    return frexp(value)[1]
