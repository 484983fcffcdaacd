"""Results directories as the daemon watches them: in a thread of their own, which delays nobody.

    results = Results(host, run_for, known, wake)   known: the newest row of each key that the store has
    results.found(files, directories)               after each walk over the roots
    results.named(claims)                           records of logs that name a report
    rows = results.take()                           what is new since the last call, in order

What counts and what is a gap: tic_daemon/results. A mount that hangs holds up this thread alone. Hashing takes half of
a core at most while the daemon follows logs, and reads no file twice that did not change; with `hurry` it takes what
there is. Rows are handed over once; those not committed when the daemon was killed are found again by the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tic_daemon import priority
from tic_daemon.results.archive import Archive
from tic_daemon.results.judge import SETTLE_S
from tic_daemon.results.reports import Claim
from tic_daemon.results.shelf import SLICE
from tic_daemon.store.rows import ResultRow

log = logging.getLogger("tic-daemon")

EVERY_S: Final = 5.0
"""Pause between two looks. A look that took long is followed by a pause twenty times as long."""
_REST: Final = 20.0
_NICE: Final = 10

_Walk = tuple[dict[str, str], frozenset[str]]

MAX_FILES: Final = 100_000
"""Manifests, sidecars and pages of one walk."""


class Results:
    """See the module. For one thread besides its own.

    Args:
        host: of the rows.
        run_for: the run that the configuration gives to a path; "".
        known: what the store has.
        wake: called from the thread when there are rows.
    """

    def __init__(
        self,
        host: str,
        run_for: Callable[[str], str],
        known: Iterable[ResultRow] = (),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        known = list(known)
        self._archive = Archive(host, run_for, known)
        self._watching = bool(known)
        self._wake = wake
        self._changed = threading.Condition()
        self._rows: list[ResultRow] = []
        self._claims: list[Claim] = []
        self._found: _Walk | None = None
        self._walk: _Walk | None = None
        self._asked = self._answered = 0
        self._waiting = self._settling = False
        self._at = 0.0
        self._final = self._hurry = self._stop = False
        self._thread: threading.Thread | None = None

    def found(self, files: Sequence[tuple[str, str]], directories: Sequence[str]) -> None:
        """(path, root) of what may be a manifest, sidecar or page, and all directories that the walk read. What differs
        from the walk before is looked at now, all else with the next look."""
        if not files and not self._watching:
            return
        walk = (dict(files), frozenset(directories))
        with self._changed:
            self._watching = True
            self._found = walk
            if walk != self._walk:
                self._walk = walk
                self._ask()

    def named(self, claims: Sequence[Claim]) -> None:
        """Records that name a report: it is looked at with the next look."""
        if not claims:
            return
        with self._changed:
            self._claims += claims
            if not self._watching:
                self._watching = True
                self._ask()

    def take(self) -> list[ResultRow]:
        """Rows that nobody took yet."""
        with self._changed:
            rows, self._rows = self._rows, []
        return rows

    def busy(self) -> bool:
        """Whether something is not looked at or hashed yet."""
        with self._changed:
            return self._answered < self._asked or self._waiting

    def settling(self) -> bool:
        """Whether something that was looked at may still be written, and is judged a little later."""
        return self._settling

    def hurry(self) -> None:
        """From now on nothing is paced."""
        self._hurry = True

    def finish(self, wait_s: float, *, final: bool = False) -> None:
        """A last look, for which so many seconds are waited. `final`: nothing is taken for still being written."""
        if not self._watching:
            return
        with self._changed:
            self._final = self._final or final
            self._ask()
            self._changed.wait_for(lambda: self._answered >= self._asked and not self._waiting, wait_s)

    def close(self) -> None:
        """Waits for nothing."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()

    def _ask(self) -> None:
        self._asked += 1
        if self._thread is None and not self._stop:
            self._thread = threading.Thread(target=self._run, name="tic-results", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        priority.behind(_NICE)
        due = 0.0
        while self._await(due):
            began = time.monotonic()
            asked = self._asked
            try:
                self._look()
                due = time.monotonic() + max(EVERY_S, _REST * (time.monotonic() - began))
                self._hash(asked, due)
            except Exception:  # a defect must not end the watch in silence, nor the daemon
                log.exception("results could not be looked at; it is tried again")
                due = time.monotonic() + _REST * EVERY_S
            with self._changed:
                self._answered = max(self._answered, asked)
                self._waiting, self._settling = self._archive.waiting, self._archive.settling
                self._changed.notify_all()
            if self._rows:
                self._wake()
        self._archive.close()

    def _await(self, due: float) -> bool:
        """Until there is something to do. False: the end."""
        with self._changed:
            while not self._stop and self._answered >= self._asked and (left := due - time.monotonic()) > 0:
                if self._waiting:
                    break
                if self._settling and self._hurry:
                    self._changed.wait(min(left, SETTLE_S / 10))
                    break
                self._changed.wait(left)
            return not self._stop

    def _look(self) -> None:
        with self._changed:
            found, self._found = self._found, None
            claims, self._claims = self._claims, []
        if found is not None:
            self._archive.found(*found)
        self._archive.named(claims)
        self._archive.look(self._tell, final=self._final)

    def _hash(self, asked: int, due: float) -> None:
        """Hashes what waits, until the next look is due or asked for."""
        while self._archive.waiting and not self._stop and self._asked == asked and time.monotonic() < due:
            self._at = time.monotonic()
            self._archive.work(SLICE, self._tell, self._pace)
            if self._rows:
                self._wake()

    def _pace(self, _: int) -> bool:
        """Rests as long as the last piece took."""
        now = time.monotonic()
        if not self._hurry:
            time.sleep(min(0.1, now - self._at))
        self._at = time.monotonic()
        return not self._stop

    def _tell(self, row: ResultRow) -> None:
        with self._changed:
            self._rows.append(row)
