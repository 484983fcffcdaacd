"""Sets of steps as ranges, since most of a history is contiguous: "0-399 401-999" is what table wandb_read holds.

    Ranges()          an empty set; `add` is cheap when steps come in order
    str(ranges)       both ends of a range are included; a single step stands alone
    ranges_of(text)   the reverse; raises ValueError

Steps are not negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Self


class Ranges:
    """A set of steps. `pairs()` gives its ranges (first, last), both included, in order."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in pairs:
            self.add(first, last)

    def add(self, first: int, last: int | None = None) -> None:
        """Takes in the steps first .. last, or `first` alone."""
        last = first if last is None else last
        if first > last:
            return
        firsts, lasts = self._firsts, self._lasts
        low = bisect_right(lasts, first - 2)  # the first range that these steps touch
        high = bisect_right(firsts, last + 1)  # one behind the last
        if low < high:
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
        firsts[low:high], lasts[low:high] = [first], [last]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """See the class."""
        return zip(self._firsts, self._lasts, strict=True)

    def __contains__(self, step: int) -> bool:
        at = bisect_right(self._firsts, step) - 1
        return at >= 0 and step <= self._lasts[at]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.pairs())

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and (self._firsts, self._lasts) == (other._firsts, other._lasts)

    def __hash__(self) -> int:
        raise TypeError("a set of steps changes")

    def __str__(self) -> str:
        return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in self.pairs())

    def __repr__(self) -> str:
        return f"Ranges({self})"

    @property
    def last(self) -> int:
        """The greatest step; -1 if there is none."""
        return self._lasts[-1] if self._lasts else -1

    @property
    def first(self) -> int:
        """The smallest step; -1 if there is none."""
        return self._firsts[0] if self._firsts else -1

    def minus(self, other: Ranges) -> Ranges:
        """The steps that are here and not there."""
        left = Ranges()
        theirs = list(other.pairs())
        at = 0
        for first, last in self.pairs():
            while at < len(theirs) and theirs[at][1] < first:
                at += 1
            spot = at
            while first <= last and spot < len(theirs) and theirs[spot][0] <= last:
                left.add(first, theirs[spot][0] - 1)
                first = max(first, theirs[spot][1] + 1)  # noqa: PLW2901  what is left of the range
                spot += 1
            left.add(first, last)
        return left

    def within(self, first: int, last: int) -> Ranges:
        """The steps from first to last, both included."""
        return Ranges((max(a, first), min(b, last)) for a, b in self.pairs() if b >= first and a <= last)

    def union(self, other: Ranges) -> Ranges:
        """The steps that are here or there."""
        both = self.copy()
        for first, last in other.pairs():
            both.add(first, last)
        return both

    def copy(self) -> Self:
        """The same set, on its own."""
        return type(self)(self.pairs())

    def holes(self) -> Ranges:
        """What is not here between the first and the last step."""
        return Ranges([(self.first, self.last)]).minus(self) if self else Ranges()

    def words(self, most: int = 5) -> str:
        """The first ranges, and how many more there are."""
        pairs = list(self.pairs())
        told = str(Ranges(pairs[:most]))
        return told if len(pairs) <= most else f"{told} and {len(pairs) - most} ranges more"


def ranges_of(text: str) -> Ranges:
    """See the module."""
    found = Ranges()
    for part in text.split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ValueError(f"no range of steps: {part[:50]!r}")
        found.add(int(first), int(last) if dash else int(first))
    return found
