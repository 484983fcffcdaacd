"""Real W&B logs followed by the daemon's source: exactly once, live, torn, damaged, replaced; under several names."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.wandb.conftest import RealLogs
from tests.wandb.test_framing import chunk, chunks, records
from tic_daemon.scan.events import Gap
from tic_daemon.sources import wandb_local
from tic_daemon.sources.appended import AppendedFile, Look
from tic_daemon.sources.wandb_local import WandbLocal
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.wandb import keys
from tic_daemon.wandb.events import WandbRow, WandbRun, WandbUpload
from tic_daemon.wandb.framing import BLOCK


class Daemon:
    """A daemon's side of the source: what it took, as a store would keep it."""

    def __init__(
        self, cursors: Mapping[tuple[int, int], CursorRow] | None = None, sources: Mapping[int, SourceRow] | None = None
    ) -> None:
        self.cursors, self.sources = dict(cursors or {}), dict(sources or {})
        self.deltas: list[SourceDelta] = []
        self.runs = WandbLocal("node7", lambda path: "", keys.load(), self.cursors, self.sources, lambda: None)
        self.runs.start(hurry=True)

    def read(self, *paths: Path, last: bool = False) -> Daemon:
        """Reads all that there is now; `last`: as at the end of a daemon."""
        self.runs.found([(str(path), str(path.parent)) for path in paths])
        self.runs.hasten()
        until = time.monotonic() + 60
        while not self.runs.drained():
            assert time.monotonic() < until
            self.took(self.runs.take())
            time.sleep(0.002)
        if last:
            self.took(self.runs.finish(20))
        return self

    def took(self, deltas: list[SourceDelta]) -> None:
        self.deltas += deltas
        for delta in deltas:
            self.sources[delta.source.source_id] = delta.source
            if delta.cursor is not None:
                self.cursors[delta.cursor.source_id, delta.cursor.generation] = delta.cursor

    def again(self) -> Daemon:
        """Another daemon after this one, with what the store has."""
        self.runs.stop()
        return Daemon(self.cursors, self.sources)

    def steps(self) -> list[int | None]:
        return [e.wandb_step for d in self.deltas for e in d.events if isinstance(e, WandbRow)]

    def gaps(self) -> list[Gap]:
        """Final ones, and those that stand provisionally."""
        standing = {
            (d.source.source_id, d.cursor.generation): d.provisional for d in self.deltas if d.cursor is not None
        }
        return [e for d in self.deltas for e in d.events if isinstance(e, Gap)] + [
            e for events in standing.values() for e in events if isinstance(e, Gap)
        ]

    def run(self) -> WandbRun:
        return [e for d in self.deltas for e in d.events if isinstance(e, WandbRun)][-1]


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    started: list[Daemon] = []
    yield started
    for daemon in started:
        daemon.runs.stop()


@pytest.fixture
def daemon(daemons: list[Daemon]) -> Daemon:
    daemons.append(Daemon())
    return daemons[-1]


def in_directory(tmp_path: Path, name: str, data: bytes = b"") -> Path:
    directory = tmp_path / "wandb" / f"run-20261130_120000-{name}"
    (directory / "logs").mkdir(parents=True)
    path = directory / f"run-{name}.wandb"
    path.write_bytes(data)
    return path


def row_offsets(real_logs: RealLogs) -> dict[int, int]:
    """Where each history row of the rich log begins, by `_step`."""
    reader = Daemon().read(real_logs.rich, last=True)
    reader.runs.stop()
    rows = [e for d in reader.deltas for e in d.events if isinstance(e, WandbRow)]
    return {row.wandb_step or 0: row.at.byte_offset for row in rows}


def test_a_finished_run_is_read_once_for_all(real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon]) -> None:
    daemon.read(real_logs.rich, last=True)
    assert daemon.steps() == list(range(63)) and not daemon.gaps()
    assert (daemon.run().state, daemon.run().exit_code) == ("failed", 3)
    (cursor,) = [row for row in daemon.cursors.values() if row.path == str(real_logs.rich)]
    assert (
        cursor.byte_offset == real_logs.rich.stat().st_size
        and cursor.closed
        and cursor.line_no == len(records(real_logs.rich.read_bytes()))
    )
    source = daemon.sources[cursor.source_id]
    assert (source.kind, source.run_hint, source.run_how, source.state) == ("wandb_local", "rich", "wandb", "idle")
    again = daemon.again()
    daemons.append(again)
    again.read(real_logs.rich, last=True)
    assert not [d for d in again.deltas if d.events or d.provisional]


