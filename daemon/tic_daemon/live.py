"""The live endpoint: SQL over HTTP on the store that this daemon writes, while it writes it.

    POST /sql     {"sql", "params", "as_of", "max_rows", "timeout_s"} -> Arrow IPC stream; JSON if Accept says so
    GET  /tail    ?after=POSITION&wait=SECONDS&limit=N -> the records that were committed since, as they are
    GET  /view/NAME.parquet  a public view as a file, ranges and HEAD included
    GET  /health  {"ok": true, "store_id"}, the only answer without a token

DuckDB lets no second process open a file that is being written, so readers ask its writer. They cannot slow it: a
thread with an event loop of its own, a cursor of its own for each request, at most four queries at a time, each with a
deadline, a cap on rows and bytes, and an end when its client is gone. Nobody can write here: store/sqlguard.py and the
connection's own settings see to it.

Where it listens and its token stand in daemon.json (mode 0600, written atomically); the token is in no argv and no log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tic_daemon import __version__, live_tls
from tic_daemon.errors import StoreError, TicError
from tic_daemon.listen import Listen, Place, locate
from tic_daemon.live_http import Endpoint
from tic_daemon.live_run import Limits
from tic_daemon.store.layout import StoreLayout, read_json, write_private_json
from tic_daemon.store.rows import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

log = logging.getLogger("tic_daemon.live")

HANDSHAKE_S = 10.0


class LiveServer:
    """The endpoint of one store. `start()` returns when it answers; `stop()` when its thread is gone.

    Args:
        connect: gives a new cursor on the store, private to one request; called in worker threads.
        layout: where daemon.json goes, and whose store_id it names.
        spool: JSON text of marks and attempts that are not taken in yet, for the views to overlay; None for none.
        listen: where; what is not loopback is served with TLS.
        progress: how far the writer has come already.
    """

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        layout: StoreLayout,
        *,
        spool: Callable[[], str | None] | None = None,
        listen: Listen | None = None,
        limits: Limits | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._layout = layout
        self._listen = listen or Listen()
        self._place = locate(self._listen)
        self._certificate = None if self._place.loopback else live_tls.make(self._place.names)
        self._limits = limits or Limits()
        self.token = secrets.token_urlsafe(32)
        self._endpoint = Endpoint(
            connect, self.token, layout.store_id, self._limits,
            spool=spool, progress=progress, names=self._place.names, folder=layout.database.parent,
        )  # fmt: skip
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self) -> None:
        """Binds, serves in a thread of its own, then publishes daemon.json.

        Raises:
            TicError: the port cannot be bound, or the server does not come up.
        """
        listener = _bind(self._place, self._listen.port, 2 * self._limits.connections)
        self.url = self._place.url(listener.getsockname()[1])
        app = Starlette(
            routes=[
                Route("/sql", self._endpoint.sql, methods=["POST"]),
                Route("/tail", self._endpoint.tail, methods=["GET"]),
                Route("/view/{name}.parquet", self._endpoint.view, methods=["GET"]),
                Route("/health", self._endpoint.health, methods=["GET"]),
            ],
            exception_handlers=self._endpoint.exception_handlers(),
        )
        config = uvicorn.Config(
            self._endpoint.guarded(app),
            http=_protocol(self._limits),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=int(self._limits.silent_s),
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32 * 1024,
        )
        config.load()
        if self._certificate is not None:
            config.ssl = live_tls.context(self._certificate)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a stranger's garbage must not fill daemon.log
        self._server = server = _Server(config)
        self._thread = threading.Thread(target=server.serve_here, args=(listener,), name="tic-live", daemon=True)
        self._thread.start()
        if not server.up.wait(10) or not server.started:
            self.stop()
            raise TicError(f"the live endpoint did not come up on {self.url}")
        try:
            write_private_json(self._layout.daemon_file, self._description())
        except OSError as e:  # a full disk, or the directory went away
            self.stop()
            raise StoreError(f"cannot write {self._layout.daemon_file}: {e.strerror or e}", "make space there") from e

    def note(self, progress: Progress) -> None:
        """How far the writer has come, after each commit: long polls wait for it. Costs nothing and never waits."""
        self._endpoint.note(progress)

    def stop(self) -> None:
        """Ends running queries and the server, and takes daemon.json away if it is still ours."""
        self._endpoint.stop_all()
        if self._server is not None:
            self._server.leave()
        if self._thread is not None:
            self._thread.join(5)
        if read_json(self._layout.daemon_file).get("token") == self.token:
            self._layout.daemon_file.unlink(missing_ok=True)

    def _description(self) -> dict[str, object]:
        return {
            "url": self.url,
            "token": self.token,
            "pid": os.getpid(),
            "host": self._layout.host,
            "store_id": self._layout.store_id,
            "started_at": datetime.now(UTC).isoformat(timespec="microseconds"),
            "program_version": __version__,
            **self._shown(),
        }

    def _shown(self) -> dict[str, object]:
        made = self._certificate
        if made is None:
            return {}
        return {"certificate": made.pem, "certificate_sha256": made.sha256, "certificate_pin": made.pin}


class _Listener(socket.socket):
    """Accepts no more than so many connections at a time, also such as never begin to speak: each costs the daemon a
    descriptor, of which it needs some for every log."""

    most = 0
    open = 0

    def accept(self) -> tuple[socket.socket, object]:
        descriptor, peer = self._accept()  # type: ignore[attr-defined]
        accepted = _Accepted(self.family, self.type, self.proto, fileno=descriptor)
        accepted.listener = self
        self.open += 1
        if self.open > self.most:
            accepted.close()
            raise BlockingIOError
        return accepted, peer


class _Accepted(socket.socket):
    listener: _Listener | None = None

    def close(self) -> None:
        if self.listener is not None:
            self.listener.open -= 1
            self.listener = None
        super().close()


def _bind(place: Place, port: int, most: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's algorithm off only then: without it each answer takes 40 ms.
    listener = _Listener(place.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.most = most
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address = socket.getaddrinfo(place.address, port, place.family, socket.SOCK_STREAM)[0][4]
        listener.bind(address)
    except OSError as e:
        listener.close()
        raise TicError(
            f"cannot listen on {place.address} port {port}: {e.strerror}",
            "name an address of this machine, or auto; port 0 lets the system choose",
        ) from e
    return listener


class _Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, but for those who connect and never finish their TLS handshake."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        return await super().create_server(*args, **options)


class _Server(uvicorn.Server):
    """uvicorn, but woken by an event instead of ten times a second: an idle daemon must cost nothing."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Event | None = None

    def serve_here(self, listener: socket.socket) -> None:
        """The thread's body."""
        try:
            with asyncio.Runner(loop_factory=_Loop) as runner:
                runner.run(self.serve(sockets=[listener]))
        except Exception:
            log.exception("the live endpoint ended")
        finally:
            listener.close()
            self.up.set()

    def leave(self) -> None:
        """From another thread: stop accepting, end open requests, return from `serve_here`."""
        self.should_exit = True
        if self._loop is not None and self._leaving is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._leaving.set)

    async def main_loop(self) -> None:
        self._loop, self._leaving = asyncio.get_running_loop(), asyncio.Event()
        self.up.set()
        if not self.should_exit:
            await self._leaving.wait()


_FULL = b'{"error": "too many connections", "hint": "try again"}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


def _protocol(limits: Limits) -> type[H11Protocol]:
    class Protocol(H11Protocol):
        """HTTP/1.1 that refuses connections beyond a number, and drops silent ones: each costs a descriptor."""

        _watch: asyncio.TimerHandle | None = None
        _last: object = None
        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > 2 * limits.connections:
                transport.abort()
                return
            self._refused = len(self.connections) > limits.connections
            self._rearm()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._watch is not None:
                self._watch.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if not self._refused:
                super().data_received(data)
            elif not self.transport.is_closing():  # only now, as what is not read makes the system take the answer back
                self.transport.write(_FULL)
                self.transport.close()

        def _rearm(self) -> None:
            self._watch = self.loop.call_later(1.0 if self._refused else limits.silent_s, self._drop_if_silent)

        def _drop_if_silent(self) -> None:
            if self._refused or self.transport.is_closing():  # its client takes nothing, so that it never gets closed
                self.transport.abort()
                return
            between = self.cycle is None or self.cycle.response_complete
            if between and self._last is self.cycle:
                self.transport.abort()
                return
            self._last = self.cycle if between else object()
            self._rearm()

    return Protocol
