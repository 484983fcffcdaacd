"""Reading a store that no daemon writes, and stepping aside for one that wants to."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import delta, mismatch
from tic_daemon.errors import ConnectError, StoreError, StoreVersionError
from tic_daemon.store import file_reader
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.spool import Spool
from tic_daemon.store.sqlguard import SqlError, SqlRefused
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]


@pytest.fixture
def layout(open_writer: Opener) -> StoreLayout:
    """A finished store with three mismatches, the last one provisional."""
    writer = open_writer()
    writer.commit([delta(mismatch(0), mismatch(40), offset=80, provisional=(mismatch(80),))])
    writer.close()
    return writer.layout


def test_all_names_of_a_store_lead_to_it(layout: StoreLayout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "copy.duckdb"
    shutil.copy(layout.database, elsewhere)
    for target in (layout.state_dir.parent, layout.state_dir, layout.directory, layout.database, str(elsewhere)):
        reader = open_reader(target)
        assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(3,)]
        told = reader.connection()
        assert (told.kind, told.state) == ("file", "connected")
        reader.close()


def test_a_result_says_what_it_is(layout: StoreLayout) -> None:
    reader = open_reader(layout.directory)
    result = reader.query("SELECT byte_offset, raw, ?::DOUBLE AS x FROM b_mismatch ORDER BY 1", [0.5])
    assert result.columns == ("byte_offset", "raw", "x")
    assert result.types == ("BIGINT", "VARCHAR", "DOUBLE")
    assert result.rows == [(0, "", 0.5), (40, "", 0.5), (80, "", 0.5)]
    assert not result.truncated and 0 < result.elapsed_s < 5
    cut = reader.query("SELECT * FROM range(1000000000)", max_rows=10)
    assert cut.truncated and cut.rows == [(number,) for number in range(10)]
    assert not reader.query("SELECT * FROM range(10)", max_rows=10).truncated
    assert reader.query("SELECT 1 WHERE false").rows == []
    zoned = reader.query("SELECT TIMESTAMPTZ '2026-01-01 02:00:00+02' AS t, 7 AS n FROM range(3)", max_rows=2)
    assert zoned.rows == [(datetime(2026, 1, 1, tzinfo=UTC), 7)] * 2 and zoned.truncated
    reader.close()


def test_as_of_takes_any_zone(layout: StoreLayout) -> None:
    reader = open_reader(layout.directory)
    ((observed,),) = reader.query("SELECT max(observed_at) FROM b_mismatch").rows
    count = "SELECT count(*) FROM b_mismatch"
    east = timezone(timedelta(hours=5, minutes=30))
    assert reader.query(count, as_of=observed).rows == [(3,)]
    assert reader.query(count, as_of=observed.replace(tzinfo=UTC).astimezone(east)).rows == [(3,)]
    assert reader.query(count, as_of=observed - timedelta(microseconds=1)).rows == [(0,)]
    assert reader.query(count).rows == [(3,)], "it does not stay"
    reader.close()


def test_only_one_select_that_reads_no_file(layout: StoreLayout, tmp_path: Path) -> None:
    secret = tmp_path / "a.csv"
    secret.write_text("a\n1\n")
    reader = open_reader(layout.directory)
    for sql in (
        "DROP TABLE mismatch", "SELECT 1; SELECT 2", "", f"COPY (SELECT 1) TO '{tmp_path}/b'", "SET threads=1",
        f"SELECT * FROM '{secret}'", f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM read_blob('{layout.database}')", f"SELECT * FROM \"{layout.database}\"",
        "SELECT * FROM query('SELECT 1')", "PRAGMA database_list", "CALL force_checkpoint()",
    ):  # fmt: skip
        with pytest.raises((SqlRefused, SqlError)):
            reader.query(sql)
    with pytest.raises(SqlError, match="nonsense"):
        reader.query("SELECT nonsense FROM b_mismatch")
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(3,)], "it goes on"
    reader.close()


ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range < 0"


def test_a_query_ends_at_its_deadline_or_when_it_is_interrupted(layout: StoreLayout) -> None:
    reader = open_reader(layout.directory)
    began = time.monotonic()
    with pytest.raises(SqlError, match=r"stopped after 0\.2 s"):
        reader.query(ENDLESS, timeout_s=0.2)
    threading.Timer(0.2, reader.interrupt).start()
    with pytest.raises(SqlError, match="Interrupted"):
        reader.query(ENDLESS, timeout_s=30)
    assert time.monotonic() - began < 10
    assert reader.query("SELECT 1").rows == [(1,)]
    reader.interrupt()  # nothing runs: nothing happens
    reader.close()
    reader.close()
    assert reader.connection().state == "disconnected"
    with pytest.raises(ConnectError, match="closed"):
        reader.query("SELECT 1")


def test_marks_show_at_once_without_a_daemon(layout: StoreLayout) -> None:
    reader = open_reader(layout.state_dir)
    mark = Spool.at(layout.state_dir).mark("r1", reason="the run was restarted by hand")
    assert reader.query("SELECT rec_id, id FROM b_mark").rows == [(None, mark.id)]
    reader.close()


WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from tests.store.samples import delta, mismatch
from tic_daemon.store import migrate
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer
migrate.SCHEMA = Path(sys.argv[2])
writer = Writer.open(StoreLayout.find(Path(sys.argv[1])))
writer.commit([delta(mismatch(0), offset=40)])
print("written", flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def test_a_store_whose_daemon_died_is_read_with_its_wal_and_can_be_taken(
    workspace: Path, base_schema: Path, open_writer: Opener
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_DIE, str(workspace), str(base_schema)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "written\n"
    with pytest.raises(ConnectError, match=f"pid {child.pid} on"):
        open_reader(workspace)
    child.communicate("")
    (layout,) = [StoreLayout.find(workspace)]
    assert layout.wal.stat().st_size > 0
    reader = open_reader(workspace)
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(1,)]
    assert layout.wal.stat().st_size > 0, "reading changes nothing"
    # A daemon starts while the reader holds the file: the reader lets go by itself.
    writer = open_writer()
    with pytest.raises(ConnectError):
        reader.query("SELECT 1")
    assert reader.connection().state == "disconnected"
    assert writer.commit([delta(mismatch(40), offset=80)]) == 2
    writer.close()
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(2,)], "and comes back when the daemon has gone"
    reader.close()


def test_the_file_is_let_go_of_when_nobody_asks(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reader, "IDLE_S", 0.05)
    reader = open_reader(layout.database)
    reader.query("SELECT 1")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            duckdb.connect(str(layout.database)).close()  # refused in this process while it is open read-only
            break
        except duckdb.Error:
            time.sleep(0.02)
    else:
        pytest.fail("the file was never let go of")
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(3,)]
    reader.close()


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store under(.|\n)*tic-daemon watch(.|\n)*or name the directory"):
        open_reader(tmp_path)
    with pytest.raises(StoreError, match="does not exist"):
        open_reader(tmp_path / "nowhere")
    foreign = tmp_path / "x.duckdb"
    foreign.write_text("no database")
    with pytest.raises(StoreError, match="cannot read"):
        open_reader(foreign)
    con = duckdb.connect(str(tmp_path / "theirs.duckdb"))
    con.execute("CREATE TABLE a (b INTEGER)")
    con.close()
    with pytest.raises(StoreError, match="not a store of tic"):
        open_reader(tmp_path / "theirs.duckdb")


def test_a_newer_store_is_refused(layout: StoreLayout) -> None:
    con = duckdb.connect(str(layout.database))
    con.execute("UPDATE store SET schema_version = 99")
    con.close()
    with pytest.raises(StoreVersionError, match="version 99"):
        open_reader(layout.directory)


def test_importing_the_reader_loads_no_engine() -> None:
    script = (
        "import sys, tic_daemon.store.reader, tic_daemon.store.spool\n"
        "heavy = {'duckdb', 'pyarrow', 'torch', 'wandb', 'textual', 'numpy', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tail_says_that_the_file_changed_and_keeps_it_closed(layout: StoreLayout, open_writer: Opener) -> None:
    reader = open_reader(layout.directory)
    first = reader.tail()
    assert first.rows == () and first.position
    began = time.monotonic()
    assert reader.tail(first.position, wait_s=0.2) == first
    assert time.monotonic() - began >= 0.2
    writer = open_writer()  # nothing holds the file open
    writer.commit([delta(mismatch(120), offset=160)])
    writer.close()
    later = reader.tail(first.position, wait_s=10)
    assert later.position != first.position and later.standing != first.standing
    waiter = threading.Timer(0.2, reader.close)
    waiter.start()
    with pytest.raises(ConnectError):
        while True:
            reader.tail(reader.tail().position, wait_s=60)


@pytest.mark.parametrize(("version", "words"), [(1, "watch --once"), (None, "is empty")])
def test_a_store_that_lacks_what_is_read_says_what_to_do(tmp_path: Path, version: int | None, words: str) -> None:
    """Of an older program, or made and never written: not a query that fails over a name."""
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as con:
        if version is not None:
            con.execute("CREATE TABLE store (store_id VARCHAR, schema_version INTEGER)")
            con.execute("INSERT INTO store VALUES ('abc', ?)", [version])
    with pytest.raises(StoreError, match=words):
        open_reader(path)
    duckdb.connect(str(path)).close()  # and lets go of it
