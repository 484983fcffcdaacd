"""The daemon's main loop: read, scan, commit; and its life from start to a clean end.

One thread does all of it. A tick is: wait for the doorbell, read what has grown, scan it, and commit rows and cursors
in one transaction. When to commit is `Pace`: lines that are rare at once, so that they show without delay, and under
load every 200 to 500 ms, since a commit costs about the same whatever it holds. All else that this thread does is done
in pieces, between which a line that waits goes first.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.attempts import Declarer
from tic_daemon.batch import Batch
from tic_daemon.beside import Beside
from tic_daemon.config import Config
from tic_daemon.ending import CUT_SHORT, Ending
from tic_daemon.listen import Listen
from tic_daemon.pace import Pace
from tic_daemon.scan import selftest
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scheduler import Start
from tic_daemon.sources.follow import FileFollower
from tic_daemon.store.exchange import Exchange
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.publish import Publisher
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.store.rows import SourceDelta
from tic_daemon.store.spool import PatientSpool, SpoolReader
from tic_daemon.store.writer import StoreFull, Writer

if TYPE_CHECKING:
    from tic_daemon.live import LiveServer

log = logging.getLogger("tic-daemon")

LOOPBACK = Listen()

POLL_BYTES = 8 << 20
"""How much one poll reads at most: bounds memory, and the time until a signal is heard."""
PENDING_BYTES = 32 << 20
"""How much may be read and not yet committed; then reading waits for the store."""
SWEEP_RESERVE_S = 8.0
"""At the end: the final sweep leaves so much of the time to what comes after it."""
SWEEP_BYTES = 192 << 20
"""The same while all there is is read to its end: a commit asks much of all rows that stand, so fewer are cheaper."""
SWEEPS_S = (2.0, 8.0)
"""While all there is is read to its end, rows may wait so long at least and at most."""
COMMIT_RESERVE_S = 4.0
"""At the end: a commit that finds no space is tried until so much of the time is left."""
PUBLISH_RESERVE_S = 3.0
"""At the end: the last snapshot leaves so much of the time to the store itself."""
COMMIT_SHARE = 8
"""Commits of what logs hold take an eighth of the time at most, where they can."""
COMMITS_S = (0.2, 0.5)
"""So far apart are they under load: the shortest and the longest."""
COMMIT_BURST_S = 1.0
"""Some that are rare may come closer together."""
COMMIT_APART_S = 0.1
"""Lines that are printed together are committed together."""
FULL_S = 0.1
"""While the disk is full and no more may be read, it is looked so often whether the end is asked for."""
PUT_OFF_S = 5.0
"""So long at most lines go before what can wait; then all of it is done once."""
STORE_S = 5.0
"""How often it is made sure that the store was not deleted."""
SPOOL_S = 0.5
"""How often the spool is looked at: a mark is acknowledged within a second."""
EXCHANGE_S = 3.0
"""How long the exchange between nodes may hold up the end; its directory may hang."""

WANDB_API_S = 8.0
"""At the end: how long W&B histories are read once more, if that much is to spare."""
SETTLING_S = 12.0
"""With `--once`, results that may still be written are waited for so long; then they are judged as they are."""


def utcnow() -> datetime:
    """Now as the store keeps times: naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


