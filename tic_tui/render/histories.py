"""W&B histories on screen 2: a line for each, a strip of steps for each source, gaps, and one step side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from tic_daemon.store import histories as words
from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.histories import SOURCES, STATES, History, Lack, Side, Wandb, worst
from tic_tui.render.text import Builder, Line, clean, clip, width_of

_LABEL: Final = 11
_WHY: Final = 6
LETTERS: Final[Mapping[str, str]] = {
    "missing": "M", "partial": "P", "duplicate": "2", "value_differs": "D", "out_of_order": "<", "unread": "?",
    "pending": ".",
}  # fmt: skip
"""A state that is not well is a letter, which the end of the line spells out: nothing is told by colour alone."""
_TONES: Final[Mapping[str, str]] = {"ok": "ok", "pending": "dim", "unread": "stale", "out_of_order": "suspect"}


def _tone(state: str) -> str:
    return _TONES.get(state, "gap")


def line(history: History, now: datetime, width: int, glyphs: Glyphs) -> Line:
    """How one history stands: gaps, uploader with its age, the last reading, steps."""
    b = Builder(width, glyphs).add(" ").cell("W&B", _LABEL, "head")
    if history.gaps:
        b.add(f"{glyphs.fault} {history.gaps} {'gap' if history.gaps == 1 else 'gaps'}  ", "gap")
    if history.uploader:
        dead = history.uploader == "dead"
        status = f" ({history.uploader_status})" if history.uploader_status else ""
        b.add(f"uploader {history.uploader}{status} {_ago(history.uploader_at, now)}", "gap" if dead else "text")
    else:
        b.add("uploader unknown", "dim")
    if history.read_outcome:
        well = history.read_outcome == "ok"
        said = str(history.read_outcome).replace("_", " ")
        b.add_if_fits(f"  read {said} {_ago(history.read_at, now)}", "text" if well else "stale")
    else:
        b.add_if_fits("  not read back", "dim")
    if history.local_steps is not None:
        asked = history.server_steps or history.read_ok_at is not None
        served = f"{history.server_steps or 0} on the server" if asked else "the server's not known"
        b.add_if_fits(f"  {history.local_steps} steps logged, {served}", "dim")
    if history.project_note:
        b.add_if_fits(f"  {history.project_note}", "stale")
    return b.add_if_fits(f"  {history.run_path or history.wandb_id}", "dim").line()


def strips(wandb: Wandb, width: int, glyphs: Glyphs, most: int) -> list[Line]:
    """A line a source: from the first step to the last, each cell the worst of its steps."""
    there = [source for source in SOURCES if any(piece.source == source for piece in wandb.pieces)]
    if not there or most < 1:
        return []
    counts = {source: _counted(wandb, source) for source in there}
    ends = {source: _legend(counts[source]) for source in there}
    room = width - 1 - _LABEL - 1 - 1 - min(max(width_of(text) for text in ends.values()), width // 3)
    spans = (wandb.last - wandb.first) // wandb.size + 1
    cells = max(1, min(room, spans))
    lines = []
    for source in there[:most]:
        held: list[list[str]] = [[] for _ in range(cells)]
        for piece in wandb.pieces:
            if piece.source == source:
                # A cell is a part of the spans, a span a part of the cells: whichever is finer.
                low = piece.span * cells // spans
                for cell in range(low, max(low + 1, -(-(piece.span + 1) * cells // spans))):
                    held[min(cell, cells - 1)].append(piece.state)
        b = Builder(width, glyphs).add(" ").cell(words.place(source), _LABEL, "head")
        for state, number in _runs([worst(states) for states in held]):
            b.add(_cell(state, glyphs) * number, _tone(state) if state else "dim")
        lines.append(b.add(f" {ends[source]}", "gap" if len(counts[source]) > 1 else "dim").line())
    return lines


def _cell(state: str, glyphs: Glyphs) -> str:
    return glyphs.held if state == "ok" else LETTERS.get(state, "?") if state else " "


def _runs(states: Sequence[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for state in states:
        if found and found[-1][0] == state:
            found[-1] = (state, found[-1][1] + 1)
        else:
            found.append((state, 1))
    return found


def _counted(wandb: Wandb, source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for piece in wandb.pieces:
        if piece.source == source:
            found[piece.state] = found.get(piece.state, 0) + piece.steps
    return found


def _legend(counts: Mapping[str, int]) -> str:
    """ "40 M missing, 1960 ok": the worst first."""
    known = [state for state in reversed(STATES) if state in counts]
    return ", ".join(
        f"{counts[state]} {LETTERS.get(state, '')} {words.kind(state)}".replace("  ", " ") for state in known
    )


def row(lack: Lack, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One gap: kind, where, which steps, which key, why."""
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    letter = LETTERS.get(lack.kind, "-")
    tone = "gap" if lack.confirmed else "dim" if lack.kind == "pending" else "stale"
    b.cell(f"{letter} {words.kind(lack.kind)}", 15 if width >= 60 else 9, tone)
    b.cell(words.place(lack.source), 9 if width >= 60 else 6)
    b.cell(_steps(lack), 16 if width >= 60 else 12)
    if lack.key:
        b.cell(lack.key, min(30, width_of(lack.key)), "key")
    return b.add(lack.detail, "dim").line()


