"""What the screen holds of comparisons: a list, one of them with its sequences or probes, the tokens of a sequence.

The models are light; what asks for them (comparison_reading.py) is loaded with the feed, after the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tic_tui.safe import Safe

if TYPE_CHECKING:
    from tic_tui.model import Demand, Key


WINDOW: Final = 600
"""Sequences, or probes, that are asked for at a time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A line of view `comparisons`. Figures without a value are None, and `undefined` says why."""

    rec_id: int
    comparison_id: str
    run_id: str | None  # None: it is not known whose
    attempt: int | None
    step: int | None
    policy: Safe | None
    kind: Safe
    goal: Safe | None
    control_group: Safe | None
    variant: Safe | None
    how: Safe | None
    side_a: str | None  # not yet safe: a path
    side_b: str | None
    part_a: Safe | None
    part_b: Safe | None
    valid_tokens: int | None
    mismatched_tokens: int | None
    sequences: int | None
    sequences_differing: int | None
    independent_sequences: int | None
    first_request: Safe | None
    first_position: int | None
    earliest_request: Safe | None
    earliest_position: int | None
    longest_run: int | None
    longest_run_unbroken: int | None
    longest_run_request: Safe | None
    logprob_mae: float | None
    logprob_max: float | None
    max_request: Safe | None
    max_position: int | None
    p50: float | None
    p95: float | None
    p99: float | None
    probability_mae: float | None
    kl_k1: float | None
    kl_k2: float | None
    kl_k3: float | None
    kl_is: Safe | None
    relative_l2: float | None
    cosine: float | None
    non_finite: int | None
    non_finite_at: Safe | None
    undefined: Sequence[str] | None
    magnitude_powers: Sequence[int] | None
    magnitude_counts: Sequence[int] | None
    ulp_lengths: Sequence[int] | None
    ulp_counts: Sequence[int] | None
    classes: Sequence[str] | None
    class_counts: Sequence[int] | None
    floor_a: float | None
    floor_b: float | None
    noise_ratio: float | None
    noise: Sequence[str] | None
    probes: int | None
    probes_differing: int | None
    dtype_a: Safe | None
    dtype_b: Safe | None
    dtype_provenance: Safe | None
    basis_a: Safe | None
    basis_b: Safe | None
    policy_a: Safe | None
    policy_b: Safe | None
    input: Safe | None
    phase: Safe | None
    scope: Safe | None
    intervention: Safe | None
    label: Safe | None  # None: a measurement that nothing judges
    state: Safe | None  # pass, fail, inconclusive: what of the label counts
    reason: Safe | None
    admissibility: Safe
    admissibility_reason: Safe | None
    marked: bool
    is_evidence: bool
    not_evidence_because: Safe | None
    criterion_id: Safe | None
    criterion_metric: Safe | None
    criterion_at_most: float | None
    criterion_at_least: float | None
    planted_error: Safe | None
    standing: Safe | None
    standing_why: Safe | None
    differs: Sequence[str] | None
    remarks: Sequence[str] | None
    proved: Sequence[str] | None
    unproven: Sequence[str] | None
    next_step: Safe | None
    produced_a: datetime | None
    produced_how_a: Safe | None
    produced_b: datetime | None
    produced_how_b: Safe | None
    reader_a: Safe | None
    reader_b: Safe | None
    sha256_a: Safe | None
    sha256_b: Safe | None
    size_a: int | None
    size_b: int | None
    changed: Safe | None
    manifest: str | None
    report: Safe | None
    compare_id: Safe | None
    took_s: float | None
    host: Safe | None
    observed_at: datetime

    @property
    def key(self) -> Key:
        """Its place among all comparisons: when it became known, then the order in which they were made."""
        from tic_tui.model import Key  # noqa: PLC0415  the model imports this module

        return Key(self.observed_at, "", self.rec_id)

    @property
    def target(self) -> str:
        """The name of this comparison in a mark."""
        return f"comparison:{self.comparison_id}"

    @property
    def magnitudes(self) -> Mapping[int, int]:
        """Tokens by the power of two of their difference: e counts 2^(e-1) <= abs(d) < 2^e."""
        return dict(zip(self.magnitude_powers or (), self.magnitude_counts or (), strict=False))

    @property
    def floor(self) -> float | None:
        """The larger noise floor of both sides; None unless both are shown."""
        return None if self.floor_a is None or self.floor_b is None else max(self.floor_a, self.floor_b)


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """A line of view `comparison_sequences`. `strip`: tokens that differ in each of equal pieces of the response."""

    request: str  # not yet safe: it names the sequence
    valid_tokens: int | None
    mismatched_tokens: int | None
    first_position: int | None
    longest_run: int | None
    max_abs: float | None
    max_position: int | None
    mean_abs: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    non_finite: int | None
    prompt_length: int | None
    response_length: int | None
    sample_group: Safe | None
    policy: Safe | None
    strip: Sequence[int] | None
    strip_valid: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A line of view `comparison_versions`: figures of the tokens that one version of the policy sampled."""

    policy: Safe | None
    valid_tokens: int | None
    mismatched_tokens: int | None  # None: bits are not compared, the element types differ
    logprob_mae: float | None  # None: a number of it is not finite


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A line of view `comparison_tokens`. Bits are hexadecimal text of the element's own width."""

    request: str
    position: int
    why: Safe | None
    token_id: int | None
    value_a: float | None
    value_b: float | None
    difference: float | None
    bits_a: Safe | None
    bits_b: Safe | None


