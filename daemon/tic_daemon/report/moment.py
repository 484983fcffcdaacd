"""A reader whose every answer is of one moment, so that all figures of a report belong together.

Asked for no moment, it takes the last one at which any of the stores changed: a store at rest gives the same report
each time, and what a daemon writes while the report is made is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.errors import StoreError, TicError
from tic_daemon.store.reader import Tail
from tic_daemon.store.sqlguard import SqlError

if TYPE_CHECKING:
    from tic_daemon.store.reader import Connection, Reader, Result

TIMEOUT_S: Final = 120.0
MOST: Final = 100_000
PAGE: Final = 50_000
Row = dict[str, Any]

# People's words count from when they were said: no daemon may have taken them in yet.
_LAST: Final = """
SELECT greatest((SELECT max(observed_at) FROM b_ingest), (SELECT max(observed_at) FROM ledger),
    (SELECT max(marked_at) FROM marks), (SELECT max(declared_at) FROM attempts),
    (SELECT max(created_at) FROM b_store)) AS at
"""
_STORES: Final = "SELECT store_id, schema_version, program_version, host, created_at FROM b_store"


@dataclass(frozen=True, slots=True)
class Store:
    """A store that answered. `created_at`: naive UTC."""

    store_id: str
    schema_version: int
    program_version: str
    host: str
    created_at: datetime


class Moment:
    """A `Reader` of the stores as they were known at `at`.

    Attributes:
        at: naive UTC. missing: stores whose rows are in no answer, with the reason; it grows with the questions.
    """

    def __init__(self, reader: Reader, at: datetime) -> None:
        self._reader = reader
        self.at = at
        self.missing: set[str] = set()
        self._whole: dict[tuple[str, str, tuple[str, ...]], Result] = {}

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MOST,
        timeout_s: float = TIMEOUT_S,
        gather: str = "",
    ) -> Result:
        """As `Reader.query`, of this moment."""
        try:
            found = self._reader.query(
                sql, params, as_of=self.at, max_rows=max_rows, timeout_s=max(timeout_s, TIMEOUT_S), gather=gather
            )
        except SqlError as error:
            if "does not exist" not in error.what:
                raise
            raise StoreError(
                "the store was written by an older tic-daemon, and lacks a view that reports are made of",
                "`tic-daemon watch --once DIR` brings it up to date",
            ) from error
        self.missing.update(found.missing)
        return found

    def rows(self, sql: str, *params: object, gather: str = "") -> list[Row]:
        """Rows as mappings.

        Raises:
            TicError: there are more than `MOST`: what is left out would look as if it were not there.
        """
        found = self.query(sql, params, gather=gather)
        if found.truncated:
            raise TicError(f"an answer has over {MOST} rows", "report on one run of the workspace, not on all")
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def whole(self, view: str, key: str, names: Sequence[str]) -> Result:
        """All columns of the rows of a view whose `key` is one of `names`, in one order. Asked once: planning what
        stands behind some views costs more than their rows.

        Raises:
            TicError: there are more than `MOST`.
        """
        asked = (view, key, tuple(sorted(names)))
        if asked not in self._whole:
            where = f"list_contains(from_json(?, '[\"VARCHAR\"]'), {key})" if names else "false AND ? <> ''"
            found = self.query(f"SELECT * FROM {view} WHERE {where} ORDER BY ALL", [listed(names)])  # noqa: S608  ours
            if found.truncated:
                raise TicError(f"view {view} has over {MOST} rows of it", "report on one run, not on the candidate")
            self._whole[asked] = found
        return self._whole[asked]

    def of(self, view: str, *runs: str, key: str = "run_id") -> list[Row]:
        """The same as mappings: rows of these runs."""
        found = self.whole(view, key, runs)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def number(self, sql: str, *params: object, gather: str = "") -> int:
        """The one number that a query gives; NULL is 0."""
        return int(self.query(sql, params, gather=gather).rows[0][0] or 0)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = 0) -> Tail:
        """Nothing comes after a moment."""
        return Tail(after, after)

    def connection(self) -> Connection:
        """As `Reader.connection`."""
        return self._reader.connection()

    def interrupt(self) -> None:
        """As `Reader.interrupt`."""
        self._reader.interrupt()

    def close(self) -> None:
        """As `Reader.close`."""
        self._reader.close()

    def stores(self) -> list[Store]:
        """All stores that answer, by their ids."""
        return [
            Store(str(row["store_id"]), row["schema_version"], row["program_version"], row["host"], row["created_at"])
            for row in self.rows(f"{_STORES} ORDER BY store_id", gather="SELECT * FROM part ORDER BY store_id")
        ]

    def ranges(self, view: str, where: str, *params: object, gather: str = "") -> Iterator[Result]:
        """All rows of a view with `rec_id`, however many, in ranges of it; at least one answer, which may be empty.

        Args:
            where: which of them, with a `?` for each of `params`.
        """
        last = self.number(f"SELECT max(rec_id) AS last FROM {view}", gather="SELECT max(last) FROM part")  # noqa: S608
        start, width = -1, PAGE
        while True:
            sql = f"SELECT * FROM {view} WHERE ({where}) AND rec_id > ? AND rec_id <= ? ORDER BY ALL"  # noqa: S608
            page = self.query(sql, [*params, start, start + width], max_rows=MOST, gather=gather)
            if page.truncated:
                if width == 1:
                    raise TicError(f"one line has over {MOST} rows of {view}", "this cannot be: the store is damaged")
                width = max(1, width // 2)
                continue
            yield page
            start += width
            if start >= last:
                return


def listed(names: Iterable[str]) -> str:
    """Names as one parameter of a query: those of an HTTP reader hold one value each."""
    return json.dumps(sorted(names))


def moment(reader: Reader, asked: datetime | None = None) -> Moment:
    """What the stores were at `asked`, or at their last change.

    Raises:
        TicError: `asked` is still to come, by our clock and by the stores'. StoreError: no store answers.
    """
    if asked is not None and asked <= datetime.now(UTC).replace(tzinfo=None):
        return Moment(reader, asked)
    found = reader.query(_LAST, timeout_s=TIMEOUT_S, gather="SELECT max(at) AS at FROM part")
    if not found.rows or found.rows[0][0] is None:
        raise StoreError("no store answers", "; ".join(found.missing))
    last: datetime = found.rows[0][0]
    if asked is not None and asked > last:
        raise TicError(f"{asked:%Y-%m-%d %H:%M:%S} UTC is still to come", "give a moment that is past, in UTC")
    # It may lie ahead of our clock: the store's host, or who said something, has another. Cut at ours, what lowers a
    # verdict would be missing.
    one = Moment(reader, last if asked is None else asked)
    one.missing.update(found.missing)
    return one
