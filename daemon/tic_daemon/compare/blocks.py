"""Whole sequences, some at a time, one behind the other: what the figures are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Bits, Element, Float64
from tic_daemon.compare.sides import Side, count

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
        positions: response position of each valid token.
        a, b: bits. values_a, values_b: the same as float64.
    """

    requests: tuple[str, ...]
    starts: np.ndarray
    positions: np.ndarray
    elements: tuple[Element, Element]
    a: Bits
    b: Bits
    values_a: Float64
    values_b: Float64

    def place(self, index: int) -> Place:
        """Where a valid token of the block stands."""
        own = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.requests[own], int(self.positions[index])


def blocks(a: Side, b: Side, requests: tuple[str, ...], size: int = BLOCK) -> Iterator[Block]:
    """The sequences in order, some at a time: as many as have `size` positions, and at least one."""
    batch: list[str] = []
    held, kind = 0, None
    for request in requests:
        one, other = a.sequences[request], b.sequences[request]
        length, own = count(one.logprobs), (one.logprobs.element, other.logprobs.element)
        if batch and (held + length > size or own != kind):
            yield _block(a, b, batch)
            batch, held = [], 0
        batch.append(request)
        held, kind = held + length, own
    if batch:
        yield _block(a, b, batch)


def _block(a: Side, b: Side, requests: list[str]) -> Block:
    pairs = [(a.sequences[request], b.sequences[request]) for request in requests]
    masks = [one.mask.bits() != 0 for one, _other in pairs]
    mask = np.concatenate(masks)
    lengths = np.array([len(own) for own in masks])
    sizes = np.array([int(np.count_nonzero(own)) for own in masks])
    first, second = (np.concatenate([pair[side].logprobs.bits() for pair in pairs]) for side in (0, 1))
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    positions = np.arange(len(mask)) - np.repeat(begins, lengths)
    if not mask.all():
        first, second, positions = first[mask], second[mask], positions[mask]
    elements = pairs[0][0].logprobs.element, pairs[0][1].logprobs.element
    return Block(
        tuple(requests),
        np.concatenate([[0], np.cumsum(sizes)]),
        positions,
        elements,
        first,
        second,
        elements[0].values(first),
        elements[1].values(second),
    )
