"""`tic-daemon record`: what a run was made of, as its launcher says it and as its workers show it.
`tic-daemon pairs`: whether two arms may be compared, and what their numbers are.
`tic-daemon hints`: which experiment comes first where both sides differ."""

from __future__ import annotations

import argparse
import dataclasses
import json

from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.output import printable, say
from tic_daemon.store.reader import open_reader


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands to the command line."""
    record = commands.add_parser(
        "record", help="what a run was made of: launcher and workers side by side, fingerprint"
    )
    record.add_argument("run_id", metavar="RUN")
    record.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    record.add_argument("--json", action="store_true", help="as JSON")
    record.set_defaults(run=_record)

    pairs = commands.add_parser("pairs", help="declared pairs of arms: the nine rules, medians and single pairs")
    pairs.add_argument("name", nargs="?", default="", metavar="NAME", help="one pair; default: all")
    pairs.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    pairs.add_argument("--json", action="store_true", help="as JSON")
    pairs.set_defaults(run=_pairs)

    hints = commands.add_parser("hints", help="the pattern of a mismatch, the first step, the next cheapest probe")
    hints.add_argument("run_id", metavar="RUN")
    hints.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    hints.add_argument("--json", action="store_true", help="as JSON")
    hints.set_defaults(run=_hints)


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


def _pairs(args: argparse.Namespace) -> int:
    from tic_daemon.record import pairs  # noqa: PLC0415  loaded only when needed

    reader = open_reader(args.at)
    try:
        found = pairs.of(reader, args.name)
    finally:
        reader.close()
    compared = [pairs.scored(pair) for pair in found]
    if args.json:
        told = [{**pair, "scores": scores} for pair, scores in zip(found, compared, strict=True)]
        say(json.dumps(told, indent=1, default=str))
    else:
        said = (pairs.text(pair, scores) for pair, scores in zip(found, compared, strict=True))
        say(printable("\n\n".join(said)))
    comparable = all(pair["state"] == pairs.COMPARABLE for pair in found)
    return ExitCode.WELL if comparable else ExitCode.INCONCLUSIVE


def _hints(args: argparse.Namespace) -> int:
    from tic_daemon.hints import words  # noqa: PLC0415  loaded only when needed
    from tic_daemon.hints.facts import facts_of  # noqa: PLC0415
    from tic_daemon.hints.router import route  # noqa: PLC0415

    reader = open_reader(args.at)
    try:
        told = route(facts_of(reader, args.run_id))
    finally:
        reader.close()
    if args.json:
        say(json.dumps({"run": args.run_id, "what": "hints, no verdict", **dataclasses.asdict(told)}, indent=1))
    else:
        say(printable(words.text(args.run_id, told)))
    return ExitCode.WELL
