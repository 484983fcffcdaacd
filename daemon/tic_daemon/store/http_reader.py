"""The reader for a run that is still being watched: SQL to the daemon's live endpoint, rows back as Arrow.

One kept connection, opened again when it breaks. A daemon that was started anew has another port and token: they are
read again from its daemon.json. Standard library only, and pyarrow when the first rows arrive.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from tic_daemon.errors import ConnectError, StoreError, TicError
from tic_daemon.store import sqlguard, wire
from tic_daemon.store.layout import read_json
from tic_daemon.store.reader import TAIL_ROWS, Connection, Result, Tail
from tic_daemon.store.sqlguard import SqlError, SqlRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

# The daemon answers at its deadline; a socket that stays silent this much longer is broken.
GRACE_S = 3.0
CONNECT_S = 3.0
MAX_ERROR_BYTES = 1 << 16
# A daemon answers with 64 MB at most, and columns of one row may be larger.
MAX_BODY_BYTES = 512 << 20
BODY_S = 30.0
_PULSE = (
    "SELECT (SELECT count(*) FROM sources), (SELECT sum(bytes_read) FROM sources),"
    " (SELECT max(last_growth_at) FROM sources), (SELECT count(*) FROM sources WHERE state = 'growing'),"
    " (SELECT count(*) FROM marks), (SELECT count(*) FROM marks WHERE retracted)"
)
_BROKEN = (OSError, http.client.HTTPException)


class HttpReader:
    """Reads one store through its daemon. Thread-safe; queries of several threads wait for each other.

    Args:
        url: http://host:port of the daemon.
        token: its bearer token; "" takes it from the environment variable TIC_TOKEN, so that it is in no argv.
        store_id: refuse answers of any other store; "" accepts what answers.
        daemon_file: daemon.json, where a restarted daemon's url and token are looked up.
    """

    def __init__(self, url: str, token: str = "", *, store_id: str = "", daemon_file: Path | None = None) -> None:
        self._url, self._token = url.rstrip("/"), token or os.environ.get("TIC_TOKEN", "")
        self._store_id = store_id
        self._daemon_file = daemon_file
        self._turn = threading.Lock()  # one query at a time
        self._http: http.client.HTTPConnection | None = None
        self._interrupted = False
        self._closed = False
        self._status = Connection("live", "pending", _now(), "", self._url)

    @classmethod
    def of(cls, daemon_file: Path) -> HttpReader:
        """The reader for the daemon that wrote this daemon.json.

        Raises:
            ConnectError: the file is missing or holds no url and token.
        """
        noted = read_json(daemon_file)
        url, token = noted.get("url"), noted.get("token")
        if not (isinstance(url, str) and isinstance(token, str)):
            raise ConnectError(f"{daemon_file} names no live endpoint", "is the daemon running? tic-daemon doctor")
        return cls(url, token, store_id=str(noted.get("store_id") or ""), daemon_file=daemon_file)

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = 100_000,
        timeout_s: float = 5.0,
        gather: str = "",  # one store: there is nothing to gather
    ) -> Result:
        """Runs one SELECT.

        Args:
            params: for `?` in the text.
            as_of: the store as it was known then; naive is UTC.
            max_rows: the result says `truncated` if there were more.
            timeout_s: the daemon stops the query then.

        Raises:
            SqlError, SqlRefused: the query is wrong, or no SELECT; its deadline passed, or `interrupt` was called.
            ConnectError: the daemon cannot be reached, refuses the token, or serves another store.
            StoreError: the daemon is busy or cannot read its store now.
        """
        sqlguard.sound_parameters(params)
        timeout_s = sqlguard.deadline(timeout_s)
        body = json.dumps(
            {
                "sql": sql,
                "params": [wire.encode_parameter(value) for value in params],
                "as_of": as_of.isoformat() if as_of else None,
                "max_rows": max_rows,
                "timeout_s": timeout_s,
            }
        ).encode()
        with self._turn:
            self._interrupted = False
            headers, data, took = self._exchange(body, timeout_s)
        table_columns, types, rows = _unpack(data)
        truncated = headers.get(wire.TRUNCATED_HEADER) == "1"
        return Result(table_columns, types, rows, truncated, took)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`."""
        deadline = time.monotonic() + wait_s
        while True:
            now = repr(self.query(_PULSE).rows)
            left = deadline - time.monotonic()
            if now != after or left <= 0:
                return Tail(now, now)
            time.sleep(min(0.25, left))

    def connection(self) -> Connection:
        """Where the daemon is and whether the last exchange with it succeeded."""
        return self._status

    def interrupt(self) -> None:
        """Ends the running query, from any thread: the socket is closed, and the daemon stops when it sees that."""
        self._interrupted = True
        self._hang_up()

    def close(self) -> None:
        """No more queries. Ends a running one."""
        self._closed = True
        self.interrupt()

    # -- the exchange

    def _exchange(self, body: bytes, timeout_s: float) -> tuple[http.client.HTTPMessage, bytes, float]:
        """Sends, and once more if a kept connection turns out dead or the daemon moved: a SELECT may run twice."""
        for attempt in (1, 2):
            if self._closed:
                raise StoreError("this reader is closed")
            kept = self._http is not None
            began = time.monotonic()
            try:
                response, data = self._once(body, timeout_s)
            except TimeoutError as e:
                self._hang_up()
                raise self._lost(f"no answer within {timeout_s + GRACE_S:g} s") from e
            except _BROKEN as e:
                self._hang_up()
                if self._interrupted:
                    raise SqlError("the query was interrupted") from e
                if attempt == 1 and (self._moved() or kept):
                    continue
                raise self._lost(str(e) or type(e).__name__) from e
            if response.status == 401 and attempt == 1 and self._moved():
                self._hang_up()
                continue
            self._check(response, data)
            if self._status.state != "connected":
                self._note("connected", "")
            return response.headers, data, time.monotonic() - began
        raise self._lost("the connection broke twice")

    def _once(self, body: bytes, timeout_s: float) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._http
        if connection is None:
            connection = _connect(self._url)
            self._http = connection
        assert connection.sock is not None  # noqa: S101 -- _connect opened it; only _hang_up closes, and forgets it
        connection.sock.settimeout(timeout_s + GRACE_S)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": wire.ARROW_TYPE,
        }
        connection.request("POST", "/sql", body, headers)
        response = connection.getresponse()
        if response.status == 200:
            data = _body(response, time.monotonic() + timeout_s + BODY_S)
        else:
            data = response.read(MAX_ERROR_BYTES)
        if response.will_close or response.status != 200:
            self._hang_up()
        return response, data

    def _check(self, response: http.client.HTTPResponse, data: bytes) -> None:
        status = response.status
        if status == 200:
            served = response.headers.get(wire.STORE_HEADER, "")
            if self._store_id and served != self._store_id:
                raise self._lost(f"another store answers there: {served[:40] or 'no tic daemon'}")
            return
        error, hint = _complaint(data, status)
        if status == 401:
            raise self._lost(error, hint)
        if self._status.state != "connected":
            self._note("connected", "")  # it answered, if not what we wished
        kinds: dict[int, type[TicError]] = {400: SqlError, 408: SqlError, 413: SqlError, 403: SqlRefused}
        raise kinds.get(status, StoreError)(error, hint)

    def _hang_up(self) -> None:
        connection, self._http = self._http, None
        if connection is None:
            return
        # shutdown() wakes a thread that waits in recv(); close() alone would not.
        sock = connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _moved(self) -> bool:
        """Whether daemon.json names another url or token than we have; takes them if so."""
        if self._daemon_file is None:
            return False
        noted = read_json(self._daemon_file)
        url, token = noted.get("url"), noted.get("token")
        if not (isinstance(url, str) and isinstance(token, str)) or (url, token) == (self._url, self._token):
            return False
        self._url, self._token = url.rstrip("/"), token
        self._status = replace(self._status, target=self._url)
        return True

    def _lost(self, why: str, hint: str = "") -> ConnectError:
        if self._status.state != "disconnected" or self._status.detail != why:
            self._note("disconnected", why)
        return ConnectError(f"the daemon at {self._url} cannot be read: {why}", hint or "is it running?")

    def _note(self, state: Literal["connected", "disconnected"], detail: str) -> None:
        since = self._status.since if state == self._status.state else _now()
        self._status = replace(self._status, state=state, since=since, detail=detail)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _connect(url: str) -> http.client.HTTPConnection:
    connection: http.client.HTTPConnection
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as e:  # a port that is none, a bracket too few, a label too long
        raise ConnectError(f"not a URL of a daemon: {url} ({e})", "write it as http://host:port") from e
    if not host:
        raise ConnectError(f"not a URL of a daemon: {url} names no host", "write it as http://host:port")
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=context)
    elif parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=CONNECT_S)
    else:
        raise ConnectError(f"not a URL of a daemon: {url}", "write it as http://host:port")
    connection.connect()
    # Small requests that wait for small answers: Nagle's algorithm would add 40 ms to some.
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The whole body. What answers may be no daemon at all: neither endless nor dripping bodies are waited for.

    Raises:
        TimeoutError: it did not end in time. ConnectError: it is larger than any answer of a daemon.
    """
    body = bytearray()
    while piece := response.read1(1 << 20):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ConnectError(f"the answer is larger than {MAX_BODY_BYTES >> 20} MB", "is it a daemon's URL?")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:  # it ended before the length that it had announced
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body)


def _complaint(data: bytes, status: int) -> tuple[str, str]:
    try:
        value = json.loads(data)
        return str(value["error"]), str(value.get("hint", ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"HTTP status {status}", ""


def _unpack(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...], list[wire.Row]]:
    import pyarrow as pa  # noqa: PLC0415 -- 100 ms that the first paint does not wait for

    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate()  # buffers of a torn stream; in full it would refuse DuckDB's own HUGEINT and 24:00:00
        types = wire.types_of(table.schema)
        return tuple(table.schema.names), types, wire.rows_of(table, types)
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, RecursionError) as e:
        raise ConnectError(f"the answer is no Arrow stream: {str(e)[:200]}", "is there a proxy in between?") from e
