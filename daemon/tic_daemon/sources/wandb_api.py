"""W&B histories, read back through the API by a thread and its child process; the tick takes what is there.

    api = WandbApi(host, config.wandb, wake, ...); api.start()
    api.note(deltas)      runs that local directories and log lines name
    api.take()            rows that have come; never waits
    api.kept()            what was taken is committed
    api.hasten()          one more reading of all, whole where a run is over; `api.settled` when that is done
    api.stop()            ends the child; never waits long

A round reads every run that is due, in one child. Each reading has a deadline, and whatever goes wrong is a row of
table wandb_read. Without an account or a client that is said once, and tried again now and then. Readings that were
made elsewhere (wandb/spooled.py) are taken in by the same thread, and their files go when they are committed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tic_daemon.config import WandbConfig, is_run_path
from tic_daemon.scan.events import WandbNamed
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.tick import Key
from tic_daemon.wandb.events import WandbRow, WandbRun
from tic_daemon.wandb.reading import ReadFailed, ReadingChild, client_there
from tic_daemon.wandb.spooled import Spooled, waiting, whole
from tic_daemon.wandb.target import ENDED, KIND, Done, Intake, Named, Target, conclude, doubts, replay
from tic_daemon.wandb.wire import Asked, WireError

log = logging.getLogger("tic-daemon")

QUEUED_VALUES: Final = 20_000
"""So many values wait for the tick at most, about 4 MB; then the child waits."""
TAKEN_VALUES: Final = 20_000
"""So many go into one tick."""
REST_S: Final = 3600.0
"""A run that is over and read is looked at again this often: its history is exported hours later."""
RETRY_S: Final = 900.0
"""The longest pause after a failure, and the one while there is no account."""
SPOOL_S: Final = 5.0
"""How often it is looked for readings that were made elsewhere."""
MOST_RUNS: Final = 200
"""More runs than these are named by nobody but a mistake; a warning says so."""
PIECE: Final = 0.5
"""After this part of its deadline a reading ends at the next border of a page, and goes on with a fresh deadline."""
_STRETCHES: Final = (1.0, 1.7, 2.3)
"""Page sizes of successive readings: their borders differ."""

NO_CLIENT: Final = "the W&B client is not installed here: pip install 'tic-tui[wandb]'"

Stored = Mapping[int, Sequence[tuple[int | None, str]]]


class WandbApi:
    """See the module.

    Args:
        host, root: as in all rows of this daemon.
        wake: called from the thread when there is something to take.
        sources, cursors: as the store knows them. stored: by source_id, (_step, digest) of all its rows.
        hand: read_id of every reading that was made elsewhere. spool: where new ones lie; None: nowhere.
        first: whether this daemon takes in what lies there of runs that no source here names: one of several does.
        environ: what the client finds; default: this process' own.
    """

    def __init__(
        self,
        host: str,
        root: str,
        config: WandbConfig,
        wake: Callable[[], None],
        *,
        sources: Mapping[int, SourceRow] | None = None,
        cursors: Mapping[Key, CursorRow] | None = None,
        stored: Stored | None = None,
        hand: Iterable[str] = (),
        spool: Path | None = None,
        first: Callable[[], bool] = lambda: True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._host, self._root, self._config, self._wake, self._environ = host, root, config, wake, environ
        self._targets: dict[str, Target] = {}
        self._due: dict[str, float] = {}
        self._fails: dict[str, int] = {}
        self._said = ""
        self._lock = threading.Condition(threading.RLock())
        self._queue: deque[SourceDelta] = deque()
        self._queued = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = self._answered = 0
        self._spool, self._first = spool, first
        self._hand = {read_id.partition(".")[0] for read_id in hand}
        self._left: set[str] = set()
        self._emitted = self._taken = self._kept = 0
        self._over: list[tuple[Path, int]] = []
        self._cursors, self._stored = dict(cursors or {}), dict(stored or {})
        self._sources = {number: row for number, row in (sources or {}).items() if row.kind == KIND}
        if config.read:
            for run in config.runs:
                hint, how = (run.run, "config") if run.run else (run.path.rpartition("/")[2], "wandb")
                self._add(Named(run.path, root, hint, how, "tic.toml names it"))
            for row in self._sources.values():
                self._add(Named(row.path, row.root, row.run_hint, row.run_how, row.why))

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="tic-wandb", daemon=True)
        self._thread.start()

    # --- the tick's side ---------------------------------------------------------------------------------------------

    def note(self, deltas: Iterable[SourceDelta]) -> None:
        """Takes over the runs that other sources name, and that something was added to a run."""
        if not self._config.read:
            return
        for delta in deltas:
            if delta.source.kind == KIND:
                continue
            for event in delta.events:
                if isinstance(event, WandbNamed) or (
                    isinstance(event, WandbRun) and (event.mode != "offline" or event.synced)
                ):
                    row = delta.source
                    self._add(Named(event.run_path, row.root, row.run_hint, row.run_how, f"named in {row.path}"))
                if isinstance(event, WandbRun):
                    self._stir(event.run_path)

    def take(self) -> list[SourceDelta]:
        """See the module."""
        taken: list[SourceDelta] = []
        with self._lock:
            values = 0
            while self._queue and values < TAKEN_VALUES:
                delta = self._queue.popleft()
                values += _weight(delta)
                taken.append(delta)
            self._queued -= values
            self._taken += len(taken)
            if taken:
                self._lock.notify_all()
            more = bool(self._queue)
        if more:
            self._wake()
        return taken

    def kept(self) -> None:
        """See the module."""
        self._kept = self._taken

    def hasten(self) -> None:
        """One more round over all runs, at once; `settled` is false until it is done and taken."""
        with self._lock:
            self._asked += 1
            self._due = dict.fromkeys(self._due, time.monotonic())
            self._lock.notify_all()

    @property
    def settled(self) -> bool:
        """No reading is under way that was hastened, and nothing waits to be taken."""
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            return not self._queue and not (running and self._answered < self._asked)

    def stop(self) -> None:
        """See the module."""
        self._stop.set()
        with self._lock:
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(2.0)

    def _add(self, named: Named) -> None:
        if not is_run_path(named.path):
            return
        with self._lock:
            if self._target(named) is not None and named.path not in self._due:
                self._due[named.path] = time.monotonic()
                self._lock.notify_all()

    def _target(self, named: Named) -> Target | None:
        with self._lock:
            if (known := self._targets.get(named.path)) is not None:
                if known.named.run_how != "config":
                    known.named = named
                return known
            if len(self._targets) >= MOST_RUNS:
                self._say(f"W&B: more than {MOST_RUNS} runs are named; {named.path[:100]} is not read")
                return None
            number = source_id(self._host, KIND, named.path)
            target = self._targets[named.path] = Target(
                named,
                self._host,
                self._sources.get(number),
                self._cursors.pop((number, self._generation(number)), None),
                self._stored.pop(number, ()),
                self._config.grace_s,
                self._config.keys,
                self._config.framework,
            )
            return target

    def _generation(self, number: int) -> int:
        return self._sources[number].generation if number in self._sources else 0

    def _stir(self, path: str) -> None:
        """A run that was over, or did not move, and gets more: it is read at its usual pace again."""
        with self._lock:
            target = self._targets.get(path)
            if target is not None and (target.stir() or target.final):
                target.final = False
                self._due[path] = min(self._due.get(path, 0.0), time.monotonic() + self._config.every_s)
                self._lock.notify_all()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                asked = self._asked
                self._take_files()
                if due := self._what_is_due():
                    self._round(due)
                    continue
                with self._lock:
                    self._answered = asked
                    if self._asked == asked and not self._stop.is_set():
                        now = time.monotonic()
                        self._lock.wait(min(SPOOL_S, max(0.05, min(self._due.values(), default=now + SPOOL_S) - now)))
                if asked:
                    self._wake()
        except Exception:  # the logs are followed on without it
            log.exception("W&B histories are not read any more")

    def _what_is_due(self) -> list[Target]:
        with self._lock:
            now = time.monotonic()
            return [self._targets[path] for path, at in self._due.items() if at <= now]

    @property
    def _last_round(self) -> bool:
        return self._answered < self._asked

    def _take_files(self) -> None:
        """Takes in readings that were made elsewhere; removes the files of those that are committed."""
        if self._spool is None:
            return
        for path, at in list(self._over):
            if at <= self._kept:
                self._over.remove((path, at))
                path.unlink(missing_ok=True)
        over = {path for path, _ in self._over}
        for path in waiting(self._spool):
            if path.name not in self._left and path not in over and not self._stop.is_set():
                try:
                    self._take_file(path)
                except (OSError, WireError) as error:
                    self._left.add(path.name)
                    log.warning("%s: this reading is left out: %s", path, error)

    def _take_file(self, path: Path) -> None:
        if not whole(path):
            raise WireError("it is damaged")
        with contextlib.closing(Spooled(path)) as spooled:
            head = spooled.head
            if head.id in self._hand:  # taken in by a daemon that ended before it could remove it
                path.unlink(missing_ok=True)
                return
            if head.run_path not in self._targets and not self._first():
                return
            hint = head.run_path.rpartition("/")[2]
            target = self._target(Named(head.run_path, self._root, hint, "wandb", f"read on {head.host}"))
            if target is None:
                return
            readings = replay(spooled, target, self._emit)
            if not readings:
                raise WireError("there is no reading in it")
            one, two = readings[0], readings[1] if len(readings) > 1 else None
            self._emit(conclude(target, one, two, doubts(target, one, holes=False), "hand"))
        self._hand.add(head.id)
        with self._lock:
            self._over.append((path, self._emitted))
        log.info("W&B: took in what was read of %s on %s", target.path, head.host)

    def _round(self, due: Sequence[Target]) -> None:
        if not client_there():
            for target in due:
                done = Intake(target, self._emit, target.upto).done
                done.outcome, done.detail = "no_account", NO_CLIENT
                self._conclude(target, done, None, "")
            return
        child: ReadingChild | None = None
        try:
            for target in due:
                if self._stop.is_set():
                    return
                if child is None or not child.alive:
                    child = self._child()
                self._read(child, target)
        finally:
            if child is not None:
                child.close()

    def _child(self) -> ReadingChild:
        return ReadingChild(self._environ, stopped=self._stop.is_set)

    def _read(self, child: ReadingChild, target: Target) -> None:
        full = target.full_at == 0 or time.time() - target.full_at > self._config.full_s
        self._from(child, target, 0 if full else target.upto)
        if child.alive and not full and target.state in ENDED and not target.final:
            self._from(child, target, 0)  # it has ended: all of it once more
        elif child.alive and full and self._last_round:
            self._from(child, target, target.upto)  # a second look at the end, where the server may lack steps

    def _from(self, child: ReadingChild, target: Target, first: int) -> None:
        """The steps from `first` on, and once more what seems missing."""
        one = self._one(child, target, first)
        doubt = doubts(target, one, holes=self._last_round or target.state in ENDED)
        two = self._one(child, target, first) if doubt and child.alive else None
        self._conclude(target, one, two, doubt)

    def _one(self, child: ReadingChild, target: Target, first: int) -> Done:
        """One reading, in as many pieces as its time needs."""
        stretch = _STRETCHES[target.turn % len(_STRETCHES)]
        target.turn += 1
        intake = Intake(target, self._emit, first)
        deadline = self._config.deadline_s
        ask_from = first
        while True:
            asked = Asked(target.path, ask_from, stretch=stretch, budget_s=deadline * PIECE)
            try:
                for message in child.read(asked, deadline):
                    intake.take(message)
            except ReadFailed as failed:
                intake.fail(failed.outcome, failed.what)
                return intake.done
            if intake.done.outcome != "cut" or self._stop.is_set():
                return intake.done
            ask_from = intake.done.reading.end + 1

    def _conclude(self, target: Target, one: Done, two: Done | None, doubt: str) -> None:
        if self._stop.is_set():
            return  # the next start goes on; that this one was ended says nothing of the server
        before = target.outcome
        delta = conclude(target, one, two, doubt, "daemon")
        after = target.outcome
        if not (before == after == "no_account"):
            self._emit(delta)
        with self._lock:
            fails = self._fails[target.path] = 0 if after == "ok" else self._fails.get(target.path, 0) + 1
            if after == "no_account":
                pause = RETRY_S
            elif after != "ok":
                pause = min(RETRY_S, self._config.every_s * 2 ** min(fails - 1, 10))
            else:
                pause = REST_S if self._rests(target) else target.pause(self._config.every_s, REST_S)
            self._due[target.path] = time.monotonic() + pause
        if after == "no_account":
            self._say(f"W&B histories are not read through the API: {(two or one).detail}")
        elif after in ("error", "timeout"):
            log.info("W&B: %s could not be read: %s", target.path, (two or one).detail)
        elif after == "ok":
            self._said = ""

    def _rests(self, target: Target) -> bool:
        """Whether a run is over, read, and was looked at twice after the time that its last rows may take to arrive."""
        if not target.final:
            target.ended_at = None
            return False
        now = time.monotonic()
        target.ended_at = target.ended_at or now
        return now - target.ended_at > self._config.grace_s + 3 * self._config.every_s

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("%s", what)

    def _emit(self, delta: SourceDelta) -> None:
        """Hands on; waits while the tick has too much already, so that the child waits, too."""
        with self._lock:
            while self._queued >= QUEUED_VALUES and not self._stop.is_set():
                self._lock.wait(1.0)
            self._queue.append(delta)
            self._queued += _weight(delta)
            self._emitted += 1
        self._wake()


def _weight(delta: SourceDelta) -> int:
    return 1 + sum(event.keys for event in delta.events if isinstance(event, WandbRow))
