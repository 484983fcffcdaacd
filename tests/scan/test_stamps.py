"""Years of stamps that have none."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.scan.stamps import Years, full, resolution, zoned


def test_year_comes_from_the_files_time() -> None:
    assert Years(datetime(2026, 11, 30)).resolve(11, 29, 1, 2, 3) == datetime(2026, 11, 29, 1, 2, 3)


def test_december_in_a_file_of_january_is_last_year() -> None:
    assert Years(datetime(2027, 1, 2)).resolve(12, 31, 23, 59, 59) == datetime(2026, 12, 31, 23, 59, 59)


def test_first_stamp_is_at_most_a_day_younger_than_the_file() -> None:
    assert Years(datetime(2026, 11, 30)).resolve(12, 1, 0, 0, 0) == datetime(2026, 12, 1)
    assert Years(datetime(2026, 11, 30)).resolve(12, 2, 0, 0, 0) == datetime(2025, 12, 2)


def test_no_reference_no_year() -> None:
    assert Years(None).resolve(11, 29, 1, 2, 3) is None


def test_dates_that_do_not_exist() -> None:
    years = Years(datetime(2026, 11, 30))
    assert years.resolve(13, 1, 0, 0, 0) is None
    assert years.resolve(2, 30, 0, 0, 0) is None
    assert Years(datetime(2025, 3, 1)).resolve(2, 29, 0, 0, 0) == datetime(2024, 2, 29)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 364))
def test_a_log_followed_over_new_year_goes_on(gaps: list[int], first: int) -> None:
    time = datetime(2026, 1, 1) + timedelta(days=first)
    years = Years(time)
    for gap in [0, *gaps]:
        time += timedelta(days=gap)
        assert years.resolve(time.month, time.day, time.hour, time.minute, time.second) == time


def test_one_wild_stamp_does_not_carry_the_year_away() -> None:
    years = Years(datetime(2026, 12, 1))
    years.resolve(12, 1, 0, 0, 0)
    years.resolve(6, 5, 0, 0, 0)
    assert years.resolve(12, 2, 0, 0, 0) == datetime(2026, 12, 2)


def test_resolutions() -> None:
    assert [resolution(text) for text in ("", "1", "123", "123456", "123456789")] == [1_000_000, 100_000, 1000, 1, 1]
    assert full("2026-13-01", "00:00:00") is None
    assert zoned("0001-01-01", "00:00:00", "", "+05:00") is None
