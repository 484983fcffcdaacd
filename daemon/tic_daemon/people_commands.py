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
from typing import Any

from tic_daemon.errors import StoreError, TicError, UnknownRunError
from tic_daemon.output import printable, say
from tic_daemon.store.layout import local_host, spool_dir_of, stores_under
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
    what.add_argument(
        "--record", metavar="[STORE:]REC_ID", help="mark this record (store_id and rec_id of view mismatches)"
    )
    what.add_argument("--comparison", metavar="ID", help="mark this comparison (comparison_id of view comparisons)")
    what.add_argument("--retract", metavar="ID", help="take the mark with this id or rec_id back")
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
    # All stores of the workspace, also where one was named: a source without a cut would begin afterwards.
    spool = spool_dir_of(Path(args.at)) if "://" not in args.at else None
    reader = open_reader(args.at if spool is None else spool.parent)
    try:
        _known(reader, args.run_id)
        kind, moment, cut = _start(reader, args.start)
    finally:
        reader.close()
    Spool.at(args.at).attempt(args.run_id, reason=args.reason, from_kind=kind, from_time=moment, cut=cut)
    where = f"at {moment} UTC" if moment is not None else "where its sources stand now"
    say(printable(f"a new attempt of {args.run_id} begins {where}{take_in(Path(args.at))}"))
    return 0


def take_in(at: Path) -> str:
    """Without a daemon on a store of this machine, takes the spool in now: which lines belong to an attempt is worked
    out by whoever writes the store. Returns what is to be added to the answer."""
    from tic_daemon.store.offline import take_in_spool  # noqa: PLC0415 -- a writer, which the other commands do without

    waiting = []
    spool = spool_dir_of(at)
    for layout in stores_under(at if spool is None else spool.parent):
        if live_owner(layout.owner_file) is not None:
            continue  # its daemon takes it in within a second
        if layout.host == local_host() and layout.database.exists():
            try:
                take_in_spool(layout)
            except StoreError as error:
                waiting.append(f"{layout.directory.name} can be written again ({error.what})")
        else:
            waiting.append(f"the daemon of {layout.directory.name} runs again")
    return f"; it counts there when {', '.join(waiting)}" if waiting else ""


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
    """Where every generation of every source of every store ends now: what its daemon has read, or the file's size if
    that is more.

    Raises:
        StoreError: a store cannot be read, or is behind. A source without a cut would count as begun afterwards.
    """
    found = _complete(reader, "SELECT source_id, generation, bytes_read, path FROM sources")
    return [(int(source), int(generation), max(int(read), _size(path))) for source, generation, read, path in found]


def _complete(reader: Reader, sql: str) -> list[tuple[Any, ...]]:
    """Rows of all stores, as they stand now.

    Raises:
        StoreError: a store is missing from them, or its rows are of an earlier moment.
    """
    found = reader.query(sql, gather="SELECT * FROM part")
    connection = reader.connection()
    behind = [store for store in connection.stores or (connection,) if store.kind == "snapshot" and store.detail]
    why = "; ".join((*found.missing, *(store.detail for store in behind)))
    if why or found.truncated:
        hints = [store.hint for store in behind if store.hint]
        raise StoreError(
            f"where all logs end now cannot be told: {why or 'there are too many'}",
            "; ".join((*hints, "or say --from TIME: a time needs no look at the logs")),
        )
    return found.rows


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
    rows = _complete(reader, "SELECT source_id, generation, path FROM sources")
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
            known = "SELECT 1 FROM attempts WHERE run_id = ? AND attempt = ?"
            if not reader.query(known, [args.run_id, attempt], gather="SELECT * FROM part").rows:
                raise UnknownRunError(f"{args.run_id} has no attempt {attempt}", "`tic-tui status` lists them")
        elif args.record is not None:
            scope, (target, attempt) = "record", _record(reader, args.run_id, args.record)
        elif args.comparison is not None:
            scope, (target, attempt) = "record", _comparison(reader, args.run_id, args.comparison)
        elif args.retract is not None:
            verdict, (scope, target, attempt) = "retract", _retracted(reader, args.run_id, args.retract)
    finally:
        reader.close()
    row = Spool.at(args.at).mark(
        args.run_id, reason=args.reason, verdict=verdict, scope=scope, attempt=attempt, target=target
    )
    say(printable(f"{verdict}: {scope} of {args.run_id}, by {row.who}; mark {row.id}"))
    return 0


