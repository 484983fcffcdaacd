"""Whole sequences, some at a time, one behind the other: what the figures are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Bits, Element, Float64
from tic_daemon.compare.sides import Side, Tensor, count
from tic_daemon.compare.torchfile import Stored

BLOCK: Final = 1 << 15
"""Tokens that are held at a time; a longer sequence is one block of its own."""

Place = tuple[str, int]
"""A request and a response position, counted from 0 with masked positions."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some whole sequences, one behind the other, valid tokens only.

    Attributes:
        requests: ids.
        starts: where each sequence begins among the valid tokens; one more for the end.
        masks: the mask of each sequence; None if each position of each of them is valid.
        a, b: bits. values_a, values_b: the same as float64.
    """

    requests: tuple[str, ...]
    starts: np.ndarray
    masks: tuple[np.ndarray, ...] | None
    elements: tuple[Element, Element]
    a: Bits
    b: Bits
    values_a: Float64
    values_b: Float64

    def place(self, index: int) -> Place:
        """Where a valid token of the block stands."""
        own = int(np.searchsorted(self.starts, index, side="right")) - 1
        within = index - int(self.starts[own])
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
            piece = slice(int(self.starts[own]), int(self.starts[own + 1]))
            yield Block(
                (request,), np.array([0, piece.stop - piece.start]), self.masks and (self.masks[own],), self.elements,
                self.a[piece], self.b[piece], self.values_a[piece], self.values_b[piece],
            )  # fmt: skip


def blocks(a: Side, b: Side, requests: tuple[str, ...], size: int = BLOCK, *, whole: bool = False) -> Iterator[Block]:
    """The sequences in order, some at a time: as many as have `size` positions, and at least one.

    Args:
        whole: it is known that each position of each sequence is valid, and no mask needs to be read.
    """
    batch: list[str] = []
    held, kind = 0, None
    for request in requests:
        one, other = a.sequences[request], b.sequences[request]
        length, own = count(one.logprobs), (one.logprobs.element, other.logprobs.element)
        if batch and (held + length > size or own != kind):
            yield _block(a, b, batch, whole)
            batch, held = [], 0
        batch.append(request)
        held, kind = held + length, own
    if batch:
        yield _block(a, b, batch, whole)


def _block(a: Side, b: Side, requests: list[str], whole: bool) -> Block:
    pairs = [(a.sequences[request], b.sequences[request]) for request in requests]
    first, second = (_joined([pair[side].logprobs for pair in pairs]) for side in (0, 1))
    sizes = [count(one.logprobs) for one, _other in pairs]
    masks = None if whole else tuple(one.mask.bits() != 0 for one, _other in pairs)
    if masks is not None:
        valid = [int(np.count_nonzero(mask)) for mask in masks]
        if valid == sizes:
            masks = None
        else:
            mask = np.concatenate(masks)
            first, second, sizes = first[mask], second[mask], valid
    elements = pairs[0][0].logprobs.element, pairs[0][1].logprobs.element
    return Block(
        tuple(requests), np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), masks, elements, first, second,
        elements[0].values(first), elements[1].values(second),
    )  # fmt: skip


def _joined(tensors: list[Tensor]) -> Bits:
    """The bits of several tensors of one type, one behind the other; those of files are read to their place."""
    sizes = [count(tensor) for tensor in tensors]
    found = np.empty(sum(sizes), tensors[0].element.bits)
    begin = 0
    for tensor, size in zip(tensors, sizes, strict=True):
        own = found[begin : begin + size]
        if isinstance(tensor, Stored):
            tensor.into(own)
        else:
            own[:] = tensor.bits()
        begin += size
    return found
