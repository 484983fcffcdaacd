"""What W&B's sources give the store, as event classes like those of scan/events.py: one class a table.

WandbRow      a row of a history; its values go to table wandb_value, which has no class of its own
WandbRun      what is known of a run as one writer or the server tells it; the newest of a source counts
WandbRead     one reading through the API, whatever came of it
WandbUpload   what the client's own log tells of its uploads
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from tic_daemon.scan.events import At
from tic_daemon.wandb.history import HistoryRow, Value


@dataclass(frozen=True, slots=True)
class WandbRow:
    """A row of a history. `at.step` is its training step where that is known, else None; `at.stamp` its `_timestamp`.

    Attributes:
        wandb_step: `_step`, which is the training step for some frameworks only.
        row_no: position in its stream. writer: see `HistoryRow`. keys: how many values it has.
        digest: what it says, for folding repeated rows.
        read_id: the reading that brought it; None from the local log.
        values: rows of table wandb_value.
    """

    table: ClassVar[str] = "wandb_row"
    at: At
    wandb_step: int | None
    row_no: int
    writer: str
    keys: int
    digest: str
    read_id: str | None
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class WandbRun:
    """A run of W&B as one source tells it. Text is "" and numbers are None where nothing tells.

    Attributes:
        run_path: "entity/project/id", as far as known: an offline run has no entity yet.
        name: the display name.
        mode: offline | online | shared | "" (the API does not say).
        directory: of the local run; "" from the API.
        writer: which of several writers; "".
        started_at: naive UTC.
        starting_step: `_step` of its first row: not 0 after a resume or a fork.
        state: running | finished | failed | crashed | killed | preempted | "" as the source says it. A local log says
            `finished` or `failed` by its exit record, and `running` before it.
        exit_code, runtime_s: of the exit record.
        config, summary: JSON, with secrets replaced; {"not kept": ...} in place of more than 2^20 characters.
        client_version: of the W&B client that wrote it.
        framework: the RL framework, as keys and configuration show it; "" unknown.
        git_commit: of the training program, as W&B noted it.
        synced: an offline run's log was uploaded later, as a file beside it says.
    """

    table: ClassVar[str] = "wandb_run"
    at: At
    run_path: str
    wandb_id: str
    entity: str = ""
    project: str = ""
    name: str = ""
    mode: str = ""
    directory: str = ""
    writer: str = ""
    started_at: datetime | None = None
    starting_step: int | None = None
    state: str = ""
    exit_code: int | None = None
    runtime_s: float | None = None
    config: str = "{}"
    summary: str = "{}"
    client_version: str = ""
    framework: str = ""
    git_commit: str = ""
    synced: bool = False


@dataclass(frozen=True, slots=True)
class WandbRead:
    """One reading of a history through the API.

    Attributes:
        read_id: names it in `WandbRow.read_id`.
        began_at, took_s: naive UTC, seconds.
        page_size: steps asked for at a time.
        first_step, last_step: the range asked for, both included; None: open.
        rows: how many came.
        history_line_count, last_history_step: what the server says of itself.
        seen: ranges of `_step` that came: "0-399 401-999"; "" none.
        outcome: ok | short | error | timeout | no_account.
        detail: why, in words; "".
        who: daemon | hand.
    """

    table: ClassVar[str] = "wandb_read"
    at: At
    read_id: str
    run_path: str
    began_at: datetime
    took_s: float
    client_version: str
    page_size: int | None
    first_step: int | None
    last_step: int | None
    rows: int
    history_line_count: int | None
    last_history_step: int | None
    seen: str
    outcome: str
    detail: str
    who: str


@dataclass(frozen=True, slots=True)
class WandbUpload:
    """What logs/debug-internal.log of a local run tells. `at.stamp` is when.

    Attributes:
        directory, wandb_id: of the run.
        state: sending | acknowledged | retrying | dead | finished (of the uploader) | dropped (the client left a call
            of `log` out) | too_long (a line that is not uploaded) | no_log (the local log could not be opened).
        history_offset, history_lines: lines of the history before this upload, and in it.
        status: of the server's answer.
        step, current_step: `_step` of what was dropped, and the one that the client was at.
        detail: its words; "".
    """

    table: ClassVar[str] = "wandb_upload"
    at: At
    directory: str
    wandb_id: str
    state: str
    history_offset: int | None = None
    history_lines: int | None = None
    status: int | None = None
    dropped_step: int | None = None
    current_step: int | None = None
    detail: str = ""


WandbEvent = WandbRow | WandbRun | WandbRead | WandbUpload


def last_logged(events: Iterable[object], now: datetime, before: datetime | None = None) -> datetime | None:
    """When the newest of the rows was logged, not later than `now`: then the run moved. `before`: as known so far.

    Not when its log grew or was read: the client writes readings of the machine and heartbeats while the trainer hangs,
    and a history may be read back years later.
    """
    stamps = [event.at.stamp for event in events if isinstance(event, WandbRow) and event.at.stamp is not None]
    return max((min(stamp, now) for stamp in (*stamps, *((before,) if before else ()))), default=None)


def row_event(at: At, row: HistoryRow, read_id: str | None = None) -> WandbRow:
    """A history row at its place in its source."""
    return WandbRow(at, row.wandb_step, row.row_no, row.writer, len(row.values), row.digest(), read_id, row.values)
