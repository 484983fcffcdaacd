"""A disk that fills up: the batch waits, nothing is lost, and the daemon goes on by itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.samples import delta, mismatch
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import Publisher
from tic_daemon.store.rows import SourceDelta
from tic_daemon.store.snapshot import snapshot_of
from tic_daemon.store.snapshot_reader import SnapshotReader
from tic_daemon.store.writer import Writer

BODY = """
import os, resource, sys
from pathlib import Path
from tests.store.samples import delta, mismatch, source
from tic_daemon.errors import StoreFull
from tic_daemon.store import migrate, writer as module
from tic_daemon.store.layout import StoreLayout

workspace, migrate.SCHEMA, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def limit(size):
    if how == "rlimit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    else:
        assert os.system(f"mount -o remount,size={size} {workspace}") == 0

def batch(number):
    raw = os.urandom(50).hex()
    first = 40 * 1000 * number
    return [delta(*(mismatch(first + 40 * i, raw=raw) for i in range(1000)), offset=first + 40_000)]

def count():
    cursor = writer.reader_cursor()
    ((rows, distinct),) = cursor.execute("SELECT count(*), count(DISTINCT byte_offset) FROM b_mismatch").fetchall()
    cursor.close()
    assert rows == distinct
    return rows

writer = module.Writer.open(StoreLayout.find(workspace))
limit(2 << 20)
done = 0
try:
    while done < 100:
        waiting = batch(done)
        writer.commit(waiting)
        done += 1
except StoreFull as error:
    print("full after", done, "batches:", error)
assert 0 < done < 100, done
for _ in range(3):
    try:
        writer.commit(waiting)
        raise SystemExit("written to a full disk")
    except StoreFull:
        pass
assert count() == done * 1000, "what was committed is there, and only that"
assert writer.cursors()[source().source_id, 0].byte_offset == done * 40_000

if len(sys.argv) > 4:  # a checkpoint while the disk is full kills the instance: it is opened again
    module.WAL_BYTES = 1
    writer._engine.free_bytes = lambda: 1 << 40  # as if another program took the space between the look and the write
    assert not writer.checkpoint_if_due()
    assert count() == done * 1000
    try:
        writer.commit(waiting)
        raise SystemExit("written to a full disk")
    except StoreFull:
        pass
    assert count() == done * 1000

limit(256 << 20)
writer.commit(waiting)
writer.commit(batch(done + 1))
assert count() == (done + 2) * 1000
writer.close()
writer = module.Writer.open(StoreLayout.find(workspace))
assert count() == (done + 2) * 1000
assert writer.cursors()[source().source_id, 0].byte_offset == (done + 2) * 40_000
writer.close()
print("well")
"""


def run(workspace: Path, schema: Path, *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BODY, str(workspace), str(schema), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "well"


@pytest.mark.parametrize("args", [(), ("checkpoint",)], ids=["commit", "checkpoint"])
def test_a_file_size_limit(workspace: Path, base_schema: Path, args: tuple[str, ...]) -> None:
    run(workspace, base_schema, "rlimit", *args)


@pytest.fixture
def small_disk(tmp_path: Path) -> object:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small tmpfs needs root")
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this container may not mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("args", [(), ("checkpoint",)], ids=["commit", "checkpoint"])
def test_a_full_file_system(small_disk: Path, base_schema: Path, args: tuple[str, ...]) -> None:
    run(small_disk, base_schema, "tmpfs", *args)


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    return filler


def _batch(number: int) -> list[SourceDelta]:
    first = 40 * 1000 * number
    events = (mismatch(first + 40 * i, raw=os.urandom(50).hex()) for i in range(1000))
    return [delta(*events, offset=first + 40_000)]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["store and snapshot", "the snapshot alone"])
def test_a_disk_that_is_full_when_the_store_is_published(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setenv("TIC_LOCAL_DIR", str(tmp_path / "local"))
    writer = Writer.open(StoreLayout.find(small_disk), network=elsewhere)
    publisher = Publisher(writer.reader_cursor, writer.layout, writer.changes)
    writer.commit(_batch(0))
    assert publisher.publish()
    before = snapshot_of(writer.layout)
    assert before is not None
    writer.commit(_batch(1))
    filler = _fill(small_disk)
    for _ in range(2):
        assert not publisher.publish()
    assert snapshot_of(writer.layout) == before, "what was published stands"
    SnapshotReader(writer.layout).close()
    left = {path.name for path in writer.layout.snapshot_dir.iterdir()}
    assert not [name for name in left if name.endswith(".part")]
    assert list(writer.layout.staging_dir.iterdir()) == []
    cursor = writer.reader_cursor()
    assert cursor.execute("SELECT count(*) FROM b_mismatch").fetchall() == [(2000,)], "the store itself is well"
    if elsewhere:
        writer.commit(_batch(2))
    filler.unlink()
    if not elsewhere:
        writer.commit(_batch(2))
    assert publisher.publish()
    reader = SnapshotReader(writer.layout)
    asked = "SELECT count(*), count(DISTINCT byte_offset) FROM b_mismatch"
    assert reader.query(asked).rows == [(3000, 3000)]
    reader.close()
    if elsewhere:
        filler = _fill(small_disk)
        writer.close()
        assert not writer.layout.published.exists()
        filler.unlink()
        assert writer.layout.publish_whole()
    else:
        writer.close()
