"""msprobe's dumps as traces: `dump.json` with the tensors beside it, in `dump_tensor_data/`.

A directory `step{N}/rank{R}` (or `proc{pid}`) holds `dump.json`: {task, level, framework, dump_data_dir, data: {API
or module call: {input_args, input_kwargs, output, input, parameters, ...}}}, nested lists and dicts of entries {type,
dtype, shape, data_name, md5}. A tensor lies in `dump_tensor_data/DATA_NAME`, a bare tensor of torch.save or an npy.
Given the directory above, all steps and ranks of it are read.

- A module is written when it ends, and with it its inputs; an API when its inputs are seen, and no API within it. So
  the order of the keys is that of the results.
- `dump_data_dir` is a path of the machine that dumped, and a `data_name` with a slash leads outside: neither is
  followed.
- Only `stop()` writes the last calls into `dump.json`. Tensors that it does not name mean that it was lost: unfit.
- `md5` is a CRC-32 (or an xor), whatever its name says: two that differ tell something, two that agree prove nothing.
- MindSpore's npy has no bfloat16: what was one is float32 there, and no claim on bits can be made.
- Statistics alone cannot be compared.

Sources: Ascend/msprobe python/msprobe/core/dump/data_dump/json_writer.py (3228c1a1), data_processor/base.py (4400e05c),
pytorch_processor.py (19c86271) and hook_manager.py (3228c1a1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare.opened import Opened
from tic_daemon.compare.plainfiles import npy
from tic_daemon.compare.probes import (
    MAX_FILES,
    Kept,
    Probe,
    Trace,
    folders,
    kept,
    kept_by,
    listing,
    probe,
    with_input,
)  # fmt: skip
from tic_daemon.compare.sides import Tensor
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

JSON: Final = "dump.json"
_TENSORS: Final = "dump_tensor_data"
_MAX_JSON: Final = 1 << 30
_DEPTH: Final = 64
_INPUTS: Final = ("input_args", "input_kwargs", "input", "parameters")
_LEVELS: Final = 2  # step and rank


def is_dump(folder: Path) -> bool:
    """Whether a dump lies there, or one of steps and ranks."""
    return bool(_dumps(folder))


def _dumps(folder: Path, level: int = 0) -> list[Path]:
    """Directories that hold a dump or its tensors."""
    below = folders(folder)
    if (folder / JSON).exists() or _TENSORS in below:
        return [folder]
    own = [name for name in below if name.startswith(("step", "rank", "proc"))]
    return [found for name in own for found in _dumps(folder / name, level + 1)] if level < _LEVELS else []


def dump(folder: Path) -> Trace:
    """All dumps of a directory.

    Raises:
        CompareError: one cannot be read, or has nothing that can be compared.
    """
    found = _Found()
    for one in _dumps(folder):
        parts = one.relative_to(folder).parts
        step = next((part for part in parts if part.startswith("step")), "dump")
        rank = next((part for part in parts if part.startswith(("rank", "proc"))), "all")
        found.add(one, step, rank)
    notes = [f"{found.others} tensors of which nothing was saved are left out"] if found.others else []
    if found.sums:
        notes.append(f"{found.sums} tensors have a checksum of 32 bits alone: equal ones prove nothing")
    if found.cast:
        notes.append(f"{found.cast} tensors were cast before they were written")
    provenance = "unknown" if found.sums else "cast_f32" if found.cast else "native"
    return Trace(str(folder), "msprobe", tuple(found.probes), provenance, tuple(notes), tuple(found.refused))


class _Found:
    def __init__(self) -> None:
        self.probes: list[Probe] = []
        self.refused: list[str] = []
        self.others = self.sums = self.cast = 0

    def add(self, folder: Path, step: str, rank: str) -> None:
        """One directory of a rank."""
        where = folder / JSON
        if not where.exists():
            raise CompareError(
                f"{folder} holds tensors and no {JSON}: the dump ended before stop()", "dump it again to its end"
            )
        found = _load(where)
        data = found.get("data")
        if not isinstance(data, dict):
            raise CompareError(f"{where} has no data", "it is no dump of msprobe")
        tensors = folder / _TENSORS
        names, links = listing(tensors, "") if tensors.is_dir() else ([], [])
        self.refused += links
        there, used = set(names), set[str]()
        for call, part, entry in _entries(data):
            name = entry.get("data_name")
            if name is not None:
                used.add(str(name))
            self._entry(call, part, entry, (step, rank), tensors, there)
        unnamed = sorted(there - used)
        if unnamed:
            self.refused.append(
                f"{tensors} holds {len(unnamed)} tensors that {JSON} does not name, first {unnamed[0]!r}: "
                "it was not written to its end"
            )
        if not self.probes and not self.refused:
            raise CompareError(
                f"{where} holds statistics alone: nothing in them can be compared bit for bit",
                'dump with the task "tensor", or statistics with md5',
            )

    def _entry(
        self, call: str, part: str, entry: Mapping[str, Any], where: tuple[str, str], tensors: Path, there: set[str]
    ) -> None:
        step, rank = where
        key = (step, f"{call}.{part}", rank)
        name, dtype = entry.get("data_name"), str(entry.get("dtype", "")).removeprefix("torch.").lower()
        if name is None:
            crc = entry.get("md5")
            if isinstance(crc, str) and crc:
                self.sums += 1
                shape = tuple(one for one in entry.get("shape", ()) if type(one) is int)
                self._put(Probe(key, f"{'xor' if crc.startswith('0x') else 'crc32'}:{crc.lower()}", shape, dtype))
            elif "shape" in entry:
                self.others += 1
            return
        if not isinstance(name, str) or "/" in name or name in {"", ".", ".."}:
            raise CompareError(f"{JSON} names tensor {name!r}, which leads outside", "it is no dump of msprobe")
        if name not in there:
            self.refused.append(f"{tensors / name} is missing")
            return
        with Opened(tensors / name) as file:
            tensor, held = _tensor(file)
            if dtype and tensor.element.name != dtype:
                self.cast += 1
            self._put(probe(key, tensor, held))

    def _put(self, one: Probe) -> None:
        """A probe, the result of a call with the hash of the call's inputs."""
        request, boundary, rank = one.key
        call, dot, _rest = boundary.partition(".output")
        if dot and ".backward" not in call:  # there it depends on the version which gradient is called input
            begins = tuple(f"{call}.{part}" for part in _INPUTS)
            inputs = []
            for other in reversed(self.probes):
                if other.key[0] == request and other.key[2] == rank and other.key[1].startswith(begins):
                    inputs.append(other)
                elif inputs:
                    break
            one = with_input(one, reversed(inputs))
        self.probes.append(one)
        if len(self.probes) > MAX_FILES:
            raise CompareError(f"a dump of more than {MAX_FILES} tensors", "give one step or one rank of it")


