"""What all views share: the status line, the footer, and the actions that work everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen

from tic_tui import bindings, clipboard
from tic_tui.model import Demand
from tic_tui.neighbours import Neighbours
from tic_tui.render import chrome
from tic_tui.widgets.painted import Listing, Painted, tic_app

if TYPE_CHECKING:
    from tic_tui.execution import Finding
    from tic_tui.histories import Side


@runtime_checkable
class Drawn(Protocol):
    """A screen or dialog that draws what the app holds, again on every reading and tick."""

    def refresh_all(self) -> None:
        """Draws it now."""
        ...


class View(Screen[None], inherit_bindings=False):
    """A view of the app. Subclasses give `name_in_table`, `body` and `sync`."""

    name_in_table: ClassVar[str] = ""

    def compose(self) -> ComposeResult:
        yield Painted(id="status")
        yield Painted(id="trouble")
        yield Painted(id="frozen")
        with Vertical(id="body"):
            yield from self.body()
        yield Painted(id="footer")

    def body(self) -> ComposeResult:
        """The widgets between the status line and the footer."""
        raise NotImplementedError

    def crumbs(self) -> Sequence[str]:
        """Where the reader is."""
        raise NotImplementedError

    def sync(self) -> None:
        """Draws what the app holds now. Called on every reading, on every tick of ages, and on resume."""
        raise NotImplementedError

    def unread(self) -> str:
        """What stands in the place of a reading that did not come yet."""
        link = tic_app(self).link
        return f"cannot be read: {link.detail}" if link.state == "disconnected" and link.detail else "reading ..."

    def target_run(self) -> tuple[str, int | None, str] | None:
        """(run_id, attempt, record) that a mark made here is about; None without one."""
        raise NotImplementedError

    def copy_text(self) -> str:
        """What `y` copies here; "" for nothing."""
        raise NotImplementedError

    def demand(self) -> Demand | None:
        """What it asks for; None: what the view asks for that it was opened from."""
        return None

    def take_neighbours(self, found: Neighbours) -> None:
        """The lines round a record that this view asked for."""

    def take_findings(self, ids: tuple[str, ...], rows: tuple[Finding, ...]) -> None:
        """Findings that this view asked for by name."""

    def take_sides(self, step: int, sides: tuple[Side, ...]) -> None:
        """One step in all sources that this view asked for."""

    def draw_frame(self) -> None:
        """Status line and footer."""
        app = tic_app(self)
        now = tic_app(self).clock()
        width = self.size.width
        self.query_one("#status", Painted).paint([chrome.status_line(self.crumbs(), app.link, now, width, app.glyphs)])
        key = bindings.shown(app.keymap.find("copy_hint").keys[0])
        wrong, trouble = chrome.trouble_line(app.link, now, key, width, app.glyphs), self.query_one("#trouble", Painted)
        trouble.display = wrong is not None
        trouble.paint([wrong] if wrong is not None else [])
        frozen, banner = app.frozen_at, self.query_one("#frozen", Painted)
        banner.display = frozen is not None
        if frozen is not None:
            key = bindings.shown(app.keymap.find("freeze").keys[0])
            banner.paint([chrome.frozen_line(frozen, app.readings.waits, key, width, app.glyphs)])
        keys = app.keymap.footer(self.name_in_table)
        text, tone = app.notice
        self.query_one("#footer", Painted).paint([chrome.footer(keys, text, tone, width, app.glyphs)])

    def refresh_all(self) -> None:
        """Frame and body."""
        if self.is_mounted and self.size.width:
            self.draw_frame()
            self.sync()

    def on_screen_resume(self) -> None:
        tic_app(self).demand_changed()
        self.refresh_all()

    def on_resize(self) -> None:
        # Sizes of the widgets are known only after the layout that follows this event.
        self.call_after_refresh(self.refresh_all)

    @property
    def listing(self) -> Listing | None:
        """The list that has the focus."""
        return self.focused if isinstance(self.focused, Listing) else None

    # --- actions of the binding table; an opening one waits until it is there: the keys typed behind it go there ---

    def action_up(self) -> None:
        if self.listing:
            self.listing.move(-1)

    def action_down(self) -> None:
        if self.listing:
            self.listing.move(1)

    def action_page_up(self) -> None:
        if self.listing:
            self.listing.page(-1)

    def action_page_down(self) -> None:
        if self.listing:
            self.listing.page(1)

    def action_top(self) -> None:
        if self.listing:
            self.listing.to_top()

    def action_end(self) -> None:
        if self.listing:
            self.listing.to_end()

    async def action_inconclusive(self) -> None:
        await tic_app(self).saying.ask_mark("inconclusive")

    async def action_note(self) -> None:
        await tic_app(self).saying.ask_mark("note")

    async def action_retract(self) -> None:
        await tic_app(self).saying.ask_retract()

    def action_freeze(self) -> None:
        tic_app(self).toggle_freeze()

    def action_copy(self) -> None:
        clipboard.copy(tic_app(self), self.copy_text() or chrome.hint_of(tic_app(self).link))

    def action_copy_hint(self) -> None:
        hint = chrome.hint_of(tic_app(self).link)
        if hint:
            clipboard.copy(tic_app(self), hint)
        else:
            tic_app(self).tell("the connection offers nothing to copy")

    def choose_run(self) -> None:
        """Before a screen about one run comes: here it stays the one that was selected last."""

    async def action_show_runs(self) -> None:
        await tic_app(self).go(bindings.RUNS)

    async def action_show_run(self) -> None:
        self.choose_run()
        await tic_app(self).show_run()

    async def action_show_mismatches(self) -> None:
        await tic_app(self).show_mismatches()

    async def action_show_state(self) -> None:
        self.choose_run()
        await tic_app(self).show_state()

    async def action_show_faults(self) -> None:
        self.choose_run()
        await tic_app(self).go(bindings.FAULTS)

    async def action_show_evidence(self) -> None:
        self.choose_run()
        await tic_app(self).show_evidence()

    async def action_show_comparisons(self) -> None:
        self.choose_run()
        await tic_app(self).show_comparisons(tic_app(self).selected_run)

    async def action_next_fault(self) -> None:
        """Here: to the first fault of what is under the cursor. Screen 5 goes from fault to fault."""
        if (about := self.target_run()) is None:
            tic_app(self).tell("nothing is selected")
            return
        tic_app(self).select_run(about[0])
        await tic_app(self).go(bindings.FAULTS)

    async def action_previous_fault(self) -> None:
        await View.action_next_fault(self)

    async def action_palette(self) -> None:
        await tic_app(self).launcher.show_palette(self.name_in_table)

    def action_mouse(self) -> None:
        tic_app(self).toggle_mouse()

    async def action_help(self) -> None:
        await tic_app(self).launcher.show_help(self.name_in_table)

    async def action_quit(self) -> None:
        tic_app(self).leave()

    def action_quit_keep(self) -> None:
        tic_app(self).leave(keep=True)


TABLE = bindings.Keymap()
