"""What the reading child says, line by line; a spooled reading is the same lines in a file.

    Asked        what it is asked for; `asked.to_line()`
    Hello        which client reads from where
    RunTold      what the server says of the run
    Begun        a range is being read, with which page size
    RowTold      one row; keys are sent again only when they differ from the row before
    PageTold     all steps below `to` were asked for
    Ended        how it ended

    Encoder.line(message), Decoder.message(line)

Each line is a JSON object. The decoder takes nothing on trust: a line that is not what it should be is a `WireError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.wandb.history import TIME_KEY, HistoryRow, Value, time_of, value_of, value_of_text

LINE_BYTES: Final = 64 << 20
"""A row of W&B is 10 MB at most; encoded it is no more than a few times as long."""
OUTCOMES: Final = ("ok", "cut", "error", "no_account")
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_INT64: Final = 1 << 63
_KINDS: Final = ("text", "media", "json", "int", "nan", "inf", "-inf", "bool", "null", "number")
_TEXT: Final = 1 << 20


class WireError(ValueError):
    """A line that is none of the messages."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One reading to be made.

    Attributes:
        path: entity/project/id. first: the first step asked for.
        page_rows: about so many rows a page; the page size follows from how many steps the server counts.
        stretch: multiplies the page size, so that two readings have different borders.
        values: about so many values a page at most.
        budget_s: after so long the reading ends at the next border of a page, with outcome `cut`.
    """

    path: str
    first: int = 0
    page_rows: int = 1000
    stretch: float = 1.0
    values: int = 25_000
    budget_s: float = 60.0

    def to_line(self) -> bytes:
        """As the child reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Hello:
    """`base_url`: the server as the client itself names it."""

    client_version: str
    base_url: str


@dataclass(frozen=True, slots=True)
class RunTold:
    """A run as the server tells it; `last_step` -1 where it names none. `config`, `summary`: JSON without secrets.

    `heartbeat_at`: when the run's client was last heard, naive UTC by the server's clock; None: it does not say.
    """

    path: str
    name: str
    state: str
    created_at: datetime | None
    line_count: int | None
    last_step: int
    keys: int
    config: str
    summary: str
    writer_version: str
    git_commit: str
    heartbeat_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """Steps from `first` on are read, `page_size` at a time."""

    first: int
    page_size: int


@dataclass(frozen=True, slots=True)
class RowTold:
    """A row and its digest (`HistoryRow.digest`)."""

    row: HistoryRow
    digest: str


@dataclass(frozen=True, slots=True)
class PageTold:
    """Steps below `to` are through."""

    to: int


@dataclass(frozen=True, slots=True)
class Ended:
    """`outcome`: ok | cut (the time was up; go on at `next_step`) | error | no_account."""

    outcome: str
    detail: str
    next_step: int


Message = Hello | RunTold | Begun | RowTold | PageTold | Ended


class Encoder:
    """Messages as lines."""

    def __init__(self) -> None:
        self._keys: tuple[str, ...] = ()

    def line(self, message: Message) -> bytes:
        """One message with its newline."""
        if isinstance(message, RowTold):
            return self._row(message)
        fields: dict[str, Any] = {"m": type(message).__name__, **asdict(message)}
        if isinstance(message, RunTold):
            for name in ("created_at", "heartbeat_at"):
                fields[name] = fields[name].isoformat() if fields[name] else None
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def _row(self, told: RowTold) -> bytes:
        row = told.row
        keys = tuple(value.key for value in row.values)
        fields: dict[str, Any] = {"r": [row.wandb_step, row.row_no, row.writer, told.digest]}
        if keys != self._keys:
            fields["k"] = self._keys = keys
        fields["v"] = [_plain(value) for value in row.values]
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _plain(value: Value) -> object:
    number, text, kind = value.number, value.text, value.kind
    if text is None:
        if kind == "number":
            return number
        if kind == "int" and number is not None:
            return int(number)
        if kind == "bool":
            return bool(number)
    return None if kind == "null" else [kind, text]


class Decoder:
    """Lines as messages."""

    def __init__(self) -> None:
        self._keys: tuple[str, ...] = ()
        self._time = -1

    def message(self, line: bytes) -> Message:
        """Raises WireError."""
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise WireError("no object")
            return self._row(fields) if "r" in fields else _told(fields)
        except WireError:
            raise
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise WireError(f"no message: {str(error)[:100]}") from error

    def _row(self, fields: Mapping[str, Any]) -> RowTold:
        step, row_no, writer, digest = fields["r"]
        if "k" in fields:
            keys = fields["k"]
            if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
                raise WireError("keys are no texts")
            self._keys = tuple(keys)
            self._time = keys.index(TIME_KEY) if TIME_KEY in keys else -1
        given = fields["v"]
        if not isinstance(given, list) or len(given) != len(self._keys):
            raise WireError("a row has more or fewer values than keys")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise WireError("no digest")
        values = tuple(map(_value, self._keys, given))
        stamp = time_of(values[self._time]) if self._time >= 0 else None
        where = None if step is None else _int(step)
        return RowTold(HistoryRow(where, stamp, _int(row_no), _text(writer), values), digest)


def _value(key: str, given: object) -> Value:
    if type(given) is float and math.isfinite(given):  # most are
        return Value(key, given, None, "number")
    if not isinstance(given, list):
        return value_of(key, given)
    kind, text = given
    if kind not in _KINDS or not (text is None or isinstance(text, str)):
        raise WireError(f"no value: {str(given)[:50]}")
    if kind in ("nan", "inf", "-inf"):
        return Value(key, float(kind), text, kind)
    if text is None:
        raise WireError(f"a value of kind {kind} without its text")
    return value_of_text(key, text) if kind == "int" else Value(key, None, text, kind)


def _told(fields: Mapping[str, Any]) -> Message:
    what = fields["m"]
    if what == "PageTold":
        return PageTold(_int(fields["to"]))
    if what == "Hello":
        return Hello(_text(fields["client_version"]), _text(fields["base_url"]))
    if what == "Begun":
        return Begun(_int(fields["first"]), _int(fields["page_size"]))
    if what == "Ended":
        if fields["outcome"] not in OUTCOMES:
            raise WireError("no such outcome")
        return Ended(fields["outcome"], _text(fields["detail"]), _int(fields["next_step"]))
    if what != "RunTold":
        raise WireError("no such message")
    count = fields["line_count"]
    return RunTold(
        _text(fields["path"]), _text(fields["name"]), _text(fields["state"]),
        _moment(fields["created_at"]),
        None if count is None else _int(count), _int(fields["last_step"]), _int(fields["keys"]),
        _json_text(fields["config"]), _json_text(fields["summary"]),
        _text(fields["writer_version"]), _text(fields["git_commit"]), _moment(fields.get("heartbeat_at")),
    )  # fmt: skip


def _int(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not -_INT64 <= given < _INT64:
        raise WireError("no whole number")
    return given


def _text(given: object) -> str:
    if not isinstance(given, str) or len(given) > _TEXT:
        raise WireError("no text")
    return given


def _json_text(given: object) -> str:
    if not isinstance(given, str):
        raise WireError("no text")
    json.loads(given)
    return given


def _moment(given: str | None) -> datetime | None:
    if given is None:
        return None
    moment = datetime.fromisoformat(given)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
