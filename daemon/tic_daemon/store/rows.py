"""What goes into the store besides events: frozen values, one class a table, fields in the table's order.

    SourceRow    one followed file                       table source     (upserted)
    CursorRow    how far one generation of it is read    table cursor     (upserted)
    SourceDelta  what one poll of one generation gave    rows and cursor that must be committed together
    MarkRow      what a person said                      table mark       (append-only)
    AttemptRow   a declared attempt with its cut         tables run_attempt and attempt_cut (append-only)
    CheckpointRow   how a checkpoint looked when it changed   table checkpoint (append-only)
    FaultFileRow    how a file that a fault left looked when it changed   table fault_file (append-only)
    ResultFileRow, ArtifactRow, ResultGapRow   what results directories hold   tables result_file, artifact, result_gap
    LedgerRow    one row of the evidence ledger          table ledger_row (append-only, chained)
    Progress     how far a writer has come               no table; what long polls wait for
    EnvPinRow    a setting in a file beside the run      table env_pin    (append-only)
    ConfigRow    a value of a configuration or receipt   table config_value (append-only)
    RemoteFaultRow, RemotePlaceRow, RemoteGapRow   what other stores said   tables remote_* (append-only)

Times are naive UTC. `observed_at` is not here: the writer gives every row of a tick the same one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tic_daemon.ledger.entries import Entry
from tic_daemon.scan.events import Event
from tic_daemon.wandb.events import WandbEvent


def source_id(host: str, kind: str, path: str) -> int:
    """63 bits that name a source: the same in every store and after every restart."""
    digest = hashlib.sha256(f"{host}\0{kind}\0{path}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8]) >> 1


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source. Meaning of each field: the comments of table `source` in schema/001_tables.sql."""

    source_id: int
    kind: str
    host: str
    root: str
    path: str
    role: str = "unknown"
    framework: str = "plain"
    rank: int | None = None
    pid: int | None = None
    single_process: bool = False
    stream: str = ""
    console: bool = False
    run_hint: str = ""
    run_how: str = ""
    zone_s: int | None = None
    zone_how: str = ""
    network: bool = False
    state: str = "idle"
    error: str = ""
    why: str = ""
    generation: int = 0
    bytes_size: int = 0
    first_seen_at: datetime | None = None
    last_growth_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CursorRow:
    """How far one generation of a source is read. `state` is the scanner's state at `byte_offset`.

    `prov` is the writer's: it allocates it on commit and ignores the value that it is given. Read back from
    `Writer.cursors()` it says whether a provisional set is live (None: none is).
    """

    source_id: int
    generation: int
    byte_offset: int = 0
    line_no: int = 0
    head_len: int = 0
    head_hash: str = ""
    tail_hash: str = ""
    device: int = 0
    inode: int = 0
    path: str = ""
    closed: bool = False
    prov: int | None = None
    lines: int = 0
    skipped_bytes: int = 0
    bad_utf8: int = 0
    capped_lines: int = 0
    nul_bytes: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class SourceDelta:
    """What one poll of one generation gave; committed wholly or not at all.

    `events` are final. `provisional` replaces the former provisional set of this (source, generation); empty means that
    none is left. Without a cursor nothing is said about provisional rows, and `provisional` must be empty.
    `bytes` and `lines` count what was read, for table `ingest`.
    """

    source: SourceRow
    cursor: CursorRow | None = None
    events: tuple[Event | WandbEvent, ...] = ()
    provisional: tuple[Event | WandbEvent, ...] = ()
    bytes: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class MarkRow:
    """What a person said of a run, an attempt or a record.

    `scope` run | attempt | record; `target` is "" for a run or attempt, "<source_id>:<generation>:<byte_offset>" for a
    record, "comparison:<comparison_id>" for a comparison, the id of the mark for a retraction; `verdict` inconclusive |
    note | retract; `reason` is never empty.
    """

    id: str
    run_id: str
    attempt: int | None
    scope: str
    target: str
    verdict: str
    reason: str
    who: str
    marked_at: datetime
    host: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A declared attempt. `cut` holds (source_id, generation, byte_offset) of every source known when it was declared.

    `from_kind` says how the cut was told (now | time | source | scheduler | manifest); `from_time` is set for "time".
    """

    id: str
    run_id: str
    from_kind: str
    from_time: datetime | None
    reason: str
    who: str
    declared_at: datetime
    host: str
    cut: tuple[tuple[int, int, int], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class EnvPinRow:
    """One setting of the environment in a file: see table `env_pin` in the schema. `gone`: the file holds none."""

    host: str
    root: str
    path: str
    run_hint: str = ""
    digest: str = ""
    gone: bool = False
    line_no: int | None = None
    name: str = ""
    value: str = ""
    form: str = ""
    hard: bool | None = None
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One value of a file that says what a run was made of: see table `config_value` in the schema. `gone`: the file is
    no more, or says nothing. `problem`: it could not be read, or not whole; then `key` is ""."""

    host: str
    root: str
    path: str
    run_hint: str = ""
    kind: str = ""
    side: str = ""
    digest: str = ""
    gone: bool = False
    key: str = ""
    name: str = ""
    value: str = ""
    line_no: int | None = None
    secret: bool = False
    problem: str = ""
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as it looked at one time. Meaning of its fields: table checkpoint in schema/005_checkpoints.sql."""

    host: str
    root: str
    path: str
    step: int
    layout: str
    bytes_size: int
    files: int
    modified_at: datetime
    complete: bool
    present: bool
    why: str

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.path)


@dataclass(frozen=True, slots=True)
class FaultFileRow:
    """A file that a fault left, as it looked at one time. Fields: table fault_file in schema/007_fault_files.sql."""

    host: str
    root: str
    path: str
    kind: str
    pid: int | None
    rank: int | None
    named_host: str
    bytes_size: int
    modified_at: datetime
    present: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.path)


@dataclass(frozen=True, slots=True)
class ResultFileRow:
    """A manifest, sidecar or index, as it was read. Fields: table result_file in schema."""

    host: str
    root: str
    path: str
    kind: str
    digest: str = ""
    run: str = ""
    run_how: str = ""
    step: int | None = None
    policy: str = ""
    input_sha256: str = ""
    valid: int | None = None
    hooks: int | None = None
    command: str = ""
    code: str = ""
    image: str = ""
    entries: int = 0
    modified_at: datetime | None = None
    present: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.path)


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """A file that a manifest names, as it looked at one time. Fields: table artifact in schema."""

    host: str
    root: str
    manifest: str
    path: str
    name: str = ""
    run: str = ""
    run_how: str = ""
    step: int | None = None
    policy: str = ""
    expected_size: int | None = None
    expected_sha256: str = ""
    bytes_size: int | None = None
    sha256: str = ""
    kept_sha256: str = ""
    modified_at: datetime | None = None
    stamp: str = ""
    state: str = ""
    why: str = ""
    named: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.manifest, self.path)


@dataclass(frozen=True, slots=True)
class ResultGapRow:
    """Something wrong with a results directory besides its artifacts. Fields: table result_gap in schema."""

    host: str
    root: str
    path: str
    kind: str
    subject: str = ""
    run: str = ""
    detail: str = ""
    present: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.path, self.kind, self.subject)


ResultRow = ResultFileRow | ArtifactRow | ResultGapRow
"""What sources/results.py tells; in the order in which it was told."""


@dataclass(frozen=True, slots=True)
class LedgerRow(Entry):
    """What an entry says, and its place in the store's chain."""

    seq: int = 0
    prev_hash: str = ""
    row_hash: str = ""


