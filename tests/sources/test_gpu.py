"""GPUs by a driver that the test plays: what is told, what is thinned, what a refusal, a loss or a hang does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sources.nvml import Card, FakeNvml
from tic_daemon.scan.events import At, Device, Event, Fault, Gap, GpuEvent, GpuInfo, GpuProcess, GpuSample, ProcessSeen
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.sources import gpu as module
from tic_daemon.sources.gpu import GpuWatch, differs, utcnow
from tic_daemon.sources.nvml import NoGpus, Nvml, Reading
from tic_daemon.sources.processes import Process, look_at
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.store.writer import Writer

ONE = "GPU-11111111-0000-0000-0000-000000000001"
TWO = "GPU-11111111-0000-0000-0000-000000000002"
BUS = "00000000:5D:00.0"
START = datetime(2026, 11, 29, 12, 0, 0)


@pytest.fixture(scope="module")
def kernel_faults() -> Callable[[str], list[Fault]]:
    scanner = Scanner(RuleSet.load(()))

    def find(line: str) -> list[Fault]:
        events = scanner.open(SourceTraits(role="kernel", framework="kernel")).feed(f"{line}\n".encode())
        return [event for event in events if isinstance(event, Fault)]

    return find


class Watched:
    """A watch over a played driver, and all that it told so far."""

    def __init__(self, api: FakeNvml, faults: Callable[[str], list[Fault]], **settings: Any) -> None:
        settings = {"opened": lambda: Nvml.open(lambda: api), "look": lambda _pid: None, **settings}
        self.watch = GpuWatch("node7", "/jobs", 0.05, faults, lambda: None, **settings)
        self.deltas: list[SourceDelta] = []
        self.watch.start()

    def events(self, kind: type[Any]) -> list[Any]:
        self.deltas += self.watch.take()
        return [event for delta in self.deltas for event in delta.events if isinstance(event, kind)]

    def until(self, kind: type[Any], ready: Callable[[list[Any]], bool] = bool) -> list[Any]:
        deadline = time.monotonic() + 60
        while not ready(found := self.events(kind)):
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        return found


@pytest.fixture
def watched(kernel_faults: Callable[[str], list[Fault]]) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(api: FakeNvml, **settings: Any) -> Watched:
        made.append(Watched(api, kernel_faults, **settings))
        return made[-1]

    yield make
    for one in made:
        one.watch.stop()


def test_what_a_gpu_is_and_reads(watched: Callable[..., Watched]) -> None:
    cluster = bytes(range(16))
    card = Card(ONE, BUS, cluster=cluster, clique=32766, fabric=3, health=1, used=420, busy=87, throttle=0x21, ecc=2)
    one = watched(FakeNvml(card))
    (info,) = one.until(GpuInfo)
    assert (info.uuid, info.gpu_index, info.bus, info.name, info.driver) == (ONE, 0, BUS, "NVIDIA GB200", "575.57.08")
    assert (info.fabric_cluster, info.fabric_clique) == ("00010203-0405-0607-0809-0a0b0c0d0e0f", 32766)
    assert (info.fabric_state, info.fabric_status, info.fabric_health) == ("Completed", "Success", "degraded bandwidth")
    assert (info.mig, info.unread) == ("off", "")
    sample = one.until(GpuSample)[0]
    assert (sample.memory_used, sample.memory_total, sample.utilization) == (420, 1000, 87)
    assert (sample.sm_clock, sample.memory_clock, sample.temperature, sample.power_w) == (1980, 3201, 41, 401.5)
    assert (sample.throttle, sample.ecc_corrected, sample.ecc_uncorrected) == ("software thermal", 7, 2)
    assert one.deltas[0].source.kind == "gpu"


@pytest.mark.parametrize(
    "call",
    ["MemoryInfo", "UtilizationRates", "PowerUsage", "CurrentClocksEventReasons", "ClockInfo", "Temperature",
     "TotalEccErrors", "MigMode", "ComputeRunningProcesses", "GpuFabricInfoV"],
)  # fmt: skip
def test_a_call_that_is_not_supported_costs_its_value_alone_and_is_made_once(
    watched: Callable[..., Watched], call: str
) -> None:
    api = FakeNvml(Card(ONE, BUS, busy=5))
    api.refuse.add(f"nvmlDeviceGet{call}")
    one = watched(api)
    one.until(GpuInfo)
    assert one.until(GpuSample)[0].why == "first"
    readings = api.calls.count("nvmlDeviceGetTemperature") if call != "Temperature" else 0
    deadline = time.monotonic() + 60
    while api.calls.count("nvmlDeviceGetTemperature") < readings + 3 and call != "Temperature":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    distinct = {"ClockInfo": 2, "TotalEccErrors": 2}.get(call, 1)  # SM and memory clock; corrected and not
    assert api.calls.count(f"nvmlDeviceGet{call}") == distinct
    assert not one.events(Gap)


def test_an_idle_gpu_is_written_once_and_a_change_with_the_reading_before_it(watched: Callable[..., Watched]) -> None:
    card = Card(ONE, BUS)
    api = FakeNvml(card)
    one = watched(api)
    deadline = time.monotonic() + 60
    while api.calls.count("nvmlDeviceGetTemperature") < 5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [sample.why for sample in one.events(GpuSample)] == ["first"]
    card.busy = 99
    samples = one.until(GpuSample, lambda found: len(found) == 3)
    assert [(s.why, s.utilization) for s in samples] == [("first", 0), ("before change", 0), ("change", 99)]
    assert samples[1].at.stamp < samples[2].at.stamp
    offsets = [event.at.byte_offset for delta in one.deltas for event in delta.events]
    assert offsets == list(range(len(offsets)))


def test_noise_is_no_change() -> None:
    base = Reading(500, 1000, 60, 1980, 3201, "", 40, 300.0, 0, 0)
    assert not differs(replace(base, utilization=70, temperature=44, power_w=340.0, memory_used=510), base)
    for change in (
        {"utilization": 0}, {"memory_used": 530}, {"throttle": "power cap"}, {"ecc_uncorrected": 1},
        {"temperature": None}, {"sm_clock": 345}, {"power_w": 650.0},
    ):  # fmt: skip
        assert differs(replace(base, **change), base), change


def test_an_xid_is_a_fault_of_the_kind_that_the_kernel_s_line_has(watched: Callable[..., Watched]) -> None:
    card = Card(ONE, BUS)
    api = FakeNvml(card)
    one = watched(api)
    one.until(GpuInfo)
    for number, xid in enumerate((31, 79, 45, 63, 4711), 1):
        api.told.put((card, 8, xid))
        one.until(GpuEvent, lambda found, number=number: len(found) == number)
    faults = one.events(Fault)
    assert [(f.kind, f.code) for f in faults] == [
        ("xid.app", "31"), ("xid.hw", "79"), ("xid.secondary", "45"), ("xid.info", "63"), ("xid.other", "4711"),
    ]  # fmt: skip
    assert {(f.bus.lower(), f.verdict, f.at.stamp_utc) for f in faults} == {("0000:5d:00", "confirmed", True)}
    for fault in faults:
        end = fault.at.stamp + timedelta(microseconds=fault.at.stamp_res_us)
        assert fault.at.stamp <= end <= utcnow()


def test_an_answer_that_is_not_understood_costs_its_value_alone(watched: Callable[..., Watched]) -> None:
    """As of a package that is older than the driver: not an error of NVML, and still no end of the watch."""
    api = FakeNvml(Card(ONE, BUS, used=300, busy=1))
    api.odd = {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeRunningProcesses"}
    one = watched(api)
    (info,) = one.until(GpuInfo)
    assert "UtilizationRates" in info.unread
    (sample,) = one.events(GpuSample)
    assert (sample.utilization, sample.memory_used) == (None, 300)
    api.cards[0].used = 900
    assert one.until(GpuSample, lambda found: found[-1].memory_used == 900)


def test_processes_are_not_gone_because_the_driver_does_not_say(watched: Callable[..., Watched]) -> None:
    card = Card(ONE, BUS, pids=[os.getpid()])
    api = FakeNvml(card)
    one = watched(api)
    one.until(GpuProcess)
    api.fail = {"nvmlDeviceGetComputeRunningProcesses"}
    card.used = 900  # written after the list was asked for in vain
    one.until(GpuSample, lambda found: found[-1].memory_used == 900)
    assert [e.state for e in one.events(GpuProcess)] == ["using"]
    api.fail, card.pids = set(), []
    assert [e.state for e in one.until(GpuProcess, lambda found: len(found) == 2)] == ["using", "gone"]


def test_a_double_bit_error_is_one_fault_though_nvml_tells_it_twice(watched: Callable[..., Watched]) -> None:
    card = Card(ONE, BUS)
    api = FakeNvml(card)
    one = watched(api)
    one.until(GpuInfo)
    api.told.put((card, 2, 0))
    api.told.put((card, 8, 48))
    events = one.until(GpuEvent, lambda found: len(found) == 2)
    assert [(e.kind, e.code) for e in events] == [("ecc_double", ""), ("xid", "48")]
    assert [(f.kind, f.code) for f in one.events(Fault)] == [("xid.hw", "48")]


def test_a_lost_gpu_is_a_fault_once_and_the_others_go_on(watched: Callable[..., Watched]) -> None:
    first, second = Card(ONE, BUS), Card(TWO, "00000000:5E:00.0")
    one = watched(FakeNvml(first, second))
    one.until(GpuInfo, lambda found: len(found) == 2)
    first.lost = True
    (event,) = one.until(GpuEvent)
    assert (event.uuid, event.kind) == (ONE, "lost")
    assert [(f.kind, f.bus.lower()) for f in one.events(Fault)] == [("xid.fallen", "0000:5d:00")]
    second.busy = 50
    assert one.until(GpuSample, lambda found: found[-1].utilization == 50)[-1].uuid == TWO
    first.lost = False
    assert [e.kind for e in one.until(GpuEvent, lambda found: len(found) == 2)] == ["lost", "back"]
    assert len(one.events(Fault)) == 1


def test_a_driver_that_goes_is_a_gap_and_is_found_again(watched: Callable[..., Watched]) -> None:
    api = FakeNvml(Card(ONE, BUS))
    one = watched(api)
    one.until(GpuInfo)
    api.down = True
    (gap,) = one.until(Gap)
    assert gap.kind == "gpu_driver_lost"
    assert [e.kind for e in one.events(GpuEvent)] == ["driver_lost"]
    assert not one.events(Fault)


def test_a_call_that_hangs_is_said_once_and_delays_nothing(watched: Callable[..., Watched]) -> None:
    api = FakeNvml(Card(ONE, BUS))
    one = watched(api, silent_s=0.3)
    one.until(GpuSample)
    api.hang = threading.Event()
    gaps = one.until(Gap)
    assert [gap.kind for gap in gaps] == ["gpu_silent"]
    began = time.monotonic()
    one.watch.take()
    one.watch.stop()
    assert time.monotonic() - began < 20, "it waited for the call"
    assert len(one.events(Gap)) == 1
    assert [e.kind for e in one.events(GpuEvent)] == ["silent"]
    api.hang.set()


def test_a_driver_that_hangs_at_once_is_said(watched: Callable[..., Watched]) -> None:
    api = FakeNvml(Card(ONE, BUS))
    api.hang = threading.Event()
    one = watched(api, silent_s=0.3)
    assert [gap.kind for gap in one.until(Gap)] == ["gpu_silent"]
    api.hang.set()


def test_no_driver_is_said_once_and_writes_nothing(
    watched: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    def opened() -> Nvml:
        raise NoGpus("no NVIDIA driver here")

    with caplog.at_level("INFO"):
        one = watched(FakeNvml(), opened=opened)
        assert one.watch._thread is not None
        one.watch._thread.join(10)
    assert [text for text in caplog.messages if "no NVIDIA" in text] == ["GPUs are not watched: no NVIDIA driver here"]
    assert one.watch.take() == []


def test_without_the_package_a_machine_with_a_driver_hears_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise ImportError("pynvml")

    monkeypatch.setattr("tic_daemon.sources.nvml._DRIVER_SIGNS", (tmp_path / "version",))
    with pytest.raises(NoGpus, match="no NVIDIA driver here"):
        Nvml.open(missing)
    (tmp_path / "version").write_text("NVRM version: 575.57.08")
    with pytest.raises(NoGpus, match=r"pip install 'tic-tui\[gpu\]'"):
        Nvml.open(missing)


def test_mig_instances_and_one_pid_on_two_gpus(watched: Callable[..., Watched]) -> None:
    first = Card(ONE, BUS, pids=[50], instances={"MIG-a": [60], "MIG-b": [61]})
    one = watched(FakeNvml(first, Card(TWO, "00000000:5E:00.0", pids=[50])))
    found = one.until(GpuProcess, lambda found: len(found) == 4)
    assert {(p.uuid, p.mig, p.gpu_pid) for p in found} == {
        (ONE, "", 50), (ONE, "MIG-a", 60), (ONE, "MIG-b", 61), (TWO, "", 50),
    }  # fmt: skip
    assert {(p.at.pid, p.started_at) for p in found} == {(None, None)}  # no such process here
    assert {info.mig for info in one.until(GpuInfo, lambda f: len(f) == 2)} == {"on", "off"}


def test_a_process_that_ends_and_a_pid_that_is_used_again(watched: Callable[..., Watched]) -> None:
    life = {50: Process(7, START, "python", "/jobs/out.log", "")}
    card = Card(ONE, BUS, pids=[50])
    one = watched(FakeNvml(card), look=life.get)
    one.until(GpuProcess)
    life[50] = Process(7, START + timedelta(hours=1), "python", "", "")
    one.until(GpuProcess, lambda found: len(found) == 3)
    card.pids.clear()
    found = one.until(GpuProcess, lambda found: len(found) == 4)
    assert [(p.state, p.started_at.hour, p.at.pid) for p in found] == [
        ("using", 12, 7), ("gone", 12, 7), ("using", 13, 7), ("gone", 13, 7),
    ]  # fmt: skip


def test_proc_tells_the_innermost_pid_the_start_and_where_the_output_goes(tmp_path: Path) -> None:
    own = tmp_path / "4711"
    (own / "fd").mkdir(parents=True)
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1764417600\n")
    fields = " ".join(["S", *["0"] * 18, "12345", "0"])
    (own / "stat").write_text(f"4711 (a) b) {fields}\n")
    (own / "status").write_text("Name:\tray::Worker\nNSpid:\t4711\t17\n")
    (own / "fd" / "1").symlink_to("/jobs/worker.out")
    (own / "fd" / "2").symlink_to("/dev/null")
    found = look_at(4711, tmp_path)
    assert found is not None
    assert (found.log_pid, found.command, found.out_path, found.err_path) == (17, "ray::Worker", "/jobs/worker.out", "")
    # date -u -d @1764417600: 2025-11-29 12:00:00; 100 ticks a second
    assert found.started_at == datetime(2025, 11, 29, 12, 2, 3, 450000)
    assert look_at(4712, tmp_path) is None


# --- in the store -------------------------------------------------------------------------------------------------------


class Store:
    def __init__(self, tmp_path: Path) -> None:
        self.writer = Writer.open(StoreLayout.find(tmp_path))
        self.writer.put_fault_rules(RuleSet.load(()).fault_rules())

    def log(self, path: str, *events: Event, **row: Any) -> None:
        number = source_id("node7", "file", path)
        source = SourceRow(number, "file", "node7", "/jobs", path, **row)
        self.writer.commit([SourceDelta(source, CursorRow(number, 0, byte_offset=10_000), events)])

    def gpu(self, *events: Event, generation: int = 0) -> None:
        number = source_id("node7", "gpu", "nvml")
        source = SourceRow(number, "gpu", "node7", "/jobs", "nvml", generation=generation)
        placed = [replace(event, at=replace(event.at, byte_offset=n)) for n, event in enumerate(events)]
        self.writer.commit([SourceDelta(source, events=tuple(placed))])
        self.writer.settle_if_due(now=True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.writer.reader_cursor().execute(sql).fetchall()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = Store(tmp_path)
    yield one
    one.writer.close()


def at(second: float, **more: Any) -> At:
    return At(0, 10, 1, stamp=START + timedelta(seconds=second), stamp_res_us=1000, stamp_utc=True, **more)


def info(**more: Any) -> GpuInfo:
    values: dict[str, Any] = {
        "origin": "nvml", "uuid": ONE, "gpu_index": 0, "bus": BUS, "name": "x", "driver": "575", "fabric_cluster": "c",
        "fabric_clique": 1, "fabric_state": "Completed", "fabric_status": "Success", "fabric_health": "", "mig": "off",
        "memory_total": 1000, "unread": "",
    }  # fmt: skip
    return GpuInfo(at(0), **{**values, **more})


def use(second: float, pid: int | None, **more: Any) -> GpuProcess:
    values: dict[str, Any] = {
        "uuid": ONE, "bus": BUS, "mig": "", "gpu_pid": 900, "started_at": START, "memory_used": 5, "command": "python",
        "out_path": "", "err_path": "", "state": "using",
    }  # fmt: skip
    return GpuProcess(at(second, pid=pid), **{**values, **more})


def xid(second: float, code: str = "79", kind: str = "xid.hw") -> Fault:
    return Fault(at(second), kind, "confirmed", f"NVRM: Xid {code}", code, "0000:5d:00")


def test_a_process_is_of_the_run_and_rank_whose_file_its_stdout_is(store: Store) -> None:
    store.log("/jobs/a/rank3.log", ProcessSeen(At(0, 5, 1)), run_hint="a", rank=3, single_process=True)
    store.log("/jobs/b/rank3.log", ProcessSeen(At(0, 5, 1)), run_hint="b", rank=3, single_process=True)
    store.gpu(info(), use(1, 900, out_path="/jobs/a/rank3.log"))
    assert store.rows("SELECT run_id, rank, pid, processes, why FROM gpus") == [("a", 3, 900, 1, "")]
    store.gpu(xid(60))  # when the run began is not known: the fault may be older
    assert store.rows("SELECT run_id, path, kind, verdict, locks FROM faults") == [
        (None, "nvml", "xid.hw", "suspect", False)
    ]


@pytest.mark.parametrize(("first_line", "joined"), [(5, True), (-3600, False), (7200, False), (None, False)], ids=str)
def test_a_pid_joins_only_a_log_that_began_in_the_process_life(
    store: Store, first_line: float | None, joined: bool
) -> None:
    seen = at(first_line, pid=17, proc="pid:17") if first_line is not None else At(0, 5, 1, pid=17, proc="pid:17")
    store.log("/jobs/a/worker.log", ProcessSeen(seen), run_hint="a")
    store.gpu(info(), use(1, 17), use(3600, 17, state="gone"))
    (row,) = store.rows("SELECT run_id, state, why <> '' FROM gpu_processes")
    assert row == (("a", "gone", False) if joined else (None, "gone", True))


def test_a_pid_of_another_namespace_stays_unknown(store: Store) -> None:
    store.log("/jobs/a/worker.log", ProcessSeen(at(5, pid=900, proc="pid:900")), run_hint="a")
    store.gpu(info(), use(1, None, started_at=None, command=""))
    assert store.rows("SELECT run_id, pid, gpu_pid FROM gpu_processes") == [(None, None, 900)]
    assert store.rows("SELECT run_id, why FROM gpus") == [(None, "its processes are joined to no run")]


def test_an_xid_of_nvml_locks_the_run_that_the_driver_says_is_on_the_gpu(store: Store) -> None:
    store.log("/jobs/a/w.log", ProcessSeen(at(5, pid=17, proc="pid:17")), run_hint="a")
    store.log("/jobs/b/w.log", ProcessSeen(at(5, pid=18, proc="pid:18")), run_hint="b")
    store.gpu(info(), use(1, 17))
    store.gpu(xid(60))
    assert store.rows("SELECT run_id, kind, verdict, locks FROM faults") == [("a", "xid.hw", "confirmed", True)]
    assert store.rows("SELECT run_id, locked FROM runs ORDER BY run_id") == [("a", True), ("b", False)]


@pytest.mark.parametrize(("kernel_s", "echo"), [(59.5, True), (30, False)])
def test_an_xid_that_the_kernel_s_log_tells_too_is_one_fault_and_an_echo(
    store: Store, kernel_s: float, echo: bool
) -> None:
    nccl = Device(at(6, pid=17, proc="pid:17"), "5d000", "node7")
    store.log("/jobs/a/w.log", ProcessSeen(at(5, pid=17, proc="pid:17")), nccl, run_hint="a")
    store.log("/jobs/kern.log", replace(xid(kernel_s), node="node7"), role="kernel")
    store.gpu(xid(60))
    found = store.rows("SELECT path, echo_of IS NOT NULL, locks FROM faults WHERE run_id = 'a' ORDER BY path")
    assert found == [("/jobs/kern.log", False, True), ("nvml", echo, not echo)]
    assert store.rows("SELECT faults FROM runs WHERE run_id = 'a'") == [(1 if echo else 2,)]


def test_gpus_do_not_keep_a_run_alive_and_honour_as_of(store: Store) -> None:
    store.log("/jobs/a/w.log", ProcessSeen(at(5, pid=17, proc="pid:17")), run_hint="a", state="vanished")
    store.gpu(info())
    before = store.rows("SELECT max(observed_at) FROM gpus")[0][0]
    store.gpu(info(fabric_clique=2), xid(60))
    assert store.rows("SELECT verdict FROM liveness WHERE run_id = 'a'") == [("ended",)]
    assert store.rows("SELECT fabric_clique FROM gpus") == [(2,)]
    cursor = store.writer.reader_cursor()
    cursor.execute(f"SET VARIABLE as_of = TIMESTAMP '{before}'")
    assert cursor.execute("SELECT fabric_clique FROM gpus").fetchall() == [(1,)]


def test_after_a_restart_what_is_not_told_again_is_gone(store: Store) -> None:
    store.gpu(info(), use(1, 17), GpuEvent(at(2), ONE, BUS, "lost", "", "it does not answer"))
    assert store.rows("SELECT why FROM gpus") == [("it does not answer",)]
    store.gpu(info(), GpuSample(at(9), ONE, 1, 2, 3, 4, 5, "", 6, 7.0, 0, 0, "first"), generation=1)
    assert store.rows("SELECT state FROM gpu_processes") == [("gone",)]
    assert store.rows("SELECT why, processes FROM gpus") == [("", 0)]


def test_which_gpus_there_are_is_said_in_words_also_by_a_driver_that_hangs() -> None:
    api = FakeNvml(Card(ONE, BUS), Card(TWO, BUS))
    said = module.in_words(10.0, opened=lambda: Nvml.open(lambda: api))
    assert said == "2 watched, driver 575.57.08, read every 10 s: 0 NVIDIA GB200, 1 NVIDIA GB200"
    api.hang = threading.Event()
    assert (
        module.in_words(10.0, opened=lambda: Nvml.open(lambda: api), wait_s=0.2)
        == "the driver has not answered for 0.2 s"
    )
    api.hang.set()

    def none() -> Nvml:
        raise NoGpus("no NVIDIA driver here")

    assert module.in_words(10.0, opened=none) == "not watched: no NVIDIA driver here"


def test_a_full_queue_says_what_it_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING", 3)
    watch = GpuWatch("h", "/", 1, lambda _line: (), lambda: None)
    for number in range(5):
        watch._put(GpuEvent(At(0, 1, 1), ONE, BUS, "xid", str(number), ""))
    (delta,) = watch.take()
    assert [e.code for e in delta.events if isinstance(e, GpuEvent)] == ["2", "3", "4"]
    assert [e.detail[:2] for e in delta.events if isinstance(e, Gap)] == ["2 "]
