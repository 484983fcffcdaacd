"""The one binding table. Dispatch, footer, help, docs and tests come from it; no key is handled anywhere else.

Users remap keys in TOML:

    [keys]
    inconclusive = "I"
    follow = ["f", "ctrl+f"]

Two actions of one screen on one key are an error that names file and line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tic_daemon.errors import ConfigError

if TYPE_CHECKING:
    from textual.binding import BindingType

RUNS, RUN, MISMATCHES, STATE, FAULTS, INSPECT = "runs", "run", "mismatches", "state", "faults", "inspect"
SIDES = "sides"
COMPARISONS, COMPARISON, SEQUENCE, TOKEN = "comparisons", "comparison", "sequence", "token"
GATES, LEDGER, PAIRS, CASES, HINTS = "gates", "ledger", "pairs", "cases", "hints"
CELL, RECORD = "cell", "record"
HELP, MARK, FILTER, PALETTE = "help", "mark", "filter", "palette"
_COMPARING: Final = (COMPARISONS, COMPARISON, SEQUENCE, TOKEN)
PAGES: Final = (GATES, LEDGER, PAIRS, CASES, HINTS)
"""The pages of screen 6, in their order."""
_EVIDENCE: Final = (*PAGES, CELL, RECORD)
SCREENS: Final = (
    RUNS, RUN, MISMATCHES, STATE, FAULTS, INSPECT, SIDES, *_COMPARING, *_EVIDENCE, HELP, MARK, FILTER, PALETTE,
)  # fmt: skip
DEEPER: Final = frozenset({INSPECT, SIDES, COMPARISON, SEQUENCE, TOKEN, CELL, RECORD})
"""Screens that are opened from another one and closed with it."""
_VIEWS: Final = frozenset({RUNS, RUN, MISMATCHES, STATE, FAULTS, INSPECT, SIDES, *_COMPARING, *_EVIDENCE})
_SEARCHES: Final = frozenset({HELP, FILTER, PALETTE})


@dataclass(frozen=True, slots=True)
class Key:
    """One action.

    Attributes:
        id: its name in keys.toml and, as `action_<id>`, in the code.
        keys: keys in Textual's notation, the first is shown.
        label: at most twelve cells, for the footer.
        help: one sentence.
        screens: where it works.
        writing: turned off by --read-only.
        footer: rank in the footer (1 first); 0: not shown there.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    screens: frozenset[str]
    writing: bool = False
    footer: int = 0


def _key(
    id: str, keys: str, label: str, help: str, screens: Iterable[str], *, writing: bool = False, footer: int = 0
) -> Key:
    return Key(id, tuple(keys.split()), label, help, frozenset(screens), writing, footer)


