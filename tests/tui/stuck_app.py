"""A process for the pty test: the command `tic-tui` over a store whose answer never comes. Run as a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from tests.tui.fake import FakeReader, FakeStore
from tic_daemon.store import reader
from tic_tui import cli


class StuckReader(FakeReader):
    """Works on its first query for ever, inside of DuckDB nearly all of the time, and hears no interrupt."""

    def query(self, sql: str, params: Sequence[object] = (), **_: Any) -> Any:
        db = duckdb.connect(config={"threads": 1})
        while True:
            db.execute("SELECT sum(range) FROM range(100000)").fetchall()


def main() -> None:
    """The command, with nothing but its reader replaced."""
    store = FakeStore()
    reader.open_reader = lambda _: StuckReader(store)  # type: ignore[assignment]
    cli.entry()


if __name__ == "__main__":
    main()
