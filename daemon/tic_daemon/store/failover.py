"""One store, however it can be reached: its daemon's endpoint, what the daemon published, or the file.

    somebody owns the store (owner.json)
        live        the endpoint answers
        snapshot    it does not: what was published last, and a thread asks for the endpoint now and then
    nobody owns it
        file        if it can be opened here
        snapshot    if it lies on another host, or is older than what was published

A file that another host owns is never opened. No query waits for a connection that was found broken: after the first
failure only the thread tries, with growing pauses, and at once when the daemon's files change. A wrong query is no
reason to go elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tic_daemon.errors import ConnectError, StoreError, StoreVersionError, TicError
from tic_daemon.store import reach
from tic_daemon.store.layout import StoreLayout, read_json
from tic_daemon.store.owner import Process, live_owner, take_over_command
from tic_daemon.store.reader import MAX_ROWS, TAIL_ROWS, TIMEOUT_S, Connection, Reader, Result, Tail
from tic_daemon.store.sqlguard import SqlError, SqlRefused

LOOK_S = 1.0
"""How often owner.json is looked at."""
PATIENCE_S, TAIL_PATIENCE_S = 2.0, 5.0
"""After so long without an answer to a query, or without news, the daemon is asked whether it lives at all."""
PROBE_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between two attempts to reach an endpoint that could not be reached."""
SLICE_S = 2.0
"""How long a snapshot or a file is waited for before owner.json is looked at again."""
TRIES = 4

Kind = Literal["live", "snapshot", "file"]
Opener = Callable[[StoreLayout], Reader]


@dataclass(frozen=True, slots=True)
class Openers:
    """How each kind of source is opened. `live` raises ConnectError if the endpoint does not answer at once, the others
    StoreError or ConnectError if there is nothing to read."""

    live: Opener = reach.open_live
    snapshot: Opener = reach.open_snapshot
    file: Opener = reach.open_file


@dataclass(frozen=True, slots=True)
class Source:
    """What is read now. `number` counts the sources of a reader: positions in another one mean nothing."""

    number: int
    kind: Kind
    reader: Reader


@dataclass(frozen=True, slots=True)
class Refused:
    """The better place of an ended store that could not be opened, as it lay there."""

    error: TicError
    written_at: float
    tried_at: float

    def stands(self, written_at: float) -> bool:
        """Whether there is no reason to try again yet, while something else can be read."""
        return written_at == self.written_at and time.monotonic() - self.tried_at < PROBE_S[-1]


