"""What the help and the palette lead to: actions, runs, metrics, screens, themes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tic_daemon.errors import ConfigError
from tic_tui import bindings
from tic_tui.theming import Look

if TYPE_CHECKING:
    from tic_tui.app import TicApp
    from tic_tui.screens.palette import Choice


class Launcher:
    """Opens the dialogs and does what was chosen in them."""

    def __init__(self, app: TicApp) -> None:
        self._app = app

    async def show_help(self, screen: str) -> None:
        """All keys of a screen."""
        from tic_tui.screens.help import HelpScreen  # noqa: PLC0415  the first paint does not wait for dialogs

        await self._app.push_screen(HelpScreen(screen), self._run_action)

    async def show_palette(self, screen: str) -> None:
        """Everything that can be gone to or done, by its letters."""
        from tic_tui.lanes import name_of  # noqa: PLC0415
        from tic_tui.screens.palette import PaletteScreen, choices  # noqa: PLC0415

        app = self._app
        told = [name_of(one) for one in app.state_view.tellers] if screen == bindings.STATE and app.state_view else ()
        entries = choices(app.keymap, screen, app.runs_view, app.run_view, sorted(app.wardrobe.looks), told)
        await app.push_screen(PaletteScreen(entries), self._run_choice)

    async def _run_action(self, name: str | None) -> None:
        if name is not None:
            await self._app.run_action_of_view(name)

    async def _run_choice(self, choice: Choice | None) -> None:
        app = self._app
        if choice is None:
            return
        if choice.kind == "run":
            await app.show_run(choice.id)
        elif choice.kind == "metric":
            await app.show_run()
            app.plot_metric(choice.id)
        elif choice.kind == "process":
            await app.show_process(int(choice.id))
        elif choice.kind == "theme":
            app.wear(app.wardrobe.looks[choice.id])
        else:
            await app.run_action_of_view(choice.id)

    def themes_read(self, found: Mapping[str, Look] | ConfigError) -> None:
        """The user's themes were read anew, or one of them is wrong."""
        app = self._app
        if isinstance(found, ConfigError):
            app.tell(str(found).splitlines()[0], "gap")
        elif (again := found.get(app.look.name)) is not None and again != app.look:
            app.wear(again)
            app.tell(f"theme {again.name} read again", "ok")
