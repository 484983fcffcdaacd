"""Files that a fault leaves beside the logs: which names are some, what a name tells, and what changed of them.

    core                core, core.PID, core.EXE.PID[.HOST][.TIME], core-EXE-PID-TIME, vgcore.PID, and
                        systemd-coredump's core.EXE.UID.BOOT.PID.TIME, each perhaps compressed
    cuda_core           core_TIME_HOST_PID.nvcudmp, anything.nvcudmp, cuda_coredump_HOST.PID.TIME
    flight_recorder     nccl_trace_rank_N, comm_lib_trace_rank_N, nccl_flight_recorder_rank_N
    compute_sanitizer   compute-sanitizer.PID.log, racecheck_rank3.txt, ...
    py_spy              py-spy-PID.txt, pyspy_dump_rank3.txt, ...

    names = Names(environ)            with CUDA_COREDUMP_FILE and the flight recorder's prefix, if they are set here
    names.of(name) -> Named | None
    files = FaultFiles(host, known)   known: the store's newest row of each path
    files.found(found, directories)   after each walk over the roots
    rows = files.take()               what is new, has another size or time, or is gone

Nothing here opens a file or follows a link: a core dump may be as large as the memory of its process. A name is no
proof, nor is the fault that a file is joined to: view fault_files says by what it was joined.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from tic_daemon.store.columns import clean_text
from tic_daemon.store.rows import FaultFileRow

MAX_FILES: Final = 2000
"""Of one walk. Programs that crash in a loop leave a core each time."""

_ZIP = r"(?:\.(?:zst|lz4|xz|gz|bz2))?"
_TIME = r"\d{9,19}"
_EXE = r"(?!v?[\d.]+\.)[^/]{1,255}?"
# A host in a core's name has a digit or a dash; a plain word there is a file's extension: core.min.123.js.
_HOST = r"(?=[\w.-]*[\d-])[A-Za-z][\w-]*(?:\.[\w-]+)*?"

_FORMS: Final = tuple(
    (kind, re.compile(pattern, re.DOTALL | flags))
    for kind, flags, pattern in (
        ("core", 0, rf"core\.{_EXE}\.\d{{1,10}}\.[0-9a-f]{{32}}\.(?P<pid>\d{{1,10}})\.{_TIME}{_ZIP}"),
        ("core", 0, r"core"),
        ("core", 0, rf"(?:vg)?core\.(?P<pid>\d{{1,10}})(?:\.{_TIME})?"),
        ("core", 0, rf"core\.(?P<pid>\d{{3,10}}){_ZIP}"),
        ("core", 0, rf"core\.{_EXE}\.(?P<pid>\d{{1,10}})(?:\.(?P<host>{_HOST})\.{_TIME}|\.{_TIME}){_ZIP}"),
        ("core", 0, rf"core\.{_EXE}\.(?P<pid>\d{{2,10}})(?:\.(?P<host>{_HOST}))?"),
        ("core", 0, rf"core-{_EXE}-(?P<pid>\d{{1,10}})-{_TIME}{_ZIP}"),
        ("cuda_core", 0, rf"core_{_TIME}_(?P<host>[^/]{{1,255}})_(?P<pid>\d{{1,10}})\.nvcudmp{_ZIP}"),
        ("cuda_core", 0, rf"(?P<rest>[^/]*)\.nvcudmp{_ZIP}"),
        ("cuda_core", re.I,
         rf"cuda[_-]?core[_-]?dump[._-](?P<host>[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*)\.(?P<pid>\d{{1,10}})(?:\.{_TIME})?"),
        ("cuda_core", re.I, r"cuda[_-]?core[_-]?dump(?:[._-](?P<pid>\d{1,10}))?"),
        ("flight_recorder", 0, r"(?:nccl|comm_lib)_trace_rank_?(?P<rank>\d{1,6})(?:\.(?:json|pkl|pickle))?"),
        ("flight_recorder", 0,
         r"(?:\w+_)?(?:flight_?recorder|fr_(?:trace|dump)|nccl_debug_info)_(?:rank_?)?(?P<rank>\d{1,6})(?:\.(?:json|pkl|pickle))?"),
        ("compute_sanitizer", re.I,
         r"(?:compute[-_]?sanitizer|cuda-memcheck|memcheck|racecheck|initcheck|synccheck)"
         r"(?P<rest>(?:[._-][\w.-]*?)?)\.(?:log|txt|out|xml)"),
        ("py_spy", re.I, r"py[-_]?spy(?P<rest>[._-][\w.-]*?)(?:\.(?:log|txt|out|dump|json|svg))"),
        ("py_spy", re.I, r"py[-_]?spy[-_]?dump(?P<rest>[._-][\w-]*)"),
    )
)  # fmt: skip
_RANK = re.compile(r"(?:\A|[._-])rank[_-]?(\d{1,6})(?=[._-]|\Z)", re.IGNORECASE)
_PID = re.compile(r"(?:\A|[._-])(?:pid[_-]?)?(\d{1,7})(?=[._-]|\Z)", re.IGNORECASE)
_EXECUTABLE = 0o111
DUMPS: Final = frozenset({"core", "cuda_core", "flight_recorder"})
"""Kinds that are no text: never read, whatever else their names look like."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a name tells. `host`: that of the process, if the name has it."""

    kind: str
    pid: int | None = None
    rank: int | None = None
    host: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a walk."""

    path: str
    root: str
    named: Named
    size: int
    modified_at: datetime


class Names:
    """Which names are those of files that a fault leaves.

    Args:
        environ: CUDA_COREDUMP_FILE (with %h, %p, %t), TORCH_FR_DUMP_TEMP_FILE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE (the
            rank follows) count, if the daemon was started with the settings of its run.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._told: list[tuple[str, re.Pattern[str]]] = []
        if template := environ.get("CUDA_COREDUMP_FILE", "").rpartition("/")[2]:
            self._told.append(("cuda_core", _of_template(template)))
        for variable in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
            if prefix := environ.get(variable, "").rpartition("/")[2]:
                self._told.append(("flight_recorder", re.compile(re.escape(prefix) + r"(?P<rank>\d{1,6})")))

    def of(self, name: str) -> Named | None:
        """What the name tells; None: it is no such file."""
        for kind, form in (*self._told, *_FORMS):
            if match := form.fullmatch(name):
                said = match.groupdict()
                rest = said.get("rest") or ""
                rank = _RANK.search(rest)
                pid = _PID.search(_RANK.sub("", rest))
                return Named(
                    kind,
                    _number(said.get("pid") or (pid and pid[1])),
                    _number(said.get("rank") or (rank and rank[1])),
                    said.get("host") or "",
                )
        return None

    @staticmethod
    def is_dump(named: Named, mode: int) -> bool:
        """Whether the file may be what its name says: a program named `core` is none, no core can be run."""
        return named.kind != "core" or not mode & _EXECUTABLE


