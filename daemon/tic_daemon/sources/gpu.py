"""GPUs of this machine: Xid and ECC events as they happen, and readings that are thinned when they are written.

    watch = GpuWatch(host, root, every_s, faults, wake)
    watch.start()           a thread of its own asks the driver
    deltas = watch.take()   what it learnt since; never waits
    watch.stop()            never waits either

A call into the driver may hang for ever. It hangs the thread alone, which is a daemon thread and is left behind at the
end; when nothing came back for `SILENT_S`, `take` says so once.

The store is append-only, so readings are thinned here: one is written when it differs from the last written one by more
than noise, with the one before it, so that the edge is seen; else one in `HEARTBEAT_S`.

An Xid is a fault as in the kernel's log: it is put as the line that the kernel prints and given to the rules, so that
kind, severity and a user's own classes are the same. NVML counts no time; an event lies between the last wait that came
back empty and now.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from tic_daemon.scan.events import At, Event, Fault, Gap, GpuEvent, GpuInfo, GpuProcess, GpuSample
from tic_daemon.sources.nvml import DriverLost, Gpu, Lost, NoGpus, Nvml, Reading, Told
from tic_daemon.sources.processes import Process, look_at
from tic_daemon.store.rows import SourceDelta, SourceRow, source_id

log = logging.getLogger("tic-daemon")

KIND = "gpu"
HEARTBEAT_S = 300.0
"""A reading is written at least this often."""
INFO_S = 60.0
"""How often it is looked whether what a GPU is has changed: its place in the fabric, MIG."""
SILENT_S = 60.0
"""No answer of the driver for so long is a gap."""
REOPEN_S = 60.0
"""How often a driver that was unloaded is looked for again."""
_WAITING = 4096
"""Events kept for a store that is full; then the oldest go, and a gap says so."""

Faults = Callable[[str], Sequence[Fault]]
"""The faults that the rules find in one line of the kernel's log."""


