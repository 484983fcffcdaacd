"""Comparisons on the screen: pure lines against values by hand, and the way down from the list to the bits of a token."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from textual.widget import Widget

from tests.tui import compared
from tests.tui.fake import NOW, Connection, FakeStore
from tests.tui.stage import stage
from tests.tui.test_status import write
from tic_daemon.store import united
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import open_reader
from tic_tui import bits, comparing
from tic_tui.comparison_model import WINDOW, CompareAsk, Comparison, Queued, TokenRow, VersionRow
from tic_tui.comparison_queries import NEWEST_FIRST, comparisons, of_run
from tic_tui.comparison_reading import ComparisonReading, ComparisonsReading
from tic_tui.filters import Filter
from tic_tui.glyphs import ASCII, UNICODE
from tic_tui.model import Demand
from tic_tui.plainwatch import News
from tic_tui.reading import Ask
from tic_tui.render import comparison as one_lines
from tic_tui.render import comparisons as lines
from tic_tui.render import response
from tic_tui.render import token as token_lines
from tic_tui.render.text import Builder, plain
from tic_tui.safe import safe
from tic_tui.screens.comparison import ComparisonScreen, SequenceScreen, TokenScreen
from tic_tui.screens.comparisons import ComparisonsScreen
from tic_tui.screens.mark import MarkScreen
from tic_tui.status import report
from tic_tui.widgets.comparisons import NewestComparisons

RUN = compared.RUN


def test_the_fake_tables_have_the_columns_of_the_views() -> None:
    db = duckdb.connect(":memory:")
    db.execute(compared.SCHEMA)
    tables = [row[0] for row in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    real = united.public_views()
    for name in tables:
        mine = [(row[0], row[1]) for row in db.execute(f"DESCRIBE {name}").fetchall()]
        assert mine == [tuple(column) for column in real[name]], name


# --- bits ---


@pytest.mark.parametrize(
    ("dtype", "value", "width"),
    [("float64", "d", 64), ("float32", "f", 32), ("float16", "e", 16)],
)
def test_a_number_taken_apart_is_the_number(dtype: str, value: str, width: int) -> None:
    step = 1 if width == 16 else (1 << width) // 4099
    for code in range(0, 1 << width, step):
        number = struct.unpack(f">{value}", code.to_bytes(width // 8, "big"))[0]
        found = bits.spell(dtype, f"{code:x}")
        assert found is not None and found.hex == f"0x{code:0{width // 4}x}"
        if math.isnan(number) or math.isinf(number):
            assert found.kind == ("NaN" if math.isnan(number) else "infinite")
            continue
        if number == 0:
            assert found.kind == "zero" and found.words == ("-0" if code else "+0")
            continue
        sign, rest = found.words[0], found.words[1:]
        significand, power = rest.split(" x 2^")
        assert math.ldexp(float(significand), int(power)) * (-1 if sign == "-" else 1) == number
        assert (found.kind == "normal") == (abs(number) >= {64: 2.0**-1022, 32: 2.0**-126, 16: 2.0**-14}[width])


@pytest.mark.parametrize(
    ("dtype", "code", "words", "digits"),
    [
        ("bfloat16", "bf80", "-1.0 x 2^0", "1 01111111 0000000"),
        ("float8_e4m3fn", "7e", "+1.75 x 2^8", "0 1111 110"),  # 448, the largest
        ("float8_e4m3fn", "7f", "NaN", "0 1111 111"),
        ("float8_e5m2", "7c", "+infinity", "0 11111 00"),
        ("float8_e5m2", "7b", "+1.75 x 2^15", "0 11110 11"),  # 57344, the largest
        ("float8_e4m3fnuz", "80", "NaN", "1 0000 000"),
        ("float8_e4m3fnuz", "7f", "+1.875 x 2^7", "0 1111 111"),  # 240, the largest
        ("float8_e5m2fnuz", "01", "+0.25 x 2^-15", "0 00000 01"),  # 2^-17, the smallest
    ],
)
def test_numbers_of_few_bits(dtype: str, code: str, words: str, digits: str) -> None:
    found = bits.spell(dtype, code)
    assert found is not None and (found.words, found.digits) == (words, digits)


@pytest.mark.parametrize(
    ("dtype", "code"), [("int32", "ff"), ("float16", "1ffff"), ("float32", "x"), ("float32", None)]
)
def test_what_cannot_be_spelled_is_not(dtype: str, code: str | None) -> None:
    assert bits.spell(dtype, code) is None


def test_how_far_two_numbers_lie_apart() -> None:
    def apart(a: str, b: str) -> int | None:
        first, second = bits.spell("float32", a), bits.spell("float32", b)
        assert first is not None and second is not None
        return bits.apart(first, second)

    assert apart("bfc00000", "bfb80000") == 0x80000
    assert apart("00000000", "80000000") == 0, "+0 and -0"
    assert apart("00000001", "80000001") == 2, "the two numbers next to zero"
    assert apart("7fc00000", "7fc00000") is None
    a, b = bits.spell("float32", "bfc00000"), bits.spell("float32", "bfb80000")
    assert a is not None and b is not None
    assert a.digits == "1 01111111 10000000000000000000000"
    assert bits.differing(a, b) == " " * 11 + "^^^^", "1000 against 0111 in the mantissa"


@pytest.mark.parametrize(
    ("types", "values", "bits_", "words"),
    [
        (("float32", "float32"), (math.nan, -1.0), ("7fc00000", "bf800000"),
         ("value of A       NaN  0x7fc00000", "not comparable: NaN", "means            NaN")),
        (("float32", "bfloat16"), (-1.0, -1.0), ("bf800000", "bf80"),
         ("not comparable: the element types differ", "bits of B        1 01111111 0000000")),
        (("float16", "float16"), (0.0, -0.0), ("0000", "8000"),
         ("0: +0 and -0, other bits", "these differ     ^", "value of B       -0.0  0x8000")),
        (("float32", "float32"), (-1.0, -1.0), ("bf800000", "bf800000"), ("0: the same bits", "nothing: the same bits")),
        (("int8", "int8"), (1.0, 1.0), ("01", "01"), ("01, not spelled: its type is not known here", "not both bits are known")),
        (("float32", "float32"), (None, -1.0), (None, "bf800000"), ("value of A       unknown", "bits of A        not recorded")),
    ],
)  # fmt: skip
def test_a_token_says_what_its_bits_are(types: Any, values: Any, bits_: Any, words: Any) -> None:
    one = _stored(dtype_a=types[0], dtype_b=types[1])
    a, b = values
    row = TokenRow("r0", 3, safe("first"), 7, a, b, None, bits_[0], bits_[1])
    for glyphs in (UNICODE, ASCII):
        text = "\n".join(plain(line) for line in token_lines.token(one, row, 100, glyphs))
        for word in words:
            assert word in text, word
    assert "these differ" not in text or types[0] == types[1]


# --- strips and sizes ---


def test_a_cell_of_a_strip_is_the_share_of_its_valid_tokens() -> None:
    # 8 pieces of 4 positions; the third is masked whole.
    strip, valid = [0, 1, 0, 2, 3, 4, 0, 1], [4, 4, 0, 4, 4, 4, 4, 1]
    assert response.levels(strip, valid, 8) == [0, 1, response.NOTHING, 2, 3, 4, 0, 4]
    assert response.levels(strip, valid, 100) == response.levels(strip, valid, 8), "no more cells than pieces"
    # Two pieces a cell: 1 of 8, 2 of 4, 7 of 8, 1 of 5.
    assert response.levels(strip, valid, 4) == [1, 2, 4, 1]
    assert response.levels([1], [10_000], 1) == [1], "one token is seen"
    shown = plain(response.add_strip(Builder(40, UNICODE), strip, valid, 8).line())
    assert shown == "·░ ▒▓█·█"
    assert plain(response.add_strip(Builder(40, ASCII), strip, valid, 8).line()) == ".: +*#.#"
    assert plain(response.add_strip(Builder(40, UNICODE), None, None, 8).line()) == "not recorded"


def test_the_histogram_counts_by_powers_of_two_and_names_where_the_figures_lie() -> None:
    marks = {"mean": 0.00125, "max": 0.0625, "noise floor": None, "p50": 0.0}
    got = [plain(row).rstrip() for row in response.histogram({-3: 1, -5: 2, -9: 4}, 96, marks, 14, 60, UNICODE)]
    assert [row.split()[:2] + row.split()[2:4] for row in got[:7]] == [
        ["2^-4", "to", "2^-3", "1"], ["2^-5", "to", "2^-4", "-"], ["2^-6", "to", "2^-5", "2"],
        ["2^-7", "to", "2^-6", "-"], ["2^-8", "to", "2^-7", "-"], ["2^-9", "to", "2^-8", "-"],
        ["2^-10", "to", "2^-9", "4"],
    ]  # fmt: skip
    # 0.0625 is 2^-4, the smallest of its row; 0.00125 lies between 2^-10 and 2^-9.
    assert got[0].endswith("max") and got[6].endswith("mean")
    assert got[7].split() == ["same", "value", "89"]
    full, half = got[6].count("█"), got[2].count("█")
    assert full == 2 * half, "a bar is as long as its count"
    few = [plain(row).split() for row in response.histogram(dict.fromkeys(range(-60, 0), 1), 100, {}, 10, 60, ASCII)]
    assert len(few) <= 11 and sum(int(row[3]) for row in few[:-1]) == 60, "rows are put together, nothing is lost"
    assert "no token has another value" in plain(response.histogram({}, 4, {}, 9, 60, UNICODE)[0])


def test_a_ruler_says_the_last_position_and_how_many_a_cell_holds() -> None:
    assert plain(response.ruler(1024, 128, 64, 80, UNICODE)) == " 0  16 positions a cell" + " " * 38 + "1023"


# --- words ---


def _stored(**values: Any) -> Comparison:
    store = FakeStore()
    compared.comparison(store, 3, **values)
    return comparisons(store.open(""), "comparisons WHERE true", (), NEWEST_FIRST)[0]


def test_a_label_is_a_sign_and_a_word_and_colour_comes_third() -> None:
    for glyphs in (UNICODE, ASCII):
        labels = [lines.label(_stored(label=name), glyphs)[0] for name in ("PASS", "FAIL", "INVALID", "VACUOUS", None)]
        assert [text.split(" ", 1)[1] for text in labels] == ["PASS", "FAIL", "INVALID", "VACUOUS", "no label"]
        assert len({text[0] for text in labels}) == 5
    locked = _stored(
        label="PASS", admissibility="locked", is_evidence=False, not_evidence_because="locked: after the fault"
    )
    assert lines.label(locked, UNICODE) == ("✓ PASS", "dim"), "what does not count is not green"
    passed = {"label": "PASS", "state": "pass"}
    assert lines.label(_stored(**passed), UNICODE) == ("✓ PASS", "ok")
    for lowered in ({"marked": True}, {"changed": "file A is another since"}, {"planted_error": "one bit"}):
        one = _stored(label="PASS", state="inconclusive", is_evidence=False, **lowered)
        assert lines.label(one, UNICODE) == ("✓ PASS", "dim"), lowered
    row = plain(lines.row(locked, 100, UNICODE, selected=False))
    assert "✖ locked" in row and "after the fault" in row and "[0.00125]" in row


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "5/96"), ({"mismatched_tokens": None}, "?/96"), ({"valid_tokens": 0}, "nothing"),
        ({"kind": "trace", "probes": 40, "probes_differing": 3}, "3/40 pr."), ({"kind": "trace", "probes": 0}, "no probe"),
    ],
)  # fmt: skip
def test_how_much_differs(values: dict[str, Any], words: str) -> None:
    assert lines.differs(_stored(**values)) == words


def test_what_is_compared_is_said_under_a_table_without_a_detail_beside_it() -> None:
    one = _stored(side_a="/r/rollout.pt", side_b="/r/again.pt", control_group="inference_alone", variant="A/A", is_evidence=False,
                  not_evidence_because="not shown: inputs")  # fmt: skip
    first, second = (plain(line).rstrip() for line in lines.about(one, 80, UNICODE))
    assert (first, second) == ("  rollout.pt against again.pt, inference alone, A/A", "  not shown: inputs")
    assert "inference" in plain(lines.row(one, 80, UNICODE, selected=False))
    small = replace(one, logprob_mae=8.0142e-05)
    assert "[8.014e-05]" in plain(lines.row(small, 80, UNICODE, selected=False)), "no digit of it is cut off"


def test_distances_are_listed_or_where_they_are_many_told_by_their_ends_and_their_middle() -> None:
    """Of 9 distances the fifth is the median: two are 1, two 2 or 3, and three 4 to 7."""

    def told(lengths: list[int], counts: list[int]) -> str:
        found = [
            plain(line) for line in one_lines.numbers(_stored(ulp_lengths=lengths, ulp_counts=counts), 200, UNICODE)
        ]
        return next(line.removeprefix("numbers apart").strip() for line in found if line.startswith("numbers apart"))

    assert told([1, 3], [2, 3]) == "2 by 1, 3 by 4 to 7"
    assert told([1, 2, 3, 5, 9], [2, 2, 3, 1, 1]) == "least by 1, most by 256 to 511, the median by 4 to 7"
    assert told([9, 5, 3, 2, 1], [1, 1, 3, 2, 3]).endswith("the median by 2 to 3"), "in any order"


def test_figures_without_a_value_say_why() -> None:
    one = _stored(
        kl_k3=None, cosine=None, mismatched_tokens=None, undefined=["kl_k3: a token of d > 709", "cosine: zero norm"]
    )
    text = "\n".join(plain(line) for line in one_lines.detail(one, 200, UNICODE))
    assert "undefined: a token of d > 709  (diagnostic statistic)" in text and "undefined: zero norm" in text
    assert "not compared: the element types differ" in text
    floor0 = "\n".join(
        plain(line) for line in one_lines.noise(replace(one, floor_a=0.0, floor_b=0.0, noise_ratio=None), 80, UNICODE)
    )
    assert "floor 0, no ratio" in floor0
    none = "\n".join(plain(line) for line in one_lines.noise(replace(one, floor_a=None, noise_ratio=None), 80, UNICODE))
    assert none.count("no repeats show it") == 1 and "unknown" in none


def test_figures_of_each_policy_version_stand_side_by_side() -> None:
    """4 of 56 are 7.142..., 1 of 3,000 are 0.033...; what nobody compared has no share."""

    def drawn(width: int, glyphs: Any, *rows: VersionRow) -> list[str]:
        return [plain(line).rstrip() for line in one_lines.versions(rows, width, glyphs)]

    some = (VersionRow(safe("9"), 56, 4, 0.0021), VersionRow(safe("step-10"), 3000, 1, 0.00006), VersionRow(None, 3, None, None),
            VersionRow(safe("11+12"), 8, 8, 0.5))  # fmt: skip
    for width, glyphs in ((60, UNICODE), (46, UNICODE), (60, ASCII)):
        said = drawn(width, glyphs, *some)
        bar = "█" if glyphs is UNICODE else "#"
        assert said[0].startswith(" by policy version 4 in this dump ")
        assert said[2].split()[:5] == ["9", "4/56", "7.1", "%", "0.0021"]
        assert said[3].split()[:5] == ["step-10", "1/3000", "<0.1", "%", "6e-05"]
        # Of at most 12 cells the largest share has all, a fourteenth of it one, and so has the smallest that there is.
        bars = [line.count(bar) for line in said[2:6]]
        assert bars == ([1, 1, 0, 12] if width == 60 else [0, 0, 0, 0])
        assert said[4].split() == ["unknown", "?/3", "-", "-"]
        assert said[5].split()[:4] == ["11+12", "8/8", "100", "%"]
        assert said[6].strip().startswith("- with +: of responses that do not")
        assert all(len(line) <= width for line in said)
    assert len(drawn(60, UNICODE, some[0])) == 3 and "one in this dump" in drawn(60, UNICODE, some[0])[0]
    shares = [(0.0, "0 %"), (1.0, "100 %"), (0.99999, ">99.9 %"), (0.5, "50 %"), (0.0004, "<0.1 %"), (0.125, "12.5 %")]
    assert [one_lines.percent(share) for share, _ in shares] == [words for _, words in shares]


def test_what_waits_is_said_with_its_progress_and_why_it_failed() -> None:
    def queued(state: str, **values: Any) -> Queued:
        held = {"run_id": RUN, "step": 4, "why": safe(""), "side_a": "/r/a.pt", "side_b": "/r/b.pt", "tokens_done": None,
                "tokens_total": None, "observed_at": NOW} | values  # fmt: skip
        return Queued(state=safe(state), **held)

    queue = (
        queued("waiting"),
        queued("running", tokens_done=1, tokens_total=3),
        queued("failed", why=safe("cut short")),
    )
    assert lines.queue_words(queue) == "1 running 33 %, 1 waiting, 1 failed"
    rows = [plain(row).split(maxsplit=2) for row in lines.queue_rows(queue, 5, 80, UNICODE)]
    assert [row[1] for row in rows] == ["failed", "running", "waiting"]
    assert plain(lines.queue_rows(queue, 5, 80, UNICODE)[0]).endswith("a.pt against b.pt  cut short")
    assert plain(lines.queue_rows(queue, 2, 80, UNICODE)[-1]).strip() == "and 2 more"
    assert lines.queue_words((queued("running"),)) == "1 running", "not known of how many"
    assert lines.queue_words(()) == ""
    under_way = plain(lines.nothing(queue, 80, UNICODE)[0])
    assert "no comparison is done yet: 1 running" in under_way
    assert "tic-daemon compare A B" in "\n".join(plain(line) for line in lines.nothing((), 80, UNICODE))


def test_labels_that_do_not_count_are_counted_apart_and_what_runs_is_not_hidden_by_what_waits() -> None:
    store = FakeStore()
    for number in range(7):
        compared.comparison(
            store, number, label="PASS", state="pass" if number < 2 else "inconclusive", marked=number > 1
        )
    compared.comparison(store, 8, label="INVALID")
    for number in range(230):
        state = "failed" if number == 228 else "running" if number == 229 else "waiting"
        compared.insert(store, "comparison_queue", rec_id=number, run_id=RUN, step=number, how="manifest", state=state, why="",
               side_a=f"/r/{number}/a.pt", side_b=f"/r/{number}/b.pt", host="n", task=f"t{number}",
               observed_at=NOW + timedelta(seconds=number))  # fmt: skip
    short = of_run(store.open(""), RUN)
    assert dict(short.labels) == {"PASS": 2, "PASS (not counted)": 5, "INVALID": 1} and short.total == 8
    assert lines.queue_words(short.queue) == "1 running, 198 waiting, 1 failed, and more"
    assert [one.comparison_id for one in short.newest] == [f"{number:016x}" for number in (8, 6, 5, 4, 3, 2)]
    # Two stores have them, and one of the two knows of the marks.
    other = FakeStore()
    for number in range(7):
        compared.comparison(other, number, label="PASS", state="pass")
    assert dict(of_run(TwoStores(store, other), RUN).labels) == dict(short.labels)  # type: ignore[arg-type]


def test_status_says_how_many_labels_do_not_count() -> None:
    row = {
        "run_id": RUN,
        "label": "PASS",
        "admissibility": "admissible",
        "comparisons": 3,
        "evidence": 3,
        "idle": False,
    }
    idle = {**row, "comparisons": 2, "evidence": 0, "idle": True}
    assert comparing.counts([row]) == "3 PASS; 3 evidence"
    assert comparing.counts([row, idle]) == "5 PASS (2 not counted); 3 evidence"


# --- the way down ---

# Log-probabilities of two short responses, float32, and which positions are valid. By hand: of r0 the positions 1 and 3
# differ, position 2 is masked; of r1 none does.
ROLLOUT = {"r0": [-0.5, -1.5, -9.0, -2.0], "r1": [-0.25, -0.125]}
TRAINER = {"r0": [-0.5, -1.4375, -7.0, -2.5], "r1": [-0.25, -0.125]}
MASK = {"r0": [True, True, False, True], "r1": [True, True]}


def _by_hand() -> tuple[FakeStore, str]:
    """A store with that comparison; every figure below is calculated here, one token after the other."""
    store, differences, differ = FakeStore(), [], 0
    store.demo()
    for request, rollout in ROLLOUT.items():
        for a, b, valid in zip(rollout, TRAINER[request], MASK[request], strict=True):
            if valid:
                differences.append(b - a)
                differ += struct.pack("<f", a) != struct.pack("<f", b)
    sizes = [abs(d) for d in differences]
    assert (len(sizes), differ, max(sizes)) == (5, 2, 0.5)
    name = compared.comparison(
        store, 7, valid_tokens=5, mismatched_tokens=2, sequences=2, sequences_differing=1, independent_sequences=2,
        logprob_mae=sum(sizes) / 5, logprob_max=0.5, max_request="r0", max_position=3, first_request="r0", first_position=1,
        earliest_request="r0", earliest_position=1, longest_run=2, longest_run_unbroken=1, longest_run_request="r0",
        magnitude_powers=[-3, 0], magnitude_counts=[1, 1], p50=0.0, p95=0.5, p99=0.5,
    )  # fmt: skip
    compared.sequence(store, name, "r0", [0, 1, 0, 1], valid_tokens=3, strip_valid=[1, 1, 0, 1], response_length=4,
                      max_abs=0.5, max_position=3, first_position=1, longest_run=2)  # fmt: skip
    compared.sequence(store, name, "r1", [0, 0], valid_tokens=2, strip_valid=[1, 1], response_length=2, max_abs=0.0)
    compared.token(store, name, "r0", 1, -1.5, -1.4375)
    compared.token(store, name, "r0", 3, -2.0, -2.5, why="largest")
    store.grow()
    return store, name


async def test_from_the_run_down_to_the_bits_and_back() -> None:
    store, _ = _by_hand()
    async with stage((80, 24), store=store, demo=False) as s:
        await s.open_run(RUN)
        newest = s.app.screen.query_one(NewestComparisons)
        await s.until(lambda: newest.row_count == 1)
        await s.shows("comparisons 1: 1 no label", "c lists them")
        while s.app.screen.focused is not newest:
            await s.press("tab")
        await s.press("enter")
        await s.until(lambda: isinstance(s.app.screen, ComparisonScreen) and s.app.screen.within.row_count == 2)
        # 0.0625 + 0.5 over 5 tokens; cells of r0: equal, differs, masked, differs.
        await s.shows(
            "r0                         2/3      1       0.5 ·█ █", "r1                         0/2      -         0 ··"
        )
        await s.press("tab")
        await s.shows("logprob_mae      0.1125", "2 tokens of 1 sequence", "5 in 2 sequences, independent 2")
        await s.press("tab", "enter")
        await s.until(lambda: isinstance(s.app.screen, SequenceScreen) and s.app.screen.tokens.row_count == 2)
        await s.shows(
            "2 of 3 valid tokens, first at 1", "tokens kept 2 of 2", "first that differs", "largest difference"
        )
        await s.press("down", "enter")
        await s.until(lambda: isinstance(s.app.screen, TokenScreen))
        # -2.0 is 0xc0000000, -2.5 is 0xc0200000: exponent 10000000, mantissa 0 and 01.
        await s.shows("value of A       -2.0  0xc0000000", "value of B       -2.5  0xc0200000", "B - A            -0.5",
                      "bits of A        1 10000000 00000000000000000000000",
                      "bits of B        1 10000000 01000000000000000000000",
                      "these differ                 ^", f"{0x200000} representable numbers",
                      "means            -1.0 x 2^1, normal", "10000000 = 128, bias 127, 2^1")  # fmt: skip
        await s.press("enter")
        await s.shows("file of side A", "/results/step7/rollout.pt", "no manifest names it")
        await s.press("enter")
        await s.shows("nothing lies below them")
        for kind in (TokenScreen, SequenceScreen, ComparisonScreen):
            await s.press("backspace")
            await s.until(lambda kind=kind: isinstance(s.app.screen, kind))
        await s.press("backspace")
        await s.until(lambda: s.app.screen.name_in_table == "run")  # type: ignore[attr-defined]


async def test_of_thousands_of_sequences_only_those_near_the_cursor_are_asked_for() -> None:
    store = FakeStore()
    store.demo()
    name = compared.comparison(store, 7)
    store.write(
        "INSERT INTO comparison_sequences (comparison_id, request, valid_tokens, mismatched_tokens, max_abs, strip, strip_valid)"
        " SELECT ?, 'q' || lpad(n::VARCHAR, 5, '0'), 100, n % 97, n / 5000, [n % 97, 0], [97, 3] FROM range(5000) t(n)",
        [name],
    )
    # Worst first, by hand: 96 of 100 differ where n % 97 = 96; of those the largest difference first.
    worst = sorted(range(5000), key=lambda n: (-(n % 97), -n))
    async with stage((80, 24), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        await s.until(lambda: s.app.screen.table.row_count == 1)  # type: ignore[attr-defined]
        await s.press("enter")
        view = s.app.screen
        assert isinstance(view, ComparisonScreen)
        await s.until(lambda: view.within.row_count == 5000)
        assert [row.request for row in view.within.rows] == [f"q{n:05d}" for n in worst[:WINDOW]]
        store.asked.clear()
        await s.press("G")
        await s.until(lambda: view.within.selected is not None and view.within.selected.request == f"q{worst[-1]:05d}")
        await s.shows(f"q{worst[-1]:05d}")
        view.within.move_to(2500)
        await s.until(
            lambda: view.within.selected is not None and view.within.selected.request == f"q{worst[2500]:05d}"
        )
        asked = [sql for sql in store.asked if "strip_valid" in sql]
        assert len(asked) == 2 and all(f"LIMIT {WINDOW}" in sql for sql in asked)
        await s.press("s")
        await s.until(lambda: view.within.selected is not None and view.within.selected.request == "q00000")


async def test_a_trace_begins_at_the_first_difference_wherever_it_stands() -> None:
    store = FakeStore()
    store.demo()
    name = compared.comparison(store, 7, kind="trace", probes=3000, probes_differing=900)
    store.write(
        "INSERT INTO trace_boundaries (comparison_id, execution_order, request, boundary, slice, state) SELECT ?, n, 'r0',"
        " 'layer' || n, 'all', CASE WHEN n < 2100 THEN 'equal' WHEN n = 2100 THEN 'differs' ELSE 'downstream' END"
        " FROM range(3000) t(n)",
        [name],
    )
    compared.insert(store, "trace_first_divergence", comparison_id=name, request="r0", boundary="layer2100", slice="all",
                    execution_order=2100, last_equal_boundary="layer2099", last_equal_slice="all")  # fmt: skip
    async with stage((80, 24), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        await s.until(lambda: s.app.screen.table.row_count == 1)  # type: ignore[attr-defined]
        await s.press("enter")
        await s.shows("2099 = last equal   layer2099", "2100 ↯ FIRST diff.  layer2100", "2101 ~ downstream   layer2101",
                      "first difference layer2100 all", "last that agrees layer2099 all")  # fmt: skip
        await s.press("enter")
        await s.shows("↯ FIRST diff.", "nothing: only hashes were kept")
        await s.press("enter")
        await s.shows("file of side B")


async def test_the_list_filters_and_marks_and_says_what_to_do_without_any() -> None:
    store = FakeStore()
    store.demo()
    async with stage((120, 40), store=store, demo=False) as s:
        await s.open_run(RUN)
        await s.press("c")
        await s.shows("no comparison yet. What to do:", "tic-daemon compare A B")
        compared.some(store)
        view = s.app.screen
        assert isinstance(view, ComparisonsScreen)
        await s.until(lambda: view.table.row_count == 14)
        await s.shows("1 running 43 %, 2 waiting, 1 failed", "trainer.pt is cut")
        await s.press("slash", *"label", "enter")
        await s.shows("is FAIL", "is PASS", "is unknown")
        await s.press(*"FAIL", "enter")
        await s.until(lambda: [one.label for one in view.table.rows] == ["FAIL"])
        # The control groups of step 11.
        await s.shows("matching 1 of 14", "inference alone  = equal", "training alone   · not run", "cross-stack      ≠ differs",
                      "score layer      ? inconclusive", "rules out        inference", "run training alone")  # fmt: skip
        await s.press("d", "slash", *"dtype", "enter")
        await s.shows("is float32")
        await s.press("escape", "escape")
        view.table.move_to(11)
        await s.press("i")
        await s.until(lambda: isinstance(s.app.screen, MarkScreen))
        await s.press(*"wrong dump", "tab", "tab", "enter")
        await s.until(lambda: s.said)
        said = s.said[0]
        assert (said.run_id, said.attempt, said.scope, said.target) == (RUN, 1, "record", f"comparison:{11:016x}")


async def test_a_frozen_list_takes_nothing_new_when_the_cursor_moves() -> None:
    store = FakeStore()
    store.demo()
    compared.some(store)
    async with stage((120, 40), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        view = s.app.screen
        assert isinstance(view, ComparisonsScreen)
        await s.until(lambda: view.table.row_count == 14)
        view.table.move_to(5)
        await s.shows("PAUSED", "no comparison of this step is of a control group")
        await s.until(lambda: view.view_shown().demand.anchor == view.table.around)  # type: ignore[union-attr]
        await s.press("space")
        compared.comparison(store, 20)
        view.table.move_to(11)
        await s.shows("newer data waits", "not read yet", "comparisons 14")
        assert view.table.row_count == 14
        await s.press("space")
        await s.shows("comparisons 15", "inference alone  = equal")


async def test_what_did_not_change_is_not_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.demo()
    compared.some(store)
    async with stage((120, 40), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        await s.until(lambda: s.app.screen.table.row_count == 14)  # type: ignore[attr-defined]
        s.app.screen.table.move_to(11)  # type: ignore[attr-defined]
        for words in ("rules out        inference", "all of it", "tokens kept 2", "these differ", "file of side B"):
            await s.shows(words)
            await s.pilot.pause(0.2)
            painted: list[object] = []
            with monkeypatch.context() as patch:
                patch.setattr(Widget, "refresh", lambda self, *_, painted=painted, **__: painted.append(self) or self)
                s.app._draw()
            assert painted == [], words
            await s.press("enter")


async def test_a_row_keeps_its_end_when_a_scrollbar_takes_a_cell() -> None:
    store = FakeStore()
    store.demo()
    name = compared.comparison(store, 7)
    store.write("UPDATE comparisons SET side_a = '/deep/' || repeat('x', 80) || '/rollout.pt'")
    async with stage((80, 24), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        await s.until(lambda: s.app.screen.table.row_count == 1)  # type: ignore[attr-defined]
        await s.press("enter", "tab", "enter")
        await s.shows("file of side B", "no manifest names it")
        bottom = s.app.screen.bottom  # type: ignore[attr-defined]
        assert not bottom.show_vertical_scrollbar
        # The files are found, which takes more lines than there are, and nothing else is drawn after that.
        for side in ("rollout", "trainer"):
            path = "/deep/" + "x" * 80 + "/rollout.pt" if side == "rollout" else "/results/step7/trainer.pt"
            compared.insert(store, "artifacts", run_id=RUN, state="verified", path=path, host="node1", bytes_size=1, sha256=name,
                            expected_sha256=name, modified_at=NOW, observed_at=NOW)  # fmt: skip
        store.grow()
        await s.until(lambda: bottom.show_vertical_scrollbar)
        await s.until(lambda: "x/rollout.pt" in s.text and bottom._made_for == 79)


async def test_files_that_changed_since_are_said_to_be_other_bytes() -> None:
    store = FakeStore()
    store.demo()
    compared.some(store)
    async with stage((120, 60), store=store, demo=False) as s:
        s.app.select_run(RUN)
        await s.press("c")
        view = s.app.screen
        assert isinstance(view, ComparisonsScreen)
        await s.until(lambda: view.table.row_count == 14)
        view.table.move_to(11)
        await s.press("enter", "tab", "enter")
        await s.shows("✓ verified", "↯ changed: it is another file since; other bytes than were compared")


# --- a real store ---


def _told(**values: Any) -> dict[str, Any]:
    """A row of table `comparison`: 5 of 96 tokens differ in 2 of 3 sequences."""
    return {
        "rec_id": 900, "host": "node7", "root": "/r", "id": "c1", "task": "t1", "how": "manifest", "run": "grpo-a", "run_how": "manifest",
        "step": 2, "policy": "p2", "manifest": "", "kind": "tokens", "control": "cross_stack", "variant": "", "goal": "cross_stack",
        "side_a": "/r/a.pt", "side_b": "/r/b.pt", "valid_tokens": 96, "mismatched_tokens": 5, "sequences": 3,
        "sequences_differing": 2, "logprob_mae": 0.5, "logprob_max": 2.0, "floor_a": 0.25, "floor_b": 0.125, "dtype_a": "float32",
        "dtype_b": "float32", "provenance_a": "native", "provenance_b": "native", "magnitude_powers": [1, 2],
        "magnitude_counts": [4, 1], "label": "FAIL", "reason": "5 of 96 differ", "rule": 11, "exit_code": 10, "plant": "",
        "part_a": "", "part_b": "", "criterion": "", "report": "", "sha256_a": "aa", "sha256_b": "bb",
        "produced_how_a": "", "produced_how_b": "", "observed_at": datetime(2026, 11, 29, 12, 30),
    } | values  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one judged comparison, a trace, and something that waits, in the tables themselves."""
    workspace = tmp_path_factory.mktemp("compared")
    write(workspace, fault=False, mark=False)
    at = datetime(2026, 11, 29, 12, 31)
    rows = [
        ("comparison", _told()),
        ("comparison", _told(rec_id=901, id="c2", task="t2", kind="trace", label="", reason="", probes=3, probes_differing=1,
                             valid_tokens=None, mismatched_tokens=None, logprob_mae=None, step=3, control="", observed_at=at)),
        *(("comparison_sequence", {"rec_id": 902 + n, "comparison_id": "c1", "request": f"r{n}", "valid_tokens": 32,
                                   "mismatched_tokens": n, "sample_group": "", "policy": "", "strip": [0, n],
                                   "strip_valid": [16, 16], "observed_at": at}) for n in range(3)),
        *(("comparison_version", {"rec_id": 905 + n, "comparison_id": "c1", "policy": version, "valid_tokens": valid,
                                  "mismatched_tokens": differ, "logprob_mae": mae, "observed_at": at})
          for n, (version, valid, differ, mae) in enumerate((("10", 30, 3, 0.5), ("mixed", 6, None, None), ("9", 60, 2, 0.25)))),
        ("comparison_token", {"rec_id": 910, "comparison_id": "c1", "request": "r2", "position": 20, "why": "first",
                              "value_a": -2.0, "value_b": -2.5, "bits_a": "c0000000", "bits_b": "c0200000", "difference": -0.5,
                              "token_id": 7, "observed_at": at}),
        *(("trace_boundary", {"rec_id": 920 + n, "comparison_id": "c2", "execution_order": n, "request": "r0",
                              "boundary": f"layer{n}", "slice": "all", "state": state, "observed_at": at})
          for n, state in enumerate(("equal", "equal", "differs"))),
        ("comparison_task", {"rec_id": 930, "host": "node7", "root": "/r", "task": "t3", "how": "manifest", "run": "grpo-a",
                             "run_how": "manifest", "step": 4, "manifest": "", "side_a": "/r/c.pt", "side_b": "", "content": "",
                             "state": "running", "why": "", "tokens_done": 3, "tokens_total": 4, "observed_at": at}),
    ]  # fmt: skip
    with duckdb.connect(str(StoreLayout.find(workspace).database)) as db:
        for table, values in rows:
            marks = ", ".join("?" * len(values))
            db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))
    return workspace


