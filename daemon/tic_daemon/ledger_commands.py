"""`tic-daemon criterion`, `case` and `baseline`: what people say to the ledger, and read in it.

What is said goes through the spool, so that any host can say it, with or without a daemon; each store's daemon chains
it. Nothing that is said can be changed: it is answered by another row. No command sets a pass.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tic_daemon import ledger_said as said
from tic_daemon.errors import StoreError, TicError, UnknownRunError
from tic_daemon.ledger import criterion, entries
from tic_daemon.ledger.canon import canonical, named
from tic_daemon.ledger_said import Commands
from tic_daemon.people_commands import take_in
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.spool import Spool


def add_parsers(commands: Commands[argparse.ArgumentParser]) -> None:
    """Adds the commands to the command line."""
    _criterion_parser(commands)

    case = commands.add_parser("case", help="a case record: add to its six parts, or print it")
    case.add_argument("name", nargs="?", metavar="NAME", help="without it all are listed")
    for part, words in zip(entries.PARTS, _PART_WORDS, strict=True):
        case.add_argument(f"--{part}", metavar="TEXT", help=words)
    case.add_argument("--ruled-out", action="append", default=[], metavar="TEXT", help="a hypothesis that fell; kept")
    case.add_argument("--run", dest="run_id", default="", metavar="RUN")
    case.add_argument("--candidate", default="", metavar="CANDIDATE")
    said.where(case)
    case.set_defaults(run=_case)

    baseline = commands.add_parser("baseline", help="name a baseline, review it, or list them")
    baseline.add_argument("name", nargs="?", metavar="NAME")
    baseline.add_argument("--candidate", metavar="CANDIDATE", help="its candidate")
    baseline.add_argument("--config", default="", metavar="TEXT", help="its configuration")
    baseline.add_argument("--results", default="", metavar="TEXT", help="its result set")
    baseline.add_argument("--reviewer", default="", metavar="WHO", help="who reviewed it; without: pending review")
    baseline.add_argument("--run", dest="run_id", default="", metavar="RUN")
    baseline.add_argument("--reason", default="", help="what was reviewed, or changed")
    said.where(baseline)
    baseline.set_defaults(run=_baseline)


def _criterion_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    own = commands.add_parser("criterion", help="freeze a criterion before the run; replace it; list them")
    verbs = own.add_subparsers(dest="verb", required=True, metavar="freeze|replace|list")
    freeze = verbs.add_parser("freeze", help="put the file into the ledger: frozen from now on")
    freeze.add_argument("file", type=Path, metavar="FILE")
    said.where(freeze)
    freeze.set_defaults(run=_freeze)
    replace = verbs.add_parser(
        "replace", help="FILE governs runs that start after now; verdicts by OLD become historical"
    )
    replace.add_argument("old", metavar="OLD", help="SHA-256 of the old one; its beginning will do")
    replace.add_argument("file", type=Path, metavar="FILE")
    said.reasoned(replace)
    replace.set_defaults(run=_replace)
    said.lister(verbs, _criteria)


_PART_WORDS = (
    "contract", "minimal counterexample", "discriminating experiment", "root cause and minimal fix",
    "regression on the original reproducer", "scope and source",
)  # fmt: skip


# --- criteria ------------------------------------------------------------------------------------------------------


def _freeze(args: argparse.Namespace) -> int:
    found, raw = _read_criterion(args.file)
    try:
        reader = open_reader(args.at)
    except StoreError:
        pass  # said on a host that cannot read a store: what is replaced there stays replaced
    else:
        try:
            _require_in_force(reader, found.sha256)
        finally:
            reader.close()
    _put_criterion(args.at, args.file, found, raw)
    said.answer(args, {"criterion_id": found.sha256}, f"criterion {found.sha256} is frozen{take_in(Path(args.at))}")
    return 0


def _read_criterion(path: Path) -> tuple[criterion.Criterion, bytes]:
    raw = said.read(path)
    try:
        return criterion.parse(raw, str(path)), raw
    except (ValueError, TypeError, KeyError) as error:
        raise TicError(f"{path} is no criterion: {error}", "see docs/reference/compare.md") from error


def _require_in_force(reader: Reader, digest: str) -> None:
    """A criterion that was replaced stays so: its row is there, and a second one would say nothing."""
    sql = "SELECT replaced_by, replaced_at FROM criteria WHERE criterion_id = ? AND replaced_by IS NOT NULL"
    for other, moment in reader.query(sql, [digest], timeout_s=said.TIMEOUT_S).rows:
        raise TicError(
            f"criterion {digest[:12]} was replaced by {other[:12]} {moment:%F %T} UTC, and governs no more",
            "a changed byte, for example in its note, makes it a criterion of its own",
        )


def _put_criterion(at: str, path: Path, found: criterion.Criterion, raw: bytes) -> None:
    body = {"text": raw.decode(), "path": str(path.absolute()), **found.as_json()}
    row_id = named("criterion", found.sha256)
    Spool.at(at).declare("criterion", row_id=row_id, criterion=found.sha256, body=canonical(body))


def _replace(args: argparse.Namespace) -> int:
    reader = open_reader(args.at)
    try:
        old = said.one(reader, "criteria", "criterion_id", "criterion_id", args.old)
        found, raw = _read_criterion(args.file)
        _require_in_force(reader, found.sha256)
    finally:
        reader.close()
    before = str(old["criterion_id"])
    if found.sha256 == before:
        raise TicError(
            f"{args.file} is criterion {before[:12]}: it is replaced by another one", "one changed byte will do"
        )
    _put_criterion(args.at, args.file, found, raw)
    Spool.at(args.at).declare("replaced", criterion=before, target=found.sha256, reason=args.reason)
    words = f"criterion {found.sha256} governs runs that start from now on; verdicts by {before[:12]} are historical"
    said.answer(args, {"criterion_id": found.sha256, "replaces": before}, f"{words}{take_in(Path(args.at))}")
    return 0


def _criteria(args: argparse.Namespace) -> int:
    rows = said.rows_at(args.at, "SELECT * EXCLUDE (text) FROM criteria ORDER BY frozen_at")
    lines = []
    for row in rows:
        bound = f" at most {row['at_most']:g}" if row["at_most"] is not None else ""
        bound += f" at least {row['at_least']:g}" if row["at_least"] is not None else ""
        place = f", for {row['gate']}{'/' + row['cell'] if row['cell'] else ''}" if row["gate"] else ""
        frozen = f"frozen {row['frozen_at']:%F %T} UTC by {row['who']}"
        name = f"{row['criterion_id'][:12]}  {row['metric']}{bound}"
        lines.append(f"{name}, goal {row['goal']}{place}; {frozen}; {row['state']}")
        if row["replaced_by"]:
            lines.append(
                f"  replaced by {row['replaced_by'][:12]} {row['replaced_at']:%F %T} UTC: {row['replaced_because']}"
            )
    return said.listed(args, rows, lines, "no criterion is frozen here")


# --- cases and baselines -------------------------------------------------------------------------------------------


def _case(args: argparse.Namespace) -> int:
    parts = {part: getattr(args, part) for part in entries.PARTS if getattr(args, part)}
    if args.name and (parts or args.ruled_out):
        own = said.candidate_id(args.at, args.candidate)
        body = {"name": args.name, "parts": parts, "ruled_out": args.ruled_out}
        Spool.at(args.at).declare("case", run_id=args.run_id, candidate=own, body=canonical(body))
        said.answer(args, {"case": args.name, **body}, f"added to case {args.name}{take_in(Path(args.at))}")
        return 0
    rows = said.rows_at(args.at, "SELECT * FROM cases ORDER BY opened_at")
    if args.name:
        rows = [row for row in rows if row["name"] == args.name]
        if not rows:
            raise UnknownRunError(f"no case {args.name!r} in this ledger", "`tic-daemon case` lists them")
    lines = []
    for row in rows:
        lines.append(
            f"case {row['name']}: {row['entries']} entries, the last {row['said_at']:%F %T} UTC by {row['who']}"
        )
        if args.name:
            lines += [f"  {words}: {row[part]}" for part, words in zip(entries.PARTS, _PART_WORDS, strict=True)]
            lines += [f"  ruled out: {one}" for one in row["ruled_out"]]
    return said.listed(args, rows, lines, "no case is recorded here")


def _baseline(args: argparse.Namespace) -> int:
    if args.name and args.candidate:
        own = said.candidate_id(args.at, args.candidate)
        body = {"name": args.name, "config": args.config, "results": args.results, "reviewer": args.reviewer}
        Spool.at(args.at).declare(
            "baseline", candidate=own, run_id=args.run_id, reason=args.reason, body=canonical(body)
        )
        state = f"reviewed by {args.reviewer}" if args.reviewer else "pending review"
        said.answer(
            args, {"candidate_id": own, **body}, f"baseline {args.name}: {own[:12]}, {state}{take_in(Path(args.at))}"
        )
        return 0
    if args.name:
        raise TicError(f"baseline {args.name} needs --candidate", "without NAME all baselines are listed")
    rows = said.rows_at(args.at, "SELECT * FROM baselines ORDER BY said_at")
    lines = []
    for row in rows:
        state = f"{row['state']}{' by ' + row['reviewer'] if row['reviewer'] else ''}"
        what = f"config {row['config'] or 'not shown'}, results {row['results'] or 'not shown'}"
        lines.append(f"{row['name']}: {row['candidate_id'][:12]}, {state}; {what}")
    return said.listed(args, rows, lines, "no baseline is named here")
