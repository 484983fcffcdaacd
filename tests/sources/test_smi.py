"""What `nvidia-smi -q` prints, in the forms of its drivers, cut, foreign or hostile; and what the store makes of such files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tic_daemon.config import load_config
from tic_daemon.scan.events import Fault, Gap, GpuInfo, GpuProcess, GpuSample
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources.discover import Discovery
from tic_daemon.sources.smi import is_smi_name, parse, starts_as_smi
from tic_daemon.sources.smifiles import MAX_BYTES, SmiFiles, host_of
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import SourceDelta
from tic_daemon.watch import Daemon

ONE = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
TWO = "GPU-aaaaaaaa-0000-0000-0000-000000000002"
CLUSTER = "5d1c7a52-9f8e-4d0b-a1c2-0e3f4a5b6c7d"
BANNER = "\n==============NVSMI LOG==============\n\n"


def printed(width: int, *lines: str) -> str:
    """Lines "    Key: value" with the values in the driver's column."""
    out = []
    for line in lines:
        key, colon, value = line.partition(": ")
        out.append(f"{key:<{width}}: {value}" if colon else line)
    return "\n".join(out) + "\n"


def gpu(bus: str, uuid: str, *, width: int = 42, clique: str = "32766", processes: tuple[str, ...] = ()) -> str:
    return f"GPU {bus}\n" + printed(
        width,
        "    Product Name: NVIDIA GB200",
        "    MIG Mode", "        Current: Disabled", "        Pending: Enabled",
        f"    GPU UUID: {uuid}",
        "    Platform Info", "        GPU Fabric GUID: 0x1",
        "    Clocks Event Reasons", "        Idle: Not Active", "        SW Power Cap: Active", "        HW Slowdown: Not Active",
        "            HW Thermal Slowdown: Active",
        "    FB Memory Usage", "        Total: 2048 MiB", "        Reserved: 1 MiB", "        Used: 512 MiB",
        "    BAR1 Memory Usage", "        Total: 7 MiB", "        Used: 7 MiB",
        "    Utilization", "        Gpu: 87 %", "        Memory: 3 %",
        "    ECC Errors",
        "        Volatile", "            SRAM Correctable: 1", "            SRAM Uncorrectable Parity: 2",
        "            SRAM Uncorrectable SEC-DED: 3", "            DRAM Correctable: 10", "            DRAM Uncorrectable: 4",
        "        Aggregate", "            DRAM Uncorrectable: 1000",
        "    Temperature", "        GPU Current Temp: 41 C", "        GPU T.Limit Temp: 55 C",
        "    GPU Power Readings", "        Power Draw: 401.50 W", "        Current Power Limit: 700.00 W",
        "    Module Power Readings", "        Power Draw: 999.00 W",
        "    Clocks", "        Graphics: 5 MHz", "        SM: 1980 MHz", "        Memory: 3201 MHz",
        "    Max Clocks", "        SM: 9999 MHz",
        "    Fabric", "        State: Completed", "        Status: Success", f"        CliqueId: {clique}",
        f"        ClusterUUID: {CLUSTER}",
        "        Health", "            Bandwidth: Degraded", "            Route Recovery in progress: False",
        "            Route Unhealthy: True",
        *(("    Processes", *processes) if processes else ("    Processes: None",)),
    )  # fmt: skip


def text(*gpus: str, driver: str = "570.124.06", attached: int | None = None, width: int = 42) -> str:
    head = (
        "Timestamp: Mon Nov  2 09:29:52 2026", f"Driver Version: {driver}", "CUDA Version: 12.8", "",
        f"Attached GPUs: {len(gpus) if attached is None else attached}",
    )  # fmt: skip
    return BANNER + printed(width, *head) + "\n".join(gpus)


def use(pid: int, memory: str = "300 MiB") -> tuple[str, ...]:
    return (
        "        GPU instance ID: N/A", "        Compute instance ID: N/A", f"        Process ID: {pid}",
        "            Type: C", "            Name: /usr/bin/python3: trainer", f"            Used GPU Memory: {memory}",
    )  # fmt: skip


