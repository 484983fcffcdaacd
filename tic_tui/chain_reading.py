"""The chains of the ledger, walked row by row while their page is open: a little at a time, then only what is new.

Each store has a chain of its own. Files that rows name are not looked at: `tic-daemon verify` hashes those, too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tic_daemon.ledger.chain import COLUMNS, Break, Walk, of_row
from tic_tui.evidence_model import Chain
from tic_tui.queries import everything
from tic_tui.reading import Ask
from tic_tui.safe import NOTHING, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

PAGE: Final = 1000
_ENDS: Final = "SELECT store_id, max(seq) AS last, count(*) AS n FROM ledger GROUP BY store_id"
_ROWS: Final = f"SELECT {COLUMNS} FROM ledger WHERE store_id = ? AND seq > ? AND seq <= ? ORDER BY seq, row_hash"  # noqa: S608
_GATHER: Final = "SELECT * FROM part ORDER BY seq, row_hash"


class ChainReading:
    """The chains of one reader."""

    def __init__(self) -> None:
        self._walks: dict[str, Walk] = {}
        self._ends: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._looked: dict[str, int] = {}
        self._asked = False

    @property
    def complete(self) -> bool:
        """Nothing is left to walk."""
        return self._asked and all(self._done(name) for name in self._ends)

    def _done(self, store_id: str) -> bool:
        walk = self._walks[store_id]
        return walk.broken is not None or self._looked[store_id] >= self._ends[store_id]

    def walk(self, reader: Reader, ask: Ask) -> Chain:
        """Goes on until `ask.until`; at least one page."""
        if ask.new or ask.fresh or not self._asked:
            for store_id, last, count in everything(reader, _ENDS):
                self._walks.setdefault(store_id, Walk(store_id))
                self._looked.setdefault(store_id, 0)
                self._ends[store_id], self._counts[store_id] = last, count
            self._asked = True
        for store_id in self._ends:
            while not self._done(store_id):
                self._page(reader, store_id)
                if time.monotonic() >= ask.until:
                    return self._told()
        return self._told()

    def _page(self, reader: Reader, store_id: str) -> None:
        """By ranges of numbers, never by a sorted whole: a number that is missing shows as a break."""
        at, last, walk = self._looked[store_id], self._ends[store_id], self._walks[store_id]
        upto = min(at + PAGE, last)
        rows = everything(reader, _ROWS, (store_id, at, upto), _GATHER)
        self._looked[store_id] = upto
        try:
            walk.take(map(of_row, rows))
        except (ValueError, TypeError) as error:
            walk.broken = Break(walk.head.seq + 1, "", f"its columns cannot be read: {error}")
        held = self._counts[store_id]
        if upto == last and walk.broken is None and walk.head.seq != held:
            walk.broken = Break(last, "", f"the ledger has {held} rows, its chain {walk.head.seq}")

    def _told(self) -> Chain:
        broken = [f"row {walk.broken.seq} {walk.broken.id[:12]}: {walk.broken.why}" for walk in self._walks.values()
                  if walk.broken is not None]  # fmt: skip
        walked = sum(walk.head.seq for walk in self._walks.values())
        only = next(iter(self._walks.values())) if len(self._walks) == 1 else None
        head = safe(only.head.row_hash) if only is not None else NOTHING
        return Chain(walked, len(self._walks), self.complete, safe(broken[0]) if broken else NOTHING, head)
