"""Faults that other stores tell of, for whoever reads a store without its daemon: one that ended cannot hear of them.

    overlay   a reader's side of the exchange: the JSON text of the session variable `told` (000_base.sql), as
              spool.overlay is for marks

What the store has heard may be among them: the views drop it.
"""

from __future__ import annotations

import json
import time
from datetime import datetime

from tic_daemon.store.exchange import Listener
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import RemoteFaultRow

LOOK_S = 1.0
"""How often the files of the other stores are looked at."""
_FIELDS = (
    "origin_store_id", "origin_rec_id", "run_id", "run_how", "lo_attempt", "hi_attempt", "path", "byte_offset",
    "byte_length", "network", "kind", "severity", "locks", "locking", "lo_us", "slo", "shi", "told_at",
)  # fmt: skip


class Told:
    """What stands in the files of the other stores of a workspace. Not thread-safe.

    Args:
        layout: of the store that is read.
    """

    def __init__(self, layout: StoreLayout) -> None:
        self._listener = Listener(layout)
        self._rows: dict[tuple[object, ...], RemoteFaultRow] = {}
        self._looked = float("-inf")
        self._text: str | None = None

    def overlay(self) -> str | None:
        """All faults that act, as JSON; None if there are none. Files that cannot be read count as empty."""
        if time.monotonic() - self._looked >= LOOK_S:
            changed = False
            while True:
                for row in self._listener.look():
                    changed |= self._note(row)
                if not self._listener.more:
                    break
            self._looked = time.monotonic()
            if changed:
                acting = [row for row in self._rows.values() if not row.gone and row.mapped]
                told = [{name: getattr(row, name) for name in _FIELDS} for row in acting]
                self._text = json.dumps(told, default=datetime.isoformat) if told else None
        return self._text

    def _note(self, row: object) -> bool:
        if not isinstance(row, RemoteFaultRow):
            return False
        before = self._rows.get(row.key)
        if before is None or row.revision > before.revision:
            self._rows[row.key] = row
            return True
        return False
