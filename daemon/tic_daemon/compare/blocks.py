"""Whole sequences, some at a time, one behind the other: what the figures are made from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import fsum
from operator import lt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.elements import PIECE, Bits, Element, Float64
from tic_daemon.compare.sides import Side, Tensor, count
from tic_daemon.compare.torchfile import Stored

BLOCK: Final = 1 << 16
"""Tokens that are held at a time: what is made of them stays near a core, and a block costs a fifth of a millisecond by
itself. A longer sequence is one block."""

Place = tuple[str, int]
"""A request and a response position, counted from 0 with masked positions."""


def pieces(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """A sequence in pieces that are added at a time: how long they are must not depend on the machine."""
    for at in range(begin, end, PIECE):
        yield at, min(at + PIECE, end)


def dot(one: Float64, other: Float64, begin: int, end: int) -> float:
    """The sum of products over one sequence."""
    if end - begin <= PIECE:
        return float(one[begin:end].dot(other[begin:end]))
    return fsum(float(one[at:to].dot(other[at:to])) for at, to in pieces(begin, end))


def dots(one: Float64, other: Float64, edges: list[int]) -> list[float]:
    """The sum of products over each sequence. `edges`: where each begins, and the end of the last."""
    size = edges[1] - edges[0]
    if 0 < size <= PIECE and edges == list(range(edges[0], edges[-1] + 1, size)):  # all of one length: the same at once
        whole = slice(edges[0], edges[-1])
        rows = np.matmul(one[whole].reshape(-1, 1, size), other[whole].reshape(-1, size, 1))  # each a dot product
        found: list[float] = rows.reshape(-1).tolist()
        return found
    return [dot(one, other, begin, end) for begin, end in pairwise(edges)]


def partial(terms: Float64, starts: NDArray[np.int64], edges: list[int]) -> list[float]:
    """The sum of each sequence, added in pairs. `edges`: `starts` as a list."""
    found = np.zeros(len(starts) - 1)
    if all(map(lt, edges, edges[1:])):
        np.add.reduceat(terms, starts[:-1], out=found)
    elif len(terms):
        there = starts[1:] > starts[:-1]
        found[there] = np.add.reduceat(terms, starts[:-1][there])
    return found.tolist()


class Scratch:
    """Arrays that are filled again for each block: memory that was just used is in the cache, new memory is not."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[str, Any], NDArray[Any]] = {}

    def of(self, name: str, size: int, dtype: Any = np.float64) -> NDArray[Any]:
        """An array of that name; what it held before is lost."""
        own = self._held.get((name, dtype))
        if own is None or own.size < size:
            own = self._held[name, dtype] = np.empty(size, dtype)
        return own[:size]


