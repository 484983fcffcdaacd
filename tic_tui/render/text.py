"""Lines as values: what every render function returns and every widget draws.

A `Line` is a tuple of spans, each with a tone: a colour by meaning, that the theme turns into a style. Nothing here
knows a colour, a widget or an event loop, so that a line is tested as text. The builder expands tabs, passes whatever
is not yet `Safe` through the sanitiser, and never lets a line be wider than asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from tic_tui.glyphs import UNICODE, Glyphs
from tic_tui.plural import plural
from tic_tui.safe import Safe, safe

TONES: Final = (
    "text", "dim", "title", "key", "head", "locked", "suspect", "admissible", "stale", "gap", "rollout", "trainer",
    "notice", "banner", "frozen", "ok", "cursor",
)  # fmt: skip


class Span(NamedTuple):
    """Text of one tone."""

    text: str
    tone: str = "text"


Line = tuple[Span, ...]


@lru_cache(maxsize=4096)
def width_of(text: str) -> int:
    """Cells that a text takes."""
    return cell_len(text)


def clean(text: object, glyphs: Glyphs = UNICODE) -> str:
    """Drawable text without tabs; with the ASCII set, everything else is written as an escape."""
    drawable: str = text if type(text) is Safe else safe(text)
    if "\t" in drawable:
        drawable = drawable.replace("\t", "    ")
    if not glyphs.braille and not drawable.isascii():
        drawable = drawable.encode("ascii", "backslashreplace").decode("ascii")
    return drawable


def clip(text: str, width: int, ellipsis: str = "…") -> str:
    """At most `width` cells; what is cut is marked."""
    if width <= 0:
        return ""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, width - 1) + ellipsis


def clip_left(text: str, width: int, ellipsis: str = "…") -> str:
    """As `clip`, keeping the end: for paths, whose end tells more."""
    if width <= 0:
        return ""
    if width_of(text) <= width:
        return text
    kept = text[-width + 1 :] if width > 1 else ""
    while width_of(kept) > width - 1:
        kept = kept[1:]
    return ellipsis + kept


@dataclass(slots=True)
class Builder:
    """Builds one line of at most `width` cells from the left."""

    width: int
    glyphs: Glyphs = UNICODE
    spans: list[Span] = field(default_factory=list)
    used: int = 0

    @property
    def room(self) -> int:
        """Cells left."""
        return self.width - self.used

    def add(self, text: object, tone: str = "text") -> Builder:
        """Appends, cut at the right edge."""
        if self.room > 0:
            shown = clip(clean(text, self.glyphs), self.room, self.glyphs.ellipsis)
            if shown:
                self.spans.append(Span(shown, tone))
                self.used += width_of(shown)
        return self

    def cell(self, text: object, width: int, tone: str = "text", *, right: bool = False, path: bool = False) -> Builder:
        """Appends a column of exactly `width` cells and one blank behind it."""
        cut = clip_left if path else clip
        shown = cut(clean(text, self.glyphs), width, self.glyphs.ellipsis)
        pad = " " * (width - width_of(shown))
        gap = " " if self.room > width else ""
        return self.add(Safe((pad + shown if right else shown + pad) + gap), tone)

    def add_if_fits(self, text: object, tone: str = "text") -> Builder:
        """Appends wholly or not at all: nothing is dropped in the middle of a word."""
        if width_of(clean(text, self.glyphs)) <= self.room:
            self.add(text, tone)
        return self

    def right(self, text: object, tone: str = "text") -> Builder:
        """Puts a text at the right edge, if it fits."""
        shown = clean(text, self.glyphs)
        if width_of(shown) < self.room:
            self.add(Safe(" " * (self.room - width_of(shown)))).add(Safe(shown), tone)
        return self

    def fill(self, glyph: str, tone: str = "dim") -> Builder:
        """Draws `glyph` up to the right edge."""
        return self.add(Safe(glyph * max(0, self.room)), tone)

    def line(self) -> Line:
        """The line."""
        return tuple(self.spans)


def plain(line: Line) -> str:
    """The line's text."""
    return "".join(span.text for span in line)


def text_of(lines: Iterable[Line]) -> str:
    """Lines as text, to be copied."""
    return "\n".join(plain(line).rstrip() for line in lines)


def number(value: float | None) -> str:
    """A measured value: six significant digits, NaN and inf as words, None as unknown."""
    return "unknown" if value is None else f"{value:.6g}"


def short(value: float | None) -> str:
    """A measured value in at most nine cells: four significant digits."""
    if value is None:
        return "unknown"
    return f"{value:.4g}"


def some(number: int, what: str, many: str = "") -> str:
    """A count with its noun: "1 record", "2 records", "0 copies" (`many` where an s does not make the plural)."""
    return f"{count(number)} {plural(number, what, many)}"


def count(value: int) -> str:
    """A count in at most six cells: 999999, 1.2M."""
    if value < 100_000:
        return str(value)
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return str(value)
