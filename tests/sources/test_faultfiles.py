"""Files that a fault leaves: which names are some, that none is opened or followed, and that only changes are told."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from tic_daemon.config import Config
from tic_daemon.sources.discover import Discovery, Survey
from tic_daemon.sources.faultfiles import FaultFiles, Named, Names
from tic_daemon.store.rows import FaultFileRow

NOW = 1_800_000_000
AT = datetime(2027, 1, 15, 8)
BOOT = "0123456789abcdef0123456789abcdef"

MUST = [
    ("core", Named("core")),
    ("core.4242", Named("core", 4242)),
    ("core.1", Named("core", 1)),
    ("core.4242.1800000000", Named("core", 4242)),
    ("core.4242.zst", Named("core", 4242)),
    ("vgcore.4242", Named("core", 4242)),
    ("core.python3.4242", Named("core", 4242)),
    ("core.python3.12.4242", Named("core", 4242)),
    ("core.python.77.1800000000", Named("core", 77)),
    ("core.ray::WorkerDict.4242.node7.1800000000", Named("core", 4242, None, "node7")),
    ("core.python.4242.node7.cluster.local.1800000000", Named("core", 4242, None, "node7.cluster.local")),
    ("core.python.4242.gpu-node", Named("core", 4242, None, "gpu-node")),
    ("core-python3-4242-1800000000", Named("core", 4242)),
    (f"core.pt_main_thread.1000.{BOOT}.4242.1800000000000000.zst", Named("core", 4242)),
    (f"core.ray\\x3a\\x3aIDLE.1000.{BOOT}.4242.1800000000000000", Named("core", 4242)),
    ("core.\x1b[31mred\n.4242", Named("core", 4242)),
    ("core_1800000000_node7_4242.nvcudmp", Named("cuda_core", 4242, None, "node7")),
    ("core_1800000000_a_b-7.x_4242.nvcudmp", Named("cuda_core", 4242, None, "a_b-7.x")),
    ("trainer.rank3.4242.nvcudmp", Named("cuda_core", 4242, 3)),
    ("gpu.nvcudmp", Named("cuda_core")),
    ("cuda_coredump_node7.4242.1800000000", Named("cuda_core", 4242, None, "node7")),
    ("cuda_coredump.4242", Named("cuda_core", 4242)),
    ("nccl_trace_rank_13", Named("flight_recorder", None, 13)),
    ("comm_lib_trace_rank_0", Named("flight_recorder", None, 0)),
    ("nccl_trace_rank_13.json", Named("flight_recorder", None, 13)),
    ("nccl_flight_recorder_rank_7", Named("flight_recorder", None, 7)),
    ("compute-sanitizer.log", Named("compute_sanitizer")),
    ("compute-sanitizer.4242.log", Named("compute_sanitizer", 4242)),
    ("racecheck_rank3.txt", Named("compute_sanitizer", None, 3)),
    ("memcheck-rank_3-4242.log", Named("compute_sanitizer", 4242, 3)),
    ("py-spy-4242.txt", Named("py_spy", 4242)),
    ("pyspy_dump_rank3_pid4242.txt", Named("py_spy", 4242, 3)),
    ("py-spy-dump-4242", Named("py_spy", 4242)),
]
MUST_NOT = [
    "core.py", "core.pyc", "core.log", "core.json", "core.txt", "core_attention.log", "core_attention_10", "core-4.2.1.tgz",
    "core.cpython-312-x86_64-linux-gnu.so", "core.so.1", "core.min.123.js", "core.1.2.3", "core.v1.23", "core.10.gz",
    "score.4242", "hardcore", "core.", "core.4242.log", "cores", "core-js-3.30.0", "core.yaml.bak", "core.python.py",
    "encore.123", "core_1_2.bin", "cuda_core.py", "nccl.log", "nccl_trace.log", "trace_rank_3.json", "rank_3.log",
    "nccl_trace_rank_.txt", "model_rank_3", "nccl_trace_rank_3.log", "py_spy.py", "py-spy", "pyspy_utils.py",
    "compute_sanitizer.py", "memcheck.py", "nvcudmp", "core.4242\n", "core.99999999999999",
]  # fmt: skip


@pytest.mark.parametrize(("name", "told"), MUST)
def test_names_that_are_some(name: str, told: Named) -> None:
    assert Names({}).of(name) == told


@pytest.mark.parametrize("name", MUST_NOT)
def test_names_that_only_look_alike(name: str) -> None:
    assert Names({}).of(name) is None


def test_names_that_the_environment_sets() -> None:
    names = Names({
        "CUDA_COREDUMP_FILE": "/dumps/gpu_%h_%p_%p.bin", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/dumps/mine+",
        "TORCH_FR_DUMP_TEMP_FILE": "/only/a/directory/",
    })  # fmt: skip
    assert names.of("gpu_node7_4242_4242.bin") == Named("cuda_core", 4242, None, "node7")
    assert names.of("mine+12") == Named("flight_recorder", None, 12)
    assert names.of("minee12") is names.of("mine+x") is names.of("12") is None


def write(path: Path, size: int = 7, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - age, NOW - age))
    return path


def survey(root: Path, config: Config | None = None) -> Survey:
    return Discovery([root], config or Config(root)).survey()


def test_a_walk_finds_them_opens_none_and_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    for name in ("core.4242", "nccl_trace_rank_3", "a/b/core_1_h_5.nvcudmp", "core_1800000000_h_5.nvcudmp", "a/core"):
        write(root / name)
    write(root / "run.log").write_text("hello\n")
    (root / "core").mkdir()
    (root / "core" / "core.py").write_text("import os\n")
    (root / "core.4").mkdir()
    os.mkfifo(root / "core.5")
    (root / "core.6").symlink_to(write(away / "core.6"))
    (root / "core.7").symlink_to(root / "nowhere")
    write(root / "bin" / "core").chmod(0o755)
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(str(path)) or real(path, *rest, **more))
    found = survey(root, Config(root, include=("**/*",)))
    assert sorted(str(Path(one.path).relative_to(root)) for one in found.fault_files) == [
        "a/b/core_1_h_5.nvcudmp", "a/core", "core.4242", "core_1800000000_h_5.nvcudmp", "nccl_trace_rank_3",
    ]  # fmt: skip
    assert {(one.size, one.modified_at, one.root) for one in found.fault_files} == {(7, AT, str(root))}
    names = {Path(path).name for path in opened} | {Path(one.path).name for one in found.candidates}
    assert "run.log" in names and not names & {
        "core.4242",
        "nccl_trace_rank_3",
        "core.5",
        "core_1800000000_h_5.nvcudmp",
    }


def test_what_is_text_is_followed_as_before(tmp_path: Path) -> None:
    write(tmp_path / "memcheck.4242.log").write_text("========= Invalid __global__ read of size 4 bytes\n")
    found = survey(tmp_path)
    assert [one.named for one in found.fault_files] == [Named("compute_sanitizer", 4242)]
    assert [Path(one.path).name for one in found.candidates] == ["memcheck.4242.log"]


def test_excluded_ones_are_left_out_and_a_new_one_is_worth_a_walk(tmp_path: Path) -> None:
    write(tmp_path / "core.1")
    discovery = Discovery([tmp_path], Config(tmp_path, exclude=("**/core.*",)))
    assert discovery.survey().fault_files == ()
    assert not discovery.is_left_out(str(tmp_path / "nccl_trace_rank_3"))
    assert discovery.is_left_out(str(tmp_path / "model.safetensors"))


def look(files: FaultFiles, root: Path) -> list[FaultFileRow]:
    found = survey(root)
    files.found(found.fault_files, found.walked)
    return files.take()


def test_only_changes_are_told_also_over_a_restart(tmp_path: Path) -> None:
    files = FaultFiles("node7")
    core = write(tmp_path / "sub" / "core.4242")
    raw = os.fsencode(tmp_path) + b"/core.a\xff\x1b[2J.4242"
    os.close(os.open(raw, os.O_CREAT | os.O_WRONLY, 0o600))
    os.utime(raw, (NOW, NOW))
    first = look(files, tmp_path)
    row = FaultFileRow("node7", str(tmp_path), str(core), "core", 4242, None, "", 7, AT, present=True)
    assert row in first and len(first) == 2
    (hostile,) = [one for one in first if one != row]
    assert hostile.path == f"{tmp_path}/core.a\\udcff\x1b[2J.4242"
    assert look(files, tmp_path) == []
    write(core, 9)
    (grown,) = look(files, tmp_path)
    assert (grown.path, grown.bytes_size) == (str(core), 9)
    again = FaultFiles("node7", [grown, hostile])
    assert look(again, tmp_path) == []
    core.unlink()
    (gone,) = look(again, tmp_path)
    assert (gone.path, gone.present, gone.bytes_size) == (str(core), False, 9)
    assert look(again, tmp_path) == []
    assert look(FaultFiles("node7", [grown]), tmp_path / "sub") == [gone]
    assert FaultFiles("node8", [grown]).take() == []


def test_what_a_walk_did_not_reach_is_not_gone(tmp_path: Path) -> None:
    files = FaultFiles("node7", [
        FaultFileRow("node7", "/x", "/x/core.1", "core", 1, None, "", 7, AT, present=True)
    ])  # fmt: skip
    assert look(files, tmp_path) == []
