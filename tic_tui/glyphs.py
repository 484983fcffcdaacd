"""The signs of the screen, in Unicode and in ASCII. A state is always a glyph and a word; colour comes third."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set. Every field is exactly one cell wide, so that a set can be changed without changing a layout."""

    name: str
    moving: str
    quiet: str
    silent: str
    ended: str
    unreadable: str
    locked: str
    suspect: str
    admissible: str
    fault: str
    mark: str
    cursor: str
    rule: str
    ellipsis: str
    ascending: str
    vertical: str
    floor: str
    unknown: str
    begin: str
    held: str
    claimed: str
    several: str
    wave: str
    here: str
    braille: bool

    def state(self, state: str) -> str:
        """The glyph of a run's state; the sign for unknown for a word that this program does not know."""
        return {
            "moving": self.moving,
            "quiet": self.quiet,
            "silent": self.silent,
            "ended": self.ended,
            "unreadable": self.unreadable,
        }.get(state, self.unknown)

    def admissibility(self, word: str) -> str:
        """The glyph of locked, suspect or admissible."""
        return {"locked": self.locked, "suspect": self.suspect, "admissible": self.admissible}.get(word, self.unknown)


UNICODE = Glyphs(
    name="unicode", moving="▶", quiet="◐", silent="○", ended="■", unreadable="!", locked="✖", suspect="?",
    admissible="✓", fault="↯", mark="⚑", cursor="▌", rule="─", ellipsis="…", ascending="›", vertical="│", floor="┄",
    unknown="·", begin="├", held="─", claimed="┄", several="≡", wave="~", here="◆", braille=True,
)  # fmt: skip
ASCII = Glyphs(
    name="ascii", moving=">", quiet="~", silent="o", ended="#", unreadable="!", locked="X", suspect="?",
    admissible="+", fault="!", mark="P", cursor=">", rule="-", ellipsis="~", ascending=">", vertical="|", floor="-",
    unknown=".", begin="[", held="=", claimed="-", several="#", wave="~", here="*", braille=False,
)  # fmt: skip


def choose(environ: Mapping[str, str] = os.environ, *, ascii_only: bool = False) -> Glyphs:
    """Takes ASCII when asked to, on the Linux console, or when the locale's encoding is known not to be UTF-8."""
    if ascii_only or environ.get("TERM") in {"linux", "vt100", "vt220"}:
        return ASCII
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    encoding = locale.partition(".")[2].partition("@")[0].replace("-", "").lower()
    if locale in {"C", "POSIX"} or (encoding and encoding != "utf8"):
        return ASCII
    return UNICODE