def _of_template(template: str) -> re.Pattern[str]:
    parts = {"%h": r"(?P<host>[^/]+)", "%p": r"(?P<pid>\d{1,10})", "%t": r"\d+", "%%": "%"}
    seen: set[str] = set()
    pattern = ""
    for piece in re.split(r"(%[hpt%])", template):
        pattern += re.escape(piece) if piece not in parts else parts[piece] if piece not in seen else ".*"
        seen.add(piece)
    return re.compile(pattern, re.DOTALL)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


class FaultFiles:
    """The files of one daemon, between walks and commits.

    Args:
        host: of this machine. known: the newest row that the store has of each path.
    """

    def __init__(self, host: str, known: Iterable[FaultFileRow] = ()) -> None:
        self._host = host
        self._known = {row.path: row for row in known if row.host == host and row.present}
        self._rows: list[FaultFileRow] = []

    def found(self, files: Collection[Found], directories: Iterable[str]) -> None:
        """What a walk found, and the directories that it read. A file that is in none of them any more is gone."""
        seen = set()
        for file in files:
            path = clean_text(file.path)  # as the store gives it back
            seen.add(path)
            named = file.named
            row = FaultFileRow(
                self._host, clean_text(file.root), path, named.kind, named.pid, named.rank, clean_text(named.host),
                file.size, file.modified_at, present=True,
            )  # fmt: skip
            if self._known.get(path) != row:
                self._known[path] = row
                self._rows.append(row)
        if len(files) >= MAX_FILES:
            return  # what was not reached is not gone
        read = {clean_text(directory) for directory in directories}
        for path in [path for path in self._known if path not in seen and path.rpartition("/")[0] in read]:
            self._rows.append(replace(self._known.pop(path), present=False))

    def take(self) -> list[FaultFileRow]:
        """What changed since the last call."""
        rows, self._rows = self._rows, []
        return rows


def modified(info: os.stat_result) -> datetime:
    """Naive UTC. Times that a clock cannot show are the nearest that it can."""
    seconds = min(max(info.st_mtime, 0.0), 253_402_300_799.0)
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