class FailoverReader:
    """A `Reader` of one store that goes where the store can be read, and back. Opens nothing until it is asked."""

    def __init__(self, layout: StoreLayout, openers: Openers | None = None) -> None:
        self._layout = layout
        self._openers = openers or Openers()
        self._lock = threading.RLock()
        self._source: Source | None = None
        self._number = 0
        self._trouble: ConnectError | None = None  # why the endpoint is not read though somebody owns the store
        self._lease: Process | None = None  # of a daemon that ended without giving the store up
        self._refused: Refused | None = None  # of a store that nobody owns: why what is read is not the best of it
        self._failed: TicError | None = None  # why nothing at all can be read
        self._since = _utcnow()
        self._looked = float("-inf")
        self._prober: threading.Thread | None = None
        self._interrupts = 0
        self._closed = threading.Event()

    def open(self) -> None:
        """Finds out at once whether the store can be read.

        Raises:
            StoreError, StoreVersionError, ConnectError: it cannot.
        """
        self._now()

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MAX_ROWS,
        timeout_s: float = TIMEOUT_S,
        gather: str = "",  # one store: there is nothing to gather
    ) -> Result:
        """See `Reader.query`."""
        tries = 0
        while True:
            source = self._now()
            try:
                with self._patience(source, PATIENCE_S):
                    return source.reader.query(sql, params, as_of=as_of, max_rows=max_rows, timeout_s=timeout_s)
            except TicError as error:
                tries += 1
                if tries == TRIES or not self._left(source, error):
                    raise

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`. Another source has another standing: what was read before may read differently."""
        deadline = time.monotonic() + wait_s
        interrupts = self._interrupts
        number, _, inner = after.partition(":")
        tries = 0
        while True:
            source = self._now()
            here = number == str(source.number)
            left = max(0.0, deadline - time.monotonic()) if here else 0.0
            wait = left if source.kind == "live" else min(left, SLICE_S)
            try:
                with self._patience(source, TAIL_PATIENCE_S):
                    told = source.reader.tail(inner if here else "", wait_s=wait, limit=limit)
            except TicError as error:
                tries += 1
                if tries == TRIES or not self._left(source, error):
                    raise
                continue
            position = f"{source.number}:{told.position}"
            if position != after or time.monotonic() >= deadline or self._interrupts != interrupts:
                return replace(told, position=position, standing=f"{source.number}:{told.standing}")

    def connection(self) -> Connection:
        """See `Reader.connection`."""
        source, trouble, failed = self._source, self._trouble, self._failed
        if source is None:
            state: Literal["pending", "disconnected"] = "pending" if failed is None else "disconnected"
            what, hint = ("", "") if failed is None else (failed.what, failed.hint)
            return Connection("live", state, self._since, what, str(self._layout.directory), hint=hint)
        told = source.reader.connection()
        if source.kind == "snapshot" and trouble is not None:
            return replace(told, detail=trouble.what, hint=trouble.hint)
        refused = self._refused
        if refused is not None and source.kind == "snapshot" and self._written_at("file"):
            return replace(told, detail=refused.error.what, hint=refused.error.hint, unreadable=True)
        lease = self._lease
        if source.kind == "snapshot" and lease is not None:
            what = f"pid {lease.pid} on {lease.host} ended without closing {self._layout.directory.name}"
            return replace(
                told, detail=f"{what}: what came after its last snapshot is not read",
                hint=take_over_command(self._layout.state_dir) + f"   on {lease.host} reads the rest",
            )  # fmt: skip
        if refused is not None:
            return replace(told, detail=refused.error.what, hint=refused.error.hint)
        return told

    def interrupt(self) -> None:
        """See `Reader.interrupt`."""
        self._interrupts += 1
        source = self._source
        if source is not None:
            source.reader.interrupt()

    def close(self) -> None:
        """See `Reader.close`."""
        self._closed.set()
        source = self._source
        if source is not None:
            source.reader.close()

    # --- where it is read ---------------------------------------------------------------------------------------------

    def _now(self) -> Source:
        """The source to ask now.

        Raises:
            StoreError, ConnectError: there is none.
        """
        with self._lock:
            if self._closed.is_set():
                raise ConnectError(f"the reader of {self._layout.directory} is closed", "open another one")
            source = self._source
            if source is not None and time.monotonic() - self._looked < LOOK_S:
                return source
            self._looked = time.monotonic()
            self._layout = StoreLayout.of(self._layout.directory) or self._layout  # store.json may have come
            try:
                found = self._found(source)
            except TicError as error:
                self._use(None)
                if self._failed is None or self._failed.what != error.what:
                    self._failed, self._since = error, _utcnow()
                raise
            self._failed = None
            return found

    def _found(self, source: Source | None) -> Source:
        try:
            owner = live_owner(self._layout.owner_file)
            return self._free(source) if owner is None else self._owned(source)
        except OSError as error:  # another user's directory, a file system that fails
            why = error.strerror or str(error)
            raise StoreError(f"{self._layout.directory} cannot be read: {why}", "may you read it?") from error

    def _owned(self, source: Source | None) -> Source:
        """Of a store that somebody owns: live, else the snapshot. Never the file."""
        self._refused = None
        if source is not None and source.kind == "live":
            return source
        if self._trouble is None:
            try:
                return self._use("live", self._openers.live(self._layout))
            except ConnectError as error:
                self._lost(error)
        if source is not None and source.kind == "snapshot":
            return source
        self._use(None)
        try:
            return self._use("snapshot", self._openers.snapshot(self._layout))
        except StoreVersionError:
            raise
        except (StoreError, ConnectError) as error:
            assert self._trouble is not None  # noqa: S101  set above
            raise ConnectError(f"{self._trouble.what}; {error.what}", self._trouble.hint) from error

    def _free(self, source: Source | None) -> Source:
        """Of a store that nobody owns: the file, or what was published last if that is newer or all there is."""
        self._trouble = None
        self._lease = Process.read(self._layout.owner_file)
        first: TicError | None = None
        kinds = self._places()
        for kind in kinds:
            if source is not None and source.kind == kind:
                return source
            refused, mark = self._refused, self._written_at(kind)
            if source is not None and refused is not None and refused.stands(mark):
                continue
            try:
                opener = self._openers.file if kind == "file" else self._openers.snapshot
                reader = opener(self._layout)
            except (StoreError, ConnectError) as error:
                self._refused = Refused(error, mark, time.monotonic())
                first = first or error
                continue
            if kind == kinds[0]:
                self._refused = None
            return self._use(kind, reader)
        self._use(None)
        raise first or StoreError(
            f"the store {self._layout.directory} has no file here",
            f"its live file is on {self._layout.host}: look there",
        )

    def _places(self) -> list[Kind]:
        """Where a store that nobody owns can be read, the best first."""
        layout = self._layout
        whole, published = self._written_at("file"), self._written_at("snapshot")
        found: list[Kind] = ["file"] if whole else []
        if published:
            # A file whose live one lies on another host is that one's copy at its last orderly end.
            copied = layout.database == layout.published and bool(read_json(layout.pointer_file).get("database"))
            found.insert(0 if copied and published > whole else len(found), "snapshot")
        return found

    def _written_at(self, kind: Kind) -> float:
        """When the file or the snapshot was written last; 0 if there is none."""
        return _written(self._layout.readable_database if kind == "file" else reach.manifest_file(self._layout))

    def _use(self, kind: Kind | None, reader: Reader | None = None) -> Source:
        """Goes over to another source; None: to nothing for now."""
        old = self._source
        self._source = source = None if kind is None or reader is None else Source(self._number + 1, kind, reader)
        if source is not None:
            self._number = source.number
            if kind == "live":
                self._trouble = None
        if old is not None:  # who waits for it finds that it was left, and asks again
            old.reader.interrupt()
            old.reader.close()
        return source  # type: ignore[return-value]

    def _left(self, source: Source, error: TicError) -> bool:
        """Whether the question can be asked again, elsewhere."""
        with self._lock:
            if self._closed.is_set() or isinstance(error, StoreVersionError):
                return False
            if self._source is not source:
                return True  # it was left while it was asked; the error is of that
            if isinstance(error, SqlError | SqlRefused):
                return False
            if source.kind == "live":
                if not isinstance(error, ConnectError):
                    return False  # it answers, if not this
                self._lost(error)
            self._use(None)
            self._looked = float("-inf")
            return True

    # --- the endpoint -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _patience(self, source: Source, patience_s: float) -> Iterator[None]:
        """While a daemon owes an answer, asks every few seconds whether it lives: one that was stopped never breaks its
        connections."""
        if source.kind != "live":
            yield
            return
        done = threading.Event()
        timer = threading.Timer(patience_s, self._doubt, (source, done, patience_s))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            done.set()
            timer.cancel()

    def _doubt(self, source: Source, done: threading.Event, patience_s: float) -> None:
        while not done.is_set() and self._source is source:
            try:
                self._openers.live(self._layout).close()
            except ConnectError as error:
                with self._lock:
                    if self._source is source:
                        self._lost(error)
                        self._use(None)
                        self._looked = float("-inf")
                return
            done.wait(patience_s)

    def _lost(self, error: ConnectError) -> None:
        """Remembers that the endpoint cannot be reached, and sees to it that it is asked for. Lock held."""
        self._trouble = reach.explained(self._layout, error)
        if self._prober is None:
            name = f"tic-probe-{self._layout.directory.name}"
            self._prober = threading.Thread(target=self._probe, name=name, daemon=True)
            self._prober.start()

    def _probe(self) -> None:
        """Asks for the endpoint until it answers, nobody owns the store any more, or the reader is closed."""
        failures = 0
        while True:
            self._rest(PROBE_S[min(failures, len(PROBE_S) - 1)])
            layout = StoreLayout.of(self._layout.directory) or self._layout
            reader, error = None, None
            if not self._closed.is_set() and live_owner(layout.owner_file) is not None:
                try:
                    reader = self._openers.live(layout)
                except ConnectError as failure:
                    error = reach.explained(layout, failure)
            with self._lock:
                if error is not None and self._trouble is not None:
                    self._trouble = error
                    failures += 1
                    continue
                self._prober = None
                if reader is None:
                    self._looked = float("-inf")  # the file may be read now
                elif self._closed.is_set() or self._trouble is None:
                    reader.close()
                else:
                    self._use("live", reader)
                    self._failed = None
                self._trouble = None
                return

    def _rest(self, seconds: float) -> None:
        """Waits, no longer than until the daemon's files change: it was started anew, or ended."""
        before = self._marks()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._closed.wait(min(0.5, left)):
            if self._marks() != before:
                return

    def _marks(self) -> tuple[object, ...]:
        return tuple(_mark(path) for path in (self._layout.owner_file, self._layout.daemon_file))


def _mark(path: Path) -> tuple[int, int] | None:
    """Which file lies there, and its change; owner.json is touched by the heartbeat, which changes nothing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, 0 if path.name == "owner.json" else stat.st_mtime_ns


def _written(path: Path) -> float:
    """When a file was written last; 0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
