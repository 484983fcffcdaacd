"""Whether two sides may be held against each other at all: same requests, shapes, masks, tokens, element types.

Rows are paired by request, never by their place in a file, and nothing is compared over an intersection: a request, a
shape or a mask that differs leaves no number at all. What differs is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Bits
from tic_daemon.compare.sides import Sequence, Side, Tensor, count
from tic_daemon.evidence.judge import Relation

NAMED: Final = 20  # ids that are named; the rest is counted


@dataclass(frozen=True, slots=True)
class Alignment:
    """What two sides have in common.

    Attributes:
        requests: ids of both, in the order of their characters; empty if anything below differs.
        differs: what is known to differ and leaves nothing to be compared, in words.
        only_a, only_b: requests that the other side lacks.
        elements: pairs of element types (A, B) that occur.
        empty: requests without a valid token.
        valid: valid tokens of all requests.
        positions: response positions of all requests, masked ones too.
        tokens: whether both sides hold the same token ids, of prompts and responses.
        versions: the policy versions that occur.
        independent: distinct pairs of prompt and response among the requests, None without token ids.
    """

    requests: tuple[str, ...]
    differs: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    elements: tuple[tuple[str, str], ...]
    empty: tuple[str, ...]
    valid: int
    positions: int
    tokens: Relation
    versions: tuple[str, ...]
    independent: int | None

    @property
    def same_elements(self) -> bool:
        """Whether each pair is of one type on both sides."""
        return all(a == b for a, b in self.elements)


def align(a: Side, b: Side) -> Alignment:
    """Pair the sequences of two sides. Reads masks and token ids, and no log-probability.

    Raises:
        CompareError: a file cannot be read.
    """
    only_a = tuple(request for request in a.sequences if request not in b.sequences)
    only_b = tuple(request for request in b.sequences if request not in a.sequences)
    differs = [f"side A: {word}" for word in a.refused] + [f"side B: {word}" for word in b.refused]
    if only_a or only_b:
        differs.append("request sets differ: " + "; ".join(_missing(only_a, "A") + _missing(only_b, "B")))
    both = [request for request in a.sequences if request in b.sequences]
    pairs = [(a.sequences[request], b.sequences[request]) for request in both]
    unfit = [word for one, other in pairs for word in _unfit(one, other)]
    differs += _listed(unfit)
    elements = tuple(sorted({(one.logprobs.element.name, other.logprobs.element.name) for one, other in pairs}))
    masks: list[str] = []
    empty: list[str] = []
    valid = 0
    for one, other in [] if unfit else pairs:
        first, second = mask_bits(one), mask_bits(other)
        word = _mask_word(one.request, first, second)
        if word:
            masks.append(word)
            continue
        own = int(np.count_nonzero(first))
        valid += own
        if not own:
            empty.append(one.request)
    differs += _listed(masks)
    tokens, word = _tokens(pairs)
    return Alignment(
        () if differs else tuple(both),
        tuple(differs + ([word] if word else [])),
        only_a,
        only_b,
        elements,
        tuple(empty),
        valid,
        sum(count(one.logprobs) for one, _other in pairs),
        tokens,
        tuple(sorted({version for pair in pairs for one in pair for version in one.policy})),
        independent(one for one, _other in pairs),
    )


def mask_bits(sequence: Sequence) -> Bits:
    """The mask's bytes, flat."""
    return sequence.mask.bits()


def _missing(requests: tuple[str, ...], side: str) -> list[str]:
    if not requests:
        return []
    shown = ", ".join(repr(request) for request in requests[:NAMED])
    more = f" and {len(requests) - NAMED} more" if len(requests) > NAMED else ""
    return [f"only in {side}: {shown}{more}"]


def _listed(words: list[str]) -> list[str]:
    if len(words) <= NAMED:
        return words
    return [*words[:NAMED], f"and {len(words) - NAMED} more of this kind"]


