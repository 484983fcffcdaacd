"""The app: what is known, what is shown, and who is told. It holds readings and hands them to the view in front."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from tic_tui import terminal

terminal.prepare()

from textual.app import App  # noqa: E402  after terminal.prepare
from textual.css.query import NoMatches  # noqa: E402
from textual.timer import Timer  # noqa: E402

from tic_tui import bindings, clipboard  # noqa: E402
from tic_tui.feed import Feed, Opener, _open  # noqa: E402
from tic_tui.glyphs import UNICODE, Glyphs  # noqa: E402
from tic_tui.messages import Link, LinkChanged, NeighboursFound, QueryFailed, RunFetched, RunsFetched  # noqa: E402
from tic_tui.model import Demand, RunsView, RunView  # noqa: E402
from tic_tui.neighbours import Lookout  # noqa: E402
from tic_tui.screens.base import View  # noqa: E402
from tic_tui.screens.help import HelpScreen  # noqa: E402
from tic_tui.screens.mark import MarkScreen, RetractScreen, Said  # noqa: E402
from tic_tui.screens.run import RunScreen  # noqa: E402
from tic_tui.screens.runs import RunsScreen  # noqa: E402
from tic_tui.theming import Look, choose, load_all  # noqa: E402
from tic_tui.widgets.lists import MismatchTable  # noqa: E402

Sayer = Callable[[Said], str]  # writes one fsynced line, returns its id
_AGES_S = 2.0
_NOTICE_S = 6.0
_LATE_S = 1.5  # a mark that no reading shows after this is "not yet recorded"


def _now() -> datetime:
    return datetime.now(UTC)


class TicApp(App[str | None], inherit_bindings=False):
    """The screen.

    Args:
        target: the store, as `open_reader` takes it.
        look: the theme; None: the one for this terminal.
        say: writes a mark; None: marks cannot be written here, `why_not` says why.
        opener, clock: makes readers, tells the time for ages; tests give their own.
    """

    CSS_PATH = "styles/tic.tcss"
    ENABLE_COMMAND_PALETTE = False
    MODES: ClassVar = {bindings.RUNS: RunsScreen, bindings.RUN: RunScreen}
    DEFAULT_MODE = bindings.RUNS

    def __init__(
        self,
        target: str,
        *,
        look: Look | None = None,
        glyphs: Glyphs = UNICODE,
        keymap: bindings.Keymap | None = None,
        say: Sayer | None = None,
        why_not: str = "",
        opener: Opener | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.clock = clock
        self.look = look or choose(load_all(), "", no_color=terminal.no_color())
        super().__init__(ansi_color=True if self.look.ansi else None)
        self.register_theme(self.look.theme())
        self.theme = self.look.name
        self.target = target
        self.glyphs = glyphs
        self.keymap = keymap or bindings.Keymap()
        self.link = Link()
        self.runs_view: RunsView | None = None
        self.run_view: RunView | None = None
        self.selected_run: str | None = None
        self.run_missing = False
        self.frozen_at: datetime | None = None
        self.notice: tuple[str, str] = ("", "dim")
        self.last_frame = ""
        self._metric = ""
        self._say, self._why_not = say, why_not
        self._held: dict[type[Any], Any] = {}
        self._unseen_marks: dict[str, str] = {}
        self._notice_timer: Timer | None = None
        self._mouse_on = False
        self.set_class(not glyphs.braille, "-ascii")
        self.lookout = Lookout(lambda found: self.post_message(NeighboursFound(found)))
        self.feed = Feed(target, self.post_message, opener or _open)

    # --- life ---

    def on_mount(self) -> None:
        self.set_keymap(dict(self.keymap.remap()))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Without these the process dies in the alternate screen and leaves the terminal unusable.
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.set_interval(_AGES_S, self._tick)
        self.call_after_refresh(self.feed.start)

    async def on_unmount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
        await asyncio.to_thread(self.feed.stop)

    def leave(self, *, keep: bool = False) -> None:
        """Ends; with `keep` the last frame's text is the result, to be printed after the screen is gone."""
        self.exit(self.frame_text() if keep else None)

    def frame_text(self) -> str:
        """The screen as text, one line a row."""
        rows = self.screen._compositor.render_strips()  # the only way to the frame as cells; checked by a test
        return "\n".join("".join(s.text for s in strip).rstrip() for strip in rows)

    # --- readings ---

    @property
    def view(self) -> View | None:
        """The view in front, under a dialog if there is one."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, View)), None)

    def _draw(self) -> None:
        if (view := self.view) is not None:
            view.refresh_all()

    def _tick(self) -> None:
        if not self.is_headless and terminal.is_gone():
            self.exit(return_code=128 + signal.SIGHUP)
            return
        # Ages come in steps, so that most ticks change no line and send no byte. A tick may fall between the coming or
        # going of a screen and that of its widgets: there is nothing to draw then.
        with contextlib.suppress(NoMatches):
            self._draw()

    def on_link_changed(self, message: LinkChanged) -> None:
        self.link = message.link
        if message.link.state == "disconnected" and self.runs_view is not None:
            self.tell(f"{message.link.detail}; what is shown is as it was read", "gap")
        self._draw()

    def on_runs_fetched(self, message: RunsFetched) -> None:
        self._take(message, lambda: setattr(self, "runs_view", message.view))

    def on_run_fetched(self, message: RunFetched) -> None:
        if message.run_id == self.selected_run:
            self.run_missing = message.view is None
            self._acknowledge(message.view)
            self._take(message, lambda: setattr(self, "run_view", message.view))

    def on_query_failed(self, message: QueryFailed) -> None:
        self.tell(f"the store cannot answer: {message.detail}", "gap")

    def on_neighbours_found(self, message: NeighboursFound) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, View) and screen.is_mounted:
                screen.take_neighbours(message.found)

    def _take(self, message: RunsFetched | RunFetched, apply: Callable[[], None]) -> None:
        if self.frozen_at is not None:
            self._held[type(message)] = apply
            return
        apply()
        self._draw()

    def demand_changed(self) -> None:
        """Says to the feed what is on the screen."""
        view = self.view
        run = next((s for s in self.screen_stack if isinstance(s, RunScreen)), None)
        if view is None or isinstance(view, RunsScreen) or run is None:
            self.feed.show(Demand())
            return
        anchor = run.query_one(MismatchTable).around if run.is_mounted else None
        self.feed.show(Demand("run", self.selected_run, anchor, self._metric, run.plot_columns()))

    def show_run(self, run_id: str | None = None) -> None:
        """To screen 2, of this run or of the one selected last."""
        if run_id is not None and run_id != self.selected_run:
            self.selected_run, self.run_view, self._metric = run_id, None, ""
            self.run_missing = False
            self._held.pop(RunFetched, None)
        self.switch_mode(bindings.RUN)

    def next_metric(self) -> None:
        """Plots the next metric of the run."""
        series = self.run_view.series if self.run_view else None
        if series is None or len(series.metrics) < 2:
            self.tell("this run has no other metric")
            return
        self._metric = series.metrics[(series.metrics.index(series.metric) + 1) % len(series.metrics)]
        self.demand_changed()

    def toggle_freeze(self) -> None:
        """Holds what is shown, or catches up."""
        if self.frozen_at is None:
            self.frozen_at = self.clock()
        else:
            self.frozen_at = None
            held, self._held = self._held, {}
            for apply in held.values():
                apply()
        self._draw()

    # --- what people do ---

    def tell(self, text: str, tone: str = "notice") -> None:
        """Shows a notice in place of the footer for some seconds."""
        self.notice = (text, tone)
        if self._notice_timer is not None:
            self._notice_timer.stop()
        self._notice_timer = self.set_timer(_NOTICE_S, self._clear_notice)
        self._draw()

    def _clear_notice(self) -> None:
        self.notice = ("", "dim")
        self._draw()

    def _may_write(self) -> bool:
        if self.keymap.read_only:
            self.tell("read-only: started with --read-only")
        elif self._say is None:
            self.tell(f"marks cannot be written here: {self._why_not}")
        else:
            return True
        return False

    def ask_mark(self, verdict: str) -> None:
        """Opens the dialog for a mark or a note on what is under the cursor."""
        if not self._may_write() or self.view is None:
            return
        if (about := self.view.target_run()) is None:
            self.tell("nothing is selected")
            return
        self.push_screen(MarkScreen(verdict, *about), self._write)

    def ask_retract(self) -> None:
        """Opens the dialog that takes a mark back."""
        if not self._may_write() or self.view is None:
            return
        about, seen = self.view.target_run(), self.run_view
        if about is None or seen is None or str(seen.run.run_id) != about[0]:
            self.tell("open the run first: its marks are listed there")
            return
        marks = [m for m in seen.marks if not m.retracted and m.verdict != "retract"]
        if not marks:
            self.tell("this run has no mark in force")
            return
        self.push_screen(RetractScreen(about[0], marks), self._write)

    def _write(self, said: Said | None) -> None:
        if said is not None:
            self.run_worker(self._write_line(said), exit_on_error=False)

    async def _write_line(self, said: Said) -> None:
        say = self._say
        if say is None:
            return
        try:
            # In a thread: an fsync on a network file system may take seconds.
            mark_id = await asyncio.to_thread(say, said)
        except Exception as error:  # noqa: BLE001  the person must learn that nothing was written, whatever the cause
            self.tell(f"NOT written: {str(error).splitlines()[0] if str(error) else type(error).__name__}", "gap")
            return
        self._unseen_marks[mark_id] = said.verdict
        self.tell(f"{said.verdict} written; waiting until the store shows it")
        self.feed.poke()
        await asyncio.sleep(_LATE_S)
        if mark_id in self._unseen_marks:
            self.tell(f"{said.verdict}: not yet recorded; it is in the spool and will be taken in", "stale")

    def _acknowledge(self, view: RunView | None) -> None:
        for mark in view.marks if view is not None and self._unseen_marks else ():
            verdict = self._unseen_marks.pop(str(mark.id), None)
            if verdict is not None:
                self.tell(f"{verdict} recorded", "ok")

    def copy(self, text: str) -> None:
        """Copies to the terminal's clipboard and to a file, and says how much went where."""
        if not text:
            self.tell("nothing to copy here")
            return
        words = []
        if len(text.encode("utf-8", "replace")) <= clipboard.OSC52_MOST:
            self.copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))
            words.append("sent to the terminal's clipboard")
        try:
            words.append(f"kept in {clipboard.write(text)}")
        except OSError as error:
            words.append(f"no file: {error.strerror}")
        self.tell(f"{len(text)} characters {' and '.join(words)}")

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

    def show_help(self, screen: str) -> None:
        """All keys of a screen."""
        self.push_screen(HelpScreen(screen), self._run_action)

    async def _run_action(self, name: str | None) -> None:
        if name is not None and self.view is not None:
            await self.view.run_action(name)
