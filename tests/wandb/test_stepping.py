"""The training step of a row that was read through the API, where its keys show whose history it is."""

from __future__ import annotations

from typing import Any

import pytest

from tic_daemon.wandb.history import flatten, history_row
from tic_daemon.wandb.keys import built_in
from tic_daemon.wandb.target import Named, Target
from tic_daemon.wandb.wire import RowTold

VERL = {"actor/pg_loss": 0.5, "training": {"global_step": 7}}
SLIME = {"train/train_rollout_logprob_abs_diff": 0.1, "train/step": 31}


def steps(rows: list[dict[str, Any]], framework: str = "") -> list[int | None]:
    """Of rows at `_step` 100, 101, ..., in the order in which they are read."""
    target = Target(Named("lab/grpo/a", "/ws"), "node1", keys=built_in(), framework=framework)
    found = []
    for number, given in enumerate(rows):
        row = history_row(flatten({"_step": 100 + number, **given}), number)
        event = target.row(RowTold(row, f"{number:032x}"), "read")
        assert event is not None and event.wandb_step == 100 + number
        found.append(event.at.step)
    return found


@pytest.mark.parametrize(
    ("rows", "framework", "expected"),
    [
        ([VERL, VERL], "", [100, 101]),  # its `_step` is the training step
        ([SLIME, {"train/step": 32, "train/loss": 1.0}], "", [31, 32]),  # a key of the row is
        ([SLIME, {"rollout/step": 4, "rollout/reward": 1.0}], "", [31, None]),  # a row of another axis
        ([{"loss": 1.0}, {"loss": 1.0}], "", [None, None]),  # nobody knows whose keys these are
        ([{"loss": 1.0}, VERL], "", [None, 101]),  # not known when the first one was read
        ([{"loss": 1.0, "train/step": 5}], "slime", [5]),  # tic.toml says it
        ([{**SLIME, "train/step": 1.5}], "", [None]),
    ],
)
def test_a_row_has_its_training_step_as_soon_as_its_keys_are_known(
    rows: list[dict[str, Any]], framework: str, expected: list[int | None]
) -> None:
    assert steps(rows, framework) == expected
