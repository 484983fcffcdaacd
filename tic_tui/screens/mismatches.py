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
from tic_tui.render.text import Builder
from tic_tui.screens.base import TABLE
from tic_tui.screens.filter import Choices
from tic_tui.screens.filtered import FilteredView
from tic_tui.screens.inspect import InspectScreen
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.lists import MismatchTable
from tic_tui.widgets.painted import Painted, tic_app


class MismatchesScreen(FilteredView):
    """Records of one run or of all."""

    name_in_table = bindings.MISMATCHES
    BINDINGS = TABLE.textual(bindings.MISMATCHES)
    filter_table = "mismatches"

    def __init__(self) -> None:
        super().__init__()
        self.run_id: str | None = None  # None: all runs
        self._shown: tuple[str | None, tuple[Filter, ...]] | None = None
        self._at_pause = 0

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

    def on_mount(self) -> None:
        self.query_one(MismatchTable).focus()

    @property
    def table(self) -> MismatchTable:
        """The records."""
        return self.query_one(MismatchTable)

    @property
    def rows(self) -> MismatchTable:
        return self.table

    def crumbs(self) -> Sequence[str]:
        return ("tic", self.run_id or "all runs", "mismatches")

    def demand(self) -> Demand:
        return Demand(
            "mismatches", self.run_id, self.table.around, filters=self.filters, choices=self.wanted_choices
        )  # fmt: skip

    def view_shown(self) -> MismatchesView | None:
        """The reading, if it is one of what is asked for."""
        view = tic_app(self).mismatches_view
        return view if view is not None and view.demand.run_id == self.run_id else None

    # --- drawing ---

    def sync(self) -> None:
        view, table = self.view_shown(), self.table
        table.all_runs = self.run_id is None
        self._arrange()
        if view is not None:
            asked = (view.demand.run_id, view.demand.filters)
            if self._shown is not None and asked[0] != self._shown[0]:
                table.clear()
            self._shown = asked
            table.show(view.window)
        elif self._shown is not None and self._shown[0] != self.run_id:
            self._shown = None
            table.clear()
        self.query_one("#no-record").display = table.row_count == 0
        self.draw_stack()
        self._draw_head()
        self._draw_side()

    def _arrange(self) -> None:
        wide, tall = self.size.width >= 120, self.size.height >= 30
        self.set_class(wide, "-beside")
        self.set_class(tall and not wide, "-below")
        self.query_one("#side").display = wide or tall

    def _draw_head(self) -> None:
        app, table, view = tic_app(self), self.table, self.view_shown()
        width = max(1, table.size.width) if table.size.width else self.size.width
        matching = view.matching if view is not None else 0
        if table.follows or view is None:
            self._at_pause = matching
        # While older records are still searched the count grows by old ones, and says nothing about new ones.
        new = matching - self._at_pause if view is not None and view.search.complete else 0
        head = chrome.badge(
            filters.counts(view, self.filters), table.follows, new, width, app.glyphs, focused=self.focused is table,
            below=table.cursor < table.row_count - 1, key=bindings.shown(app.keymap.find("follow").keys[0]),
        )  # fmt: skip
        cells = table.line_width if table.row_count else width
        names = records.mismatch_header(cells, app.glyphs, chosen=table.column, all_runs=table.all_runs)
        self.query_one("#records-head", Painted).paint([head, names])
        self.query_one("#no-record", Painted).paint([Builder(width, app.glyphs).add(self._nothing(view), "dim").line()])

    def _nothing(self, view: MismatchesView | None) -> str:
        app = tic_app(self)
        if view is None:
            trouble = app.link.detail if app.link.state == "disconnected" else ""
            return f"  cannot be read: {trouble}" if trouble else "  reading ..."
        if view.total == 0:
            return "  no mismatch record yet"
        return "  no record matches all filters" if view.search.complete else "  none found yet; searching on"

    def _draw_side(self) -> None:
        head, pane = self.query_one("#side-head", Painted), self.query_one(DetailPane)
        if not self.query_one("#side").display:
            return
        record = self.table.selected
        place = "" if record is None else f"line {record.line_no}"
        head.paint([chrome.panel_head("detail", place, max(1, head.size.width), tic_app(self).glyphs)])
        pane.show_item(record)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    # --- what the lists say ---

    def on_anchored(self) -> None:
        tic_app(self).demand_changed()
        self._draw_head()

    def on_listing_moved(self) -> None:
        self._draw_head()
        self._draw_side()

    def on_descendant_focus(self) -> None:
        self._draw_head()

    # --- actions ---

    def target_run(self) -> tuple[str, int | None, str] | None:
        record = self.table.selected
        return None if record is None else (str(record.run_id), record.attempt, record.target)

    def copy_text(self) -> str:
        record = self.table.selected
        return "" if record is None else f"{record.place}\n{record.raw}"

    async def action_open(self) -> None:
        if self.focused is self.stack:
            self.action_switch()
        elif (record := self.table.selected) is not None:
            await tic_app(self).push_screen(InspectScreen(record))

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUN if tic_app(self).selected_run else bindings.RUNS)

    def action_follow(self) -> None:
        self.set_focus(self.table)
        self.table.follow()
        self.on_listing_moved()

    def action_left(self) -> None:
        self.table.next_column(-1)
        self._draw_head()

    def action_right(self) -> None:
        self.table.next_column(1)
        self._draw_head()

    def choices_told(self) -> Choices:
        view = tic_app(self).mismatches_view
        return {} if view is None else view.choices

    def filter_of_cursor(self) -> Filter | None:
        record = self.table.selected
        if record is None:
            return None
        return Filter(column := records.filter_column(self.table.column), "is not", _value(record, column))

    def action_all_runs(self) -> None:
        record, app = self.table.selected, tic_app(self)
        if self.run_id is not None:
            self.show_run(None)
        elif (run := str(record.run_id) if record is not None else app.selected_run) is not None:
            app.select_run(run)
            self.show_run(run)

    def show_run(self, run_id: str | None) -> None:
        """Shows the records of this run, or of all."""
        if run_id != self.run_id:
            self.run_id = run_id
            self.table.clear()
        tic_app(self).demand_changed()
        self.refresh_all()


def _value(record: Mismatch, column: str) -> str:
    """What a filter of this column has to say to find the record."""
    value = getattr(record, {"state": "parse_state"}.get(column, column))
    return "unknown" if value is None or value == "" else repr(value) if isinstance(value, float) else str(value)
