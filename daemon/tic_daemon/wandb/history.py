"""One row of a W&B history and its values, the same whether the local log or the API gave them.

    value_of(key, given)      a value as JSON gives it: None, bool, int, float, str, list, dict
    value_of_text(key, text)  the same from JSON text, where a number keeps all its digits
    flatten(row)              a row as the API gives it, nested, as values with full dotted keys
    HistoryRow.digest         128 bits of its content: the same from both sources

W&B spells what is no finite number in three ways: bare NaN and Infinity (uploads, the local log), the strings "NaN" and
"Infinity" (old rows), and null in what is exported as Parquet for a key that the row does not have. The first two are
one value here. A null is kept as such: whether it is an absent key is for whoever knows where it came from.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

STEP_KEY: Final = "_step"
TIME_KEY: Final = "_timestamp"
OWN_KEYS: Final = frozenset({"_runtime", "_timestamp", "_step", "_wandb"})
"""What W&B itself puts into a row. All but the step are kept as values, and are no metrics."""

EXACT_INT: Final = 1 << 53
"""A double holds every integer up to here; one that it does not hold keeps its digits as text."""
_INT64: Final = 1 << 63
_DIGITS: Final = 4000
_PRINTABLE: Final = 10**_DIGITS
"""Python refuses to turn longer numbers into text, or back."""
_DEEPEST: Final = 64
"""Levels of nesting that become dotted keys; what lies deeper stays JSON."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
FRACTION: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)", re.ASCII).fullmatch
"""JSON text of a number that is no integer."""
_SPELLED: Final = {
    "NaN": ("nan", math.nan),
    "Infinity": ("inf", math.inf),
    "-Infinity": ("-inf", -math.inf),
}


class Value(NamedTuple):
    """One value of a row.

    Attributes:
        key: full key, levels joined by dots. A key that holds a dot itself cannot be told from a nested one.
        number: as a double; None where it is no number. An integer that no double holds is rounded here.
        text: what the number does not say: digits of such an integer, a string as it is, else JSON; None if nothing.
        kind: number | int | nan | inf | -inf | null | bool | text | media | json (lists, and what nests too deeply).
    """

    key: str
    number: float | None
    text: str | None
    kind: str


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One row of a history: what one committed `run.log` gave.

    Attributes:
        wandb_step: its `_step`; None where there is none or it is no integer of 64 bits (then it is among the values).
        at: its `_timestamp`, naive UTC; None without one that a clock can show.
        row_no: position in its stream: the local log counts rows from 0, the API as they came.
        writer: which of several writers of one run it is from; "" where nothing tells.
        values: all keys but `_step`, each once, in the order given.
    """

    wandb_step: int | None
    at: datetime | None
    row_no: int
    writer: str
    values: tuple[Value, ...]

    def digest(self) -> str:
        """32 hex digits that name what the row says, whatever its source, step, order and spelling.

        1 and 1.0 are one number, all spellings of NaN are one, and a null says as little as an absent key.
        """
        parts = [part for value in self.values if (part := _canonical(value))]
        parts.sort()
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def history_row(values: Iterable[Value], row_no: int, writer: str = "") -> HistoryRow:
    """A row of its values, `_step` among them. Of a key that comes twice the last value counts."""
    held = {value.key: value for value in values}
    at = time_of(held.get(TIME_KEY))
    step = step_of(held.get(STEP_KEY))
    if step is not None:
        del held[STEP_KEY]
    return HistoryRow(step, at, row_no, writer, tuple(held.values()))


def step_of(value: Value | None) -> int | None:
    """The integer that a value is, if it has 64 bits."""
    if value is None or value.number is None or value.kind not in ("int", "number") or math.isinf(value.number):
        return None
    if value.kind == "int":
        number = int(value.text) if value.text else int(value.number)
    elif value.number == math.floor(value.number):
        number = int(value.number)
    else:
        return None
    return number if -_INT64 <= number < _INT64 else None


def time_of(value: Value | None) -> datetime | None:
    """Naive UTC of a value that is seconds since the epoch."""
    if value is None or value.number is None:
        return None
    try:
        return datetime.fromtimestamp(value.number, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


def flatten(row: Mapping[str, Any]) -> Iterator[Value]:
    """The values of a row that nests, with full keys."""
    for key, given in row.items():
        yield from _flattened(str(key), given, 1)


def _flattened(key: str, given: Any, depth: int) -> Iterator[Value]:
    if isinstance(given, Mapping) and given and "_type" not in given and depth < _DEEPEST:
        for name, below in given.items():
            yield from _flattened(f"{key}.{name}", below, depth + 1)
    else:
        yield value_of(key, given)


def value_of(key: str, given: Any) -> Value:
    """A value as a JSON reader gives it. What is none of JSON's becomes text."""
    if isinstance(given, float):
        return _float_value(key, given)
    if given is None or isinstance(given, bool):
        return Value(key, None, "null", "null") if given is None else Value(key, float(given), None, "bool")
    if isinstance(given, int):
        return _int_value(key, given)
    if isinstance(given, str):
        return _text_value(key, given)
    if isinstance(given, (Mapping, list, tuple)):
        return Value(key, None, canonical_json(given), _nested_kind(given))
    return Value(key, None, str(given), "text")


