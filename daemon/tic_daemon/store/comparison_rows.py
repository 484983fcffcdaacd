"""Comparisons as rows of the store: frozen values, one class a table, fields in the table's order.

Meaning of the fields: schema/012_comparisons.sql, 015_comparison_parts.sql, 016_comparison_said.sql. A comparison, all
that belongs to it, and the task that is done with them are told together and committed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ComparisonTaskRow:
    """What is to be compared, and how far it is: table comparison_task."""

    host: str
    root: str
    task: str
    how: str
    run: str = ""
    run_how: str = ""
    step: int | None = None
    manifest: str = ""
    side_a: str = ""
    side_b: str = ""
    content: str = ""
    state: str = ""
    why: str = ""
    tokens_done: int | None = None
    tokens_total: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.task)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One judged comparison: table comparison."""

    host: str
    root: str
    id: str
    task: str
    how: str = ""
    run: str = ""
    run_how: str = ""
    step: int | None = None
    policy: str | None = None
    manifest: str = ""
    kind: str = ""
    control: str = ""
    variant: str = ""
    goal: str = ""
    phase: str | None = None
    rank: int | None = None
    repeat: str | None = None
    scope: str | None = None
    intervention: str | None = None
    side_a: str = ""
    part_a: str = ""
    reader_a: str = ""
    sha256_a: str = ""
    size_a: int | None = None
    side_b: str = ""
    part_b: str = ""
    reader_b: str = ""
    sha256_b: str = ""
    size_b: int | None = None
    produced_a: datetime | None = None
    produced_how_a: str = ""
    producer_host_a: str = ""
    producer_pid_a: int | None = None
    produced_b: datetime | None = None
    produced_how_b: str = ""
    producer_host_b: str = ""
    producer_pid_b: int | None = None
    dtype_a: str = ""
    dtype_b: str = ""
    provenance_a: str = ""
    provenance_b: str = ""
    basis_a: str = ""
    basis_b: str = ""
    policy_a: str = ""
    policy_b: str = ""
    input: str = ""
    sequences: int | None = None
    sequences_differing: int | None = None
    independent_sequences: int | None = None
    valid_tokens: int | None = None
    mismatched_tokens: int | None = None
    first_request: str | None = None
    first_position: int | None = None
    earliest_request: str | None = None
    earliest_position: int | None = None
    longest_run: int | None = None
    longest_run_unbroken: int | None = None
    longest_run_request: str | None = None
    logprob_mae: float | None = None
    logprob_max: float | None = None
    max_request: str | None = None
    max_position: int | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    probability_mae: float | None = None
    kl_k1: float | None = None
    kl_k2: float | None = None
    kl_k3: float | None = None
    kl_is: str = ""
    relative_l2: float | None = None
    cosine: float | None = None
    non_finite: int | None = None
    non_finite_at: str = ""
    overflow: int | None = None
    undefined: tuple[str, ...] = ()
    magnitude_powers: tuple[int, ...] = ()
    magnitude_counts: tuple[int, ...] = ()
    ulp_lengths: tuple[int, ...] = ()
    ulp_counts: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    class_counts: tuple[int, ...] = ()
    floor_a: float | None = None
    floor_b: float | None = None
    noise: tuple[str, ...] = ()
    probes: int | None = None
    probes_differing: int | None = None
    label: str = ""
    reason: str = ""
    rule: int | None = None
    exit_code: int | None = None
    standing: str = ""
    standing_why: str = ""
    criterion: str = ""
    criterion_metric: str = ""
    criterion_at_most: float | None = None
    criterion_at_least: float | None = None
    plant: str = ""
    differs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    proved: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    next_step: str = ""
    comparator: int | None = None
    program: str = ""
    compare_id: str = ""
    content: str = ""
    report: str = ""
    took_s: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Of one key the newest row counts."""
        return (self.host, self.task)


@dataclass(frozen=True, slots=True)
class ComparisonSequenceRow:
    """One of its sequences: table comparison_sequence."""

    comparison_id: str
    request: str
    valid_tokens: int | None = None
    mismatched_tokens: int | None = None
    first_position: int | None = None
    longest_run: int | None = None
    longest_run_unbroken: int | None = None
    max_abs: float | None = None
    max_position: int | None = None
    mean_abs: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    non_finite: int | None = None
    prompt_length: int | None = None
    response_length: int | None = None
    sample_group: str = ""
    policy: str = ""
    strip: tuple[int, ...] = ()
    strip_valid: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonFileRow:
    """A file that it hangs on besides its sides: table comparison_file."""

    comparison_id: str
    role: str
    path: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonSaidRow:
    """What a manifest says of a file, as it was looked at last: table comparison_said."""

    host: str
    path: str
    said: str


@dataclass(frozen=True, slots=True)
class ComparisonVersionRow:
    """Its figures for one version of the policy: table comparison_version."""

    comparison_id: str
    policy: str
    valid_tokens: int | None = None
    mismatched_tokens: int | None = None
    logprob_mae: float | None = None


@dataclass(frozen=True, slots=True)
class ComparisonTokenRow:
    """One of its tokens: table comparison_token."""

    comparison_id: str
    request: str
    position: int
    why: str = ""
    value_a: float | None = None
    value_b: float | None = None
    bits_a: str = ""
    bits_b: str = ""
    difference: float | None = None
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class TraceBoundaryRow:
    """One probe of a comparison of traces: table trace_boundary."""

    comparison_id: str
    execution_order: int
    request: str = ""
    boundary: str = ""
    slice: str = ""
    state: str = ""
    operator: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    sha256_a: str = ""
    sha256_b: str = ""
    input_state: str = ""
    discrete: bool = False
    elements: int | None = None
    mismatched: int | None = None
    first_index: tuple[int, ...] = ()
    finite: float | None = None
    max_abs: float | None = None
    mean_abs: float | None = None
    relative_l2: float | None = None
    cosine: float | None = None
    vocab_tv_mean: float | None = None
    vocab_tv_max: float | None = None
    vocab_argmax: float | None = None
    vocab_logsoftmax_max: float | None = None


ComparisonPart = (
    ComparisonFileRow | ComparisonVersionRow | ComparisonSequenceRow | ComparisonTokenRow | TraceBoundaryRow
)
ComparisonTold = ComparisonTaskRow | ComparisonRow | ComparisonSaidRow | ComparisonPart
"""What tic_daemon/comparisons tells; in the order in which it was told."""
