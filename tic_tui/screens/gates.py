"""Screen 6, first page: candidates at the five gates, and the cells of the one under the cursor with their causes.

Left out in this order: the cause in full, where the cells take all lines; the legend below 20 lines; the cells below 16
lines, where one line says the cell that Enter opens; words of the table (render/gates.py). The candidates stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.evidence_model import Candidate, Cell, GatesView
from tic_tui.model import Demand
from tic_tui.render import chrome, gates
from tic_tui.render.text import Line
from tic_tui.screens.base import TABLE
from tic_tui.screens.cell import CellScreen
from tic_tui.screens.pages import PageView
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.rows import RowList


class GatesScreen(PageView):
    """Candidates and their cells. Enter opens the cell under the cursor of the lower list."""

    name_in_table = bindings.GATES
    BINDINGS = TABLE.textual(bindings.GATES)

    def __init__(self) -> None:
        super().__init__()
        self.gate = gates.ORDER[0]
        self._wanted = ""
        self._pointed: tuple[str, str] = ("", "")  # the candidate and gate whose worst cell the cursor was put on

    def body(self) -> ComposeResult:
        yield Painted(id="pages")
        yield Painted(id="candidates-head")
        yield Painted(id="nothing")
        yield RowList(self._candidate_line, lambda one: one.candidate_id, id="candidates")
        with Vertical(id="cells-panel"):
            yield Painted(id="cells-head")
            yield RowList(self._cell_line, lambda cell: (cell.gate, cell.cell), id="cells")
        yield Painted(id="why")
        yield Painted(id="legend")

    def point_at(self, run_id: str) -> None:
        """Puts the cursor on the candidate that this run executes, as soon as it is read."""
        self._wanted = run_id
        self.refresh_all()

    @property
    def main(self) -> RowList[Candidate]:
        """The candidates."""
        return self.query_one("#candidates", RowList)

    @property
    def cells(self) -> RowList[Cell]:
        """The cells of the candidate under the cursor."""
        return self.query_one("#cells", RowList)

    def crumbs(self) -> Sequence[str]:
        return ("tic", tic_app(self).evidence_run or "all runs", "evidence")

    def demand(self) -> Demand:
        return Demand("gates", tic_app(self).evidence_run)

    def view_shown(self) -> GatesView | None:
        """The reading, if it is one of what is asked for."""
        view = tic_app(self).readings.gates
        return view if view is not None and view.demand == self.demand() else None

    # --- drawing ---

    def sync(self) -> None:
        view, glyphs = self.view_shown(), tic_app(self).glyphs
        self.draw_pages()
        if view is not None:
            self.main.show(view.candidates)
            self._point(view)
        elif self.main.rows and tic_app(self).readings.gates is not None:
            self.main.show(())
        rows = self.main.row_count
        self._arrange(rows)
        self.settled((rows > 0, self.size))
        width = self.size.width
        self.say_nothing(view, rows, lambda cells, _: gates.nothing(view, cells, glyphs) if view is not None else [])
        head = chrome.panel_head(
            "candidates",
            gates.counts(view) if view is not None else "",
            width,
            glyphs,
            focused=self.focused is self.main,
        )
        names = gates.header(self.main.cells if rows else width, glyphs, chosen=self.gate)
        self.query_one("#candidates-head", Painted).paint([head, *([names] if rows else [])])
        self._draw_cells()

    def _point(self, view: GatesView) -> None:
        run, self._wanted = self._wanted, ""
        found = next((one for one in view.candidates if run and run in one.run_ids), None)
        if found is not None:
            self.main.go_to(found.candidate_id)

    def _arrange(self, rows: int) -> None:
        height, both = self.size.height, self.size.height >= 16 and rows > 0
        self.main.display = rows > 0
        self.query_one("#cells-panel").display = both
        self.main.styles.height = min(rows, max(2, height // 4)) if both else "1fr"
        legend = self.query_one("#legend", Painted)
        legend.paint([gates.legend(self.size.width, tic_app(self).glyphs)] if rows and height >= 20 else [])

    def _draw_cells(self) -> None:
        """The cells of the candidate under the cursor; the cursor below goes to the worst one of the chosen gate."""
        view, one, app = self.view_shown(), self.main.selected, tic_app(self)
        panel, cells = self.query_one("#cells-head", Painted), self.cells
        if view is None or one is None:
            return
        told = view.cells.get(one.candidate_id, ())
        cells.show(told)
        if self._pointed != (one.candidate_id, self.gate):
            self._pointed = (one.candidate_id, self.gate)
            cells.move_to(gates.worst(told, self.gate))
        parent = view.named(one.parent_id) if one.parent_id is not None else ""
        focused = self.focused is cells
        panel.paint([gates.cells_head(one, told, parent, self.size.width, app.glyphs, focused=focused)])
        free = self.size.height - 10 - self.main.row_count - len(told)
        shown = gates.why(one, cells.selected, self.size.width, free, app.glyphs) if cells.selected and free > 2 else []
        why = self.query_one("#why", Painted)
        why.paint(shown)
        why.styles.height = "1fr" if shown else "auto"
        self.query_one("#cells-panel").styles.height = len(told) + 1 if shown else "1fr"
        if not self.query_one("#cells-panel").display and told:
            row = gates.cell_row(told[cells.cursor], True, self.size.width, app.glyphs, selected=False)
            self.query_one("#legend", Painted).paint([row])

    def _candidate_line(self, one: Candidate, width: int, selected: bool) -> Line:
        app, view = tic_app(self), self.view_shown()
        told = view.cells.get(one.candidate_id, ()) if view is not None else ()
        parent = view.named(one.parent_id) if view is not None and one.parent_id is not None else ""
        return gates.candidate_row(
            one, told, parent, app.clock(), width, app.glyphs, selected=selected, chosen=self.gate
        )

    def _cell_line(self, cell: Cell, width: int, selected: bool) -> Line:
        rows = self.cells.rows
        first = next((row for row in rows if row.gate == cell.gate), cell) is cell
        pointed = not selected and cell is self.cells.selected  # Enter opens it, whichever list has the focus
        return gates.cell_row(cell, first, width, tic_app(self).glyphs, selected=selected, pointed=pointed)

    # --- what the lists say ---

    def on_listing_moved(self) -> None:
        if self.focused is self.cells and (cell := self.cells.selected) is not None:
            self._choose(str(cell.gate))
        self.sync()

    def on_descendant_focus(self) -> None:
        self.sync()

    def _choose(self, gate: str) -> None:
        one = self.main.selected
        self.gate = gate
        self._pointed = (one.candidate_id if one is not None else "", gate)

    # --- actions ---

    def action_left(self) -> None:
        self._next_gate(-1)

    def action_right(self) -> None:
        self._next_gate(1)

    def _next_gate(self, by: int) -> None:
        at = gates.ORDER.index(self.gate) if self.gate in gates.ORDER else 0
        self.gate = gates.ORDER[max(0, min(len(gates.ORDER) - 1, at + by))]
        self.sync()

    def action_next_panel(self) -> None:
        there = self.query_one("#cells-panel").display
        self.set_focus(self.cells if self.focused is self.main and there else self.main)

    async def action_open(self) -> None:
        cell, one = self.cells.selected, self.main.selected
        if cell is not None and one is not None:
            await tic_app(self).push_screen(CellScreen(cell, one))

    def action_all_runs(self) -> None:
        app, one = tic_app(self), self.main.selected
        if app.evidence_run is not None:
            app.evidence_run = None
        elif (run := next(iter(one.run_ids), None) if one is not None else app.selected_run) is not None:
            app.select_run(run)
            app.evidence_run = run
        else:
            app.tell("no run is chosen: press 1, choose one")
        app.demand_changed()
        self.refresh_all()

    def choose_run(self) -> None:
        one = self.main.selected
        if one is not None and one.run_ids and tic_app(self).selected_run not in one.run_ids:
            tic_app(self).select_run(one.run_ids[-1])

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.main.selected
        return (one.run_ids[-1], None, "") if one is not None and one.run_ids else None

    def copy_text(self) -> str:
        one, cell = self.main.selected, self.cells.selected
        if one is None:
            return ""
        if cell is None:
            return one.candidate_id
        stale = ", stale" if cell.stale else ""
        return f"{one.candidate_id} {cell.gate}/{cell.cell}: {cell.state}{stale}: {cell.cause}"
