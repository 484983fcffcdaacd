"""Layer traces of two sides: the first boundary that differs in execution order, and the last that agrees before it.

A probe is named by (request, boundary, logical slice), e.g. ("step7-p2-s3", "layer2.attn.out", "tokens=0:128"), never
by rank. Both sides must have the same probes in the same order: a missing one spoils the trace. So do inputs that
differ: other token ids or positions are another question, not another answer. `trace_reading` has the forms of a trace.

What follows a discrete decision that differs is `downstream` of it: it computes something else. The first difference is
no cause: an operator is blamed only if its input is recorded and equal. Nothing here passes or fails anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tic_daemon.compare.manifests import Claims, claims_of
from tic_daemon.compare.probes import NAMED, Key, Probe, Trace
from tic_daemon.compare.replay import captured
from tic_daemon.compare.tensors import TensorFigures, VocabFigures, tensor_figures, vocab_figures
from tic_daemon.compare.trace_reading import read_trace

MEASURED: Final = 64  # probes of which the tensors are measured, the first in execution order
INPUTS: Final = frozenset(
    {
        "input_ids",
        "token_ids",
        "positions",
        "position_ids",
        "seq_lens",
        "extend_seq_lens",
        "cu_seqlens",
        "attention_mask",
    }
)
"""Last parts of boundaries that are what the model was asked."""


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
        readers, provenance, notes: of both sides, as of a `Trace`. said: by their manifests. sha256: their
            contents.
    """

    unfit: tuple[str, ...]
    probes: int
    requests: int
    first: Key | None
    last_equal: Key | None
    differences: tuple[Difference, ...]
    readers: tuple[str, str] = ("", "")
    provenance: tuple[str, str] = ("native", "native")
    notes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    said: tuple[Claims, ...] = ()
    sha256: tuple[str, str] = ("", "")

    @property
    def of_bits(self) -> bool:
        """Whether equal hashes mean equal bits of the tensors' own types."""
        return set(self.provenance) == {"native"}


def compare_traces(a: Path, b: Path) -> TraceComparison:
    """Compare two traces.

    Raises:
        CompareError: a file cannot be read or is no trace.
    """
    return compared(read_trace(a), read_trace(b))


def compared(a: Trace, b: Trace, manifests: Mapping[str, Path] | None = None) -> TraceComparison:
    """Compare two traces that are read.

    Args:
        manifests: by trace the manifest that names it, where it is not beside it.

    Raises:
        CompareError: a tensor cannot be read again; a manifest is there and cannot be read.
    """
    one, other = a.probes, b.probes
    by_key: Mapping[Key, Probe] = {probe.key: probe for probe in other}
    said = tuple(claims_of(side.path, side.size, side.sha256, (manifests or {}).get(side.path)) for side in (a, b))
    unfit = [
        f"side {name}: {word}"
        for name, side, claim in zip("AB", (a, b), said, strict=True)
        for word in (*side.refused, *claim.gaps, *captured(claim))
    ]
    unfit += _itself(a, b, said)
    unfit = unfit or _unfit(one, other, by_key)
    requests = {probe.key[0] for probe in one}
    own = (a.reader, b.reader), (a.provenance, b.provenance), (a.notes, b.notes), said, (a.content, b.content)
    if unfit:
        return TraceComparison(tuple(unfit), len(one), len(requests), None, None, (), *own)
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
    return TraceComparison((), len(one), len(requests), first, last_equal, tuple(found), *own)


def _itself(a: Trace, b: Trace, said: tuple[Claims, ...]) -> list[str]:
    """Why both traces are one: a file, a process' one act of producing, or an option. It agrees with itself."""
    first, second = said
    paths = Path(a.path), Path(b.path)
    if all(path.exists() for path in paths) and paths[0].samefile(paths[1]):
        return [f"self-comparison: {a.path} and {b.path} are one thing"]
    if first.receipt is not None and first.receipt == second.receipt:
        return ["self-comparison: both sides have one producer's receipt"]
    bypass = first.bypass or second.bypass
    return [f"self-comparison: with {bypass} both sides are one thing"] if bypass else []


def _unfit(one: tuple[Probe, ...], other: tuple[Probe, ...], by_key: Mapping[Key, Probe]) -> list[str]:
    own = {probe.key for probe in one}
    missing = [f"side B lacks probe {probe.key}" for probe in one if probe.key not in by_key]
    missing += [f"side A lacks probe {probe.key}" for probe in other if probe.key not in own]
    if missing:
        return missing[:NAMED] + ([f"and {len(missing) - NAMED} more"] if len(missing) > NAMED else [])
    orders: tuple[dict[str, list[tuple[str, str]]], ...] = {}, {}
    for side, order in zip((one, other), orders, strict=True):
        for probe in side:
            order.setdefault(probe.key[0], []).append(probe.key[1:])
    for request, first in orders[0].items():
        second = orders[1][request]
        place = next((place for place, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]), None)
        if place is not None:
            return [f"{request!r}: probe {place} is {first[place]} in A and {second[place]} in B: another order"]
    unlike = [
        f"{probe.key}: {probe.dtype} {list(probe.shape)} in A, {twin.dtype} {list(twin.shape)} in B"
        for probe in one
        if ((twin := by_key[probe.key]).dtype, twin.shape) != (probe.dtype, probe.shape)
    ]
    unlike += [
        f"inputs differ: {probe.key}"
        for probe in one
        if probe.key[1].rpartition(".")[2] in INPUTS and by_key[probe.key].sha256 != probe.sha256
    ]
    return unlike[:NAMED]


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
