"""Value types of what is compared: a tensor that is read when asked for, a sequence, a side.

A side is one dump: log-probabilities of the response tokens of many requests, each with a mask of the tokens that
count. Nothing is loaded before it is asked for, so that a side may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from tic_daemon.compare.elements import Bits, Element
from tic_daemon.errors import CompareError

Segments = tuple[tuple[int, str], ...]
_PAIR = 2


class Tensor(Protocol):
    """An array of one element type. `bits()` is flat, in C order, and read anew at each call."""

    @property
    def element(self) -> Element: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def bits(self) -> Bits: ...


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A tensor in memory."""

    element: Element
    shape: tuple[int, ...]
    flat: Bits

    def bits(self) -> Bits:
        return self.flat

    @classmethod
    def of(cls, element: Element, array: np.ndarray) -> Held:
        """An array whose numpy type has the element's width."""
        flat = np.ascontiguousarray(array).reshape(-1)
        return cls(element, tuple(array.shape), flat.view(element.bits))


def count(tensor: Tensor) -> int:
    """Number of elements."""
    return prod(tensor.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One request's response.

    Attributes:
        request: its id, as text.
        logprobs: of each response position.
        mask: of the same shape; what is not bool is refused when sides are aligned.
        tokens: ids of the response positions, or None where the dump has none.
        prompt: ids of the prompt, or None; without any if `tokens` begin with it.
        prompt_length: its length, where only that is known.
        group: what samples of one prompt share, or "".
        policy: versions of the policy that made the response, in order; empty where unknown.
        segments: from which position on each version made it, where the dump or its manifest says so.
    """

    request: str
    logprobs: Tensor
    mask: Tensor
    tokens: Tensor | None = None
    prompt: Tensor | None = None
    prompt_length: int | None = None
    group: str = ""
    policy: tuple[str, ...] = ()
    segments: Segments = ()


def segments_of(value: Any, where: str) -> Segments:
    """Segments from JSON: [[first position, version], ...], in order, the first at 0.

    Raises:
        CompareError: it is something else.
    """
    found = []
    for one in value if isinstance(value, list) else ():
        if not isinstance(one, list) or len(one) != _PAIR or type(one[0]) is not int or type(one[1]) not in {str, int}:
            break
        found.append((one[0], str(one[1])))
    starts = [start for start, _version in found]
    if not found or len(found) != len(value) or starts[0] != 0 or starts != sorted(set(starts)):
        raise CompareError(f"{where} is no list of [first position, version], in order and from 0 on")
    return tuple(found)


PROVENANCES = ("native", "json_exact_f32", "cast_f32", "unknown")
"""How the numbers came into the file: in their own type; as text of which float32 comes back exactly; cast to float32
before they were written; or nobody knows. Only `native` supports a claim on bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One dump.

    Attributes:
        path: as given.
        part: which side of a file that holds both ("rollout", "trainer"), or "".
        reader: what read it ("torch", "safetensors", "npz", "jsonl", "prime-rl", ...).
        provenance: one of PROVENANCES.
        sequences: by request, sorted by the id's characters.
        sha256, size: of the file, or of all files in order of their names for a directory.
        inode: device and inode of the file.
        notes: what the reader left out or found odd, in words.
        refused: what makes the whole side unfit to be compared, e.g. an id that stands there twice.
    """

    path: str
    part: str
    reader: str
    provenance: str
    sequences: Mapping[str, Sequence]
    sha256: str = ""
    size: int = 0
    inode: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by name of each file that was read."""


def in_order(sequences: list[Sequence]) -> tuple[dict[str, Sequence], tuple[str, ...]]:
    """Sequences by request in the order of the ids' characters, and a word for each id that stands there twice."""
    found: dict[str, Sequence] = {}
    twice: list[str] = []
    for sequence in sorted(sequences, key=lambda one: one.request):
        if sequence.request in found:
            twice.append(f"request {sequence.request!r} stands there twice")
        found[sequence.request] = sequence
    return found, tuple(dict.fromkeys(twice))
