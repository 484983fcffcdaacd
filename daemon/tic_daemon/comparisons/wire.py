"""What the daemon and its comparing process say to each other: one JSON object a line.

    to the worker     {"compare": {...Asked}} | {"alone": path} | {"standing": [standing, why, order, proved]}
    from the worker   {"at": [tokens done, tokens in all or null]} | {"where": {...Made, judging}} asks for a standing
                      {"row": [class, values]} parts of a comparison, then {"done": [class, values]}
                      {"held": reader or ""} answers `alone`
                      {"failed": why} | {"failed": why, "machine": true} no file is to blame | {"changed": why}

Floats that are no numbers go as Python's json has them; times as ISO texts.
"""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from datetime import datetime
from typing import Any, Final

from tic_daemon.store.comparison_rows import (
    ComparisonFileRow,
    ComparisonPart,
    ComparisonRow,
    ComparisonSequenceRow,
    ComparisonTokenRow,
    ComparisonVersionRow,
    TraceBoundaryRow,
)

Message = dict[str, Any]
_CLASSES: Final[dict[str, Any]] = {
    cls.__name__: cls
    for cls in (
        ComparisonRow,
        ComparisonFileRow,
        ComparisonVersionRow,
        ComparisonSequenceRow,
        ComparisonTokenRow,
        TraceBoundaryRow,
    )
}
_TIMES: Final = {
    name: [place for place, field in enumerate(fields(cls)) if "datetime" in str(field.type)]
    for name, cls in _CLASSES.items()
}


def line(message: Message) -> bytes:
    """A message as one line. Lone surrogates go as JSON escapes."""
    return json.dumps(message, default=_time).encode() + b"\n"


def read(text: bytes) -> Message:
    """The message of a line.

    Raises:
        ValueError: it is none.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def packed(row: ComparisonRow | ComparisonPart) -> list[Any]:
    """A row as [class, values]."""
    return [type(row).__name__, list(astuple(row))]


def unpacked(value: Any) -> Any:
    """The row.

    Raises:
        ValueError, TypeError, KeyError: it is none.
    """
    name, values = value
    found = [tuple(one) if isinstance(one, list) else one for one in values]
    for place in _TIMES[name]:
        found[place] = time_of(found[place])
    return _CLASSES[name](*found)


def time_of(value: Any) -> datetime | None:
    """A time as it went over the wire."""
    return None if value is None else datetime.fromisoformat(value)


def clean(value: Any) -> Any:
    """A text as the store has it: lone surrogates, which JSON can hold, as escapes. All else as it is."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form here")
