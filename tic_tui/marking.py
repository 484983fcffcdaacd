"""Writes what a person says: one fsynced line in this process's spool, by the store's own spool module."""

from __future__ import annotations

from collections.abc import Callable

from tic_daemon.store.spool import Spool, SpoolError
from tic_tui.screens.mark import Said


def sayer(target: str) -> tuple[Callable[[Said], str] | None, str]:
    """A function that writes a mark and returns its id, and ""; or None and the reason why marks cannot be written."""
    try:
        spool = Spool.at(target)
    except SpoolError as error:
        return None, f"{error.what}; {error.hint}"

    def say(said: Said) -> str:
        row = spool.mark(
            said.run_id, reason=said.reason, verdict=said.verdict, scope=said.scope, attempt=said.attempt,
            target=said.target,
        )  # fmt: skip
        return row.id

    return say, ""
