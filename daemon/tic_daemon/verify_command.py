"""`tic-daemon verify`: whether ledger, receipts and artifacts are still what they were; of a store, or of a bundle."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.errors import TicError
from tic_daemon.evidence.exit_codes import WORDS, worst
from tic_daemon.output import one_line, say

if TYPE_CHECKING:
    from tic_daemon.verifying import Found

_SHOWN = 20


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser("verify", help="walk the ledger's chain, receipts and artifacts; name the first break")
    parser.add_argument(
        "at", nargs="?", default=".", metavar="PATH", help="workspace, store, file or bundle; default: here"
    )
    parser.add_argument(
        "--head",
        default="",
        metavar="HASH",
        help="a row's hash, or a bundle's, that was noted before: it must still be there",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Walk, print. Returns the exit code."""
    from tic_daemon.report.container import is_bundle  # noqa: PLC0415  loaded only when needed

    if args.head and not re.fullmatch(r"[0-9a-f]{64}", args.head):
        raise TicError(f"--head {args.head} is no hash of 64 hexadecimal digits", "`tic-daemon verify` prints it")
    found = _of_bundle(args) if "://" not in args.at and is_bundle(Path(args.at)) else _of_stores(args)
    code = worst([one.exit_code for one in found])
    if args.json:
        stores = [{**asdict(one), "hashes": None, "exit_code": int(one.exit_code)} for one in found]
        for one in stores:
            del one["hashes"]
        say(json.dumps({"exit_code": int(code), "stores": stores}, indent=1))
    else:
        lines = [f"{WORDS[code]} (exit code {int(code)})", *(line for one in found for line in _text(one))]
        say("\n".join(map(one_line, lines)))
    return int(code)


def _of_stores(args: argparse.Namespace) -> list[Found]:
    from tic_daemon.verifying import verify  # noqa: PLC0415  it loads the reader's engine

    return verify(args.at, args.head)


def _of_bundle(args: argparse.Namespace) -> list[Found]:
    from tic_daemon.report.checking import verify  # noqa: PLC0415  loaded only when needed

    return [verify(Path(args.at), args.head)]


def _text(one: Found) -> list[str]:
    rows = f"{one.rows} rows of the ledger hold" + (f", the last is {one.head}" if one.head else "")
    lines = [f"{one.store}: {rows}; {one.files} files of {one.bytes} bytes read"]
    if one.digest:
        lines.append(f"  bundle {one.digest}")
        lines += [f"  not in it: {each}" for each in one.absent[:_SHOWN]]
        if one.unhashed:
            lines.append(f"  {one.unhashed} dumps were left out, and are known by their SHA-256")
    else:
        if one.copy:
            lines.append(f"  not the store itself: {one.copy}")
        if one.elsewhere:
            lines.append(f"  {one.elsewhere} files are not seen from this machine")
        if one.unhashed:
            lines.append(f"  of {one.unhashed} files no hash is known")
    for number, each in enumerate(one.breaks[:_SHOWN]):
        lines.append(f"  {'first break' if not number else 'break'}: {each.words()}")
    if one.broken > _SHOWN:
        lines.append(f"  and {one.broken - _SHOWN} more")
    return lines
