"""Windows of records round a key: read in ranges of time, never by sorting a view.

On ten million rows a range costs milliseconds and a sort seconds. A range that held too few rows is followed by the one
beside it, longer if it took little time, shorter if it took much; so a filter that leaves one row in a million is a
search that goes on from reading to reading, and says how far it has come.

Order is that of `Key`. Within a store it is that of rec_id; across stores `observed_at` decides, so the same ranges
hold in all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from tic_tui.filters import Filter, where
from tic_tui.model import Key, Mismatch, Search, Window
from tic_tui.queries import Span, everything, rows_of

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

FIRST_RANGE: Final = timedelta(seconds=2)
RANGE_S: Final = 0.1
NEWEST_FIRST: Final = "observed_at DESC, store_id DESC, rec_id DESC"
OLDEST_FIRST: Final = "observed_at, store_id, rec_id"
_BELOW: Final = "(observed_at < ? OR (observed_at = ? AND (store_id < ? OR (store_id = ? AND rec_id <= ?))))"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which records: of a run or of all, and what the filters leave."""

    run_id: str | None = None
    filters: tuple[Filter, ...] = ()

    @property
    def filtered(self) -> bool:
        """A filter is on."""
        return any(f.on for f in self.filters)

    def sql(self) -> tuple[str, tuple[object, ...]]:
        """A condition that begins with AND, or "", and its parameters."""
        text, params = where(self.filters)
        return (text, params) if self.run_id is None else (f" AND run_id = ?{text}", (self.run_id, *params))


class _Side:
    """The rows on one side of a key, nearest first, as far as they are found.

    Args:
        first: the first range to look at. down: towards older rows, the key's own included; else towards newer ones.
    """

    def __init__(
        self, scope: Scope, anchor: Key | None, span: Span, want: int, first: timedelta, *, down: bool
    ) -> None:
        self._scope, self._anchor, self._span, self._want, self._down = scope, anchor, span, want, down
        self.rows: list[Mismatch] = []
        self.edge: datetime | None = None  # looked at up to here, inclusive above, exclusive below; None: nothing yet
        self.ended = False  # nothing lies beyond the rows found
        self._range = self._first = first

    @property
    def full(self) -> int:
        """As many rows as are held at most: one more than is shown, which tells that there are more."""
        return self._want + 1

    @property
    def done(self) -> bool:
        """Enough rows, and it is known whether there are more."""
        return self.ended or len(self.rows) > self._want

    @property
    def more(self) -> bool:
        """There are more rows than wanted, or may be."""
        return not self.ended or len(self.rows) > self._want

    def shown(self) -> list[Mismatch]:
        """The rows wanted, nearest first."""
        return self.rows[: self._want]

    def look(self, reader: Reader) -> None:
        """Looks at the next range."""
        began = time.monotonic()
        conditions, params, beyond = self._next()
        text, scoped = self._scope.sql()
        left = self._want + 1 - len(self.rows)
        tail = f"ORDER BY {NEWEST_FIRST if self._down else OLDEST_FIRST} LIMIT {left}"
        found = rows_of(reader, Mismatch, f"mismatches WHERE {conditions}{text}", (*params, *scoped), tail)
        self.rows += found
        self.edge, self.ended = beyond, beyond is None and len(found) < left
        if beyond is None and not self.ended:
            self.edge = self.rows[-1].observed_at
        took = max(time.monotonic() - began, 1e-3)
        try:
            factor = RANGE_S / took * (1.0 if found else 8.0)
            if found and factor > 1:  # there is time, and how close the rows lie tells how far the rest of them reaches
                factor = max(factor, 1.2 * (self._want + 1 - len(self.rows)) / len(found))
            self._range = max(self._first, self._range * max(0.25, min(8.0 if found else 64.0, factor)))
        except OverflowError:
            self._range = timedelta.max

    def _next(self) -> tuple[str, list[object], datetime | None]:
        """(condition, its parameters, the edge that it looks up to; None: to the end)."""
        parts, params = list[str](), list[object]()
        if self._anchor is not None:
            key = self._anchor
            below = [key.observed_at, key.observed_at, key.store_id, key.store_id, key.rec_id]
            parts += ["observed_at <= ?", _BELOW] if self._down else ["observed_at >= ?", f"NOT {_BELOW}"]
            params += [key.observed_at, *below]
        if self.edge is not None:
            parts.append("observed_at <= ?" if self._down else "observed_at > ?")
            params.append(self.edge)
        start = self.edge or (self._anchor.observed_at if self._anchor else self._span.last)
        if self._down:
            beyond = _plus(min(start, self._span.last), -self._range)
            beyond = None if beyond is None or beyond < self._span.first else beyond
        else:
            beyond = _plus(max(start, self._span.first), self._range)
            beyond = None if beyond is None or beyond >= self._span.last else beyond
        if beyond is not None:
            parts.append("observed_at > ?" if self._down else "observed_at <= ?")
            params.append(beyond)
        return " AND ".join(parts) or "true", params, beyond


