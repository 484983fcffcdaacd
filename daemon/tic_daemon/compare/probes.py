"""Value types of layer traces, and what their readers share.

A probe is one observation: a tensor, or its hash alone, at a boundary of one request, named by meaning and never by
rank. A trace is all that one side recorded, in execution order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare.elements import Bits, Element
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.sides import Tensor
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

Key = tuple[str, str, str]
"""Request, boundary, logical slice; e.g. ("step7-p2-s3", "layer2.attn.out", "tokens=0:128")."""

MAX_FILES: Final = 1 << 16
NAMED: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """One observation. `input_sha256` is "" where it was not recorded; `tensor` None where only the hash was."""

    key: Key
    sha256: str
    shape: tuple[int, ...]
    dtype: str
    input_sha256: str = ""
    discrete: bool = False
    tensor: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What one side recorded.

    Attributes:
        path: as given.
        reader: what read it ("lines", "torch", "sglang-dumper", ...).
        probes: in execution order.
        provenance: as of a `Side`: "native" if all hashes are of bytes in the tensors' own types.
        notes: what the reader left out or found odd, in words.
        refused: what makes the whole trace unfit, in words.
        sha256, size: of the file; "" and 0 for a directory.
    """

    path: str
    reader: str
    probes: tuple[Probe, ...]
    provenance: str = "native"
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    sha256: str = ""
    size: int = 0

    @property
    def content(self) -> str:
        """SHA-256 of the file; of a directory the hash over its probes' hashes."""
        return self.sha256 or hashlib.sha256("".join(probe.sha256 for probe in self.probes).encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A tensor of one of many files, which is opened again when its bits are asked for.

    Raises (on `bits`):
        CompareError: the file is not what it was.
    """

    element: Element
    shape: tuple[int, ...]
    path: Path
    identity: tuple[int, int, int]
    read: Callable[[Opened], Tensor]

    def bits(self) -> Bits:
        with Opened(self.path) as file:
            if _identity(file) != self.identity:
                raise CompareError(f"{self.path} changed while it was compared", "compare it again once it is written")
            return self.read(file).bits().copy()


def _identity(file: Opened) -> tuple[int, int, int]:
    return file.stat.st_ino, file.size, file.stat.st_mtime_ns


def kept(tensor: Tensor, file: Opened, *place: Any) -> Kept:
    """A tensor at a place within the root of a file of torch.save that will be closed."""

    def read(again: Opened) -> Tensor:
        value = TorchFile(again).root
        for step in place:
            value = value[step]
        found: Tensor = plain(value)
        return found

    return kept_by(tensor, file, read)


def kept_by(tensor: Tensor, file: Opened, read: Callable[[Opened], Tensor]) -> Kept:
    """A tensor of a file that will be closed, and how it is read again."""
    return Kept(tensor.element, tensor.shape, file.path, _identity(file), read)


def probe(key: Key, tensor: Tensor, held: Tensor | None = None) -> Probe:
    """A probe of a tensor that is there. Integers are discrete decisions.

    Args:
        held: what the probe keeps to be measured later; the tensor itself if None.
    """
    digest = hashlib.sha256(tensor.bits().data.cast("B")).hexdigest() if tensor.bits().size else _NOTHING
    return Probe(key, digest, tensor.shape, tensor.element.name, "", tensor.element.kind != "float", held or tensor)


_NOTHING: Final = hashlib.sha256().hexdigest()


def with_input(one: Probe, inputs: Iterable[Probe]) -> Probe:
    """The probe of an operator's result, with the hash over all its recorded inputs; without, if there is none."""
    hashes = [own.sha256 for own in inputs]
    if not hashes:
        return one
    digest = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return replace(one, input_sha256=digest)


def listing(folder: Path, ending: str) -> tuple[list[str], list[str]]:
    """Names of the plain files of a directory that end so, sorted; and a word for each link, which is not followed.

    Raises:
        CompareError: the directory cannot be read, or holds too many files.
    """
    names, links = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.endswith(ending):
                    continue
                if entry.is_symlink():
                    links.append(f"{folder / entry.name} is a link: it is not followed")
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                if len(names) > MAX_FILES:
                    raise CompareError(f"{folder} holds more than {MAX_FILES} files", "give a smaller dump")
    except OSError as error:
        raise CompareError(f"{folder} cannot be read: {error.strerror}") from error
    return sorted(names), sorted(links)


def folders(folder: Path) -> list[str]:
    """Names of the directories within a directory, sorted, links left out.

    Raises:
        CompareError: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise CompareError(f"{folder} cannot be read: {error.strerror}") from error
