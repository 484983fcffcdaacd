"""NVML, the driver's own library, through nvidia-ml-py: each call may not be supported, fail, or hang.

    Nvml.open()          raises NoGpus, in words for people, where there is nothing to ask
    nvml.gpus()          handles in the driver's order
    nvml.info(gpu)       what it is
    nvml.sample(gpu)     what it reads now
    nvml.processes(gpu)  who computes on it, of MIG instances too
    nvml.wait(seconds)   the next Xid or ECC event

Only for the thread that opened it (gpu.py). What a GPU does not tell is None or "", and named in `unread`. Names and
numbers: NVIDIA's NVML reference (docs.nvidia.com/deploy/nvml-api).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import logging
import uuid as uuids
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

log = logging.getLogger("tic-daemon")

_DRIVER_SIGNS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"))
_NOT_ASKED_AGAIN = "not supported"

_XID, _DOUBLE, _SINGLE = 8, 2, 1
"""nvmlEventTypeXidCriticalError, nvmlEventTypeDoubleBitEccError, nvmlEventTypeSingleBitEccError"""
_EVENTS = {_XID: "xid", _DOUBLE: "ecc_double", _SINGLE: "ecc_single"}

_THROTTLE = (
    (0x4, "power cap"), (0x8, "hardware slowdown"), (0x10, "sync boost"), (0x20, "software thermal"),
    (0x40, "hardware thermal"), (0x80, "hardware power brake"), (0x100, "display clocks"),
)  # fmt: skip
"""nvmlClocksEventReason*; idle (1) and clocks set by the user (2) slow nothing down."""

_FABRIC_STATES = {0: "Not Supported", 1: "Not Started", 2: "In Progress", 3: "Completed"}
_FABRIC_HEALTH = (
    (0, 0x3, "degraded bandwidth"), (2, 0x3, "route recovery"), (4, 0x3, "route unhealthy"),
    (6, 0x3, "access timeout recovery"),
)  # fmt: skip
"""Shift, mask and word of parts of the health mask: 1 is true, 2 false, 0 not supported."""


class NoGpus(Exception):
    """There is nothing to watch; the text says why, and what to do if that is not meant."""


class Lost(Exception):
    """The GPU does not answer any more: fallen off the bus, or to be reset."""


class DriverLost(Exception):
    """The driver was unloaded, or NVML must be opened anew."""


@dataclass(slots=True)
class Gpu:
    """One GPU. `silent`: calls that it does not support, which are not made again."""

    handle: Any
    index: int
    uuid: str
    bus: str
    name: str
    silent: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Info:
    """What a GPU is; the columns of table gpu_info."""

    uuid: str
    gpu_index: int
    bus: str
    name: str
    driver: str
    fabric_cluster: str
    fabric_clique: int | None
    fabric_state: str
    fabric_status: str
    fabric_health: str
    mig: str
    memory_total: int | None
    unread: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a GPU reads: bytes, percent, MHz, degrees Celsius, watts, counts since the driver was loaded."""

    memory_used: int | None
    memory_total: int | None
    utilization: int | None
    sm_clock: int | None
    memory_clock: int | None
    throttle: str
    temperature: int | None
    power_w: float | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None


@dataclass(frozen=True, slots=True)
class Use:
    """A process on a GPU, as the driver names it. `mig`: the instances that it is in, or ""."""

    pid: int
    memory_used: int | None
    mig: str


@dataclass(frozen=True, slots=True)
class Told:
    """One event. `uuid` is "" if it names no GPU that is known."""

    uuid: str
    kind: str
    code: str


