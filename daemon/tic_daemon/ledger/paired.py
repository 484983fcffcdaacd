"""What a frozen criterion says of a pair of arms. Pure.

    verdict(bound, measured) -> (label, reason)

In this order; the first that holds decides: a number that is missing, a rule of experiment discipline that is not met,
a baseline that nobody reviewed or that arm a is not shown to be, a criterion that is not shown to be older than the
numbers of arm b, no planted error that it judged FAIL, the bound. A pair that plants the error needs no other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tic_daemon.evidence.judge import Bound
from tic_daemon.evidence.labels import Label

RATIO = "pair_ratio"


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair and one key of it.

    Attributes:
        state, reason: of view `pair_values`. ratio, difference: medians over the pairs; ratios, differences: of each.
        baseline: what is wrong with it; "" if it is reviewed and arm a is it.
        older: the criterion is shown to be older than arm b's first number.
        plant: the error planted in arm b; "". proved: a planted error was judged FAIL by the criterion.
    """

    state: str
    reason: str
    ratio: float | None
    difference: float | None
    ratios: Sequence[float | None]
    differences: Sequence[float | None]
    baseline: str
    older: bool
    plant: str = ""
    proved: bool = False


def verdict(bound: Bound, measured: Measured) -> tuple[Label | None, str]:
    """Label and reason; without a label nothing is judged."""
    of_ratio = bound.metric == RATIO
    value, singles = (measured.ratio, measured.ratios) if of_ratio else (measured.difference, measured.differences)
    if value is None:
        return None, "no pair has both numbers"
    if measured.state != "measured":
        return None, f"pending re-check: {measured.reason}"
    if measured.baseline:
        return None, f"pending re-check: {measured.baseline}"
    if not measured.older:
        return None, "nothing shows the criterion to be older than the first number"
    if not measured.plant and not measured.proved:
        return None, "pending re-check: no planted error was judged FAIL by it"
    what, own = ("ratio", "at most") if of_ratio else ("difference", "at most")
    limit = bound.at_most
    if limit is None:
        own, limit = "at least", bound.at_least
    known = ", ".join(f"{one:.6g}" for one in singles if one is not None)
    words = f"median {what} {value:.6g} of pairs {known}; criterion {own} {limit!r}"
    return (Label.PASS if bound.holds(value) else Label.FAIL), words
