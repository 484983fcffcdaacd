"""What reaches a real terminal: the bytes themselves."""

from __future__ import annotations

import re
import signal

import pytest

from tests.tui.terminal import Terminal

APP = ["-m", "tests.tui.hostile_app"]
# What Textual itself sends: modes, keyboard protocol, cursor, colours, queries, the pointer's shape. Everything else would be content.
ALLOWED = re.compile(
    rb"\x1b(?:\[[0-9;:]*[mHJKABCDGdrhlsun]|\[\?[0-9;]*(?:\$p|[hlu])|\[[<=>?][0-9;]*[a-zA-Z]|\[[0-9;]* q|\[[0-9;]*t|[78=>]|\]22;default\x07)"
)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.slow)], ids=["80x24", "120x40"])
def test_nothing_hostile_reaches_the_terminal(size: tuple[int, int]) -> None:
    terminal = Terminal([*APP, "hostile"], size)
    terminal.shows("A^[]0;O", "locked", "? help")
    walk = (
        ("\r", "LOCKED"),  # the run; then help over it, the mark dialog with a pasted escape, the retract dialog
        ("?", "keys"),
        ("\x1b", "FOLLOW"),
        ("i", "for the"),
        ("\x1b[200~p\x1b]0;PASTED\x07\x1b[201~x", "px"),
        ("\r", "NOT written"),
        ("R", "retract"),
        ("\x1b", "FOLLOW"),
        ("\t\r", "effect"),
        ("\x7f", "FOLLOW"),
        ("f\r", "standing"),
        ("\x1b[C\x1b[C\x1b[C", ""),
        ("\x1b", "FOLLOW"),
        ("3", "none: / adds one"),  # the records; a hostile column is filtered by, left out, switched and dropped
        ("/", "by which column"),
        ("admis\r", "admissibility is"),
        ("\r", "filters" if size[1] < 16 else "on   admissibility"),
        ("d!", "is not"),
        ("o", "off  "),
        ("d", "none: / adds one"),
        ("/run_id\r", "run_id is"),
        ("\x1b", "by which column"),
        ("\x1b", "none: / adds one"),
        ("4", "KV cache"),  # the state: every lane is gone to, and what is under the cursor opened
        *((key, "") for key in "jjjjjjjjjjkkkkkkkkkkkk+v>-0ejjj"),
        ("\x1b[C\x1b[Dg", ""),
        ("\r", "offset"),
        ("\x1b", "claimed only"),
        ("5", "faults 2"),  # the faults, the palette over them with hostile runs and metrics
        ("\r", "effect"),
        ("\x1b", "faults"),
        ("c", "to be compared"),  # comparisons: traces and a probe, then a sequence, a token, the files
        ("\r", "probes"),
        ("\r", "boundary "),
        ("\x7f\x7f", "to be compared"),
        ("kk\r", "sequences"),
        ("s\t", "all of it"),
        ("\t\r", "tokens kept"),
        ("\r", "value of A"),
        ("\r", "file of side A"),
        ("\x7f\x7f", "tokens kept"),
        ("\x7f\x7f", "to be compared"),
        ("6", "candidates 2"),  # the gates, a cell and its evidence; then every page, each opened
        ("\x1b[C\x1b[C\x1b[D\tjj\r", "what to do"),
        ("\t\x06\x06\t", "what to do"),
        ("\x7f", "[gates]"),
        ("G\r", "what to do"),
        ("\x7f", "[gates]"),
        (">", "chain BROKEN"),
        ("/kind\r", "kind is"),
        ("\x1b", "by which column"),
        ("\x1b", "chain BROKEN"),
        ("k\r", "row 10 exemption"),
        ("\x7f", "[ledger]"),
        (">", "met of 9"),
        ("\tj\r", "arm b"),
        ("\x7f", "[pairs]"),
        (">", "records 2 criteria"),
        ("\r", "evidence › criterion"),
        ("\x7f", "[criteria and cases]"),
        ("G\r", "counterexample"),
        ("\x7f", "[criteria and cases]"),
        (">", "handling order"),
        ("\t\r", "probes"),
        ("\x7f", "[hints]"),
        (">", "candidates 2"),
        ("5", "faults 2"),
        (":", "go to or do"),
        ("run", "run "),
        ("\x1b", "faults"),
        ("1", "state"),
    )
    for keys, words in walk:
        terminal.send(keys)
        terminal.shows(words)
    terminal.send("y")
    terminal.send("q")
    assert terminal.end() == 0
    assert b"L[/]M[/nope]N[@click=app.quit]O[/]" in terminal.raw, "markup is text"
    left = ALLOWED.sub(b"", terminal.raw)
    copied = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", left)
    assert b"T1dORUQ=" not in copied and len(copied) == 1, "the copy that was asked for, and no other"
    left = re.sub(rb"\x1b\]52;c;[A-Za-z0-9+/=]*\x07", b"", left)
    assert set(re.findall(rb"[\x00-\x08\x0b-\x1f\x7f]", left)) <= {b"\r"}, re.findall(rb".{20}\x1b.{20}", left)[:5]
    text = left.decode("utf-8")
    assert not re.search("[\x80-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069\ufeff]", text)
    assert "OWNED" in text


