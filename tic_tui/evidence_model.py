"""What the screen holds of the ledger: candidates with their cells, evidence, rows of the chain, pairs, cases, hints.

One class a view, the fields named as the view's columns. The models are light; what asks for them
(evidence_reading.py) is loaded with the feed, after the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from tic_tui.safe import NOTHING, Safe

if TYPE_CHECKING:
    from tic_tui.comparison_model import Comparison
    from tic_tui.model import Demand, Key

Page = Literal["gates", "cell", "ledger", "pairs", "cases", "hints"]


@dataclass(frozen=True, slots=True)
class EvidenceAsk:
    """Which cell is asked for."""

    candidate_id: str = ""
    gate: str = ""
    cell: str = ""


# --- runs ---


@dataclass(frozen=True, slots=True)
class Lamp:
    """A line of view `lamps`: execution, consistency or quality of a run."""

    run_id: str
    lamp: Safe
    state: Safe
    stale: bool
    because: Safe | None


# --- candidates and their cells ---


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line of view `candidates`, without its closure. `stale`: gate, cell and cause of what a change made stale."""

    candidate_id: str
    name: Safe | None
    parent_id: str | None
    run_ids: Sequence[str]
    unknown: Sequence[str]
    screening: bool
    changed: Sequence[str]
    unshown: Sequence[str]
    regressions: Sequence[str]
    stale: Sequence[Sequence[str]]
    who: Safe | None
    said_at: datetime | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A line of view `gates`."""

    candidate_id: str
    gate_no: int
    gate: Safe
    cell: str  # not yet safe: of gate per_version it is a policy version as it was printed
    state: Safe
    stale: bool
    cause: Safe
    gate_state: Safe
    pieces: int
    evidence_id: str | None
    carried_from: str | None
    position: int


@dataclass(frozen=True, slots=True)
class GatesView:
    """Candidates, the newest first, and the cells of each in the order of the gates.

    Attributes:
        criteria: how many criteria are in force.
    """

    demand: Demand
    candidates: tuple[Candidate, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    criteria: int
    read_at: datetime

    def named(self, candidate_id: str | None) -> str:
        """What a candidate is called: its name, else the beginning of its hash."""
        known = next((one.name for one in self.candidates if one.candidate_id == candidate_id), None)
        return str(known or (candidate_id or "")[:12])


# --- one cell ---


@dataclass(frozen=True, slots=True)
class Piece:
    """A line of view `evidence_current`."""

    id: str
    candidate_id: str
    run_id: str | None
    attempt: int | None
    step: int | None
    policy: Safe | None
    workload: Safe | None
    criterion_id: Safe | None
    goal: Safe | None
    label: Safe | None
    state: Safe
    reason: Safe | None
    plane: Safe | None
    comparison_id: str | None  # None: it is of no comparison, but of an exit, an image or a pair
    valid_tokens: int | None
    mismatched_tokens: int | None
    independent_sequences: int | None
    manifest_sha256: Safe | None
    policy_content_id: Safe | None
    receipt_sha256: Safe | None
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Criterion:
    """A line of view `criteria`. `state`: in force, historical."""

    criterion_id: Safe
    metric: Safe | None
    at_most: float | None
    at_least: float | None
    goal: Safe | None
    gate: Safe | None
    cell: str | None
    planted: Safe | None
    key: Safe | None
    path: str | None  # not yet safe
    raw: str | None  # column `text`, not yet safe: it holds newlines
    frozen_at: datetime
    who: Safe | None
    replaced_by: Safe | None
    replaced_because: Safe | None
    state: Safe


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell.

    Attributes:
        row: as it stands; None: it is gone. candidate, parent: whose it is, and what that was made from.
        pieces: its current evidence, the newest first; of a pass that is carried over, that of where it comes from.
        past: rows of evidence that stood here and count no more: superseded, historical, or another took its place.
        comparisons: those of both, by name. criteria: all that are for this cell.
        exemptions: rows of the ledger that name it. goals: what a comparison must be made for to fill it.
    """

    demand: Demand
    row: Cell | None
    candidate: Candidate | None
    parent: Candidate | None
    pieces: tuple[Piece, ...]
    past: tuple[Entry, ...]
    comparisons: Mapping[str, Comparison]
    criteria: tuple[Criterion, ...]
    exemptions: tuple[Entry, ...]
    goals: tuple[str, ...]
    read_at: datetime


