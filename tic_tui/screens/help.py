"""All keys of a screen, from the binding table: type to search, Enter runs the selected one."""

from __future__ import annotations

import textwrap

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.bindings import Key, shown
from tic_tui.render import chrome
from tic_tui.render.text import Builder, Line
from tic_tui.screens.base import TABLE
from tic_tui.screens.dialog import SearchDialog
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput


def matches(key: Key, words: str) -> bool:
    """Whether every word of the search is in the key's names, label or help."""
    text = " ".join((*(shown(k) for k in key.keys), key.id.replace("_", " "), key.label, key.help)).lower()
    return all(word in text for word in words.lower().split())


class HelpScreen(SearchDialog[str]):
    """Dismissed with the id of the action to run, or None."""

    BINDINGS = TABLE.textual(bindings.HELP)

    def __init__(self, screen: str) -> None:
        super().__init__()
        self._for = screen
        self._found: list[Key] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Painted(id="help-title")
            yield SafeInput("type to search", id="search")
            yield LineList(id="help-list")
            yield Painted(id="help-footer")

    def search(self) -> None:
        app, title = tic_app(self), self.query_one("#help-title", Painted)
        self._found = found = [k for k in app.keymap.on(self._for) if matches(k, self.typed)]
        self.listing.cursor = 0
        self.listing.show(lambda width: [self._row(k, width) for k in found])
        title.paint([chrome.panel_head("keys", f"of screen {self._for}", title.size.width, app.glyphs)])
        self._explain()

    def on_listing_moved(self) -> None:
        self._explain()

    def _explain(self) -> None:
        """The whole sentence of the selected action, which its row may be too narrow for."""
        app, panel = tic_app(self), self.query_one("#help-footer", Painted)
        width, glyphs = max(1, panel.size.width), app.glyphs
        text = self._found[self.listing.cursor].help if self._found else "no key of this screen does that"
        lines = [*textwrap.wrap(text, width), "", ""][:2]
        foot = chrome.footer(app.keymap.footer(bindings.HELP), "", "dim", width, glyphs)
        panel.paint([*(Builder(width, glyphs).add(line, "title").line() for line in lines), foot])

    def _row(self, key: Key, width: int) -> Line:
        b = Builder(width, tic_app(self).glyphs).add(" ")
        b.cell(" ".join(shown(k) for k in key.keys), 14, "key").cell(key.label, 14, "title")
        return b.add(key.help, "text").line()

    def take(self) -> None:
        self.dismiss(self._found[self.listing.cursor].id if self._found else None)

    def action_run_it(self) -> None:
        self.take()
