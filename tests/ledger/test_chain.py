"""The chain: what it is made of, and that no change of it goes unseen."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.made import ENTRIES, NOON, entry, json_of
from tic_daemon.ledger.chain import Link, Walk, link
from tic_daemon.ledger.entries import Entry

STORE = "0123456789ab"


def chained(entries: list[Entry]) -> list[tuple[Entry, Link]]:
    rows: list[tuple[Entry, Link]] = []
    for one in entries:
        rows.append((one, link(one, rows[-1][1] if rows else Link(), STORE)))
    return rows


def walked(rows: list[tuple[Entry, Link]]) -> Walk:
    walk = Walk(STORE)
    walk.take(rows)
    return walk


def test_a_hash_is_of_all_that_a_row_says_and_of_the_row_before() -> None:
    one, two = entry("case", 1, body={"name": "x"}), entry("case", 2, reason="ü\n")
    rows = chained([one, two])
    before = ""
    for seq, (row, place) in enumerate(rows, start=1):
        said = {field.name: getattr(row, field.name) for field in fields(row)}
        said["said_at"] = (NOON + timedelta(seconds=seq)).strftime("%Y-%m-%dT%H:%M:%S.000000")
        text = json_of({"entry": said, "seq": seq, "prev": before, "store": STORE})
        assert place == Link(seq, before, hashlib.sha256(text.encode()).hexdigest())
        before = place.row_hash
    assert walked(rows).broken is None and walked(rows).head == rows[-1][1]


def test_an_empty_chain_holds() -> None:
    assert walked([]).broken is None and walked([]).head == Link()


@settings(max_examples=60, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=5), st.data())
def test_any_change_of_any_row_is_found_where_it_is(entries: list[Entry], data: st.DataObject) -> None:
    rows = chained(entries)
    at = data.draw(st.integers(0, len(rows) - 1))
    row, place = rows[at]
    name = data.draw(st.sampled_from([*(field.name for field in fields(Entry)), "seq", "prev_hash", "row_hash"]))
    of = row if hasattr(row, name) else place
    value = getattr(of, name)
    if isinstance(value, str):
        other: object = data.draw(st.text(max_size=5).filter(lambda text: text != value))
    elif name == "said_at":
        other = value + timedelta(microseconds=data.draw(st.integers(1, 1 << 40)))
    else:
        other = data.draw(st.integers(0, 1 << 40).filter(lambda number: number != value))
    changed = replace(of, **{name: other})  # type: ignore[type-var]
    rows[at] = (changed, place) if of is row else (row, changed)  # type: ignore[assignment]
    broken = walked(rows).broken
    assert broken is not None
    # A changed number or hash may show one row later, nothing earlier.
    assert broken.seq in {rows[at][1].seq, at + 1, at + 2}
    assert walked(rows).head.seq <= at + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(ENTRIES, min_size=3, max_size=6, unique_by=lambda one: one.id), st.data())
def test_rows_taken_out_put_in_or_swapped_are_found(entries: list[Entry], data: st.DataObject) -> None:
    rows = chained(entries)
    at = data.draw(st.integers(0, len(rows) - 2))
    assert walked(rows[:at] + rows[at + 1 :]).broken is not None
    assert walked([*rows[: at + 1], *rows[at:]]).broken is not None, "the same row twice"
    swapped = list(rows)
    swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    assert walked(swapped).broken is not None
    forged = (entries[at], link(entries[at], rows[-1][1], STORE))
    assert walked([*rows[:at], forged, *rows[at:]]).broken is not None


def test_a_chain_of_another_store_is_none_of_this_one() -> None:
    rows = chained([entry("case", 1)])
    other = Walk("ba9876543210")
    assert not other.take(rows) and other.broken is not None and other.broken.seq == 1


def test_rows_missing_at_the_end_are_what_a_chain_cannot_show() -> None:
    rows = chained([entry("case", 1), entry("case", 2)])
    assert walked(rows[:1]).broken is None
