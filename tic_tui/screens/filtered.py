"""What screens with a filter stack over a table share: the stack, its table, and where there is room for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tic_tui import bindings
from tic_tui.filters import Filter
from tic_tui.render import chrome, filters
from tic_tui.render.text import Line
from tic_tui.screens.base import View
from tic_tui.screens.filter import Choices, FilterScreen
from tic_tui.widgets.filterstack import FilterStack
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.windowed import ColumnTable

if TYPE_CHECKING:
    from tic_tui.comparison_model import ComparisonsView
    from tic_tui.evidence_model import LedgerView
    from tic_tui.model import MismatchesView

V = TypeVar("V", bound="MismatchesView | ComparisonsView | LedgerView")


class FilteredView(View, Generic[V]):
    """Subclasses yield `Painted(id="stack-line")`, `FilterStack(id="stack")`, the table, `Painted(id="no-record")` for
    where it has no rows, and `#side` for the detail, and say what the filters are about.
    """

    filter_table: ClassVar[str]
    what: ClassVar[str]
    """The rows, in the head of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.run_id: str | None = None  # None: all runs
        self.filters: tuple[Filter, ...] = ()
        self.wanted_choices = ""
        self._at_pause = 0  # how many rows matched when the table stopped following

    @property
    def table(self) -> ColumnTable[Any]:
        """The table that the filters act on."""
        raise NotImplementedError

    def view_read(self) -> V | None:
        """The reading of such rows that came last, of whatever run."""
        raise NotImplementedError

    def view_shown(self) -> V | None:
        """The reading, if it is one of what is asked for."""
        view = self.view_read()
        return view if view is not None and view.demand.run_id == self.run_id else None

    def counts(self, view: V | None) -> str:
        """How many rows there are."""
        raise NotImplementedError

    def grows(self, view: V) -> bool:
        """Whether the count grows by new rows alone."""
        return True

    def nothing(self, view: V | None, width: int) -> Sequence[Line]:
        """What stands in the place of the table where it has no row."""
        raise NotImplementedError

    def draw_rest(self) -> None:
        """What is shown of the row under the cursor."""
        raise NotImplementedError

    async def open_row(self) -> None:
        """Goes one level deeper, if there is a row under the cursor."""
        raise NotImplementedError

    def filter_of_cursor(self) -> Filter | None:
        """The filter that leaves out what the chosen column says under the cursor; None: nothing is selected."""
        raise NotImplementedError

    @property
    def stack(self) -> FilterStack:
        """The filters."""
        return self.query_one(FilterStack)

    @property
    def tall(self) -> bool:
        """Whether there is room under the table."""
        return self.size.height >= 30

    def on_mount(self) -> None:
        self.table.focus()

    def sync(self) -> None:
        table, view = self.table, self.view_shown()
        table.all_runs = self.run_id is None
        self._arrange()
        if view is not None:
            table.show(view.window)
        self.query_one("#no-record").display = table.row_count == 0
        self.draw_stack()
        self.draw_head()
        self.draw_rest()

    def _arrange(self) -> None:
        wide = self.size.width >= 120
        self.set_class(wide, "-beside")
        self.set_class(self.tall and not wide, "-below")
        self.query_one("#side").display = wide or self.tall

    def show_run(self, run_id: str | None) -> None:
        """Shows the rows of this run, or of all."""
        if run_id != self.run_id:
            self.run_id = run_id
            self.table.clear()
        tic_app(self).demand_changed()
        self.refresh_all()

    def choices_told(self) -> Choices:
        """Values of columns, as far as they are read."""
        view = self.view_read()
        return {} if view is None else view.choices

    def draw_head(self) -> None:
        """What stands over the table, or in its place."""
        app, table, view = tic_app(self), self.table, self.view_shown()
        width = max(1, table.size.width) if table.size.width else self.size.width
        matching = view.matching if view is not None else 0
        if table.follows or view is None:
            self._at_pause = matching
        new = matching - self._at_pause if view is not None and self.grows(view) else 0
        head = chrome.badge(
            self.counts(view), table.follows, new, width, app.glyphs, focused=self.focused is table,
            below=table.cursor < table.row_count - 1, key=bindings.shown(app.keymap.find("follow").keys[0]),
            what=self.what,
        )  # fmt: skip
        cells = table.line_width if table.row_count else width
        names = table.named.header(cells, app.glyphs, chosen=table.column, all_runs=table.all_runs)
        self.query_one("#records-head", Painted).paint([head, names])
        self.query_one("#no-record", Painted).paint(self.nothing(view, width))

    def draw_stack(self) -> None:
        """The stack's lines; below 16 lines one line says all filters."""
        app, stack, line = tic_app(self), self.stack, self.query_one("#stack-line", Painted)
        listed = self.size.height >= 16 and bool(self.filters)
        stack.display, line.display = listed, not listed
        key = bindings.shown(app.keymap.find("filter").keys[0])
        line.paint([filters.stack_line(self.filters, key, self.size.width, app.glyphs)])
        stack.show(self.filters)
        if listed:
            stack.styles.height = min(len(self.filters), max(2, self.size.height // 6))

    def on_anchored(self) -> None:
        tic_app(self).demand_changed()
        self.draw_head()

    def on_listing_moved(self) -> None:
        self.draw_head()
        self.draw_rest()

    def on_descendant_focus(self) -> None:
        self.draw_head()

    async def action_open(self) -> None:
        if self.focused is self.stack:
            self.action_switch()
        else:
            await self.open_row()

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUN if tic_app(self).selected_run else bindings.RUNS)

    def action_follow(self) -> None:
        self.set_focus(self.table)
        self.table.follow()
        self.on_listing_moved()

    def action_left(self) -> None:
        self._choose_column(-1)

    def action_right(self) -> None:
        self._choose_column(1)

    def _choose_column(self, step: int) -> None:
        self.table.next_column(step)
        self.draw_head()

    def action_next_panel(self) -> None:
        self.set_focus(self.stack if self.focused is self.table and self.stack.display else self.table)

    async def action_filter(self) -> None:
        await tic_app(self).push_screen(
            FilterScreen(self._want_choices, self.choices_told, self.filter_table), self._add
        )

    def _want_choices(self, column: str) -> None:
        self.wanted_choices = column
        tic_app(self).demand_changed()

    def _add(self, item: Filter | None) -> None:
        self.wanted_choices = ""
        if item is not None and item not in self.filters:
            self.set_filters((*self.filters, item), len(self.filters))
        elif item is not None:
            tic_app(self).tell("that filter is there already")
        tic_app(self).demand_changed()

    def action_exclude(self) -> None:
        found = self.filter_of_cursor()
        if found is None:
            tic_app(self).tell("nothing is selected")
            return
        self._add(found)

    def set_filters(self, stack: tuple[Filter, ...], chosen: int = 0) -> None:
        """Shows the rows that these leave; the row under the cursor stays under it if it is one of them."""
        self.filters = stack
        self.stack.cursor = max(0, min(chosen, len(stack) - 1))
        if not stack and self.focused is self.stack:
            self.set_focus(self.table)
        tic_app(self).demand_changed()
        self.refresh_all()

    def action_switch(self) -> None:
        at = self.stack.cursor
        if self._has_filter():
            turned = replace(self.filters[at], on=not self.filters[at].on)
            self.set_filters((*self.filters[:at], turned, *self.filters[at + 1 :]), at)

    def action_drop(self) -> None:
        at = self.stack.cursor
        if self._has_filter():
            self.set_filters((*self.filters[:at], *self.filters[at + 1 :]), at)

    def _has_filter(self) -> bool:
        if not self.filters:
            tic_app(self).tell("there is no filter")
        return bool(self.filters)
