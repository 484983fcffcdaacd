"""Plain text of every screen and dialog at four sizes against tests/tui/snapshots/*.txt, and one SVG of each.

`TIC_SNAPSHOTS=write pytest tests/tui/test_pictures.py` writes the texts anew: look at the difference before you keep it.
`TIC_SVG=DIR` keeps the SVGs there.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest

from tests.tui import compared, judged
from tests.tui.fake import FakeStore
from tests.tui.stage import Stage, stage
from tic_tui.screens.inspect import InspectScreen

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = [(40, 10), (80, 24), (120, 40), (200, 60)]
SCENES = ("none", "one", "many")
RUN = {"one": "only", "many": "grpo-tiny-a"}


async def _runs(s: Stage, run: str) -> None:
    if run == RUN["many"]:
        judged.lamps(s.store, run, "inconclusive", "fail", "stale", "bitwise: 5 of 96 tokens differ")
        s.store.grow()
    await s.until(lambda: s.app.runs_view is not None and s.app.runs_view.lamps is not None)


async def _run(s: Stage, run: str) -> None:
    await s.open_run(run)
    await s.until(lambda: not s.app.screen.plot_columns() or s.app.run_view.series)  # type: ignore[union-attr]


async def _mismatches(s: Stage, run: str) -> None:
    await s.press("3")
    await s.until(lambda: s.app.mismatches_view is not None)


async def _state(s: Stage, run: str) -> None:
    if run:
        s.app.select_run(run)
    if run == RUN["many"]:
        s.store.lived()
    await s.press("4")
    await s.until(lambda: s.app.state_view is not None or not run)
    if run == RUN["many"]:
        await s.shows("FULL─", "holds to the end")
        await s.press("left")  # to what was claimed, 540 seconds into the log; nothing follows from here on
        await s.shows("PAUSED", "claimed by a configuration")


async def _number(s: Stage, run: str) -> None:
    """The detail of a number that was made in the state of a finding."""
    s.store.lived()
    s.store.write(
        "UPDATE mismatches SET state_by_time = 'graph_mode', state_source = 'by time', weight_phase = 'unknown',"
        " state_note = 'weight_phase: it changed in the same moment'"
    )
    await _mismatches(s, run)
    await s.press("slash", *"admis", "enter", *"suspect", "enter")
    await s.until(lambda: s.app.screen.table.row_count == 4)  # type: ignore[attr-defined]
    await s.press("enter")
    await s.shows("made in the state of", "the file is on node1")


async def _faults(s: Stage, run: str) -> None:
    if run:
        s.app.select_run(run)
    await s.press("5")
    await s.until(lambda: s.app.faults_view is not None or not run)


async def _record(s: Stage, run: str) -> None:
    await s.open_run(run)
    await s.press("enter")
    await s.shows("the file is on node1")


async def _fault(s: Stage, run: str) -> None:
    await _faults(s, run)
    await s.until(lambda: s.app.screen.table.selected is not None)  # type: ignore[attr-defined]
    await s.press("enter")
    await s.until(lambda: isinstance(s.app.screen, InspectScreen))
    await s.shows("bytes as they were kept")


async def _comparisons(s: Stage, run: str) -> None:
    """The list with the cursor on the comparison of step 11."""
    if run:
        compared.some(s.store)
        s.app.select_run(run)
    await s.press("c")
    await s.until(lambda: s.app.comparisons_view is not None)
    if run:
        await s.until(lambda: s.app.screen.table.row_count == 14)  # type: ignore[attr-defined]
        s.app.screen.table.move_to(11)  # type: ignore[attr-defined]


async def _comparison(s: Stage, run: str) -> None:
    await _comparisons(s, run)
    await s.press("enter")
    await s.shows("r0 ", "4/32")


async def _versions(s: Stage, run: str) -> None:
    """All numbers of a comparison, with those of each policy version."""
    await _comparison(s, run)
    await s.press("tab")
    await s.until(lambda: s.app.screen.focused is s.app.screen.numbers)  # type: ignore[attr-defined]
    while "share" not in s.text:
        await s.press("pagedown")


async def _trace(s: Stage, run: str) -> None:
    await _comparisons(s, run)
    await s.press("G", "enter")
    await s.shows("FIRST diff.")


async def _sequence(s: Stage, run: str) -> None:
    await _comparison(s, run)
    await s.press("enter")
    await s.shows("first that differs")


async def _token(s: Stage, run: str) -> None:
    await _sequence(s, run)
    await s.press("enter")
    await s.shows("0xbfc00000")


async def _page(s: Stage, run: str, page: str) -> None:
    """A page of screen 6; the cursor of the gates is on the candidate that fails, of the ledger on what was superseded."""
    if run:
        judged.some(s.store)
        s.app.select_run(run)
    await s.app.go(page)
    await s.until(lambda: getattr(s.app.readings, page) is not None)


async def _gates(s: Stage, run: str) -> None:
    await _page(s, run, "gates")
    if run:
        await s.until(lambda: s.app.screen.main.row_count == 2)  # type: ignore[attr-defined]
        await s.press("right", "right")


async def _cell(s: Stage, run: str) -> None:
    await _gates(s, run)
    await s.press("enter")
    await s.shows("zero_update/replay", "what to do")


async def _ledger(s: Stage, run: str) -> None:
    await _page(s, run, "ledger")
    if run:
        await s.until(lambda: s.app.screen.table.row_count == 11)  # type: ignore[attr-defined]
        s.app.screen.table.move_to(7)  # type: ignore[attr-defined]
        await s.shows("chain holds")


async def _pairs(s: Stage, run: str) -> None:
    await _page(s, run, "pairs")


async def _cases(s: Stage, run: str) -> None:
    await _page(s, run, "cases")
    await s.press("G")


async def _hints(s: Stage, run: str) -> None:
    await _page(s, run, "hints")
    await s.press("tab")


async def _columns(s: Stage, run: str) -> None:
    await _mismatches(s, run)
    await s.press("slash")
    await s.shows("by which column")


async def _values(s: Stage, run: str) -> None:
    await _columns(s, run)
    await s.press(*"admis", "enter")
    await s.until(lambda: s.app.mismatches_view.choices.get("admissibility"))


async def _stack(s: Stage, run: str) -> None:
    await _mismatches(s, run)
    for keys in (["slash", *"admis", "enter", *"locked", "enter"], ["slash", *"step", "enter", *"15", "enter"]):
        await s.press(*keys)
    await s.press("o")
    await s.shows("matching")


async def _help(s: Stage, run: str) -> None:
    await s.press("question_mark")


async def _palette(s: Stage, run: str) -> None:
    await s.press("colon")


async def _mark(s: Stage, run: str) -> None:
    await s.open_run(run)
    await s.press("i", *"why")


async def _retract(s: Stage, run: str) -> None:
    await s.open_run(run)
    await s.press("R", "enter")


async def _frozen(s: Stage, run: str) -> None:
    await s.open_run(run)
    await s.shows("mismatches 40")  # what is counted in the background is held, too
    await s.press("space")


# name -> (how to get there, the scenes in which it exists, words that the picture holds at 120x40)
PICTURES = {
    "runs": (_runs, SCENES, ("grpo-tiny-a", "locked", "sft-warmup")),
    "run": (_run, ("one", "many"), ("LOCKED attempt 1", "newest evidence: step 12", "over steps")),
    "mismatches": (_mismatches, SCENES, ("filters", "FOLLOW", "grpo-tiny-a", "detail")),
    "state": (_state, SCENES, ("rollout", "prefix cache", "reset refused", "claimed by a configuration")),
    "number": (_number, ("many",), ("made in the state of", "1 finding", "by time, from other processes")),
    "faults": (_faults, SCENES, ("LOCKED attempt 1", "worker-3.log:812", "nccl_watchdog_timeout")),
    "record": (_record, ("one", "many"), ("bytes as they were kept: the file is on node1", "after the CUDA fault")),
    "fault": (_fault, ("many",), ("locks the attempt", "bytes as they were kept")),
    "comparisons": (_comparisons, ("none", "many"), ("FAIL", "evidence", "control groups", "1 running 43 %", "detail")),
    "comparison": (_comparison, ("many",), ("worst first", "·▓·····░", "bits differ in", "2.5 x the floor")),
    "versions": (_versions, ("many",), ("by policy version", "2 in this dump", "7.1 %")),
    "trace": (_trace, ("many",), ("FIRST diff.", "= last equal", "downstream", "missing")),
    "sequence": (_sequence, ("many",), ("4 of 32 valid tokens", "tokens kept 2", "first that differs")),
    "token": (_token, ("many",), ("524288 representable numbers", "these differ", "mantissa")),
    "gates": (
        _gates,
        ("none", "many"),
        ("fp8-blockwise", "from base", "? inconclusive", "~ stale"),
    ),
    "cell": (_cell, ("many",), ("✖ fail", "evidence 1 current", "what to do", "unknown fields")),
    "ledger": (_ledger, ("none", "many"), ("chain holds", "superseded", "historical", "the image was another (ada)")),
    "pairs": (_pairs, ("none", "many"), ("pending re-check", "nothing shows it", "confounders", "perf/tok_s")),
    "cases": (_cases, ("none", "many"), ("moe-drift", "2 of 6 parts", "pending review", "not shown", "weights differ")),
    "hints": (_hints, ("many",), ("no verdict", "handling order", "first divergence by layer", "layer20.attn.out")),
    "filter-columns": (_columns, ("none", "many"), ("by which column?", "metric", "admissibility")),
    "filter-values": (_values, ("many",), ("admissibility is", "locked", "suspect")),
    "filter-stack": (_stack, ("many",), ("admissibility is locked", "step >= 15", "matching")),
    "help": (_help, ("many",), ("keys", "of screen runs")),
    "palette": (_palette, ("many",), ("go to or do", "run", "theme")),
    "mark": (_mark, ("many",), ("mark inconclusive", "[run]", "why")),
    "retract": (_retract, ("many",), ("retract a mark", "wrong tokenizer", "a reason is required")),
    "frozen": (_frozen, ("many",), ("FROZEN since", "space to go on", "LOCKED")),
}


def _store(scene: str) -> FakeStore:
    store = FakeStore()
    if scene == "one":
        store.run("only")
        store.mismatch(1, "only", step=3)
    return store


# The ledger's rows are of one day, whose hashes are known: they grow older.
OF_THE_LEDGER = {"cell", "ledger"}


@pytest.mark.parametrize(
    ("name", "scene"), [(name, scene) for name, (_, scenes, _) in PICTURES.items() for scene in scenes]
)
async def test_text(name: str, scene: str) -> None:
    """One app is drawn at the four sizes: resizing is looked at too. The SVG is that of the third."""
    differ = []
    async with stage(SIZES[1], store=_store(scene), demo=scene == "many") as s:
        await PICTURES[name][0](s, RUN.get(scene, ""))
        for width, height in SIZES:
            await s.pilot.resize_terminal(width, height)
            text = await _at_rest(s)
            assert len(text.splitlines()) == height and all(len(line) <= width for line in text.splitlines())
            if (width, scene) == (120, "many"):
                _check_svg(name, s.app.export_screenshot(title=name))
            text = re.sub(r"(?<![\d-])\d\d-\d\d \d\d:\d\d:\d\dZ", "MM-DD HH:MM:SSZ", text)
            text = re.sub(r"(?<=[│◆])[\d◆]{2}[\d◆:]{4,}", "HH:MM:SS", re.sub(r"\d\d:\d\d:\d\dZ", "HH:MM:SSZ", text))
            # Whether the answer for the plot's new width is there already is a matter of time; test_screen.py looks at it.
            text = text.replace("nothing newer yet", "newer data waits")
            text = re.sub(r"\d\d\d\d-\d\d-\d\d", "YYYY-MM-DD", text) + "\n"
            if name in OF_THE_LEDGER:
                text = re.sub(r"(?<= )\d+ (?:min|[hd]) +", lambda found: "AGE".ljust(len(found[0])), text)
            file = SNAPSHOTS / f"{name}-{scene}-{width}x{height}.txt"
            if os.environ.get("TIC_SNAPSHOTS") == "write":
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            if text != file.read_text(encoding="utf-8"):
                differ.append((file.name, text))
    for file_name, text in differ:
        assert text == (SNAPSHOTS / file_name).read_text(encoding="utf-8"), file_name


async def _at_rest(s: Stage) -> str:
    """The picture, once three looks in a row saw the same and nothing more was asked of the store."""
    for _ in range(3):  # a resize arranges the panels anew, which takes a layout, and again a drawing
        s.app._draw()
        await s.pilot.pause(0.03)
    seen: list[tuple[int, str]] = []
    for _ in range(200):
        await s.pilot.pause(0.06)
        seen.append((len(s.store.asked), s.text))
        if len(seen) > 3 and len(set(seen[-3:])) == 1:
            return seen[-1][1]
    raise AssertionError(f"it never comes to rest\n{seen[-2][1]}\n{seen[-1][1]}")


def test_no_snapshot_is_left_over() -> None:
    expected = {
        f"{name}-{scene}-{w}x{h}.txt" for name, (_, scenes, _) in PICTURES.items() for scene in scenes for w, h in SIZES
    }
    assert {path.name for path in SNAPSHOTS.glob("*.txt")} == expected


def _check_svg(name: str, picture: str) -> None:
    """Read, not compared byte by byte: the toolkit draws it anew with each of its versions."""
    if folder := os.environ.get("TIC_SVG"):
        (Path(folder) / f"{name}.svg").write_text(picture, encoding="utf-8")
    shown = html.unescape(re.sub(r"<[^>]+>", "\n", picture)).replace("\xa0", " ").replace("\n", "")
    assert picture.startswith("<svg") and picture.count("<text") >= 20
    for word in PICTURES[name][2]:
        assert word in shown, word
