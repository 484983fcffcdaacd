"""Windows by key equal slices of a sorted list of all rows, across one to three stores, with and without filters."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tui.several import BEGAN, Stores
from tic_tui.filters import Filter
from tic_tui.model import FIRST, Key, Mismatch, Window
from tic_tui.queries import Span, rows_of
from tic_tui.windows import Page, Scope

SPAN = Span(BEGAN, BEGAN + timedelta(hours=3))


def wanted(stores: Stores, scope: Scope, anchor: Key | None, want: int) -> tuple[list[Key], bool, bool]:
    rows = [r for r in stores.rows if scope.run_id in {None, r["run_id"]}]
    rows = [r for r in rows if all(str(r["step"]) == f.value for f in scope.filters)]
    keys = stores.order(rows)
    if anchor is None:
        return keys[-2 * want :], len(keys) > 2 * want, False
    before = [k for k in keys if k <= anchor]
    after = [k for k in keys if k > anchor]
    return before[-want:] + after[:want], len(before) > want, len(after) > want


def seen(window: Window) -> tuple[list[Key], bool, bool]:
    return [r.key for r in window.rows], window.older, window.newer


def records(stores: Stores) -> list[Mismatch]:
    return rows_of(stores, Mismatch, "mismatches", (), "ORDER BY observed_at, store_id, rec_id")  # type: ignore[arg-type]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_page_is_a_slice_of_all_rows_in_order_and_stays_so_as_rows_come(data: st.DataObject) -> None:
    stores = Stores(("s1", "s2", "s3")[: data.draw(st.integers(1, 3), "stores")])
    some = st.lists(
        st.fixed_dictionaries({"run_id": st.sampled_from(("r", "o")), "step": st.integers(0, 2)}), max_size=4
    )

    def commit(**more: Any) -> None:
        # Few times, so that stores often share one.
        at = BEGAN + timedelta(seconds=data.draw(st.sampled_from((0, 1, 2, 500, 90_000))))
        rows = [row | more for row in data.draw(some)]
        stores.commit(data.draw(st.sampled_from(stores.ids)), rows, at=at)

    for _ in range(data.draw(st.integers(0, 5))):
        commit()
    filters = data.draw(st.sampled_from(((), (Filter("step", "is", "1"),))))
    scope = Scope(data.draw(st.sampled_from((None, "r"))), filters)
    want = data.draw(st.integers(1, 4))
    anchor = data.draw(st.sampled_from([None, FIRST, *stores.order()]))
    page = Page(scope, anchor, want, SPAN)
    while not page.done:
        page.advance(stores, 0.0)  # type: ignore[arg-type]
    assert seen(page.window()) == wanted(stores, scope, anchor, want)

    tops = {
        store: max((k.observed_at for k in stores.order() if k.store_id == store), default=BEGAN)
        for store in stores.ids
    }
    known = set(stores.order())
    commit(provisional=data.draw(st.booleans()))
    came = [r for r in records(stores) if r.key not in known]
    if not page.add(came):
        since = min((tops[r.store_id] for r in came), default=BEGAN) + timedelta(microseconds=1)
        if not page.renew(stores, since):  # type: ignore[arg-type]
            page = Page(scope, anchor, want, SPAN, page)
        page.advance(stores, math.inf)  # type: ignore[arg-type]
    assert seen(page.window()) == wanted(stores, scope, anchor, want)


def test_a_final_row_takes_the_place_of_the_provisional_one_without_a_query() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": 1}, {"step": 2, "provisional": True}], at=BEGAN)
    page = Page(Scope("r"), None, 5, SPAN)
    page.advance(stores, math.inf)  # type: ignore[arg-type]
    stores.settle("s1", at=BEGAN + timedelta(seconds=1))
    assert page.add([r for r in records(stores) if not r.provisional])
    assert [(r.step, r.provisional) for r in page.window().rows] == [(1, False), (2, False)]
    assert seen(page.window()) == wanted(stores, Scope("r"), None, 5)


def test_rows_that_came_twice_are_shown_once_and_an_old_provisional_one_not_at_all() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": 1, "provisional": True}], at=BEGAN)
    old = records(stores)
    stores.settle("s1", at=BEGAN + timedelta(seconds=1))
    page = Page(Scope("r"), None, 5, SPAN)
    page.advance(stores, math.inf)  # type: ignore[arg-type]
    assert page.add([*old, *records(stores)])
    assert seen(page.window()) == wanted(stores, Scope("r"), None, 5)


def test_enough_new_rows_make_a_window_without_a_query() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": n} for n in range(30)], at=BEGAN)
    page = Page(Scope("r"), None, 5, SPAN)
    page.advance(stores, math.inf)  # type: ignore[arg-type]
    stores.commit("s1", [{"step": n} for n in range(30, 60)], at=BEGAN + timedelta(seconds=1))
    rows = records(stores)
    assert not page.replace(rows[-10:]), "whether there are older ones would not be known"
    assert page.replace(rows[-11:])
    assert seen(page.window()) == wanted(stores, Scope("r"), None, 5)


def test_a_search_says_how_far_back_it_has_looked(monkeypatch: Any) -> None:
    monkeypatch.setattr("tic_tui.windows.RANGE_S", 1e-9)
    stores = Stores()
    stores.commit("s1", [{"step": 0, "metric": "rare"}], at=BEGAN)
    for minute in range(1, 4):
        stores.commit("s1", [{"step": minute}], at=BEGAN + timedelta(minutes=minute))
    page = Page(Scope("r", (Filter("metric", "is", "rare"),)), None, 5, Span(BEGAN, BEGAN + timedelta(minutes=3)))
    page.advance(stores, 0.0)  # type: ignore[arg-type]
    looked = page.search(stores)  # type: ignore[arg-type]
    assert not looked.complete and looked.back_to is not None and looked.back_to > BEGAN
    page.advance(stores, math.inf)  # type: ignore[arg-type]
    assert page.search(stores).complete and [r.metric for r in page.window().rows] == ["rare"]  # type: ignore[arg-type]
