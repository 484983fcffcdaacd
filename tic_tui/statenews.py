"""What processes told of their state and weights since it was asked last, for `watch --plain --state`.

Weights are told change by change. Of the execution state it is told when a value in force is another one; what changes
with every batch (the kind of a batch, a hit rate) is left to the views.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from tic_tui import statetext

OVERLAP: Final = timedelta(minutes=1)  # of several stores one may commit a little later than another
PAGE: Final = 5000
_BATCHES: Final = "field NOT IN ('step_kind', 'prefix_hit_rate')"

Row = dict[str, Any]
Change = tuple[str, datetime | None, str, Row]  # word, when, what, all of it


class Ask(Protocol):
    """Rows of a statement, of several stores put together by `gather`."""

    def __call__(self, sql: str, params: tuple[object, ...] = (), *, gather: str) -> list[Row]: ...


class StateNews:
    """What is new since the last `told`.

    Args:
        ask: asks the store.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._last = datetime.min
        self._seen: dict[tuple[Any, ...], datetime] = {}
        self._held: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def told(self) -> Iterator[Change]:
        """Changes of the state, then of the weights."""
        yield from self._states()
        yield from self._weights()

    def _states(self) -> Iterator[Change]:
        rows = self._ask(f"{statetext.STATES} WHERE {_BATCHES} ORDER BY observed_at", gather=statetext.PART)
        for row in rows:
            key = tuple(row[name] for name in ("run_id", "attempt", "role", "host", "path", "proc", "field"))
            now = (row["claimed"], row["observed"])
            if self._held.get(key) != now:
                self._held[key] = now
                yield "execution", row["observed_at"], f"{statetext.who(row)}: {statetext.field(row)}", row

    def _weights(self) -> Iterator[Change]:
        since = max(self._last, datetime.min + OVERLAP) - OVERLAP
        limit, order = PAGE, "ORDER BY observed_at, path, generation, byte_offset"
        while True:
            rows = self._ask(
                f"{statetext.CHANGES} WHERE observed_at >= ? {order} LIMIT {limit}", (since,),
                gather=f"{statetext.PART} {order} LIMIT {limit}",
            )  # fmt: skip
            fresh = [row for row in rows if self._note(row)]
            for row in fresh:
                yield "weights", row["event_at"] or row["observed_at"], _words(row), row
            if len(rows) < limit:
                break
            # Rows of one commit have one `observed_at`: a page that brought nothing new must be a longer one.
            since, limit = rows[-1]["observed_at"], limit if fresh else 2 * limit
        least = max(self._last, datetime.min + OVERLAP) - OVERLAP
        self._seen = {key: at for key, at in self._seen.items() if at >= least}

    def _note(self, row: Row) -> bool:
        """Whether the row was not told yet."""
        names = ("run_id", "host", "path", "generation", "byte_offset", "track", "phase", "pid")
        key = tuple(row[name] for name in names)
        new = key not in self._seen
        self._seen[key] = row["observed_at"]
        self._last = max(self._last, row["observed_at"])
        return new


def _words(row: Row) -> str:
    wrong = f"; wrong from here: {str(row['finding']).replace('_', ' ')}" if row["finding"] else ""
    kept = "; policy: KV kept" if row["keeps_kv"] else ""
    return f"{statetext.who(row)}: {statetext.phase(row)}{kept}{wrong}, line {row['line_no']}"
