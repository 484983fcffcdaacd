"""`tic-daemon record`: what a run was made of, as its launcher says it and as its workers show it."""

from __future__ import annotations

import argparse
import json

from tic_daemon.output import printable, say
from tic_daemon.store.reader import open_reader


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    record = commands.add_parser(
        "record", help="what a run was made of: launcher and workers side by side, fingerprint"
    )
    record.add_argument("run_id", metavar="RUN")
    record.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    record.add_argument("--json", action="store_true", help="as JSON")
    record.set_defaults(run=_record)


def _record(args: argparse.Namespace) -> int:
    from tic_daemon.record import asking, words  # noqa: PLC0415  loaded only when needed

    reader = open_reader(args.at)
    try:
        rows = asking.rows_of(reader, args.run_id)
        print_ = asking.fingerprint_of(reader, args.run_id)
        secrets = asking.secrets_of(reader, args.run_id)
    finally:
        reader.close()
    if args.json:
        say(json.dumps({"run": args.run_id, **print_, "fields": rows, "secrets": secrets}, indent=1))
    else:
        say(printable(words.text(args.run_id, rows, print_, secrets)))
    return 0
