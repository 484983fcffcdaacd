"""A trace as a directory: `trace.jsonl` with the hashes, and `{key}.pt` with the tensors that were saved.

Hashes first, tensors on demand: `trace.jsonl` has a line for each probe (`trace_reading`), which gives the order. A
tensor is a file of torch.save with nothing but it, named `REQUEST__BOUNDARY__SLICE.pt`, each part quoted as in a URL
(%2F for a slash, %5F%5F for two underscores). Its bytes must have the line's hash; a tensor without a line has no
place in the order.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from tic_daemon.compare.opened import Opened
from tic_daemon.compare.probes import Key, Probe, Trace, kept, listing, probe
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

LINES: Final = "trace.jsonl"
_PARTS: Final = 3


def file_name(key: Key) -> str:
    """What the tensor of a probe is called."""
    return "__".join(quote(part, safe=" =:,.+-@").replace("__", "%5F%5F") for part in key) + ".pt"


def joined(folder: Path, lines: list[Probe]) -> Trace:
    """The probes of `trace.jsonl` with the tensors beside it.

    Raises:
        CompareError: a tensor cannot be read.
    """
    names, refused = listing(folder, ".pt")
    by_key = {one.key: place for place, one in enumerate(lines)}
    probes = list(lines)
    for name in names:
        key = tuple(unquote(part) for part in name.removesuffix(".pt").split("__"))
        place = by_key.get(key) if len(key) == _PARTS else None
        if place is None:
            refused.append(f"{folder / name} has no line in {LINES}")
            continue
        with Opened(folder / name) as file:
            tensor = plain(TorchFile(file).root)
            if not hasattr(tensor, "bits"):
                raise CompareError(f"{file.path} holds no tensor", "save the tensor alone")
            found, line = probe(probes[place].key, tensor, kept(tensor, file)), probes[place]
            if (found.sha256, found.shape, found.dtype) != (line.sha256, line.shape, line.dtype):
                refused.append(f"{file.path} is not the tensor of its line in {LINES}")
            probes[place] = replace(line, tensor=found.tensor)
    return Trace(str(folder), "keyed", tuple(probes), refused=tuple(refused))
