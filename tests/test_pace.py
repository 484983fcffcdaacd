"""When jobs are done: rare ones at once, many at the share that they may take."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.pace import Pace

BURST_S = 1.0


def pace() -> Pace:
    return Pace(share=8, least_s=0.2, most_s=0.5, burst_s=BURST_S, apart_s=0.1)


def begun(jobs: int, took_s: float) -> list[float]:
    """When jobs begin of which the next one always waits already."""
    one, now, found = pace(), 100.0, []
    for _ in range(jobs):
        now += one.remaining(now)
        found.append(now)
        one.done(now, now + took_s, took_s)
        now += took_s
    return found


def test_what_is_rare_never_waits() -> None:
    one, now = pace(), 100.0
    for _ in range(100):
        assert one.remaining(now) == 0.0
        one.done(now, now + 0.06, 0.06)
        now += 0.06 + 0.49


def test_what_comes_together_is_done_together() -> None:
    one = pace()
    one.done(100.0, 100.02, 0.02)
    assert one.remaining(100.03) == pytest.approx(0.09)
    assert one.remaining(100.13) == 0.0


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.001, 0.2), (0.05, 0.4), (0.4, 0.5), (3.0, 0.5)])
def test_a_stream_of_jobs_makes_its_pauses(took_s: float, pause_s: float) -> None:
    """Between the shortest and the longest, eight times as long as a job takes."""
    last = begun(40, took_s)[20:]
    assert last[-1] - last[0] == pytest.approx(19 * (took_s + pause_s))


def test_after_silence_some_come_at_once() -> None:
    """Each of these owes 0.4 s, so that three may be done before a second is owed."""
    first = begun(6, 0.05)
    gaps = [later - earlier - 0.05 for earlier, later in itertools.pairwise(first)]
    assert gaps[:2] == pytest.approx([0.1, 0.1]) and gaps[-1] == pytest.approx(0.4)


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 0.3)), min_size=1, max_size=60))
def test_no_more_is_owed_than_a_burst(jobs: list[tuple[float, float]]) -> None:
    """Of any stretch of jobs all pauses but a second's are made until the next one begins."""
    one, now = pace(), 100.0
    stretches: list[tuple[float, float]] = []  # when each began, and what was needed since then
    for gap_s, took_s in jobs:
        now += gap_s
        now += one.remaining(now)
        assert all(needed <= now - began + BURST_S + 1e-6 for began, needed in stretches)
        needed = took_s + min(0.5, max(0.2, 8 * took_s))
        stretches = [(began, before + needed) for began, before in stretches] + [(now, needed)]
        one.done(now, now + took_s, took_s)
        now += took_s
