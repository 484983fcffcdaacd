"""Mismatch over steps: smallest to largest value per span of steps, so that a spike never vanishes.

Evidence is drawn in braille; a number that is no evidence never looks like one: x locked, ? suspect, o not evidence,
also where there is no colour. A horizontal line is the noise floor (the largest self_repeat), a vertical one the step
of the first fault. The value axis is logarithmic where all values are positive and spread over more than a decade, and
says so.
"""

from __future__ import annotations

import math
from typing import Final

from tic_tui.glyphs import Glyphs
from tic_tui.model import Bucket, Series
from tic_tui.render.text import Builder, Line, short, width_of
from tic_tui.safe import Safe

_AXIS: Final = 10  # cells of the value axis
_SIGNS: Final = {"locked": "x", "suspect": "?", "not evidence": "o"}
_WORST: Final = ("locked", "suspect", "not evidence")  # which sign wins a cell
_DECADE: Final = 10.0
# Bits of a braille cell by (dot row, dot column), Unicode's numbering.
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def plot_columns(width: int, glyphs: Glyphs) -> int:
    """How many spans of steps a plot of this width shows: two a cell in braille, one in ASCII."""
    cells = max(0, width - _AXIS - 1)
    return cells * 2 if glyphs.braille else cells


def plot(series: Series | None, fault_step: int | None, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """`height` lines: a title, the plot, and the axis of steps; or one line that says why there is none.

    Args:
        series: what to plot. One that was read for another width, just before a resize, is not squeezed into this one.
        fault_step: step of the first fault of a locked run.
        height: at least four.
    """
    if series is None:
        return [Builder(width, glyphs).add("no mismatch record of this run has a metric yet", "dim").line()]
    title = _title(series, width, glyphs)
    if not series.buckets:
        return [title.add(": no finite value with a step", "dim").line()]
    if series.asked != plot_columns(width, glyphs):
        return [title.line()]
    scale = _Scale(series, height - 2, 4 if glyphs.braille else 1)
    _legend(title, series, scale, glyphs)
    canvas = _Canvas(series, scale, width - _AXIS - 1, glyphs, fault_step)
    lines = [title.line()]
    for y in range(height - 2):
        label = short(scale.high) if y == 0 else short(scale.low) if y == height - 3 else ""
        b = Builder(width, glyphs).cell(label, _AXIS - 1, "dim", right=True).add(Safe(glyphs.vertical), "dim")
        lines.append(canvas.row(y, b))
    return [*lines, _steps_axis(series, fault_step, width, glyphs)]


def _title(series: Series, width: int, glyphs: Glyphs) -> Builder:
    title = Builder(width, glyphs).add(" ").add(series.metric, "title")
    if len(series.metrics) > 1:
        title.add(f" ({series.metrics.index(series.metric) + 1} of {len(series.metrics)})", "dim")
    return title.add(" over steps", "dim")


def _legend(title: Builder, series: Series, scale: _Scale, glyphs: Glyphs) -> None:
    if scale.log:
        title.add_if_fits(", log", "dim")
    if series.floor is not None:
        title.add_if_fits(f"   {glyphs.floor}{glyphs.floor} noise floor {short(series.floor)}", "dim")
    present = {str(b.standing) for b in series.buckets}
    if "evidence" in present:
        title.add_if_fits(f"   {chr(0x2812) if glyphs.braille else '*'} evidence", "admissible")
    for standing in _WORST:
        if standing in present:
            title.add_if_fits(f"   {_SIGNS[standing]} {standing}", _tone(standing))
    if series.unplotted:
        title.add_if_fits(f"   {series.unplotted} without a finite value or step", "stale")


def _tone(standing: str) -> str:
    return standing if standing in {"locked", "suspect"} else "dim"


class _Scale:
    """The value axis: from a value to a dot row, 0 at the top."""

    def __init__(self, series: Series, rows: int, per_row: int) -> None:
        low = min(b.low for b in series.buckets)
        high = max(b.high for b in series.buckets)
        if series.floor is not None and math.isfinite(series.floor) and series.floor >= 0:
            # A floor of 0 has no place on a logarithmic axis; it is named in the title all the same.
            low, high = (min(low, series.floor) if series.floor > 0 or low <= 0 else low), max(high, series.floor)
        self.log = low > 0 and high / low > _DECADE
        if low == high:
            pad = abs(low) * 0.1 or 1.0
            low, high = low - pad, high + pad
        self.low, self.high = low, high
        self._dots = rows * per_row

    def dot(self, value: float) -> int:
        """The dot row of a value, kept inside the plot."""
        # Halved, so that the difference of two huge values stays finite.
        if self.log:
            share = (math.log(max(value, self.low)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return min(self._dots - 1, max(0, round((1 - share) * (self._dots - 1))))


def _cell_of(series: Series, step: int, cells: int) -> int:
    """The cell in whose middle a step stands."""
    steps = series.last_step - series.first_step + 1
    return min(cells - 1, (2 * (step - series.first_step) + 1) * cells // (2 * steps))


def _steps_axis(series: Series, fault_step: int | None, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(Safe(" " * _AXIS)).add(f"step {series.first_step}", "dim")
    if fault_step is not None and series.first_step <= fault_step <= series.last_step:
        text = f"{glyphs.fault} first fault, step {fault_step}"
        at = _AXIS + _cell_of(series, fault_step, width - _AXIS - 1)
        start = max(b.used + 2, min(at, width - width_of(text) - len(str(series.last_step)) - 3))
        b.add(Safe(" " * (start - b.used))).add(text, "locked")
    return b.right(str(series.last_step), "dim").line()


class _Canvas:
    """The cells of one plot."""

    def __init__(self, series: Series, scale: _Scale, cells: int, glyphs: Glyphs, fault_step: int | None) -> None:
        self._glyphs = glyphs
        self._cells = cells
        self._per_cell = 2 if glyphs.braille else 1
        self._per_row = 4 if glyphs.braille else 1
        self._bits: dict[tuple[int, int], int] = {}
        self._signs: dict[tuple[int, int], str] = {}
        self._floor = scale.dot(series.floor) // self._per_row if series.floor else None
        self._fault = None
        if fault_step is not None and series.first_step <= fault_step <= series.last_step:
            self._fault = _cell_of(series, fault_step, cells)
        dots = cells * self._per_cell
        for bucket in series.buckets:
            first = bucket.column * dots // series.columns
            behind = max(first + 1, (bucket.column + 1) * dots // series.columns)
            self._draw(bucket, first, behind, scale.dot(bucket.high), scale.dot(bucket.low))

    def _draw(self, bucket: Bucket, first: int, behind: int, top: int, bottom: int) -> None:
        standing = str(bucket.standing) if bucket.standing in {*_WORST, "evidence"} else "suspect"
        for y in range(top, bottom + 1):
            for x in range(first, behind):
                at = x // self._per_cell, y // self._per_row
                if standing == "evidence":
                    self._bits[at] = self._bits.get(at, 0) | _DOTS[y % self._per_row][x % self._per_cell]
                elif at not in self._signs or _WORST.index(standing) < _WORST.index(self._signs[at]):
                    self._signs[at] = standing

    def row(self, y: int, b: Builder) -> Line:
        """Appends one row of cells; neighbours of one tone share a span."""
        run, tone = "", ""
        for x in range(self._cells):
            glyph, shade = self._cell(x, y)
            if shade != tone and run:
                b.add(Safe(run), tone)
                run = ""
            run, tone = run + glyph, shade
        return b.add(Safe(run), tone).line()

    def _cell(self, x: int, y: int) -> tuple[str, str]:
        if standing := self._signs.get((x, y)):
            return _SIGNS[standing], _tone(standing)
        if bits := self._bits.get((x, y)):
            return (chr(0x2800 + bits) if self._glyphs.braille else "*"), "admissible"
        if x == self._fault:
            return self._glyphs.vertical, "locked"
        if y == self._floor:
            return self._glyphs.floor, "dim"
        return " ", "text"
