"""What the scanner finds in a log, as frozen values: one class a table of the store.

Every event carries an `At`: where its bytes are, which process wrote them, and what bounds its time and step. All of it
comes from bytes and file names alone, so that a second reading of the same bytes gives the same events whatever the
chunks, restarts and order of sources were.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def _value(cls: type[_T]) -> type[_T]:
    """A value type: slots, compared and hashed by its fields, never changed after it was made.

    Type checkers hold its fields frozen. At run time they are not: a frozen dataclass costs three times as much to
    make, and making events is a large part of a scan.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


@_value
class At:
    """Position, writer and bounds of one line or record.

    Attributes:
        byte_offset: first byte of the line within its generation (decompressed bytes for .gz).
        byte_length: bytes up to and including the last newline of the line or multi-line record.
        line_no: 1-based line number of the first line within its generation.
        proc: key of the writing process within its source: "pid:4521", "rank:3", "actor:Name/4521",
            "in:container pid:7"; "" if the line says nothing. Never guessed.
        pid: process id as printed, or None.
        rank: rank as printed (wrapper or path), or None.
        actor: process or actor name as printed ("Worker_TP0", "TaskRunner"), or "".
        stream: "stdout", "stderr" or "" when neither the source, the wrapper nor the rule tells.
        stamp: the line's own time, as printed; UTC if `stamp_utc`, else naive local time of an unknown zone.
        stamp_res_us: resolution of the stamp in microseconds (1_000_000 for whole seconds): the line was written
            within [stamp, stamp + stamp_res_us).
        stamp_utc: the printed stamp names its zone and was converted to UTC.
        after_stamp: without an own stamp, the nearest earlier stamp of the same proc in this generation, else None.
        after_utc: as `stamp_utc`, for `after_stamp`.
        step: own step, else the last step that this proc ended before the line, else None.
        step_carried: `step` is the second kind: the line belongs to [step, step + 1].
        policy: rollout policy version as printed, or "".
    """

    byte_offset: int
    byte_length: int
    line_no: int
    proc: str = ""
    pid: int | None = None
    rank: int | None = None
    actor: str = ""
    stream: str = ""
    stamp: datetime | None = None
    stamp_res_us: int = 0
    stamp_utc: bool = False
    after_stamp: datetime | None = None
    after_utc: bool = False
    step: int | None = None
    step_carried: bool = False
    policy: str = ""


@_value
class Mismatch:
    """One `[mismatch]` record of the seed, possibly several lines. Text fields are "" when missing.

    `parse_state`: ok | incomplete (fields of the seed missing) | unknown_metric | parse_error (value or step no
    number).
    `value` and `self_repeat` are None where the text is no number; the text is kept. `extra` is JSON of fields that the
    seed does not name, in order. `raw` is the record's bytes, decoded with backslashreplace.
    """

    table: ClassVar[str] = "mismatch"
    at: At
    run: str = ""
    input: str = ""
    phase: str = ""
    rank_text: str = ""
    repeat: str = ""
    scope: str = ""
    intervention: str = ""
    metric: str = ""
    value: float | None = None
    value_text: str = ""
    reference: str = ""
    self_repeat: float | None = None
    self_repeat_text: str = ""
    report: str = ""
    classification: str = ""
    extra: str = "{}"
    parse_state: str = "ok"
    raw: str = ""


@_value
class Fault:
    """One line that looks like a fault. `kind` names a rule (severity and locking come from the rule at query time).

    `verdict`: confirmed | suspect | mention (design: `docs/explanation/evidence.md`). `code` is the Xid or CUDA code,
    `bus` the PCI id as printed, `node` the host named inside the line (kernel lines), `text` the peeled message.
    """

    table: ClassVar[str] = "fault"
    at: At
    kind: str
    verdict: str
    text: str = ""
    code: str = ""
    bus: str = ""
    node: str = ""
    raw: str = ""


@_value
class StepEvent:
    """A step seen. `gpu`: finishing it proves that this process' GPU still works.

    `edge`: "begin" | "end" | "logged" (W&B got a row of it, at whatever time: it bounds nothing else).
    """

    table: ClassVar[str] = "step_event"
    at: At
    edge: str
    gpu: bool
    rule: str
    raw: str = ""


@_value
class Metric:
    """One (step, full key, value). `value` is None where the text is no number. `raw` is "key:value" as printed."""

    table: ClassVar[str] = "metric"
    at: At
    key: str
    value: float | None
    value_text: str
    raw: str = ""


@_value
class ExecState:
    """One field of the execution state. Exactly one of claimed and observed is set per event."""

    table: ClassVar[str] = "exec_state"
    at: At
    role: str
    field: str
    claimed: str | None
    observed: str | None
    rule: str


@_value
class WeightPhase:
    """One transition on one track (residency, version, cache, graph) of the weight lifecycle."""

    table: ClassVar[str] = "weight_phase"
    at: At
    role: str
    track: str
    phase: str
    level: str
    version: str
    duration_s: float | None
    rule: str


@_value
class Device:
    """A line that ties a process (rank, pid, host) to a GPU's PCI bus id, e.g. NCCL's `Init START`."""

    table: ClassVar[str] = "device"
    at: At
    bus: str
    node: str


@_value
class Timing:
    """Seconds of one phase (gen, score, update, load, ...) in one step."""

    table: ClassVar[str] = "timing"
    at: At
    phase: str
    seconds: float
    cold: bool


