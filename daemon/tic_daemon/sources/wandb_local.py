"""W&B runs of this machine: transaction logs and the uploaders' own logs, followed by a thread of its own.

    runs = WandbLocal(host, run_for, keys, cursors, sources, wake)
    runs.start()                  begins to look
    runs.found(files)             after each walk over the roots: (path, root) of every transaction log
    deltas = runs.take()          what was read since; never waits
    runs.hasten()                 all files are looked at once more; `drained` says when that is done
    runs.finish(wait_s)           also tells of logs that end within a record
    runs.stop()

Exactly once: rows and the cursor behind them are one delta, so one transaction. The thread reads ahead of what is
committed by a bounded number of values, and while logs are followed it rests twice as long as it works, in slices of a
few milliseconds: the tail of the logs waits for nothing here. A mount that hangs holds this thread alone.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from tic_daemon.scan.events import At, Event, Gap
from tic_daemon.sources.appended import AppendedFile, Look
from tic_daemon.sources.layouts import run_of
from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.wandb import directories, framing
from tic_daemon.wandb.directories import Beside, RunFile, run_file
from tic_daemon.wandb.events import WandbEvent, WandbRow, last_logged
from tic_daemon.wandb.framing import Damage
from tic_daemon.wandb.keys import Keys
from tic_daemon.wandb.transcript import Transcript
from tic_daemon.wandb.uploader import Uploader

log = logging.getLogger("tic-daemon")

KIND: Final = "wandb_local"
EVERY_S: Final = 1.0
"""How often a log that grows is looked at."""
COLD_S: Final = 10.0
"""How often any other is, at least; with many of them less often: a hundred looks a second are enough."""
WARM_S: Final = 600.0
"""A log counts as growing for so long after it grew."""
TORN_S: Final = 60.0
"""A record without its end is told of when nothing came for so long; the client flushes every 15 s."""
WINDOW: Final = 256 << 10
VALUES: Final = 8_000
"""Values of one delta, and of one `take`: about 10 ms of the transaction that takes them in."""
AHEAD: Final = 3 * VALUES
"""Values that may wait to be taken; then reading waits."""
SLICE_S: Final = 0.005
STUCK_S: Final = 30.0
"""At an end, a look that takes so long is not waited for: its mount hangs."""
LINE_BYTES: Final = 1 << 20
MAX_FILES: Final = 20_000

Told = Event | WandbEvent
RunFor = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A delta that waits to be taken, and how many values it has."""

    delta: SourceDelta
    values: int


