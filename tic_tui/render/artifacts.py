"""The artifacts of a run in one line: how many are verified, and how many are not as they should be."""

from __future__ import annotations

from collections.abc import Mapping

from tic_tui.artifacts import HOLD, words
from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line


def lines(states: Mapping[str, int], width: int, glyphs: Glyphs) -> list[Line]:
    """None without an artifact; else the line, what is wrong marked."""
    if not states:
        return []
    held = {state: count for state, count in states.items() if state in HOLD}
    wrong = {state: count for state, count in states.items() if state not in HOLD}
    b = Builder(width, glyphs).add(" ").cell("artifacts", 12, "head")
    if held:
        b.add(words(held))
    if wrong:
        b.add(f"{' ' if held else ''} {glyphs.fault} {words(wrong)} ", "suspect")
    return [b.line()]
