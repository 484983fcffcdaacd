"""What the screen holds of how processes execute: state, weight lifecycle with its findings, GPUs. See `model`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tic_tui.model import Fault, Mismatch
from tic_tui.safe import Safe


@dataclass(frozen=True, slots=True)
class ExecField:
    """A line of view `exec_state_now`: one field of the execution state of one process."""

    run_id: str
    attempt: int | None
    role: Safe | None
    rank: int | None
    host: Safe | None
    pid: int | None
    field: Safe
    claimed: Safe | None
    observed: Safe | None
    event_at: datetime | None
    observed_at: datetime | None


@dataclass(frozen=True, slots=True)
class WeightPhase:
    """The newest line of view `weight_lifecycle` of one role and track."""

    role: Safe | None
    track: Safe
    phase: Safe
    version: Safe | None


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A line of view `weight_lifecycle`: a process said that its weights, cache or graphs changed.

    `legal` is false where something is wrong with the weights from this line on.
    """

    rec_id: int
    run_id: str
    attempt: int | None
    role: Safe | None
    rank: int | None
    host: Safe | None
    pid: int | None
    track: Safe
    phase: Safe
    level: Safe | None
    version: Safe | None
    legal: bool
    path: str | None  # not yet safe, as `Mismatch.path`
    line_no: int
    generation: int
    byte_offset: int
    event_at: datetime | None
    observed_at: datetime
    byte_length: int = 0
    duration_s: float | None = None
    keeps_kv: bool | None = None  # an update that keeps the KV cache on purpose
    finding: Safe | None = None  # kinds of the findings that begin here; ""

    @property
    def wrong(self) -> str:
        """What is wrong from here on, in words; "" where nothing is."""
        if self.legal:
            return ""
        return str(self.finding or "").replace("_", " ") or "out of order"

    @property
    def place(self) -> str:
        """Where its line is: path:line."""
        return f"{self.path or 'unknown'}:{self.line_no}"

    @property
    def process(self) -> tuple[str, int | None, int | None, str, str]:
        """The process as its log names it: role, rank, pid, host, path."""
        return str(self.role or "unknown"), self.rank, self.pid, str(self.host or ""), self.path or ""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A line of view `exec_states` that tells another value than the one before it: `before`, of the same kind.

    Either `claimed` or `observed` is told; the other is None.
    """

    rec_id: int
    run_id: str
    attempt: int | None
    step: int | None
    role: Safe | None
    rank: int | None
    host: Safe | None
    pid: int | None
    field: Safe
    claimed: Safe | None
    observed: Safe | None
    before: Safe | None
    rule: Safe | None
    path: str | None  # not yet safe, as `Mismatch.path`
    line_no: int
    generation: int
    byte_offset: int
    byte_length: int
    event_at: datetime | None
    observed_at: datetime

    @property
    def place(self) -> str:
        """Where its line is: path:line."""
        return f"{self.path or 'unknown'}:{self.line_no}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of view `lifecycle_findings`, with the length of the line that shows it and the line that ends it."""

    finding_id: str
    rec_id: int
    run_id: str
    attempt: int
    role: Safe | None
    rank: int | None
    host: Safe | None
    pid: int | None
    kind: Safe
    severity: Safe | None
    detail: Safe
    first_step: int | None
    last_step: int | None
    from_at: datetime | None
    until_at: datetime | None
    path: str | None  # not yet safe, as `Mismatch.path`
    line_no: int
    generation: int
    byte_offset: int
    observed_at: datetime
    byte_length: int
    until_generation: int | None  # of the line that ends it; None: it holds still
    until_line: int | None

    @property
    def place(self) -> str:
        """Where its line is: path:line."""
        return f"{self.path or 'unknown'}:{self.line_no}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A line of view `gpus`: bytes, percent, watts."""

    host: Safe | None
    gpu_index: int | None
    uuid: Safe | None
    name: Safe | None
    rank: int | None
    pid: int | None
    memory_used: int | None
    memory_total: int | None
    utilization: float | None
    throttle: Safe | None
    ecc_uncorrected: int | None
    last_xid: Safe | None
    read_at: datetime | None
    observed_at: datetime
    why: Safe | None


Item = Mismatch | Fault | Finding | PhaseChange | StateChange  # what can be opened: it stands somewhere in a log