TABLE: Final[tuple[Key, ...]] = (
    _key("open", "enter", "open",
         "Go one level deeper: run, record, its bytes; cell, evidence, comparison, sequence, token, files.",
         {RUNS, RUN, MISMATCHES, STATE, FAULTS, *_COMPARING, *_EVIDENCE}, footer=1),
    _key("open_finding", "enter", "finding", "Open the finding in whose state the number was made.", {INSPECT}),
    _key("back", "escape backspace", "back", "Return to where you came from.",
         {RUN, MISMATCHES, STATE, FAULTS, INSPECT, SIDES, *_COMPARING, *_EVIDENCE}, footer=2),
    _key("inconclusive", "i", "mark", "Mark the run, attempt or record inconclusive; a reason is required.",
         _VIEWS, writing=True, footer=3),
    _key("note", "m", "note", "Attach a note to the run, attempt or record; a text is required.", _VIEWS,
         writing=True, footer=15),
    _key("retract", "R", "retract", "Retract a mark of this run: a new row, nothing is erased.", _VIEWS, writing=True,
         footer=19),
    _key("filter", "slash", "filter", "Add a filter: choose a column, then a value or a condition.",
         {RUN, MISMATCHES, COMPARISONS, LEDGER}, footer=4),
    _key("exclude", "exclamation_mark", "exclude", "Leave out what the chosen column says under the cursor.",
         {MISMATCHES, COMPARISONS, LEDGER}, footer=5),
    _key("switch", "o", "filter on/off", "Switch the chosen filter off, or on again.",
         {MISMATCHES, COMPARISONS, LEDGER}, footer=13),
    _key("drop", "d delete", "drop filter", "Remove the chosen filter.", {MISMATCHES, COMPARISONS, LEDGER},
         footer=14),
    _key("all_runs", "w", "all/one run", "Show what all runs have here, or the run under the cursor.",
         {MISMATCHES, COMPARISONS, GATES, LEDGER}, footer=20),
    _key("order", "s", "order", "Sequences with the most differing tokens first, or by request.", {COMPARISON},
         footer=4),
    _key("follow", "f", "follow", "Follow the newest lines again after scrolling back.",
         {RUN, MISMATCHES, STATE, COMPARISONS, LEDGER}, footer=10),
    _key("next_fault", "e", "next fault", "To the next fault; from the run or the list of runs to its first one.",
         {RUNS, RUN, STATE, FAULTS, INSPECT}, footer=6),
    _key("previous_fault", "E", "prev fault", "To the fault before.", {RUNS, RUN, STATE, FAULTS, INSPECT}),
    _key("fold", "o", "unfold", "Show or hide the copies of a line, and the lines of processes that say the same.",
         {FAULTS}, footer=8),
    _key("previous_attempt", "less_than_sign", "older attempt", "The faults of the attempt before.", {FAULTS},
         footer=21),
    _key("next_attempt", "greater_than_sign", "newer attempt", "The faults of the next attempt.", {FAULTS}),
    _key("freeze", "space", "freeze", "Freeze what is shown; data goes on being collected. Again to go on.",
         _VIEWS, footer=11),
    _key("metric", "p", "next metric", "Plot the next metric of this run.", {RUN}, footer=17),
    _key("next_panel", "tab", "next panel", "Move between the lists of this screen.",
         {RUN, MISMATCHES, FAULTS, INSPECT, COMPARISONS, COMPARISON, CELL, *PAGES}, footer=18),
    _key("copy", "y", "copy", "Copy what is selected, with its place (OSC 52, and a file as the fallback).", _VIEWS,
         footer=12),
    _key("copy_hint", "Y", "copy hint", "Copy what the line on the connection offers, such as an ssh command.", _VIEWS),
    _key("up", "up k", "up", "One line up.", _VIEWS),
    _key("down", "down j", "down", "One line down.", _VIEWS),
    _key("page_up", "pageup ctrl+b", "page up", "One page up.", _VIEWS),
    _key("page_down", "pagedown ctrl+f", "page down", "One page down.", _VIEWS),
    _key("top", "g home", "top", "To the first line of all.", _VIEWS),
    _key("end", "G end", "end", "To the last line; in a growing list that is following it.", _VIEWS),
    _key("list_up", "up", "up", "One line up in the list.", _SEARCHES),
    _key("list_down", "down", "down", "One line down in the list.", _SEARCHES),
    _key("list_page_up", "pageup", "page up", "One page up in the list.", _SEARCHES),
    _key("list_page_down", "pagedown", "page down", "One page down in the list.", _SEARCHES),
    _key("left", "left", "left", "Scroll left; in a table: the column on the left; of states: the change before.",
         {INSPECT, MISMATCHES, STATE, COMPARISONS, TOKEN, GATES, LEDGER}),
    _key("right", "right", "right", "Scroll right; in a table: the column on the right; of states: the next change.",
         {INSPECT, MISMATCHES, STATE, COMPARISONS, TOKEN, GATES, LEDGER}),
    _key("zoom_in", "plus equals_sign", "zoom in", "Show half as much of the axis, round the cursor.", {STATE},
         footer=2),
    _key("zoom_out", "minus", "zoom out", "Show twice as much of the axis.", {STATE}, footer=2),
    _key("zoom_whole", "0", "all of it", "Show all of the axis.", {STATE}, footer=13),
    _key("pan_left", "H shift+left", "pan left", "Move along the axis by half of what is shown.", {STATE}),
    _key("pan_right", "L shift+right", "pan right", "Move along the axis by half of what is shown.", {STATE}),
    _key("axis", "v", "time/place", "The axis by time, or by place in the log.", {STATE}, footer=2),
    _key("previous_teller", "less_than_sign", "prev process", "What the process or server before told of its state.",
         {STATE}),
    _key("next_teller", "greater_than_sign", "next process", "What the next process or server told of its state.",
         {STATE}, footer=5),
    _key("previous_page", "less_than_sign", "page before",
         "Of evidence: gates, ledger, pairs, criteria and cases, hints.", set(PAGES)),
    _key("next_page", "greater_than_sign", "next page",
         "Of evidence: gates, ledger, pairs, criteria and cases, hints.", set(PAGES), footer=2),
    _key("more", "plus equals_sign", "more lines", "Show more of the file round the record.", {INSPECT}, footer=4),
    _key("next_step", "plus equals_sign right", "next step", "To the next step of the gap.", {SIDES}, footer=3),
    _key("previous_step", "minus left", "step before", "To the step before.", {SIDES}, footer=4),
    _key("fewer", "minus", "fewer lines", "Show less of the file round the record.", {INSPECT}),
    _key("show_runs", "1", "runs", "The list of runs.", _VIEWS),
    _key("show_run", "2", "run", "The run under the cursor of the list, else the one selected last.", _VIEWS),
    _key("show_mismatches", "3", "mismatches", "All mismatch records, with filters.", _VIEWS, footer=7),
    _key("show_state", "4", "state", "The run's execution state and weights over time; from a record: its place there.",
         _VIEWS, footer=9),
    _key("show_faults", "5", "faults", "The run's faults: the first, what followed on each rank, all.", _VIEWS,
         footer=8),
    _key("show_evidence", "6", "evidence", "Candidates and their gates, the ledger, pairs of arms, cases, hints.",
         _VIEWS, footer=9),
    _key("show_comparisons", "c", "comparisons", "All comparisons of the run, and what waits to be compared.",
         _VIEWS, footer=10),
    _key("palette", "colon ctrl+p", "palette", "Find an action, run, metric, screen or theme by a few letters.", _VIEWS,
         footer=16),
    _key("mouse", "f2", "mouse", "Turn the mouse on or off; off leaves selecting to the terminal.", _VIEWS),
    _key("help", "question_mark f1", "help", "All keys of this screen; type to search, Enter runs one.", _VIEWS,
         footer=22),
    _key("quit", "q ctrl+q ctrl+c", "quit", "Leave the screen. The daemon and the job do not notice.", _VIEWS,
         footer=23),
    _key("quit_keep", "Q", "quit, keep", "Leave, and keep the last frame in the terminal's scrollback.", _VIEWS),
    _key("run_it", "enter", "run", "Run the selected action.", {HELP, PALETTE}, footer=1),
    _key("close", "escape", "close", "Close without doing anything.", {HELP, MARK, FILTER, PALETTE}, footer=2),
    _key("write", "enter", "write", "Write the mark.", {MARK}, footer=1),
    _key("choose", "enter", "choose", "Choose the selected column, value or condition.", {FILTER}, footer=1),
    _key("negate", "tab", "is / is not", "Turn between keeping what is chosen and leaving it out.", {FILTER}, footer=3),
    _key("scope", "tab", "scope", "Change what is marked: the run, the attempt or the record.", {MARK}, footer=3),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keymap:
    """The table after the user's changes."""

    table: tuple[Key, ...] = TABLE
    read_only: bool = False

    def on(self, screen: str) -> tuple[Key, ...]:
        """All actions of a screen, in the table's order; without the writing ones if read-only."""
        return tuple(k for k in self.table if screen in k.screens and not (self.read_only and k.writing))

    def footer(self, screen: str) -> tuple[Key, ...]:
        """What the footer offers there, most useful first, help and quit always among the first seven."""
        ranked = sorted((k for k in self.on(screen) if k.footer), key=lambda k: k.footer)
        anchors = [k for k in ranked if k.id in {"help", "quit"}]
        return tuple([k for k in ranked if k not in anchors][: 7 - len(anchors)] + anchors)

    def find(self, id: str) -> Key:
        """The action of that name; KeyError if there is none."""
        for key in self.table:
            if key.id == id:
                return key
        raise KeyError(id)

    def textual(self, screen: str) -> list[BindingType]:
        """The screen's actions for Textual. Writing actions stay bound when read-only, to say why nothing happens."""
        from textual.binding import Binding  # noqa: PLC0415  the table itself serves docs and must not load a toolkit

        # With priority a key is done before the next one is looked at. Otherwise what is typed behind a key that opens
        # a dialog goes to the list below it, where an `i` marks and a `d` removes. A dialog's own keys wait for their
        # turn behind the letters that its input has not taken yet.
        first = screen in _VIEWS
        return [
            Binding(",".join(k.keys), k.id, k.label, show=False, id=k.id, priority=first)
            for k in self.table
            if screen in k.screens
        ]

    def remap(self) -> Mapping[str, str]:
        """For `App.set_keymap`: what differs from the built-in table."""
        built_in = {k.id: k.keys for k in TABLE}
        return {k.id: ",".join(k.keys) for k in self.table if built_in[k.id] != k.keys}


_SHOWN: Final = {
    "question_mark": "?", "space": "space", "escape": "Esc", "enter": "Enter", "backspace": "Backspace", "tab": "Tab",
    "pageup": "PgUp", "pagedown": "PgDn", "up": "Up", "down": "Down", "left": "Left", "right": "Right", "home": "Home",
    "end": "End", "plus": "+", "equals_sign": "=", "minus": "-", "f1": "F1", "f2": "F2",
    "slash": "/", "exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">", "colon": ":",
    "delete": "Del",
}  # fmt: skip


def shown(key: str) -> str:
    """How a key is written for people: question_mark is ?, ctrl+b is ^b."""
    if key.startswith("ctrl+"):
        return "^" + key[5:]
    return _SHOWN.get(key, key)


def clashes(table: Iterable[Key]) -> list[tuple[str, str, Key, Key]]:
    """(screen, key, first, second) for every key that means two things on one screen."""
    found = []
    for screen in SCREENS:
        owner: dict[str, Key] = {}
        for action in table:
            if screen not in action.screens:
                continue
            for key in action.keys:
                if key in owner:
                    found.append((screen, key, owner[key], action))
                else:
                    owner[key] = action
    return found


def load_keymap(path: Path | None, *, read_only: bool = False) -> Keymap:
    """Reads keys.toml over the built-in table.

    Raises:
        ConfigError: not TOML, an unknown action, a value that is no key, or a clash; with file and line.
    """
    if path is None:
        return Keymap(read_only=read_only)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from error
    lines = _lines_of(text)
    changes: dict[str, tuple[str, ...]] = {}
    known = {k.id for k in TABLE}
    section = data.get("keys", {})
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: [keys] must be a table", "write [keys] and then one line per action")
    for name, value in section.items():
        where = f"{path}:{lines.get(name, 1)}"
        if name not in known:
            raise ConfigError(f"{where}: there is no action {name!r}", "actions: " + ", ".join(sorted(known)))
        keys = [value] if isinstance(value, str) else value
        if not isinstance(keys, list) or not keys or not all(isinstance(k, str) and k.strip() for k in keys):
            raise ConfigError(f"{where}: {name} must be a key or a list of keys", 'for example: follow = "f"')
        changes[name] = tuple("question_mark" if k == "?" else k.strip() for k in keys)
    table = tuple(replace(k, keys=changes.get(k.id, k.keys)) for k in TABLE)
    for screen, key, first, second in clashes(table):
        at = max(lines.get(first.id, 0), lines.get(second.id, 0))
        raise ConfigError(
            f"{path}:{at}: key {shown(key)!r} means both {first.id!r} and {second.id!r} on screen {screen!r}",
            "give one of them another key",
        )
    return Keymap(table, read_only)


def _lines_of(text: str) -> dict[str, int]:
    """Line number of each `name =` in the file; tomllib does not tell."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*(?:keys\s*\.\s*)?[\"']?([A-Za-z_]+)[\"']?\s*=", line):
            found.setdefault(match.group(1), number)
    return found


def as_markdown() -> str:
    """docs/reference/keys.md: this table, for users."""
    out = [
        "# Keys",
        "",
        "Made from the binding table (`python -m tic_tui.bindings > docs/reference/keys.md`); a test keeps it current.",
        "Remap any of them in `keys.toml` by the name of the action; a key that would mean two things on one screen is",
        "an error with file and line. `tic-tui --read-only` turns the writing ones off.",
        "",
        "| key | action | where | what it does |",
        "|---|---|---|---|",
    ]
    for k in TABLE:
        keys = " ".join(f"`{shown(key)}`" for key in k.keys)
        where = "everywhere" if k.screens >= _VIEWS else ", ".join(s for s in SCREENS if s in k.screens)
        out.append(f"| {keys} | `{k.id}`{' (writes)' if k.writing else ''} | {where} | {k.help} |")
    return "\n".join([*out, ""])


if __name__ == "__main__":
    print(as_markdown(), end="")