@pytest.mark.parametrize("width", [36, 42, 55])
def test_all_that_a_gpu_says(width: int) -> None:
    block = gpu("00000000:5D:00.0", ONE, width=width, processes=use(4711) + use(4712, "N/A"))
    said = parse(text(block, width=width).encode())
    assert (said.told_at, said.driver, said.attached, said.wrong) == (
        datetime(2026, 11, 2, 9, 29, 52),
        "570.124.06",
        1,
        "",
    )
    (one,) = said.gpus
    assert (one.bus, one.text("gpu uuid"), one.text("product name"), one.mig) == (
        "00000000:5D:00.0", ONE, "NVIDIA GB200", "off",
    )  # fmt: skip
    assert one.fabric == (CLUSTER, 32766, "Completed", "Success", "degraded bandwidth, route unhealthy")
    assert one.ecc == (1 + 10, 2 + 3 + 4)
    assert (one.size("fb memory usage", "total"), one.size("fb memory usage", "used")) == (
        2048 * 1024**2,
        512 * 1024**2,
    )
    assert (one.number("utilization", "gpu"), one.number("clocks", "sm"), one.number("clocks", "memory")) == (
        87,
        1980,
        3201,
    )
    assert (one.power_w, one.throttle, one.unread) == (401.5, "power cap, hardware thermal", "")
    assert [(p.pid, p.name, p.memory_used) for p in one.processes] == [
        (4711, "/usr/bin/python3: trainer", 300 * 1024**2), (4712, "/usr/bin/python3: trainer", None),
    ]  # fmt: skip


def one_gpu(*lines: str) -> Any:
    (found,) = parse(text("GPU 0000:06:00.0\n" + printed(42, *lines)).encode()).gpus
    return found


def test_other_drivers_forms() -> None:
    # 535: one count of SRAM, a fabric without ids; before: bits, and no fabric at all.
    ecc = (
        "    ECC Errors",
        "        Volatile",
        "            SRAM Uncorrectable: 2",
        "            DRAM Uncorrectable: 1",
    )
    assert one_gpu(*ecc).ecc == (None, 3)
    bits = ("    ECC Errors", "        Volatile", "            Single Bit", "                Device Memory: 4",
            "                Total: 5", "            Double Bit", "                Device Memory: 6", "                Total: 7")  # fmt: skip
    assert one_gpu(*bits).ecc == (5, 7)
    assert one_gpu("    Fabric", "        State: N/A", "        Status: N/A").fabric == ("", None, "", "", "")
    assert one_gpu("    Persistence Mode: Enabled").unread == "UUID, memory, fabric, ECC"
    # 535 and 580 name the draw and the use in other words.
    assert one_gpu("    GPU Power Readings", "        Average Power Draw: 1.00 W").power_w == 1.0
    both = ("    GPU Power Readings", "        Average Power Draw: 1.00 W", "        Instantaneous Power Draw: 95.5 W")
    assert one_gpu(*both).power_w == 95.5
    assert one_gpu("    Clocks Throttle Reasons", "        SW Power Cap: Active").throttle == "power cap"
    assert one_gpu("    Utilization", "        GPU: 6 %").number("utilization", "gpu") == 6
    assert one_gpu("    MIG Mode", "        Current: Enabled").mig == "on"
    assert one_gpu("    MIG Mode", "        Current: N/A").mig == ""
    # Not completed: ids mean nothing. 570 and later sum the health up.
    pending = ("    Fabric", "        State: In Progress", "        CliqueId: 0", f"        ClusterUUID: {CLUSTER}")
    assert one_gpu(*pending).fabric == ("", None, "In Progress", "", "")
    sick = (
        "    Fabric",
        "        State: Completed",
        "        Health",
        "            Summary: Unhealthy",
        "            Bandwidth: Full",
    )
    assert one_gpu(*sick).fabric[4] == "unhealthy"
    wrong = (
        "    Fabric",
        "        State: Completed",
        "        Health",
        "            Incorrect Configuration: Invalid Location",
    )
    assert one_gpu(*wrong).fabric[4] == "incorrect configuration: Invalid Location"
    instance = ("    Processes", "        GPU instance ID: 3", "        Compute instance ID: 0", "        Process ID: 9",
                "        Process ID: 10")  # fmt: skip
    assert [(p.pid, p.instance) for p in one_gpu(*instance).processes] == [(9, "3/0"), (10, "")]
    assert parse(text("GPU 0000:06:00.0\n    MIG Mode\n", driver="470.1").encode()).driver == "470.1"


