"""A daemon that watches a folder, for as long as a measurement lasts."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import measure

START_S = 120.0


def logs(root: Path, count: int) -> None:
    """Logs of one line, in twenty folders."""
    for number in range(count):
        path = root / f"d{number % 20:02}" / f"worker-{number:04}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[2026-11-29 08:12:03] worker {number} started\n")


@contextlib.contextmanager
def daemon(root: Path, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon's process, once its endpoint answers; ended afterwards.

    Args:
        environ: what its environment has besides this process' own.

    Raises:
        RuntimeError: it did not start.
    """
    command = measure.python("-m", "tic_daemon", "watch", str(root))
    child = subprocess.Popen(command, env={**measure.environment(), **(environ or {})}, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not list(root.glob(".tic/*/daemon.json")):
            if time.monotonic() > deadline or child.poll() is not None:
                raise RuntimeError("the daemon did not start")
            time.sleep(0.05)
        yield child
    finally:
        child.terminate()
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
