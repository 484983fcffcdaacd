"""DuckDB values as text that can be read back: JSON and single cells.

What JSON has no form for, exactly: NULL is null; NaN and the infinities are the strings "NaN", "Infinity" and
"-Infinity"; decimals and integers of any size are JSON numbers with all their digits; dates, times and UUIDs are
strings as DuckDB prints them, with microseconds only where there are any; bytes are a string with \\xNN escapes as in
DuckDB; lists, structs and maps nest (keys of maps become strings).
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from decimal import Decimal


def to_json(value: object) -> str:  # noqa: PLR0911 -- one return a kind of value
    """One value as JSON text, without spaces after separators that a diff would notice."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'"{float_text(value)}"'
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(k)}: {to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_json(item) for item in value) + "]"
    return _string(value)


# JSON may hold these raw, a terminal may not: escaped they are the same string, and harmless wherever they are printed.
_ESCAPED = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def _string(value: object) -> str:
    text = json.dumps(cell(value), ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def float_text(value: float) -> str:
    """The shortest text that reads back as the same double; NaN, Infinity and -Infinity by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def cell(value: object, null: str = "NULL") -> str:  # noqa: PLR0911 -- one return a kind of value
    """One value as the text of one table or CSV cell. Strings are themselves, not quoted, not sanitised."""
    if value is None:
        return null
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return "".join(chr(b) if 32 <= b < 127 and b != 0x5C else f"\\x{b:02X}" for b in value)
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, dict | list | tuple):
        return to_json(value)
    return str(value)
