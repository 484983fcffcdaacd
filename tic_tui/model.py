"""What the screen holds: frozen values, one class a view, the fields named as the view's columns.

Strings are `Safe` from here on, but for keys: `build` is the only way from a query's row into the screen. Times are
naive UTC, as the store keeps them. None is unknown, and is drawn as the word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tic_tui.comparison_model import CompareAsk, Compared
from tic_tui.evidence_model import EvidenceAsk, Lamp
from tic_tui.filters import Filter
from tic_tui.histories import Wandb
from tic_tui.safe import NOTHING, Safe, safe

if TYPE_CHECKING:
    from tic_tui.execution import ExecField, Finding, Gpu, PhaseChange, WeightPhase
    from tic_tui.lanes import LaneAsk

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The place of a row among the rows of all stores, in the order in which they became known.

    Within a store every commit has a later `observed_at` than the one before it, and rec_id grows with it.
    """

    observed_at: datetime
    store_id: str
    rec_id: int


FIRST: Final = Key(datetime.min, "", -1)  # before every row


@dataclass(frozen=True, slots=True)
class Run:
    """A line of view `runs`."""

    run_id: str
    attempt: int
    state: Safe
    locked: bool
    first_fault_rec_id: int | None
    last_step: int | None
    last_event_at: datetime | None
    last_observed_at: datetime | None
    mismatches: int
    faults: int
    marked: bool
    named_by_us: bool | None
    first_fault_store_id: str = ""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A line of view `mismatches`."""

    rec_id: int
    run_id: str
    attempt: int
    step: int | None
    step_carried: bool | None
    policy: Safe | None
    input: Safe | None
    phase: Safe | None
    rank: Safe | None
    repeat: Safe | None
    scope: Safe | None
    intervention: Safe | None
    metric: Safe | None
    value: float | None
    reference: Safe | None
    self_repeat: float | None
    noise_ratio: float | None
    report: Safe | None
    classification: Safe | None
    parse_state: Safe
    admissibility: Safe
    reason: Safe | None
    marked: bool
    is_evidence: bool
    not_evidence_because: Safe | None
    graph_mode: Safe | None
    step_kind: Safe | None
    prefix_cache: Safe | None
    prefix_hit_rate: Safe | None
    weight_phase: Safe | None
    state_source: Safe | None  # own log | by time | ""
    state_note: Safe | None  # why a value of the state is not known; ""
    state_by_time: Safe | None  # which values of the state are from another log, as "graph_mode, weight_phase"
    finding_ids: str | None  # the findings in whose state it was made, with blanks between
    host: Safe | None
    pid: int | None
    path: str | None  # not yet safe: a file is opened and matched by its name as it is
    source_id: int
    generation: int
    line_no: int
    byte_offset: int
    byte_length: int
    event_at: datetime | None
    observed_at: datetime
    raw: str  # not yet safe: it holds newlines; `safe_lines` splits it when it is drawn
    store_id: str
    provisional: bool  # its record is still open: a final row will take its place

    @property
    def key(self) -> Key:
        """Its place among all rows."""
        return Key(self.observed_at, self.store_id, self.rec_id)

    @property
    def place(self) -> str:
        """Where its bytes are: path:line."""
        return f"{self.path or 'unknown'}:{self.line_no}"

    @property
    def target(self) -> str:
        """The name of this record in a mark."""
        return f"{self.source_id}:{self.generation}:{self.byte_offset}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A line of view `faults`."""

    rec_id: int
    run_id: str
    attempt: int
    severity: Safe | None
    kind: Safe
    verdict: Safe
    locks: bool | None
    rank: int | None
    pid: int | None
    host: Safe | None
    code: Safe | None
    step: int | None
    text: Safe
    raw: str  # not yet safe, as `Mismatch.raw`
    title: Safe | None
    reason: Safe | None
    echo_of: int | None
    path: str | None  # not yet safe, as `Mismatch.path`
    generation: int
    line_no: int
    byte_offset: int
    byte_length: int
    event_at: datetime | None
    observed_at: datetime
    store_id: str
    last_attempt: int | None  # the newest attempt that it may belong to; the oldest is `attempt`
    origin_store_id: str | None  # the store that told of it, and its number there; None: it stands in this store's logs
    origin_rec_id: int | None
    witness_of: (
        int | None
    )  # the first line of the same fault, of another process; in the numbers of `incident_store_id`
    witnesses: int  # of the first line: how many other processes say the same
    incident_store_id: str | None

    @property
    def key(self) -> Key:
        """Its place among all rows."""
        return Key(self.observed_at, self.store_id, self.rec_id)

    @property
    def place(self) -> str:
        """Where its bytes are: path:line."""
        return f"{self.path or 'unknown'}:{self.line_no}"


