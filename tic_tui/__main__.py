"""`python -m tic_tui`: the command `tic-tui`, where it is not installed."""

from __future__ import annotations

import sys

from tic_tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
