"""Tables of W&B: rows and their values are one transaction, seen through views, as-of, snapshots and a second start."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tic_daemon.scan.events import At
from tic_daemon.store import copy
from tic_daemon.store import writer as writer_module
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import Publisher
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer
from tic_daemon.wandb.events import WandbRead, WandbRun, WandbUpload, row_event
from tic_daemon.wandb.history import flatten, history_row

# Ahead of the clock that the store was made by: its rows are never younger than it.
NOON = datetime.now(UTC).replace(tzinfo=None, microsecond=0) + timedelta(hours=1)
PATH = "/jobs/wandb/run-20261130_120000-abc/run-abc.wandb"
NUMBER = source_id("node7", "wandb_local", PATH)
SOURCE = SourceRow(NUMBER, "wandb_local", "node7", "/jobs", PATH, run_hint="abc", run_how="path")


def at(offset: int, step: int | None = None) -> At:
    return At(offset, 10, offset // 10 + 1, stamp=NOON, stamp_res_us=1, stamp_utc=True, step=step)


def delta(offset: int, *events: object) -> SourceDelta:
    return SourceDelta(SOURCE, CursorRow(NUMBER, 0, byte_offset=offset, path=PATH), events)  # type: ignore[arg-type]


def test_rows_values_and_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    writer = Writer.open(StoreLayout.find(workspace))
    given = {"loss": 0.5, "n": 2**53 + 1, "bad": math.nan, "odd": "\udcff", "_timestamp": 1.0, "_step": 3, "on": True}
    first = row_event(at(0, step=3), history_row(flatten(given), 0, "w1"))
    monkeypatch.setattr(writer_module, "_utcnow", lambda: NOON)
    writer.commit([delta(10, first)])
    later = NOON + timedelta(minutes=1)
    monkeypatch.setattr(writer_module, "_utcnow", lambda: later)
    run = WandbRun(at(10), "e/p/abc", "abc", state="finished", exit_code=0)
    read = WandbRead(at(0), "r1", "e/p/abc", NOON, 1.5, "0.31.0", 1000, 0, None, 2, 2, 4, "3-4", "ok", "", "daemon")
    upload = WandbUpload(at(20), "/jobs/wandb/x", "abc", "dead", 40, 5, 403, detail="fatal")
    second = row_event(at(10, step=4), history_row(flatten({"loss": 1, "_step": 4}), 1))
    writer.commit([delta(20, second, row_event(at(15), history_row((), 2)), run, read, upload)])

    con = writer.reader_cursor()
    assert con.execute(
        "SELECT run_id, step, key, value, value_text, source_kind, path FROM metrics WHERE NOT isnan(value) OR value IS NULL"
        " ORDER BY step, key"
    ).fetchall() == [
        ("abc", 3, "loss", 0.5, "0.5", "wandb_local", PATH),
        ("abc", 3, "n", 2.0**53, "9007199254740993", "wandb_local", PATH),
        ("abc", 3, "odd", None, "\\udcff", "wandb_local", PATH),  # no UTF-8: escaped
        ("abc", 3, "on", 1.0, "true", "wandb_local", PATH),
        ("abc", 4, "loss", 1.0, "1", "wandb_local", PATH),
    ]
    assert con.execute("SELECT key FROM metrics WHERE isnan(value)").fetchall() == [("bad",)]
    assert con.execute("SELECT wandb_step, keys, writer, digest FROM b_wandb_row ORDER BY rec_id").fetchall() == [
        (3, 6, "w1", first.digest),
        (4, 1, "", second.digest),
        (None, 0, "", history_row((), 0).digest()),
    ]
    assert con.execute("SELECT run_id, step, source_kind, ended FROM steps ORDER BY step").fetchall() == [
        ("abc", 3, "wandb_local", False),
        ("abc", 4, "wandb_local", False),
    ]
    assert con.execute("SELECT exit_code, config FROM b_wandb_run").fetchall() == [(0, "{}")]
    assert con.execute("SELECT rows, seen, last_step FROM b_wandb_read").fetchall() == [(2, "3-4", None)]
    assert con.execute("SELECT status, history_offset FROM b_wandb_upload").fetchall() == [(403, 40)]
    con.execute("SET VARIABLE as_of = ?", [NOON + timedelta(seconds=30)])
    assert con.execute("SELECT count(*) FROM metrics WHERE key = 'loss'").fetchall() == [(1,)]
    assert con.execute("SELECT count(*) FROM b_wandb_value").fetchall() == [(6,)]
    con.close()
    # A snapshot and a copy hold them; a daemon that starts again goes on behind the last rec_id.
    last = writer.progress.rec_id
    assert Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    layout = writer.layout
    writer.close()
    target = tmp_path / "copy.duckdb"
    copy.copy_store(layout, target)
    with duckdb.connect(str(target), read_only=True) as again:
        assert again.execute("SELECT count(*), count(value_text) FROM wandb_value").fetchall() == [(7, 2)]
    writer = Writer.open(StoreLayout.find(workspace))
    assert writer.progress.rec_id == last and writer.cursors()[NUMBER, 0].byte_offset == 20
    writer.close()
