"""Which readings are believed, and up to which step a history counts as read."""

from __future__ import annotations

from tic_daemon.wandb.judging import Reading, confirmed, settle, why_blind, why_doubted
from tic_daemon.wandb.ranges import Ranges, ranges_of


def reading(
    seen: str, *, first: int = 0, page: int = 100, last: int = 99, rows: int | None = None, lines: int = 100
) -> Reading:
    held = ranges_of(seen)
    return Reading(first, page, last, True, len(held) if rows is None else rows, lines, last, held)


def test_a_whole_reading_that_counts_right_is_believed() -> None:
    assert why_doubted(reading("0-99"), Ranges()) == ""
    assert why_doubted(reading("0-99", rows=120, lines=110), Ranges()) == "", "rows that came twice"
    assert why_doubted(reading("", last=-1, lines=0), Ranges()) == "", "a run without a row"


def test_each_silent_short_reading_is_doubted() -> None:
    assert "names no last step" in why_doubted(reading("", last=-1), Ranges()), "historyKeys: null"
    assert why_blind(reading("", last=-1)) and not why_blind(reading("0-49")), "and no second one makes it better"
    assert "last step is 99" in why_doubted(reading("0-49"), Ranges()), "history: null on the last page"
    assert "60 rows came" in why_doubted(reading("0-39 80-99"), Ranges()), "a page cut short"
    assert "came before" in why_doubted(reading("0-9 20-99", lines=90), ranges_of("0-99")), "and the count agrees"
    assert "came before" in why_doubted(reading("60-69 80-99", first=60), ranges_of("0-99"))
    assert why_doubted(reading("60-99", first=60), ranges_of("0-99")) == "", "it did not ask for the steps before"


def test_of_two_readings_the_one_that_saw_less_is_short() -> None:
    settled = settle(reading("0-9 20-99"), reading("0-99", page=170), Ranges())
    assert settled.short == ("another reading saw steps 10-19", "") and not settled.agreed
    settled = settle(reading("0-49"), reading("0-39 50-99", page=170), Ranges())
    assert all(settled.short)


def test_two_that_agree_are_believed_and_what_they_lack_is_gone() -> None:
    settled = settle(reading("0-9 20-99"), reading("0-9 20-99", page=170), ranges_of("0-99"))
    assert settled.agreed and settled.gone == ranges_of("10-19")
    grown = reading("0-9 20-120", page=170, last=120)
    assert settle(reading("0-9 20-99"), grown, Ranges()).agreed, "what came in the meantime is not held against it"
    assert settle(reading("", last=-1), reading("0-99", page=170), Ranges()).short[0], "one was told of no steps"


def test_a_hole_is_confirmed_by_two_readings_with_other_borders() -> None:
    one, two = reading("0-9 20-99", lines=90), reading("0-9 20-99", page=170, lines=90)
    assert confirmed(one, None, 0, -1) == 10, "the count agrees: before the hole nothing can be missing"
    assert confirmed(two, one, 10, 99) == 100
    assert confirmed(two, one, 10, 59) == 60 and confirmed(two, one, 10, -1) == 10, "what is late may still come"
    assert confirmed(reading("0-9 20-99", lines=90), one, 10, 99) == 10, "the same borders prove nothing"
    assert confirmed(reading("0-99", page=170), one, 10, 99) == 100, "the first was short; this one is whole"
    assert confirmed(reading("5-9 20-120", first=5, page=170, last=120), one, 10, 99) == 100
    assert confirmed(reading("30-99", first=30, page=170), one, 10, 99) == 10, "nobody looked at 10 to 29 again"
    assert confirmed(reading("0-99", lines=120), None, 0, -1) == 0, (
        "rows of steps that others have, too, may be missing"
    )
