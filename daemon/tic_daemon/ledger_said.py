"""What the commands of the ledger share: rows of its views, names that people give, answers as text or JSON."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tic_daemon.errors import TicError, UnknownRunError
from tic_daemon.output import one_line, printable, say
from tic_daemon.store.reader import Reader, open_reader

FILE_BYTES: Final = 1 << 18
TIMEOUT_S: Final = 60.0
Commands = argparse._SubParsersAction


def lister(verbs: Commands[argparse.ArgumentParser], run: Callable[[argparse.Namespace], int]) -> None:
    lister = verbs.add_parser("list", help="all of them")
    where(lister)
    lister.set_defaults(run=run)


def where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", default=".", metavar="PATH", help="workspace; default: the current directory")
    parser.add_argument("--json", action="store_true", help="as JSON")


def reasoned(parser: argparse.ArgumentParser) -> None:
    where(parser)
    parser.add_argument("--reason", required=True, help="why; kept with your name and the time")


def candidate_id(at: str, name: str) -> str:
    if not name:
        return ""
    reader = open_reader(at)
    try:
        return str(one(reader, "candidates", "candidate_id", "name", name)["candidate_id"])
    finally:
        reader.close()


def one(reader: Reader, view: str, key: str, also: str, name: str) -> dict[str, Any]:
    """The one row that a person means: by the beginning of its key, or by its whole name.

    Raises:
        UnknownRunError: there is none. TicError: there are several.
    """
    found = rows(reader, f"SELECT * FROM {view}")  # noqa: S608  a constant
    named_so = [row for row in found if row[also] == name or row[key] == name]
    begun = named_so or [row for row in found if re.fullmatch(r"[0-9a-f]{6,64}", name) and row[key].startswith(name)]
    if not begun:
        raise UnknownRunError(f"no {name!r} among the {view} of this ledger", "its list says what there is")
    if len(begun) > 1:
        raise TicError(f"{name!r} may be {len(begun)} of the {view}", "name more of its hash")
    return begun[0]


def rows(reader: Reader, sql: str, params: Sequence[object] = ()) -> list[dict[str, Any]]:
    """Rows of a query over all stores, as mappings.

    Raises:
        TicError: a store cannot be read: what it holds would be left out.
    """
    found = reader.query(sql, params, timeout_s=TIMEOUT_S)
    if found.missing:
        raise TicError(f"not all stores can be read: {'; '.join(found.missing)}", "what they hold would be left out")
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def rows_at(at: str, sql: str) -> list[dict[str, Any]]:
    """The same of what the user named."""
    reader = open_reader(at)
    try:
        return rows(reader, sql)
    finally:
        reader.close()


def read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise TicError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(raw) > FILE_BYTES:
        raise TicError(f"{path} is larger than {FILE_BYTES} bytes")
    return raw


def answer(args: argparse.Namespace, data: Mapping[str, Any], text: str) -> None:
    say(json.dumps(data, indent=1, default=str) if args.json else printable(text))


def listed(args: argparse.Namespace, found: Sequence[Mapping[str, Any]], lines: Sequence[str], none: str) -> int:
    say(json.dumps(list(found), indent=1, default=str) if args.json else "\n".join(map(one_line, lines or [none])))
    return 0
