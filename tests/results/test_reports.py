"""Reports that records name: found, missing, other than the record, out of reach; and again after a restart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import ask, here, tui
from tests.results.test_archive import CORPUS, OLD, World, manifest, put
from tests.results.test_daemon_results import LOG, store_of
from tic_daemon.results.reports import MAX_REPORTS, REST_S, Claim, _rounds_to


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "root")


def claim(world: World, report: str, log: str = "logs/rank0.log", **said: Any) -> Claim:
    return Claim(str(world.root / log), str(world.root), report, **said)


def kinds(world: World) -> dict[str, tuple[str, str]]:
    """Gaps of reports that are there now: kind and detail by subject."""
    world.look()
    return {
        kind: (subject, world.gap(kind).detail) for kind, _path, subject in world.gaps() if kind.startswith("report_")
    }


TIC = {
    "identity": {"a": {"policy": "7"}, "b": {"policy": "7"}, "inputs": "ab" * 32},
    "observed": {"metrics": {"logprob_mae": 0.0021032277}},
}


@pytest.mark.parametrize("place", ["logs/results/r.json", "results/r.json"])
def test_a_report_is_found_beside_the_log_or_above_it(world: World, place: str) -> None:
    put(world.root / place, json.dumps(TIC))
    world.archive.named(
        [claim(world, "results/r.json", metric="logprob_mae", value="0.0021032277", policy="7", input="abab")]
    )
    assert kinds(world) == {}


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"metric": "logprob_mae", "value": "0.0022"}, "it says logprob_mae 0.0021032277, the record 0.0022"),
        ({"policy": "8"}, "it says policy 7, the record 8"),
        ({"input": "cd"}, "the record cd"),
    ],
)
def test_a_report_that_says_otherwise_differs(world: World, said: dict[str, Any], word: str) -> None:
    put(world.root / "results" / "r.json", json.dumps(TIC))
    world.archive.named(
        [claim(world, "results/r.json", metric="logprob_mae", value="0.002"), claim(world, "results/r.json", **said)]
    )
    assert world.look() and word in world.gap("report_differs").detail
    put(
        world.root / "results" / "r.json",
        json.dumps({"metrics": {"logprob_mae": 0.0022}, "policy_version": 8, "input_sha256": "cdef"}),
        OLD + 1,
    )
    assert kinds(world) == {}, "it is mended"


def test_a_manifest_that_is_named_as_report_is_held_against_the_record(world: World) -> None:
    manifest(world.root / "results" / "s0", {}, run="grpo", step=0, policy_version="1", input_sha256="ab" * 32)
    good = {"run": "grpo", "step": 0, "policy": "1", "input": "abab", "metric": "logprob_mae", "value": "0.5"}
    world.archive.named([claim(world, "results/s0/manifest.json", **good)])
    assert "report_differs" not in kinds(world)
    world.archive.named([claim(world, "results/s0/manifest.json", **{**good, "step": 3, "run": "other"})])
    detail = kinds(world)["report_differs"][1]
    assert "it says run grpo, the record other" in detail and "it says step 0, the record 3" in detail


def test_a_report_that_is_missing_is_waited_for_and_then_told(world: World) -> None:
    (world.root / "results").mkdir(parents=True)
    world.archive.named([claim(world, "results/r.json", run="grpo")])
    assert kinds(world) == {}, "the record may be printed before its report is written"
    world.now += REST_S
    assert kinds(world)["report_missing"] == ("results/r.json", "a record names a report that is not there")
    assert world.gap("report_missing").run == "grpo"
    put(world.root / "results" / "r.json", "text of any kind", at=world.now - 3600)
    assert kinds(world) == {}
    (world.root / "results" / "r.json").unlink()
    assert "was there and is gone" in kinds(world)["report_missing"][1]


def test_in_the_end_nothing_is_waited_for(world: World) -> None:
    (world.root / "results").mkdir(parents=True)
    world.archive.named([claim(world, "results/r.json")])
    world.look(final=True)
    assert world.gap("report_missing").present


@pytest.mark.parametrize("report", ["elsewhere/r.json", "r.json", "../../r.json", "/etc/hostname", "a/../../../r.json"])
def test_what_is_out_of_reach_is_said_and_counts_for_nothing(world: World, report: str) -> None:
    put(world.root.parent / "r.json", "{}")
    world.root.mkdir(exist_ok=True)
    world.archive.named([claim(world, report)])
    world.now += REST_S
    assert set(kinds(world)) == {"report_unchecked"}
    assert world.gap("report_unchecked").subject == report


def test_a_link_that_leads_out_is_not_read(world: World) -> None:
    put(world.root.parent / "secret.json", json.dumps({"run": "x"}))
    (world.root / "results").mkdir(parents=True)
    (world.root / "results" / "r.json").symlink_to(world.root.parent / "secret.json")
    world.archive.named([claim(world, "results/r.json", run="grpo")])
    found = kinds(world)
    assert "leads out of the watched directory" in found["report_differs"][1] and "it says run" not in str(found)


@pytest.mark.parametrize("report", ["", "unknown", "None", " - "])
def test_what_names_none_is_no_report(world: World, report: str) -> None:
    world.root.mkdir()
    world.archive.named([claim(world, report)])
    world.look(final=True)
    assert kinds(world) == {}


def test_reports_are_bounded(world: World) -> None:
    world.root.mkdir()
    world.archive.named(claim(world, f"x/{number}.json") for number in range(MAX_REPORTS + 3))
    world.look(final=True)
    assert world.gap("too_many").detail.startswith("3 more records")
    assert "20000 reports" in world.gap("report_unchecked").detail


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        (0.0021032277, "0.0021", True), (0.0021032277, "0.00210323", True), (0.0021032277, "0.00211", False), (2.5e-7, "2e-07", True),
        (0.1, "0.1", True), (0.1, "nan", False), (0.1, "many", True), (1e308, "1e308", True), (0.15, "0.2", True),
    ],
)  # fmt: skip
def test_rounded_numbers_are_the_same(value: float, text: str, same: bool) -> None:
    assert _rounds_to(value, text) is same


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captured run with two of its reports spoilt, beside results of a run that has no log."""
    root = tmp_path_factory.mktemp("real") / "job"
    root.mkdir()
    shutil.copy(LOG, root / "worker_raw.log")
    shutil.copytree(CORPUS, root / "results" / "grpo-tiny-a")
    (root / "results" / "grpo-tiny-a" / "step003" / "manifest.json").unlink()
    path = root / "results" / "grpo-tiny-a" / "step005" / "manifest.json"
    path.write_text(path.read_text().replace('"step": 5', '"step": 6'))
    manifest(
        root / "results" / "lonely", {"x": put(root / "results" / "lonely" / "x", b"x").read_bytes()}, run="lonely"
    )
    here("watch", "--once", root)
    return root


