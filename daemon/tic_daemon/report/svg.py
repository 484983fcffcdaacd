"""Plots as SVG: axes, lines, points and bars, and nothing else.

A plotting library would be the heaviest thing that the daemon depends on (matplotlib brings ten packages and 30 MB),
for a few fixed shapes; and its SVG holds the time it was made. This writer's output depends on the numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from tic_daemon.output import one_line
from tic_daemon.report.model import Bars, Plot, Series

WIDTH: Final = 720
HEIGHT: Final = 260
LEFT: Final = 74
RIGHT: Final = 16
TOP: Final = 30
BOTTOM: Final = 42
_TICKS: Final = 5
_SHAPES: Final = ("circle", "square", "diamond", "triangle")
_AXIS: Final = 'stroke="#8a8f98" fill="none"'
_GRID: Final = 'stroke="#8a8f98" stroke-opacity=".25"'
_INK: Final = "#78808c"
_MARK: Final = "#d2452a"
_COLOURS: Final = ("#2f7fc8", "#c06f1f", "#2c9a60", "#8f5fc4")
"""Told apart on a light and on a dark page, and by shape without any colour."""


def drawn(block: Plot | Bars, *, alone: bool = False) -> str:
    """The plot. `alone`: as a file of its own, with its namespace."""
    inside = _bars(block) if isinstance(block, Bars) else _plot(block)
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    look = f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}"'
    head = f'<svg{space} viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(block.title)}" {look}>'
    return f"{head}<title>{_text(block.title)}</title>{''.join(inside)}</svg>\n"


def _plot(block: Plot) -> list[str]:
    points = [point for series in block.series for point in series.points if all(map(math.isfinite, point))]
    if not points:
        return [_word(WIDTH / 2, HEIGHT / 2, "no finite value", "middle")]
    across = Scale([x for x, _ in points] + [x for x, _ in block.marks], LEFT, WIDTH - RIGHT)
    up = Scale([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = _axes(across, up, block.x, block.y)
    for number, series in enumerate(block.series):
        parts += _series(series, number, across, up)
    for number, (x, what) in enumerate(block.marks):
        at = across.of(x)
        parts.append(f'<path stroke="{_MARK}" stroke-dasharray="5 4" d="M{_n(at)} {TOP}V{HEIGHT - BOTTOM}"/>')
        side = "end" if at > WIDTH * 0.8 else "start"
        parts.append(_word(at + (-4 if side == "end" else 4), TOP + 12 + 13 * (number % 3), what, side, _MARK))
    return parts + _legend(block.series)


def _axes(across: Scale, up: Scale, x: str, y: str) -> list[str]:
    parts = [f'<path {_AXIS} d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    for value in up.ticks():
        at = up.of(value)
        parts.append(f'<path {_GRID} d="M{LEFT} {_n(at)}H{WIDTH - RIGHT}"/>')
        parts.append(_word(LEFT - 6, at + 4, f"{value:.4g}", "end"))
    for value in across.ticks():
        parts.append(_word(across.of(value), HEIGHT - BOTTOM + 16, f"{value:.6g}", "middle"))
    parts.append(_word((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x, "middle"))
    return [*parts, _word(LEFT - 66, TOP - 14, y, "start")]


def _series(series: Series, number: int, across: Scale, up: Scale) -> list[str]:
    colour = _COLOURS[number % 4]
    places = [(across.of(x), up.of(y)) for x, y in series.points if math.isfinite(x) and math.isfinite(y)]
    if series.joined:
        line = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
        return [f'<polyline {_dashed(colour)} points="{line}"/>']
    return [_shape(_SHAPES[number % 4], x, y, _look(series, colour)) for x, y in places]


def _look(series: Series, colour: str) -> str:
    return f'stroke="{colour}" fill="{colour if series.filled else "none"}"'


def _dashed(colour: str) -> str:
    return f'stroke="{colour}" stroke-dasharray="3 3" stroke-opacity=".7" fill="none"'


def _shape(shape: str, x: float, y: float, look: str) -> str:
    if shape == "circle":
        return f'<circle {look} cx="{_n(x)}" cy="{_n(y)}" r="3.2"/>'
    offsets = {
        "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "diamond": ((0, -4), (4, 0), (0, 4), (-4, 0)),
        "triangle": ((0, -4), (4, 3), (-4, 3)),
    }[shape]
    corners = " ".join(f"{_n(x + a)},{_n(y + b)}" for a, b in offsets)
    return f'<polygon {look} points="{corners}"/>'


def _legend(series: Sequence[Series]) -> list[str]:
    parts, at = [], float(WIDTH - RIGHT)
    for number in range(len(series) - 1, -1, -1):
        one = series[number]
        name = _short(one.name)
        at -= 6.8 * len(name) + 6
        parts.append(_word(at, TOP - 14, name, "start"))
        colour = _COLOURS[number % 4]
        if one.joined:
            parts.append(f'<path {_dashed(colour)} d="M{_n(at - 20)} {TOP - 18}h14"/>')
        else:
            parts.append(_shape(_SHAPES[number % 4], at - 8, TOP - 18, _look(one, colour)))
        at -= 26
    return parts


def _bars(block: Bars) -> list[str]:
    most = max((count for _, count in block.bars), default=0)
    if not most:
        return [_word(WIDTH / 2, HEIGHT / 2, "nothing to count", "middle")]
    up = Scale([0.0, float(most)], HEIGHT - BOTTOM, TOP)
    slot = (WIDTH - LEFT - RIGHT) / len(block.bars)
    parts = [f'<path {_AXIS} d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    for value in up.ticks():
        parts.append(f'<path {_GRID} d="M{LEFT} {_n(up.of(value))}H{WIDTH - RIGHT}"/>')
        parts.append(_word(LEFT - 6, up.of(value) + 4, f"{value:,.0f}", "end"))
    every = max(1, math.ceil(len(block.bars) / 16))
    for number, (name, count) in enumerate(block.bars):
        x, y = LEFT + slot * number, up.of(count)
        height = HEIGHT - BOTTOM - y
        parts.append(
            f'<rect fill="{_COLOURS[0]}" x="{_n(x + slot * 0.1)}" y="{_n(y)}" width="{_n(slot * 0.8)}"'
            f' height="{_n(height)}"><title>{_text(name)}: {count:,}</title></rect>'
        )
        if number % every == 0:
            parts.append(_word(x + slot / 2, HEIGHT - BOTTOM + 16, name, "middle"))
    return [
        *parts,
        _word((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, block.x, "middle"),
        _word(8, TOP - 14, "count", "start"),
    ]


class Scale:
    """Where values stand between two places. Equal values stand in the middle."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low, self.high = min(values), max(values)
        if self.low / 2 == self.high / 2:  # equal, or nearer than the span of two numbers can be
            room = abs(self.low) * 0.1 or 1.0
            self.low, self.high = self.low - room, self.high + room
        self._start, self._end = start, end

    def of(self, value: float) -> float:
        """The place of a value."""
        # Halves, as a span between the largest numbers is no number.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self._start + (self._end - self._start) * share

    def ticks(self) -> list[float]:
        """Round values within the span, a few."""
        width = self.high / 2 - self.low / 2
        raw = width / _TICKS * 2
        if not math.isfinite(raw) or raw <= 0:
            return [self.low, self.high]
        power = 10.0 ** math.floor(math.log10(raw))
        if power == 0:  # below what a double holds exactly
            return [self.low, self.high]
        size = next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= raw * 0.999)
        first = math.ceil(self.low / size)
        found = [(first + number) * size for number in range(_TICKS * 3)]
        return [value for value in found if value <= self.high]


def _word(x: float, y: float, what: str, anchor: str, colour: str = "") -> str:
    named = f' fill="{colour}"' if colour else ""
    return f'<text{named} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{_text(_short(what))}</text>'


def _short(what: str) -> str:
    return what if len(what) <= 48 else what[:47] + "…"


def _text(what: str) -> str:
    return escape(one_line(what))


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
