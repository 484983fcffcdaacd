"""`tic-daemon attempt`, `mark` and `check`: what people and acceptance scripts say to a store, and ask of it.

Marks and attempts go through the spool, so that they work with a live daemon, without one, and from another host.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from tic_daemon.errors import StoreError, TicError, UnknownRunError
from tic_daemon.output import printable, say
from tic_daemon.store.layout import local_host, stores_under
from tic_daemon.store.offline import take_in_spool
from tic_daemon.store.owner import live_owner
from tic_daemon.store.reader import Reader, open_reader
from tic_daemon.store.spool import Spool

Cut = list[tuple[int, int, int]]


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the three commands to the command line."""
    attempt = commands.add_parser(
        "attempt", help="open a new attempt: the processes that start from here on begin clean"
    )
    attempt.add_argument("run_id", metavar="RUN")
    attempt.add_argument("--from", dest="start", required=True, metavar="now|TIME|FILE:OFFSET", help="where it begins")
    _common(attempt)
    attempt.set_defaults(run=_attempt)

    mark = commands.add_parser("mark", help="mark inconclusive, add a note, retract a mark; append-only")
    mark.add_argument("run_id", metavar="RUN")
    what = mark.add_mutually_exclusive_group()
    what.add_argument("--attempt", type=int, metavar="N", help="mark this attempt, not the whole run")
    what.add_argument("--record", type=int, metavar="REC_ID", help="mark this record (rec_id of view mismatches)")
    what.add_argument("--retract", metavar="ID", help="take the mark with this rec_id or id back")
    mark.add_argument("--note", action="store_true", help="a note: lowers nothing")
    _common(mark)
    mark.set_defaults(run=_mark)

    check = commands.add_parser("check", help="exit code by what the evidence of a run is; for acceptance scripts")
    check.add_argument("run_id", metavar="RUN")
    check.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    check.add_argument("--json", action="store_true", help="as JSON")
    check.set_defaults(run=_check)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    parser.add_argument("--reason", required=True, help="why; kept with your name and the time")


def _attempt(args: argparse.Namespace) -> int:
    reader = open_reader(args.at)
    try:
        _known(reader, args.run_id)
        kind, moment, cut = _start(reader, args.start)
    finally:
        reader.close()
    Spool.at(args.at).attempt(args.run_id, reason=args.reason, from_kind=kind, from_time=moment, cut=cut)
    where = f"at {moment} UTC" if moment is not None else "where its sources stand now"
    say(printable(f"a new attempt of {args.run_id} begins {where}{_take_in(Path(args.at))}"))
    return 0


def _take_in(at: Path) -> str:
    """Without a daemon on a store of this machine, takes the spool in now: which lines belong to an attempt is worked
    out by whoever writes the store. Returns what is to be added to the answer."""
    for layout in stores_under(at):
        if live_owner(layout.owner_file) is not None:
            return ""  # its daemon takes it in within a second
        if layout.host == local_host() and layout.database.exists():
            try:
                take_in_spool(layout)
            except StoreError as error:
                return f"; it counts when the store can be written again ({error.what})"
            return ""
    return "; it counts as soon as the daemon of the store takes it in"


def _start(reader: Reader, text: str) -> tuple[str, datetime | None, Cut]:
    """What `--from` says: kind, time, and where every known source is cut."""
    if text == "now":
        return "now", None, _ends(reader)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        path, colon, offset = text.rpartition(":")
        if not colon or not re.fullmatch(r"\d{1,18}", offset):
            raise TicError(
                f"--from {text} is neither now, a time, nor FILE:OFFSET", "e.g. --from now, --from 2026-11-29T21:40:00"
            ) from None
        return "source", None, _cut_at(reader, path, int(offset))
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise TicError(f"--from {text} is outside the calendar", "e.g. --from 2026-11-29T21:40:00") from None
    return "time", moment, []


def _ends(reader: Reader) -> Cut:
    """Where every generation of every source ends now: what the daemon has read, or the file's size if that is more."""
    found = reader.query("SELECT source_id, generation, bytes_read, path FROM sources").rows
    return [(int(source), int(generation), max(int(read), _size(path))) for source, generation, read, path in found]


