"""All that is watched beside the logs: GPUs, W&B, environment and record files, results and their comparisons.

Each of them works in a thread or process of its own where it may have to wait, and is asked here for what it has; the
daemon's thread commits it. None of them may hold up a line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tic_daemon.batch import Batch
from tic_daemon.comparisons.desk import Desk
from tic_daemon.config import Config
from tic_daemon.scan.events import Fault
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources.discover import Survey
from tic_daemon.sources.envfiles import EnvFiles
from tic_daemon.sources.gpu import GpuWatch
from tic_daemon.sources.recordfiles import RecordFiles
from tic_daemon.sources.results import Results
from tic_daemon.sources.smallfiles import never
from tic_daemon.sources.smifiles import SmiFiles
from tic_daemon.sources.wandb_api import WandbApi
from tic_daemon.sources.wandb_local import WandbLocal
from tic_daemon.store import claims
from tic_daemon.store.layout import StoreLayout, stores_under
from tic_daemon.store.rows import ConfigRow, EnvPinRow, SourceDelta
from tic_daemon.store.writer import Writer

WANDB_S = 5.0
"""How long the last look at W&B's logs may hold up the end, when all that they hold has been read."""
FILES_S = 2.0
"""How long the last look at environment files, and at results, may hold up the end; their mount may hang."""


@dataclass(frozen=True, slots=True)
class Said:
    """What files beside the logs say and is not committed yet: pinned variables, and what runs were made of."""

    pins: tuple[EnvPinRow, ...]
    configs: tuple[ConfigRow, ...]

    def __bool__(self) -> bool:
        return bool(self.pins or self.configs)


