"""What the dialogs with a search share: one input, one list, and the keys that move in it."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

from tic_tui.widgets.lists import LineList
from tic_tui.widgets.safe_input import SafeInput

R = TypeVar("R")


class SearchDialog(ModalScreen[R | None], inherit_bindings=False):
    """Typing narrows the list, Enter takes what is selected. Subclasses compose one SafeInput and one LineList."""

    def on_mount(self) -> None:
        # At once: what is typed right behind the key that opened it belongs here.
        self.set_focus(self.query_one(SafeInput))
        self.call_after_refresh(self.search)

    def on_resize(self) -> None:
        self.call_after_refresh(self.search)

    def on_input_changed(self) -> None:
        self.search()

    def on_input_submitted(self) -> None:
        self.take()

    @property
    def typed(self) -> str:
        """What is searched for."""
        return self.query_one(SafeInput).value

    @property
    def listing(self) -> LineList:
        """The list of what was found."""
        return self.query_one(LineList)

    def search(self) -> None:
        """Fills the list anew."""
        raise NotImplementedError

    def take(self) -> None:
        """Takes what is selected."""
        raise NotImplementedError

    def refresh_all(self) -> None:
        """A reading came; most dialogs do not care."""

    def action_list_up(self) -> None:
        self.listing.move(-1)

    def action_list_down(self) -> None:
        self.listing.move(1)

    def action_list_page_up(self) -> None:
        self.listing.page(-1)

    def action_list_page_down(self) -> None:
        self.listing.page(1)

    def action_close(self) -> None:
        self.dismiss(None)
