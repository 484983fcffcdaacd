"""What paths tell. Names are those that the products write (Ray, torchrun, Slurm, Kubernetes, prime-rl)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.sources.layouts import facts_of, log_name
from tic_daemon.sources.mounts import Mounts, is_network, parse
from tic_daemon.sources.rotation import piece_of
from tic_daemon.sources.sniff import why_not_a_log

WORKER = "0123456789abcdef" * 3 + "01234567"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            f"/tmp/ray/session_2026-11-29_14-00-00_1/logs/worker-{WORKER}-01000000-4521.err",
            {"framework": "ray", "pid": 4521, "stream": "stderr", "single_process": True, "role": "unknown"},
        ),
        (f"/r/logs/worker-{WORKER}-ffffffff-77.out", {"framework": "ray", "pid": 77, "stream": "stdout"}),
        ("/r/python-core-driver-01000000ffff_99.log", {"framework": "ray", "pid": 99, "role": "driver"}),
        ("/r/job-driver-raysubmit_abc.log", {"role": "driver", "console": True}),
        ("/r/session_x/logs/raylet.out", {"framework": "ray", "role": "scheduler", "stream": "stdout"}),
        ("/r/session_x/logs/monitor.log", {"framework": "ray", "role": "scheduler"}),
        ("/r/monitor.log", {"framework": "plain", "role": "unknown"}),
        (
            "/d/none_abc/attempt_0/3/stderr.log",
            {"framework": "torchrun", "rank": 3, "stream": "stderr", "single_process": True},
        ),
        ("/d/trainer/torchrun/none_x/attempt_1/0/stdout.log", {"rank": 0, "stream": "stdout"}),
        ("/d/attempt_0/x/stdout.log", {"framework": "plain", "rank": None}),
        ("/w/slurm-4711.out", {"framework": "slurm", "console": True, "role": "unknown", "rank": None}),
        ("/w/slurm-4711_2.out", {"framework": "slurm", "console": True}),
        ("/w/slurm-4711-3.err", {"framework": "slurm", "rank": 3, "stream": "stderr", "console": False}),
        ("/w/grpo-train-4711.out", {"framework": "slurm", "role": "trainer"}),
        (
            "/var/log/pods/ml_trainer-0_0f0e0d0c-1111-2222-3333-444455556666/main/2.log",
            {"framework": "kubernetes", "role": "trainer"},
        ),
        ("/o/logs/attempt_2/inference.log", {"framework": "prime-rl", "role": "rollout"}),
        ("/o/logs/attempt_2/orchestrator.log", {"framework": "prime-rl", "role": "driver", "console": True}),
        ("/var/log/kern.log", {"role": "kernel"}),
        ("/w/node3.kmsg.log", {"role": "kernel"}),
        ("/w/dmesg-node3.txt", {"role": "kernel"}),
        ("/w/rank_3.log", {"rank": 3, "single_process": True}),
        ("/w/global_rank12.log", {"rank": 12}),
        ("/w/worker-2.err", {"rank": 2, "stream": "stderr", "single_process": False}),
        ("/w/worker-deadbeef.log", {"rank": None}),
        ("/w/frank_3.log", {"rank": None}),
        ("/w/trainer.log", {"role": "trainer"}),
        ("/w/vllm0.log", {"role": "rollout"}),
        ("/w/sglang_server.log", {"role": "rollout"}),
        ("/w/constrained.log", {"role": "unknown"}),
        ("/w/rollout/stdout.log", {"role": "rollout", "stream": "stdout"}),
        ("/w/wandb/run-20261129_141500-abc123/files/output.log", {"console": True, "run_hint": "abc123"}),
        ("/w/wandb/offline-run-20261129_141500-x/files/output.log", {"run_hint": "x"}),
        ("/w/results/grpo-a/log.txt", {"run_hint": "grpo-a"}),
        ("/w/results/log.txt", {"run_hint": ""}),
        ("/w/steps/12/grpo-b/x.log", {"run_hint": "grpo-b"}),
        ("/w/results/outer/steps/1/inner/x.log", {"run_hint": "inner"}),
        ("/w/rank_99999999999999999999.log", {"rank": None}),
    ],
)
def test_paths(path: str, expected: dict[str, object]) -> None:
    facts = facts_of(path)
    assert {key: getattr(facts, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "sure"),
    [
        ("a.log", "log"), ("a.OUT", "log"), ("x.err", "log"), ("nohup.out", "log"), ("stdout", "log"),
        ("train_log.txt", "maybe"), ("requirements.txt", ""), ("model.safetensors", ""), ("catalog.json", ""),
        ("events.out.tfevents.17.host", ""), ("dmesg.0", "log"), ("console.txt", "maybe"),
    ],
)  # fmt: skip
def test_which_names_are_logs(name: str, sure: str) -> None:
    assert log_name(name) == sure


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("x.log", "x.log"), ("x.log.1", "x.log"), ("x.log.2.gz", "x.log"), ("x.log.gz", "x.log"),
        ("x.log-20261129", "x.log"), ("x.log.2026-11-29_14", "x.log"), ("0.log.20261129-141500.gz", "0.log"),
        ("slurm-20261129.out", "slurm-20261129.out"), ("run-20261129", "run-20261129"), ("v1.2", "v1.2"),
        ("syslog.3", "syslog"), (".gz", ".gz"), ("", ""),
    ],
)  # fmt: skip
def test_rotated_names(name: str, base: str) -> None:
    assert piece_of(name).base == base


def test_pieces_sort_from_the_oldest() -> None:
    names = ["x.log", "x.log.1", "x.log.1.gz", "x.log.10", "x.log.2.gz", "x.log-20261129", "x.log-20261128.gz"]
    assert sorted(names, key=lambda name: piece_of(name).age) == [
        "x.log-20261128.gz", "x.log-20261129", "x.log.10", "x.log.2.gz", "x.log.1.gz", "x.log.1", "x.log",
    ]  # fmt: skip


@given(st.text(max_size=60))
def test_any_name_is_safe(name: str) -> None:
    piece = piece_of(name)
    assert name.startswith(piece.base)
    facts_of(f"/x/{name.replace('/', '_')}")


def test_mounts() -> None:
    table = (
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "28 27 0:21 / /home rw - nfs4 server:/home rw\n"
        "29 27 0:22 / /home/me/local\\040disk rw shared:1 - xfs /dev/vdb rw\n"
        "30 27 0:23 / /mnt/s3 rw - fuse.s3fs s3fs rw\n"
        "broken line\n"
    )
    mounts = Mounts(parse(table))
    assert not mounts.of("/var/x").network
    assert mounts.of("/home/me/a.log").network and mounts.of("/home/me/a.log").fstype == "nfs4"
    assert not mounts.of("/home/me/local disk/a.log").network
    assert not mounts.of("/homeless/a.log").network
    assert mounts.of("/mnt/s3/x").network
    assert Mounts([]).of("/x").network is False
    assert is_network("lustre") and is_network("9p") and not is_network("tmpfs") and not is_network("fuse.lxcfs")


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"step 1\n", ""),
        (b"", ""),
        (b"\0" * 4096, ""),
        (bytes(range(256)) * 4, ""),
        (b"PK\x03\x04rest", "zip"),
        (b"12345678DUCK", "DuckDB"),
        (b"PAR1", "Parquet"),
        ((100).to_bytes(8, "little") + b'{"weight":', "safetensors"),
        (b":W&B\x19\xe1\x00", "W&B"),
        (b"tic-daemon log 1\n", "our own"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"x" * 257 + b"ustar\0", "tar"),
    ],
)
def test_sniffing_a_log(head: bytes, why: str) -> None:
    said = why_not_a_log(head, named_like_log=True)
    assert (why in said) if why else said == ""


def test_a_vague_name_must_look_like_text() -> None:
    assert why_not_a_log(bytes(range(256)), named_like_log=False) == "binary"
    assert why_not_a_log("größe\n".encode() * 100, named_like_log=False) == ""
