"""Lines of the gates: candidates with the signs of their cells, the cells of one with their causes.

A cell is a sign everywhere and a word wherever there is room; the flag `stale` has a sign of its own.

    below 60 cells      a sign for each gate
    below 78            a sign and a word for each gate
    from 78 on          a sign for each cell, and the gate's word
    from 112 on         words in full, then the runs of a candidate and what it was made from
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.evidence_model import Candidate, Cell, GatesView
from tic_tui.glyphs import Glyphs
from tic_tui.render.comparison import field, listed
from tic_tui.render.text import Builder, Line, clean, count, some, width_of

_TITLES: Final = {
    "module": ("module", "module"),
    "proxy": ("proxy", "proxy"),
    "zero_update": ("zero update", "zero"),
    "per_version": ("versions", "versions"),
    "acceptance": ("acceptance", "accept."),
}
ORDER: Final = tuple(_TITLES)
_SIGNS: Final = {"module": 3, "proxy": 4, "zero_update": 1, "per_version": 4, "acceptance": 7}
"""Cells of each gate that are drawn; of policy versions the last ones."""
_SHORT: Final = {"inconclusive": "inconcl"}
_PARENT, _RUNS, _AGE = 16, 20, 6
_WORST: Final = ("fail", "inconclusive", "stale", "not run", "pass")
_HEADED: Final = ("fail", "inconclusive", "stale", "pass", "not run")
NO_VERSION: Final = "*"


def sign(state: str, stale: bool, glyphs: Glyphs) -> tuple[str, str, str]:
    """(sign, word, tone) of a cell or gate. A state that this program does not know keeps its word."""
    if stale and state == "not run":
        return glyphs.wave, "not run, stale", "stale"
    known = {
        "pass": (glyphs.admissible, "ok"),
        "fail": (glyphs.locked, "gap"),
        "inconclusive": (glyphs.suspect, "suspect"),
        "not run": (glyphs.unknown, "dim"),
    }
    glyph, tone = known.get(state, (glyphs.unreadable, "suspect"))
    return glyph, f"{state}, stale" if stale else state, tone


def cell_words(cell: Cell, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and words, tone) of a cell, whatever it says of itself."""
    glyph, word, tone = sign(cell.state, cell.stale, glyphs)
    return f"{glyph} {word}{', carried' if cell.carried_from else ''}", tone


def cell_name(cell: Cell) -> str:
    """What a cell is called: a policy version by its number, where one is known."""
    if str(cell.gate) != "per_version":
        return str(cell.cell).replace("_", " ")
    return "no version yet" if cell.cell == NO_VERSION else f"version {cell.cell}"


def legend(width: int, glyphs: Glyphs) -> Line:
    """What the signs mean; whole words only."""
    b = Builder(width, glyphs).add(" ")
    for state, stale in (
        ("pass", False),
        ("fail", False),
        ("inconclusive", False),
        ("not run", False),
        ("not run", True),
    ):
        glyph, word, tone = sign(state, stale, glyphs)
        b.add_if_fits(f" {glyph} ", tone).add_if_fits("stale" if stale else word, "dim").add_if_fits(" ")
    return b.line()


# --- the table of candidates ---


@dataclass(frozen=True, slots=True)
class Layout:
    """What a row has room for. `signs`: a sign a cell; `word`: cells of a gate's word, 0 none."""

    name: int
    signs: bool
    word: int
    parent: bool = False
    runs: bool = False
    age: bool = False

    def cells(self, gate: str) -> int:
        """Cells of a gate's column."""
        return (_SIGNS.get(gate, 4) + 1 if self.signs else 2) + self.word


