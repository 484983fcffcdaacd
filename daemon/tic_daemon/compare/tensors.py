"""Two tensors of one boundary, held against each other; and the vocabulary's distribution where they are logits.

    max_abs, mean_abs   of b - a                     relative_l2   norm(b - a) / norm(b)
    cosine              undefined for a zero norm     finite        share of positions that are finite on both sides
    first               the first position, in C order, whose bits differ (or are not finite on a side alone)

Of logits [..., vocabulary], in float64: `vocab_tv`, half the sum of abs(p - q), mean and largest over rows;
`vocab_argmax`, the share of rows whose sets of largest entries share one; `vocab_logsoftmax_max`, the largest
difference of log-probabilities. All are the same if a constant is added to all logits of a row. Entries that are -inf
must be so on both sides: rows where they are not have another support and are counted, not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, prod, sqrt
from typing import Final

import numpy as np

from tic_daemon.compare.elements import Float64
from tic_daemon.compare.exact import ExactSum, ratio
from tic_daemon.compare.sides import Tensor

_PIECE: Final = 1 << 20  # values that are float64 at a time


@dataclass(frozen=True, slots=True)
class TensorFigures:
    """What two tensors of one type and shape show. Value figures are None where they have no value."""

    size: int
    mismatched: int
    first: tuple[int, ...] | None
    finite: float
    max_abs: float | None
    mean_abs: float | None
    relative_l2: float | None
    cosine: float | None


@dataclass(frozen=True, slots=True)
class VocabFigures:
    """What two tensors of logits show. `rows` are compared; `other_support` are left out of all figures."""

    rows: int
    other_support: int
    not_finite: int
    tv_mean: float | None
    tv_max: float | None
    argmax: float | None
    ties: int
    logsoftmax_max: float | None


def tensor_figures(a: Tensor, b: Tensor) -> TensorFigures:
    """Figures of two tensors of one element type and shape. Integers are compared as they are.

    Raises:
        ValueError: type or shape differ.
        CompareError: a file cannot be read.
    """
    if a.element is not b.element or a.shape != b.shape:
        raise ValueError("tensors of different types or shapes")
    bits_a, bits_b = a.bits(), b.bits()
    differ = bits_a != bits_b
    mismatched = int(np.count_nonzero(differ))
    sums = {name: ExactSum() for name in ("abs", "dd", "aa", "bb", "ab")}
    largest, finite = 0.0, 0
    for start in range(0, len(bits_a), _PIECE):
        x, y = (_values(tensor, bits[start : start + _PIECE]) for tensor, bits in ((a, bits_a), (b, bits_b)))
        both = np.isfinite(x) & np.isfinite(y)
        finite += int(np.count_nonzero(both))
        x, y = x[both], y[both]
        with np.errstate(over="ignore"):
            d = y - x
            for name, values in (("abs", np.abs(d)), ("dd", d * d), ("aa", x * x), ("bb", y * y), ("ab", x * y)):
                sums[name].add(values)
        largest = max(largest, float(np.abs(d).max(initial=0.0)))
    size = prod(a.shape)
    first = None
    if mismatched:
        first = tuple(int(one) for one in np.unravel_index(int(differ.argmax()), a.shape or (1,)))
    whole = finite == size and size > 0 and not any(total.skipped for total in sums.values())
    norm_l2 = ratio(sums["dd"], sums["bb"]) if whole and sums["bb"].scaled else float("nan")
    return TensorFigures(
        size,
        mismatched,
        first,
        finite / size if size else 1.0,
        largest if whole and isfinite(largest) else None,
        sums["abs"].over(size) if whole else None,
        sqrt(norm_l2) if isfinite(norm_l2) else None,
        _cosine(sums) if whole else None,
    )


def _values(tensor: Tensor, bits: np.ndarray) -> Float64:
    if tensor.element.kind == "float":
        return tensor.element.values(bits)
    signed = tensor.element.name.startswith("int")
    return bits.view(f"<{'i' if signed else 'u'}{tensor.element.size}").astype(np.float64)


def _cosine(sums: dict[str, ExactSum]) -> float | None:
    under = sums["aa"].scaled * sums["bb"].scaled
    over = sums["ab"].scaled
    return (1 if over >= 0 else -1) * min(1.0, sqrt(over * over / under)) if under else None


def vocab_figures(a: Tensor, b: Tensor) -> VocabFigures:
    """Figures of two tensors of logits, the last dimension the vocabulary.

    Raises:
        ValueError: they are no floating-point tensors of one shape with a vocabulary.
        CompareError: a file cannot be read.
    """
    if a.shape != b.shape or not a.shape or not prod(a.shape) or {a.element.kind, b.element.kind} != {"float"}:
        raise ValueError("no logits of one shape")
    total = ExactSum()
    rows = other = bad = agreeing = ties = 0
    tv_max = soft_max = 0.0
    for every_x, every_y in _rows(a, b):
        x, y = every_x, every_y
        unfit = (np.isnan(x) | np.isnan(y) | np.isposinf(x) | np.isposinf(y)).any(axis=1)
        unfit |= np.isneginf(x).all(axis=1) | np.isneginf(y).all(axis=1)
        support = ~unfit & (np.isneginf(x) != np.isneginf(y)).any(axis=1)
        bad, other = bad + int(unfit.sum()), other + int(support.sum())
        x, y = x[~unfit & ~support], y[~unfit & ~support]
        rows += len(x)
        if not len(x):
            continue
        p, q = _log_softmax(x), _log_softmax(y)
        apart = np.abs(np.exp(p) - np.exp(q)).sum(axis=1) / 2
        total.add(apart)
        tv_max = max(tv_max, float(apart.max()))
        with np.errstate(invalid="ignore"):
            soft_max = max(soft_max, float(np.nanmax(np.where(np.isneginf(p), 0.0, np.abs(p - q)))))
        best_x, best_y = x == x.max(axis=1, keepdims=True), y == y.max(axis=1, keepdims=True)
        agreeing += int((best_x & best_y).any(axis=1).sum())
        ties += int(((best_x.sum(axis=1) > 1) | (best_y.sum(axis=1) > 1)).sum())
    if not rows:
        return VocabFigures(0, other, bad, None, None, None, 0, None)
    return VocabFigures(rows, other, bad, total.over(rows), tv_max, agreeing / rows, ties, soft_max)


def _rows(a: Tensor, b: Tensor) -> Iterator[tuple[Float64, Float64]]:
    width = a.shape[-1]
    first, second = a.bits().reshape(-1, width), b.bits().reshape(-1, width)
    at_a_time = max(1, _PIECE // width)
    for start in range(0, len(first), at_a_time):
        piece = slice(start, start + at_a_time)
        yield tuple(  # type: ignore[misc]
            tensor.element.values(np.ascontiguousarray(bits[piece]).reshape(-1)).reshape(-1, width)
            for tensor, bits in ((a, first), (b, second))
        )


def _log_softmax(logits: Float64) -> Float64:
    """In float64, from logits whose largest in each row is finite."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    found: Float64 = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found
