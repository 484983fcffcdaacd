"""Screen 3: the records of a run, or of all, that a stack of filters leaves, and how many there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tic_tui import queries
from tic_tui.counting import ADD, Question, Tally
from tic_tui.filters import CHOICES, COLUMNS, UNKNOWN
from tic_tui.model import MismatchesView
from tic_tui.queries import Span
from tic_tui.reading import Ask, paged
from tic_tui.safe import safe
from tic_tui.windows import Page, Scope

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

CHOICE_ROWS: Final = 200


class MismatchesReading:
    """Screen 3: the records of a run, or of all, that a stack of filters leaves."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._whole = Scope(scope.run_id)
        self._total: Tally | None = None
        self._matching: Tally | None = None
        self._choices: dict[str, Tally] = {}
        self._page: Page | None = None
        self._standing = ""
        self._span: Span | None = None

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        tallies = [self._total, *([self._matching] if self._matching else []), *self._choices.values()]
        return self._page is not None and self._page.done and all(t is not None and t.complete for t in tallies)

    def view(self, reader: Reader, ask: Ask) -> MismatchesView:
        """Screen 3 as it is now."""
        if self._span is None or ask.news is None:
            self._span = queries.span(reader)
        if self._total is None:
            self._total = _counter(self._whole, self._span)
            self._matching = _counter(self._scope, self._span) if self._scope.filtered else None
        if ask.standing != self._standing:
            self._page, self._standing = None, ask.standing
        tops = self._total.tops()
        # What is new is counted before the page is read: so no row above the tops is in neither.
        self._total.update(reader, ask.standing, 0.0, new=ask.new_records)
        self._page = paged(self._page, self._scope, reader, ask, tops, self._span)
        choices = self._chosen(reader, ask)
        if self._matching is not None:
            self._matching.update(reader, ask.standing, ask.until, new=ask.new_records)
        self._total.update(reader, ask.standing, ask.until, new=False)
        counts = self._matching or self._total
        search = counts.search
        if not self._page.done:
            search = self._page.search(reader)
        return MismatchesView(
            demand=ask.demand,
            window=self._page.window(),
            total=_count(self._total),
            matching=_count(counts),
            search=replace(search, complete=search.complete and counts.complete),
            choices=choices,
            read_at=datetime.now(UTC),
        )

    def _chosen(self, reader: Reader, ask: Ask) -> dict[str, tuple[tuple[Any, int], ...]]:
        """Values of the column that the demand asks for; of no column whose values are too many to choose from."""
        column = ask.demand.choices
        if column not in CHOICES or self._span is None:
            self._choices = {}
            return {}
        if column not in self._choices:
            name, kind = COLUMNS[column]
            text = f"CASE WHEN {name} THEN 'yes' ELSE 'no' END" if kind == "yes or no" else f"CAST({name} AS VARCHAR)"
            where, params = self._whole.sql()
            key = f"coalesce(nullif({text}, ''), '{UNKNOWN}')"
            self._choices = {
                column: Tally(Question("mismatches", (key,), (("count(*)", ADD),), where, params), self._span)
            }
        tally = self._choices[column]
        tally.update(reader, ask.standing, ask.until, new=ask.new_records)
        found = sorted(((safe(g[0]), s[1]) for g, s in tally.groups().items()), key=lambda pair: (-pair[1], pair[0]))
        return {column: tuple(found[:CHOICE_ROWS])}


def _counter(scope: Scope, span: Span) -> Tally:
    where, params = scope.sql()
    return Tally(Question("mismatches", (), (("count(*)", ADD),), where, params), span)


def _count(tally: Tally) -> int:
    return sum(sums[1] for sums in tally.groups().values())
