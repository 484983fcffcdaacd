"""The board of control groups against the rule of evidence/controls.py, and that rule against a table made by hand."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from tic_daemon.evidence.controls import DIFFERS, EQUAL, INCONCLUSIVE, NOT_RUN, Board, board
from tic_daemon.store import sqltext

# By hand from the rules of fault localization: whichever two are equal rule out that side; training that differs from
# itself while inference is stable: its layout first; both stable and the stacks apart: weights, arithmetic, scoring path.
TABLE = [
    # inference, training, cross, score, what is ruled out, where to look
    (EQUAL, EQUAL, DIFFERS, NOT_RUN, "inference, training", "weights, arithmetic semantics and the scoring path"),
    (EQUAL, DIFFERS, DIFFERS, NOT_RUN, "inference", "the training side: its layout and packing"),
    (DIFFERS, EQUAL, DIFFERS, NOT_RUN, "training", "the inference side"),
    (DIFFERS, DIFFERS, DIFFERS, EQUAL, "score layer", "each side by itself: make each repeatable first"),
    (
        EQUAL,
        EQUAL,
        DIFFERS,
        DIFFERS,
        "inference, training",
        "the score layer: dtype, temperature, logsumexp, vocabulary shards",
    ),
    (EQUAL, EQUAL, EQUAL, EQUAL, "inference, training, score layer", "nothing: both stacks agree on these tokens"),
    (NOT_RUN, NOT_RUN, EQUAL, NOT_RUN, "", "nothing: both stacks agree on these tokens"),
    (NOT_RUN, NOT_RUN, DIFFERS, NOT_RUN, "", "the sides are not told apart: run inference alone and training alone"),
    (EQUAL, INCONCLUSIVE, DIFFERS, NOT_RUN, "inference", "the sides are not told apart: run training alone"),
    (EQUAL, EQUAL, NOT_RUN, NOT_RUN, "inference, training", "the stacks are not compared"),
    (DIFFERS, NOT_RUN, EQUAL, NOT_RUN, "", "the inference side"),
    (INCONCLUSIVE, INCONCLUSIVE, INCONCLUSIVE, INCONCLUSIVE, "", "the stacks are not compared"),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_rule_is_the_table(row: tuple[str, str, str, str, str, str]) -> None:
    assert board(*row[:4]) == Board(row[4], row[5])


def test_the_view_is_the_rule_in_all_cases() -> None:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE comparisons (run_id VARCHAR, attempt BIGINT, step BIGINT, control_group VARCHAR, kind VARCHAR, admissibility VARCHAR,"
        " marked BOOLEAN, label VARCHAR, changed VARCHAR, planted_error VARCHAR, mismatched_tokens BIGINT, logprob_max DOUBLE, rule BIGINT)"
    )
    groups = ("inference_alone", "training_alone", "cross_stack", "score_layer")
    made = {
        EQUAL: "'tokens', 'admissible', false, NULL, '', NULL, 0, 0.0, 9", DIFFERS: "'tokens', 'admissible', false, NULL, '', NULL, 3, 0.5, 9",
        INCONCLUSIVE: "'tokens', 'locked', false, NULL, '', NULL, 3, 0.5, 9",
    }  # fmt: skip
    trace = "'trace', 'admissible', false, NULL, '', NULL, NULL, NULL, NULL"  # it changes nothing in any group
    cases = [case for case in product((EQUAL, DIFFERS, INCONCLUSIVE, NOT_RUN), repeat=4) if set(case) != {NOT_RUN}]
    values = [
        f"('r', 1, {number}, '{group}', {made[state]})"
        for number, case in enumerate(cases)
        for group, state in zip(groups, case, strict=True)
        if state != NOT_RUN
    ]
    values += [f"('r', 1, {number}, '{groups[number % 4]}', {trace})" for number in range(len(cases))]
    con.execute(f"INSERT INTO comparisons VALUES {', '.join(values)}")
    found = con.execute(sqltext.filled("-- include control_groups.sql") + " ORDER BY step").fetchall()
    assert len(found) == len(cases) == 255
    for case, row in zip(cases, found, strict=True):
        expected = board(*case)
        assert row[3:9] == (*case, expected.rules_out, expected.look_at), case


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, EQUAL), ({"mismatched_tokens": 1}, DIFFERS), ({"mismatched_tokens": None, "logprob_max": 0.0}, EQUAL),
        ({"mismatched_tokens": None, "logprob_max": 1e-9}, DIFFERS), ({"mismatched_tokens": None, "logprob_max": None}, DIFFERS),
        ({"admissibility": "suspect"}, INCONCLUSIVE), ({"marked": True}, INCONCLUSIVE), ({"label": "INVALID"}, INCONCLUSIVE),
        ({"label": "VACUOUS"}, INCONCLUSIVE), ({"label": "FAIL", "mismatched_tokens": 2}, DIFFERS), ({"changed": "file A"}, INCONCLUSIVE),
        ({"planted_error": "a bit"}, INCONCLUSIVE), ({"kind": "trace"}, NOT_RUN),
    ],
)  # fmt: skip
def test_what_one_comparison_says(changes: dict[str, object], state: str) -> None:
    row: dict[str, object] = {
        "run_id": "r", "attempt": 1, "step": 0, "control_group": "cross_stack", "kind": "tokens", "admissibility": "admissible", "marked": False,
        "label": None, "changed": "", "planted_error": None, "mismatched_tokens": 0, "logprob_max": 0.0, "rule": 9, **changes,
    }  # fmt: skip
    kinds = {
        "attempt": "BIGINT",
        "step": "BIGINT",
        "marked": "BOOLEAN",
        "mismatched_tokens": "BIGINT",
        "logprob_max": "DOUBLE",
        "rule": "BIGINT",
    }
    con = duckdb.connect()
    columns = ", ".join(f"{name} {kinds.get(name, 'VARCHAR')}" for name in row)
    con.execute(f"CREATE TABLE comparisons ({columns})")
    con.execute(f"INSERT INTO comparisons VALUES ({', '.join('?' for _ in row)})", list(row.values()))
    found = con.execute(sqltext.filled("-- include control_groups.sql")).fetchall()
    assert (found[0][5] if found else NOT_RUN) == state
