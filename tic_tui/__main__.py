"""`python -m tic_tui PATH`: the screen alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tic_daemon.errors import TicError
from tic_tui.start import Settings, run_screen


def main() -> int:
    """Parses arguments and shows the screen."""
    parser = argparse.ArgumentParser(prog="python -m tic_tui", description="Show a store on the screen.")
    parser.add_argument("path", help="workspace, store directory, .duckdb file, or URL of a live daemon")
    parser.add_argument("--theme", default="", help="dark, light, high-contrast, colour-blind, ansi, or one of yours")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII only")
    parser.add_argument("--read-only", action="store_true", help="turn the writing keys off")
    parser.add_argument("--mouse", action="store_true", help="let the mouse move the cursor")
    parser.add_argument("--keys", type=Path, help="keys.toml; default: the one in the configuration directory")
    args = parser.parse_args()
    try:
        return run_screen(args.path, Settings(args.theme, args.ascii, args.read_only, args.mouse, args.keys))
    except TicError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