class Block:
    """Some whole sequences, one behind the other, valid tokens only. It is valid until the next one is asked for.

    Attributes:
        requests: ids.
        starts: where each sequence begins among the valid tokens; one more for the end. edges: the same as a list.
        masks: the mask of each sequence; None if each position of each of them is valid.
        elements: types of both sides. a, b: bits.
        differ: which bits differ, `mismatched` of them; None where the types do.
    """

    def __init__(
        self,
        requests: tuple[str, ...],
        starts: NDArray[np.int64],
        masks: tuple[np.ndarray, ...] | None,
        elements: tuple[Element, Element],
        bits: tuple[Bits, Bits],
        scratch: Scratch,
    ) -> None:
        self.requests, self.starts, self.masks, self.elements, self.scratch = requests, starts, masks, elements, scratch
        self.a, self.b = bits
        self.edges: list[int] = starts.tolist()
        self.differ: NDArray[np.bool_] | None = None
        self.mismatched = 0
        if elements[0] is elements[1]:
            self.differ = np.not_equal(self.a, self.b, out=scratch.of("differ", len(self.a), np.bool_))
            self.mismatched = int(np.count_nonzero(self.differ))
        self._values_a: Float64 | None = None
        self._values_b: Float64 | None = None
        self._squares: tuple[list[float], list[float], list[float]] | None = None

    @property
    def values_a(self) -> Float64:
        """Side A as float64."""
        if self._values_a is None:
            self._values_a = self.elements[0].values(self.a, self.scratch.of("values a", len(self.a)))
        return self._values_a

    @property
    def values_b(self) -> Float64:
        """Side B as float64. The same array as that of A where no bit differs."""
        if self._values_b is None:
            if self.differ is not None and not self.mismatched:
                self._values_b = self.values_a
            else:
                self._values_b = self.elements[1].values(self.b, self.scratch.of("values b", len(self.b)))
        return self._values_b

    @property
    def squares(self) -> tuple[list[float], list[float], list[float]]:
        """The sums of a*a, b*b and a*b of each sequence."""
        if self._squares is None:
            edges, a, b = self.edges, self.values_a, self.values_b
            first = dots(a, a, edges)
            self._squares = (first, first, first) if a is b else (first, dots(b, b, edges), dots(a, b, edges))
        return self._squares

    def extremes(self, side: int) -> tuple[float, float]:
        """The smallest and the largest number of a side (0 or 1); NaN if there is one. It has tokens."""
        numbers = self.elements[side].native((self.a, self.b)[side])
        if numbers is None:
            numbers = self.values_b if side else self.values_a
        return float(numbers.min()), float(numbers.max())

    def place(self, index: int) -> Place:
        """Where a valid token of the block stands."""
        own = bisect_right(self.edges, index) - 1
        within = index - self.edges[own]
        return self.requests[own], within if self.masks is None else int(np.flatnonzero(self.masks[own])[within])

    @property
    def positions(self) -> np.ndarray:
        """The response position of each valid token."""
        if self.masks is None:
            found: np.ndarray = np.arange(len(self.a)) - np.repeat(self.starts[:-1], np.diff(self.starts))
            return found
        return np.concatenate([np.flatnonzero(mask) for mask in self.masks])

    def apart(self) -> Iterator[Block]:
        """Each sequence as a block of its own."""
        for own, request in enumerate(self.requests):
            piece = slice(self.edges[own], self.edges[own + 1])
            starts = np.array([0, piece.stop - piece.start])
            masks = self.masks and (self.masks[own],)
            yield Block((request,), starts, masks, self.elements, (self.a[piece], self.b[piece]), Scratch())


def blocks(a: Side, b: Side, requests: tuple[str, ...], size: int = BLOCK, *, whole: bool = False) -> Iterator[Block]:
    """The sequences in order, some at a time: as many as have `size` positions, and at least one.

    Args:
        whole: it is known that each position of each sequence is valid, and no mask needs to be read.
    """
    scratch = Scratch()
    batch: list[str] = []
    held, kind = 0, None
    for request in requests:
        one, other = a.sequences[request].logprobs, b.sequences[request].logprobs
        length, own = count(one), (one.element, other.element)
        if batch and (held + length > size or own != kind):
            yield _block(a, b, batch, whole, scratch)
            batch, held = [], 0
        batch.append(request)
        held, kind = held + length, own
    if batch:
        yield _block(a, b, batch, whole, scratch)


def _block(a: Side, b: Side, requests: list[str], whole: bool, scratch: Scratch) -> Block:
    first = [a.sequences[request] for request in requests]
    tensors = [one.logprobs for one in first], [b.sequences[request].logprobs for request in requests]
    sizes = [count(tensor) for tensor in tensors[0]]
    bits = _joined(tensors[0], sizes, scratch, "a"), _joined(tensors[1], sizes, scratch, "b")
    masks = None if whole else tuple(one.mask.bits() != 0 for one in first)
    if masks is not None:
        valid = [int(np.count_nonzero(mask)) for mask in masks]
        if valid == sizes:
            masks = None
        else:
            mask = np.concatenate(masks)
            bits, sizes = (bits[0][mask], bits[1][mask]), valid
    elements = tensors[0][0].element, tensors[1][0].element
    starts = np.array([*accumulate(sizes, initial=0)], np.int64)
    return Block(tuple(requests), starts, masks, elements, bits, scratch)


def _joined(tensors: list[Tensor], sizes: list[int], scratch: Scratch, name: str) -> Bits:
    """The bits of several tensors of one type, one behind the other; those of files are read to their place."""
    dtype = tensors[0].element.bits
    found = scratch.of(f"bits {name}", sum(sizes), dtype)
    begin = 0
    for tensor, size in zip(tensors, sizes, strict=True):
        own = found[begin : begin + size]
        if isinstance(tensor, Stored):
            tensor.into(own)
        else:
            own[:] = tensor.bits()
        begin += size
    return found
