"""The chain: row n carries the hash of row n-1, so that no row can be changed, taken out or put in between unseen.

    link(entry, before, store) -> Link      the next row's place
    Walk(store).take(rows)                  the rows in order; says the first break

A row's hash is the SHA-256 of the canonical JSON of all that it says, the store's id, its number and the hash before
it. A chain alone does not show that rows are missing at its end: whoever needs that keeps a hash of it elsewhere
(`tic-daemon verify --head`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from tic_daemon.ledger.canon import canonical
from tic_daemon.ledger.entries import Entry

NAMES = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True, slots=True)
class Link:
    """Where a row stands: its number from 1, the hash of the row before ("" of the first), and its own."""

    seq: int = 0
    prev_hash: str = ""
    row_hash: str = ""


_VIEW = {"candidate": "candidate_id", "criterion": "criterion_id"}
COLUMNS = ", ".join(_VIEW.get(name, name) for name in (*NAMES, *(field.name for field in fields(Link))))
"""What a walk along a chain needs of each row of view `ledger`: see `of_row`."""


@dataclass(frozen=True, slots=True)
class Break:
    """The first place at which a chain does not hold. `seq` is the row's number as stored."""

    seq: int
    id: str
    why: str


def link(entry: Entry, before: Link, store_id: str) -> Link:
    """The place of a row after `before`; of the first row that is `Link()`."""
    seq = before.seq + 1
    return Link(seq, before.row_hash, row_hash(entry, seq, before.row_hash, store_id))


def row_hash(entry: Entry, seq: int, prev_hash: str, store_id: str) -> str:
    """What a row's hash must be. Times count to the microsecond, as the store keeps them."""
    said = {name: getattr(entry, name) for name in NAMES}
    said["said_at"] = entry.said_at.isoformat(timespec="microseconds")
    text = canonical({"entry": said, "seq": seq, "prev": prev_hash, "store": store_id})
    return hashlib.sha256(text.encode()).hexdigest()


def of_row(row: Sequence[object]) -> tuple[Entry, Link]:
    """One row of `SELECT {COLUMNS} FROM ledger` as a walk takes it."""
    return Entry(*row[: len(NAMES)]), Link(*row[len(NAMES) :])  # type: ignore[arg-type]


class Walk:
    """Goes along a chain. `head` is the last row that holds; `broken` the first that does not, or None."""

    def __init__(self, store_id: str) -> None:
        self._store_id = store_id
        self.head = Link()
        self.broken: Break | None = None

    def take(self, rows: Iterable[tuple[Entry, Link]]) -> bool:
        """The next rows, in the order of their numbers. False: the chain is broken, and nothing more is looked at."""
        for entry, said in rows:
            if self.broken is not None:
                return False
            why = self._wrong(entry, said)
            if why:
                self.broken = Break(said.seq, entry.id, why)
                return False
            self.head = said
        return self.broken is None

    def _wrong(self, entry: Entry, said: Link) -> str:
        if said.seq != self.head.seq + 1:
            return f"row {self.head.seq + 1} is missing" if said.seq > self.head.seq else "its number stands twice"
        if said.prev_hash != self.head.row_hash:
            return "it does not carry the hash of the row before it"
        try:
            found = row_hash(entry, said.seq, said.prev_hash, self._store_id)
        except (ValueError, TypeError, AttributeError) as error:
            return f"what it says cannot be hashed: {error}"
        return "" if found == said.row_hash else "what it says is not what its hash was made of"
