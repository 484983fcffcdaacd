"""Starts the screen: what the command line says becomes an app, and the app's end an exit code.

`tic_tui.cli` parses arguments; this module is what it calls, and what `python -m tic_tui` runs for the screen alone.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.errors import ConfigError
from tic_tui import bindings, terminal, theming
from tic_tui.glyphs import choose as choose_glyphs

if TYPE_CHECKING:
    from tic_tui.saying import Sayer


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen. `theme` "" is the default; paths None are the user's configuration directory."""

    theme: str = ""
    ascii_only: bool = False
    read_only: bool = False
    mouse: bool = False
    keys: Path | None = None


def config_directory() -> Path:
    """$XDG_CONFIG_HOME/tic-tui: keys.toml and themes/*.toml."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tic-tui"


def _collect_from_now_on() -> None:
    gc.freeze()
    gc.enable()


def run_screen(target: str, settings: Settings = Settings()) -> int:
    """Shows the screen until the user leaves; returns the exit code.

    Raises:
        ConfigError: there is no terminal to paint on, or a theme or the keys cannot be used.
    """
    if not terminal.can_paint():
        raise ConfigError("there is no terminal that can show a screen", "use `tic-tui status` for a text report")
    config = config_directory()
    keys = settings.keys or config / "keys.toml"
    keymap = bindings.load_keymap(
        keys if settings.keys is not None or keys.is_file() else None, read_only=settings.read_only
    )
    wardrobe = theming.Wardrobe(theming.load_all(config / "themes"), config / "themes")
    look = theming.choose(wardrobe.looks, settings.theme, no_color=terminal.no_color())
    gc.disable()  # what is loaded until the first paint stays: looking through it ninety times took a fifteenth of it
    from tic_tui.app import TicApp  # noqa: PLC0415  settings are refused before a toolkit is loaded

    def sayer() -> tuple[Sayer | None, str]:
        from tic_tui import marking  # noqa: PLC0415  the spool and a dialog: the first paint does not wait for them

        return marking.sayer(target)

    app = TicApp(
        target, look=look, wardrobe=wardrobe, glyphs=choose_glyphs(ascii_only=settings.ascii_only), keymap=keymap,
        sayer=sayer, painted=_collect_from_now_on,
    )  # fmt: skip
    try:
        frame = app.run(mouse=settings.mouse)
    finally:
        app.ended()
    if frame:
        sys.stdout.write(frame + "\n")
    return app.return_code or 0
