"""`tic-tui`: the command line of the screen and of its text faces.

    tic-tui [PATH]              the screen; without a terminal that can show one, the status report
    tic-tui status [PATH]       text report; its exit code says how the runs stand
    tic-tui sql PATH QUERY      one SELECT
    tic-tui watch --plain PATH  one line an event
    tic-tui demo                a captured run, played back live

A directory that is called like a command is named with its path: `tic-tui ./status`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tic_daemon import __version__, without
from tic_daemon.errors import ConfigError, TicError
from tic_tui import terminal

COMMANDS = ("status", "sql", "watch", "demo")


def parser() -> argparse.ArgumentParser:
    """The parser of the screen itself; the commands have their own."""
    made = argparse.ArgumentParser(
        prog="tic-tui",
        description="Watch the training-inference consistency of RL post-training jobs.",
        epilog="commands: tic-tui status [PATH], tic-tui sql PATH QUERY, tic-tui watch --plain, tic-tui demo;"
        " each has --help",
    )
    made.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="workspace, store directory, .duckdb file, or a daemon's URL",
    )
    made.add_argument("--theme", default="", help="dark, light, high-contrast, colour-blind, ansi, or one of yours")
    made.add_argument("--ascii", action="store_true", help="draw with ASCII only")
    made.add_argument("--read-only", action="store_true", help="turn the writing keys off")
    made.add_argument("--mouse", action="store_true", help="let the mouse move the cursor")
    made.add_argument(
        "--keys", type=Path, metavar="FILE", help="keys.toml; default: the one in the configuration directory"
    )
    made.add_argument("--version", action="version", version=f"tic-tui {__version__}")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # started with a closed standard output (`>&-`): only the exit code is wanted
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- stays open to the end
    try:
        if words and words[0] in COMMANDS:
            return _command(words[0], words[1:])
        return _screen(parser().parse_args(words))
    except TicError as error:
        _complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _let_go_of_stdout()  # `| head` left early: no error
        return 0


def entry() -> NoReturn:
    """`tic-tui` as a process of its own. A reader may still be at work, in DuckDB, when its command ends."""
    without.pandas()
    code = main()
    from tic_daemon.ending import leave_stuck_threads  # noqa: PLC0415 -- the first paint does not wait for it

    leave_stuck_threads(code)
    sys.exit(code)


def _complain(error: TicError) -> None:
    from tic_tui.safe import safe_lines  # noqa: PLC0415 -- errors quote names of files and texts of queries

    if sys.stderr is not None:
        print("\n".join(safe_lines(f"tic-tui: {error}")), file=sys.stderr)


def _let_go_of_stdout() -> None:
    """Standard output goes nowhere from now on: Python would complain once more when it flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _command(name: str, words: list[str]) -> int:
    """A command that prints and ends. What the system refuses it, such as a full disk, is the user's to mend."""
    try:
        return _run_command(name, words)
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go_of_stdout()
        named = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        raise ConfigError(f"{name} could not be done{named}: {error.strerror or error}") from error


def _run_command(name: str, words: list[str]) -> int:
    made = argparse.ArgumentParser(prog=f"tic-tui {name}")
    if name == "sql":
        from tic_tui import sqlcmd  # noqa: PLC0415 -- each command loads what it needs and no more

        sqlcmd.add_arguments(made)
        return sqlcmd.main(made.parse_args(words))
    if name == "status":
        from tic_tui import status  # noqa: PLC0415

        status.add_arguments(made)
        return status.main(made.parse_args(words))
    if name == "watch":
        from tic_tui import plainwatch  # noqa: PLC0415

        plainwatch.add_arguments(made)
        return plainwatch.main(made.parse_args(words))
    made.add_argument("--out", metavar="DIR", help="where tic-demo/ is made; default: the current directory")
    args = made.parse_args(words)
    from tic_tui import demo  # noqa: PLC0415

    return demo.main(args)


def _screen(args: argparse.Namespace) -> int:
    if not terminal.can_paint():
        from tic_tui import status  # noqa: PLC0415

        return status.show(args.path, as_json=False)
    from tic_tui.start import Settings, run_screen  # noqa: PLC0415

    return run_screen(args.path, Settings(args.theme, args.ascii, args.read_only, args.mouse, args.keys))


if __name__ == "__main__":
    entry()