def _size(path: str) -> int:
    if path.endswith(".gz"):
        return 0  # its offsets are of the decompressed bytes
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0  # not visible from here: what was read is all that is known


def _cut_at(reader: Reader, path: str, offset: int) -> Cut:
    """The cut of all sources now, but for the named one: it is cut at `offset`."""
    # As the store shows names that are not UTF-8.
    wanted = {os.fsencode(name).decode("utf-8", "backslashreplace") for name in (path, str(Path(path).absolute()))}
    rows = reader.query("SELECT source_id, generation, path FROM sources").rows
    named = {
        (int(source), int(generation)) for source, generation, found in rows if found in wanted or str(source) == path
    }
    if not named:
        raise TicError(f"no source {path} in this store", "`tic-tui sql` with SELECT path FROM sources lists them")
    ends = _ends(reader)
    size = max(end for source, generation, end in ends if (source, generation) in named)
    if offset > size:  # a slip of the finger: nothing would ever begin there
        raise TicError(f"{path} has {size} bytes: nothing begins at {offset}", "name an offset inside the file")
    return [(source, generation, offset if (source, generation) in named else end) for source, generation, end in ends]


def _mark(args: argparse.Namespace) -> int:
    scope, target, attempt, verdict = "run", "", None, "note" if args.note else "inconclusive"
    reader = open_reader(args.at)
    try:
        _known(reader, args.run_id)
        if args.attempt is not None:
            scope, attempt = "attempt", args.attempt
            if not reader.query("SELECT 1 FROM attempts WHERE run_id = ? AND attempt = ?", [args.run_id, attempt]).rows:
                raise UnknownRunError(f"{args.run_id} has no attempt {attempt}", "`tic-tui status` lists them")
        elif args.record is not None:
            scope, (target, attempt) = "record", _record(reader, args.run_id, args.record)
        elif args.retract is not None:
            verdict, (scope, target, attempt) = "retract", _retracted(reader, args.run_id, args.retract)
    finally:
        reader.close()
    row = Spool.at(args.at).mark(
        args.run_id, reason=args.reason, verdict=verdict, scope=scope, attempt=attempt, target=target
    )
    say(printable(f"{verdict}: {scope} of {args.run_id}, by {row.who}; mark {row.id}"))
    return 0


def _record(reader: Reader, run_id: str, rec_id: int) -> tuple[str, int]:
    found = reader.query(
        "SELECT source_id, generation, byte_offset, attempt FROM mismatches WHERE rec_id = ? AND run_id = ?",
        [rec_id, run_id],
    ).rows
    if not found:
        raise UnknownRunError(f"{run_id} has no record {rec_id}", "rec_id is a column of view mismatches")
    source, generation, offset, attempt = found[0]
    return f"{source}:{generation}:{offset}", int(attempt)


def _retracted(reader: Reader, run_id: str, name: str) -> tuple[str, str, int | None]:
    """Scope, id and attempt of the mark that is taken back; it may be named by id or by rec_id."""
    rows = reader.query("SELECT rec_id, id, scope, attempt, verdict FROM marks WHERE run_id = ?", [run_id]).rows
    for rec_id, mark_id, scope, attempt, verdict in rows:
        if name in (str(rec_id), mark_id) and verdict != "retract":
            return scope, mark_id, attempt
    raise TicError(f"{run_id} has no mark {name}", "view marks lists them; a retraction cannot be retracted")


def _known(reader: Reader, run_id: str) -> None:
    if not reader.query("SELECT 1 FROM runs WHERE run_id = ?", [run_id]).rows:
        known = [row[0] for row in reader.query("SELECT DISTINCT run_id FROM runs ORDER BY 1 LIMIT 10").rows]
        raise UnknownRunError(f"no run {run_id!r} in this store", f"known: {', '.join(known) or 'none yet'}")


def _check(args: argparse.Namespace) -> int:
    from tic_daemon.store.check import check  # noqa: PLC0415  it loads the reader's engine

    reader = open_reader(args.at)
    try:
        code, lines = check(reader, args.run_id)
    finally:
        reader.close()
    text = json.dumps({"run": args.run_id, "exit_code": code, "findings": lines}) if args.json else "\n".join(lines)
    say(text)
    return code
