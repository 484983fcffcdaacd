"""One pass over both sides for the diagnostics: shifted sides, the line of b on a, where in a response tokens differ.

Terms of one sequence are added in pairs, the sums of sequences exactly (as in `gather`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tic_daemon.compare.align import Alignment
from tic_daemon.compare.blocks import Block, blocks
from tic_daemon.compare.elements import Float64
from tic_daemon.compare.exact import ExactSum
from tic_daemon.compare.gather import partial
from tic_daemon.compare.sides import Side, count

SHIFTS: Final = (-2, -1, 1, 2)
_CONSTANT: Final = 40  # bits: a spread that is this far below its square is what rounding leaves
_SUMS: Final = ("a", "b", "aa", "bb", "ab")


class Sweep:
    """What the pass finds.

    Attributes:
        tokens, mismatched, gaps: for each shift k, of A[t + k] against B[t]: pairs of valid positions, those whose bits
            differ, and the sum of abs(b - a).
        reached, differing: valid tokens, and those whose bits differ, at each response position.
        moments: sums of a, b, a*a, b*b and a*b; n tokens.
    """

    def __init__(self, a: Side, b: Side, alignment: Alignment, block: int, *, shifted: bool) -> None:
        longest = max((count(a.sequences[request].logprobs) for request in alignment.requests), default=0)
        self.n = 0
        self.tokens, self.mismatched = dict.fromkeys(SHIFTS, 0), dict.fromkeys(SHIFTS, 0)
        self.gaps = {k: ExactSum() for k in SHIFTS}
        self.moments = {name: ExactSum() for name in _SUMS}
        self.reached = np.zeros(longest + 1, np.int64)
        self.differing = np.zeros(longest, np.int64)
        self._partials: dict[str | int, list[Float64]] = {name: [] for name in (*_SUMS, *SHIFTS)}
        self._whole = whole = alignment.valid == alignment.positions
        with np.errstate(over="ignore", invalid="ignore"):
            for part in blocks(a, b, alignment.requests, block, whole=whole):
                self._add(part, shifted)
        self.reached = len(alignment.requests) - np.cumsum(self.reached[:-1]) if whole else self.reached[:-1]
        for name, parts in self._partials.items():
            total = self.gaps[name] if isinstance(name, int) else self.moments[name]
            if parts:
                total.add(np.concatenate(parts))

    def _add(self, part: Block, shifted: bool) -> None:
        x, y = part.values_a, part.values_b
        self.n += len(x)
        for name, terms in (("a", x), ("b", y), ("aa", x * x), ("bb", y * y), ("ab", x * y)):
            self._partials[name].append(partial(terms, part.starts))
        if shifted:
            for k in SHIFTS:
                self._shift(part, k)
        if part.elements[0] is part.elements[1]:
            self._places(part)

    def _shift(self, part: Block, k: int) -> None:
        """Pairs of tokens k positions apart, of one sequence. Valid tokens stand one behind the other, so that those
        are k places apart, or fewer where masked positions lie between them."""
        size = len(part.a)
        positions = None if part.masks is None else part.positions
        sums = np.zeros(len(part.starts) - 1)
        for step in range(abs(k) if positions is None else 1, abs(k) + 1):
            if size <= step:
                continue
            early, late = slice(0, size - step), slice(step, size)
            first, second = (late, early) if k > 0 else (early, late)
            gap = np.abs(np.subtract(part.values_b[second], part.values_a[first]))
            differ = part.a[first] != part.b[second] if part.elements[0] is part.elements[1] else None
            # The last places of a sequence have no partner in it.
            apart = np.unique(np.concatenate([part.starts[1:] - back for back in range(1, step + 1)]))
            outside: NDArray[np.intp] | NDArray[np.bool_] = apart[(apart >= 0) & (apart < len(gap))]
            pairs = len(gap) - len(outside)
            if positions is not None:
                mask = positions[late] - positions[early] != abs(k)
                mask[outside] = True
                outside, pairs = mask, int(np.count_nonzero(~mask))
            gap[outside] = 0.0
            self.tokens[k] += pairs
            if differ is not None:
                differ[outside] = False
                self.mismatched[k] += int(np.count_nonzero(differ))
            sums += partial(np.append(gap, np.zeros(step)), part.starts)
        self._partials[k].append(sums)

    def _places(self, part: Block) -> None:
        differ = part.a != part.b
        for own, begin in enumerate(part.starts[:-1].tolist()):
            end = int(part.starts[own + 1])
            if part.masks is None:
                if self._whole:
                    self.reached[end - begin] += 1  # ends there; added up at the end
                else:
                    self.reached[: end - begin] += 1
                piece = self.differing[: end - begin]
                np.add(piece, differ[begin:end], out=piece)
            else:
                where = np.flatnonzero(part.masks[own])
                self.reached[where] += 1
                self.differing[where] += differ[begin:end]

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
