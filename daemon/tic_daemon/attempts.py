"""Attempts that a scheduler declares: a requeued job, a pod that was made again, a restart of torchrun's workers.

    begin       after the first look, before anything is committed: where every log stands is kept in jobs.json, and if
                this is a restart, a new attempt is declared for the runs of the start before
    completed   to a declaration that another daemon of the job made, this one's own cuts are added
    look        now and then: which runs this start writes, for the next one; torchrun's restarts

A declaration is a line in the spool, as a person's is, so that every daemon of the workspace takes it in. Its id is a
function of run, job and restart: a daemon that starts again and the daemons of other nodes declare nothing twice.

Which runs: those that daemons of this job, on any node, saw growing in the start before (jobs.json). Without any such
record, the run if there is only one. Whatever is less sure is proposed to a person, in the log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from tic_daemon.errors import StoreError
from tic_daemon.output import printable
from tic_daemon.scheduler import Start
from tic_daemon.sources.follow import WHOLE, Stand
from tic_daemon.sources.layouts import torchrun_attempt
from tic_daemon.store.layout import StoreLayout, stores_under, write_private_json
from tic_daemon.store.owner import live_owner
from tic_daemon.store.rows import AttemptRow
from tic_daemon.store.spool import Spool, SpoolError

log = logging.getLogger("tic-daemon")

LOOK_S = 5.0
RETRY_S = 30.0
STARTS_KEPT = 50
_FILE_BYTES = 64 << 20

Cut = Mapping[int, tuple[int, int]]
"""By source_id: (generation, byte offset) from which on a log is new."""


class Store(Protocol):
    """What is asked of the writer of the store."""

    def knows_attempt(self, attempt_id: str) -> bool: ...
    def runs_between(self, after: Cut, before: Cut | None) -> set[str]: ...
    def runs_in(self, source_ids: Iterable[int]) -> set[str]: ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A declaration that has to get into the spool."""

    id: str
    run_id: str
    reason: str
    declared_at: datetime
    cut: tuple[tuple[int, int, int], ...]


