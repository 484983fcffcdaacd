"""Nouns behind a count: 1 record, 2 records."""

from __future__ import annotations


def plural(number: int, noun: str, many: str = "") -> str:
    """The noun as it stands behind `number`; `many` where an s does not make the plural."""
    return noun if number == 1 else many or noun + "s"
