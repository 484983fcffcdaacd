"""Screen 4: what is read of a real run's log and of a fake store, how lanes are drawn, and how the cursor moves."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from textual.widget import Widget

from tests.lifecycle.test_real_run_lifecycle import BEGIN, LOG, RELOADED
from tests.tui.fake import NOW, FakeReader, FakeStore, Result
from tests.tui.stage import Stage, stage
from tic_daemon.cli import main
from tic_daemon.store.reader import Reader, open_reader
from tic_tui import feed, lane_queries, statenews
from tic_tui.execution import PhaseChange, StateChange
from tic_tui.glyphs import ASCII, UNICODE
from tic_tui.lanes import LATEST, Cell, Lane, LaneAsk, StateView, micros
from tic_tui.model import Demand
from tic_tui.reading import Ask
from tic_tui.render import lanes
from tic_tui.render.text import plain
from tic_tui.safe import safe
from tic_tui.screens.inspect import InspectScreen
from tic_tui.screens.state import StateScreen
from tic_tui.state_reading import StateReading
from tic_tui.status import report
from tic_tui.widgets.lifecycle import LifecycleList

RUN = "grpo-tiny-a"
LINES = LOG.read_bytes().decode("utf-8", "replace").split("\n")
"""The real run's log, by lines; the last one has no newline and counts."""


def view(reader: Reader, ask: LaneAsk, reading: StateReading | None = None, run: str = RUN) -> StateView:
    """One whole reading."""
    held = reading or StateReading(run)
    for _ in range(50):
        found = held.view(reader, Ask(Demand("state", run, lanes=ask), "s", None, time.monotonic() + 60))
        assert found is not None
        if held.complete:
            return found
    raise AssertionError("it is never complete")


def lane(found: StateView, name: str) -> Lane:
    return next(one for one in found.lanes if one.name == name)


# --- the real run ---


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    place = tmp_path_factory.mktemp("real")
    (place / "worker_raw.log").write_bytes(LOG.read_bytes())
    assert main(["watch", "--once", str(place)]) in (0, 12)
    reader = open_reader(place)
    yield reader
    reader.close()


