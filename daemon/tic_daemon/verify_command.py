"""`tic-daemon verify`: whether ledger, receipts and artifacts are still what they were."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from tic_daemon.errors import TicError
from tic_daemon.evidence.exit_codes import WORDS, worst
from tic_daemon.output import printable, say

if TYPE_CHECKING:
    from tic_daemon.verifying import Found

_SHOWN = 20


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser("verify", help="walk the ledger's chain, receipts and artifacts; name the first break")
    parser.add_argument("at", nargs="?", default=".", metavar="PATH", help="workspace, store or file; default: here")
    parser.add_argument(
        "--head", default="", metavar="HASH", help="a row's hash that was noted before: it must still be there"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Walk, print. Returns the exit code."""
    from tic_daemon.verifying import verify  # noqa: PLC0415  it loads the reader's engine

    if args.head and not re.fullmatch(r"[0-9a-f]{64}", args.head):
        raise TicError(f"--head {args.head} is no hash of 64 hexadecimal digits", "`tic-daemon verify` prints it")
    found = verify(args.at, args.head)
    code = worst([one.exit_code for one in found])
    if args.json:
        stores = [{**asdict(one), "hashes": None, "exit_code": int(one.exit_code)} for one in found]
        for one in stores:
            del one["hashes"]
        say(json.dumps({"exit_code": int(code), "stores": stores}, indent=1))
    else:
        say(
            printable(
                "\n".join([f"{WORDS[code]} (exit code {int(code)})", *(line for one in found for line in _text(one))])
            )
        )
    return int(code)


def _text(one: Found) -> list[str]:
    rows = f"{one.rows} rows of the ledger hold" + (f", the last is {one.head}" if one.head else "")
    lines = [f"{one.store}: {rows}; {one.files} files of {one.bytes} bytes read"]
    if one.elsewhere:
        lines.append(f"  {one.elsewhere} files are not seen from this machine")
    if one.unhashed:
        lines.append(f"  of {one.unhashed} files no hash is known")
    for number, each in enumerate(one.breaks[:_SHOWN]):
        lines.append(f"  {'first break' if not number else 'break'}: {each.words()}")
    if one.broken > _SHOWN:
        lines.append(f"  and {one.broken - _SHOWN} more")
    return lines