def _record(reader: Reader, run_id: str, name: str) -> tuple[str, int]:
    """Place and attempt of a record, named by its number, with its store's id before it where that is not enough."""
    store, _, number = name.rpartition(":")
    if not re.fullmatch(r"\d{1,18}", number):
        raise TicError(f"--record {name} is not REC_ID or STORE:REC_ID", "rec_id is a column of view mismatches")
    wanted = (
        "SELECT store_id, source_id, generation, byte_offset, attempt FROM mismatches WHERE rec_id = ? AND run_id = ?"
    )
    found = reader.query(wanted, [int(number), run_id], gather="SELECT * FROM part ORDER BY store_id")
    rows = [row for row in found.rows if not store or row[0] == store]
    if not rows:
        missing = "".join(f"; not read: {text}" for text in found.missing)
        raise UnknownRunError(f"{run_id} has no record {name}{missing}", "rec_id is a column of view mismatches")
    if len(rows) > 1 or (found.missing and not store):
        names = ", ".join(f"{row[0]}:{number}" for row in rows)
        why = "; ".join(found.missing) or f"{len(rows)} stores have one"
        raise TicError(f"record {number} is not clear: {why}", f"name it with its store: {names}")
    _, source, generation, offset, attempt = rows[0]
    return f"{source}:{generation}:{offset}", int(attempt)


def _comparison(reader: Reader, run_id: str, name: str) -> tuple[str, int]:
    """What a mark of a comparison names, and its attempt."""
    wanted = "SELECT attempt FROM comparisons WHERE comparison_id = ? AND run_id = ?"
    rows = reader.query(wanted, [name, run_id], gather="SELECT * FROM part LIMIT 1").rows
    if not rows:
        raise UnknownRunError(f"{run_id} has no comparison {name}", "comparison_id is a column of view comparisons")
    return f"comparison:{name}", int(rows[0][0])


def _retracted(reader: Reader, run_id: str, name: str) -> tuple[str, str, int | None]:
    """Scope, id and attempt of the mark that is taken back; it may be named by id or by rec_id."""
    rows = reader.query(
        "SELECT rec_id, id, scope, attempt, verdict FROM marks WHERE run_id = ?", [run_id], gather="SELECT * FROM part"
    ).rows
    named = {
        (scope, mark_id, attempt)
        for rec_id, mark_id, scope, attempt, verdict in rows
        if name in (str(rec_id), mark_id) and verdict != "retract"
    }
    if len(named) > 1:  # each store numbers the same marks in its own way
        ids = ", ".join(sorted(mark_id for _, mark_id, _ in named))
        raise TicError(f"mark {name} is not clear: stores number them differently", f"name it by its id: {ids}")
    if not named:
        raise TicError(f"{run_id} has no mark {name}", "view marks lists them; a retraction cannot be retracted")
    return named.pop()


def _known(reader: Reader, run_id: str) -> None:
    one = "SELECT * FROM part"
    asked = reader.query("SELECT 1 AS known FROM run_states WHERE run_id = ?", [run_id], gather=one)
    if not asked.rows and not reader.query("SELECT 1 AS known FROM runs WHERE run_id = ?", [run_id], gather=one).rows:
        names = "SELECT DISTINCT run_id FROM runs ORDER BY 1 LIMIT 10"
        known = [
            row[0] for row in reader.query(names, gather="SELECT DISTINCT run_id FROM part ORDER BY 1 LIMIT 10").rows
        ]
        missing = "".join(f"; not read: {text}" for text in asked.missing)
        raise UnknownRunError(f"no run {run_id!r} in this store{missing}", f"known: {', '.join(known) or 'none yet'}")


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
