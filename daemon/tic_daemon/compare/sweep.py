"""What the diagnostics need of each block: shifted sides, the line of b on a, where in a response tokens differ.

    sweep = Sweep(a, b, alignment)
    measure(a, b, alignment, also=sweep.add)
    sweep.close()

Sides without any difference show nothing when they are shifted, and nothing is shifted until a difference was seen;
what came before it is then read again. Terms of one sequence are added in pairs or as dot products, the sums of
sequences exactly (as in `gather`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.align import Alignment
from tic_daemon.compare.blocks import Block, blocks, partial
from tic_daemon.compare.exact import ExactSum
from tic_daemon.compare.sides import Side, count

SHIFTS: Final = (-2, -1, 1, 2)
_CONSTANT: Final = 40  # bits: a spread that is this far below its square is what rounding leaves
_NEAR: Final = 1 << 14  # numbers of three arrays that a core's own cache holds
_FEW: Final = 255  # flags that a byte may count
_SUMS: Final = ("a", "b", "aa", "bb", "ab")


class Sweep:
    """What the pass finds.

    Attributes:
        tokens, mismatched, gaps: for each shift k, of A[t + k] against B[t]: pairs of valid positions, those whose bits
            differ, and the sum of abs(b - a).
        reached, differing: valid tokens, and those whose bits differ, at each response position.
        moments: sums of a, b, a*a, b*b and a*b; n tokens.
    """

    def __init__(self, a: Side, b: Side, alignment: Alignment) -> None:
        longest = max((count(a.sequences[request].logprobs) for request in alignment.requests), default=0)
        self.n = 0
        self.tokens, self.mismatched = dict.fromkeys(SHIFTS, 0), dict.fromkeys(SHIFTS, 0)
        self.gaps = {k: ExactSum() for k in SHIFTS}
        self.moments = {name: ExactSum() for name in _SUMS}
        self.reached = np.zeros(longest + 1, np.int64)
        self.differing = np.zeros(longest, np.int64)
        self._bytes, self._few = np.zeros(longest, np.uint8), 0
        self._partials: dict[str | int, list[float]] = {name: [] for name in (*_SUMS, *SHIFTS)}
        self._sides, self._alignment = (a, b), alignment
        self._whole = alignment.valid == alignment.positions
        self._unshifted: list[str] = []
        self._shifting = False

    def add(self, part: Block) -> None:
        """One block."""
        x, y = part.values_a, part.values_b
        self.n += len(x)
        same = x is y
        whole = partial(x, part.starts, part.edges)
        self._partials["a"] += whole
        self._partials["b"] += whole if same else partial(y, part.starts, part.edges)
        for name, own in zip(("aa", "bb", "ab"), part.squares, strict=True):
            self._partials[name] += own
        self._shifting = self._shifting or part.differ is None or bool(part.mismatched)
        if self._shifting:
            self._shift(part)
        else:
            self._unshifted += part.requests
        if part.differ is not None:
            self._places(part, part.differ)

    def close(self) -> None:
        """After the last block."""
        if self._shifting and self._unshifted:
            with np.errstate(over="ignore", invalid="ignore"):
                for part in blocks(*self._sides, tuple(self._unshifted), whole=self._whole):
                    self._shift(part)
        self._flush()
        if self._whole:
            self.reached = len(self._alignment.requests) - np.cumsum(self.reached[:-1])
        else:
            self.reached = self.reached[:-1]
        for name, parts in self._partials.items():
            own = self.gaps[name] if isinstance(name, int) else self.moments[name]
            if parts:
                own.add(np.array(parts))

    def _shift(self, part: Block) -> None:
        """Pairs of tokens k positions apart, of one sequence. Valid tokens stand one behind the other, so that those
        are k places apart, or fewer where masked positions lie between them."""
        positions = None if part.masks is None else part.positions
        sums = {k: [0.0] * len(part.requests) for k in SHIFTS}
        for step in range(1, SHIFTS[-1] + 1):
            if step >= len(part.a):
                continue
            # The last places of a sequence have no partner in it. Counted back from its end they may lie in the one
            # before, or at the very end: there they are last places, too.
            last = np.array([end - back for back in range(1, step + 1) for end in part.edges[1:]])
            if positions is None:
                pairs = sum([max(end - begin - step, 0) for begin, end in pairwise(part.edges)])
                for k in (step, -step):
                    sums[k] = self._apart(part, k, step, last, pairs)
                continue
            between = positions[step:] - positions[:-step]
            for k in (own for own in SHIFTS if abs(own) >= step):
                mask = np.append(between != abs(k), np.ones(step, np.bool_))
                mask[last] = True
                found = self._apart(part, k, step, mask, int(np.count_nonzero(~mask)))
                sums[k] = [one + other for one, other in zip(sums[k], found, strict=True)]
        for k, own in sums.items():
            self._partials[k] += own

    def _apart(self, part: Block, k: int, step: int, outside: np.ndarray, pairs: int) -> list[float]:
        """Pairs that are k positions and `step` places apart. Returns the sum of abs(b - a) of each sequence.

        Args:
            outside: the places, or a flag for each, that have no such partner behind them; the others are `pairs`.
        """
        whole = len(part.a)
        size = whole - step
        early, late = slice(0, size), slice(step, whole)
        first, second = (late, early) if k > 0 else (early, late)
        gap = part.scratch.of("d", whole)
        x, y = part.values_a[first], part.values_b[second]
        for at in range(0, size, _NEAR):  # both steps while the numbers are in a core's own cache
            own = gap[at : min(at + _NEAR, size)]
            np.abs(np.subtract(y[at : at + _NEAR], x[at : at + _NEAR], out=own), out=own)
        gap[outside] = 0.0
        self.tokens[k] += pairs
        if part.differ is not None:
            differ = part.scratch.of("shifted", whole, np.bool_)
            np.not_equal(part.a[first], part.b[second], out=differ[:size])
            differ[outside] = False
            self.mismatched[k] += int(np.count_nonzero(differ))
        return partial(gap, part.starts, part.edges)

    def _places(self, part: Block, differ: NDArray[np.bool_]) -> None:
        flags = differ.view(np.uint8)
        for own, (begin, end) in enumerate(pairwise(part.edges)):
            if part.masks is not None:
                where = np.flatnonzero(part.masks[own])
                self.reached[where] += 1
                self.differing[where] += flags[begin:end]
                continue
            if self._whole:
                self.reached[end - begin] += 1  # ends there; added up at the end
            else:
                self.reached[: end - begin] += 1
            if part.mismatched:
                self._few += 1
                piece = self._bytes[: end - begin]
                np.add(piece, flags[begin:end], out=piece)
                if self._few == _FEW:
                    self._flush()

    def _flush(self) -> None:
        """From bytes, which are added fast and hold little, to where they are counted."""
        self.differing += self._bytes
        self._bytes[:] = 0
        self._few = 0

    def line(self) -> tuple[float | None, float | None]:
        """Slope of the least squares line of b on a, and the correlation; None where a side is constant."""
        if any(one.skipped for one in self.moments.values()):
            return None, None
        unit = 1 << 1074  # sums are integers in units of 2**-1074, so products are exact
        own, n = {name: one.scaled for name, one in self.moments.items()}, self.n
        spread_a = n * own["aa"] * unit - own["a"] ** 2
        spread_b = n * own["bb"] * unit - own["b"] ** 2
        together = n * own["ab"] * unit - own["a"] * own["b"]
        if spread_a <= own["a"] ** 2 >> _CONSTANT or spread_b <= own["b"] ** 2 >> _CONSTANT:
            return None, None
        squared = together * together / (spread_a * spread_b)
        try:
            return together / spread_a, (1 if together >= 0 else -1) * min(1.0, squared**0.5)
        except OverflowError:
            return None, None