def test_a_record_whose_report_is_missing_or_another_is_a_gap(real: Path) -> None:
    rows = ask(
        store_of(real), "SELECT run_id, kind, detail FROM evidence_gaps WHERE kind LIKE 'report_%' ORDER BY kind"
    )
    assert [row[:2] for row in rows] == [("grpo-tiny-a", "report_differs"), ("grpo-tiny-a", "report_missing")]
    assert "it says step 6, the record 5" in str(rows[0][2]) and "step003/manifest.json" in str(rows[1][2])
    states = "SELECT run_id, state, regexp_extract(report, 'step[0-9]+'), regexp_extract(path, '[^/]*$') FROM record_reports ORDER BY 2"
    assert ask(store_of(real), states) == [
        ("grpo-tiny-a", "differs", "step005", "worker_raw.log"),
        ("grpo-tiny-a", "missing", "step003", "worker_raw.log"),
    ]
    told = here("check", "grpo-tiny-a", "--at", real, check=False)
    # 12: its comparisons have no verdict, which comes before a gap.
    assert told.returncode == 12 and "report_missing" in told.stdout and "14: " in told.stdout


def test_reports_out_of_reach_are_no_gap(tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path / "worker_raw.log")
    here("watch", "--once", tmp_path)
    assert ask(store_of(tmp_path), "SELECT * FROM evidence_gaps") == []
    ((state, detail),) = ask(store_of(tmp_path), "SELECT state, detail FROM record_reports")
    assert state == "not reachable" and str(detail).startswith("12 reports that records name")


def test_results_without_a_log_make_a_run(real: Path) -> None:
    store = store_of(real)
    shown = (
        "SELECT run_id, attempt, state, mismatches, sources, locked, last_observed_at IS NOT NULL FROM runs ORDER BY 1"
    )
    assert ask(store, shown) == [
        ("grpo-tiny-a", 1, "moving", 12, 1, False, True),
        ("lonely", 1, "silent", 0, 0, False, True),
    ]
    assert ask(store, "SELECT attempt, mismatches, locked FROM attempts WHERE run_id = 'lonely'") == [(1, 0, False)]
    told = here("check", "lonely", "--at", real, check=False)
    assert told.returncode == 15 and "no mismatch record" in told.stdout and "no such run" not in told.stdout
    assert "lonely" in tui("status", str(real)).stdout


def test_a_restart_knows_the_reports_of_old_records(real: Path, tmp_path: Path) -> None:
    """The log has not grown: only the store knows what its records named."""
    own = tmp_path / "job"
    shutil.copytree(real, own)
    shutil.rmtree(own / ".tic")
    here("watch", "--once", own)
    results = own / "results" / "grpo-tiny-a"
    (results / "step007" / "manifest.json").unlink()
    shutil.copy(CORPUS / "step003" / "manifest.json", results / "step003" / "manifest.json")
    here("watch", "--once", own)
    rows = ask(store_of(own), "SELECT detail FROM evidence_gaps WHERE kind = 'report_missing'")
    assert len(rows) == 1 and "step007/manifest.json" in str(rows[0][0])
