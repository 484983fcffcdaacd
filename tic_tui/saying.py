"""What people say on the screen: marks, notes and retractions, from the key to the line in the store.

key -> dialog -> one fsynced line in the spool -> "recorded" when the store shows it, else "not yet recorded"
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tic_tui.app import TicApp
    from tic_tui.screens.mark import Said

Sayer = Callable[["Said"], str]  # writes one fsynced line, returns its id
_LATE_S: Final = 1.5  # a mark that the store does not show after this is "not yet recorded"


class Saying:
    """Asks, writes and waits for the acknowledgement.

    Args:
        say: writes a mark. sayer: asked for that by the first mark; None and why, if marks cannot be written here.
    """

    def __init__(
        self, app: TicApp, say: Sayer | None, sayer: Callable[[], tuple[Sayer | None, str]] | None = None
    ) -> None:
        self._app, self.say, self._sayer, self._why_not = app, say, sayer, ""
        self._unseen: dict[str, str] = {}

    def _may_write(self) -> bool:
        if self._app.keymap.read_only:
            self._app.tell("read-only: started with --read-only")
            return False
        if self.say is None and self._sayer is not None:
            self.say, self._why_not = self._sayer()
        if self.say is None:
            self._app.tell(f"marks cannot be written here: {self._why_not}")
        return self.say is not None

    async def ask_mark(self, verdict: str) -> None:
        """Opens the dialog for a mark or a note on what is under the cursor."""
        app = self._app
        if not self._may_write() or app.view is None:
            return
        if (about := app.view.target_run()) is None:
            app.tell("nothing is selected")
            return
        from tic_tui.screens.mark import MarkScreen  # noqa: PLC0415  the first paint does not wait for dialogs

        await app.push_screen(MarkScreen(verdict, *about), self._write)

    async def ask_retract(self) -> None:
        """Opens the dialog that takes a mark back."""
        app = self._app
        if not self._may_write() or app.view is None:
            return
        about, seen = app.view.target_run(), app.run_view
        if about is None or seen is None or str(seen.run.run_id) != about[0]:
            app.tell("open the run first: its marks are listed there")
            return
        marks = [m for m in seen.marks if not m.retracted and m.verdict != "retract"]
        if not marks:
            app.tell("this run has no mark in force")
            return
        from tic_tui.screens.mark import RetractScreen  # noqa: PLC0415

        await app.push_screen(RetractScreen(about[0], marks), self._write)

    def _write(self, said: Said | None) -> None:
        if said is not None:
            self._app.run_worker(self._write_line(said), exit_on_error=False)

    async def _write_line(self, said: Said) -> None:
        say, app = self.say, self._app
        if say is None:
            return
        try:
            # In a thread: an fsync on a network file system may take seconds.
            mark_id = await asyncio.to_thread(say, said)
        except Exception as error:  # noqa: BLE001  the person must learn that nothing was written, whatever the cause
            app.tell(f"NOT written: {str(error).splitlines()[0] if str(error) else type(error).__name__}", "gap")
            return
        self._unseen[mark_id] = said.verdict
        app.tell(f"{said.verdict} written; waiting until the store shows it")
        app.feed.seek(mark_id)
        await asyncio.sleep(_LATE_S)
        if mark_id in self._unseen:
            app.tell(f"{said.verdict}: not yet recorded; it is in the spool and will be taken in", "stale")

    def acknowledge(self, ids: frozenset[str]) -> None:
        """Takes in which marks the store shows."""
        for mark_id in ids & self._unseen.keys():
            self._app.tell(f"{self._unseen.pop(mark_id)} recorded", "ok")
