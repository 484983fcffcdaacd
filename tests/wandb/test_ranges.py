"""Sets of steps as ranges, held against plain sets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.wandb.ranges import Ranges, ranges_of

steps = st.sets(st.integers(0, 60), max_size=40)


def ranges(of: set[int]) -> Ranges:
    found = Ranges()
    for step in of:  # in whatever order
        found.add(step)
    return found


def plain(of: Ranges) -> set[int]:
    return {step for first, last in of.pairs() for step in range(first, last + 1)}


@given(steps, steps)
def test_they_are_sets(one: set[int], two: set[int]) -> None:
    a, b = ranges(one), ranges(two)
    assert plain(a) == one and len(a) == len(one) and bool(a) == bool(one)
    assert plain(a.minus(b)) == one - two and plain(a.union(b)) == one | two
    assert plain(a.within(10, 20)) == {step for step in one if 10 <= step <= 20}
    assert a.first == min(one, default=-1) and a.last == max(one, default=-1)
    assert plain(a.holes()) == (set(range(min(one), max(one) + 1)) - one if one else set())
    assert (a == b) == (one == two) and all((step in a) == (step in one) for step in range(62))
    assert a.copy() == a and ranges_of(str(a)) == a


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_ranges_that_overlap_and_touch_become_one(pairs: list[tuple[int, int]]) -> None:
    found = Ranges((first, first + more) for first, more in pairs)
    assert plain(found) == {step for first, more in pairs for step in range(first, first + more + 1)}
    told = list(found.pairs())
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(told))


def test_words() -> None:
    some = Ranges([(0, 399), (401, 999), (1001, 1001)])
    assert str(some) == "0-399 401-999 1001"
    assert some.words(2) == "0-399 401-999 and 1 ranges more"
    assert str(ranges_of("5 6 7 9")) == "5-7 9" and not ranges_of("")


@pytest.mark.parametrize("text", ["a", "-3", "4-", "5-2", "1,2", "1--2"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="no range"):
        ranges_of(text)