def value_of_text(key: str, text: str) -> Value:
    """The value that a piece of JSON text is. Text that is no JSON is kept as it is, with kind `text`."""
    if match := _NUMBER.fullmatch(text):
        return _number_value(key, text, whole=match[1] is None and match[2] is None)
    if text in _SPELLED:
        kind, number = _SPELLED[text]
        return Value(key, number, None, kind)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return Value(key, None, text, "text")
    return Value(key, None, text, _nested_kind(given)) if isinstance(given, (dict, list)) else value_of(key, given)


def _nested_kind(given: object) -> str:
    return "media" if isinstance(given, Mapping) and "_type" in given else "json"


def _number_value(key: str, text: str, *, whole: bool) -> Value:
    if whole:
        return _int_value(key, int(text)) if len(text) < _DIGITS else Value(key, _float(text), text, "int")
    number = float(text)
    if math.isinf(number):  # beyond what a double holds
        return Value(key, number, text, "inf" if number > 0 else "-inf")
    return Value(key, number, None, "number")


def canonical_json(given: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal content is equal text."""
    try:
        return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys of several types: no JSON reader gives them
        return repr(given)
    except RecursionError:
        return '"(nested too deeply to be kept)"'


def _int_value(key: str, given: int) -> Value:
    if -EXACT_INT <= given <= EXACT_INT:
        return Value(key, float(given), None, "int")
    number = _float(given)
    if math.isfinite(number) and int(number) == given:
        return Value(key, number, None, "int")
    return Value(key, number, str(given) if abs(given) < _PRINTABLE else hex(given), "int")


def _float(given: int | str) -> float:
    try:
        return float(given)
    except OverflowError:
        return math.inf if isinstance(given, str) or given > 0 else -math.inf


def _float_value(key: str, given: float) -> Value:
    if math.isfinite(given):
        return Value(key, given, None, "number")
    return Value(key, given, None, "nan" if math.isnan(given) else "inf" if given > 0 else "-inf")


def _text_value(key: str, given: str) -> Value:
    if spelled := _SPELLED.get(given):
        kind, number = spelled
        return Value(key, number, given, kind)
    return Value(key, None, given, "text")


def _canonical(value: Value) -> str:
    """What of a value counts for equality; "" if it counts as absent."""
    key, number, text, kind = value
    if kind in ("number", "int"):
        # Of integers and doubles alike; -0.0 is 0.0.
        said = f"={text}" if text is not None or number is None else f"={number + 0.0!r}"
    elif kind == "null":
        return ""
    elif kind in ("bool", "nan", "inf", "-inf"):
        said = f"={kind}{number if kind == 'bool' else ''}"
    elif kind == "text":
        said = f'="{text}'
    else:
        try:
            said = f":{canonical_json(json.loads(text or ''))}"
        except (ValueError, RecursionError):
            said = f":{text}"
    return key + said
