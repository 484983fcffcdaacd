"""Screen 6, fourth page: criteria with their state, baselines with their reviewer, case records with their six parts.

The detail is left out below 120 columns and 30 lines; Enter shows all of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.evidence_model import Baseline, Case, Record
from tic_tui.glyphs import Glyphs
from tic_tui.model import Demand
from tic_tui.render import cases, chrome
from tic_tui.render.text import Line, text_of
from tic_tui.screens.base import TABLE
from tic_tui.screens.pages import PageView, RecordScreen
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.rows import RowList


class CasesScreen(PageView):
    """Criteria, baselines and cases. Enter opens one."""

    name_in_table = bindings.CASES
    BINDINGS = TABLE.textual(bindings.CASES)

    def body(self) -> ComposeResult:
        yield Painted(id="pages")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="cases-head")
                yield Painted(id="nothing")
                yield RowList(self._line, cases.key_of, id="cases")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield LineList(id="side-case", cursor=False)

    @property
    def main(self) -> RowList[Record]:
        """All of them."""
        return self.query_one(RowList)

    def crumbs(self) -> Sequence[str]:
        return ("tic", "evidence", "criteria, baselines, cases")

    def demand(self) -> Demand:
        return Demand("cases")

    def sync(self) -> None:
        app, view, wide = tic_app(self), tic_app(self).readings.cases, self.size.width >= 120
        self.draw_pages()
        if view is not None:
            self.main.show(view.records)
        rows = self.main.row_count
        self.set_class(wide, "-beside")
        self.query_one("#side").display = rows > 0 and (wide or self.size.height >= 30)
        self.main.display = rows > 0
        self.settled((rows > 0, self.query_one("#side").display, wide))
        self.say_nothing(view, rows, cases.nothing)
        width = self.query_one("#records").size.width or self.size.width
        said = cases.counts(view) if view is not None else ""
        head = chrome.panel_head("records", said, width, app.glyphs, focused=self.focused is self.main)
        names = [cases.header(self.main.cells, app.glyphs)] if rows else []
        self.query_one("#cases-head", Painted).paint([head, *names])
        self._draw_side()

    def _draw_side(self) -> None:
        head, one, glyphs = self.query_one("#side-head", Painted), self.main.selected, tic_app(self).glyphs
        if not self.query_one("#side").display:
            return
        head.paint([chrome.panel_head("detail", "", max(1, head.size.width), glyphs)])
        self.query_one(LineList).show(lambda width: [] if one is None else cases.detail(one, width, glyphs))

    def _line(self, one: Record, width: int, selected: bool) -> Line:
        app = tic_app(self)
        return cases.row(one, app.clock(), width, app.glyphs, selected=selected)

    def on_listing_moved(self) -> None:
        self._draw_side()

    def on_descendant_focus(self) -> None:
        self.sync()

    # --- actions ---

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.main.selected
        run = one.run_id if isinstance(one, Baseline | Case) else None
        return (run, None, "") if run else None

    def copy_text(self) -> str:
        one = self.main.selected
        return "" if one is None else text_of(cases.detail(one, 200, tic_app(self).glyphs))

    def action_next_panel(self) -> None:
        side = self.query_one(LineList)
        there = self.query_one("#side").display
        self.set_focus(side if self.focused is self.main and there else self.main)

    async def action_open(self) -> None:
        if (one := self.main.selected) is not None:
            key, before = cases.key_of(one), one
            await tic_app(self).push_screen(
                RecordScreen(
                    " ".join(key)[:40], lambda w, g: self._whole(key, before, w, g), self.demand(), self.target_run()
                )
            )

    def _whole(self, key: tuple[str, str], before: Record, width: int, glyphs: Glyphs) -> Sequence[Line]:
        """One of them, as it is in the newest reading."""
        view = tic_app(self).readings.cases
        found = next((one for one in view.records if cases.key_of(one) == key), before) if view is not None else before
        return cases.detail(found, width, glyphs)
