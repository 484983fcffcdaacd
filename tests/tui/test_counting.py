"""Counts that are kept up to date equal a recount of all rows, at every step of any history."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tui.several import BEGAN, Stores
from tic_tui import counting, queries
from tic_tui.counting import ADD, LEAST, MOST, Question, Tally
from tic_tui.queries import Span

QUESTION = Question(
    "mismatches", ("admissibility", "metric"),
    (("count(*)", ADD), ("min(value)", LEAST), ("max(step)", MOST)), " AND run_id = ?", ("r",),
)  # fmt: skip
ALL = Span(BEGAN, datetime.max)


def recount(stores: Stores) -> dict[tuple[Any, ...], list[Any]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in stores.rows:
        if row["run_id"] == "r":
            found.setdefault((row["admissibility"], row["metric"]), []).append(row)
    return {
        group: [
            stores.order(rows)[-1], len(rows),
            min((r["value"] for r in rows if r["value"] is not None), default=None),
            max((r["step"] for r in rows if r["step"] is not None), default=None),
        ]
        for group, rows in found.items()
    }  # fmt: skip


ROW = st.fixed_dictionaries(
    {
        "metric": st.sampled_from(("a", "b")),
        "step": st.one_of(st.none(), st.integers(0, 9)),
        "value": st.one_of(st.none(), st.floats(-1, 1)),
        "run_id": st.sampled_from(("r", "r", "r", "other")),
        "provisional": st.booleans(),
        "admissibility": st.just("admissible"),
    }
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_tally_equals_a_recount_at_every_step_of_a_history(data: st.DataObject) -> None:
    stores = Stores(("s1", "s2", "s3")[: data.draw(st.integers(1, 3), "stores")])
    tally = Tally(QUESTION, Span(BEGAN, BEGAN + timedelta(hours=data.draw(st.integers(0, 60), "last"))))
    standing = 0
    for step in range(data.draw(st.integers(2, 9), "steps")):
        store = data.draw(st.sampled_from(stores.ids))
        at = BEGAN + timedelta(seconds=data.draw(st.integers(0, 200_000)))
        match data.draw(st.sampled_from(("commit", "commit", "commit", "settle", "judge", "nothing"))):
            case "commit":
                stores.commit(store, data.draw(st.lists(ROW, max_size=5)), at=at)
            case "settle":
                stores.settle(store, at=at)
            case "judge":
                stores.judge(data.draw(st.integers(0, 9)), data.draw(st.sampled_from(("locked", "suspect"))))
                standing += 1
        in_pieces = step % 2 == 1
        tally.update(stores, str(standing), 0.0 if in_pieces else math.inf)  # type: ignore[arg-type]
        assert tally.complete or in_pieces
        if tally.complete:
            assert tally.groups() == recount(stores)
    tally.update(stores, str(standing), math.inf)  # type: ignore[arg-type]
    tally.update(stores, str(standing), math.inf)  # type: ignore[arg-type]
    assert tally.complete and tally.groups() == recount(stores)


def test_what_is_counted_first_is_the_newest_and_the_rest_follows(monkeypatch: Any) -> None:
    monkeypatch.setattr(counting, "RANGE_S", 1e-9)  # every range is slow, so none grows
    stores = Stores()
    for hour in range(4):
        stores.commit("s1", [{"step": hour}], at=BEGAN + timedelta(hours=hour))
    tally = Tally(QUESTION, queries.Span(BEGAN, BEGAN + timedelta(hours=3)))
    tally.update(stores, "", 0.0)  # type: ignore[arg-type]
    (sums,) = tally.groups().values()
    assert sums[1] == 1 and sums[3] == 3 and not tally.complete and tally.search.back_to is not None
    for _ in range(10_000):
        if tally.complete:
            break
        tally.update(stores, "", math.inf)  # type: ignore[arg-type]
    assert tally.groups() == recount(stores)


def test_while_all_is_counted_again_the_counts_before_are_shown_and_said_to_be_old() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": 1}, {"step": 2}], at=BEGAN)
    stores.commit("s1", [{"step": 3}], at=BEGAN + timedelta(days=2))
    tally = Tally(QUESTION, Span(BEGAN, BEGAN + timedelta(days=2)))
    tally.update(stores, "a", math.inf)  # type: ignore[arg-type]
    before = tally.groups()
    stores.judge(0, "locked")
    tally.update(stores, "b", 0.0)  # type: ignore[arg-type]
    assert not tally.complete and not tally.search.complete and tally.groups() == before
    tally.update(stores, "b", math.inf)  # type: ignore[arg-type]
    assert tally.complete and tally.groups() == recount(stores) != before


def test_coarser_groups_are_the_sums_of_the_finer_ones() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": n} for n in range(-5, 20)], at=BEGAN)

    def spans(shift: int) -> Question:
        return Question("mismatches", (f"step >> {shift}",), (("count(*)", ADD),))

    tally = Tally(spans(0), ALL)
    tally.update(stores, "", math.inf)  # type: ignore[arg-type]
    tally.regroup(spans(2), lambda group: (group[0] >> 2,))
    stores.commit("s1", [{"step": 3}], at=BEGAN + timedelta(seconds=5))
    tally.update(stores, "", math.inf)  # type: ignore[arg-type]
    wanted = Counter(n // 4 for n in [*range(-5, 20), 3])
    assert {group[0]: sums[1] for group, sums in tally.groups().items()} == wanted


def test_what_was_looked_at_is_not_looked_at_again_although_nothing_of_it_was_counted() -> None:
    stores = Stores()
    stores.commit("s1", [{"step": 0}], at=BEGAN)
    for hour in range(1, 5):
        stores.commit("s1", [{"run_id": "other"}], at=BEGAN + timedelta(hours=hour))
    tally = Tally(QUESTION, Span(BEGAN, BEGAN + timedelta(hours=5)))
    tally.update(stores, "", math.inf)  # type: ignore[arg-type]
    asked: list[object] = []
    ask = stores.query

    def query(sql: str, params: Any = (), **more: Any) -> Any:
        asked.extend(params)
        return ask(sql, params, **more)

    stores.query = query  # type: ignore[method-assign]
    tally.update(stores, "", math.inf)  # type: ignore[arg-type]
    assert {at for at in asked if isinstance(at, datetime)} == {BEGAN + timedelta(hours=4)}
    assert tally.groups() == recount(stores)
