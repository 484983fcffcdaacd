"""Every key of the binding table, pressed on every screen where it works, and its effect looked at.

`EFFECTS` must name exactly the pairs of screen and action that the table has: a key without a test here fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tui import compared, evidence_keys, judged
from tests.tui.fake import NOW, FakeStore
from tests.tui.stage import Stage, stage
from tic_tui import clipboard
from tic_tui.bindings import SCREENS, TABLE
from tic_tui.filters import Filter
from tic_tui.histories import Lack
from tic_tui.messages import Link, LinkChanged
from tic_tui.model import Mismatch
from tic_tui.safe import safe
from tic_tui.screens.comparison import ComparisonScreen, SequenceScreen, TokenScreen
from tic_tui.screens.comparisons import ComparisonsScreen
from tic_tui.screens.faults import FaultsScreen
from tic_tui.screens.filter import FilterScreen
from tic_tui.screens.gates import GatesScreen
from tic_tui.screens.help import HelpScreen
from tic_tui.screens.inspect import InspectScreen
from tic_tui.screens.mark import MarkScreen, RetractScreen
from tic_tui.screens.mismatches import MismatchesScreen
from tic_tui.screens.palette import PaletteScreen
from tic_tui.screens.run import RunScreen
from tic_tui.screens.runs import RunsScreen
from tic_tui.screens.sides import SidesScreen
from tic_tui.screens.state import StateScreen
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.lists import LineList, MismatchTable, RunList

Effect = Callable[[Stage, str], Awaitable[None]]
KIND: dict[str, type[Any]] = {
    "runs": RunsScreen, "run": RunScreen, "mismatches": MismatchesScreen, "state": StateScreen,
    "faults": FaultsScreen, "inspect": InspectScreen, "sides": SidesScreen, "comparisons": ComparisonsScreen, "comparison": ComparisonScreen,
    "sequence": SequenceScreen, "token": TokenScreen, "help": HelpScreen, "mark": MarkScreen, "filter": FilterScreen, "palette": PaletteScreen,
    **evidence_keys.KIND,
}  # fmt: skip
RUN = "grpo-tiny-a"
COMPARING = ("comparisons", "comparison", "sequence", "token")


async def home(s: Stage) -> None:
    """Out of every dialog, to the list of runs."""
    if s.app.frozen_at is not None:
        s.app.toggle_freeze()
    while s.app.screen.is_modal:
        s.app.pop_screen()
    await s.app.go("runs")
    s.app.screen.query_one(RunList).move_to(0)
    s.said.clear()
    await s.pilot.pause()


async def go(s: Stage, screen: str) -> None:
    """To the screen, with its list in the middle and no notice."""
    s.app.tell("")
    here = isinstance(s.app.screen, KIND[screen]) and not s.app.frozen_at
    if here and screen == "inspect" and isinstance(s.app.screen.item, Mismatch):
        detail = s.app.screen.query_one(DetailPane)
        detail.around = 6
        detail.redraw()
        s.said.clear()
        return
    if here and screen == "sides":
        s.said.clear()
        s.app.screen._go(401 - s.app.screen.step)  # type: ignore[attr-defined]
        await s.shows("step 401", "no source has a value")
        return
    if here and screen in {"run", "mismatches", "state", "faults", "comparisons", *evidence_keys.EVIDENCE}:
        s.said.clear()
    elif here and screen in COMPARING[1:] and getattr(s.app.screen, "row", "") is not None:
        s.said.clear()
        if isinstance(s.app.screen, ComparisonScreen):
            s.app.screen.set_focus(s.app.screen.within)
        rows(s).move_to(0)
        return
    else:
        await home(s)
    if screen in {"run", "inspect", "mark"}:
        table = await s.open_run(RUN)
        s.app.screen.set_focus(table)
        await s.until(lambda: table.row_count == 40)
        table.move_to(20)
        if screen == "inspect":
            await s.press("enter")
            await s.shows("bytes as they were kept")
            detail = s.app.screen.query_one(DetailPane)
            detail.around = 6
            detail.redraw()
        if screen == "mark":
            await s.press("i")
    elif screen in {"mismatches", "filter"}:
        s.app.select_run(RUN)
        await s.app.show_mismatches(run_id=RUN)
        view = s.app.screen
        assert isinstance(view, MismatchesScreen)
        view.set_filters(())
        view.set_focus(view.table)
        await s.until(lambda: view.table.row_count == 40)
        view.table.move_to(20)
        if screen == "filter":
            await s.press("slash")
    elif screen == "faults":
        s.app.select_run(RUN)
        await s.app.go("faults")
        view = s.app.screen
        assert isinstance(view, FaultsScreen)
        view.attempt = None
        view.set_focus(view.table)
        s.app.demand_changed()
        await s.until(lambda: view._placed and view.table.row_count >= 3 and view.cascade.row_count == 2)
        view.table.opened.clear()
        view.table.go_to(view.table.rows[1].key)
    elif screen == "state":
        await at_the_middle_batch(s)
    elif screen == "sides":
        await the_middle_step(s)
    elif screen in COMPARING:
        await compares(s, screen)
    elif screen in evidence_keys.EVIDENCE:
        await evidence_keys.visit(s, screen)
    elif screen == "help":
        await s.press("question_mark")
    elif screen == "palette":
        await s.press("colon")
    await s.until(lambda: isinstance(s.app.screen, KIND[screen]))


async def at_the_middle_batch(s: Stage) -> None:
    """Screen 4 with the cursor on the batch of line 30 in the lane of step kinds, half of the axis round it."""
    s.app.select_run(RUN)
    await s.app.go("state")
    view = s.app.screen
    assert isinstance(view, StateScreen)
    view._start_over()
    s.app.demand_changed()
    await s.until(lambda: view.view_shown() is not None and view.lanes.row_count > 8)
    view.lanes.go_to("step_kind")
    await s.until(lambda: line(s) == 32)
    view.action_zoom_in()
    for _ in range(2):
        view.action_left()
    await s.until(lambda: line(s) == 30 and share(s) == 50)


async def the_middle_step(s: Stage) -> None:
    """The second of three steps that the server of W&B lacks, side by side."""
    await s.open_run(RUN)
    gap = (safe("abc"), safe("missing"), safe("wandb_api"), 400, 402, safe("_step"), safe(""), safe("lost"), True)
    s.app.push_screen(SidesScreen(Lack(safe(RUN), 1, *gap)))
    await s.shows("step 400", "no source has a value")
    view = s.app.screen
    assert isinstance(view, SidesScreen)
    view.action_next_step()
    await s.shows("step 401", "no source has a value")


async def compares(s: Stage, screen: str) -> None:
    """The comparison of step 11 in the list, opened, down to its sequence r0, down to that one's first token."""
    s.app.select_run(RUN)
    await s.app.show_comparisons(RUN)
    view = s.app.screen
    assert isinstance(view, ComparisonsScreen)
    view.set_filters(())
    view.set_focus(view.table)
    view.table.column = "differs"
    await s.until(lambda: view.table.row_count == 14)
    view.table.move_to(11)
    for level in COMPARING[1 : COMPARING.index(screen) + 1]:
        await s.press("enter")
        await s.until(lambda: isinstance(s.app.screen, KIND[level]) and rows(s).row_count > 1)  # noqa: B023