@_value
class Transport:
    """How a communicator of NCCL or an all-to-all of experts moves its data, as one line tells; see comms.py.

    Attributes:
        what: comm (a communicator begins) | topology | fabric | channel | network | nvls | version | all2all |
            nvshmem.
        transport: its label without the number of the device: "P2P/CUMEM/read", "NET/IB/GDRDMA". Of the other kinds
            what they name: "IB", "2.28.9+cuda12.9", "NVLS", "DeepEPLL".
        channel, peer_rank, direction: of the first line with this label; direction is send | receive | "".
        comm, comm_id: the communicator's address in its process, and the id that all its ranks share; "" unknown.
        comm_by: how the communicator is known: line | thread | process (the last one begun that fits) | "".
        own_rank, nranks, nnodes: rank within the communicator (not the job's), its size in ranks and in nodes.
        mnnvl, clique_id, clique_size: NVLink over several nodes: in use or not, and the clique that the rank is in.
    """

    table: ClassVar[str] = "transport"
    at: At
    what: str
    transport: str
    channel: str = ""
    peer_rank: int | None = None
    direction: str = ""
    comm: str = ""
    comm_id: str = ""
    comm_by: str = ""
    own_rank: int | None = None
    nranks: int | None = None
    nnodes: int | None = None
    mnnvl: bool | None = None
    clique_id: str = ""
    clique_size: int | None = None
    rule: str = ""


@_value
class Compilation:
    """A kernel or graph compiled or tuned. `stage`: inference (the program itself says so) | start | "" not told."""

    table: ClassVar[str] = "compile_event"
    at: At
    compiler: str
    what: str
    seconds: float | None
    stage: str
    rule: str


@_value
class BenchMark:
    """A measurement begins here: what is compiled later is in its figures."""

    table: ClassVar[str] = "bench_mark"
    at: At
    what: str
    rule: str


@_value
class EnvSeen:
    """A program printed a variable of its environment."""

    table: ClassVar[str] = "env_seen"
    at: At
    name: str
    value: str
    rule: str


@_value
class WandbNamed:
    """A program named the W&B run that it logs to: "entity/project/id", and the address of the server's pages.

    Whose words a log holds is not known: the address is shown, and nothing is ever asked there because of it.
    """

    table: ClassVar[str] = "wandb_named"
    at: At
    run_path: str
    url: str
    rule: str


@_value
class SourceRun:
    """From `at.byte_offset` on, this generation belongs to `run` (a record said so)."""

    table: ClassVar[str] = "source_run"
    at: At
    run: str
    how: str


@_value
class ProcessSeen:
    """First line of process `at.proc` in this generation; emitted once per proc and generation."""

    table: ClassVar[str] = "process_seen"
    at: At


@_value
class StampAfter:
    """First stamped line of `at.proc` after events of it that had no own stamp: their upper time bound."""

    table: ClassVar[str] = "stamp_after"
    at: At


@_value
class Gap:
    """Bytes that could not be read or understood: [first_byte, last_byte) and why. `kind` is a short constant."""

    table: ClassVar[str] = "source_gap"
    at: At
    kind: str
    first_byte: int
    last_byte: int
    detail: str


@_value
class FileSaid:
    """A line that names a file which its process writes or has written; a checkpoint's step is `at.step`.

    `kind`: checkpoint | flight_recorder; `edge`: begin | end; `path` as printed, "" if it is not.
    """

    table: ClassVar[str] = "file_said"
    at: At
    kind: str
    edge: str
    path: str
    rule: str


@_value
class GpuInfo:
    """What a GPU is, and where in the NVLink fabric; a new row when any of it changes.

    `origin`: nvml | nvidia-smi (a text file). `fabric_state` and `fabric_status` as the driver's words; "" unknown.
    `mig`: "" (has none), "off", "on". `unread`: what this GPU or driver does not tell, comma-separated.
    """

    table: ClassVar[str] = "gpu_info"
    at: At
    origin: str
    uuid: str
    gpu_index: int | None
    bus: str
    name: str
    driver: str
    fabric_cluster: str
    fabric_clique: int | None
    fabric_state: str
    fabric_status: str
    fabric_health: str
    mig: str
    memory_total: int | None
    unread: str


@_value
class GpuSample:
    """One reading. None: the GPU does not tell. Bytes, percent, MHz, degrees Celsius, watts; errors since the driver
    was loaded.

    `throttle`: reasons that slow the clocks, comma-separated. `why`: first | change | before change | heartbeat.
    """

    table: ClassVar[str] = "gpu_sample"
    at: At
    uuid: str
    memory_used: int | None
    memory_total: int | None
    utilization: int | None
    sm_clock: int | None
    memory_clock: int | None
    throttle: str
    temperature: int | None
    power_w: float | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    why: str


@_value
class GpuProcess:
    """A process began or ended to use a GPU (`state`: using | gone).

    `at.pid` is the pid that the process' own log lines print, None if that is not known; `gpu_pid` what the driver
    says. From /proc, else None or "": `started_at` (UTC), `command`, `out_path` and `err_path` (its stdout and stderr).
    """

    table: ClassVar[str] = "gpu_process"
    at: At
    uuid: str
    bus: str
    mig: str
    gpu_pid: int
    started_at: datetime | None
    memory_used: int | None
    command: str
    out_path: str
    err_path: str
    state: str


@_value
class GpuEvent:
    """What a GPU told of itself. `kind`: xid | ecc_single | ecc_double | lost | back | silent | driver_lost."""

    table: ClassVar[str] = "gpu_event"
    at: At
    uuid: str
    bus: str
    kind: str
    code: str
    detail: str


Event = (
    Mismatch
    | Fault
    | StepEvent
    | Metric
    | ExecState
    | WeightPhase
    | Device
    | Timing
    | Transport
    | Compilation
    | BenchMark
    | EnvSeen
    | WandbNamed
    | FileSaid
    | SourceRun
    | ProcessSeen
    | StampAfter
    | Gap
    | GpuInfo
    | GpuSample
    | GpuProcess
    | GpuEvent
)
