"""A workspace on file systems in user space that cache, lie about locks, have none, or are full."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, tic, wait_until
from tic_daemon.errors import TicError
from tic_daemon.store.layout import StoreLayout, read_json, stores_under
from tic_daemon.store.locks import locks_work
from tic_daemon.store.place import reason_to_leave
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.snapshot import snapshot_of

pytestmark = [pytest.mark.fuse, pytest.mark.slow]

LINE = "[mismatch] run=r step={n} policy={n} input=abc phase=decode rank=0 metric=logprob_mae value=0.5\n"
Mounter = Callable[..., tuple[Path, Path]]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounter]:
    """Mounts a directory: `mounted("bindfs")` with attribute caching, or one of the kinds of fuse_fs.py."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        pytest.skip("needs /dev/fuse and fusermount3")
    running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def mount(kind: str) -> tuple[Path, Path]:
        under, over = tmp_path / "under", tmp_path / "over"
        under.mkdir()
        over.mkdir()
        if kind == "bindfs":
            if shutil.which("bindfs") is None:
                pytest.skip("needs bindfs")
            command = ["bindfs", "-f", "-o", "attr_timeout=3,entry_timeout=3,negative_timeout=0", str(under), str(over)]
        else:
            if importlib.util.find_spec("mfusepy") is None:
                pytest.skip("needs mfusepy")
            command = [sys.executable, str(Path(__file__).with_name("fuse_fs.py")), str(under), str(over), kind]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running.append((process, over))
        wait_until(lambda: process.poll() is not None or os.path.ismount(over), 20)
        if process.poll() is not None:
            pytest.skip("this container may not mount")
        return under, over

    yield mount
    for process, over in running:
        subprocess.run(["fusermount3", "-u", "-z", str(over)], check=False)
        process.terminate()
        process.wait(20)


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "local"
    monkeypatch.setenv("TIC_LOCAL_DIR", str(path))
    return path


def count(reader: Reader) -> int:
    return int(reader.query("SELECT count(*) FROM mismatches", timeout_s=20).rows[0][0])


def test_lines_written_elsewhere_are_read_in_time_and_none_is_lost(mounted: Mounter, local: Path) -> None:
    """What another host writes is not told to a mount that caches; here it is written beneath the mount."""
    under, over = mounted("bindfs")
    (under / "logs").mkdir()
    log = under / "logs" / "worker.log"
    log.write_text(LINE.format(n=0))
    watcher = Watcher(over / ".tic", over / "logs")
    watcher.start()
    took, written = [], 1
    try:
        (layout,) = stores_under(over)
        assert layout.database.is_relative_to(local) and "network" in str(read_json(layout.pointer_file)["why"])
        reader = open_reader(over)
        wait_until(lambda: count(reader) == 1, 20, watcher.log)
        for _ in range(6):
            with log.open("a") as file:
                file.write(LINE.format(n=written))
            written += 1
            began = time.monotonic()
            wait_until(lambda n=written: count(reader) == n, 20, watcher.log)  # type: ignore[misc]
            took.append(time.monotonic() - began)
        log.rename(under / "logs" / "worker.log.1")
        log.write_text("".join(LINE.format(n=written + number) for number in range(50)))
        written += 50
        wait_until(lambda: count(reader) == written, 30, watcher.log)
        reader.close()
        second = tic("watch", over / "logs", "--state", over / ".tic", check=False)
        assert second.returncode == 15 and "is written by pid" in second.stderr
        assert watcher.process is not None and watcher.process.poll() is None
    finally:
        watcher.stop()
    print("a line written elsewhere to its row:", ", ".join(f"{seconds:.2f} s" for seconds in took))
    assert max(took) < 20, took
    copy = layout.published
    assert ask(copy, "SELECT count(*), count(DISTINCT step) FROM mismatches") == [(written, written)]
    snapshot = snapshot_of(layout)
    assert snapshot is not None and snapshot.tables["mismatch"].rows >= written


