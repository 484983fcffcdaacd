"""What a crowd does to the endpoint, and does not do to what the daemon is there for: following logs."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.samples import delta, mismatch
from tic_daemon import listen
from tic_daemon.listen import Listen
from tic_daemon.live import LiveServer
from tic_daemon.store.http_reader import HttpReader
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.writer import Writer

from .crowd import Target, throw
from .test_bounds import resident_mb, soon

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "daemon")])}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(scope="module", params=["http", "https"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Target, HttpReader]]:
    """A real store behind a real endpoint, with and without TLS."""
    if request.param == "https" and listen.own_address() is None:
        pytest.skip("this machine has no address but loopback")
    writer = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("crowd")))
    writer.commit([delta(*(mismatch(40 * n) for n in range(100)), offset=4000)])
    where = Listen("auto") if request.param == "https" else Listen()
    server = LiveServer(writer.reader_cursor, writer.layout, listen=where, progress=writer.progress)
    server.start()
    told = json.loads(writer.layout.daemon_file.read_text())
    reader = HttpReader.of(writer.layout.daemon_file)
    yield Target(server.url, server.token, told.get("certificate", "")), reader
    reader.close()
    server.stop()
    writer.close()


def garbage_is_survived(served: tuple[Target, HttpReader], count: int, seed: int) -> None:
    target, reader = served
    assert reader.query("SELECT count(*) FROM mismatches").rows == [(100,)]
    after = reader.tail()
    before, memory = descriptors(), resident_mb()
    throw(target, count, seed)
    assert reader.query("SELECT count(*) FROM mismatches").rows == [(100,)]
    assert reader.tail(after.position).position == after.position
    soon(lambda: descriptors() <= before + 4, 40.0)  # files that views were written to go after a while
    assert resident_mb() - memory < 150


def test_garbage_at_every_route(served: tuple[Target, HttpReader]) -> None:
    garbage_is_survived(served, 60, 3)


@pytest.mark.slow
def test_two_thousand_pieces_of_garbage(served: tuple[Target, HttpReader]) -> None:
    garbage_is_survived(served, 2000, 4)


@pytest.mark.slow
def test_thousands_who_wait_are_refused_and_the_reader_goes_on(served: tuple[Target, HttpReader]) -> None:
    """Beyond the limits: 503 while there are descriptors for it, else the connection is closed at once."""
    target, reader = served
    position = reader.tail().position  # the reader has its connections
    reader.query("SELECT 1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    before = descriptors()
    crowd: list[socket.socket] = []
    try:
        for _ in range(2500):
            try:
                sock = target.connect(timeout=5)
                sock.sendall(target.head("GET", f"/tail?wait=60&after={position}"))
                sock.setblocking(False)
                crowd.append(sock)
            except OSError:
                continue  # closed during its handshake
        assert descriptors() - before - len(crowd) <= 256 + 8
        began = time.monotonic()
        assert reader.query("SELECT count(*) FROM mismatches").rows == [(100,)]
        assert reader.tail(position).position == position
        assert time.monotonic() - began < 10
    finally:
        for sock in crowd:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    soon(lambda: descriptors() <= before + 4, 40.0)


# --- the daemon ------------------------------------------------------------------------------------------------------

RECORD = (
    "[mismatch] run=crowd step={step} policy=1 input={mark} phase=decode rank=0 repeat=0 scope=fixed-input "
    "intervention=none metric=logprob_mae value=0.001 reference=x self_repeat=0 report=r classification=unknown\n"
)


def line_to_row_ms(log: Path, reader: Reader, count: int) -> list[float]:
    """Milliseconds from the write of a record to the begin of the commit that holds it, as the store says it."""
    first = time.time_ns()
    for step in range(count):
        with log.open("a") as file:
            file.write(RECORD.format(step=step, mark=time.time_ns()))
        time.sleep(0.4)  # a line after a quiet moment: it goes at once
    rows: list[tuple[object, ...]] = []
    deadline = time.monotonic() + 60
    while len(rows) < count:
        assert time.monotonic() < deadline, f"{len(rows)} of {count} records came"
        time.sleep(0.5)
        rows = reader.query(
            "SELECT epoch_us(observed_at) * 1000 - input::BIGINT FROM mismatches WHERE try_cast(input AS BIGINT) >= ?",
            [first], timeout_s=30,
        ).rows  # fmt: skip
    return sorted(float(str(row[0])) / 1e6 for row in rows)


@pytest.mark.slow
def test_a_crowd_does_not_hold_up_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("[2026-11-29 08:12:03] worker 0 started\n" + RECORD.format(step=0, mark=1))
    argv = [sys.executable, "-m", "tic_daemon", "watch", str(tmp_path)]
    with subprocess.Popen(argv, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as daemon:
        try:
            soon(lambda: bool(list(tmp_path.glob(".tic/*/daemon.json"))), 30.0)
            reader = open_reader(tmp_path)
            reader.query("SELECT 1")
            quiet = line_to_row_ms(log, reader, 40)
            told = json.loads(next(tmp_path.glob(".tic/*/daemon.json")).read_text())
            crowd = subprocess.Popen(
                [sys.executable, "-m", "tests.live.crowd", told["url"], told["token"], "20"],
                env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            time.sleep(2)
            crowded = line_to_row_ms(log, _patient(reader), 40)
            came = json.loads(crowd.communicate(timeout=60)[0])
            assert daemon.poll() is None
            assert _patient(reader).query("SELECT count(*) = 81 FROM mismatches").rows == [(True,)]
        finally:
            daemon.terminate()
            daemon.wait(30)

    def quantiles(sorted_ms: list[float]) -> str:
        return f"p50 {sorted_ms[len(sorted_ms) // 2]:.0f} ms, p99 {sorted_ms[int(0.99 * len(sorted_ms))]:.0f} ms"

    print(f"line to commit alone {quantiles(quiet)}; in the crowd {quantiles(crowded)}; {came}")
    assert min(came.get(kind, 0) for kind in ("garbage", "wrong token", "endless", "vanishes", "waits")) > 0
    # A bound for a loaded machine; the figures are in docs/performance.md.
    assert crowded[int(0.99 * len(crowded))] < max(1500.0, 10 * quiet[-1])


def _patient(reader: Reader) -> Reader:
    """The reader, asking again while the daemon says that it is busy."""
    ask = reader.query

    class Patient:
        def query(self, *args: object, **more: object) -> object:
            deadline = time.monotonic() + 60
            while True:
                try:
                    return ask(*args, **more)  # type: ignore[arg-type]
                except Exception:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.3)

    return Patient()  # type: ignore[return-value]
