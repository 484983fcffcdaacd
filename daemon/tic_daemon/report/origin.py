"""Where a report is from: the moment, the stores with the heads of their ledgers, the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tic_daemon import __version__
from tic_daemon.report.model import Block, Bullets, Section, Word, code, para, table, text
from tic_daemon.report.moment import Moment, Store

_HEADS: Final = """
SELECT store_id, max(seq) AS seq, arg_max(row_hash, seq) AS row_hash FROM ledger GROUP BY store_id"""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a store's chain at the moment: number and hash of its last row; 0 and "" of an empty ledger."""

    store: Store
    seq: int
    row_hash: str


def heads(moment: Moment) -> list[Head]:
    """Each store with the end of its chain."""
    # Of each store by itself: united, rows that several stores hold are one.
    found = {
        row["store_id"]: (row["seq"], row["row_hash"])
        for row in moment.rows(f"{_HEADS} ORDER BY store_id", gather="SELECT * FROM part ORDER BY store_id")
    }
    return [Head(store, *found.get(store.store_id, (0, ""))) for store in moment.stores()]


def section(moment: Moment, ends: list[Head]) -> Section:
    """What the reader needs to ask again."""
    rows = [
        (
            code(one.store.store_id),
            code(one.store.host),
            str(one.store.schema_version),
            code(one.store.program_version),
            f"{one.seq:,}",
            code(one.row_hash),
        )
        for one in ends
    ]
    blocks: list[Block] = [
        para(
            f"Every figure is from the views of the store as of {moment.at.isoformat(sep=' ')} UTC, by tic {__version__}. Times are UTC."  # noqa: E501
        ),
        table("store|host|schema|written by|ledger rows|hash of the last", rows),
        *missing(moment),
    ]
    return Section("Where this is from", tuple(blocks))


def missing(moment: Moment) -> list[Block]:
    """Stores that did not answer: what stands in them may lower what stands here."""
    if not moment.missing:
        return []
    return [
        para(
            Word("Not read", "bad"),
            ": stores of the workspace that gave no answer. A fault or a mark in them is not in this report.",
        ),
        Bullets(tuple((code(text(one)),) for one in sorted(moment.missing))),
    ]
