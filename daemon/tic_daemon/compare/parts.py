"""What ends every summary of a comparison: the three parts behind what was observed."""

from __future__ import annotations


def ending(proved: list[str], not_proven: list[str], next_step: str) -> list[str]:
    """Their lines, with their titles."""
    return [
        *_part("proved by controls", proved),
        *_part("not yet proven", not_proven),
        *_part("next step", [next_step]),
    ]


def _part(title: str, words: list[str]) -> list[str]:
    return [title, *(f"  {word}" for word in words or ["nothing"])]
