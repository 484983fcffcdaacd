"""All keys of a screen, from the binding table: type to search, Enter runs the selected one."""

from __future__ import annotations

import textwrap

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from tic_tui import bindings
from tic_tui.bindings import Key, shown
from tic_tui.render import chrome
from tic_tui.render.text import Builder, Line
from tic_tui.screens.base import TABLE
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput


def matches(key: Key, words: str) -> bool:
    """Whether every word of the search is in the key's names, label or help."""
    text = " ".join((*(shown(k) for k in key.keys), key.id.replace("_", " "), key.label, key.help)).lower()
    return all(word in text for word in words.lower().split())


class HelpScreen(ModalScreen[str | None], inherit_bindings=False):
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

    def on_mount(self) -> None:
        self.query_one(SafeInput).focus()
        self.call_after_refresh(self._search, "")

    def on_resize(self) -> None:
        self.call_after_refresh(self._search, self.query_one(SafeInput).value)

    def on_input_changed(self, event: SafeInput.Changed) -> None:
        self._search(event.value)

    def on_input_submitted(self) -> None:
        self.action_run_it()

    def _search(self, words: str) -> None:
        app, listing = tic_app(self), self.query_one(LineList)
        self._found = [k for k in app.keymap.on(self._for) if matches(k, words)]
        found = self._found
        listing.cursor = 0
        listing.show(lambda width: [self._row(k, width) for k in found])
        glyphs = app.glyphs
        title = chrome.panel_head("keys", f"of screen {self._for}", self.query_one("#help-title").size.width, glyphs)
        self.query_one("#help-title", Painted).paint([title])
        self._explain()

    def on_listing_moved(self) -> None:
        self._explain()

    def _explain(self) -> None:
        """The whole sentence of the selected action, which its row may be too narrow for."""
        app, panel = tic_app(self), self.query_one("#help-footer", Painted)
        width, glyphs = max(1, panel.size.width), app.glyphs
        text = self._found[self.query_one(LineList).cursor].help if self._found else "no key of this screen does that"
        lines = [*textwrap.wrap(text, width), "", ""][:2]
        foot = chrome.footer(app.keymap.footer(bindings.HELP), "", "dim", width, glyphs)
        panel.paint([*(Builder(width, glyphs).add(line, "title").line() for line in lines), foot])

    def _row(self, key: Key, width: int) -> Line:
        b = Builder(width, tic_app(self).glyphs).add(" ")
        b.cell(" ".join(shown(k) for k in key.keys), 14, "key").cell(key.label, 13, "title")
        return b.add(key.help, "text").line()

    def action_up(self) -> None:
        self.query_one(LineList).move(-1)

    def action_down(self) -> None:
        self.query_one(LineList).move(1)

    def action_page_up(self) -> None:
        self.query_one(LineList).page(-1)

    def action_page_down(self) -> None:
        self.query_one(LineList).page(1)

    def action_top(self) -> None:
        self.query_one(LineList).to_top()

    def action_end(self) -> None:
        self.query_one(LineList).to_end()

    def action_run_it(self) -> None:
        listing = self.query_one(LineList)
        self.dismiss(self._found[listing.cursor].id if self._found else None)

    def action_close(self) -> None:
        self.dismiss(None)