def _steps(lack: Lack) -> str:
    return words.steps({"first_step": lack.first_step, "last_step": lack.last_step})


def side_by_side(lack: Lack, step: int, sides: Sequence[Side] | None, width: int, glyphs: Glyphs) -> list[Line]:
    """One step in all sources: a row a key, those that differ first. `sides` None: they are being read."""
    title = Builder(width, glyphs).add(" ").add(f"step {step}", "title").add(f"  counted by {lack.axis}  ", "dim")
    why, tone = (
        f"{words.kind(lack.kind)} {words.place(lack.source)}: {lack.detail}",
        "gap" if lack.confirmed else "stale",
    )
    # What does not fit behind the title is the evidence: it has lines of its own.
    below = [] if width_of(why) <= title.room else textwrap.wrap(clean(why, glyphs), max(8, width - 2))[:_WHY]
    lines = [title.line() if below else title.add(why, tone).line()]
    lines += [Builder(width, glyphs).add(" ").add(text, tone).line() for text in below]
    lines.append(Builder(width, glyphs).line())
    if sides is None:
        return [*lines, Builder(width, glyphs).add("  reading the step ...", "dim").line()]
    if not sides:
        return [*lines, Builder(width, glyphs).add("  no source has a value of this step", "dim").line()]
    there = [source for source in SOURCES if any(side.source == source for side in sides)]
    shown = list(dict.fromkeys([*there, "wandb_local", "wandb_api"]))
    table: dict[str, dict[str, list[str]]] = {}
    for side in sides:
        table.setdefault(side.key, {}).setdefault(side.source, []).append(side.shown)
    key_width = min(max(3, *(width_of(key) for key in table)), max(8, width // 3))
    cell = min(36, max(6, (width - 2 - key_width - 2) // len(shown) - 1))
    head = Builder(width, glyphs).add("   ").cell("key", key_width, "head")
    for source in shown:
        head.cell(words.place(source), cell, "head")
    lines.append(head.line())
    for key in sorted(table, key=lambda name: (not _differs(table[name]), name)):
        held = table[key]
        odd = _differs(held)
        b = Builder(width, glyphs).add(f" {glyphs.fault} " if odd else "   ", "gap")
        b.cell(key, key_width, "gap" if odd else "text")
        for source in shown:
            values = " and ".join(held.get(source, ()))
            b.cell(clip(values, cell, glyphs.ellipsis) or "-", cell, "text" if values else "dim")
        lines.append(b.line())
    return lines


def _differs(held: Mapping[str, Sequence[str]]) -> bool:
    """Whether the two sides of W&B tell different things. What was printed is rounded, and says less."""
    return set(held.get("wandb_local", ())) != set(held.get("wandb_api", ()))


def _ago(at: datetime | None, now: datetime) -> str:
    old = age(at, now)
    return old if old in {"now", "unknown"} else f"{old} ago"
