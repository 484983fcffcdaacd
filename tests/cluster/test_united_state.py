"""Two stores of one run, read as one: a finding that both see is one, states stay with their records, and the first fault's doubt."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.fakes import Cluster
from tests.cluster.test_united_views import NOON, RULES, SECOND, WorldReader
from tests.evidence.oracle import Row, Src, World
from tests.evidence.worldstore import WorldStore
from tic_daemon.store.union import UnionReader
from tic_tui import queries

LOG = Src(1, "host0", "/jobs/r", "/jobs/r/engine.log", stream="stdout", single=True, pid=7, run_hint="r", run_how="config", zone_s=0)  # fmt: skip


def engine(source: int, *, ended: bool = True) -> list[Row]:
    """A sleep that drops the weights, a wake without them, a number, and the reload."""

    def line(number: int, table: str, **said: object) -> Row:
        stamp = NOON + number * SECOND
        return Row(table, source, 0, 50 * number, stamp=stamp, res=1, step=3, **said)  # type: ignore[arg-type]

    rows = [
        Row("process_seen", source, 0, 0),
        line(1, "exec_state", field="graph_mode", observed="FULL", rule="vllm.graph_override"),
        line(2, "weight_phase", phase="asleep", level="2", rule="vllm.asleep_level2"),
        line(3, "weight_phase", phase="awake", level="weights,kv_cache", rule="vllm.awake_all"),
        line(4, "exec_state", field="step_kind", observed="decode", rule="vllm.step_decode"),
        line(5, "mismatch", run="r"),
    ]
    return [*rows, line(6, "weight_phase", phase="reloaded", rule="vllm.reloaded")] if ended else rows


@pytest.fixture(scope="module")
def stores() -> list[WorldStore]:
    return [WorldStore("s1"), WorldStore("s2")]


def united(tmp_path: Path, stores: list[WorldStore], *worlds: World, network: bool = False) -> UnionReader:
    cluster = Cluster(tmp_path, "a", "b")
    for name, store, world in zip("ab", stores, worlds, strict=True):
        store.fill([world], random.Random(1))
        for table in ("mismatch", "fault", "exec_state", "weight_phase"):
            store.con.execute(f"UPDATE {table} SET store_id = '{store.store_id}'")
        store.con.execute(f"UPDATE source SET network = {network}")
        cluster.readers[cluster.names[name]] = WorldReader(store)
    cluster.reader.close()
    return UnionReader(tmp_path, cluster.open)


FINDINGS = "SELECT kind, line_no, log_host, until_at IS NULL FROM lifecycle_findings ORDER BY ALL"
WOKE = "wake_without_weights"


def test_a_log_that_two_stores_read_has_its_finding_once(tmp_path: Path, stores: list[WorldStore]) -> None:
    """The first one has not read as far: what the other knows of its end counts."""
    reader = united(tmp_path, stores, World({1: LOG}, engine(1, ended=False)), World({1: LOG}, engine(1)))
    assert reader.query(FINDINGS).rows == [(WOKE, 8, "host0", False)]
    assert [(str(f.kind), f.until_at is None) for f in queries.findings(reader, "r")] == [(WOKE, False)]
    assert queries.findings_of_runs(reader) == {"r": 1}
    reader.close()


@pytest.mark.parametrize("network", [True, False])
def test_on_a_network_file_system_the_hosts_read_one_log(
    tmp_path: Path, stores: list[WorldStore], network: bool
) -> None:
    other = replace(LOG, id=2, host="host1")
    reader = united(tmp_path, stores, World({1: LOG}, engine(1)), World({2: other}, engine(2)), network=network)
    once = [(WOKE, 8, "", False)]
    assert reader.query(FINDINGS).rows == (once if network else [(WOKE, 8, host, False) for host in ("host0", "host1")])
    assert queries.findings_of_runs(reader) == {"r": 1 if network else 2}
    assert len(queries.findings(reader, "r")) == (1 if network else 2)
    reader.close()


def test_records_keep_their_state_and_each_store_its_lines(tmp_path: Path, stores: list[WorldStore]) -> None:
    other = replace(LOG, id=2, host="host1", path="/jobs/r/second.log", pid=8)
    reader = united(tmp_path, stores, World({1: LOG}, engine(1)), World({2: other}, engine(2)))
    state = "graph_mode, step_kind, weight_phase, state_source, state_note, admissibility, reason, finding_ids"
    rows = reader.query(f"SELECT host, {state} FROM mismatches ORDER BY ALL").rows
    assert [row[:5] for row in rows] == [(host, "FULL", "decode", "awake", "own log") for host in ("host0", "host1")]
    assert [row[6:8] for row in rows] == [("suspect", "weights woken without a reload")] * 2
    alone = [row for store in stores for row in WorldReader(store).query(f"SELECT host, {state} FROM mismatches").rows]
    assert sorted(rows) == sorted(alone)
    for view, count in (("exec_states", 4), ("exec_state_now", 4), ("weight_lifecycle", 6)):
        assert reader.query(f"SELECT count(*), count(DISTINCT source_id) FROM {view}").rows == [(count, 2)]
    assert reader.query("SELECT count(*) FROM weight_lifecycle WHERE NOT legal").rows == [(2,)]
    reader.close()


def test_a_fault_that_the_other_store_has_not_heard_of_is_not_compared(
    tmp_path: Path, stores: list[WorldStore]
) -> None:
    """Each store alone has one fault and no doubt."""
    other = replace(LOG, id=2, host="host1", path="/jobs/r/second.log", pid=8)

    def faulty(source: Src, second: int) -> World:
        row = Row(
            "fault",
            source.id,
            0,
            50,
            stamp=NOON + second * SECOND,
            res=1,
            utc=True,
            kind="illegal",
            verdict="confirmed",
            text="x",
        )
        return World({source.id: source}, [Row("process_seen", source.id, 0, 0), row], [], RULES)

    reader = united(tmp_path, stores, faulty(LOG, 1), faulty(other, 40))
    for view in ("attempts", "attempt_states", "locks"):
        assert reader.query(f"SELECT first_fault_why FROM {view}").rows == [("one of another store is not compared",)]
    alone = WorldReader(stores[0]).query("SELECT first_fault_why FROM attempts").rows
    assert alone == [("",)]
    reader.close()
