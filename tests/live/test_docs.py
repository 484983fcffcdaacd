"""The examples of docs/how-to/query-while-running.md, taken out of the page and run against a live server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tic_daemon.live import LiveServer
from tic_daemon.store.owner import Owner

from .conftest import make_engine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/query-while-running.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^## (.+?)$.*?^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("doc")
    engine, layout = make_engine(path)
    owner = Owner.acquire(layout.owner_file)
    server = LiveServer(engine.cursor, layout)
    server.start()
    yield path
    server.stop()
    owner.release()
    engine.close()


def test_the_page_has_its_four_examples_of_five_lines_at_most() -> None:
    assert [title for title, _, _ in EXAMPLES] == [
        "tic-tui sql",
        "curl",
        "Python, with pyarrow",
        "Python, on into DuckDB",
    ]
    assert all(len(code.splitlines()) <= 5 for _, _, code in EXAMPLES)


@pytest.mark.parametrize(("title", "language", "code"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_example(workspace: Path, tmp_path: Path, title: str, language: str, code: str) -> None:
    if title == "curl" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = tmp_path / "tic-tui"  # as if it were installed
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tic_tui "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "WORKSPACE": str(workspace),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "daemon")]),
    }
    argv = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "answer" in done.stdout or title == "Python, on into DuckDB"
    assert "42" in done.stdout
