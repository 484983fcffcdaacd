"""Columns of a table of records or comparisons: which of them there is room for, and their names in its head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line

STANDING: Final = "standing"
"""The column after all others; in a filter it is called admissibility."""
STANDING_CELLS: Final = 12
_RUN_CELLS: Final = 15


class Column(NamedTuple):
    """A column: `filter` is the name to filter it by; it is dropped below `least` cells."""

    name: str
    cells: int
    least: int
    filter: str
    right: bool = False


@dataclass(frozen=True)
class Columns:
    """Columns in the order in which they stand, and what is written over the text that takes what is left."""

    all: tuple[Column, ...]
    rest: str

    def fitting(self, width: int, *, all_runs: bool = False) -> list[Column]:
        """The columns for which there is room. The run is one only where rows of several are shown."""
        # Where the run is a column, what stands to the right needs as many cells more.
        more = {c.name: _RUN_CELLS if all_runs and c.least > 60 else 0 for c in self.all}
        return [c for c in self.all if width >= c.least + more[c.name] and (all_runs or c.name != "run")]

    def filter_of(self, name: str) -> str:
        """What a column of the table is called in a filter."""
        return "admissibility" if name == STANDING else next(c.filter for c in self.all if c.name == name)

    def header(self, width: int, glyphs: Glyphs, *, chosen: str = "", all_runs: bool = False) -> Line:
        """Column names; the chosen one has a sign."""
        b = Builder(width, glyphs).add("  ", "head")
        for c in self.fitting(width, all_runs=all_runs):
            name = f"{glyphs.ascending}{c.name}" if c.name == chosen else c.name
            b.cell(name, c.cells, "key" if c.name == chosen else "head", right=c.right)
        name = f"{glyphs.ascending}{STANDING}" if chosen == STANDING else STANDING
        b.cell(name, STANDING_CELLS, "key" if chosen == STANDING else "head")
        return b.add_if_fits(self.rest, "head").line()
