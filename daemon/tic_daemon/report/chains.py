"""The ledger's chain as a file: a row a line, canonical JSON with the four things that its hash is of, and the hash.

A row is hashed over `{"entry", "prev", "seq", "store"}` in canonical form; the line has `row_hash` besides. A chain is
whole or it shows nothing, so the rows of all candidates of the workspace are in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final

from tic_daemon.ledger.canon import canonical
from tic_daemon.ledger.chain import COLUMNS, NAMES, Link, of_row
from tic_daemon.ledger.entries import Entry
from tic_daemon.report.moment import Moment

PAGE: Final = 5000
_PAGE: Final = f"SELECT {COLUMNS}, store_id FROM ledger WHERE seq > ? AND seq <= ? ORDER BY seq, row_hash"  # noqa: S608
_KEYS: Final = {"entry", "prev", "row_hash", "seq", "store"}
_TYPES: Final = {field.name: field.type for field in fields(Entry)}


def lines(moment: Moment, store_id: str, last: int) -> Iterator[bytes]:
    """The chain of one store, in order, up to its row `last`."""
    for start in range(0, last, PAGE):
        # Of each store by itself: united, rows that several stores hold are one.
        found = moment.query(
            _PAGE, [start, min(start + PAGE, last)], gather="SELECT * FROM part ORDER BY seq, row_hash"
        )
        for row in found.rows:
            if row[-1] == store_id:
                entry, link = of_row(row[:-1])
                yield line(entry, link, store_id)


def line(entry: Entry, link: Link, store_id: str) -> bytes:
    """One row."""
    said = {**asdict(entry), "said_at": entry.said_at.isoformat(timespec="microseconds")}
    told = {"entry": said, "seq": link.seq, "prev": link.prev_hash, "store": store_id, "row_hash": link.row_hash}
    return (canonical(told) + "\n").encode("ascii")


def parsed(raw: bytes, store_id: str) -> tuple[Entry, Link]:
    """A line read back.

    Raises:
        ValueError: it is not as `line` writes it.
    """
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(told, dict) or told.keys() != _KEYS or not isinstance(told["entry"], dict):
        raise ValueError("it is no row of a ledger")
    entry, link = _entry(told["entry"]), Link(told["seq"], told["prev"], told["row_hash"])
    if type(link.seq) is not int or not isinstance(link.prev_hash, str) or not isinstance(link.row_hash, str):
        raise ValueError("its place in the chain is not of its kind")
    if line(entry, link, store_id) != raw:
        raise ValueError("it is not in its canonical form, or of another store")
    return entry, link


def _entry(said: Mapping[str, Any]) -> Entry:
    if said.keys() != set(NAMES):
        raise ValueError("it has other fields than a row of a ledger")
    for name, value in said.items():
        if (
            not isinstance(value, str)
            and (value is not None or "None" not in str(_TYPES[name]))
            and type(value) is not int
        ):
            raise ValueError(f"{name} is not of its kind")
    try:
        moment = datetime.fromisoformat(said["said_at"])
    except (ValueError, TypeError) as error:
        raise ValueError("said_at is no time") from error
    return Entry(**{**said, "said_at": moment})
