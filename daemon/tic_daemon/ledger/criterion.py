"""A criterion as values: metric, bound and what it covers, from the text that was fixed before the run.

    metric = "logprob_mae"         # or "bitwise", which has no bound
    at_most = 0.005                # or at_least
    goal = "cross_stack"           # optional, as all below
    steps = [0, 4]                 # first and last
    path = "decode_graph"          # must have been taken
    gate = "proxy"                 # with goal and cell: the cell that a verdict by it fills
    cell = "actor_forward"
    planted = "one bit of request 7"
    key = "perf/tok_s"             # of pair_ratio and pair_difference alone
    [execution]                    # must be recorded so
    graph_mode = "FULL"

Its SHA-256 names it: one changed byte is another criterion.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tic_daemon.evidence.judge import BITWISE, Bound, Goal
from tic_daemon.ledger import gates

SMALL_IS_GOOD: Final = (
    "logprob_mae", "logprob_max", "probability_mae", "kl_k2", "kl_k3", "relative_l2", "p50", "p95", "p99",
)  # fmt: skip
LARGE_IS_GOOD: Final = ("cosine",)
METRICS: Final = (*SMALL_IS_GOOD, *LARGE_IS_GOOD)
"""What a criterion may bound, besides `bitwise`. Not `kl_k1`: it has a sign, and large differences cancel in it."""

PAIRED: Final = ("pair_ratio", "pair_difference")
"""What a criterion of a pair of arms bounds, from either side: median over its pairs of b / a, and of b - a, of `key`.
It fills acceptance/performance or acceptance/quality, and no comparison of dumps is judged by it."""
PAIRED_CELLS: Final = ("performance", "quality")

_INT64: Final = 1 << 63
KEYS: Final = frozenset(
    {"metric", "at_most", "at_least", "goal", "steps", "path", "execution", "gate", "cell", "planted", "note", "key"}
)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion file. `steps` are the first and the last step that it covers, or None. `gate`, `cell`: what a
    verdict by it fills, "" for none; of gate per_version the cell is the policy version of the comparison. `planted`:
    which error is to prove it, in words. `key`: full key of the metric that arms are compared by, "" for none."""

    path: str
    sha256: str
    bound: Bound
    goal: Goal
    steps: tuple[int, int] | None
    target: str
    execution: Mapping[str, str]
    gate: str = ""
    cell: str = ""
    planted: str = ""
    key: str = ""

    def outside(self, step: int | None) -> str:
        """Why it does not cover a step, or ""."""
        if self.steps is None:
            return ""
        first, last = self.steps
        if step is None:
            return f"the criterion is for steps {first} to {last}, and the step is not known"
        return "" if first <= step <= last else f"step {step} lies outside the criterion's steps {first} to {last}"

    def as_json(self) -> dict[str, Any]:
        """What the ledger keeps of it beside its text."""
        first, last = self.steps or (None, None)
        paired = {"key": self.key} if self.key else {}
        return {
            **paired, "metric": self.bound.metric, "at_most": self.bound.at_most, "at_least": self.bound.at_least,
            "goal": str(self.goal), "first_step": first, "last_step": last, "target": self.target, "gate": self.gate,
            "cell": self.cell, "planted": self.planted,
        }  # fmt: skip


def parse(raw: bytes, path: str = "") -> Criterion:
    """The criterion that a file's bytes hold.

    Raises:
        ValueError, TypeError, KeyError: it has an unknown key, no usable bound, or is no TOML.
    """
    try:
        found = tomllib.loads(raw.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    unknown = sorted(found.keys() - KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    metric = found.get("metric")
    if metric not in {*METRICS, *PAIRED, BITWISE}:
        raise ValueError(f"metric {metric!r} is none of {', '.join((BITWISE, *METRICS, *PAIRED))}")
    bounds = {key: _bound(found[key]) for key in ("at_most", "at_least") if key in found}
    wrong = "" if metric in PAIRED else "at_most" if metric in LARGE_IS_GOOD else "at_least"
    if wrong in bounds:
        raise ValueError(
            f"{metric} is bounded by {'at_least' if wrong == 'at_most' else 'at_most'}: {wrong} asks nothing of it"
        )
    steps = found.get("steps")
    if steps is not None and not (
        isinstance(steps, list)
        and len(steps) == 2
        and all(type(step) is int and abs(step) < _INT64 for step in steps)
        and steps[0] <= steps[1]
    ):
        raise ValueError("steps are two integers, the first and the last")
    execution, target, planted = found.get("execution", {}), found.get("path", ""), found.get("planted", "")
    if not isinstance(execution, dict) or not isinstance(target, str) or not isinstance(planted, str):
        raise ValueError("execution is a table, path and planted are texts")
    goal = Goal(found.get("goal", "unknown"))
    if metric in PAIRED:
        place = _paired(found)
    elif "key" in found:
        raise ValueError(f"key stands with {' or '.join(PAIRED)} alone")
    else:
        place = _place(found.get("gate", ""), found.get("cell", ""), goal)
    return Criterion(
        path,
        hashlib.sha256(raw).hexdigest(),
        Bound(metric, **bounds),
        goal,
        (steps[0], steps[1]) if steps else None,
        target,
        {key: str(value) for key, value in execution.items()},
        *place,
        planted,
        str(found.get("key", "")),
    )


def _paired(found: Mapping[str, Any]) -> tuple[str, str]:
    """The cell of a criterion of a pair."""
    key, cell = found.get("key"), found.get("cell")
    if not isinstance(key, str) or not key:
        raise ValueError("key names the metric that the arms are compared by, in full")
    if found.get("gate") != "acceptance" or cell not in PAIRED_CELLS:
        raise ValueError(f"a pair fills gate acceptance, cell {' or '.join(PAIRED_CELLS)}")
    if alone := sorted(found.keys() & {"goal", "steps", "path", "execution"}):
        raise ValueError(f"{alone[0]} says nothing of a pair")
    return "acceptance", str(cell)


def _bound(value: Any) -> float:
    if type(value) not in {int, float}:
        raise TypeError("a bound is a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("a bound is a finite number") from error


def _place(gate: Any, cell: Any, goal: Goal) -> tuple[str, str]:
    """The cell that it is for: one that a comparison of its goal can fill."""
    if not gate:
        if cell:
            raise ValueError("cell stands without gate")
        return "", ""
    found = gates.GATES.get(gate) if isinstance(gate, str) else None
    if found is None:
        raise ValueError(f"gate {gate!r} is none of {', '.join(gates.GATES)}")
    if found.versions:
        if cell:
            raise ValueError(f"the cells of {gate} are the policy versions: leave cell out")
    elif not isinstance(cell, str) or not gates.has_cell(gate, cell):
        raise ValueError(f"cell of {gate} is one of {', '.join(one.name for one in found.cells)}")
    goals = gates.cell_of(gate, cell).goals
    if goal not in goals:
        asked = f"goal {' or '.join(goals)}" if goals else "other evidence than a comparison"
        raise ValueError(f"{gate} {cell} needs {asked}".replace("  ", " "))
    return gate, cell
