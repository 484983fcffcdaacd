"""docs/reference/views.md against a store with the real schema: nothing undocumented, nothing superfluous, nothing promised missing."""

from __future__ import annotations

import re

import pytest

from tests.e2e.harness import ROOT
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.writer import Writer

PAGE = ROOT / "docs" / "reference" / "views.md"
SHARED = "Columns with one meaning everywhere"

# Columns that stay, under these names and with these meanings, of the views that exist so far.
PROMISED = {
    "runs": "run_id attempt state locked first_fault_rec_id last_step last_event_at last_observed_at mismatches faults"
    " wandb_gaps marked",
    "mismatches": "rec_id run_id attempt step step_carried policy input phase rank repeat scope intervention metric value"
    " reference self_repeat noise_ratio report classification parse_state admissibility reason marked is_evidence"
    " not_evidence_because graph_mode step_kind prefix_cache prefix_hit_rate weight_phase host pid path line_no byte_offset"
    " byte_length event_at observed_at raw",
    "faults": "rec_id run_id attempt severity kind verdict locks rank pid host code step text echo_of path line_no"
    " byte_offset byte_length event_at observed_at",
    "metrics": "rec_id run_id attempt step key value value_text source_kind path line_no event_at observed_at",
    "steps": "run_id attempt step source_kind first_observed_at",
    "wandb_gaps": "run_id attempt kind source first_step last_step key cause detail confirmed_reads first_seen_at",
    "exec_states": "rec_id run_id attempt role rank host pid field claimed observed event_at observed_at path line_no",
    "weight_lifecycle": "rec_id run_id attempt role rank host pid track phase level version duration_s legal event_at path"
    " line_no",
    "lifecycle_findings": "finding_id rec_id run_id attempt role rank host pid kind severity detail first_step last_step from_at"
    " until_at path line_no byte_offset source_id generation observed_at",
    "sources": "source_id run_id kind role rank host path generation bytes_read bytes_size lines skipped last_growth_at"
    " state",
    "marks": "rec_id run_id attempt scope target verdict reason who marked_at retracted",
    "attempts": "", "coverage": "", "exec_state_now": "", "locks": "", "timings": "", "evidence_gaps": "",
    "liveness": "run_id verdict worker_at console_at step_at checkpoint_at last_step moved_last why",
    "checkpoints": "run_id attempt step path host bytes_size modified_at complete observed_at",
    "ledger": "rec_id seq id kind prev_hash row_hash", "criteria": "", "candidates": "", "cases": "", "baselines": "",
    "gates": "candidate_id gate cell state stale cause", "evidence_current": "",
    "receipt_shards": "run_id shard sha256 state why receipt_sha256",
    "lamps": "store run_id lamp state stale because",
    "artifacts": "rec_id run_id attempt step policy name path host state why bytes_size sha256 expected_size expected_sha256"
    " kept_sha256 manifest modified_at verified_at observed_at",
    "manifests": "run_id step policy kind path host digest input_sha256 verified pending wrong present observed_at",
    "comparisons": "rec_id run_id attempt step policy kind goal side_a side_b valid_tokens mismatched_tokens sequences"
    " independent_sequences first_request first_position longest_run logprob_mae logprob_max probability_mae kl_k1 kl_k2 kl_k3"
    " dtype_a dtype_b dtype_provenance basis_a basis_b label reason marked is_evidence not_evidence_because criterion_id"
    " comparison_id admissibility admissibility_reason noise_ratio report phase rank control_group comparator",
    "comparison_sequences": "comparison_id request valid_tokens mismatched_tokens first_position longest_run max_abs mean_abs p50"
    " p95 p99 prompt_length response_length sample_group policy strip strip_valid",
    "comparison_tokens": "comparison_id request position why value_a value_b bits_a bits_b token_id",
    "trace_first_divergence": "comparison_id run_id step request boundary slice last_equal_boundary last_equal_slice",
    "trace_boundaries": "comparison_id request boundary slice execution_order state",
    "control_groups": "run_id attempt step inference_alone training_alone cross_stack score_layer rules_out look_at",
    "comparison_queue": "run_id step side_a side_b state why tokens_done tokens_total",
    "fault_files": "run_id attempt rec_id kind path host pid rank bytes_size modified_at why observed_at",
    "run_records": "run_id field value launcher worker state launcher_source worker_source",
    "run_fingerprints": "run_id fingerprint known unknown unknown_fields",
    "pairs": "pair baseline state reason runs_a runs_b excluded",
    "pair_rules": "pair rule state value_a value_b why",
    "pair_values": "pair cell key position run_a run_b value_a value_b median_difference state reason",
    "run_states": "run_id attempt state locked first_fault_rec_id faults marked",
    "attempt_states": "run_id attempt locked first_fault_rec_id first_fault_candidates faults marked",
    "transports": "run_id attempt host rank pid comm channel peer_rank transport mnnvl clique_size path line_no event_at"
    " observed_at",
    "transport_sets": "", "transport_pairs": "", "bench_marks": "",
    "compiles": "run_id attempt rank host pid compiler what seconds after_bench path line_no event_at observed_at",
    "compile_after_bench": "run_id attempt rank host pid compiler what seconds after_bench path line_no event_at observed_at",
    "env_pins": "run_id path line_no name value hard observed_at",
    "step_lines": "rec_id run_id attempt step edge source_kind path line_no event_at observed_at",
}  # fmt: skip


