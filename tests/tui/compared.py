"""Comparisons for a FakeStore: tables with the names and columns of the public views, and a run that has some of each kind.

`test_compared.py` holds the tables against the views themselves.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.tui.fake import FakeStore

SCHEMA = """
CREATE TABLE comparisons (rec_id BIGINT, comparison_id VARCHAR, run_id VARCHAR, attempt BIGINT, step BIGINT, policy
  VARCHAR, kind VARCHAR, goal VARCHAR, control_group VARCHAR, variant VARCHAR, how VARCHAR, side_a VARCHAR, side_b
  VARCHAR, part_a VARCHAR, part_b VARCHAR, valid_tokens BIGINT, mismatched_tokens BIGINT, sequences BIGINT,
  sequences_differing BIGINT, independent_sequences BIGINT, first_request VARCHAR, first_position BIGINT,
  earliest_request VARCHAR, earliest_position BIGINT, longest_run BIGINT, longest_run_unbroken BIGINT,
  longest_run_request VARCHAR, logprob_mae DOUBLE, logprob_max DOUBLE, max_request VARCHAR, max_position BIGINT, p50
  DOUBLE, p95 DOUBLE, p99 DOUBLE, probability_mae DOUBLE, kl_k1 DOUBLE, kl_k2 DOUBLE, kl_k3 DOUBLE, kl_is VARCHAR,
  relative_l2 DOUBLE, cosine DOUBLE, non_finite BIGINT, non_finite_at VARCHAR, overflow BIGINT, undefined VARCHAR[],
  magnitude_powers INTEGER[], magnitude_counts BIGINT[], ulp_lengths INTEGER[], ulp_counts BIGINT[], classes
  VARCHAR[], class_counts BIGINT[], floor_a DOUBLE, floor_b DOUBLE, noise_ratio DOUBLE, noise VARCHAR[], probes
  BIGINT, probes_differing BIGINT, dtype_a VARCHAR, dtype_b VARCHAR, dtype_provenance VARCHAR, basis_a VARCHAR,
  basis_b VARCHAR, policy_a VARCHAR, policy_b VARCHAR, input VARCHAR, phase VARCHAR, rank BIGINT, repeat VARCHAR,
  scope VARCHAR, intervention VARCHAR, label VARCHAR, state VARCHAR, reason VARCHAR, rule BIGINT, exit_code BIGINT,
  admissibility VARCHAR, admissibility_reason VARCHAR, marked BOOLEAN, is_evidence BOOLEAN, not_evidence_because
  VARCHAR, criterion_id VARCHAR, criterion_metric VARCHAR, criterion_at_most DOUBLE, criterion_at_least DOUBLE,
  planted_error VARCHAR, standing VARCHAR, standing_why VARCHAR, differs VARCHAR[], remarks VARCHAR[], proved
  VARCHAR[], unproven VARCHAR[], next_step VARCHAR, produced_a TIMESTAMP, produced_how_a VARCHAR, produced_b
  TIMESTAMP, produced_how_b VARCHAR, reader_a VARCHAR, reader_b VARCHAR, sha256_a VARCHAR, sha256_b VARCHAR, size_a
  BIGINT, size_b BIGINT, artifact_a BIGINT, artifact_b BIGINT, changed VARCHAR, manifest VARCHAR, report VARCHAR,
  compare_id VARCHAR, comparator BIGINT, program VARCHAR, took_s DOUBLE, host VARCHAR, task VARCHAR, observed_at
  TIMESTAMP);
CREATE TABLE comparison_sequences (run_id VARCHAR, step BIGINT, comparison_id VARCHAR, request VARCHAR, valid_tokens
  BIGINT, mismatched_tokens BIGINT, first_position BIGINT, longest_run BIGINT, longest_run_unbroken BIGINT, max_abs
  DOUBLE, max_position BIGINT, mean_abs DOUBLE, p50 DOUBLE, p95 DOUBLE, p99 DOUBLE, non_finite BIGINT, prompt_length
  BIGINT, response_length BIGINT, sample_group VARCHAR, policy VARCHAR, strip INTEGER[], strip_valid INTEGER[], rec_id
  BIGINT, observed_at TIMESTAMP);
CREATE TABLE comparison_versions (run_id VARCHAR, step BIGINT, comparison_id VARCHAR, policy VARCHAR, valid_tokens
  BIGINT, mismatched_tokens BIGINT, logprob_mae DOUBLE, rec_id BIGINT, observed_at TIMESTAMP);
