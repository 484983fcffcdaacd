"""Themes: one TOML file each, colours by meaning on top of Textual's theme keys.

name = "tic-dark"
dark = true
ansi = false                 # true: the terminal's own sixteen colours, and none at all under NO_COLOR
[textual]                    # the keys of textual.theme.Theme
primary = "#7aa2f7"
[textual.variables]          # CSS variables; a theme with ansi = true needs those of Textual's own ansi themes
[tones]                      # one for each word of render.text.TONES, in Rich's style notation
locked = "bold #ff5f5f"
"""

from __future__ import annotations

import contextlib
import threading
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.errors import StyleSyntaxError
from rich.style import Style

from tic_daemon.errors import ConfigError
from tic_tui.render.text import TONES

if TYPE_CHECKING:
    from textual.theme import Theme

DEFAULT: Final = "tic-dark"
ANSI: Final = "tic-ansi"


@dataclass(frozen=True, slots=True)
class Look:
    """One theme: Textual's part and the style of every tone."""

    name: str
    dark: bool
    ansi: bool
    textual: Mapping[str, Any]
    tones: Mapping[str, Style]

    def theme(self) -> Theme:
        """For `App.register_theme`."""
        from textual.theme import Theme  # noqa: PLC0415  tests of files need no toolkit

        keys: dict[str, Any] = {k: v for k, v in self.textual.items() if k != "variables"}
        extra: dict[str, str] = self.textual.get("variables", {})
        return Theme(name=self.name, dark=self.dark, ansi=self.ansi, variables={**_VARIABLES, **extra}, **keys)


# Toolkit parts that we do not theme one by one follow the theme's own colours.
_VARIABLES: Final = {"block-cursor-text-style": "none"}


def directory() -> Path:
    """Where the shipped themes lie: in the package once installed, beside it in a checkout."""
    inside = Path(__file__).parent / "themes"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "themes"


def load(path: Path) -> Look:
    """Reads one theme.

    Raises:
        ConfigError: not TOML, a tone missing or unknown, or a style that Rich does not know; with the file named.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from error
    tones, textual = data.get("tones", {}), data.get("textual", {})
    if not isinstance(tones, dict) or not isinstance(textual, dict):
        raise ConfigError(f"{path}: [tones] and [textual] must be tables")
    if missing := sorted(set(TONES) - set(tones)):
        raise ConfigError(f"{path}: [tones] lacks {', '.join(missing)}", "a theme gives every tone")
    if unknown := sorted(set(tones) - set(TONES)):
        raise ConfigError(f"{path}: [tones] has unknown {', '.join(unknown)}", "tones: " + ", ".join(TONES))
    if "primary" not in textual:
        raise ConfigError(f"{path}: [textual] needs primary")
    styles = {}
    for tone, text in tones.items():
        try:
            styles[tone] = Style.parse(str(text))
        except StyleSyntaxError as error:
            raise ConfigError(f"{path}: tone {tone}: {error}") from error
    return Look(str(data.get("name", path.stem)), bool(data.get("dark", True)), bool(data.get("ansi")), textual, styles)


def load_all(extra: Path | None = None) -> dict[str, Look]:
    """All shipped themes and those of a directory of the user's, by name; the user's win."""
    looks: dict[str, Look] = {}
    for folder in (directory(), extra):
        if folder is not None and folder.is_dir():
            for path in sorted(folder.glob("*.toml")):
                look = load(path)
                looks[look.name] = look
    return looks


def choose(looks: Mapping[str, Look], wanted: str, *, no_color: bool) -> Look:
    """The theme asked for; under NO_COLOR always the one without colour codes."""
    if no_color:
        return looks[ANSI]
    name = wanted or DEFAULT
    for candidate in (name, f"tic-{name}"):
        if candidate in looks:
            return looks[candidate]
    raise ConfigError(f"there is no theme {wanted!r}", "themes: " + ", ".join(sorted(looks)))


class Wardrobe:
    """All themes there are, and those of the user's directory read again when one is saved.

    Args:
        looks: those there are now. folder: the user's; None: nothing is watched. told: called from a thread of its own
            with the themes that were read anew, or with what is wrong with one; it must not wait.
    """

    EVERY_S: Final = 1.0

    def __init__(
        self,
        looks: dict[str, Look],
        folder: Path | None = None,
        told: Callable[[dict[str, Look] | ConfigError], object] = lambda _: None,
    ) -> None:
        self.looks = looks
        self.told = told
        self._folder = folder
        self._seen = self._stamp()
        self._stop = threading.Event()

    def watch(self) -> None:
        """Starts to watch. A home directory that hangs keeps nobody from leaving: the thread is a daemon."""
        if self._folder is not None:
            threading.Thread(target=self._run, name="tic-themes", daemon=True).start()

    def stop(self) -> None:
        """Ends the watching."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self.EVERY_S):
            now = self._stamp()
            if now == self._seen:
                continue
            self._seen = now
            try:
                self.looks = load_all(self._folder)
            except ConfigError as error:
                self.told(error)
            else:
                self.told(self.looks)

    def _stamp(self) -> tuple[tuple[str, int, int], ...]:
        if self._folder is None:
            return ()
        found = []
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob("*.toml")):
                seen = path.stat()
                found.append((path.name, seen.st_mtime_ns, seen.st_size))
        return tuple(found)
