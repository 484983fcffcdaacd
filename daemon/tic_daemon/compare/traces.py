"""Layer traces of two sides: the first boundary that differs in execution order, and the last that agrees before it.

A probe is named by (request, boundary, logical slice), e.g. ("step7-p2-s3", "layer2.attn.out", "tokens=0:128"), never
by rank. Both sides must have the same probes in the same order: a missing one spoils the trace. A trace is

    JSON lines    request, boundary, slice, order, sha256 (of the contiguous bytes in the own type), shape, dtype, and
                  where there are any input_sha256 and discrete
    torch.save    {(request, boundary, slice): tensor} in execution order; hashes are made here, and what differs is
                  measured, too. Integer tensors are discrete decisions (experts, top-k)

What follows a discrete decision that differs is `downstream` of it: it computes something else. The first difference is
no cause: an operator is blamed only if its input is recorded and equal. Nothing here passes or fails anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tic_daemon.compare import plainfiles
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.sides import Tensor
from tic_daemon.compare.tensors import TensorFigures, VocabFigures, tensor_figures, vocab_figures
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

Key = tuple[str, str, str]
NAMED: Final = 20
MEASURED: Final = 64  # probes of which the tensors are measured, the first in execution order
_PARTS: Final = 3


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


@dataclass(frozen=True, slots=True)
class Difference:
    """One probe that differs. `operator`: what may be said of the operator that made it."""

    key: Key
    downstream: bool
    operator: str
    figures: TensorFigures | None
    vocab: VocabFigures | None


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """Two traces.

    Attributes:
        unfit: what spoils the comparison, in words; then nothing else is said.
        probes: of each side. requests: distinct ones.
        first: the first that differs in execution order. last_equal: the last that agrees before it, of its request.
        differences: all that differ, in order; the first MEASURED of them with figures where tensors are there.
    """

    unfit: tuple[str, ...]
    probes: int
    requests: int
    first: Key | None
    last_equal: Key | None
    differences: tuple[Difference, ...]


def compare_traces(a: Path, b: Path) -> TraceComparison:
    """Compare two traces.

    Raises:
        CompareError: a file cannot be read or is no trace.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(Opened(path)) for path in (a, b)]
        one, other = (_read(file) for file in files)
        found = _compared(one, other)
        for file in files:
            file.unchanged()
    return found


def _read(file: Opened) -> list[Probe]:
    head = bytes(file.read(0, min(file.size, 1)))
    probes = _lines(file) if head == b"{" else _tensors(file)
    names: set[Key] = set()
    for probe in probes:
        if probe.key in names:
            raise CompareError(
                f"{file.path} has probe {probe.key} twice", "one record a call; a recomputation is another"
            )
        names.add(probe.key)
    return probes


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
        probe = Probe(
            (str(key[0]), str(key[1]), str(key[2])), str(digest).lower(), tuple(shape or ()), str(line["dtype"]),
            str(line.get("input_sha256") or "").lower(), line.get("discrete") is True,
        )  # fmt: skip
        found.append((order, number, probe))
    return [probe for _order, _number, probe in sorted(found, key=lambda one: one[:2])]


def _dims(value: Any) -> bool:
    return isinstance(value, list) and all(type(length) is int and length >= 0 for length in value)


def _tensors(file: Opened) -> list[Probe]:
    root = TorchFile(file).root
    found = []
    for key, value in root.items() if isinstance(root, dict) else ():
        tensor = plain(value)
        named = isinstance(key, tuple) and len(key) == _PARTS and all(isinstance(part, str) for part in key)
        if not named or not hasattr(tensor, "bits"):
            raise CompareError(f"{file.path} is no trace: {key!r}", "save {(request, boundary, slice): tensor}")
        digest = hashlib.sha256(tensor.bits().tobytes()).hexdigest()
        discrete = tensor.element.kind != "float"
        found.append(Probe(key, digest, tensor.shape, tensor.element.name, "", discrete, tensor))
    return found


def _compared(one: list[Probe], other: list[Probe]) -> TraceComparison:
    by_key: Mapping[Key, Probe] = {probe.key: probe for probe in other}
    unfit = _unfit(one, other, by_key)
    requests = {probe.key[0] for probe in one}
    if unfit:
        return TraceComparison(tuple(unfit), len(one), len(requests), None, None, ())
    found: list[Difference] = []
    decided: set[str] = set()
    last: dict[str, Key] = {}
    last_equal = None
    for probe in one:
        twin, request = by_key[probe.key], probe.key[0]
        if probe.sha256 == twin.sha256:
            last[request] = probe.key
            continue
        if not found:
            last_equal = last.get(request)
        measured = len(found) < MEASURED and probe.tensor is not None and twin.tensor is not None
        found.append(
            Difference(
                probe.key,
                request in decided,
                _operator(probe, twin),
                tensor_figures(probe.tensor, twin.tensor) if measured else None,  # type: ignore[arg-type]
                _vocab(probe, twin) if measured else None,
            )
        )
        if probe.discrete or twin.discrete:
            decided.add(request)
    first = found[0].key if found else None
    return TraceComparison((), len(one), len(requests), first, last_equal, tuple(found))


def _unfit(one: list[Probe], other: list[Probe], by_key: Mapping[Key, Probe]) -> list[str]:
    own = {probe.key for probe in one}
    missing = [f"side B lacks probe {probe.key}" for probe in one if probe.key not in by_key]
    missing += [f"side A lacks probe {probe.key}" for probe in other if probe.key not in own]
    if missing:
        return missing[:NAMED] + ([f"and {len(missing) - NAMED} more"] if len(missing) > NAMED else [])
    for request in dict.fromkeys(probe.key[0] for probe in one):
        first, second = ([probe.key[1:] for probe in side if probe.key[0] == request] for side in (one, other))
        place = next((place for place, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]), None)
        if place is not None:
            return [f"{request!r}: probe {place} is {first[place]} in A and {second[place]} in B: another order"]
    return [
        f"{probe.key}: {probe.dtype} {list(probe.shape)} in A, {twin.dtype} {list(twin.shape)} in B"
        for probe in one
        if ((twin := by_key[probe.key]).dtype, twin.shape) != (probe.dtype, probe.shape)
    ][:NAMED]


def _operator(a: Probe, b: Probe) -> str:
    if not a.input_sha256 or not b.input_sha256:
        return "its input was not recorded: the operator cannot be blamed"
    if a.input_sha256 != b.input_sha256:
        return "its input differs already: look before it"
    return "its input is equal: the operator gives another result"


def _vocab(a: Probe, b: Probe) -> VocabFigures | None:
    """Of a boundary that is named logits."""
    tensors = a.tensor, b.tensor
    if a.key[1].rpartition(".")[2] != "logits" or tensors[0] is None or tensors[1] is None:
        return None
    try:
        return vocab_figures(tensors[0], tensors[1])
    except ValueError:
        return None
