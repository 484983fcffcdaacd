"""Faults between nodes: what this store's daemon derived is told to all others, and what they derived comes in here.

    Teller     appends to this store's own files what its derivation says of its faults and runs (exchange_lines.py)
    Listener   reads the files of the other stores
    Exchange   both, as the daemon's main loop uses them

The directory may be on a network mount that hangs, so each has a thread of its own, and neither the tail nor a commit
waits for one. Only a store's own lines are told: what was heard is never told on, so nothing goes round in circles.

Nothing depends on being told or heard just once. The teller holds what the store says against what its files say,
also after a restart, and appends what is missing. The listener begins at the start of each file after a restart, and
the writer leaves out what is in the store already.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.store.exchange_lines import (
    FAULTS_DIR,
    LINE_BYTES,
    Row,
    directory_name,
    fitted,
    parse_line,
    store_of,
    to_line,
)
from tic_daemon.store.layout import StoreLayout, make_private_dir
from tic_daemon.store.rows import RemoteFaultRow, RemoteGapRow, RemotePlaceRow

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)

LISTEN_S = 0.5
"""How often the directory is looked at."""
RETRY_S = 2.0
CHECK_S = 30.0
"""How often it is made sure that this store's own files are still there."""
PASS_BYTES = 4 << 20
STORE_BYTES = 512 << 20
"""More than this is not read of one store: it is said, and the rest is left."""
WAITING_ROWS = 50_000
HOT_S = 600.0
COLD_DIRECTORIES = 50
"""Directories that have been quiet for `HOT_S` are looked at in turn, so many a look."""
STALLED_S = 30.0


def faults_dir(layout: StoreLayout) -> Path:
    """Where the stores of a workspace tell each other of faults."""
    return layout.state_dir / FAULTS_DIR


