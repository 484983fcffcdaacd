"""What the pages of screen 6 share: the line that names them, going from one to the next, and what stands where
there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from textual.app import ComposeResult

from tic_tui import bindings
from tic_tui.evidence_model import EvidenceView
from tic_tui.glyphs import Glyphs
from tic_tui.model import Demand
from tic_tui.render.text import Builder, Line, text_of
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Listing, Painted, tic_app

TITLES: Final = {
    bindings.GATES: "gates",
    bindings.LEDGER: "ledger",
    bindings.PAIRS: "pairs",
    bindings.CASES: "criteria and cases",
    bindings.HINTS: "hints",
}


def pages_line(shown: str, keys: tuple[str, str], width: int, glyphs: Glyphs) -> Line:
    """The pages, the one that is shown in brackets; then the keys that turn them."""
    b = Builder(width, glyphs)
    if width < sum(len(title) + 3 for title in TITLES.values()):
        at = bindings.PAGES.index(shown) + 1
        b.add(f"[{TITLES[shown]}]", "key").add(f" {at} of {len(TITLES)} ", "dim")
        return b.add_if_fits(f" {keys[0]} {keys[1]} turn", "dim").line()
    for page in bindings.PAGES:
        title = TITLES[page]
        b.add(f"[{title}]" if page == shown else f" {title} ", "key" if page == shown else "dim").add(" ")
    return b.add_if_fits(f" {keys[0]} {keys[1]} turn", "dim").line()


class Turned(View):
    """A view that is a page: two keys turn to another one."""

    def draw_pages(self) -> None:
        """The line that names the pages."""
        app = tic_app(self)
        keys = tuple(bindings.shown(app.keymap.find(name).keys[0]) for name in ("previous_page", "next_page"))
        line = pages_line(self.name_in_table, (keys[0], keys[1]), self.size.width, app.glyphs)
        self.query_one("#pages", Painted).paint([line])

    async def action_next_page(self) -> None:
        await self._turn(1)

    async def action_previous_page(self) -> None:
        await self._turn(-1)

    async def _turn(self, by: int) -> None:
        at = bindings.PAGES.index(self.name_in_table)
        self.choose_run()
        await tic_app(self).go(bindings.PAGES[(at + by) % len(bindings.PAGES)])


class PageView(Turned):
    """A page that is no table with filters."""

    def __init__(self) -> None:
        super().__init__()
        self._arranged: object = None

    def on_mount(self) -> None:
        self.main.focus()

    def settled(self, arranged: object) -> None:
        """Draws again once the layout that follows has given the panels their sizes, if their arrangement changed."""
        if arranged != self._arranged:
            self._arranged = arranged
            self.call_after_refresh(self.refresh_all)

    @property
    def main(self) -> Listing:
        """The list that has the focus first."""
        raise NotImplementedError

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUN if tic_app(self).selected_run else bindings.RUNS)

    def say_nothing(self, view: EvidenceView | None, rows: int, lines: Callable[[int, Glyphs], Sequence[Line]]) -> None:
        """`lines` where a reading has no row; what is under way where there is none."""
        app, panel = tic_app(self), self.query_one("#nothing", Painted)
        width = panel.size.width or self.size.width
        panel.display = rows == 0
        if rows:
            return
        if view is not None:
            panel.paint(lines(width, app.glyphs))
            return
        panel.paint([Builder(width, app.glyphs).add(f"  {self.unread()}", "dim").line()])


class RecordScreen(View):
    """One thing in full: a row of the ledger, a rule, a case. Lines that can be scrolled; Enter has nothing below it.

    Args:
        crumb: what it is. lines: makes them, again on every reading.
    """

    name_in_table = bindings.RECORD
    BINDINGS = TABLE.textual(bindings.RECORD)

    def __init__(
        self, crumb: str, lines: Callable[[int, Glyphs], Sequence[Line]], demand: Demand,
        target: tuple[str, int | None, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._crumb = crumb
        self._lines = lines
        self._demand = demand
        self._target = target

    def body(self) -> ComposeResult:
        yield LineList(id="whole", cursor=False)

    def on_mount(self) -> None:
        self.query_one(LineList).focus()

    def crumbs(self) -> Sequence[str]:
        return ("tic", "evidence", self._crumb)

    def demand(self) -> Demand:
        return self._demand

    def sync(self) -> None:
        self.query_one(LineList).show(lambda width: self._lines(width, tic_app(self).glyphs))

    def target_run(self) -> tuple[str, int | None, str] | None:
        return self._target

    def copy_text(self) -> str:
        return text_of(self._lines(200, tic_app(self).glyphs))

    async def action_open(self) -> None:
        tic_app(self).tell("nothing lies below this")

    def action_back(self) -> None:
        tic_app(self).pop_screen()
