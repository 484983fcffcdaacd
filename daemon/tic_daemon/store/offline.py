"""What is done to a store that no daemon writes."""

from __future__ import annotations

from tic_daemon.store.exchange import read_once
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.spool import SpoolReader
from tic_daemon.store.writer import Writer


def take_in_spool(layout: StoreLayout) -> None:
    """Opens a store that no daemon writes, takes in what people spooled and other stores said, and closes it.

    Raises:
        StoreError: it cannot be written; the spool stays as it is.
    """
    writer = Writer.open(layout)
    try:
        pending = SpoolReader(layout).pending()
        told = read_once(writer.layout)
        writer.commit((), marks=pending.marks, attempts=pending.attempts, ledger=pending.ledger, remote=told)
    finally:
        writer.close()
