"""Records of loggers that write JSON: `{"level":"error","ts":"2026-11-29T20:00:01Z","msg":"..."}` a line.

    plain_of(raw)   -> the same record as lines of text: level and message, and the exception if it holds a traceback

A record is known by a message and a level under their usual names; any other JSON (prompts, responses, results) is
data that is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tic_daemon.scan.stamps import CLOCK, DATE, ZONE
from tic_daemon.scan.values import json_object

_MESSAGE: Final = ("message", "msg", "event")
_LEVEL: Final = ("level", "levelname", "severity", "log_level", "lvl")
_TIME: Final = ("timestamp", "@timestamp", "time", "ts", "asctime")
_TRACE: Final = ("exc_info", "exception", "exc_text", "traceback", "stack_trace", "stacktrace")
_LEVELS: Final = {
    "debug": "DEBUG", "info": "INFO", "notice": "INFO", "warning": "WARNING", "warn": "WARNING", "error": "ERROR",
    "err": "ERROR", "critical": "CRITICAL", "fatal": "CRITICAL",
}  # fmt: skip
# Only with a zone: nobody says in which one such a program prints.
_STAMP: Final = re.compile(rf"{DATE}[T ]{CLOCK}(?:[.,](\d{{1,9}}))?{ZONE}")
_OPENER: Final = "Traceback (most recent call last):"
_EXCEPTION: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:\([\w.]+\))?: ")


def plain_of(raw: bytes) -> list[bytes] | None:
    """The record as text, one line or two; None of what is no record."""
    record = json_object(raw)
    if record is None:
        return None
    message, level = _text(record, _MESSAGE), _LEVELS.get((_text(record, _LEVEL) or "").lower())
    if message is None or level is None:
        return None
    stamp = _STAMP.fullmatch(_text(record, _TIME) or "")
    when = f"{stamp[1]}T{stamp[2]}.{(stamp[3] or '0').ljust(3, '0')}{stamp[4]} " if stamp else ""
    said = [message, _raised(_text(record, _TRACE) or "")]
    return [f"{when}{level}:json:{' '.join(text.splitlines())}".encode("utf-8", "replace") for text in said if text]


def _text(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((record[name] for name in names if isinstance(record.get(name), str)), None)


def _raised(trace: str) -> str:
    """The exception that a traceback ends with; its message's further lines are left out."""
    if _OPENER not in trace or '  File "' not in trace:
        return ""
    return next((line for line in reversed(trace.splitlines()) if _EXCEPTION.match(line)), "")
