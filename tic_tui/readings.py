"""What was read last of each screen, and what freezing holds back of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Union

from tic_tui.model import FaultsView, MismatchesView, RunsView, RunView

if TYPE_CHECKING:
    from tic_tui.comparison_model import ComparisonsView, ComparisonView
    from tic_tui.evidence_model import CasesView, CellView, EvidenceView, GatesView, HintsView, LedgerView, PairsView
    from tic_tui.lanes import StateView

Which = Literal[
    "runs", "run", "mismatches", "state", "faults", "comparisons", "comparison",
    "gates", "cell", "ledger", "pairs", "cases", "hints",
]  # fmt: skip
AnyView = Union[
    RunsView, RunView, MismatchesView, FaultsView, "StateView", "ComparisonsView", "ComparisonView", "EvidenceView"
]


def _asks(view: AnyView) -> object:
    """What a reading answers: a person who asks for something else while frozen is to get it."""
    if isinstance(view, RunsView):
        return None
    if isinstance(view, RunView):
        return view.run.run_id
    # The control groups beside a list are asked for with every move of its cursor: the list is the same.
    return replace(view.demand, compare=None) if view.demand.screen == "comparisons" else view.demand


@dataclass(slots=True)
class Readings:
    """The newest reading of each screen. Frozen, newer answers to what is shown wait; data goes on being collected."""

    runs: RunsView | None = None
    run: RunView | None = None
    mismatches: MismatchesView | None = None
    state: StateView | None = None
    faults: FaultsView | None = None
    comparisons: ComparisonsView | None = None
    comparison: ComparisonView | None = None
    gates: GatesView | None = None
    cell: CellView | None = None
    ledger: LedgerView | None = None
    pairs: PairsView | None = None
    cases: CasesView | None = None
    hints: HintsView | None = None
    frozen_at: datetime | None = None
    _held: dict[Which, AnyView | None] = field(default_factory=dict)

    def take(self, which: Which, view: AnyView | None) -> bool:
        """Takes a reading; whether it is shown now."""
        shown: AnyView | None = getattr(self, which)
        if self.frozen_at is not None and shown is not None and (view is None or _asks(view) == _asks(shown)):
            self._held[which] = view
            return False
        self._held.pop(which, None)
        setattr(self, which, view)
        return True

    @property
    def waits(self) -> bool:
        """Something newer than what is shown has been read."""
        return bool(self._held)

    def forget(self, which: Which) -> None:
        """For another run: what is known of the last one says nothing about it."""
        self._held.pop(which, None)
        setattr(self, which, None)

    def freeze(self, now: datetime) -> None:
        """Holds what is shown."""
        self.frozen_at = now

    def thaw(self) -> None:
        """Shows what was read meanwhile."""
        self.frozen_at = None
        held, self._held = self._held, {}
        for which, view in held.items():
            setattr(self, which, view)