class Beside:
    """What is watched beside the logs under `roots`.

    Args:
        writer: knows what was committed before.
        scanner: understands lines of the kernel's log that the GPUs' driver gives.
        wake: ends the wait of the daemon's thread.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        config: Config,
        layout: StoreLayout,
        writer: Writer,
        scanner: Scanner,
        wake: Callable[[], None],
    ) -> None:
        host, first = config.host or layout.host, str(roots[0].absolute()) if roots else ""
        stored = writer.sources()
        self._layout, self._scanner, self._wake = writer.layout, scanner, wake
        self._gpus: GpuWatch | None = None
        if config.gpu.watch:
            self._gpus = GpuWatch(host, first, config.gpu.every_s, self._kernel_faults, wake, stored=stored.get)
        self._smi_files = SmiFiles(
            lambda path: config.source_for(path).host or "", config.run_for, wake, stored=stored.get
        )
        self._wandb = WandbLocal(
            host,
            config.run_for,
            config.wandb.keys,
            writer.cursors(),
            stored,
            wake,
            framework=config.wandb.framework,
        )
        self.histories = WandbApi(
            host,
            first,
            config.wandb,
            wake,
            sources=stored,
            cursors=writer.cursors(),
            stored=writer.wandb_rows(),
            hand=writer.wandb_hand_reads(),
            spool=layout.spool_dir,
            first=self._is_first,
        )
        self._env_files = EnvFiles(config.host, config.run_for, writer.pins())
        self._record_files = _record_files(config, writer.configs())
        self._watch_results = config.results.on(config.host)
        known = writer.results() if self._watch_results else []
        self.results = Results(config.host, config.run_for, known, wake)
        self.results.named(claims.known(writer.reader_cursor) if self._watch_results else ())
        self.desk: Desk | None = None
        if self._watch_results and config.compare.watch:
            self.desk = Desk(
                config.host,
                config,
                [str(root.absolute()) for root in roots],
                layout.directory / "reports",
                known,
                writer.tasks(),
                writer.reader_cursor,
                wake,
            )
        self._surveyed: Survey | None = None
        self._room = True  # histories may come in with the next commit

    def start(self, *, once: bool = False) -> None:
        """Begin. `once`: to read all there is and end, for which nobody waits for a GPU."""
        if self._gpus is not None and not once:
            self._gpus.start()
        self._wandb.start(hurry=once)
        self.histories.start()

    def take(self, logs: Sequence[SourceDelta], survey: Survey | None, *, whole: bool = False) -> list[SourceDelta]:
        """What came. `logs`: what the logs held meanwhile; `whole`: of histories, too, as much as there is."""
        if self._watch_results:
            self.results.named(claims.of(logs))
        found = self._gpus.take() if self._gpus is not None else []
        found += self._smi_files.take()
        if survey is not None:
            self._wandb.found(survey.wandb_files)
        if self._room or whole:
            # Of histories there may be millions of values at once: no commit takes in more than its share of them.
            histories = self._wandb.take()
            self.histories.note([*logs, *found, *histories])
            histories += self.histories.take()
            self._record_files.note(histories)
            self._room = not histories
            found += histories
        return found

    def take_histories(self) -> list[SourceDelta]:
        """What came from W&B's API alone."""
        found = self.histories.take()
        self._record_files.note(found)
        return found

    def look(self, survey: Survey, now: float) -> None:
        """A look at files that may have changed. `now` is monotonic."""
        self._env_files.look(survey.env_files, now)
        self._record_files.look(self._of_record(survey), now)
        self._smi_files.look(survey.smi_files, now)

    def look_at_results(self, survey: Survey | None, batch: Batch) -> None:
        """Results that a walk found, and what is known of them by now."""
        if survey is not None and survey is not self._surveyed and self._watch_results:
            self._surveyed = survey
            self.results.found(survey.result_files, survey.walked)
        self.take_results(batch)

    def take_results(self, batch: Batch) -> None:
        """What was verified and compared."""
        rows = self.results.take()
        batch.results.extend(rows)
        if self.desk is not None:
            self.desk.note(rows)
            batch.compared.extend(self.desk.take())

    def said(self) -> Said:
        """What waits of environment and record files."""
        return Said(self._env_files.pending(), self._record_files.pending())

    def committed(self, said: Said) -> None:
        """`said` was committed, and all that was taken before."""
        self.histories.kept()
        self._env_files.taken(said.pins)
        self._record_files.taken(said.configs)
        if self.desk is not None:
            self.desk.kept()
        if not self._room:
            self._wake()  # more of the histories may wait
        self._room = True

    def hasten(self) -> None:
        """W&B's logs are read to their ends now."""
        self._wandb.hasten()

    def drained(self) -> bool:
        """Whether W&B's logs hold nothing more."""
        return self._wandb.drained()

    def last_of_wandb(self) -> list[SourceDelta]:
        """What W&B's logs hold to their ends."""
        last = self._wandb.finish(WANDB_S)
        self.histories.note(last)
        self._record_files.note(last)
        return last

    def finish(self, survey: Survey | None, batch: Batch, no_more: Callable[[], bool] | None = None) -> None:
        """A last look at all files, which takes a few seconds at the most; with `no_more` until that says to stop."""
        wait_s, over = (FILES_S, never) if no_more is None else (math.inf, no_more)
        self._env_files.finish(survey.env_files if survey else (), wait_s, over)
        self._record_files.finish(self._of_record(survey), wait_s, over)
        self._smi_files.finish(survey.smi_files if survey else (), wait_s, over)
        batch.add(self._smi_files.take())
        self.results.finish(FILES_S)
        while no_more is not None and self.results.busy() and not no_more():
            time.sleep(0.01)
        self.take_results(batch)

    def stop_gpus(self) -> None:
        """No more readings of GPUs."""
        if self._gpus is not None:
            self._gpus.stop()

    def stop_wandb(self) -> None:
        """No more reading of W&B's logs and histories."""
        self.histories.stop()
        self._wandb.stop()

    def stop_results(self) -> None:
        """No more hashing and comparing."""
        self.results.close()
        if self.desk is not None:
            self.desk.close()

    def _is_first(self) -> bool:
        """Whether this daemon's store is the first of its workspace: one of them takes in what belongs to none."""
        stores = sorted(store.directory.name for store in stores_under(self._layout.state_dir))
        return not stores or stores[0] == self._layout.directory.name

    def _kernel_faults(self, line: str) -> list[Fault]:
        """What the rules say of a line of the kernel's log."""
        events = self._scanner.open(SourceTraits(role="kernel", framework="kernel")).feed(f"{line}\n".encode())
        return [event for event in events if isinstance(event, Fault)]

    def _of_record(self, survey: Survey | None) -> tuple[tuple[str, str], ...]:
        """Files that say what a run was made of: manifests and sidecars, too, which are verified besides."""
        if survey is None:
            return ()
        return (*survey.record_files, *survey.result_files) if self._watch_results else survey.record_files


def _record_files(config: Config, known: dict[str, str]) -> RecordFiles:
    """The reader of what runs were made of, told of the pairs of arms that tic.toml declares."""
    files = RecordFiles(config.host, config.run_for, known)
    if config.file is not None:
        pairs = [asdict(pair) for pair in config.pairs]
        said = [{key: value for key, value in pair.items() if value and key != "line"} for pair in pairs]
        files.declare(str(config.file), str(config.base), said)
    return files
