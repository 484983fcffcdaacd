"""What the pages of screen 6 show. Each part is asked for again when the standing changed, else as its cost allows.

What is asked is what the page in front needs: pairs and hints, which cost the most, only while they are shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tic_tui import evidence_queries as asked
from tic_tui.anchored import BY_STORE, around
from tic_tui.chain_reading import ChainReading
from tic_tui.evidence_model import (
    CasesView,
    Cell,
    CellView,
    EvidenceView,
    GatesView,
    Hint,
    HintsView,
    LedgerView,
    LedgerWindow,
    Order,
    Page,
    PairsView,
)
from tic_tui.filters import LEDGER_COLUMNS, UNKNOWN, Filter, chosen, where
from tic_tui.model import Demand
from tic_tui.reading import Ask, Paced
from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

CHOICES: Final = 200


class EvidenceReading:
    """One page. Subclasses give `view`."""

    page: ClassVar[Page]

    def __init__(self) -> None:
        self._parts: dict[str, tuple[object, Paced[Any]]] = {}

    @property
    def complete(self) -> bool:
        """Nothing is left to work on."""
        return True

    def view(self, reader: Reader, ask: Ask) -> EvidenceView:
        """The page as it is now."""
        raise NotImplementedError

    def part(self, reader: Reader, ask: Ask, name: str, read: Callable[[Reader], T], about: object = None) -> T:
        """A part of the page; `about`: what it is of. Only that of the newest is held."""
        held = self._parts.get(name)
        if held is None or held[0] != about:
            held = self._parts[name] = (about, Paced(read))
        found: T = held[1].get(reader, ask)
        return found


class GatesReading(EvidenceReading):
    """Candidates of a run, or all, and their cells."""

    page = "gates"

    def __init__(self, run_id: str | None) -> None:
        super().__init__()
        self._run_id = run_id

    def view(self, reader: Reader, ask: Ask) -> GatesView:
        run = self._run_id
        return GatesView(
            demand=ask.demand,
            candidates=self.part(reader, ask, "candidates", lambda r: asked.candidates(r, run)),
            cells=self.part(reader, ask, "cells", lambda r: asked.cells(r, run)),
            criteria=self.part(reader, ask, "criteria", asked.in_force),
            read_at=_now(),
        )


class CellReading(EvidenceReading):
    """One cell: its evidence, what stood there before, its criteria, and what may be carried over."""

    page = "cell"

    def __init__(self, candidate_id: str, gate: str, cell: str) -> None:
        super().__init__()
        self._place = (candidate_id, gate, cell)

    def view(self, reader: Reader, ask: Ask) -> CellView:
        name, gate, place = self._place
        row = self.part(reader, ask, "row", lambda r: asked.cell(r, *self._place))
        candidate = self.part(reader, ask, "candidate", lambda r: asked.known(r, name))
        above = candidate.parent_id if candidate is not None else None
        carried = row.carried_from if row is not None and row.carried_from else ""
        pieces = self.part(reader, ask, "pieces", lambda r: asked.pieces(r, carried or name, gate, place), carried)
        current = tuple(one.id for one in pieces)
        past = self.part(reader, ask, "past", lambda r: asked.past(r, *self._place, current), current)
        ids = tuple(dict.fromkeys([*(one.comparison_id for one in pieces), *(one.target for one in past)]))
        return CellView(
            demand=ask.demand,
            row=row,
            candidate=candidate,
            parent=self.part(reader, ask, "parent", lambda r: asked.known(r, above), above),
            pieces=pieces,
            past=past,
            comparisons=self.part(reader, ask, "comparisons", lambda r: asked.compared(r, ids), ids),
            criteria=self.part(reader, ask, "criteria", lambda r: asked.criteria(r, gate, place)),
            exemptions=self.part(reader, ask, "exemptions", lambda r: asked.exemptions(r, *self._place)),
            goals=_goals(row),
            read_at=_now(),
        )


def _goals(row: Cell | None) -> tuple[str, ...]:
    from tic_daemon.ledger import gates  # noqa: PLC0415  its table is read when a cell is opened

    if row is None or not gates.has_cell(str(row.gate), row.cell):
        return ()
    return gates.cell_of(str(row.gate), row.cell).goals


class LedgerReading(EvidenceReading):
    """Rows of the ledger of a run, or of all, that a stack of filters leaves; and its chain."""

    page = "ledger"

    def __init__(self, run_id: str | None, filters: tuple[Filter, ...], chain: ChainReading) -> None:
        super().__init__()
        text, params = where(filters)
        self._filtered = bool(text)
        own: tuple[object, ...] = () if run_id is None else (run_id, run_id)
        self._all = ("true" if run_id is None else asked.OF_RUN, own)
        self._matching = (self._all[0] + text, (*own, *params))
        self._chain = chain

    @property
    def complete(self) -> bool:
        return self._chain.complete

    def view(self, reader: Reader, ask: Ask) -> LedgerView:
        demand, (total, superseded, historical) = ask.demand, self.part(reader, ask, "all", self._count_all)
        about = (demand.anchor, demand.rows)
        return LedgerView(
            demand=demand,
            window=self.part(reader, ask, "window", lambda r: self._window(r, demand), about),
            total=total,
            matching=self.part(reader, ask, "matching", self._count) if self._filtered else total,
            choices=self.part(reader, ask, "choices", lambda r: self._choices(r, demand.choices), demand.choices),
            chain=self._chain.walk(reader, ask),
            superseded=superseded,
            historical=historical,
            read_at=_now(),
        )

    def _count_all(self, reader: Reader) -> tuple[int, int, int]:
        return asked.counted(reader, *self._all)

    def _count(self, reader: Reader) -> int:
        return asked.counted(reader, *self._matching)[0]

    def _window(self, reader: Reader, demand: Demand) -> LedgerWindow:
        of, params = self._matching
        rows, older, newer = around(
            lambda more, extra, order: asked.entries(reader, of + more, (*params, *extra), order),
            demand.anchor, demand.rows, BY_STORE,
        )  # fmt: skip
        return LedgerWindow(rows, older, newer)

    def _choices(self, reader: Reader, column: str) -> dict[str, tuple[tuple[Safe, int], ...]]:
        if column not in chosen("ledger"):
            return {}
        value = f"coalesce(nullif(CAST({LEDGER_COLUMNS[column][0]} AS VARCHAR), ''), '{UNKNOWN}')"
        found = asked.values_of(reader, value, *self._all, CHOICES)
        return {column: tuple((safe(name), n) for name, n in found.items())}


class PairsReading(EvidenceReading):
    """Declared pairs of arms. Each part costs: the list is shown before the rules, and these before the numbers."""

    page = "pairs"

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0

    @property
    def complete(self) -> bool:
        return self._shown > 2

    def view(self, reader: Reader, ask: Ask) -> PairsView:
        shown, self._shown = self._shown, self._shown + 1
        return PairsView(
            demand=ask.demand,
            pairs=self.part(reader, ask, "pairs", asked.pairs),
            rules=self.part(reader, ask, "rules", asked.rules) if shown > 0 else None,
            values=self.part(reader, ask, "values", asked.values) if shown > 1 else None,
            read_at=_now(),
        )


class CasesReading(EvidenceReading):
    """Criteria, baselines and cases."""

    page = "cases"

    def view(self, reader: Reader, ask: Ask) -> CasesView:
        return CasesView(
            demand=ask.demand,
            criteria=self.part(reader, ask, "criteria", asked.criteria),
            baselines=self.part(reader, ask, "baselines", asked.baselines),
            cases=self.part(reader, ask, "cases", asked.cases),
            read_at=_now(),
        )


class HintsReading(EvidenceReading):
    """What to try first in one run. The router decides which patterns are seen; nothing here does."""

    page = "hints"

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id

    def view(self, reader: Reader, ask: Ask) -> HintsView:
        run = self._run_id
        told = self.part(reader, ask, "hints", self._route)
        found = self.part(reader, ask, "divergences", lambda r: asked.divergences(r, run))
        ids = tuple(one.comparison_id for one in found)
        return dataclasses.replace(
            told,
            demand=ask.demand,
            divergences=found,
            comparisons=self.part(reader, ask, "comparisons", lambda r: asked.compared(r, ids), ids),
            read_at=_now(),
        )

    def _route(self, reader: Reader) -> HintsView:
        from tic_daemon.errors import UnknownRunError  # noqa: PLC0415  the router is loaded when its page is shown
        from tic_daemon.hints.facts import facts_of  # noqa: PLC0415
        from tic_daemon.hints.router import route  # noqa: PLC0415

        try:
            told = route(facts_of(reader, self._run_id))
        except UnknownRunError as error:
            return HintsView(Demand("hints", self._run_id), trouble=safe(error.what))
        return HintsView(
            demand=Demand("hints", self._run_id),
            hints=tuple(Hint(*map(safe, (one.says, one.seen, one.first_step, one.probe))) for one in told.hints),
            order=tuple(Order(safe(one.name), safe(one.state), safe(one.why)) for one in told.lamps),
            next_probe=safe(told.next_probe),
            stuck=safe(told.stuck),
            ruled_out=tuple(map(safe, told.ruled_out)),
        )


class Shelf:
    """The readings of the pages, for one reader. The chain is walked once, whatever the page is filtered by."""

    def __init__(self) -> None:
        self._chain = ChainReading()

    def reading(self, demand: Demand) -> tuple[object, EvidenceReading] | None:
        """Name and reading of what answers a demand; None: it is no page of screen 6."""
        run, one = demand.run_id, demand.evidence
        if demand.screen == "cell" and one is not None:
            return ("cell", one), CellReading(one.candidate_id, one.gate, one.cell)
        if demand.screen == "ledger":
            return ("ledger", run, demand.filters), LedgerReading(run, demand.filters, self._chain)
        if demand.screen == "hints" and run is not None:
            return ("hints", run), HintsReading(run)
        plain = {"gates": lambda: GatesReading(run), "pairs": PairsReading, "cases": CasesReading}
        make = plain.get(demand.screen)
        return None if make is None else ((demand.screen, run), make())


def _now() -> datetime:
    return datetime.now(UTC)
