"""`tic-daemon wandb RUN`: reads a W&B history here and now, and leaves it for the daemons of the workspace.

For a login node, where the way to W&B is open that the nodes with the daemons lack. Two readings are made, with other
borders of pages, so that what both lack is known not to be on the server.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tic_daemon.config import WandbConfig, is_run_path
from tic_daemon.errors import TicError
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.output import printable, say
from tic_daemon.store import plain
from tic_daemon.store.layout import local_host, spool_dir_of

_URL = re.compile(r"https?://[^/\s]+/([^/\s?#]+)/([^/\s?#]+)/runs/([^/\s?#]+)")


class NotRead(TicError):
    """The history could not be read."""

    exit_code = 15


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser("wandb", help="read a W&B history here, for daemons on nodes without a way to W&B")
    parser.add_argument("run_path", metavar="RUN", help="entity/project/id, or the address of the run's page")
    parser.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    parser.add_argument("--stored", action="store_true", help="read nothing; only say what the store holds and lacks")
    parser.add_argument("--dry-run", action="store_true", help="only say what is there; leave nothing for the daemons")
    parser.add_argument(
        "--deadline", type=_seconds, default=WandbConfig().deadline_s, metavar="S",
        help="end a reading that gives nothing more for S seconds; default: %(default)g",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=_wandb)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds"


def run_path_of(text: str) -> str:
    """The run that a person names. Raises TicError."""
    if found := _URL.match(text):
        text = "/".join(unquote(part) for part in found.groups())
    if not is_run_path(text):
        raise TicError(f"{text} names no W&B run", "write entity/project/id, or the address of the run's page")
    return text


def _wandb(args: argparse.Namespace) -> int:
    if args.stored:
        lines, stored = _of_store(args.at, args.run_path)
        say(plain.to_json(stored) if args.json else printable("\n".join(lines)))
        return ExitCode.GAPS if any(gap["confirmed"] for gap in stored["gaps"]) else ExitCode.WELL
    path = run_path_of(args.run_path)
    spool = None
    if not args.dry_run:
        spool = spool_dir_of(Path(args.at))
        if spool is None:
            raise TicError(
                f"{args.at} is no workspace: no daemon would take in what is read",
                "name the directory that holds .tic/ with --at, or give --dry-run",
            )
    told = _read(path, args.deadline, spool)
    lines = []
    try:
        lines, told["stored"] = _of_store(args.at, path)
        taken = "in the store, where this reading is not yet taken in:" if told["spooled"] else "in the store:"
        lines.insert(0, taken)
    except TicError as error:
        told["stored"] = None
        lines = [f"nothing is known of it in a store: {error.what}"]
    say(plain.to_json(told) if args.json else printable("\n".join((_text(told), *lines))))
    if told["outcome"] != "ok":
        return NotRead.exit_code
    return 0


def _of_store(workspace: str, run: str) -> tuple[list[str], dict[str, Any]]:
    """What the stores of the workspace say of it. Raises TicError."""
    from tic_daemon.store import histories  # noqa: PLC0415  only for this
    from tic_daemon.store.reader import open_reader  # noqa: PLC0415  only for this

    reader = open_reader(workspace)
    try:
        return histories.told(reader, run, _clock)
    finally:
        reader.close()


def _clock(then: datetime | None) -> str:
    return "at an unknown time" if then is None else f"at {then:%Y-%m-%d %H:%M:%S} UTC"


def _read(path: str, deadline_s: float, spool: Path | None) -> dict[str, Any]:
    from tic_daemon.wandb.events import WandbRead  # noqa: PLC0415  only for this
    from tic_daemon.wandb.reading import ReadFailed, ReadingChild, client_there  # noqa: PLC0415  only for this
    from tic_daemon.wandb.spooled import SpoolFile  # noqa: PLC0415  only for this
    from tic_daemon.wandb.target import Intake, Named, Target, conclude, doubts  # noqa: PLC0415  only for this
    from tic_daemon.wandb.wire import Asked, RunTold  # noqa: PLC0415  only for this

    if not client_there():
        raise NotRead("the W&B client is not installed here", "pip install 'tic-tui[wandb]'")
    target = Target(Named(path, ""), local_host())
    run: RunTold | None = None
    done = []
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(ReadingChild())
        file = stack.enter_context(SpoolFile(spool, path, _user())) if spool is not None else None
        for stretch in (1.0, 1.7):
            intake = Intake(target, lambda _delta: None, 0)
            if file is not None:
                file.begin(0)
            first = 0
            while True:
                asked = Asked(path, first, stretch=stretch, budget_s=deadline_s / 2)
                try:
                    for message in child.read(asked, deadline_s):
                        intake.take(message)
                        run = message if isinstance(message, RunTold) else run
                        if file is not None:
                            file.say(message)
                except ReadFailed as failed:
                    intake.fail(failed.outcome, failed.what)
                if intake.done.outcome != "cut":
                    break
                first = intake.done.reading.end + 1
            done.append(intake.done)
            if file is not None:
                file.end(intake.done.outcome, intake.done.detail, intake.done.took_s)
            if not intake.done.ok:
                break
        # A name that the server does not know would be a run of the workspace from then on.
        if file is not None and run is None and not done[0].ok:
            file.drop()
            file = None
        if done[0].outcome == "no_account":
            raise NotRead(done[0].detail, "run `wandb login`, or set WANDB_API_KEY and WANDB_BASE_URL")
    one, two = done[0], done[1] if len(done) > 1 else None
    events = conclude(target, one, two, doubts(target, one, holes=False), "hand").events
    reads = [event for event in events if isinstance(event, WandbRead)]
    return {
        "run": path,
        "state": run.state if run else "",
        "name": run.name if run else "",
        "outcome": reads[-1].outcome,
        "rows": one.reading.rows,
        "history_line_count": one.reading.line_count,
        "last_step": one.reading.last_step if one.reading.last_step >= 0 else None,
        "seen": str(one.reading.seen.union(two.reading.seen) if two else one.reading.seen),
        "holes": str(one.reading.seen.union(two.reading.seen).holes() if two else one.reading.seen.holes()),
        "readings": [
            {
                "outcome": read.outcome, "detail": read.detail, "rows": read.rows, "page_size": read.page_size,
                "took_s": read.took_s, "client_version": read.client_version,
            }
            for read in reads
        ],
        "spooled": str(file.path) if file is not None else None,
    }  # fmt: skip


def _text(told: dict[str, Any]) -> str:
    lines = [f"{told['run']}: {told['state'] or 'state unknown'}, {told['name'] or 'without a name'}"]
    last = "none" if told["last_step"] is None else told["last_step"]
    counts = "says no count" if told["history_line_count"] is None else f"counts {told['history_line_count']}"
    lines.append(f"{told['rows']} rows; the server {counts}, last step {last}")
    holes = f"; between them not {_cut(told['holes'])}" if told["holes"] else ""
    lines.append(f"steps that came (_step): {_cut(told['seen']) or 'none'}{holes}")
    for number, read in enumerate(told["readings"], 1):
        detail = f": {read['detail']}" if read["detail"] else ""
        pages = f", {read['page_size']} steps a page" if read["page_size"] else ""
        lines.append(
            f"reading {number}: {read['outcome']}, {read['rows']} rows in {read['took_s']:.1f} s{pages}, "
            f"wandb {read['client_version'] or '?'}{detail}"
        )
    if told["spooled"]:
        lines.append(f"left for the daemon in {told['spooled']}")
    return "\n".join(lines)


def _cut(ranges: str) -> str:
    return ranges if len(ranges) <= 200 else f"{ranges[:200].rpartition(' ')[0]} ..."


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"
