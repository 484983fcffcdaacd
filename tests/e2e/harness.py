"""Real daemons as child processes, and what their stores hold afterwards."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from tic_daemon.cli import main

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 4
"""A limit says what a quiet machine may take; one that builds or tests other things too gets so many times as long."""
EVENT_TABLES = (
    "mismatch", "fault", "step_event", "metric", "exec_state", "weight_phase", "device", "timing",
    "transport", "compile_event", "bench_mark", "env_seen",
    "source_run", "process_seen", "stamp_after", "source_gap",
)  # fmt: skip
NOT_COMPARED = ("rec_id", "store_id", "observed_at")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "daemon")])}


def tic(*args: str | Path, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """One `tic-daemon` command to its end."""
    command = [sys.executable, "-m", "tic_daemon", *map(str, args)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def here(*args: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`tic` in this process, which costs half as much: where the process itself is not what is tested."""
    said, complained, command = io.StringIO(), io.StringIO(), list(map(str, args))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = main(command)
    done = subprocess.CompletedProcess(command, code, said.getvalue(), complained.getvalue())
    assert not check or code == 0, f"{command} -> {code}\n{done.stdout}\n{done.stderr}"
    return done


def tui(*args: str | Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """One `tic-tui` command without a terminal."""
    command = [sys.executable, "-m", "tic_tui", *map(str, args)]
    return subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def once(*roots: Path, state: Path | None = None) -> Path:
    """`tic-daemon watch --once` in this process, which costs half as much; the path of its store."""
    options = () if state is None else ("--state", str(state))
    code = main(["watch", "--once", *options, *map(str, roots)])
    assert code == 0, code
    (store,) = (state or roots[0] / ".tic").glob("*/tic.duckdb")
    return store


_STARTED: list[subprocess.Popen[bytes]] = []


def end_all() -> None:
    """Kills the daemons of watchers that run on: those of tests that failed before they could stop them."""
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait(10)


class Watcher:
    """`tic-daemon watch` over `roots` with its state in `state`; `host`: as if on another machine of that name."""

    def __init__(self, state: Path, *roots: Path, options: tuple[str, ...] = (), host: str = "") -> None:
        self.state = state
        self._roots = roots
        self._options = options
        self._program = ["tests.e2e.node", host] if host else ["tic_daemon"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, ready_s: float = 30.0) -> None:
        """Start it and wait until it has published its endpoint."""
        self._spawn()
        assert self.process is not None
        wait_until(self._published, ready_s, lambda: f"no endpoint; log:\n{self.log()}")

    def _published(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        return any(f'"pid": {self.process.pid}' in path.read_text() for path in self.state.glob("*/daemon.json"))

    def _spawn(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", *self._program, "watch", *map(str, self._roots), "--state", str(self.state)]
        with (self.state / "output.txt").open("ab") as log:
            self.process = subprocess.Popen([*command, *self._options], env=environment(), stdout=log, stderr=log)
            _STARTED.append(self.process)

    def kill(self) -> None:
        """SIGKILL: no clean-up of any kind."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        """SIGTERM, and it must end well."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(90) == 0, self.log()

    def log(self) -> str:
        return (self.state / "output.txt").read_text(errors="replace")[-4000:]

    def store(self) -> Path:
        (path,) = self.state.glob("*/tic.duckdb")
        return path


def wait_until(ready: Callable[[], bool], limit_s: float, why: Callable[[], str] = lambda: "") -> None:
    """Poll until `ready()`; fails with `why()` after PATIENCE times `limit_s`."""
    deadline = time.monotonic() + PATIENCE * limit_s
    while not ready():
        assert time.monotonic() < deadline, why() or "did not happen in time"
        time.sleep(0.05)


def rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """All final event rows of a stopped store, in an order that does not depend on when they were written."""
    with duckdb.connect(str(store), read_only=True) as connection:
        found = {}
        for table in EVENT_TABLES:
            columns = [
                name
                for (name,) in connection.execute(
                    "SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
                ).fetchall()
                if name not in NOT_COMPARED
            ]
            assert columns, f"no table {table}"
            selected = ", ".join(columns)
            found[table] = connection.execute(
                f"SELECT {selected} FROM {table} WHERE prov IS NULL ORDER BY ALL"
            ).fetchall()
        return found


def ask(store: Path, sql: str) -> list[tuple[object, ...]]:
    """Rows of one query on a stopped store, through DuckDB itself and not through our reader."""
    with duckdb.connect(str(store), read_only=True) as connection:
        return connection.execute(sql).fetchall()
