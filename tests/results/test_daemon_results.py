"""Results through the real daemon: views, exit codes, a restart, kills, and several stores that see the same files."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.harness import ROOT, Watcher, ask, here, once, tui
from tests.results.test_archive import CORPUS, manifest, put, sha
from tic_daemon import beside, watch
from tic_daemon.beside import Beside
from tic_daemon.results.archive import Archive
from tic_daemon.sources.envfiles import EnvFiles
from tic_daemon.store import united

LOG = ROOT / "samples" / "grpo-tiny-a" / "worker_raw.log"
OLD = 1_700_000_000.0

STATES = "SELECT run_id, state, count(*) FROM artifacts GROUP BY ALL ORDER BY ALL"
GAPS = "SELECT run_id, kind, regexp_extract(path, '[^/]*$') FROM evidence_gaps ORDER BY ALL"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captured run, its log and its results, read once."""
    root = tmp_path_factory.mktemp("real") / "run"
    root.mkdir()
    shutil.copy(LOG, root / "worker_raw.log")
    shutil.copytree(CORPUS, root / "results" / "grpo-tiny-a")
    once(root)
    return root


def store_of(root: Path) -> Path:
    (store,) = root.glob(".tic/*/tic.duckdb")
    return store


def test_the_real_run_makes_sense(real: Path) -> None:
    store = store_of(real)
    assert ask(store, STATES) == [("grpo-tiny-a", "verified", 36)]
    assert ask(store, GAPS) == []
    rows = ask(store, "SELECT path, sha256, bytes_size, step, attempt FROM artifacts")
    assert all(
        sha(Path(str(row[0])).read_bytes()) == row[1] and row[2] == Path(str(row[0])).stat().st_size for row in rows
    )
    # The records in the log name these manifests, with the same step and the first digits of the same input.
    joined = ask(
        store,
        "SELECT count(*) FROM mismatches m JOIN manifests f ON ends_with(f.path, m.report) AND f.run_id = m.run_id"
        " AND f.step = m.step AND starts_with(f.input_sha256, m.input) AND f.policy = m.policy AND f.verified = 3",
    )
    assert joined == [(12,)]
    assert ask(store, "SELECT sum(valid_count) FROM manifests") == [
        (sum(json.loads(path.read_text())["valid_tokens"] for path in CORPUS.glob("*/manifest.json")),)
    ]
    # Its manifests do not say on which basis the numbers stand: no comparison of them has a verdict.
    told = here("check", "grpo-tiny-a", "--at", real, check=False)
    assert (
        told.returncode == 12
        and "12 comparisons without a verdict, the first of step 0: not shown: basis" in told.stdout
    )