# --- the ledger ---


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of view `ledger`, with what other rows say of it.

    Attributes:
        gate, cell: its own, else those that its criterion is for.
        standing: superseded, historical, or "": no other row says anything. because: why.
    """

    rec_id: int
    store_id: str
    seq: int
    id: str
    kind: Safe
    candidate_id: str
    run_id: str
    attempt: int | None
    step: int | None
    gate: Safe
    cell: str
    policy: Safe
    workload: Safe
    criterion_id: Safe
    label: Safe
    reason: Safe
    plane: Safe
    target: str
    standing: Safe
    because: Safe
    manifest_sha256: Safe
    policy_content_id: Safe
    receipt_sha256: Safe
    artifacts: Safe
    body: Safe
    who: Safe
    host: Safe
    said_at: datetime
    observed_at: datetime
    prev_hash: Safe
    row_hash: Safe

    @property
    def key(self) -> Key:
        """Its place among all rows."""
        from tic_tui.model import Key  # noqa: PLC0415  the model imports this module

        return Key(self.observed_at, self.store_id, self.rec_id)


@dataclass(frozen=True, slots=True)
class Chain:
    """How far the chains were walked. `broken`: the first break in words, "" none; `stores`: how many chains.

    `head`: hash of the last row that holds, of the only store, to be kept elsewhere.
    """

    walked: int = 0
    stores: int = 0
    complete: bool = False
    broken: Safe = NOTHING
    head: Safe = NOTHING


@dataclass(frozen=True, slots=True)
class LedgerWindow:
    """Neighbouring rows, oldest first. `older` and `newer`: there are more on that side."""

    rows: tuple[Entry, ...] = ()
    older: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True)
class LedgerView:
    """Rows of the ledger.

    Attributes:
        window: those that all filters leave, around the demand's anchor. total: all of the run, or of the workspace.
        matching: those that the filters leave.
        choices: of the column that the demand asks for: its values and how many rows have each, most first.
        superseded, historical: how many of all rows another row says that of.
    """

    demand: Demand
    window: LedgerWindow
    total: int
    matching: int
    choices: dict[str, tuple[tuple[Safe, int], ...]]
    chain: Chain
    superseded: int
    historical: int
    read_at: datetime


# --- pairs of arms ---


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of view `pairs`. `state`: comparable, pending re-check."""

    pair: str
    baseline: Safe | None
    baseline_state: Safe | None
    baseline_candidate: str | None
    plant: Safe | None
    state: Safe
    reason: Safe | None
    met: int
    unmet: int
    unknown: int
    runs_a: Sequence[str]
    runs_b: Sequence[str]
    excluded: Sequence[str]
    switch: Sequence[str]
    confounders: Sequence[str]
    path: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of view `pair_rules`. `state`: met, unmet, unknown."""

    pair: str
    number: int
    rule: Safe
    title: Safe
    state: Safe
    value_a: Safe | None
    value_b: Safe | None
    why: Safe | None


@dataclass(frozen=True, slots=True)
class PairValue:
    """A line of view `pair_values`: one key of one single pair of runs, beside the medians of all of them."""

    pair: str
    cell: str
    key: Safe
    position: int | None
    run_a: Safe | None
    run_b: Safe | None
    value_a: float | None
    value_b: float | None
    difference: float | None
    ratio: float | None
    pairs: int
    declared: int
    median_a: float | None
    median_b: float | None
    median_difference: float | None
    median_ratio: float | None
    state: Safe
    reason: Safe | None


@dataclass(frozen=True, slots=True)
class PairsView:
    """All declared pairs, with their rules and values by the pair's name; None: not read yet."""

    demand: Demand
    pairs: tuple[Pair, ...]
    rules: Mapping[str, tuple[Rule, ...]] | None
    values: Mapping[str, tuple[PairValue, ...]] | None
    read_at: datetime


# --- criteria, baselines, cases ---


@dataclass(frozen=True, slots=True)
class Baseline:
    """A line of view `baselines`. `state`: reviewed, pending review."""

    name: Safe | None
    candidate_id: str
    run_id: str | None
    config: Safe | None
    results: Safe | None
    reviewer: Safe | None
    state: Safe
    reviewed_at: datetime | None
    reason: Safe | None
    who: Safe | None
    said_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Case:
    """A line of view `cases`. A part that nobody told is `not shown`."""

    name: Safe | None
    run_id: str | None
    candidate_id: str | None
    contract: Safe
    counterexample: Safe
    experiment: Safe
    fix: Safe
    regression: Safe
    scope: Safe
    ruled_out: Sequence[str]
    opened_at: datetime
    said_at: datetime
    who: Safe | None
    entries: int


Record = Criterion | Baseline | Case


@dataclass(frozen=True, slots=True)
class CasesView:
    """What was fixed and what was found out: criteria, baselines, cases; each the newest first."""

    demand: Demand
    criteria: tuple[Criterion, ...]
    baselines: tuple[Baseline, ...]
    cases: tuple[Case, ...]
    read_at: datetime

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them, in the order in which they are listed."""
        return (*self.criteria, *self.baselines, *self.cases)


# --- hints ---


@dataclass(frozen=True, slots=True)
class Hint:
    """A pattern that was seen, and which experiment comes first. It decides nothing."""

    says: Safe
    seen: Safe
    first_step: Safe
    probe: Safe


@dataclass(frozen=True, slots=True)
class Order:
    """One class in the handling order. `state`: ruled out, suspected, open, not reached."""

    name: Safe
    state: Safe
    why: Safe


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """A line of view `trace_first_divergence`. `boundary` None: none of its probes differs."""

    comparison_id: str
    run_id: str | None
    attempt: int | None
    step: int | None
    probes: int | None
    probes_differing: int | None
    request: str | None
    boundary: Safe | None
    slice: Safe | None
    execution_order: int | None
    operator: Safe | None
    input_state: Safe | None
    mismatched: int | None
    max_abs: float | None
    last_equal_boundary: Safe | None
    admissibility: Safe | None
    label: Safe | None
    reason: Safe | None


@dataclass(frozen=True, slots=True)
class HintsView:
    """What to try first in one run, and where its traces begin to differ.

    Attributes:
        trouble: why there are no hints; "".
        divergences: one a comparison of traces, the newest step first. comparisons: those comparisons, by name.
    """

    demand: Demand
    hints: tuple[Hint, ...] = ()
    order: tuple[Order, ...] = ()
    next_probe: Safe = NOTHING
    stuck: Safe = NOTHING
    ruled_out: tuple[Safe, ...] = ()
    trouble: Safe = NOTHING
    divergences: tuple[FirstDivergence, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    read_at: datetime | None = None


EvidenceView = GatesView | CellView | LedgerView | PairsView | CasesView | HintsView