# How to get to every screen and dialog, and a word that stands there.
PLACES = {
    "runs": ("", "grpo-tiny-a"), "run": ("\r", "LOCKED"), "mismatches": ("3", "none: / adds one"),
    "faults": ("e", "worker-3.log:812"), "state": ("4", "KV cache"), "record": ("\r\r", "standing"), "filter": ("3/", "by which column"),
    "palette": (":", "go to or do"), "help": ("?", "keys"), "mark": ("i", "for the"), "retract": ("2R", "retract"),
}  # fmt: skip
ENDS = [(place, number) for number in (signal.SIGTERM, signal.SIGHUP) for place in PLACES]


@pytest.mark.parametrize(
    ("place", "number"),
    [("runs", None), ("runs", signal.SIGTERM), ("record", signal.SIGHUP), ("filter", signal.SIGTERM)]
    + [pytest.param(*end, marks=pytest.mark.slow) for end in ENDS],
    ids=lambda v: v if isinstance(v, str) else "q" if v is None else signal.Signals(v).name,
)
def test_the_terminal_is_left_clean(place: str, number: signal.Signals | None) -> None:
    terminal = Terminal([*APP, "calm"])
    terminal.shows("grpo-tiny-a")
    keys, word = PLACES[place]
    if place == "retract":
        terminal.send("\r")
        terminal.shows("LOCKED")
    for key in keys:
        terminal.send(key)
    terminal.shows(word)
    if number is None:
        terminal.send("q")
    assert terminal.end(number) == (0 if number is None else 128 + number)
    assert terminal.raw.count(b"\x1b[?1049h") == terminal.raw.count(b"\x1b[?1049l") == 1
    assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l"), "the cursor is shown again"
    for mode in set(re.findall(rb"\x1b\[\?(\d+)h", terminal.raw)) - {b"1049", b"25", b"7"}:
        assert terminal.raw.rfind(b"\x1b[?%sl" % mode) > terminal.raw.rfind(b"\x1b[?%sh" % mode), (
            f"mode {mode!r} is reset"
        )
    assert b"\x1b[?1000h" not in terminal.raw and b"\x1b[?1003h" not in terminal.raw, "no mouse unless asked"


def test_quit_and_keep_leaves_the_last_frame() -> None:
    terminal = Terminal([*APP, "calm"])
    terminal.shows("grpo-tiny-a")
    terminal.send("\r")
    terminal.shows("LOCKED")
    terminal.send("Q")
    assert terminal.end() == 0
    after = terminal.raw.split(b"\x1b[?1049l")[-1].decode()
    assert "LOCKED attempt 1" in after and "worker-3.log:812" in after


def test_a_query_that_hears_nothing_keeps_nobody_and_aborts_nothing() -> None:
    terminal = Terminal(["-m", "tests.tui.stuck_app"])
    terminal.shows("connected", "reading the store")
    terminal.send("q")
    assert terminal.end() == 0, "-6 is an abort: the thread was torn down inside of DuckDB"
    assert terminal.raw.endswith(b"\x1b[?1004l"), "nothing is said after the terminal was put back"


def test_no_color_sends_no_colour_code() -> None:
    terminal = Terminal([*APP, "calm"], env={"NO_COLOR": "1"})
    terminal.shows("grpo-tiny-a", "locked")
    terminal.send("\r")
    terminal.shows("LOCKED", "suspect")
    terminal.send("?")
    terminal.shows("keys")
    terminal.send("\x1b")
    terminal.send("q")
    terminal.end()
    for codes in re.findall(rb"\x1b\[([0-9;:]*)m", terminal.raw):
        for code in codes.replace(b":", b";").split(b";"):
            assert code in {b"", b"0", b"1", b"2", b"3", b"4", b"7", b"22", b"24", b"27", b"39", b"49"}, (
                codes
            )  # 39, 49: the default colours


def test_ascii_terminal_gets_ascii() -> None:
    terminal = Terminal([*APP, "calm"], env={"TERM": "vt100", "COLORTERM": ""})
    terminal.shows("grpo-tiny-a")
    terminal.send("\r")
    terminal.shows("X LOCKED")
    terminal.send("q")
    terminal.end()
    assert terminal.raw.decode("ascii")


def test_an_idle_screen_sends_nothing() -> None:
    terminal = Terminal([*APP, "calm"])
    terminal.shows("grpo-tiny-a")
    terminal.send("\r")
    terminal.shows("LOCKED")
    # The fake's rows were made as the process began; the next steps of their ages are at 10 and 30 seconds.
    terminal.until(lambda text: "10 s" in text)
    terminal.pump(1.0)
    assert terminal.pump(4.0) == 0
    terminal.send("q")
    terminal.end()