class Daemon:
    """A daemon over some roots: `run()` until it is told to stop, or `run_once()` to the end of what is there.

    Args:
        roots: directories (or single files) to watch.
        config: tic.toml and its defaults.
        layout: where the store lies.
        engine: multi-pattern engine ("auto", "hyperscan", "ahocorasick").
        listen: where the live endpoint listens, or None for none.
        take_over: take a store over whose owner seems dead on another host.
        start: the scheduler's start of the job that this daemon was started in, before the job's processes.
        ending: asked by whoever wants it to end, e.g. `ending.signals`; may be asked before it runs.

    Raises:
        StoreOwnedError, StoreVersionError, RuleError, ConfigError: before anything is written.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        config: Config,
        layout: StoreLayout,
        *,
        engine: str = "auto",
        listen: Listen | None = LOOPBACK,
        take_over: bool = False,
        start: Start | None = None,
        ending: Ending | None = None,
    ) -> None:
        self._rules = RuleSet.load(config.rules)
        self._writer = Writer.open(
            layout,
            take_over=take_over,
            local_dir=config.store.local_dir,
            margin_s=config.lock.margin_s,
            staleness=config.lock.staleness,
            wandb=Reconciler(config.wandb.keys, config.wandb.grace_s, config.wandb.framework, config.wandb.revision),
        )
        self._writer.put_fault_rules(self._rules.fault_rules())
        self._scanner = Scanner(self._rules, engine)
        if config.rules:
            selftest.require(self._rules, self._scanner)  # a rule of the user that sleeps would miss faults silently
        self._follower = FileFollower(
            roots,
            config,
            self._writer.cursors(),
            self._scanner,
            sources=self._writer.sources(),
            checkpoints=self._writer.checkpoints(),
            fault_files=self._writer.fault_files(),
        )
        self._beside = Beside(roots, config, layout, self._writer, self._scanner, self._follower.wake)
        self._exchange = Exchange(self._writer.layout, self._writer.reader_cursor, self._follower.wake)
        self._spool = PatientSpool(SpoolReader(layout))
        self._publisher: Publisher | None = None
        if config.store.snapshot_s > 0:
            self._publisher = Publisher(
                self._writer.reader_cursor,
                self._writer.layout,
                self._writer.changes,
                lost=self._writer.lost,
                every_s=config.store.snapshot_s,
            )
        self._declarer = Declarer(layout, self._writer, start)
        self._begun = False
        self._begin: Callable[[], None] = lambda: None
        self._live: LiveServer | None = None
        if listen is not None:
            from tic_daemon.live import LiveServer  # noqa: PLC0415  a server, which `--once` does without

            self._live = LiveServer(
                self._writer.reader_cursor,
                self._writer.layout,
                spool=self._spool.waiting,
                listen=listen,
                progress=self._writer.progress,
            )
        self._ending = ending or Ending()
        self._pace = Pace(COMMIT_SHARE, *COMMITS_S, COMMIT_BURST_S, COMMIT_APART_S)
        self._batch = Batch()
        self._spool_at = 0.0
        # When the store was looked for; when all that can wait had its turn.
        self._store_at = self._kept_up = time.monotonic()
        self._full_until = 0.0
        self._caught_up = self._sweeping = False

    @property
    def store_id(self) -> str:
        """Identity of the store that this daemon writes."""
        return self._writer.store_id

    def run(self, ready: Callable[[str], None] | None = None, begun: Callable[[], None] = lambda: None) -> bool:
        """Follow until the end is asked for.

        Args:
            ready: called once with the endpoint's URL ("" without one), as soon as it answers.
            begun: called once after the first look at all logs: what is written from then on is new.

        Returns:
            Whether all that was read is committed.
        """
        self._begin = begun
        try:
            self._exchange.start()
            self._beside.start()
            self._ending.stage = "following"
            if self._live is not None:
                self._live.start()
            self._publish()
            if ready is not None:
                ready(self._live.url if self._live is not None else "")
            while not self._ending.requested:
                self._tick()
            return self._end()
        finally:
            self._close()

    def run_once(self) -> bool:
        """Read all there is to its end, unterminated last lines included. False: the end was asked for before."""
        try:
            self._exchange.start()
            self._exchange.first_look(EXCHANGE_S)
            self._beside.start(once=True)
            self._ending.stage = "reading"
            self._publish()
            swept = self._sweep(lambda: self._ending.requested)
            self._read_wandb(lambda: self._ending.requested)
            swept = self._verify(lambda: self._ending.requested) and swept
            kept = self._keep(lambda: self._ending.requested, whole=swept) and swept
            kept = kept and self._compare(lambda: self._ending.requested)
            if kept:
                self._upkeep(last=True, no_more=lambda: self._ending.requested)
                self._commit(force=True)  # what was declared only now
            return kept
        finally:
            self._close()

    def _publish(self) -> None:
        if self._publisher is not None:
            self._publisher.start()

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._store_at >= STORE_S:
            self._store_at = now
            self._writer.require_file()
        full = now < self._full_until  # then nothing is due, whatever waits
        if self._batch.bytes < PENDING_BYTES:
            self._follower.wait(min(self._pace.remaining(now), SPOOL_S) if self._batch.deltas and not full else SPOOL_S)
            self._read()
        elif full:
            time.sleep(FULL_S)  # what has grown ends no wait that nothing reads
        if self._batch.deltas and not self._pace.remaining(time.monotonic()):
            self._commit()
        elif self._exchange.waiting or time.monotonic() - self._spool_at >= SPOOL_S:
            self._take_spool()
        if not self._batch.deltas:
            self._upkeep()

    def _read(self, *, whole: bool = False) -> None:
        """Takes what came. `whole`: of histories, too, as much as there is."""
        began = utcnow()
        deltas = self._follower.poll(POLL_BYTES, time.time())
        if not self._begun and self._follower.survey is not None:
            self._begun = True
            self._declarer.begin(self._follower.stands())
            self._begin()
        if self._caught_up:
            self._note_zones(deltas)
        deltas += self._beside.take(deltas, self._follower.survey, whole=whole)
        self._caught_up = self._follower.drained()
        self._batch.checkpoints.extend(self._follower.checkpoints())
        self._batch.fault_files.extend(self._follower.fault_files())
        self._beside.look_at_results(self._follower.survey, self._batch)
        self._batch.add(deltas, began)

    def _note_zones(self, deltas: Sequence[SourceDelta]) -> None:
        """Lines that were read as they were written show the zone of stamps that name none."""
        now = time.time()
        for delta in deltas:
            for event in reversed(delta.events):
                if event.at.stamp is not None and not event.at.stamp_utc:
                    self._follower.note_live_stamp(delta.source.source_id, event.at.stamp, now)
                    break

    def _commit(self, *, force: bool = False) -> bool:
        """Commit what waits. A full disk keeps it, says so once a minute, and goes on by itself when there is space."""
        started, worked = time.monotonic(), time.thread_time()
        if started < self._full_until and not force:
            return False
        batch, began = self._batch, self._batch.began or utcnow()
        spool = self._spool.pending()
        told = self._exchange.pending()
        said = self._beside.said()
        try:
            self._writer.commit(
                batch.deltas,
                marks=spool.marks,
                attempts=self._declarer.completed(spool.attempts, self._follower.stands),
                ledger=spool.ledger,
                remote=told,
                pins=said.pins,
                configs=said.configs,
                checkpoints=batch.checkpoints,
                fault_files=batch.fault_files,
                results=batch.results,
                compared=batch.compared,
                began_at=began,
                lag_us=int((utcnow() - began).total_seconds() * 1e6),
            )
        except StoreFull as error:
            log.error("%s", error)
            self._full_until = started + min(30.0, max(1.0, 2 * (started - self._pace.last)))
            self._tell()
            return False
        self._spool.taken(spool)
        self._exchange.taken(told)
        self._beside.committed(said)
        self._spool_at = started
        if batch.deltas:  # what stands beside the logs has a pace of its own, and they do not wait for it
            now = time.monotonic()
            self._pace.done(started, now, max(time.thread_time() - worked, (now - started) / 4))
        self._batch = Batch()
        self._tell()
        # Here, and not only in quiet moments: under steady load there are none, and what is not checkpointed is memory.
        self._upkeep()
        return True

    def _upkeep(self, *, last: bool = False, no_more: Callable[[], bool] | None = None) -> None:
        survey = self._follower.survey
        if last:
            self._beside.finish(survey, self._batch, no_more)
        elif survey is not None:
            self._beside.look(survey, time.monotonic())
        self._declarer.look(self._follower.stands, self._follower.drained, now=last)
        settled = self._writer.settle_if_due(backlog=self._sweeping, pressed=self._pressed)
        if self._beside.desk is not None and self._caught_up:
            self._beside.desk.begin()
        self._exchange.changed(self._writer.derived_version)
        if settled and not self._pressed():
            self._writer.checkpoint_if_due()
            self._kept_up = time.monotonic()
        self._tell()

    def _pressed(self) -> bool:
        """Whether a line waits that could be committed now: then what can wait does. Under load there is time between
        two commits, so that all of it gets its turn; where there is not, as beside a slow file system, after PUT_OFF_S.
        """
        now = time.monotonic()
        if self._pace.remaining(now) or now - self._kept_up >= PUT_OFF_S:
            return False
        return bool(self._batch.deltas) or self._follower.rings()

    def _tell(self) -> None:
        if self._live is not None:
            self._live.note(self._writer.progress)

    def _take_spool(self) -> None:
        self._spool_at = time.monotonic()
        if self._batch.beside or self._beside.said() or self._spool.pending() or self._exchange.pending():
            self._commit()

    def _end(self) -> bool:
        """What was read is kept first; then all logs are read to their ends, as far as there is time."""
        ending = self._ending
        log.info("%s: reading to the end of all logs", ending.why)
        ending.stage = "committing what was read"
        self._commit(force=True)
        ending.stage = "reading the last lines"
        if not self._sweep(lambda: ending.left() <= SWEEP_RESERVE_S):
            log.warning("left out: %d logs are not read to their ends; the next start goes on", self._follower.behind())
        ending.stage = "reading W&B histories"
        until = time.monotonic() + min(WANDB_API_S, ending.left() - SWEEP_RESERVE_S)
        self._read_wandb(lambda: ending.hurried or time.monotonic() >= until)
        ending.stage = "committing the last lines"
        kept = self._keep(lambda: ending.left() <= COMMIT_RESERVE_S)
        if kept and ending.left() > 0:
            self._upkeep(last=True)
            self._commit(force=True)  # what was declared only now
        return kept

    def _sweep(self, no_more: Callable[[], bool]) -> bool:
        """Reads and commits until nothing is left to read. False: `no_more` said to stop before."""
        self._follower.hasten()
        self._beside.hasten()
        with self._backlog():
            self._read_all(no_more)
        self._batch.add(self._follower.finish())
        self._batch.add(self._beside.last_of_wandb())
        return self._follower.drained()

    def _read_all(self, no_more: Callable[[], bool]) -> None:
        pace, began = Pace(COMMIT_SHARE, *SWEEPS_S, burst_s=0.0), time.monotonic()
        pace.done(began, began, 0.0)
        while not no_more():
            if self._batch.bytes < SWEEP_BYTES:
                self._read(whole=True)
            began = time.monotonic()
            due = self._batch.bytes >= SWEEP_BYTES or not pace.remaining(began)
            if self._batch.deltas and due and self._commit():
                ended = time.monotonic()
                pace.done(began, ended, ended - began)
                gc.collect(0)
            if self._follower.drained() and self._beside.drained():
                break
            if self._batch.bytes >= SWEEP_BYTES:
                time.sleep(0.05)  # the store is full: wait for space rather than fill the memory
            elif self._follower.drained():
                self._follower.wait(0.05)

    @contextlib.contextmanager
    def _backlog(self) -> Iterator[None]:
        """While all is read that was written before. What can wait does; and events hold no cycles: they are looked for
        behind a commit, when hardly an object is left, and not among hundred thousands of them."""
        was, self._sweeping = gc.isenabled(), True
        gc.disable()
        try:
            yield
        finally:
            self._sweeping = False
            if was:
                gc.enable()

    def _read_wandb(self, no_more: Callable[[], bool]) -> None:
        """Reads W&B histories once more, and commits what comes, unless `no_more` says to stop before."""
        self._beside.histories.hasten()
        while not self._beside.histories.settled and not no_more():
            if self._batch.bytes < PENDING_BYTES and (deltas := self._beside.take_histories()):
                self._batch.add(deltas, utcnow())
            elif self._batch.deltas:
                self._commit()
            self._pause(0.02)

    def _verify(self, no_more: Callable[[], bool]) -> bool:
        """Commits what is verified of results until all of it is. False: `no_more` said to stop before."""
        results = self._beside.results
        results.hurry()
        until, final = time.monotonic() + SETTLING_S, False
        while not no_more():
            self._beside.look_at_results(self._follower.survey, self._batch)
            if self._batch.results and not self._pace.remaining(time.monotonic()):
                self._commit()
            if not results.busy() and final:
                self._beside.look_at_results(self._follower.survey, self._batch)
                return True
            if not results.busy() and (time.monotonic() >= until or not results.settling()):
                results.finish(0.0, final=True)
                final = True
            time.sleep(0.01)
        return False

    def _compare(self, no_more: Callable[[], bool]) -> bool:
        """Commits what is compared until all of it is. False: `no_more` said to stop before."""
        desk = self._beside.desk
        if desk is None:
            return True
        desk.hurry()
        desk.begin()
        while desk.busy():
            if no_more():
                return False
            self._beside.take_results(self._batch)
            if self._batch.compared and not self._pace.remaining(time.monotonic()):
                self._commit()
            time.sleep(0.01)
        self._beside.take_results(self._batch)
        return self._keep(no_more)

    def _keep(self, no_more: Callable[[], bool], *, whole: bool = True) -> bool:
        """Commits what waits, again and again while there is no space. False: `no_more` said to stop before.

        `whole`: with that, all is done that this daemon was started for.
        """
        while not self._commit(force=True):
            if no_more():
                log.error("gave up committing %d bytes; they are read again at the next start", self._batch.bytes)
                return False
            self._pause(1.0)
        self._ending.keep(0 if whole else CUT_SHORT)
        return True

    def _pause(self, seconds: float) -> None:
        """Rests, but not when an end was asked for that cannot wait."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._ending.hurried:
            time.sleep(0.05)

    def _close(self) -> None:
        ending = self._ending
        if self._publisher is not None:
            ending.stage = "publishing what is new"
            self._writer.settle_if_due(now=True)
            self._publisher.finish(time.monotonic() + max(0.0, ending.left() - PUBLISH_RESERVE_S))
        ending.stage = "closing the endpoint"
        if self._live is not None:
            self._live.stop()
        self._beside.stop_gpus()
        ending.stage = "ending the reading of W&B histories"
        self._beside.stop_wandb()
        ending.stage = "ending the hashing and comparing of results"
        self._beside.stop_results()
        ending.stage = "closing the logs"
        self._follower.close()
        ending.stage = "telling other nodes of faults"
        self._writer.settle_if_due(now=True)
        self._exchange.stop(max(0.5, min(EXCHANGE_S, ending.left() / 4)))
        ending.stage = "closing and publishing the store"
        self._writer.close(time.monotonic() + ending.left())


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one: the soft one is often 1024, and a job has more workers."""
    import resource  # noqa: PLC0415  POSIX only, needed here only

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 16), hard))


def default_workspace(roots: Sequence[Path]) -> Path:
    """The directory that `.tic/` goes into: the first root, or its directory if it is a file."""
    first = roots[0].absolute()
    return first if first.is_dir() else first.parent