def test_the_views_of_a_real_store_are_read_as_they_are(real: Path) -> None:
    reader = open_reader(real)
    try:
        ask = Ask(
            Demand("comparisons", "grpo-a", compare=CompareAsk(board=("grpo-a", 1, 2)), choices="dtype"),
            "",
            None,
            math.inf,
        )
        view = ComparisonsReading("grpo-a", ()).view(reader, ask)
        assert [(one.comparison_id, one.label, one.noise_ratio) for one in view.window.rows] == [
            ("c1", "FAIL", 2.0),
            ("c2", None, None),
        ]
        assert (view.total, view.matching, view.choices["dtype"]) == (2, 2, (("float32", 2),))
        assert view.window.rows[0].magnitudes == {1: 4, 2: 1} and view.window.rows[0].run_id == "grpo-a"
        assert view.board is not None and (view.board.cross_stack, view.board.training_alone) == ("differs", "not run")
        assert [(one.state, lines.progress(one)) for one in view.queue] == [("running", "75 %")]
        for item, left in ((Filter("label", "is", "FAIL", table="comparisons"), ["c1"]),
                           (Filter("mismatched_tokens", ">=", "5", table="comparisons"), ["c1"]),
                           (Filter("kind", "is not", "tokens", table="comparisons"), ["c2"])):  # fmt: skip
            filtered = ComparisonsReading("grpo-a", (item,)).view(
                reader, replace(ask, demand=replace(ask.demand, filters=(item,)))
            )
            assert [one.comparison_id for one in filtered.window.rows] == left and filtered.matching == 1

        one = CompareAsk("c1", request="r2", artifacts=True)
        found = ComparisonReading("c1").view(reader, replace(ask, demand=Demand("comparison", "grpo-a", compare=one)))
        assert [row.request for row in found.sequences] == ["r2", "r1", "r0"] and found.total == 3
        assert found.sequence is not None and list(found.sequence.strip or ()) == [0, 2]
        assert [(t.position, t.bits_b) for t in found.tokens or ()] == [(20, "c0200000")] and found.artifacts == ()
        assert [(v.policy, v.valid_tokens, v.mismatched_tokens, v.logprob_mae) for v in found.versions] == [
            ("9", 60, 2, 0.25), ("10", 30, 3, 0.5), ("mixed", 6, None, None),
        ], "numbers as numbers"  # fmt: skip
        trace = ComparisonReading("c2").view(
            reader, replace(ask, demand=Demand("comparison", "grpo-a", compare=CompareAsk("c2")))
        )
        assert [row.state for row in trace.boundaries] == ["equal", "equal", "differs"] and trace.divergence_at == 2
        assert trace.divergence is not None and (trace.divergence.boundary, trace.divergence.last_equal_boundary) == (
            "layer2",
            "layer1",
        )
        gone = ComparisonReading("c9").view(
            reader, replace(ask, demand=Demand("comparison", "grpo-a", compare=CompareAsk("c9")))
        )
        assert gone.row is None and gone.sequences == ()
        short = of_run(reader, "grpo-a")
        assert [one.comparison_id for one in short.newest] == ["c2", "c1"] and short.labels == (("", 1), ("FAIL", 1))
    finally:
        reader.close()


