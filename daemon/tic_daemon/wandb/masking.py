"""Keys of accounts and signed addresses, taken out of what the client says before it is printed, logged or stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = "***"
_LONGEST: Final = 500

_PATTERNS: Final = (
    # Whoever has a signed address can fetch the file: all that follows the "?" goes.
    (re.compile(r"(?i)\b(https?://[^\s\"'<>?#]*)[?#][^\s\"'<>]*"), rf"\1?{MASK}"),
    (re.compile(r"(?i)\b(https?://)[^\s\"'<>/@]*@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(authorization\W{1,4}(?:basic|bearer)\s+)\S+"), rf"\1{MASK}"),
    # Keys of W&B: 40 hex digits, perhaps behind a name of the server, or the newer form with its own beginning.
    (re.compile(r"(?i)(?<![0-9a-z])[0-9a-f]{40}(?![0-9a-z])"), MASK),
    (re.compile(r"\bwandb_v\d+_\w+"), MASK),
)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without what looks like a secret and without `secrets`, in one line of at most 500 characters."""
    for secret in secrets:
        if len(secret) >= 4:  # a shorter one would take words apart, and is no key
            text = text.replace(secret, MASK)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
