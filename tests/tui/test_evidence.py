"""Screen 6 and the lamps: lines against values by hand, the way from a cell to its tokens, and queries on a real store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.ledger.made import BITWISE, SHOWN, sha
from tests.ledger.test_gates import LOOSE, MAE, VERSIONS, World
from tests.tui import judged
from tests.tui.compared import RUN
from tests.tui.fake import NOW, FakeStore
from tests.tui.judged import BASE, FP8, OTHER
from tests.tui.stage import stage
from tic_daemon.scan.rules import RuleSet
from tic_daemon.store import united
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.writer import Writer
from tic_tui import chain_reading, evidence_queries
from tic_tui.desk import Desk
from tic_tui.evidence_model import Candidate, Cell, CellView, EvidenceAsk, Lamp, Piece
from tic_tui.glyphs import ASCII, UNICODE, Glyphs
from tic_tui.messages import EvidenceFetched
from tic_tui.model import Demand
from tic_tui.reading import Ask, RunsReading
from tic_tui.render import cell as cell_lines
from tic_tui.render import gates, lamps
from tic_tui.render import pairs as pair_lines
from tic_tui.render.text import Builder, plain, width_of
from tic_tui.safe import safe
from tic_tui.screens.cases import CasesScreen
from tic_tui.screens.cell import CellScreen
from tic_tui.screens.comparison import ComparisonScreen, SequenceScreen
from tic_tui.screens.gates import GatesScreen
from tic_tui.screens.ledger import EntryScreen, LedgerScreen
from tic_tui.screens.mark import MarkScreen

CLOCK = NOW.replace(tzinfo=UTC)


def ask(demand: Demand, **more: Any) -> Ask:
    return Ask(**({"demand": demand, "standing": "", "news": None, "until": time.monotonic() + 60} | more))


def read(reader: Any, demand: Demand) -> Any:
    """What a page shows of a store."""
    message = Desk(reader).message(ask(demand))
    assert isinstance(message, EvidenceFetched) and message.page == demand.screen
    return message.view


def test_the_fake_tables_have_the_columns_of_the_views() -> None:
    db = duckdb.connect(":memory:")
    db.execute(judged.SCHEMA)
    tables = [row[0] for row in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    real = united.public_views()
    for name in tables:
        mine = [(row[0], row[1]) for row in db.execute(f"DESCRIBE {name}").fetchall()]
        assert mine == [tuple(column) for column in real[name]], name


# --- lines ---

STATES = (("pass", False), ("fail", False), ("inconclusive", False), ("not run", False), ("not run", True))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_state_has_a_sign_and_a_word_of_its_own(glyphs: Glyphs) -> None:
    told = [gates.sign(state, stale, glyphs) for state, stale in STATES]
    assert len({sign for sign, _, _ in told}) == 5, "told apart without colour"
    assert [word for _, word, _ in told] == ["pass", "fail", "inconclusive", "not run", "not run, stale"]
    assert gates.sign("new word", False, glyphs)[1] == "new word", "a state that it does not know keeps its word"
    said = plain(gates.legend(80, glyphs))
    assert all(f"{sign} {word}" in said for sign, word, _ in told[:4]) and f"{told[4][0]} stale" in said


def cell(gate: str, name: str, state: str, *, stale: bool = False, whole: str = "not run", **more: Any) -> Cell:
    number = gates.ORDER.index(gate) + 1
    held = {"cause": safe(""), "pieces": 0, "evidence_id": None, "carried_from": None, "position": 1} | more
    return Cell("c" * 64, number, safe(gate), name, safe(state), stale, gate_state=safe(whole), **held)


ONE = Candidate("c" * 64, safe("fp8"), None, ("r1",), (), False, (), (), (), (), safe("ada"), NOW)


def test_a_row_draws_each_cell_of_each_gate() -> None:
    told = [
        cell("module", "repeat", "pass"), cell("module", "forward", "not run", stale=True), cell("module", "gradients", "not run"),
        *(cell("proxy", name, "inconclusive", whole="inconclusive") for name in "abcd"),
        cell("zero_update", "replay", "fail", whole="fail"),
        *(cell("per_version", str(n), "pass" if n != 3 else "fail", whole="fail") for n in range(1, 7)),
    ]  # fmt: skip
    # By hand: of six versions the last three, and a sign that there are more; of acceptance nothing is known.
    row = plain(gates.candidate_row(ONE, told, "", CLOCK, 80, UNICODE, selected=False))
    assert row.split() == ["fp8", "✓~·", "not", "run", "????", "inconcl", "✖", "fail", "…✓✓✓", "fail", "unknown"]
    wide = plain(gates.candidate_row(ONE, told, "", CLOCK, 130, UNICODE, selected=False))
    assert "???? inconclusive" in wide
    narrow = plain(gates.candidate_row(ONE, told, "", CLOCK, 40, UNICODE, selected=False))
    assert narrow.split() == ["fp8", "~", "?", "✖", "✖", "·"], "a gate with a stale cell says so"


@pytest.mark.parametrize("width", [20, 40, 59, 60, 77, 78, 80, 111, 112, 120, 131, 132, 150, 180, 240])
def test_no_row_is_wider_than_the_screen_and_columns_stand_under_their_names(width: int) -> None:
    told = [cell(gate, name, "fail", whole="fail") for gate, names in judged.CELLS for name in names]
    one = replace(ONE, name=safe("名" * 40), run_ids=("r" * 99,), parent_id="p" * 64)
    for glyphs in (UNICODE, ASCII):
        row = gates.candidate_row(one, told, "x" * 99, CLOCK, width, glyphs, selected=True)
        head = plain(gates.header(width, glyphs, chosen="proxy"))
        assert width_of(plain(row)) <= width and width_of(head) <= width
        for each in (gates.cell_row(told[0], True, width, glyphs, selected=True), gates.legend(width, glyphs)):
            assert width_of(plain(each)) <= width
    if width >= 60:  # each gate's sign stands under its number
        cells = plain(gates.candidate_row(ONE, told, "", CLOCK, width, UNICODE, selected=False))
        head = plain(gates.header(width, UNICODE, chosen=""))
        assert [head[at] for at in range(len(head)) if head[at].isdigit()] == ["1", "2", "3", "4", "5"]
        first = head.index("1 ") - 1
        assert cells[first] == UNICODE.locked and cells[first - 1] == " "


def test_the_cell_to_look_at_first_is_the_worst() -> None:
    told = [
        cell("module", "a", "pass"), cell("module", "b", "not run"), cell("module", "c", "not run", stale=True),
        cell("module", "d", "inconclusive"), cell("module", "e", "fail"), cell("proxy", "f", "pass"),
    ]  # fmt: skip
    found = []
    while any(str(one.gate) == "module" for one in told):
        at = gates.worst(told, "module")
        found.append(told.pop(at).cell)
    assert found == ["e", "d", "c", "b", "a"]
    assert gates.worst((), "module") == 0


def lamp(name: str, state: str, *, stale: bool = False, because: str = "why") -> Lamp:
    return Lamp("r", safe(name), safe(state), stale, safe(because))


def test_lamps_are_a_sign_under_a_letter_and_words_below() -> None:
    lit = (
        lamp("quality", "not run", stale=True),
        lamp("execution", "pass"),
        lamp("consistency", "fail", because="5 of 96"),
    )
    assert plain(lamps.signs(Builder(9, UNICODE), lit, UNICODE).line()) == "✓✖~ "
    assert plain(lamps.signs(Builder(9, UNICODE), None, UNICODE).line()) == "    ", "not read: no state is said"
    (one,) = lamps.lines(lit, 120, UNICODE, most=1)
    assert plain(one) == " execution ✓ pass  consistency ✖ fail  quality ~ not run, stale  consistency: 5 of 96"
    three = [plain(line).split() for line in lamps.lines(lit, 120, UNICODE, most=3)]
    assert [words[:3] for words in three] == [
        ["execution", "✓", "pass"],
        ["consistency", "✖", "fail"],
        ["quality", "~", "not"],
    ]
    assert lamps.lines((), 80, UNICODE, most=1) == []


def test_a_number_that_is_not_measured_stands_in_brackets() -> None:
    store = FakeStore()
    judged.pair(store, "p", "mmmmmmmmu")
    judged.pair(store, "q", "mmmmmmmmm")
    values = evidence_queries.values(store.open(""))  # type: ignore[arg-type]
    pending = "\n".join(plain(line) for line in pair_lines.numbers(values["p"], 100, UNICODE))
    # 105 and 92 by hand: 92 / 105 is 0.8762.
    assert "[median 105 | 92, ratio 0.8762]" in pending and "? pending re-check of 1 pair" in pending
    measured = "\n".join(plain(line) for line in pair_lines.numbers(values["q"], 100, UNICODE))
    assert "perf/tok_s median 105 | 92" in measured and "[median" not in measured
    assert pending.index("tokens") < pending.index("performance perf"), "effective tokens come first"


# --- keys ---


async def test_from_a_gate_down_to_the_token_and_back() -> None:
    store = FakeStore()
    store.demo()
    judged.some(store)
    async with stage((80, 24), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("6")
        view = s.app.screen
        assert isinstance(view, GatesScreen)
        await s.until(lambda: view.main.row_count == 2 and view.main.selected.candidate_id == FP8)  # type: ignore[union-attr]
        await s.shows("cells of fp8-blockwise: 1 fail, 1 inconclusive, 7 stale, 1 pass, 7 not run")
        await s.press("right", "right", "enter")
        await s.shows(
            "✖ fail  bitwise: 5 of 96", "evidence 1 current, 2 others", "superseded", "historical", "what to do"
        )
        await s.press("i")
        await s.until(lambda: isinstance(s.app.screen, MarkScreen))
        await s.press("tab", "tab", *"bad", "enter")
        await s.until(lambda: s.said)
        assert (s.said[0].run_id, s.said[0].scope, s.said[0].target) == (RUN, "record", f"comparison:{11:016x}")
        await s.press("enter")
        await s.until(lambda: isinstance(s.app.screen, ComparisonScreen) and s.app.screen.within.row_count == 3)
        await s.press("enter")
        await s.until(lambda: isinstance(s.app.screen, SequenceScreen))
        await s.shows("4 of 32 valid tokens")
        for kind in (ComparisonScreen, CellScreen, GatesScreen):
            await s.press("backspace")
            await s.until(lambda kind=kind: isinstance(s.app.screen, kind))
        # A stale cell: what changed, and what to run again at least.
        await s.press("left", "left", "enter")
        await s.shows("~ not run, stale", "run again at least: quantization: real module input", "no criterion for it is in force",
                      "tic-daemon exempt fp8-blockwise", "module/repeat --from bbbbbbbbbbbb --closure FILE")  # fmt: skip
        await s.press("pagedown")
        await s.shows(
            "made stale by    rollout.quantization changed", "exemptions 1", "by ada: the closure does not reach it"
        )


async def test_the_ledger_leads_to_its_comparisons_and_pages_turn() -> None:
    store = FakeStore()
    store.demo()
    judged.some(store)
    async with stage((120, 40), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("6")
        await s.shows("candidates 2")
        store.asked.clear()
        await s.press("greater_than_sign")
        view = s.app.screen
        assert isinstance(view, LedgerScreen)
        await s.shows(
            "✓ chain holds: 11 rows hashed",
            "1 superseded, 2 historical",
            "of ev-000000000000",
        )
        assert not any("pair" in sql or "comparisons" in sql for sql in store.asked), (
            "what costs is asked when it is shown"
        )
        await s.press("slash", *"label", "enter", *"FAIL", "enter")
        await s.shows("matching 2 of 11")
        await s.until(lambda: view.table.row_count == 2)
        await s.press("g", "enter")
        await s.until(lambda: isinstance(s.app.screen, EntryScreen))
        await s.until(lambda: s.app.comparison_view is not None and s.app.comparison_view.row is not None)
        await s.press("enter")
        await s.until(
            lambda: isinstance(s.app.screen, ComparisonScreen) and s.app.screen.one.comparison_id == f"{11:016x}"
        )
        await s.press("backspace", "backspace", "greater_than_sign")
        await s.shows(
            "shm-fabric", "7 met, 1 unmet, 1 unknown", "✖ unmet", "a of 6", "b of 6", "seed: 7 | 8", "perf/tok_s"
        )
        await s.press("tab", "G", "k", "k", "k", "enter")
        await s.shows("6 same fabric", "they differ")
        await s.press("backspace", "greater_than_sign")
        assert isinstance(s.app.screen, CasesScreen)
        await s.shows("2 criteria, 1 baseline, 1 case", "in force", "historical", "pending review", "2 of 6 parts")
        await s.press("greater_than_sign")
        await s.shows("no verdict, no cause is proved", "first divergence by layer of 1: layer20.attn.out 1", "3 of 40")
        await s.press("tab", "enter")
        await s.until(lambda: isinstance(s.app.screen, ComparisonScreen) and s.app.screen.trace)
        await s.press("backspace", "greater_than_sign")
        await s.shows("candidates 2", "[gates]")


async def test_what_a_reader_looks_at_stays_while_the_store_grows() -> None:
    store = FakeStore()
    store.demo()
    judged.some(store)
    async with stage((80, 24), store=store, demo=False) as s:
        await s.press("6")
        view = s.app.screen
        assert isinstance(view, GatesScreen)
        await s.until(lambda: view.main.row_count == 2)
        view.main.go_to(BASE)
        await s.press("tab", "j", "j")
        was, line = view.cells.selected, view.cells.cursor
        judged.candidate(store, "newer", "e" * 64, {}, minute=9)
        store.write("UPDATE gates SET cause = 'another' WHERE cell = 'gradients'")
        await s.until(lambda: view.main.row_count == 3)
        assert view.main.selected is not None and view.main.selected.candidate_id == BASE
        assert was is not None and view.cells.cursor == line and view.cells.selected.cell == was.cell == "gradients"  # type: ignore[union-attr]
        await s.shows("another")
        # Frozen, nothing of it moves; what was asked for next is still shown.
        await s.press("space")
        store.write("DELETE FROM candidates WHERE name = 'newer'")
        await s.shows("newer data waits")
        assert view.main.row_count == 3
        await s.press("space")
        await s.until(lambda: view.main.row_count == 2)


async def test_an_empty_store_says_what_to_do_on_each_page() -> None:
    async with stage((80, 24), store=FakeStore(), demo=False) as s:
        await s.press("6")
        await s.shows(
            "no candidate is declared here", "tic-daemon criterion freeze", "tic-daemon candidate declare RUN"
        )
        await s.press("enter", "w")
        await s.shows("no run is chosen")
        for words in (("the ledger is empty", "chain: no row yet"), ("[[pair]]", 'switch = ["VLLM'), ("criterion freeze FILE", 'metric = "bitwise"'),
                      ("no run yet: hints are for one run",)):  # fmt: skip
            await s.press("greater_than_sign")
            await s.shows(*words)
            await s.press("enter", "tab", "y")
    store = FakeStore()
    store.demo()
    judged.some(store)
    async with stage((80, 24), store=store, demo=False) as s:
        s.app.select_run("sft-warmup")
        s.app.evidence_run = "sft-warmup"
        await s.press("6")
        await s.shows("no candidate is declared for run sft-warmup", "tic-daemon candidate declare sft-warmup --name")
        await s.press("w")
        await s.shows("candidates 2")


async def test_lamps_stand_in_runs_and_a_store_without_them_has_its_list() -> None:
    store = FakeStore()
    store.demo()
    judged.some(store)
    async with stage((80, 24), store=store, demo=False) as s:
        await s.until(lambda: s.app.runs_view is not None and s.app.runs_view.lamps is not None)
        await s.shows(f"?✖~ {RUN}", f"·✓· {OTHER[:10]}", "no data     sft-warmup")
        await s.shows("execution ? inconclusive  consistency ✖ fail  quality ~ not run, stale")
        judged.lamps(store, "sft-warmup", "pass", "pass", "pass")
        store.grow()
        await s.until(lambda: "✓✓✓" in s.text)


def test_a_store_of_an_older_daemon_has_runs_without_lamps(real: Reader) -> None:
    class Older:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def query(self, sql: str, *args: Any, **more: Any) -> Any:
            return real.query(sql.replace("FROM lamps", "FROM lamps_there_are_none"), *args, **more)

    reading = RunsReading()
    first = reading.view(Older(), ask(Demand()))  # type: ignore[arg-type]
    assert first.lamps is None and not first.unlit and not reading.complete, "the list does not wait for them"
    view = reading.view(Older(), ask(Demand()))  # type: ignore[arg-type]
    assert view.runs and view.lamps is None and "lamps_there_are_none" in view.unlit and reading.complete
    lit = RunsReading()
    lit.view(real, ask(Demand()))
    found = lit.view(real, ask(Demand())).lamps
    assert found is not None and all(len(told) == 3 for told in found.values()) and found


# --- the chain ---


class Pages:
    """A store whose ledger is asked page by page."""

    def __init__(self, rows: int) -> None:
        self.store = FakeStore()
        for number in range(rows):
            judged.row(self.store, "case", reason=f"é {number}")

    def walk(self, reading: chain_reading.ChainReading, **more: Any) -> Any:
        return reading.walk(self.store.open(""), ask(Demand("ledger"), **more))  # type: ignore[arg-type]


def test_the_chain_is_walked_a_little_at_a_time_and_then_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_reading, "PAGE", 4)
    pages, reading = Pages(10), chain_reading.ChainReading()
    told = pages.walk(reading, until=0.0)
    assert (told.walked, told.complete, told.broken) == (4, False, "") and not reading.complete
    told = pages.walk(reading)
    assert (told.walked, told.complete, told.stores) == (10, True, 1)
    head = judged.row(pages.store, "case", reason="later")
    pages.store.asked.clear()
    told = pages.walk(reading)
    assert (told.walked, told.head) == (11, head)
    assert sum("row_hash" in sql for sql in pages.store.asked) == 1, "what was walked is not walked again"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE ledger SET reason = 'other' WHERE seq = 6", "row 6 row6: what it says is not what its hash was made of"),
        ("DELETE FROM ledger WHERE seq = 6", "row 7 row7: row 6 is missing"),
        ("UPDATE ledger SET prev_hash = 'x' WHERE seq = 6", "row 6 row6: it does not carry the hash of the row before it"),
        ("INSERT INTO ledger SELECT * FROM ledger WHERE seq = 6", "its number stands twice"),
        ("INSERT INTO ledger SELECT * REPLACE (-1 AS seq) FROM ledger WHERE seq = 6", "the ledger has 9 rows, its chain 8"),
    ],
)  # fmt: skip
def test_a_chain_that_does_not_hold_names_its_first_break(
    change: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_reading, "PAGE", 3)
    pages = Pages(8)
    pages.store.write(change)
    told = pages.walk(reading := chain_reading.ChainReading())
    assert words in told.broken and reading.complete


# --- a real store ---


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path, dict[str, str]]]:
    """A store that the real writer made: one candidate that passes by exemption, fails, is superseded and historical."""
    root = tmp_path_factory.mktemp("evidence")
    writer = Writer.open(StoreLayout.find(root))
    writer.put_fault_rules(RuleSet.load([]).fault_rules())
    made = World(writer)
    made.prepare(3)
    first, second, third = made.run(), made.run(), made.run()
    bits, tight, versions = made.freeze(BITWISE), made.freeze(MAE), made.freeze(VERSIONS)
    base = made.candidate(first)
    name: dict[str, str] = {"base": base, "base run": first, "run": second, "bits": bits}
    name["passed"] = made.compare(first, "PASS", bits)
    name["child"] = child = made.candidate(second, base, ("rollout.quantization",))
    name["measured"] = made.compare(second, "PASS", tight)
    name["failed"] = made.compare(second, "FAIL", bits)
    for policy, label in (("2", "PASS"), ("10", "INVALID")):
        name[f"version {policy}"] = made.compare(second, label, versions, policy=policy)
    made.say("replaced", criterion=tight, target=made.freeze(LOOSE), reason="a budget is enough")
    made.say("supersede", target=name["failed"], reason="the image was another")
    name["heir"] = heir = made.candidate(third, child)
    made.say("exemption", candidate=heir, gate="zero_update", cell="replay", target=base, reason="it does not reach it",
             body={"closure": sha("c")}, artifacts=SHOWN)  # fmt: skip
    made.say("case", run_id=second, body={"name": "drift", "parts": {"contract": "bitwise"}, "ruled_out": ["weights"]})
    made.say("baseline", candidate=base, body={"name": "bl", "config": "c", "results": "r", "reviewer": ""})
    writer.close()
    yield made, root, name


@pytest.fixture(scope="module")
def real(world: tuple[World, Path, dict[str, str]]) -> Iterator[Reader]:
    reader = open_reader(world[1])
    yield reader
    reader.close()


def test_the_gates_are_what_the_store_says(world: tuple[World, Path, dict[str, str]], real: Reader) -> None:
    name = world[2]
    view = read(real, Demand("gates"))
    assert [one.candidate_id for one in view.candidates] == [name["heir"], name["child"], name["base"]], (
        "the newest first"
    )
    assert view.criteria == 3, "three in force, one replaced"

    def state(candidate: str, place: str) -> tuple[str, bool]:
        gate, _, cell_name = place.partition("/")
        return next(
            (str(c.state), c.stale) for c in view.cells[candidate] if (str(c.gate), c.cell) == (gate, cell_name)
        )

    assert state(name["base"], "zero_update/replay") == ("pass", False)
    assert state(name["child"], "zero_update/replay") == ("not run", True), "superseded"
    assert state(name["heir"], "zero_update/replay") == ("pass", False), "carried over"
    cells = view.cells[name["child"]]
    assert [c.cell for c in cells if str(c.gate) == "per_version"] == ["2", "10"], "by number, not by letters"
    assert [gates.cell_words(c, UNICODE)[0] for c in cells if str(c.gate) == "per_version"] == [
        "✓ pass",
        "? inconclusive",
    ]
    carried = next(c for c in view.cells[name["heir"]] if c.cell == "replay")
    assert gates.cell_words(carried, UNICODE)[0] == "✓ pass, carried"
    of_run = read(real, Demand("gates", name["run"]))
    assert [one.candidate_id for one in of_run.candidates] == [name["child"]] and set(of_run.cells) == {name["child"]}


def test_a_cell_tells_its_evidence_and_what_stood_there(
    world: tuple[World, Path, dict[str, str]], real: Reader
) -> None:
    name = world[2]
    view = read(real, Demand("cell", evidence=EvidenceAsk(name["child"], "zero_update", "replay")))
    assert view.row is not None and view.row.stale and view.pieces == ()
    assert {one.id: (str(one.standing), str(one.because)) for one in view.past} == {
        name["failed"]: ("superseded", "the image was another (ann)"),
        name["measured"]: ("historical", "a budget is enough (ann)"),
    }
    assert set(view.comparisons) == {one.target for one in view.past} and view.parent.candidate_id == name["base"]
    assert view.goals == ("cross_stack",) and {str(one.state) for one in view.criteria} == {"in force", "historical"}
    version = read(real, Demand("cell", evidence=EvidenceAsk(name["child"], "per_version", "10")))
    assert [(one.id, str(one.state), str(one.label)) for one in version.pieces] == [
        (name["version 10"], "inconclusive", "INVALID")
    ]
    assert len(version.criteria) == 1 and version.goals == ("cross_stack",)
    heir = read(real, Demand("cell", evidence=EvidenceAsk(name["heir"], "zero_update", "replay")))
    assert heir.row.carried_from == name["base"] and [one.id for one in heir.pieces] == [name["passed"]], (
        "where it comes from"
    )
    assert [str(one.reason) for one in heir.exemptions] == ["it does not reach it"]
    gone = read(real, Demand("cell", evidence=EvidenceAsk("0" * 64, "module", "\x1b]0;x\x07'")))
    assert gone.row is None and gone.pieces == () and gone.goals == ()


def test_the_other_pages_read_a_real_store(world: tuple[World, Path, dict[str, str]], real: Reader) -> None:
    name = world[2]
    ledger = read(real, Demand("ledger"))
    total = real.query("SELECT count(*) FROM ledger").rows[0][0]
    assert (ledger.total, ledger.superseded, ledger.chain.walked, ledger.chain.broken) == (total, 1, total, "")
    assert [one.seq for one in ledger.window.rows] == list(range(1, total + 1)), "oldest first"
    assert {one.id for one in ledger.window.rows if one.standing == "historical"} >= {name["measured"]}
    place = {one.id: (str(one.gate), one.cell) for one in ledger.window.rows if one.kind == "evidence"}
    assert place[name["version 10"]] == ("per_version", "10") and place[name["failed"]] == ("zero_update", "replay")
    few = read(real, Demand("ledger", anchor=ledger.window.rows[4].key, rows=2))
    assert [one.seq for one in few.window.rows] == [4, 5, 6, 7] and few.window.older and few.window.newer
    of_run = read(real, Demand("ledger", name["run"]))
    own = real.query(
        "SELECT count(*) FROM ledger WHERE run_id = ? OR candidate_id = ?", (name["run"], name["child"])
    ).rows[0][0]
    assert of_run.total == own
    cases = read(real, Demand("cases"))
    assert [str(one.name) for one in cases.cases] == ["drift"] and [str(one.state) for one in cases.baselines] == [
        "pending review"
    ]
    assert len(cases.criteria) == 4 and any(one.raw == BITWISE for one in cases.criteria)
    pairs = read(real, Demand("pairs"))
    assert pairs.pairs == () and pairs.rules is None, "what costs comes later"
    hints = read(real, Demand("hints", name["run"]))
    assert [str(one.name) for one in hints.order] == ["input", "weight", "discrete", "kernel", "precision"]
    assert "weights (case drift)" in hints.ruled_out
    assert "no run 'nobody'" in read(real, Demand("hints", "nobody")).trouble


def test_two_stores_are_one(world: tuple[World, Path, dict[str, str]], tmp_path: Path) -> None:
    """The same cells and rows, and two chains that are walked each on its own."""
    name = world[2]
    shutil.copytree(world[1], tmp_path / "ws")
    other = Writer.open(StoreLayout.find(tmp_path / "ws", host="elsewhere"))
    extra = World(other)
    extra.freeze(BITWISE)
    made = extra.candidate("")
    other.close()
    reader = open_reader(tmp_path / "ws")
    try:
        assert reader.connection().kind == "several"
        view = read(reader, Demand("gates"))
        assert {one.candidate_id for one in view.candidates} == {name["heir"], name["child"], name["base"], made}
        ledger = read(reader, Demand("ledger"))
        assert (
            ledger.chain.stores == 2 and ledger.chain.complete and ledger.chain.broken == "" and ledger.chain.head == ""
        )
        assert ledger.chain.walked == ledger.total + 1, "the criterion that both have is one row"
        assert len({one.id for one in ledger.window.rows}) == ledger.total
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [("performance", "declared pair of arms"), ("quality", "pair_ratio"), ("clean_exit", "exit code"), ("final_image", "receipts"),
     ("other", "no comparison fills this cell")],
)  # fmt: skip
def test_a_cell_that_no_comparison_fills_says_what_does(name: str, words: str) -> None:
    view = CellView(Demand("cell"), cell("acceptance", name, "not run"), ONE, None, (), (), {}, (), (), (), CLOCK)
    assert words in " ".join(cell_lines.what_to_do(view))


def test_a_piece_is_built_from_the_views_columns_in_their_order() -> None:
    store = FakeStore()
    judged.piece(store, FP8, "module", "forward", 7, "fail", label="FAIL", reason="why", plane="control", step=3)
    (one,) = evidence_queries.pieces(store.open(""), FP8, "module", "forward")  # type: ignore[arg-type]
    assert isinstance(one, Piece) and (one.step, one.plane, one.label, one.state) == (3, "control", "FAIL", "fail")
