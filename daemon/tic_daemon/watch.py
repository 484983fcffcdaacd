"""The daemon's main loop: read, scan, commit; and its life from start to a clean end.

One thread does all of it. A tick is: wait for the doorbell, read what has grown, scan it, and commit rows and cursors
in one transaction. When to commit is `Pace`: lines that are rare at once, so that they show without delay, and under
load every 200 to 500 ms, since a commit costs about the same whatever it holds. All else that this thread does is done
in pieces, between which a line that waits goes first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.attempts import Declarer
from tic_daemon.comparisons.desk import Desk
from tic_daemon.config import Config
from tic_daemon.ending import CUT_SHORT, Ending
from tic_daemon.listen import Listen
from tic_daemon.pace import Pace
from tic_daemon.scan import selftest
from tic_daemon.scan.events import Fault
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scheduler import Start
from tic_daemon.sources.discover import Survey
from tic_daemon.sources.envfiles import EnvFiles
from tic_daemon.sources.follow import FileFollower
from tic_daemon.sources.gpu import GpuWatch
from tic_daemon.sources.recordfiles import RecordFiles
from tic_daemon.sources.results import Results
from tic_daemon.sources.smifiles import SmiFiles
from tic_daemon.sources.wandb_api import WandbApi
from tic_daemon.sources.wandb_local import WandbLocal
from tic_daemon.store import claims
from tic_daemon.store.comparison_rows import ComparisonTold
from tic_daemon.store.exchange import Exchange
from tic_daemon.store.layout import StoreLayout, stores_under
from tic_daemon.store.publish import Publisher
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.store.rows import CheckpointRow, FaultFileRow, ResultRow, SourceDelta
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
SWEEP_BYTES = 128 << 20
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

WANDB_S = 5.0
"""How long the last look at W&B's logs may hold up the end, when all that they hold has been read."""

