"""Counts over millions of rows that cost what is new, not what is stored.

A `Tally` keeps grouped sums of the final rows of a view. It begins with the newest rows and works back in ranges of
time, each within a fraction of a second, so that a large store shows its end at once and the rest by and by:

            ... not looked at ... | counted, of every store | new ...
                                low                       top of each store

Afterwards only rows above each store's top are asked for. Provisional rows are few and come and go, so they are counted
anew each time. What was counted under one standing of the store (`Tail.standing`) holds while it stands; under another
all is counted again, and until that is done the last complete counts are shown, and said to be incomplete.

In one store every commit has a later `observed_at` than the one before it: so `top` splits no commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.errors import StoreError
from tic_tui.model import Key, Search
from tic_tui.queries import TIMEOUT_S, Span

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

FIRST_RANGE: Final = timedelta(seconds=30)
RANGE_S: Final = 0.3
"""A range that took longer is followed by a shorter one, but never by one shorter than the first: asking costs, too."""
MOST_GROUPS: Final = 100_000
_ALIKE: Final = timedelta(hours=1)
_TOPS: Final = -1  # the number of a row that only says how far a store was looked at

Groups = dict[tuple[Any, ...], list[Any]]


def _add(a: Any, b: Any) -> Any:
    return a + b


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _most(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)


ADD, LEAST, MOST = _add, _least, _most


@dataclass(frozen=True, slots=True)
class Question:
    """What is summed up.

    Attributes:
        view: a view with the columns store_id, observed_at and provisional.
        keys: SQL of the columns to group by. sums: SQL of each aggregate and how two of them become one.
        where: a condition that begins with AND, or "". params: its parameters.
    """

    view: str
    keys: tuple[str, ...]
    sums: tuple[tuple[str, Callable[[Any, Any], Any]], ...]
    where: str = ""
    params: tuple[object, ...] = ()

    def tops(self, extra: str) -> str:
        """As `sql`, without `where` and sums: how far each store was looked at, also where no row met `where`."""
        nothing = ["NULL"] * len(self.keys), ["NULL"] * len(self.sums)
        names = ", ".join([str(_TOPS), *nothing[0], "store_id", "max(observed_at)", "max(rec_id)", *nothing[1]])
        return f"SELECT {names} FROM {self.view} WHERE {extra} GROUP BY store_id"  # noqa: S608

    def sql(self, extra: str, number: int) -> str:
        """The statement over the rows that meet `extra`: `number`, keys, store_id, observed_at, rec_id, sums."""
        names = [
            str(number),
            *self.keys,
            "store_id",
            "max(observed_at)",
            "max(rec_id)",
            *(text for text, _ in self.sums),
        ]
        shown = ", ".join(f"{text} AS c{at}" for at, text in enumerate(names))
        return f"SELECT {shown} FROM {self.view} WHERE ({extra}){self.where} GROUP BY ALL"  # noqa: S608


class Tally:
    """Grouped sums of one question, kept up to date.

    Args:
        question: what is summed up.
        span: where the rows lie in time, so that empty ranges are not searched.
    """

    def __init__(self, question: Question, span: Span) -> None:
        self._question = question
        self._span = span
        self._standing = ""
        self._now = _Counted(question)
        self._before: _Counted | None = None  # complete, of the standing before
        self._passing: Groups = {}

    @property
    def complete(self) -> bool:
        """Everything is counted, under the present standing."""
        return self._now.low is None and self._now.standing == self._standing and not self._now.torn

    @property
    def search(self) -> Search:
        """How far back it has counted."""
        low = self._now.low
        return Search(self.complete, None, None if low in {None, datetime.max} else low)

    def tops(self) -> dict[str, datetime]:
        """How far each store was counted; a store that is not named had nothing yet, or was not looked at."""
        return dict(self._now.tops)

    def regroup(self, question: Question, rekey: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
        """Goes on with coarser groups: `rekey` makes the new group of an old one. The sums must be the same."""
        self._question = question
        for counted in (self._now, self._before):
            if counted is not None:
                counted.question = question
                counted.groups = _rekeyed(counted.groups, rekey, question)
        self._passing = _rekeyed(self._passing, rekey, question)

    def groups(self) -> Groups:
        """Sums by group, of the final rows counted so far and of the provisional ones. A new dictionary, in no order.

        The first sum is the key of the newest row, then come the question's.
        """
        shown = self._before or self._now
        found = {key: list(sums) for key, sums in shown.groups.items()}
        for key, sums in self._passing.items():
            _merge(found, key, sums, self._question)
        return found

    def update(self, reader: Reader, standing: str, until: float, *, new: bool = True) -> None:
        """Counts what is new, if there may be something, and works on what is old until `time.monotonic` says `until`.

        Raises:
            StoreError: there are more groups than can be held. And what `Reader.query` raises.
        """
        self._standing = standing
        self._work(reader, until, new=new)
        if self._now.low is None and self._now.standing != standing and time.monotonic() < until:
            self._work(reader, until, new=new)

    def _work(self, reader: Reader, until: float, *, new: bool) -> None:
        # A count that is under way ends first, also under another standing than it began with: else a store whose
        # standing changes all the time would never be counted. It is not called complete.
        stale = self._now.standing != self._standing or self._now.torn
        if stale and self._now.low in {None, datetime.max}:
            if self._now.low is None:
                self._before = self._now
            self._now = _Counted(self._question, self._standing)
        if new or self._now.low == datetime.max:
            self._passing = self._now.on(reader)
        while self._now.low is not None and (self._now.low == datetime.max or time.monotonic() < until):
            self._now.back(reader, self._span)
        if self._now.low is None:
            self._before = None


class _Counted:
    """The final rows counted under one standing: those of store s with low < observed_at <= tops[s].

    `low` is None when nothing is left below. A store without a top has no row above `low`.
    """

    def __init__(self, question: Question, standing: str = "") -> None:
        self.question = question
        self.standing = standing
        self.groups: Groups = {}
        self.tops: dict[str, datetime] = {}
        self.low: datetime | None = datetime.max
        self.torn = False  # a store answered at one time and not at another
        self._silent: frozenset[str] | None = None
        self._range = FIRST_RANGE

    def on(self, reader: Reader) -> Groups:
        """Counts what is above the tops. Returns the sums of the provisional rows, of the same moment."""
        conditions, params = ["provisional"], list[list[object]]([[]])
        if self.low != datetime.max:
            finals, values = self._above(reader.connection().kind == "several")
            conditions += [f"NOT provisional AND {c}" for c in finals]
            params += values
        passing: Groups = {}
        self._take(reader, conditions, params, passing, tops=True)
        return passing

    def back(self, reader: Reader, span: Span) -> None:
        """Counts the next range below `low`."""
        high = self.low
        assert high is not None  # noqa: S101  the caller looks
        began = time.monotonic()
        newest = high == datetime.max
        low = _minus(min(high, span.last) if newest else high, self._range)
        rest = low is None or low < span.first
        conditions, params = ["NOT provisional"], list[object]()
        if not newest:
            conditions.append("observed_at <= ?")
            params.append(high)
        if not rest:
            conditions.append("observed_at > ?")
            params.append(low)
        empty = not self._take(reader, [" AND ".join(conditions)], [params], tops=not self.tops)
        self.low = None if rest else low
        took = max(time.monotonic() - began, 1e-3)
        try:
            self._range = max(FIRST_RANGE, self._range * (64 if empty else max(0.25, min(4.0, RANGE_S / took))))
        except OverflowError:
            self._range = timedelta.max

    def _above(self, several: bool) -> tuple[list[str], list[list[object]]]:
        """Conditions for the rows above what is counted, each with its parameters; a row meets one at most.

        A lower bound that is plain lets DuckDB skip what is old. So stores that stopped long ago have one of their own.
        """
        conditions, params = [], list[list[object]]()
        newest = max(self.tops.values(), default=datetime.min)
        for alike in (True, False):
            tops = {s: t for s, t in self.tops.items() if (newest - t <= _ALIKE) is alike}
            if len(tops) == 1:
                conditions.append("store_id = ? AND observed_at > ?")
                params.append([item for pair in tops.items() for item in pair])
            elif tops:
                held = ", ".join("?" * len(tops))
                cases = "WHEN ? THEN ?::TIMESTAMP " * len(tops)
                conditions.append(
                    f"store_id IN ({held}) AND observed_at > ? AND observed_at > CASE store_id {cases}END"
                )
                params.append([*tops, min(tops.values()), *(item for pair in tops.items() for item in pair)])
        if not self.tops:
            conditions.append("observed_at > ?")
            params.append([self.low or datetime.min])
        elif several:
            conditions.append(f"observed_at > ? AND store_id NOT IN ({', '.join('?' * len(self.tops))})")
            params.append([self.low or datetime.min, *self.tops])
        return conditions, params

    def _take(
        self,
        reader: Reader,
        conditions: list[str],
        params: list[list[object]],
        passing: Groups | None = None,
        *,
        tops: bool,
    ) -> bool:
        """Adds what the rows that meet a condition sum up to; False: there was none.

        The sums of the first condition go to `passing`, if that is given. `tops`: it is asked how far the stores were
        looked at; else a question that few rows meet would look at the same rows again and again.
        """
        looked = range(0) if not (tops and self.question.where) else range(passing is not None, len(conditions))
        found, silent = _ask(reader, self.question, conditions, params, looked)
        self.torn |= self._silent not in {None, silent}
        self._silent = silent
        for number, group, key, sums in found:
            if passing is not None and number == 0:
                _merge(passing, group, sums, self.question)
                continue
            self.tops[key.store_id] = max(self.tops.get(key.store_id, key.observed_at), key.observed_at)
            if number != _TOPS:
                _merge(self.groups, group, sums, self.question)
        if len(self.groups) > MOST_GROUPS:
            raise _too_many()
        return bool(found)


def _ask(
    reader: Reader,
    question: Question,
    conditions: Sequence[str],
    params: Sequence[Sequence[object]],
    looked: Iterable[int],
) -> tuple[list[tuple[int, tuple[Any, ...], Key, list[Any]]], frozenset[str]]:
    """What the rows that meet each condition sum up to, and for those numbered `looked` how far it was looked.

    Returns:
        (number of the condition, group, key of its newest row, sums with that key in front) of each; and the names of
        the stores that did not answer.
    """
    parts = [question.sql(condition, number) for number, condition in enumerate(conditions)]
    values = [value for some in params for value in (*some, *question.params)]
    for number in looked:
        parts.append(question.tops(conditions[number]))
        values += params[number]
    result = reader.query(
        " UNION ALL ".join(parts), values, max_rows=MOST_GROUPS, timeout_s=TIMEOUT_S, gather="SELECT * FROM part"
    )
    if result.truncated:
        raise _too_many()
    store = len(question.keys) + 1
    found = []
    for row in result.rows:
        key = Key(row[store + 1], row[store], row[store + 2])
        found.append((row[0], tuple(row[1:store]), key, [key, *row[store + 3 :]]))
    return found, frozenset(name.partition(":")[0] for name in result.missing)


def _merge(into: Groups, group: tuple[Any, ...], sums: list[Any], question: Question) -> None:
    held = into.get(group)
    if held is None:
        into[group] = sums
        return
    held[0] = max(held[0], sums[0])
    for number, (_, join) in enumerate(question.sums, 1):
        held[number] = join(held[number], sums[number])


def _rekeyed(groups: Groups, rekey: Callable[[tuple[Any, ...]], tuple[Any, ...]], question: Question) -> Groups:
    found: Groups = {}
    for group, sums in groups.items():
        _merge(found, rekey(group), sums, question)
    return found


def _minus(at: datetime, span: timedelta) -> datetime | None:
    """None: before all time."""
    try:
        return at - span
    except OverflowError:
        return None


def _too_many() -> StoreError:
    return StoreError(f"more than {MOST_GROUPS} kinds of records", "a filter leaves fewer")
