"""What daemons tell each other of faults: the lines, and the names of the files that hold them.

    <state directory>/faults/<run>/<host>-<store_id>.jsonl      one writer a file: the daemon of that store

A line is a JSON object: {"v": 1, "kind": "fault" | "run" | "device" | "began", ...fields of RemoteFaultRow or
RemotePlaceRow}. Of lines with one key the one with the greatest revision counts; `gone` takes back what was said.
Everything in a line is data from another machine: it is checked and capped here, never run, and numbers that would
overflow the arithmetic of the lock are refused. What `to_line` writes, `parse_line` accepts.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import MISSING, asdict, fields, replace
from datetime import UTC, datetime
from typing import get_args, get_type_hints
from urllib.parse import quote

from tic_daemon.store.rows import RemoteFaultRow, RemotePlaceRow

Row = RemoteFaultRow | RemotePlaceRow

FAULTS_DIR = "faults"
VERSION = 1
LINE_BYTES = 128 << 10
_TEXT = 500
_CAPS = {"text": 4096, "raw": 2000, "path": 4096, "root": 4096, "run_id": 8192, "title": 1000}
_CUT = ("text", "raw", "title", "code", "actor", "proc", "bus", "node", "writer", "path", "kind")
"""Cut to size when written: cut short they still lock. A run, a host or a root would be another one: refused."""

_INT64, _INT32 = 1 << 63, 1 << 31
# Sums and products of these must stay within 63 bits: positions are generation * 2^44 + offset, times get a margin.
_LIMITS = {
    "generation": (0, 1 << 18), "byte_offset": (0, 1 << 44), "byte_length": (0, 1 << 44), "lo_attempt": (0, 1 << 31),
    "hi_attempt": (0, 1 << 31), "known_attempts": (0, 1 << 31), "proc_rank": (-_INT32, _INT32),
    **dict.fromkeys(("lo_us", "hi_us", "began_us"), (-(1 << 61), 1 << 61)),
    **dict.fromkeys(("slo", "shi", "line_slo", "line_shi"), (-(1 << 61) - 1, (1 << 61) + 2)),
    **dict.fromkeys(("origin_rec_id", "revision"), (0, 1 << 62)),
}  # fmt: skip
_FILE = re.compile(r"(.+)-([0-9a-f]{12})\.jsonl")
_KINDS = {"fault": RemoteFaultRow, "run": RemotePlaceRow, "device": RemotePlaceRow, "began": RemotePlaceRow}


def _told_fields(cls: type) -> dict[str, tuple[type, bool, object]]:
    """(type, may be null, default) of the fields that a line has."""
    hints = get_type_hints(cls)
    found: dict[str, tuple[type, bool, object]] = {}
    for field in fields(cls):
        options = get_args(hints[field.name])
        base = next((option for option in options if option is not type(None)), hints[field.name])
        found[field.name] = (base, type(None) in options, field.default)
    return found


_FIELDS: dict[type, dict[str, tuple[type, bool, object]]] = {
    cls: _told_fields(cls) for cls in (RemoteFaultRow, RemotePlaceRow)
}


def directory_name(run_id: str) -> str:
    """A run's name as the name of a directory: percent-encoded; the end of a long one is a hash."""
    name = quote(run_id, safe="", errors="backslashreplace") or "%"
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > 150:
        name = f"{name[:120]}%~{hashlib.sha256(run_id.encode('utf-8', 'backslashreplace')).hexdigest()[:24]}"
    return name


def store_of(file_name: str) -> str | None:
    """The store whose daemon writes a file of this name; None if it is none of ours."""
    match = _FILE.fullmatch(file_name)
    return match[2] if match else None


def fitted(row: Row) -> Row:
    """The row as it will be told: what only describes is cut to size."""
    cut = {
        name: text[: _CAPS.get(name, _TEXT)]
        for name in _CUT
        if isinstance(text := getattr(row, name, None), str) and len(text) > _CAPS.get(name, _TEXT)
    }
    return replace(row, **cut) if cut else row  # type: ignore[arg-type]


def to_line(row: Row) -> bytes:
    """The line that tells a fitted row."""
    told = asdict(row)
    # A RemotePlaceRow is what its `what` says; a fault's own kind is its rule's name.
    kind = row.what if isinstance(row, RemotePlaceRow) else "fault"
    if isinstance(row, RemoteFaultRow):
        told["rule"] = told.pop("kind")
    line = json.dumps(
        {"v": VERSION, "kind": kind, **told}, default=datetime.isoformat, separators=(",", ":"), ensure_ascii=False
    )
    return line.encode("utf-8", "backslashreplace") + b"\n"


def parse_line(line: bytes, store_id: str) -> Row | str:  # noqa: PLR0911  one return a reason
    """A line of the file of `store_id` as a row, or what is wrong with it."""
    if len(line) > LINE_BYTES:
        return f"it is longer than {LINE_BYTES} bytes"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(value, dict):
        return "it is no JSON object"
    kind = value.get("kind")
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        return "its kind is none that is known here"
    if value.get("origin_store_id") != store_id:
        return "it speaks for another store than its file's"
    told = {**value, "kind": value.get("rule")} if cls is RemoteFaultRow else {**value, "what": kind}
    try:
        row = cls(**{name: _checked(name, told, *how) for name, how in _FIELDS[cls].items()})
    except (ValueError, OverflowError) as error:
        return str(error)
    return _complaint(row) or row


def _checked(name: str, told: dict[str, object], base: type, nullable: bool, default: object) -> object:
    value = told.get(name, MISSING)
    if value is MISSING:
        if default is MISSING:
            raise ValueError(f"{name} is missing")
        return default
    if value is None and nullable:
        return None
    if base is str and isinstance(value, str):
        if len(value) > _CAPS.get(name, _TEXT):
            raise ValueError(f"{name} is longer than {_CAPS.get(name, _TEXT)} characters")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} holds a lone surrogate") from None
        return value
    if base is bool and isinstance(value, bool):
        return value
    if base is int and isinstance(value, int) and not isinstance(value, bool):
        lowest, end = _LIMITS.get(name, (-_INT64, _INT64))
        if not lowest <= value < end:
            raise ValueError(f"{name} is out of range")
        return value
    if base is datetime and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    raise ValueError(f"{name} is not of its kind")


def _complaint(row: Row) -> str:
    if not row.run_id:
        return "the run is not named"
    if isinstance(row, RemotePlaceRow):
        return ""
    if not row.kind:
        return "the rule is not named"
    if not 1 <= row.lo_attempt <= row.hi_attempt or row.known_attempts < 1:
        return "its attempts are none"
    # A bound that ends before it begins is no mistake: clocks jump. It acts as it does in its own store.
    return ""
