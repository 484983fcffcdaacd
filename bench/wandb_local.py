"""W&B's transaction logs: rows for each second of a core, beside the client's own reader; and what a log in the making
of many rows does to the tail of the other logs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from bench import measure, watched
from bench.live import latencies, quantiles
from tic_daemon.store.reader import open_reader
from tic_daemon.wandb import framing, keys
from tic_daemon.wandb.directories import run_file
from tic_daemon.wandb.events import WandbRow
from tic_daemon.wandb.framing import Frame
from tic_daemon.wandb.transcript import Transcript

ROWS, KEYS = 5000, 24
WIDE_ROWS, WIDE_KEYS = 2500, 200
LATENCIES = 40

_LOG = """
import random, sys
import wandb
rows, keys, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
run = wandb.init(project="bench", id=name, mode="offline", settings=wandb.Settings(x_disable_stats=True, console="off"))
for step in range(rows):
    run.log({f"actor/metric_{key}": random.random() for key in range(keys)}, step=step)
run.finish()
"""


def main(folder: Path) -> list[str]:
    """Lines of the report."""
    if importlib.util.find_spec("wandb") is None:
        return ["W&B logs: not measured, the client is not installed"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        home = Path(name).resolve()
        narrow, wide = _write(home, ROWS, KEYS, "narrow"), _write(home, WIDE_ROWS, WIDE_KEYS, "wide")
        size = narrow.stat().st_size
        began = time.process_time()
        zlib.crc32(narrow.read_bytes())
        checked = time.process_time() - began
        ours = _read(narrow)
        theirs = measure.run([sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(narrow)]).cpu_s
        lines = [
            f"W&B logs: {ROWS} rows of {KEYS} keys as the client wrote them, {size / 1e6:.1f} MB",
            f"  reader                       {ROWS / ours:.0f} rows per CPU-second; checksums alone {size / 1e6 / checked:.0f} MB/s",
            f"  `wandb leet inspect --json`  {ROWS / theirs:.0f} rows per CPU-second, its start included",
        ]
        for path, rows, count in ((narrow, ROWS, KEYS), (wide, WIDE_ROWS, WIDE_KEYS)):
            root = home / f"once-{count}"
            shutil.copytree(path.parent, root / "wandb" / path.parent.name)
            cost = measure.run(measure.python("-m", "tic_daemon", "watch", "--once", str(root)))
            lines.append(
                f"  `watch --once`, {count:3} keys     {rows * count / cost.cpu_s:.0f} values per CPU-second into the store,"
                f" {cost.wall_s:.1f} s for {rows} rows, {cost.rss_mib:.0f} MiB"
            )
        lines += _beside(home, wide)
        return lines


def _write(home: Path, rows: int, keys_: int, name: str) -> Path:
    env = {
        **os.environ,
        "WANDB_DIR": str(home),
        "HOME": str(home),
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }
    command = [sys.executable, "-c", _LOG, str(rows), str(keys_), name]
    subprocess.run(command, env=env, cwd=home, check=True, stdout=subprocess.DEVNULL)
    (path,) = home.glob(f"wandb/offline-run-*/run-{name}.wandb")
    return path


def _read(path: Path) -> float:
    """CPU-seconds for all its rows, in windows as the daemon reads them."""
    file = run_file(str(path))
    assert file is not None
    data, at, rows = path.read_bytes(), 7, 0
    transcript = Transcript(file, keys.load())
    began = time.process_time()
    while at < len(data):
        found, done = framing.scan(data[at : at + (256 << 10)], at)
        for frame in found:
            assert isinstance(frame, Frame)
            rows += sum(isinstance(event, WandbRow) for event in transcript.take(frame))
        at = done
    assert rows == ROWS
    return time.process_time() - began


def _beside(home: Path, wide: Path) -> list[str]:
    """Latency of lines while nothing else is done, and while W&B logs that have come all at once are read."""
    root = home / "live"
    watched.logs(root, 20)
    with watched.daemon(root), contextlib.closing(open_reader(root)) as reader:
        latencies(root, reader, 20, gap_s=0.1)
        quiet = latencies(root, reader, LATENCIES, gap_s=0.25)
        for number in range(4):
            shutil.copytree(wide.parent, root / "wandb" / f"{wide.parent.name}-{number}")
        busy = latencies(root, reader, LATENCIES, gap_s=0.25)
        (read,) = reader.query("SELECT count(*) FROM b_wandb_row").rows[0]
    return [
        f"  lines of other logs          {quantiles(quiet)}, written to readable, while nothing else comes",
        f"  while W&B logs are read      {quantiles(busy)}; {read} rows of {WIDE_KEYS} keys came in meanwhile",
    ]