def test_spoilt_results_lower_the_run_and_the_next_start_reads_only_what_changed(real: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(real, root, copy_function=shutil.copy2)
    shutil.rmtree(root / ".tic")
    run = root / "results" / "grpo-tiny-a"
    put(run / "step003" / "token_ids.pt", b"x" * 8313, OLD)
    (run / "step004" / "trainer_logprobs.pt").unlink()
    os.utime(run / "step004" / "manifest.json", (OLD, OLD))
    put(root / "results" / "stray" / "manifest.json", '{"artifacts": ', OLD)
    put(root / "steps" / "INDEX.md", "see [it](../results/grpo-tiny-a/step099/manifest.json)\n", OLD)
    once(root)
    store = store_of(root)
    expected = [
        ("grpo-tiny-a", "artifact_differs", "token_ids.pt"), ("grpo-tiny-a", "artifact_missing", "trainer_logprobs.pt"),
        ("grpo-tiny-a", "index_missing", "INDEX.md"), ("stray", "manifest_malformed", "manifest.json"),
    ]  # fmt: skip
    assert ask(store, GAPS) == expected
    told = here("check", "grpo-tiny-a", "--at", root, check=False)
    # Comparisons without a verdict (12) come before gaps (14).
    assert told.returncode == 12 and "artifact_differs" in told.stdout and "step004" in told.stdout
    status = tui("status", root)
    assert "artifacts" in status.stdout and "34 verified, 1 differs, 1 missing" in status.stdout, status.stdout
    asked = json.loads(tui("status", "--json", root).stdout)
    (one,) = [found for found in asked["runs"] if found["run_id"] == "grpo-tiny-a"]
    assert one["artifacts"] == {"verified": 34, "differs": 1, "missing": 1}
    rows = ask(store, "SELECT count(*) FROM artifact")
    before = ask(store, "SELECT max(observed_at) FROM ingest")[0][0]
    shutil.copy2(real / "results" / "grpo-tiny-a" / "step003" / "token_ids.pt", run / "step003" / "token_ids.pt")
    put(run / "step005" / "token_ids.pt", b"y", OLD)
    once(root)
    assert [row for row in ask(store, GAPS) if str(row[1]).startswith("artifact_")] == [
        ("grpo-tiny-a", "artifact_changed", "token_ids.pt"), ("grpo-tiny-a", "artifact_missing", "trainer_logprobs.pt"),
    ]  # fmt: skip
    assert ask(store, "SELECT count(*) FROM artifact") == [(int(str(rows[0][0])) + 2,)], (
        "what did not change is told again"
    )
    with duckdb.connect(str(store), read_only=True) as con:
        con.execute("SET VARIABLE as_of = ?", [before])
        assert con.execute(GAPS).fetchall() == expected


def test_several_stores_that_see_the_same_files(real: Path) -> None:
    con = duckdb.connect()
    con.execute(f"ATTACH '{store_of(real)}' AS s (READ_ONLY)")
    con.execute("USE s")
    plan = united.plan_for(["artifacts", "manifests", "evidence_gaps"])
    for part, reading in plan.read.items():
        con.execute(f"CREATE TEMP TABLE part_{part} AS SELECT *, 'a' AS part_store FROM ({reading.sql})")
        con.execute(f"INSERT INTO part_{part} SELECT * REPLACE ('g' AS host, 'b' AS part_store) FROM part_{part}")
    counts = {name: con.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0] for name, sql in plan.make}
    assert counts == {"artifacts": 36, "manifests": 12, "evidence_gaps": 0}


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_or_told_twice(tmp_path: Path) -> None:
    rand = random.Random(11)
    root = tmp_path / "run"
    shutil.copytree(CORPUS, root / "results" / "grpo-tiny-a")
    put(root / "run.log", "step:1 - a:1\n")
    watcher = Watcher(tmp_path / "state", root)
    for number in range(6):
        watcher.start()
        for step in range(3):
            directory = root / "results" / f"r{number}" / f"step{step}"
            data = rand.randbytes(200_000)
            put(directory / "a.pt", data, time.time())
            manifest(directory, {"a.pt": data, "gone.pt": b"1"}, time.time() - 60, run=f"r{number}", step=step)
            time.sleep(rand.random() * 0.4)
        put(root / "results" / f"r{number}" / "step0" / "a.pt", rand.randbytes(200_000), time.time())
        time.sleep(rand.random())
        watcher.kill()
    watcher.start()
    time.sleep(2)
    watcher.stop()
    here("watch", "--once", root, "--state", watcher.state)
    store = watcher.store()
    assert ask(store, "SELECT state, count(*) FROM artifacts WHERE run_id = 'grpo-tiny-a' GROUP BY ALL") == [
        ("verified", 36)
    ]
    found = ask(store, "SELECT run_id, step, name, state FROM artifacts WHERE run_id <> 'grpo-tiny-a' ORDER BY ALL")
    assert len(found) == 36 and {row[3] for row in found if row[2] == "gone.pt"} == {"missing"}
    # Whether the first content was seen before it was overwritten is a matter of luck; that it is not as named is not.
    assert {row[3] for row in found if row[2] == "a.pt" and row[1] == 0} <= {"changed", "differs"}
    assert {row[3] for row in found if row[2] == "a.pt" and row[1] != 0} == {"verified"}
    again = (
        "SELECT count(*) FROM (SELECT a.* EXCLUDE (rec_id, observed_at), lag(a) OVER w AS before FROM"
        " (SELECT rec_id, observed_at, host, manifest, path, struct_pack(state, sha256, stamp, why, run, step, named) AS a FROM artifact)"
        " WINDOW w AS (PARTITION BY host, manifest, path ORDER BY rec_id)) WHERE a = before"
    )
    assert ask(store, again.replace("a.* EXCLUDE (rec_id, observed_at)", "a")) == [(0,)]
    numbers = ask(store, "SELECT count(*), count(DISTINCT rec_id) FROM artifact")
    assert numbers[0][0] == numbers[0][1]


def test_once_waits_for_its_last_look_at_files_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = threading.Event()
    finish, read, look = Beside.finish, EnvFiles._changed, Archive.look

    def finishing(*args: Any) -> None:
        last.set()
        finish(*args)

    def reading(*args: Any) -> None:
        last.wait(30)
        time.sleep(1)
        read(*args)

    def looking(*args: Any, final: bool = False) -> None:
        time.sleep(1 if final else 0)
        look(*args, final=final)

    for module in (beside, watch):
        monkeypatch.setattr(module, "FILES_S", 0.0, raising=False)
    monkeypatch.setattr(watch, "SETTLING_S", 0.0)
    monkeypatch.setattr(Beside, "finish", finishing)
    monkeypatch.setattr(EnvFiles, "_changed", reading)
    monkeypatch.setattr(Archive, "look", looking)
    (tmp_path / "a.log").write_text("job begins\n")
    (tmp_path / ".env").write_text("VLLM_BATCH_INVARIANT=1\n")
    put(tmp_path / "results" / "r" / "step0" / "a.pt", b"1", time.time())
    manifest(tmp_path / "results" / "r" / "step0", {"a.pt": b"1", "gone.pt": b"1"}, time.time(), run="r", step=0)
    once(tmp_path)
    store = store_of(tmp_path)
    assert ask(store, STATES) == [("r", "missing", 1), ("r", "verified", 1)]
    assert ask(store, "SELECT name, value FROM b_env_pin") == [("VLLM_BATCH_INVARIANT", "1")]
