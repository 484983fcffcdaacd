"""A line's way to its row: alone, beside a W&B server that hangs, beside a comparison under way; all in the same run.

Each is a daemon of its own, one after the other, and all of that more than once, so that what else the machine does is
spread over the three. Lines are sparse, their logs known: what the first line of a process costs, `live` tells. Steps to
compare are of 1,024 requests of 8,192 float32 tokens. A reading of the server is ended after DEADLINE_S and tried again
after a pause that doubles each time; with the deadline of ten minutes that pattern is the same and seldom.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import measure, watched
from bench.compare import make
from bench.live import quantiles
from tic_daemon.store.http_reader import HttpReader

ROUNDS = 2
LINES = 60
FILES = 20
GAP_S = (0.3, 0.8)
STEPS = 20
EVERY_S, DEADLINE_S = 2, 5
LIMIT_S = 60.0
ALONE, HANGING, COMPARING = "alone", "beside a W&B server that hangs", "beside a comparison"

_RECORD = (
    "[mismatch] run=bench step={n} policy=1 input={mark} phase=decode rank=0 repeat=0 scope=fixed-input "
    "intervention=none metric=logprob_mae value=0.001 reference=x self_repeat=0 report=r classification=unknown\n"
)
_COMPARED = "SELECT count(*), sum(valid_tokens)::DOUBLE, sum(took_s) FROM comparisons"


@dataclass(slots=True)
class Ways:
    """Seconds from the write of a line to the end of its commit, and to who waits by /tail; `waited`: of the former, how
    long the daemon's thread was ready and had no processor."""

    committed: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets about 500 MB, which are removed again."""
    modes = [ALONE, COMPARING]
    if importlib.util.find_spec("wandb") is not None:
        modes.insert(1, HANGING)
    found = {mode: Ways() for mode in modes}
    compared: list[tuple[object, ...]] = []
    rss = 0.0
    with tempfile.TemporaryDirectory(dir=folder) as name:
        dumps = Path(name) / "dumps"
        dumps.mkdir()
        make(dumps / "rollout.pt", dumps / "trainer.pt")
        for number in range(ROUNDS):
            for mode in modes:
                root = Path(name) / f"{number}-{modes.index(mode)}"
                root.mkdir()
                with (
                    _server(root, mode) as environ,
                    watched.daemon(root, environ) as child,
                    contextlib.closing(_reader(root)) as reader,
                ):
                    _measure(root, child, reader, mode, dumps, found[mode])
                    rss = max(rss, measure.process_rss(child.pid))
                    if mode == COMPARING:
                        compared += reader.query(_COMPARED).rows
    return _told(found, compared, rss)


def _told(found: Mapping[str, Ways], compared: list[tuple[object, ...]], rss: float) -> list[str]:
    alone = found[ALONE]
    lines = [
        f"beside: sparse lines of {FILES} logs, written to row; {ROUNDS} rounds, load {os.getloadavg()[0]:.1f} at the end"
    ]
    for mode, ways in found.items():
        net = [way - waited for way, waited in zip(ways.committed, ways.waited, strict=True)]
        ratio = measure.percentile(ways.seen, 0.99) / measure.percentile(alone.seen, 0.99)
        lines += [
            f"  {mode}, {len(ways.seen)} lines",
            f"    committed                  {quantiles(ways.committed)}; less the wait for a processor {quantiles(net)}",
            f"    seen by who waits          {quantiles(ways.seen)}; p99 is {ratio:.2f} of that alone",
        ]
    pairs, tokens, took = (sum(float(str(row[n] or 0)) for row in compared) for n in range(3))
    lines.append(
        f"  compared meanwhile           {pairs:.0f} pairs, {tokens / 1e6:.0f} million tokens in {took:.0f} s of the process' time"
    )
    lines.append(f"  RSS of the daemon            {rss:.0f} MiB at the most")
    return lines


def _measure(
    root: Path, child: subprocess.Popen[bytes], reader: HttpReader, mode: str, dumps: Path, ways: Ways
) -> None:
    time.sleep(2)
    chance = random.Random(5)
    with contextlib.closing(_reader(root)) as other:
        for number in range(FILES):
            _line(root, child.pid, reader, other, number, Ways())  # each log's first
        if mode == COMPARING:
            _steps(root, dumps)
            until = time.monotonic() + LIMIT_S
            while not reader.query("SELECT 1 FROM comparison_queue WHERE state = 'running'").rows:
                if time.monotonic() > until:
                    raise RuntimeError("nothing is compared")
                time.sleep(0.05)
        time.sleep(1)
        for number in range(LINES):
            time.sleep(chance.uniform(*GAP_S))
            _line(root, child.pid, reader, other, number, ways)
            if mode == COMPARING and number % 10 == 9 and not _waits(reader):
                return


def _line(root: Path, pid: int, reader: HttpReader, other: HttpReader, number: int, ways: Ways) -> None:
    mark = str(time.time_ns())
    record = _RECORD.format(n=number, mark=mark).encode()
    before = reader.tail().position
    committed: list[tuple[float, float]] = []

    def wait() -> None:
        at = before
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and not committed:
            got = other.tail(at, wait_s=LIMIT_S, limit=0)
            if got.missed:
                committed.append((time.perf_counter(), _run_delay(pid)))
            at = got.position

    waiter = threading.Thread(target=wait)
    waiter.start()
    with (root / f"d{number % FILES:02}" / f"worker-{number % FILES:04}.log").open("ab", buffering=0) as log:
        ready = _run_delay(pid)
        began = time.perf_counter()
        log.write(record)
    position = before
    while True:
        got = reader.tail(position, wait_s=LIMIT_S)
        position = got.position
        if any(mark in row for row in got.rows):
            break
        if time.perf_counter() - began > LIMIT_S:
            raise RuntimeError("a written record did not become readable")
    ways.seen.append(time.perf_counter() - began)
    waiter.join()
    ways.committed.append(committed[0][0] - began)
    ways.waited.append(committed[0][1] - ready)


def _run_delay(pid: int) -> float:
    """Seconds that the first thread of a process was ready to run and did not."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def _reader(root: Path) -> HttpReader:
    return HttpReader.of(next(root.glob(".tic/*/daemon.json")))


