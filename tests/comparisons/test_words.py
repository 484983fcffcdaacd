"""How comparisons are told in `status` and `watch --plain`."""

from __future__ import annotations

from tic_tui import comparing

WAITING = {
    "state": "waiting",
    "step": 3,
    "side_a": "/w/rollout.pt",
    "why": "its turn comes",
    "tokens_done": None,
    "tokens_total": None,
}


def test_how_many_came_out_how() -> None:
    rows = [
        {"label": "no verdict", "admissibility": "admissible", "comparisons": 3, "evidence": 2, "idle": False},
        {"label": "FAIL", "admissibility": "locked", "comparisons": 1, "evidence": 0, "idle": True},
        {"label": "FAIL", "admissibility": "admissible", "comparisons": 4, "evidence": 4, "idle": False},
    ]
    assert comparing.counts(rows) == "5 FAIL (1 not counted), 3 no verdict; 1 locked; 6 evidence"


def test_what_waits_and_how_far_it_is() -> None:
    running = {**WAITING, "state": "running", "why": "", "tokens_done": 500, "tokens_total": 2000}
    failed = {**WAITING, "state": "failed", "step": None, "why": "rollout.pt is empty"}
    assert comparing.waits(running) == "comparing step 3, rollout.pt: 500 of 2000 tokens, 25 %"
    assert comparing.waits({**running, "tokens_total": None}) == "running step 3, rollout.pt"
    assert comparing.queue([WAITING, running, failed, failed, WAITING], 2) == [
        "comparing step 3, rollout.pt: 500 of 2000 tokens, 25 %", "failed rollout.pt: rollout.pt is empty", "and 1 more", "2 wait",
    ]  # fmt: skip


def test_one_comparison_in_one_line() -> None:
    row = {
        "step": 4, "kind": "tokens", "mismatched_tokens": 2, "valid_tokens": 9, "logprob_mae": 0.00125, "label": None, "state": "inconclusive",
        "reason": "no criterion", "is_evidence": True, "not_evidence_because": "", "probes_differing": None,
    }  # fmt: skip
    assert (
        comparing.verdict(row)
        == "step 4, 2 of 9 tokens differ, logprob_mae 0.00125; inconclusive: no criterion; evidence"
    )
    trace = {
        **row,
        "kind": "trace",
        "probes_differing": 3,
        "logprob_mae": None,
        "label": "INVALID",
        "is_evidence": False,
        "not_evidence_because": "x",
    }
    assert comparing.verdict(trace) == "step 4, 3 probes differ; INVALID: no criterion; not evidence: x"
