"""What the four control groups of a comparison tell together: which side is ruled out, and where to look first.

    inference alone   the same tokens scored again, batch 1 against mixed, decode against full prefill
    training alone    A/A, and A/C in another packing
    cross-stack       rollout against trainer
    score layer       both scorers on the same logits

Whichever two are equal rule out that side, for what was compared. A group that did not run says nothing. The plain twin
of store/schema/shared/control_groups.sql.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EQUAL: Final = "equal"
DIFFERS: Final = "differs"
INCONCLUSIVE: Final = "inconclusive"
NOT_RUN: Final = "not run"


@dataclass(frozen=True, slots=True)
class Board:
    """`rules_out`: sides, with commas between; "": none. `look_at`: where to look first."""

    rules_out: str
    look_at: str


def board(inference: str, training: str, cross: str, score: str) -> Board:
    """What the states of the four groups say."""
    named = (("inference", inference), ("training", training), ("score layer", score))
    return Board(", ".join(name for name, state in named if state == EQUAL), _look(inference, training, cross, score))


def _look(inference: str, training: str, cross: str, score: str) -> str:  # noqa: PLR0911  one return a rule
    if inference == training == DIFFERS:
        return "each side by itself: make each repeatable first"
    if inference == DIFFERS:
        return "the inference side"
    if training == DIFFERS:
        return "the training side: its layout and packing"
    if score == DIFFERS:
        return "the score layer: dtype, temperature, logsumexp, vocabulary shards"
    if cross == EQUAL:
        return "nothing: both stacks agree on these tokens"
    if cross != DIFFERS:
        return "the stacks are not compared"
    if inference == training == EQUAL:
        return "weights, arithmetic semantics and the scoring path"
    lacking = [name for name, state in (("inference", inference), ("training", training)) if state != EQUAL]
    return f"the sides are not told apart: run {' and '.join(f'{name} alone' for name in lacking)}"
