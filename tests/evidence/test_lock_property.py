"""The store's view against the definitions, and both against the truth."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evidence.sim import World, build, line_of, truly_admissible
from tests.evidence.store import Store
from tests.examples import examples

RUNS = 12  # independent runs in one store: planning a query costs more than running it


@pytest.fixture(scope="module")
def store() -> Store:
    return Store()


def view(store: Store) -> dict[tuple[int, int, int], tuple[str, str, str, int]]:
    rows = store.con.execute(
        "SELECT source_id, generation, byte_offset, admissibility, reason, run_id, attempt FROM mismatches"
    ).fetchall()
    found = {(r[0], r[1], r[2]): (r[3], r[4], r[5], r[6]) for r in rows}
    assert len(found) == len(rows)
    return found


def model(worlds: list[World]) -> dict[tuple[int, int, int], tuple[str, str, str, int]]:
    found = {}
    for world in worlds:
        lock = world.lock()
        for said in world.of("record"):
            line = line_of(said)
            judged, placed = lock.judge(line), lock.place(line)
            found[line.source_id, *line.place] = (judged.admissibility, judged.reason, world.run, placed.attempts[0])
            if judged.admissibility == "admissible" and not world.jumps:
                assert truly_admissible(world, said, lock.locking, placed), (world.run, said)
    return found


def check(store: Store, seed: int, runs: int, orders: int) -> None:
    worlds = [build(seed, number) for number in range(runs)]
    expected = model(worlds)
    for order in range(orders):
        store.fill(worlds, random.Random(seed + order))
        got = view(store)
        wrong = {
            k: (got.get(k), expected.get(k)) for k in got.keys() | expected.keys() if got.get(k) != expected.get(k)
        }
        assert not wrong, (seed, wrong)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**6))
def test_view_is_the_definition_and_never_admits_what_came_after(store: Store, seed: int) -> None:
    check(store, seed, RUNS, orders=2)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 10**9))
def test_view_is_the_definition_at_length(store: Store, seed: int) -> None:
    check(store, seed, RUNS, orders=3)


def test_it_is_not_empty_where_everything_is_told(store: Store) -> None:
    worlds = [build(5, number, plain=True) for number in range(50)]
    store.fill(worlds, random.Random(1))
    got = view(store)
    assert got == model(worlds)
    due = admitted = 0
    for world in worlds:
        lock = world.lock()
        faults = [f.made for f in world.of("fault")]
        for said in world.of("record"):
            line = line_of(said)
            # Two steps before every fault, and well before it by any clock: nothing is in doubt.
            if all(said.made + 2 * 10_000_000 + 3_000_000 < made for made in faults):
                due += 1
                admitted += got[line.source_id, *line.place][0] == "admissible"
        assert lock.locking or not faults
    assert due > 40
    assert admitted == due


def test_generator_reaches_every_state(store: Store) -> None:
    worlds = [build(11, number) for number in range(60)]
    states = {(v[0], v[1]) for v in model(worlds).values()}
    assert {s for s, _ in states} == {"admissible", "suspect", "locked"}
    assert {r for s, r in states if s == "locked"} == {"after the fault", "order unknown"}
    assert {r for s, r in states if s == "suspect"} == {
        "fault reported in or before this step",
        "step voided by a fault",
    }
    assert {v[3] for v in model(worlds).values()} >= {1, 2}
