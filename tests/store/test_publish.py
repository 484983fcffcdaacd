"""The published snapshot against the store that it is of."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.store.samples import delta, fault, mismatch, next_tick
from tic_daemon.errors import StoreError
from tic_daemon.store import publish as module
from tic_daemon.store.columns import EVENT_TABLES
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import MAX_ROWS, Publisher, merge_from
from tic_daemon.store.snapshot import MANIFEST, read_manifest, snapshot_of
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]


@pytest.fixture
def writer(open_writer: Opener) -> Writer:
    return open_writer()


def publisher(writer: Writer) -> Publisher:
    return Publisher(writer.reader_cursor, writer.layout, writer.changes, lost=writer.lost)


def published(layout: StoreLayout) -> dict[str, list[tuple[object, ...]]]:
    """Every table of the snapshot, read by a plain DuckDB from the files that the manifest names."""
    con = duckdb.connect()
    found = {}
    for name, table in read_manifest(layout.snapshot_dir).tables.items():
        files = [str(layout.snapshot_dir / piece.name) for piece in table.pieces]
        found[name] = con.execute("SELECT * FROM read_parquet(?)", [files]).fetchall() if files else []
        assert len(found[name]) == table.rows
    return found


def stored(writer: Writer) -> dict[str, list[tuple[object, ...]]]:
    cursor = writer.reader_cursor()
    names = cursor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND database_name = current_database()"
    ).fetchall()
    found = {name: cursor.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}
    cursor.close()
    return found


def same(writer: Writer) -> None:
    ours, theirs = published(writer.layout), stored(writer)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert sorted(map(str, ours[name])) == sorted(map(str, theirs[name])), name


def names(layout: StoreLayout) -> set[str]:
    return {path.name for path in layout.snapshot_dir.iterdir()}


def test_the_snapshot_is_the_store_whatever_comes(writer: Writer) -> None:
    ours = publisher(writer)
    assert ours.publish()
    same(writer)
    for _ in range(6):
        deltas, marks = next_tick(writer.cursors())
        writer.commit(deltas, marks=marks)
        assert ours.publish()
        same(writer)
    writer.commit([delta(mismatch(0), offset=40, provisional=(mismatch(40),))])
    ours.publish()
    writer.commit([delta(mismatch(40), offset=80)])
    ours.publish()
    same(writer)
    counts = {name: len(read_manifest(writer.layout.snapshot_dir).tables[name].pieces) for name in EVENT_TABLES}
    assert max(counts.values()) <= 4, "small files are merged"


def test_nothing_new_writes_nothing(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = publisher(writer)
    writer.commit([delta(mismatch(0), offset=40)])
    ours.publish()
    before = {name: (writer.layout.snapshot_dir / name).stat().st_mtime_ns for name in names(writer.layout)}
    ours.publish()
    assert before == {name: (writer.layout.snapshot_dir / name).stat().st_mtime_ns for name in names(writer.layout)}
    # After a while it says that it still holds, and nothing else.
    first = read_manifest(writer.layout.snapshot_dir)
    monkeypatch.setattr(module, "RENEW_S", 0.0)
    ours.publish()
    second = read_manifest(writer.layout.snapshot_dir)
    assert second.at > first.at and second.id == first.id and names(writer.layout) == before.keys()


def test_a_reader_of_the_older_manifest_comes_to_its_end(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = publisher(writer)
    for number in range(3):
        writer.commit([delta(mismatch(40 * number), offset=40 * number + 40)])
        ours.publish()
    old = read_manifest(writer.layout.snapshot_dir)
    for number in range(3, 9):
        writer.commit([delta(mismatch(40 * number), offset=40 * number + 40)])
        ours.publish()
    new = read_manifest(writer.layout.snapshot_dir)
    assert not old.files() <= new.files()
    assert old.files() <= names(writer.layout), "within the grace time all are there"
    monkeypatch.setattr(module, "GRACE_S", -1.0)
    writer.commit([delta(mismatch(400), offset=440)])
    ours.publish()
    ours.publish()
    assert names(writer.layout) == read_manifest(writer.layout.snapshot_dir).files() | {MANIFEST}


def test_files_are_private(writer: Writer) -> None:
    publisher(writer).publish()
    assert writer.layout.snapshot_dir.stat().st_mode & 0o777 == 0o700
    for name in names(writer.layout):
        assert (writer.layout.snapshot_dir / name).stat().st_mode & 0o777 == 0o600, name


def test_a_restart_goes_on_with_what_is_published(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(*(mismatch(40 * i) for i in range(100)), offset=4000)])
    publisher(writer).publish()
    first = read_manifest(writer.layout.snapshot_dir)
    writer.close()
    writer = open_writer()
    writer.commit([delta(mismatch(4000), offset=4040)])
    publisher(writer).publish()
    second = read_manifest(writer.layout.snapshot_dir)
    assert second.lineage == first.lineage and second.number > first.number
    assert second.tables["mismatch"].pieces[0] == first.tables["mismatch"].pieces[0]
    same(writer)


def damage_of_another_store(layout: StoreLayout) -> None:
    text = (layout.snapshot_dir / MANIFEST).read_text()
    (layout.snapshot_dir / MANIFEST).write_text(text.replace(layout.store_id, "0123456789ab"))


def damage_missing(layout: StoreLayout) -> None:
    next(layout.snapshot_dir.glob("mismatch-*")).unlink()


def damage_torn(layout: StoreLayout) -> None:
    path = next(layout.snapshot_dir.glob("mismatch-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")


def damage_manifest(layout: StoreLayout) -> None:
    (layout.snapshot_dir / MANIFEST).write_text("{")


@pytest.mark.parametrize("damage", [damage_of_another_store, damage_missing, damage_torn, damage_manifest])
def test_a_snapshot_that_does_not_fit_is_made_anew(open_writer: Opener, damage: Callable[[StoreLayout], None]) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    publisher(writer).publish()
    lineage = read_manifest(writer.layout.snapshot_dir).lineage
    damage(writer.layout)
    ours = publisher(writer)
    assert ours.publish()
    assert read_manifest(writer.layout.snapshot_dir).lineage != lineage
    same(writer)


def test_a_store_that_begins_anew_under_the_same_name(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), mismatch(40), offset=80)])
    publisher(writer).publish()
    layout = writer.layout
    writer.close()
    layout.database.unlink()
    writer = open_writer()
    assert writer.store_id == layout.store_id
    writer.commit([delta(mismatch(0), fault(40), offset=80)])
    publisher(writer).publish()
    same(writer)


def test_files_deleted_under_a_running_daemon_come_again(writer: Writer) -> None:
    ours = publisher(writer)
    writer.commit([delta(mismatch(0), offset=40)])
    ours.publish()
    damage_missing(writer.layout)
    ours.publish()
    same(writer)
    shutil.rmtree(writer.layout.snapshot_dir)
    ours.publish()
    same(writer)


def test_the_thread_publishes_and_ends_with_all_there_is(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(workspace), network=True)
    writer.layout.published.write_text("of an earlier end")
    ours = Publisher(writer.reader_cursor, writer.layout, writer.changes, every_s=0.05)
    ours.start()
    writer.commit([delta(mismatch(0), offset=40)])
    deadline = time.monotonic() + 60
    while snapshot_of(writer.layout) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    writer.commit([delta(mismatch(40), offset=80)])
    assert ours.finish(time.monotonic() + 60)
    same(writer)
    assert not writer.layout.published.exists(), "a stale copy would be taken for the whole"
    writer.close()
    assert writer.layout.published.exists()


def test_at_the_end_of_a_store_that_lies_here_the_file_is_enough(writer: Writer) -> None:
    ours = Publisher(writer.reader_cursor, writer.layout, writer.changes, every_s=60)
    ours.start()
    writer.commit([delta(mismatch(0), offset=40)])
    assert ours.finish(time.monotonic() + 60)
    assert snapshot_of(writer.layout) is None


def test_the_end_does_not_wait_for_a_file_system_that_hangs(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    import threading

    hang = threading.Event()
    request.addfinalizer(hang.set)
    moving = threading.Event()
    monkeypatch.setattr(Publisher, "_move", lambda *_: moving.set() or hang.wait(60))
    ours = Publisher(writer.reader_cursor, writer.layout, writer.changes, every_s=0.01)
    ours.start()
    wait = time.monotonic() + 60
    while not moving.is_set() and time.monotonic() < wait:
        time.sleep(0.01)
    began = time.monotonic()
    assert not ours.finish(began + 0.3)
    assert time.monotonic() - began < 10
    hang.set()
    ours._thread.join(20)
    assert snapshot_of(writer.layout) is None, "what was given up puts no manifest in place later"


def test_a_failure_is_said_once_and_tried_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ours = publisher(writer)
    writer.commit([delta(mismatch(0), offset=40)])
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_move", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        for _ in range(3):
            assert not ours.publish()
    assert [record.message for record in caplog.records if "goes on by itself" in record.message].__len__() == 1
    assert not list(writer.layout.staging_dir.iterdir())
    with pytest.raises(StoreError):
        read_manifest(writer.layout.snapshot_dir)
    assert ours.publish()
    same(writer)


def test_nothing_is_published_for_a_store_that_another_daemon_took(writer: Writer) -> None:
    ours = Publisher(writer.reader_cursor, writer.layout, writer.changes, lost=lambda: True)
    ours.publish()
    assert snapshot_of(writer.layout) is None


def test_a_large_store_is_written_in_pieces_ahead_of_the_moment(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    writer.commit([delta(*(mismatch(40 * i) for i in range(300)), offset=12_000)])
    ours = publisher(writer)
    ours.publish()
    pieces = read_manifest(writer.layout.snapshot_dir).tables["mismatch"].pieces
    assert len(pieces) > 4 and sum(piece.rows for piece in pieces) == 300
    same(writer)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 3_000_000), max_size=120))
def test_merging_is_bounded(fresh: list[int]) -> None:
    rows: list[int] = []
    written = 0
    for count in fresh:
        start = merge_from(rows, count)
        merged = sum(rows[start:]) + count
        assert all(size < MAX_ROWS for size in rows[start:])
        rows[start:] = [merged]
        written += merged
        assert len([size for size in rows if size < MAX_ROWS]) <= 4 * 7
    assert sum(rows) == sum(fresh)
    assert written <= 8 * sum(fresh) or not fresh