def columns_of(numbers: list[int] | tuple[int, ...], low: int, high: int, wide: int) -> list[int]:
    """The columns that these lines of the log are in, each as often as lines are."""
    return sorted((line - low) * wide // (high - low + 1) for line in numbers if low <= line <= high)


@pytest.mark.parametrize(("low", "high", "wide"), [(1, len(LINES), 60), (1, len(LINES), 180), (100, 199, 64)])
def test_lanes_of_the_real_run_stand_where_its_lines_are(real: Reader, low: int, high: int, wide: int) -> None:
    """Without a zone no line has a time: the axis is the place, and everything of the log is on it."""
    size = high - low + 1
    found = view(real, LaneAsk(span=0 if size == len(LINES) else size, end=high, columns=wide, lane="residency"))
    assert (found.axis, found.first, found.last) == ("place", 1, len(LINES))
    assert (found.low, found.high) == (low, high)
    weights = [line for _, line in BEGIN] + list(RELOADED)
    for name, lines in (("residency", weights), ("cache", [line + 1 for line in RELOADED])):
        told = [c.column for c in lane(found, name).cells for _ in range(c.changes)]
        assert told == columns_of(lines, low, high, wide)
    before = [line for line in weights if line < low]
    carried = lane(found, "residency").before
    assert (carried is not None) == bool(before) and (carried is None or carried.observed == "reloaded")
    records = [n for n, line in enumerate(LINES, 1) if line.startswith("[mismatch]")]
    assert len(records) == 12
    assert [n.column for n in found.numbers for _ in range(sum(n.counts.values()))] == columns_of(
        records, low, high, wide
    )
    assert {n.worst for n in found.numbers} == {"evidence"}
    steps = [(n, int(line[5:].split(" ")[0])) for n, line in enumerate(LINES, 1) if line.startswith("step:")]
    begun = [(step, (n - low) * wide // size) for n, step in steps if low <= n <= high]
    assert [step for _, step in found.steps] == [step for step, _ in begun]
    assert [column for column, _ in found.steps] == [column for _, column in begun]
    assert not found.findings and not found.faults and (found.missing.numbers, found.missing.lines) == (0, 0)


def test_what_the_real_run_claims_and_what_it_shows(real: Reader) -> None:
    """`enforce_eager` is an argument in line 10; that no graph is used is said in lines 14 and 54, a change only once."""
    found = view(real, LaneAsk(columns=len(LINES), lane="graph_mode"))
    assert [(c.column + 1, c.changes, c.observed, c.claimed) for c in lane(found, "graph_mode").cells] == [
        (10, 1, None, "NONE"), (14, 1, "NONE", None),
    ]  # fmt: skip
    assert [(c.line_no, c.observed, c.claimed) for c in found.changes.rows if isinstance(c, StateChange)] == [
        (10, None, "NONE"), (14, "NONE", None),
    ]  # fmt: skip
    assert [(c.column + 1, c.claimed) for c in lane(found, "prefix_cache").cells] == [(21, "on")]
    rates = [(c.column + 1, c.observed) for c in lane(found, "prefix_hit_rate").cells]
    assert rates == [(61, "9.7"), (79, "0.0")], "it is 0.0 from then on: no change"
    for name in ("step_kind", "version", "graph"):
        assert not lane(found, name).told, "nothing told of it, and it has its lane"


def test_changes_are_read_in_windows_round_the_cursor(real: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queries, "AROUND", 3)
    want = [line for _, line in BEGIN] + list(RELOADED)
    newest = view(real, LaneAsk(lane="residency")).changes
    assert [c.line_no for c in newest.rows] == want[-6:] and (newest.older, newest.newer) == (True, False)
    middle = view(real, LaneAsk(lane="residency", around=(140, *LATEST[1:]))).changes
    assert [c.line_no for c in middle.rows] == [109, 124, 140, 155, 170, 185] and middle.older and middle.newer
    assert middle.at((141, 0, 0, 0)) == 2 and middle.at((1, 0, 0, 0)) == -1
    first = view(real, LaneAsk(lane="residency", around=(-1, 0, 0, 0))).changes
    assert [c.line_no for c in first.rows] == want[:3] and (first.older, first.newer) == (False, True)
    assert isinstance(first.rows[0], PhaseChange) and first.rows[0].byte_length == len(LINES[20].encode()) + 1


# --- axes, tellers, marks ---


def lived() -> FakeStore:
    store = FakeStore()
    store.demo()
    store.lived()
    return store


def test_a_line_without_a_time_is_counted_on_the_axis_of_time_and_stands_on_that_of_places() -> None:
    store = lived()
    store.state(None, 14, "graph_mode", None, "NONE")
    reader = store.open("")
    place = view(reader, LaneAsk(columns=33, lane="graph_mode"))
    assert place.axis == "place", "not every line has a time: none is left out unasked"
    assert [(c.column + 1, c.observed) for c in lane(place, "graph_mode").cells] == [
        (3, None),
        (12, "FULL"),
        (14, "NONE"),
    ]
    assert (place.missing.numbers, place.missing.faults, place.missing.lines) == (40, 2, 0), "they stand in other logs"
    timed = view(reader, LaneAsk(axis="time", columns=600, lane="graph_mode"))
    assert [c.observed for c in lane(timed, "graph_mode").cells] == [None, "FULL"]
    assert (timed.missing.numbers, timed.missing.faults, timed.missing.lines) == (0, 0, 1)
    # From 600 seconds before NOW to NOW: 600 columns of a second, and the last moment in the last of them.
    assert (timed.low, timed.high) == (micros(NOW - timedelta(seconds=600)), micros(NOW))
    assert [(spot.item.rec_id, timed.column(spot.x)) for spot in timed.faults] == [(9001, 479), (9002, 499)]
    (finding,) = timed.findings
    assert finding.end is None and timed.column(finding.x) == 254
    counts = {s: sum(n.counts.get(s, 0) for n in timed.numbers) for s in ("locked", "suspect", "evidence")}
    assert counts == {"locked": 11, "suspect": 4, "evidence": 25}
    assert {n.column for n in timed.numbers if n.worst == "locked"} == {599 - 14 * n if n else 599 for n in range(11)}


def test_a_finding_ends_where_its_log_says() -> None:
    store = lived()
    store.write(
        "UPDATE lifecycle_findings SET until_generation = 0, until_offset = 4000, until_at = from_at + INTERVAL 5 SECONDS"
    )
    reader = store.open("")
    place = view(reader, LaneAsk(axis="place"))
    assert [(s.x, s.end) for s in place.findings] == [(22, 24)], "byte 4000 of the log is its line 24"
    timed = view(reader, LaneAsk(axis="time"))
    assert [s.end - s.x for s in timed.findings if s.end is not None] == [5_000_000]


def test_a_log_that_was_rotated_is_one_axis() -> None:
    store = FakeStore()
    store.run("r")
    for generation, line in ((0, 3), (0, 90), (1, 5), (3, 7)):
        store.state(None, line, "graph_mode", None, f"M{generation}{line}", run="r")
        store.write(
            "UPDATE exec_states SET generation = ? WHERE rec_id = (SELECT max(rec_id) FROM exec_states)", [generation]
        )
    found = view(store.open(""), LaneAsk(columns=102, lane="graph_mode"), run="r")
    assert (found.first, found.last) == (1, 102) and found.teller is not None
    assert [c.column + 1 for c in lane(found, "graph_mode").cells] == [3, 90, 95, 102]
    assert [found.teller.line_at(x) for x in (3, 90, 95, 102)] == [(0, 3), (0, 90), (1, 5), (3, 7)]
    assert [found.order(c)[0] for c in found.changes.rows] == [3, 90, 95, 102]


def test_who_told_is_told_apart_by_log_and_voice() -> None:
    store = lived()
    store.state(10, 40, "graph_mode", None, "NONE", voice="pid:7", pid=7)
    found = view(store.open(""), LaneAsk())
    assert [(t.who.role, t.who.path, t.who.voice, t.pids) for t in found.tellers] == [
        ("rollout", "/logs/rollout.log", "", (4521,)), ("rollout", "/logs/rollout.log", "pid:7", (7,)),
        ("trainer", "/logs/trainer.log", "", (4600,)),
    ]  # fmt: skip
    other = view(store.open(""), LaneAsk(who=found.tellers[1].who))
    assert [c.observed for c in lane(other, "graph_mode").cells] == ["NONE"] and not lane(other, "step_kind").told


def test_a_million_batches_are_as_many_cells_as_columns() -> None:
    """A hundred thousand of them here: what comes back does not grow with them."""
    store = FakeStore()
    store.run("r")
    store.state(100, 1, "step_kind", None, "prefill", run="r")
    store.write(
        "INSERT INTO exec_states SELECT e.* REPLACE (range + 9000 AS rec_id, range + 2 AS line_no, 100 * (range + 2) AS"
        " byte_offset, CASE range % 3 WHEN 0 THEN 'decode' WHEN 1 THEN 'mixed' ELSE 'prefill' END AS observed)"
        " FROM range(100000), exec_states e"
    )
    found = view(
        store.open(""), LaneAsk(axis="place", columns=80, lane="step_kind", around=(50_000, *LATEST[1:])), run="r"
    )
    cells = lane(found, "step_kind").cells
    assert len(cells) == 80 and sum(c.changes for c in cells) == 100_001
    assert len(found.changes.rows) == 2 * lane_queries.AROUND and found.changes.older and found.changes.newer
    row = lanes.lane_row(found, lane(found, "step_kind"), 96, UNICODE, cursor=None, selected=False)
    assert plain(row).count("≡") == 80, "each column holds more than one change, and says so"


# --- drawing ---


def drawn(one: Lane, wide: int = 30, ascii_only: bool = False, cursor: int | None = None) -> str:
    """The columns of a lane as text."""
    base = view(_EMPTY.open(""), LaneAsk(columns=wide), run="r")
    glyphs = ASCII if ascii_only else UNICODE
    line = lanes.lane_row(replace(base, columns=wide), one, 80, glyphs, cursor=cursor, selected=False)
    return plain(line)[15:]


_EMPTY = FakeStore()
_EMPTY.run("r")


def cell(
    column: int, observed: str | None = None, claimed: str | None = None, changes: int = 1, legal: bool = True
) -> Cell:
    return Cell(column, changes, None if observed is None else safe(observed), claimed and safe(claimed), legal)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "text", "as_ascii"),
    [
        (Lane("x", None, ()), "·unknown······················", ".unknown......................"),
        (Lane("x", None, (cell(12, "FULL"),)), "·unknown····├FULL─────────────", ".unknown....[FULL============="),
        (Lane("x", cell(-1, "FULL"), ()), "FULL──────────────────────────", "FULL=========================="),
        (Lane("x", None, (cell(3, claimed="on"),)), "···├(on)┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄", "...[(on)----------------------"),
        # What was observed stands, whatever is claimed later; a claim of the same column does not make it two changes.
        (
            Lane("x", None, (cell(0, "FULL", "NONE", 2), cell(9, claimed="FULL"))),
            "├FULL────├FULL────────────────",
            "[FULL====[FULL================",
        ),
        (
            Lane("x", cell(-1, "a"), (cell(5, "b", changes=7), cell(6, "c"), cell(7, "verylongvalue"), cell(14, "d"))),
            "a────≡├├veryl…├d──────────────",
            "a====#[[veryl~[d==============",
        ),
        (
            Lane("x", None, (cell(2, "awake", legal=False),)),
            "··?awake──────────────────────",
            "..?awake======================",
        ),
        (Lane("x", None, (cell(0, "模式"),)), "├模式" + 25 * "─", None),
        (Lane("x", None, (cell(29, "FULL"),)), "·unknown·····················├", ".unknown.....................["),
    ],
)
def test_a_lane_as_text(one: Lane, text: str, as_ascii: str | None) -> None:
    assert drawn(one) == text
    if as_ascii is not None:
        assert drawn(one, ascii_only=True) == as_ascii
    assert drawn(one, cursor=20)[:20] == text[:20] or as_ascii is None


def test_the_cursor_is_a_sign_and_no_colour() -> None:
    assert drawn(Lane("x", cell(-1, "FULL"), ()), cursor=10) == "FULL──────◆───────────────────"


def test_findings_are_spans_and_say_how_many_hold() -> None:
    store = lived()
    store.write("UPDATE lifecycle_findings SET until_generation = 0, until_offset = 4000")
    store.write("INSERT INTO lifecycle_findings BY NAME SELECT * EXCLUDE (log_host) REPLACE ('f2' AS finding_id, 23 AS"
                " line_no, 3000 AS byte_offset, NULL AS until_offset, 'update_missing' AS kind) FROM lifecycle_findings")  # fmt: skip
    found = view(store.open(""), LaneAsk(axis="place", columns=33))
    line = plain(lanes.mark_row(found, "findings", 80, UNICODE, cursor=None, selected=False))
    # Line 22 shows one, line 23 the other; line 24 ends the first.
    assert line[15:] == " " * 21 + "?2" + "~" * 10


# --- keys and readings, as far as tests/tui/test_keys.py does not press them ---


async def opened(s: Stage) -> StateScreen:
    s.app.select_run(RUN)
    await s.press("4")
    await s.shows("FOLLOW", "holds to the end")
    screen = s.app.screen
    assert isinstance(screen, StateScreen)
    return screen


async def test_following_goes_on_and_a_reader_who_looks_back_stays() -> None:
    store = lived()
    async with stage((120, 40), demo=False, store=store) as s:
        screen = await opened(s)
        screen.lanes.go_to("step_kind")
        await s.until(lambda: getattr(screen.selected(), "line_no", 0) == 32)
        store.state(0, 60, "step_kind", None, "prefill")
        store.grow()
        await s.until(lambda: getattr(screen.selected(), "line_no", 0) == 60)
        await s.press("left", "left")
        await s.until(lambda: getattr(screen.selected(), "line_no", 0) == 31)
        await s.shows("PAUSED")
        store.state(0, 61, "step_kind", None, "decode")
        store.grow()
        await s.until(lambda: screen.view_shown().changes.rows[-1].line_no == 61)  # type: ignore[union-attr]
        assert screen.selected().line_no == 31  # type: ignore[union-attr]
        await s.press("right", "right", "right", "right")
        await s.shows("FOLLOW")
        await s.until(lambda: getattr(screen.selected(), "line_no", 0) == 61)


async def test_a_number_is_opened_and_the_worst_of_its_column_is_it() -> None:
    async with stage((80, 24), demo=False, store=lived()) as s:
        screen = await opened(s)
        screen.lanes.go_to("numbers")
        await s.shows("in this column", "locked")
        await s.until(lambda: screen.selected() is not None)
        await s.press("enter")
        assert isinstance(s.app.screen, InspectScreen)
        await s.shows("after the CUDA fault")
        await s.press("escape", "g")
        await s.until(lambda: getattr(screen.selected(), "rec_id", 0) == 100)
        await s.shows("1 number in this column: 1 evidence")


async def test_only_the_screen_in_front_is_asked_for_and_a_quiet_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "RECHECK_S", ())
    async with stage((120, 40), demo=False, store=lived()) as s:
        await opened(s)
        await s.pilot.pause(0.5)
        s.store.asked.clear()
        refreshed: list[object] = []
        monkeypatch.setattr(Widget, "refresh", lambda self, *_, **__: refreshed.append(self))
        await s.pilot.pause(0.6)
        s.app._tick()
        assert s.store.asked == [] and refreshed == []
        monkeypatch.undo()
        await s.press("right", "down", "up")
        await s.until(lambda: s.store.asked)
        assert not any("exec_state_now" in sql for sql in s.store.asked)