def test_a_killed_run_has_its_rows_and_no_end(real_logs: RealLogs, daemon: Daemon) -> None:
    daemon.read(real_logs.killed, last=True)
    whole = [last for _, last in records(real_logs.killed.read_bytes()) if last <= real_logs.killed.stat().st_size]
    assert daemon.steps() == list(range(len(daemon.steps()))) and len(daemon.steps()) > 20
    assert daemon.run().state == "running" and daemon.run().exit_code is None
    gaps = [gap.kind for gap in daemon.gaps()]
    assert gaps == ([] if whole[-1] == real_logs.killed.stat().st_size else ["wandb_unfinished"])


def test_a_log_that_grows_in_any_pieces(
    real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon], tmp_path: Path
) -> None:
    """As it grows, and with daemons that are killed at any moment: each row once, at its place."""
    whole = real_logs.rich.read_bytes()
    path = in_directory(tmp_path, "rich")
    seen: list[int | None] = []
    places = [*range(0, len(whole), len(whole) // 12), len(whole)]
    for number, size in enumerate(places):
        path.write_bytes(whole[:size])  # the same inode
        daemon.read(path)
        if number % 3 == 2:
            seen += daemon.steps()
            daemon = daemon.again()
            daemons.append(daemon)
    seen += daemon.steps()
    assert seen == list(range(63))
    assert daemon.run().summary and daemon.run().exit_code == 3 and daemon.run().framework == "verl"
    assert "late" in daemon.run().config  # what the first daemons read is known to the last


def test_a_torn_end_waits_and_is_told_at_the_end(real_logs: RealLogs, daemon: Daemon, tmp_path: Path) -> None:
    whole, at = real_logs.rich.read_bytes(), row_offsets(real_logs)
    path = in_directory(tmp_path, "rich", whole[: at[20] + 9])
    daemon.read(path)
    assert daemon.steps() == list(range(20)) and not daemon.gaps()  # while it is followed nothing is wrong
    daemon.read(path, last=True)
    (gap,) = daemon.gaps()
    assert (gap.kind, gap.last_byte) == ("wandb_unfinished", at[20] + 9) and gap.first_byte <= at[20]
    path.write_bytes(whole)
    daemon.read(path)
    assert daemon.steps() == list(range(63)) and not daemon.gaps()  # what stood provisionally is gone


def test_damage_is_told_and_what_follows_is_read(
    real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon], tmp_path: Path
) -> None:
    whole, at = bytearray(real_logs.rich.read_bytes()), row_offsets(real_logs)
    hit = next(chunk for chunk in chunks(whole) if chunk[0] > 1000)
    whole[hit[0] + 8] ^= 1
    path = in_directory(tmp_path, "rich", bytes(whole[:20_000]))
    daemon.read(path)
    assert (
        daemon.steps() == [step for step in at if at[step] < hit[0]] and not daemon.gaps()
    )  # the block is not whole yet
    path.write_bytes(whole)
    daemon.read(path, last=True)
    assert daemon.steps() == [step for step in at if at[step] < hit[0] or at[step] >= BLOCK]
    gaps = daemon.gaps()
    assert {gap.kind for gap in gaps} == {"wandb_damaged"} and gaps[0].first_byte == hit[0]
    next_record = min(first for first, _ in records(real_logs.rich.read_bytes()) if first >= BLOCK)
    assert (
        BLOCK <= max(gap.last_byte for gap in gaps) <= next_record
    )  # one may reach from a damaged block into the next
    (cursor,) = [row for row in daemon.cursors.values() if row.path == str(path)]
    assert cursor.skipped_bytes == sum(gap.last_byte - gap.first_byte for gap in gaps) and cursor.byte_offset == len(
        whole
    )
    again = daemon.again()
    daemons.append(again)
    path.write_bytes(bytes(whole) + b"\0" * 4)
    again.read(path, last=True)
    assert again.steps() == [] and [gap.kind for gap in again.gaps()] == ["wandb_unfinished"]


def test_another_file_of_the_name_is_a_new_generation(real_logs: RealLogs, daemon: Daemon, tmp_path: Path) -> None:
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    daemon.read(path)
    other = bytearray(real_logs.killed.read_bytes())
    path.write_bytes(other)
    daemon.read(path)
    assert daemon.steps()[:8] == list(range(8)) and len(daemon.steps()) > 30
    assert [gap.kind for gap in daemon.gaps()] == ["replaced"]
    assert {generation for _, generation in daemon.cursors} == {0, 1}


def test_one_log_under_several_names_is_read_once(real_logs: RealLogs, daemon: Daemon, tmp_path: Path) -> None:
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    other = tmp_path / "copy" / "run-small.wandb"
    other.parent.mkdir()
    os.link(path, other)
    daemon.read(path, other, last=True)
    assert daemon.steps() == list(range(8))
    path.unlink()  # the other name counts from now on, and its inode may be another file's later
    shutil.copy(real_logs.killed, tmp_path / "copy" / "run-new.wandb")
    daemon.read(other, tmp_path / "copy" / "run-new.wandb", last=True)
    assert len(daemon.steps()) > 8 + 8 + 20


def test_what_lies_beside_the_log(real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon], tmp_path: Path) -> None:
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    Path(f"{path}.syncstate").write_text('{"starting_step": 8, "starting_runtime": 3}')
    daemon.read(path)
    assert (daemon.run().starting_step, daemon.run().synced) == (8, False)
    Path(f"{path}.synced").touch()
    again = daemon.again()
    daemons.append(again)
    again.read(path)
    assert (
        again.steps() == []
        and again.run().synced
        and again.run().starting_step == 8
        and again.run().state == "finished"
    )
    Path(f"{path}.syncstate").write_text("{torn")
    again.read(path)
    assert again.run().starting_step is None


