"""A text field whose value is safe at any time, also when someone pastes a hostile log line into it."""

from __future__ import annotations

from textual.widgets import Input

from tic_tui.safe import safe


class SafeInput(Input):
    """An Input without a blinking cursor (a blink sends bytes) and without control characters."""

    def __init__(self, placeholder: str, *, id: str | None = None, max_length: int = 2000) -> None:
        super().__init__(placeholder=placeholder, id=id, max_length=max_length, compact=True)
        self.cursor_blink = False

    def validate_value(self, value: str) -> str:
        """Runs before the value is stored or drawn."""
        return str(safe(value.replace("\t", " ")))