class Declarer:
    """See the module. For the daemon's own thread.

    Args:
        layout: of the daemon's store.
        store: its writer.
        start: what the scheduler says; None if it says nothing.
    """

    def __init__(self, layout: StoreLayout, store: Store, start: Start | None) -> None:
        self._layout = layout
        self._store = store
        self._start = start
        self._spool = Spool(layout.spool_dir, who=start.name if start else "torchrun")
        self._file = layout.directory / "jobs.json"
        self._cut: dict[int, tuple[int, int]] = {}
        self._at = _utcnow()
        self._starts: list[dict[str, object]] = []
        self._runs: set[str] = set()
        self._ask_once_read = False
        self._wanted: dict[str, _Wanted] = {}
        self._retry_at = 0.0
        self._looked_at = float("-inf")
        self._sources = -1

    # --- this start of the job -----------------------------------------------------------------------------------

    def begin(self, stands: Sequence[Stand]) -> None:
        """Keeps where every log stands, and declares. A daemon that starts again in the same start goes on with what
        the first one kept: what the new processes have written since is theirs."""
        start = self._start
        if start is None:
            return
        kept = _read(self._file)
        self._starts = _starts(kept)
        mine = [one for one in self._starts if (one["job"], one["restart"]) == (start.job, start.restart)]
        if mine and (cut := _cut_of(kept, start)) is not None:
            self._cut, self._at = cut, _time_of(kept) or self._at
            self._runs = set(map(str, _listed(mine[0]["runs"])))
        else:
            self._cut = {one.source_id: (one.generation, one.offset) for one in stands}
            self._starts = [{"job": start.job, "restart": start.restart, "runs": []}, *self._starts][:STARTS_KEPT]
            self._save()
        if start.restart == 0:
            return
        known, runs = self._runs_before(start)
        if known:
            self._declare_restart(start, runs)
        else:
            self._ask_once_read = True

    def _runs_before(self, start: Start) -> tuple[bool, set[str]]:
        """Whether a daemon of this workspace was there in an earlier start; the runs of the last start that had any."""
        runs: dict[int, set[str]] = {}
        for layout in stores_under(self._layout.state_dir):
            for one in _starts(_read(layout.directory / self._file.name)):
                restart = one["restart"]
                if one["job"] == start.job and isinstance(restart, int) and restart < start.restart:
                    runs.setdefault(restart, set()).update(map(str, _listed(one["runs"])))
        last = max((restart for restart, found in runs.items() if found), default=None)
        return bool(runs), runs[last] if last is not None else set()

    def _declare_restart(self, start: Start, runs: set[str]) -> None:
        others = self._runs_of_others(start)
        for run in sorted(runs & others):
            log.warning(
                "restart %d of %s: another job's daemon sees %s as well, so no attempt is declared; if it is this "
                "job's: tic-daemon attempt %s --from now --reason restarted", start.restart, start.name,
                printable(run), printable(run),
            )  # fmt: skip
        for run in sorted(runs - others):
            reason = f"restart {start.restart} of {start.name}"
            cut = tuple((source, *stand) for source, stand in self._cut.items())
            self._want(_Wanted(self._id(run), run, reason, self._at, cut))
        self._write()

    def _runs_of_others(self, start: Start) -> set[str]:
        """Runs that live daemons of other jobs see growing: whose they are is not known."""
        found: set[str] = set()
        for layout in stores_under(self._layout.state_dir):
            if layout.directory == self._layout.directory or live_owner(layout.owner_file) is None:
                continue
            for one in _starts(_read(layout.directory / self._file.name))[:1]:
                if one["job"] != start.job:
                    found.update(map(str, _listed(one["runs"])))
        return found

    def completed(self, rows: Sequence[AttemptRow], where: Callable[[], Sequence[Stand]]) -> list[AttemptRow]:
        """The rows, with this daemon's own cuts first in those that declare what it knows of as well: this restart of
        the job, or one of torchrun that its directories show."""
        if not rows:
            return []
        stands = where()
        groups = _groups(stands)
        return [replace(row, cut=(*self._own_cut(row, groups, stands), *row.cut)) for row in rows]

    def _own_cut(self, row: AttemptRow, groups: Groups, stands: Sequence[Stand]) -> tuple[tuple[int, int, int], ...]:
        if self._start is not None and self._start.restart and row.id == self._id(row.run_id):
            return tuple((source, *stand) for source, stand in self._cut.items())
        for group, attempts in groups.items():
            for number in attempts:
                if row.id == _torchrun_id(row.run_id, group, number):
                    return _torchrun_cut(attempts, number, stands)
        return ()

    def _id(self, run: str) -> str:
        assert self._start is not None  # noqa: S101  asked only where there is one
        return _id(run, self._start.job, str(self._start.restart))

    # --- as time goes --------------------------------------------------------------------------------------------

    def look(self, where: Callable[[], Sequence[Stand]], read_all: Callable[[], bool], *, now: bool = False) -> None:
        """Notes the runs of this start, and declares what has become known: every five seconds, and `now`.

        Args:
            where: tells where the logs stand. read_all: tells whether all of them are read to their ends and committed.
        """
        moment = time.monotonic()
        if not now and moment - self._looked_at < LOOK_S:
            return
        self._looked_at = moment
        try:
            self._learn(where(), read_all())
        except StoreError as error:
            log.warning("%s", error)
        self._write()

    def _learn(self, stands: Sequence[Stand], caught_up: bool) -> None:
        if self._start is not None:
            runs = self._store.runs_between(self._cut, None) - self._runs
            if runs:
                self._runs |= runs
                self._starts[0]["runs"] = sorted(self._runs)
                self._save()
            if caught_up and self._ask_once_read:
                self._ask_once_read = False
                self._guess_no_run(self._start)
        if caught_up and len(stands) != self._sources:
            self._sources = len(stands)
            self._look_at_torchrun(stands)

    def _guess_no_run(self, start: Start) -> None:
        runs = self._store.runs_between({}, self._cut)
        if len(runs) == 1:
            self._declare_restart(start, runs)
        elif runs:
            log.warning(
                "restart %d of %s: no daemon was there before, and which of %d runs it goes on with is not known; "
                "say so: tic-daemon attempt RUN --from now --reason restarted", start.restart, start.name, len(runs),
            )  # fmt: skip

    # --- torchrun ------------------------------------------------------------------------------------------------

    def _look_at_torchrun(self, stands: Sequence[Stand]) -> None:
        """A directory attempt_N, N > 0: the agent has started all its workers anew."""
        for group, attempts in _groups(stands).items():
            for number in sorted(attempts):
                earlier = [one.source_id for n, of_n in attempts.items() if n < number for one in of_n]
                for run in sorted(self._store.runs_in(earlier)) if earlier else ():
                    reason = f"torchrun restart {number} in {printable(group)}"
                    cut = _torchrun_cut(attempts, number, stands)
                    # Found together, they are told apart by their number.
                    at = _utcnow() + timedelta(microseconds=number)
                    self._want(_Wanted(_torchrun_id(run, group, number), run, reason, at, cut))

    # --- into the spool and the file -----------------------------------------------------------------------------

    def _want(self, one: _Wanted) -> None:
        if not self._store.knows_attempt(one.id):
            self._wanted.setdefault(one.id, one)

    def _write(self) -> None:
        """Spools what has to be; what cannot be written now is tried again."""
        if not self._wanted or time.monotonic() < self._retry_at:
            return
        for one in list(self._wanted.values()):
            try:
                self._spool.attempt(
                    one.run_id, reason=one.reason, from_kind="scheduler", cut=one.cut, attempt_id=one.id,
                    declared_at=one.declared_at,
                )  # fmt: skip
            except SpoolError as error:
                self._retry_at = time.monotonic() + RETRY_S
                log.error("%s: no new attempt of %s yet: %s", one.reason, printable(one.run_id), error)
                return
            del self._wanted[one.id]
            log.info("a new attempt of %s: %s", printable(one.run_id), one.reason)

    def _save(self) -> None:
        start = self._start
        assert start is not None  # noqa: S101  asked only where there is one
        cut = [[source, *stand] for source, stand in self._cut.items()]
        kept: dict[str, object] = {
            "job": start.job, "restart": start.restart, "at": self._at.isoformat(), "starts": self._starts, "cut": cut,
        }  # fmt: skip
        try:
            write_private_json(self._file, kept)
        except OSError as error:
            log.error("cannot write %s: %s; the job's next start may not know its runs", self._file, error.strerror)