@pytest.mark.parametrize("kind", ["lie", "fail"])
def test_where_locks_lie_or_fail_there_is_one_daemon_and_nothing_is_lost(
    mounted: Mounter, local: Path, tmp_path: Path, kind: str
) -> None:
    under, over = mounted(kind)
    assert not locks_work(over)
    assert "locks do not hold" in reason_to_leave(over, network=False)
    (under / "worker.log").write_text("".join(LINE.format(n=number) for number in range(20)))
    watcher = Watcher(over / ".tic", over)
    watcher.start()
    try:
        second = tic("watch", over, check=False)
        assert second.returncode == 15 and "is written by pid" in second.stderr
        reader = open_reader(over)
        wait_until(lambda: count(reader) == 20, 20, watcher.log)
        reader.close()
        # Killed, and its lease is left: the next one on this host sees that it is dead.
        watcher.kill()
        with (under / "worker.log").open("a") as file:
            file.write(LINE.format(n=20))
        watcher.start()
        reader = open_reader(over)
        wait_until(lambda: count(reader) == 21, 20, watcher.log)
        reader.close()
    finally:
        watcher.stop()
    (layout,) = stores_under(over)
    assert layout.database.is_relative_to(local)
    # DuckDB does not open a file where a lock fails; who comes from another host reads what was published.
    whole = tmp_path / "whole.duckdb"
    shutil.copyfile(layout.published, whole)
    assert ask(whole, "SELECT count(*), count(DISTINCT step) FROM mismatches") == [(21, 21)]
    shutil.rmtree(local)
    reader = open_reader(over)
    assert count(reader) == 21
    assert reader.connection().kind in ("file", "snapshot", "several")
    reader.close()
    tic("snapshot", tmp_path / "copy.duckdb", "--at", over)
    assert ask(tmp_path / "copy.duckdb", "SELECT count(*) FROM mismatches") == [(21,)]


def test_of_many_starters_one_wins_where_locks_fail(mounted: Mounter, local: Path) -> None:
    under, over = mounted("fail")
    (under / "worker.log").write_text(LINE.format(n=0))
    StoreLayout.find(over)
    watchers = [Watcher(over / ".tic", over) for _ in range(3)]
    for watcher in watchers:
        watcher._spawn()
    processes = [watcher.process for watcher in watchers if watcher.process is not None]
    try:
        wait_until(lambda: sum(process.poll() == 15 for process in processes) == 2, 60, watchers[0].log)
    finally:
        for process in processes:
            process.terminate()
            process.wait(40)
    assert len(stores_under(over)) == 1


def test_a_full_state_directory_stops_nothing(mounted: Mounter, local: Path, tmp_path: Path) -> None:
    """Nothing can be published for a while: rows go on into the live store, and it is all published afterwards."""
    under, over = mounted("full")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "tic.toml").write_text("[store]\nsnapshot_s = 0.5\n")
    log = logs / "worker.log"
    log.write_text(LINE.format(n=0))
    watcher = Watcher(over / ".tic", logs, options=("--config", str(logs / "tic.toml")))
    watcher.start()
    try:
        (layout,) = stores_under(over)
        wait_until(lambda: (snapshot_of(layout) or _NONE).tick > 0, 20, watcher.log)
        (under / ".full").write_text("")
        with log.open("a") as file:
            file.write("".join(LINE.format(n=number) for number in range(1, 11)))
        reader = open_reader(over)
        wait_until(lambda: count(reader) == 11, 20, watcher.log)
        before = snapshot_of(layout)
        time.sleep(1.5)
        assert snapshot_of(layout) == before
        (under / ".full").unlink()
        wait_until(lambda: _rows(layout) >= 11, 30, watcher.log)
        reader.close()
        (under / ".full").write_text("")
    finally:
        watcher.stop()
    assert not layout.published.exists()
    (under / ".full").unlink()
    watcher.start()
    watcher.stop()
    assert ask(layout.published, "SELECT count(*), count(DISTINCT step) FROM mismatches") == [(11, 11)]
    assert not list(layout.snapshot_dir.glob("*.part"))


class _NONE:
    tick = 0


def _rows(layout: StoreLayout) -> int:
    try:
        snapshot = snapshot_of(layout)
        return snapshot.tables["mismatch"].rows if snapshot is not None else 0
    except (KeyError, TicError):
        return 0
