"""The text that `nvidia-smi -q` prints, and what people keep of it.

    is_smi_name(name), starts_as_smi(head)   whether a file may be one
    parse(data)                              what it says: `Text`

Indentation nests, keys are padded to a column that differs between drivers, and values end with their unit. Read are
the forms of drivers 470 to 580, a part that `-d` or `-i` asked for, and `nvidia-smi -q | grep -A4 Fabric`, in which
nothing names the GPUs. What is "N/A" or not there is None or "". Of several printouts in one file (`-l`, `>>`) the last
counts.

Memory in bytes, clocks in MHz, power in watts. The time is as printed: local time of an unknown zone.
"""

from __future__ import annotations

import re
import uuid as uuids
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MAX_GPUS: Final = 1024
MAX_PROCESSES: Final = 4096
_VALUE: Final = 200
_LONGEST: Final = 1000

_NAME: Final = re.compile(r"(?i)(?:nvidia[-_.]?smi|smi)(?:[-_.][\w.-]*)?\.(?:txt|log|out)")
_BANNER: Final = re.compile(rb"={5,}NVSMI LOG={5,}")
_GPU: Final = re.compile(r"GPU (?P<bus>(?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_TIME: Final = re.compile(r"\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NOT_TOLD: Final = ("", "n/a", "[n/a]", "not supported", "not available", "unknown error")
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "MB": 1 << 20}

