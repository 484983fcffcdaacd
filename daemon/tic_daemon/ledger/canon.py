"""JSON in one form, for hashes; and ids that are the same for the same parts."""

from __future__ import annotations

import hashlib
import json


def canonical(value: object) -> str:
    """JSON in one form only: sorted keys, no spaces, ASCII.

    Raises:
        ValueError: it holds a number that JSON has not.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def named(*parts: str) -> str:
    """An id that is the same for the same parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