def test_what_is_none_of_its_files_does_no_harm(daemon: Daemon, tmp_path: Path) -> None:
    noise = in_directory(tmp_path, "noise", os.urandom(100_000))
    empty = in_directory(tmp_path, "empty")
    secret = in_directory(tmp_path, "secret")
    gone = in_directory(tmp_path, "gone")
    gone.unlink()
    fifo = in_directory(tmp_path, "fifo")
    fifo.unlink()
    os.mkfifo(fifo)
    secret.unlink()
    secret.symlink_to("/etc/passwd")  # discovery gives no links; one that took the name since is not followed
    daemon.read(noise, empty, gone, fifo, secret, last=True)
    assert daemon.steps() == []
    told = {Path(row.path).parent.name.rpartition("-")[2]: row for row in daemon.sources.values()}
    assert told["secret"].state == "unreadable" and "gone" not in told
    assert {gap.kind for gap in daemon.gaps()} <= {"wandb_damaged", "wandb_unfinished", "wandb_empty"}
    assert "wandb_damaged" in {gap.kind for gap in daemon.gaps()}
    assert not [d for d in daemon.deltas if d.source.path == str(empty) and d.events]


def test_a_log_without_a_byte_is_told_until_it_gets_some(
    real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon], tmp_path: Path
) -> None:
    path = in_directory(tmp_path, "empty")
    daemon.read(path)
    assert not daemon.gaps()  # it may just have been made
    daemon.read(path, last=True)
    assert [(gap.kind, gap.first_byte, gap.last_byte) for gap in daemon.gaps()] == [("wandb_empty", 0, 0)]
    again = daemon.again()
    daemons.append(again)
    again.read(path, last=True)
    assert [gap.kind for gap in again.gaps()] in ([], ["wandb_empty"])  # it stands, and may be said again
    path.write_bytes(real_logs.killed.read_bytes())
    again.read(path, last=True)
    assert "wandb_empty" not in {gap.kind for gap in again.gaps()} and again.steps()


