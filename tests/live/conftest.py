"""A real server on a real DuckDB file, opened as the daemon opens it; only the tables are the tests' own."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tic_daemon.live import LiveServer
from tic_daemon.live_run import Limits
from tic_daemon.store.engine import Engine
from tic_daemon.store.layout import StoreLayout

ENDLESS = "SELECT count(*) FROM range(10000000000) t1, range(100000) t2"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One request a connection, nothing hidden."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.port = int(server.url.rpartition(":")[2])

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, body: bytes, **headers: str) -> Reply:
        named = {"Authorization": f"Bearer {self.server.token}", "Accept": "application/json"}
        return self.raw("POST", "/sql", body, named | {name.replace("_", "-"): v for name, v in headers.items()})

    def sql(self, sql: str, **fields: object) -> Reply:
        return self.post(json.dumps({"sql": sql, **fields}).encode())


@dataclass
class Bed:
    engine: Engine
    layout: StoreLayout
    server: LiveServer
    client: Client
    cursors: list[duckdb.DuckDBPyConnection]


def make_engine(workspace: Path) -> tuple[Engine, StoreLayout]:
    layout = StoreLayout.find(workspace).settle()
    engine = Engine(layout, "512MB")
    engine.con.execute(
        "CREATE TABLE event AS SELECT i AS rec_id, 'line ' || i AS text, i / 7 AS value FROM range(10000) t(i)"
    )
    engine.con.execute("CREATE SEQUENCE counter")
    engine.lock_down()
    return engine, layout


def make_bed(workspace: Path, limits: Limits) -> Iterator[Bed]:
    engine, layout = make_engine(workspace)
    cursors: list[duckdb.DuckDBPyConnection] = []

    def connect() -> duckdb.DuckDBPyConnection:
        cursors.append(engine.cursor())
        return cursors[-1]

    server = LiveServer(connect, layout, limits=limits)
    server.start()
    try:
        yield Bed(engine, layout, server, Client(server), cursors)
    finally:
        server.stop()
        engine.close()


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    yield from make_bed(tmp_path_factory.mktemp("live"), Limits(queries=4))


@pytest.fixture
def own_bed(tmp_path: Path) -> Iterator[Bed]:
    """For tests that stop it or fill it."""
    limits = Limits(queries=2, result_bytes=1 << 20, rows=5000, send_s=1.0, silent_s=1.0, body_s=1.0, connections=16)
    yield from make_bed(tmp_path, limits)


@pytest.fixture(scope="session")
def duckdb_httpfs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A Python with DuckDB and the file of its HTTP client, in a venv: the extension is packaged for one version."""
    folder = tmp_path_factory.mktemp("duckdb")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python, wanted = folder / "bin" / "python", ["duckdb==1.5.5", "duckdb-extension-httpfs==1.5.5"]
    argv = [str(python), "-m", "pip", "install", "-q", *wanted]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot install {' '.join(wanted)}: {done.stderr[-300:]}")
    return python, next(folder.rglob("httpfs.duckdb_extension"))