def test_what_grep_leaves_of_it() -> None:
    part = printed(
        42,
        "    Fabric",
        "        State: Completed",
        "        Status: Success",
        "        CliqueId: 7",
        f"        ClusterUUID: {CLUSTER}",
    )
    said = parse(f"{part}--\n{part.replace(': 7', ': 8')}".encode())
    assert [one.fabric[:2] for one in said.gpus] == [(CLUSTER, 7), (CLUSTER, 8)]
    assert (said.wrong, {one.bus for one in said.gpus}) == ("", {""})


def test_of_several_printouts_the_last_counts() -> None:
    first, last = text(gpu("00000000:01:00.0", ONE)), text(gpu("00000000:01:00.0", ONE, clique="5"))
    data = (first + last).encode()
    (one,) = parse(data).gpus
    assert one.fabric[1] == 5
    assert data[one.byte_offset :].startswith(b"GPU 00000000:01:00.0\n")
    assert data.decode().splitlines()[one.line_no - 1] == "GPU 00000000:01:00.0"


def test_a_cut_text_says_so() -> None:
    whole = text(gpu("00000000:01:00.0", ONE), gpu("00000000:02:00.0", TWO))
    assert parse(whole.encode()).wrong == ""
    assert parse(whole.replace("\n", "\r\n").encode()).gpus[1].fabric[0] == CLUSTER
    assert parse(text(gpu("00000000:01:00.0", ONE), attached=8).encode()).wrong == "8 GPUs are attached, 1 are told of"
    second = whole.index("GPU 00000000:02")
    for cut in range(second + 30, len(whole) - 1, 97):
        assert "it ends within a GPU" in parse(whole[:cut].encode()).wrong, whole[cut - 30 : cut]
    alone = text(gpu("00000000:01:00.0", ONE))
    assert parse(alone[: alone.index("    Fabric")].encode()).wrong == "it ends within a GPU"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 5000, b"\xff\xfe=\0=\0", b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        b"| NVIDIA-SMI 550.127.05   Driver Version: 550.127.05 |\n|  0  NVIDIA H100  On |\n", b" " * 200_000 + b"a" + b" " * 200_000 + b":b",
        b"a:" * 200_000, ("\n".join(" " * n + "k:" for n in range(3000))).encode(), b"Fabric : x\n",
    ],
)  # fmt: skip
def test_what_is_no_such_text_is_refused_in_words_and_at_once(data: bytes) -> None:
    began = time.process_time()
    said = parse(data)
    assert (said.gpus, said.wrong) == ((), "it names no GPU as `nvidia-smi -q` does")
    assert time.process_time() - began < 5


def test_more_than_the_limit_is_left_out_and_counted() -> None:
    many = "".join(f"GPU 0000:{n % 256:02X}:00.{n % 8}\n    Fabric\n" for n in range(1030))
    said = parse((BANNER + many).encode())
    assert (len(said.gpus), said.wrong) == (1024, "6 GPUs or processes beyond the limit are left out")
    odd = parse(text(gpu("00000000:01:00.0", "x" * 5000, processes=use(10**12))).encode()).gpus[0]
    assert (len(odd.text("gpu uuid")), odd.processes) == (200, [])


