"""Copies to a file, beside the terminal's clipboard: OSC 52 is not acknowledged, and many terminals drop it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tic_tui.app import TicApp

OSC52_MOST: Final = 74_000  # bytes before base64; xterm takes 100,000 after it


def copy(app: TicApp, text: str) -> None:
    """Copies to the terminal's clipboard and to a file, and says how much went where."""
    if not text:
        app.tell("nothing to copy here")
        return
    words = []
    if len(text.encode("utf-8", "replace")) <= OSC52_MOST:
        app.copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))
        words.append("sent to the terminal's clipboard")
    try:
        words.append(f"kept in {write(text)}")
    except OSError as error:
        words.append(f"no file: {error.strerror}")
    app.tell(f"{len(text)} characters {' and '.join(words)}")


def copy_file() -> Path:
    """The file that holds what was copied last."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tic-tui" / "copied.txt"


def write(text: str) -> Path:
    """Writes the text, readable by its owner alone; OSError where that cannot be done."""
    path = copy_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path
