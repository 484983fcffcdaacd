"""One cell of the gates: its cause, the evidence behind it, what became stale and why, what to run again at least.

    cell -> evidence -> comparison -> sequence -> token -> files

Where there is no room for both (below 120 columns, and few lines for much evidence) it shows its evidence or the rest,
and Tab turns between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.age import age
from tic_tui.evidence_model import Candidate, Cell, CellView, EvidenceAsk
from tic_tui.model import Demand
from tic_tui.render import cell as lines
from tic_tui.render import chrome, gates
from tic_tui.render.text import Line, some, text_of
from tic_tui.screens.base import TABLE, View
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.rows import RowList


class CellScreen(View):
    """One cell. Enter opens the comparison that a piece of evidence is of."""

    name_in_table = bindings.CELL
    BINDINGS = TABLE.textual(bindings.CELL)

    def __init__(self, cell: Cell, one: Candidate) -> None:
        super().__init__()
        self._known = cell, one  # what the list said of it, until it is read
        self._arranged: object = None
        self._ask = EvidenceAsk(cell.candidate_id, str(cell.gate), cell.cell)

    def body(self) -> ComposeResult:
        yield Painted(id="verdict")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="within-head")
                yield RowList(self._row, lambda row: row.id, id="within")
                yield Painted(id="within-none")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield LineList(id="about", cursor=False)

    def on_mount(self) -> None:
        self.within.focus()

    @property
    def within(self) -> RowList[lines.Row]:
        """Its evidence, then what counts no more."""
        return self.query_one(RowList)

    @property
    def about(self) -> LineList:
        """All that is known of the cell."""
        return self.query_one("#about", LineList)

    def crumbs(self) -> Sequence[str]:
        return ("tic", gates.name_of(self._known[1]), f"{self._ask.gate}/{self._ask.cell}")

    def demand(self) -> Demand:
        return Demand("cell", evidence=self._ask)

    def view_shown(self) -> CellView | None:
        """The reading, if it is of this cell."""
        view = tic_app(self).readings.cell
        return view if view is not None and view.demand == self.demand() else None

    def sync(self) -> None:
        view, glyphs, within = self.view_shown(), tic_app(self).glyphs, self.within
        if view is not None:
            within.show(lines.rows(view))
        cell, one = (view.row, view.candidate) if view is not None else self._known
        self.query_one("#verdict", Painted).paint(lines.head(cell, one, self.size.width, glyphs))
        self._arrange()
        width = self.query_one("#records").size.width or self.size.width
        said = "" if view is None else f"{len(view.pieces)} current"
        said += f", {some(len(view.past), 'other')}" if view is not None and view.past else ""
        head = chrome.panel_head("evidence", said, width, glyphs, focused=self.focused is within)
        names = [lines.row_header(within.cells, glyphs)] if within.row_count else []
        self.query_one("#within-head", Painted).paint([head, *names])
        none = self.query_one("#within-none", Painted)
        none.paint([] if within.row_count else lines.none(view, width, glyphs))
        self._draw_about(view)

    def _arrange(self) -> None:
        """Beside from 120 columns on, below each other while there are lines for both, else the one with the focus."""
        rows, wide = self.within.row_count, self.size.width >= 120
        both, reads = wide or self.size.height >= rows + 18, self.focused is self.about
        self.set_class(wide, "-beside")
        self.query_one("#records").display = rows > 0 and (both or not reads)
        self.query_one("#side").display = both or reads or rows == 0
        self.query_one("#records").styles.height = rows + 2 if both and not wide else "1fr"
        self.within.display = rows > 0
        if self._arranged != (rows, both, wide, reads):
            self._arranged = (rows, both, wide, reads)
            self.call_after_refresh(self.refresh_all)  # the panels have their sizes then
        if rows == 0 and self.view_shown() is not None and self.focused is not self.about:
            self.set_focus(self.about)

    def _draw_about(self, view: CellView | None) -> None:
        side = self.query_one("#side-head", Painted)
        if not self.query_one("#side").display:
            return
        width, glyphs = side.size.width or self.size.width, tic_app(self).glyphs
        side.paint([chrome.panel_head("why, and what to do", "", width, glyphs, focused=self.focused is self.about)])
        self.about.show(lambda cells: self._detail(view, cells))

    def _detail(self, view: CellView | None, width: int) -> list[Line]:
        return [] if view is None else lines.detail(view, self.within.selected, width, tic_app(self).glyphs)

    def _row(self, row: lines.Row, width: int, selected: bool) -> Line:
        app, view = tic_app(self), self.view_shown()
        if view is None:
            return ()
        return lines.row_line(row, view, age(row.said_at, app.clock()), width, app.glyphs, selected=selected)

    # --- what the lists say ---

    def on_listing_moved(self) -> None:
        self._draw_about(self.view_shown())

    def on_descendant_focus(self) -> None:
        self.sync()

    # --- actions ---

    def target_run(self) -> tuple[str, int | None, str] | None:
        view, row = self.view_shown(), self.within.selected
        one = lines.comparison_of(view, row) if view is not None else None
        if one is not None and one.run_id is not None:
            return one.run_id, one.attempt, one.target
        runs = view.candidate.run_ids if view is not None and view.candidate is not None else ()
        return (runs[-1], None, "") if runs else None

    def choose_run(self) -> None:
        if (about := self.target_run()) is not None:
            tic_app(self).select_run(about[0])

    def copy_text(self) -> str:
        return text_of(self._detail(self.view_shown(), 200))

    async def action_open(self) -> None:
        view, row = self.view_shown(), self.within.selected
        if view is None or row is None:
            tic_app(self).tell("no evidence stands here")
            return
        one = lines.comparison_of(view, row)
        if one is None:
            tic_app(self).tell("it is of no comparison of this store")
            return
        await tic_app(self).push_screen(ComparisonScreen(one))

    def action_next_panel(self) -> None:
        to_about = self.focused is not self.about
        # Shown before it is focused: what is not displayed cannot be.
        self.query_one("#side").display = self.query_one("#side").display or to_about
        self.query_one("#records").display = self.query_one("#records").display or not to_about
        self.set_focus(self.about if to_about or not self.within.row_count else self.within)

    def action_back(self) -> None:
        tic_app(self).pop_screen()