ENV_S = 2.0
"""How long the last look at environment files, and at results, may hold up the end; their mount may hang."""
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
        self._gpus: GpuWatch | None = None
        if config.gpu.watch:
            stored = self._writer.sources()
            self._gpus = GpuWatch(
                config.host or layout.host,
                str(roots[0].absolute()) if roots else "",
                config.gpu.every_s,
                self._kernel_faults,
                self._follower.wake,
                stored=stored.get,
            )
        self._wandb = WandbLocal(
            config.host or layout.host,
            config.run_for,
            config.wandb.keys,
            self._writer.cursors(),
            self._writer.sources(),
            self._follower.wake,
            framework=config.wandb.framework,
        )
        self._exchange = Exchange(self._writer.layout, self._writer.reader_cursor, self._follower.wake)
        self._spool = PatientSpool(SpoolReader(layout))
        self._env_files = EnvFiles(config.host, config.run_for, self._writer.pins())
        self._record_files = _record_files(config, self._writer.configs())
        self._watch_results = config.results.on(config.host)
        known = self._writer.results() if self._watch_results else []
        self._results = Results(config.host, config.run_for, known, self._follower.wake)
        self._results.named(claims.known(self._writer.reader_cursor) if self._watch_results else ())
        self._desk: Desk | None = None
        if self._watch_results and config.compare.watch:
            self._desk = Desk(
                config.host,
                config,
                [str(root.absolute()) for root in roots],
                layout.directory / "reports",
                known,
                self._writer.tasks(),
                self._writer.reader_cursor,
                self._follower.wake,
            )
        self._smi_files = SmiFiles(
            lambda path: config.source_for(path).host or "",
            config.run_for,
            self._follower.wake,
            stored=self._writer.sources().get,
        )
        self._wandb_api = WandbApi(
            config.host or layout.host,
            str(roots[0].absolute()) if roots else "",
            config.wandb,
            self._follower.wake,
            sources=self._writer.sources(),
            cursors=self._writer.cursors(),
            stored=self._writer.wandb_rows(),
            hand=self._writer.wandb_hand_reads(),
            spool=layout.spool_dir,
            first=self._is_first,
        )
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
        self._pending: list[SourceDelta] = []
        self._pending_bytes = 0
        self._checkpoints: list[CheckpointRow] = []
        self._fault_files: list[FaultFileRow] = []
        self._result_rows: list[ResultRow] = []
        self._compared: list[ComparisonTold] = []
        self._surveyed: Survey | None = None
        self._began: datetime | None = None
        self._room = True  # histories may come in with the next commit
        self._spool_at = 0.0
        # When the store was looked for; when all that can wait had its turn.
        self._store_at = self._kept_up = time.monotonic()
        self._full_until = 0.0
        self._caught_up = False

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
            if self._gpus is not None:
                self._gpus.start()
            self._wandb.start()
            self._wandb_api.start()
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
            self._wandb.start(hurry=True)
            self._wandb_api.start()
            self._ending.stage = "reading"
            self._publish()
            swept = self._sweep(lambda: self._ending.requested)
            self._read_wandb(lambda: self._ending.requested)
            swept = self._verify(lambda: self._ending.requested) and swept
            kept = self._keep(lambda: self._ending.requested, whole=swept) and swept
            kept = kept and self._compare(lambda: self._ending.requested)
            if kept:
                self._upkeep(last=True)
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
        if self._pending_bytes < PENDING_BYTES:
            self._follower.wait(min(self._pace.remaining(now), SPOOL_S) if self._pending and not full else SPOOL_S)
            self._read()
        elif full:
            time.sleep(FULL_S)  # what has grown ends no wait that nothing reads
        if self._pending and not self._pace.remaining(time.monotonic()):
            self._commit()
        elif self._exchange.waiting or time.monotonic() - self._spool_at >= SPOOL_S:
            self._take_spool()
        if not self._pending:
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
        if self._watch_results:
            self._results.named(claims.of(deltas))
        if self._gpus is not None:
            deltas += self._gpus.take()
        deltas += self._smi_files.take()
        if self._follower.survey is not None:
            self._wandb.found(self._follower.survey.wandb_files)
        if self._room or whole:
            # Of histories there may be millions of values at once: no commit takes in more than its share of them.
            histories = self._wandb.take()
            self._wandb_api.note([*deltas, *histories])
            histories += self._wandb_api.take()
            self._record_files.note(histories)
            self._room = not histories
            deltas += histories
        self._caught_up = self._follower.drained()
        self._checkpoints.extend(self._follower.checkpoints())
        self._fault_files.extend(self._follower.fault_files())
        self._look_at_results()
        if deltas:
            self._began = self._began or began
            self._pending.extend(deltas)
            self._pending_bytes += sum(delta.bytes for delta in deltas)

    def _look_at_results(self) -> None:
        survey = self._follower.survey
        if survey is not None and survey is not self._surveyed and self._watch_results:
            self._surveyed = survey
            self._results.found(survey.result_files, survey.walked)
        self._take_results()

    def _take_results(self) -> None:
        rows = self._results.take()
        self._result_rows.extend(rows)
        if self._desk is not None:
            self._desk.note(rows)
            self._compared.extend(self._desk.take())

    def _is_first(self) -> bool:
        """Whether this daemon's store is the first of its workspace: one of them takes in what belongs to none."""
        stores = sorted(store.directory.name for store in stores_under(self._writer.layout.state_dir))
        return not stores or stores[0] == self._writer.layout.directory.name

    def _kernel_faults(self, line: str) -> list[Fault]:
        """What the rules say of a line of the kernel's log."""
        events = self._scanner.open(SourceTraits(role="kernel", framework="kernel")).feed(f"{line}\n".encode())
        return [event for event in events if isinstance(event, Fault)]

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
        began = self._began or utcnow()
        spool = self._spool.pending()
        told = self._exchange.pending()
        pins = self._env_files.pending()
        configs = self._record_files.pending()
        try:
            self._writer.commit(
                self._pending,
                marks=spool.marks,
                attempts=self._declarer.completed(spool.attempts, self._follower.stands),
                ledger=spool.ledger,
                remote=told,
                pins=pins,
                configs=configs,
                checkpoints=self._checkpoints,
                fault_files=self._fault_files,
                results=self._result_rows,
                compared=self._compared,
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
        self._wandb_api.kept()
        self._env_files.taken(pins)
        self._record_files.taken(configs)
        if self._desk is not None:
            self._desk.kept()
        self._spool_at = started
        if not self._room:
            self._follower.wake()  # more of the histories may wait
        if self._pending:  # what stands beside the logs has a pace of its own, and they do not wait for it
            now = time.monotonic()
            self._pace.done(started, now, max(time.thread_time() - worked, (now - started) / 4))
        self._pending, self._pending_bytes, self._began, self._room = [], 0, None, True
        self._checkpoints, self._fault_files, self._result_rows, self._compared = [], [], [], []
        self._tell()
        # Here, and not only in quiet moments: under steady load there are none, and what is not checkpointed is memory.
        self._upkeep()
        return True

    def _upkeep(self, *, last: bool = False) -> None:
        survey = self._follower.survey
        if last:
            self._env_files.finish(survey.env_files if survey else (), ENV_S)
            self._record_files.finish(_of_record(survey, results=self._watch_results), ENV_S)
            self._smi_files.finish(survey.smi_files if survey else (), ENV_S)
            self._pending.extend(self._smi_files.take())
            self._results.finish(ENV_S)
            self._take_results()
        elif survey is not None:
            self._env_files.look(survey.env_files, time.monotonic())
            self._record_files.look(_of_record(survey, results=self._watch_results), time.monotonic())
            self._smi_files.look(survey.smi_files, time.monotonic())
        self._declarer.look(self._follower.stands, self._follower.drained, now=last)
        settled = self._writer.settle_if_due(pressed=self._pressed)
        if self._desk is not None and self._caught_up:
            self._desk.begin()
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
        return bool(self._pending) or self._follower.rings()

    def _tell(self) -> None:
        if self._live is not None:
            self._live.note(self._writer.progress)

    def _take_spool(self) -> None:
        self._spool_at = time.monotonic()
        looked = self._checkpoints or self._fault_files or self._result_rows or self._compared
        beside = self._env_files.pending() or self._record_files.pending()
        if looked or beside or self._spool.pending() or self._exchange.pending():
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
        self._wandb.hasten()
        pace, began = Pace(COMMIT_SHARE, *SWEEPS_S, burst_s=0.0), time.monotonic()
        pace.done(began, began, 0.0)
        while not no_more():
            if self._pending_bytes < SWEEP_BYTES:
                self._read(whole=True)
            began = time.monotonic()
            due = self._pending_bytes >= SWEEP_BYTES or not pace.remaining(began)
            if self._pending and due and self._commit():
                ended = time.monotonic()
                pace.done(began, ended, ended - began)
            if self._follower.drained() and self._wandb.drained():
                break
            if self._pending_bytes >= SWEEP_BYTES:
                time.sleep(0.05)  # the store is full: wait for space rather than fill the memory
            elif self._follower.drained():
                self._follower.wait(0.05)
        self._pending.extend(self._follower.finish())
        last = self._wandb.finish(WANDB_S)
        self._wandb_api.note(last)
        self._record_files.note(last)
        self._pending.extend(last)
        return self._follower.drained()

    def _read_wandb(self, no_more: Callable[[], bool]) -> None:
        """Reads W&B histories once more, and commits what comes, unless `no_more` says to stop before."""
        self._wandb_api.hasten()
        while not self._wandb_api.settled and not no_more():
            if self._pending_bytes < PENDING_BYTES and (deltas := self._wandb_api.take()):
                self._record_files.note(deltas)
                self._began = self._began or utcnow()
                self._pending.extend(deltas)
                self._pending_bytes += sum(delta.bytes for delta in deltas)
            elif self._pending:
                self._commit()
            self._pause(0.02)

    def _verify(self, no_more: Callable[[], bool]) -> bool:
        """Commits what is verified of results until all of it is. False: `no_more` said to stop before."""
        self._results.hurry()
        until = time.monotonic() + SETTLING_S
        while not no_more():
            self._look_at_results()
            if self._result_rows and not self._pace.remaining(time.monotonic()):
                self._commit()
            if not self._results.busy() and (time.monotonic() >= until or not self._results.settling()):
                self._results.finish(ENV_S, final=True)
                self._look_at_results()
                return True
            time.sleep(0.01)
        return False

    def _compare(self, no_more: Callable[[], bool]) -> bool:
        """Commits what is compared until all of it is. False: `no_more` said to stop before."""
        if self._desk is None:
            return True
        self._desk.hurry()
        self._desk.begin()
        while self._desk.busy():
            if no_more():
                return False
            self._take_results()
            if self._compared and not self._pace.remaining(time.monotonic()):
                self._commit()
            time.sleep(0.01)
        self._take_results()
        return self._keep(no_more)

    def _keep(self, no_more: Callable[[], bool], *, whole: bool = True) -> bool:
        """Commits what waits, again and again while there is no space. False: `no_more` said to stop before.

        `whole`: with that, all is done that this daemon was started for.
        """
        while not self._commit(force=True):
            if no_more():
                log.error("gave up committing %d bytes; they are read again at the next start", self._pending_bytes)
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
        if self._gpus is not None:
            self._gpus.stop()
        ending.stage = "ending the reading of W&B histories"
        self._wandb_api.stop()
        self._wandb.stop()
        self._results.close()
        if self._desk is not None:
            ending.stage = "ending the comparisons"
            self._desk.close()
        ending.stage = "closing the logs"
        self._follower.close()
        ending.stage = "telling other nodes of faults"
        self._writer.settle_if_due(now=True)
        self._exchange.stop(max(0.5, min(EXCHANGE_S, ending.left() / 4)))
        ending.stage = "closing and publishing the store"
        self._writer.close(time.monotonic() + ending.left())


def _record_files(config: Config, known: dict[str, str]) -> RecordFiles:
    """The reader of what runs were made of, told of the pairs of arms that tic.toml declares."""
    files = RecordFiles(config.host, config.run_for, known)
    if config.file is not None:
        pairs = [asdict(pair) for pair in config.pairs]
        said = [{key: value for key, value in pair.items() if value and key != "line"} for pair in pairs]
        files.declare(str(config.file), str(config.base), said)
    return files


def _of_record(survey: Survey | None, *, results: bool) -> tuple[tuple[str, str], ...]:
    """Files that say what a run was made of. `results`: manifests and sidecars, too, which are verified besides."""
    if survey is None:
        return ()
    return (*survey.record_files, *survey.result_files) if results else survey.record_files


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
