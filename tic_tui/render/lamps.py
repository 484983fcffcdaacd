"""The three lamps of a run: execution, consistency, quality. None of them stands for another.

In the list of runs each is a sign under its letter; in words below the list, with the reason of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tic_tui.evidence_model import Lamp
from tic_tui.glyphs import Glyphs
from tic_tui.render.gates import sign
from tic_tui.render.text import Builder, Line, clean, width_of

NAMES: Final = ("execution", "consistency", "quality")
HEAD: Final = "ECQ"
_WORST: Final = ("fail", "inconclusive", "pass", "not run")


def _of(lamps: Sequence[Lamp], name: str) -> Lamp | None:
    return next((one for one in lamps if str(one.lamp) == name), None)


def signs(b: Builder, lamps: Sequence[Lamp] | None, glyphs: Glyphs) -> Builder:
    """Three cells and a blank: a sign each; blank where they are not read yet."""
    for name in NAMES:
        one = _of(lamps, name) if lamps is not None else None
        glyph, _, tone = sign(str(one.state), one.stale, glyphs) if one is not None else (" ", "", "dim")
        b.add(glyph, tone)
    return b.add(" ")


def lines(lamps: Sequence[Lamp], width: int, glyphs: Glyphs, *, most: int) -> list[Line]:
    """In words. `most` 3: a line each with its reason; 1: all in one, with the reason that matters most."""
    known = [one for one in (_of(lamps, name) for name in NAMES) if one is not None]
    if most >= len(NAMES):
        return [_whole(one, width, glyphs) for one in known]
    b = Builder(width, glyphs)
    for one in known:
        glyph, word, tone = sign(str(one.state), one.stale, glyphs)
        b.add_if_fits(f" {one.lamp} ", "head").add_if_fits(f"{glyph} {word} ", tone)
    first = min(known, key=lambda one: _WORST.index(str(one.state)) if str(one.state) in _WORST else 0, default=None)
    if first is not None and first.because and b.room > width_of(clean(first.lamp, glyphs)) + 12:
        b.add(f" {first.lamp}: {first.because}", "dim")
    return [b.line()] if known else []


def unread(why: str, width: int, glyphs: Glyphs) -> Line:
    """In the place of the words."""
    return Builder(width, glyphs).add(f" {glyphs.unreadable} lamps cannot be read: {why}", "gap").line()


def _whole(one: Lamp, width: int, glyphs: Glyphs) -> Line:
    glyph, word, tone = sign(str(one.state), one.stale, glyphs)
    b = Builder(width, glyphs).add(" ").cell(one.lamp, 12, "head").cell(f"{glyph} {word}", 16, tone)
    return b.add(one.because or "-", "dim").line()