def _unfit(a: Sequence, b: Sequence) -> Iterator[str]:
    """What of a pair cannot be compared before any byte is read."""
    request = repr(a.request)
    for side, one in (("A", a), ("B", b)):
        if one.logprobs.element.kind != "float":
            yield f"{request}: log-probabilities of side {side} are {one.logprobs.element.name}, no floats"
        if one.mask.element.kind != "bool":
            yield f"{request}: the mask of side {side} is {one.mask.element.name}, it must be bool"
        if one.mask.shape != one.logprobs.shape:
            yield (
                f"{request}: side {side} has log-probabilities of shape {_dims(one.logprobs)} "
                f"and a mask of {_dims(one.mask)}"
            )
    if a.logprobs.shape != b.logprobs.shape:
        yield f"{request}: shapes differ, {_dims(a.logprobs)} in A and {_dims(b.logprobs)} in B"


def _dims(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "one number"


def _mask_word(request: str, first: Bits, second: Bits) -> str:
    """What is wrong with two masks of one length, or ""."""
    same = first.tobytes() == second.tobytes()
    for side, mask in (("A", first),) if same else (("A", first), ("B", second)):
        if mask.size and np.maximum.reduce(mask) > 1:
            return f"{request!r}: the mask of side {side} holds bytes that are no bool"
    if same:
        return ""
    places = np.flatnonzero(first != second)
    if places.size:
        return f"{request!r}: masks differ at {places.size} positions, first at {int(places[0])}"
    return ""


def _tokens(pairs: list[tuple[Sequence, Sequence]]) -> tuple[Relation, str]:
    """How the token ids of both sides relate, and where they first differ."""
    known = bool(pairs)
    for a, b in pairs:
        for what, one, other in (("prompt", a.prompt, b.prompt), ("response", a.tokens, b.tokens)):
            if one is None or other is None:
                known = False
                continue
            first, second = ids(one), ids(other)
            if len(first) != len(second):
                return Relation.DIFFERENT, f"{a.request!r}: {len(first)} {what} tokens in A and {len(second)} in B"
            places = np.flatnonzero(first != second)
            if places.size:
                at = int(places[0])
                return (
                    Relation.DIFFERENT,
                    f"{a.request!r}: {what} tokens differ, first at position {at}: "
                    f"{first[at]} in A and {second[at]} in B",
                )
        if a.tokens is not None and count(a.tokens) != count(a.logprobs):
            return (
                Relation.DIFFERENT,
                f"{a.request!r}: {count(a.tokens)} response tokens and {count(a.logprobs)} log-probabilities",
            )
    return (Relation.EQUAL if known else Relation.UNKNOWN), ""


def ids(tensor: Tensor) -> np.ndarray:
    """Token ids as int64, whatever integer type holds them."""
    element = tensor.element
    kind = "<i" if element.name.startswith("int") else "<u"
    return tensor.bits().view(f"{kind}{element.size}").astype(np.int64)


def independent(sequences: Iterable[Sequence]) -> int | None:
    """How many distinct pairs of prompt and response there are; None where a sequence has no token ids."""
    seen: set[bytes] = set()
    for sequence in sequences:
        if sequence.tokens is None:
            return None
        seen.add(token_digest(sequence))
    return len(seen) if seen else None


def token_digest(sequence: Sequence) -> bytes:
    """SHA-256 of the prompt's and the response's ids as 64-bit integers, each behind its length."""
    digest = hashlib.sha256()
    for tensor in (sequence.prompt, sequence.tokens):
        own = ids(tensor) if tensor is not None else np.zeros(0, np.int64)
        digest.update(len(own).to_bytes(8, "little"))
        digest.update(own.astype("<i8").tobytes())
    return digest.digest()


def input_digest(sequences: Mapping[str, Sequence]) -> str:
    """SHA-256 over all requests in their order: id and tokens. "" where a sequence has no token ids."""
    digest = hashlib.sha256()
    for request, sequence in sequences.items():
        if sequence.tokens is None:
            return ""
        name = request.encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(8, "little") + name + token_digest(sequence))
    return digest.hexdigest() if sequences else ""