def test_a_record_that_is_too_long_is_passed_over(
    real_logs: RealLogs, daemon: Daemon, daemons: list[Daemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = row_offsets(real_logs)
    monkeypatch.setattr(wandb_local.framing, "MAX_RECORD", 2 * BLOCK)
    monkeypatch.setattr(wandb_local, "WINDOW", BLOCK)
    path = in_directory(tmp_path, "rich", real_logs.rich.read_bytes())
    daemon.read(path)
    assert [step for step in range(63) if step not in daemon.steps()] in (
        [61],
        [61, 62],
    )  # 10,000 keys, 70,000 characters
    assert daemon.gaps() and all(gap.first_byte >= at[60] for gap in daemon.gaps())
    assert daemon.run().exit_code == 3
    again = daemon.again()
    daemons.append(again)
    Path(f"{path}.synced").touch()
    again.read(path)  # the transcript is made again over the same gap
    assert again.steps() == [] and again.run().exit_code == 3


def test_reading_waits_until_what_was_read_is_taken(
    real_logs: RealLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemons: list[Daemon]
) -> None:
    monkeypatch.setattr(wandb_local, "VALUES", 50)
    monkeypatch.setattr(wandb_local, "AHEAD", 150)
    daemon = Daemon()
    daemons.append(daemon)
    daemon.runs.found([(str(real_logs.rich), "/")])
    until = time.monotonic() + 60
    while daemon.runs._waiting <= 100 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    assert daemon.runs._waiting <= 150
    sizes = []
    while not daemon.runs.drained():
        taken = daemon.runs.take()
        daemon.took(taken)
        sizes.append(sum(e.keys for d in taken for e in d.events if isinstance(e, WandbRow)))
    assert daemon.steps() == list(range(63)) and sorted(sizes)[-2] < 200 < sizes[-1] + max(sizes)


UPLOADS = """\
{"time":"2026-11-30T09:24:43.990232773Z","level":"INFO","msg":"filestream: sending request","total_files":1}
{"time":"2026-11-30T09:24:43.991739615Z","level":"INFO","msg":"filestream: request sent","status":"200 OK"}
{"time":"2026-11-30T09:24:46.212072519Z","level":"WARN","msg":"handler: ignoring partial history record","step":3,"current":11}
not json \x1b[31m "msg":"filestream: sending request"
{"time":"2026-11-30T09:24:47.265390351Z","level":"INFO","msg":"filestream: sending request","total_files":2,"history_offset":40,"history_lines":12}
{"time":"2026-11-30T09:24:47.3Z","level":"INFO","msg":"api: retrying HTTP error","status":500,"url":"https://api.wandb.ai/files/l/p/r/file_stream","body":"x"}
{"time":"2026-11-30T09:24:47.4Z","level":"INFO","msg":"api: retrying HTTP error","status":502,"url":"https://api.wandb.ai/graphql","body":"x"}
{"time":"2026-11-30T09:24:48.273373467Z","level":"INFO","msg":"filestream: request sent","status":"200 OK"}
{"time":"2026-11-30T09:25:18Z","level":"INFO","msg":"filestream: request sent","status":"200 OK"}
{"time":"2026-11-30T09:31:18Z","level":"INFO","msg":"filestream: request sent","status":"200 OK"}
{"time":"2026-11-30T09:31:19.1Z","level":"WARN","msg":"filestream: run history line too long, skipping","len":20088,"max":5000}
{"time":"2026-11-30T09:31:20Z","level":"ERROR","msg":"stream: error opening transaction log for writing: open /x: file exists"}
{"time":"2026-11-30T09:31:21.526782880Z","level":"ERROR+4","msg":"filestream: fatal error: filestream: failed to upload: 403 Forbidden url=http://u:pw@127.0.0.1:38933/files/lab/p/dead1/file_stream: {}"}
{"time":"2026-11-30T09:31:22Z","level":"INFO","msg":"stream: all finished"}
"""
# Lines as clients of 0.31 wrote them against a server that answered so; times and numbers are made shorter.


@pytest.mark.parametrize("piece", [1 << 20, 97])
def test_the_uploader_s_own_log(
    daemon: Daemon, daemons: list[Daemon], tmp_path: Path, piece: int, real_logs: RealLogs
) -> None:
    path = in_directory(tmp_path, "up", real_logs.small.read_bytes())
    own = path.parent / "logs" / "debug-internal.log"
    told: list[tuple[object, ...]] = []

    def collect() -> None:
        nonlocal daemon
        daemon.read(path)
        events = [e for d in daemon.deltas for e in d.events if isinstance(e, WandbUpload)]
        told.extend(
            (e.state, e.history_offset, e.history_lines, e.status, e.dropped_step, e.current_step, e.at.stamp)
            for e in events
        )
        assert all("pw" not in e.detail and e.wandb_id == "up" and e.directory == str(path.parent) for e in events)
        daemon = daemon.again()
        daemons.append(daemon)

    data = UPLOADS.encode()
    for size in range(piece, len(data) + piece, max(piece, len(data) // 9)):
        own.write_bytes(data[:size])
        collect()
    own.write_bytes(data)
    collect()

    def at(minute: int, second: int, micro: int = 0) -> datetime:
        return datetime(2026, 11, 30, 9, minute, second, micro)

    assert told == [
        ("acknowledged", None, None, 200, None, None, at(24, 43, 991739)),
        ("dropped", None, None, None, 3, 11, at(24, 46, 212072)),
        ("sending", 40, 12, None, None, None, at(24, 47, 265390)),
        ("retrying", 40, 12, 500, None, None, at(24, 47, 300000)),
        ("acknowledged", 40, 12, 200, None, None, at(24, 48, 273373)),
        ("acknowledged", 40, 12, 200, None, None, at(25, 18)),
        ("acknowledged", 40, 12, 200, None, None, at(31, 18)),
        ("too_long", None, None, None, None, None, at(31, 19, 100000)),
        ("no_log", None, None, None, None, None, at(31, 20)),
        ("dead", 40, 12, 403, None, None, at(31, 21, 526782)),
        ("finished", None, None, None, None, None, at(31, 22)),
    ]


def test_a_run_that_tic_toml_or_a_results_directory_names(
    real_logs: RealLogs, tmp_path: Path, daemons: list[Daemon]
) -> None:
    path = in_directory(tmp_path / "results" / "grpo-a", "small", real_logs.small.read_bytes())
    daemon = Daemon()
    daemons.append(daemon)
    daemon.read(path)
    assert {(row.run_hint, row.run_how) for row in daemon.sources.values()} == {("grpo-a", "path")}
    named = Daemon()
    daemons.append(named)
    named.runs._run_for = lambda path: "mine"
    named.read(path)
    assert {(row.run_hint, row.run_how) for row in named.sources.values()} == {("mine", "config")}
    assert replace(named.run(), at=None) == replace(daemon.run(), at=None)  # type: ignore[arg-type]


def test_a_mount_that_hangs_holds_up_nobody(
    real_logs: RealLogs,
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    release, hangs = threading.Event(), threading.Event()
    real = wandb_local.AppendedFile.look

    def look(self: AppendedFile) -> AbstractContextManager[Look]:
        hangs.set()
        release.wait(20)
        return real(self)

    monkeypatch.setattr(wandb_local, "STUCK_S", 0.2)
    monkeypatch.setattr(wandb_local.AppendedFile, "look", look)
    daemon.runs.found([(str(path), str(tmp_path))])
    assert hangs.wait(10)
    began = time.monotonic()
    assert daemon.runs.take() == []
    assert daemon.runs.finish(20) == []  # given up after 0.2 s, and said once
    assert time.monotonic() - began < 10 and "takes longer" in caplog.text
    monkeypatch.setattr(wandb_local, "STUCK_S", 30.0)
    release.set()
    daemon.read(path)
    assert daemon.steps() == list(range(8))


def test_a_thread_that_rests_does_not_hang(
    real_logs: RealLogs,
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It rests for as long as nothing is followed. A run that appears just before the daemon ends is read all the same."""
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    daemon.read()  # it has looked, and rests
    daemon.runs._beat -= 2 * wandb_local.STUCK_S
    daemon.runs.found([(str(path), str(tmp_path))])
    daemon.took(daemon.runs.finish(20))
    assert "takes longer" not in caplog.text
    assert daemon.steps() == list(range(8))


def test_a_run_moves_when_it_logs_and_not_when_its_files_grow(
    real_logs: RealLogs, daemon: Daemon, tmp_path: Path
) -> None:
    """The client writes readings of the machine and heartbeats for as long as it lives, also while the trainer hangs."""
    path = in_directory(tmp_path, "small", real_logs.small.read_bytes())
    (path.parent / "logs" / "debug-internal.log").write_text(UPLOADS)
    daemon.read(path)
    rows = [e for d in daemon.deltas for e in d.events if isinstance(e, WandbRow)]
    by_path = {row.path: row for row in daemon.sources.values()}
    assert by_path[str(path)].last_growth_at == rows[-1].at.stamp
    assert by_path[str(path.parent / "logs" / "debug-internal.log")].last_growth_at is None
    with path.open("ab") as log:  # a record that holds no row, as those of the machine's readings
        log.write(chunk(1, b"\x08\x01"))
    daemon.read(path)
    grown = daemon.sources[source_id("node7", "wandb_local", str(path))]
    assert grown.bytes_size == path.stat().st_size and grown.last_growth_at == rows[-1].at.stamp
