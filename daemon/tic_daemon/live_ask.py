"""What a request says, checked field by field: JSON bodies of /sql, query strings of the others.

Everything here is a stranger's text. What is wrong is a Refusal 400 that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from tic_daemon.live_run import Limits, Refusal
from tic_daemon.store import wire
from tic_daemon.store.bounded import Ask

MAX_NUMBER = 1e15
MAX_TEXT = 1000

T = TypeVar("T")


def parse_ask(body: bytes, limits: Limits, *, as_json: bool) -> Ask:
    """The request's JSON, checked field by field. Raises Refusal 400 with what is wrong."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise Refusal(400, f"the body is not JSON: {str(e)[:200]}", 'send {"sql": "SELECT ..."}') from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body is not a JSON object", 'send {"sql": "SELECT ..."}')
    unknown = sorted(set(value) - {"sql", "params", "as_of", "max_rows", "timeout_s"})
    if unknown:
        raise Refusal(400, f"unknown field {unknown[0][:40]!r}", "known are sql, params, as_of, max_rows, timeout_s")
    sql = value.get("sql")
    if not isinstance(sql, str):
        raise Refusal(400, "the field sql must be a string")
    try:
        given = value.get("params") or []
        if not isinstance(given, list):
            raise ValueError("params must be a list")
        params = tuple(wire.decode_parameter(item) for item in given)
        as_of = _as_of(value.get("as_of"))
        rows = _number(value.get("max_rows"), limits.rows, "max_rows")
        timeout = _number(value.get("timeout_s"), limits.timeout_s, "timeout_s")
    except ValueError as e:
        raise Refusal(400, str(e)[:300]) from None
    return Ask(sql, params, as_of, min(int(rows), limits.rows), min(timeout, limits.max_timeout_s), as_json)


def _as_of(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("as_of must be a string such as 2026-01-02T03:04:05Z")
    moment = datetime.fromisoformat(value)
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError("as_of is outside the calendar") from None


def _number(value: object, default: float, name: str) -> float:
    if value is None:
        return default
    # Bounded before it is looked at as a float: JSON has whole numbers that no float can hold.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{name} must be a number from 0 to {MAX_NUMBER:g}")
    return value


class Fields:
    """The fields of a query string: each known, at most once.

    Raises:
        Refusal: 400, an unknown or repeated field, or one that is too long.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], known: tuple[str, ...]) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                raise Refusal(400, f"unknown field {name[:40]!r}", f"known are {', '.join(known)}")
            if name in self._values:
                raise Refusal(400, f"the field {name} is there twice")
            if len(value) > MAX_TEXT:
                raise Refusal(400, f"the field {name} is longer than {MAX_TEXT} characters")
            self._values[name] = value

    def text(self, name: str) -> str:
        """The field, "" if it is not there."""
        return self._values.get(name, "")

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 0 on; what is beyond `most` is `most`."""
        return self._parsed(name, default, lambda text: min(_whole(text), most), "a whole number from 0 on")

    def seconds(self, name: str, default: float, most: float) -> float:
        """A number of seconds from 0 on; what is beyond `most` is `most`."""
        return self._parsed(name, default, lambda text: min(_seconds(text), most), "a number of seconds from 0 on")

    def moment(self, name: str) -> datetime | None:
        """A time as naive UTC; None if it is not there."""
        return self._parsed(name, None, _as_of, "a time such as 2026-01-02T03:04:05Z")

    def _parsed(self, name: str, default: T, parse: Callable[[str], T], wanted: str) -> T:
        if name not in self._values:
            return default
        try:
            return parse(self._values[name])
        except ValueError:
            raise Refusal(400, f"the field {name} must be {wanted}") from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= MAX_NUMBER:  # NaN compares false
        raise ValueError(text)
    return value
