"""`tic-tui demo`: a captured run, played back as if it were running now, through the real daemon.

Nothing here knows what the daemon will find. The player writes the sample's bytes into log files at a readable pace,
a real
`tic-daemon watch` follows them, the second attempt is opened with the real `tic-daemon attempt`, and what is shown
comes
out of the store. In a terminal the screen opens; without one the same runs to its end and the status report is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path

from tic_daemon.errors import StoreError, TicError
from tic_daemon.store.reader import Reader, open_reader

RUN = "grpo-tiny-a"
CAPTURED_S = 10.0
"""How long the captured part plays without a terminal; with one it plays four times as long."""
START_S = 30.0
"""How long the daemon may take to answer; it takes about a second on an idle machine."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the composed second attempt: `at_s` seconds after its start, into `path` below the log directory."""

    at_s: float
    path: str
    text: str


def samples() -> Path:
    """The samples: inside the wheel, else beside the package in a source tree."""
    installed = Path(str(resources.files("tic_tui") / "samples"))
    found = installed if installed.is_dir() else Path(__file__).resolve().parent.parent / "samples"
    if not (found / RUN / "worker_raw.log").is_file():
        raise TicError(f"the sample run is not installed: {found / RUN} is missing", "install tic-tui again")
    return found / RUN


def second_attempt(table: Path) -> list[Line]:
    """Read the play table: seconds, file and line, separated by tabs."""
    lines = []
    for row in table.read_text(encoding="utf-8").splitlines():
        at_s, path, text = row.split("\t", 2)
        lines.append(Line(float(at_s), path, text))
    return lines


class Player(threading.Thread):
    """Writes the sample into `logs` in real time, then declares the second attempt and plays it.

    `failure` holds what went wrong, if anything did; `done` is set at the end in any case.
    """

    def __init__(self, source: Path, workspace: Path, captured_s: float) -> None:
        super().__init__(name="player", daemon=True)
        self._source = source
        self._workspace = workspace
        self._captured_s = captured_s
        self.done = threading.Event()
        self.cancel = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._play_captured()
            if not self.cancel.is_set():
                self._declare_attempt()
                self._play_second()
        except (OSError, TicError, subprocess.SubprocessError) as error:
            self.failure = error
        finally:
            self.done.set()

    def _play_captured(self) -> None:
        pieces = (self._source / "worker_raw.log").read_bytes().splitlines(keepends=True)
        with (self._workspace / "logs" / "worker_raw.log").open("ab", buffering=0) as log:
            for piece in pieces:
                log.write(piece)
                if self.cancel.wait(self._captured_s / len(pieces)):
                    return

    def _declare_attempt(self) -> None:
        wait_for(self._workspace, "SELECT count(*) >= 12 FROM mismatches", self.cancel)
        command = [sys.executable, "-m", "tic_daemon", "attempt", RUN, "--at", str(self._workspace), "--from", "now"]
        subprocess.run(
            [*command, "--reason", "the demo starts the run again on four ranks"], check=True, capture_output=True
        )

    def _play_second(self) -> None:
        start = time.monotonic()
        for line in second_attempt(self._source / "attempt-2.tsv"):
            if self.cancel.wait(max(0.0, start + line.at_s - time.monotonic())):
                return
            path = self._workspace / "logs" / line.path
            path.parent.mkdir(parents=True, exist_ok=True)
            now = datetime.now()
            text = line.text.replace("{ts}", f"{now:%Y-%m-%d %H:%M:%S}").replace("{vts}", f"{now:%m-%d %H:%M:%S}")
            with path.open("a", encoding="utf-8") as log:
                log.write(text + "\n")


def wait_for(target: Path, question: str, cancel: threading.Event | None = None, limit_s: float = 60.0) -> None:
    """Ask `question` (one boolean) until the answer is yes.

    Raises:
        TicError: no yes within `limit_s`; says what was asked.
    """
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and not (cancel is not None and cancel.is_set()):
        with contextlib.suppress(StoreError), reading(target) as reader:
            if reader.query(question).rows[0][0]:
                return
        time.sleep(0.2)
    if cancel is None or not cancel.is_set():
        raise TicError(f"the daemon did not get there in {limit_s:.0f} s: {question}", f"see {target}/daemon.log")


@contextlib.contextmanager
def reading(target: Path) -> Iterator[Reader]:
    """A reader that is closed at the end."""
    reader = open_reader(target)
    try:
        yield reader
    finally:
        reader.close()


def fresh_workspace(parent: Path) -> Path:
    """A new directory `tic-demo/<time>` below `parent`: an earlier demo is never overwritten."""
    base = parent / "tic-demo"
    stamp = f"{datetime.now():%Y%m%d-%H%M%S}"
    for attempt in range(100):
        workspace = base / (stamp if attempt == 0 else f"{stamp}-{attempt}")
        with contextlib.suppress(FileExistsError):
            (workspace / "logs").mkdir(parents=True, exist_ok=False)
            return workspace
    raise TicError(f"no free directory name below {base}", "remove old demos or give --out")


@contextlib.contextmanager
def daemon(workspace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real `tic-daemon watch` over the workspace, stopped with SIGTERM at the end."""
    with (workspace / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tic_daemon", "watch", str(workspace / "logs"), "--state", str(workspace / ".tic")],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # ctrl+c in the screen must not stop the watcher
        )
        try:
            deadline = time.monotonic() + START_S
            while not list(workspace.glob(".tic/*/daemon.json")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise TicError(f"the daemon did not start; its log is {workspace / 'daemon.log'}")
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def main(args: argparse.Namespace) -> int:
    """Run the demo; returns the process' exit code."""
    source = samples()
    parent = Path(args.out) if args.out else Path.cwd()
    if not os.access(parent, os.W_OK):
        raise TicError(f"cannot write into {parent}", "give another directory with --out")
    workspace = fresh_workspace(parent)
    interactive = sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    player = Player(source, workspace, CAPTURED_S * (4 if interactive else 1))
    svg = workspace / "screen.svg"
    with daemon(workspace):
        player.start()
        if interactive:
            from tic_tui.start import run_screen  # noqa: PLC0415  Textual is loaded only for a terminal

            run_screen(str(workspace))
            player.cancel.set()
            player.join()
        else:
            print(f"playing the captured run {RUN} through tic-daemon; about 30 seconds ...", flush=True)
            player.done.wait()
        if player.failure is not None:
            raise player.failure
        if not interactive:
            played = second_attempt(source / "attempt-2.tsv")
            records = 12 + sum("[mismatch]" in line.text for line in played)
            wait_for(workspace, f"SELECT count(*) >= {records} FROM mismatches WHERE parse_state = 'ok'")  # noqa: S608
        from tic_tui.snapshot import save_svg  # noqa: PLC0415  as above

        save_svg(workspace, svg, run_id=RUN, size=(120, 40))
    from tic_tui.status import report  # noqa: PLC0415  as above

    with reading(workspace) as reader:
        print(report(reader).text)
    (store,) = workspace.glob(".tic/*/tic.duckdb")
    print(f"\nscreen    {svg}\nstore     {store}")
    question = "SELECT step, rank, value, admissibility FROM mismatches ORDER BY rec_id"
    print(f"ask it    tic-tui sql {workspace} '{question}'")
    print(f"open it   tic-tui {workspace}")
    return 0
