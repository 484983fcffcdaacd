"""The six labels of evidence and the four states of a table, and how one becomes the other.

Source: the evidence rules' section 1. A label belongs to a piece of evidence; a state is what a table's cell shows.
`unknown` is no label: what is not known is said in a reason, never filled in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Label(StrEnum):
    """PASS and FAIL judged something; INVALID did not enter the target path; VACUOUS met its condition zero times."""

    PASS = "PASS"  # noqa: S105  a label, no password
    FAIL = "FAIL"
    INVALID = "INVALID"
    VACUOUS = "VACUOUS"
    SUPERSEDED = "SUPERSEDED"
    HISTORICAL = "HISTORICAL"


class State(StrEnum):
    """What a table shows: these four and no more."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a current table. `cause` says why; it is never empty for what is inconclusive."""

    state: State
    cause: str = ""


_SHOWN = {
    Label.PASS: State.PASS,
    Label.FAIL: State.FAIL,
    Label.INVALID: State.INCONCLUSIVE,
    Label.VACUOUS: State.INCONCLUSIVE,
}


def cell(label: Label, reason: str) -> Cell | None:
    """What the current table shows of one piece of evidence; None for what stands in the ledger only.

    Raises:
        ValueError: an INVALID or VACUOUS label without a reason.
    """
    state = _SHOWN.get(label)
    if state is None:
        return None
    reason = reason.strip()
    if state is State.INCONCLUSIVE and not reason:
        raise ValueError(f"{label} needs a reason: the table shows it beside 'inconclusive'")
    return Cell(state, reason)


def gate_cell(evidence: list[tuple[Label, str]]) -> Cell:
    """What a gate shows of all its evidence, oldest first: the newest that counts.

    One SUPERSEDED piece makes the gate stale, whatever else stands there: `not run`, with the cause.
    """
    for label, reason in evidence:
        if label is Label.SUPERSEDED:
            return Cell(State.NOT_RUN, f"stale: {reason.strip() or 'superseded'}")
    for label, reason in reversed(evidence):
        shown = cell(label, reason)
        if shown is not None:
            return shown
    return Cell(State.NOT_RUN)
