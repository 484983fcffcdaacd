"""Views as Parquet over HTTP: the rows of the view, whole or in pieces, for every client that reads a URL."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import polars
import pyarrow.parquet as pq
import pytest

from tests.store.samples import delta, fault, mismatch
from tic_daemon import listen, live_views
from tic_daemon.listen import Listen
from tic_daemon.live import LiveServer
from tic_daemon.live_run import Limits
from tic_daemon.store.bounded import Rows
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

from .conftest import Client, Reply
from .test_bounds import queries_running, soon

ROWS = 300


class World:
    def __init__(self, workspace: Path, limits: Limits | None = None, where: Listen | None = None) -> None:
        self.writer = Writer.open(StoreLayout.find(workspace))
        self.server = LiveServer(self.writer.reader_cursor, self.writer.layout, limits=limits, listen=where)
        self.server.start()
        self.offset = 0
        self.add(ROWS)

    def add(self, count: int) -> None:
        records = [mismatch(self.offset + 40 * n, value=n / 7, raw=f"\x1b[31m{n} é") for n in range(count)]
        self.offset += 40 * count
        self.writer.commit([delta(*records, offset=self.offset)])

    def get(self, path: str, method: str = "GET", **headers: str) -> Reply:
        named = {"Authorization": f"Bearer {self.server.token}"}
        return Client(self.server).raw(method, path, None, named | {k.replace("_", "-"): v for k, v in headers.items()})

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        cursor = self.writer.reader_cursor()
        try:
            return cursor.execute(sql).fetchall()
        finally:
            cursor.close()

    def close(self) -> None:
        self.server.stop()
        self.writer.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("views"))
    made.writer.commit([delta(fault(10**6), name="other.log")])
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path, Limits(queries=2, view_bytes=1 << 20, view_disk=2 << 20, view_files=8, send_s=1.0, silent_s=2.0)
    )
    yield made
    made.close()


def table(reply: Reply) -> list[tuple[object, ...]]:
    assert reply.status == 200, reply.body
    read = pq.read_table(io.BytesIO(reply.body))
    return [tuple(row.values()) for row in read.to_pylist()]


def public(world: World) -> list[str]:
    names = world.rows("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")
    return [str(name) for (name,) in names if str(name)[:2] not in ("b_", "i_")]


def test_every_public_view_is_a_file_with_its_rows(world: World) -> None:
    assert len(public(world)) >= 8
    for name in public(world):
        reply = world.get(f"/view/{name}.parquet")
        assert reply.headers["content-type"] == "application/vnd.apache.parquet"
        assert len(table(reply)) == len(world.rows(f"SELECT * FROM {name}")), name
    asked = "rec_id, run_id, step, value, raw, observed_at, is_evidence"
    got = table(world.get(f"/view/mismatches.parquet?columns={asked.replace(' ', '')}"))
    assert sorted(got) == world.rows(f"SELECT {asked} FROM mismatches ORDER BY 1")


def test_what_can_be_narrowed(world: World) -> None:
    got = table(world.get("/view/mismatches.parquet?columns=rec_id&after=5&limit=3"))
    assert got == [(6,), (7,), (8,)]
    assert table(world.get("/view/mismatches.parquet?columns=rec_id&run_id=no%20such%20run'%20OR%201=1")) == []
    ((run,),) = world.rows("SELECT DISTINCT run_id FROM mismatches")
    assert len(table(world.get(f"/view/mismatches.parquet?run_id={quote(str(run))}"))) == ROWS
    assert table(world.get("/view/mismatches.parquet?as_of=2020-01-01T00:00:00Z")) == []
    assert len(table(world.get("/view/mismatches.parquet?as_of=2200-01-01T00:00:00Z"))) == ROWS
    assert table(world.get("/view/mismatches.parquet?limit=0")) == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/view/nothing.parquet", 404), ("/view/b_mismatch.parquet", 404), ("/view/i_lock.parquet", 404),
        ("/view/mismatch.parquet", 404), ("/view/store.parquet", 404), ("/view/duckdb_settings.parquet", 404),
        ("/view/mismatches%22%3B%20DROP%20TABLE%20mismatch%3B--.parquet", 404), ("/view/..%2F..%2Fetc%2Fpasswd.parquet", 404),
        ("/view/mismatches", 404), ("/view/.parquet", 404), ("/view/mismatches.csv", 404),
        ("/view/mismatches.parquet?columns=nothing", 400), ("/view/mismatches.parquet?columns=%22", 400),
        ("/view/mismatches.parquet?columns=,", 400), ("/view/mismatches.parquet?columns=count(*)", 400),
        ("/view/mismatches.parquet?after=x", 400), ("/view/mismatches.parquet?limit=-1", 400),
        ("/view/mismatches.parquet?as_of=yesterday", 400), ("/view/mismatches.parquet?where=1=1", 400),
        ("/view/mismatches.parquet?run_id=a&run_id=b", 400),
        ("/view/runs.parquet?after=1", 400), ("/view/runs.parquet?limit=1", 400),
    ],
)  # fmt: skip
def test_what_is_none(world: World, path: str, status: int) -> None:
    reply = world.get(path)
    assert reply.status == status, reply.body
    assert reply.json["error"]


def test_one_client_reads_one_file_in_pieces_though_the_view_grows(own: World) -> None:
    url = "/view/mismatches.parquet"
    head = own.get(url, "HEAD")
    assert (head.status, head.body, head.headers["accept-ranges"]) == (200, b"", "bytes")
    size = int(head.headers["content-length"])
    own.add(50)
    pieces = b""
    for at in range(0, size, 1000):
        reply = own.get(url, Range=f"bytes={at}-{at + 999}")
        assert reply.status == 206
        assert reply.headers["content-range"] == f"bytes {at}-{min(at + 999, size - 1)}/{size}"
        assert reply.headers["etag"] == head.headers["etag"]
        pieces += reply.body
    assert len(pieces) == size
    assert pq.read_table(io.BytesIO(pieces)).num_rows == ROWS
    whole = own.get(url)
    assert whole.body == pieces  # the beginning is still the same reading
    assert pq.read_table(io.BytesIO(own.get(url).body)).num_rows == ROWS + 50  # the next whole one is another
    other = own.get(url, "HEAD", User_Agent="another")
    assert other.headers["etag"] != head.headers["etag"]


def test_a_reading_that_is_over_is_not_answered_again(own: World, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "/view/mismatches.parquet"
    before = own.get(url, "HEAD").headers["etag"]
    assert own.get(url, "HEAD").headers["etag"] == before
    monkeypatch.setattr(live_views, "QUIET_S", 0.0)
    time.sleep(0.01)
    assert own.get(url, "HEAD").headers["etag"] != before


@pytest.mark.parametrize(
    ("asked", "status", "begin", "end"),
    [
        ("bytes=0-3", 206, 0, 4), ("bytes=4-", 206, 4, None), ("bytes=-4", 206, -4, None), ("bytes=0-99999999999", 206, 0, None),
        ("bytes=-99999999999", 206, 0, None), ("bytes=99999999999-", 416, 0, 0), ("bytes=-0", 416, 0, 0),
        ("bytes=3-2", 200, 0, None), ("bytes=-", 200, 0, None), ("bytes=0-1,3-4", 200, 0, None), ("lines=0-1", 200, 0, None),
        ("bytes=x-y", 200, 0, None), ("bytes=" + "9" * 40 + "-", 200, 0, None),
    ],
)  # fmt: skip
def test_ranges(world: World, asked: str, status: int, begin: int, end: int | None) -> None:
    whole = world.get("/view/mismatches.parquet", "HEAD")
    reply = world.get("/view/mismatches.parquet", Range=asked)
    assert reply.status == status
    size = int(whole.headers["content-length"])
    if status == 416:
        assert reply.headers["content-range"] == f"bytes */{size}"
        return
    rest = world.get("/view/mismatches.parquet", Range="bytes=0-").body
    assert reply.body == rest[begin:end]
    assert b"PAR1" == rest[:4] == rest[-4:]


def test_conditions(world: World) -> None:
    tag = world.get("/view/runs.parquet", "HEAD").headers["etag"]
    assert world.get("/view/runs.parquet", Range="bytes=0-3", If_Match=tag).status == 206
    assert world.get("/view/runs.parquet", Range="bytes=0-3", If_Match='"other"').status == 412
    assert world.get("/view/runs.parquet", Range="bytes=0-3", If_Range=tag).status == 206
    assert world.get("/view/runs.parquet", Range="bytes=0-3", If_Range='"other"').status == 200


def test_who_may_ask(world: World) -> None:
    def basic(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    token = world.server.token
    raw = Client(world.server).raw
    path = "/view/runs.parquet"
    assert raw("GET", path, None, {"Authorization": basic(f"tic:{token}")}).status == 200
    assert raw("GET", f"{path}?token={token}").status == 200
    assert raw("POST", "/sql", b'{"sql": "SELECT 1"}', {"Authorization": basic(f"tic:{token}")}).status == 200
    for header in (
        basic("tic:wrong"),
        basic(token),
        basic(f"{token}:"),
        "Basic é",
        "Basic",
        "Basic " + "=" * 40,
        "Bearer wrong",
    ):
        assert raw("GET", path, None, {"Authorization": header.encode("utf-8").decode("latin-1")}).status == 401, header
    for query in ("", "?token=", "?token=wrong", f"?token={token}x", "?token=%00"):
        assert raw("GET", path + query).status == 401, query
    assert raw("POST", f"/sql?token={token}", b'{"sql": "SELECT 1"}').status == 401  # only where a URL is all there is
    assert raw("GET", f"/tail?token={token}").status in (400, 401)


def test_what_is_too_large_is_refused_and_never_cut(own: World) -> None:
    noise = [mismatch(own.offset + 40 * n, raw=base64.b64encode(os.urandom(6000)).decode()) for n in range(600)]
    own.offset += 40 * 600
    own.writer.commit([delta(*noise, offset=own.offset)])
    reply = own.get("/view/mismatches.parquet")
    assert reply.status == 413
    assert "1 MB" in reply.json["error"] and "limit" in reply.json["hint"]
    assert len(table(own.get("/view/mismatches.parquet?columns=rec_id"))) == ROWS + 600
    assert len(table(own.get(f"/view/mismatches.parquet?after={ROWS}&limit=20"))) == 20


def test_files_are_bounded_nameless_and_gone_at_the_end(own: World) -> None:
    def files() -> int:
        return sum(
            "(deleted)" in str(path.readlink()) and "ws" not in path.name
            for path in Path("/proc/self/fd").iterdir()
            if path.is_symlink()
        )

    before = files()
    folder = own.writer.layout.database.parent
    names = sorted(path.name for path in folder.iterdir())
    statuses = [own.get(f"/view/mismatches.parquet?after={n}&columns=rec_id").status for n in range(10)]
    assert statuses == [200] * 8 + [503] * 2
    assert files() == before + 8
    assert sorted(path.name for path in folder.iterdir()) == names
    own.server.stop()
    soon(lambda: files() == before, 2.0)


def test_a_client_that_leaves_takes_its_query_with_it(own: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "SELECT t1.range AS rec_id FROM range(10000000000) t1, range(100000) t2"
    own.get("/view/mismatches.parquet", "HEAD")  # the catalog is known
    monkeypatch.setattr(live_views.Question, "sql", lambda _self, _known: (f"SELECT count(*) FROM ({slow})", ()))
    head = f"GET /view/mismatches.parquet?limit=7 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own.server.token}\r\n\r\n"
    port = Client(own.server).port
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
    for sock in socks:
        sock.sendall(head.encode())
    soon(lambda: queries_running() == 1, 5.0)  # one for both
    socks[0].close()
    time.sleep(0.3)
    assert queries_running() == 1
    socks[1].close()
    soon(lambda: queries_running() == 0, 3.0)


def test_many_at_once_take_no_more_than_their_places(own: World, monkeypatch: pytest.MonkeyPatch) -> None:
    writing: list[int] = [0]
    most: list[int] = [0]
    written = live_views._written

    def counted(folder: Path, size: int) -> Callable[[Rows], live_views.File]:
        consume = written(folder, size)

        def count(rows: Rows) -> live_views.File:
            writing[0] += 1
            most[0] = max(most[0], writing[0])
            time.sleep(0.05)
            try:
                return consume(rows)
            finally:
                writing[0] -= 1

        return count

    monkeypatch.setattr(live_views, "_written", counted)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: own.get("/view/runs.parquet", User_Agent=f"a{n % 4}").status, range(16)))
    assert replies == [200] * 16
    assert most[0] <= 2


# --- clients ---------------------------------------------------------------------------------------------------------


def test_polars_reads_it_lazily(world: World) -> None:
    url = f"{world.server.url}/view/mismatches.parquet?token={world.server.token}"
    frame = polars.scan_parquet(url).filter(polars.col("rec_id") <= 10).select("rec_id", "raw").collect()
    assert frame.rows() == world.rows("SELECT rec_id, raw FROM mismatches WHERE rec_id <= 10 ORDER BY 1")
    assert polars.read_parquet(url).height == ROWS


def test_pyarrow_reads_it(world: World) -> None:
    password = urllib.request.HTTPPasswordMgrWithPriorAuth()
    password.add_password(None, world.server.url, "tic", world.server.token, is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(password))
    with opener.open(f"{world.server.url}/view/mismatches.parquet") as answer:
        assert pq.read_table(io.BytesIO(answer.read())).num_rows == ROWS


def test_curl_with_the_token_as_password(world: World, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    url = world.server.url.replace("http://", f"http://tic:{world.server.token}@") + "/view/mismatches.parquet"
    subprocess.run(["curl", "-sSf", "-o", str(tmp_path / "x.parquet"), url], check=True)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == ROWS


def test_polars_over_tls(tmp_path: Path) -> None:
    if listen.own_address() is None:
        pytest.skip("this machine has no address but loopback")
    world = World(tmp_path, where=Listen("auto"))
    try:
        told = json.loads(world.writer.layout.daemon_file.read_text())
        pem = tmp_path / "tic.pem"
        pem.write_text(told["certificate"])
        url = f"{told['url']}/view/mismatches.parquet?token={told['token']}"
        code = f"import polars; print(polars.read_parquet({url!r}).height)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"SSL_CERT_FILE": str(pem)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stdout.strip() == str(ROWS), done.stderr[-1500:]
    finally:
        world.close()


@pytest.mark.slow
def test_duckdb_reads_it(world: World, duckdb_httpfs: tuple[Path, Path]) -> None:
    python, extension = duckdb_httpfs
    url = f"{world.server.url}/view/mismatches.parquet"
    code = (
        f"import duckdb\ncon = duckdb.connect()\ncon.execute(\"LOAD '{extension}'\")\n"
        f"con.execute(\"CREATE SECRET (TYPE http, BEARER_TOKEN '{world.server.token}')\")\n"
        f"print(con.execute(\"SELECT count(*), max(rec_id) FROM read_parquet('{url}')\").fetchall())\n"
        f"print(con.execute(\"SELECT rec_id FROM read_parquet('{url}') WHERE rec_id BETWEEN 3 AND 5 ORDER BY 1\").fetchall())\n"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"[({ROWS}, {ROWS})]", "[(3,), (4,), (5,)]"]
