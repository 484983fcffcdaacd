"""Counts, firsts and runs per sequence, over flags that lie one sequence behind the other."""

from __future__ import annotations

import numpy as np


def per_sequence(flags: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """How many flags are set in each sequence. `starts` has the begin of each and the end of the last."""
    reached = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])
    return np.diff(reached[starts])


def first_true(flags: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Index of the first flag that is set in each sequence, -1 where none is."""
    places = np.flatnonzero(flags)
    after = np.searchsorted(places, starts[:-1])
    found = np.append(places, len(flags))[after]
    return np.where(found < starts[1:], found, -1)


def longest_runs(flags: np.ndarray, starts: np.ndarray, positions: np.ndarray | None) -> np.ndarray:
    """The longest run of set flags in each sequence.

    Args:
        positions: if given, a run also ends where the next position does not follow the last.
    """
    longest = np.zeros(len(starts) - 1, np.int64)
    places = np.flatnonzero(flags)
    if not places.size:
        return longest
    owners = np.searchsorted(starts, places, side="right") - 1
    breaks = (np.diff(places) != 1) | (np.diff(owners) != 0)
    if positions is not None:
        breaks |= np.diff(positions[places]) != 1
    begins = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    lengths = np.diff(np.append(begins, len(places)))
    np.maximum.at(longest, owners[begins], lengths)
    return longest