_POWER: Final = ("power draw", "instantaneous power draw", "average power draw")
_REASONS: Final = {
    "sw power cap": "power cap", "hw slowdown": "hardware slowdown", "sync boost": "sync boost",
    "sw thermal slowdown": "software thermal", "hw thermal slowdown": "hardware thermal",
    "hw power brake slowdown": "hardware power brake", "display clock setting": "display clocks",
}  # fmt: skip
"""The words that NVML's readings have."""
_HEALTH: Final = (
    ("bandwidth", "degraded", "degraded bandwidth"), ("route recovery in progress", "true", "route recovery"),
    ("route unhealthy", "true", "route unhealthy"), ("access timeout recovery", "true", "access timeout recovery"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a GPU. `instance`: "GPU instance/compute instance" of MIG, or ""."""

    line_no: int
    byte_offset: int
    pid: int
    name: str
    memory_used: int | None
    instance: str


@dataclass(slots=True)
class Block:
    """What the text says of one GPU. `said`: values by the path of their keys, in lower case."""

    line_no: int
    byte_offset: int
    bus: str
    said: dict[tuple[str, ...], str] = field(default_factory=dict)
    sections: set[str] = field(default_factory=set)
    processes: list[Process] = field(default_factory=list)

    def text(self, *path: str) -> str:
        """The value, or "" for one that is not told."""
        value = self.said.get(path, "")
        return "" if value.lower() in _NOT_TOLD else value

    def number(self, *path: str) -> int | None:
        """Of "345 MHz" or "87 %", the number."""
        told = _number(self.text(*path))
        return None if told is None else int(told[0])

    def size(self, *path: str) -> int | None:
        """Of "97871 MiB", the bytes."""
        return _bytes(self.text(*path))

    @property
    def fabric(self) -> tuple[str, int | None, str, str, str]:
        """Cluster, clique, state, status, health; cluster and clique only of a state that is completed, or cut away."""
        state, status = self.text("fabric", "state"), self.text("fabric", "status")
        if state not in ("", "Completed"):
            return "", None, state, status, ""
        cluster = self.text("fabric", "clusteruuid")
        try:
            cluster = str(uuids.UUID(cluster)) if cluster else ""
        except ValueError:
            cluster = ""
        words = [word for key, bad, word in _HEALTH if self.text("fabric", "health", key).lower() == bad]
        wrong = self.text("fabric", "health", "incorrect configuration")
        words += [f"incorrect configuration: {wrong}"] if wrong.lower() not in ("", "none", "false") else []
        summary = self.text("fabric", "health", "summary")
        if not words and summary.lower() not in ("", "healthy"):
            words = [summary.lower()]
        return cluster, self.number("fabric", "cliqueid"), state, status, ", ".join(words)

    @property
    def mig(self) -> str:
        """on, off, or "": it has no instances."""
        return {"enabled": "on", "disabled": "off"}.get(self.text("mig mode", "current").lower(), "")

    @property
    def power_w(self) -> float | None:
        """Power draw, whatever the driver calls it."""
        for section in ("gpu power readings", "power readings"):
            for key in _POWER:
                told = _number(self.text(section, key))
                if told is not None:
                    return told[0]
        return None

    @property
    def throttle(self) -> str:
        """What slows the clocks down, in NVML's words."""
        heads = ("clocks event reasons", "clocks throttle reasons")
        active = {path[-1] for path, value in self.said.items() if path[0] in heads and value == "Active"}
        return ", ".join(word for key, word in _REASONS.items() if key in active)

    @property
    def ecc(self) -> tuple[int | None, int | None]:
        """Corrected and uncorrected errors since the driver was loaded: all volatile counts together."""
        right: list[int] = []
        wrong: list[int] = []
        for path, value in self.said.items():
            if path[:2] != ("ecc errors", "volatile") or not value.isdecimal():
                continue
            if path[2:] in (("single bit", "total"), ("double bit", "total")):  # the form before drivers 418
                (right if path[2] == "single bit" else wrong).append(int(value))
            elif re.fullmatch(r"(?:sram|dram) correctable", path[-1]):
                right.append(int(value))
            elif re.match(r"(?:sram|dram) uncorrectable", path[-1]):
                wrong.append(int(value))
        return sum(right) if right else None, sum(wrong) if wrong else None

    @property
    def unread(self) -> str:
        """What it does not tell, comma-separated."""
        cluster, clique, state, *_ = self.fabric
        said = {
            "UUID": self.text("gpu uuid"), "memory": self.size("fb memory usage", "used"),
            "fabric": state or cluster or clique, "ECC": self.ecc[1],
        }  # fmt: skip
        return ", ".join(name for name, value in said.items() if value in ("", None))


@dataclass(frozen=True, slots=True)
class Text:
    """One printout. `attached`: how many GPUs it says there are. `wrong`: in words, why it is not whole, or ""."""

    told_at: datetime | None
    driver: str
    attached: int | None
    gpus: tuple[Block, ...]
    wrong: str


def is_smi_name(name: str) -> bool:
    """nvidia-smi.txt, nvidia_smi_q_node7.log, smi-after.txt and their like."""
    return _NAME.fullmatch(name) is not None


def starts_as_smi(head: bytes) -> bool:
    """Whether the first line that is not empty is the banner."""
    return _BANNER.match(head.lstrip()[:64]) is not None


def parse(data: bytes) -> Text:
    """What the last printout in `data` says. Never fails: what is no such text has no GPUs, and `wrong` says so."""
    begin = max((hit.start() for hit in _BANNER.finditer(data)), default=0)
    reader = _Reader(data.count(b"\n", 0, begin), begin)
    for line in data[begin:].splitlines(keepends=True):
        reader.take(line)
    return reader.done(whole_line=data.endswith((b"\n", b"\r")))


class _Reader:
    """Takes lines. `_open` is the way of keys that the line lies below, with their indents."""

    def __init__(self, lines: int, offset: int) -> None:
        self._lines, self._offset = lines, offset
        self._open: list[tuple[int, str]] = []
        self._head = Block(0, 0, "")
        self._gpus: list[Block] = []
        self._named = False
        self._instance: dict[str, str] = {}
        self._left_out = 0

    def take(self, raw: bytes) -> None:
        self._lines += 1
        offset = self._offset
        self._offset += len(raw)
        line = raw[:_LONGEST].decode("utf-8", "backslashreplace").rstrip().replace("\t", "    ")
        if not line or line == "--":
            return
        if hit := _GPU.fullmatch(line):
            self._named = True
            self._begin(Block(self._lines, offset, hit["bus"]))
            return
        body = line.lstrip(" ")
        indent = len(line) - len(body)
        key, _, value = body.partition(":")
        key, value = key.rstrip().lower()[:_VALUE], value.strip()[:_VALUE]
        if key == "fabric" and not value and not self._named:  # what grep left of a text
            self._begin(Block(self._lines, offset, ""))
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        self._open.append((indent, key))
        path = tuple(key for _, key in self._open)
        if len(path) > 8:
            return
        block = self._gpus[-1] if self._gpus else self._head
        block.sections.add(path[0])
        if path[0] == "processes":
            self._process(block, path[1:], value, offset)
        elif value:
            block.said.setdefault(path, value)

    def _begin(self, block: Block) -> None:
        self._open = []
        self._instance = {}
        if len(self._gpus) < MAX_GPUS:
            self._gpus.append(block)
        else:
            self._left_out += 1

    def _process(self, block: Block, path: tuple[str, ...], value: str, offset: int) -> None:
        if path in (("gpu instance id",), ("compute instance id",)):
            self._instance[path[0]] = "" if value.lower() in _NOT_TOLD else value
        elif path == ("process id",) and value.isdecimal() and len(value) < 10:
            if sum(len(one.processes) for one in self._gpus) >= MAX_PROCESSES:
                self._left_out += 1
                return
            instance = "/".join(filter(None, self._instance.values()))
            block.processes.append(Process(self._lines, offset, int(value), "", None, instance))
            self._instance = {}
        elif path[:1] == ("process id",) and block.processes:
            last = block.processes[-1]
            name = value if path[1:] == ("name",) else last.name
            memory = _bytes(value) if path[1:] == ("used gpu memory",) else last.memory_used
            block.processes[-1] = Process(last.line_no, last.byte_offset, last.pid, name, memory, last.instance)

    def done(self, *, whole_line: bool) -> Text:
        gpus = tuple(gpu for gpu in self._gpus if gpu.said or gpu.sections)
        attached = self._head.number("attached gpus")
        wrong = []
        if not gpus:
            wrong.append("it names no GPU as `nvidia-smi -q` does")
        else:
            if self._named and attached is not None and len(gpus) < attached:
                wrong.append(f"{attached} GPUs are attached, {len(gpus)} are told of")
            missing = gpus[0].sections - gpus[-1].sections
            full = "product name" in gpus[-1].sections and "processes" not in gpus[-1].sections
            if missing or full or not whole_line:
                wrong.append("it ends within a GPU")
        if self._left_out:
            wrong.append(f"{self._left_out} GPUs or processes beyond the limit are left out")
        return Text(
            _time(self._head.text("timestamp")), self._head.text("driver version"), attached, gpus, "; ".join(wrong)
        )


def _number(value: str) -> tuple[float, str] | None:
    hit = re.fullmatch(r"(-?\d{1,15}(?:\.\d{1,6})?)(?: +(\S+))?", value)
    return (float(hit[1]), hit[2] or "") if hit else None


def _bytes(value: str) -> int | None:
    told = _number(value)
    return int(told[0] * _UNITS[told[1]]) if told and told[1] in _UNITS else None


def _time(value: str) -> datetime | None:
    hit = _TIME.fullmatch(value)
    if hit is None or hit["month"] not in _MONTHS:
        return None
    try:
        month = _MONTHS.index(hit["month"]) + 1
        return datetime.fromisoformat(f"{hit['year']}-{month:02}-{int(hit['day']):02}T{hit['clock']}")
    except ValueError:
        return None
