"""Comparisons of one run or of all, through a stack of filters, beside the detail of the one under the cursor.

Left out in this order: the detail below 120 columns and 30 lines, where two lines under the table say the most of it;
the control groups and what waits below 30 lines; those two lines and the stack's own below 16 lines, where one line
says all filters; then columns of the table (render/comparisons.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.comparison_model import CompareAsk, Comparison, ComparisonsView
from tic_tui.filters import Filter
from tic_tui.model import Demand
from tic_tui.render import chrome, comparison, comparisons
from tic_tui.render.text import Builder, Line, text_of
from tic_tui.screens.base import TABLE
from tic_tui.screens.comparison import ComparisonScreen
from tic_tui.screens.filtered import FilteredView
from tic_tui.widgets.comparisons import ComparisonTable
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app


class ComparisonsScreen(FilteredView[ComparisonsView]):
    """Comparisons of one run or of all."""

    name_in_table = bindings.COMPARISONS
    BINDINGS = TABLE.textual(bindings.COMPARISONS)
    filter_table = "comparisons"
    what = "comparisons"

    def __init__(self) -> None:
        super().__init__()
        self._asked_board: tuple[str | None, int | None, int | None] | None = None

    def body(self) -> ComposeResult:
        yield Painted(id="stack-line")
        yield FilterStack(id="stack")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="records-head")
                yield Painted(id="no-record")
                yield ComparisonTable(id="all-comparisons", column="label")
                yield Painted(id="about")
                yield Painted(id="board")
                yield Painted(id="queue")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield LineList(id="side-comparison", cursor=False)

    @property
    def table(self) -> ComparisonTable:
        """The comparisons."""
        return self.query_one(ComparisonTable)

    def crumbs(self) -> Sequence[str]:
        return ("tic", self.run_id or "all runs", "comparisons")

    def demand(self) -> Demand:
        self._asked_board = self._board_wanted()
        return Demand(
            "comparisons", self.run_id, self.table.around, filters=self.filters, choices=self.wanted_choices,
            compare=CompareAsk(board=self._asked_board),
        )  # fmt: skip

    def _board_wanted(self) -> tuple[str | None, int | None, int | None] | None:
        """The step whose control groups are shown: that of the comparison under the cursor."""
        one = self.table.selected
        return None if one is None or not self.tall else (one.run_id, one.attempt, one.step)

    def view_read(self) -> ComparisonsView | None:
        return tic_app(self).comparisons_view

    # --- drawing ---

    def counts(self, view: ComparisonsView | None) -> str:
        return comparisons.counts(view, self.filters)

    def nothing(self, view: ComparisonsView | None, width: int) -> Sequence[Line]:
        glyphs = tic_app(self).glyphs
        if view is not None and view.total == 0:
            return comparisons.nothing(view.queue, width, glyphs)
        text = self.unread() if view is None else "no comparison matches all filters"
        return [Builder(width, glyphs).add(f"  {text}", "dim").line()]

    def draw_rest(self) -> None:
        self._draw_below()
        self._draw_side()
        if self._asked_board != self._board_wanted():
            tic_app(self).demand_changed()

    def _draw_below(self) -> None:
        """The control groups of the step under the cursor, and what waits to be compared."""
        app, view, one = tic_app(self), self.view_shown(), self.table.selected
        width = self.query_one("#records").size.width or self.size.width
        board, waiting = self.query_one("#board", Painted), self.query_one("#queue", Painted)
        asked = view.demand.compare.board if view is not None and view.demand.compare is not None else None
        aside = self.query_one("#side").display or self.size.height < 16
        self.query_one("#about", Painted).paint(
            [] if one is None or aside else comparisons.about(one, width, app.glyphs)
        )
        here = one is not None and self.tall and view is not None
        if here and view is not None and one is not None:
            read = asked == self._board_wanted()
            board.paint(comparisons.board(view.board if read else None, one.step, width, app.glyphs, read=read))
        else:
            board.paint([])
        queue = view.queue if view is not None else ()
        if not queue or self.size.height < 16:
            waiting.paint([])
            return
        head = chrome.panel_head("to be compared", comparisons.queue_words(queue), width, app.glyphs)
        most = max(2, self.size.height // 8) if self.tall else 1
        waiting.paint([head, *comparisons.queue_rows(queue, most, width, app.glyphs)])

    def _draw_side(self) -> None:
        head, pane, one = self.query_one("#side-head", Painted), self.query_one(LineList), self.table.selected
        if not self.query_one("#side").display:
            return
        place = "" if one is None else f"step {'unknown' if one.step is None else one.step}"
        head.paint([chrome.panel_head("detail", place, max(1, head.size.width), tic_app(self).glyphs)])
        pane.show(lambda width: self._detail(one, width))

    def _detail(self, one: Comparison | None, width: int) -> list[Line]:
        if one is None:
            return []
        glyphs = tic_app(self).glyphs
        named = comparison.field("compared", comparisons.what(one), width, glyphs)
        return [*named, *comparison.detail(one, width, glyphs)]

    # --- actions ---

    def choose_run(self) -> None:
        if self.run_id is not None:
            tic_app(self).select_run(self.run_id)

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.table.selected
        return None if one is None or one.run_id is None else (one.run_id, one.attempt, one.target)

    def copy_text(self) -> str:
        one = self.table.selected
        if one is None:
            return ""
        return text_of(self._detail(one, 200))

    async def open_row(self) -> None:
        if (one := self.table.selected) is not None:
            await tic_app(self).push_screen(ComparisonScreen(one))

    def filter_of_cursor(self) -> Filter | None:
        one = self.table.selected
        if one is None:
            return None
        column = comparisons.COLUMNS.filter_of(self.table.column)
        return Filter(column, "is not", comparisons.filter_value(one, column), table="comparisons")

    def action_all_runs(self) -> None:
        one, app = self.table.selected, tic_app(self)
        if self.run_id is not None:
            self.show_run(None)
        elif (run := one.run_id if one is not None and one.run_id else app.selected_run) is not None:
            app.select_run(run)
            self.show_run(run)