class GpuWatch:
    """See the module.

    Args:
        host: as in all rows. root: the watched root that unmapped faults of GPUs belong to, as a kernel log there.
        every_s: seconds between two readings.
        faults: see `Faults`; called in `take`'s thread alone.
        wake: called from the thread when there is something to take.
        stored: the source as the store knows it.
        opened: opens the driver; raises NoGpus.
        look: what /proc tells of a pid.
    """

    def __init__(
        self,
        host: str,
        root: str,
        every_s: float,
        faults: Faults,
        wake: Callable[[], None],
        *,
        stored: Callable[[int], SourceRow | None] = lambda _id: None,
        opened: Callable[[], Nvml] = Nvml.open,
        look: Callable[[int], Process | None] = look_at,
        silent_s: float = SILENT_S,
    ) -> None:
        self._every_s, self._faults, self._wake, self._opened, self._look = every_s, faults, wake, opened, look
        self._silent_s = silent_s
        number = source_id(host, KIND, "nvml")
        before = stored(number)
        self._row = SourceRow(
            number, KIND, host, root, "nvml", role="kernel", framework="nvml",
            generation=before.generation + 1 if before else 0,
            first_seen_at=before.first_seen_at if before else utcnow(),
        )  # fmt: skip
        self._count = 0
        self._queue: deque[tuple[datetime, int, Any]] = deque()
        self._lost_count = 0
        self._stop = threading.Event()
        self._answered = time.monotonic()
        self._silent = False
        self._asking = False
        self._thread: threading.Thread | None = None
        self._state = _Written()
        self.why = "not started"
        """In words, what is watched, or why nothing is."""

    def start(self) -> None:
        """Starts the thread."""
        self._answered, self._asking = time.monotonic(), True
        self._thread = threading.Thread(target=self._run, name="tic-gpu", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Tells the thread to end; does not wait: it may hang in the driver."""
        self._stop.set()

    def take(self) -> list[SourceDelta]:
        """What was learnt since the last call."""
        self._look_for_silence()
        if not self._queue:
            return []
        events: list[Event] = []
        while self._queue:
            stamp, res_us, told = self._queue.popleft()
            if isinstance(told, _Fault):
                events += self._as_faults(told, stamp, res_us)
            else:
                events.append(self._placed(told, stamp, res_us))
        if self._lost_count:
            detail = f"{self._lost_count} readings were not kept: the store could not be written"
            events.append(self._placed(Gap(_AT, "gpu_readings_lost", 0, 0, detail), utcnow(), 0))
            self._lost_count = 0
        self._row = replace(self._row, why=self.why)
        return [SourceDelta(self._row, events=tuple(events))]

    def _look_for_silence(self) -> None:
        if not self._asking or self._silent or time.monotonic() - self._answered < self._silent_s:
            return
        self._silent = True
        detail = f"the driver has not answered for {self._silent_s:.0f} s; nothing is known of its GPUs since"
        log.warning("GPUs: %s", detail)
        self._put(Gap(_AT, "gpu_silent", 0, 0, detail))
        for gpu in list(self._state.known.values()):
            self._put(GpuEvent(_AT, gpu.uuid, gpu.bus, "silent", "", detail))

    def _placed(self, event: Any, stamp: datetime, res_us: int) -> Event:
        self._count += 1
        at = At(
            self._count - 1, 1, self._count, stamp=stamp, stamp_res_us=max(1, res_us), stamp_utc=True,
            pid=event.at.pid,
        )  # fmt: skip
        return replace(event, at=at)  # type: ignore[no-any-return]

    def _as_faults(self, told: _Fault, stamp: datetime, res_us: int) -> list[Event]:
        found = [fault for fault in self._faults(told.line) if fault.verdict == "confirmed"]
        return [self._placed(replace(fault, at=_AT, node="", raw=told.raw), stamp, res_us) for fault in found]

    def _put(self, event: Any, stamp: datetime | None = None, res_us: int = 1) -> None:
        if len(self._queue) >= _WAITING:
            self._queue.popleft()
            self._lost_count += 1
        self._queue.append((stamp or utcnow(), res_us, event))

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._ask_until_stopped()
        finally:
            self._asking = False

    def _ask_until_stopped(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                nvml = self._opened()
            except NoGpus as error:
                self.why = f"GPUs are not watched: {error}"
                if said != self.why:
                    said = self.why
                    log.info("%s", said)
                if not self._state.known:
                    return  # as most machines are
                self._answered = time.monotonic()
                self._stop.wait(REOPEN_S)
                continue
            except Exception:  # a library of another time; the daemon goes on without
                log.exception("GPUs are not watched")
                self.why = "GPUs are not watched: the driver's library answered what is not understood"
                return
            try:
                self._follow(nvml)
            except DriverLost as error:
                self._driver_lost(str(error))
                self._stop.wait(min(REOPEN_S, self._every_s))
            except Exception:
                log.exception("GPUs are not watched any more")
                self._driver_lost("what the driver's library answered is not understood")
                return
            finally:
                nvml.close()

    def _driver_lost(self, why: str) -> None:
        detail = f"the driver was lost: {why}"
        self.why = f"GPUs are not watched: {detail}"
        log.warning("%s", self.why)
        self._put(Gap(_AT, "gpu_driver_lost", 0, 0, detail))
        for gpu in self._state.known.values():
            self._put(GpuEvent(_AT, gpu.uuid, gpu.bus, "driver_lost", "", detail))
        self._state.lost.update(self._state.known)
        self._answered = time.monotonic()
        self._wake()

    def _follow(self, nvml: Nvml) -> None:
        count = len(nvml.gpus())
        self.why = f"{count} {'GPU' if count == 1 else 'GPUs'}, driver {nvml.driver}, read every {self._every_s:g} s"
        log.info("watching %s", self.why)
        quiet_at = utcnow()
        due = info_due = 0.0
        for uuid, why in nvml.deaf().items():
            log.info("%s tells no Xid and ECC events: %s", uuid, why)
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= due:
                due = now + self._every_s
                for gpu in nvml.gpus():
                    self._read(nvml, gpu, now, info=now >= info_due)
                if now >= info_due:
                    info_due = now + INFO_S
                self._heard_from()
            began, began_at = time.monotonic(), utcnow()
            left = max(0.0, due - began)
            if not nvml.hears:
                self._stop.wait(left)
                self._heard_from()
                continue
            # Short waits, so that an end is heard; each costs a few microseconds.
            told = nvml.wait(int(min(left, 1.0) * 1000))
            self._heard_from()
            if told is None:
                quiet_at = began_at
            else:
                at = utcnow()
                gpus = [gpu for gpu in nvml.gpus() if gpu.uuid == told.uuid]
                self._tell(gpus[0] if gpus else None, told, quiet_at, at)
                self._wake()

    def _heard_from(self) -> None:
        self._answered = time.monotonic()
        if self._silent:
            self._silent = False
            log.info("GPUs: the driver answers again")
            for gpu in self._state.known.values():
                self._put(GpuEvent(_AT, gpu.uuid, gpu.bus, "back", "", "the driver answers again"))
            self._wake()

    def _tell(self, gpu: Gpu | None, told: Told, since: datetime, at: datetime) -> None:
        uuid, bus = (gpu.uuid, gpu.bus) if gpu else (told.uuid, "")
        res_us = max(1, int((at - since).total_seconds() * 1e6))
        self._put(GpuEvent(_AT, uuid, bus, told.kind, told.code, ""), since, res_us)
        if not bus:
            return
        code = told.code if told.kind == "xid" else "48" if told.kind == "ecc_double" else ""
        # The driver tells of a double bit error twice: by its own kind and as Xid 48.
        last = self._state.told_48.get(uuid)
        if code == "48":
            self._state.told_48[uuid] = time.monotonic()
            if last is not None and time.monotonic() - last < 5.0:
                return
        if code:
            line = f"kernel: [0.000000] NVRM: Xid (PCI:{bus}): {code}, told by NVML"
            raw = f"NVML: {'Xid ' + code if told.kind == 'xid' else 'double bit ECC error'} of {uuid} at {bus}"
            self._put(_Fault(line, raw), since, res_us)

    def _read(self, nvml: Nvml, gpu: Gpu, now: float, *, info: bool) -> None:
        state = self._state
        state.known.setdefault(gpu.uuid, gpu)
        began = utcnow()
        try:
            reading = nvml.sample(gpu)
            if info:
                self._note_info(nvml, gpu)
            uses = nvml.processes(gpu)
        except Lost as error:
            self._lost(gpu, str(error))
            return
        if gpu.uuid in state.lost:
            state.lost.discard(gpu.uuid)
            self._put(GpuEvent(_AT, gpu.uuid, gpu.bus, "back", "", "it answers again"))
        state.good_at[gpu.uuid] = began
        self._note_reading(gpu, reading, began, now)
        if uses is not None:
            self._note_processes(gpu, {(use.pid, use.mig): use.memory_used for use in uses}, began)

    def _lost(self, gpu: Gpu, why: str) -> None:
        state = self._state
        if gpu.uuid in state.lost:
            return
        state.lost.add(gpu.uuid)
        at = utcnow()
        since = state.good_at.get(gpu.uuid, at)
        res_us = max(1, int((at - since).total_seconds() * 1e6))
        detail = f"it does not answer any more: {why}"
        self._put(GpuEvent(_AT, gpu.uuid, gpu.bus, "lost", "", detail), since, res_us)
        line = f"kernel: [0.000000] NVRM: GPU {gpu.bus}: GPU has fallen off the bus."
        self._put(_Fault(line, f"NVML: {gpu.uuid} at {gpu.bus}: {why}"), since, res_us)
        self._wake()

    def _note_info(self, nvml: Nvml, gpu: Gpu) -> None:
        info = nvml.info(gpu)
        if self._state.info.get(gpu.uuid) != info:
            self._state.info[gpu.uuid] = info
            self._put(GpuInfo(_AT, "nvml", **asdict(info)))

    def _note_reading(self, gpu: Gpu, reading: Reading, began: datetime, now: float) -> None:
        state = self._state
        written = state.written.get(gpu.uuid)
        why = "first"
        if written is not None:
            when, before = written
            why = "change" if differs(reading, before) else "heartbeat" if now - when >= HEARTBEAT_S else ""
        if why == "change" and (skipped := state.skipped.get(gpu.uuid)) is not None:
            self._put(_sample(gpu, skipped[1], "before change"), skipped[0])
        if why:
            state.written[gpu.uuid] = (now, reading)
            state.skipped.pop(gpu.uuid, None)
            self._put(_sample(gpu, reading, why), began)
        else:
            state.skipped[gpu.uuid] = (began, reading)

    def _note_processes(self, gpu: Gpu, uses: dict[tuple[int, str], int | None], began: datetime) -> None:
        known = self._state.processes.setdefault(gpu.uuid, {})
        for key, row in list(known.items()):
            seen = self._look(key[0]) if key in uses else None
            if key not in uses or (seen is not None and seen.started_at != row.started_at):
                del known[key]  # gone, or its pid is another process' by now
                self._put(replace(row, state="gone"), began)
        for (pid, mig), memory in uses.items():
            if (pid, mig) in known:
                continue
            process = self._look(pid)
            at = _AT if process is None else replace(_AT, pid=process.log_pid)
            known[pid, mig] = row = GpuProcess(
                at, gpu.uuid, gpu.bus, mig, pid, process.started_at if process else None, memory,
                process.command if process else "", process.out_path if process else "",
                process.err_path if process else "", "using",
            )  # fmt: skip
            self._put(row, began)


class _Fault:
    """A fault to be: the line that the kernel prints, and what NVML said."""

    __slots__ = ("line", "raw")

    def __init__(self, line: str, raw: str) -> None:
        self.line, self.raw = line, raw


class _Written:
    """What the thread has told already, by uuid."""

    def __init__(self) -> None:
        self.known: dict[str, Gpu] = {}
        self.info: dict[str, object] = {}
        self.written: dict[str, tuple[float, Reading]] = {}
        self.skipped: dict[str, tuple[datetime, Reading]] = {}
        self.processes: dict[str, dict[tuple[int, str], GpuProcess]] = {}
        self.good_at: dict[str, datetime] = {}
        self.told_48: dict[str, float] = {}
        self.lost: set[str] = set()


_AT = At(0, 1, 1)

_NOISE = {"utilization": 25, "sm_clock": 200, "memory_clock": 200, "temperature": 5, "power_w": 60.0}
"""Smaller differences are no change: percent, MHz, degrees, watts."""


def _sample(gpu: Gpu, reading: Reading, why: str) -> GpuSample:
    return GpuSample(_AT, gpu.uuid, **asdict(reading), why=why)


def differs(new: Reading, old: Reading) -> bool:
    """Whether `new` says something else than `old`, beyond noise."""
    exact = ("memory_total", "throttle", "ecc_corrected", "ecc_uncorrected")
    if any(getattr(new, name) != getattr(old, name) for name in exact):
        return True
    # Busy or idle, and a fiftieth of the memory.
    if (new.utilization == 0) != (old.utilization == 0):
        return True
    noise = {**_NOISE, "memory_used": (new.memory_total or 0) / 50}
    for name, most in noise.items():
        one, other = getattr(new, name), getattr(old, name)
        if (one is None) != (other is None) or (one is not None and abs(one - other) > most):
            return True
    return False


def in_words(every_s: float, *, opened: Callable[[], Nvml] = Nvml.open, wait_s: float = 5.0) -> str:
    """Which GPUs a daemon would watch here, or why none. The driver is given `wait_s` seconds to answer."""
    said: list[str] = []

    def ask() -> None:
        try:
            nvml = opened()
        except NoGpus as error:
            said.append(f"not watched: {error}")
            return
        except Exception as error:  # a library of another time
            log.debug("the driver's library", exc_info=True)
            said.append(f"not watched: the driver's library answered what is not understood: {error}")
            return
        gpus = nvml.gpus()
        names = ", ".join(f"{gpu.index} {gpu.name}" for gpu in gpus[:16]) + (", ..." if len(gpus) > 16 else "")
        said.append(f"{len(gpus)} watched, driver {nvml.driver}, read every {every_s:g} s: {names}")
        nvml.close()

    thread = threading.Thread(target=ask, name="tic-gpu-words", daemon=True)
    thread.start()
    thread.join(wait_s)
    return said[0] if said else f"the driver has not answered for {wait_s:g} s"


def utcnow() -> datetime:
    """Now as the store keeps times: naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)
