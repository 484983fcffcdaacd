"""Screen 3: every mismatch record, through a stack of filters, beside the detail of the one under the cursor.

Left out in this order: the detail below 120 columns and 30 lines; the stack's own lines below 16 lines, where one line
says all filters; then columns of the table (render/records.py). The count of what matches and the table stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.filters import Filter
from tic_tui.model import Demand, Mismatch, MismatchesView
from tic_tui.neighbours import Neighbours
from tic_tui.render import chrome, filters, records
from tic_tui.render.text import Builder, Line
from tic_tui.screens.base import TABLE
from tic_tui.screens.filtered import FilteredView
from tic_tui.screens.inspect import InspectScreen
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.lists import MismatchTable
from tic_tui.widgets.painted import Painted, tic_app


class MismatchesScreen(FilteredView[MismatchesView]):
    """Records of one run or of all."""

    name_in_table = bindings.MISMATCHES
    BINDINGS = TABLE.textual(bindings.MISMATCHES)
    filter_table = "mismatches"
    what = "mismatches"

    def body(self) -> ComposeResult:
        yield Painted(id="stack-line")
        yield FilterStack(id="stack")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="records-head")
                yield Painted(id="no-record")
                yield MismatchTable(id="all-mismatches", column="metric")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield DetailPane(id="side-detail")

    @property
    def table(self) -> MismatchTable:
        """The records."""
        return self.query_one(MismatchTable)

    def crumbs(self) -> Sequence[str]:
        return ("tic", self.run_id or "all runs", "mismatches")

    def demand(self) -> Demand:
        return Demand(
            "mismatches", self.run_id, self.table.around, filters=self.filters, choices=self.wanted_choices
        )  # fmt: skip

    def view_read(self) -> MismatchesView | None:
        return tic_app(self).mismatches_view

    # --- drawing ---

    def counts(self, view: MismatchesView | None) -> str:
        return filters.counts(view, self.filters)

    def grows(self, view: MismatchesView) -> bool:
        return view.search.complete  # while older records are still searched it grows by old ones

    def nothing(self, view: MismatchesView | None, width: int) -> Sequence[Line]:
        return [Builder(width, tic_app(self).glyphs).add(f"  {self._none(view)}", "dim").line()]

    def _none(self, view: MismatchesView | None) -> str:
        if view is None:
            return self.unread()
        if view.total == 0:
            return "no mismatch record yet"
        return "no record matches all filters" if view.search.complete else "none found yet; searching on"

    def draw_rest(self) -> None:
        head, pane = self.query_one("#side-head", Painted), self.query_one(DetailPane)
        if not self.query_one("#side").display:
            return
        record = self.table.selected
        place = "" if record is None else f"line {record.line_no}"
        head.paint([chrome.panel_head("detail", place, max(1, head.size.width), tic_app(self).glyphs)])
        pane.show_item(record)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    # --- actions ---

    def target_run(self) -> tuple[str, int | None, str] | None:
        record = self.table.selected
        return None if record is None else (str(record.run_id), record.attempt, record.target)

    def copy_text(self) -> str:
        record = self.table.selected
        return "" if record is None else f"{record.place}\n{record.raw}"

    async def open_row(self) -> None:
        if (record := self.table.selected) is not None:
            await tic_app(self).push_screen(InspectScreen(record))

    def filter_of_cursor(self) -> Filter | None:
        record = self.table.selected
        if record is None:
            return None
        return Filter(column := records.COLUMNS.filter_of(self.table.column), "is not", _value(record, column))

    def action_all_runs(self) -> None:
        record, app = self.table.selected, tic_app(self)
        if self.run_id is not None:
            self.show_run(None)
        elif (run := str(record.run_id) if record is not None else app.selected_run) is not None:
            app.select_run(run)
            self.show_run(run)


def _value(record: Mismatch, column: str) -> str:
    """What a filter of this column has to say to find the record."""
    value = getattr(record, {"state": "parse_state"}.get(column, column))
    return "unknown" if value is None or value == "" else repr(value) if isinstance(value, float) else str(value)
