"""Evidence is asked for beside the writer's thread, and kept once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from tests.ledger.test_gates import World
from tic_daemon.ledger.entries import Entry
from tic_daemon.store import judged
from tic_daemon.store.comparison_rows import ComparisonRow
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

_EVIDENCE = "SELECT target FROM ledger WHERE kind = 'evidence'"


def test_what_evidence_asks_holds_up_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that takes long is asked beside the writer; what it found is kept with a later call, once."""
    world = World(Writer.open(StoreLayout.find(tmp_path)))
    run = world.run()
    world.candidate(run)
    asked, goes_on, really = threading.Event(), threading.Event(), judged.judged

    def slow(con: duckdb.DuckDBPyConnection, host: str, now: datetime, **new: bool) -> list[Entry]:
        found = really(con, host, now, **new)
        asked.set()
        assert goes_on.wait(60)
        return found

    writer = world.writer

    def evidence() -> list[str]:
        con = writer.reader_cursor()
        try:
            return [str(row[0]) for row in con.execute(_EVIDENCE).fetchall()]
        finally:
            con.close()

    monkeypatch.setattr(judged, "judged", slow)
    row = ComparisonRow(
        "n",
        "/j",
        "t1",
        "t1",
        run=run,
        run_how="manifest",
        kind="tokens",
        manifest="/m",
        intervention="none",
        label="PASS",
    )
    writer.commit([], compared=[row])
    writer._noting.after = 0.0
    writer.note_evidence()
    assert asked.wait(60)
    world.run()
    writer.commit([], compared=[replace(row, id="t2", task="t2")])
    writer.note_evidence()
    assert evidence() == [], "the answer is not there yet"
    goes_on.set()
    until = time.monotonic() + 60
    while len(evidence()) < 2:
        assert time.monotonic() < until
        writer._noting.after = 0.0
        writer.note_evidence()
        time.sleep(0.01)
    writer.note_evidence(now=True)
    assert sorted(evidence()) == ["t1", "t2"]

    def fails(*_: object, **__: object) -> list[Entry]:
        raise duckdb.InterruptException("closed")

    monkeypatch.setattr(judged, "judged", fails)
    writer.commit([], compared=[replace(row, id="t3", task="t3")])
    writer._noting.after = 0.0
    writer.note_evidence()
    writer._noting.aside._thread.join()  # type: ignore[union-attr]
    writer.note_evidence()
    assert writer._noting.unjudged and not writer._noting.aside.busy, "it is asked again"
    monkeypatch.setattr(judged, "judged", really)
    writer.note_evidence(now=True)
    assert len(evidence()) == 3
    writer.close()
