"""What the live endpoint answers, and whom.

Errors are JSON {"error", "hint"}: 400 it is no query, 401 no or a wrong token, 403 refused (not a SELECT, or a foreign
Host header), 404 no such path or view, 408 the deadline passed, 412 and 416 the range cannot be given, 413 the request
or its answer is too large, 503 busy (with Retry-After), 507 no space for the answer.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import time
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from tic_daemon.live_ask import Fields, parse_ask
from tic_daemon.live_run import Limits, Refusal, Runner, until_gone
from tic_daemon.live_tail import Tail
from tic_daemon.live_views import FIELDS, Question, Views, span
from tic_daemon.store import wire
from tic_daemon.store.bounded import packed
from tic_daemon.store.reader import TAIL_ROWS
from tic_daemon.store.rows import Progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import duckdb
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("tic_daemon.live")

_ROUTES = "POST /sql, GET /tail, GET /view/NAME.parquet, GET /health"


class Endpoint:
    """The routes and what they share: the token, the runner of queries, bytes that wait for their clients."""

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        token: str,
        store_id: str,
        limits: Limits,
        *,
        spool: Callable[[], str | None] | None = None,
        progress: Progress | None = None,
        names: frozenset[str] = frozenset(),
        folder: Path,
    ) -> None:
        self._token = token.encode()
        self._store_id = store_id
        self._limits = limits
        self._runner = Runner(connect, limits, spool=spool)
        self._tail = Tail(self._runner, limits, progress or Progress())
        self._views = Views(self._runner, limits, folder)
        self._held = 0
        self._names = names

    # -- what is around the routes

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """`app` behind the check of the Host header: a page that rebinds its name to 127.0.0.1 sends its own."""

        async def check(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and not self._host_is_ours(scope):
                refusal = Refusal(403, "the Host header names another host", "use the url in daemon.json")
                await refusal.response(scope, receive, send)
                return
            await app(scope, receive, send)

        return check

    def _host_is_ours(self, scope: Scope) -> bool:
        named = [value for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1:
            return False
        text = named[0].decode("latin-1").strip().lower()
        host = text[1:].partition("]")[0] if text.startswith("[") else text.rpartition(":")[0] or text
        if host in self._names:
            return True
        # An address of this machine, when it listens on all of them: a name that was rebound is none.
        here, _ = scope.get("server") or ("", None)
        return bool(host) and host == str(here).removeprefix("::ffff:")

    def exception_handlers(self) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
        """Starlette's own errors (unknown path, wrong method) in our form, and defects without their details."""

        async def http(_request: Request, e: Exception) -> Response:
            status = e.status_code if isinstance(e, HTTPException) else 500
            return JSONResponse({"error": str(getattr(e, "detail", "")), "hint": _ROUTES}, status)

        async def refusal(_request: Request, e: Exception) -> Response:
            assert isinstance(e, Refusal)  # noqa: S101 -- registered for it alone
            return e.response

        async def defect(request: Request, e: Exception) -> Response:
            log.error("defect while answering %s", request.url.path, exc_info=e)
            return JSONResponse({"error": "internal error", "hint": "the daemon's standard error says more"}, 500)

        return {HTTPException: http, Refusal: refusal, Exception: defect}

    def note(self, progress: Progress) -> None:
        """How far the writer has come; from its thread, after each commit."""
        self._tail.note(progress)

    def stop_all(self) -> None:
        """Ends what runs and waits, begins nothing more; from any thread."""
        self._tail.stop()
        self._runner.stop_all()
        self._views.clear()

    # -- routes

    async def health(self, _request: Request) -> Response:
        """That it is alive, and of which store: a reader checks that it reached the daemon it meant."""
        return JSONResponse({"ok": True, "store_id": self._store_id})

    async def sql(self, request: Request) -> Response:
        """One SELECT."""
        began = time.monotonic()
        self._authorize(request)
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await self._body(request)
        except TimeoutError:
            raise Refusal(408, "the request's body did not arrive in time") from None
        except ClientDisconnect:
            return _nobody()
        ask = parse_ask(body, self._limits, as_json="application/json" in request.headers.get("accept", ""))
        self._have_room()
        gone = asyncio.ensure_future(until_gone(request.receive))
        try:
            consume = packed(ask, self._limits.result_bytes)
            answer = await self._runner.run(ask, consume, began + ask.timeout_s, gone)
        finally:
            gone.cancel()
        if answer is None:
            return _nobody()
        told = {
            wire.TRUNCATED_HEADER: "1" if answer.truncated else "0",
            wire.ELAPSED_HEADER: f"{answer.elapsed_s:.6f}",
        }
        return self._send_slowly(answer.body, told, as_json=ask.as_json)

    async def tail(self, request: Request) -> Response:
        """What was committed since a position; waits for it."""
        self._authorize(request)
        fields = Fields(request.query_params.multi_items(), ("after", "wait", "limit"))
        wait_s = fields.seconds("wait", 0.0, self._limits.wait_s)
        limit = fields.whole("limit", TAIL_ROWS, self._limits.ring_rows)
        as_json = "application/json" in request.headers.get("accept", "")
        self._have_room()
        gone = asyncio.ensure_future(until_gone(request.receive))
        try:
            polled = await self._tail.poll(fields.text("after"), wait_s, limit, gone, as_json=as_json)
        finally:
            gone.cancel()
        if polled is None:
            return _nobody()
        told = {
            wire.POSITION_HEADER: polled.position,
            wire.STANDING_HEADER: polled.standing,
            wire.MISSED_HEADER: str(polled.missed),
        }
        return self._send_slowly(polled.body, told, as_json=as_json)

    async def view(self, request: Request) -> Response:
        """A view as a Parquet file, or some of its bytes."""
        fields = Fields(request.query_params.multi_items(), FIELDS)
        self._authorize(request, fields.text("token"))
        question = Question.of(str(request.path_params["name"]), fields)
        asked = request.headers.get("range", "")
        who = (request.client.host if request.client else "", request.headers.get("user-agent", "")[:200])
        whole = request.method == "GET" and not asked
        gone = asyncio.ensure_future(until_gone(request.receive))
        try:
            file = await self._views.file(who, question, gone, beginning=whole or request.method == "HEAD", whole=whole)
        finally:
            gone.cancel()
        if file is None:
            return _nobody()
        condition = request.headers.get("if-match", "*")
        if condition != "*" and file.etag not in condition:
            raise Refusal(412, "the file is another one now", "read it again from its beginning")
        if request.headers.get("if-range", file.etag) != file.etag:
            asked = ""
        part = span(asked, file.size)
        begin, size = part or (0, file.size)
        headers = {
            "ETag": file.etag,
            "Accept-Ranges": "bytes",
            wire.STORE_HEADER: self._store_id,
            "Content-Length": str(size),
            "Cache-Control": "no-store",
        }
        if part is not None:
            headers["Content-Range"] = f"bytes {begin}-{begin + size - 1}/{file.size}"
        if request.method == "HEAD":
            return Response(None, 200 if part is None else 206, headers, wire.PARQUET_TYPE)
        return _Pieces(
            lambda at, most: file.read(begin + at, min(most, size - at)), size, headers, wire.PARQUET_TYPE,
            self._limits.send_s, status=200 if part is None else 206,
        )  # fmt: skip

    def _authorize(self, request: Request, token: str = "") -> None:
        """Bearer, Basic with the token as its password, or what stood in the URL. Raises Refusal 401."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given.strip(), validate=True).decode("latin-1").partition(":")[2]
            except ValueError:
                given = ""
        elif scheme.lower() != "bearer":
            given = token
        # Compared as bytes: compare_digest takes str only if it is ASCII, and headers need not be.
        if not hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token):
            raise Refusal(401, "no token, or not this daemon's", "it stands in daemon.json", WWW_Authenticate="Bearer")

    async def _body(self, request: Request) -> bytes:
        limit = self._limits.body_bytes
        too_large = Refusal(413, f"the request is larger than {limit} bytes", Connection="close")
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > 4 * limit:
            raise too_large
        body, size = bytearray(), 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= limit:
                body += chunk
            elif size > 4 * limit:
                raise too_large
        # Somewhat too large is read to its end and thrown away: a client that still sends would not see the answer.
        if size > limit:
            raise too_large
        return bytes(body)

    # -- sending

    def _have_room(self) -> None:
        if self._held > self._limits.held_bytes:
            raise Refusal(503, "clients have not fetched earlier results", "try again", Retry_After="2")

    def _send_slowly(self, body: memoryview, told: dict[str, str], *, as_json: bool) -> Response:
        headers = {
            **told,
            wire.STORE_HEADER: self._store_id,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
        }
        media_type = "application/json" if as_json else wire.ARROW_TYPE
        return _Pieces(
            lambda at, most: bytes(body[at : at + most]), len(body), headers, media_type,
            self._limits.send_s, hold=self.hold,
        )  # fmt: skip

    def hold(self, size: int) -> None:
        """Counts bytes of results that wait for their clients."""
        self._held += size


def _nobody() -> Response:
    return Response(status_code=499)  # the client is gone: nobody reads it


class _Pieces(Response):
    """A body sent piece by piece, each within a time: a client that stops reading is dropped and its memory freed.

    Args:
        read: gives the bytes from an offset on, at most so many.
        hold: is told the size while it is being sent, and its negative afterwards: of what is in memory.
    """

    PIECE = 256 * 1024

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        size: int,
        headers: dict[str, str],
        media: str,
        send_s: float,
        *,
        status: int = 200,
        hold: Callable[[int], None] = lambda _size: None,
    ) -> None:
        super().__init__(None, status, headers, media)
        self._read, self._size, self._send_s, self._hold = read, size, send_s, hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._hold(self._size)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, self._size, self.PIECE):
                piece = self._read(at, self.PIECE)
                async with asyncio.timeout(self._send_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # Returning with the body unfinished makes the server close the connection.
            log.info("a client took no data for %g s and was dropped", self._send_s)
        finally:
            self._hold(-self._size)