CREATE TABLE comparison_tokens (run_id VARCHAR, step BIGINT, comparison_id VARCHAR, request VARCHAR, position BIGINT,
  why VARCHAR, value_a DOUBLE, value_b DOUBLE, bits_a VARCHAR, bits_b VARCHAR, difference DOUBLE, token_id BIGINT,
  rec_id BIGINT, observed_at TIMESTAMP);
CREATE TABLE trace_first_divergence (comparison_id VARCHAR, run_id VARCHAR, attempt BIGINT, step BIGINT, side_a
  VARCHAR, side_b VARCHAR, probes BIGINT, probes_differing BIGINT, request VARCHAR, boundary VARCHAR, slice VARCHAR,
  execution_order BIGINT, operator VARCHAR, input_state VARCHAR, mismatched BIGINT, first_index BIGINT[], max_abs
  DOUBLE, relative_l2 DOUBLE, cosine DOUBLE, last_equal_boundary VARCHAR, last_equal_slice VARCHAR, label VARCHAR,
  reason VARCHAR, admissibility VARCHAR, next_step VARCHAR, observed_at TIMESTAMP);
CREATE TABLE trace_boundaries (run_id VARCHAR, step BIGINT, comparison_id VARCHAR, execution_order BIGINT, request
  VARCHAR, boundary VARCHAR, slice VARCHAR, state VARCHAR, operator VARCHAR, dtype VARCHAR, shape BIGINT[], sha256_a
  VARCHAR, sha256_b VARCHAR, input_state VARCHAR, discrete BOOLEAN, elements BIGINT, mismatched BIGINT, first_index
  BIGINT[], finite DOUBLE, max_abs DOUBLE, mean_abs DOUBLE, relative_l2 DOUBLE, cosine DOUBLE, vocab_tv_mean DOUBLE,
  vocab_tv_max DOUBLE, vocab_argmax DOUBLE, vocab_logsoftmax_max DOUBLE, rec_id BIGINT, observed_at TIMESTAMP);
CREATE TABLE control_groups (run_id VARCHAR, attempt BIGINT, step BIGINT, inference_alone VARCHAR, training_alone
  VARCHAR, cross_stack VARCHAR, score_layer VARCHAR, rules_out VARCHAR, look_at VARCHAR, comparisons BIGINT);
CREATE TABLE comparison_queue (rec_id BIGINT, run_id VARCHAR, step BIGINT, how VARCHAR, side_a VARCHAR, side_b
  VARCHAR, state VARCHAR, why VARCHAR, tokens_done BIGINT, tokens_total BIGINT, manifest VARCHAR, host VARCHAR, task
  VARCHAR, observed_at TIMESTAMP);