async def test_a_process_is_found_by_its_letters() -> None:
    async with stage((80, 24), demo=False, store=lived()) as s:
        await opened(s)
        await s.press("colon", *"trainer")
        await s.shows("process trainer pid 4600 trainer.log")
        await s.press("enter")
        await s.shows("/logs/trainer.log", "2 of 2")


async def test_without_any_state_and_without_a_run_it_says_so() -> None:
    store = FakeStore()
    async with stage(demo=False, store=store) as s:
        await s.press("4")
        await s.shows("no run selected: press 1, choose one, and 4")
        store.run("only")
        store.grow()
        await s.press("1")
        await s.shows("only")
        await s.press("4")
        await s.shows("no line told of graph mode, step kind, cache or weights")
        for key in (
            "left",
            "right",
            "plus",
            "minus",
            "0",
            "H",
            "L",
            "v",
            "less_than_sign",
            "e",
            "g",
            "G",
            "f",
            "enter",
            "y",
        ):
            await s.press(key)
        assert isinstance(s.app.screen, StateScreen)


async def test_a_lifecycle_line_is_opened_down_to_its_bytes_and_says_what_is_kept_on_purpose(tmp_path: Path) -> None:
    log, text = tmp_path / "rollout.log", "one\nreceived weights of step 12\nthree\n"
    log.write_text(text)
    store = FakeStore()
    store.run("r")
    at, length = text.index("received"), len("received weights of step 12\n")
    store.write(
        "INSERT INTO weight_lifecycle (rec_id, run_id, role, pid, track, phase, path, host, line_no, byte_offset,"
        " byte_length, keeps_kv) VALUES (7, 'r', 'rollout', 44, 'residency', 'reloading', ?, '', 2, ?, ?, true)",
        [str(log), at, length],
    )
    async with stage((120, 40), demo=False, store=store) as s:
        await s.open_run("r")
        await s.shows("rollout", "pid 44", "reloading", "policy: KV kept")
        await s.press("tab")
        assert isinstance(s.app.screen.focused, LifecycleList)
        await s.press("enter")
        await s.shows("as the file has them now", "2 received weights of step 12", "kept on purpose, by its policy")
        await s.press("4")
        await s.shows("place in the log", "weights", "policy: KV kept")


