"""W&B histories on screens 1 and 2: uploader, strips of steps, gaps, and one step in all sources side by side."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.tui.fake import NOW, FakeStore
from tests.tui.stage import stage
from tic_tui.glyphs import ASCII, UNICODE
from tic_tui.histories import Lack, Piece, Side, Wandb
from tic_tui.render import histories
from tic_tui.render.text import plain
from tic_tui.safe import safe
from tic_tui.screens.sides import SidesScreen


def told(store: FakeStore) -> None:
    """A run of 2,000 steps: 40 lost by the server, one with another value; its uploader died."""
    store.run("r")
    store.write(
        "INSERT INTO wandb_runs VALUES ('r', 'abc', 'lab/grpo/abc', 'online', 'running', 2000, 1960, 'dead', ?, 403, 0, 'ok', ?, ?, 2, 2, '')",
        [NOW - timedelta(minutes=5), NOW - timedelta(seconds=30), NOW - timedelta(seconds=30)],
    )
    store.write(
        "INSERT INTO wandb_gaps VALUES ('r', 1, 'abc', 'missing', 'wandb_api', 400, 439, '_step', NULL,"
        " 'the server acknowledged it and does not have it: lines 400 to 439', true),"
        " ('r', 1, 'abc', 'value_differs', 'wandb_api', 700, 700, '_step', 'actor/lr', 'not known: local 1e-06, server 2e-06', true),"
        " ('r', 1, 'abc', 'unread', 'wandb_api', NULL, NULL, '_step', NULL, 'the last reading failed', false)"
    )
    for source in ("console", "wandb_local", "wandb_api"):
        store.write(
            "INSERT INTO step_coverage SELECT 'r', ?, i, CASE WHEN ? = 'wandb_api' AND i BETWEEN 400 AND 439 THEN 'missing'"
            " WHEN ? = 'wandb_api' AND i = 700 THEN 'value_differs' ELSE 'ok' END, true FROM range(2000) t(i)",
            [source] * 3,
        )
    store.write(
        "INSERT INTO wandb_step_rows VALUES ('r', '_step', 400, 'wandb_local', 'actor/lr', 1e-06, NULL, 'number'),"
        " ('r', '_step', 400, 'wandb_local', 'n', 9007199254740993, '9007199254740993', 'int'),"
        " ('r', '_step', 700, 'wandb_local', 'actor/lr', 1e-06, NULL, 'number'), ('r', '_step', 700, 'wandb_api', 'actor/lr', 2e-06, NULL, 'number'),"
        " ('r', '_step', 700, 'wandb_local', 'same', 7, NULL, 'int'), ('r', '_step', 700, 'wandb_api', 'same', 7, NULL, 'int')"
    )
    store.write("INSERT INTO metrics VALUES ('r', 400, 'actor/lr', 1e-06, '1e-06', 'console')")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_run_screen_shows_the_uploader_the_strips_and_the_gaps(size: tuple[int, int]) -> None:
    store = FakeStore()
    told(store)
    async with stage(size, demo=False, store=store) as s:
        await s.shows("uploader dead 5 min ago, 2 W&B gaps") if size[0] >= 120 else None
        await s.open_run("r")
        await s.shows("W&B", "2 gaps", "uploader dead (403) 5 min ago", "read ok")
        await s.shows("console", "local log", "server", "40 M missing", "2000 ok")
        await s.shows("M missing", "steps 400-439")


async def test_enter_opens_a_step_in_all_sources_side_by_side() -> None:
    store = FakeStore()
    told(store)
    async with stage((120, 40), demo=False, store=store) as s:
        await s.open_run("r")
        await s.shows("M missing")
        await s.press("tab", "enter")
        await s.until(lambda: isinstance(s.app.screen, SidesScreen))
        await s.shows("step 400", "console", "local log", "server", "actor/lr", "9007199254740993")
        await s.press("plus")
        await s.shows("step 401", "no source has a value")
        await s.press("minus", "minus")
        await s.shows("step 400", "this is the gap's first step")
        await s.press("escape", "down", "enter")
        await s.shows("step 700", "2e-06")
        await s.press("escape", "down", "enter")
        await s.shows("this is about no step")


def cover(states: dict[str, list[str]], size: int = 1) -> Wandb:
    pieces = tuple(
        Piece(safe(source), safe(state), n, size) for source, row in states.items() for n, state in enumerate(row)
    )
    longest = max(len(row) for row in states.values())
    return Wandb(pieces=pieces, first=0, last=longest * size - 1, size=size)


def test_a_cell_is_the_worst_of_its_steps_and_a_letter_says_which() -> None:
    wandb = cover({"wandb_local": ["ok"] * 90, "wandb_api": ["ok"] * 89 + ["missing"]})
    local, server = (plain(line) for line in histories.strips(wandb, 60, ASCII, 5))
    assert local.startswith(" local log   =====") and "90 ok" in local
    assert server.rstrip().endswith("1 M missing, 89 ok") and "=M" in server
    assert all(len(plain(line)) <= 40 for line in histories.strips(wandb, 40, UNICODE, 5))
    one = cover(
        {"wandb_api": ["ok", "pending", "unread", "out_of_order", "value_differs", "duplicate", "partial", "missing"]}
    )
    (line,) = histories.strips(one, 120, ASCII, 5)
    assert "=.?<D2PM" in plain(line)
    assert histories.strips(Wandb(), 80, ASCII, 5) == []


def test_a_source_that_has_nothing_of_a_step_has_a_hole() -> None:
    wandb = Wandb(
        pieces=(Piece(safe("console"), safe("ok"), 0, 1), Piece(safe("console"), safe("ok"), 2, 1)),
        first=0,
        last=2,
        size=1,
    )
    assert "= =" in plain(histories.strips(wandb, 80, ASCII, 5)[0])


def test_what_differs_stands_first_and_what_is_absent_is_a_dash() -> None:
    lack = Lack(
        "r", 1, safe("a"), safe("value_differs"), safe("wandb_api"), 7, 7, safe("_step"), safe("b"), safe("x"), True
    )
    sides = [Side(safe(source), safe(key), safe(value)) for source, key, value in (
        ("wandb_local", "a", "1"), ("wandb_api", "a", "1"), ("wandb_local", "z", "1"), ("wandb_api", "z", "2"), ("console", "z", "1.0"),
    )]  # fmt: skip
    lines = [plain(line) for line in histories.side_by_side(lack, 7, sides, 100, ASCII)]
    assert lines[2].split() == ["key", "console", "local", "log", "server"]
    assert lines[3].split() == ["!", "z", "1.0", "1", "2"]
    assert lines[4].split() == ["a", "-", "1", "1"]


def test_all_of_the_evidence_of_a_gap_is_shown_where_a_line_is_too_short() -> None:
    detail = "the client dropped it: its step was behind the current one: log() was called for it when the client was at _step 118"
    lack = Lack(
        "r", 1, safe("a"), safe("missing"), safe("wandb_local"), 60, 70, safe("_step"), None, safe(detail), True
    )
    lines = [plain(line).rstrip() for line in histories.side_by_side(lack, 60, None, 80, ASCII)]
    assert lines[0].split() == ["step", "60", "counted", "by", "_step"] and max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines[1:3]) == f"missing local log: {detail}" and lines[3] == ""
