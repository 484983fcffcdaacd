"""A criterion: metric, bound and what it covers, fixed in a file before the run; and the planted error that proves it.

    metric = "logprob_mae"         # or "bitwise", which has no bound
    at_most = 0.005                # or at_least
    goal = "cross_stack"           # optional, as all below
    steps = [0, 4]                 # first and last
    path = "decode_graph"          # must have been taken
    [execution]                    # must be recorded so
    graph_mode = "FULL"

Its SHA-256 names it: one changed byte is another criterion.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare.opened import Opened
from tic_daemon.errors import CompareError
from tic_daemon.evidence.judge import BITWISE, Bound, Goal

SMALL_IS_GOOD: Final = (
    "logprob_mae", "logprob_max", "probability_mae", "kl_k2", "kl_k3", "relative_l2", "p50", "p95", "p99",
)  # fmt: skip
LARGE_IS_GOOD: Final = ("cosine",)
METRICS: Final = (*SMALL_IS_GOOD, *LARGE_IS_GOOD)
"""What a criterion may bound, besides `bitwise`. Not `kl_k1`: it has a sign, and large differences cancel in it."""

MAX_BYTES: Final = 1 << 20
_KEYS: Final = frozenset({"metric", "at_most", "at_least", "goal", "steps", "path", "execution", "note"})


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion file. `steps` are the first and the last step that it covers, or None."""

    path: str
    sha256: str
    bound: Bound
    goal: Goal
    steps: tuple[int, int] | None
    target: str
    execution: Mapping[str, str]

    def outside(self, step: int | None) -> str:
        """Why it does not cover a step, or ""."""
        if self.steps is None:
            return ""
        first, last = self.steps
        if step is None:
            return f"the criterion is for steps {first} to {last}, and the step is not known"
        return "" if first <= step <= last else f"step {step} lies outside the criterion's steps {first} to {last}"


def criterion(path: Path) -> Criterion:
    """Reads a criterion from TOML.

    Raises:
        CompareError: it cannot be read, has an unknown key, or has no usable bound.
    """
    with Opened(path) as file:
        if file.size > MAX_BYTES:
            raise CompareError(f"{path} has {file.size} bytes: no criterion")
        raw = bytes(file.read(0, file.size))
    try:
        found = tomllib.loads(raw.decode())
        return _criterion(str(path), hashlib.sha256(raw).hexdigest(), found)
    except (ValueError, TypeError, KeyError) as error:
        raise CompareError(f"{path} is no criterion: {error}", "see docs/reference/compare.md") from error


def _criterion(path: str, digest: str, found: Mapping[str, Any]) -> Criterion:
    unknown = sorted(found.keys() - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    metric = found.get("metric")
    if metric not in {*METRICS, BITWISE}:
        raise ValueError(f"metric {metric!r} is none of {', '.join((BITWISE, *METRICS))}")
    bounds = {key: _bound(found[key]) for key in ("at_most", "at_least") if key in found}
    wrong = "at_most" if metric in LARGE_IS_GOOD else "at_least"
    if wrong in bounds:
        raise ValueError(
            f"{metric} is bounded by {'at_least' if wrong == 'at_most' else 'at_most'}: {wrong} asks nothing of it"
        )
    steps = found.get("steps")
    if steps is not None and not (
        isinstance(steps, list)
        and len(steps) == 2
        and all(type(step) is int for step in steps)
        and steps[0] <= steps[1]
    ):
        raise ValueError("steps are two integers, the first and the last")
    execution, target = found.get("execution", {}), found.get("path", "")
    if not isinstance(execution, dict) or not isinstance(target, str):
        raise ValueError("execution is a table, path a text")
    return Criterion(
        path,
        digest,
        Bound(metric, **bounds),
        Goal(found.get("goal", "unknown")),
        (steps[0], steps[1]) if steps else None,
        target,
        {key: str(value) for key, value in execution.items()},
    )


def _bound(value: Any) -> float:
    if type(value) not in {int, float}:
        raise TypeError("a bound is a number")
    return float(value)


def planted(path: Path, wanted: Mapping[str, Any]) -> str:
    """Why the report of a planted error does not prove a criterion; "" if it does.

    Args:
        path: a report of `tic-daemon compare --plant`.
        wanted: what must be the same in it: criterion, metric, readers, elements and program version, by name.

    Raises:
        CompareError: it cannot be read.
    """
    with Opened(path) as file:
        if file.size > 1 << 30:
            raise CompareError(f"{path} is no report")
        try:
            found = json.loads(file.read(0, file.size))
            own, verdict = found["identity"]["planted"], found["identity"]["verdict"]
            same = {key: found["identity"]["through"].get(key) for key in wanted}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CompareError(
                f"{path} is no report of this program", "give the report of the planted error"
            ) from error
    if not own:
        return f"{path} is no report of a planted error"
    if (verdict.get("label"), verdict.get("rule")) != ("FAIL", 11):
        return f"{path} did not judge the planted error FAIL by the criterion"
    for key, value in wanted.items():
        if same[key] != value:
            return f"{path} was judged through another {key}: {same[key]!r}, here {value!r}"
    return ""
