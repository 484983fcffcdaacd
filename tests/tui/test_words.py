"""What the screen says of connections, rates and late values; where a table stays; a theme that is saved again."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.tui.fake import FakeStore
from tests.tui.stage import stage
from tic_daemon.errors import ConfigError
from tic_tui import theming
from tic_tui.bindings import Keymap
from tic_tui.glyphs import ASCII, UNICODE
from tic_tui.messages import Link
from tic_tui.model import Demand, Facts, FaultsView, FaultWindow, Mismatch, Run, Search
from tic_tui.queries import rows_of
from tic_tui.reading import Ask, RunReading, RunsReading
from tic_tui.render import banner, chrome, detail, faults, liveness
from tic_tui.render.text import plain
from tic_tui.safe import safe
from tic_tui.screens.palette import choices, search

NOW = datetime.now(UTC)
SSH = safe("ssh -L 8123:node17:8123 node17")
SNAPSHOT = Link("connected", "snapshot", NOW, 0, safe("daemon on node17 cannot be reached"), SSH, safe("/ws/.tic/node17-ab"),
                (NOW - timedelta(seconds=12)).replace(tzinfo=None))  # fmt: skip


def trouble(link: Link, width: int = 120) -> str:
    line = chrome.trouble_line(link, NOW, "Y", width, UNICODE)
    return "" if line is None else plain(line).strip()


def test_a_snapshot_says_its_age_why_and_what_helps() -> None:
    assert chrome.link_text(SNAPSHOT, NOW) == ("snapshot 10 s old", "stale")
    assert trouble(SNAPSHOT) == f"! snapshot 10 s old: daemon on node17 cannot be reached; {SSH} (Y copies it)"
    assert str(SSH) in trouble(SNAPSHOT, 60), "what helps goes before what is wrong"
    assert chrome.hint_of(SNAPSHOT) == SSH


@pytest.mark.parametrize(
    ("age_s", "words"), [(2, "snapshot just made"), (12, "snapshot 10 s old"), (None, "snapshot of unknown age")]
)
def test_the_age_of_a_snapshot_is_a_phrase(age_s: int | None, words: str) -> None:
    at = None if age_s is None else (NOW - timedelta(seconds=age_s)).replace(tzinfo=None)
    assert chrome.link_text(replace(SNAPSHOT, data_at=at), NOW)[0] == words


def test_a_file_that_nobody_writes_says_so_at_every_width() -> None:
    link = Link("connected", "file", NOW)
    for width in (40, 80, 120):
        assert "no daemon" in plain(chrome.status_line(("tic", "1 run"), link, NOW, width, UNICODE))


def test_of_several_stores_the_worst_is_named() -> None:
    live = Link("connected", "live", NOW, target=safe("node1"))
    gone = Link("disconnected", "live", NOW, 4, safe("refused"), target=safe("node3"))
    both = Link("connected", "several", NOW, stores=(live, SNAPSHOT))
    assert chrome.link_text(both, NOW) == ("2 stores, 1 behind", "stale")
    assert "node17-ab: snapshot 10 s old" in trouble(both) and chrome.hint_of(both) == SSH
    assert "node3: disconnected: refused" in trouble(replace(both, stores=(live, SNAPSHOT, gone)))
    well = Link("connected", "several", NOW, stores=(live, live))
    assert chrome.link_text(well, NOW) == ("2 stores", "ok") and trouble(well) == ""
    assert trouble(live) == "" and trouble(Link()) == ""


@pytest.mark.parametrize(
    ("per_s", "words"),
    [(None, "unknown"), (0.0, "unknown"), (2.5, "2.5/s"), (1 / 12, "12 s/step"), (1 / 600, "10 min/step"),
     (1 / 14400, "4 h/step")],
)  # fmt: skip
def test_rates(per_s: float | None, words: str) -> None:
    assert liveness.per_step(per_s) == words


def _run(state: str = "moving") -> Run:
    store = FakeStore()
    store.run("r", state=state)
    return RunsReading().view(store.open(""), Ask(Demand(), "", None, math.inf)).runs[0]


def test_a_value_older_than_its_usual_interval_says_so_in_words() -> None:
    facts = Facts(steps_per_s=1 / 12, ranks_watched=3, ranks_expected=4, verdict=safe("moving"))
    old = NOW - timedelta(minutes=5)
    assert liveness.late(old, _run(), facts, NOW) == "5 min old, usually one in 12 s"
    assert liveness.late(NOW - timedelta(seconds=31), _run(), facts, NOW) == "", "two intervals are nothing unusual"
    assert liveness.late(old, _run("ended"), facts, NOW) == "", "what has ended is not late"
    assert liveness.late(old, _run(), Facts(), NOW) == "" and liveness.late(None, _run(), facts, NOW) == ""
    line = plain(liveness.line(_run(), facts, old, NOW, 140, UNICODE))
    assert "12 s/step" in line and "newest number 5 min old" in line and "3 of 4 ranks watched" in line


def test_how_a_run_goes_on_is_said_with_its_reason_and_never_as_hung() -> None:
    at = NOW.replace(tzinfo=None)
    facts = Facts(
        verdict=safe("quiet"), moved_last=safe("step"), moved_at=at - timedelta(minutes=4),
        why=safe("nothing has moved for 4 min, the step last; a step usually takes 12 s"),
        checkpoint_at=at - timedelta(minutes=11),
    )  # fmt: skip
    about = plain(liveness.about(_run("quiet"), facts, NOW, 120, UNICODE))
    assert about.strip() == f"{UNICODE.quiet} quiet: {facts.why}  last checkpoint 10 min ago"
    narrow = plain(liveness.about(_run("quiet"), facts, NOW, 82, UNICODE))
    assert str(facts.why) in narrow and "checkpoint" not in narrow, "why it is said goes before the checkpoint"
    least = plain(liveness.about(_run("quiet"), facts, NOW, 70, UNICODE))
    assert least.strip() == f"{UNICODE.quiet} quiet: nothing has moved for 4 min, the step last", "whole clauses go"
    wide = plain(liveness.line(_run("quiet"), facts, None, NOW, 160, UNICODE))
    assert str(facts.why) in wide and "checkpoint 10 min ago" in wide
    small = plain(liveness.line(_run("quiet"), facts, None, NOW, 80, UNICODE))
    assert "step moved last, 2 min" in small, "the reason is longer than the line"


def test_of_several_stores_the_one_that_moves_says_why() -> None:
    store = FakeStore()
    store.run("r")
    rows = [
        ("silent everywhere", "nothing has moved for 3 h", None),
        ("moving", "the step moved 2 s ago", NOW.replace(tzinfo=None)),
    ]
    for verdict, why, saved in rows:
        store.write("INSERT INTO liveness VALUES ('r', ?, NULL, NULL, ?, 'step', ?, ?)", [verdict, saved, saved, why])
    facts = RunsReading().view(store.open(""), Ask(Demand(), "", None, math.inf)).facts["r"]
    assert (facts.verdict, facts.why) == ("moving", "the step moved 2 s ago")
    assert facts.checkpoint_at == facts.moved_at == NOW.replace(tzinfo=None)


def test_four_states_are_four_words_and_glyphs() -> None:
    for glyphs in (UNICODE, ASCII):
        states = ("moving", "silent", "ended", "unreadable")
        assert len({glyphs.state(s) for s in states}) == 4


async def test_the_record_under_the_cursor_stays_when_it_is_completed_and_when_older_ones_go() -> None:
    store = FakeStore()
    store.run("r")
    for n in range(30):
        store.mismatch(n, "r", step=n)
    store.write("UPDATE mismatches SET provisional = true WHERE rec_id = 20")
    async with stage(store=store, demo=False) as s:
        table = await s.open_run("r")
        await s.until(lambda: table.row_count == 30)
        table.move_to(20)
        await s.shows("PAUSED")
        # Its final row takes its place: another number, later than all others, the same bytes.
        store.write(
            "INSERT INTO mismatches SELECT * REPLACE (500 AS rec_id, false AS provisional,"
            " observed_at + INTERVAL 1 SECOND AS observed_at) FROM mismatches WHERE rec_id = 20"
        )
        store.write("DELETE FROM mismatches WHERE rec_id = 20 OR rec_id < 5")
        store.write("UPDATE runs SET mismatches = 25")
        store.grow()
        await s.until(lambda: table.selected is not None and table.selected.rec_id == 500)
        assert table.selected is not None and table.selected.step == 20 and not table.follows


def test_an_older_attempt_without_a_fault_does_not_look_like_a_run_that_is_well() -> None:
    run = replace(_run(), attempt=2, locked=True)
    told = FaultsView(Demand(), run, 1, (1, 2), None, (), FaultWindow(), 0, (), {}, (), NOW)
    assert plain(faults.card(told, "", NOW, 80, UNICODE, tall=True)[0]).endswith("attempt 1 of 2; attempt 2 is locked")
    newest = plain(faults.card(replace(told, attempt=2), "", NOW, 80, UNICODE, tall=True)[0])
    well = plain(faults.card(replace(told, run=replace(run, locked=False)), "", NOW, 80, UNICODE, tall=True)[0])
    assert "is locked" not in newest + well


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (Search(), ""),
        (Search(False), "counting ..."),
        (Search(False, None, datetime(2026, 3, 1, 4, 5, 6)), "counting ... back to 03-01 04:05:06Z"),
        (Search(False, 17, datetime(2026, 3, 1)), "counting ... back to step 17"),
    ],
)
def test_counts_that_are_not_complete_say_how_far_back_they_go(search: Search, words: str) -> None:
    assert chrome.counting(search) == words


async def test_every_screen_says_that_its_counts_are_not_complete() -> None:
    part = Search(False, None, datetime(2026, 3, 1, 4, 5, 6))
    said = "counting ... back to 03-01 04:05:06Z"
    async with stage() as s:
        s.app.toggle_freeze()  # so that no reading takes the place of these
        view = s.app.runs_view
        s.app.readings.runs = replace(view, counted=part)
        s.app._draw()
        await s.shows(f"3 runs › {said}")
        s.app.toggle_freeze()
        await s.open_run()
        s.app.toggle_freeze()
        run = s.app.run_view
        s.app.readings.run = replace(run, counted=part, newest_evidence=None)
        s.app._draw()
        await s.shows(f"mismatches 40, {said}", "no number that is evidence is found yet", "LOCKED attempt 1")
        assert "no number of this run is evidence" not in s.text
        s.app.toggle_freeze()
        await s.press("3")
        await s.shows("mismatches 40")
        s.app.toggle_freeze()
        s.app.readings.mismatches = replace(s.app.mismatches_view, search=part)
        s.app._draw()
        await s.shows(f"mismatches 40, {said}")


async def test_old_records_that_a_search_finds_are_not_called_new() -> None:
    async with stage() as s:
        await s.open_run()
        await s.press("3")
        await s.shows("mismatches 40")
        await s.press("up", "up")
        await s.shows("PAUSED")
        s.app.toggle_freeze()  # so that no reading takes the place of these
        grown = replace(s.app.mismatches_view, matching=47)
        for search, said in ((Search(), True), (Search(False, 3), False)):
            s.app.readings.mismatches = replace(grown, search=search)
            s.app._draw()
            await s.shows("counting ..." if not said else "+7 new")
            assert ("+7 new" in s.text) is said


def test_no_evidence_is_said_to_come_of_a_mark_of_the_run() -> None:
    store = FakeStore()
    store.demo()
    ask = Ask(Demand("run", "grpo-tiny-a", columns=10), "", None, math.inf)
    view = RunReading("grpo-tiny-a").view(store.open(""), ask)
    none = replace(view, newest_evidence=None)
    said = plain(banner.banner(none, NOW, 80, UNICODE)[-1]).strip()
    assert said == "no number of this run is evidence; the run is marked inconclusive"
    retracted = replace(none, marks=tuple(replace(m, retracted=True) for m in none.marks))
    assert plain(banner.banner(retracted, NOW, 80, UNICODE)[-1]).strip() == "no number of this run is evidence"


def test_a_small_screen_says_all_that_is_locked_not_the_lesser_part() -> None:
    store = FakeStore()
    store.demo()
    ask = Ask(Demand("run", "grpo-tiny-a", columns=10), "", None, math.inf)
    view = RunReading("grpo-tiny-a").view(store.open(""), ask)
    # Of the 40 records 29 to 39 are locked and 25 to 28 suspect.
    assert plain(banner.banner(view, NOW, 40, UNICODE)[0]) == "✖ LOCKED attempt 1: 11 locked, 4 suspect"


def test_a_long_place_keeps_its_end_in_a_narrow_pane() -> None:
    store = FakeStore()
    store.mismatch(1, "r")
    store.write("UPDATE mismatches SET path = ?", ["/data/" + "deep/" * 20 + "stderr.log"])
    record = rows_of(store.open(""), Mismatch, "mismatches", ())[0]
    shown = [plain(line) for line in detail.detail(record, None, 6, 48, UNICODE)]
    assert any(line.startswith("place") and line.endswith("/stderr.log:5") and len(line) == 48 for line in shown)


def test_the_palette_finds_by_letters_in_order() -> None:
    store = FakeStore()
    store.demo()
    runs = RunsReading().view(store.open(""), Ask(Demand(), "", None, math.inf))
    found = choices(Keymap(), "runs", runs, None, ["tic-dark", "tic-light"])
    assert search(found, "grpo")[0].id == "grpo-tiny-a"
    assert search(found, "light")[0].id == "tic-light" and search(found, "5faults") == []
    assert search(found, "faults")[0].id == "show_faults" and search(found, "incon")[0].id == "inconclusive"
    assert search(found, "") == found


async def test_a_theme_is_worn_from_the_palette_and_no_color_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as s:
        await s.press("colon", *"theme light", "enter")
        await s.until(lambda: s.app.look.name == "tic-light")
        assert s.app.theme == "tic-light"
        s.app._no_color = True
        s.app.wear(s.app.wardrobe.looks["tic-dark"])
        await s.shows("NO_COLOR is set")
        assert s.app.look.name == "tic-light"


def test_a_users_theme_is_read_again_when_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theming.Wardrobe, "EVERY_S", 0.02)
    text = (theming.directory() / "dark.toml").read_text().replace('name = "tic-dark"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text(text)
    told: list[object] = []
    wardrobe = theming.Wardrobe(theming.load_all(tmp_path), tmp_path, told.append)
    wardrobe.watch()

    def until(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(told) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(told) >= count

    try:
        (tmp_path / "mine.toml").write_text(text.replace('ok = "#9ece6a"', 'ok = "bold blue"'))
        until(1)
        assert str(wardrobe.looks["mine"].tones["ok"]) == "bold blue"
        (tmp_path / "mine.toml").write_text("[")
        until(2)
        assert isinstance(told[-1], ConfigError) and "mine.toml" in str(told[-1])
        assert str(wardrobe.looks["mine"].tones["ok"]) == "bold blue", "the last good one stays"
    finally:
        wardrobe.stop()


def test_what_the_filter_stack_says_at_any_width() -> None:
    from tic_tui.filters import Filter
    from tic_tui.render import filters

    stack = [Filter("metric", "is", "logprob_mae"), Filter("step", ">=", "15", on=False)]
    assert plain(filters.stack_line([], "/", 40, UNICODE)).strip() == "filters  none: / adds one"
    assert (
        plain(filters.stack_line(stack, "/", 80, UNICODE)).strip().endswith("metric is logprob_mae  (off: step >= 15)")
    )
    assert plain(filters.stack_line(stack, "/", 44, UNICODE)).strip() == "filters  metric is logprob_mae  and 1 more"
    assert plain(filters.stack_line(stack, "/", 30, UNICODE)).strip() == "filters  2 filters, 1 off"
