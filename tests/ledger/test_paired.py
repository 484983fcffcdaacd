"""Performance and quality from pairs of arms: pure rules, and a workspace with runs, a baseline and a planted slow-down."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.ledger.made import sha
from tests.ledger.test_story import Job
from tests.record.test_pairs import Run, toml
from tic_daemon.evidence.judge import Bound
from tic_daemon.evidence.labels import Label
from tic_daemon.ledger import criterion
from tic_daemon.ledger.paired import Measured, verdict
from tic_daemon.store import paired

RATIO = Bound("pair_ratio", at_least=0.85)
GOOD = Measured("measured", "", 0.9, -5.0, (0.9, 0.9), (-5.0, -5.0), "", older=True, proved=True)
FAST = 'metric = "pair_ratio"\nat_least = 0.85\nkey = "perf/tok_s"\ngate = "acceptance"\ncell = "performance"\n'
AS_GOOD = 'metric = "pair_difference"\nat_least = -0.5\nkey = "val/acc"\ngate = "acceptance"\ncell = "quality"\n'
SHA = hashlib.sha256(FAST.encode()).hexdigest()


def test_what_must_be_shown_comes_before_the_bound() -> None:
    assert verdict(RATIO, GOOD) == (Label.PASS, "median ratio 0.9 of pairs 0.9, 0.9; criterion at least 0.85")
    assert verdict(RATIO, replace(GOOD, ratio=0.8))[0] is Label.FAIL
    assert verdict(Bound("pair_difference", at_most=-6.0), GOOD)[0] is Label.FAIL
    for changes, why in (
        ({"ratio": None}, "no pair has both numbers"),
        ({"state": "pending re-check", "reason": "same fabric"}, "pending re-check: same fabric"),
        ({"baseline": "baseline b is pending review"}, "pending re-check: baseline b is pending review"),
        ({"older": False}, "nothing shows the criterion to be older than the first number"),
        ({"proved": False}, "pending re-check: no planted error was judged FAIL by it"),
    ):  # fmt: skip
        for ratio in (GOOD.ratio, 0.1):
            found = verdict(RATIO, replace(GOOD, **{"ratio": ratio, **changes}))
            assert found == (None, why), "neither passes nor fails"
    assert verdict(RATIO, replace(GOOD, proved=False, plant="sleep"))[0] is Label.PASS, "it is to give the proof"


@pytest.mark.parametrize(
    "text",
    [
        FAST.replace('key = "perf/tok_s"\n', ""),
        FAST.replace("performance", "clean_exit"),
        FAST.replace('gate = "acceptance"\n', ""),
        FAST + 'goal = "cross_stack"\n',
        FAST + "at_most = 1.0\n",
        FAST.replace("pair_ratio", "logprob_mae").replace("at_least", "at_most"),
        'metric = "bitwise"\nkey = "x"\n',
    ],
)
def test_a_criterion_of_a_pair_names_its_key_and_its_cell(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        criterion.parse(text.encode())


BASE, OWN = sha("base"), sha("own")
FROZEN = datetime(2026, 11, 30, 12, 0, 0)
"""Two runs an arm: a1 and a2 are of the reviewed baseline, b1 and b2 of the candidate, s1 and s2 are slowed down."""
SHOWN = f"""
CREATE TABLE i_lock_setting AS SELECT 2000000 AS margin_us;
CREATE TABLE criteria AS SELECT 'c' AS criterion_id, 'performance' AS cell, 'k' AS key, 'pair_ratio' AS metric, NULL::DOUBLE AS at_most,
    0.85::DOUBLE AS at_least, TIMESTAMP '{FROZEN}' AS frozen_at, 'in force' AS state;
CREATE TABLE pair_declarations AS SELECT * FROM (VALUES ('bi', ['a1', 'a2'], ['b1', 'b2'], 'bl', ''), ('slowed', ['a1', 'a2'], ['s1', 's2'], 'bl', 'a sleep'))
    v(pair, a, b, baseline, plant);
CREATE TABLE pair_values AS SELECT v.*, 'performance' AS cell, 'k' AS key, 'measured' AS state, '' AS reason, -1.0 AS median_difference,
    median_ratio AS ratio, -1.0 AS difference, unnest([1, 2]) AS position FROM (VALUES ('bi', 0.9), ('slowed', 0.5)) v(pair, median_ratio);
CREATE TABLE arm_facts AS SELECT unnest(['a1', 'a2', 'b1', 'b2', 's1', 's2']) AS run_id, 'metric' AS fact, TIMESTAMP '{FROZEN}' + INTERVAL 3 SECOND AS until_at;
CREATE TABLE ledger_row AS SELECT 'candidate' AS kind, *, '' AS label, '' AS criterion
    FROM (VALUES ('a1', '{BASE}', 1), ('a2', '{BASE}', 2), ('b1', '{OWN}', 3), ('b2', '{OWN}', 4)) v(run_id, candidate, seq);
