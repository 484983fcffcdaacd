"""Findings of the weights' lifecycle and GPUs on screens 1 and 2, down to the line that shows a finding."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from tests.tui.fake import FINDING, NOW, FakeStore
from tests.tui.stage import stage
from tic_tui.execution import Gpu
from tic_tui.glyphs import ASCII, UNICODE
from tic_tui.neighbours import Place, look
from tic_tui.render import artifacts, gpus
from tic_tui.render.text import plain
from tic_tui.safe import safe
from tic_tui.screens.inspect import InspectScreen

LOG = "first line\nthe cache was not reset: 3 requests hold blocks\nthird line\n"


def _finding(store: FakeStore, path: str, host: str) -> None:
    offset, length = LOG.index("the cache"), len("the cache was not reset: 3 requests hold blocks\n")
    store.write(
        "INSERT INTO weight_lifecycle (rec_id, run_id, role, track, phase, path, byte_offset, byte_length)"
        " VALUES (7, 'r', 'rollout', 'cache', 'reset_refused', ?, ?, ?)",
        [path, offset, length],
    )
    store.write(
        f"INSERT INTO {FINDING} VALUES ('f1', 7, 'r', 1, 'rollout', NULL, ?, 44, 'reset_refused', 'N',"
        " 'the prefix cache was not reset', 12, NULL, NULL, NULL, ?, 2, ?, ?)",
        [host, path, offset, NOW],
    )


async def test_a_finding_opens_down_to_its_line(tmp_path: Path) -> None:
    log = tmp_path / "rollout.log"
    log.write_text(LOG)
    store = FakeStore()
    store.run("r")
    _finding(store, str(log), "")
    async with stage((120, 40), demo=False, store=store) as s:
        await s.shows("? 1")  # beside the faults in the list of runs
        await s.open_run("r")
        await s.shows("? finding", "reset refused", "from step 12 on", "the prefix cache was not reset")
        await s.press("tab", "enter")
        await s.until(lambda: isinstance(s.app.screen, InspectScreen))
        await s.shows(
            "not seen to end", "as the file has them now", "2 the cache was not reset: 3 requests", "third line"
        )
        await s.press("escape")
        await s.shows("? finding")


@pytest.mark.parametrize(
    ("offset", "length", "shown"), [(11, 48, True), (12, 47, False), (11, 20, False), (9999, 5, False), (59, 11, True)]
)
def test_without_kept_bytes_only_a_whole_line_is_shown(tmp_path: Path, offset: int, length: int, shown: bool) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    found = look(Place(str(log), "", offset, length, 2, "", unkept=True))
    assert found.from_file is shown
    assert shown or "other bytes stand at this place" in found.why


def _gpu(n: int) -> Gpu:
    at = NOW - timedelta(seconds=1)
    return Gpu(
        safe("node1"), n, safe(f"GPU-{n}"), safe("NVIDIA H200"), n, 100 + n, 90 << 30, 139 << 30, 87.0, safe(""), 0, None, at,
        at, safe(""),
    )  # fmt: skip


def test_a_gpu_is_a_line() -> None:
    now = NOW.replace(tzinfo=UTC)
    (line,) = (plain(one) for one in gpus.lines([_gpu(3)], now, 120, UNICODE))
    assert line.startswith(" gpu 3    rank 3   90.0 of 139 GiB") and "87 %" in line and "Xid" not in line
    ill = replace(_gpu(3), last_xid=safe("31"), throttle=safe("sw thermal"), ecc_uncorrected=1, utilization=None)
    (line,) = (plain(one) for one in gpus.lines([ill], now, 140, ASCII))
    assert "! last Xid 31" in line and "1 uncorrected ECC error " in line and "clocks held by sw thermal" in line
    assert "unknown" in line and line.isascii()
    many = gpus.lines([_gpu(n) for n in range(12)], now, 40, UNICODE)
    assert len(many) == 9 and plain(many[-1]) == " and 4 more GPUs"
    assert all(len(plain(line)) <= 40 for line in many)


def test_artifacts_are_a_line_and_what_is_wrong_stands_out() -> None:
    assert artifacts.lines({}, 80, UNICODE) == []
    (line,) = artifacts.lines({"missing": 1, "verified": 34, "changed": 2, "pending": 3}, 80, ASCII)
    assert " ".join(plain(line).split()) == "artifacts 34 verified, 3 pending ! 2 changed, 1 missing"
    (line,) = artifacts.lines({"verified": 36}, 80, ASCII)
    assert plain(line).split() == ["artifacts", "36", "verified"]
    (line,) = artifacts.lines({"missing": 36}, 80, ASCII)
    assert plain(line).split() == ["artifacts", "!", "36", "missing"]
    assert all(len(plain(one)) <= 20 for one in artifacts.lines({"missing": 36, "verified": 3}, 20, ASCII))
