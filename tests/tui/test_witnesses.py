"""Screen 5 where many processes say the same of one fault: one row with how many there are, unfolded by a key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.tui.fake import NOW, FakeStore
from tests.tui.stage import stage
from tic_tui import clipboard
from tic_tui.screens.faults import FaultsScreen


def _store(ranks: int) -> FakeStore:
    """A run that one fault of rank 0 locks, and of which all other ranks say the same, a second later each."""
    store = FakeStore()
    store.run("many", locked=True)
    store.mismatch(1, "many", step=1)
    store.fault(9001, "many")
    store.write("UPDATE faults SET rank = 0, witnesses = ?, incident_store_id = 's1'", [ranks - 1])
    store.write(
        "INSERT INTO faults SELECT f.* REPLACE (9001 + n AS rec_id, n AS rank, 'node' || n AS host, 9001 AS witness_of,"
        " 0 AS witnesses, f.event_at + to_seconds(n) AS event_at, '/logs/w' || n || '.log' AS path)"
        " FROM faults f, range(1, ?) t(n)",
        [ranks],
    )
    return store


async def test_a_hundred_ranks_are_one_row_that_unfolds() -> None:
    async with stage((120, 40), demo=False, store=_store(100)) as s:
        s.app.select_run("many")
        await s.press("5")
        await s.shows(
            "and 99 other processes say the same", "rank 0    node1        ✖ locks      +99 same", "rank 0   +99 same"
        )
        view = s.app.screen
        assert isinstance(view, FaultsScreen)
        assert (view.cascade.row_count, view.table.row_count) == (1, 1)
        await s.press("o")
        await s.until(lambda: view.table.row_count == 100)
        await s.shows("the same on  rank 1")
        assert view.cascade.row_count == 1, "the other list stays folded"
        await s.press("o", "tab", "o")
        await s.until(lambda: view.cascade.row_count == 100 and view.table.row_count == 1)
        await s.shows("+2.000 s", "rank 2")


async def test_a_line_of_another_rank_that_says_something_else_is_not_folded() -> None:
    store = _store(3)
    store.write("UPDATE faults SET witness_of = NULL, incident_store_id = NULL, kind = 'oom' WHERE rec_id = 9003")
    store.write("UPDATE faults SET witnesses = 1 WHERE rec_id = 9001")
    async with stage((120, 40), demo=False, store=store) as s:
        s.app.select_run("many")
        await s.press("5")
        await s.shows("and 1 other process says the same", "✖ locks      +1 same", "oom")
        assert s.app.screen.cascade.row_count == 2  # type: ignore[attr-defined]


async def test_the_files_that_a_fault_left_are_named_and_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = _store(1)
    for n, (kind, octets) in enumerate([("core", 3 << 30), ("flight_recorder", 1536), ("py_spy", None)]):
        store.write(
            "INSERT INTO fault_files VALUES ('many', 1, ?, ?, 'node1', 4524, 0, ?, ?, '', ?)",
            [kind, f"/jobs/{kind}.bin", octets, NOW + timedelta(seconds=n), kind != "core"],
        )
    store.write("INSERT INTO fault_files VALUES ('other', 1, 'core', '/jobs/not-ours', '', 1, 0, 1, NULL, '', true)")
    async with stage((120, 40), demo=False, store=store) as s:
        s.app.select_run("many")
        await s.press("5")
        await s.shows(
            "core, 3 GiB, gone  /jobs/core.bin",
            "flight recorder, 1.5 KiB  /jobs/flight_recorder.bin",
            "and 1 more file",
        )
        await s.until(lambda: s.app.screen.selected() is not None)  # type: ignore[attr-defined]
        await s.press("y")
        copied = clipboard.copy_file().read_text()
        assert copied.endswith(
            "core /jobs/core.bin\nflight_recorder /jobs/flight_recorder.bin\npy_spy /jobs/py_spy.bin"
        )
        assert "not-ours" not in copied + s.text


async def test_why_the_first_is_not_decided_is_said() -> None:
    store = _store(1)
    store.fault(9050, "many")
    store.write(
        "CREATE OR REPLACE VIEW attempt_states AS SELECT run_id, attempt, first_fault_rec_id,"
        " [9001, 9050] AS first_fault_candidates, 's1' AS store_id, 'the clocks of two hosts differ' AS first_fault_why"
        " FROM runs"
    )
    async with stage((120, 40), demo=False, store=store) as s:
        s.app.select_run("many")
        await s.press("5")
        await s.shows("2 may have been", "not decided: the clocks of two hosts differ")
