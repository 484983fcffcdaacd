"""Render functions as text: no event loop, no widget. Widths 40, 80, 120; both glyph sets."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.tui.fake import FakeStore
from tests.tui.stage import stage
from tic_tui.age import age
from tic_tui.execution import PhaseChange
from tic_tui.glyphs import ASCII, UNICODE, Glyphs, choose
from tic_tui.messages import Link
from tic_tui.model import Bucket, Demand, RunsView, RunView, Series
from tic_tui.reading import Ask, RunReading, RunsReading
from tic_tui.render import banner, chrome, detail, execstate, lifecycle, plot, records, runs
from tic_tui.render.text import TONES, Line, plain, width_of
from tic_tui.safe import safe

NOW = datetime.now(UTC)
WIDTHS = (40, 80, 120)
SETS = (UNICODE, ASCII)


@pytest.fixture(scope="module")
def shown() -> tuple[RunsView, RunView]:
    store = FakeStore()
    store.demo()
    reader = store.open("")
    demand = Demand("run", "grpo-tiny-a", columns=100)
    seen = RunReading("grpo-tiny-a").view(reader, Ask(demand, "", None, math.inf))
    assert seen is not None
    return RunsReading().view(reader, Ask(Demand(), "", None, math.inf)), seen


def all_lines(listed: RunsView, view: RunView, width: int, glyphs: Glyphs) -> list[Line]:
    state = runs.state_width(listed.runs)
    lines = [runs.header(width, state, glyphs)]
    for run in listed.runs:
        newest = listed.newest.get((run.run_id, run.attempt))
        lines += [runs.row(run, newest, NOW, width, glyphs, state=state, selected=s) for s in (True, False)]
    for tall in (True, False):
        lines += banner.banner(view, NOW, width, glyphs, tall=tall)
    lines += execstate.strip(view, NOW, width, glyphs)
    series = replace(view.series, asked=plot.plot_columns(width, glyphs)) if view.series else None
    lines += plot.plot(series, 14, width, 8, glyphs)
    lines += [records.COLUMNS.header(width, glyphs)]
    lines += [records.mismatch_row(m, width, glyphs, selected=False) for m in view.window.rows]
    lines += [records.fault_row(f, NOW, width, glyphs, selected=True) for f in view.faults]
    lines += [records.mark_row(m, NOW, width, glyphs, selected=False) for m in view.marks]
    lines += detail.detail(view.window.rows[0], None, 6, width, glyphs)
    lines += detail.detail(view.faults[0], None, 6, width, glyphs)
    return lines


@pytest.mark.parametrize("glyphs", SETS, ids=lambda g: g.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_line_fits_and_every_tone_is_one_of_the_themes(
    shown: tuple[RunsView, RunView], width: int, glyphs: Glyphs
) -> None:
    for line in all_lines(*shown, width, glyphs):
        assert width_of(plain(line)) <= width, plain(line)
        assert {span.tone for span in line} <= set(TONES)
        if glyphs is ASCII:
            assert plain(line).isascii(), plain(line)


def test_all_glyphs_are_one_cell_wide() -> None:
    for glyphs in SETS:
        for name in Glyphs.__dataclass_fields__:
            value = getattr(glyphs, name)
            assert name in {"name", "braille"} or width_of(value) == 1, (glyphs.name, name)


def test_a_number_that_is_no_evidence_never_looks_like_one(shown: tuple[RunsView, RunView]) -> None:
    kinds = {(m.admissibility, m.is_evidence): m for m in shown[1].window.rows}
    assert len(kinds) == 3
    for (admissibility, evidence), record in kinds.items():
        for width in WIDTHS:
            text = plain(records.mismatch_row(record, width, UNICODE, selected=False))
            assert bool(re.search(r"\[[\d.]+\]", text)) is not evidence
            assert ("evidence" in text) is evidence
            assert admissibility == "admissible" or admissibility in text
            assert ("[" in runs.value_text(record)) is not evidence


def test_the_run_list_says_state_lock_step_newest_and_age(shown: tuple[RunsView, RunView]) -> None:
    listed = shown[0]
    lines = [
        plain(runs.row(r, listed.newest.get((r.run_id, r.attempt)), NOW, 134, UNICODE, state=8, selected=False))
        for r in listed.runs
    ]
    assert re.search(r"▶ moving ✖ locked +grpo-tiny-a +#1 +19 logprob_mae +\[0\.0968 80\.7x\] +↯ 2 +0 ⚑ yes", lines[0])
    assert re.search(r"◐ quiet +✓ ok .* 0\.0022 1\.83x +0 +0 - +unknown 1 min", lines[1])
    assert re.search(r"■ ended +· no data +sft-warmup .* unknown 3 d", lines[2])


def test_the_banner_names_the_line_that_locked_and_the_newest_evidence(shown: tuple[RunsView, RunView]) -> None:
    text = "\n".join(plain(line) for line in banner.banner(shown[1], NOW, 120, UNICODE))
    for words in (
        "LOCKED attempt 1: 9 records after the fault, 2 order unknown, 4 suspect",
        "cuda_illegal_memory_access, severity L, rank 3, pid 4524, step 14",
        "/logs/grpo-tiny-a/worker-3.log:812",
        "newest evidence: step 12  logprob_mae 0.0061  5.08x noise  /logs/grpo-tiny-a/worker-0.log:497",
    ):
        assert words in text


def test_no_lock_is_not_a_pass(shown: tuple[RunsView, RunView]) -> None:
    view = replace(shown[1], run=replace(shown[1].run, locked=False), newest_evidence=None)
    some = plain(banner.banner(view, NOW, 120, UNICODE)[0])
    assert "2 fault lines, none of them locks" in some
    calm = replace(view, faults_total=0, faults=())
    assert "no confirmed fault in 1 source watched" in plain(banner.banner(calm, NOW, 120, UNICODE)[0])
    blind = replace(calm, sources=replace(calm.sources, watched=0))
    lines = [plain(line) for line in banner.banner(blind, NOW, 120, UNICODE)]
    assert "nothing is watched" in lines[0] and "no number of this run is evidence" in lines[1]


def test_unknown_state_is_the_word_and_a_claim_is_marked(shown: tuple[RunsView, RunView]) -> None:
    rollout, trainer = (plain(line) for line in execstate.strip(shown[1], NOW, 140, UNICODE))
    assert re.search(
        r"rollout +graph FULL_AND_PIECEWISE, claimed FULL +step kind unknown +prefix cache on +weights awake, reloaded v12",
        rollout,
    )
    assert "graph claimed FULL, not observed" in trainer
    empty = replace(shown[1], exec_fields=(), phases=())
    assert "unknown" in plain(execstate.strip(empty, NOW, 80, UNICODE)[0])


def test_processes_that_differ_are_all_named(shown: tuple[RunsView, RunView]) -> None:
    field = next(f for f in shown[1].exec_fields if f.observed)
    other = [replace(field, pid=n, observed=safe("NONE")) for n in (1, 2)]
    assert (
        execstate.field_text([field, *other], field.field)[0] == f"2 differ: NONE 2 processes; {field.observed} rank 0"
    )


def test_a_claim_stands_beside_what_was_observed_only_where_it_differs(shown: tuple[RunsView, RunView]) -> None:
    field = next(f for f in shown[1].exec_fields if f.field == "graph_mode" and f.role == "rollout")
    same = replace(field, claimed=safe("FULL"), observed=safe("FULL"))
    other = replace(field, claimed=safe("FULL"), observed=safe("NONE"))
    never = replace(field, claimed=safe("FULL"), observed=safe("unknown"))  # the view's word for none
    nothing = replace(field, claimed=None, observed=safe("unknown"))
    said = [execstate.field_text([f], "graph_mode") for f in (same, other, never, nothing)]
    assert said == [
        ("FULL", True), ("NONE, claimed FULL", True), ("claimed FULL, not observed", False), ("unknown", False),
    ]  # fmt: skip
    ranks = [replace(same, rank=n) for n in (0, 1, 2)] + [replace(other, rank=3, claimed=None)]
    assert execstate.field_text(ranks, "graph_mode")[0] == "2 differ: FULL ranks 0-2; NONE rank 3"


def test_a_field_older_than_its_role_says_its_age(shown: tuple[RunsView, RunView]) -> None:
    old = NOW.replace(tzinfo=None) - timedelta(minutes=6)
    fields = tuple(replace(f, observed_at=old) if f.field == "graph_mode" else f for f in shown[1].exec_fields)
    rollout = plain(execstate.strip(replace(shown[1], exec_fields=fields), NOW, 140, UNICODE)[0])
    assert "graph FULL_AND_PIECEWISE, claimed FULL, 5 min old" in rollout and "prefix cache on " in rollout


def change(n: int, track: str, phase: str, *, rank: int | None = 0, legal: bool = True, **more: object) -> PhaseChange:
    at = NOW.replace(tzinfo=None) - timedelta(seconds=100 - n)
    made = PhaseChange(
        n, "r", 1, safe("rollout"), rank, safe("node1"), 4521, safe(track), safe(phase), None, None, legal,
        f"/logs/w{rank}.log", n, 0, n * 100, at, at,
    )  # fmt: skip
    return replace(made, **{k: safe(v) for k, v in more.items()})


def test_the_lifecycle_is_a_line_in_the_order_of_the_log() -> None:
    way = [
        change(1, "residency", "asleep", level="2"), change(2, "residency", "awake"),
        change(3, "version", "reloaded", version="12"), change(4, "cache", "reset"), change(5, "graph", "captured"),
    ]  # fmt: skip
    (line,) = lifecycle.lines(way, NOW, 120, UNICODE)
    said = "asleep L2 › awake › reloaded v12 › cache reset › graph captured"
    assert f"rollout  rank 0  {said}" in plain(line) and plain(line).rstrip().endswith("1 min")
    wrong = [replace(c, legal=c.track != "version") for c in way]
    (line,) = lifecycle.lines(wrong, NOW, 120, UNICODE)
    assert "? reloaded v12 (out of order)" in plain(line)
    (line,) = lifecycle.lines(way, NOW, 50, UNICODE)  # whole phases, the newest ones
    assert plain(line).split("  ")[2].split(" › ") in (["cache reset", "graph captured"], ["graph captured"])


def test_a_phase_that_comes_again_and_again_is_said_once() -> None:
    way = [change(n, "graph", "replayed", level="FULL") for n in range(3)] + [
        change(4, "cache", "reset_refused", level="12")
    ]
    (line,) = lifecycle.lines(way, NOW, 120, UNICODE)
    assert "graph replayed FULL x3 › cache reset refused 12 " in plain(line)


def test_processes_that_went_the_same_way_are_one_line() -> None:
    same = [change(n, "residency", phase, rank=r) for r in range(8) for n, phase in ((1, "asleep"), (2, "awake"))]
    lines = [
        plain(line) for line in lifecycle.lines([*same, change(9, "residency", "asleep", rank=8)], NOW, 80, UNICODE)
    ]
    assert len(lines) == 2
    assert "rank 8  asleep" in lines[0] and "ranks 0-7  asleep › awake" in lines[1]
    apart = [change(r, "residency", f"phase {r}", rank=r) for r in range(6)]
    assert plain(lifecycle.lines(apart, NOW, 80, UNICODE)[-1]) == " and 2 more processes went other ways"


# --- plot ---


def series(
    *buckets: tuple[int, str, float, float], steps: int = 10, floor: float | None = None, asked: int = 10
) -> Series:
    made = tuple(Bucket(c, safe(s), low, high, 1) for c, s, low, high in buckets)
    return Series(safe("m"), (safe("m"),), 0, steps - 1, asked, min(asked, steps), made, floor, 0)


def cells(lines: list[Line]) -> list[str]:
    return [plain(line).split(ASCII.vertical, 1)[1] for line in lines[1:-1]]


def test_a_spike_in_one_span_reaches_the_top_row() -> None:
    data = series(*[(n, "evidence", 1.0, 1.0) for n in range(9)], (9, "evidence", 1.0, 5.0))
    rows = cells(plot.plot(data, None, 21, 8, ASCII))
    assert rows[0].rstrip() == " " * 9 + "*" and rows[-1].rstrip() == "*" * 10
    assert all(row[9:10] == "*" for row in rows)


def test_signs_by_standing_and_the_worst_wins() -> None:
    data = series((0, "evidence", 1, 1), (1, "not evidence", 1, 1), (2, "suspect", 1, 1), (2, "not evidence", 1, 1),
                  (3, "locked", 1, 1), (3, "suspect", 1, 1), (3, "evidence", 1, 1))  # fmt: skip
    rows = cells(plot.plot(data, None, 21, 5, ASCII))
    assert "".join(rows).split() == ["*o?x"]


def test_floor_and_fault_lines() -> None:
    data = series((0, "evidence", 4.0, 4.0), (9, "evidence", 4.0, 4.0), floor=2.0)
    rows = cells(plot.plot(data, 5, 21, 6, ASCII))
    assert rows[-1].startswith("-----|") and rows[1][5] == "|"
    wide = replace(data, asked=plot.plot_columns(60, ASCII))
    assert "first fault, step 5" in plain(plot.plot(wide, 5, 60, 6, ASCII)[-1])


@pytest.mark.parametrize("values", [(0.0, 0.0), (1e308, -1e308), (5e-324, 1e308), (-3.0, -3.0)])
def test_extreme_values_stay_inside(values: tuple[float, float]) -> None:
    data = series((0, "evidence", min(values), max(values)), floor=0.0)
    assert any("*" in row for row in cells(plot.plot(data, 0, 21, 6, ASCII)))


def test_few_steps_are_drawn_wide_and_many_narrow() -> None:
    rows = cells(plot.plot(series((0, "evidence", 1, 1), (1, "locked", 1, 1), steps=2), None, 21, 5, ASCII))
    assert "".join(rows).strip() == "*****xxxxx"


def test_braille_sets_the_dots_of_the_value() -> None:
    data = series((0, "evidence", 1.0, 1.0), (3, "evidence", 2.0, 2.0), steps=4, asked=4)
    lines = plot.plot(data, None, 13, 3, UNICODE)
    assert plain(lines[1])[11:] == "⡀⠈"  # lowest left dot (0x40), highest right dot (0x08)


def test_words_instead_of_an_empty_plot() -> None:
    assert "yet" in plain(plot.plot(None, None, 60, 8, UNICODE)[0])
    assert "no finite value" in plain(plot.plot(series(), None, 60, 8, UNICODE)[0])


# --- chrome ---


def test_connection_words() -> None:
    at = NOW.replace(hour=12, minute=3, second=4)
    words = [
        chrome.link_text(link, NOW)[0]
        for link in (
            Link(),
            Link("connected", "live", at),
            Link("connected", "file", at),
            Link("disconnected", "", NOW, 4),
        )
    ]
    assert words == [
        "pending",
        "connected since 12:03:04Z",
        "no daemon, file read 12:03:04Z",
        "disconnected now (retry in 4 s)",
    ]


def test_the_badge_counts_what_came_while_paused() -> None:
    paused = plain(chrome.badge("112", False, 12, 80, UNICODE, focused=True, below=True, key="f"))
    assert "PAUSED" in paused and "+12 new  f follows" in paused and "112" in paused
    assert "FOLLOW" in plain(chrome.badge("112", True, 0, 80, UNICODE, focused=True, below=False, key="f"))


@pytest.mark.parametrize(
    ("seconds", "word"),
    [(-5, "now"), (0, "now"), (9, "now"), (10, "10 s"), (59, "30 s"), (60, "1 min"), (7300, "2 h"), (777601, "9 d")],
)
def test_ages_come_in_steps(seconds: int, word: str) -> None:
    assert age((NOW - timedelta(seconds=seconds)).replace(tzinfo=None), NOW) == word


def test_glyphs_follow_the_terminal() -> None:
    assert choose({"LANG": "en_US.UTF-8"}) is UNICODE and choose({}) is UNICODE
    assert choose({"LANG": "C"}) is ASCII and choose({"LC_ALL": "de_DE.ISO-8859-1"}) is ASCII
    assert choose({"TERM": "linux", "LANG": "en_US.UTF-8"}) is ASCII and choose({}, ascii_only=True) is ASCII


@pytest.mark.parametrize(("late", "said"), [(1, ": 1 record after the fault"), (2, ": 2 records after the fault")])
async def test_one_record_is_no_plural(late: int, said: str) -> None:
    store = FakeStore()
    store.run("r", locked=True)
    for n in range(late):
        store.mismatch(n + 1, "r", step=n, evidence=False, admissibility="locked", reason="after the fault")
    store.fault(9001, "r")
    async with stage((120, 40), demo=False, store=store) as s:
        await s.open_run("r")
        await s.shows(said)


def test_the_detail_says_where_the_state_of_a_number_is_from_and_why_it_is_unknown(
    shown: tuple[RunsView, RunView],
) -> None:
    record = replace(
        shown[1].window.rows[0], state_source=safe("by time"), state_note=safe("graph_mode: 2 rollout processes differ")
    )
    said = [plain(line) for line in detail.detail(record, None, 6, 100, UNICODE)]
    assert any(re.match(r"state_source +by time", line) for line in said)
    assert any(re.match(r"state_note +graph_mode: 2 rollout processes differ", line) for line in said)