class Page:
    """The window round an anchor, or of the newest rows: `advance` fills it, `add`, `replace`, `renew` keep it up."""

    def __init__(self, scope: Scope, anchor: Key | None, want: int, span: Span, like: Page | None = None) -> None:
        self.scope, self.anchor, self.want = scope, anchor, want
        first = FIRST_RANGE if like is None or like.scope != scope else like.range()
        self._older = _Side(scope, anchor, span, 2 * want if anchor is None else want, first, down=True)
        self._newer = None if anchor is None else _Side(scope, anchor, span, want, first, down=False)

    def range(self) -> timedelta:
        """A range of time that holds about as many rows as this window."""
        rows = self.window().rows
        if len(rows) < self.want:
            return FIRST_RANGE
        return max(rows[-1].observed_at - rows[0].observed_at, timedelta(microseconds=1))

    @property
    def done(self) -> bool:
        """The window is as full as it can be."""
        return self._older.done and (self._newer is None or self._newer.done)

    def advance(self, reader: Reader, until: float) -> None:
        """Searches until the window is full; with filters until `time.monotonic` says `until`, once at least.

        Newer rows come first: so the row under the anchor does not move when the rest is found.
        """
        for side in (self._newer, self._older):
            while side is not None and not side.done:
                side.look(reader)
                if self.scope.filtered and time.monotonic() >= until:
                    return

    def window(self) -> Window:
        """What is found so far."""
        newer = [] if self._newer is None else self._newer.shown()
        rows = (*reversed(self._older.shown()), *newer)
        return Window(rows, self._older.more, self._newer is not None and self._newer.more)

    def search(self, reader: Reader) -> Search:
        """How far back it has looked, with the step there."""
        if self._older.done or self._older.edge is None:
            return Search(self._older.done)
        edge = self._older.edge
        return Search(False, _step_at(reader, self.scope.run_id, edge), edge)

    def add(self, rows: Iterable[Mismatch]) -> bool:
        """Takes new rows in without a query. False: they must be read.

        A row takes the place of a provisional one of the same line.
        """
        if self.scope.filtered or not self.done:
            return False
        held = self.window().rows
        known = {r.key for r in held}
        mine = [r for r in rows if r.key not in known and self.scope.run_id in {None, r.run_id}]
        if not mine:
            return True
        newest: dict[str, Key] = {}
        for r in (*held, *mine):
            newest[r.target] = max(newest.get(r.target, r.key), r.key)
        mine = [r for r in mine if not r.provisional or r.key == newest[r.target]]
        gone = [r for r in held if r.provisional and newest[r.target] > r.key]
        first = min((r.key for r in mine), default=None)
        if self._newer is None:
            return self._add_newest(mine, {r.key for r in gone})
        if gone or (first is not None and held and first < held[-1].key):
            return False  # a side would be short of one, or a late row of another store belongs within
        if not self._newer.more:
            self._newer.rows += sorted(mine, key=lambda r: r.key)
            self._newer.ended = len(self._newer.rows) <= self.want
        return True

    def replace(self, rows: Iterable[Mismatch]) -> bool:
        """Shows these newest rows, between which none is missing. False: they do not fill the window."""
        mine = [r for r in rows if self.scope.run_id in {None, r.run_id}]
        if self._newer is not None or self.scope.filtered or len(mine) < self._older.full:
            return False
        newest: dict[str, Key] = {}
        for r in mine:
            newest[r.target] = max(newest.get(r.target, r.key), r.key)
        mine = [r for r in mine if not r.provisional or r.key == newest[r.target]]
        if len(mine) < self._older.full:
            return False
        self._older.rows = sorted(mine, key=lambda r: r.key, reverse=True)[: self._older.full]
        self._older.ended = False
        return True

    def _add_newest(self, mine: list[Mismatch], gone: set[Key]) -> bool:
        side = self._older
        kept = [r for r in side.rows if r.key not in gone]
        rows = sorted([*kept, *mine], key=lambda r: r.key, reverse=True)[: side.full]
        if not side.ended and (len(rows) < side.full or (kept and rows[-1].key < kept[-1].key)):
            return False  # rows that are not held belong here
        side.ended = side.ended and len(kept) + len(mine) < side.full
        side.rows = rows
        return True

    def renew(self, reader: Reader, since: datetime) -> bool:
        """Reads the rows observed at `since` or later again. False: the page must be made anew."""
        passing = [r.observed_at for r in self.window().rows if r.provisional]
        since = min([since, *passing])
        if self._newer is None:
            return self._renew_newest(reader, since)
        if self._newer.more:
            return not passing and (not self._newer.rows or since > self._newer.rows[-1].observed_at)
        if self.anchor is None or since <= self.anchor.observed_at:
            return False
        self._newer.rows = [r for r in self._newer.rows if r.observed_at < since]
        self._newer.edge, self._newer.ended = since - timedelta(microseconds=1), False
        return True

    def _renew_newest(self, reader: Reader, since: datetime) -> bool:
        side = self._older
        lowest = side.edge or (side.rows[-1].observed_at if side.rows else datetime.min)
        if not side.ended and since <= lowest:
            return False
        text, params = self.scope.sql()
        fresh = rows_of(
            reader, Mismatch, f"mismatches WHERE observed_at >= ?{text}", (since, *params),
            f"ORDER BY {NEWEST_FIRST} LIMIT {side.full}",
        )  # fmt: skip
        kept = [r for r in side.rows if r.observed_at < since]
        rows = [*fresh, *kept]
        if not side.ended and side.done and len(rows) < side.full:
            return False
        side.ended = side.ended and len(rows) < side.full
        side.rows = rows[: side.full]
        return True


def _step_at(reader: Reader, run_id: str | None, at: datetime) -> int | None:
    """The step of the records soon after `at`; None: they name none."""
    text, params = Scope(run_id).sql()
    found = everything(
        reader,
        f"SELECT min(step) AS a FROM mismatches WHERE observed_at > ? AND observed_at <= ?{text}",  # noqa: S608
        (at, _plus(at, FIRST_RANGE) or datetime.max, *params),
    )
    return min((row[0] for row in found if row[0] is not None), default=None)


def _plus(at: datetime, span: timedelta) -> datetime | None:
    """None: out of time."""
    try:
        return at + span
    except OverflowError:
        return None
