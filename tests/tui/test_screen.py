"""Keys and readings, through a real app on a headless driver. No sleep stands for a condition: each waits for it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from textual.widget import Widget

from tests.tui.fake import FakeStore
from tests.tui.stage import stage
from tic_tui import feed
from tic_tui.messages import LinkChanged, RunsFetched
from tic_tui.model import Demand
from tic_tui.screens.faults import FaultsScreen
from tic_tui.screens.help import HelpScreen
from tic_tui.screens.inspect import InspectScreen
from tic_tui.screens.mark import MarkScreen, RetractScreen, Said
from tic_tui.screens.mismatches import MismatchesScreen
from tic_tui.screens.run import RunScreen
from tic_tui.screens.runs import RunsScreen
from tic_tui.widgets.lists import FaultList
from tic_tui.widgets.safe_input import SafeInput


async def test_enter_goes_deeper_and_backspace_returns() -> None:
    async with stage() as s:
        assert isinstance(s.app.screen, RunsScreen)
        await s.press("enter")
        await s.shows("LOCKED attempt 1", "rollout", "FOLLOW", "newest evidence: step 12")
        await s.press("enter")
        assert isinstance(s.app.screen, InspectScreen)
        await s.shows("/logs/grpo-tiny-a/worker-0.log:557", "33360, 240 bytes", "value=0.0968")
        await s.shows("after the CUDA fault")
        await s.press("backspace")
        await s.press("tab")
        assert isinstance(s.app.screen.focused, FaultList)
        await s.press("down", "enter")
        await s.shows("does not lock", "nccl_watchdog_timeout", "90210, 91 bytes")
        await s.press("escape", "backspace")
        assert isinstance(s.app.screen, RunsScreen)


async def test_numbers_switch_screens_and_the_selected_run_stays() -> None:
    async with stage(demo=False) as s:
        await s.press("2")
        await s.shows("no run selected")
    async with stage() as s:
        await s.press("down", "enter")
        await s.shows("ppo-qwen3-8b-dapo-longer-name #1", "not locked")
        await s.press("1")
        assert isinstance(s.app.screen, RunsScreen)
        await s.press("2")
        await s.shows("ppo-qwen3-8b-dapo-longer-name #1")


@pytest.mark.parametrize(
    ("key", "shown"), [("2", "ppo-qwen3-8b-dapo-longer-name #1"), ("5", "no fault acts on attempt 1")]
)
async def test_from_the_list_a_number_is_about_the_run_under_the_cursor(key: str, shown: str) -> None:
    async with stage() as s:
        await s.open_run("grpo-tiny-a")
        await s.press("1", "down", key)
        await s.shows(shown)
        assert s.app.selected_run == "ppo-qwen3-8b-dapo-longer-name"


async def test_only_what_is_shown_is_asked_for() -> None:
    async with stage() as s:
        assert not any("exec_state_now" in sql for sql in s.store.asked)
        await s.open_run()
        assert any("exec_state_now" in sql for sql in s.store.asked)
        s.store.asked.clear()
        s.store.grow()
        await s.until(lambda: any("exec_state_now" in sql for sql in s.store.asked))
        assert not any(sql.endswith("FROM run_states") for sql in s.store.asked), "the list behind is not asked for"
        await s.press("1")
        await s.until(lambda: s.app.feed._demand == Demand("runs"))
        s.store.asked.clear()
        s.store.grow()
        await s.until(lambda: any(sql.endswith("FROM run_states") for sql in s.store.asked))
        assert not any("exec_state_now" in sql for sql in s.store.asked)


async def test_an_unchanged_store_is_asked_nothing_and_nothing_is_repainted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RECHECK_S", ())
    async with stage() as s:
        await s.open_run()
        await s.pilot.pause(0.5)
        s.store.asked.clear()
        refreshed: list[object] = []
        monkeypatch.setattr(Widget, "refresh", lambda self, *_, **__: refreshed.append(self))
        await s.pilot.pause(0.7)
        s.app._tick()
        assert s.store.asked == []
        assert refreshed == []
        monkeypatch.undo()


async def test_follow_pause_and_return() -> None:
    async with stage() as s:
        table = await s.open_run()
        assert table.follows and table.selected is not None and table.selected.rec_id == 139
        s.store.mismatch(200, "grpo-tiny-a", step=20)
        await s.until(lambda: table.selected is not None and table.selected.rec_id == 200)
        await s.press("up", "up")
        await s.shows("PAUSED")
        held = table.selected
        row = table.cursor - table.scroll_offset.y
        for n in range(3):
            s.store.mismatch(201 + n, "grpo-tiny-a", step=21 + n)
        await s.shows("PAUSED", "+3 new")
        assert held is not None and table.selected is not None and table.selected.rec_id == held.rec_id == 138
        assert table.cursor - table.scroll_offset.y == row
        await s.press("f")
        await s.shows("FOLLOW")
        assert table.selected.rec_id == 203


async def test_a_paused_reader_stays_although_thousands_arrive_and_old_rows_leave_the_window() -> None:
    store = FakeStore()
    async with stage(store=store) as s:
        table = await s.open_run()
        await s.press("up", "up", "up")
        await s.shows("PAUSED")
        held, row = table.selected, table.cursor - table.scroll_offset.y
        store.write(
            "INSERT INTO mismatches SELECT * REPLACE (range + 10000 AS rec_id) FROM range(2000), "
            "(SELECT * FROM mismatches WHERE rec_id = 139)".replace(
                "* REPLACE (range + 10000 AS rec_id)", "m.* REPLACE (range + 10000 AS rec_id)"
            ).replace("rec_id = 139)", "rec_id = 139) m")
        )
        store.write("UPDATE runs SET mismatches = mismatches + 2000 WHERE run_id = 'grpo-tiny-a'")
        store.grow()
        await s.shows("PAUSED", "+2000 new")
        assert held is not None and table.selected is not None
        assert (table.selected.rec_id, table.cursor - table.scroll_offset.y) == (held.rec_id, row)
        await s.press("G")
        await s.until(lambda: table.follows and table.selected is not None and table.selected.rec_id == 11999)
        await s.press("g")
        await s.until(lambda: table.selected is not None and table.selected.rec_id == 100)
        assert table.cursor == 0 and len(table.rows) < 700
        for _ in range(30):
            await s.press("pagedown")
            await s.pilot.pause(0.02)
        assert table.selected.rec_id > 10000 and len(table.rows) < 700


@pytest.mark.slow
async def test_the_window_moves_back_past_its_edge_row_by_row() -> None:
    store = FakeStore()
    store.run("long")
    store.mismatch(0, "long")
    store.write("INSERT INTO mismatches SELECT m.* REPLACE (range AS rec_id) FROM range(1, 3000), mismatches m")
    store.write("UPDATE runs SET mismatches = 3000")
    store.grow()
    async with stage(store=store, demo=False) as s:
        table = await s.open_run("long")
        seen = [table.selected.rec_id if table.selected else -1]
        while seen[-1] > 2250:
            await s.press("pageup")
            assert table.selected is not None
            seen.append(table.selected.rec_id)
            await s.pilot.pause(0.01)
        steps = [a - b for a, b in pairwise(seen)]
        # A page is a page, also over the edge of the window.
        assert seen[0] == 2999 and set(steps) == {table.size.height - 1}


async def test_freeze_holds_the_picture_and_catches_up() -> None:
    async with stage() as s:
        table = await s.open_run()
        await s.press("space")
        await s.shows("FROZEN since")
        s.store.mismatch(200, "grpo-tiny-a", step=33)
        await s.until(lambda: s.app.readings.waits)
        assert table.selected is not None and table.selected.rec_id == 139
        await s.press("space")
        await s.until(lambda: table.selected is not None and table.selected.rec_id == 200)
        assert "FROZEN" not in s.text


async def test_a_mark_needs_a_reason_and_is_acknowledged_when_the_store_shows_it() -> None:
    async with stage() as s:
        await s.open_run()
        await s.press("i")
        assert isinstance(s.app.screen, MarkScreen)
        await s.press("enter")
        await s.shows("a reason is required")
        assert s.said == []
        await s.press("tab", "tab", *"bad i", "enter")
        await s.until(lambda: s.said)
        assert s.said == [Said("grpo-tiny-a", 1, "record", "7:0:33360", "inconclusive", "bad i")]
        await s.shows("inconclusive recorded")


async def test_scopes_of_a_mark_from_the_run_list() -> None:
    async with stage() as s:
        for tabs, scope, attempt in ((0, "run", None), (1, "attempt", 1)):
            await s.press("m", *["tab"] * tabs, *"hm", "enter")
            await s.until(lambda: isinstance(s.app.screen, RunsScreen))
            await s.until(lambda n=tabs: len(s.said) == n + 1)
            assert s.said[-1] == Said("grpo-tiny-a", attempt, scope, "", "note", "hm")
            await s.shows("note recorded")
            s.app.tell("")


async def test_a_mark_is_acknowledged_on_every_view() -> None:
    """None of these but screen 2 reads the marks of a run for itself."""
    async with stage() as s:
        await s.open_run()
        for key, kind in (("1", RunsScreen), ("2", RunScreen), ("3", MismatchesScreen), ("5", FaultsScreen)):
            await s.press(key)
            await s.until(lambda kind=kind: isinstance(s.app.screen, kind) and s.app.screen.target_run() is not None)
            await s.press("i")
            await s.until(lambda: isinstance(s.app.screen, MarkScreen))
            await s.press(*"why", "enter")
            await s.shows("inconclusive recorded")
            s.app.tell("")
            await s.until(lambda: not s.app.saying._unseen)


async def test_a_mark_that_no_reading_shows_is_not_yet_recorded() -> None:
    async with stage(acknowledge=False) as s:
        await s.open_run()
        await s.press("i", *"why", "enter")
        await s.shows("not yet recorded")


async def test_a_failed_write_is_said_and_hostile_input_is_defused() -> None:
    async with stage() as s:
        await s.open_run()

        def broken(what: Said) -> str:
            s.said.append(what)
            raise OSError(28, "No space left on device")

        s.app.saying.say = broken
        await s.press("i")
        s.app.screen.query_one(SafeInput).value = "a\x1b]0;x\x07\u202eb"  # as a paste would
        await s.press("enter")
        await s.shows("NOT written", "No space left")
        assert s.said[0].reason == "a^[]0;x^G<U+202E>b"


async def test_retracting_is_a_new_row_about_the_mark() -> None:
    async with stage() as s:
        await s.open_run()
        await s.shows("wrong tokenizer")
        await s.press("R")
        assert isinstance(s.app.screen, RetractScreen)
        await s.press("enter")
        await s.shows("a reason is required")
        await s.press(*"ok", "enter")
        await s.until(lambda: s.said)
        assert s.said == [Said("grpo-tiny-a", None, "run", "mark-1", "retract", "ok")]
        s.store.grow()
        await s.until(lambda: "wrong tokenizer" not in s.text)


async def test_read_only_writes_nothing_and_says_why() -> None:
    async with stage(read_only=True) as s:
        await s.open_run()
        for key in ("i", "m", "R"):
            await s.press(key)
            assert isinstance(s.app.screen, RunScreen)
            await s.shows("read-only")


async def test_help_searches_and_runs() -> None:
    async with stage() as s:
        await s.open_run()
        await s.press("question_mark")
        assert isinstance(s.app.screen, HelpScreen)
        await s.press(*"freeze")
        await s.shows("freeze")
        await s.press("enter")
        await s.until(lambda: s.app.frozen_at is not None)
        await s.press("f1", *"zzzz", "enter")
        await s.until(lambda: isinstance(s.app.screen, RunScreen))


async def test_copy_keeps_a_file_and_says_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    async with stage() as s:
        await s.open_run()
        await s.press("y")
        kept = tmp_path / "tic-tui" / "copied.txt"
        assert kept.read_text().startswith("/logs/grpo-tiny-a/worker-0.log:557\n[mismatch] run=grpo-tiny-a step=19")
        assert kept.stat().st_mode & 0o777 == 0o600
        await s.shows(f"{len(kept.read_text())} characters")


async def test_a_notice_leaves_and_the_keys_come_back() -> None:
    async with stage(notice_s=0.2) as s:
        s.app.tell("for a moment")
        await s.shows("? help")
        assert "for a moment" not in s.text


async def test_lost_connection_is_said_what_was_read_stays_and_it_comes_back() -> None:
    async with stage() as s:
        await s.open_run()
        s.store.up = False
        await s.shows("disconnected", "retry in 1 s", "LOCKED attempt 1")
        s.store.up = True
        s.store.mismatch(200, "grpo-tiny-a", step=77)
        await s.shows("connected since", "77")


async def test_a_failing_query_leaves_the_screen_and_is_said() -> None:
    async with stage() as s:
        await s.open_run()
        s.store.write("ALTER TABLE steps RENAME TO stepz")
        s.store.grow()
        await s.shows("the store cannot answer", "LOCKED attempt 1")
        s.store.write("ALTER TABLE stepz RENAME TO steps")
        s.store.mismatch(200, "grpo-tiny-a", step=77)
        await s.shows("77")


async def test_next_metric_is_plotted() -> None:
    store = FakeStore()
    store.run("two")
    for n in range(6):
        store.mismatch(n, "two", step=n, metric=("logprob_mae", "probability_mae")[n % 2])
    async with stage((120, 40), store=store, demo=False) as s:
        await s.open_run("two")
        await s.shows("probability_mae (2 of 2) over steps")
        await s.press("p")
        await s.shows("logprob_mae (1 of 2) over steps")


async def test_another_run_is_read_from_the_screen_of_a_run_itself() -> None:
    """As the palette leads to it: no screen is resumed that would ask for the new run."""
    async with stage() as s:
        await s.open_run()
        await s.app.show_run("sft-warmup")
        await s.until(lambda: s.app.run_view is not None and s.app.run_view.run.run_id == "sft-warmup")
        await s.shows("sft-warmup")
        await s.open_run("grpo-tiny-a")


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_quit(key: str) -> None:
    async with stage() as s:
        await s.press(key)
        assert not s.app.is_running or s.app._exit
        assert s.app.return_value is None


async def test_quit_and_keep_the_last_frame() -> None:
    async with stage() as s:
        await s.open_run()
        await s.press("Q")
        assert s.app.return_value is not None and "LOCKED attempt 1" in s.app.return_value


async def test_an_answer_that_comes_when_the_screens_are_gone_is_let_go() -> None:
    """At the end the screens are taken away before the last messages are."""
    async with stage(demo=True) as s:
        view, app = s.app.runs_view, s.app
    assert not app.screen_stack
    app.on_runs_fetched(RunsFetched(view))  # type: ignore[arg-type]
    app.on_link_changed(LinkChanged(app.link))
    app._tick()


async def test_an_answer_while_a_screen_loses_its_widgets_draws_nothing() -> None:
    async with stage() as s:
        view = s.app.runs_view
        assert view is not None
        await s.app.screen.query_one("#status").remove()
        s.app.on_runs_fetched(RunsFetched(view))