def test_names_of_files_and_hosts() -> None:
    named = ("nvidia-smi.txt", "nvidia-smi-q.txt", "nvidia_smi_node7.log", "smi.txt", "smi-after.txt", "NVIDIA-SMI.TXT")
    assert all(map(is_smi_name, named))
    assert not any(
        map(is_smi_name, ("smile.txt", "osmi.txt", "nvidia-smi.py", "train.log", "nvidia-smi.txt.gz", "smi"))
    )
    assert starts_as_smi(BANNER.encode()) and not starts_as_smi(b"x" + BANNER.encode())
    for path, host in {
        "/r/nvidia-smi.txt": "", "/r/nvidia-smi-before.txt": "", "/runs/rank3/smi.txt": "", "/r/step100/nvidia-smi-2.txt": "",
        "/r/nvidia-smi-node07.txt": "node07", "/r/nvidia_smi_q_gb200-3-12.log": "gb200-3-12", "/r/smi.nid001234.txt": "nid001234",
        "/r/node12/nvidia-smi.txt": "node12", "/r/node12/gpus.txt": "node12", "/r/smi-a7.prod.cluster.local.txt": "a7.prod.cluster.local",
        "/r/arm-a/nvidia-smi.txt": "", "/r/smi_ip-10-0-0-7_after.txt": "ip-10-0-0-7",
    }.items():  # fmt: skip
        assert host_of(path) == host, path
    assert host_of("/r/node1/smi.txt", "other") == "other"


# --- files ----------------------------------------------------------------------------------------------------------------


def read(files: SmiFiles, *paths: Path) -> list[SourceDelta]:
    files.finish([(str(path), str(path.parent)) for path in paths], 20.0)
    return files.take()


def of(delta: SourceDelta, kind: type[Any]) -> list[Any]:
    return [event for event in delta.events if isinstance(event, kind)]


def test_a_file_is_read_again_when_its_text_changes(tmp_path: Path) -> None:
    path = tmp_path / "gpus.txt"
    path.write_text(text(gpu("00000000:5D:00.0", ONE, processes=use(4711))))
    other, missing, folder = tmp_path / "notes.txt", tmp_path / "no.txt", tmp_path / "smi.txt"
    other.write_text("nvidia-smi -q was run\n")
    folder.mkdir()
    files = SmiFiles(lambda _: "", lambda _: "", lambda: None)
    (delta,) = read(files, missing, folder, other, path)
    (info,) = of(delta, GpuInfo)
    (sample,) = of(delta, GpuSample)
    (process,) = of(delta, GpuProcess)
    assert (info.origin, info.uuid, info.gpu_index, info.fabric_clique, info.memory_total) == (
        "nvidia-smi", ONE, 0, 32766, 2048 * 1024**2,
    )  # fmt: skip
    assert (info.at.stamp, info.at.stamp_utc, info.at.line_no) == (
        datetime(2026, 11, 2, 9, 29, 52),
        False,
        sample.at.line_no,
    )
    assert (sample.memory_used, sample.ecc_uncorrected, process.gpu_pid, process.at.pid) == (
        512 * 1024**2,
        9,
        4711,
        None,
    )
    assert (delta.source.host, delta.source.generation, of(delta, Gap)) == ("", 0, [])
    os.utime(path, (1, 1))
    assert read(files, other, path) == []
    path.write_text("gone\n")
    assert read(files, path) == []  # its first line says no more that it is one
    path.write_text(text(gpu("00000000:5D:00.0", ONE, clique="1"), attached=4))
    (delta,) = read(files, path)
    assert (delta.source.generation, of(delta, GpuInfo)[0].gpu_index, of(delta, GpuInfo)[0].fabric_clique) == (
        1,
        None,
        1,
    )
    assert [(gap.kind, gap.detail) for gap in of(delta, Gap)] == [("smi_cut", "4 GPUs are attached, 1 are told of")]