# --- the same in words ---


def test_status_says_how_each_process_executes_and_where_its_weights_are(real: Reader) -> None:
    told = report(real, with_state=True)
    text = told.text
    assert (
        "execution   rollout pid 31361 worker_raw.log: compile_mode NONE, graph_mode NONE, prefix_hit_rate 0.0; "
        in text
    )
    assert re.search(
        r"rollout pid 32114 worker_raw\.log: compile_mode NONE, graph_mode NONE; "
        r"only claimed: .*dtype bfloat16.*prefix_cache on",
        text,
    )
    assert "rollout pid 32114 worker_raw.log: new process, cache reset; " in text
    assert "weights     rollout pid 32114" in text and "rollout pid 32354 worker_raw.log: reloaded; " in text
    (run,) = told.data["runs"]
    assert {(r["pid"], r["field"]) for r in run["exec_state"] if r["observed"] != "unknown"} == {
        (31361, "compile_mode"), (31361, "graph_mode"), (31361, "prefix_hit_rate"),
        (32114, "compile_mode"), (32114, "graph_mode"),
    }  # fmt: skip
    assert "exec_state" not in report(real).data["runs"][0]


def test_watch_tells_each_change_once(real: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines of the log were stored in one commit: pages that bring nothing new get longer."""
    monkeypatch.setattr(statenews, "PAGE", 5)

    def ask(sql: str, params: tuple[object, ...] = (), *, gather: str) -> list[dict[str, object]]:
        result = real.query(sql, params, gather=gather)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]

    news = statenews.StateNews(ask)
    told = list(news.told())
    weights = [(text.split(": ")[1].split(",")[0], row["line_no"]) for word, _, text, row in told if word == "weights"]
    want = [(phase.replace("_", " "), line) for phase, line in BEGIN]
    want += [change for line in RELOADED for change in (("reloaded", line), ("cache reset", line + 1))]
    assert weights == want
    states = {text for word, _, text, _ in told if word == "execution"}
    assert "rollout pid 31361 worker_raw.log: graph_mode NONE" in states and not any(
        "hit_rate" in text for text in states
    )
    assert list(news.told()) == []


class Twice(FakeReader):
    """Two stores that hold the same: each answers, and what they say is gathered."""

    def query(self, sql: str, params: Sequence[object] = (), *, gather: str = "", **_: Any) -> Result:  # type: ignore[override]
        with self._store.lock:
            part = self._store.db.execute(sql, list(params)).to_arrow_table()
        here = duckdb.connect(":memory:")
        here.register("part", pa.concat_tables([part, part]))
        cursor = here.execute(gather)
        return Result(tuple(d[0] for d in cursor.description), (), cursor.fetchall(), False, 0.0)


def test_a_log_that_two_stores_read_is_told_once() -> None:
    """As on a mount that both nodes have: the screen draws what one of them tells."""
    store = lived()
    found = view(Twice(store), LaneAsk(axis="place", columns=33, lane="step_kind"))
    assert [c.line_no for c in found.changes.rows] == [15, 16, 30, 31, 32]
    assert {c.changes for one in found.lanes for c in one.cells} == {1}
