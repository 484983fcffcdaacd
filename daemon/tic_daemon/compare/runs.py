"""Counts, firsts and runs per sequence, over flags that lie one sequence behind the other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def per_sequence(flags: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """How many flags are set in each sequence. `starts` has the begin of each and the end of the last."""
    edges = starts.tolist()
    return np.array([np.count_nonzero(flags[begin:end]) for begin, end in pairwise(edges)], np.int64)


def first_true(flags: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Index of the first flag that is set in each sequence, -1 where none is."""
    found = np.full(len(starts) - 1, -1)
    for place, (begin, end) in enumerate(pairwise(starts.tolist())):
        if begin < end:
            at = begin + int(flags[begin:end].argmax())
            if flags[at]:
                found[place] = at
    return found


def longest_run(flags: np.ndarray) -> int:
    """The longest run of set flags: between those that are not."""
    ends = np.flatnonzero(np.logical_not(flags))
    return int(np.diff(ends, prepend=-1, append=len(flags)).max()) - 1


def longest_runs(flags: np.ndarray, starts: np.ndarray, positions: np.ndarray | None) -> np.ndarray:
    """The longest run of set flags in each sequence.

    Args:
        positions: if given, a run also ends where the next position does not follow the last.
    """
    longest = np.zeros(len(starts) - 1, np.int64)
    if not flags.any():
        return longest
    breaks = flags[1:] != flags[:-1]
    if positions is not None:
        breaks |= np.diff(positions) != 1
    inner = starts[1:-1]
    breaks[inner[(inner > 0) & (inner < len(flags))] - 1] = True
    begins = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    lengths = np.diff(np.append(begins, len(flags)))
    lengths[~flags[begins]] = 0
    owners = np.searchsorted(starts, begins, side="right") - 1
    np.maximum.at(longest, owners, lengths)
    return longest
