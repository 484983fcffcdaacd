"""One table: what is in it is bound, implemented, shown in help and documented, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tic_daemon.errors import ConfigError
from tic_tui import bindings
from tic_tui.bindings import SCREENS, TABLE, Keymap, as_markdown, clashes, load_keymap
from tic_tui.render import chrome
from tic_tui.render.text import plain
from tic_tui.screens.cases import CasesScreen
from tic_tui.screens.cell import CellScreen
from tic_tui.screens.comparison import ComparisonScreen, SequenceScreen, TokenScreen
from tic_tui.screens.comparisons import ComparisonsScreen
from tic_tui.screens.faults import FaultsScreen
from tic_tui.screens.filter import FilterScreen
from tic_tui.screens.gates import GatesScreen
from tic_tui.screens.help import HelpScreen, matches
from tic_tui.screens.hints import HintsScreen
from tic_tui.screens.inspect import InspectScreen
from tic_tui.screens.ledger import EntryScreen, LedgerScreen
from tic_tui.screens.mark import MarkScreen, RetractScreen
from tic_tui.screens.mismatches import MismatchesScreen
from tic_tui.screens.pages import RecordScreen
from tic_tui.screens.pairs import PairsScreen
from tic_tui.screens.palette import PaletteScreen
from tic_tui.screens.run import RunScreen
from tic_tui.screens.runs import RunsScreen
from tic_tui.screens.sides import SidesScreen
from tic_tui.screens.state import StateScreen

CLASSES = {
    "runs": (RunsScreen,), "run": (RunScreen,), "inspect": (InspectScreen,), "help": (HelpScreen,),
    "mark": (MarkScreen, RetractScreen), "mismatches": (MismatchesScreen,), "faults": (FaultsScreen,),
    "state": (StateScreen,), "sides": (SidesScreen,), "comparisons": (ComparisonsScreen,), "comparison": (ComparisonScreen,),
    "sequence": (SequenceScreen,), "token": (TokenScreen,), "filter": (FilterScreen,), "palette": (PaletteScreen,),
    "gates": (GatesScreen,), "ledger": (LedgerScreen,), "pairs": (PairsScreen,), "cases": (CasesScreen,),
    "hints": (HintsScreen,), "cell": (CellScreen,), "record": (RecordScreen, EntryScreen),
}  # fmt: skip


def test_no_key_means_two_things() -> None:
    assert clashes(TABLE) == []


@pytest.mark.parametrize("screen", SCREENS)
def test_every_key_of_a_screen_has_an_action_and_no_action_is_without_a_key(screen: str) -> None:
    for kind in CLASSES[screen]:
        ids = {k.id for k in TABLE if screen in k.screens}
        own = {name.removeprefix("action_") for c in kind.__mro__ for name in vars(c) if name.startswith("action_")
               and c.__module__.startswith("tic_tui")}  # fmt: skip
        assert ids - {n.removeprefix("action_") for n in dir(kind)} == set()
        assert own - ids - {k.id for k in TABLE} == set()
        assert {b.action for b in kind.BINDINGS} == ids  # type: ignore[union-attr]


def test_the_reference_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "keys.md"
    assert page.read_text(encoding="utf-8") == as_markdown(), "python -m tic_tui.bindings > docs/reference/keys.md"


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_footer_offers_at_most_seven_whole_keys(screen: str, width: int) -> None:
    from tic_tui.glyphs import ASCII

    keys = Keymap().footer(screen)
    assert len(keys) <= 7
    line = plain(chrome.footer(keys, "", "dim", width, ASCII))
    assert len(line) <= width and "~" not in line.replace("~ ", "")
    if screen in {"runs", "run"} and width >= 40:
        assert "q quit" in line and "? help" in line


def test_help_finds_by_key_name_and_meaning() -> None:
    find = Keymap().find
    assert matches(find("inconclusive"), "reason") and matches(find("quit_keep"), "Q") and matches(find("help"), "?")
    assert not matches(find("quit"), "reason")


def test_read_only_offers_no_writing_key() -> None:
    offered = {k.id for screen in SCREENS for k in Keymap(read_only=True).on(screen)}
    assert offered & {"inconclusive", "note", "retract"} == set() and "copy" in offered


def test_keys_can_be_moved(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[keys]\ninconclusive = "I"\nfollow = ["f", "ctrl+g"]\n')
    keymap = load_keymap(file)
    assert keymap.remap() == {"inconclusive": "I", "follow": "f,ctrl+g"}
    assert keymap.find("inconclusive").keys == ("I",)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[keys]\n\nnote = "q"\n', 3, "both 'note' and 'quit'"),
        ('[keys]\nfly = "x"\n', 2, "no action 'fly'"),
        ("[keys]\nnote = 7\n", 2, "must be a key"),
        ("[keys]\nnote = []\n", 2, "must be a key"),
    ],
)
def test_a_bad_key_file_names_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as raised:
        load_keymap(file)
    assert f"keys.toml:{line}:" in str(raised.value)


def test_broken_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text("[keys\n")
    with pytest.raises(ConfigError, match=r"keys\.toml"):
        load_keymap(file)
    file.write_text("keys = 3\n")
    with pytest.raises(ConfigError, match="must be a table"):
        load_keymap(file)


def test_a_key_is_written_for_people() -> None:
    assert [bindings.shown(k) for k in ("question_mark", "ctrl+b", "pageup", "G")] == ["?", "^b", "PgUp", "G"]
