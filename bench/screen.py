"""The screen: beside a bare Textual app in the same run, idle, on ten million records, and with keys under load."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyte

from bench import measure, views, watched
from tic_daemon.store.file_reader import FileReader
from tic_daemon.store.reader import Result
from tic_tui.filters import Filter
from tic_tui.model import Demand
from tic_tui.reading import Ask, News, RunReading, RunsReading
from tic_tui.record_reading import MismatchesReading
from tic_tui.windows import Scope

PAIRS = 5
IDLE_S = 30.0
LOAD_RECORDS_S = 20_000
LOAD_S = 20.0
KEYS = "the quick brown fox jumps over the lazy dog and types on while twenty thousand records come each second"
_BARE = (
    "from textual.app import App; from textual.widgets import Static\n"
    "class Bare(App):\n    BINDINGS = [('q', 'quit')]\n    def compose(self):\n        yield Static('painted')\n"
    "Bare().run()"
)
_RECORD = (
    "[mismatch] run=load step={step} policy=1 input={n} phase=decode rank=0 repeat=0 scope=fixed-input intervention=none "
    "metric=logprob_mae value=0.00{digit} reference=x self_repeat=0.001 report=r classification=unknown\n"
)


def main(folder: Path) -> list[str]:
    """Lines of the report. `folder` gets some hundred MB for a while."""
    lines = ["screen: at 120x40 in a pty; its own process, without the daemon's"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        workspace = Path(name) / "w"
        workspace.mkdir()
        log = workspace / "worker_0.log"
        log.write_text("".join(_RECORD.format(step=n, n=n, digit=n % 10) for n in range(200)))
        with watched.daemon(workspace):
            lines += _first_paint(workspace)
            lines += _idle(workspace)
            lines += _load(workspace, log)
    return lines + _large(folder)


class _Pty:
    """A program in a pseudo-terminal with an emulator behind it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes = 0
        self._main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {**measure.environment(), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(
            list(command), stdin=child, stdout=child, stderr=child, env=env, start_new_session=True
        )
        os.close(child)

    def pump(self, seconds: float) -> None:
        """Takes in what comes for `seconds`."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([self._main], [], [], left)[0]:
            try:
                data = os.read(self._main, 65536)
            except OSError:
                return
            self.bytes += len(data)
            self._stream.feed(data)

    def wait_for(self, word: str, limit_s: float = 60.0) -> None:
        """Until `word` stands on the screen."""
        end = time.monotonic() + limit_s
        while word not in "\n".join(self.screen.display):
            if time.monotonic() > end:
                raise RuntimeError(f"{word!r} did not appear:\n" + "\n".join(self.screen.display))
            self.pump(0.01)

    def type(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    @property
    def cpu(self) -> float:
        return measure.process_cpu(self.process.pid)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)


def _until_painted(command: Sequence[str], word: str) -> float:
    run = _Pty(command)
    try:
        run.wait_for(word)
        return run.cpu
    finally:
        run.end()


def _first_paint(workspace: Path) -> list[str]:
    bare, ours = [], []
    for _ in range(PAIRS):
        bare.append(_until_painted(measure.python("-c", _BARE), "painted"))
        ours.append(_until_painted(measure.python("-m", "tic_tui", str(workspace)), "tic"))
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    return [
        f"  CPU to the first paint       {measure.spread(ours)} s; a bare Textual app {measure.spread(bare)} s,"
        f" ratio {measure.spread(ratios)}"
    ]


def _idle(workspace: Path) -> list[str]:
    run = _Pty(measure.python("-m", "tic_tui", str(workspace)))
    try:
        run.wait_for("load")
        run.type("\r")
        run.wait_for("evidence")
        run.pump(0.1)
        told = []
        for rest in (15.0, 80.0):  # in the first minutes ages pass their steps and states turn; then nothing does
            _settle(run, rest)
            cpu, sent, began = run.cpu, run.bytes, time.monotonic()
            _settle(run, IDLE_S)
            share = (run.cpu - cpu) / (time.monotonic() - began)
            told.append(f"{100 * share:.2f} % of a core, {run.bytes - sent} bytes in {IDLE_S:.0f} s")
        return [f"  idle on a run                {told[0]}; two minutes after the last news {told[1]}"]
    finally:
        run.end()


def _settle(run: _Pty, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        run.pump(left)


def _load(workspace: Path, log: Path) -> list[str]:
    run = _Pty(measure.python("-m", "tic_tui", str(workspace)))
    writing = threading.Thread(target=_write, args=(log,))
    try:
        run.wait_for("load")
        run.type("\r")
        run.wait_for("evidence")
        writing.start()
        _settle(run, 3.0)
        cpu, rss, began = run.cpu, measure.process_rss(run.process.pid), time.monotonic()
        run.type("i")
        run.wait_for("reason")
        late = []
        for number, key in enumerate(KEYS, 1):
            run.type(key)
            typed = time.monotonic()
            while _reason(run) < number and time.monotonic() - typed < 5:
                run.pump(0.02)
            late.append(time.monotonic() - typed)
            run.pump(max(0.0, 0.1 - late[-1]))
        lost = len(KEYS) - _reason(run)
        writing.join()
        share = (run.cpu - cpu) / (time.monotonic() - began)
        grown = measure.process_rss(run.process.pid) - rss
        return [
            f"  {LOAD_RECORDS_S:,} records/s for {LOAD_S:.0f} s  {lost} of {len(KEYS)} keys lost; typed to shown p50"
            f" {1e3 * measure.percentile(late, 0.5):.0f} ms, p99 {1e3 * measure.percentile(late, 0.99):.0f} ms;"
            f" {100 * share:.0f} % of a core; memory {rss:.0f} MiB, {grown:+.0f} at the end"
        ]
    finally:
        run.end()
        if writing.ident is not None:
            writing.join()


def _reason(run: _Pty) -> int:
    """How many of the typed characters stand in the dialog's input, counted from the first."""
    shown = "\n".join(run.screen.display)
    for number in range(len(KEYS), 0, -1):
        # A long line scrolls in its input: its last characters are what is sure to be seen.
        if KEYS[max(0, number - 12) : number] in shown:
            return number
    return 0


def _write(log: Path) -> None:
    began, sent = time.monotonic(), 0
    with log.open("a") as file:
        while (elapsed := time.monotonic() - began) < LOAD_S:
            due = int(elapsed * LOAD_RECORDS_S)
            file.write("".join(_RECORD.format(step=n // 1000, n=n, digit=n % 10) for n in range(sent, due)))
            file.flush()
            sent = due
            time.sleep(0.02)


# --- ten million records, from the file: what a daemon would compute is in these figures ---


class _Counting(FileReader):
    """Counts what is asked."""

    asked = 0

    def query(self, *args: object, **more: object) -> Result:
        self.asked += 1
        return super().query(*args, **more)  # type: ignore[arg-type]


def _large(folder: Path) -> list[str]:
    path = folder / "screen.duckdb"
    path.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(path)) as con:
            con.execute("SET threads = 2")
            views.fill(con)
        reader = _Counting(path)
        try:
            return _pages(reader)
        finally:
            reader.close()
    finally:
        path.unlink(missing_ok=True)


def _pages(reader: _Counting) -> list[str]:
    def cost(reading: RunsReading | RunReading | MismatchesReading, ask: Ask) -> tuple[float, float, int]:
        cpu, wall, asked = time.process_time(), time.perf_counter(), reader.asked
        reading.view(reader, ask)
        return time.process_time() - cpu, time.perf_counter() - wall, reader.asked - asked

    def ask(demand: Demand, news: News | None, seconds: float) -> Ask:
        return Ask(demand, "", news, time.monotonic() + seconds)

    def story(name: str, reading: RunsReading | RunReading | MismatchesReading, demand: Demand) -> list[str]:
        first, wall, asked = cost(reading, ask(demand, None, 0.2))
        rest, _, _ = cost(reading, ask(demand, News(), math.inf))
        # As if one record had come that is not among the rows told.
        new = [cost(reading, ask(demand, News((), 1, moved=True), 0.2))[0] for _ in range(5)]
        return [
            f"  open {name:23} {first:.2f} s of CPU, {wall:.2f} s, {asked} questions; all counted after {rest:.2f} s more;"
            f" a later update {1e3 * measure.percentile(new, 0.5):.0f} ms"
        ]

    lines = [f"screen: {views.RECORDS:,} records, two threads of DuckDB in the same process"]
    lines += story("runs", RunsReading(), Demand())
    run = RunReading("run-a")
    demand = Demand("run", "run-a", columns=200)
    lines += story("a run", run, demand)
    pages, anchor = [], None
    for _ in range(10):
        view = run.view(reader, ask(demand, News(), 0.2))
        assert view is not None
        anchor = view.window.rows[0].key
        demand = Demand("run", "run-a", anchor=anchor, columns=200)
        cpu, wall, _ = cost(run, ask(demand, News(), 0.2))
        pages.append((cpu, wall))
    lines.append(
        f"  a page back                  {1e3 * measure.percentile([c for c, _ in pages], 0.5):.0f} ms of CPU,"
        f" {1e3 * measure.percentile([w for _, w in pages], 0.5):.0f} ms, 600 rows"
    )
    evidence = (Filter("is_evidence", "is", "yes"),)
    reading = MismatchesReading(Scope("run-a", evidence))
    lines += story("a filter that finds", reading, Demand("mismatches", "run-a", filters=evidence))
    return lines
