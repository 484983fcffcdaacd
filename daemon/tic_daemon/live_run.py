"""Who may run a query in the daemon, and for how long: four places, a deadline, and an end when the client is gone.

Whatever a route asks of the store goes through here, so that all clients together never run more than four queries.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
from starlette.responses import JSONResponse

from tic_daemon.store.bounded import Ask, BoundedSelect, Rows, Stopped
from tic_daemon.store.sqlguard import SqlError, SqlRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive

T = TypeVar("T")


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
    connections: int = 128
    waiting: int = 96  # long polls at a time, so that connections are left for queries
    wait_s: float = 60.0  # the longest of them
    ring_rows: int = 5000  # newest records kept for them
    ring_bytes: int = 16 << 20
    view_queries: int = 2  # of the places, for whole views
    view_s: float = 60.0
    view_bytes: int = 256 << 20  # one answer, on disk
    view_disk: int = 1 << 30  # all of them
    view_files: int = 64


class Refusal(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, error: str, hint: str = "", **headers: str) -> None:
        super().__init__(error)
        self.status = status
        self.response = JSONResponse(
            {"error": error, "hint": hint}, status, {name.replace("_", "-"): value for name, value in headers.items()}
        )


class Runner:
    """Runs queries in threads of their own. All but `stop_all` is for the event loop alone.

    Args:
        connect: gives a new cursor on the store, private to one query; called in the query's thread.
        spool: the marks to overlay, see store/spool.py.
    """

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        limits: Limits,
        *,
        spool: Callable[[], str | None] | None = None,
    ) -> None:
        self._connect, self._spool = connect, spool
        self._limits = limits
        self._places = asyncio.Semaphore(limits.queries)
        self._running: set[BoundedSelect[Any]] = set()
        self._pushing: set[asyncio.Future[None]] = set()
        self._stopping = False

    def stop_all(self, wait_s: float = 2.0) -> None:
        """Ends every running query, begins no other; from any thread. Returns when all ended, or after `wait_s`."""
        self._stopping = True
        deadline = time.monotonic() + wait_s
        while self._running and time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # the set changed under us: look again
                for query in tuple(self._running):
                    query.stop()
            time.sleep(0.02)

    async def run(
        self, ask: Ask, consume: Callable[[Rows], T], deadline: float, gone: asyncio.Future[None] | None = None
    ) -> T | None:
        """What `consume` makes of the rows; None if the client left (`gone` is done).

        The query's place comes back when its thread ends, not when we stop waiting for it.

        Raises:
            Refusal: with what went wrong. Whatever `consume` raises.
        """
        if not await self._place(deadline, gone):
            return None
        if self._stopping:
            self._places.release()
            raise _stopping()
        query = BoundedSelect(self._connect, ask, consume, spool=self._spool)
        done = self._launch(query)
        await first(deadline, done, gone)
        if not done.done():
            pushing = asyncio.ensure_future(_push(query))
            self._pushing.add(pushing)  # the loop itself keeps only weak references to tasks
            pushing.add_done_callback(self._pushing.discard)
            if gone is not None and gone.done():
                return None
            # A moment for the query to notice; it may also be done just now.
            await asyncio.wait({done}, timeout=0.5)
            if not done.done() or isinstance(done.exception(), Stopped):
                raise Refusal(408, f"the query ran longer than {ask.timeout_s:g} s", "narrow it, or give timeout_s")
        try:
            return done.result()
        except Stopped:
            if gone is not None and gone.done():
                return None
            raise _stopping() from None
        except SqlRefused as e:
            raise Refusal(403, e.what, e.hint) from None
        except SqlError as e:
            raise Refusal(400, e.what, e.hint) from None
        except duckdb.OutOfMemoryException:
            raise Refusal(413, "the query needs more memory than the daemon allows", "aggregate or narrow it") from None
        except duckdb.Error as e:
            raise Refusal(503, f"the store cannot be read now: {str(e)[:300]}", Retry_After="2") from None

    async def _place(self, deadline: float, gone: asyncio.Future[None] | None) -> bool:
        """One of the four places, or False if the client left while it waited."""
        taking: asyncio.Future[Any] = asyncio.ensure_future(self._places.acquire())
        try:
            await first(deadline, taking, gone)
        except asyncio.CancelledError:
            await self._give_up(taking)
            raise
        if taking.done():
            return True
        await self._give_up(taking)
        if gone is not None and gone.done():
            return False
        raise Refusal(503, f"{self._limits.queries} queries run already", "try again", Retry_After="1")

    async def _give_up(self, taking: asyncio.Future[Any]) -> None:
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            if await taking:  # it came in the same turn of the loop
                self._places.release()

    def _launch(self, query: BoundedSelect[T]) -> asyncio.Future[T]:
        """Runs the query in a thread. A daemon thread: a query that DuckDB will not stop must keep no process alive."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._running.add(query)

        def settle(result: list[T], error: Exception | None) -> None:
            self._places.release()
            self._running.discard(query)
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
                done.exception()  # marked as seen: its request may be gone
            else:
                done.set_result(result[0])

        def work() -> None:
            result, error = [], None
            try:
                result = [query.run()]
            except Exception as e:  # noqa: BLE001 -- handed to the request, which knows what to say
                error = e
            with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon is stopping
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name="tic-sql", daemon=True).start()
        return done


def _stopping() -> Refusal:
    return Refusal(503, "the daemon is stopping", Retry_After="5")


async def first(deadline: float, *futures: asyncio.Future[Any] | None) -> None:
    """Waits for the first of the futures that are there, until `deadline` (monotonic)."""
    waited = {future for future in futures if future is not None}
    await asyncio.wait(waited, timeout=max(0.0, deadline - time.monotonic()), return_when="FIRST_COMPLETED")


async def until_gone(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _push(query: BoundedSelect[Any]) -> None:
    """Stops a query, again and again, as an interrupt that comes between two statements is lost."""
    while not query.ended:
        query.stop()
        await asyncio.sleep(0.05)