@dataclass(frozen=True, slots=True)
class Boundary:
    """A line of view `trace_boundaries`: one probe. `state`: equal, differs, downstream, missing."""

    execution_order: int
    request: str
    boundary: Safe
    slice: Safe
    state: Safe
    operator: Safe | None
    dtype: Safe | None
    shape: Sequence[int] | None
    sha256_a: Safe | None
    sha256_b: Safe | None
    input_state: Safe | None
    discrete: bool | None
    elements: int | None
    mismatched: int | None
    first_index: Sequence[int] | None
    finite: float | None
    max_abs: float | None
    mean_abs: float | None
    relative_l2: float | None
    cosine: float | None
    vocab_tv_mean: float | None
    vocab_tv_max: float | None
    vocab_argmax: float | None
    vocab_logsoftmax_max: float | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """A line of view `trace_first_divergence`: the first probe that differs, and the last that agrees before it."""

    request: str | None
    boundary: Safe | None
    slice: Safe | None
    execution_order: int | None
    operator: Safe | None
    last_equal_boundary: Safe | None
    last_equal_slice: Safe | None


@dataclass(frozen=True, slots=True)
class Board:
    """A line of view `control_groups`, of one step. Of a group: equal, differs, inconclusive, not run."""

    inference_alone: Safe
    training_alone: Safe
    cross_stack: Safe
    score_layer: Safe
    rules_out: Safe
    look_at: Safe
    comparisons: int


@dataclass(frozen=True, slots=True)
class Queued:
    """A line of view `comparison_queue`. `state`: waiting, running, failed, refused."""

    run_id: str | None
    step: int | None
    state: Safe
    why: Safe | None
    side_a: str | None
    side_b: str | None
    tokens_done: int | None
    tokens_total: int | None
    observed_at: datetime


QUEUE: Final = 200
"""Lines of the queue that are asked for at most."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons of one run, in short. `labels`: how many have each label and count or not, "" none."""

    newest: tuple[Comparison, ...] = ()
    labels: tuple[tuple[Safe, int], ...] = ()
    queue: tuple[Queued, ...] = ()

    @property
    def total(self) -> int:
        """Comparisons of the run."""
        return sum(number for _, number in self.labels)


@dataclass(frozen=True, slots=True)
class ComparisonWindow:
    """Neighbouring comparisons, oldest first. `older` and `newer`: there are more on that side."""

    rows: tuple[Comparison, ...] = ()
    older: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonsView:
    """The list of comparisons of a run, or of all.

    Attributes:
        window: those that all filters leave, around the demand's anchor.
        total: all of the run. matching: those that the filters leave.
        choices: of the column that the demand asks for: its values and how many have each, most first.
        board: the control groups of the step that the demand names.
    """

    demand: Demand
    window: ComparisonWindow
    total: int
    matching: int
    choices: dict[str, tuple[tuple[Safe, int], ...]]
    queue: tuple[Queued, ...]
    board: Board | None
    read_at: datetime


@dataclass(frozen=True, slots=True)
class CompareAsk:
    """What is asked of comparisons.

    Attributes:
        comparison_id: which one; "" for the list.
        worst: sequences with the most differing tokens first; else by request.
        first: the first sequence, or probe, that is wanted.
        request: the sequence whose tokens are wanted; None: none.
        artifacts: both sides' files are wanted.
        board: the run, attempt and step of the control groups that are wanted.
    """

    comparison_id: str = ""
    worst: bool = True
    first: int = 0
    request: str | None = None
    artifacts: bool = False
    board: tuple[str | None, int | None, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A line of view `artifacts`: the file of one side or of both."""

    path: str  # not yet safe
    host: Safe | None
    state: Safe
    why: Safe | None
    bytes_size: int | None
    sha256: Safe | None
    expected_sha256: Safe | None
    manifest: str | None
    modified_at: datetime | None
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """One comparison.

    Attributes:
        row: as it is now; None: it is gone.
        sequences: those from `ask.first` on, of `total`; of a trace `boundaries` instead.
        divergence: of a trace, where it begins; `divergence_at`: the number of that row, from 0.
        sequence, tokens: the sequence that was asked for, and those of its tokens that are kept; None: not asked for.
        artifacts: both sides' files; None: not asked for.
        board: the control groups of its step.
        versions: its figures by version of the policy, in the order of versions; of a trace none.
    """

    demand: Demand
    row: Comparison | None
    total: int
    first: int
    sequences: tuple[SequenceRow, ...]
    boundaries: tuple[Boundary, ...]
    divergence: Divergence | None
    divergence_at: int
    sequence: SequenceRow | None
    tokens: tuple[TokenRow, ...] | None
    artifacts: tuple[Artifact, ...] | None
    board: Board | None
    versions: tuple[VersionRow, ...]
    read_at: datetime

    @property
    def ask(self) -> CompareAsk:
        """What this answers."""
        return self.demand.compare or CompareAsk()
