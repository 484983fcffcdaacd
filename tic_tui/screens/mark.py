"""What a person says: a mark or a note with a reason, or the retraction of one. Marks only lower; none sets a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from tic_tui import bindings
from tic_tui.model import Mark
from tic_tui.render import chrome, records
from tic_tui.render.text import Builder, Line
from tic_tui.screens.base import TABLE
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.safe_input import SafeInput


@dataclass(frozen=True, slots=True)
class Said:
    """What is to be written: one line of the spool."""

    run_id: str
    attempt: int | None
    scope: str
    target: str
    verdict: str
    reason: str


class ReasonScreen(ModalScreen[Said | None], inherit_bindings=False):
    """A dialog round one input, the reason; a subclass draws it and says what Enter writes."""

    BINDINGS = TABLE.textual(bindings.MARK)
    scope_label: ClassVar[str] = "scope"  # what the key that chooses does here

    def __init__(self) -> None:
        super().__init__()
        self._complaint = ""

    def on_mount(self) -> None:
        # At once: what is typed right behind the key that opened it belongs here.
        self.set_focus(self.query_one(SafeInput))
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def on_input_submitted(self) -> None:
        self.action_write()

    def on_input_changed(self) -> None:
        if self._complaint:
            self._complaint = ""
            self._draw()

    def complain(self, text: str) -> None:
        """Says what is missing, until something is typed."""
        self._complaint = text
        self._draw()

    def foot(self, width: int) -> Line:
        """The keys, as the user has them, or the complaint."""
        app = tic_app(self)
        if self._complaint:
            return Builder(width, app.glyphs).add(self._complaint, "stale").line()
        keys = [replace(k, label=self.scope_label) if k.id == "scope" else k for k in app.keymap.footer(bindings.MARK)]
        return chrome.footer(keys, "", "dim", width, app.glyphs)

    def _draw(self) -> None:
        raise NotImplementedError

    def action_write(self) -> None:
        raise NotImplementedError

    def action_close(self) -> None:
        self.dismiss(None)


class MarkScreen(ReasonScreen):
    """Asks for a reason, and which part is meant."""

    def __init__(self, verdict: str, run_id: str, attempt: int | None, record: str) -> None:
        super().__init__()
        self._verdict, self._run, self._attempt, self._record = verdict, run_id, attempt, record
        self._scopes = ["run"] + ["attempt"] * (attempt is not None) + ["record"] * bool(record)
        self._scope = "run"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog small"):
            yield Painted(id="mark-title")
            yield Painted(id="mark-scope")
            yield SafeInput("reason (required)", id="reason")
            yield Painted(id="mark-foot")

    def _draw(self) -> None:
        app = tic_app(self)
        glyphs, width = app.glyphs, max(1, self.query_one("#mark-title").size.width)
        title = "mark inconclusive" if self._verdict == "inconclusive" else "note"
        self.query_one("#mark-title", Painted).paint([chrome.panel_head(title, self._run, width, glyphs)])
        self.query_one("#mark-scope", Painted).paint([self._scope_line(width), Builder(width, glyphs).line()])
        self.query_one("#mark-foot", Painted).paint([Builder(width, glyphs).line(), self.foot(width)])

    def _scope_line(self, width: int) -> Line:
        glyphs = tic_app(self).glyphs
        b = Builder(width, glyphs).add("for the  ", "head")
        names = {"run": "run", "attempt": f"attempt {self._attempt}", "record": "record under the cursor"}
        for scope in self._scopes:
            if scope == self._scope:
                b.add(f"[{names[scope]}]", "title")
            else:
                b.add(f" {names[scope]} ", "dim")
            b.add("  ")
        return b.line()

    def action_scope(self) -> None:
        self._scope = self._scopes[(self._scopes.index(self._scope) + 1) % len(self._scopes)]
        self._draw()

    def action_write(self) -> None:
        reason = self.query_one(SafeInput).value.strip()
        if not reason:
            note = self._verdict == "note"
            self.complain("a note needs a text" if note else "a reason is required: what makes this inconclusive?")
            return
        attempt = None if self._scope == "run" else self._attempt
        target = self._record if self._scope == "record" else ""
        self.dismiss(Said(self._run, attempt, self._scope, target, self._verdict, reason))


class RetractScreen(ReasonScreen):
    """Chooses one of the marks in force, and asks why it is taken back."""

    scope_label = "next mark"

    def __init__(self, run_id: str, marks: Sequence[Mark]) -> None:
        super().__init__()
        self._run = run_id
        self._marks = marks

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Painted(id="mark-title")
            yield LineList(id="mark-list")
            yield SafeInput("reason for taking it back (required)", id="reason")
            yield Painted(id="mark-foot")

    def _draw(self) -> None:
        app = tic_app(self)
        glyphs, width = app.glyphs, max(1, self.query_one("#mark-title").size.width)
        head = chrome.panel_head("retract a mark", f"of {self._run}", width, glyphs)
        self.query_one("#mark-title", Painted).paint([head])
        now = tic_app(self).clock()
        marks = self._marks
        self.query_one(LineList).show(
            lambda width: [records.mark_row(m, now, width, glyphs, selected=False) for m in marks]
        )
        self.query_one("#mark-foot", Painted).paint([self.foot(width)])

    def action_scope(self) -> None:
        listing = self.query_one(LineList)
        listing.move_to((listing.cursor + 1) % max(1, listing.row_count))

    def action_write(self) -> None:
        reason = self.query_one(SafeInput).value.strip()
        if not reason:
            self.complain("a reason is required")
            return
        mark = self._marks[self.query_one(LineList).cursor]
        self.dismiss(Said(str(mark.run_id), mark.attempt, str(mark.scope), str(mark.id), "retract", reason))
