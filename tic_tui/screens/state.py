"""Screen 4: the execution state and the weights of one process or server over time, and what happened on that axis.

Left out in this order: the detail below 30 lines; below 16 lines the steps, what is not on the axis, and all of what is
under the cursor but one line. The lanes, the axis and its ruler stay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.execution import Finding, Item, StateChange
from tic_tui.lanes import (
    FAULTS,
    FINDINGS,
    LATEST,
    NUMBERS,
    Axis,
    Change,
    LaneAsk,
    Numbers,
    Order,
    Spot,
    StateView,
    Teller,
    Who,
)
from tic_tui.model import Demand, Fault, Mismatch
from tic_tui.neighbours import Neighbours
from tic_tui.render import chrome, detail, lanes, state
from tic_tui.render.text import Builder
from tic_tui.screens.base import TABLE, View
from tic_tui.screens.inspect import InspectScreen
from tic_tui.widgets.detail import DetailPane
from tic_tui.widgets.lanes import LaneList
from tic_tui.widgets.painted import Painted, tic_app

_EDGE: Final = 20  # changes from the end of those held at which others are asked for
_LEAST_US: Final = 10_000  # microseconds of a column, at least: no log tells finer times
_FIRST: Final[Order] = (-(1 << 62), 0, 0, 0)


class StateScreen(View):
    """The state of the selected run, as one process or server told it."""

    name_in_table = bindings.STATE
    BINDINGS = TABLE.textual(bindings.STATE)

    def __init__(self) -> None:
        super().__init__()
        self._run: str | None = None
        self._start_over()

    def _start_over(self) -> None:
        self.who: Who | None = None
        self.axis: Axis | None = None
        self._whole()
        self._wanted: Item | None = None  # to be pointed at when there is a reading

    def _whole(self) -> None:
        self.span, self.end = 0, None  # type: int, int | None
        self.at: Order | None = None  # where the cursor is; None: at the newest, and follows
        self.around: Order | None = None

    def body(self) -> ComposeResult:
        yield Painted(id="state-head")
        with Container(id="split"):
            with Vertical(id="records"):
                yield LaneList(id="lanes")
                yield Painted(id="readout")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield DetailPane(id="side-detail")
        yield Painted(id="none")

    def on_mount(self) -> None:
        self.lanes.focus()

    @property
    def lanes(self) -> LaneList:
        """The lanes."""
        return self.query_one(LaneList)

    def view_shown(self) -> StateView | None:
        """The reading, if it is of the selected run."""
        view = tic_app(self).state_view
        return view if view is not None and view.run_id == tic_app(self).selected_run else None

    def crumbs(self) -> Sequence[str]:
        view = self.view_shown()
        attempt = "" if view is None else f" #{view.run.attempt}"
        return ("tic", f"{tic_app(self).selected_run or 'no run selected'}{attempt}", "state")

    def demand(self) -> Demand:
        cell = self._cell()
        record = cell.newest[cell.worst] if isinstance(cell, Numbers) else None
        return Demand(
            "state", tic_app(self).selected_run,
            lanes=LaneAsk(
                self.who, self.axis, self.span, self.end, lanes.columns(max(20, self.size.width)), self.lanes.lane,
                self.around, record,
            ),
        )  # fmt: skip

    # --- drawing ---

    def sync(self) -> None:
        app, view = tic_app(self), self.view_shown()
        if self._run != app.selected_run:
            wanted, self._run = self._wanted, app.selected_run
            self._start_over()
            self._wanted = wanted
            self.lanes.names = ()
        there, none = view is not None, self.query_one("#none", Painted)
        self.query_one("#state-head").display = self.query_one("#split").display = there
        none.display = not there
        if view is None:
            none.paint([Builder(self.size.width, app.glyphs).add(f"  {self._nothing()}", "dim").line()])
            return
        if self.who is None and view.teller is not None:
            self.who = view.teller.who  # one that comes before it in the list must not take its place
        tall = self.size.height >= 30
        self.set_class(tall, "-below")
        self.query_one("#side").display = tall
        lane = self.lanes.lane
        self._point(view)
        self.lanes.show(view, self._column(view))
        if self.lanes.lane != lane or lanes.columns(max(20, self.size.width)) != view.columns:
            tic_app(self).demand_changed()
        self._draw_head(view)
        self._draw_readout(view)
        rows, above = self.lanes.row_count, len(self.query_one("#state-head", Painted).lines)
        self.query_one("#records").styles.height = min(rows + 3, self.size.height - above - 12) if tall else "1fr"

    def _nothing(self) -> str:
        app = tic_app(self)
        if app.selected_run is None:
            return "no run selected: press 1, choose one, and 4"
        return "this run is not in the store" if app.run_missing else "reading the state ..."

    def _draw_head(self, view: StateView) -> None:
        app, width = tic_app(self), self.size.width

        def key(name: str) -> str:
            return bindings.shown(app.keymap.find(name).keys[0])

        head = [state.head(view, f"{key('previous_teller')} {key('next_teller')}", width, app.glyphs)]
        if view.teller is not None:
            tall, column = self.size.height >= 16, self._column(view)
            head.append(state.axis(view, self.at is None, (key("axis"), key("follow")), width, app.glyphs))
            head += state.missing(view, width, app.glyphs) if tall else []
            head.append(state.ruler(view, column, width, app.glyphs))
            head += [state.steps(view, width, app.glyphs)] if tall else []
            counting = chrome.counting(view.counted)
            if counting and tall:
                head.append(Builder(width, app.glyphs).add(f" numbers: {counting}", "dim").line())
        self.query_one("#state-head", Painted).paint(head)

    def _draw_readout(self, view: StateView) -> None:
        app, panel, lane = tic_app(self), self.query_one("#readout", Painted), self.lanes.lane
        if view.teller is None:
            panel.paint([])
            return
        item, after = self._cell(), None
        if not isinstance(item, Spot | Numbers) and item is not None:
            index = view.changes.at(self.at or LATEST)
            after = view.changes.rows[index + 1] if index + 1 < len(view.changes.rows) else None
        lines = state.readout(view, lane, item, after, self.size.width, app.glyphs)
        room = 1 if self.size.height < 16 else 3
        blank = [Builder(self.size.width, app.glyphs).line()] * 2  # a panel of one height moves nothing above it
        legend = state.legend(self.size.width, app.glyphs)
        rest = [] if len(lines) >= room else [*blank[: room - len(lines) - 1], legend]
        panel.paint([*lines[:room], *rest])
        if self.query_one("#side").display:
            opened = self.selected()
            place = "" if opened is None else f"line {opened.line_no}"
            self.query_one("#side-head", Painted).paint(
                [chrome.panel_head("detail", place, self.size.width, app.glyphs)]
            )
            self.query_one(DetailPane).show_item(opened)

    def take_neighbours(self, found: Neighbours) -> None:
        self.query_one(DetailPane).take(found)

    # --- the cursor ---

    def _stops(self, view: StateView) -> tuple[Sequence[Order], Sequence[Change | Spot | Numbers]]:
        """Where the cursor can stand in its lane, in order, and what is there."""
        lane = self.lanes.lane
        if lane == NUMBERS:
            return [(one.x, 0, 0, 0) for one in view.numbers], view.numbers
        if lane in {FINDINGS, FAULTS}:
            spots = view.findings if lane == FINDINGS else view.faults
            return [(spot.x, 0, 0, n) for n, spot in enumerate(spots)], spots
        if view.demand.lanes is None or view.demand.lanes.lane != lane:
            return (), ()
        return view.changes.orders, view.changes.rows

    def _cell(self) -> Change | Spot | Numbers | None:
        """What the cursor is on."""
        view = self.view_shown()
        if view is None:
            return None
        orders, items = self._stops(view)
        index = bisect_right(orders, self.at or LATEST) - 1
        if index < 0:
            return None
        found = items[index]
        if isinstance(found, Numbers) and self.at is not None and found.column != view.column(self.at[0]):
            return None  # nothing stands for the numbers between two columns
        return found

    def _column(self, view: StateView) -> int | None:
        """The column of the cursor."""
        if self.at is not None:
            return view.column(self.at[0])
        orders, _ = self._stops(view)
        return view.column(orders[-1][0]) if orders else None

    def _place(self, order: Order | None) -> None:
        """Puts the cursor somewhere on the axis; None: at the newest, from then on."""
        self.at = order
        view = self.view_shown()
        if view is None:
            return
        if order is None:
            self.end = self.around = None
        else:
            orders, _ = self._stops(view)
            index = bisect_right(orders, order)
            held = self.lanes.lane not in {NUMBERS, FINDINGS, FAULTS}
            near = (view.changes.older and index < _EDGE) or (view.changes.newer and index > len(orders) - _EDGE)
            if held and (self.around is None or near or not orders):
                self.around = order
            self._bring_into_sight(view, order[0])
        tic_app(self).demand_changed()
        self.sync()

    def _bring_into_sight(self, view: StateView, x: int) -> None:
        if not self.span:
            return
        high = view.last if self.end is None else self.end
        if not high - self.span < x <= high:
            self.end = min(view.last, x + self.span // 2)

    def on_listing_moved(self) -> None:
        if self.at is not None:
            self.at = self.around = (self.at[0], *LATEST[1:])
        tic_app(self).demand_changed()
        self.sync()

    def _step(self, by: int) -> None:
        view = self.view_shown()
        if view is None:
            return
        orders, _ = self._stops(view)
        if not orders:
            tic_app(self).tell("nothing is told in this lane on this axis")
            return
        index = bisect_right(orders, self.at or LATEST) - 1 + by
        if 0 <= index < len(orders):
            newest = index == len(orders) - 1 and not view.changes.newer and by > 0 and self.end is None
            self._place(None if newest and self._ends(view) else orders[index])
        elif by > 0 and self._ends(view):
            self._place(None)

    def _ends(self, view: StateView) -> bool:
        """The newest of the lane is held: going there is following it."""
        return self.lanes.lane in {NUMBERS, FINDINGS, FAULTS} or not view.changes.newer

    # --- pointing at something from elsewhere ---

    def point_at(self, item: Item | None) -> None:
        """Shows the place of a record, fault, finding or change as soon as it is read."""
        self._wanted = item
        self.sync()

    def _point(self, view: StateView) -> None:
        item = self._wanted
        if item is None:
            return
        here = (str(item.host or ""), item.path or "")
        own = [t for t in view.tellers if (t.who.host, t.who.path) == here]
        teller = view.teller if view.teller in own else next(iter(own), view.teller)
        self._wanted = None
        if teller is None:
            return
        x, axis = _x(item, teller, own=bool(own))
        if x is None:
            tic_app(self).tell("its place is not on the axis of any state that was told")
            return
        self.who, self.axis, self.span, self.end = teller.who, axis, 0, None
        self.at = self.around = (x, *LATEST[1:])
        lane = _lane_of(item)
        self.lanes.names = (lane,)
        self.lanes.cursor = 0
        tic_app(self).demand_changed()

    # --- actions ---

    def selected(self) -> Item | None:
        """What can be opened under the cursor."""
        cell, view = self._cell(), self.view_shown()
        if isinstance(cell, Spot):
            return cell.item
        if isinstance(cell, Numbers):
            record = view.record if view is not None else None
            return record if record is not None and record.key == cell.newest[cell.worst] else None
        return cell

    def target_run(self) -> tuple[str, int | None, str] | None:
        view, item = self.view_shown(), self.selected()
        if view is None:
            return None
        target = item.target if isinstance(item, Mismatch) else ""
        return view.run_id, view.run.attempt if item is None else item.attempt, target

    def copy_text(self) -> str:
        item = self.selected()
        return "" if item is None else f"{item.place}\n{detail.text_of(item)}"

    async def action_open(self) -> None:
        if (item := self.selected()) is not None:
            await tic_app(self).push_screen(InspectScreen(item))
        elif isinstance(self._cell(), Numbers):
            tic_app(self).tell("the number is being read")

    async def action_back(self) -> None:
        await tic_app(self).go(bindings.RUN if tic_app(self).selected_run else bindings.RUNS)

    async def action_show_state(self) -> None:
        """It is shown."""

    def action_left(self) -> None:
        self._step(-1)

    def action_right(self) -> None:
        self._step(1)

    def action_top(self) -> None:
        view = self.view_shown()
        if view is None:
            return
        orders, _ = self._stops(view)
        if view.changes.older and self.lanes.lane not in {NUMBERS, FINDINGS, FAULTS}:
            self.around = _FIRST  # the first ones are not held: they are read, and the cursor waits there
            self._place((view.first, *LATEST[1:]))
        elif orders:
            self._place(orders[0])

    def action_end(self) -> None:
        self._place(None)

    def action_follow(self) -> None:
        self._place(None)

    def action_zoom_in(self) -> None:
        self._zoom(2)

    def action_zoom_out(self) -> None:
        self._zoom(-2)

    def _zoom(self, by: int) -> None:
        view = self.view_shown()
        if view is None:
            return
        whole = view.last - view.first + 1
        now = self.span or whole  # as asked for: a key typed behind another one need not wait for its reading
        least = min(whole, view.columns * (_LEAST_US if view.axis == "time" else 1))
        span = max(least, now // by) if by > 0 else now * -by
        if span == now:
            tic_app(self).tell("a column is as narrow as it can be")
            return
        if span >= whole:
            self.action_zoom_whole()
            return
        self.span = span
        if self.at is not None:
            x = min(view.last, max(view.first, self.at[0]))
            self.end = min(view.last, max(view.first + span - 1, x + span // 2))
        tic_app(self).demand_changed()

    def action_zoom_whole(self) -> None:
        self.span, self.end = 0, None
        tic_app(self).demand_changed()

    def action_pan_left(self) -> None:
        self._pan(-1)

    def action_pan_right(self) -> None:
        self._pan(1)

    def _pan(self, by: int) -> None:
        view = self.view_shown()
        if view is None:
            return
        if not self.span:
            key = bindings.shown(tic_app(self).keymap.find("zoom_in").keys[0])
            tic_app(self).tell(f"all of the axis is shown; {key} zooms in")
            return
        high = view.last if self.end is None else self.end
        end = min(view.last, max(view.first + self.span - 1, high + by * max(1, self.span // 2)))
        self.end = end
        self.at = self.around = (end - self.span // 2, *LATEST[1:])
        tic_app(self).demand_changed()
        self.sync()

    def action_axis(self) -> None:
        view = self.view_shown()
        if view is None or view.teller is None:
            return
        if view.axis == "place" and not view.teller.timed:
            tic_app(self).tell("none of its lines tells a time in UTC; `zone` in tic.toml gives one to the log")
            return
        self.axis = "place" if view.axis == "time" else "time"
        self._whole()
        tic_app(self).demand_changed()

    def action_previous_teller(self) -> None:
        self._turn(-1)

    def action_next_teller(self) -> None:
        self._turn(1)

    def _turn(self, by: int) -> None:
        view = self.view_shown()
        if view is None or view.teller is None or len(view.tellers) < 2:
            tic_app(self).tell("no other process told of its state")
            return
        self.show_teller(view.tellers[(view.tellers.index(view.teller) + by) % len(view.tellers)].who)

    def show_teller(self, who: Who) -> None:
        """Shows what another process or server told; by time the place on the axis stays."""
        view = self.view_shown()
        self.who = who
        if view is None or view.axis == "place":
            self.axis = None
            self._whole()
        tic_app(self).demand_changed()

    async def action_next_fault(self) -> None:
        self._jump(1)

    async def action_previous_fault(self) -> None:
        self._jump(-1)

    def _jump(self, by: int) -> None:
        view = self.view_shown()
        if view is None or not view.faults:
            tic_app(self).tell("no fault is on this axis")
            return
        orders = [(spot.x, 0, 0, n) for n, spot in enumerate(view.faults)]
        on_it = self.lanes.lane == FAULTS
        at = bisect_right(orders, self.at or LATEST) - 1
        index = at + by if on_it else at if by < 0 else min(at + 1, len(orders) - 1)
        if not 0 <= index < len(orders):
            tic_app(self).tell("there is no later fault" if by > 0 else "there is no earlier fault")
            return
        self.lanes.go_to(FAULTS)
        self._place(orders[index])


def _x(item: Item, teller: Teller, *, own: bool) -> tuple[int | None, Axis]:
    """Where something is, on the best axis on which it is anywhere."""
    at = item.from_at if isinstance(item, Finding) else item.event_at
    axes: list[Axis] = ["time", "place"] if teller.best_axis == "time" else ["place", "time"]
    for axis in axes:
        if (axis == "time" and not teller.timed) or (axis == "place" and not own):
            continue
        x = teller.x(axis, at, item.generation, item.line_no)
        if x is not None:
            return x, axis
    return None, axes[0]


def _lane_of(item: Item) -> str:
    if isinstance(item, Mismatch):
        return NUMBERS
    if isinstance(item, Fault | Finding):
        return FAULTS if isinstance(item, Fault) else FINDINGS
    return str(item.field) if isinstance(item, StateChange) else str(item.track)
