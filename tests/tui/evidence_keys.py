"""The keys of screen 6, page by page, for test_keys.py: how each page is gone to, and what each key does there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.tui.compared import RUN
from tests.tui.judged import FP8
from tests.tui.stage import Stage
from tic_tui.bindings import PAGES
from tic_tui.filters import Filter
from tic_tui.screens.cases import CasesScreen
from tic_tui.screens.cell import CellScreen
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.screens.filter import FilterScreen
from tic_tui.screens.gates import GatesScreen
from tic_tui.screens.hints import HintsScreen
from tic_tui.screens.ledger import EntryScreen, LedgerScreen
from tic_tui.screens.pages import RecordScreen
from tic_tui.screens.pairs import PairsScreen
from tic_tui.screens.run import RunScreen

Effect = Callable[[Stage, str], Awaitable[None]]
KIND: dict[str, type[Any]] = {
    "gates": GatesScreen, "ledger": LedgerScreen, "pairs": PairsScreen, "cases": CasesScreen, "hints": HintsScreen,
    "cell": CellScreen, "record": RecordScreen,
}  # fmt: skip
EVIDENCE = tuple(KIND)


async def visit(s: Stage, screen: str) -> None:
    """To the page with its first list in focus: gates at fp8's failing cell, the ledger at the superseded FAIL."""
    s.app.select_run(RUN)
    page = {"cell": "gates", "record": "cases"}.get(screen, screen)
    s.app.evidence_run = None
    await s.app.go(page)
    view: Any = s.app.screen
    if page == "gates":
        await s.until(lambda: view.main.row_count == 2)
        view.set_focus(view.main)
        view.main.go_to(FP8)
        view._choose("zero_update")
        view._pointed = ("", "")
        view.sync()
        await s.until(lambda: view.cells.selected.gate == "zero_update")
        if screen == "cell":
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.screen, CellScreen) and s.app.screen.within.row_count == 3)
    elif page == "ledger":
        view.set_filters(())
        view.set_focus(view.table)
        view.table.column = "label"
        await s.until(lambda: view.table.row_count == 11)
        view.table.move_to(7)
    elif page == "pairs":
        await s.until(lambda: view.main.row_count == 2)
        view.set_focus(view.main)
        view.main.go_to("shm-fabric")
    elif page == "cases":
        await s.until(lambda: view.main.row_count == 4)
        view.set_focus(view.main)
        view.main.move_to(3)
        if screen == "record":
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.screen, RecordScreen))
    else:
        await s.until(lambda: view.view_shown() is not None)
        view.set_focus(view.main)


def opens(kind: type[Any], *words: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: isinstance(s.app.screen, kind))
        await s.shows(*words)

    return effect


def turns(page: str, by: int) -> Effect:
    """To the page that stands there, and around at the ends."""

    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        there = PAGES[(PAGES.index(page) + by) % len(PAGES)]
        await s.until(lambda: s.app.screen.name_in_table == there)  # type: ignore[attr-defined]

    return effect


def chooses_gate(gate: str, cell: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        view = s.app.screen
        assert isinstance(view, GatesScreen) and view.gate == gate
        assert view.cells.selected is not None and (view.cells.selected.gate, view.cells.selected.cell) == (gate, cell)

    return effect


def panels(*ids: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        for wanted in ids:
            await s.press(key)
            assert s.app.screen.focused is not None and s.app.screen.focused.id == wanted

    return effect


async def of_one_run(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows(f"1 of run {RUN}")
    await s.press(key)
    await s.shows("candidates 2 ")


async def rows_of_one_run(s: Stage, key: str) -> None:
    # By hand: of its run are its candidate's row, three pieces of evidence, the exemption of its candidate and the case.
    await s.press(key)
    await s.shows("rows 6,")
    await s.press(key)
    await s.shows("rows 11,")


async def follows(s: Stage, key: str) -> None:
    await s.shows("PAUSED")
    await s.press(key)
    await s.shows("FOLLOW")


def chooses_column(name: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        assert s.app.screen.table.column == name and f"›{name}" in s.text  # type: ignore[attr-defined]

    return effect


async def excludes(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("label is not FAIL", "matching 9 of 11")


async def switches(s: Stage, key: str) -> None:
    s.app.screen.set_filters((Filter("standing", "is", "superseded", table="ledger"),))  # type: ignore[attr-defined]
    await s.shows("matching 1 of 11")
    await s.press(key)
    await s.shows("off  standing is superseded", "rows 11,")


async def drops(s: Stage, key: str) -> None:
    s.app.screen.set_filters((Filter("label", "is", "FAIL", table="ledger"),))  # type: ignore[attr-defined]
    await s.press(key)
    await s.shows("none: / adds one")


def tells(words: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.shows(words)

    return effect


def _page(page: str, **more: Effect) -> dict[str, Effect]:
    return {
        "back": opens(RunScreen), "previous_page": turns(page, -1), "next_page": turns(page, 1), **more,
    }  # fmt: skip


def effects(copies: Callable[[str], Effect]) -> dict[str, dict[str, Effect]]:
    """What the keys do that not all views have alike. `copies`: as test_keys.py looks at it."""
    return {
        "gates": _page(
            "gates", open=opens(CellScreen, "zero_update/replay of fp8-blockwise", "bitwise: 5 of 96"), all_runs=of_one_run,
            left=chooses_gate("proxy", "batch_invariance"), right=chooses_gate("per_version", "10"), next_panel=panels("cells", "candidates"),
            copy=copies(f"{FP8} zero_update/replay: fail: bitwise: 5 of 96"),
        ),
        "cell": {
            "open": opens(ComparisonScreen, "bitwise: 5 of 96", "worst first"), "back": opens(GatesScreen),
            "next_panel": panels("about", "within"), "copy": copies("tic-daemon evidence supersede ev-"),
        },
        "ledger": _page(
            "ledger", open=opens(EntryScreen, "superseded", "the image was another (ada)"), follow=follows, all_runs=rows_of_one_run,
            filter=opens(FilterScreen, "by which column"), exclude=excludes, switch=switches, drop=drops, left=chooses_column("kind"),
            right=chooses_column("standing"), next_panel=panels("all-entries"), copy=copies("the image was another"),
        ),
        "pairs": _page(
            "pairs", open=opens(RecordScreen, "pair shm-fabric", "pending re-check"), next_panel=panels("rules", "pairs"),
            copy=copies("a of 6"),
        ),
        "cases": _page(
            "cases", open=opens(RecordScreen, "bitwise before the first update", "not shown"), next_panel=panels("cases"),
            copy=copies("counterexample"),
        ),
        "hints": _page(
            "hints", open=tells("to a trace: Tab, then Enter"), next_panel=panels("traces", "hints"), copy=copies("hint"),
        ),
        "record": {"open": tells("nothing lies below this"), "back": opens(CasesScreen), "copy": copies("ruled out")},
    }  # fmt: skip
