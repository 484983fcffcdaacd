"""The ledger for a FakeStore: tables with the names and columns of the public views, and what a person would meet in them.

`test_evidence.py` holds the tables against the views themselves.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.tui import compared
from tests.tui.compared import RUN, insert

if TYPE_CHECKING:
    from tests.tui.fake import FakeStore

SCHEMA = """
CREATE TABLE candidates (candidate_id VARCHAR, name VARCHAR, parent_id VARCHAR, run_ids VARCHAR[], unknown
  VARCHAR[], screening BOOLEAN, changed VARCHAR[], unshown VARCHAR[], regressions VARCHAR[], stale VARCHAR[][], fields
  MAP(VARCHAR, VARCHAR), policy_content_id VARCHAR, manifest_sha256 VARCHAR, receipt_sha256 VARCHAR, who VARCHAR, host
  VARCHAR, said_at TIMESTAMP, id VARCHAR);
CREATE TABLE gates (candidate_id VARCHAR, gate_no INTEGER, gate VARCHAR, cell VARCHAR, state VARCHAR, stale BOOLEAN,
  cause VARCHAR, gate_state VARCHAR, pieces BIGINT, evidence_id VARCHAR, carried_from VARCHAR, position INTEGER);
CREATE TABLE evidence_current (id VARCHAR, rec_id BIGINT, candidate_id VARCHAR, gate VARCHAR, cell VARCHAR, run_id
  VARCHAR, attempt BIGINT, step BIGINT, policy VARCHAR, workload VARCHAR, criterion_id VARCHAR, goal VARCHAR, label
  VARCHAR, state VARCHAR, reason VARCHAR, plane VARCHAR, comparison_id VARCHAR, valid_tokens BIGINT, mismatched_tokens
  BIGINT, independent_sequences BIGINT, comparator BIGINT, manifest_sha256 VARCHAR, policy_content_id VARCHAR,
  receipt_sha256 VARCHAR, artifacts VARCHAR, said_at TIMESTAMP, observed_at TIMESTAMP);
CREATE TABLE ledger (rec_id BIGINT, seq BIGINT, id VARCHAR, kind VARCHAR, candidate_id VARCHAR, run_id VARCHAR,
  attempt INTEGER, step BIGINT, gate VARCHAR, cell VARCHAR, policy VARCHAR, workload VARCHAR, criterion_id VARCHAR,
  label VARCHAR, reason VARCHAR, plane VARCHAR, target VARCHAR, manifest_sha256 VARCHAR, policy_content_id VARCHAR,
  receipt_sha256 VARCHAR, artifacts VARCHAR, body VARCHAR, who VARCHAR, host VARCHAR, said_at TIMESTAMP, prev_hash
  VARCHAR, row_hash VARCHAR, store_id VARCHAR, observed_at TIMESTAMP);
CREATE TABLE criteria (criterion_id VARCHAR, metric VARCHAR, at_most DOUBLE, at_least DOUBLE, goal VARCHAR, gate
  VARCHAR, cell VARCHAR, first_step BIGINT, last_step BIGINT, target_path VARCHAR, planted VARCHAR, key VARCHAR, path VARCHAR, text
  VARCHAR, declared_at TIMESTAMP, frozen_at TIMESTAMP, who VARCHAR, host VARCHAR, replaced_by VARCHAR, replaced_at
  TIMESTAMP, replaced_because VARCHAR, state VARCHAR, id VARCHAR);
CREATE TABLE cases (name VARCHAR, run_id VARCHAR, candidate_id VARCHAR, contract VARCHAR, counterexample VARCHAR,
  experiment VARCHAR, fix VARCHAR, regression VARCHAR, scope VARCHAR, ruled_out VARCHAR[], opened_at TIMESTAMP,
  said_at TIMESTAMP, who VARCHAR, entries BIGINT);
