"""The facts of a run that the router goes by, out of the public views of one store or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tic_daemon.errors import UnknownRunError
from tic_daemon.hints.router import GROUPS, Compared, Facts, Sequence_, Trace
from tic_daemon.record.asking import Row, ask

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

# What a fault locks, a person marked or a plant spoilt is no ground for a hint; inputs that are known to differ are.
_COMPARED: Final = (
    "SELECT comparison_id, step, valid_tokens, mismatched_tokens, sequences, sequences_differing, input, differs,"
    " policy_a, policy_b, logprob_mae, floor_a, floor_b FROM comparisons WHERE run_id = ?"
    " AND kind = 'tokens' AND admissibility = 'admissible' AND NOT marked AND planted_error IS NULL"
    " AND coalesce(label, '') <> 'VACUOUS' AND coalesce(control_group, 'cross_stack') = 'cross_stack'"
)
_SEQUENCES: Final = (
    "SELECT comparison_id, request, valid_tokens, mismatched_tokens, first_position, prompt_length"
    " FROM comparison_sequences WHERE run_id = ? AND mismatched_tokens > 0 AND first_position IS NOT NULL"
)
_GROUPS: Final = "SELECT inference_alone, training_alone, score_layer FROM control_groups WHERE run_id = ?"
_TRACES: Final = (
    "SELECT t.comparison_id, t.boundary, t.input_state, coalesce(b.discrete, false) AS discrete, t.request,"
    " t.execution_order FROM trace_first_divergence t LEFT JOIN trace_boundaries b"
    " ON b.comparison_id = t.comparison_id AND b.execution_order = t.execution_order AND b.request = t.request"
    " WHERE t.run_id = ? AND t.admissibility = 'admissible' AND coalesce(t.label, '') NOT IN ('INVALID', 'VACUOUS')"
    " AND t.probes > 0 AND (t.boundary IS NOT NULL OR t.probes_differing = 0)"
)
_DECISIONS: Final = (
    "SELECT comparison_id, count(*) FILTER (discrete) AS decisions,"
    " count(*) FILTER (discrete AND state <> 'equal') AS other"
    " FROM trace_boundaries WHERE run_id = ? GROUP BY comparison_id"
)
_FINDINGS: Final = "SELECT DISTINCT detail FROM lifecycle_findings WHERE run_id = ? ORDER BY 1"
_FIELDS: Final = (
    "SELECT field, state, value FROM run_records WHERE run_id = ?"
    " AND field IN ('weights.content', 'rollout.quantization')"
)
_FAULTS: Final = (
    "SELECT DISTINCT title FROM faults WHERE run_id = ? AND verdict = 'confirmed' AND echo_of IS NULL"
    " AND starts_with(kind, 'nccl.') AND severity <> 'I' ORDER BY 1"
)
_CASES: Final = "SELECT name, ruled_out FROM cases WHERE run_id = ? ORDER BY name"
# The same tokens may have been scored in other runs as well: a rerun has an id of its own.
_ROUNDS: Final = (
    "WITH one AS MATERIALIZED (SELECT * FROM comparisons),"
    " own AS (SELECT DISTINCT input FROM one WHERE run_id = ? AND input <> 'unknown'),"
    " ground AS (SELECT max(observed_at) AS at FROM one"
    " WHERE run_id IN (SELECT run_id FROM one WHERE input IN (SELECT input FROM own))"
    " AND (kind = 'trace' OR control_group IN ('inference_alone', 'training_alone', 'score_layer')))"
    " SELECT count(DISTINCT task) AS rounds FROM one CROSS JOIN ground WHERE kind = 'tokens' AND mismatched_tokens > 0"
    " AND planted_error IS NULL AND admissibility = 'admissible' AND NOT marked"
    " AND coalesce(label, '') NOT IN ('INVALID', 'VACUOUS')"
    " AND coalesce(control_group, 'cross_stack') = 'cross_stack' AND (ground.at IS NULL OR observed_at > ground.at)"
    " AND input IN (SELECT input FROM own) GROUP BY input ORDER BY 1 DESC LIMIT 1"
)
_KNOWN: Final = (
    "SELECT 1 AS known FROM run_states WHERE run_id = ? UNION ALL SELECT 1 FROM comparisons WHERE run_id = ? LIMIT 1"
)
_STATES: Final = ("differs", "inconclusive", "equal")
"""Of several steps the first of these that any has counts."""


def facts_of(reader: Reader, run: str) -> Facts:
    """What is known of a run.

    Raises:
        UnknownRunError: no store knows it. StoreError, ConnectError, SqlError: it cannot be asked.
    """
    if not ask(reader, _KNOWN, run, run):
        raise UnknownRunError(f"no run {run!r} in this store", "`tic-tui status` lists the runs")
    compared = ask(reader, _COMPARED, run)
    fields = {row["field"]: row for row in ask(reader, _FIELDS, run)}
    quantized = fields.get("rollout.quantization", {"value": "unknown"})["value"]
    return Facts(
        compared=tuple(map(_compared, compared)),
        sequences=_sequences(ask(reader, _SEQUENCES, run)),
        groups=_groups(ask(reader, _GROUPS, run)),
        traces=_traces(ask(reader, _TRACES, run), ask(reader, _DECISIONS, run)),
        findings=tuple(row["detail"] for row in ask(reader, _FINDINGS, run)),
        weights=fields.get("weights.content", {"state": "unknown"})["state"],
        quantized="" if quantized.lower() in ("unknown", "none", "false") else quantized,
        communication=tuple(row["title"] for row in ask(reader, _FAULTS, run)),
        rounds=next((row["rounds"] for row in ask(reader, _ROUNDS, run)), 0),
        ruled_out=tuple(
            f"{text} (case {row['name']})" for row in ask(reader, _CASES, run) for text in row["ruled_out"]
        ),
    )


def _compared(row: Row) -> Compared:
    floors = [row[name] for name in ("floor_a", "floor_b") if row[name] is not None]
    policies = [row[name] for name in ("policy_a", "policy_b")]
    return Compared(
        row["comparison_id"],
        row["step"],
        row["valid_tokens"] or 0,
        row["mismatched_tokens"],
        row["sequences"] or 0,
        row["sequences_differing"],
        row["input"] != "unknown",
        tuple(row["differs"] or ()),
        None if "unknown" in policies else policies[0] == policies[1],
        row["logprob_mae"],
        max(floors, default=None),
    )


def _sequences(rows: Sequence[Row]) -> dict[str, tuple[Sequence_, ...]]:
    found: dict[str, list[Sequence_]] = {}
    for row in rows:
        one = Sequence_(
            row["request"], row["valid_tokens"], row["mismatched_tokens"], row["first_position"], row["prompt_length"]
        )
        found.setdefault(row["comparison_id"], []).append(one)
    return {name: tuple(told) for name, told in found.items()}


def _groups(rows: Sequence[Row]) -> dict[str, str]:
    return {
        name: next((state for state in _STATES if any(row[name] == state for row in rows)), "not run")
        for name in GROUPS
    }


def _traces(rows: Sequence[Row], decisions: Sequence[Row]) -> tuple[Trace, ...]:
    counted = {row["comparison_id"]: row for row in decisions}
    none = {"decisions": 0, "other": 0}
    return tuple(
        Trace(
            row["boundary"] or "",
            row["input_state"] or "unknown",
            bool(row["discrete"]),
            counted.get(row["comparison_id"], none)["decisions"] > 0
            and counted.get(row["comparison_id"], none)["other"] == 0,
        )
        for row in rows
    )
