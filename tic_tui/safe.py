"""The one sanitiser. Every string that came from outside passes through `safe` before it may be drawn.

Textual hands escape sequences inside content on to the terminal: a log line could retitle the window, write the
clipboard or move the cursor. So control characters are replaced by something that can be seen, in the notation of
`less`, which is plain ASCII and therefore safe on every terminal:

    C0 but tab, DEL      ^[  ^G  ^?
    C1                   <9B>
    bidi and invisible   <U+202E>
    lone surrogates      <U+DC9B>

`Safe` is the type that view models and render functions take. Nothing else makes one.
"""

from __future__ import annotations

import re
from typing import Final


class Safe(str):
    """A string that a terminal may be given. Made by `safe` alone; slicing or joining gives a plain `str` again."""

    __slots__ = ()


NOTHING: Final = Safe("")

# Bidi controls reorder what the reader sees; the invisible ones hide or forge text; U+2028/9 break lines in some
# terminals; the tag block (U+E0000) smuggles text that no one sees.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code < 0xA0:
        return f"<{code:02X}>"
    return f"<U+{code:04X}>"


def safe(text: object) -> Safe:
    """Makes any value drawable: `str(text)` with every control character replaced by a visible one.

    Tabs stay (the line builder expands them). Idempotent. Never raises for a `str`; length may grow up to nine times.
    """
    if type(text) is Safe:
        return text
    return Safe(_UNSAFE.sub(_visible, str(text)))


def safe_lines(text: str) -> tuple[Safe, ...]:
    """Splits a record at its newlines, then makes each line safe. A carriage return stays visible as ^M."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return tuple(safe(line) for line in lines)
