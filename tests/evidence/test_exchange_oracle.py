"""Faults between stores: the same events, split over the stores of two hosts that tell each other of their faults.

Asked: does each store say what the rules say of what it knows; and is no record anywhere worth more than in one store that
holds all.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.evidence.oracle import Oracle, World
from tests.evidence.worlds import Maker
from tests.evidence.worldstore import WorldStore
from tests.examples import examples

BATCH = 30
WORTH = {"locked": 0, "suspect": 1, "admissible": 2}


@pytest.fixture(scope="module")
def stores() -> tuple[WorldStore, WorldStore]:
    return WorldStore("000000000000"), WorldStore("000000000001")


def store_of(world: World) -> dict[int, int]:
    """Source -> store: each host has a daemon of its own."""
    return {s.id: int(s.host.split(".")[0][-1]) for s in world.sources.values()}


def part(world: World, number: int) -> World:
    """What one of the two daemons reads. Attempts are declared for all."""
    mine = store_of(world)
    return World(
        {s.id: s for s in world.sources.values() if mine[s.id] == number},
        [row for row in world.rows if mine[row.src] == number],
        world.attempts,
        world.rules,
    )


def exchange(stores: tuple[WorldStore, WorldStore], rng: random.Random) -> None:
    """Until nobody has anything to add."""
    for _ in range(6):
        news = [store.say() for store in stores]
        if not any(news):
            return
        for store, other, lines in zip(stores, reversed(stores), reversed(news), strict=True):
            if lines:
                store.hear(lines, other.store_id, rng)
    raise AssertionError("the stores never come to rest")


def check(stores: tuple[WorldStore, WorldStore], seed: int) -> tuple[int, int]:
    """How many records were looked at, and of how many another node's fault decided."""
    worlds = [Maker(seed * BATCH + n, n).make()[0] for n in range(BATCH)]
    rng = random.Random(seed)
    for number, store in enumerate(stores):
        store.fill([part(world, number) for world in worlds], rng)
    alone = [store.states() for store in stores]
    exchange(stores, rng)
    records = decided = 0
    for number, store in enumerate(stores):
        states = store.states()
        for n, world in enumerate(worlds):
            homes = store_of(world)
            whole = Oracle(world).all()
            said = {k: v for k, v in Oracle(world, homes, number).all().items() if homes[k[0]] == number}
            wrong = [(k, "view", states.get(k), "rules", v) for k, v in said.items() if states.get(k) != v]
            assert not wrong, (seed, n, number, wrong)
            better = [(k, v, whole[k]) for k, v in said.items() if WORTH[v[2]] > WORTH[whole[k][2]]]
            assert not better, (seed, n, number, better)
            records += len(said)
            decided += sum(alone[number][k][2] != v[2] for k, v in said.items())
    return records, decided


@settings(max_examples=examples(3), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6))
@example(seed=202)  # a console's line of no known run, and the worker's own
def test_stores_that_tell_each_other_say_what_the_rules_say(stores: tuple[WorldStore, WorldStore], seed: int) -> None:
    records, decided = check(stores, seed)
    assert decided > 0, "no fault of one store reached a record of the other"
    assert records > BATCH


@pytest.mark.slow
@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_stores_that_tell_each_other_at_length(stores: tuple[WorldStore, WorldStore], seed: int) -> None:
    check(stores, seed)
