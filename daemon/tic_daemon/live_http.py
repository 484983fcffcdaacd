"""What the live endpoint answers: who may ask, how many at a time, and for how long.

Errors are JSON {"error", "hint"}: 400 it is no query, 401 no or a wrong token, 403 refused (not a SELECT, or a foreign
Host header), 408 the deadline passed, 413 the request is too large or the query needs too much memory, 503 busy (with
Retry-After).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from tic_daemon.store import wire
from tic_daemon.store.bounded import Answer, Ask, BoundedSelect, Stopped
from tic_daemon.store.sqlguard import SqlError, SqlRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("tic_daemon.live")

MAX_NUMBER = 1e15


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the endpoint. Seconds, bytes, rows."""

    rows: int = 100_000
    result_bytes: int = 64 << 20
    body_bytes: int = 1 << 20
    queries: int = 4
    timeout_s: float = 5.0  # if the request names none
    max_timeout_s: float = 300.0
    held_bytes: int = 192 << 20  # finished results that slow clients have not fetched yet
    send_s: float = 10.0  # a client that takes no byte for so long is dropped
    body_s: float = 10.0  # time to send the request's body
    silent_s: float = 30.0  # a connection without a request
    connections: int = 64


class Refusal(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, error: str, hint: str = "", **headers: str) -> None:
        super().__init__(error)
        self.response = JSONResponse(
            {"error": error, "hint": hint}, status, {name.replace("_", "-"): value for name, value in headers.items()}
        )


