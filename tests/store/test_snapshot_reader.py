"""Reading what a daemon published, as another host does that reaches neither the daemon nor its file."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.harness import ROOT
from tests.store.samples import delta, fault, mismatch
from tic_daemon.config import Config
from tic_daemon.errors import ConnectError, StoreError, StoreVersionError
from tic_daemon.store import duck_reader, migrate, snapshot_reader
from tic_daemon.store.layout import StoreLayout, stores_under
from tic_daemon.store.publish import Publisher
from tic_daemon.store.snapshot import MANIFEST, snapshot_of
from tic_daemon.store.snapshot_reader import SnapshotReader
from tic_daemon.store.spool import Spool
from tic_daemon.store.sqlguard import SqlError, SqlRefused
from tic_daemon.store.writer import Writer
from tic_daemon.watch import Daemon

Opener = Callable[[], Writer]
COMMITTED = [delta(mismatch(0), fault(40), mismatch(80), offset=120, provisional=(mismatch(120),))]
COUNT = "SELECT count(*), max(byte_offset) FROM b_mismatch"


@pytest.fixture
def writer(open_writer: Opener) -> Writer:
    writer = open_writer()
    writer.commit(COMMITTED)
    return writer


@pytest.fixture
def publish(writer: Writer) -> Callable[[], None]:
    ours = Publisher(writer.reader_cursor, writer.layout, writer.changes)
    assert ours.publish()

    def again() -> None:
        assert ours.publish()

    return again


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, base_schema: Path) -> Path:
    """A workspace whose daemon published what `writer` has, and is gone."""
    path = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "SCHEMA", base_schema)
        writer = Writer.open(StoreLayout.find(path))
        writer.commit(COMMITTED)
        assert Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
        writer.close()
    return path


@pytest.fixture
def published(example: Path, workspace: Path) -> StoreLayout:
    """A copy of the example, to be read and broken."""
    shutil.copytree(example, workspace, dirs_exist_ok=True)
    (layout,) = stores_under(workspace)
    return layout


@pytest.fixture
def every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "LOOK_S", 0.0)


@pytest.mark.usefixtures("every_look")
def test_it_is_read_on_when_the_daemon_had_to_open_its_file_again(writer: Writer, publish: Callable[[], None]) -> None:
    reader = SnapshotReader(writer.layout)
    cursor = writer.reader_cursor()
    cursor.execute("CREATE VIEW a_persons_own AS SELECT * FROM mismatch")
    cursor.close()
    writer._reopen()
    writer.commit([delta(mismatch(120), offset=160)])
    publish()
    assert reader.query("SELECT count(*) FROM b_mismatch").rows == [(3,)]
    assert reader.query("SELECT count(*) FROM b_mark").rows == [(0,)], "made of another view, which comes later by name"


def test_what_it_says_of_itself(published: StoreLayout) -> None:
    reader = SnapshotReader(published)
    told = reader.connection()
    assert (told.kind, told.state) == ("snapshot", "connected")
    assert told.data_at is not None and abs(datetime.now(UTC).replace(tzinfo=None) - told.data_at) < timedelta(
        minutes=1
    )
    assert reader.query(COUNT).rows == [(3, 120)]
    reader.close()
    with pytest.raises(ConnectError, match="closed"):
        reader.query("SELECT 1")


def test_only_one_select_that_reads_no_file(published: StoreLayout, tmp_path: Path) -> None:
    secret = tmp_path / "a.csv"
    secret.write_text("a\n1\n")
    reader = SnapshotReader(published)
    inside = next(published.snapshot_dir.glob("cursor-*"))
    for sql in (
        "DROP TABLE mismatch", "SELECT 1; SELECT 2", "SET threads=1", f"SELECT * FROM read_parquet('{inside}')",
        f"SELECT * FROM '{inside}'", f"SELECT * FROM read_csv('{secret}')", "SELECT * FROM query('SELECT 1')",
    ):  # fmt: skip
        with pytest.raises((SqlRefused, SqlError)):
            reader.query(sql)
    con = reader._open()  # the second net, should the first one have a hole
    with pytest.raises(Exception, match="disabled by configuration"):
        con.execute(f"SELECT * FROM read_csv('{secret}')")
    reader.close()


def test_as_of_and_the_spool_work_as_on_the_file(published: StoreLayout) -> None:
    reader = SnapshotReader(published)
    ((observed,),) = reader.query("SELECT max(observed_at) FROM b_mismatch").rows
    assert reader.query(COUNT, as_of=observed - timedelta(microseconds=1)).rows == [(0, None)]
    mark = Spool.at(published.state_dir).mark("r1", reason="from a third host")
    assert reader.query("SELECT rec_id, id FROM b_mark").rows == [(None, mark.id)]
    reader.close()


@pytest.mark.usefixtures("every_look")
@pytest.mark.parametrize("loaded_rows", [50_000, 4, 0], ids=["loaded", "loaded, then files", "files"])
def test_it_follows_what_is_published(
    writer: Writer, publish: Callable[[], None], monkeypatch: pytest.MonkeyPatch, loaded_rows: int
) -> None:
    monkeypatch.setattr(snapshot_reader, "LOADED_ROWS", loaded_rows)
    reader = SnapshotReader(writer.layout)
    assert reader.query(COUNT).rows == [(3, 120)]
    for number in range(3, 12):  # merged files among them
        writer.commit([delta(mismatch(40 * number), offset=40 * number + 40)])
        publish()
        assert reader.query(COUNT).rows == [(number, 40 * number)]
        assert reader.query("SELECT count(DISTINCT rec_id) = count(*) FROM mismatch").rows == [(True,)]
        assert reader.query("SELECT max(tick) = count(*) FROM ingest").rows == [(True,)]
    reader.close()


@pytest.mark.usefixtures("every_look")
def test_a_snapshot_begun_anew_is_read_anew(writer: Writer, publish: Callable[[], None]) -> None:
    reader = SnapshotReader(writer.layout)
    reader.query(COUNT)
    shutil.rmtree(writer.layout.snapshot_dir)
    with pytest.raises(StoreError, match="no snapshot can be read"):
        reader.query(COUNT)
    assert reader.connection().state == "disconnected"
    publish()
    assert reader.query(COUNT).rows == [(3, 120)]
    assert reader.connection().state == "connected"
    reader.close()


def test_a_file_that_vanished_leads_to_the_newer_manifest(
    writer: Writer, publish: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_reader, "LOADED_ROWS", 0)
    monkeypatch.setattr(snapshot_reader, "LOOK_S", 1000.0)
    reader = SnapshotReader(writer.layout)
    (old,) = writer.layout.snapshot_dir.glob("mismatch-*")
    for number in range(3, 7):
        writer.commit([delta(mismatch(40 * number), offset=40 * number + 40)])
        publish()
    old.unlink()
    assert reader.query(COUNT).rows == [(6, 240)]
    told = snapshot_of(writer.layout)
    assert told is not None
    (writer.layout.snapshot_dir / told.tables["mismatch"].pieces[0].name).unlink()
    with pytest.raises(StoreError, match="not whole"):
        reader.query(COUNT)
    reader.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.clear(),
        lambda value: value.update(format=2),
        lambda value: value["tables"]["cursor"]["files"][0].__setitem__(0, "../../../../etc/passwd"),
        lambda value: value["tables"]["cursor"]["files"][0].__setitem__(3, -1),
        lambda value: value["tables"].update({"a; DROP TABLE b": value["tables"]["cursor"]}),
        lambda value: value["tables"]["cursor"]["columns"].append(["x", "INTEGER); SELECT 1; --"]),
        lambda value: value.update(at="2026-01-01T00:00:00+02:00"),
        lambda value: value["views"].__setitem__(0, "/etc/passwd"),
        lambda value: value.update(number=True),
    ],
)
def test_a_manifest_that_no_daemon_wrote(published: StoreLayout, change: Callable[[dict[str, object]], None]) -> None:
    path = published.snapshot_dir / MANIFEST
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    assert snapshot_of(published) is None
    with pytest.raises(StoreError, match="cannot be used"):
        SnapshotReader(published)


def test_views_that_no_daemon_wrote(published: StoreLayout) -> None:
    (path,) = published.snapshot_dir.glob("views-*")
    size = path.stat().st_size
    for sql in (
        "CREATE TABLE a AS SELECT sum(range) FROM range(1000000000000)",
        "DROP TABLE cursor",
        "CREATE VIEW a AS SELECT 1; DROP TABLE cursor",
        "ATTACH '/tmp/x.duckdb'",
    ):
        path.write_text(json.dumps([["a", sql]]).ljust(size))
        with pytest.raises(StoreError):
            SnapshotReader(published)


def test_pipes_links_and_other_stores_are_no_snapshot(published: StoreLayout, tmp_path: Path) -> None:
    """A pipe without a writer would be waited for, and for ever."""
    directory = published.snapshot_dir
    manifest = directory / MANIFEST
    text = manifest.read_text()
    (piece,) = directory.glob("mismatch-*")
    outside = piece.rename(tmp_path / "outside.parquet")
    piece.symlink_to(outside)
    with pytest.raises(StoreError, match="is no file"):
        SnapshotReader(published)
    piece.unlink()
    outside.rename(piece)
    manifest.write_text(text.replace(published.store_id, "0" * 12))
    with pytest.raises(StoreError, match="another one"):
        SnapshotReader(published)
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(StoreError, match="cannot be used"):
        SnapshotReader(published)
    os.mkfifo(published.pointer_file)
    assert StoreLayout.of(published.directory) == published


def test_a_newer_snapshot_is_refused(published: StoreLayout) -> None:
    path = published.snapshot_dir / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    with pytest.raises(StoreVersionError, match="version 99"):
        SnapshotReader(published)


def test_tail_waits_for_a_newer_one(
    writer: Writer, publish: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck_reader, "LOOK_S", 0.05)
    monkeypatch.setattr(snapshot_reader, "LOOK_S", 0.05)
    reader = SnapshotReader(writer.layout)
    first = reader.tail()
    assert reader.tail(first.position, wait_s=0.2) == first
    writer.commit([delta(mismatch(120), offset=160)])
    timer = threading.Timer(0.2, publish)
    timer.start()
    later = reader.tail(first.position, wait_s=20)
    timer.join()
    assert later.position != first.position and later.standing != first.standing
    assert reader.query(COUNT).rows == [(3, 120)]
    assert reader.query("SELECT max(byte_offset) FROM mismatch WHERE prov IS NULL").rows == [(120,)]
    threading.Timer(0.2, reader.close).start()
    with pytest.raises(ConnectError):
        while True:
            reader.tail(later.position, wait_s=60)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["by turns", "whole"])
def test_every_view_is_as_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """A whole run with the real schema, under a directory whose name means something to DuckDB. Two moments are asked:
    each of one half of the views, or both of all."""
    monkeypatch.setattr(migrate, "SCHEMA", Path(migrate.__file__).with_name("schema"))
    monkeypatch.setattr(snapshot_reader, "LOADED_ROWS", 20)
    root = tmp_path / "run=5 [a]*'b"
    shutil.copytree(next((ROOT / "samples").glob("*/")), root)
    layout = StoreLayout.find(root)
    assert Daemon([root], Config(base=root), layout, listen=None).run_once()
    with sorted(root.rglob("*.log"))[0].open("a", encoding="utf-8") as log:
        log.write("a line more, so that the last tick is not the only one\n")
    assert Daemon([root], Config(base=root), layout, listen=None).run_once()
    Spool.at(root).attempt("r9", reason="again")
    writer = Writer.open(layout)
    began = time.process_time()
    assert Publisher(writer.reader_cursor, writer.layout, writer.changes).publish()
    assert time.process_time() - began < 30
    reader = SnapshotReader(layout)
    cursor = writer.reader_cursor()
    now = datetime.now(UTC).replace(tzinfo=None)
    overlay = reader.query("SELECT getvariable('spool')").rows[0][0]
    cursor.execute("SET VARIABLE spool = ?", [overlay])
    views = cursor.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary").fetchall()
    assert len(views) > 40
    filled = 0
    ((observed,),) = cursor.execute("SELECT max(observed_at) FROM ingest").fetchall()
    moments = (observed - timedelta(microseconds=1), now)
    for number, as_of in enumerate(moments):
        cursor.execute("SET VARIABLE as_of = ?", [as_of])
        for (view,) in views if whole else views[number :: len(moments)]:
            ours = reader.query(f"SELECT * FROM {view}", as_of=as_of, timeout_s=120)
            cursor.execute(f"SELECT * FROM {view}")
            assert list(ours.types) == [str(column[1]) for column in cursor.description or ()]
            assert sorted(map(str, ours.rows)) == sorted(map(str, cursor.fetchall())), view
            filled += bool(ours.rows)
    assert filled > 40
    reader.close()
    writer.close()
