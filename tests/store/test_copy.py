"""`tic-daemon snapshot`: a copy to take away, during the run and after it."""

from __future__ import annotations

import shutil
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import delta, fault, mismatch
from tests.store.test_old_client import STORAGE_1_2
from tic_daemon.cli import main
from tic_daemon.errors import StoreError
from tic_daemon.live import LiveServer
from tic_daemon.store.copy import CopyError, copy_store
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import Publisher
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]


def rows(path: Path) -> dict[str, list[str]]:
    """Every table and base view of a store's file."""
    con = duckdb.connect(str(path), read_only=True)
    names = con.execute(
        "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    found = {name: sorted(map(str, con.execute(f"SELECT * FROM {name}").fetchall())) for (name,) in names}
    con.close()
    return found


def sound(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert struct.unpack_from("<Q", path.read_bytes()[:20], 12) == (STORAGE_1_2,)
    assert [left.name for left in path.parent.iterdir() if left.name.startswith(f".{path.name}")] == []


def test_without_a_daemon_it_is_the_file(open_writer: Opener, tmp_path: Path) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), fault(40), offset=80, provisional=(mismatch(80),))])
    writer.close()
    target = tmp_path / "copy.duckdb"
    copied = copy_store(writer.layout, target)
    assert copied.source == str(writer.layout.database) and not copied.behind
    assert rows(target) == rows(writer.layout.database)
    sound(target)
    con = duckdb.connect(str(target))  # it can be written by its owner, keys and all
    with pytest.raises(duckdb.ConstraintException):
        con.execute("INSERT INTO cursor SELECT * FROM cursor")
    con.close()


def test_during_the_run_it_holds_all_that_was_committed(open_writer: Opener, tmp_path: Path) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    publisher = Publisher(writer.reader_cursor, writer.layout, writer.changes)
    publisher.publish()
    writer.commit([delta(mismatch(40), offset=80)])
    server = LiveServer(writer.reader_cursor, writer.layout)
    server.start()
    try:
        behind = copy_store(writer.layout, tmp_path / "first.duckdb", wait_s=0.0)
        assert "has not published" in behind.behind
        timer = threading.Timer(0.5, publisher.publish)
        timer.start()
        copied = copy_store(writer.layout, tmp_path / "second.duckdb", wait_s=30.0)
        timer.join()
    finally:
        server.stop()
    assert not copied.behind
    ours = rows(tmp_path / "second.duckdb")
    assert len(ours["b_mismatch"]) == 2
    sound(tmp_path / "second.duckdb")
    writer.close()
    theirs = rows(writer.layout.database)
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} == set()


def test_from_another_host_after_a_crash_it_is_what_was_published(open_writer: Opener, tmp_path: Path) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    writer.close()
    away = tmp_path / "away" / ".tic" / writer.layout.directory.name
    shutil.copytree(writer.layout.directory, away)
    (away / "tic.duckdb").unlink()
    layout = StoreLayout.of(away)
    assert layout is not None
    copied = copy_store(layout, tmp_path / "copy.duckdb")
    assert copied.source == str(layout.snapshot_dir)
    assert len(rows(tmp_path / "copy.duckdb")["b_mismatch"]) == 1
    shutil.rmtree(layout.snapshot_dir)
    with pytest.raises(StoreError, match="no snapshot can be read"):
        copy_store(layout, tmp_path / "none.duckdb", wait_s=0.0)
    assert not (tmp_path / "none.duckdb").exists()


def test_nothing_is_overwritten_in_silence(open_writer: Opener, tmp_path: Path) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    writer.close()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for target in (mine, link):
        with pytest.raises(CopyError, match="exists"):
            copy_store(writer.layout, target)
    assert mine.read_text() == "mine" and not (tmp_path / "nowhere").exists()
    copy_store(writer.layout, mine, force=True)
    assert len(rows(mine)["b_mismatch"]) == 1
    with pytest.raises(CopyError, match="cannot write"):
        copy_store(writer.layout, tmp_path / "no" / "such" / "directory.duckdb")
    with pytest.raises(CopyError, match="question mark"):
        copy_store(writer.layout, tmp_path / "what?")


def test_the_command(workspace: Path, open_writer: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", str(tmp_path / "x"), "--at", str(workspace)]) == 15
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    writer.close()
    assert main(["snapshot", str(tmp_path / "x"), "--at", str(workspace)]) == 0
    assert "UTC, from" in capsys.readouterr().out
    assert main(["snapshot", str(tmp_path / "x"), "--at", str(workspace)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["snapshot", str(tmp_path / "x"), "--at", str(workspace), "--force"]) == 0
    StoreLayout.find(workspace, host="node-9")
    assert main(["snapshot", str(tmp_path / "y"), "--at", str(workspace)]) == 15
    assert "2 stores" in capsys.readouterr().err
    assert main(["snapshot", str(tmp_path / "y"), "--at", "http://127.0.0.1:1"]) == 15
