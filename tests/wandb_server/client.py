"""The real client in processes of its own: one that reads whatever it is told to, and uploads by small scripts.

A client costs about half a CPU-second to start, so one reader serves many assertions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.wandb_server.server import WandbServer

_READER = """
import json, sys
import wandb
api = wandb.Api()
for line in sys.stdin:
    ask = json.loads(line)
    try:
        api.flush()
        run = api.run(ask.pop("path"))
        rows = list(run.scan_history(**{"use_cache": False, **ask}))
        answer = {"rows": rows, "lines": run._attrs["historyLineCount"], "state": run.state}
    except Exception as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(answer), flush=True)
"""


class Reader:
    """`read(path)` gives {"rows": ...} or {"error": ..., "text": ...} of the real `scan_history`."""

    def __init__(self, server: WandbServer, home: Path, **env: str) -> None:
        fast = {"WANDB_X_GRAPHQL_RETRY_WAIT_MIN_SECONDS": "0", "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _READER],
            env={**os.environ, **server.env(home), **fast, "WANDB_X_GRAPHQL_RETRY_MAX": "3", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(20)
        self._process.stdout.close()  # type: ignore[union-attr]

    def read(self, path: str, **options: Any) -> dict[str, Any]:
        """What `scan_history(**options)` of a run gives; `use_cache` is false unless told."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"path": path, **options}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]

    def steps(self, path: str, **options: Any) -> list[int]:
        """`_step` of each row that is read."""
        answer = self.read(path, **options)
        assert "rows" in answer, answer
        return [row["_step"] for row in answer["rows"]]


def client(script: str, env: dict[str, str], *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a script with the real client to its end."""
    return subprocess.run(
        [sys.executable, "-c", script, *args],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120, cwd=cwd, check=False,
    )  # fmt: skip


def wandb_command(args: Sequence[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `wandb ...`."""
    return subprocess.run(
        [sys.executable, "-m", "wandb", *args],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120, cwd=cwd, check=False,
    )  # fmt: skip
