"""Pairs of arms through the real daemon: each of the nine rules met, unmet and unknown, by runs that differ in one thing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pytest

from tests.e2e.harness import here, tic
from tests.evidence.worldstore import WorldStore
from tests.sources.test_smi import CLUSTER, gpu, text
from tests.store.samples import NOON
from tic_daemon.store import united

CRITERION = "c" * 64
RULES = (
    "one_image", "one_seed", "small_workload", "frozen_criterion", "repeats", "same_fabric", "same_nodes",
    "no_late_compilation", "metrics_by_key",
)  # fmt: skip
JIT = (
    "(Worker_TP0 pid=4521) WARNING 11-29 12:00:02 [jit_monitor.py:141] Triton kernel JIT compilation during inference: {what}."
    " This causes a latency spike"
)


@dataclass(frozen=True)
class Run:
    """One run: what its log, its configuration and its sidecar say."""

    minute: int
    bi: bool
    throughput: tuple[float, float]
    acc: tuple[float, float] = (0.5, 0.5)
    tokens: int = 1000
    errors: int = 0
    via: str = "P2P/CUMEM/read"
    seed: int = 7
    lr: float = 1e-6
    meta: Mapping[str, str] = field(
        default_factory=lambda: {"image_digest": "sha256:aa", "criterion_sha256": CRITERION}
    )
    env: str = ""
    early: bool = True
    late: bool = False
    extra: str = ""
    host: str = ""
    clique: str = ""
    console: bool = False

    def write(self, folder: Path) -> None:
        (folder / ".hydra").mkdir(parents=True)
        (folder / ".hydra" / "config.yaml").write_text(
            f"rollout: {{batch_invariant: {str(self.bi).lower()}}}\noptim: {{lr: {self.lr}}}\nseed: {self.seed}\n"
            f"trainer: {{experiment_name: {folder.name}, note: run {folder.name}}}\n"
        )
        (folder / ".meta.json").write_text(json.dumps(self.meta))
        if self.clique:
            uuid = f"GPU-aaaaaaaa-0000-0000-0000-{int.from_bytes(folder.name[-2:].encode()):012d}"
            (folder / "nvidia-smi.txt").write_text(text(gpu("00000000:01:00.0", uuid, clique=self.clique)))
        if self.env:
            (folder / "arm.env").write_text(self.env)
        nccl = "gpu-a01:100:7 [0] NCCL INFO "
        lines = [
            f"{nccl}ncclCommInitRankConfig comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 5d000 commId 0x1 - Init START",
            f"{nccl}comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
        ]
        lines += [f"{nccl}Channel 00/0 : 0[0] -> 1[1] via {self.via}"] if self.via else []
        lines += [JIT.format(what="early")] if self.early else []
        lines += ["[bench] begin decode"]
        for step in (1, 2):
            lines.append(
                f"step:{step} - perf/tok_s:{self.throughput[step - 1]} - val/acc:{self.acc[step - 1]}"
                f" - bench/tokens:{self.tokens} - bench/errors:{self.errors}{self.extra}"
            )
        lines += [JIT.format(what="late")] if self.late else []
        (folder / "rank0.log").write_text(
            "".join(
                f"2026-11-29T12:{self.minute:02}:{second:02}.000000000Z {line}\n" for second, line in enumerate(lines)
            )
        )


A1, B1 = Run(0, False, (100, 110), (0.4, 0.6), clique="32766"), Run(10, True, (90, 94), (0.7, 0.6), clique="32766")
A2, B2 = Run(20, False, (96, 104)), Run(30, True, (80, 100), (0.1, 0.7))
RUNS = {
    "a1": A1, "b1": B1, "a2": A2, "b2": B2,
    "image": replace(B2, meta={"image_digest": "sha256:bb", "criterion_sha256": CRITERION}),
    "bare": replace(B2, meta={"criterion_sha256": CRITERION}),
    "lr": replace(B2, lr=2e-6), "same": replace(B2, bi=False), "seed": replace(B2, seed=8),
    "shm": replace(B2, via="SHM/direct/direct"), "clique": replace(B2, clique="7"), "quiet": replace(B2, via=""),
    "pin": replace(B2, env="export NCCL_P2P_DISABLE=1\n"),
    "node": replace(B2, host="gpu-b02"), "early": replace(B2, minute=20), "late": replace(B2, late=True),
    "nojit": replace(B2, early=False), "counted": replace(B2, early=False, extra=" - perf/tl_after_bench:0"),
    "recompiled": replace(B2, extra=" - perf/tl_after_bench:3"),
    "other": replace(B2, meta={"image_digest": "sha256:aa", "criterion_sha256": "d" * 64}),
    "nocrit": replace(B2, meta={"image_digest": "sha256:aa"}),
    "errors": replace(B2, errors=3), "console": replace(B2, console=True), "tokens": replace(B2, tokens=999),
}  # fmt: skip
GOOD = {
    "a": ["a1", "a2"], "b": ["b1", "b2"], "switch": ["batch_invariant", "kernel.batch_invariant"], "purpose": "iteration",
    "full_steps": 100, "criterion": CRITERION, "performance": ["perf/tok_s"], "quality": ["val/acc"], "tokens": "bench/tokens",
    "errors": "bench/errors", "baseline": "bl-7", "excluded": ["a0: NCCL timeout in the warm-up"],
}  # fmt: skip
# What is declared otherwise, and the rules that are not met for it.
PAIRS: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "good": ({}, {}),
    "image": ({"b": ["b1", "image"]}, {"one_image": "unmet"}),
    "bare": ({"b": ["b1", "bare"]}, {"one_image": "unknown"}),
    "lr": ({"b": ["b1", "lr"]}, {"one_image": "unmet"}),
    "no switch": ({"b": ["same", "same"]}, {"one_image": "unknown", "repeats": "unmet"}),
    "undeclared": ({"switch": []}, {"one_image": "unmet"}),
    "seed": ({"b": ["b1", "seed"]}, {"one_seed": "unmet"}),
    "seeds": ({"b": ["b1", "seed"], "seeds": "variance, asked for by mkl"}, {}),
    "default": ({"full_steps": 2}, {"small_workload": "unmet"}),
    "larger": ({"full_steps": 3}, {}),
    "purpose": ({"purpose": ""}, {"small_workload": "unknown"}),
    "unsaid": ({"full_steps": None}, {"small_workload": "unknown"}),
    "acceptance": ({"purpose": "acceptance", "full_steps": None}, {}),
    "no criterion": ({"criterion": ""}, {"frozen_criterion": "unknown"}),
    "other criterion": ({"b": ["b1", "other"]}, {"frozen_criterion": "unmet"}),
    "criterion unsaid": ({"b": ["b1", "nocrit"]}, {"frozen_criterion": "unknown"}),
    "never planted": ({"criterion": "d" * 64, "a": ["other", "other"], "b": ["other", "other"]}, {
        "frozen_criterion": "unknown", "one_image": "unknown", "repeats": "unmet", "same_nodes": "unmet"}),
    "single": ({"a": ["a1"], "b": ["b1"]}, {"repeats": "unmet"}),
    "shm": ({"b": ["b1", "shm"]}, {"same_fabric": "unmet"}),
    "clique": ({"b": ["b1", "clique"]}, {"same_fabric": "unmet"}),
    "quiet": ({"b": ["b1", "quiet"]}, {"same_fabric": "unknown"}),
    "pin": ({"b": ["b1", "pin"]}, {"same_fabric": "unmet", "one_image": "unmet"}),
    "node": ({"b": ["b1", "node"]}, {"same_nodes": "unmet"}),
    "at once": ({"b": ["b1", "early"]}, {"same_nodes": "unmet"}),
    "alone": ({"b": ["b1"]}, {"same_nodes": "unknown", "repeats": "unmet"}),
    "late": ({"b": ["b1", "late"]}, {"no_late_compilation": "unmet"}),
    "nojit": ({"b": ["b1", "nojit"]}, {"no_late_compilation": "unknown"}),
    "counted": ({"b": ["b1", "counted"]}, {}),
    "recompiled": ({"b": ["b1", "recompiled"]}, {"no_late_compilation": "unmet"}),
    "no key": ({"quality": ["val/other"]}, {"metrics_by_key": "unknown"}),
    "no keys": ({"quality": [], "performance": [], "tokens": "", "errors": ""}, {"metrics_by_key": "unknown"}),
    "console": ({"b": ["b1", "console"]}, {"metrics_by_key": "unmet", "same_nodes": "unknown"}),
    "errors": ({"b": ["b1", "errors"]}, {}),
    "tokens": ({"b": ["b1", "tokens"]}, {}),
    "nobody": ({"a": ["a1", "missing"]}, {
        "one_image": "unknown", "one_seed": "unknown", "small_workload": "unknown", "frozen_criterion": "unknown",
        "repeats": "unknown", "same_fabric": "unknown", "same_nodes": "unknown", "no_late_compilation": "unknown",
        "metrics_by_key": "unknown"}),
}  # fmt: skip


def toml(name: str, said: Mapping[str, object]) -> str:
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in {"name": name, **said}.items() if value not in (None, "", [])
    ]
    return "[[pair]]\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pairs") / "job"
    config = ""
    for name, run in RUNS.items():
        run.write(root / name)
        config += f'[[run]]\nname = "{name}"\npath = "{name}/**"\n[[source]]\npath = "{name}/*.log"\nrole = "trainer"\n'
        config += f'host = "{run.host}"\n' if run.host else ""
        config += "console = true\n" if run.console else ""
    config += "".join(toml(name, {**GOOD, **said}) for name, (said, _) in PAIRS.items())
    (root / "tic.toml").write_text(config)
    (root / "manifest.json").write_text(
        json.dumps({"artifacts": {"x.pt": "0" * 64}, "pair": {**GOOD, "name": "from a manifest"}})
    )
    for arm, right in (("a", (1, 0, 1)), ("b", (1, 1, 0))):
        lines = [json.dumps({"problem_id": f"p{n}", "score": score}) for n, score in enumerate(right)]
        (root / f"scores_{arm}.jsonl").write_text("\n".join(lines) + "\n")
    with (root / "tic.toml").open("a") as file:
        scored = {"scores_a": ["scores_a.jsonl", "../x"], "scores_b": ["scores_b.jsonl", "../y"]}
        file.write(toml("scored", {**GOOD, **scored}))
    here("watch", "--once", root)
    (store,) = root.glob(".tic/*/tic.duckdb")
    with duckdb.connect(str(store)) as con:  # what a comparison with a planted error leaves
        con.execute(
            "INSERT INTO comparison (rec_id, host, task, id, kind, label, rule, plant, criterion, observed_at)"
            f" VALUES (999999, 'h', 't', 'i', 'tokens', 'FAIL', 11, 'one token shifted', '{CRITERION}', now()::TIMESTAMP),"
            f" (999998, 'h', 'u', 'j', 'tokens', 'PASS', 11, 'one token shifted', '{'d' * 64}', now()::TIMESTAMP)"
        )
    return root


@pytest.fixture(scope="module")
def con(job: Path) -> duckdb.DuckDBPyConnection:
    (store,) = job.glob(".tic/*/tic.duckdb")
    return duckdb.connect(str(store), read_only=True)


@pytest.fixture(scope="module")
def rules(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, tuple[str, str, str, str]]]:
    found: dict[str, dict[str, tuple[str, str, str, str]]] = {}
    for pair, rule, *told in con.execute(
        "SELECT pair, rule, state, value_a, value_b, why FROM pair_rules ORDER BY number"
    ).fetchall():
        found.setdefault(pair, {})[rule] = tuple(told)
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_each_rule_by_one_difference(rules: dict[str, dict[str, tuple[str, str, str, str]]], name: str) -> None:
    told = rules[name]
    assert tuple(told) == RULES
    assert {rule: state for rule, (state, *_) in told.items() if state != "met"} == PAIRS[name][1], told
    for rule, (state, one, other, why) in told.items():
        assert one and other, f"{rule}: the two values that were compared"
        assert state == "met" or why, f"{rule} is {state} and does not say why"


def test_the_values_compared_are_named(rules: dict[str, dict[str, tuple[str, str, str, str]]]) -> None:
    good = rules["good"]
    assert good["one_image"][1:3] == (
        "image sha256:aa; rollout.batch_invariant false", "image sha256:aa; rollout.batch_invariant true"
    )  # fmt: skip
    assert good["one_seed"][1:3] == ("7", "7")
    assert good["same_fabric"][1] == f"2 ranks: P2P/CUMEM/read (1 node); fabric {CLUSTER} clique 32766"
    assert rules["clique"]["same_fabric"][2].endswith(f"fabric {CLUSTER} clique 32766 | {CLUSTER} clique 7")
    assert rules["clique"]["same_fabric"][3] == "the NVLink fabrics differ"
    assert (
        rules["shm"]["same_fabric"][2]
        == f"2 ranks: P2P/CUMEM/read, SHM/direct/direct (1 node); fabric {CLUSTER} clique 32766"
    )
    assert good["no_late_compilation"][1] == "a1: 0 after the mark, 1 before; a2: 0 after the mark, 1 before"
    assert rules["late"]["no_late_compilation"][3] == "late compiled after the mark: Triton late"
    assert rules["lr"]["one_image"][3] == "differs besides the switch: optim.lr"
    assert rules["image"]["one_image"][3] == "the images differ"
    assert good["repeats"][1:3] == ("2 runs", "2 runs")
    assert good["metrics_by_key"][1] == "bench/errors (file), bench/tokens (file), perf/tok_s (file), val/acc (file)"


def test_a_pair_is_comparable_only_if_all_nine_are_met(con: duckdb.DuckDBPyConnection) -> None:
    found = dict(con.execute("SELECT pair, state FROM pairs").fetchall())
    for name, (_, missed) in PAIRS.items():
        assert found[name] == ("pending re-check" if missed else "comparable"), name
    assert found["from a manifest"] == "comparable"
    one = con.execute(
        "SELECT baseline, excluded, runs_a, runs_b, confounders, reason FROM pairs WHERE pair = 'good'"
    ).fetchall()
    assert one == [("bl-7", ["a0: NCCL timeout in the warm-up"], ["a1", "a2"], ["b1", "b2"], [], "")]
    named = con.execute("SELECT pair, confounders FROM pairs WHERE pair IN ('seed', 'node') ORDER BY pair").fetchall()
    ((here,),) = con.execute("SELECT DISTINCT host FROM sources WHERE run_id = 'a1'").fetchall()
    assert named == [
        ("node", [f"hardware.nodes: {here} and " + " | ".join(sorted([here, "gpu-b02"]))]),
        ("seed", ["workload.seed: 7 and 7 | 8"]),
    ]
    ((reason,),) = con.execute("SELECT reason FROM pairs WHERE pair = 'late'").fetchall()
    assert reason == "nothing compiled after the benchmark began (late compiled after the mark: Triton late)"


def test_medians_with_the_single_pairs(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT position, run_a, run_b, value_a, value_b, difference, median_a, median_b, median_difference, median_ratio, state"
        " FROM pair_values WHERE pair = 'good' AND cell = 'performance' ORDER BY position"
    ).fetchall()
    # Of each run the median of its two steps: 105, 100 and 92, 90.
    ratio = statistics.median([92 / 105, 90 / 100])
    assert [row[:6] for row in rows] == [(1, "a1", "b1", 105, 92, -13), (2, "a2", "b2", 100, 90, -10)]
    assert all(row[6:] == (102.5, 91, -11.5, pytest.approx(ratio), "measured") for row in rows)
    quality = con.execute(
        "SELECT value_a, value_b, median_difference FROM pair_values WHERE pair = 'good' AND cell = 'quality' ORDER BY position"
    ).fetchall()
    assert quality == [(0.6, 0.6, pytest.approx(0.1)), (0.5, 0.7, pytest.approx(0.1))], "the last step's"
    tokens = con.execute(
        "SELECT value_a, value_b FROM pair_values WHERE pair = 'tokens' AND cell = 'tokens' ORDER BY position"
    )
    assert tokens.fetchall() == [(2000, 2000), (2000, 1998)]


def test_effective_tokens_and_errors_come_before_performance(con: duckdb.DuckDBPyConnection) -> None:
    found = {
        (pair, cell): (state, reason)
        for pair, cell, state, reason in con.execute(
            "SELECT DISTINCT pair, cell, state, reason FROM pair_values WHERE cell IN ('performance', 'quality')"
        ).fetchall()
    }
    assert found["errors", "performance"] == ("pending re-check", "requests failed")
    assert found["errors", "quality"] == ("measured", ""), "a cell of its own"
    assert found["tokens", "performance"] == ("pending re-check", "the effective tokens differ")
    assert found["good", "performance"] == ("measured", "")
    assert found["late", "performance"] == ("pending re-check", "nothing compiled after the benchmark began")
    assert found["no key", "quality"][0] == "not run"
    assert found["nobody", "performance"][1].startswith(
        "the effective tokens are not known; the number of errors is not known; a number"
    )


def test_the_command_pairs_problems(job: Path) -> None:
    told = tic("pairs", "scored", "--at", job)
    assert "pair scored: comparable" in told.stdout and "excluded a0: NCCL timeout in the warm-up" in told.stdout
    # p0 right on both, p2 on A alone, p1 on B alone: no mean tells that.
    assert "right on both 1, on A alone 1, on B alone 1, on none 0" in told.stdout
    assert "../x leads out of" in told.stdout
    asked = tic("pairs", "late", "--at", job, "--json", check=False)
    assert asked.returncode == 12 and json.loads(asked.stdout)[0]["state"] == "pending re-check"
    assert tic("pairs", "nothing", "--at", job, check=False).returncode == 15


def test_several_stores_say_what_one_would(con: duckdb.DuckDBPyConnection) -> None:
    """Two stores read the same logs; then the facts of one run are lost."""
    plan = united.plan_for(["pairs", "pair_values"])
    here = duckdb.connect()
    for part, reading in plan.read.items():
        table = con.execute(f"SELECT *, 'x' AS part_store FROM ({reading.sql})").to_arrow_table()
        here.register("arriving", table)
        here.execute(f"CREATE TABLE part_{part} AS SELECT * FROM arriving")
        here.execute(f"INSERT INTO part_{part} SELECT * REPLACE ('y' AS part_store) FROM part_{part}")
        here.unregister("arriving")
    for name, sql in plan.make:
        here.execute(f'CREATE TEMP VIEW "{name}" AS {sql}')
    single = "SELECT pair, rule, state, why FROM pair_rules ORDER BY ALL"
    assert here.execute(single).fetchall() == con.execute(single).fetchall()
    values = "SELECT * EXCLUDE (values_a, values_b) FROM pair_values ORDER BY ALL"
    assert here.execute(values).fetchall() == con.execute(values).fetchall()
    here.execute("DELETE FROM part_arm_facts WHERE run_id = 'a2'")
    states = dict(here.execute("SELECT rule, state FROM pair_rules WHERE pair = 'good'").fetchall())
    assert {rule for rule, state in states.items() if state != "met"} == {
        "one_image", "small_workload", "same_fabric", "same_nodes", "no_late_compilation", "metrics_by_key",
    }  # fmt: skip
    assert set(states.values()) == {"met", "unknown"}


def test_a_declaration_of_any_form_breaks_no_view() -> None:
    forms = ["[broken", '[1, {"a": [2]}, null]', "{}", "5", "", "null", '"text"', "[]", "x" * 30_000, "\x1b[31m'\"--"]
    items = (
        "a",
        "b",
        "excluded",
        "switch",
        "purpose",
        "full_steps",
        "criterion",
        "seeds",
        "performance",
        "tokens",
        "scores_a",
    )
    store = WorldStore()
    store.put("config_value", [
        {"rec_id": number, "host": "h", "root": "/w", "path": f"/w/{form}/manifest.json", "run_hint": "", "kind": "manifest",
         "side": "launcher", "digest": "d", "gone": False, "key": f"pair.{item}", "name": f"pair.{item}",
         "value": f"p{form}" if item == "name" else forms[form], "secret": False, "problem": "", "observed_at": NOON}
        for form in range(len(forms)) for number, item in enumerate(("name", *items))
    ])  # fmt: skip
    states = store.con.execute("SELECT pair, state FROM pairs ORDER BY pair").fetchall()
    assert states == [(f"p{form}", "pending re-check") for form in range(len(forms))]
    assert store.con.execute("SELECT count(*) FROM pair_rules WHERE state = 'met'").fetchall() == [(0,)]
    store.con.execute("SELECT * FROM pair_values").fetchall()
