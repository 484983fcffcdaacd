"""Files that hold what `nvidia-smi -q` printed (smi.py): read in a thread, again when they have changed.

    SmiFiles.look(files, now)     begins a look, unless one was made shortly before
    SmiFiles.take()               what was read since the last call; never waits
    SmiFiles.finish(files, wait)  a last look
    host_of(path, told)           the host that the file is of, "" if nothing names it

Each file is a source of kind `gpu`, and each reading of it a generation: what an earlier one told of is over. That such
a file lies on this machine does not make it this machine's: its host is the one that tic.toml, its name or its
directory names, else unknown.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Final

from tic_daemon.scan.events import At, Event, Gap, GpuInfo, GpuProcess, GpuSample
from tic_daemon.sources.smallfiles import SmallFiles
from tic_daemon.sources.smi import Block, Text, is_smi_name, parse, starts_as_smi
from tic_daemon.store.rows import SourceDelta, SourceRow, source_id

KIND: Final = "gpu"
ORIGIN: Final = "nvidia-smi"
MAX_BYTES: Final = 4 << 20
"""Of a longer file the last so many bytes are read."""
MAX_FILES: Final = 500
_SNIFFED: Final = 256

_WORD: Final = r"(?:q|full|query|gpu|gpus|before|after|start|end|begin|pre|post|topo)"
_WORDS: Final = re.compile(rf"(?i)\A(?:[-_.](?:{_WORD}|\d+)(?=[-_.]|\Z))+|(?:[-_.]{_WORD})+\Z")
_PREFIX: Final = re.compile(r"(?i)\A(?:nvidia[-_.]?smi|smi)|\.(?:txt|log|out)\Z")
_HOST: Final = re.compile(
    r"(?i)(?:[a-z0-9-]*-)?(?:node|host|nid|dgx|hgx|cn|compute|gpu|gb\d{3}|gh\d{3}|[hab]\d{3}|worker|ip|login|srv|server|n)"
    r"[-_]?[a-z]?\d[a-z0-9-]*(?:\.[a-z0-9.-]+)?|[a-z][a-z0-9-]*(?:\.[a-z][a-z0-9-]*){2,}"
)
"""Names that hosts have: node07, gb200-1-12, nid001234, ip-10-0-0-7, a.cluster.local; not rank3, run2 or step100."""


def host_of(path: str, told: str = "") -> str:
    """`told`: what tic.toml says."""
    if told:
        return told
    directory, _, name = path.rpartition("/")
    rest = _PREFIX.sub("", name) if is_smi_name(name) else ""
    for part in (_WORDS.sub("", rest).strip("-_."), directory.rpartition("/")[2]):
        if _HOST.fullmatch(part):
            return part
    return ""


class SmiFiles(SmallFiles):
    """See the module.

    Args:
        told_host, run_for: what tic.toml says of a path, "" if nothing. wake: called when there is something to take.
        stored: the source as the store knows it.
    """

    def __init__(
        self,
        told_host: Callable[[str], str],
        run_for: Callable[[str], str],
        wake: Callable[[], None],
        stored: Callable[[int], SourceRow | None] = lambda _id: None,
    ) -> None:
        super().__init__("tic-smi")
        self._told_host, self._run_for, self._wake, self._stored = told_host, run_for, wake, stored
        self._digests: dict[str, str] = {}
        self._generations: dict[int, int] = {}
        self._deltas: list[SourceDelta] = []

    def look(self, files: Sequence[tuple[str, str]], now: float) -> None:
        """As of all small files."""
        if files:
            super().look(files, now)

    def take(self) -> list[SourceDelta]:
        """What was read since the last call."""
        with self._lock:
            taken, self._deltas = self._deltas, []
        return taken

    def _looked(self, files: Sequence[tuple[str, str]]) -> None:
        if self._deltas:
            self._wake()

    def _changed(self, path: str, root: str, fd: int, info: os.stat_result) -> None:
        if not is_smi_name(path.rpartition("/")[2]) and not starts_as_smi(os.pread(fd, _SNIFFED, 0)):
            return
        skipped = max(0, info.st_size - MAX_BYTES)
        data = os.pread(fd, MAX_BYTES, skipped)
        digest = hashlib.sha256(data).hexdigest()
        if not data or self._digests.get(path) == digest:
            return
        self._digests[path] = digest
        text = parse(data)
        delta = SourceDelta(self._row(path, root, info.st_size, text), events=tuple(_events(text, len(data), skipped)))
        with self._lock:
            self._deltas.append(delta)

    def _row(self, path: str, root: str, size: int, text: Text) -> SourceRow:
        host, run = host_of(path, self._told_host(path)), self._run_for(path)
        number = source_id(host, KIND, path)
        before = self._stored(number)
        last = self._generations.get(number, before.generation if before else -1)
        self._generations[number] = last + 1
        count = len(text.gpus)
        why = f"nvidia-smi's text: {count} {'GPU' if count == 1 else 'GPUs'}" + (
            f"; {text.wrong}" if text.wrong else ""
        )
        return SourceRow(
            number, KIND, host, root, path, framework=ORIGIN, run_hint=run, run_how="config" if run else "", why=why,
            generation=last + 1, bytes_size=size,
        )  # fmt: skip


def _events(text: Text, size: int, skipped: int) -> list[Event]:
    ordered = text.attached == len(text.gpus)
    found: list[Event] = []
    for index, gpu in enumerate(text.gpus):
        end = text.gpus[index + 1].byte_offset if index + 1 < len(text.gpus) else size
        at = _at(text, skipped + gpu.byte_offset, end - gpu.byte_offset, gpu.line_no)
        found += _of_gpu(at, text, gpu, index if ordered else None)
        uuid = gpu.text("gpu uuid")
        for one in gpu.processes:
            where = _at(text, skipped + one.byte_offset, 1, one.line_no)
            found.append(
                GpuProcess(
                    where, uuid, gpu.bus, one.instance, one.pid, None, one.memory_used, one.name, "", "", "using"
                )
            )
    said = [text.wrong] if text.wrong else []
    said += [f"the first {skipped} bytes are not read"] if skipped else []
    if said:
        kind = "smi_cut" if text.gpus else "smi_foreign"
        found.append(Gap(_at(text, skipped, size, 1), kind, skipped, skipped + size, "; ".join(said)))
    return found


def _of_gpu(at: At, text: Text, gpu: Block, index: int | None) -> list[Event]:
    cluster, clique, state, status, health = gpu.fabric
    uuid, total = gpu.text("gpu uuid"), gpu.size("fb memory usage", "total")
    right, wrong = gpu.ecc
    info = GpuInfo(
        at, ORIGIN, uuid, index, gpu.bus, gpu.text("product name"), text.driver, cluster, clique, state, status, health,
        gpu.mig, total, gpu.unread,
    )  # fmt: skip
    sample = GpuSample(
        at, uuid, gpu.size("fb memory usage", "used"), total, gpu.number("utilization", "gpu"),
        gpu.number("clocks", "sm"), gpu.number("clocks", "memory"), gpu.throttle,
        gpu.number("temperature", "gpu current temp"), gpu.power_w, right, wrong, "file",
    )  # fmt: skip
    return [info, sample]


def _at(text: Text, offset: int, length: int, line_no: int) -> At:
    return At(offset, length, line_no, stamp=text.told_at, stamp_res_us=1_000_000 if text.told_at else 0)
