"""The reference of comparisons names what there is: options, metrics, types, manifest and criterion keys, rules."""

from __future__ import annotations

import argparse
import inspect
import re
from dataclasses import fields

import pytest

from tests.e2e.harness import ROOT
from tic_daemon import cli
from tic_daemon.compare import manifests, said
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.figures import QUANTILES
from tic_daemon.compare.means import MEANS
from tic_daemon.compare.noise import Floor
from tic_daemon.compare.scores import ScoreComparison
from tic_daemon.compare.tensors import TensorFigures, VocabFigures
from tic_daemon.evidence import judge
from tic_daemon.evidence.judge import Goal
from tic_daemon.ledger import criterion

REFERENCE = (ROOT / "docs/reference/compare.md").read_text()
BOTH = REFERENCE + (ROOT / "docs/how-to/compare.md").read_text()


def test_every_option_is_explained() -> None:
    (commands,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    for action in commands.choices["compare"]._actions:
        for option in action.option_strings:
            if option not in {"-h", "--help", "--run", "--step", "--intervention"}:
                assert option in BOTH, option


@pytest.mark.parametrize("name", [*MEANS, *(f"p{share}" for share in QUANTILES)])
def test_every_metric_has_its_definition(name: str) -> None:
    assert re.search(rf"^\| [^|]*`{name}`[^|]* \| .", REFERENCE, flags=re.MULTILINE), name


def test_every_type_form_and_goal_is_named() -> None:
    for element in ELEMENTS.values():
        assert element.kind != "float" or element.name in REFERENCE
    for goal in Goal:
        assert goal is Goal.UNKNOWN or goal in REFERENCE
    for key in criterion.KEYS:
        assert f"`{key}`" in REFERENCE or f"[{key}]" in REFERENCE, key


def test_every_manifest_key_is_named() -> None:
    source = inspect.getsource(manifests)
    read = set(re.findall(r'(?:text|integer|found\.get|entry\.get)\("(\w+)"\)', source))
    assert read == {*said.SHARED, *said.OWN}, (
        "what is read belongs to what a comparison hangs on, and nothing else does"
    )
    keys = read | set(manifests._RECEIPT)
    assert {"policy_version", "hook_count", "sha256", "producer", "command"} <= keys
    for key in keys:
        assert f"`{key}`" in REFERENCE, key


def test_every_rule_has_its_row() -> None:
    rules = {int(number) for number in re.findall(r"^ ?(\d+)  ", judge.__doc__ or "", flags=re.MULTILINE)}
    assert rules == set(range(1, len(judge._RULES) + 1))
    assert {int(number) for number in re.findall(r"^\| (\d+) \| ", REFERENCE, flags=re.MULTILINE)} == rules


@pytest.mark.parametrize("kind", [TensorFigures, VocabFigures, ScoreComparison, Floor])
def test_figures_of_other_comparisons_are_named(kind: type) -> None:
    plain = {"size", "rows", "not_finite", "tv_mean", "tv_max", "argmax", "logsoftmax_max", "problems", "same", "largest", "unfit",
             "side", "repeats", "pairs", "metrics", "valid", "shown", "undefined"}  # fmt: skip
    for field in fields(kind):
        assert field.name in plain or f"`{field.name}`" in REFERENCE or field.name == "mismatched", field.name
