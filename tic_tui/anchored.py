"""Rows round an anchor, or the newest ones, out of a view that is too long to be read whole.

around(ask, anchor, 300, KEYED) -> (rows, oldest first; whether there are older ones; whether there are newer ones)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from tic_tui.model import Key


class Keyed(Protocol):
    """A row that has a place among all rows."""

    @property
    def key(self) -> Key: ...


T = TypeVar("T", bound=Keyed)
Rows = Callable[[str, Sequence[object], str], list[T]]
"""(condition that begins with AND, its parameters, ORDER BY and LIMIT) -> rows."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a view is ordered as its rows' keys are: SQL of a condition for what stands at a key or before it."""

    at_or_before: str
    values: Callable[[Key], tuple[object, ...]]
    newest_first: str
    oldest_first: str


BY_STORE: Final = Ordering(
    "(observed_at, store_id, rec_id) <= (?, ?, ?)",
    lambda key: (key.observed_at, key.store_id, key.rec_id),
    "ORDER BY observed_at DESC, store_id DESC, rec_id DESC",
    "ORDER BY observed_at, store_id, rec_id",
)


def around(ask: Rows[T], anchor: Key | None, want: int, by: Ordering) -> tuple[tuple[T, ...], bool, bool]:
    """`want` rows on each side of the anchor; without one the newest `2 * want`."""
    if anchor is None:
        rows = ask("", (), f"{by.newest_first} LIMIT {2 * want + 1}")
        return _ordered(rows[: 2 * want]), len(rows) > 2 * want, False
    at = by.values(anchor)
    before = ask(f" AND {by.at_or_before}", at, f"{by.newest_first} LIMIT {want + 1}")
    after = ask(f" AND NOT {by.at_or_before}", at, f"{by.oldest_first} LIMIT {want + 1}")
    return _ordered([*before[:want], *after[:want]]), len(before) > want, len(after) > want


def _ordered(rows: Sequence[T]) -> tuple[T, ...]:
    return tuple(sorted(rows, key=lambda row: row.key))
