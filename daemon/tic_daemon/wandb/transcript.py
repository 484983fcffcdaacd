"""What a transaction log tells, record by record: rows of its history, the run itself, how it ended.

    transcript = Transcript(run_file, keys)
    events = transcript.take(frame)      in the order of the file

What comes out depends on the records alone, in whatever pieces they were read. A daemon that begins anew reads a log
that goes on from its first byte and drops what the store has: nothing of a run's state needs to be stored beside it.

The configuration changes seldom and is told again when it did. The summary changes with each row. It is told with the
end of a run, and before it once in five minutes of its rows' own time at most; less often if it is large.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tic_daemon.credentials import without_credentials
from tic_daemon.scan.events import At, Gap, StepEvent
from tic_daemon.wandb import records
from tic_daemon.wandb.directories import Beside, RunFile
from tic_daemon.wandb.events import WandbEvent, WandbRun, row_event
from tic_daemon.wandb.framing import Frame
from tic_daemon.wandb.history import history_row
from tic_daemon.wandb.keys import Keys
from tic_daemon.wandb.stepping import Stepping

SUMMARY_S: Final = 300.0
_SUMMARY_KIB_S: Final = 5.0
"""More seconds between two summaries for each KiB of one."""
MOST: Final = 1 << 20
"""Characters of a configuration or summary: each change of it is a row of its own."""
RULE: Final = "wandb/history"

Told = WandbEvent | StepEvent | Gap


class Transcript:
    """One log.

    Args:
        file: what its path tells. keys: which keys are training steps. framework: if tic.toml names it.
    """

    def __init__(self, file: RunFile, keys: Keys, framework: str = "") -> None:
        self._file = file
        self._steps = Stepping(keys, framework)
        self.records = 0
        self.rows = 0
        self.ended = False
        self.beside = Beside()
        self._run: Any = None
        self._config: dict[str, Any] = {}
        self._summary: dict[str, str] = {}
        self._shared = self._offline = False
        self._writer = self._client = self._commit = ""
        self._exit: tuple[int, float | None] | None = None
        self._preempted = False
        self._dirty = False
        self._told_at: datetime | None = None
        self._step: int | None = None

    def take(self, frame: Frame) -> list[Told]:
        """The events of one record."""
        self.records += 1
        at = At(frame.offset, frame.end - frame.offset, self.records)
        try:
            kind, message = records.parse(frame.payload)
            if kind == "history":
                return self._history(at, message)
            if kind:
                return self._other(at, kind, message)
        except records.RecordError as error:
            detail = f"a whole record that is none of the client's: {error}"
            return [Gap(at, "wandb_record", frame.offset, frame.end, detail)]
        return []

    def run_now(self, at: At) -> WandbRun:
        """The run as the records so far tell it."""
        run, file = self._run, self._file
        entity, project = (str(run.entity), str(run.project)) if run is not None else ("", "")
        wandb_id = (str(run.run_id) if run is not None else "") or file.wandb_id
        mode = "shared" if self._shared else "offline" if file.offline or self._offline else "online"
        state, code, runtime = "preempted" if self._preempted else "running", None, None
        if self._exit is not None:
            code, runtime = self._exit
            state = "finished" if code == 0 else "failed"
        config = {name: value for name, value in self._config.items() if name != "_wandb"}
        starting = self.beside.starting_step
        if starting is None and run is not None and (run.resumed or run.forked or run.starting_step):
            starting = run.starting_step
        return WandbRun(
            at, f"{entity}/{project}/{wandb_id}" if entity and project else "", wandb_id, entity, project,
            str(run.display_name) if run is not None else "", mode, file.directory, self._row_writer,
            records.time_of(run.start_time) if run is not None else None, starting, state, code, runtime,
            _json(without_credentials(config)), self._summary_json(), self._client, self._steps.framework, self._commit,
            self.beside.synced,
        )  # fmt: skip

    @property
    def _row_writer(self) -> str:
        return self._writer if self._shared else ""

    def _history(self, at: At, message: Any) -> list[Told]:
        row = history_row(records.values(message), self.rows, self._row_writer)
        self.rows += 1
        known, framework = row.at is not None, self._steps.framework
        step = self._steps.take(row)
        self._dirty = self._dirty or self._steps.framework != framework
        at = replace(at, stamp=row.at, stamp_utc=known, stamp_res_us=int(known), step=step)
        told: list[Told] = []
        if self._dirty or self._summary_due(row.at):
            self._dirty, self._told_at = False, row.at or self._told_at
            told.append(self.run_now(at))
        told.append(row_event(at, row))
        if step is not None and step != self._step:
            self._step = step
            told.append(StepEvent(at, "logged", gpu=False, rule=RULE))
        return told

    def _other(self, at: At, kind: str, message: Any) -> list[Told]:
        if kind == "summary":
            self._summary.update(records.texts(message.update))
            for name in records.texts(message.remove):
                self._summary.pop(name, None)
            return []
        if kind == "exit":
            self.ended = True
            self._exit = (message.exit_code, float(message.runtime) if message.runtime else None)
        elif kind == "preempting":
            self._preempted = True
        else:
            self._note(kind, message)
            if kind != "run":
                self._dirty = True
                return []
        self._dirty = False
        return [self.run_now(at)]

    def _note(self, kind: str, message: Any) -> None:
        if kind == "run":
            self._run = message
            records.change_tree(self._config, message.config)
            self._telemetry(message.telemetry)
            self._commit = message.git.commit or self._commit
        elif kind == "config":
            records.change_tree(self._config, message)
        elif kind == "environment":
            self._writer = message.writer_id or self._writer
            self._commit = message.git.commit or self._commit
        elif kind == "header":
            self._client = message.version_info.producer.partition("+")[0] or self._client
        elif kind == "telemetry":
            self._telemetry(message)

    def _telemetry(self, message: Any) -> None:
        self._client = self._client or message.cli_version
        self._shared = self._shared or message.feature.shared_mode
        self._offline = self._offline or message.feature.offline

    def _summary_due(self, at: datetime | None) -> bool:
        if at is None or self._told_at is None:
            return at is not None
        size = sum(map(len, self._summary.values())) + 8 * len(self._summary)
        return abs((at - self._told_at).total_seconds()) >= SUMMARY_S + size / 1024 * _SUMMARY_KIB_S

    def _summary_json(self) -> str:
        told = {name: records.loaded(text) for name, text in self._summary.items() if not name.startswith("_wandb")}
        return _json(without_credentials(told))


def _json(value: Any) -> str:
    """Strict JSON: what is no finite number is its name as text, since JSON has none. Too much of it is not kept."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError:
        text = json.dumps(_strict(value), ensure_ascii=False)
    return text if len(text) <= MOST else json.dumps({"not kept": f"{len(text)} characters, more than {MOST}"})


def _strict(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    if isinstance(value, dict):
        return {name: _strict(below) for name, below in value.items()}
    return [_strict(below) for below in value] if isinstance(value, list) else value
