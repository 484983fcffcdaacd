"""Follows all logs under the roots: what to look at when, and what came out of it.

    follower = FileFollower(roots, config, cursors, scanner)
    while running:
        follower.wait(0.5)
        deltas = follower.poll(budget_bytes, now)
        ... commit deltas and cursors in one transaction ...

A look is worth its time when the doorbell names a file, when a walk or a look finds that names changed, when a sweep
is due (each second, over everything that is not on a network mount), or when the last look did not reach the end. Files
share a poll's budget in turns of 256 KiB. Nothing here decides what a generation is (`source`) or what a line is
(`tailfile`); and nothing here depends on the clock but when things are done.
"""

from __future__ import annotations

import heapq
import itertools
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tic_daemon.config import Config
from tic_daemon.sources.checkpoints import Checkpoints
from tic_daemon.sources.descriptors import HeldDescriptors
from tic_daemon.sources.discover import Candidate, Discovery, Survey
from tic_daemon.sources.doorbell import Doorbell
from tic_daemon.sources.faultfiles import FaultFiles
from tic_daemon.sources.identity import Seen
from tic_daemon.sources.layouts import PathFacts
from tic_daemon.sources.names import Names
from tic_daemon.sources.network import NetworkLooks
from tic_daemon.sources.reading import Look
from tic_daemon.sources.sniff import why_not_a_log
from tic_daemon.sources.source import Source, pieces_on_disk
from tic_daemon.sources.tailfile import Generation, ScannerLike
from tic_daemon.store.rows import CheckpointRow, CursorRow, FaultFileRow, SourceDelta, SourceRow

WHOLE = 1 << 62
"""An offset behind the end of any log: the store's infinity (schema/derive/1_place.sql)."""
_TURN = 1 << 18
_GLANCE = 1 << 12
_SWEEP_AT_LEAST = 2000
_HOT_S = 60.0
_DEAF_SWEEP_S = 0.25
_GZIP_PATIENCE_S = 60.0
_SLOW_WALK_S = 0.05
_FEW_DIRECTORIES = 2000


class Stand(NamedTuple):
    """How far the newest generation of a log reaches now, read or not; WHOLE for a compressed one."""

    source_id: int
    generation: int
    offset: int
    path: str