@pytest.fixture(scope="module")
def actual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    writer = Writer.open(StoreLayout.find(tmp_path_factory.mktemp("views")))
    try:
        rows = (
            writer.reader_cursor()
            .execute(
                "SELECT c.table_name, c.column_name FROM duckdb_columns() c JOIN duckdb_views() v"
                " ON v.view_name = c.table_name WHERE NOT v.internal AND NOT regexp_matches(v.view_name, '^[bi]_')"
            )
            .fetchall()
        )
    finally:
        writer.close()
    found: dict[str, set[str]] = {}
    for view, column in rows:
        found.setdefault(view, set()).add(column)
    return found


def rows_of(section: str) -> list[tuple[list[str], str]]:
    """The table of a section: the columns that a row names, and what it says of them."""
    rows = re.findall(r"^\| (`.*?`) \| ?(.*?) ?\|$", section, flags=re.MULTILINE)
    return [(re.findall(r"`(\w+)`", names), meaning) for names, meaning in rows]


def sections() -> dict[str, list[tuple[list[str], str]]]:
    _, *parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return {name: rows_of(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def test_every_view_and_column_is_documented_and_no_other(actual: dict[str, set[str]]) -> None:
    documented = sections()
    documented.pop(SHARED)
    assert set(documented) == set(actual)
    for view, rows in documented.items():
        names = [name for columns, _ in rows for name in columns]
        assert len(names) == len(set(names)), f"{view}: a column twice"
        assert set(names) == actual[view], f"{view}: {set(names) ^ actual[view]}"


def test_every_column_has_a_meaning_there_or_among_the_shared_ones() -> None:
    documented = sections()
    shared = {name for columns, meaning in documented.pop(SHARED) if meaning for name in columns}
    for view, rows in documented.items():
        for columns, meaning in rows:
            assert meaning or set(columns) <= shared, f"{view}: {set(columns) - shared} without a meaning"


def test_what_is_promised_is_there(actual: dict[str, set[str]]) -> None:
    assert set(PROMISED) <= set(actual)
    for view, columns in PROMISED.items():
        assert set(columns.split()) <= actual[view], f"{view}: {set(columns.split()) - actual[view]} is gone"


def test_internal_names_are_none_of_the_page() -> None:
    """A reader who follows the page writes queries that stay valid."""
    assert not re.findall(r"\b[bid]_[a-z]+", PAGE.read_text())
