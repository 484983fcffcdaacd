"""Which reading answers which demand, for one reader. The feed asks it for the message to post."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from textual.message import Message

from tic_tui.comparison_reading import ComparisonReading, ComparisonsReading
from tic_tui.evidence_reading import EvidenceReading, Shelf
from tic_tui.fault_reading import FaultsReading
from tic_tui.messages import (
    ComparisonFetched,
    ComparisonsFetched,
    EvidenceFetched,
    FaultsFetched,
    MismatchesFetched,
    RunFetched,
    RunsFetched,
    StateFetched,
)
from tic_tui.model import Demand, Mismatch, build
from tic_tui.reading import Ask, News, RunReading, RunsReading
from tic_tui.record_reading import MismatchesReading
from tic_tui.state_reading import StateReading
from tic_tui.windows import Scope

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader, Tail

KEPT: Final = 12  # readings of runs and filter stacks, so that coming back to one costs what is new
_NAMES: Final = tuple(f.name for f in fields(Mismatch))

Reading = (
    RunsReading
    | RunReading
    | MismatchesReading
    | FaultsReading
    | StateReading
    | ComparisonsReading
    | ComparisonReading
    | EvidenceReading
)


class Desk:
    """The readings of one reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._kept: OrderedDict[Any, Reading] = OrderedDict()
        self._last: Reading | None = None
        self._shelf = Shelf()

    @property
    def complete(self) -> bool:
        """The last view is whole: nothing of it is left to work on."""
        return self._last is None or self._last.complete

    def message(self, ask: Ask) -> Message:
        """The view that is asked for. Raises what `Reader.query` raises."""
        demand = ask.demand
        reading = self._reading(demand)
        if reading is not self._last:
            ask = replace(ask, news=None)  # news went to another one meanwhile
        self._last = None
        message: Message
        if isinstance(reading, RunReading):
            message = RunFetched(demand.run_id or "", reading.view(self.reader, ask))
        elif isinstance(reading, MismatchesReading):
            message = MismatchesFetched(reading.view(self.reader, ask))
        elif isinstance(reading, FaultsReading):
            message = FaultsFetched(demand.run_id or "", reading.view(self.reader, ask))
        elif isinstance(reading, StateReading):
            message = StateFetched(demand.run_id or "", reading.view(self.reader, ask))
        elif isinstance(reading, ComparisonsReading):
            message = ComparisonsFetched(reading.view(self.reader, ask))
        elif isinstance(reading, ComparisonReading):
            message = ComparisonFetched(reading.view(self.reader, ask))
        elif isinstance(reading, EvidenceReading):
            message = EvidenceFetched(reading.page, reading.view(self.reader, ask))
        else:
            message = RunsFetched(reading.view(self.reader, ask))
        self._last = reading
        return message

    def _reading(self, demand: Demand) -> Reading:
        run = demand.run_id
        if demand.screen == "mismatches":
            return self._keep((run, demand.filters), MismatchesReading(Scope(run, demand.filters)))
        if demand.screen == "run" and run is not None:
            return self._keep(run, RunReading(run))
        if demand.screen == "faults" and run is not None:
            return self._keep(("faults", run), FaultsReading(run))
        if demand.screen == "state" and run is not None:
            return self._keep(("state", run), StateReading(run))
        return self._comparing(demand)

    def _comparing(self, demand: Demand) -> Reading:
        run = demand.run_id
        if demand.screen == "comparisons":
            return self._keep(("comparisons", run, demand.filters), ComparisonsReading(run, demand.filters))
        if (page := self._shelf.reading(demand)) is not None:
            return self._keep(*page)
        if demand.screen == "comparison" and (one := demand.compare) is not None:
            return self._keep(("comparison", one.comparison_id), ComparisonReading(one.comparison_id))
        return self._keep(None, RunsReading())

    def _keep(self, name: Any, new: Reading) -> Reading:
        """The reading of this name, made if there is none; the one used longest ago goes."""
        reading = self._kept.setdefault(name, new)
        self._kept.move_to_end(name)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return reading

    @staticmethod
    def news(tail: Tail | None) -> News:
        """What a poll brought; rows without the columns of a record count as missed."""
        if tail is None:
            return News()
        if not tail.rows or not set(_NAMES) <= set(tail.columns):
            return News((), tail.missed + len(tail.rows), True)
        places = [tail.columns.index(name) for name in _NAMES]
        rows = tuple(build(Mismatch, [row[place] for place in places]) for row in tail.rows)
        return News(rows, tail.missed, True)
