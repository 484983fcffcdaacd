"""Which training step a row of a history is of, found as its rows are read one by one.

    steps = Stepping(keys, framework)
    number = steps.take(row)     None: not known when the row is read
    steps.framework              whose keys these are; "" not known yet

Nobody says whose a history is: its keys show it (wandb/keys.py), sometimes only after some rows. Rows before that keep
no number; what holds histories against each other reads them again and knows better (store/reconcile.py).
"""

from __future__ import annotations

from typing import Final

from tic_daemon.wandb.history import STEP_KEY, HistoryRow, step_of
from tic_daemon.wandb.keys import Keys

LOOKS: Final = 50
"""How often the keys of a history are held against the frameworks' before it counts as one of none."""


class Stepping:
    """The rows of one history, in order. `framework`: if tic.toml names it."""

    def __init__(self, keys: Keys, framework: str = "") -> None:
        self._keys = keys
        self.framework = framework
        self._names: set[str] = set()
        self._looks = 0

    def take(self, row: HistoryRow) -> int | None:
        """The training step of the next row."""
        self._look(row)
        if not self.framework:
            return None
        axis = self._keys.main(self.framework)
        if axis == STEP_KEY:
            return row.wandb_step
        return step_of(next((value for value in row.values if value.key == axis), None))

    def _look(self, row: HistoryRow) -> None:
        if self.framework or self._looks >= LOOKS:
            return
        names = {value.key for value in row.values}
        if not names <= self._names:
            self._looks += 1
            self._names |= names
            self.framework = self._keys.framework(self._names)
