"""A criterion file, fixed before the run, and the planted error that proves it. What it says:
tic_daemon/ledger/criterion.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare.opened import Opened
from tic_daemon.errors import CompareError
from tic_daemon.ledger.criterion import METRICS, Criterion, parse

__all__ = ["METRICS", "Criterion", "criterion", "planted"]

MAX_BYTES: Final = 1 << 18


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
        found = parse(raw, str(path))
    except (ValueError, TypeError, KeyError) as error:
        raise CompareError(f"{path} is no criterion: {error}", "see docs/reference/compare.md") from error
    if found.key:
        raise CompareError(f"{path} judges pairs of arms, no dumps", "freeze it: docs/reference/ledger.md")
    return found


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
