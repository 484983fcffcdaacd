"""When the ledger is brought up to what was compared, seen and measured (judged.py says how).

What a run's record says is a large question: it is asked in a thread, from time to time, and a later call commits what
it found. In between twenty times as long is rested as it took.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import duckdb

from tic_daemon.errors import StoreError
from tic_daemon.store import judged, observed
from tic_daemon.store.aside import Aside

if TYPE_CHECKING:
    from datetime import datetime

    from tic_daemon.ledger.entries import Entry

log = logging.getLogger(__name__)

LEAST_S: Final = 0.5
RETRY_S: Final = 30.0
ASKED: Final = 3
"""So often at once: what a planted error shows of a criterion, a pair may wait for."""

Question = Callable[[duckdb.DuckDBPyConnection], "list[Entry]"]


class Noting:
    """For the writer's thread.

    Args:
        connect: gives a cursor; called in a thread. host: who says it. clock: naive UTC.
        keep: commits rows. Raises StoreError.

    Attributes:
        unjudged: comparisons may wait for their row. unseen: so may what else was seen of runs. unpaired: and what
            pairs of arms measured.
        after: when something may be asked again, monotonic.
    """

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        host: str,
        clock: Callable[[], datetime],
        keep: Callable[[Sequence[Entry]], object],
    ) -> None:
        self._host, self._clock, self._keep_rows = host, clock, keep
        self.unjudged = self.unseen = self.unpaired = True
        self.after = 0.0
        self.aside: Aside[list[Entry]] = Aside(connect, "tic-evidence", "evidence")

    def committed(self, tables: Collection[str], *, compared: bool, declared: bool, chained: bool, told: bool) -> None:
        """What a commit held.

        Args:
            tables: that got rows of logs. compared: results of comparisons. declared: a candidate. chained: any row of
                the ledger. told: configurations, settings or manifests.
        """
        self.unseen |= declared or told or not observed.TABLES.isdisjoint(tables)
        self.unpaired |= self.unseen or chained or "metric" in tables
        self.unjudged |= declared or compared

    def take(self, *, wait: bool) -> None:
        """Commits what was found meanwhile. `wait`: for as long as it takes."""
        answer = self.aside.take(wait=wait)
        if answer is None:
            return
        self.after = time.monotonic() + max(LEAST_S, 20 * answer.cost_s)
        if answer.value is None:
            self._all_waits()
            self.after = time.monotonic() + RETRY_S
        self._keep(answer.value or ())

    def ask_if_due(self) -> None:
        """Asks in the thread, if something may be new and the rest is over."""
        if self.waits and not self.aside.busy and time.monotonic() >= self.after:
            self.aside.ask(self._question())

    def ask_now(self, con: Callable[[], duckdb.DuckDBPyConnection], failed: Callable[[duckdb.Error], object]) -> None:
        """Asks until nothing waits. `con`: where, each time; `failed`: is told of an error, after which it goes on."""
        for _ in range(ASKED):
            if not self.waits:
                return
            question = self._question()
            try:
                self._keep(question(con()))
            except duckdb.Error as error:
                failed(error)

    @property
    def waits(self) -> bool:
        """Whether something may be new."""
        return self.unjudged or self.unseen or self.unpaired

    def _all_waits(self) -> None:
        self.unjudged = self.unseen = self.unpaired = True

    def _question(self) -> Question:
        seen, measured = self.unseen, self.unpaired
        self.unseen = self.unpaired = self.unjudged = False
        return lambda con: judged.judged(con, self._host, self._clock(), seen=seen, measured=measured)

    def _keep(self, entries: Sequence[Entry]) -> None:
        try:
            self._keep_rows(entries)
        except StoreError as error:
            self._all_waits()
            log.warning("%s", error)
