"""What a candidate is, and what a change of it makes stale."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.made import json_of
from tic_daemon.ledger import closure, gates

NAMES = sorted(closure.FIELDS)


def test_the_hash_is_of_what_is_known() -> None:
    found = closure.of({"layers": "0-3", "graph": " FULL ", "moe": "unknown", "cache": ""})
    assert found.sha256 == hashlib.sha256(json_of({"layers": "0-3", "graph": "FULL"}).encode()).hexdigest()
    assert set(found.unknown) == set(NAMES) - {"layers", "graph"}
    assert found.fields["moe"] == "unknown"
    assert closure.of({"graph": "FULL", "layers": "0-3"}).sha256 == found.sha256, "the order is nothing"


@pytest.mark.parametrize("name", ["policy_version", "policy", "policy_content_id", "policy_manifest_sha256"])
def test_the_policy_version_is_no_part_of_a_candidate(name: str) -> None:
    with pytest.raises(ValueError, match="no part of a candidate"):
        closure.of({name: "7"})


@pytest.mark.parametrize("fields", [{"A": "x"}, {"a b": "x"}, {"layers": "x" * 4001}, {"": "x"}])
def test_fields_that_are_none(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="field"):
        closure.of(fields)


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "b", "unknown"]), max_size=6), st.data())
def test_any_known_difference_is_another_candidate(fields: dict[str, str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    other = {**fields, name: data.draw(st.sampled_from(["a", "b", "c", "unknown"]))}
    same = fields.get(name, "unknown") == other[name]
    assert (closure.of(fields).sha256 == closure.of(other).sha256) == same
    assert (name in closure.changes(closure.of(fields).fields, closure.of(other).fields).changed) != same


def test_what_nobody_knows_is_not_shown_to_be_equal() -> None:
    found = closure.changes({"layers": "1", "moe": "unknown"}, {"layers": "1", "graph": "unknown", "cache": "on"})
    assert found == closure.Changes(("cache",), ("graph", "moe"))


def test_a_candidate_without_a_lifecycle_is_for_screening() -> None:
    assert closure.of({"lifecycle": "none"}).screening
    assert not closure.of({}).screening and not closure.of({"lifecycle": "sleep, wake"}).screening


# Written out from the table of the rules: which gates each class of change makes stale.
@pytest.mark.parametrize(
    ("field", "stale"),
    [
        ("layers", {"module", "proxy"}),
        ("geometry", {"module", "proxy"}),
        ("quantization", {"module", "proxy", "zero_update"}),
        ("trainer_jit", {"module", "proxy", "zero_update"}),
        ("attention", {"module", "proxy", "zero_update"}),
        ("moe", {"module", "proxy", "zero_update"}),
        ("graph", {"proxy", "zero_update", "per_version"}),
        ("rollout_parallel", {"proxy", "zero_update", "per_version"}),
        ("optimizer", {"module", "per_version", "acceptance"}),
        ("export", {"module", "per_version", "acceptance"}),
        ("rollout_image", set(gates.GATES)),
        ("trainer_native", set(gates.GATES)),
        ("tokenizer", set(gates.GATES)),
        ("made_up", set(gates.GATES)),
    ],
)
def test_which_gates_a_change_makes_stale(field: str, stale: set[str]) -> None:
    found = gates.stale([field])
    assert {one.gate for one in found} == stale
    assert all(field in one.cause for one in found)
    assert gates.regressions([field])[0]


def test_a_change_of_no_class_makes_every_cell_stale() -> None:
    assert [(one.gate, one.cell) for one in gates.stale(["checkpoint"])] == gates.cells()
    assert "no class" in gates.stale(["checkpoint"])[0].cause


def test_an_optimizer_leaves_the_forward_of_the_module() -> None:
    cells = {(one.gate, one.cell) for one in gates.stale(["optimizer"])}
    assert ("module", "gradients") in cells and ("module", "forward") not in cells
    assert ("acceptance", "quality") not in cells


def test_nothing_changed_makes_nothing_stale() -> None:
    assert gates.stale([]) == [] and gates.regressions([]) == []


def test_every_class_names_fields_that_there_are() -> None:
    named = [name for change in gates.CHANGES.values() for name in change.fields]
    assert len(named) == len(set(named)) and set(named) <= set(NAMES)