Groups = dict[str, dict[int, list[Stand]]]
"""Logs of torchrun's workers, by launch and by restart."""


def _groups(stands: Sequence[Stand]) -> Groups:
    groups: Groups = {}
    for one in stands:
        if (place := torchrun_attempt(one.path)) is not None:
            groups.setdefault(place[0], {}).setdefault(place[1], []).append(one)
    return groups


def _torchrun_id(run: str, group: str, number: int) -> str:
    return _id(run, f"torchrun:{group}", str(number))


def _torchrun_cut(
    attempts: dict[int, list[Stand]], number: int, stands: Sequence[Stand]
) -> tuple[tuple[int, int, int], ...]:
    """Logs of restart `number` and later belong to the new attempt whole, those of earlier ones to the old; all others
    are cut where they stand now."""
    cut = {one.source_id: (one.generation, one.offset) for one in stands}
    for n, of_n in attempts.items():
        cut.update({one.source_id: (0, 0) if n >= number else (one.generation, WHOLE) for one in of_n})
    return tuple((source, *stand) for source, stand in cut.items())


def _id(run: str, job: str, restart: str) -> str:
    text = "\0".join(("attempt", run, job, restart))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read(path: Path) -> dict[str, object]:
    """jobs.json, or nothing if it is missing, torn or not ours."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _starts(kept: dict[str, object]) -> list[dict[str, object]]:
    """Starts that the file names, the newest first."""
    return [
        {"job": one["job"], "restart": one["restart"], "runs": _listed(one.get("runs"))}
        for one in _listed(kept.get("starts"))
        if isinstance(one, dict) and isinstance(one.get("job"), str) and isinstance(one.get("restart"), int)
    ]


def _cut_of(kept: dict[str, object], start: Start) -> dict[int, tuple[int, int]] | None:
    if (kept.get("job"), kept.get("restart")) != (start.job, start.restart):
        return None
    cut: dict[int, tuple[int, int]] = {}
    for row in _listed(kept.get("cut")):
        numbers = [number for number in _listed(row) if isinstance(number, int)]
        if len(numbers) != 3:
            return None
        cut[numbers[0]] = (numbers[1], numbers[2])
    return cut


def _time_of(kept: dict[str, object]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(kept.get("at")))
    except ValueError:
        return None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