def layout(width: int) -> Layout:
    """The table at this width."""
    if width < 60:
        return Layout(max(4, width - 2 - 1 - 5 * 3), False, 0)
    if width < 78:
        return Layout(max(4, width - 2 - 1 - 5 * 10), False, 7)
    word, parent, runs, old = (
        (12, width >= 150, width >= 180, width >= 132) if width >= 112 else (7, False, False, False)
    )
    used = 2 + sum(_SIGNS.values()) + 5 * (1 + word + 1) + 1
    used += (_PARENT + 1) * parent + (_RUNS + 1) * runs + (_AGE + 1) * old
    return Layout(max(4, width - used), True, word, parent, runs, old)


def header(width: int, glyphs: Glyphs, *, chosen: str) -> Line:
    """Column names; the chosen gate has a sign."""
    at = layout(width)
    b = Builder(width, glyphs).add("  ", "head").cell("candidate", at.name, "head")
    for number, gate in enumerate(ORDER, start=1):
        long, short = _TITLES[gate]
        cells = at.cells(gate)
        mark = glyphs.ascending if gate == chosen else " "
        name = next((n for n in (f"{number} {long}", f"{number} {short}") if len(n) < cells), str(number))
        text = f"{mark}{name}" if at.word else f"{mark.strip()}{number}"
        b.cell(text, cells, "key" if gate == chosen else "head")
    if at.age:
        b.cell("age", _AGE, "head")
    if at.parent:
        b.cell("made from", _PARENT, "head")
    if at.runs:
        b.cell("runs", _RUNS, "head")
    return b.line()


def candidate_row(
    one: Candidate, cells: Sequence[Cell], parent: str, now: datetime, width: int, glyphs: Glyphs, *,
    selected: bool, chosen: str = "",
) -> Line:  # fmt: skip
    """A candidate: each gate by its cells, and by its word."""
    at, by_gate = layout(width), of_gates(cells)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(name_of(one), at.name, "title" if selected else "text")
    for gate in ORDER:
        _gate(b, by_gate.get(gate, ()), gate, at, glyphs)
    if at.age:
        b.cell(age(one.said_at, now), _AGE, "dim")
    if at.parent:
        b.cell(parent or "-", _PARENT, "dim")
    if at.runs:
        b.cell(", ".join(one.run_ids) or "-", _RUNS, "dim")
    return b.line()


def _gate(b: Builder, cells: Sequence[Cell], gate: str, at: Layout, glyphs: Glyphs) -> None:
    width = at.cells(gate)
    if not cells:
        b.cell("unknown" if at.word else glyphs.unknown, width, "dim")
        return
    glyph, word, tone = sign(str(cells[0].gate_state), any(cell.stale for cell in cells), glyphs)
    word = str(cells[0].gate_state)
    if not at.signs:
        b.cell(f"{glyph} {_SHORT.get(word, word)}" if at.word else glyph, width, tone)
        return
    room = _SIGNS.get(gate, 4)
    shown = list(cells[-room:])
    more = len(cells) > room
    for n, cell in enumerate(shown):
        one, _, shade = sign(cell.state, cell.stale, glyphs)
        b.add(glyphs.ellipsis if more and n == 0 else one, "dim" if more and n == 0 else shade)
    b.add(" " * (room - len(shown) + 1))
    b.cell(word if at.word >= 12 else _SHORT.get(word, word), at.word, tone)


