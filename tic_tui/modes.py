"""The numbered screens. All but the first are loaded when they are gone to: a fifth of the time to the first paint."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from textual.screen import Screen

from tic_tui import bindings
from tic_tui.screens.base import View
from tic_tui.screens.runs import RunsScreen

_LATER: Final = {
    bindings.RUN: "run.RunScreen",
    bindings.MISMATCHES: "mismatches.MismatchesScreen",
    bindings.STATE: "state.StateScreen",
    bindings.FAULTS: "faults.FaultsScreen",
    bindings.COMPARISONS: "comparisons.ComparisonsScreen",
    bindings.GATES: "gates.GatesScreen",
    bindings.LEDGER: "ledger.LedgerScreen",
    bindings.PAIRS: "pairs.PairsScreen",
    bindings.CASES: "cases.CasesScreen",
    bindings.HINTS: "hints.HintsScreen",
}


def _made(place: str) -> View:
    module, _, name = place.partition(".")
    view: View = getattr(importlib.import_module(f"tic_tui.screens.{module}"), name)()
    return view


MODES: Final[dict[str, str | Callable[[], Screen[Any]]]] = {
    bindings.RUNS: RunsScreen,
    **{mode: partial(_made, place) for mode, place in _LATER.items()},
}
"""How the screen of each mode is made."""
