"""Environment files and launch scripts: what they pin, read as text; nothing run, no secret kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tic_daemon.sources.envfiles import EnvFiles, is_env_file, is_listed, pins
from tic_daemon.store.rows import EnvPinRow


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("export NCCL_IB_HCA=mlx5_0", ("NCCL_IB_HCA", "mlx5_0", "export", True)),
        ('  export NVSHMEM_IB_GID_INDEX="3"  # rail', ("NVSHMEM_IB_GID_INDEX", "3", "export", True)),
        ("export A=1 DEEPEP_NUM_SMS=24", ("DEEPEP_NUM_SMS", "24", "export", True)),
        ('export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"', ("NCCL_DEBUG", "INFO", "default", False)),
        ("export NCCL_DEBUG=${NCCL_DEBUG-WARN}", ("NCCL_DEBUG", "WARN", "default", False)),
        (': "${VLLM_DEEPEP_BUFFER_SIZE_MB:=1024}"', ("VLLM_DEEPEP_BUFFER_SIZE_MB", "1024", "default", False)),
        ("NCCL_CUMEM_ENABLE=0", ("NCCL_CUMEM_ENABLE", "0", "assign", True)),
        ("CUDA_LAUNCH_BLOCKING=1 python train.py", ("CUDA_LAUNCH_BLOCKING", "1", "assign", True)),
        ("docker run -e NCCL_NVLS_ENABLE=0 image", ("NCCL_NVLS_ENABLE", "0", "argument", True)),
        ("srun env SGLANG_USE_X=1 python x", ("SGLANG_USE_X", "1", "argument", True)),
        ("if a; then export VLLM_BATCH_INVARIANT=1; fi", ("VLLM_BATCH_INVARIANT", "1", "export", True)),
        # Another name's default does not give way to what is passed for this one.
        ("export NCCL_DEBUG=${MY_LEVEL:-INFO}", ("NCCL_DEBUG", "${MY_LEVEL:-INFO}", "export", True)),
    ],
)
def test_a_line_that_pins(line: str, want: tuple[str, str, str, bool]) -> None:
    (pin,) = pins(f"#!/bin/bash\n{line}\n")
    assert (pin.line_no, pin.name, pin.value, pin.form, pin.hard) == (2, *want)


@pytest.mark.parametrize(
    "line",
    [
        "# export NCCL_DEBUG=INFO",
        'echo "set NCCL_DEBUG=INFO to see more"',
        "python train.py --note NCCL_DEBUG=INFO",
        "export HF_TOKEN=hf_abc",
        "export SGLANG_API_KEY=sk-1",
        "export NVSHMEM_AUTH_TOKEN=x",
        "export PATH=/usr/bin",
        'test "$NCCL_DEBUG" = INFO',
    ],
)
def test_a_line_that_pins_nothing_that_is_kept(line: str) -> None:
    assert not pins(line)


def test_names() -> None:
    assert all(map(is_env_file, ("run.env", ".env", ".env.prod", "env_rollout.sh", "launch.sh", "job.sbatch")))
    assert not any(map(is_env_file, ("train.log", "environment.yaml", "env.py", "data.csv")))
    assert is_listed("NCCL_IB_HCA") and not is_listed("AWS_SECRET_ACCESS_KEY") and not is_listed("SGLANG_AUTH")


def told(files: EnvFiles, *paths: Path) -> list[EnvPinRow]:
    files.finish([(str(path), "/w") for path in paths], 10.0)
    rows = files.pending()
    files.taken(rows)
    return list(rows)


def test_a_file_is_told_again_only_when_its_pins_changed(tmp_path: Path) -> None:
    path = tmp_path / "arm.env"
    path.write_text("export NCCL_DEBUG=INFO\n")
    files = EnvFiles("h", lambda _: "", {})
    (row,) = told(files, path)
    assert (row.name, row.value, row.hard, row.gone) == ("NCCL_DEBUG", "INFO", True, False)
    assert told(files, path) == []
    os.utime(path, (1, 1))  # touched, the same text
    assert told(files, path) == []
    # A daemon that was started again knows it from the store.
    again = EnvFiles("h", lambda _: "", {str(path): row.digest})
    assert told(again, path) == []
    path.write_text("export NCCL_DEBUG=${NCCL_DEBUG:-INFO}\n")
    assert [(one.form, one.hard) for one in told(again, path)] == [("default", False)]
    path.unlink()
    assert [(one.path, one.gone) for one in told(again)] == [(str(path), True)]
    assert told(again) == []


def test_what_is_no_text_or_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    binary, good = tmp_path / "a.sh", tmp_path / "b.sh"
    binary.write_bytes(b"\x7fELF\0\xff" + b"NCCL_DEBUG\0=" * 90_000)
    good.write_text("export NCCL_DEBUG=INFO\n")
    rows = told(EnvFiles("h", lambda _: "", {}), tmp_path / "missing.sh", binary, tmp_path, good)
    assert [row.path for row in rows] == [str(good)]
