"""Counts, firsts and runs per sequence, over flags that lie one sequence behind the other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def per_sequence(flags: np.ndarray, edges: list[int]) -> list[int]:
    """How many flags are set in each sequence. `edges` has the begin of each and the end of the last."""
    return [int(np.count_nonzero(flags[begin:end])) for begin, end in pairwise(edges)]


def first_true(flags: np.ndarray, edges: list[int]) -> list[int]:
    """Index of the first flag that is set in each sequence, -1 where none is."""
    found = []
    for begin, end in pairwise(edges):
        at = begin + int(flags[begin:end].argmax()) if begin < end else begin
        found.append(at if begin < end and flags[at] else -1)
    return found


def runs_of_few(places: NDArray[np.int64], cuts: NDArray[np.int64]) -> list[int]:
    """The longest run of set flags in each sequence.

    Args:
        places: of the flags that are set, in order. cuts: where those of each sequence begin among them, and the end.
    """
    counts = np.diff(cuts)
    joined = places[1:] - places[:-1] == 1
    inner = cuts[1:-1]
    joined[inner[(inner > 0) & (inner < len(places))] - 1] = False
    if not joined.any():
        return [min(own, 1) for own in counts.tolist()]
    begins = np.append(np.flatnonzero(np.append(True, ~joined)), len(places))
    found = np.zeros(len(counts), np.int64)
    there = counts > 0
    found[there] = np.maximum.reduceat(np.diff(begins), np.searchsorted(begins, cuts[:-1][there]))
    return found.tolist()


def runs_but_few(places: NDArray[np.int64], cuts: NDArray[np.int64], starts: NDArray[np.int64]) -> list[int]:
    """The longest run of set flags in each sequence, where few are not set.

    Args:
        places: of the flags that are not set, in order. cuts: as for `runs_of_few`.
        starts: of each sequence, and the end of the last.
    """
    # Runs lie between what ends them: flags that are not set, and a wall before each sequence, which takes a place too.
    number = np.arange(len(starts))
    walls = cuts + number
    ends = np.empty(len(places) + len(starts), np.int64)
    ends[walls] = starts + number
    inside = np.ones(len(ends), np.bool_)
    inside[walls] = False
    ends[inside] = places + np.repeat(number[1:], np.diff(cuts))
    longest: list[int] = np.maximum.reduceat(np.diff(ends) - 1, walls[:-1]).tolist()
    return longest


def longest_runs(flags: np.ndarray, starts: np.ndarray, positions: np.ndarray) -> list[int]:
    """The longest run of set flags in each sequence. A run also ends where the next position does not follow the last.

    Args:
        positions: of each flag in its sequence.
    """
    longest = np.zeros(len(starts) - 1, np.int64)
    if flags.any():
        breaks = flags[1:] != flags[:-1]
        breaks |= np.diff(positions) != 1
        inner = starts[1:-1]
        breaks[inner[(inner > 0) & (inner < len(flags))] - 1] = True
        begins = np.concatenate([[0], np.flatnonzero(breaks) + 1])
        lengths = np.diff(np.append(begins, len(flags)))
        lengths[~flags[begins]] = 0
        owners = np.searchsorted(starts, begins, side="right") - 1
        np.maximum.at(longest, owners, lengths)
    return longest.tolist()
