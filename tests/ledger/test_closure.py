"""What a candidate is, and what a change of it makes stale."""

from __future__ import annotations

import hashlib
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.harness import ROOT
from tests.ledger.made import json_of
from tic_daemon.ledger import closure, gates

NAMES = sorted(closure.FIELDS)


def test_the_hash_is_of_what_is_known() -> None:
    found = closure.of({"object.layers": "0-3", "graph.mode": " FULL ", "kernel.moe": "unknown", "cache.prefix": ""})
    assert found.sha256 == hashlib.sha256(json_of({"object.layers": "0-3", "graph.mode": "FULL"}).encode()).hexdigest()
    assert set(found.unknown) == set(NAMES) - {"object.layers", "graph.mode"}
    assert found.fields["kernel.moe"] == "unknown"
    assert closure.of({"graph.mode": "FULL", "object.layers": "0-3"}).sha256 == found.sha256, "the order is nothing"


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


def test_what_nothing_is_known_of_is_said() -> None:
    assert closure.of({}).lacking == ("object", "execution", "path")
    assert closure.of({"object.model": "m", "rollout.lifecycle": "none"}).lacking == ("execution", "path")
    assert closure.of({"object.model": "m", "code.commit": "c", "graph.mode": "NONE"}).lacking == ()


def test_a_candidate_without_a_lifecycle_is_for_screening() -> None:
    assert all(closure.of({"rollout.lifecycle": word}).screening for word in ("none", "None", " NONE "))
    assert not closure.of({}).screening and not closure.of({"rollout.lifecycle": "sleep, wake"}).screening


# Written out from the table of the rules: which gates each class of change makes stale.
@pytest.mark.parametrize(
    ("field", "stale"),
    [
        ("object.layers", {"module", "proxy"}),
        ("object.geometry", {"module", "proxy"}),
        ("rollout.quantization", {"module", "proxy", "zero_update"}),
        ("native.jit", {"module", "proxy", "zero_update"}),
        ("kernel.attention", {"module", "proxy", "zero_update"}),
        ("kernel.moe", {"module", "proxy", "zero_update"}),
        ("graph.mode", {"proxy", "zero_update", "per_version"}),
        ("rollout.ep", {"proxy", "zero_update", "per_version"}),
        ("update.optimizer", {"module", "per_version", "acceptance"}),
        ("update.export", {"module", "per_version", "acceptance"}),
        ("rollout.image", set(gates.GATES)),
        ("native.sha256", set(gates.GATES)),
        ("object.tokenizer", set(gates.GATES)),
        ("made_up", set(gates.GATES)),
    ],
)
def test_which_gates_a_change_makes_stale(field: str, stale: set[str]) -> None:
    found = gates.stale([field])
    assert {one.gate for one in found} == stale
    assert all(field in one.cause for one in found)
    assert gates.regressions([field])[0]


def test_a_change_of_no_class_makes_every_cell_stale() -> None:
    assert [(one.gate, one.cell) for one in gates.stale(["object.checkpoint"])] == gates.cells()
    assert "no class" in gates.stale(["object.checkpoint"])[0].cause


def test_an_optimizer_leaves_the_forward_of_the_module() -> None:
    cells = {(one.gate, one.cell) for one in gates.stale(["update.optimizer"])}
    assert ("module", "gradients") in cells and ("module", "forward") not in cells
    assert ("acceptance", "quality") not in cells


def test_nothing_changed_makes_nothing_stale() -> None:
    assert gates.stale([]) == [] and gates.regressions([]) == []


def test_every_class_names_fields_that_there_are() -> None:
    named = [name for change in gates.CHANGES.values() for name in change.fields]
    assert len(named) == len(set(named)) and set(named) <= set(NAMES)


def test_the_fields_are_those_of_the_run_record() -> None:
    """All that the record says to be of object, execution or path, but what is left out with its reason."""
    with (ROOT / "daemon/tic_daemon/record/fields.toml").open("rb") as file:
        record = tomllib.load(file)["field"]
    of_candidates = {one["name"] for one in record if one.get("closure") in ("object", "execution", "path")}
    assert of_candidates - {"config.resolved"} == {*closure.NAMES.recorded, *closure.NAMES.left_out}
    assert not closure.FIELDS & closure.NAMES.left_out.keys()


def test_every_field_and_class_is_documented() -> None:
    text = (ROOT / "docs/reference/ledger.md").read_text()
    for name in (*closure.FIELDS, *closure.NAMES.left_out, *gates.CHANGES, *gates.GATES):
        assert f"`{name}`" in text or f"| {name} |" in text, name
    for gate, cell in gates.cells():
        assert cell == gates.VERSION or f"`{cell}`" in text, (gate, cell)