CREATE TABLE baselines AS SELECT 'bl' AS name, '{BASE}' AS candidate_id, 'reviewed' AS state;
"""
ORDER = "nothing shows the criterion to be older than the first number"
UNPROVED = "pending re-check: no planted error was judged FAIL by it"


@pytest.mark.parametrize(
    ("otherwise", "planted", "label", "why"),
    [
        ("", ["FAIL"], "PASS", "median ratio 0.9 of pairs 0.9, 0.9; criterion at least 0.85"),
        ("UPDATE criteria SET frozen_at = frozen_at + INTERVAL 1 HOUR", [], "", ORDER),
        ("UPDATE arm_facts SET until_at = until_at - INTERVAL 2 SECOND WHERE run_id = 'b2'", ["FAIL"], "", ORDER),
        ("INSERT INTO arm_facts VALUES ('b1', 'metric', NULL)", ["FAIL"], "", ORDER),
        ("DELETE FROM arm_facts WHERE run_id = 'b2'", ["FAIL"], "", ORDER),
        ("DELETE FROM pair_declarations WHERE plant <> ''", [], "", UNPROVED),
        ("UPDATE pair_values SET median_ratio = 0.95 WHERE pair = 'slowed'", ["PASS"], "", UNPROVED),
        ("UPDATE arm_facts SET until_at = until_at - INTERVAL 1 DAY WHERE run_id = 's1'", [], "", UNPROVED),
        (
            "DELETE FROM pair_declarations WHERE plant <> ''; INSERT INTO ledger_row VALUES ('planted', '', '', 5, 'FAIL', 'c')",
            [], "PASS", "median ratio 0.9 of pairs 0.9, 0.9; criterion at least 0.85",
        ),
        (
            "DELETE FROM pair_declarations WHERE plant <> ''; INSERT INTO ledger_row VALUES ('planted', '', '', 5, 'FAIL', 'another')",
            [], "", UNPROVED,
        ),
        ("UPDATE baselines SET state = 'pending review'", [], "", "pending re-check: baseline bl is pending review"),
        ("UPDATE baselines SET name = 'x'", [], "", "pending re-check: baseline bl is not in the ledger"),
        ("UPDATE pair_declarations SET baseline = ''", [], "", "pending re-check: the pair names no baseline"),
        (
            f"UPDATE ledger_row SET candidate = '{OWN}' WHERE run_id = 'a2'",
            [], "", "pending re-check: nothing shows that a2 is of baseline bl",
        ),
        ("UPDATE criteria SET state = 'historical'", [], None, ""),
        (f"UPDATE ledger_row SET candidate = '{BASE}' WHERE run_id = 'b2'", ["FAIL"], None, ""),
    ],
)  # fmt: skip
def test_what_the_store_must_show_of_a_pair(otherwise: str, planted: list[str], label: str | None, why: str) -> None:
    with duckdb.connect() as con:
        con.execute(SHOWN + otherwise)
        rows = paired.entries(con, "h", FROZEN)
    assert [row.label for row in rows if row.kind == "planted"] == planted
    told = [(row.candidate, row.run_id, row.cell, row.label, row.reason) for row in rows if row.kind == "evidence"]
    assert told == ([] if label is None else [(OWN, "b1", "performance", label, why)])


def arm(minute: int, *, bi: bool, speed: float, acc: float) -> Run:
    return Run(minute, bi, (speed, speed + 4), (0.1, acc), meta={"image_digest": "sha256:aa"})


RUNS = {
    "a1": arm(0, bi=False, speed=100, acc=0.6), "b1": arm(10, bi=True, speed=90, acc=0.5),
    "a2": arm(20, bi=False, speed=100, acc=0.6), "b2": arm(30, bi=True, speed=92, acc=0.7),
    "slow1": arm(40, bi=True, speed=60, acc=0.0), "slow2": arm(50, bi=True, speed=61, acc=0.05),
}  # fmt: skip
PAIR: dict[str, object] = {
    "a": ["a1", "a2"], "b": ["b1", "b2"], "switch": ["batch_invariant", "kernel.batch_invariant"], "purpose": "acceptance",
    "criterion": SHA, "performance": ["perf/tok_s"], "quality": ["val/acc"], "tokens": "bench/tokens", "errors": "bench/errors",
    "baseline": "bl-7",
}  # fmt: skip
FIELDS = '"object.model" = "tiny"\n"image.digest" = "sha256:aa"\n"rollout.lifecycle" = "sleep"\n"kernel.norm" = "{}"\n'


class Arms(Job):
    """Two arms of two runs, and an arm that somebody slowed down. All of it happens tomorrow."""

    def __init__(self, root: Path) -> None:
        self.root = root
        pairs = toml("bi", PAIR) + toml("slowed", {**PAIR, "b": ["slow1", "slow2"], "plant": "a sleep in each step"})
        sources = "".join(
            f'[[run]]\nname = "{name}"\npath = "{name}/**"\n[[source]]\npath = "{name}/*.log"\nrole = "trainer"\n'
            for name in RUNS
        )
        (root / "tic.toml").write_text(sources + pairs)
        (root / "fast.toml").write_text(FAST)
        (root / "good.toml").write_text(AS_GOOD)
        for name in ("base", "bi"):
            (root / f"{name}.toml").write_text(FIELDS.format(name))
        self.log("quiet", "job begins")
        self.watch()

    def arrive(self, *names: str) -> None:
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT12")
        for name in names:
            RUNS[name].write(self.root / name)
            log = self.root / name / "rank0.log"
            log.write_text(log.read_text().replace("2026-11-29T12", tomorrow))
        self.watch()

    def declare(self, name: str, *runs: str) -> None:
        for run in runs:
            self.spool("candidate", "declare", run, "--name", name, "--fields", str(self.root / f"{name}.toml"))

    def cells(self, name: str) -> dict[str, tuple[Any, ...]]:
        return {cell: self.cell(name, cell)[::2] for cell in ("performance", "quality")}


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arms]:
    return Arms(tmp_path_factory.mktemp("arms"))


@pytest.mark.slow
def test_a_pair_of_arms_fills_performance_and_quality(arms: Arms) -> None:
    for name in ("fast", "good"):
        arms.spool("criterion", "freeze", str(arms.root / f"{name}.toml"))
    arms.watch()
    arms.arrive("a1", "a2", "b1", "b2")
    arms.declare("base", "a1", "a2")
    arms.declare("bi", "b1", "b2")
    arms.watch()
    pending = "pending re-check: criterion frozen, error planted unknown"
    assert arms.cells("bi") == dict.fromkeys(("performance", "quality"), ("inconclusive", pending))
    assert arms.ask("SELECT baseline_state FROM pairs ORDER BY pair") == [("unknown",)] * 2
    assert arms.ask("SELECT state, value_a FROM pair_rules WHERE pair = 'bi' AND rule = 'frozen_criterion'") == [
        ("unknown", f"{SHA} in the ledger before"),
    ]  # fmt: skip

    # The slowed arm is found, once the baseline is reviewed: until then nothing is judged.
    arms.arrive("slow1", "slow2")
    arms.spool("baseline", "bl-7", "--candidate", "base", "--results", "a1 and a2")
    arms.watch()
    assert arms.ask("SELECT count(*) FROM ledger WHERE kind = 'planted'") == [(0,)]
    arms.spool("baseline", "bl-7", "--candidate", "base", "--results", "a1 and a2", "--reviewer", "mkl")
    arms.watch()
    planted = arms.ask("SELECT target, label, criterion_id FROM ledger WHERE kind = 'planted' ORDER BY reason")
    assert {row[:2] for row in planted} == {("pair:slowed", "FAIL")} and len(planted) == 2
    assert arms.cells("bi") == {
        "performance": ("pass", "median ratio 0.911765 of pairs 0.901961, 0.921569; criterion at least 0.85"),
        "quality": ("pass", "median difference 0 of pairs -0.1, 0.1; criterion at least -0.5"),
    }
    assert {
        row
        for (row,) in arms.ask(
            "SELECT state FROM gates g JOIN candidates c ON c.candidate_id = g.candidate_id WHERE c.name = 'base'"
        )
    } == {"not run"}
    assert arms.ask("SELECT baseline_state, plant FROM pairs ORDER BY pair") == [
        ("reviewed", ""),
        ("reviewed", "a sleep in each step"),
    ]
    assert dict(arms.ask("SELECT run_id, state FROM lamps WHERE lamp = 'quality'")) == {
        **dict.fromkeys(("b1", "b2"), "pass"), **dict.fromkeys(("a1", "a2", "slow1", "slow2", "quiet"), "not run"),
    }  # fmt: skip
    rows = arms.ask("SELECT count(*) FROM ledger")
    arms.watch()
    assert arms.ask("SELECT count(*) FROM ledger") == rows, "nothing is said twice"

    # A fault in the baseline's run leaves nothing of either arm.
    with (arms.root / "a2" / "rank0.log").open("a") as file:
        file.write("[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n")
    arms.watch()
    locked = ("inconclusive", "locked: a fault stands before it")
    assert arms.cells("bi") == {"performance": locked, "quality": locked}
    assert arms.ask("SELECT state FROM lamps WHERE lamp = 'quality' AND run_id = 'b1'") == [("inconclusive",)]
