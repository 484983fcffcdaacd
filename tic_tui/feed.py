"""The feed: one thread that asks the reader for what is on the screen, and posts whole frozen views.

The event loop never waits for it, and it never waits for the event loop: `show` leaves a demand in a slot, `post` hands
a message to the pump, where a newer one replaces one that still waits.

    pending ──open──> connected ──error──> disconnected (retry in N s) ──open──> connected ...

Live, a cheap pulse is asked and the rest only when it changed, when the demand changed, or every ten seconds (a run
becomes silent without any new row). From a file, the reader is closed after each reading, so that a daemon can take the
file, and opened again when the directory entries change; then a daemon that came back is found too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from textual.message import Message

from tic_daemon.store.fingerprint import Fingerprint, fingerprint
from tic_tui.messages import Link, LinkChanged, QueryFailed, RunFetched, RunsFetched
from tic_tui.model import Demand
from tic_tui.safe import safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

Opener = Callable[[str], "Reader"]

FAST_S: Final = 0.25  # repaint at most four times a second
CALM_S: Final = 0.5  # after a minute without a change
RECHECK_S: Final = 10.0  # states that turn by time alone
FILE_S: Final = 1.0
RETRY_S: Final = (1, 2, 4, 8, 15)


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
        self._asked = True  # a reading is due whatever the pulse says
        self._stopped = False
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
                self._wake.notify()

    def poke(self) -> None:
        """Reads at once, for example after a mark was written."""
        with self._wake:
            self._asked = True
            self._wake.notify()

    def stop(self, timeout: float = 1.0) -> None:
        """Ends the thread; a query that runs is interrupted."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
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
                self._say(Link("disconnected", self._link.kind, _now(), wait, safe(_first_line(error))))
                with self._wake:
                    if not self._stopped:
                        self._wake.wait(wait)
            finally:
                self._close()
        self._close()

    def _session(self, reader: Reader) -> None:
        """Reads until the reader fails or, from a file, until the file's directory entries change."""
        from tic_tui.queries import Newest, pulse  # noqa: PLC0415  imports the reader's module

        kind = reader.connection().kind
        newest = Newest()
        beat: tuple[Any, ...] | None = None
        last_change = last_read = 0.0
        before: Fingerprint = fingerprint(self._target)
        failed = ""
        while not self._stopped:
            began = time.monotonic()
            with self._wake:
                asked, self._asked, demand = self._asked, False, self._demand
            now_beat = pulse(reader)
            held = self._link.state == "connected" and self._link.kind == kind
            self._say(Link("connected", kind, self._link.since if held else _now()))
            if now_beat != beat:
                last_change = began
            if asked or now_beat != beat or began - last_read >= RECHECK_S or failed:
                beat, last_read = now_beat, began
                failed = self._read(reader, newest, demand)
            took = time.monotonic() - began
            if kind == "file":
                self._close()
                self._until_changed(before)
                return
            # A slow store is asked less often: at most half of the time goes into asking.
            self._rest(max(FAST_S if began - last_change < 60 else CALM_S, took))

    def _read(self, reader: Reader, newest: Any, demand: Demand) -> str:
        """One reading of what is on the screen. Returns what went wrong with a query, or "" ."""
        from tic_tui.queries import one_run, run_view, runs_view  # noqa: PLC0415

        try:
            if demand.screen == "runs" or demand.run_id is None:
                self._post(RunsFetched(runs_view(reader, newest, _now())))
            else:
                run = one_run(reader, demand.run_id)
                seen = None if run is None else run_view(reader, run, demand, _now())
                self._post(RunFetched(demand.run_id, seen))
        except Exception as error:
            if reader.connection().state != "connected":
                raise
            text = _first_line(error)
            self._post(QueryFailed(safe(text)))
            return text
        return ""

    def _until_changed(self, before: Fingerprint) -> None:
        """Waits, with the file closed, until it changes or something else is to be shown."""
        while not self._stopped:
            self._rest(FILE_S)
            if self._asked or fingerprint(self._target) != before:
                return

    def _rest(self, seconds: float) -> None:
        with self._wake:
            if not self._stopped and not self._asked:
                self._wake.wait(seconds)

    def _say(self, link: Link) -> None:
        if link != self._link:
            self._link = link
            self._post(LinkChanged(link))

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def _now() -> datetime:
    return datetime.now(UTC)
