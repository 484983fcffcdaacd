"""Tables of a TOML file, held against what is allowed in them; errors name the file and the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tic_daemon.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Kind:
    """Type and range of one key.

    Attributes:
        type: "text", "texts", "truth", "number", "whole number" or "table".
        low, high: bounds of a number.
        values: the texts that there are; empty: any.
        parse: raises ValueError or ConfigError for a text that is not of its form.
        form: what such a text is, for an error.
    """

    type: str
    low: float = 0.0
    high: float = float("inf")
    values: tuple[str, ...] = ()
    parse: Callable[[str], object] | None = None
    form: str = ""

    def __str__(self) -> str:
        if self.values:
            return "one of " + ", ".join(f'"{value}"' for value in self.values)
        if self.type in ("number", "whole number"):
            return f"a {self.type} from {self.low:g} to {self.high:g}"
        return self.form or {"text": "a text", "texts": "a list of texts", "truth": "true or false"}[self.type]

    def accepts(self, value: object) -> bool:
        """Whether `value`, as tomllib gives it, is of this kind. A table is looked at by `Reader.table`."""
        if self.type == "table":
            return True
        if self.type == "truth":
            return isinstance(value, bool)
        if self.type in ("number", "whole number"):
            fits = isinstance(value, int) or (self.type == "number" and isinstance(value, float))
            return fits and not isinstance(value, bool) and self.low <= value <= self.high  # type: ignore[operator]
        if self.type == "texts":
            return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        return isinstance(value, str) and "\0" not in value and self._says(value)

    def _says(self, text: str) -> bool:
        if self.parse is None:
            return text in self.values if self.values else text != ""
        try:
            self.parse(text)
        except (ValueError, ConfigError):
            return False
        return True


class Reader:
    """Checks tables against what is allowed; finds lines for its errors."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()

    def table(self, data: Mapping[str, Any], name: str, allowed: dict[str, Kind], nth: int = 0) -> dict[str, Any]:
        for key, value in data.items():
            kind = allowed.get(key)
            if kind is None:
                where = f"[{name}] " if name else ""
                raise self._error(name, key, nth, f"{where}unknown key `{key}`", f"Allowed here: {', '.join(allowed)}.")
            if not kind.accepts(value):
                raise self._error(name, key, nth, f"`{key}` is {value!r}", f"`{key}` must be {kind}.")
        return dict(data)

    def strings(self, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = data.get(key, [])
        return tuple(str(item) for item in value) if isinstance(value, list) else ()

    def section(self, data: Mapping[str, Any], name: str, allowed: dict[str, Kind]) -> dict[str, Any]:
        value = data.get(name, {})
        if not isinstance(value, dict):
            raise self._error("", name, 0, f"`{name}` is no table", f"Write [{name}] and its keys below it.")
        return self.table(value, name, allowed)

    def entries(self, data: Mapping[str, Any], name: str, allowed: dict[str, Kind]) -> list[dict[str, Any]]:
        value = data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._error("", name, 0, f"`{name}` is no list of tables", f"Write [[{name}]], with two brackets.")
        out = []
        for nth, item in enumerate(value):
            entry = self.table(item, name, allowed, nth)
            for needed in ("name", "path", "a"):
                if needed in allowed and needed not in entry:
                    raise self._error(name, "", nth, f"[[{name}]] without `{needed}`", f'Add {needed} = "...".')
            entry["line"] = self._line(name, "", nth)
            out.append(entry)
        return out

    def wrong(self, table: str, entry: Mapping[str, Any], what: str, hint: str) -> ConfigError:
        """An error of a whole entry, as `entries` gave it."""
        line = f":{entry['line']}" if entry.get("line") else ""
        return ConfigError(f"{self._file}{line}: [[{table}]] {what}", hint)

    def _error(self, table: str, key: str, nth: int, what: str, hint: str) -> ConfigError:
        line = self._line(table, key, nth)
        return ConfigError(f"{self._file}{f':{line}' if line else ''}: {what}", hint)

    def _line(self, table: str, key: str, nth: int) -> int:
        """1-based line of `key` (of the header if key is "") in the nth table of that name; 0: cannot be told."""
        current, seen = "", -1
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[\[?\s*([\w.\"'-]+)\s*\]?\]", line)
            if header:
                current = header[1].strip("\"'")
                seen += current == table
                if (current == table and seen == nth and not key) or (not table and current == key):
                    return number
                continue
            inside = bool(key) and current == table and (not table or seen == nth)
            if inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return number
        return 0
