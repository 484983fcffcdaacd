"""Rows of the ledger on their way into a store: what is new of them, and their places in the store's chain.

The chain is the store's own; what a row says is the same in every store that takes it in. Rows are only ever added.
What the daemon itself says: judged.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tic_daemon.ledger.chain import NAMES, Link, link
from tic_daemon.ledger.entries import Entry
from tic_daemon.store import arrow
from tic_daemon.store.rows import LedgerRow

if TYPE_CHECKING:
    import duckdb

BOUND: Final = """
SELECT run_id, candidate FROM ledger_row WHERE kind = 'candidate' AND run_id <> ''
QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY seq) = 1
"""
"""The candidate of each run that was declared: the first that was said."""


def new(con: duckdb.DuckDBPyConnection, entries: Sequence[Entry], store_id: str) -> list[LedgerRow]:
    """The entries that the store does not have, chained behind its last row."""
    if not entries:
        return []
    listed = {entry.id: entry for entry in reversed(entries)}
    with arrow.laid(con, _ids=pa.table({"id": pa.array(listed, pa.string())})):
        known = con.execute("SELECT DISTINCT id FROM ledger_row WHERE id IN (SELECT id FROM _ids)").fetchall()
    for (name,) in known:
        del listed[name]
    before = head(con)
    found = []
    for entry in reversed(listed.values()):
        before = link(entry, before, store_id)
        found.append(LedgerRow(**{name: getattr(entry, name) for name in NAMES}, **asdict(before)))
    return found


def head(con: duckdb.DuckDBPyConnection) -> Link:
    """The last row's place; `Link()` of an empty chain."""
    row = con.execute("SELECT seq, prev_hash, row_hash FROM ledger_row ORDER BY seq DESC LIMIT 1").fetchone()
    return Link(*row) if row else Link()
