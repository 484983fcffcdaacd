"""Where things lie, on a local disk and where locks cannot be trusted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import delta, mismatch
from tic_daemon.errors import StoreError
from tic_daemon.store import layout as layout_module
from tic_daemon.store import locks
from tic_daemon.store.layout import StoreLayout, read_json, spool_dir_of, stores_under
from tic_daemon.store.locks import locks_work
from tic_daemon.store.owner import live_owner
from tic_daemon.store.publish import Publisher
from tic_daemon.store.reader import open_reader
from tic_daemon.store.snapshot import read_manifest
from tic_daemon.store.writer import Writer


def test_a_restart_finds_its_own_store(workspace: Path) -> None:
    first = StoreLayout.find(workspace)
    assert StoreLayout.find(workspace) == first
    assert first.directory.parent == workspace / ".tic"
    assert first.directory.name == f"{first.host}-{first.store_id}"
    other = StoreLayout.find(workspace, host="node-9.cluster")
    assert other.directory != first.directory and other.host == "node-9.cluster"
    assert {found.directory for found in stores_under(workspace)} == {first.directory, other.directory}
    assert stores_under(other.directory) == [other]


def test_two_starters_make_one_store(workspace: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tic_daemon.store.layout import StoreLayout\n"
        "print(StoreLayout.find(Path(sys.argv[1])).directory)"
    )
    argv = [sys.executable, "-c", script, str(workspace)]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({child.communicate()[0] for child in children}) == 1


def test_what_is_no_store_is_none(tmp_path: Path) -> None:
    for name in ("spool", "node-xyz", "-0123456789ab", "0123456789ab", "node-0123456789AB"):
        (tmp_path / name).mkdir()
        assert StoreLayout.of(tmp_path / name) is None
    assert stores_under(tmp_path) == []
    assert spool_dir_of(tmp_path) is None


def test_the_state_directory_may_be_elsewhere_and_must_be_writable(tmp_path: Path) -> None:
    found = StoreLayout.find(tmp_path / "data", state_dir=tmp_path / "state")
    assert found.state_dir == tmp_path / "state"
    assert not (tmp_path / "data").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write the state directory"):
        StoreLayout.find(tmp_path / "file")


@pytest.mark.parametrize("asked", ["an open file", "a child"])
def test_the_lock_probe_sees_locks_that_do_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    if asked == "a child":
        monkeypatch.setattr(locks, "_OWN_LOCK", None)
    assert locks_work(tmp_path)
    monkeypatch.setattr(locks.fcntl, "lockf", lambda *_: None)
    assert not locks_work(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_on_a_network_file_system_the_live_store_is_node_local(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    layout = writer.layout
    assert layout.database.is_relative_to(tmp_path / "local")
    assert not layout.published.exists()
    assert read_json(layout.pointer_file)["database"] == str(layout.database)
    writer.commit([delta(mismatch(0), offset=40)])
    writer.close()
    # At the end the whole file lies in the state directory too, for readers on any host.
    con = duckdb.connect(str(layout.published), read_only=True)
    assert con.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(1,)]
    con.close()
    assert layout.published.stat().st_mode & 0o777 == 0o600
    # The next daemon goes on with the local one, whatever the mount says now.
    writer = Writer.open(StoreLayout.find(workspace), network=False)
    assert writer.layout.database == layout.database
    assert writer.commit([delta(mismatch(40), offset=80)]) == 2
    writer.close()
    # A node that was wiped goes on from the published copy.
    shutil.rmtree(tmp_path / "local")
    reader = open_reader(workspace)
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(2,)]
    reader.close()
    writer = Writer.open(StoreLayout.find(workspace))
    assert writer.commit([delta(mismatch(80), offset=120)]) == 3
    writer.close()


def test_a_pointer_of_another_host_leads_to_the_published_copy(workspace: Path, tmp_path: Path) -> None:
    layout = StoreLayout.find(workspace)
    layout.pointer_file.write_text(json.dumps({"host": "node9", "database": "/scratch/x.duckdb"}))
    found = StoreLayout.of(layout.directory)
    assert found is not None and found.database == layout.published
    with pytest.raises(StoreError, match="has no file here"):
        open_reader(workspace)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff", '"x"', "[" * 100_000])
def test_a_small_json_file_is_an_object_or_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "owner.json"
    path.write_bytes(text.encode("latin-1"))
    assert read_json(path) == {}
    assert read_json(tmp_path / "missing") == {}


def test_a_question_mark_in_the_workspace_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB takes what follows it for the query of a URL, and its log would lie in another directory."""
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    workspace = tmp_path / "what?now"
    workspace.mkdir()
    writer = Writer.open(StoreLayout.find(workspace))
    assert writer.layout.database.is_relative_to(tmp_path / "local")
    writer.commit([delta(mismatch(0), offset=40)])
    writer.close()
    reader = open_reader(workspace)
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(1,)]
    reader.close()
    shutil.rmtree(tmp_path / "local")
    reader = open_reader(workspace)
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(1,)]
    reader.close()


def test_a_live_store_in_a_directory_that_others_can_write_is_refused(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    directory = writer.layout.database.parent
    writer.close()
    directory.chmod(0o777)
    with pytest.raises(StoreError, match="not yours alone"):
        Writer.open(StoreLayout.find(workspace), network=True)
    assert live_owner(writer.layout.owner_file) is None, "and it is free again"


def test_a_store_that_went_with_its_node_goes_on_from_the_snapshot(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    writer.commit([delta(mismatch(0), mismatch(40), offset=80, provisional=(mismatch(80),))])
    publisher = Publisher(writer.reader_cursor, writer.layout, writer.changes)
    assert publisher.publish()
    first = read_manifest(writer.layout.snapshot_dir)
    cursors, sources = writer.cursors(), writer.sources()
    writer.commit([delta(mismatch(80), offset=120)])
    writer._engine.close()  # the node is gone, and what came after the snapshot with it
    writer._owner.release()
    shutil.rmtree(tmp_path / "local")
    with caplog.at_level("INFO"):
        writer = Writer.open(StoreLayout.find(workspace), network=True)
    assert "made again from the snapshot" in caplog.text
    assert writer.cursors() == cursors and writer.sources() == sources
    cursor = writer.reader_cursor()
    assert cursor.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(3,)]
    writer.commit([delta(mismatch(80), offset=120)])
    assert cursor.execute("SELECT count(*), count(DISTINCT byte_offset) FROM b_mismatch").fetchall() == [(3, 3)]
    assert Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    assert read_manifest(writer.layout.snapshot_dir).lineage == first.lineage, "what is published stays"
    writer.close()
    assert writer.layout.published.exists()


def test_the_copy_at_the_end_keeps_its_deadline_and_survives_a_full_disk(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    writer.commit([delta(mismatch(0), offset=40)])
    layout = writer.layout
    writer.close(time.monotonic())
    assert not layout.published.exists()
    assert caplog.text.count("left out: the copy of") == 1
    assert not list(layout.directory.glob("*.part")) and not list(layout.directory.glob(".*.part"))
    monkeypatch.setattr(layout_module.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert not layout.publish_whole()
    assert "No space left" in caplog.text and not list(layout.directory.glob(".*.part"))
    monkeypatch.undo()
    assert layout.publish_whole()
    assert layout.published.read_bytes() == layout.database.read_bytes()
    assert layout.published.stat().st_mode & 0o777 == 0o600