class FileFollower:
    """All followed files of one daemon.

    Args:
        roots: directories or files to watch.
        config: what tic.toml says.
        cursors: what the store knows, by (source_id, generation).
        scanner: opens a scanner for each generation.
        sources: source rows of the store; with them the end of a lost range may be known, and what vanished while no
            daemon ran is told.
        checkpoints, fault_files: the newest row that the store has of each.
        clock: monotonic seconds, for scheduling only.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        config: Config,
        cursors: Mapping[tuple[int, int], CursorRow],
        scanner: ScannerLike,
        *,
        sources: Mapping[int, SourceRow] | None = None,
        checkpoints: Iterable[CheckpointRow] = (),
        fault_files: Iterable[FaultFileRow] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._scanner = scanner
        self._clock = clock
        self._stored = dict(sources or {})
        self._cursors: dict[int, dict[int, CursorRow]] = {}
        for (source, number), row in cursors.items():
            self._cursors.setdefault(source, {})[number] = row
        self._discovery = Discovery(roots, config, [row.path for row in cursors.values()])
        self._sources: dict[str, Source] = {}
        self._by_id: dict[int, Source] = {}
        self._by_path: dict[str, Source] = {}
        self._hot: OrderedDict[Generation, Source] = OrderedDict()
        self._touched: dict[Generation, Source] = {}
        self._dirty: set[Source] = set()
        self._tails: OrderedDict[Generation, tuple[Source, float]] = OrderedDict()
        self._ending: dict[Generation, Source] = {}
        self._ring: deque[tuple[Generation, Source]] = deque()
        self._network_due: list[tuple[float, int, Generation, Source]] = []
        self._network_behind: set[Generation] = set()
        self._count = itertools.count()
        self._held = HeldDescriptors(config.poll.max_open_files)
        self._bell = Doorbell()
        self._names_changed = False
        self._names = Names(self._name_rang)
        self._checkpoints = Checkpoints(config.host, checkpoints)
        self._fault_files = FaultFiles(config.host, fault_files)
        self._network = NetworkLooks(config.poll.network_threads, self._bell.wake)
        self._scout = ThreadPoolExecutor(1, "tic-walk")
        self._walk: Future[tuple[Survey, float]] | None = None
        self._walk_cost = 0.0
        self._polled_at = self._sweep_at = self._rescan_at = self._clock()
        self._rescanned_at = float("-inf")
        self.survey: Survey | None = None

    # --- for the caller ----------------------------------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Until something may have grown or is due, at most `timeout` seconds. False: nothing happened."""
        if self._hot:
            return True
        now = self._clock()
        due = min(self._next_due(), now + timeout)
        rang = self._bell.wait(due - now)
        if rang and (rest := self._polled_at + self._config.poll.rest_s - self._clock()) > 0:
            time.sleep(min(rest, timeout))
        return rang or self._clock() >= self._next_due()

    def rings(self) -> bool:
        """Whether something has grown since the last `poll`; never waits."""
        return bool(self._hot) or self._bell.rings()

    def wake(self) -> None:
        """Ends a `wait` from any thread."""
        self._bell.wake()

    def poll(self, budget_bytes: int, now: float) -> list[SourceDelta]:
        """Reads and scans at most `budget_bytes`; `now` is wall time in seconds. Commit all deltas or stop using it."""
        tick = self._polled_at = self._clock()
        rung, lost = self._bell.drain()
        for path in rung:
            self._ring_for(path)
        if lost:
            self._sweep_at = tick
        self._maybe_walk(tick, now)
        if tick >= self._sweep_at:
            self._sweep(tick, now)
        for source, generation, look in self._network.collect():
            if look is not None:
                self._apply(source, generation, look, tick, now)
            self._schedule_network(source, generation, tick)
        self._submit_network(tick)
        self._work(budget_bytes, tick, now)
        self._show_tails(tick)
        self._end_what_ended(tick, now)
        return self._reap()

    def checkpoints(self) -> list[CheckpointRow]:
        """Checkpoints that changed since the last call."""
        return self._checkpoints.poll()

    def fault_files(self) -> list[FaultFileRow]:
        """Files that a fault left, of which something changed since the last call."""
        return self._fault_files.take()

    def drained(self) -> bool:
        """Nothing more can be read right now."""
        return not (
            self._checkpoints.busy() or self._hot or self._network.busy() or self._network_behind or self._walk
        ) and bool(self.survey)

    def stands(self) -> list[Stand]:
        """Where every log stands: what comes from now on stands behind it, or in a later generation."""
        out = []
        for source in self._sources.values():
            newest = max((*source.open, *source.past), default=None)
            if newest is None:
                continue
            generation = source.open.get(newest)
            if generation is None:
                offset = source.past[newest].byte_offset
            elif generation.file.gz:
                offset = WHOLE
            else:
                offset = max(generation.position, generation.size, generation.file.size)
            out.append(Stand(source.id, newest, offset, source.candidate.path))
        return out

    def behind(self) -> int:
        """How many logs are known to have more than was read of them."""
        return len({source.id for source in self._hot.values()}) + len(self._network_behind)

    def hasten(self) -> None:
        """With the next poll names and all files are looked at anew: for the last look before an end, which no event
        that is still on its way may escape."""
        self._names_changed = True
        self._rescanned_at = float("-inf")
        self._rescan_at = self._sweep_at = self._clock()
        for source in self._sources.values():
            for generation in source.open.values():
                if not generation.closed and not source.candidate.network:
                    self._hot[generation] = source

    def finish(self) -> list[SourceDelta]:
        """All there is, for now: ended generations are closed, unterminated last lines become provisional rows."""
        for generation, source in list(self._ending.items()):
            unread = generation.failed or self._unfinished_gzip(source, generation)
            if generation.at_end and not generation.closed and not unread:
                self._end(source, generation)
        for source in self._sources.values():
            for generation in source.open.values():
                if not generation.closed and generation.at_end:
                    generation.show(with_tail=True)
                    self._touched[generation] = source
        return self._reap()

    def note_live_stamp(self, source_id: int, stamp: datetime, now: float) -> None:
        """A line read within about 2 s of its being written, while caught up, bears the zoneless `stamp`.

        Three such observations in a row that agree on a quarter of an hour name the source's zone (`zone_how`
        "inferred"), unless tic.toml names it. Others later take it away for good ("changed"). `now`: wall time in
        seconds when the line was read.
        """
        if source := self._by_id.get(source_id):
            source.note_stamp(stamp, now)

    def problems(self) -> list[str]:
        """What keeps this follower from hearing at once (limits, mostly); sweeps and walks still find everything."""
        return [text for text in (self._bell.broken, self._names.broken) if text]

    def close(self) -> None:
        """Ends threads and closes descriptors. Nothing is written."""
        self._names.close()
        self._network.close()
        self._checkpoints.close()
        self._scout.shutdown(wait=False, cancel_futures=True)
        for source in self._sources.values():
            source.close()
        self._bell.close()

    # --- names -------------------------------------------------------------------------------------------------------

    def _name_rang(self, paths: list[str], is_directory: bool) -> None:
        # Checkpoints and temporary files come and go all the time; only what may be a log is worth a walk.
        if is_directory or not all(map(self._discovery.is_left_out, paths)):
            self._names_changed = True
            self._bell.wake()

    def _maybe_walk(self, tick: float, now: float) -> None:
        if self._walk is not None:
            if self._walk.done():
                survey, self._walk_cost = self._walk.result()
                self._walk = None
                self._adopt(survey, tick, now)
            return
        if self._names_changed:
            self._rescan_at = min(self._rescan_at, max(tick, self._soonest_walk()))
        if tick < self._rescan_at:
            return
        self._names_changed = False
        self._rescanned_at = tick
        self._rescan_at = tick + max(self._config.poll.rescan_s, 50 * self._walk_cost)
        if self.survey is not None and self._walk_cost > _SLOW_WALK_S:
            self._walk = self._scout.submit(self._survey)
            self._walk.add_done_callback(lambda _: self._bell.wake())
        else:
            survey, self._walk_cost = self._survey()
            self._adopt(survey, tick, now)

    def _soonest_walk(self) -> float:
        """A burst of names is one walk, and slow walks are made less often: they take a tenth of the time at most."""
        return self._rescanned_at + max(5 * self._config.poll.rest_s, 10 * self._walk_cost)

    def _survey(self) -> tuple[Survey, float]:
        began = time.monotonic()
        survey = self._discovery.survey()
        return survey, time.monotonic() - began

    def _adopt(self, survey: Survey, tick: float, now: float) -> None:
        first, self.survey = self.survey is None, survey
        few = len(survey.directories) <= _FEW_DIRECTORIES
        holding = {os.path.dirname(file.path) for one in survey.candidates for file in one.files}  # noqa: PTH120
        self._bell.watch(survey.directories if few else holding)
        self._names.watch(self._discovery.roots, survey.directories)
        self._checkpoints.found(survey.directories, self._discovery.root_of)
        self._fault_files.found(survey.fault_files, survey.walked)
        found = set()
        for candidate in survey.candidates:
            found.add(candidate.path)
            source = self._sources.get(candidate.path)
            if source is None:
                source = self._add(candidate, now)
                self._settle(source, candidate.files, tick, now)
                continue
            if candidate == source.candidate and candidate.files == source.files and not source.rejected:
                continue
            source.describe(candidate)
            if self._looks_different(source, candidate):
                self._settle(source, pieces_on_disk(candidate.path), tick, now)
        for path in self._sources.keys() - found:
            source = self._sources[path]
            if source.files:
                self._settle(source, pieces_on_disk(path), tick, now)
        if first:
            self._add_what_vanished(found, tick, now)

    def _looks_different(self, source: Source, candidate: Candidate) -> bool:
        def listing(files: Sequence[Seen]) -> set[tuple[str, int, int]]:
            return {(file.path, file.device, file.inode) for file in files}

        if source.rejected or listing(source.files) != listing(candidate.files):
            return True
        if any(source.empty.get(file.path, file.size) != file.size for file in candidate.files):
            return True
        return any(
            not file.gz
            and row.closed
            and (row.device, row.inode) == (file.device, file.inode)
            and file.size > row.byte_offset
            for file in candidate.files
            for row in source.past.values()
        )

    def _add(self, candidate: Candidate, now: float) -> Source:
        stored_id = Source.id_of(candidate)
        cursors, stored = self._cursors.pop(stored_id, {}), self._stored.get(stored_id)
        source = Source(candidate, self._scanner, cursors, stored, now, dirty=self._dirty)
        self._sources[candidate.path] = self._by_id[source.id] = source
        return source

    def _add_what_vanished(self, found: set[str], tick: float, now: float) -> None:
        """Sources of the store that had unread bytes and lie nowhere any more."""
        for row in self._stored.values():
            open_ones = any(not cursor.closed for cursor in self._cursors.get(row.source_id, {}).values())
            if row.root in self._discovery.roots and open_ones and not pieces_on_disk(row.path):
                facts = PathFacts(
                    row.role, row.framework, row.rank, row.pid, row.single_process, row.stream, row.console
                )
                candidate = Candidate(
                    row.path,
                    row.root,
                    (),
                    facts,
                    row.host,
                    run_hint=row.run_hint,
                    run_how=row.run_how,
                    network=row.network,
                    why=(row.why,),
                )
                if Source.id_of(candidate) == row.source_id and row.path not in found:
                    self._settle(self._add(candidate, now), (), tick, now)

    def _settle(self, source: Source, files: Sequence[Seen], tick: float, now: float) -> None:
        for file in source.files:
            self._by_path.pop(file.path, None)
        source.settle(files, tick, now)
        for file in source.files:
            self._by_path[file.path] = source
        for generation in source.open.values():
            self._touched[generation] = source
            if generation.closed:
                continue
            if generation.ending:
                self._ending[generation] = source
            self._mark(source, generation, tick)

    def _mark(self, source: Source, generation: Generation, tick: float) -> None:
        """A generation that is new or lies elsewhere: looks at it soon, and from now on."""
        if source.candidate.network:
            self._network_behind.add(generation)
            heapq.heappush(self._network_due, (tick, next(self._count), generation, source))
            return
        self._hot[generation] = source
        if not generation.swept:
            generation.swept = True
            self._ring.append((generation, source))

    # --- looks -------------------------------------------------------------------------------------------------------

    def _ring_for(self, path: str) -> None:
        source = self._by_path.get(path)
        if source is None:
            # Grown, and not known: perhaps it was too young at the last walk.
            if not self._discovery.is_left_out(path):
                self._names_changed = True
            return
        if not source.candidate.network:
            for generation in source.open.values():
                if not generation.closed:
                    self._hot[generation] = source

    def _sweep(self, tick: float, now: float) -> None:
        interval = min(self._config.poll.sweep_s, _DEAF_SWEEP_S) if self._bell.broken else self._config.poll.sweep_s
        self._sweep_at = tick + interval
        share = -(-len(self._ring) // 5)
        for _ in range(min(len(self._ring), max(_SWEEP_AT_LEAST, share))):
            generation, source = self._ring.popleft()
            if generation.closed or source.open.get(generation.number) is not generation:
                generation.swept = False
                continue
            self._ring.append((generation, source))
            if not generation.unchanged() and generation not in self._hot:
                self._look(source, generation, _GLANCE, tick, now)
            if source.row.state == "growing" and tick - source.grown_at > self._config.poll.idle_s:
                source.set(state="idle")

    def _work(self, budget: int, tick: float, now: float) -> None:
        while self._hot and budget > 0:
            generation, source = self._hot.popitem(last=False)
            if not generation.closed and not source.rejected:
                took = self._look(source, generation, min(_TURN, budget), tick, now)
                budget -= took
                if not took and not generation.ending and source.name_leads_elsewhere(generation):
                    # It rang and the held file did not grow: what grew is another file of that name.
                    self._settle(source, pieces_on_disk(source.candidate.path), tick, now)

    def _look(self, source: Source, generation: Generation, limit: int, tick: float, now: float) -> int:
        reader = source.reader(generation)
        if reader is None:
            return 0
        look = reader.look(generation.position, generation.before, min(limit, generation.room))
        self._held.used(reader)
        self._apply(source, generation, look, tick, now)
        return len(look.data)

    def _apply(self, source: Source, generation: Generation, look: Look, tick: float, now: float) -> None:
        if look.status == "error":
            generation.at_end = generation.failed = True
            source.set(state="unreadable", error=look.error)
            return
        if look.status != "ok":
            reader = source.reader(generation)
            if reader is not None:
                reader.broken = look.status
            was = generation.file
            self._settle(source, pieces_on_disk(source.candidate.path), tick, now)
            if not generation.closed and generation.file == was:
                self._hot.pop(generation, None)  # the listing and the look disagree: the next sweep looks again
            return
        if generation.failed:
            generation.failed = False
            source.set(state="idle", error="")
        if look.data:
            if generation.position == 0 and (why := why_not_a_log(look.data, named_like_log=True)):
                source.reject(why)
                return
            generation.take(look.data)
            source.took(generation, tick, now)
            self._touched[generation] = source
        generation.at_end, generation.complete = look.end, look.complete
        if not look.end:
            if not source.candidate.network:
                self._hot[generation] = source
        elif look.data:
            generation.show(with_tail=False)
            self._tails.pop(generation, None)
            if generation.pending:
                self._tails[generation] = (source, tick + self._config.poll.tail_s)

    # --- network -----------------------------------------------------------------------------------------------------

    def _submit_network(self, tick: float) -> None:
        while self._network_due and self._network_due[0][0] <= tick:
            _, _, generation, source = heapq.heappop(self._network_due)
            reader = source.reader(generation)
            if reader is None or generation.closed or source.rejected:
                self._network_behind.discard(generation)
            else:
                self._network.submit(source, generation, reader)

    def _schedule_network(self, source: Source, generation: Generation, tick: float) -> None:
        poll = self._config.poll
        if generation.closed or source.open.get(generation.number) is not generation:
            self._network_behind.discard(generation)
            return
        due = tick
        if generation.at_end:
            self._network_behind.discard(generation)
            warm = tick - generation.grown_at < _HOT_S or generation.ending
            due += poll.network_s if warm else poll.network_cold_s
        heapq.heappush(self._network_due, (due, next(self._count), generation, source))

    # --- ends --------------------------------------------------------------------------------------------------------

    def _show_tails(self, tick: float) -> None:
        while self._tails:
            generation, (source, due) = next(iter(self._tails.items()))
            if due > tick:
                break
            del self._tails[generation]
            if generation.pending and generation.at_end and not generation.closed:
                generation.show(with_tail=True)
                self._touched[generation] = source

    def _end_what_ended(self, tick: float, now: float) -> None:
        for generation, source in list(self._ending.items()):
            if generation.closed or source.open.get(generation.number) is not generation:
                del self._ending[generation]
            elif generation.failed:
                continue  # it cannot be read now; what is in it is not given up
            elif generation.at_end and tick - generation.grown_at >= self._patience(source, generation):
                if not source.candidate.network and self._look(source, generation, _TURN, tick, now):
                    continue  # somebody still adds to it
                if generation.at_end and not (generation.closed or generation.failed) and generation in self._ending:
                    self._end(source, generation)

    def _patience(self, source: Source, generation: Generation) -> float:
        """Seconds of silence after which nobody is expected to add to a generation that is ending."""
        if self._unfinished_gzip(source, generation):
            return _GZIP_PATIENCE_S
        if generation.complete:
            return 0.0
        if source.holds_the_only_way(generation):
            # Deleted under its writer, and nothing has taken its place: what is still written is read nowhere else.
            return self._config.poll.idle_s
        return self._config.poll.linger_s

    @staticmethod
    def _unfinished_gzip(source: Source, generation: Generation) -> bool:
        return generation.file.gz and not generation.complete

    def _end(self, source: Source, generation: Generation) -> None:
        gap = None
        if self._unfinished_gzip(source, generation):
            gap = generation.gap("gzip_cut", -1, "the compressed file ends before its end mark")
        source.end(generation, gap)
        self._touched[generation] = source
        self._ending.pop(generation, None)

    def _reap(self) -> list[SourceDelta]:
        out = []
        for generation, source in self._touched.items():
            if not generation.harvest.cursor_moved:
                continue  # only the beginning of a line so far: counted when the cursor passes it
            harvest, lines = generation.reap()
            cursor = generation.cursor(source.id)
            out.append(
                SourceDelta(source.row, cursor, tuple(harvest.events), tuple(harvest.provisional), harvest.bytes, lines)
            )
            source.changed = False
            source.reaped(cursor)
        self._touched.clear()
        for source in self._dirty:
            out.extend(SourceDelta(source.row, cursor) for cursor in source.moved)
            if source.changed and not source.moved:
                out.append(SourceDelta(source.row))
            source.moved, source.changed = [], False
        self._dirty.clear()
        return out

    def _next_due(self) -> float:
        due = [self._sweep_at, self._rescan_at]
        if self._names_changed and self._walk is None:
            due.append(self._soonest_walk())
        if self._tails:
            due.append(next(iter(self._tails.values()))[1])
        if self._network_due:
            due.append(self._network_due[0][0])
        if self._ending:
            due.append(self._polled_at + self._config.poll.linger_s / 4)
        return min(due)
