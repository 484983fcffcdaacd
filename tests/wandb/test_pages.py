"""How many steps the reading child asks for at a time: a page is a range of steps, and what it holds is bounded."""

from __future__ import annotations

import pytest

from tic_daemon.wandb.reading_child import MOST_STEPS, page_size
from tic_daemon.wandb.wire import Asked, RunTold


@pytest.mark.parametrize(
    ("rows", "last", "keys", "expected"),
    [
        (10_000, 9_999, 10, 1000),  # a row a step
        (10_000, 9_999, 200, 125),  # as many, but wide: 25,000 values
        (10_000, 9_999, 10_000, 10),  # never fewer than ten rows
        (50_000, 9_999, 10, 200),  # five rows a step
        (1_000, 999_999, 10, 1_000_000),  # a row each thousand steps: one request, not a thousand
        (10, 10**12, 10, MOST_STEPS),  # counts in tokens; a page is asked for in 32 bits
        (0, 99, 0, 1000),  # it says that there is none
        (None, 99, 0, 1000),  # it does not say how many
        (None, 10**9, 0, 1_000_000),  # nor that they lie apart: a thousand requests at most
        (5, -1, 3, 1000),
    ],
)
def test_pages_hold_about_as_many_values_whatever_the_history(
    rows: int | None, last: int, keys: int, expected: int
) -> None:
    told = RunTold("a/b/c", "", "", None, rows, last, keys, "{}", "{}", "", "")
    assert page_size(Asked("a/b/c"), told) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("rows", "last"), [(10_000, 9_999), (50_000, 9_999), (3, 2), (900, 0)])
def test_successive_readings_have_other_borders(rows: int, last: int) -> None:
    told = RunTold("a/b/c", "", "", None, rows, last, 10, "{}", "{}", "", "")
    assert len({page_size(Asked("a/b/c", stretch=stretch), told) for stretch in (1.0, 1.7, 2.3)}) == 3