"""
RUN = "grpo-tiny-a"


def insert(store: FakeStore, table: str, /, **values: Any) -> None:
    """One row; columns that are not named are NULL."""
    names = ", ".join(values)
    store.write(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", list(values.values()))


def comparison(store: FakeStore, number: int, *, run: str = RUN, **values: Any) -> str:
    """A comparison of 96 tokens in 3 sequences, 5 of which differ in 2; `values` say what is other. Returns its name."""
    from tests.tui.fake import NOW

    name = f"{number:016x}"
    held: dict[str, Any] = {
        "rec_id": 5000 + number, "comparison_id": name, "run_id": run, "attempt": 1, "step": number, "policy": f"p{number}",
        "kind": "tokens", "goal": "cross_stack", "control_group": "cross_stack", "how": "manifest",
        "side_a": f"/results/step{number}/rollout.pt", "side_b": f"/results/step{number}/trainer.pt", "valid_tokens": 96,
        "mismatched_tokens": 5, "sequences": 3, "sequences_differing": 2, "independent_sequences": 3, "first_request": "r0",
        "first_position": 7, "earliest_request": "r1", "earliest_position": 2, "longest_run": 3, "longest_run_unbroken": 2,
        "longest_run_request": "r0", "logprob_mae": 0.00125, "logprob_max": 0.0625, "max_request": "r0", "max_position": 9,
        "p50": 0.0, "p95": 0.015625, "p99": 0.0625, "probability_mae": 0.0005, "kl_k1": -0.001, "kl_k2": 0.00002,
        "kl_k3": 0.000021, "kl_is": "diagnostic statistic", "relative_l2": 0.0031, "cosine": 0.99998, "non_finite": 0,
        "overflow": 0, "undefined": [], "magnitude_powers": [-6, -5, -3], "magnitude_counts": [2, 2, 1],
        "ulp_lengths": [1, 3], "ulp_counts": [2, 3], "classes": ["finite"], "class_counts": [5], "floor_a": 0.0005,
        "floor_b": 0.00025, "noise_ratio": 2.5, "noise": ["side A: 1 pair of repeats"], "dtype_a": "float32",
        "dtype_b": "float32", "dtype_provenance": "native", "basis_a": "raw", "basis_b": "raw", "policy_a": f"p{number}",
        "policy_b": f"p{number}", "input": "ab12", "phase": "decode", "scope": "fixed-input", "intervention": "none",
        "state": "inconclusive", "reason": "no criterion, or none older than the numbers", "rule": 9, "exit_code": 12,
        "admissibility": "admissible", "admissibility_reason": "", "marked": False, "is_evidence": True,
        "not_evidence_because": "", "standing": "clear", "standing_why": "no fault before step 14", "differs": [],
        "remarks": ["offset +1 does not explain it"], "proved": ["both sides scored the same tokens (their ids)"],
        "unproven": ["that the criterion can fail"], "next_step": "fix a criterion in a file before the next run",
        "produced_a": NOW, "produced_how_a": "receipt", "produced_b": NOW, "produced_how_b": "file", "reader_a": "torch",
        "reader_b": "torch", "sha256_a": f"{number:064x}", "sha256_b": f"{number + 500:064x}", "size_a": 4096,
        "size_b": 4100, "changed": "", "manifest": f"/results/step{number}/manifest.json",
        "report": f"/ws/tic-reports/{name}.json", "compare_id": f"c{number}", "took_s": 0.25, "host": "node1",
        "task": name, "observed_at": NOW - timedelta(minutes=60) + timedelta(minutes=number),
    } | values  # fmt: skip
    insert(store, "comparisons", **held)
    return name


def sequence(store: FakeStore, name: str, request: str, strip: list[int] | None, **values: Any) -> None:
    """A sequence of 32 valid tokens in as many pieces as its strip has."""
    pieces = len(strip or [])
    differ = sum(strip or [])
    held: dict[str, Any] = {
        "comparison_id": name, "request": request, "valid_tokens": 32, "mismatched_tokens": differ,
        "first_position": 7 if differ else None, "longest_run": min(differ, 3), "max_abs": differ / 64,
        "max_position": 9 if differ else None, "mean_abs": differ / 2048, "p50": 0.0, "p95": 0.015625, "p99": 0.0625,
        "non_finite": 0, "prompt_length": 12, "response_length": 32, "sample_group": "prompt-3", "policy": "p11",
        "strip": strip, "strip_valid": [32 // pieces] * pieces if pieces else None,
    } | values  # fmt: skip
    insert(store, "comparison_sequences", **held)


def token(store: FakeStore, name: str, request: str, position: int, a: float, b: float, *, why: str = "first") -> None:
    """A token of two float32 numbers."""
    insert(
        store, "comparison_tokens", comparison_id=name, request=request, position=position, why=why, value_a=_f32(a),
        value_b=_f32(b), bits_a=_bits(a), bits_b=_bits(b), difference=_f32(b) - _f32(a), token_id=4000 + position,
    )  # fmt: skip


def _bits(value: float) -> str:
    return struct.pack(">f", value).hex()


def _f32(value: float) -> float:
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


_MADE: dict[str, Any] = {}


def some(store: FakeStore) -> None:
    """Comparisons as a person would meet them: measured ones, a PASS, a FAIL, an INVALID one, traces, and a queue."""
    from tests.tui.fake import FakeStore, Filled

    if not _MADE:  # made once, then copied
        scratch = FakeStore()
        _make_some(scratch)
        _MADE.update(Filled.of(scratch).tables)
    for name, table in _MADE.items():
        with store.lock:
            columns = ", ".join(table.column_names)
            store.db.register("made", table)
            store.db.execute(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM made")
            store.db.unregister("made")
    store.write("UPDATE sources SET bytes_read = bytes_read + 1")


def _make_some(store: FakeStore) -> None:
    from tests.tui.fake import NOW

    for number in range(10):
        comparison(store, number, control_group=None, is_evidence=False, not_evidence_because="intervention not stated",
                   reason="basis unknown", rule=8)  # fmt: skip
    name = comparison(store, 10, label="PASS", state="pass", reason="no bit differs", mismatched_tokens=0, rule=11,
                      sequences_differing=0, first_request=None, first_position=None, logprob_mae=0.0, logprob_max=0.0,
                      magnitude_powers=[], magnitude_counts=[], ulp_lengths=[], ulp_counts=[], noise_ratio=0.0)  # fmt: skip
    for request in ("r0", "r1", "r2"):
        sequence(store, name, request, [0] * 8)
    name = comparison(store, 11, label="FAIL", state="fail", rule=11,
                      reason="bitwise: 5 of 96 tokens differ, first r0:7", criterion_id="c" * 64, criterion_metric="bitwise")  # fmt: skip
    sequence(store, name, "r0", [0, 3, 0, 0, 0, 0, 0, 1])
    sequence(store, name, "r1", [1, 0, 0, 0, 0, 0, 0, 0], first_position=2, max_position=2)
    sequence(store, name, "r2", [0] * 8)
    for version, valid, differ, mae in (("10", 56, 4, 0.0021), ("9", 40, 1, 0.00006)):
        insert(store, "comparison_versions", comparison_id=name, policy=version, valid_tokens=valid, mismatched_tokens=differ,
               logprob_mae=mae)  # fmt: skip
    token(store, name, "r0", 7, -1.5, -1.4375)
    token(store, name, "r0", 9, -0.3, -0.3625, why="largest")
    token(store, name, "r1", 2, -2.0, -2.0000002, why="first, largest")
    comparison(store, 14, label="INVALID", reason="masks differ", rule=2, is_evidence=False, admissibility="locked",
               admissibility_reason="after the fault", not_evidence_because="locked: after the fault", logprob_mae=None,
               logprob_max=None, noise_ratio=None, valid_tokens=None, mismatched_tokens=None, differs=["mask of r3"])  # fmt: skip
    name = comparison(store, 15, kind="trace", probes=40, probes_differing=3, reason="first difference at layer2.attn.out",
                      rule=None, is_evidence=False, not_evidence_because="a trace is a diagnosis", valid_tokens=None,
                      mismatched_tokens=None, logprob_mae=None, logprob_max=None, noise_ratio=None, control_group=None)  # fmt: skip
    states = {20: "differs", 21: "differs", 22: "downstream", 23: "missing"}
    for order in range(24):
        probe(store, name, order, states.get(order, "equal"))
    insert(store, "trace_first_divergence", comparison_id=name, run_id=RUN, attempt=1, step=15, request="r0", probes=40,
           probes_differing=3, admissibility="admissible", input_state="equal", mismatched=12, max_abs=0.03125, label="",
           boundary="layer20.attn.out", slice="tokens=0:32", execution_order=20, operator="its input is equal: it is this operator",
           last_equal_boundary="layer19.attn.out", last_equal_slice="tokens=0:32")  # fmt: skip
    insert(store, "control_groups", run_id=RUN, attempt=1, step=11, inference_alone="equal", training_alone="not run",
           cross_stack="differs", score_layer="inconclusive", rules_out="inference",
           look_at="the sides are not told apart: run training alone", comparisons=3)  # fmt: skip
    for number, (state, why, done) in enumerate(
        (("running", "", 43), ("waiting", "", None), ("waiting", "", None), ("failed", "trainer.pt is cut short", None))
    ):
        insert(store, "comparison_queue", rec_id=number, run_id=RUN, step=16 + number, how="manifest", state=state, why=why,
               side_a=f"/results/step{16 + number}/rollout.pt", side_b=f"/results/step{16 + number}/trainer.pt",
               tokens_done=done, tokens_total=None if done is None else 100, host="node1", task=f"t{number}", observed_at=NOW)  # fmt: skip
    for side, state in (("rollout", "verified"), ("trainer", "changed")):
        insert(store, "artifacts", run_id=RUN, state=state, path=f"/results/step11/{side}.pt", host="node1", bytes_size=4096,
               why="" if state == "verified" else "it is another file since", sha256=f"{11 if side == 'rollout' else 9:064x}",
               expected_sha256=f"{11 if side == 'rollout' else 511:064x}", manifest="/results/step11/manifest.json",
               modified_at=NOW, observed_at=NOW)  # fmt: skip


def probe(store: FakeStore, name: str, order: int, state: str, *, request: str = "r0") -> None:
    """A probe of a trace; those that differ are measured."""
    measured = {"elements": 4096, "mismatched": 12, "first_index": [0, 7], "finite": 1.0, "max_abs": 0.03125,
                "mean_abs": 0.001, "relative_l2": 0.002, "cosine": 0.9999}  # fmt: skip
    insert(
        store, "trace_boundaries", comparison_id=name, execution_order=order, request=request, state=state,
        boundary=f"layer{order}.attn.out", slice="tokens=0:32", dtype="bfloat16", shape=[32, 128], discrete=order == 21,
        operator="its input is equal: it is this operator" if order == 20 else "", sha256_a=f"{order:064x}",
        sha256_b=f"{order + (state == 'differs'):064x}", input_state="equal" if order == 20 else "unknown",
        **(measured if state == "differs" else {}),
    )  # fmt: skip
