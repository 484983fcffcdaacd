"""The app: what is known, what is shown, and who is told. It holds readings and hands them to the view in front."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tic_tui import terminal

terminal.prepare()

from textual.app import App  # noqa: E402  after terminal.prepare
from textual.css.query import NoMatches  # noqa: E402
from textual.timer import Timer  # noqa: E402

from tic_tui import bindings  # noqa: E402
from tic_tui.ending import Ending  # noqa: E402
from tic_tui.feed import Feed, Opener, _open  # noqa: E402
from tic_tui.glyphs import UNICODE, Glyphs  # noqa: E402
from tic_tui.launching import Launcher  # noqa: E402
from tic_tui.mailbox import Mailbox  # noqa: E402
from tic_tui.messages import (  # noqa: E402
    Arrived,
    ComparisonFetched,
    ComparisonsFetched,
    EvidenceFetched,
    FaultsFetched,
    FindingsFetched,
    Link,
    LinkChanged,
    MarksSeen,
    MismatchesFetched,
    NeighboursFound,
    QueryFailed,
    RunFetched,
    RunsFetched,
    SidesFetched,
    StateFetched,
    ThemesRead,
)
from tic_tui.model import Demand, FaultsView, MismatchesView, RunsView, RunView  # noqa: E402
from tic_tui.modes import MODES  # noqa: E402
from tic_tui.neighbours import Lookout  # noqa: E402
from tic_tui.readings import AnyView, Readings, Which  # noqa: E402
from tic_tui.saying import Sayer, Saying  # noqa: E402
from tic_tui.screens.base import Drawn, View  # noqa: E402
from tic_tui.theming import Look, Wardrobe, choose, load_all  # noqa: E402

if TYPE_CHECKING:
    from tic_tui.comparison_model import ComparisonsView, ComparisonView
    from tic_tui.execution import Item
    from tic_tui.lanes import StateView

_AGES_S = 2.0


def _now() -> datetime:
    return datetime.now(UTC)


class TicApp(App[str | None], inherit_bindings=False):
    """The screen.

    Args:
        target: the store, as `open_reader` takes it.
        look: the theme; None: the one for this terminal. wardrobe: all there are; None: the shipped ones.
        say: writes a mark. sayer: gives that, or None and why marks cannot be written here, when the first one is.
        opener, clock: makes readers, tells the time for ages; tests give their own.
        painted: called once, when something stands on the screen.
        notice_s: for how many seconds a notice stands in place of the footer.
    """

    CSS_PATH = "styles/tic.tcss"
    ENABLE_COMMAND_PALETTE = False
    MODES: ClassVar = MODES
    DEFAULT_MODE = bindings.RUNS

    def __init__(
        self,
        target: str,
        *,
        look: Look | None = None,
        wardrobe: Wardrobe | None = None,
        glyphs: Glyphs = UNICODE,
        keymap: bindings.Keymap | None = None,
        say: Sayer | None = None,
        sayer: Callable[[], tuple[Sayer | None, str]] | None = None,
        painted: Callable[[], None] = lambda: None,
        opener: Opener | None = None,
        clock: Callable[[], datetime] = _now,
        notice_s: float = 6.0,
    ) -> None:
        self.clock = clock
        self._painted = painted
        self._notice_s = notice_s
        self._no_color = terminal.no_color()  # before the toolkit takes it out of the environment
        self.wardrobe = wardrobe or Wardrobe(load_all())
        self.look = look or choose(self.wardrobe.looks, "", no_color=self._no_color)
        super().__init__(ansi_color=True if self.look.ansi else None)
        self._dress_first()
        self.target = target
        self.glyphs = glyphs
        self.keymap = keymap or bindings.Keymap()
        self.link = Link()
        self.readings = Readings()
        self.selected_run: str | None = None
        self.run_missing = False
        self.evidence_run: str | None = None  # whose evidence screen 6 shows; None: of all runs
        self.notice: tuple[str, str] = ("", "dim")
        self.last_frame = ""
        self._metric = ""
        self.saying = Saying(self, say, sayer)
        self.launcher = Launcher(self)
        self._notice_timer: Timer | None = None
        self._mouse_on = False
        self.set_class(not glyphs.braille, "-ascii")
        self.lookout = Lookout(lambda found: self.post_message(NeighboursFound(found)))
        self._ending: Ending | None = None
        self._mailbox = Mailbox(lambda: self.post_message(Arrived()))
        self.feed = Feed(target, self._mailbox.post, opener or _open)

    def _dress_first(self) -> None:
        """The theme before anything is drawn. To set `theme` would have every style sheet parsed twice more."""
        theme = self.look.theme()
        self.register_theme(theme)
        self.set_reactive(App.theme, theme.name)
        self.set_class(theme.dark, "-dark-mode", update=False)
        self.stylesheet.set_variables(self.get_css_variables())

    # --- life ---

    def on_mount(self) -> None:
        self.set_keymap(dict(self.keymap.remap()))
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            self._ending = Ending(
                lambda code: loop.call_soon_threadsafe(partial(self.exit, return_code=code)),
                lambda: getattr(self._driver, "attrs_before", None),
            )
            self._ending.install()
        self.set_interval(_AGES_S, self._tick)
        self.wardrobe.told = lambda found: self.post_message(ThemesRead(found))
        self.wardrobe.watch()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._painted()
        self.feed.start()

    async def on_unmount(self) -> None:
        self.wardrobe.stop()
        await asyncio.to_thread(self.feed.stop)

    def ended(self) -> None:
        """After `run`: signals do again what they did before."""
        if self._ending is not None:
            self._ending.done()
            self._ending.remove()

    def leave(self, *, keep: bool = False) -> None:
        """Ends; with `keep` the last frame's text is the result, to be printed after the screen is gone."""
        self.exit(self.frame_text() if keep else None)

    def frame_text(self) -> str:
        """The screen as text, one line a row."""
        rows = self.screen._compositor.render_strips()  # the only way to the frame as cells; checked by a test
        return "\n".join("".join(s.text for s in strip).rstrip() for strip in rows)

    # --- readings ---

    @property
    def runs_view(self) -> RunsView | None:
        """The newest reading of screen 1 that is shown."""
        return self.readings.runs

    @property
    def run_view(self) -> RunView | None:
        """As `runs_view`, of screen 2."""
        return self.readings.run

    @property
    def mismatches_view(self) -> MismatchesView | None:
        """As `runs_view`, of screen 3."""
        return self.readings.mismatches

    @property
    def state_view(self) -> StateView | None:
        """As `runs_view`, of screen 4."""
        return self.readings.state

    @property
    def faults_view(self) -> FaultsView | None:
        """As `runs_view`, of screen 5."""
        return self.readings.faults

    @property
    def comparisons_view(self) -> ComparisonsView | None:
        """As `runs_view`, of the list of comparisons."""
        return self.readings.comparisons

    @property
    def comparison_view(self) -> ComparisonView | None:
        """As `runs_view`, of one comparison."""
        return self.readings.comparison

    @property
    def frozen_at(self) -> datetime | None:
        """Since when the picture is held."""
        return self.readings.frozen_at

    @property
    def view(self) -> View | None:
        """The view in front, under a dialog if there is one."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, View)), None)

    def _draw(self) -> None:
        if not self.screen_stack:
            return  # at the end the screens go first, and an answer may still be on its way
        view, front = self.view, self.screen
        # An answer or a tick may fall between the coming or going of a screen and that of its widgets: there is nothing
        # to draw then.
        with contextlib.suppress(NoMatches):
            if view is not None:
                view.refresh_all()
            if front is not view and isinstance(front, Drawn):
                front.refresh_all()

    def _tick(self) -> None:
        if not self.is_headless and terminal.is_gone():
            self.exit(return_code=128 + signal.SIGHUP)
            return
        self._draw()  # ages come in steps, so that most ticks change no line and send no byte

    def on_arrived(self) -> None:
        for message in self._mailbox.take():
            self.post_message(message)

    def on_link_changed(self, message: LinkChanged) -> None:
        self.link = message.link
        if message.link.state == "disconnected" and self.runs_view is not None:
            self.tell("what is shown is as it was read", "gap")
        self._draw()

    def on_runs_fetched(self, message: RunsFetched) -> None:
        self._take("runs", message.view)

    def on_run_fetched(self, message: RunFetched) -> None:
        if message.run_id == self.selected_run:
            self.run_missing = message.view is None
            self._take("run", message.view)

    def on_mismatches_fetched(self, message: MismatchesFetched) -> None:
        self._take("mismatches", message.view)

    def on_faults_fetched(self, message: FaultsFetched) -> None:
        if message.run_id == self.selected_run:
            self.run_missing = message.view is None
            self._take("faults", message.view)

    def on_state_fetched(self, message: StateFetched) -> None:
        if message.run_id == self.selected_run:
            self.run_missing = message.view is None
            self._take("state", message.view)

    def on_comparisons_fetched(self, message: ComparisonsFetched) -> None:
        self._take("comparisons", message.view)

    def on_comparison_fetched(self, message: ComparisonFetched) -> None:
        self._take("comparison", message.view)

    def on_evidence_fetched(self, message: EvidenceFetched) -> None:
        self._take(message.page, message.view)

    def on_marks_seen(self, message: MarksSeen) -> None:
        self.saying.acknowledge(message.ids)

    def on_findings_fetched(self, message: FindingsFetched) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, View) and screen.is_mounted:
                screen.take_findings(message.ids, message.rows)

    def on_sides_fetched(self, message: SidesFetched) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, View) and screen.is_mounted:
                screen.take_sides(message.step, message.sides)

    def on_query_failed(self, message: QueryFailed) -> None:
        self.tell(f"the store cannot answer: {message.detail}", "gap")

    def on_neighbours_found(self, message: NeighboursFound) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, View) and screen.is_mounted:
                screen.take_neighbours(message.found)

    def _take(self, which: Which, view: AnyView | None) -> None:
        self.readings.take(which, view)
        self._draw()

    def demand_changed(self) -> None:
        """Says to the feed what is on the screen: what the view in front asks for, or the one under it."""
        views = (s for s in reversed(self.screen_stack) if isinstance(s, View) and s.is_mounted)
        self.feed.show(next((d for d in (v.demand() for v in views) if d is not None), Demand()))

    def select_run(self, run_id: str) -> None:
        """The run that the screens about one run show from now on."""
        if run_id != self.selected_run:
            self.selected_run, self._metric, self.run_missing = run_id, "", False
            self.readings.forget("run")
            self.readings.forget("faults")
            self.readings.forget("state")

    async def go(self, mode: str) -> None:
        """To one of the numbered screens itself, not to a record or step that was opened from it before."""
        await self.switch_mode(mode)
        while isinstance(self.screen, View) and self.screen.name_in_table in bindings.DEEPER:
            await self.pop_screen()

    async def show_run(self, run_id: str | None = None) -> None:
        """To screen 2, of this run or of the one selected last."""
        if run_id is not None:
            self.select_run(run_id)
        await self.go(bindings.RUN)
        # From screen 2 itself, for example by the palette, no screen is resumed that would ask for it.
        self.demand_changed()
        self._draw()

    async def show_state(self, item: Item | None = None) -> None:
        """To screen 4; with an item, to its place there."""
        from tic_tui.screens.state import StateScreen  # noqa: PLC0415

        if item is not None:
            self.select_run(str(item.run_id))
        await self.go(bindings.STATE)
        if item is not None and isinstance(view := self.view, StateScreen):
            view.point_at(item)

    async def show_process(self, number: int) -> None:
        """To screen 4, of one of the processes that it has."""
        from tic_tui.screens.state import StateScreen  # noqa: PLC0415

        await self.go(bindings.STATE)
        if isinstance(view := self.view, StateScreen) and self.state_view is not None:
            view.show_teller(self.state_view.tellers[number].who)

    async def show_mismatches(self, *, run_id: str | None = None, ask: bool = False) -> None:
        """To screen 3: of this run, or as it was left; `ask` opens the filter dialog there."""
        from tic_tui.screens.mismatches import MismatchesScreen  # noqa: PLC0415

        await self.go(bindings.MISMATCHES)
        if isinstance(view := self.view, MismatchesScreen):
            if run_id is not None:
                view.show_run(run_id)
            if ask:
                await view.action_filter()

    async def show_comparisons(self, run_id: str | None) -> None:
        """To the comparisons of this run; None: as they were left."""
        from tic_tui.screens.comparisons import ComparisonsScreen  # noqa: PLC0415

        await self.go(bindings.COMPARISONS)
        if run_id is not None and isinstance(view := self.view, ComparisonsScreen):
            view.show_run(run_id)

    async def show_evidence(self) -> None:
        """To screen 6, with the cursor on the candidate that the selected run executes."""
        from tic_tui.screens.gates import GatesScreen  # noqa: PLC0415

        await self.go(bindings.GATES)
        if self.selected_run is not None and isinstance(view := self.view, GatesScreen):
            view.point_at(self.selected_run)

    @property
    def metric(self) -> str:
        """The metric to plot; "" the one seen last."""
        return self._metric

    def next_metric(self) -> None:
        """Plots the next metric of the run."""
        series = self.run_view.series if self.run_view else None
        if series is None or len(series.metrics) < 2:
            self.tell("this run has no other metric")
            return
        self.plot_metric(series.metrics[(series.metrics.index(series.metric) + 1) % len(series.metrics)])

    def plot_metric(self, metric: str) -> None:
        """Plots this metric of the run."""
        self._metric = metric
        self.demand_changed()

    def toggle_freeze(self) -> None:
        """Holds what is shown, or catches up."""
        if self.frozen_at is None:
            self.readings.freeze(self.clock())
        else:
            self.readings.thaw()
        self._draw()

    # --- what people do ---

    def tell(self, text: str, tone: str = "notice") -> None:
        """Shows a notice in place of the footer for `notice_s`."""
        self.notice = (text, tone)
        if self._notice_timer is not None:
            self._notice_timer.stop()
        self._notice_timer = self.set_timer(self._notice_s, self._clear_notice)
        self._draw()

    def _clear_notice(self) -> None:
        self.notice = ("", "dim")
        self._draw()

    def toggle_mouse(self) -> None:
        """Mouse reports on or off. Textual has no public switch while running; a test watches this one."""
        driver: Any = self._driver
        name = "_disable_mouse_support" if self._mouse_on else "_enable_mouse_support"
        switch = getattr(driver, name, None)
        if switch is None:
            self.tell("this terminal driver has no mouse")
            return
        if not self._mouse_on:
            driver._mouse = True
        switch()
        self._mouse_on = not self._mouse_on
        self.tell(f"mouse {'on' if self._mouse_on else 'off'}")

    async def run_action_of_view(self, name: str) -> None:
        """Does what a key of the view in front does."""
        if self.view is not None:
            await self.view.run_action(name)

    def on_themes_read(self, message: ThemesRead) -> None:
        self.launcher.themes_read(message.found)

    def wear(self, look: Look) -> None:
        """Shows everything in this theme."""
        if self._no_color and not look.ansi:
            self.tell("NO_COLOR is set: only the theme without colours is used")
            return
        self.look = look
        self.register_theme(look.theme())
        self.ansi_color = True if look.ansi else None
        # A theme that was edited keeps its name: the toolkit is to take its colours all the same.
        self.theme = "textual-dark"
        self.theme = look.name