CREATE TABLE baselines (name VARCHAR, candidate_id VARCHAR, run_id VARCHAR, config VARCHAR, results VARCHAR,
  reviewer VARCHAR, state VARCHAR, reviewed_at TIMESTAMP, reason VARCHAR, who VARCHAR, said_at TIMESTAMP, id VARCHAR);
CREATE TABLE pairs (pair VARCHAR, baseline VARCHAR, baseline_state VARCHAR, baseline_candidate VARCHAR, plant VARCHAR,
  state VARCHAR, reason VARCHAR, met BIGINT, unmet BIGINT, unknown
  BIGINT, runs_a VARCHAR[], runs_b VARCHAR[], excluded VARCHAR[], switch VARCHAR[], confounders VARCHAR[], scores_a
  VARCHAR[], scores_b VARCHAR[], path VARCHAR, observed_at TIMESTAMP);
CREATE TABLE pair_rules (pair VARCHAR, number INTEGER, rule VARCHAR, title VARCHAR, state VARCHAR, value_a VARCHAR,
  value_b VARCHAR, why VARCHAR, confounders VARCHAR[]);
CREATE TABLE pair_values (pair VARCHAR, cell VARCHAR, key VARCHAR, position BIGINT, run_a VARCHAR, run_b VARCHAR,
  value_a DOUBLE, value_b DOUBLE, difference DOUBLE, ratio DOUBLE, values_a BIGINT, values_b BIGINT, pairs BIGINT,
  declared BIGINT, median_a DOUBLE, median_b DOUBLE, median_difference DOUBLE, median_ratio DOUBLE, state VARCHAR,
  reason VARCHAR);
CREATE TABLE lamps (store VARCHAR, run_id VARCHAR, lamp VARCHAR, state VARCHAR, stale BOOLEAN, because VARCHAR,
  attempt BIGINT);
CREATE TABLE run_records (run_id VARCHAR, attempt BIGINT, heading VARCHAR, field VARCHAR, item VARCHAR, value
  VARCHAR, launcher VARCHAR, worker VARCHAR, state VARCHAR, launcher_source VARCHAR, worker_source VARCHAR, note
  VARCHAR, needs VARCHAR, in_fingerprint BOOLEAN, closure VARCHAR, position INTEGER, same_value VARCHAR, observed_at
  TIMESTAMP);
