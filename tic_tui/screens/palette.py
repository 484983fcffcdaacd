"""The palette: actions, runs, metrics, screens and themes, found by a few of their letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.fuzzy import FuzzySearch

from tic_tui import bindings
from tic_tui.bindings import Keymap, shown
from tic_tui.model import RunsView, RunView
from tic_tui.render import chrome
from tic_tui.render.text import Builder, Line
from tic_tui.screens.base import TABLE
from tic_tui.screens.dialog import SearchDialog
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput

Kind = Literal["action", "screen", "run", "metric", "process", "theme"]
_MOVING: Final = frozenset({"up", "down", "page_up", "page_down", "top", "end", "left", "right", "open", "back"})


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry. `id` is what it stands for: an action, a run, a metric, a theme, or the number of a process."""

    kind: Kind
    id: str
    name: str
    about: str = ""
    key: str = ""


def choices(
    keymap: Keymap, screen: str, runs: RunsView | None, run: RunView | None, themes: Iterable[str],
    processes: Iterable[str] = (),
) -> list[Choice]:  # fmt: skip
    """All that can be chosen, without what the arrow keys do. `processes`: those of screen 4, in its order."""
    found = []
    for key in keymap.on(screen):
        if key.id not in _MOVING and key.id != "palette":
            kind: Kind = "screen" if key.id.startswith("show_") else "action"
            found.append(Choice(kind, key.id, key.label, key.help, shown(key.keys[0])))
    seen: set[str] = set()
    for one in runs.runs if runs is not None else ():
        if str(one.run_id) not in seen:
            seen.add(str(one.run_id))
            found.append(Choice("run", str(one.run_id), str(one.run_id), str(one.state)))
    if run is not None and run.series is not None:
        found += [Choice("metric", metric, metric, "plot it") for metric in run.series.metrics]
    found += [Choice("process", str(n), name, "its state") for n, name in enumerate(processes)]
    return found + [Choice("theme", name, name, "") for name in themes]


def search(entries: Sequence[Choice], typed: str) -> list[Choice]:
    """Those that hold the letters in order, best first; all of them without any.

    What holds them in one piece comes before what holds them apart, and a name before what is said about it.
    """
    wanted = typed.strip().lower()
    if not wanted:
        return list(entries)
    fuzzy = FuzzySearch(case_sensitive=False)
    scored = []
    for n, entry in enumerate(entries):
        texts = (f"{entry.kind} {entry.name}".lower(), f"{entry.id.replace('_', ' ')} {entry.about}".lower())
        whole = [wanted in text for text in texts]
        rank = 0 if whole[0] else 1 if whole[1] else 2
        score = max(fuzzy.match(wanted, texts[0])[0], fuzzy.match(wanted, texts[1])[0] / 4)
        if score:
            scored.append((rank, -score, n, entry))
    return [entry for *_, entry in sorted(scored, key=lambda s: s[:3])]


class PaletteScreen(SearchDialog[Choice]):
    """Dismissed with what was chosen, or None."""

    BINDINGS = TABLE.textual(bindings.PALETTE)

    def __init__(self, entries: Sequence[Choice]) -> None:
        super().__init__()
        self._entries = entries
        self._found: list[Choice] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Painted(id="palette-title")
            yield SafeInput("action, run, metric, screen or theme", id="palette-search")
            yield LineList(id="palette-list")
            yield Painted(id="palette-footer")

    def search(self) -> None:
        app, title = tic_app(self), self.query_one("#palette-title", Painted)
        self._found = found = search(self._entries, self.typed)
        self.listing.cursor = 0
        self.listing.show(lambda width: [self._row(c, width) for c in found])
        width, glyphs = max(1, title.size.width), app.glyphs
        title.paint([chrome.panel_head("go to or do", f"{len(found)} of {len(self._entries)}", width, glyphs)])
        foot = chrome.footer(app.keymap.footer(bindings.PALETTE), "", "dim", width, glyphs)
        empty = "" if found else "nothing has these letters in this order"
        self.query_one("#palette-footer", Painted).paint([Builder(width, glyphs).add(empty, "dim").line(), foot])

    def _row(self, entry: Choice, width: int) -> Line:
        b = Builder(width, tic_app(self).glyphs).add(" ")
        b.cell(entry.kind, 7, "dim")
        if entry.kind in {"run", "metric", "process", "theme"}:
            return b.add(entry.name, "title").add_if_fits(f"  {entry.about}", "dim").line()
        b.cell(entry.name, 16, "title")
        if width >= 50:
            b.cell(entry.key, 6, "key")
        return b.add(entry.about, "text").line()

    def take(self) -> None:
        self.dismiss(self._found[self.listing.cursor] if self._found else None)

    def action_run_it(self) -> None:
        self.take()