def _load(path: Path) -> dict[str, Any]:
    with Opened(path) as file:
        if file.size > _MAX_JSON:
            raise CompareError(f"{path} has {file.size} bytes, over the limit of {_MAX_JSON}")
        try:
            found = json.loads(file.read(0, file.size))
        except (ValueError, RecursionError) as error:
            raise CompareError(f"{path} is no JSON: {error}", "it may not be written to its end") from error
    if not isinstance(found, dict):
        raise CompareError(f"{path} is no JSON object")
    return found


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Call, part and entry of each value, in execution order: of one call first what it was given."""
    for call, value in data.items():
        parts = value if isinstance(value, dict) else {"output": value}
        for part in sorted(parts, key=lambda part: part not in _INPUTS):
            yield from ((call, f"{part}{place}", entry) for place, entry in _flat(parts[part], 0))


def _flat(value: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries of nested lists and dicts, with their places."""
    if depth > _DEPTH:
        raise CompareError(f"{JSON} nests deeper than {_DEPTH}")
    if isinstance(value, dict) and (isinstance(value.get("type"), str) or isinstance(value.get("data_name"), str)):
        yield "", value
    elif isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, own in pairs:
            yield from ((f".{key}{place}", entry) for place, entry in _flat(own, depth + 1))


def _tensor(file: Opened) -> tuple[Tensor, Kept]:
    if bytes(file.read(0, min(file.size, 6))) == b"\x93NUMPY":
        array = npy(file)
        return array, kept_by(array, file, npy)
    tensor = plain(TorchFile(file).root)
    if not hasattr(tensor, "bits"):
        raise CompareError(f"{file.path} holds no tensor", "it is none of msprobe's")
    return tensor, kept(tensor, file)
