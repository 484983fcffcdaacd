"""What the router is told, out of a store with comparisons made by hand; and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from tests.evidence.worldstore import WorldStore
from tests.store.samples import NOON
from tic_daemon.errors import UnknownRunError
from tic_daemon.hints import words
from tic_daemon.hints.facts import facts_of
from tic_daemon.hints.router import Compared, Sequence_, Trace, route
from tic_daemon.store.reader import Result

PAST = NOON - timedelta(days=1)


@dataclass
class Asked:
    """A reader of one store in memory."""

    store: WorldStore

    def query(self, sql: str, params: Sequence[object] = (), **_: object) -> Result:
        cursor = self.store.con.execute(sql, list(params))
        names = [column[0] for column in cursor.description or ()]
        kinds = [str(column[1]) for column in cursor.description or ()]
        return Result(tuple(names), tuple(kinds), cursor.fetchall(), False, 0.0)


def comparison(number: int, run: str, **more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "rec_id": number, "host": "h", "root": "/w", "id": f"c{number}", "task": f"t{number}", "run": run, "run_how": "path",
        "step": number, "kind": "tokens", "control": "", "side_a": f"/w/a{number}", "side_b": f"/w/b{number}", "manifest": "",
        "policy_a": "v1", "policy_b": "v1", "input": "i1", "valid_tokens": 100, "mismatched_tokens": 10, "sequences": 4,
        "sequences_differing": 1, "logprob_mae": 1e-4, "floor_a": 1e-5, "floor_b": 2e-5, "label": "", "plant": "", "rule": 9,
        "observed_at": PAST + timedelta(minutes=number),
    }  # fmt: skip
    return {**row, **more}


@pytest.fixture(scope="module")
def reader() -> Asked:
    store = WorldStore()
    rows = [
        comparison(1, "r1"), comparison(2, "r1", input="i2", mismatched_tokens=0, sequences_differing=0),
        comparison(3, "r1", plant="one bit", mismatched_tokens=99), comparison(4, "r1", label="VACUOUS"),
        comparison(5, "r1", control="training_alone", input="i2", mismatched_tokens=0, sequences_differing=0),
        comparison(6, "r1", kind="trace", probes=3, probes_differing=1, valid_tokens=None, mismatched_tokens=None),
        # The same tokens again in a rerun, and again: three rounds since the trace of r1 said more, one before it.
        comparison(7, "r2"), comparison(8, "r2"), comparison(9, "r2", policy_b="v2"), comparison(10, "r2", input="i9"),
    ]  # fmt: skip
    for row in rows:
        store.put("comparison", [row])
    store.put("comparison_sequence", [
        {"rec_id": 20, "comparison_id": "c1", "request": "a", "valid_tokens": 25, "mismatched_tokens": 10, "first_position": 0,
         "prompt_length": 7, "observed_at": PAST},
        {"rec_id": 21, "comparison_id": "c1", "request": "b", "valid_tokens": 25, "mismatched_tokens": 0, "first_position": None,
         "prompt_length": 7, "observed_at": PAST},
    ])  # fmt: skip
    store.put("trace_boundary", [
        {"rec_id": 22, "comparison_id": "c6", "execution_order": 0, "request": "a", "boundary": "layer0.topk", "slice": "all",
         "state": "equal", "input_state": "equal", "discrete": True, "observed_at": PAST},
        {"rec_id": 23, "comparison_id": "c6", "execution_order": 1, "request": "a", "boundary": "layer0.experts", "slice": "all",
         "state": "differs", "input_state": "equal", "discrete": False, "observed_at": PAST},
    ])  # fmt: skip
    return Asked(store)


def test_only_what_may_be_looked_at_is_looked_at(reader: Asked) -> None:
    facts = facts_of(reader, "r1")  # type: ignore[arg-type]
    base = Compared("c1", 1, 100, 10, 4, 1, True, (), True, 1e-4, 2e-5)
    equal = replace(base, id="c2", step=2, differing=0, sequences_differing=0)
    assert sorted(facts.compared, key=lambda one: one.id) == [base, equal], (
        "neither the planted error nor what compared nothing"
    )
    assert facts.sequences == {"c1": (Sequence_("a", 25, 10, 0, 7),)}
    assert facts.groups == {"inference_alone": "not run", "training_alone": "equal", "score_layer": "not run"}
    assert facts.traces == (Trace("layer0.experts", "equal", False, True),)
    assert facts.weights == "unknown" and facts.quantized == ""


def test_rounds_count_the_same_input_in_all_runs_since_something_new(reader: Asked) -> None:
    assert facts_of(reader, "r1").rounds == 3, "c7, c8 and c9; c1 is older than the trace"  # type: ignore[arg-type]
    assert facts_of(reader, "r2").rounds == 3, "what r1 showed of these tokens is ground for r2, too"  # type: ignore[arg-type]
    assert "add observation points" in route(facts_of(reader, "r2")).stuck  # type: ignore[arg-type]


def test_a_run_that_nobody_knows(reader: Asked) -> None:
    with pytest.raises(UnknownRunError):
        facts_of(reader, "nobody")  # type: ignore[arg-type]


def test_everything_printed_is_called_a_hint(reader: Asked) -> None:
    told = route(facts_of(reader, "r1"))  # type: ignore[arg-type]
    text = words.text("r1", told)
    assert text.startswith("hints for r1") and "No verdict" in text
    assert all(f"hint: {hint.says}" in text for hint in told.hints)
    assert not {"PASS", "FAIL", "pass", "fail"} & set(text.replace(":", " ").split())
    assert "ruled out: training alone: equal" in text and json.dumps(text)


def test_locked_numbers_are_no_ground(reader: Asked) -> None:
    """Once CUDA state is corrupted, nothing of the attempt is looked at."""
    store = WorldStore()
    store.put("comparison", [comparison(1, "r1")])
    ((sql,),) = store.con.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'comparisons'").fetchall()
    made = sql.split(" AS ", 1)[1].rstrip(";")
    store.con.execute(
        f"CREATE OR REPLACE VIEW comparisons AS SELECT * REPLACE ('locked' AS admissibility) FROM ({made})"
    )
    assert facts_of(Asked(store), "r1").compared == ()  # type: ignore[arg-type]
