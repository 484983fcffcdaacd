"""The examples of docs/how-to/query-while-running.md, taken out of the page and run against a live server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.samples import delta, mismatch
from tic_daemon.live import LiveServer
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/query-while-running.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^## (.+?)$.*?^```(sh|python|sql)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("doc")
    writer = Writer.open(StoreLayout.find(path))
    writer.commit([delta(mismatch(0, value=42.0, value_text="42"), mismatch(40, value=7.0, value_text="7"), offset=80)])
    server = LiveServer(writer.reader_cursor, writer.layout)
    server.start()
    yield path
    server.stop()
    writer.close()


def test_the_page_has_its_examples_of_five_lines_at_most() -> None:
    assert [title for title, _, _ in EXAMPLES] == [
        "tic-tui sql",
        "curl",
        "Python, with pyarrow",
        "Python, on into DuckDB",
        "polars, from a URL",
        "pyarrow, from a URL",
        "DuckDB, from a URL",
    ]
    assert all(len(code.splitlines()) <= 5 for _, _, code in EXAMPLES)


RUN = [example for example in EXAMPLES if example[1] != "sql"]


@pytest.mark.parametrize(("title", "language", "code"), RUN, ids=[title for title, _, _ in RUN])
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
    assert "42" in done.stdout


@pytest.mark.slow
def test_duckdb_example(workspace: Path, duckdb_httpfs: tuple[Path, Path]) -> None:
    python, extension = duckdb_httpfs
    (code,) = [code for _, language, code in EXAMPLES if language == "sql"]
    told = json.loads(next(workspace.glob(".tic/*/daemon.json")).read_text())
    code = code.replace("LOAD httpfs", f"LOAD '{extension}'")
    code = code.replace("<token of daemon.json>", told["token"]).replace("<url of daemon.json>", told["url"])
    run = f"import duckdb; print(duckdb.connect().execute({code!r}).fetchall())"
    done = subprocess.run([str(python), "-c", run], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "42.0" in done.stdout and "7.0" not in done.stdout
