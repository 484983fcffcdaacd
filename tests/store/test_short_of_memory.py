"""Queries hold DuckDB's memory when a tick comes: the tick is written, and the queries are what ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import delta, mismatch
from tic_daemon.errors import StoreFull
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

LIMIT = "48MB"
# Holds a list of some 40 MB that cannot be moved to disk, and is never done with it.
GREEDY = """SELECT count(*) FROM (SELECT list(range) AS held FROM range({rows})) AS big, range(100_000_000_000) AS r(i)
            WHERE held[1 + i % 1000] = -1"""


class Crowd:
    """Clients that hold what memory there is. `ended`: what their queries ended by."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._stop = threading.Event()
        self.ended: list[str] = []
        self._threads = [threading.Thread(target=self._ask, args=(rows,)) for rows in (2_000_000, 1_000_000, 500_000)]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        time.sleep(0.5)
        return self

    def _ask(self, rows: int) -> None:
        while not self._stop.is_set():
            try:
                cursor = self._writer.reader_cursor()
                cursor.execute(GREEDY.format(rows=rows))
            except duckdb.Error as error:
                self.ended.append(type(error).__name__)
                time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        while any(thread.is_alive() for thread in self._threads):
            for cursor in [*self._writer._engine._cursors]:
                with contextlib.suppress(duckdb.Error):
                    cursor.interrupt()
            time.sleep(0.02)
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def writer(workspace: Path) -> Iterator[Writer]:
    one = Writer.open(StoreLayout.find(workspace), memory_limit=LIMIT)
    yield one
    one.close()


def batch(number: int, rows: int = 20_000) -> list[object]:
    first = 40 * rows * number
    return [
        delta(*(mismatch(first + 40 * i, raw=f"{number} {i} " * 20) for i in range(rows)), offset=first + 40 * rows)
    ]


def test_lines_come_before_questions(writer: Writer, caplog: pytest.LogCaptureFixture) -> None:
    with Crowd(writer) as crowd:
        for number in range(2):
            writer.commit(batch(number))  # type: ignore[arg-type]
    assert "queries are ended: a tick" in caplog.text, crowd.ended
    assert crowd.ended, "no query was ended"
    cursor = writer.reader_cursor()
    assert cursor.execute("SELECT count(*), count(DISTINCT byte_offset) FROM b_mismatch").fetchall() == [
        (40_000, 40_000)
    ]
    cursor.close()


def test_what_still_does_not_reach_waits(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else holds memory, and it does not reach: nothing is written, and the same commit can be tried again."""
    tries = 0
    written = Writer._written

    def short(self: Writer, write: object) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block of size 16.0 KiB")
        written(self, write)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "_written", short)
    with pytest.raises(StoreFull, match="memory does not reach"):
        writer.commit(batch(0, 10))  # type: ignore[arg-type]
    assert tries == 2
    writer.commit(batch(0, 10))  # type: ignore[arg-type]
    cursor = writer.reader_cursor()
    assert cursor.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(10,)]
    cursor.close()
