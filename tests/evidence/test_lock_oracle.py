"""The views against a second set of definitions and against the truth of simulated runs.

`oracle.py` was written from the rules alone, `worlds.py` from how processes, buffers, launchers and clocks behave. What is
asked here: do the views say what the rules say, whatever the order of reading; and is nothing admissible that was truly made
after a locking fault of its attempt.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evidence.oracle import Oracle, Row
from tests.evidence.worlds import Maker, Truth
from tests.evidence.worldstore import Key, State, WorldStore, twin

BATCH = 40  # worlds in one store: planning costs more than running


@pytest.fixture(scope="module")
def store() -> WorldStore:
    return WorldStore()


def broken(oracle: Oracle, truth: Truth, states: dict[Key, State]) -> list[tuple[Row, Row]]:
    """(record, fault): admissible, though truly made after a locking fault of its attempt."""
    found = []
    for r in oracle.w.of("mismatch"):
        run, _, state, _ = states[r.src, r.gen, r.off]
        made, attempt = truth.made[r.src, r.gen, r.off]
        if state != "admissible" or not truth.fair:
            continue
        for f in oracle.w.of("fault"):
            rule = oracle.w.rules.get(f.kind)
            locks = f.verdict == "confirmed" and (rule is None or (rule.locks == "always" and not rule.node_scope))
            if locks and oracle.run_of(f.src, f.gen, f.off) == run:
                at, of = truth.made[f.src, f.gen, f.off]
                if of == attempt and at < made:
                    found.append((r, f))
    return found


def check(store: WorldStore, seed: int) -> None:
    made = [Maker(seed * BATCH + n, n).make() for n in range(BATCH)]
    worlds = [world for world, _ in made]
    store.fill([*worlds, *(twin(world) for world in worlds)], random.Random(seed))
    states = store.states()
    for n, (world, truth) in enumerate(made):
        oracle = Oracle(world)
        said = oracle.all()
        got = {key: states.get(key) for key in said}
        wrong = [(key, "view", got[key], "rules", said[key]) for key in said if got[key] != said[key]]
        assert not wrong, (seed, n, wrong)
        other = {key: states[key[0] + 10**6, key[1], key[2]][1:] for key in said}
        assert other == {key: state[1:] for key, state in said.items()}, (seed, n)
        assert not broken(oracle, truth, states), (seed, n, broken(oracle, truth, states))


@settings(max_examples=2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6))
def test_views_say_what_the_rules_say(store: WorldStore, seed: int) -> None:
    check(store, seed)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_views_say_what_the_rules_say_at_length(store: WorldStore, seed: int) -> None:
    check(store, seed)


def test_early_records_are_admissible_where_everything_is_told(store: WorldStore) -> None:
    """Steps printed, every line stamped, zones known: who was early by time and step, and not held in a buffer, is free."""
    made = [Maker(n, n, clean=True).make() for n in range(BATCH)]
    store.fill([world for world, _ in made], random.Random(0))
    states, due = store.states(), 0
    for world, truth in made:
        oracle = Oracle(world)
        for r in world.of("mismatch"):
            made_at = truth.made[r.src, r.gen, r.off][0]
            early = all(
                made_at + 4_000_000 < truth.made[f.row.src, f.row.gen, f.row.off][0]
                and r.step is not None and r.step + 1 < f.step.lo and not oracle.by_offset(r, f.row)
                for f in oracle.locking
            )  # fmt: skip
            if early and oracle.locking:
                due += 1
                assert states[r.src, r.gen, r.off][2:] == ("admissible", ""), (world.sources[r.src], r)
    assert due > 40


def test_simulated_runs_reach_every_state() -> None:
    said = [state for n in range(BATCH) for state in Oracle(Maker(n, n).make()[0]).all().values()]
    assert {(state, why) for _, _, state, why in said} == {
        ("admissible", ""), ("suspect", "fault reported in or before this step"), ("suspect", "step voided by a fault"),
        ("locked", "after the fault"), ("locked", "order unknown"),
    }  # fmt: skip
    assert {attempt for _, attempt, _, _ in said} == {1, 2, 3}
    assert len({run for run, *_ in said}) > BATCH
