"""Which reader takes a trace: a directory by what lies in it, a file by its first bytes and its keys.

JSON lines    request, boundary, slice, order, sha256 (of the contiguous bytes in the own type), shape, dtype, and
              where there are any input_sha256 and discrete
torch.save    {(request, boundary, slice): tensor} in execution order; hashes are made here, and what differs is
              measured, too. Integer tensors are discrete decisions (experts, top-k)
directories   of SGLang (`sglang`), msprobe (`msprobe`), or `trace.jsonl` with tensors (`keyed`)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare import keyed, msprobe, plainfiles, sglang
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.probes import Probe, Trace, kept, probe
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

_PARTS: Final = 3


def is_folder(path: Path) -> bool:
    """Whether a directory holds a trace.

    Raises:
        CompareError: it cannot be read.
    """
    return (path / keyed.LINES).exists() or msprobe.is_dump(path) or sglang.is_passes(path) or sglang.is_dump(path)


def read_trace(path: Path) -> Trace:
    """One side.

    Raises:
        CompareError: it cannot be read or is no trace.
    """
    if path.name == msprobe.JSON and path.is_file():
        path = path.parent
    found = _folder(path) if path.is_dir() else _file(path)
    seen = set()
    for one in found.probes:
        if one.key in seen:
            raise CompareError(f"{path} has probe {one.key} twice", "one record a call; a recomputation is another")
        seen.add(one.key)
    return found


def _folder(path: Path) -> Trace:
    if (path / keyed.LINES).exists():
        with Opened(path / keyed.LINES) as file:
            return keyed.joined(path, _lines(file))
    for known, read in (
        (msprobe.is_dump, msprobe.dump),
        (sglang.is_passes, sglang.passes),
        (sglang.is_dump, sglang.dump),
    ):
        if known(path):
            return read(path)
    raise CompareError(f"{path} is a directory without a trace", "known are those in docs/reference/compare.md")


def _file(path: Path) -> Trace:
    with Opened(path) as file:
        lines = bytes(file.read(0, min(file.size, 16))).lstrip()[:1] == b"{"
        found = Trace(str(path), "lines", tuple(_lines(file))) if lines else _tensors(file)
        found = replace(found, sha256=file.sha256(), size=file.size)
        file.unchanged()
        return found


def _lines(file: Opened) -> list[Probe]:
    found = []
    for number, line in enumerate(plainfiles.lines(file), 1):
        where = f"{file.path}: object {number}"
        key = tuple(line.get(name) for name in ("request", "boundary", "slice"))
        digest, shape, order = line.get("sha256"), line.get("shape"), line.get("order")
        texts = all(isinstance(part, str) and part for part in (*key, digest, line.get("dtype")))
        if not texts or type(order) is not int or not _dims(shape):
            raise CompareError(
                f"{where} is no probe", "it needs request, boundary, slice, order, sha256, shape and dtype"
            )
        one = Probe(
            (str(key[0]), str(key[1]), str(key[2])), str(digest).lower(), tuple(shape or ()), str(line["dtype"]),
            str(line.get("input_sha256") or "").lower(), line.get("discrete") is True,
        )  # fmt: skip
        found.append((order, number, one))
    return [one for _order, _number, one in sorted(found, key=lambda own: own[:2])]


def _dims(value: Any) -> bool:
    return isinstance(value, list) and all(type(length) is int and length >= 0 for length in value)


def _tensors(file: Opened) -> Trace:
    root = TorchFile(file).root
    found = []
    if isinstance(root, dict) and any(type(key) is str and hasattr(plain(own), "bits") for key, own in root.items()):
        return _one_pass(file, root)
    for key, value in root.items() if isinstance(root, dict) else ():
        tensor = plain(value)
        named = isinstance(key, tuple) and len(key) == _PARTS and all(isinstance(part, str) for part in key)
        if not named or not hasattr(tensor, "bits"):
            raise CompareError(f"{file.path} is no trace: {key!r}", "save {(request, boundary, slice): tensor}")
        found.append(probe(key, tensor, kept(tensor, file, key)))
    return Trace(str(file.path), "torch", tuple(found))


def _one_pass(file: Opened, root: dict[Any, Any]) -> Trace:
    """One forward pass of SGLang's debug folder, by itself."""
    before, own = sglang.late(list(root))
    probes = [one for name in own for one in sglang.module(root, name, 0, "all", file)]
    notes = (f"{len(before)} modules at the front belong to the pass before and are left out",) if before else ()
    return Trace(str(file.path), "sglang-passes", tuple(probes), notes=notes)