"""
CELLS = (
    ("module", ("repeat", "forward", "gradients")), ("proxy", ("batch_invariance", "prefill_decode", "old_logprob", "actor_forward")),
    ("zero_update", ("replay",)), ("per_version", ("*",)),
    ("acceptance", ("module_gradients", "gradient_coverage", "real_rl", "quality", "performance", "clean_exit", "final_image")),
)  # fmt: skip
NOON = datetime(2026, 11, 30, 12)  # of the ledger: its hashes are the same every day
BASE, FP8 = "b" * 64, "f" * 64
BITS = "c" * 64  # a criterion
OTHER = "ppo-qwen3-8b-dapo-longer-name"
QUANTIZED = "rollout.quantization changed: quantization, scale, its dispatch, JIT or compiler"
REGRESSION = "quantization: real module input and quantized bytes, proxy, full model before the update"
TITLES = (
    "one image and one recipe", "one seed", "small workload while iterating", "criterion frozen, error planted",
    "more than one run", "same fabric", "same nodes, one after the other", "nothing compiled after the mark",
    "metrics by their full key",
)  # fmt: skip


def candidate(
    store: FakeStore, name: str, candidate_id: str, cells: dict[str, tuple[str, ...]], *, minute: int = 0,
    versions: tuple[str, ...] = (), **more: Any,
) -> None:  # fmt: skip
    """A candidate and its cells. `cells`: "gate/cell" -> (state, cause, evidence), or ("stale", cause); others not run."""
    from tests.tui.fake import NOW

    held: dict[str, Any] = {"run_ids": [], "unknown": [], "screening": False, "changed": [], "unshown": [],
                            "regressions": [], "stale": [], "who": "ada", "host": "node1"} | more  # fmt: skip
    insert(store, "candidates", candidate_id=candidate_id, name=name, id=f"row-{name}",
           said_at=NOW - timedelta(minutes=90) + timedelta(minutes=minute), **held)  # fmt: skip
    position = 0
    for number, (gate, names) in enumerate(CELLS, start=1):
        told = {}
        for cell in (versions or names) if gate == "per_version" else names:
            told[cell] = (*cells.get(f"{gate}/{cell}", ("not run", "")), "")[:3]
        states = [state for state, *_ in told.values()]
        whole = next(
            (s for s in ("fail", "inconclusive") if s in states), "pass" if set(states) == {"pass"} else "not run"
        )
        for at, (cell, (state, cause, evidence)) in enumerate(told.items()):
            stale = state == "stale"
            insert(store, "gates", candidate_id=candidate_id, gate_no=number, gate=gate, cell=cell, stale=stale, cause=cause,
                   state="not run" if stale else state, gate_state=whole, pieces=int(bool(evidence)), evidence_id=evidence or None,
                   position=position + (1 if gate == "per_version" else at + 1))  # fmt: skip
        position += len(names)


def piece(store: FakeStore, candidate_id: str, gate: str, cell: str, number: int, state: str, **more: Any) -> None:
    """A piece of current evidence; its comparison is that of the number in compared.py."""
    from tests.tui.fake import NOW

    held: dict[str, Any] = {"run_id": RUN, "attempt": 1, "step": number, "policy": f"p{number}", "workload": "ab12",
                            "criterion_id": BITS, "goal": "cross_stack", "valid_tokens": 96, "mismatched_tokens": 0,
                            "independent_sequences": 3, "said_at": NOW - timedelta(minutes=30)} | more  # fmt: skip
    insert(store, "evidence_current", id=f"ev-{number:030x}", candidate_id=candidate_id, gate=gate, cell=cell, state=state,
           comparison_id=f"{number:016x}", observed_at=NOW, **held)  # fmt: skip


def criterion(store: FakeStore, criterion_id: str, gate: str, cell: str, **more: Any) -> None:
    """A criterion that is in force."""
    from tests.tui.fake import NOW

    text = f'metric = "bitwise"\ngoal = "cross_stack"\ngate = "{gate}"\ncell = "{cell}"\n'
    insert(store, "criteria", **{
        "criterion_id": criterion_id, "metric": "bitwise", "goal": "cross_stack", "gate": gate, "cell": cell, "planted": "one bit",
        "path": "/ws/criterion.toml", "text": text, "frozen_at": NOW - timedelta(hours=2), "who": "ada", "state": "in force", **more,
    })  # fmt: skip


def row(store: FakeStore, kind: str, **said: Any) -> str:
    """The next row of the chain, hashed here as docs/reference/ledger.md says. Returns its hash."""
    place = "store_id = 's1' ORDER BY seq DESC LIMIT 1"
    with store.lock:
        before = store.db.execute(f"SELECT seq, row_hash FROM ledger WHERE {place}").fetchone() or (0, "")
    seq = before[0] + 1
    entry: dict[str, Any] = {"id": f"row{seq}", "kind": kind, "said_at": NOON + timedelta(minutes=seq),
             "who": "ada", "host": "node1", "candidate": "", "run_id": "", "attempt": None, "step": None, "gate": "", "cell": "",
             "policy": "", "workload": "", "criterion": "", "label": "", "reason": "", "plane": "", "target": "",
             "manifest_sha256": "", "policy_content_id": "", "receipt_sha256": "", "artifacts": "[]", "body": "{}"} | said  # fmt: skip
    hashed = {**entry, "said_at": entry["said_at"].isoformat(timespec="microseconds")}
    text = json.dumps(
        {"entry": hashed, "seq": seq, "prev": before[1], "store": "s1"}, sort_keys=True, separators=(",", ":")
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    entry["candidate_id"], entry["criterion_id"] = entry.pop("candidate"), entry.pop("criterion")
    insert(store, "ledger", rec_id=seq, seq=seq, prev_hash=before[1], row_hash=digest, store_id="s1",
           observed_at=entry["said_at"], **entry)  # fmt: skip
    return digest


def pair(store: FakeStore, name: str, states: str, **more: Any) -> None:
    """A pair whose nine rules are as `states` says: m met, u unmet, ? unknown."""
    from tests.tui.fake import NOW

    words = {"m": "met", "u": "unmet", "?": "unknown"}
    told = [words[letter] for letter in states]
    why = {"met": "", "unmet": "they differ", "unknown": "nothing shows it"}
    reason = "; ".join(f"{title} ({why[state]})" for title, state in zip(TITLES, told, strict=True) if state != "met")
    held: dict[str, Any] = {"baseline": "bl-7", "baseline_state": "pending review", "baseline_candidate": BASE, "runs_a": [RUN, "a2"], "runs_b": ["b1", "b2"], "excluded": [], "switch": ["VLLM_BI"],
                            "confounders": ["seed: 7 | 8"], "path": "/ws/tic.toml"} | more  # fmt: skip
    insert(store, "pairs", pair=name, state="comparable" if set(states) == {"m"} else "pending re-check", reason=reason,
           met=told.count("met"), unmet=told.count("unmet"), unknown=told.count("unknown"), observed_at=NOW, **held)  # fmt: skip
    for number, (title, state) in enumerate(zip(TITLES, told, strict=True), start=1):
        insert(store, "pair_rules", pair=name, number=number, rule=f"rule{number}", title=title, state=state,
               value_a=f"a of {number}", value_b=f"{'a' if state == 'met' else 'b'} of {number}", why=why[state])  # fmt: skip
    for cell, key, a, b in (("tokens", "bench/tokens", 2000.0, 2000.0), ("performance", "perf/tok_s", 105.0, 92.0)):
        insert(store, "pair_values", pair=name, cell=cell, key=key, position=1, run_a="a1", run_b="b1", value_a=a, value_b=b,
               difference=b - a, ratio=b / a, pairs=1, declared=1, median_a=a, median_b=b, median_difference=b - a,
               median_ratio=b / a, state="pending re-check" if reason else "measured", reason=reason)  # fmt: skip


def lamps(
    store: FakeStore, run_id: str, execution: str, consistency: str, quality: str, because: str = "it is so"
) -> None:
    """The three lamps of a run; "stale" is not run with the flag."""
    for name, state in (("execution", execution), ("consistency", consistency), ("quality", quality)):
        insert(store, "lamps", store="s1", run_id=run_id, lamp=name, stale=state == "stale", because=because, attempt=1,
               state="not run" if state == "stale" else state)  # fmt: skip


_MADE: dict[str, Any] = {}


def some(store: FakeStore) -> None:
    """A baseline whose gates pass, a quantized candidate that fails, their ledger, two pairs, a case. With compared.some."""
    from tests.tui.fake import FakeStore, Filled

    compared.some(store)
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

    passes = {f"{gate}/{cell}": ("pass", "no bit differs") for gate, names in CELLS[:3] for cell in names}
    candidate(store, "base", BASE, passes, run_ids=[OTHER], minute=1)
    stale = [[gate, cell, QUANTIZED] for gate, names in CELLS[:3] for cell in names]
    cells = {f"{gate}/{cell}": ("stale", f"stale: {why}") for gate, cell, why in stale} | {
        "zero_update/replay": ("fail", "bitwise: 5 of 96 tokens differ, first r0:7", f"ev-{11:030x}"),
        "per_version/9": ("pass", "no bit differs", f"ev-{10:030x}"),
        "per_version/10": ("inconclusive", "INVALID: masks differ", f"ev-{14:030x}"),
    }
    candidate(store, "fp8-blockwise", FP8, cells, versions=("9", "10"), run_ids=[RUN], minute=2, parent_id=BASE,
              changed=["rollout.quantization"], unshown=["gpu.architecture"], unknown=["software.nccl"],
              regressions=[REGRESSION], stale=stale)  # fmt: skip
    piece(store, FP8, "zero_update", "replay", 11, "fail", label="FAIL", reason="bitwise: 5 of 96 tokens differ, first r0:7",
          plane="numerical", mismatched_tokens=5)  # fmt: skip
    piece(store, FP8, "per_version", "9", 10, "pass", label="PASS", reason="no bit differs")
    piece(store, FP8, "per_version", "10", 14, "inconclusive", label="INVALID", reason="INVALID: masks differ")
    criterion(store, BITS, "zero_update", "replay")
    criterion(store, "d" * 64, "zero_update", "replay", state="historical", replaced_by=BITS, replaced_because="too loose (ada)",
              metric="logprob_mae", at_most=0.1, planted=None)  # fmt: skip
    row(store, "criterion", criterion="d" * 64, body='{"metric":"logprob_mae"}')
    row(store, "criterion", criterion=BITS, body='{"metric":"bitwise","text":"metric = 1\\ngate = 2"}')
    row(store, "replaced", criterion="d" * 64, target=BITS, reason="too loose")
    row(store, "candidate", candidate=BASE, run_id=OTHER, body='{"name":"base"}')
    row(store, "candidate", candidate=FP8, run_id=RUN, target=BASE, body='{"name":"fp8-blockwise"}')
    for number, label, why, criterion_id in (
        (3, "PASS", "logprob_mae 0.01", "d" * 64), (11, "FAIL", "bitwise: 5 of 96 tokens differ, first r0:7", BITS),
        (12, "FAIL", "bitwise: 9 of 96 tokens differ", BITS),
    ):  # fmt: skip
        row(store, "evidence", id=f"ev-{number:030x}", candidate=FP8, run_id=RUN, attempt=1, step=number, label=label, reason=why,
            criterion=criterion_id, target=f"{number:016x}", who="tic-daemon", policy=f"p{number}")  # fmt: skip
    row(store, "supersede", target=f"ev-{12:030x}", reason="the image was another")
    row(
        store,
        "exemption",
        candidate=FP8,
        gate="module",
        cell="repeat",
        target=BASE,
        reason="the closure does not reach it",
    )
    row(store, "case", run_id=RUN, body='{"name":"moe-drift","parts":{"contract":"bitwise"}}')
    pair(store, "batch-invariant", "mmmmmmmmm", confounders=[])
    pair(store, "shm-fabric", "mmm?mummm")
    parts = dict.fromkeys(("experiment", "fix", "regression", "scope"), "not shown")
    insert(store, "cases", name="moe-drift", run_id=RUN, contract="bitwise before the first update", counterexample="r0 token 7",
           ruled_out=["weights differ"], opened_at=NOW - timedelta(hours=3), said_at=NOW - timedelta(hours=1), who="ada", entries=2, **parts)  # fmt: skip
    insert(store, "baselines", name="bl-7", candidate_id=BASE, config="bs 8", results="42.1", state="pending review", who="ada",
           said_at=NOW - timedelta(hours=1), id="row-bl")  # fmt: skip
    insert(store, "run_records", run_id=RUN, field="weights.content", state="unknown", value="unknown", position=1)
    insert(
        store, "run_records", run_id=RUN, field="rollout.quantization", state="launcher only", value="fp8", position=2
    )
    lamps(store, RUN, "inconclusive", "fail", "stale", "bitwise: 5 of 96 tokens differ")
    lamps(store, OTHER, "not run", "pass", "not run", "all of them agree")