class TwoStores:
    """A reader of two stores: what each answers is put together as `gather` says; without it they say the same."""

    def __init__(self, *stores: FakeStore) -> None:
        self._readers = [store.open("") for store in stores]

    def query(self, sql: str, params: Any = (), *, gather: str = "", **_: Any) -> Any:
        answers = [reader.query(sql, params) for reader in self._readers]
        if not gather:
            return answers[0]
        db = duckdb.connect(":memory:")
        tables = [reader._store.db.execute(sql, list(params)).to_arrow_table() for reader in self._readers]
        db.register("part", pa.concat_tables(tables))
        return replace(answers[0], rows=db.execute(gather).fetchall())

    def connection(self) -> Any:
        return Connection("several", "connected", NOW, "", "fake")


def test_what_two_stores_have_is_shown_once_and_as_the_one_that_lowers_it_says() -> None:
    stores = FakeStore(), FakeStore()
    for n, store in enumerate(stores):
        values = (
            {} if n == 0 else {"admissibility": "locked", "is_evidence": False, "not_evidence_because": "locked: late"}
        )
        name = compared.comparison(store, 3, label="FAIL", **values)
        compared.comparison(store, 4 + n, label="PASS")
        for request in ("r0", "r1"):
            compared.sequence(store, name, request, [1, 0])
        compared.token(store, name, "r0", 7, -1.5, -1.4375)
    reader: Any = TwoStores(*stores)
    ask = Ask(Demand("comparisons", RUN, choices="label"), "", None, math.inf)
    view = ComparisonsReading(RUN, ()).view(reader, ask)
    assert [(one.step, one.admissibility) for one in view.window.rows] == [
        (3, "locked"),
        (4, "admissible"),
        (5, "admissible"),
    ]
    assert (view.total, view.choices["label"]) == (3, (("PASS", 2), ("FAIL", 1)))
    demand = Demand("comparison", RUN, compare=CompareAsk(name, request="r0"))
    one = ComparisonReading(name).view(reader, replace(ask, demand=demand))
    assert one.row is not None and one.row.admissibility == "locked" and one.total == 2
    assert [row.request for row in one.sequences] == ["r0", "r1"] and len(one.tokens or ()) == 1