def what_it_says(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """What the store tells others now: its confirmed faults that act or may act elsewhere, its runs by name, the GPUs
    that they use and when their attempts began. Revisions are 0."""
    places = [RemotePlaceRow(*row) for row in con.execute("SELECT * FROM i_tell_place").fetchall()]
    faults = [RemoteFaultRow(*row) for row in con.execute("SELECT * FROM i_tell_fault").fetchall()]
    rows: list[Row] = [*places, *faults]
    return [fitted(row) for row in rows]


class Teller:
    """This store's own files.

    Args:
        cursor: a connection to the store for one look at it; closed afterwards.
    """

    def __init__(self, layout: StoreLayout, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._directory = faults_dir(layout)
        self._name = f"{layout.directory.name}.jsonl"
        self._store_id = layout.store_id
        self._cursor = cursor
        self._told: dict[tuple[object, ...], Row] | None = None  # None: what the files say is to be read
        self._sizes: dict[Path, int] = {}

    def tell(self) -> None:
        """Appends what the files do not say yet. Raises OSError; what was not written is written next time."""
        if self._told is None:
            self._told = {row.key: row for row in self._read_own()}
        con = self._cursor()
        try:
            said = {row.key: row for row in what_it_says(con)}
        finally:
            con.close()
        told = self._told
        news = [row for key, row in said.items() if key not in told or replace(told[key], revision=0) != row]
        gone = [row for key, row in told.items() if key not in said and not row.gone]
        # First what holds now: a reader between the two sees a fault twice rather than not at all.
        refused = self._append([replace(row, revision=self._revision(row)) for row in news])
        refused += self._append([replace(row, revision=self._revision(row), gone=True) for row in gone])
        if refused:
            raise OSError(refused[0])

    def check(self) -> None:
        """Makes sure that the files hold what was written; what is lost is told again by the next `tell`."""
        for path, size in self._sizes.items():
            try:
                if path.stat().st_size >= size:
                    continue
            except FileNotFoundError:
                pass
            log.warning("%s was deleted or cut; what it said is told again", path)
            self._told = None
            self._sizes = {}
            return

    def _revision(self, row: Row) -> int:
        """Greater than any told before: by what the files say and, should they have been deleted, by the clock."""
        before = self._told.get(row.key) if self._told else None
        return max(int(time.time() * 1e6), before.revision + 1 if before is not None else 0)

    def _append(self, rows: list[Row]) -> list[str]:
        """Returns what is wrong with rows that no other daemon would accept."""
        files: dict[str, list[Row]] = {}
        for row in rows:
            files.setdefault(row.run_id, []).append(row)
        refused: list[str] = []
        for run_id, part in files.items():
            lines, kept = [], []
            for row in part:
                line = to_line(row)
                if isinstance(complaint := parse_line(line, self._store_id), str):
                    refused.append(f"a fault of run {run_id[:100]!r} cannot be told: {complaint}")
                else:
                    lines.append(line)
                    kept.append(row)
            if lines:
                self._append_lines(self._directory / directory_name(run_id) / self._name, b"".join(lines))
            assert self._told is not None  # noqa: S101  read before anything is appended
            self._told.update((row.key, row) for row in kept)
        return refused

    def _append_lines(self, path: Path, data: bytes) -> None:
        new = not path.parent.exists()
        make_private_dir(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a killed daemon's torn line: ended here, so that the next is not glued to it
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
            self._sizes[path] = os.fstat(fd).st_size
        finally:
            os.close(fd)
        for directory in (path.parent, *((self._directory, self._directory.parent) if new else ())):
            fd = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _read_own(self) -> Iterator[Row]:
        if not self._directory.is_dir():
            return
        for directory in sorted(self._directory.iterdir()):
            path = directory / self._name
            if not path.is_file():
                continue
            self._sizes[path] = path.stat().st_size
            with path.open("rb") as file:
                for line in file:
                    row = parse_line(line, self._store_id)
                    if not isinstance(row, str):
                        yield row


class _Heard:
    """One file of another store, and how far it is read."""

    __slots__ = ("bytes", "inode", "offset", "skipping", "trouble")

    def __init__(self) -> None:
        self.offset = 0
        self.inode = 0
        self.bytes = 0
        self.skipping = False
        self.trouble = ""


class Listener:
    """The files of the other stores."""

    def __init__(self, layout: StoreLayout) -> None:
        self._directory = faults_dir(layout)
        self._own = layout.store_id
        self._files: dict[str, _Heard] = {}
        self._grew: dict[str, float] = {}  # directory -> when it was last seen to grow, monotonic
        self._turn = 0
        self._trouble = ""
        self.more = False
        """Whether the last look read something, so that there may be more."""

    def look(self) -> list[Row | RemoteGapRow]:
        """What is new; at most about `PASS_BYTES` of each file."""
        found: list[Row | RemoteGapRow] = []
        self.more = False
        try:
            names = sorted(entry.name for entry in os.scandir(self._directory) if entry.is_dir(follow_symlinks=False))
            self._trouble = ""
        except FileNotFoundError:
            return []
        except OSError as error:
            if not self._trouble:
                self._trouble = _said(error)
                found.append(RemoteGapRow("unreadable", str(self._directory), None, None, self._trouble))
            return found
        now = time.monotonic()
        for name in self._due(names, now):
            before = len(found)
            self._look_into(self._directory / name, found)
            if len(found) > before or name not in self._grew:
                self._grew[name] = now
        return found

    def _due(self, names: list[str], now: float) -> list[str]:
        """New and lately active directories, and some of the quiet ones in turn."""
        hot = [name for name in names if now - self._grew.get(name, now) <= HOT_S]
        cold = [name for name in names if now - self._grew.get(name, now) > HOT_S]
        self._turn = self._turn + COLD_DIRECTORIES if self._turn + COLD_DIRECTORIES < len(cold) else 0
        return [*hot, *cold[self._turn : self._turn + COLD_DIRECTORIES]]

    def _look_into(self, directory: Path, found: list[Row | RemoteGapRow]) -> None:
        try:
            names = sorted(entry.name for entry in os.scandir(directory))
        except OSError:
            return  # removed meanwhile, or no directory any more: the next listing tells
        for name in names:
            store_id = store_of(name)
            if store_id is not None and store_id != self._own:
                self._read(directory / name, store_id, found)

    def _read(self, path: Path, store_id: str, found: list[Row | RemoteGapRow]) -> None:
        heard = self._files.setdefault(str(path), _Heard())
        try:
            data, start = _new_bytes(path, heard)
            heard.trouble = ""
        except OSError as error:
            if not heard.trouble:
                heard.trouble = _said(error)
                found.append(RemoteGapRow("unreadable", str(path), heard.offset, None, heard.trouble))
            return
        if not data:
            return
        self.more = True
        bad: list[tuple[int, int, str]] = []
        at = start
        whole, newline, rest = data.rpartition(b"\n")
        lines = [line + b"\n" for line in whole.split(b"\n")] if newline else []
        for line in (*lines, rest):
            end = at + len(line)
            if heard.skipping:
                heard.skipping = not line.endswith(b"\n")  # a line that was too long: told with its beginning
            elif line and not line.endswith(b"\n"):
                heard.skipping = True
                bad.append((at, end, f"it is longer than {LINE_BYTES} bytes"))
            elif line.strip():
                row = parse_line(line, store_id)
                if isinstance(row, str):
                    bad.append((at, end, row))
                else:
                    found.append(row)
            at = end
        heard.offset = at
        heard.bytes += len(data)
        if bad:
            count = "1 line is" if len(bad) == 1 else f"{len(bad)} lines are"
            detail = f"{count} left out; the first: {bad[0][2]}"
            log.warning("%s at byte %d: %s", path, bad[0][0], detail)
            found.append(RemoteGapRow("exchange", str(path), bad[0][0], bad[-1][1] - 1, detail))


def _new_bytes(path: Path, heard: _Heard) -> tuple[bytes, int]:
    """Whole lines that are not read yet, and where they begin. A torn last line waits for its end, unless it is longer
    than any line may be.

    Opened anew each time: a network mount then asks its server.

    Raises:
        OSError: it cannot be read, or is no file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no file")
        if status.st_size < heard.offset or status.st_ino != heard.inode:
            # Another file by now: its lines come again, and known ones are left out.
            heard.offset, heard.skipping, heard.inode = 0, False, status.st_ino
        if status.st_size == heard.offset:
            return b"", heard.offset
        if heard.bytes > STORE_BYTES:
            raise OSError(f"over {STORE_BYTES >> 20} MB were read of it; the rest is left")
        data = os.pread(fd, PASS_BYTES, heard.offset)
    finally:
        os.close(fd)
    end = data.rfind(b"\n") + 1
    return (data if len(data) - end > LINE_BYTES else data[:end]), heard.offset


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class Exchange:
    """Telling and listening, each in a thread of its own. `pending`, `taken` and `changed` are for the main loop.

    Args:
        layout: of this store, settled.
        cursor: a connection to the store, from any thread.
        news: called from a thread of this when something was heard.
    """

    def __init__(
        self,
        layout: StoreLayout,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self._directory = faults_dir(layout)
        self._news = news
        self._teller = Teller(layout, cursor)
        self._listener = Listener(layout)
        self._lock = threading.Lock()
        self._rows: list[Row | RemoteGapRow] = []
        self._wake, self._stop = threading.Event(), threading.Event()
        self._heard = threading.Event()
        self._version = -1
        self._busy_since: dict[str, float] = {}
        self._stalled: set[str] = set()
        self._threads = [
            threading.Thread(target=self._tell, name="tic-tell", daemon=True),
            threading.Thread(target=self._listen, name="tic-listen", daemon=True),
        ]

    def start(self) -> None:
        """Starts both threads."""
        for thread in self._threads:
            thread.start()

    def changed(self, version: int) -> None:
        """What follows from the events stands at `version` (`Writer.derived_version`): tells it if that is new."""
        if version != self._version:
            self._version = version
            self._wake.set()

    def first_look(self, timeout: float) -> bool:
        """Waits until what the others had said at the start is here."""
        return self._heard.wait(timeout)

    @property
    def waiting(self) -> bool:
        """Whether something was heard and not taken yet."""
        return bool(self._rows)

    def pending(self) -> tuple[Row | RemoteGapRow, ...]:
        """What was heard and not taken yet."""
        now = time.monotonic()
        with self._lock:
            for what, since in self._busy_since.items():
                if now - since < STALLED_S:
                    self._stalled.discard(what)
                elif what not in self._stalled:
                    self._stalled.add(what)
                    log.error("%s: %s does not come to an end", self._directory, what)
                    at = datetime.now().astimezone().isoformat(timespec="seconds")
                    detail = f"{what} does not come to an end since {STALLED_S:.0f} s before {at}"
                    self._rows.append(RemoteGapRow("unreadable", str(self._directory), None, None, detail))
            return tuple(self._rows)

    def taken(self, rows: tuple[Row | RemoteGapRow, ...]) -> None:
        """Says that what `pending` gave is committed."""
        with self._lock:
            del self._rows[: len(rows)]

    def stop(self, timeout: float) -> None:
        """Tells what is left and ends; gives up after `timeout` seconds: the next start tells it."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout)
                if thread.is_alive():
                    log.warning("%s: %s did not end in time", self._directory, thread.name)

    def _note(self, rows: Iterable[Row | RemoteGapRow]) -> None:
        with self._lock:
            self._rows.extend(rows)
        if self._rows:
            self._news()

    def _during(self, what: str, since: float | None) -> None:
        with self._lock:
            if since is None:
                self._busy_since.pop(what, None)
                self._stalled.discard(what)
            else:
                self._busy_since[what] = since

    def _tell(self) -> None:
        wait, trouble, checked = 0.0, "", time.monotonic()
        while True:
            self._wake.wait(RETRY_S if trouble else CHECK_S)
            last = self._stop.is_set()
            if not last:
                self._stop.wait(wait)  # so that telling takes a small part of the time
            self._wake.clear()
            last = self._stop.is_set()
            started = time.monotonic()
            self._during("telling others", started)
            try:
                if started - checked > CHECK_S:
                    checked = started
                    self._teller.check()
                self._teller.tell()
                trouble = ""
            except Exception as error:  # noqa: BLE001  a thread must not die silently: it is said, and tried again
                if _said(error) != trouble:
                    trouble = _said(error)
                    log.error("%s: faults could not be told to other nodes: %s", self._directory, trouble)
                    self._note([RemoteGapRow("untold", str(self._directory), None, None, trouble)])
            self._during("telling others", None)
            wait = min(5.0, 4 * (time.monotonic() - started))
            if last:
                return

    def _listen(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self._during("looking for faults of other nodes", started)
            found: list[Row | RemoteGapRow] = []
            try:
                found = self._listener.look()
            except Exception as error:
                found = [RemoteGapRow("unreadable", str(self._directory), None, None, repr(error))]
                log.exception("%s: faults of other nodes could not be read", self._directory)
            self._during("looking for faults of other nodes", None)
            if found:
                self._note(found)
            if not self._listener.more:
                self._heard.set()
            with self._lock:
                full = len(self._rows) > WAITING_ROWS
            if full or not self._listener.more:
                self._stop.wait(max(LISTEN_S, 4 * (time.monotonic() - started)))


def read_once(layout: StoreLayout) -> list[Row | RemoteGapRow]:
    """All that the other stores have said, for whoever writes a store without a daemon."""
    listener = Listener(layout)
    rows: list[Row | RemoteGapRow] = []
    while True:
        rows += listener.look()
        if not listener.more:
            return rows