def test_a_file_that_grows_for_ever_is_read_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "smi.txt"
    one = text(gpu("00000000:5D:00.0", ONE))
    path.write_text(one * (MAX_BYTES // len(one) + 2) + text(gpu("00000000:5D:00.0", ONE, clique="3")))
    (delta,) = read(SmiFiles(lambda _: "", lambda _: "", lambda: None), path)
    (info,) = of(delta, GpuInfo)
    assert info.fabric_clique == 3
    with path.open("rb") as whole:
        whole.seek(info.at.byte_offset)
        assert whole.readline() == b"GPU 00000000:5D:00.0\n"
    (gap,) = of(delta, Gap)
    assert (gap.kind, gap.first_byte, gap.last_byte) == (
        "smi_cut",
        path.stat().st_size - MAX_BYTES,
        path.stat().st_size,
    )


def test_discovery_finds_them_and_still_follows_logs(tmp_path: Path) -> None:
    for name in ("nvidia-smi.log", "gpus.txt", "smi.txt", "data.csv", ".tic/smi.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text(gpu("00000000:5D:00.0", ONE)))
    survey = Discovery([tmp_path], load_config(None, workspace=tmp_path)).survey()
    assert sorted(Path(path).name for path, _ in survey.smi_files) == ["gpus.txt", "nvidia-smi.log", "smi.txt"]
    assert [Path(one.path).name for one in survey.candidates] == ["nvidia-smi.log"]
    (tmp_path / "tic.toml").write_text('exclude = ["*.txt"]\n')
    hidden = Discovery([tmp_path], load_config(None, workspace=tmp_path)).survey()
    assert [Path(path).name for path, _ in hidden.smi_files] == ["nvidia-smi.log"]


def test_as_a_log_it_is_no_fault() -> None:
    block = gpu("00000000:5D:00.0", ONE, processes=use(4711))
    events = Scanner(RuleSet.load(())).open(SourceTraits()).feed(text(block, block).encode())
    assert not [event for event in events if isinstance(event, Fault)]


# --- in the store -----------------------------------------------------------------------------------------------------------


def once(root: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    """One daemon that reads what is there; then what its store answers."""
    config = load_config(None, workspace=root)
    assert Daemon([root], config, StoreLayout.find(root), listen=None).run_once()

    def ask(sql: str) -> list[tuple[Any, ...]]:
        reader = open_reader(str(root))
        try:
            return [tuple(row) for row in reader.query(sql).rows]
        finally:
            reader.close()

    return ask


def test_same_fabric_from_files_of_two_nodes(tmp_path: Path) -> None:
    root = tmp_path / "results"
    for number, arm in ((1, "a"), (2, "b")):
        (root / arm).mkdir(parents=True)
        uuid = (ONE, TWO)[number - 1]
        (root / arm / f"nvidia-smi-node{number}.txt").write_text(
            text(gpu("00000000:5D:00.0", uuid, processes=use(4711)))
        )
        record = {"step": 1, "rollout_logprob": -1.0, "trainer_logprob": -1.0}
        (root / arm / "train.log").write_text(f"plain line {json.dumps(record)}\n")
    (root / "a" / "smi.txt").write_text("+------+\n| NVIDIA-SMI 550 |\n")
    ask = once(root)
    rows = ask(
        "SELECT host, gpu_index, uuid, fabric_cluster, fabric_clique, ecc_uncorrected, processes, origin, told_at, read_at, why FROM gpus ORDER BY host"
    )
    when = datetime(2026, 11, 2, 9, 29, 52)
    assert rows == [
        ("node1", 0, ONE, CLUSTER, 32766, 9, 1, "nvidia-smi", when, None, ""),
        ("node2", 0, TWO, CLUSTER, 32766, 9, 1, "nvidia-smi", when, None, ""),
    ]
    same = "SELECT count(DISTINCT (fabric_cluster, fabric_clique)) = 1 FROM gpus"
    assert ask(same) == [(True,)]
    gaps = ask("SELECT kind, path, detail FROM evidence_gaps")
    assert gaps == [("smi_foreign", str(root / "a" / "smi.txt"), "it names no GPU as `nvidia-smi -q` does")]
    assert ask("SELECT DISTINCT why, state FROM gpu_processes") == [
        ("a file tells of it, and not when it was started", "using")
    ]
    (root / "b" / "nvidia-smi-node2.txt").write_text(text(gpu("00000000:5D:00.0", TWO, clique="4")))
    ask = once(root)
    assert ask(same) == [(False,)]
    assert ask("SELECT host, processes FROM gpus ORDER BY host") == [("node1", 1), ("node2", 0)]
