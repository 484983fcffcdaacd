"""`python -m tic_tui`: the command `tic-tui`, where it is not installed."""

from __future__ import annotations

from tic_tui.cli import entry

if __name__ == "__main__":
    entry()
