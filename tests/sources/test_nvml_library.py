"""The real nvidia-ml-py over a driver's library that is compiled here: names, structures and versions as NVIDIA has them.

The library answers what is tested and NOT_SUPPORTED to all else. It runs in a process of its own, since ctypes keeps what it
has loaded.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = r"""
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
enum { OK = 0, NOT_SUPPORTED = 3, TIMEOUT = 10 };
static int card, set, told;
int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { strncpy(out, "575.57.08", n); return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { *out = &card; return OK; }
int nvmlDeviceGetUUID(void *d, char *out, unsigned n) { strncpy(out, "GPU-aaaaaaaa-0000-0000-0000-000000000001", n); return OK; }
int nvmlDeviceGetName(void *d, char *out, unsigned n) { strncpy(out, "NVIDIA H100", n); return OK; }
int nvmlDeviceGetPciInfo_v3(void *d, Pci *out) { strcpy(out->bus_id, "00000000:5D:00.0"); return OK; }
int nvmlDeviceGetMemoryInfo(void *d, Memory *out) { out->total = 1000; out->free = 580; out->used = 420; return OK; }
int nvmlEventSetCreate(void **out) { *out = &set; return OK; }
int nvmlEventSetFree(void *s) { return OK; }
int nvmlDeviceGetSupportedEventTypes(void *d, unsigned long long *out) { *out = 8 | 2 | 1 | 64; return OK; }
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *s) { return types == 11 && s == &set ? OK : NOT_SUPPORTED; }
int nvmlEventSetWait_v2(void *s, Event *out, unsigned ms)
{
    if (told++) return TIMEOUT;
    out->device = &card;
    out->type = 8;
    out->data = 79;
    return OK;
}
"""
"""Of other calls pynvml says that the library has none; those that nvml.py makes are answered with NOT_SUPPORTED."""

UNSUPPORTED = (
    "UtilizationRates", "PowerUsage", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "ClockInfo", "Temperature",
    "MigMode", "ComputeRunningProcesses_v3", "GpuFabricInfo",
)  # fmt: skip
"""TotalEccErrors and GpuFabricInfoV are left out: a library of another time has not all functions."""

ASK = """
import json
from dataclasses import asdict
from tic_daemon.sources.nvml import Nvml

nvml = Nvml.open()
(gpu,) = nvml.gpus()
told = [nvml.wait(10), nvml.wait(10)]
print(json.dumps({
    "driver": nvml.driver, "hears": nvml.hears, "info": asdict(nvml.info(gpu)), "sample": asdict(nvml.sample(gpu)),
    "processes": nvml.processes(gpu), "told": [one and asdict(one) for one in told],
}))
nvml.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed: pip install 'tic-tui[gpu]'")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) to make the library with")
    place = tmp_path_factory.mktemp("nvml")
    stubs = "".join(f"int nvmlDeviceGet{name}(void *d) {{ return NOT_SUPPORTED; }}\n" for name in UNSUPPORTED)
    (place / "nvml.c").write_text(LIBRARY + stubs)
    made = ["cc", "-shared", "-fPIC", "-w", "-o", str(place / "libnvidia-ml.so.1"), str(place / "nvml.c")]
    done = subprocess.run(made, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return place


def ask(place: Path, code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(place)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_package_and_the_library_are_asked_as_nvidia_has_them(library: Path) -> None:
    done = ask(library, ASK)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["driver"], said["hears"], said["processes"]) == ("575.57.08", True, [])
    info, sample = said["info"], said["sample"]
    assert (info["uuid"], info["bus"], info["name"], info["gpu_index"], info["memory_total"]) == (
        "GPU-aaaaaaaa-0000-0000-0000-000000000001", "00000000:5D:00.0", "NVIDIA H100", 0, 1000,
    )  # fmt: skip
    assert (info["fabric_cluster"], info["fabric_clique"], info["fabric_state"], info["mig"]) == ("", None, "", "")
    assert {"GpuFabricInfoV", "GpuFabricInfo", "MigMode", "TotalEccErrors(1)"} <= set(info["unread"].split(", "))
    assert {key: value for key, value in sample.items() if value not in (None, "")} == {
        "memory_used": 420,
        "memory_total": 1000,
    }
    assert said["told"] == [{"uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000001", "kind": "xid", "code": "79"}, None]


def test_without_the_library_there_are_no_gpus_and_the_reason_is_told(library: Path) -> None:
    empty = library / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "libnvidia-ml.so.1").write_text("no library\n")
    done = ask(
        empty,
        "from tic_daemon.sources.nvml import Nvml, NoGpus\ntry:\n    Nvml.open()\nexcept NoGpus as error:\n    print(error)",
    )
    assert (done.returncode, done.stdout) == (0, "no NVIDIA driver here\n"), done.stderr