class Nvml:
    """An open NVML.

    Args:
        api: the module pynvml, or what answers like it.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._events: Any = None
        self._deaf: dict[str, str] = {}
        self._gpus: list[Gpu] = []
        self.driver = ""

    @classmethod
    def open(cls, load: Callable[[], Any] | None = None) -> Nvml:
        """Raises NoGpus."""
        try:
            api = (load or _pynvml)()
        except ImportError:
            if any(sign.exists() for sign in _DRIVER_SIGNS):
                raise NoGpus(
                    "an NVIDIA driver is here, but not the package to ask it: pip install 'tic-tui[gpu]'"
                ) from None
            raise NoGpus("no NVIDIA driver here") from None
        try:
            api.nvmlInit()
        except api.NVMLError as error:
            if getattr(error, "value", None) == api.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise NoGpus("no NVIDIA driver here") from error
            raise NoGpus(f"no GPU can be asked: {error}") from error
        nvml = cls(api)
        try:
            nvml._find()
        except (api.NVMLError, DriverLost) as error:
            nvml.close()
            raise NoGpus(f"no GPU can be asked: {error}") from error
        if not nvml._gpus:
            nvml.close()
            raise NoGpus("an NVIDIA driver is here, and no GPU that may be used")
        return nvml

    def close(self) -> None:
        """Lets the library go."""
        for name, args in (("nvmlEventSetFree", (self._events,)), ("nvmlShutdown", ())):
            if name == "nvmlShutdown" or self._events is not None:
                with contextlib.suppress(self._api.NVMLError):
                    getattr(self._api, name)(*args)
        self._events = None

    def gpus(self) -> list[Gpu]:
        """All GPUs that answered when it was opened."""
        return self._gpus

    def deaf(self) -> dict[str, str]:
        """By uuid, why a GPU tells no events."""
        return self._deaf

    # --- one GPU -----------------------------------------------------------------------------------------------------

    def info(self, gpu: Gpu) -> Info:
        """Raises Lost, DriverLost."""
        api = self._api
        cluster, clique, state, status, health = self._fabric(gpu)
        mode = self._ask(gpu, "nvmlDeviceGetMigMode")
        memory = self._ask(gpu, "nvmlDeviceGetMemoryInfo")
        self._ask(gpu, "nvmlDeviceGetTotalEccErrors", 1, 0)
        return Info(
            gpu.uuid, gpu.index, gpu.bus, gpu.name, self.driver, cluster, clique, state, status, health,
            "" if mode is None else "on" if mode[0] == getattr(api, "NVML_DEVICE_MIG_ENABLE", 1) else "off",
            None if memory is None else int(memory.total),
            ", ".join(sorted(name.removeprefix("nvmlDeviceGet") for name in gpu.silent)),
        )  # fmt: skip

    def sample(self, gpu: Gpu) -> Reading:
        """Raises Lost, DriverLost."""
        memory = self._ask(gpu, "nvmlDeviceGetMemoryInfo")
        rates = self._ask(gpu, "nvmlDeviceGetUtilizationRates")
        power = self._ask(gpu, "nvmlDeviceGetPowerUsage")
        reasons = self._ask(gpu, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # the name that it had before driver 535
            reasons = self._ask(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return Reading(
            None if memory is None else int(memory.used),
            None if memory is None else int(memory.total),
            None if rates is None else int(rates.gpu),
            self._ask(gpu, "nvmlDeviceGetClockInfo", 1),
            self._ask(gpu, "nvmlDeviceGetClockInfo", 2),
            "" if reasons is None else ", ".join(word for bit, word in _THROTTLE if reasons & bit),
            self._ask(gpu, "nvmlDeviceGetTemperature", 0),
            None if power is None else power / 1000,
            self._ask(gpu, "nvmlDeviceGetTotalEccErrors", 0, 0),
            self._ask(gpu, "nvmlDeviceGetTotalEccErrors", 1, 0),
        )

    def processes(self, gpu: Gpu) -> list[Use] | None:
        """Who is on it; None: it did not say this time. Raises Lost, DriverLost."""
        found: dict[tuple[int, str], Use] = {}
        call = "nvmlDeviceGetComputeRunningProcesses"
        for handle, mig in [(gpu.handle, ""), *self._instances(gpu)]:
            told = self._ask(gpu, call, handle=handle)
            if told is None and call not in gpu.silent:
                return None
            for one in told or ():
                memory = getattr(one, "usedGpuMemory", None)
                use = Use(int(one.pid), None if memory is None else int(memory), mig)
                found[(use.pid, mig)] = use
        named = {pid for pid, mig in found if mig}
        # The whole GPU lists what its instances list, too.
        return [use for (pid, mig), use in found.items() if mig or pid not in named]

    def _instances(self, gpu: Gpu) -> Iterator[tuple[Any, str]]:
        mode = self._ask(gpu, "nvmlDeviceGetMigMode")
        if mode is None or mode[0] != 1:
            return
        for number in range(self._ask(gpu, "nvmlDeviceGetMaxMigDeviceCount") or 0):
            with contextlib.suppress(self._api.NVMLError):  # there are fewer instances than there may be
                handle = self._api.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, number)
                yield handle, _text(self._api.nvmlDeviceGetUUID(handle))

    def _fabric(self, gpu: Gpu) -> tuple[str, int | None, str, str, str]:
        nothing = ("", None, "", "", "")
        api = self._api
        shape = getattr(api, "c_nvmlGpuFabricInfoV_t", None)
        told: Any = None
        if shape is not None:
            told = shape()
            told.version = getattr(api, "nvmlGpuFabricInfo_v2", ctypes.sizeof(shape) | 2 << 24)
            if self._ask(gpu, "nvmlDeviceGetGpuFabricInfoV", ctypes.byref(told)) is None:
                told = None
        if told is None:
            shape = getattr(api, "c_nvmlGpuFabricInfo_t", None)
            if shape is None:
                return nothing
            told = shape()
            if self._ask(gpu, "nvmlDeviceGetGpuFabricInfo", ctypes.byref(told)) is None:
                return nothing
        state = _FABRIC_STATES.get(told.state, f"state {told.state}")
        if told.state != 3:  # of one that is not completed the rest means nothing
            return "", None, state, "", ""
        mask = int(getattr(told, "healthMask", 0))
        health = ", ".join(word for shift, bits, word in _FABRIC_HEALTH if mask >> shift & bits == 1)
        status = "Success" if told.status == 0 else str(api.NVMLError(told.status))
        return str(uuids.UUID(bytes=bytes(told.clusterUuid))), int(told.cliqueId), state, status, health

    def _ask(self, gpu: Gpu, name: str, *args: Any, handle: Any = None) -> Any:
        """One call; None if this GPU, driver or library does not support it."""
        call = f"{name}({args[0]})" if args and isinstance(args[0], int) else name
        if call in gpu.silent:
            return None
        function = getattr(self._api, name, None)
        if function is None:
            gpu.silent.add(call)
            return None
        try:
            return function(handle or gpu.handle, *args)
        except self._api.NVMLError as error:
            code = getattr(error, "value", None)
            if code in self._codes("GPU_IS_LOST", "RESET_REQUIRED"):
                raise Lost(str(error)) from error
            if code in self._codes("UNINITIALIZED", "DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"):
                raise DriverLost(str(error)) from error
            if code in self._codes("NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION", "ARGUMENT_VERSION_MISMATCH"):
                gpu.silent.add(call)
            return None  # and what fails now may answer the next time
        except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError, ctypes.ArgumentError):
            # The package is of another time than the driver, and does not understand this one answer.
            log.debug("%s", call, exc_info=True)
            gpu.silent.add(call)
            return None

    def _codes(self, *names: str) -> set[int]:
        return {getattr(self._api, f"NVML_ERROR_{name}", -1) for name in names}

    # --- events ------------------------------------------------------------------------------------------------------

    def wait(self, milliseconds: int) -> Told | None:
        """The next event; None: none came. Raises DriverLost, Lost. Returns at once where no GPU tells any."""
        api = self._api
        if self._events is None:
            return None
        try:
            data = api.nvmlEventSetWait_v2(self._events, milliseconds)
        except api.NVMLError as error:
            code = getattr(error, "value", None)
            if code in self._codes("TIMEOUT"):
                return None
            if code in self._codes("GPU_IS_LOST"):  # which one, its next reading says
                return None
            raise DriverLost(str(error)) from error
        kind = _EVENTS.get(int(data.eventType), "")
        if not kind:
            return Told("", f"event {data.eventType}", "")
        try:
            uuid = _text(api.nvmlDeviceGetUUID(data.device))
        except api.NVMLError:
            uuid = ""
        return Told(uuid, kind, str(int(data.eventData)) if kind == "xid" else "")

    @property
    def hears(self) -> bool:
        """Whether any GPU tells events."""
        return self._events is not None

    def _find(self) -> None:
        api = self._api
        self.driver = _text(api.nvmlSystemGetDriverVersion())
        for index in range(api.nvmlDeviceGetCount()):
            try:
                handle = api.nvmlDeviceGetHandleByIndex(index)
                uuid, name = _text(api.nvmlDeviceGetUUID(handle)), _text(api.nvmlDeviceGetName(handle))
                bus = _text(api.nvmlDeviceGetPciInfo(handle).busId)
            except api.NVMLError:  # one that may not be used, or is lost
                continue
            self._gpus.append(Gpu(handle, index, uuid, bus, name))
        self._register()

    def _register(self) -> None:
        api = self._api
        try:
            events = api.nvmlEventSetCreate()
        except api.NVMLError as error:
            self._deaf = {gpu.uuid: str(error) for gpu in self._gpus}
            return
        heard = False
        for gpu in self._gpus:
            try:
                wanted = api.nvmlDeviceGetSupportedEventTypes(gpu.handle) & (_XID | _DOUBLE | _SINGLE)
                if wanted:
                    api.nvmlDeviceRegisterEvents(gpu.handle, wanted, events)
                    heard = True
                else:
                    self._deaf[gpu.uuid] = _NOT_ASKED_AGAIN
            except api.NVMLError as error:
                self._deaf[gpu.uuid] = str(error)
        self._events = events
        if not heard:
            with contextlib.suppress(api.NVMLError):
                api.nvmlEventSetFree(events)
            self._events = None


def _pynvml() -> Any:
    return importlib.import_module("pynvml")


def _text(value: object) -> str:
    """Older releases of nvidia-ml-py give bytes."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