class Endpoint:
    """The two routes and what they share: the token, the four places, the running queries."""

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        token: str,
        store_id: str,
        limits: Limits,
        *,
        spool: Callable[[], str | None] | None = None,
    ) -> None:
        self._connect, self._spool = connect, spool
        self._token = token.encode()
        self._store_id = store_id
        self._limits = limits
        self._places = asyncio.Semaphore(limits.queries)
        self._running: set[BoundedSelect] = set()
        self._pushing: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._held = 0
        own = socket.gethostname().lower()
        self._hosts = {"127.0.0.1", "localhost", "::1", own}

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
        return host in self._hosts

    def exception_handlers(self) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
        """Starlette's own errors (unknown path, wrong method) in our form, and defects without their details."""

        async def http(_request: Request, e: Exception) -> Response:
            status = e.status_code if isinstance(e, HTTPException) else 500
            return JSONResponse({"error": str(getattr(e, "detail", "")), "hint": "POST /sql or GET /health"}, status)

        async def refusal(_request: Request, e: Exception) -> Response:
            assert isinstance(e, Refusal)  # noqa: S101 -- registered for it alone
            return e.response

        async def defect(request: Request, e: Exception) -> Response:
            log.error("defect while answering %s", request.url.path, exc_info=e)
            return JSONResponse({"error": "internal error", "hint": "the daemon's standard error says more"}, 500)

        return {HTTPException: http, Refusal: refusal, Exception: defect}

    def stop_all(self, wait_s: float = 2.0) -> None:
        """Ends every running query, begins no other; from any thread. Returns when all ended, or after `wait_s`."""
        self._stopping = True
        deadline = time.monotonic() + wait_s
        while self._running and time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # the set changed under us: look again
                for query in tuple(self._running):
                    query.stop()
            time.sleep(0.02)

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
            return Response(status_code=499)  # nobody is there to read it
        ask = parse_ask(body, self._limits, as_json="application/json" in request.headers.get("accept", ""))
        gone = asyncio.ensure_future(_until_gone(request.receive))
        try:
            answer = await self._answer(ask, began + ask.timeout_s, gone)
        finally:
            gone.cancel()
        if answer is None:
            return Response(status_code=499)
        return self._send_slowly(answer, ask)

    def _authorize(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Compared as bytes: compare_digest takes str only if it is ASCII, and headers need not be.
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token)
        if scheme.lower() != "bearer" or not same:
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

    # -- running

    async def _answer(self, ask: Ask, deadline: float, gone: asyncio.Future[None]) -> Answer | None:
        """The result; None if the client left. Its place comes back when the thread ends, not when we stop waiting."""
        if not await self._place(deadline, gone):
            return None
        if self._stopping:
            self._places.release()
            raise Refusal(503, "the daemon is stopping", Retry_After="5")
        if self._held > self._limits.held_bytes:
            self._places.release()
            raise Refusal(503, "clients have not fetched earlier results", "try again", Retry_After="2")
        query = BoundedSelect(self._connect, ask, max_bytes=self._limits.result_bytes, spool=self._spool)
        done = self._launch(query)
        await _first({done, gone}, deadline)
        if not done.done():
            pushing = asyncio.ensure_future(_push(query))
            self._pushing.add(pushing)  # the loop itself keeps only weak references to tasks
            pushing.add_done_callback(self._pushing.discard)
            if gone.done():
                return None
            # A moment for the query to notice; it may also be done just now.
            await asyncio.wait({done}, timeout=0.5)
            if not done.done() or isinstance(done.exception(), Stopped):
                raise Refusal(408, f"the query ran longer than {ask.timeout_s:g} s", "narrow it, or give timeout_s")
        try:
            return done.result()
        except Stopped:
            if gone.done():
                return None
            raise Refusal(503, "the daemon is stopping", Retry_After="5") from None
        except SqlRefused as e:
            raise Refusal(403, e.what, e.hint) from None
        except SqlError as e:
            raise Refusal(400, e.what, e.hint) from None
        except duckdb.OutOfMemoryException:
            raise Refusal(413, "the query needs more memory than the daemon allows", "aggregate or narrow it") from None
        except duckdb.Error as e:
            raise Refusal(503, f"the store cannot be read now: {str(e)[:300]}", Retry_After="2") from None

    async def _place(self, deadline: float, gone: asyncio.Future[None]) -> bool:
        """One of the four places, or False if the client left while it waited."""
        taking = asyncio.ensure_future(self._places.acquire())
        await _first({taking, gone}, deadline)
        if taking.done():
            return True
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            if await taking:  # it came in the same turn of the loop
                self._places.release()
        if gone.done():
            return False
        raise Refusal(503, f"{self._limits.queries} queries run already", "try again", Retry_After="1")

    def _launch(self, query: BoundedSelect) -> asyncio.Future[Answer]:
        """Runs the query in a thread. A daemon thread: a query that DuckDB will not stop must keep no process alive."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()
        self._running.add(query)

        def settle(answer: Answer | None, error: Exception | None) -> None:
            self._places.release()
            self._running.discard(query)
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
                done.exception()  # marked as seen: its request may be gone
            elif answer is not None:
                done.set_result(answer)

        def work() -> None:
            answer, error = None, None
            try:
                answer = query.run()
            except Exception as e:  # noqa: BLE001 -- handed to the request, which knows what to say
                error = e
            with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon is stopping
                loop.call_soon_threadsafe(settle, answer, error)

        threading.Thread(target=work, name="tic-sql", daemon=True).start()
        return done

    # -- sending

    def _send_slowly(self, answer: Answer, ask: Ask) -> Response:
        headers = {
            wire.TRUNCATED_HEADER: "1" if answer.truncated else "0",
            wire.ELAPSED_HEADER: f"{answer.elapsed_s:.6f}",
            wire.STORE_HEADER: self._store_id,
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
        }
        media_type = "application/json" if ask.as_json else wire.ARROW_TYPE
        return _Pieces(self, answer.body, headers, media_type, self._limits.send_s)

    def hold(self, size: int) -> None:
        """Counts bytes of results that wait for their clients."""
        self._held += size


class _Pieces(Response):
    """A body sent piece by piece, each within a time: a client that stops reading is dropped and its memory freed."""

    PIECE = 256 * 1024

    def __init__(
        self, endpoint: Endpoint, body: memoryview, headers: dict[str, str], media: str, send_s: float
    ) -> None:
        super().__init__(None, 200, headers, media)
        self._endpoint, self._body, self._send_s = endpoint, body, send_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = len(self._body)
        self._endpoint.hold(size)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, size, self.PIECE):
                piece = bytes(self._body[at : at + self.PIECE])
                async with asyncio.timeout(self._send_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # Returning with the body unfinished makes the server close the connection.
            log.info("a client took no data for %g s and was dropped", self._send_s)
        finally:
            self._endpoint.hold(-size)


async def _first(futures: set[asyncio.Future[Any]], deadline: float) -> None:
    await asyncio.wait(futures, timeout=max(0.0, deadline - time.monotonic()), return_when="FIRST_COMPLETED")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _push(query: BoundedSelect) -> None:
    """Stops a query, again and again, as an interrupt that comes between two statements is lost."""
    while not query.ended:
        query.stop()
        await asyncio.sleep(0.05)


def parse_ask(body: bytes, limits: Limits, *, as_json: bool) -> Ask:
    """The request's JSON, checked field by field. Raises Refusal 400 with what is wrong."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise Refusal(400, f"the body is not JSON: {str(e)[:200]}", 'send {"sql": "SELECT ..."}') from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body is not a JSON object", 'send {"sql": "SELECT ..."}')
    unknown = sorted(set(value) - {"sql", "params", "as_of", "max_rows", "timeout_s"})
    if unknown:
        raise Refusal(400, f"unknown field {unknown[0][:40]!r}", "known are sql, params, as_of, max_rows, timeout_s")
    sql = value.get("sql")
    if not isinstance(sql, str):
        raise Refusal(400, "the field sql must be a string")
    try:
        given = value.get("params") or []
        if not isinstance(given, list):
            raise ValueError("params must be a list")
        params = tuple(wire.decode_parameter(item) for item in given)
        as_of = _as_of(value.get("as_of"))
        rows = _number(value.get("max_rows"), limits.rows, "max_rows")
        timeout = _number(value.get("timeout_s"), limits.timeout_s, "timeout_s")
    except ValueError as e:
        raise Refusal(400, str(e)[:300]) from None
    return Ask(sql, params, as_of, min(int(rows), limits.rows), min(timeout, limits.max_timeout_s), as_json)


def _as_of(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("as_of must be a string such as 2026-01-02T03:04:05Z")
    moment = datetime.fromisoformat(value)
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError("as_of is outside the calendar") from None


def _number(value: object, default: float, name: str) -> float:
    if value is None:
        return default
    # Bounded before it is looked at as a float: JSON has whole numbers that no float can hold.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{name} must be a number from 0 to {MAX_NUMBER:g}")
    return value
