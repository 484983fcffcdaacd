"""What discovery and the doctor say of a tree that has a bit of everything."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests import needs
from tic_daemon.config import Config, GpuConfig, ResultsConfig, SourceConfig, WandbConfig
from tic_daemon.sources import doctor
from tic_daemon.sources.discover import Discovery, discover
from tic_daemon.sources.doctor import Limits

WORKER = "ab" * 28


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path))
    logs = root / "ray" / "session_2026" / "logs"
    logs.mkdir(parents=True)
    (logs / f"worker-{WORKER}-01000000-11.out").write_bytes(b":job_id:01000000\n:actor_name:vLLMHttpServer\nx\n")
    (logs / f"worker-{WORKER}-01000000-12.err").write_bytes(b":job_id:01000000\n:actor_name:TaskRunner\nx\n")
    for rank in (0, 1, 3):
        directory = root / "none_x" / "attempt_0" / str(rank)
        directory.mkdir(parents=True)
        if rank != 1:
            (directory / "stderr.log").write_bytes(b"x\n")
    (root / "pod.log").write_bytes(b"x\n")
    (root / "pod.log.1").write_bytes(b"y\n")
    (root / "weights.log").write_bytes(b"PK\x03\x04")
    (root / "model.pt").write_bytes(b"x")
    store = root / "elsewhere"
    store.mkdir()
    (store / "tic.duckdb").write_bytes(b"x")
    (store / "daemon.log").write_bytes(b"x\n")
    (root / "evil\x1b]0;owned\x07.log").write_bytes(b"x\n")
    (root / "skipped.log").write_bytes(b"x\n")
    return root


def config(root: Path) -> Config:
    return Config(base=root, host="h", sources=(SourceConfig(path="skipped.log", line=4, skip=True),))


def test_decisions(tree: Path) -> None:
    found = {one.path.removeprefix(f"{tree}/"): one for one in discover([tree], config(tree))}
    server = found[f"ray/session_2026/logs/worker-{WORKER}-01000000-11.out"]
    assert (server.facts.role, server.facts.pid) == ("rollout", 11)
    assert server.traits.role == "unknown", "what the scanner is told must not depend on when we looked"
    assert found[f"ray/session_2026/logs/worker-{WORKER}-01000000-12.err"].facts.role == "driver"
    assert [file.path.rpartition("/")[2] for file in found["pod.log"].files] == ["pod.log.1", "pod.log"]
    assert found["none_x/attempt_0/3/stderr.log"].facts.rank == 3
    assert len(found) == 6


def test_a_second_walk_says_the_same(tree: Path) -> None:
    discovery = Discovery([tree], config(tree))
    first, second = discovery.survey(), discovery.survey()
    assert first == second
    assert discovery.is_left_out(str(tree / "weights.log")) and discovery.is_left_out(str(tree / "x.pt"))
    assert not discovery.is_left_out(str(tree / "new.log.1"))


def test_report(tree: Path) -> None:
    report = doctor.examine([tree], config(tree))
    text = doctor.as_text(report)
    assert "\x1b" not in text and "\x07" not in text and "evil\\x1b]0;owned\\x07.log" in text
    assert "tic.toml line 4: skip" in text
    assert "weights.log: a zip archive" in text
    assert "a daemon's store" in text and "daemon.log" not in text
    assert "1 .pt" in text
    assert "0-3 expected, not watched: 1-2" in text
    data = json.loads(doctor.as_json(report))
    [group] = data["ranks"]
    assert (group["expected"], group["watched"], group["missing"]) == ([0, 1, 2, 3], [0, 3], [1, 2])
    assert len(data["followed"]) == 6 and data["limits"]["problems"] == []
    assert {row["path"] for row in data["followed"] if row["role"] == "driver"} == {
        f"{tree}/ray/session_2026/logs/worker-{WORKER}-01000000-12.err"
    }


def test_why_no_gpu_is_watched(tree: Path) -> None:
    off = replace(config(tree), gpu=GpuConfig(watch=False))
    report = doctor.examine([tree], off)
    assert "\nGPUs: not watched: tic.toml, [gpu] watch = false\n" in doctor.as_text(report)
    assert json.loads(doctor.as_json(report))["gpus"] == "not watched: tic.toml, [gpu] watch = false"


def test_whether_histories_are_read_back(tree: Path) -> None:
    needs.wandb_client()
    said = doctor.examine([tree], config(tree)).wandb_api
    assert re.fullmatch(r"read back with wandb \d+\.\d+\S*, of the server and account that it finds", said)
    report = doctor.examine([tree], replace(config(tree), wandb=WandbConfig(read=False)))
    assert "\nW&B histories: not read back: tic.toml, [wandb] read = false\n" in doctor.as_text(report)
    assert json.loads(doctor.as_json(report))["wandb_api"] == "not read back: tic.toml, [wandb] read = false"


def test_which_results_are_read(tree: Path) -> None:
    assert doctor.examine([tree], config(tree)).results == "no manifest, sidecar or index of results found"
    for name in ("results/r1/manifest.json", "results/r2/manifest.json", "steps/INDEX.md", "docs/INDEX.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("{}")
    (tree / "results" / "r1" / ".tic").mkdir()
    (tree / "results" / "r1" / ".tic" / "manifest.json").write_text("{}")
    report = doctor.examine([tree], config(tree))
    assert report.results == "2 named as a manifest, 1 INDEX.md"
    assert "\nresults: 2 named as a manifest, 1 INDEX.md\n" in doctor.as_text(report)
    off = replace(config(tree), results=ResultsConfig(watch=False))
    assert "not watched" in json.loads(doctor.as_json(doctor.examine([tree], off)))["results"]
    elsewhere = replace(config(tree), results=ResultsConfig(hosts=("g",)))
    assert doctor.examine([tree], elsewhere).results == "not watched on h: tic.toml, [results] hosts"


def test_limits_that_do_not_fit_are_named() -> None:
    assert Limits(1024, 1024, 10, 1000, 128, 10).problems() == []
    [few_files] = Limits(1024, 1024, 5000, 10**6, 128, 10).problems()
    assert "5000 files but only 1024 descriptors" in few_files
    [few_watches] = Limits(1024, 10**6, 10, 100, 128, 90).problems()
    assert "max_user_watches" in few_watches
