"""`tic-tui sql PATH QUERY`: one SELECT, during the run or after it, printed as a table, JSON, CSV or Markdown.

JSON and CSV carry every value exactly: what they print reads back as what the store holds. Table and Markdown are for
eyes: strings are sanitised, and on a terminal long cells are cut.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.errors import ConfigError
from tic_daemon.evidence.exit_codes import ExitCode
from tic_daemon.store import plain
from tic_daemon.store.check import stale
from tic_daemon.store.reader import Connection, Result, open_reader
from tic_tui.safe import safe

CELL_ON_TTY: Final = 80  # cells wide; longer ones are cut on a terminal, never in a file
MOST_ROWS: Final = 1 << 40  # what is asked for beyond it means "all"
_NUMBERS: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
_QUOTED: Final = re.compile(r'[",\r\n]|^\s|\s$')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    form = parser.add_mutually_exclusive_group()
    for name in ("json", "csv", "markdown"):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=f"print {name.upper()}")
    parser.add_argument("--as-of", metavar="TIME", help="the store as it was known then, such as 2026-01-02T03:04:05Z")
    parser.add_argument("--max-rows", type=int, default=100_000, metavar="N", help="default: 100000")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds; default: 30")
    parser.add_argument("path", metavar="PATH", help="workspace, store directory, .duckdb file, or a daemon's URL")
    parser.add_argument("query", metavar="QUERY", help="one SELECT; - reads it from standard input")


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code. Raises TicError."""
    if args.max_rows < 0 or not 0 < args.timeout < math.inf:
        raise ConfigError("--max-rows must not be negative, and --timeout must be positive")
    args.max_rows = min(args.max_rows, MOST_ROWS)
    sql = sys.stdin.read() if args.query == "-" else args.query
    reader = open_reader(args.path)
    try:
        result = reader.query(sql, as_of=parse_time(args.as_of), max_rows=args.max_rows, timeout_s=args.timeout)
        connection = reader.connection()
    finally:
        reader.close()
    emit(text_of(result, args.form or "table", tty=sys.stdout.isatty()))
    if result.truncated:
        print(f"{len(result.rows)} of more rows; {_how_to_see_more(len(result.rows), args.max_rows)}", file=sys.stderr)
    return _said(result, connection)


def _said(result: Result, connection: Connection) -> int:
    """Says on standard error what the rows do not hold; returns the exit code."""
    now = datetime.now(UTC)
    code = 0
    for text in result.missing:
        print(f"missing: {safe(text)}", file=sys.stderr)
        code = int(ExitCode.NO_EVIDENCE)
    for store in connection.stores or (connection,):
        if store.kind == "snapshot" and store.detail:
            print(f"as of {store.data_at} UTC: {safe(store.detail)}", file=sys.stderr)
            code = int(ExitCode.NO_EVIDENCE) if stale(store, now) else code
    return code


def _how_to_see_more(shown: int, asked: int) -> str:
    if shown < asked:  # not our bound but the daemon's
        return "a running daemon gives at most 100000 rows and 64 MB at once: LIMIT and OFFSET, or a narrower query"
    return "--max-rows or a narrower query shows others"


def parse_time(text: str | None) -> datetime | None:
    """An ISO time as naive UTC; without a zone it is UTC. Raises ConfigError."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"not a time: {text}", "write it as 2026-01-02T03:04:05Z") from None
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError:
        raise ConfigError(f"outside the calendar: {text}", "write it as 2026-01-02T03:04:05Z") from None


def emit(pieces: Iterable[str]) -> None:
    """Writes UTF-8 whatever the locale says. A reader that leaves early (`| head`) is no error."""
    out = sys.stdout.buffer
    try:
        for piece in pieces:
            out.write(piece.encode("utf-8", "backslashreplace"))
        out.flush()
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def text_of(result: Result, form: str, *, tty: bool) -> Iterator[str]:
    """The result in one of the four forms, in pieces that end with a newline."""
    if form == "json":
        return _json(result)
    if form == "csv":
        return _csv(result, tty=tty)
    if form == "markdown":
        return _markdown(result)
    return _table(result, CELL_ON_TTY if tty else None)


def _json(result: Result) -> Iterator[str]:
    """A list of objects, one a line. Columns of the same name get a number: an object has each name once."""
    names: list[str] = []
    for name in result.columns:
        names.append(next(n for n in _numbered(name) if n not in names))
    for i, row in enumerate(result.rows):
        yield ("[" if i == 0 else ",\n ") + plain.to_json(dict(zip(names, row, strict=True)))
    yield "]\n" if result.rows else "[]\n"


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _csv(result: Result, *, tty: bool) -> Iterator[str]:
    """RFC 4180 with newlines as line ends: NULL is an empty field, the empty string is two quotes."""
    clean = (lambda text: str(safe(text))) if tty else str
    yield ",".join(_quote(clean(name)) for name in result.columns) + "\n"
    for row in result.rows:
        yield ",".join("" if value is None else _quote(clean(plain.cell(value))) for value in row) + "\n"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def _markdown(result: Result) -> Iterator[str]:
    yield "| " + " | ".join(map(_markdown_cell, result.columns)) + " |\n"
    yield "|" + "|".join(" ---: " if _NUMBERS.fullmatch(kind) else " --- " for kind in result.types) + "|\n"
    for row in result.rows:
        yield "| " + " | ".join(_markdown_cell(plain.cell(value)) for value in row) + " |\n"


def _markdown_cell(text: str) -> str:
    lines = [str(safe(line)) for line in text.split("\n")]
    return "<br>".join(re.sub(r"([\\|`*_<>\[\]])", r"\\\1", line) for line in lines)


def _table(result: Result, widest: int | None) -> Iterator[str]:
    """Aligned columns, numbers to the right."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 -- widths of East Asian characters; not for CSV, JSON

    def shown(value: Any) -> str:
        text = str(safe(plain.cell(value)))
        if widest is not None and cell_len(text) > widest:
            return set_cell_size(text, widest - 1).rstrip() + "…"
        return text

    head = [str(safe(name)) for name in result.columns]
    body = [[shown(value) for value in row] for row in result.rows]
    widths = [max([cell_len(head[i]), *(cell_len(row[i]) for row in body)]) for i in range(len(head))]
    right = [bool(_NUMBERS.fullmatch(kind)) for kind in result.types]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for text, width, to_right in zip(cells, widths, right, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if to_right else text + space)
        return "  ".join(padded).rstrip() + "\n"

    yield line(head)
    yield line(["-" * width for width in widths])
    for row in body:
        yield line(row)
    yield f"{len(body)} row{'' if len(body) == 1 else 's'}{' of more' if result.truncated else ''}\n"
