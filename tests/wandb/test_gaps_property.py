"""Random histories against a slow twin in plain Python: what each source lacks of the other, step by step and key by key.

The twin knows nothing of units, hashes, islands or slices: it merges rows by training step as wandb/keys.py says, and
compares dictionaries.
"""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.wandb.histories import Histories
from tic_daemon.wandb import keys

KEYS = keys.built_in()
VALUES = (0, 0.0, -0.0, 1, 1.0, 2.5, math.nan, math.inf, -math.inf, 2**53 + 1, 2**60 + 1, "x", "NaN", True, None)
Row = dict[str, object]
FRAMEWORKS = {
    "verl": ["actor/pg_loss", "training/global_step", "a", "b"],
    "prime_rl": ["loss/mean", "optim/grad_norm", "a", "b"],
    "slime": ["train/loss", "train/x", "rollout/y", "perf/z"],
}


def equal(one: object, other: object) -> bool:
    """Equal by number; NaN in any spelling equals NaN."""
    spelled = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    one, other = (spelled.get(value, value) if isinstance(value, str) else value for value in (one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def is_nan(value: object) -> bool:
    return value == "NaN" or (isinstance(value, float) and math.isnan(value))


def merged(framework: str, rows: list[tuple[int, Row]], shared: bool) -> dict[tuple[str, int], dict[str, list[object]]]:
    """Rows by training step: of each key all values. A row that does not tell its step stands at its `_step`, unless
    that is each process' own."""
    found: dict[tuple[str, int], dict[str, list[object]]] = {}
    for wandb_step, row in rows:
        steps = KEYS.step_of(framework, {**row, "_step": wandb_step})
        parts: dict[str, Row] = {}
        for key, value in row.items():
            if key != (axis := KEYS.axis(framework, key)):
                parts.setdefault(axis, {})[key] = value
        for axis, part in parts.items():
            place = (axis, steps[axis]) if axis in steps else None if shared else ("_step", wandb_step)
            if place is not None and any(value is not None for value in part.values()):  # nulls alone say nothing
                for key, value in part.items():
                    found.setdefault(place, {}).setdefault(key, []).append(value)
    return found


def twin(
    framework: str, local: list[tuple[int, Row]], server: list[tuple[int, Row]], shared: bool
) -> set[tuple[object, ...]]:
    here, there = merged(framework, local, shared), merged(framework, server, shared)
    found: set[tuple[object, ...]] = set()
    found |= {("missing", "wandb_api", *place, None) for place in here.keys() - there.keys()}
    found |= {("missing", "wandb_local", *place, None) for place in there.keys() - here.keys()}
    for place in here.keys() & there.keys():
        one, other = here[place], there[place]
        for key in one.keys() | other.keys():
            said_here = [value for value in one.get(key, []) if value is not None]
            said_there = [value for value in other.get(key, []) if value is not None]
            if said_here and said_there:
                if not any(equal(a, b) for a in said_here for b in said_there):
                    found.add(("value_differs", "wandb_api", *place, key))
            elif said_here:
                null_for_nan = key in other and any(is_nan(value) for value in said_here)
                found.add(("value_differs" if null_for_nan else "partial", "wandb_api", *place, key))
            elif said_there:
                null_for_nan = key in one and any(is_nan(value) for value in said_there)
                found.add(
                    ("value_differs", "wandb_api", *place, key)
                    if null_for_nan
                    else ("partial", "wandb_local", *place, key)
                )
    return found


def history(rng: random.Random, framework: str) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """What a trainer logged, and what the server has of it: rows lost, keys lost, values changed, rows of others."""
    names = FRAMEWORKS[framework]
    local: list[tuple[int, Row]] = []
    for number in range(rng.randint(1, 12)):
        row: Row = {key: rng.choice(VALUES) for key in names if rng.random() < 0.7}
        if framework == "prime_rl" and rng.random() < 0.9:
            row["step"] = number // 3
        if framework == "slime":
            row |= {"train/step": number} if rng.random() < 0.8 else {}
            row |= {"rollout/step": number // 2} if rng.random() < 0.8 else {}
        local.append((number, row))
    server = []
    for number, row in local:
        if rng.random() < 0.8:
            kept = {key: value for key, value in row.items() if rng.random() < 0.95}
            if kept and rng.random() < 0.2:
                kept[rng.choice(list(kept))] = rng.choice(VALUES)
            server.append((number, kept))
    if rng.random() < 0.3:
        server.append((len(local), {"a": 1.0, "step": 99, "train/step": 99, "rollout/step": 99, "train/loss": 1.0}))
    return local, server


MANY = 40
"""Runs of one store: a store costs a second, a run nothing."""


@settings(max_examples=examples(2), deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_found_is_what_a_plain_comparison_finds(seed: int) -> None:
    rng = random.Random(seed)
    store = Histories()
    expected: dict[str, set[tuple[object, ...]]] = {}
    for number in range(MANY):
        framework, shared = rng.choice(sorted(FRAMEWORKS)), rng.random() < 0.5
        local, server = history(rng, framework)
        run = f"r{number}"
        expected[run] = twin(framework, local, server, shared)
        log = store.local(run, run, mode="shared" if shared else "online", framework=framework, state="finished")
        api = store.api(run, run, state="finished")
        jobs = [("local", *row) for row in local] + [("api", *row) for row in server]
        rng.shuffle(jobs)
        for at, (side, step, row) in enumerate(jobs):
            store.row(log if side == "local" else api, step, row, t=at, read="first" if side == "api" else None)
        for page in (1000, 777):
            store.read(api, 500 + page, " ".join(str(step) for step, _ in server), page=page)
    store.settle(5000)
    rows = store.con.execute(
        "SELECT run_id, kind, source, axis, first_step, last_step, key FROM wandb_gaps"
        " WHERE kind IN ('missing', 'partial', 'value_differs')"
    ).fetchall()
    known = set(store.con.execute("SELECT DISTINCT run_id, axis, step FROM step_coverage").fetchall())
    found: dict[str, set[tuple[object, ...]]] = {run: set() for run in expected}
    for run, kind, source, axis, first, last, key in rows:
        steps = range(first, last + 1)
        found[run] |= {(kind, source, axis, step, key) for step in steps if (run, axis, step) in known}
    store.con.close()
    for run, wanted in expected.items():
        assert found[run] == wanted, run