def of_gates(cells: Sequence[Cell]) -> Mapping[str, Sequence[Cell]]:
    """The cells of each gate, in their order."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(str(cell.gate), []).append(cell)
    return found


def worst(cells: Sequence[Cell], gate: str) -> int:
    """The number of the cell to look at first of a gate: a fail, else the next best reason to look."""
    ranked = sorted(
        (_WORST.index(word) if word in _WORST else 0, n)
        for n, cell in enumerate(cells)
        if str(cell.gate) == gate
        for word in ("stale" if cell.stale and cell.state == "not run" else str(cell.state),)
    )
    return ranked[0][1] if ranked else 0


def name_of(one: Candidate) -> str:
    """Its name, else the beginning of its hash."""
    return str(one.name or one.candidate_id[:12])


def counts(view: GatesView) -> str:
    """ "4 of run x"."""
    of = f" of run {view.demand.run_id}" if view.demand.run_id is not None else ""
    return f"{count(len(view.candidates))}{of}"


# --- the cells of one candidate ---

_GATE_CELLS, _NAME_CELLS = 13, 17


def cells_head(
    one: Candidate, cells: Sequence[Cell], parent: str, width: int, glyphs: Glyphs, *, focused: bool
) -> Line:  # fmt: skip
    """What stands over its cells: its name, how many of them are in each state, what it was made from."""
    states: dict[str, int] = {}
    for cell in cells:
        word = "stale" if cell.stale and cell.state == "not run" else str(cell.state)
        states[word] = states.get(word, 0) + 1
    order = [*_HEADED, *sorted(states.keys() - set(_HEADED))]
    parts = [f"{count(states[word])} {word}" for word in order if word in states]
    parts += [f"from {parent}"] if parent else []
    parts += ["for screening only"] if one.screening else []
    b = Builder(width, glyphs).add(f"{glyphs.cursor if focused else ' '}cells ", "key" if focused else "head")
    b.add(f"of {name_of(one)}", "text")
    for n, part in enumerate(parts):
        b.add_if_fits(f"{', ' if n else ': '}{part}", "text")
    return b.add_if_fits(" ").fill(glyphs.rule, "dim").line()


def cell_row(
    cell: Cell, first: bool, width: int, glyphs: Glyphs, *, selected: bool, pointed: bool = False
) -> Line:  # fmt: skip
    """One cell with its cause; the gate is named at its first one. `pointed`: Enter opens it from another list."""
    words, tone = cell_words(cell, glyphs)
    lead = glyphs.cursor if selected else glyphs.ascending if pointed else " "
    b = Builder(width, glyphs).add(f"{lead} ", "key")
    if width >= 70:
        title = f"{cell.gate_no} {_TITLES.get(str(cell.gate), (str(cell.gate),))[0]}"
        b.cell(title if first else "", _GATE_CELLS, "head")
    name = cell_name(cell) if width >= 70 else f"{cell.gate_no} {cell_name(cell)}"
    b.cell(name, _NAME_CELLS if width >= 48 else 14, "title" if selected else "text")
    b.cell(words, max(16, width_of(clean(words, glyphs))), tone)
    why = cell.cause.removeprefix("stale: ") if cell.stale else cell.cause  # the word stands beside it
    return b.add(why or "-", "text" if why else "dim").line()


def why(one: Candidate, cell: Cell, width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """The cell under the cursor in full, where there is room: its cause, and what must be run again at least."""
    lines = [Builder(width, glyphs).line(), *field("cause", cell.cause or "nothing was judged for it", width, glyphs)]
    if cell.carried_from:
        lines += field("carried from", cell.carried_from, width, glyphs)
    if cell.stale and one.regressions:
        lines += field("run again", "at least:", width, glyphs) + listed(one.regressions, width, glyphs)
    return lines[:most]


def nothing(view: GatesView, width: int, glyphs: Glyphs) -> list[Line]:
    """No candidate: what to do, with the commands."""
    run = view.demand.run_id
    if run is not None:
        head = f"  no candidate is declared for run {run}. What it executes is said with:"
        steps = [f"tic-daemon candidate declare {run} --name NAME", "all candidates of the workspace: key w"]
    else:
        head = "  no candidate is declared here. From a criterion to a gate:"
        steps = [
            "fix what is to be shown, before the run: tic-daemon criterion freeze criterion.toml",
            "show that it can fail: plant = \"...\" in the manifest of one pair, which the daemon compares",
            "say what the run executes: tic-daemon candidate declare RUN --name NAME",
            "the daemon compares the run's dumps and fills the cells; no key and no command sets one",
        ]  # fmt: skip
        if view.criteria:
            steps = [f"{some(view.criteria, 'criterion is', 'criteria are')} in force", *steps[1:]]
    return [Builder(width, glyphs).add(head, "text").line(), *listed(steps, width, glyphs)]
