"""Reading from a daemon that writes: a poll by query and by tail, and what twenty clients cost it.

`python -m bench.live_read WORKSPACE HOW SECONDS` is one crowd of clients; the benchmark starts it as a child.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench import measure, watched
from tic_daemon.errors import StoreError
from tic_daemon.store.http_reader import HttpReader
from tic_daemon.store.reader import Reader

PRELOAD = 100_000
ROWS = 200
POLLS = 200
CLIENTS = 20
A_SECOND = 4
WINDOW_S = 20.0
INGEST_ROWS_S = 1000
PAIRS = 3

T = TypeVar("T")

_RECORD = (
    "[mismatch] run=bench step={n} policy=1 input={n} phase=decode rank=0 repeat=0 scope=fixed-input intervention=none "
    "metric=logprob_mae value=0.001 reference=x self_repeat=0 report=r classification=unknown\n"
)
_NEWEST = "SELECT * FROM mismatches WHERE rec_id > ? ORDER BY rec_id LIMIT ?"


def main(folder: Path) -> list[str]:
    """Lines of the report."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        log = root / "worker-0.log"
        with log.open("w") as file:
            file.writelines(_RECORD.format(n=n) for n in range(PRELOAD))
        stop = threading.Event()
        ingest = threading.Thread(target=_ingest, args=(log, stop))
        with watched.daemon(root) as child:
            try:
                with contextlib.closing(_connect(root)) as reader:
                    ingest.start()
                    time.sleep(3)
                    return _measure(root, child, reader)
            finally:
                stop.set()
                if ingest.is_alive():
                    ingest.join()


def _measure(root: Path, child: subprocess.Popen[bytes], reader: Reader) -> list[str]:
    query = _polls_by_query(reader)
    tail = _polls_by_tail(reader)
    costs: dict[str, list[float]] = {"alone": [], "tail": [], "sql": []}
    for _ in range(PAIRS):
        for how, found in costs.items():
            found.append(_window(root, child, how))
    alone = sorted(costs["alone"])[PAIRS // 2]

    def line(how: str) -> str:
        each = [100 * cost for cost in costs[how]]
        extra = [1e3 * (cost - alone) / (CLIENTS * A_SECOND) for cost in costs[how]]
        return f"{measure.spread(each)} % of a core, {measure.spread(extra)} ms a poll"

    return [
        f"live read: {PRELOAD:,} records, {INGEST_ROWS_S:,} more a second; {ROWS} rows a poll, the whole view's columns",
        f"  poll by /sql                 {_quantiles(query)}",
        f"  poll by /tail                {_quantiles(tail)}",
        f"  ingest alone                 {measure.spread([100 * cost for cost in costs['alone']])} % of a core",
        f"  with {CLIENTS} clients by /tail     {line('tail')}; {A_SECOND} polls/s each, median of {PAIRS} interleaved windows",
        f"  with {CLIENTS} clients by /sql      {line('sql')}",
        f"  RSS of the daemon            {measure.process_rss(child.pid):.0f} MiB",
    ]


def _connect(root: Path) -> HttpReader:
    deadline = time.monotonic() + 120
    reader = _reader(root)
    while reader.query("SELECT count(*) FROM mismatches", timeout_s=30).rows[0][0] < PRELOAD:
        if time.monotonic() > deadline:
            raise RuntimeError("the daemon did not read what was there")
        time.sleep(0.2)
    return reader


def _reader(root: Path) -> HttpReader:
    """One client of the endpoint, without what unites stores."""
    return HttpReader.of(next(root.glob(".tic/*/daemon.json")))


def _newest(reader: Reader) -> int:
    return int(reader.query("SELECT max(rec_id) FROM mismatches", timeout_s=30).rows[0][0])


def _polls_by_query(reader: Reader) -> list[float]:
    took = []
    for number in range(POLLS):
        if number % 20 == 0:
            after = _newest(reader) - ROWS
        began = time.perf_counter()
        rows = reader.query(_NEWEST, [after, ROWS], timeout_s=30).rows
        took.append(time.perf_counter() - began)
        assert len(rows) == ROWS
        time.sleep(0.02)
    return took


def _polls_by_tail(reader: Reader) -> list[float]:
    """Polls from a position some hundred rows ago, as of a client that comes four times a second."""
    position = reader.tail().position
    took: list[float] = []
    while len(took) < POLLS:
        time.sleep(0.3)
        for _ in range(5):
            began = time.perf_counter()
            polled = reader.tail(position, limit=ROWS)
            took.append(time.perf_counter() - began)
            time.sleep(0.02)
        if len(polled.rows) == ROWS:
            position = polled.position
    return took


def _window(root: Path, child: subprocess.Popen[bytes], how: str) -> float:
    """The share of a core that the daemon takes while the clients ask."""
    crowd = None
    if how != "alone":
        argv = measure.python("-m", "bench.live_read", str(root), how, str(WINDOW_S + 4))
        crowd = subprocess.Popen(argv, env=measure.environment())
    try:
        time.sleep(4)
        before, began = measure.process_cpu(child.pid), time.monotonic()
        time.sleep(WINDOW_S)
        cost = (measure.process_cpu(child.pid) - before) / (time.monotonic() - began)
        if crowd is not None and crowd.wait(90):
            raise RuntimeError("the clients failed")
        return cost
    finally:
        if crowd is not None and crowd.poll() is None:
            crowd.kill()
            crowd.wait()


def _ingest(log: Path, stop: threading.Event) -> None:
    sent, began = PRELOAD, time.monotonic()
    with log.open("a") as file:
        while not stop.wait(0.05):
            due = PRELOAD + int((time.monotonic() - began) * INGEST_ROWS_S)
            file.writelines(_RECORD.format(n=n) for n in range(sent, due))
            file.flush()
            sent = due


def _crowd(root: Path, how: str, seconds: float) -> int:
    """Clients, each with a reader of its own, until the time is over."""
    until = time.monotonic() + seconds
    failed: list[BaseException] = []

    def client(number: int) -> None:
        try:
            reader = _reader(root)
            time.sleep(number / CLIENTS / A_SECOND)
            position, after = _told(reader.tail).position, _told(lambda: _newest(reader))
            at = _told(lambda: reader.query("SELECT * FROM mismatches LIMIT 0", timeout_s=30)).columns.index("rec_id")
            while (began := time.monotonic()) < until:
                try:
                    if how == "tail":
                        position = reader.tail(position, wait_s=1.0, limit=ROWS).position
                    else:
                        rows = reader.query(_NEWEST, [after, ROWS], timeout_s=10).rows
                        after = rows[-1][at] if rows else after
                except StoreError:  # busy: four run already; or ended, as a tick needed the memory
                    pass
                time.sleep(max(0.0, 1 / A_SECOND - (time.monotonic() - began)))
            reader.close()
        except BaseException as error:  # noqa: BLE001  told by the exit code
            failed.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed[:1]:
        print(f"a client failed: {error!r}", file=sys.stderr)
    return 1 if failed else 0


def _told(ask: Callable[[], T]) -> T:
    """The answer, when the daemon has the time and the memory for it."""
    for _ in range(20):
        try:
            return ask()
        except StoreError:
            time.sleep(1)
    return ask()


def _quantiles(seconds: list[float]) -> str:
    return f"p50 {1e3 * measure.percentile(seconds, 0.5):.1f} ms, p99 {1e3 * measure.percentile(seconds, 0.99):.1f} ms"


if __name__ == "__main__":
    sys.exit(_crowd(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