class WandbLocal:
    """See the module.

    Args:
        host: of all rows. run_for: the run that tic.toml names for a path, "".
        keys: which keys are training steps. framework: if tic.toml names it.
        cursors, sources: what the store has.
        wake: called from the thread when there is something to take.
    """

    def __init__(
        self,
        host: str,
        run_for: RunFor,
        keys: Keys,
        cursors: Mapping[tuple[int, int], CursorRow],
        sources: Mapping[int, SourceRow],
        wake: Callable[[], None],
        *,
        framework: str = "",
    ) -> None:
        self._host, self._run_for, self._keys, self._framework, self._wake = host, run_for, keys, framework, wake
        ours = {number for number, row in sources.items() if row.kind == KIND}
        self._cursors: dict[int, dict[int, CursorRow]] = {}
        for (number, generation), row in cursors.items():
            if number in ours:
                self._cursors.setdefault(number, {})[generation] = row
        self._stored = {number: sources[number] for number in ours}
        self._files: dict[str, _Followed] = {}
        self._names: dict[tuple[int, int], str] = {}  # by device and inode
        self._listing: object = None
        self._found: dict[str, str] = {}
        self._state = threading.Condition()
        self._queue: deque[_Ready] = deque()
        self._waiting = 0
        self._asked = self._done = 0
        self._hurry = self._torn = self._stopping = self._all = False
        self._slice_began = 0.0
        self._beat = time.monotonic()  # when the thread was last seen to go on
        self._complained = False
        self._thread: threading.Thread | None = None

    # --- for the daemon's thread ------------------------------------------------------------------------------------

    def start(self, *, hurry: bool = False) -> None:
        """Starts the thread. `hurry`: it takes no rests."""
        self._hurry = hurry
        self._thread = threading.Thread(target=self._run, name="tic-wandb", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Tells the thread to end; does not wait for it, as it may hang in a mount."""
        with self._state:
            self._stopping = True
            self._state.notify_all()

    def found(self, files: Iterable[tuple[str, str]]) -> None:
        """The transaction logs that there are: (canonical path, watched root). Costs nothing for the same listing."""
        if files is self._listing:
            return
        self._listing = files
        listed = dict(files)
        with self._state:
            if listed != self._found:
                self._found = listed
                self._ask()
                self._state.notify_all()

    def take(self) -> list[SourceDelta]:
        """What was read since the last call, of about so many values as one transaction should have."""
        taken: list[SourceDelta] = []
        values = 0
        with self._state:
            while self._queue and values < VALUES:
                ready = self._queue.popleft()
                values += ready.values
                taken.append(ready.delta)
            self._waiting -= values
            if taken:
                self._state.notify_all()
        return taken

    def hasten(self, *, torn: bool = False) -> None:
        """All files are looked at once more, and without rests. `torn`: records without an end are told of, too."""
        with self._state:
            self._hurry = True
            self._torn = self._torn or torn
            self._all = True
            self._ask()
            self._state.notify_all()

    def _ask(self) -> None:
        """Asks the thread for another look. With the lock held."""
        if self._done >= self._asked:
            self._beat = time.monotonic()  # it rests, for as long as nothing is followed: that is no hanging
        self._asked += 1

    def drained(self) -> bool:
        """Whether all that was asked for is read and taken, or the thread hangs and nothing more can be had."""
        with self._state:
            if self._thread is None or (self._done >= self._asked and not self._queue):
                return True
            hangs = not self._queue and time.monotonic() - self._beat > STUCK_S
        if hangs and not self._complained:
            self._complained = True
            log.warning("W&B: a look takes longer than %.0f s; what is behind it is not waited for", STUCK_S)
        return hangs

    def finish(self, wait_s: float) -> list[SourceDelta]:
        """The last look, for which so many seconds are waited; with records that have no end."""
        if self._thread is None:
            return []
        self.hasten(torn=True)
        deltas: list[SourceDelta] = []
        until = time.monotonic() + wait_s
        while not self.drained() and time.monotonic() < until:
            deltas += self.take()
            with self._state:
                if self._done < self._asked and not self._queue:
                    self._state.wait(0.05)
        return deltas + self.take()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._state:
                asked, found = self._asked, self._found
                self._beat = time.monotonic()
                anew, self._all = self._all, False
            try:
                self._adopt(found)
                if anew:
                    for followed in self._files.values():
                        followed.due = 0.0
                behind = self._round()
            except _Stopped:
                return
            with self._state:
                if self._stopping:
                    return
                if not behind:
                    self._done = max(self._done, asked)
                    self._state.notify_all()
                    if self._asked == asked:
                        self._state.wait(EVERY_S / 2 if self._files else None)

    def _adopt(self, found: Mapping[str, str]) -> None:
        for path, root in found.items():
            file = run_file(path)
            if path in self._files or file is None or len(self._files) >= MAX_FILES or not self._first_name(path):
                continue
            self._files[path] = _Log(self._row(path, root, file), file, self)
            own_log = file.uploader_log
            self._files[own_log] = _Upload(self._row(own_log, root, file), file, self)

    def _first_name(self, path: str) -> bool:
        """Whether no other name of the file is followed."""
        try:
            key = _key(path)
            other = self._names.get(key, path)
            if other != path and _key(other) == key:
                return False
        except OSError:
            pass  # the other name is gone, or this one is: then its look says so
        else:
            self._names[key] = path
        return True

    def _row(self, path: str, root: str, file: RunFile) -> SourceRow:
        run, how = run_named(file, self._run_for)
        number = source_id(self._host, KIND, path)
        stored = self._stored.get(number)
        what = "transaction log" if path == file.path else "uploader's log"
        return SourceRow(
            number, KIND, self._host, clean_text(root), clean_text(path), framework="wandb", single_process=True,
            run_hint=clean_text(run), run_how=how, state=stored.state if stored else "idle",
            generation=stored.generation if stored else 0, bytes_size=stored.bytes_size if stored else 0,
            first_seen_at=stored.first_seen_at if stored else utc(time.time()),
            last_growth_at=stored.last_growth_at if stored else None,
            why=f"{what} of W&B run {clean_text(file.wandb_id)}",
        )  # fmt: skip

    def cursors_of(self, number: int) -> Mapping[int, CursorRow]:
        """What the store had of a source when the daemon began."""
        return self._cursors.get(number, {})

    def transcript(self, file: RunFile) -> Transcript:
        """A new one."""
        return Transcript(file, self._keys, self._framework)

    def _round(self) -> bool:
        """One piece of each file that is due. Whether one of them has more."""
        behind = False
        cold = max(COLD_S, len(self._files) / 100)
        for followed in list(self._files.values()):
            now = time.monotonic()
            if now < followed.due:
                continue
            try:
                more = followed.step(torn=self._torn or now - followed.grown >= TORN_S)
            except _Stopped:
                raise
            except Exception:  # what was not foreseen in one file must not end the others
                log.exception("W&B: %s cannot be read on", clean_text(followed.path))
                more = False
            behind = behind or more
            if not more:
                warm = now - followed.grown < WARM_S and not followed.ended
                followed.due = now + (EVERY_S if warm else cold)
            self.pace()
        return behind

    def put(self, delta: SourceDelta, values: int) -> None:
        """Waits while too much waits to be taken. Raises _Stopped."""
        with self._state:
            while self._waiting and self._waiting + values > AHEAD and not self._stopping:
                self._state.wait()
            if self._stopping:
                raise _Stopped
            self._queue.append(_Ready(delta, values))
            self._waiting += values
            self._state.notify_all()
        self._wake()

    def pace(self) -> None:
        """Called between pieces of work: every few milliseconds rests twice as long as it worked. Raises _Stopped."""
        self._beat = time.monotonic()
        worked = self._beat - self._slice_began
        if worked < SLICE_S:
            return
        if self._stopping:
            raise _Stopped
        if not self._hurry:
            time.sleep(min(2 * worked, 20 * SLICE_S))
        self._slice_began = time.monotonic()


class _Stopped(Exception):
    """The daemon ends."""


class _Followed:
    """One file. `due`: when it is looked at next; `grown`: when it last grew; `ended`: no more is expected of it."""

    def __init__(self, path: str, row: SourceRow, file: RunFile, owner: WandbLocal) -> None:
        self.path, self.row, self.file, self._owner = path, row, file, owner
        self._bytes = AppendedFile(path, owner.cursors_of(row.source_id))
        stored = self._bytes.row
        self._lines = stored.line_no if stored else 0
        self._skipped = stored.skipped_bytes if stored else 0
        self.due, self.grown = 0.0, time.monotonic()
        self.ended = stored is not None and stored.closed
        self._known = stored is not None  # the store has a row of the source
        self._said = (row.state, row.error)
        self._seen = (-1, -1)

    def step(self, *, torn: bool) -> bool:
        """Reads a piece. Whether there is more."""
        try:
            with self._bytes.look() as look:
                if look.began_anew:
                    self.ended, self._lines = False, 0
                more = self._looked(look, torn)
                if more:
                    self._seen = (-1, -1)  # the next look has something to do, though the file did not change
                return more
        except FileNotFoundError:
            if self._known:
                self._say("vanished", "")
        except OSError as error:
            self._say("unreadable", error.strerror or str(error))
        return False

    def _looked(self, look: Look, torn: bool) -> bool:
        raise NotImplementedError

    def _grew(self, look: Look) -> bool:
        """Notes size and time; whether the file is another than at the last look."""
        if (look.size, look.mtime_ns) == self._seen and not look.began_anew:
            return False
        if look.size != self._seen[0]:
            self.grown = time.monotonic() - max(0.0, time.time() - look.mtime_ns / 1e9)
        self._seen = (look.size, look.mtime_ns)
        self.row = replace(self.row, bytes_size=look.size, generation=self._bytes.number)
        return True

    def _say_state(self) -> None:
        self._say("growing" if not self.ended and time.monotonic() - self.grown < TORN_S else "idle", "")

    def _say(self, state: str, error: str) -> None:
        if self._said != (state, error):
            self._said, self._known = (state, error), True
            self.row = replace(self.row, state=state, error=error)
            self._owner.put(SourceDelta(self.row), 0)

    def _tell(
        self, events: list[Told], read: int, *, provisional: tuple[Told, ...] = (), values: int = 0, state: str = ""
    ) -> None:
        growing = not self.ended and time.monotonic() - self.grown < TORN_S
        self._said, self._known = ("growing" if growing else "idle", ""), True
        moved = last_logged(events, utc(time.time()), self.row.last_growth_at)
        self.row = replace(self.row, state=self._said[0], error="", last_growth_at=moved)
        cursor = self._bytes.cursor(
            self.row.source_id, self._lines, closed=self.ended, skipped=self._skipped, state=state
        )
        self._owner.put(SourceDelta(self.row, cursor, tuple(events), provisional, read, len(events)), values)

    def _gap(self, kind: str, first: int, last: int, detail: str) -> Gap:
        return Gap(At(first, last - first, self._lines + 1), kind, first, last, detail)

    def _anew(self, look: Look) -> list[Told]:
        if not look.began_anew:
            return []
        return [self._gap("replaced", 0, 0, f"it is read anew from its first byte: {look.began_anew}")]


class _Log(_Followed):
    """A transaction log. What lies beside it is kept in the cursor's `state`."""

    def __init__(self, row: SourceRow, file: RunFile, owner: WandbLocal) -> None:
        super().__init__(file.path, row, file, owner)
        self._transcript: Transcript | None = None
        self._replayed = 0  # up to here the transcript was given the records
        self._window = WINDOW
        self._torn: tuple[int, int] | None = None
        self._beside = Beside.of_json(self._bytes.row.state if self._bytes.row else "")

    def _looked(self, look: Look, torn: bool) -> bool:
        new = self._grew(look)
        events = self._anew(look)
        if events:
            self._transcript, self._torn = None, None
        rest = look.size - self._bytes.offset
        # A log without a byte is told of like one without its end: the client writes its header at once.
        unsaid = torn and self._torn != (self._bytes.offset, look.size)
        waits = (rest > 0 and (new or unsaid)) or (look.size == 0 and unsaid)
        if not events and not waits and directories.beside(self.path) == self._beside:
            self._say_state()
            return False
        transcript = self._ready(look)
        if transcript is None:
            return True  # what the store has of it is read again, a piece at a time
        return self._read(look, transcript, events, torn)

    def _ready(self, look: Look) -> Transcript | None:
        """The transcript at the offset; None: it is not there yet."""
        if self._transcript is None:
            self._transcript, self._replayed = self._owner.transcript(self.file), 0
            if not self._bytes.offset:
                self._beside = directories.beside(self.path)
            self._transcript.beside = self._beside
        if self._replayed >= self._bytes.offset:
            return self._transcript
        began = self._replayed
        data = look.read(began, min(self._window, self._bytes.offset - began))
        at = framing.begin(data)[0] if began == 0 else began
        found, done = framing.scan(data[at - began :], at)
        for item in found:
            if not isinstance(item, Damage):
                self._transcript.take(item)
            self._owner.pace()
        if done == at and len(data) == self._window:
            done = self._widened(began) or began
        elif done == at:
            done = self._bytes.offset  # within what was passed over
        else:
            self._window = WINDOW
        self._replayed = done
        return None

    def _widened(self, began: int) -> int | None:
        """Of a record longer than what is read at a time: more is read the next time; or where it is passed over to."""
        if self._window <= framing.MAX_RECORD:
            self._window *= 2
            return None
        end = (began + self._window) // framing.BLOCK * framing.BLOCK
        self._window = WINDOW
        return end

    def _read(self, look: Look, transcript: Transcript, events: list[Told], torn: bool) -> bool:
        began = self._bytes.offset
        data = look.read(began, self._window)
        at = began
        if began == 0:
            at, damage = framing.begin(data)
            if damage is not None:
                events.append(self._damaged(damage))
        found, done = framing.scan(data[at - began :], at)
        values, cut = 0, False
        for item in found:
            if isinstance(item, Damage):
                events.append(self._damaged(item))
                continue
            told = transcript.take(item)
            self._lines = transcript.records
            events += told
            values += sum(event.keys for event in told if isinstance(event, WandbRow))
            if values >= VALUES and item is not found[-1]:
                done, cut = item.end, True
                break
            self._owner.pace()
        if done == began and len(data) == self._window:
            if (end := self._widened(began)) is not None:
                done = end
                why = f"a record of more than {framing.MAX_RECORD} bytes is not read"
                events.append(self._damaged(Damage(began, end, why)))
        else:
            self._window = WINDOW
        if done > began:
            self._bytes.moved(look, done)
            self._replayed = done
        more = cut or began + len(data) < look.size
        return self._told(look, transcript, events, values, done - began, torn=torn, more=more)

    def _told(
        self, look: Look, transcript: Transcript, events: list[Told], values: int, read: int, *, torn: bool, more: bool
    ) -> bool:
        rest = look.size - self._bytes.offset
        provisional: tuple[Told, ...] = ()
        if not more:
            beside = directories.beside(self.path)
            if beside != self._beside:
                self._beside = transcript.beside = beside
                if transcript.records:
                    events.append(transcript.run_now(At(self._bytes.offset, 0, self._lines)))
            if torn and rest > 0:
                detail = "the log ends within a record or a damaged block; it is read on when it grows"
                provisional = (self._gap("wandb_unfinished", self._bytes.offset, look.size, detail),)
            elif torn and look.size == 0:
                detail = "the log is empty: the client wrote nothing, or it was lost; it is read when it grows"
                provisional = (self._gap("wandb_empty", 0, 0, detail),)
        self.ended = transcript.ended and rest == 0
        mark = (self._bytes.offset, look.size) if provisional else None
        if events or read or mark != self._torn:
            self._torn = mark
            self._tell(events, read, provisional=provisional, values=values, state=self._beside.to_json())
        else:
            self._say_state()
        if self.ended:
            self._transcript = None  # made again from the file, should it go on
        return more

    def _damaged(self, damage: Damage) -> Gap:
        self._skipped += damage.last - damage.first
        return self._gap("wandb_damaged", damage.first, damage.last, damage.why)


class _Upload(_Followed):
    """An uploader's own log. What the uploader is at is kept in the cursor's `state`."""

    def __init__(self, row: SourceRow, file: RunFile, owner: WandbLocal) -> None:
        super().__init__(file.uploader_log, row, file, owner)
        self._uploader = Uploader(file, self._bytes.row.state if self._bytes.row else "")

    def _looked(self, look: Look, torn: bool) -> bool:
        new = self._grew(look)
        events = self._anew(look)
        if events:
            self._uploader = Uploader(self.file)
        began = self._bytes.offset
        if not events and (not new or look.size == began):
            self._say_state()
            return False
        data = look.read(began, LINE_BYTES)
        end = data.rfind(b"\n") + 1
        at = began
        for line in data[:end].split(b"\n")[:-1]:
            self._lines += 1
            told = self._uploader.take(at, self._lines, line)
            at += len(line) + 1
            if told is not None:
                events.append(told)
                self.ended = told.state == "finished"
            self._owner.pace()
        if not end and len(data) == LINE_BYTES:
            end = len(data)
            self._skipped += end
            events.append(self._gap("wandb_line", began, began + end, "a line of more than 1 MiB is not read"))
        if end or events:
            self._bytes.moved(look, began + end)
            self._tell(events, end, values=len(events), state=self._uploader.state())
        return end > 0 and self._bytes.offset < look.size


def run_named(file: RunFile, run_for: RunFor) -> tuple[str, str]:
    """The run that a transaction log belongs to, and who says so: config | path | wandb."""
    if run := run_for(file.path):
        return run, "config"
    run, how, _ = run_of(file.path.split("/")[:-1])
    return (run, how) if how == "path" else (file.wandb_id, "wandb")


def _key(path: str) -> tuple[int, int]:
    info = os.stat(path)  # noqa: PTH116  names need not be valid text
    return info.st_dev, info.st_ino


def utc(seconds: float) -> datetime:
    """Naive UTC of seconds since the epoch; of what no clock shows, the nearest that one does."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), 253_402_300_799.0), UTC).replace(tzinfo=None)