@dataclass(frozen=True, slots=True)
class FaultFile:
    """A line of view `fault_files`: what a fault left beside; never opened here."""

    kind: Safe
    path: str  # not yet safe, as `Mismatch.path`
    host: Safe | None
    pid: int | None
    rank: int | None
    bytes_size: int | None
    modified_at: datetime | None
    present: bool | None  # False: it is gone
    why: Safe | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How many records of an attempt view `mismatches` gives one admissibility and reason."""

    attempt: int
    admissibility: Safe
    reason: Safe
    records: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of view `marks`."""

    rec_id: int | None
    id: str
    run_id: str
    attempt: int | None
    scope: Safe
    target: str | None
    verdict: Safe
    reason: Safe
    who: Safe | None
    marked_at: datetime | None
    retracted: bool


@dataclass(frozen=True, slots=True)
class Bucket:
    """Records of one metric in one span of steps and of one standing: the smallest and the largest value."""

    column: int
    standing: Safe  # evidence | not evidence | suspect | locked
    low: float
    high: float
    records: int


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over steps [first_step, last_step], in `columns` spans; `asked` is how many there was room for.

    `floor` is the largest self_repeat seen, `unplotted` counts the records without a finite value or without a step.
    """

    metric: str
    metrics: tuple[str, ...]
    first_step: int
    last_step: int
    asked: int
    columns: int
    buckets: tuple[Bucket, ...]
    floor: float | None
    unplotted: int


@dataclass(frozen=True, slots=True)
class Steps:
    """What view `steps` says: how many steps were seen, from which to which."""

    first: int | None
    last: int | None
    seen: int


@dataclass(frozen=True, slots=True)
class Sources:
    """What view `sources` says of a run: how many are watched, in which states, when one grew last."""

    watched: int
    growing: int
    unreadable: int
    last_growth_at: datetime | None


@dataclass(frozen=True, slots=True)
class Facts:
    """How a run goes on, beside its line in view `runs`.

    Attributes:
        verdict: of view `liveness`: moving | console only silent | quiet | silent everywhere | ended; "" unknown.
        moved_last: what moved last, of the same view: step | checkpoint | worker log | console | nothing.
        moved_at: when that was.
        why: the verdict in words, of the same view. checkpoint_at: when the last checkpoint was written.
        steps_per_s: over the newest steps that were seen; None with fewer than two.
        ranks_watched, ranks_expected: of view `coverage`.
        findings: how many of the weights' lifecycle, of view `lifecycle_findings`.
        gaps, uploader, uploader_at: of its W&B histories, of view `wandb_runs`; "" where nothing told of uploads.
    """

    verdict: Safe = NOTHING
    moved_last: Safe = NOTHING
    moved_at: datetime | None = None
    steps_per_s: float | None = None
    ranks_watched: int = 0
    ranks_expected: int = 0
    why: Safe = NOTHING
    checkpoint_at: datetime | None = None
    findings: int = 0
    gaps: int = 0
    uploader: Safe = NOTHING
    uploader_at: datetime | None = None

    @property
    def coverage(self) -> str:
        """ "7 of 8 ranks watched"; "" for a run without ranks."""
        return f"{self.ranks_watched} of {self.ranks_expected} ranks watched" if self.ranks_expected else ""


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring records, oldest first. `older` and `newer`: there are more on that side, or may be: see `Search`."""

    rows: tuple[Mismatch, ...] = ()
    older: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """How far a filter or a count has looked back. Records before that are not looked at yet, and come by and by.

    Attributes:
        complete: everything was looked at.
        back_to_step, back_to: the step and time (naive UTC) of the oldest record looked at; None: nothing yet.
    """

    complete: bool = True
    back_to_step: int | None = None
    back_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunsView:
    """Screen 1. `newest` holds the newest record of each run by (run_id, attempt), `facts` is by run_id.

    `counted`: how far back records are counted. While it is not complete, counts are those before, or too small.
    `lamps`: the three of each run, by run_id; None: not read. `unlit`: why they cannot be read; "".
    """

    runs: tuple[Run, ...]
    newest: dict[tuple[str, int], Mismatch]
    read_at: datetime
    facts: dict[str, Facts] = field(default_factory=dict)
    counted: Search = Search()
    lamps: Mapping[str, tuple[Lamp, ...]] | None = None
    unlit: Safe = NOTHING