def line(s: Stage) -> int | None:
    """The line of what is under the cursor of screen 4."""
    item = s.app.screen.selected()  # type: ignore[attr-defined]
    return None if item is None else item.line_no


def share(s: Stage) -> int:
    """How much of the axis screen 4 shows, in percent."""
    view = s.app.state_view
    assert view is not None
    return round(100 * (view.high - view.low + 1) / (view.last - view.first + 1))


def rows(s: Stage) -> Any:
    """The list that the keys move."""
    return s.app.screen.query_one(LineList) if s.app.screen.is_modal else s.app.screen.listing  # type: ignore[attr-defined]


def moves(by: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        table = rows(s)
        if s.app.screen.is_modal:
            table.move_to(table.row_count // 2)
        page, was, last = max(1, table.size.height - 1), table.cursor, table.row_count - 1
        if not table.shows_cursor and not s.app.screen.is_modal:  # the window moves, to its last full page
            last = max(0, table.row_count - table.size.height)
            table.move_to(min(5, last))
            was = table.cursor
        wanted = {"up": was - 1, "down": was + 1, "page_up": was - page, "page_down": was + page, "top": 0, "end": last}
        await s.press(key)
        await s.until(lambda: table.cursor == max(0, min(last, wanted[by])))

    return effect


def opens(kind: type[Any], *words: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: isinstance(s.app.screen, kind))
        await s.shows(*words)

    return effect


async def freezes(s: Stage, key: str) -> None:
    await s.press(key)
    assert s.app.frozen_at is not None
    await s.shows("FROZEN since")
    await s.press(key)
    assert s.app.frozen_at is None and "FROZEN" not in s.text


def copies(words: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        clipboard.copy_file().unlink(missing_ok=True)
        await s.press(key)
        copied = clipboard.copy_file().read_text()
        assert words in copied
        await s.shows(f"{len(copied)} characters")

    return effect


async def copies_hint(s: Stage, key: str) -> None:
    was = s.app.link
    s.app.on_link_changed(LinkChanged(Link("connected", "snapshot", None, 0, safe("gone"), safe("ssh -L 9:n:9 n"))))
    clipboard.copy_file().unlink(missing_ok=True)
    await s.press(key)
    assert clipboard.copy_file().read_text() == "ssh -L 9:n:9 n"
    s.app.on_link_changed(LinkChanged(was))


async def mouse(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("mouse")


def marks(verdict: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: isinstance(s.app.screen, MarkScreen))
        await s.press(*"why", "enter")
        await s.until(lambda: s.said)
        assert (s.said[0].run_id, s.said[0].verdict, s.said[0].reason) == (RUN, verdict, "why")

    return effect


async def retracts(s: Stage, key: str) -> None:
    if s.app.run_view is None:
        await s.press(key)
        await s.shows("open the run first")
        return
    await s.press(key)
    await s.until(lambda: isinstance(s.app.screen, RetractScreen))


async def quick_fault(s: Stage, key: str) -> None:
    await s.press(key)
    await s.until(lambda: isinstance(s.app.screen, FaultsScreen) and s.app.faults_view is not None)
    await s.until(lambda: s.app.screen.selected() is not None)  # type: ignore[attr-defined]
    assert s.app.screen.selected().rec_id == 9001, "the first one"  # type: ignore[attr-defined]


def jumps(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        table = s.app.screen.table  # type: ignore[attr-defined]
        was = table.cursor
        await s.press(key)
        await s.until(lambda: table.cursor == was + by)
        for _ in range(4):
            await s.press(key)
        await s.shows("there is no later fault" if by > 0 else "there is no earlier fault")

    return effect


async def follows(s: Stage, key: str) -> None:
    await s.shows("PAUSED")
    await s.press(key)
    await s.shows("FOLLOW")
    assert rows(s).cursor == 39


async def next_metric(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("no other metric")


def tabs(*ids: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        for wanted in ids:
            await s.press(key)
            assert s.app.screen.focused is not None and s.app.screen.focused.id == wanted

    return effect


def back_to(kind: type[Any]) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: isinstance(s.app.screen, kind))

    return effect


async def enters_run(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("LOCKED attempt 1")
    assert isinstance(s.app.screen, RunScreen)


async def turns_order(s: Stage, key: str) -> None:
    within = s.app.screen.within  # type: ignore[attr-defined]
    assert [row.request for row in within.rows] == ["r0", "r1", "r2"]
    s.store.write("UPDATE comparison_sequences SET mismatched_tokens = 30 WHERE request = 'r2'")
    await s.press(key)
    await s.shows("by request")
    await s.press(key)
    await s.shows("worst first")
    s.store.write("UPDATE comparison_sequences SET mismatched_tokens = 0 WHERE request = 'r2'")


async def follows_comparisons(s: Stage, key: str) -> None:
    await s.shows("PAUSED")
    await s.press(key)
    await s.shows("FOLLOW")
    assert rows(s).cursor == 13


def chooses_column(name: str) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        assert s.app.screen.table.column == name and f"›{name}" in s.text  # type: ignore[attr-defined]

    return effect


async def excludes_label(s: Stage, key: str) -> None:
    view = s.app.screen
    assert isinstance(view, ComparisonsScreen)
    view.table.column = "label"
    await s.press(key)
    await s.shows("label is not FAIL", "matching 13 of 14")
    assert all(one.label != "FAIL" for one in view.table.rows)


async def switches_label(s: Stage, key: str) -> None:
    s.app.screen.set_filters((Filter("label", "is", "FAIL", table="comparisons"),))  # type: ignore[attr-defined]
    await s.shows("matching 1 of 14")
    await s.press(key)
    await s.shows("off  label is FAIL", "comparisons 14 ")


async def drops_label(s: Stage, key: str) -> None:
    s.app.screen.set_filters((Filter("label", "is", "FAIL", table="comparisons"),))  # type: ignore[attr-defined]
    await s.press(key)
    await s.shows("none: / adds one")


async def compares_all_runs(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("all runs", "comparisons 15")
    await s.press(key)
    await s.shows("comparisons 14")


async def turns_panel(s: Stage, key: str) -> None:
    await s.press(key)
    assert s.app.screen.focused is not None and s.app.screen.focused.id == "numbers"
    await s.shows("all of it", "valid tokens")
    await s.press(key)
    assert s.app.screen.focused is not None and s.app.screen.focused.id == "within"


def slides(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        bottom = s.app.screen.bottom  # type: ignore[attr-defined]
        bottom.shift(-1000 if by > 0 else 1000)
        await s.pilot.pause()
        was = bottom.scroll_offset.x
        await s.press(key)
        await s.until(lambda: (bottom.scroll_offset.x - was) * by > 0)

    return effect


def column(step: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        table = s.app.screen.query_one(MismatchTable)
        names = [c.name for c in table.columns()] + ["standing"]
        table.column = names[2]
        await s.press(key)
        assert table.column == names[2 + step] and f"›{names[2 + step]}" in s.text

    return effect


async def excludes(s: Stage, key: str) -> None:
    view = s.app.screen
    assert isinstance(view, MismatchesScreen) and view.table.selected is not None
    view.table.column = "step"
    step = view.table.selected.step
    await s.press(key)
    assert view.filters == (Filter("step", "is not", str(step)),)
    await s.shows(f"step is not {step}", "matching 38 of 40")
    assert all(r.step != step for r in view.table.rows)


async def switches(s: Stage, key: str) -> None:
    view = s.app.screen
    assert isinstance(view, MismatchesScreen)
    view.set_filters((Filter("admissibility", "is", "locked"),))
    await s.shows("matching 11 of 40")
    await s.press(key)
    await s.shows("off  admissibility is locked", "mismatches 40 ")
    await s.press(key)
    await s.shows("on   admissibility is locked", "matching 11 of 40")


async def drops(s: Stage, key: str) -> None:
    view = s.app.screen
    assert isinstance(view, MismatchesScreen)
    view.set_filters((Filter("admissibility", "is", "locked"), Filter("step", ">=", "15")))
    view.stack.cursor = 1
    await s.press(key)
    assert view.filters == (Filter("admissibility", "is", "locked"),)


async def all_runs(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("all runs", "mismatches 52")
    await s.press(key)
    await s.until(lambda: "all runs" not in s.text)


async def folds(s: Stage, key: str) -> None:
    view = s.app.screen
    assert isinstance(view, FaultsScreen)
    await s.shows("+1 copy")
    await s.press(key)
    await s.shows("copy by a console", "/logs/driver.log:40")
    await s.press(key)
    await s.until(lambda: "copy by a console" not in s.text)


def attempts(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        view = s.app.screen
        assert isinstance(view, FaultsScreen)
        await s.press(key)
        await s.shows("no other attempt on that side")

    return effect


def shifts(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        pane = s.app.screen.query_one(DetailPane)
        pane.shift(-1000)
        if by < 0:
            pane.shift(40)
        was = pane.scroll_offset.x
        await s.press(key)
        assert (pane.scroll_offset.x - was) * by > 0

    return effect


def lines(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        pane = s.app.screen.query_one(DetailPane)
        await s.press(key)
        assert pane.around == max(0, 6 + 6 * by)

    return effect


def changes_to(number: int, words: str = "") -> Effect:
    """Screen 4: the cursor is on the change of that line afterwards."""

    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: line(s) == number)
        await s.shows(words)

    return effect


def shows_share(percent: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.until(lambda: share(s) == percent)

    return effect


def pans(by: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        was = s.app.state_view
        assert was is not None
        await s.press(key)
        await s.until(lambda: (s.app.state_view.low - was.low) * by > 0)  # type: ignore[union-attr]
        assert share(s) == 50
        for _ in range(4):
            await s.press(key)
        await s.until(
            lambda: s.app.state_view.low == was.first if by < 0 else s.app.state_view.high == was.last  # type: ignore[union-attr]
        )

    return effect


async def turns_axis(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("place in the log, lines 1 to 33", "not on this axis: 40 numbers, 3 faults; they stand in other logs")
    await s.press(key)
    await s.shows("› time ", "10 min")


async def turns_teller(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("trainer pid 4600", "/logs/trainer.log", "2 of 2", "(NONE)")
    await s.press(key)
    await s.shows("rollout rank 0", "1 of 2")


async def follows_state(s: Stage, key: str) -> None:
    await s.shows("PAUSED")
    await s.press(key)
    await s.shows("FOLLOW")
    await s.until(lambda: line(s) == 32)


def jumps_to_fault(rec_id: int) -> Effect:
    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        if rec_id:
            await s.until(lambda: getattr(s.app.screen.selected(), "rec_id", 0) == rec_id)  # type: ignore[attr-defined]
            await s.shows("locks the attempt")
        else:
            await s.shows("there is no earlier fault")

    return effect


def steps(by: int) -> Effect:
    """Side by side: the next step of the gap or the one before, and no further than its ends."""

    async def effect(s: Stage, key: str) -> None:
        await s.press(key)
        await s.shows(f"step {401 + by}")
        await s.press(key)
        await s.shows("there is no later step" if by > 0 else "this is the gap's first step")

    return effect


async def shows_place(s: Stage, key: str) -> None:
    """From a record: to its place among the states."""
    await s.press(key)
    await s.until(lambda: isinstance(s.app.screen, StateScreen) and s.app.state_view is not None)
    await s.until(lambda: getattr(s.app.screen.selected(), "rec_id", 0) == 120)  # type: ignore[attr-defined]


async def runs_entry(s: Stage, key: str) -> None:
    await s.press(*"freeze", key)
    await s.until(lambda: s.app.frozen_at is not None)


async def closes(s: Stage, key: str) -> None:
    await s.press(key)
    await s.until(lambda: not s.app.screen.is_modal)
    assert s.said == []


async def writes(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("a reason is required")
    await s.press(*"bad")
    assert "a reason is required" not in s.text
    await s.press(key)
    await s.until(lambda: [w.reason for w in s.said] == ["bad"])


async def scopes(s: Stage, key: str) -> None:
    await s.press(key)
    await s.shows("[attempt 1]")
    await s.press(key)
    await s.shows("[record under the cursor]")


async def chooses(s: Stage, key: str) -> None:
    await s.press(*"classif", key)
    await s.shows("is unknown", "40")
    await s.press(key)
    await s.until(lambda: isinstance(s.app.screen, MismatchesScreen))
    assert s.app.screen.filters == (Filter("classification", "is", "unknown"),)  # type: ignore[attr-defined]


async def negates(s: Stage, key: str) -> None:
    await s.press(*"admis", "enter")
    await s.shows("is suspect")
    await s.press(key)
    await s.shows("is not suspect")


VIEW_EFFECTS: dict[str, Effect] = {
    "inconclusive": marks("inconclusive"), "note": marks("note"), "retract": retracts, "freeze": freezes,
    "copy_hint": copies_hint, "mouse": mouse,
    "up": moves("up"), "down": moves("down"), "page_up": moves("page_up"), "page_down": moves("page_down"),
    "top": moves("top"), "end": moves("end"),
    "show_runs": opens(RunsScreen, "sft-warmup"), "show_run": opens(RunScreen),
    "show_mismatches": opens(MismatchesScreen, "filters"), "show_state": opens(StateScreen, "weights"), "show_faults": opens(FaultsScreen, "faults"),
    "show_comparisons": opens(ComparisonsScreen, "comparisons 14"), "show_evidence": opens(GatesScreen, "candidates 2"),
    "help": opens(HelpScreen, "keys"), "palette": opens(PaletteScreen, "go to or do"),
}  # fmt: skip
AWAY = (
    "show_runs", "show_run", "show_mismatches", "show_state", "show_faults", "show_comparisons", "show_evidence", "help",
    "palette", "inconclusive", "note", "retract",
)  # fmt: skip
"""Of these, those that lead to another screen or open a dialog."""
LIST_EFFECTS: dict[str, Effect] = {
    "list_up": moves("up"), "list_down": moves("down"), "list_page_up": moves("page_up"),
    "list_page_down": moves("page_down"), "close": closes,
}  # fmt: skip
EFFECTS: dict[str, dict[str, Effect]] = {
    "runs": VIEW_EFFECTS | {
        "open": enters_run, "next_fault": quick_fault, "previous_fault": quick_fault, "copy": copies(RUN),
    },
    "run": VIEW_EFFECTS | {
        "open": opens(InspectScreen, "standing"), "back": back_to(RunsScreen), "follow": follows, "metric": next_metric,
        "filter": opens(FilterScreen, "by which column"), "next_panel": tabs("faults", "findings", "lifecycle", "compared", "mismatches"),
        "copy": copies("/logs/grpo-tiny-a/worker-0.log:481\n[mismatch]"), "next_fault": quick_fault,
        "previous_fault": quick_fault,
    },
    "mismatches": VIEW_EFFECTS | {
        "open": opens(InspectScreen, "standing"), "back": back_to(RunScreen), "follow": follows,
        "filter": opens(FilterScreen, "by which column"), "exclude": excludes, "switch": switches, "drop": drops,
        "all_runs": all_runs, "left": column(-1), "right": column(1), "next_panel": tabs("all-mismatches"),
        "copy": copies("/logs/grpo-tiny-a/worker-0.log:481\n[mismatch]"),
    },
    "faults": VIEW_EFFECTS | {
        "open": opens(InspectScreen, "effect"), "back": back_to(RunScreen), "next_fault": jumps(1),
        "previous_fault": jumps(-1), "fold": folds, "previous_attempt": attempts(-1), "next_attempt": attempts(1),
        "next_panel": tabs("cascade", "all-faults"), "copy": copies("/logs/grpo-tiny-a/worker-3.log:812"),
    },
    "state": VIEW_EFFECTS | {
        "open": opens(InspectScreen, "shown by", "what the process printed of itself", "step_kind prefill"),
        "back": back_to(RunScreen), "follow": follows_state, "left": changes_to(16, "decode"),
        "right": changes_to(31, "mixed"), "top": changes_to(15, "the first that was told"), "end": changes_to(32),
        "zoom_in": shows_share(25), "zoom_out": shows_share(100), "zoom_whole": shows_share(100), "pan_left": pans(-1),
        "pan_right": pans(1), "axis": turns_axis, "previous_teller": turns_teller, "next_teller": turns_teller,
        "next_fault": jumps_to_fault(9001), "previous_fault": jumps_to_fault(0), "copy": copies("/logs/rollout.log:30"),
    },
    "inspect": VIEW_EFFECTS | {
        "open_finding": opens(InspectScreen, "touches", "steps 12-14"), "next_panel": tabs("made-in", "detail"),
        "show_state": shows_place,
        "back": back_to(RunScreen), "next_fault": quick_fault, "previous_fault": quick_fault, "left": shifts(-1),
        "right": shifts(1), "more": lines(1), "fewer": lines(-1), "copy": copies("worker-0.log:481 offset 28800"),
    },
    "sides": VIEW_EFFECTS | {
        "back": back_to(RunScreen), "next_step": steps(1), "previous_step": steps(-1), "copy": copies("no source has a value"),
    },
    "comparisons": VIEW_EFFECTS | {
        "open": opens(ComparisonScreen, "bitwise: 5 of 96", "worst first"), "back": back_to(RunScreen),
        "follow": follows_comparisons, "filter": opens(FilterScreen, "by which column"), "exclude": excludes_label,
        "switch": switches_label, "drop": drops_label, "all_runs": compares_all_runs, "left": chooses_column("group"),
        "right": chooses_column("mae"), "next_panel": tabs("all-comparisons"), "copy": copies("bitwise: 5 of 96"),
    },
    "comparison": VIEW_EFFECTS | {
        "open": opens(SequenceScreen, "› r0", "tokens kept 2"), "back": back_to(ComparisonsScreen),
        "order": turns_order, "next_panel": turns_panel, "copy": copies("bitwise: 5 of 96"),
    },
    "sequence": VIEW_EFFECTS | {
        "open": opens(TokenScreen, "position 7", "0xbfc00000"), "back": back_to(ComparisonScreen),
        "copy": copies("4 of 32 valid tokens"),
    },
    "token": VIEW_EFFECTS | {
        "open": opens(TokenScreen, "file of side A", "files"), "back": back_to(SequenceScreen), "left": slides(-1),
        "right": slides(1), "copy": copies("0xbfc00000"),
    },
    "help": LIST_EFFECTS | {"run_it": runs_entry},
    "palette": LIST_EFFECTS | {"run_it": runs_entry},
    "mark": {"close": closes, "write": writes, "scope": scopes},
    "filter": LIST_EFFECTS | {"choose": chooses, "negate": negates},
    **{screen: VIEW_EFFECTS | told for screen, told in evidence_keys.effects(copies).items()},
}  # fmt: skip
LEAVING = {"quit", "quit_keep"}


def _store() -> FakeStore:
    """The demo, with a second rank in the cascade and a console's copy of its line."""
    store = FakeStore()
    store.demo()
    store.lived()
    judged.some(store)
    compared.comparison(store, 40, run="sft-warmup", observed_at=NOW - timedelta(hours=3))
    store.write("UPDATE mismatches SET finding_ids = 'f1' WHERE rec_id = 120")
    store.fault(9003, RUN, kind="process_exit", locks=False, step=16, text="worker exited")
    store.write("UPDATE faults SET rank = 2, host = 'node2' WHERE rec_id = 9002")
    store.write(
        "INSERT INTO faults SELECT * REPLACE (9004 AS rec_id, 9002 AS echo_of, '/logs/driver.log' AS path, 40 AS line_no,"
        " NULL AS last_attempt) FROM faults WHERE rec_id = 9002"
    )
    return store


def _tried(action: str, screen: str) -> bool:
    """Whether the first key of an action is among the tests that always run.

    The way back from where a key leads to takes most of the time. Where it runs the very code that it runs on an earlier
    screen (that each screen binds it is shown by test_bindings.py), it is pressed on every fourth screen, and each
    screen has a fourth of these keys pressed.
    """
    if action not in AWAY:
        return True
    code = [getattr(KIND[s], f"action_{action}") for s in SCREENS[: SCREENS.index(screen) + 1] if action in EFFECTS[s]]
    return code.index(code[-1]) == len(code) - 1 or (AWAY.index(action) + SCREENS.index(screen)) % 4 == 0


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("which", ["first", pytest.param("others", marks=pytest.mark.slow)])
async def test_every_key_has_its_effect(
    screen: str, which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first key of every action, see `_tried`; all others, which do the same, among the slow tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keys = [k for k in TABLE if screen in k.screens and k.id not in LEAVING]
    assert {k.id for k in keys} == set(EFFECTS[screen])
    async with stage(store=_store(), demo=False) as s:
        for action in keys:
            always = 1 if _tried(action.id, screen) else 0
            for key in action.keys[:always] if which == "first" else action.keys[always:]:
                await go(s, screen)
                try:
                    await EFFECTS[screen][action.id](s, key)
                except AssertionError as error:
                    raise AssertionError(f"{key} ({action.id}) on {screen}: {error}\n{s.text}") from error


def _cheap(action: str, screen: str) -> bool:
    """Among the tests that always run: both keys on one screen, and one of them, whose code is one, on one of each kind."""
    return screen == "run" or (action == "quit" and screen in {"runs", "inspect", "token", "gates"})


@pytest.mark.parametrize(
    ("action", "screen"),
    [
        pytest.param(k, s, id=f"{k.id}-{s}", marks=() if _cheap(k.id, s) else pytest.mark.slow)
        for k in TABLE
        if k.id in LEAVING
        for s in SCREENS
        if s in k.screens
    ],
)
async def test_leaving_works_from_everywhere(screen: str, action: Any) -> None:
    assert screen in action.screens
    async with stage(store=_store(), demo=False) as s:
        await go(s, screen)
        await s.press(action.keys[0])
        assert s.app._exit
        assert (s.app.return_value is not None) is (action.id == "quit_keep")