@contextlib.contextmanager
def _server(root: Path, mode: str) -> Iterator[dict[str, str]]:
    """The logs, and what the daemon's environment has besides."""
    watched.logs(root, FILES)
    if mode != HANGING:
        yield {}
        return
    from tests.wandb_server import Fault, Hang, WandbServer  # noqa: PLC0415  only with the client

    (root / "tic.toml").write_text(
        f'[wandb]\nevery_s = {EVERY_S}\ndeadline_s = {DEADLINE_S}\n[[wandb_run]]\npath = "lab/grpo/a"\nrun = "bench"\n'
    )
    with WandbServer() as server, tempfile.TemporaryDirectory() as home:
        server.add_run("lab/grpo/a", [{"_step": number} for number in range(5)])
        server.faults.append(Fault("*", Hang()))
        yield server.env(Path(home))


def _steps(root: Path, dumps: Path) -> None:
    names = ("rollout.pt", "trainer.pt")
    listed = {name: {"path": name, "sha256": hashlib.sha256((dumps / name).read_bytes()).hexdigest()} for name in names}
    for step in range(STEPS):
        directory = root / "results" / "bench" / f"step{step:03}"
        directory.mkdir(parents=True)
        for name in names:
            os.link(dumps / name, directory / name)
        said = {"run": "bench", "step": step, "policy_version": str(step), "basis": "raw", "artifacts": listed}
        (directory / "manifest.json").write_text(json.dumps(said))


def _waits(reader: HttpReader) -> bool:
    return bool(reader.query("SELECT 1 FROM comparison_queue WHERE state IN ('running', 'waiting') LIMIT 1").rows)
