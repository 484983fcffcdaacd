"""A daemon that compares by itself: from a line's write to its row being readable, with and without a comparison under way.

Steps of 1,024 requests of 8,192 float32 tokens, one after the other in the daemon's comparing process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench import measure, watched
from bench.compare import make
from bench.live import latencies, quantiles
from tic_daemon.store.reader import Reader, open_reader

STEPS = 6
LINES = 60
LIMIT_S = 300.0


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets about 500 MB, which are removed again."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        watched.logs(root, 20)
        with watched.daemon(root) as child, contextlib.closing(open_reader(root)) as reader:
            return _measure(root, child, reader)


def _measure(root: Path, child: subprocess.Popen[bytes], reader: Reader) -> list[str]:
    time.sleep(3)
    latencies(root, reader, 20, gap_s=0.05)  # each file's first
    quiet = latencies(root, reader, LINES, gap_s=0.45)
    began = time.monotonic()
    _steps(root)
    written = time.monotonic() - began
    deadline = time.monotonic() + LIMIT_S
    while not _running(reader):
        if time.monotonic() > deadline:
            raise RuntimeError("nothing is compared")
        time.sleep(0.05)
    began = time.monotonic()
    beside: list[float] = []
    rss = 0.0
    while _waits(reader) and time.monotonic() < deadline:
        beside += latencies(root, reader, 1, gap_s=0.2)
        rss = max(rss, measure.process_rss(child.pid))
    took = time.monotonic() - began
    (done,) = reader.query("SELECT count(*), sum(valid_tokens)::BIGINT, sum(took_s) FROM comparisons").rows
    return [
        f"comparing: a daemon with {STEPS} steps of 1,024 requests of 8,192 tokens, written in {written:.0f} s",
        f"  a line, nothing compared     {quantiles(quiet)}",
        f"  a line, comparison under way {quantiles(beside)}, {len(beside)} lines",
        f"  compared                     {done[0]} pairs, {done[1] / 1e6:.0f} million tokens in {took:.0f} s ({done[2]:.0f} s in the process)",
        f"  RSS of the daemon            {rss:.0f} MiB",
    ]


def _steps(root: Path) -> None:
    first = root / "first"
    first.mkdir()
    make(first / "rollout.pt", first / "trainer.pt")
    names = ("rollout.pt", "trainer.pt")
    listed = {name: {"path": name, "sha256": hashlib.sha256((first / name).read_bytes()).hexdigest()} for name in names}
    for step in range(STEPS):
        directory = root / "results" / "bench" / f"step{step:03}"
        directory.mkdir(parents=True)
        for name in names:
            os.link(first / name, directory / name)
        said = {"run": "bench", "step": step, "policy_version": str(step), "basis": "raw", "artifacts": listed}
        (directory / "manifest.json").write_text(json.dumps(said))


def _running(reader: Reader) -> bool:
    return bool(reader.query("SELECT 1 FROM comparison_queue WHERE state = 'running'").rows)


def _waits(reader: Reader) -> bool:
    return bool(reader.query("SELECT 1 FROM comparison_queue WHERE state IN ('running', 'waiting') LIMIT 1").rows)
