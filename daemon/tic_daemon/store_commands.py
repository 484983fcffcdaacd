"""`tic-daemon snapshot` and `tic-daemon stores`: a copy to take away, and who holds what in a workspace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tic_daemon.errors import StoreError
from tic_daemon.output import printable, say
from tic_daemon.store.layout import StoreLayout, stores_under


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the two commands to the command line."""
    snapshot = commands.add_parser("snapshot", help="write all that a store holds into one DuckDB file; at any time")
    snapshot.add_argument("file", type=Path, metavar="FILE", help="the file to write; any DuckDB from 1.2 on opens it")
    snapshot.add_argument("--at", default=".", metavar="PATH", help="workspace or store directory; default: here")
    snapshot.add_argument("--force", action="store_true", help="overwrite FILE")
    snapshot.set_defaults(run=_snapshot)

    stores = commands.add_parser("stores", help="the stores of a workspace: who writes them, where they lie, how old")
    stores.add_argument("at", nargs="?", default=".", metavar="PATH", help="workspace; default: the current directory")
    stores.add_argument("--json", action="store_true", help="as JSON")
    stores.set_defaults(run=_stores)


def _snapshot(args: argparse.Namespace) -> int:
    from tic_daemon.store.copy import copy_store  # noqa: PLC0415  it loads DuckDB

    copied = copy_store(_one(Path(args.at)), args.file, force=args.force)
    said = f"{args.file}: the store as of {copied.at:%Y-%m-%d %H:%M:%S} UTC, from {copied.source}"
    say(printable(f"{said}; {copied.behind}" if copied.behind else said))
    return 0


def _one(at: Path) -> StoreLayout:
    if "://" in str(at):
        raise StoreError(f"a copy needs the workspace's files, not {at}", "name the workspace's directory with --at")
    found = stores_under(at.absolute())
    if not found:
        raise StoreError(
            f"no store under {at}", f"start `tic-daemon watch {at}`, or name the watched directory with --at"
        )
    if len(found) > 1:
        names = ", ".join(str(layout.directory) for layout in found)
        raise StoreError(f"{at} has {len(found)} stores, a copy is of one", f"name one with --at: {names}")
    return found[0]


def _stores(args: argparse.Namespace) -> int:
    from tic_daemon.store import leases  # noqa: PLC0415  only when it is used

    found = leases.leases(Path(args.at).absolute())
    say(json.dumps(leases.as_json(found), indent=1) if args.json else printable(leases.as_text(found)).rstrip("\n"))
    return 0