class FaultRuleLike(Protocol):
    """What table `fault_rule` keeps of a fault rule; `tic_daemon.scan.rules.FaultRule` is one."""

    @property
    def kind(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def locks(self) -> str: ...
    @property
    def node_scope(self) -> bool: ...
    @property
    def title(self) -> str: ...
    @property
    def pack(self) -> str: ...
    @property
    def product(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a writer has come. None of the numbers ever falls while it lives.

    Attributes:
        tick: number of its last commit. rec_id: the last one given.
        rows: rows of table `mismatch` written since it was opened.
        standing: how often something happened after which rows that were read before may read differently.
    """

    tick: int = 0
    rec_id: int = 0
    rows: int = 0
    standing: int = 0


@dataclass(frozen=True, slots=True)
class RemoteFaultRow:
    """A fault of another store. Fields and their meaning: table remote_fault in schema/002_remote.sql."""

    origin_store_id: str
    origin_rec_id: int
    revision: int
    gone: bool
    run_id: str
    run_how: str
    root: str
    lo_attempt: int
    hi_attempt: int
    known_attempts: int
    host: str
    path: str
    source_id: int
    generation: int
    byte_offset: int
    byte_length: int
    line_no: int
    inode: int
    network: bool
    console: bool
    writer: str
    proc: str
    actor: str
    pid: int | None
    proc_rank: int | None
    kind: str
    severity: str
    locks: str
    node_scope: bool
    title: str
    mapped: bool
    locking: bool
    text: str
    code: str
    bus: str
    node: str
    raw: str
    step: int | None
    exact: bool
    lo_us: int | None
    hi_us: int | None
    slo: int | None
    shi: int | None
    line_slo: int | None
    line_shi: int | None
    event_at: datetime | None
    told_at: datetime

    @property
    def key(self) -> tuple[object, ...]:
        """What the greatest revision counts of."""
        return ("fault", self.origin_store_id, self.origin_rec_id, self.run_id, self.lo_attempt)


@dataclass(frozen=True, slots=True)
class RemotePlaceRow:
    """What another store knows of a run. `what`: run | device | began; see table remote_place."""

    origin_store_id: str
    revision: int
    gone: bool
    what: str
    run_id: str
    host: str = ""
    root: str = ""
    lo_attempt: int = 0
    hi_attempt: int = 0
    node: str = ""
    bus: str = ""
    began_us: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What the greatest revision counts of."""
        return (
            self.what, self.origin_store_id, self.run_id, self.host, self.root, self.lo_attempt, self.hi_attempt,
            self.node, self.bus,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RemoteGapRow:
    """What of the exchange could not be read, understood or told: table remote_gap."""

    kind: str
    path: str
    first_byte: int | None
    last_byte: int | None
    detail: str
