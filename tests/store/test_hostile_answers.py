"""What answers where a daemon should be may be anything, and daemon.json and owner.json may hold anything."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from tic_daemon.errors import ConnectError, TicError
from tic_daemon.live_ask import parse_ask
from tic_daemon.live_run import Limits, Refusal
from tic_daemon.store import http_link
from tic_daemon.store.http_reader import HttpReader
from tic_daemon.store.owner import Owner, Process, live_owner
from tic_daemon.store.sqlguard import MAX_TIMEOUT_S, SqlError, deadline, sound_parameters

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def served() -> Iterator[Callable[[Answer], HttpReader]]:
    """Makes a reader on a server that answers every POST with the given function."""
    servers: list[ThreadingHTTPServer] = []

    def serve(answer: Answer) -> HttpReader:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    answer(self)
                except OSError:
                    return  # the reader hung up, as it should

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return HttpReader(f"http://127.0.0.1:{server.server_address[1]}", "token")

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def _body(data: bytes, status: int = 200, length: int | None = None) -> Answer:
    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        to.send_header("Content-Length", str(len(data) if length is None else length))
        to.end_headers()
        to.wfile.write(data)

    return answer


def _arrow(note: bytes) -> bytes:
    table = pa.table({"a": [1]}).replace_schema_metadata({b"tic.types": note})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "answer",
    [
        _body(b""),
        _body(os.urandom(1000)),
        _body(b"<html>", 500),
        _body(b"", 302),
        _body(b"[" * 60_000, 400),
        _body(b"[1]", 400),
        _body(b"x", length=99_999_999_999),
        _body(_arrow(b"[]")[:200]),
        _body(_arrow(b"garbage")),
        _body(_arrow(b'["UUID"]')),
    ],
    ids=["empty", "random", "html", "moved", "deep", "list", "too-short", "torn", "note", "types"],
)
def test_answers_of_no_daemon_are_expected_errors(served: Callable[[Answer], HttpReader], answer: Answer) -> None:
    with pytest.raises(TicError):
        served(answer).query("SELECT 1", timeout_s=2)


@pytest.mark.parametrize("note", [b'{"a": 1}', b"5", b"[null]", b"[]"])
def test_notes_of_types_that_are_none_are_left_aside(served: Callable[[Answer], HttpReader], note: bytes) -> None:
    result = served(_body(_arrow(note))).query("SELECT 1", timeout_s=2)
    assert (result.types, result.rows) == (("int64",), [(1,)])


def test_an_endless_answer_ends(served: Callable[[Answer], HttpReader], monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(to: BaseHTTPRequestHandler) -> None:
        to.send_response(200)
        to.end_headers()
        while True:
            to.wfile.write(b"x" * 65536)

    monkeypatch.setattr(http_link, "MAX_BODY_BYTES", 1 << 20)
    with pytest.raises(ConnectError, match="larger than 1 MB"):
        served(endless).query("SELECT 1")


def test_a_dripping_answer_ends(served: Callable[[Answer], HttpReader], monkeypatch: pytest.MonkeyPatch) -> None:
    def dripping(to: BaseHTTPRequestHandler) -> None:
        to.send_response(200)
        to.send_header("Content-Length", "1000")
        to.end_headers()
        for _ in range(200):
            to.wfile.write(b"x")
            time.sleep(0.05)

    monkeypatch.setattr(http_link, "BODY_S", 0.2)
    began = time.monotonic()
    with pytest.raises(ConnectError, match="no answer within"):
        served(dripping).query("SELECT 1", timeout_s=0.1)
    assert time.monotonic() - began < 9, "it read to the end of what drips"


@pytest.mark.parametrize("pid", [True, 0, -1, 1 << 31, 10**30, "1", None, 1.5])
def test_an_owner_whose_pid_is_none_owns_nothing(tmp_path: Path, pid: object) -> None:
    me = Process.current()
    path = tmp_path / "owner.json"
    path.write_text(
        json.dumps({"pid": pid, "host": me.host, "boot": me.boot, "pid_namespace": me.pid_namespace, "pid_start": ""})
    )
    os.utime(path, (time.time() - 10, time.time() - 10))
    assert live_owner(path) is None
    Owner.acquire(path).release()


@pytest.mark.parametrize(
    "fields",
    [
        {"as_of": "0001-01-01T00:00:00+14:00"},
        {"timeout_s": 10**400},
        {"max_rows": 10**400},
        {"timeout_s": -1},
        {"params": ["\udcff"]},
        {"params": [{"$timestamp": "x"}]},
    ],
)
def test_requests_that_once_were_internal_errors_are_400(fields: dict[str, object]) -> None:
    with pytest.raises(Refusal) as refused:
        parse_ask(json.dumps({"sql": "SELECT 1", **fields}).encode(), Limits(), as_json=True)
    assert refused.value.response.status_code == 400


def test_deadlines_and_parameters() -> None:
    assert (deadline(5), deadline(float("inf")), deadline(1e300)) == (5, MAX_TIMEOUT_S, MAX_TIMEOUT_S)
    for bad in (float("nan"), -1.0):
        with pytest.raises(SqlError):
            deadline(bad)
    sound_parameters(["ü\0", 1, None, b"\xff"])
    with pytest.raises(SqlError, match="not valid Unicode"):
        sound_parameters(["ok", "\ud800"])