@dataclass(frozen=True, slots=True)
class RunView:
    """Screen 2, of one run. `counted`: as in `RunsView`, of the run's counts, the newest evidence and the plot."""

    run: Run
    standings: tuple[Standing, ...]
    first_fault: Fault | None
    faults: tuple[Fault, ...]
    faults_total: int
    exec_fields: tuple[ExecField, ...]
    phases: tuple[WeightPhase, ...]
    newest_evidence: Mismatch | None
    window: Window
    series: Series | None
    steps: Steps
    sources: Sources
    marks: tuple[Mark, ...]
    read_at: datetime
    facts: Facts = Facts()
    counted: Search = Search()
    findings: tuple[Finding, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    artifacts: Mapping[str, int] = field(default_factory=dict)  # how many are in each state of view `artifacts`
    wandb: Wandb = field(default_factory=Wandb)
    changes: tuple[PhaseChange, ...] = ()  # the newest of the weights' lifecycle, each process' in the order of its log
    compared: Compared = field(default_factory=Compared)

    def count(self, admissibility: str, reason: str = "", *, attempt: int | None = None) -> int:
        """Records of an attempt (the run's newest one) with this admissibility, and this reason if one is given."""
        wanted = self.run.attempt if attempt is None else attempt
        return sum(
            s.records
            for s in self.standings
            if s.attempt == wanted and s.admissibility == admissibility and reason in {"", str(s.reason)}
        )


@dataclass(frozen=True, slots=True)
class MismatchesView:
    """Screen 3.

    Attributes:
        demand: what this answers.
        window: the records that all filters leave, around the demand's anchor.
        total: records of the run (of all runs without one). matching: those that the filters leave, as far as `search`.
        choices: of the column that the demand asks for: its values and how many records have each, most first.
    """

    demand: Demand
    window: Window
    total: int
    matching: int
    search: Search
    choices: dict[str, tuple[tuple[Safe, int], ...]]
    read_at: datetime


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """Neighbouring faults, oldest first, as `Window`."""

    rows: tuple[Fault, ...] = ()
    older: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True)
class FaultsView:
    """Screen 5: the faults that act on one attempt of a run.

    Attributes:
        attempts: those that the run has; `attempt` is the one shown.
        first, candidates: what the view takes for the first fault, and all that may have been.
        faults: a window around the demand's anchor, of `total`.
        cascade: the first line of every rank and host, in the order of time; at most 500.
        echoes: copies of a line by a console, by the key of the line itself.
        kinds: kinds and how many there are of each, most first.
        state: (field, value) of the execution state that the first fault's own log had shown before it.
        why: why it is not decided which fault was first; "" if it is.
        files: what the faults left beside, the oldest first; at most 100.
    """

    demand: Demand
    run: Run
    attempt: int
    attempts: tuple[int, ...]
    first: Fault | None
    candidates: tuple[Fault, ...]
    faults: FaultWindow
    total: int
    cascade: tuple[Fault, ...]
    echoes: dict[Key, tuple[Fault, ...]]
    kinds: tuple[tuple[Safe, int], ...]
    read_at: datetime
    state: tuple[tuple[Safe, Safe], ...] = ()
    why: Safe = NOTHING
    files: tuple[FaultFile, ...] = ()


Screen = Literal[
    "runs", "run", "mismatches", "state", "faults", "comparisons", "comparison",
    "gates", "cell", "ledger", "pairs", "cases", "hints",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Demand:
    """What is on the screen, and so what is asked for.

    Attributes:
        screen: which one is in front.
        run_id: the run that it shows; None: all runs (screens 1, 3 and 6).
        anchor: the key around which lines are shown; None: the newest ones.
        metric: the metric to plot; "" the one seen last.
        columns: spans of the plot.
        filters: of a table; those that are off change nothing.
        rows: lines wanted on each side of the anchor.
        choices: the filter column whose values are asked for; "" none.
        attempt: of screen 5; None: the newest one.
        lanes: of screen 4; None: as it begins.
        compare: of comparisons. evidence: of a cell of the gates.
    """

    screen: Screen = "runs"
    run_id: str | None = None
    anchor: Key | None = None
    metric: str = ""
    columns: int = 0
    filters: tuple[Filter, ...] = ()
    rows: int = 300
    choices: str = ""
    attempt: int | None = None
    lanes: LaneAsk | None = None
    compare: CompareAsk | None = None
    evidence: EvidenceAsk | None = None


# `raw` holds newlines; the others are keys, that go back into queries, marks and the file system exactly as they are.
# All of them are made safe when they are drawn, by the line builder.
_RAW = frozenset(
    {
        "raw", "run_id", "id", "target", "store_id", "origin_store_id", "incident_store_id", "first_fault_store_id",
        "finding_id", "finding_ids", "path", "comparison_id", "request", "side_a", "side_b", "manifest", "candidate_id",
        "parent_id", "carried_from", "evidence_id", "cell", "pair",
    }
)  # fmt: skip


def columns(kind: type[Any]) -> str:
    """The select list of a model: its fields, by name."""
    return ", ".join(f.name for f in fields(kind))


def build(kind: type[T], row: Sequence[Any]) -> T:
    """A model from a row of `SELECT columns(kind)`; strings become safe but the multi-line ones."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    return kind(
        *(safe(v) if isinstance(v, str) and n not in _RAW else v for n, v in zip(names, row, strict=True)),
    )
