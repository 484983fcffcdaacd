"""How many artifacts of a run are verified, and how many are anything else, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ORDER: Final = ("verified", "recorded", "pending", "changed", "differs", "missing", "refused", "unreadable")
HOLD: Final = frozenset({"verified", "recorded", "pending"})
"""States that are no gap."""


def words(states: Mapping[str, int]) -> str:
    """`34 verified, 1 changed, 1 missing`: those that there are, the states of view `artifacts` in a fixed order."""
    known = [state for state in _ORDER if states.get(state)]
    other = sorted(state for state in states if state not in _ORDER)
    return ", ".join(f"{states[state]} {state}" for state in [*known, *other])
