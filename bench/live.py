"""A running daemon: from a line's write to its row being readable, the cost of doing nothing, memory."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench import measure, watched
from tic_daemon.store.reader import Reader, open_reader

IDLE_FILES = 1000
IDLE_S = 30.0
SPARSE = 60
LOAD_LINES_S = 20_000
LOAD_S = 15.0
LIMIT_S = 60.0


def main(folder: Path) -> list[str]:
    """Lines of the report."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        watched.logs(root, IDLE_FILES)
        with watched.daemon(root) as child, contextlib.closing(open_reader(root)) as reader:
            while reader.query("SELECT count(*) FROM sources").rows[0][0] < IDLE_FILES:
                time.sleep(0.2)
            time.sleep(3)
            return _measure(root, child, reader)


def _measure(root: Path, child: subprocess.Popen[bytes], reader: Reader) -> list[str]:
    before, began = measure.process_cpu(child.pid), time.monotonic()
    time.sleep(IDLE_S)
    idle = (measure.process_cpu(child.pid) - before) / (time.monotonic() - began)
    first = latencies(root, reader, 20, gap_s=0.45)
    sparse = latencies(root, reader, SPARSE, gap_s=0.45)
    load = threading.Thread(target=_load, args=(root,))
    ticks = reader.query("SELECT coalesce(max(tick), 0) FROM ingest").rows[0][0]
    before, began = measure.process_cpu(child.pid), time.monotonic()
    load.start()
    time.sleep(1.0)
    busy = latencies(root, reader, 40, gap_s=0.25)
    load.join()
    took = time.monotonic() - began
    cpu = (measure.process_cpu(child.pid) - before) / took
    commits = (reader.query("SELECT max(tick) FROM ingest").rows[0][0] - ticks) / took
    return [
        f"live: {IDLE_FILES} followed files, rows read through the endpoint",
        f"  idle                         {100 * idle:.2f} % of a core over {IDLE_S:.0f} s",
        f"  first record of a file       {quantiles(first)}, written to readable: its process and run are new",
        f"  a later one                  {quantiles(sparse)}, sparse lines",
        f"  the same under load          {quantiles(busy)}, {LOAD_LINES_S} lines/s in 50 files",
        f"  under load                   {100 * cpu:.0f} % of a core, {commits:.1f} commits/s (polling reader included)",
        f"  RSS of the daemon            {measure.process_rss(child.pid):.0f} MiB",
    ]


def quantiles(seconds: list[float]) -> str:
    return f"p50 {1e3 * measure.percentile(seconds, 0.5):.0f} ms, p99 {1e3 * measure.percentile(seconds, 0.99):.0f} ms"


def latencies(root: Path, reader: Reader, count: int, gap_s: float) -> list[float]:
    """Seconds from the write of a record to the first answer that holds it, by polling every few milliseconds."""
    found = []
    for number in range(count):
        path = root / f"d{number % 20:02}" / f"worker-{number % 20:04}.log"
        mark = f"{time.time_ns()}"
        record = (
            f"[mismatch] run=bench step={number} policy=1 input={mark} phase=decode rank=0 repeat=0 scope=fixed-input "
            "intervention=none metric=logprob_mae value=0.001 reference=x self_repeat=0 report=r classification=unknown\n"
        )
        with path.open("a") as log:
            log.write(record)
            log.flush()
            written = time.perf_counter()
        while not reader.query("SELECT 1 FROM mismatches WHERE input = ? LIMIT 1", [mark], timeout_s=LIMIT_S).rows:
            if time.perf_counter() - written > LIMIT_S:
                raise RuntimeError(f"a written record did not become readable within {LIMIT_S:.0f} s")
            time.sleep(0.002)
        found.append(time.perf_counter() - written)
        time.sleep(gap_s)
    return found


def _load(root: Path) -> None:
    files = [(root / f"d{number % 20:02}" / f"worker-{number:04}.log").open("a") for number in range(100, 150)]
    began, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < LOAD_S:
        due = int(elapsed * LOAD_LINES_S) - sent
        for number in range(due):
            files[(sent + number) % len(files)].write(
                f"(Worker_TP0 pid=4521) INFO 11-29 09:14:02 [gpu_model_runner.py:4009] batch {sent + number} scheduled, 512 tokens\n"
                if (sent + number) % 33
                else f"step:{sent + number} - actor/pg_loss:0.001 - actor/grad_norm:0.02\n"
            )
        sent += due
        for file in files:
            file.flush()
        time.sleep(0.01)
    for file in files:
        file.close()
