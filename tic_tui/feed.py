"""The feed: two threads between a reader and the screen. It posts whole frozen views, and nobody waits for it.

    listener   asks the reader for news in long polls, and leaves them in a slot
    feed       asks what the screen in front needs, when news came or something else is to be shown, and posts it

The event loop never waits for them, and they never wait for the event loop: `show` leaves a demand in a slot, `post`
hands a message to the pump, where a newer one replaces one that still waits.

    pending ──open──> connected ──error──> disconnected (retry in N s) ──open──> connected ...

A screen that shows a quiet store asks nothing but the long poll. Only states that turn by time alone (moving, quiet,
silent) are looked at again, the less often the longer nothing came.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from textual.message import Message

from tic_tui.messages import FindingsFetched, Link, LinkChanged, MarksSeen, QueryFailed, SidesFetched
from tic_tui.model import Demand
from tic_tui.safe import safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Connection, Reader, Tail
    from tic_tui.desk import Desk
    from tic_tui.reading import Ask

Opener = Callable[[str], "Reader"]

FAST_S: Final = 0.25  # repaint at most four times a second
SLICE_S: Final = 0.2  # of work that can go on later, before what is done is shown
POLL_S: Final = 25.0
RECHECK_S: Final = (2.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)  # after the last news
RETRY_S: Final = (1, 2, 4, 8, 15)
FAILED_S: Final = 1.0  # a query that failed is tried again
SPARE: Final = 100


def _open(target: str) -> Reader:
    # duckdb and pyarrow come in here, in the feed's thread, after the first paint.
    from tic_daemon.store.reader import open_reader  # noqa: PLC0415

    return open_reader(target)


class Feed:
    """Reads for the screen.

    Args:
        target: what `open_reader` takes.
        post: hands a message to the app; thread-safe, does not wait.
        opener: makes a reader; a test gives its own.
    """

    def __init__(self, target: str, post: Callable[[Message], Any], opener: Opener = _open) -> None:
        self._target = target
        self._post = post
        self._opener = opener
        self._wake = threading.Condition()
        self._demand = Demand()
        self._asked = True  # a reading is due whatever came
        self._poked = False  # and nothing that is held counts
        self._stopped = False
        self._sought: tuple[str, ...] = ()  # marks that no reading has shown yet
        self._seen: frozenset[str] = frozenset()
        self._step: tuple[str, str, int] | None = None  # a step that is asked for in all sources
        self._named: tuple[str, tuple[str, ...]] = ("", ())  # the run, and findings of it that are asked for by name
        self._reader: Reader | None = None
        self._link = Link()
        self._thread = threading.Thread(target=self._run, name="tic-feed", daemon=True)

    def start(self) -> None:
        """Starts the thread; call it after the first paint."""
        self._thread.start()

    def show(self, demand: Demand) -> None:
        """Says what is on the screen now; read at once if it differs."""
        with self._wake:
            if demand != self._demand:
                self._demand = demand
                self._asked = True
                self._wake.notify_all()

    def seek(self, mark_id: str) -> None:
        """Reads all of it at once, since a mark was written, and looks for the mark until the store shows it.

        The view in front need not show marks, so `MarksSeen` says when it is there.
        """
        with self._wake:
            self._sought += (mark_id,)
            self._asked = self._poked = True
            self._wake.notify_all()

    def look_up(self, run_id: str, ids: tuple[str, ...]) -> None:
        """Asks for findings of a run by their names; `FindingsFetched` brings them."""
        with self._wake:
            self._named, self._asked = (run_id, ids), True
            self._wake.notify_all()

    def look_at_step(self, run_id: str, axis: str, step: int) -> None:
        """Asks for one step in all sources; `SidesFetched` brings it."""
        with self._wake:
            self._step, self._asked = (run_id, axis, step), True
            self._wake.notify_all()

    def stop(self, timeout: float = 1.0) -> None:
        """Ends the threads; a query that runs is interrupted."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        reader = self._reader
        if reader is not None:
            reader.interrupt()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            try:
                self._reader = reader = self._opener(self._target)
                self._session(reader)
                failures = 0
            except Exception as error:  # noqa: BLE001  whatever a reader raises, the screen goes on and says so
                if self._stopped:
                    break
                wait = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures = 0 if self._link.state == "connected" else failures + 1
                self._lost(error, wait)
                with self._wake:
                    self._asked = True
                    if not self._stopped:
                        self._wake.wait(wait)
            finally:
                self._close()
        self._close()

    def _session(self, reader: Reader) -> None:
        """Reads until the reader fails."""
        from tic_tui.desk import Desk  # noqa: PLC0415  imports the reader's module
        from tic_tui.reading import Ask  # noqa: PLC0415

        # Before anything is read: so what comes in between is news, and not missed.
        tail = reader.tail()
        standing = tail.standing
        self._say(_link(reader.connection(), self._link))
        listener = Listener(reader, tail, self._wake, lambda: wanted(self._demand))
        listener.start()
        desk = Desk(reader)
        poked = True
        quiet_since, rechecks, failed = time.monotonic(), 0, False
        try:
            while not self._stopped:
                with self._wake:
                    poked, self._poked, self._asked = self._poked, False, False
                    demand = self._demand
                came = listener.take()
                began = time.monotonic()
                if came is not None:
                    standing, quiet_since, rechecks = came.standing, began, 0
                fresh = rechecks < len(RECHECK_S) and began - quiet_since >= RECHECK_S[rechecks]
                rechecks += fresh
                news = None if poked or failed else desk.news(came)
                failed = self._read(desk, Ask(demand, standing, news, began + SLICE_S, fresh or poked))
                self._say(_link(reader.connection(), self._link))
                recheck = quiet_since + RECHECK_S[rechecks] if rechecks < len(RECHECK_S) else math.inf
                if failed:
                    recheck = min(recheck, time.monotonic() + FAILED_S)
                # A slow store is asked less often: at most half of the time goes into asking.
                pause = max(FAST_S, time.monotonic() - began)
                self._rest(listener, began + pause, recheck, busy=not desk.complete and not failed)
        finally:
            listener.stop()

    def _read(self, desk: Desk, ask: Ask) -> bool:
        """One reading of what is on the screen. True: a query failed, while the connection holds."""
        try:
            message = desk.message(ask)
            self._look_for_marks(desk.reader)
            self._look_for_findings(desk.reader)
            self._look_for_step(desk.reader)
        except Exception as error:
            if self._stopped or desk.reader.connection().state != "connected":
                raise
            self._post(QueryFailed(safe(_first_line(error))))
            return True
        self._post(message)
        return False

    def _look_for_marks(self, reader: Reader) -> None:
        with self._wake:
            sought = self._sought
        if not sought:
            return
        from tic_tui import queries  # noqa: PLC0415  not before the first paint

        seen = queries.marks_there(reader, sought)
        if seen:
            with self._wake:
                self._sought = tuple(mark_id for mark_id in self._sought if mark_id not in seen)
            self._seen |= seen
            self._post(MarksSeen(self._seen))

    def _look_for_findings(self, reader: Reader) -> None:
        with self._wake:
            (run_id, ids), self._named = self._named, ("", ())
        if ids:
            from tic_tui import queries  # noqa: PLC0415  not before the first paint

            self._post(FindingsFetched(ids, queries.findings_named(reader, run_id, ids)))

    def _look_for_step(self, reader: Reader) -> None:
        with self._wake:
            wanted_step, self._step = self._step, None
        if wanted_step is not None:
            from tic_tui import histories  # noqa: PLC0415  not before the first paint

            self._post(SidesFetched(wanted_step[2], histories.sides(reader, *wanted_step)))

    def _rest(self, listener: Listener, not_before: float, recheck: float, *, busy: bool) -> None:
        """Waits for something to do. News are held back until `not_before`; another demand is not."""
        with self._wake:
            while not self._stopped and not self._asked:
                now = time.monotonic()
                due = now if busy else min(not_before, recheck) if listener.waiting else recheck
                if due <= now:
                    return
                self._wake.wait(min(due - now, 3600.0))

    def _lost(self, error: Exception, wait: int) -> None:
        hint = safe(getattr(error, "hint", "") or "")
        link = Link("disconnected", self._link.kind, _now(), wait, safe(_first_line(error)), hint, safe(self._target))
        self._say(link)

    def _say(self, link: Link) -> None:
        if link != self._link:
            self._link = link
            self._post(LinkChanged(link))

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class Listener:
    """A thread that asks for news. It asks again only when the last ones were taken.

    Args:
        tail: the position to listen from. wake: told when there are news. limit: how many rows are wanted now.
    """

    def __init__(self, reader: Reader, tail: Tail, wake: threading.Condition, limit: Callable[[], int]) -> None:
        self._reader = reader
        self._last = tail
        self._wake = wake
        self._limit = limit
        self._stopped = False
        self._held: Tail | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tic-listener", daemon=True)

    def start(self) -> None:
        """Begins to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; a poll that waits is left to end by itself when the reader is closed."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    @property
    def waiting(self) -> bool:
        """There is something to take. Called with the condition held."""
        return self._held is not None or self._error is not None

    def take(self) -> Tail | None:
        """What came, if anything did.

        Raises:
            Exception: whatever the poll raised.
        """
        with self._wake:
            held, self._held = self._held, None
            if self._error is not None:
                raise self._error
            self._wake.notify_all()
        return held

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                tail = self._reader.tail(self._last.position, wait_s=POLL_S, limit=self._limit())
            except Exception as error:  # noqa: BLE001  the feed raises it where it handles the connection
                with self._wake:
                    self._error = error
                    self._wake.notify_all()
                return
            news = (tail.position, tail.standing) != (self._last.position, self._last.standing)
            self._last = tail
            with self._wake:
                if news:
                    self._held = tail
                    self._wake.notify_all()
                elif time.monotonic() - began < FAST_S:
                    self._wake.wait(FAST_S)  # a reader that does not wait
                while self._held is not None and not self._stopped:
                    self._wake.wait()
                if self._stopped:
                    return


def wanted(demand: Demand) -> int:
    """How many new rows are of use at a time: a window of the newest ones can be made of as many as it shows."""
    follows = demand.anchor is None and demand.screen in {"run", "mismatches"} and not any(f.on for f in demand.filters)
    return 2 * demand.rows + SPARE if follows else SPARE


def _link(now: Connection, before: Link) -> Link:
    """A connection as the screen shows it. `since` is when the screen saw it become so."""
    held = (before.state, before.kind) == (now.state, now.kind)
    stores = {link.target: link for link in before.stores}
    return Link(
        state=now.state,
        kind=now.kind,
        since=before.since if held else _now(),
        detail=safe(now.detail),
        hint=safe(now.hint),
        target=safe(now.target),
        data_at=now.data_at,
        stores=tuple(_link(store, stores.get(safe(store.target), Link())) for store in now.stores),
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def _now() -> datetime:
    return datetime.now(UTC)
