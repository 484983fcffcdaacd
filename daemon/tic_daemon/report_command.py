"""`tic-daemon report RUN|CANDIDATE`: what a run or a candidate is, in Markdown or HTML, or as a bundle."""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.errors import TicError
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.output import complain, one_line, say
from tic_daemon.store.reader import open_reader

if TYPE_CHECKING:
    from tic_daemon.report.bundle import Made
    from tic_daemon.report.moment import Moment
    from tic_daemon.report.subject import Subject

_SHOWN = 10


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser(
        "report",
        help="what a run or a candidate is, in Markdown or HTML; with --bundle, what another machine can verify",
    )
    parser.add_argument("subject", metavar="RUN|CANDIDATE", help="its name or hash; its beginning will do")
    parser.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    parser.add_argument("--format", choices=("md", "html"), help="default: by the name of FILE, else md")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="DIR|FILE.tar",
        help="the report with tables, ledger, criteria, manifests and hashes",
    )
    parser.add_argument("--artifacts", action="store_true", help="with --bundle: the dumps of its evidence, too")
    parser.add_argument("--force", action="store_true", help="overwrite FILE, or replace a bundle")
    parser.add_argument(
        "--kind", choices=("run", "candidate"), default="", help="where a run and a candidate have one name"
    )
    parser.add_argument("--as-of", type=_moment, metavar="TIME", help="UTC; default: when the store changed last")
    parser.set_defaults(run=run)


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


_moment.__name__ = "time"  # argparse says "invalid time value"


def run(args: argparse.Namespace) -> int:
    """Report, write. 15 if a store of the workspace was not read: what stands in it may lower what was reported."""
    if args.artifacts and args.bundle is None:
        raise TicError("--artifacts goes with --bundle", "a report holds no dumps")
    if args.bundle is not None and (args.output is not None or args.format):
        raise TicError("a bundle holds the report in both formats", "give --bundle without -o and --format")
    from tic_daemon.report.moment import moment  # noqa: PLC0415  loaded only when needed
    from tic_daemon.report.subject import find  # noqa: PLC0415

    reader = open_reader(args.at)
    try:
        one = moment(reader, args.as_of)
        subject = find(one, args.subject, args.kind)
        if args.bundle is not None:
            _bundled(args, one, subject)
        else:
            _reported(args, one, subject)
    finally:
        reader.close()
    if not one.missing:
        return ExitCode.WELL
    complain(TicError(f"not all stores were read: {'; '.join(sorted(one.missing))}", "the report says so, too"))
    return ExitCode.NO_EVIDENCE


def _reported(args: argparse.Namespace, one: Moment, subject: Subject) -> None:
    from tic_daemon.report import document  # noqa: PLC0415  loaded only when needed

    target: Path | None = args.output
    chosen = args.format or ("html" if target is not None and target.suffix in (".html", ".htm") else "md")
    if target is not None and not args.force and (target.exists() or target.is_symlink()):
        raise _there(target)
    told = document.of(one, subject)
    if chosen == "html":
        from tic_daemon.report.html import render  # noqa: PLC0415  it loads the templates

        text = render(told)
    else:
        from tic_daemon.report import markdown  # noqa: PLC0415  loaded only when needed

        text = markdown.render(told)
    if target is None:
        say(text.rstrip("\n"))
        return
    _write(text, target, force=args.force)
    say(one_line(f"{target}: {subject.kind} {subject.title} as of {one.at:%Y-%m-%d %H:%M:%S} UTC"))


def _write(text: str, target: Path, *, force: bool) -> None:
    from tic_daemon.placing import put, work_beside  # noqa: PLC0415  loaded only when needed

    target = target.absolute()
    work = None
    try:
        work = work_beside(target)
        part = work / "report"
        part.write_text(text, encoding="utf-8")
        put(part, target, force=force)
    except FileExistsError as error:
        raise _there(target) from error
    except OSError as error:
        raise TicError(f"cannot write {target}: {error.strerror or error}", "name another file") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _there(target: Path) -> TicError:
    return TicError(f"{target} exists", "name another file, or overwrite it with --force")


def _bundled(args: argparse.Namespace, one: Moment, subject: Subject) -> None:
    from tic_daemon.report.bundle import make  # noqa: PLC0415  it loads DuckDB and Arrow

    made = make(one, subject, args.bundle, force=args.force, dumps=args.artifacts)
    say("\n".join(map(one_line, _told(made, subject, one))))


def _told(made: Made, subject: Subject, one: Moment) -> list[str]:
    from tic_daemon.report.shape import NOT_ASKED  # noqa: PLC0415  loaded only when needed

    lines = [
        f"{made.path}: {subject.kind} {subject.title} as of {one.at:%Y-%m-%d %H:%M:%S} UTC,"
        f" {made.files} files of {made.bytes} bytes",
        f"  bundle {made.digest}: keep it for `tic-daemon verify {made.path} --head`",
    ]
    dumps = sum(1 for each in made.absent if each.why == NOT_ASKED)
    if dumps:
        lines.append(f"  {dumps} dumps are known by their SHA-256; --artifacts puts them in")
    gone = [each for each in made.absent if each.why != NOT_ASKED]
    lines += [f"  not in it: {each.what} {each.path or each.sha256}: {each.why}" for each in gone[:_SHOWN]]
    return [*lines, f"  and {len(gone) - _SHOWN} more"] if len(gone) > _SHOWN else lines