def test_status_and_watch_tell_of_comparisons(real: Path) -> None:
    reader = open_reader(real)
    try:
        told = report(reader, glyphs=ASCII)
        assert re.search(r"  compared    1 FAIL, 1 no verdict; .*0 evidence", told.text)
        assert re.search(r"newest step 3, 1 probes differ; .*; not evidence: .*; \d", told.text)
        (run,) = told.data["runs"]
        assert run["newest_comparison"]["comparison_id"] == "c2"
        news = News(reader, "grpo-a")
        first, second, waits = list(news._comparisons())
        assert (first.word, first.run, second.data["comparison_id"]) == ("comparison", "grpo-a", "c2")
        assert first.text.startswith(
            "step 2, 5 of 96 tokens differ, logprob_mae 0.5; FAIL: 5 of 96 differ; not evidence: "
        )
        assert (waits.word, waits.text) == ("comparing", "comparing step 4, c.pt: 3 of 4 tokens, 75 %")
        assert list(news._comparisons()) == [], "each is told once"
        assert list(News(reader, "another")._comparisons()) == []
    finally:
        reader.close()


def test_watch_tells_of_more_comparisons_than_are_asked_for_at_a_time() -> None:
    at = datetime(2026, 11, 29)
    rows = [
        {"observed_at": at, "comparison_id": f"{n:05d}", "run_id": RUN, "step": n, "kind": "tokens", "mismatched_tokens": 1,
         "valid_tokens": 2, "logprob_mae": None, "is_evidence": True, "label": "FAIL", "state": "fail", "reason": "r"}
        for n in range(2 * comparing.PAGE + 3)
    ]  # fmt: skip
    asked = []

    def ask(sql: str, params: Any = (), *, gather: str) -> list[dict[str, Any]]:
        if "comparison_queue" in sql:
            return []
        asked.append(params)
        since, _, name = params
        found = [row for row in rows if (row["observed_at"], row["comparison_id"]) > (since, name)]
        return sorted(found, key=lambda row: (row["observed_at"], row["comparison_id"]))[: comparing.PAGE]

    news = comparing.ComparedNews(ask)
    assert [row["step"] for _, _, row in news.told()] == list(range(len(rows))) and len(asked) == 3
    rows.append({**rows[0], "comparison_id": "late", "observed_at": at - timedelta(minutes=30)})
    assert [row["comparison_id"] for _, _, row in news.told()] == ["late"], "of another store, a little behind"
