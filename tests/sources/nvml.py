"""A driver that tests write: what `pynvml` answers, call by call, with the same names, errors and shapes."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

ERRORS = {
    "UNINITIALIZED": 1, "NOT_SUPPORTED": 3, "NO_PERMISSION": 4, "DRIVER_NOT_LOADED": 9, "TIMEOUT": 10,
    "LIBRARY_NOT_FOUND": 12, "FUNCTION_NOT_FOUND": 13, "GPU_IS_LOST": 15, "RESET_REQUIRED": 16,
    "LIB_RM_VERSION_MISMATCH": 18, "UNKNOWN": 999,
}  # fmt: skip
"""nvmlReturn_t of NVIDIA's nvml.h."""


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return next((name for name, number in ERRORS.items() if number == self.value), "?")


class Fabric(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint), ("clusterUuid", ctypes.c_uint8 * 16), ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32), ("state", ctypes.c_uint), ("healthMask", ctypes.c_uint32),
    ]  # fmt: skip


@dataclass
class Card:
    """One GPU of the fake. `instances`: uuid of a MIG instance to its pids."""

    uuid: str
    bus: str
    pids: list[int] = field(default_factory=list)
    instances: dict[str, list[int]] = field(default_factory=dict)
    cluster: bytes = bytes(16)
    clique: int = 0
    fabric: int = 0
    health: int = 0
    used: int = 0
    busy: int = 0
    ecc: int = 0
    throttle: int = 0
    lost: bool = False


class FakeNvml:
    """Stands for the module pynvml. `refuse`: calls that are not supported; `fail`: that fail this time; `odd`: whose
    answer the package does not understand; `hang`: calls that wait for it."""

    NVMLError = NVMLError
    c_nvmlGpuFabricInfoV_t = Fabric
    nvmlGpuFabricInfo_v2 = ctypes.sizeof(Fabric) | 2 << 24

    def __init__(self, *cards: Card) -> None:
        self.cards = list(cards)
        self.refuse: set[str] = set()
        self.fail: set[str] = set()
        self.odd: set[str] = set()
        self.hang: threading.Event | None = None
        self.down = False
        self.calls: list[str] = []
        self.told: queue.Queue[tuple[Card, int, int]] = queue.Queue()
        for name, value in ERRORS.items():
            setattr(self, f"NVML_ERROR_{name}", value)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        answer = getattr(type(self), f"do_{name.removeprefix('nvmlDevice')}", None)

        def call(*args: Any) -> Any:
            self.calls.append(name)
            if self.hang is not None:
                self.hang.wait(30)
            if self.down and name != "nvmlShutdown":
                raise NVMLError(ERRORS["DRIVER_NOT_LOADED" if name == "nvmlInit" else "UNINITIALIZED"])
            if args and isinstance(args[0], Card) and args[0].lost:
                raise NVMLError(ERRORS["GPU_IS_LOST"])
            if name in self.fail:
                raise NVMLError(ERRORS["UNKNOWN"])
            if name in self.odd:
                raise ValueError("bad size")
            if name in self.refuse or answer is None:
                raise NVMLError(ERRORS["NOT_SUPPORTED"])
            return answer(self, *args)

        return call

    def do_nvmlInit(self) -> None: ...
    def do_nvmlShutdown(self) -> None: ...

    def do_nvmlSystemGetDriverVersion(self) -> str:
        return "575.57.08"

    def do_GetCount(self) -> int:
        return len(self.cards)

    def do_GetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def do_GetUUID(self, card: Any) -> str:
        return card.uuid if isinstance(card, Card) else card[1]

    def do_GetName(self, card: Card) -> bytes:
        return b"NVIDIA GB200"  # as older releases give it

    def do_GetPciInfo(self, card: Card) -> Any:
        return SimpleNamespace(busId=card.bus)

    def do_GetMemoryInfo(self, card: Card) -> Any:
        return SimpleNamespace(total=1000, used=card.used)

    def do_GetUtilizationRates(self, card: Card) -> Any:
        return SimpleNamespace(gpu=card.busy)

    def do_GetPowerUsage(self, card: Card) -> int:
        return 401500

    def do_GetCurrentClocksEventReasons(self, card: Card) -> int:
        return card.throttle

    def do_GetClockInfo(self, card: Card, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]

    def do_GetTemperature(self, card: Card, sensor: int) -> int:
        return 41

    def do_GetTotalEccErrors(self, card: Card, kind: int, counter: int) -> int:
        return card.ecc if kind == 1 else 7

    def do_GetMigMode(self, card: Card) -> list[int]:
        return [int(bool(card.instances))] * 2

    def do_GetMaxMigDeviceCount(self, card: Card) -> int:
        return 7

    def do_GetMigDeviceHandleByIndex(self, card: Card, number: int) -> Any:
        if number >= len(card.instances):
            raise NVMLError(6)  # NVML_ERROR_NOT_FOUND
        return card, list(card.instances)[number]

    def do_GetComputeRunningProcesses(self, card: Any) -> list[Any]:
        if isinstance(card, Card):
            pids = card.pids + [pid for instance in card.instances.values() for pid in instance]
        else:
            pids = card[0].instances[card[1]]
        return [SimpleNamespace(pid=pid, usedGpuMemory=None, gpuInstanceId=0xFFFFFFFF) for pid in pids]

    def do_GetGpuFabricInfoV(self, card: Card, out: Any) -> int:
        told = out._obj
        if told.version != self.nvmlGpuFabricInfo_v2:
            raise NVMLError(ERRORS["UNKNOWN"])
        told.clusterUuid = (ctypes.c_uint8 * 16)(*card.cluster)
        told.cliqueId, told.state, told.status, told.healthMask = card.clique, card.fabric, 0, card.health
        return 0  # NVML_SUCCESS

    def do_nvmlEventSetCreate(self) -> object:
        return object()

    def do_nvmlEventSetFree(self, events: object) -> None: ...

    def do_GetSupportedEventTypes(self, card: Card) -> int:
        return 0xB

    def do_RegisterEvents(self, card: Card, kinds: int, events: object) -> None: ...

    def do_nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:
        try:
            card, kind, data = self.told.get(timeout=timeout_ms / 1000)
        except queue.Empty:
            raise NVMLError(ERRORS["TIMEOUT"]) from None
        return SimpleNamespace(device=card, eventType=kind, eventData=data)
