"""A run's record as text for a person.

Text from outside is not made harmless here: who prints it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tic_daemon.output import joined

STATES: Final[Mapping[str, str]] = {
    "agree": "both say so", "disagree": "DISAGREE", "worker only": "worker", "launcher only": "launcher alone",
    "unknown": "unknown",
}  # fmt: skip
_WIDTH: Final = 34


def text(
    run: str, rows: Sequence[Mapping[str, Any]], print_: Mapping[str, Any], secrets: Sequence[Mapping[str, Any]]
) -> str:
    """By heading: each field with what counts, who says so and where."""
    lines = [f"record of {run}"]
    for heading in dict.fromkeys(map(_heading, rows)):
        lines += ["", heading]
        for row in rows:
            if _heading(row) == heading:
                lines += _field(row)
    lines += ["", f"fingerprint {print_['fingerprint'] or 'none: nothing that enters it is known'}"]
    lines.append(f"  over {print_['known']} known fields")
    if print_["unknown_fields"]:
        lines.append(f"  unknown, and not in it: {', '.join(print_['unknown_fields'])}")
    if print_["disagreeing_fields"]:
        lines.append(f"  said differently: {', '.join(print_['disagreeing_fields'])}")
    lines += [f"secret: {found['path']}: {found['detail']}" for found in secrets]
    return joined(lines)


def _heading(row: Mapping[str, Any]) -> str:
    return str(row["heading"]).split("; ")[0]


def _field(row: Mapping[str, Any]) -> list[str]:
    name = f"  {row['field']}"
    state = STATES[row["state"]]
    if row["state"] == "unknown":
        return [f"{name:<{_WIDTH}} unknown"]
    lines = [f"{name:<{_WIDTH}} {row['value']}  ({state})"]
    for side in ("launcher", "worker"):
        if row[side] is not None:
            lines.append(f"      {side}: {row[side]}  [{row[f'{side}_source']}]")
    if row["note"]:
        lines.append(f"      {row['note']}")
    return lines
