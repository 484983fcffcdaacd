"""Docker's json-file driver: `{"log":"text\\n","stream":"stderr","time":"2026-11-29T20:00:01.123456789Z"}` a line.

    cri_of(raw)   -> (stream, head, text): the same entry as a container runtime's text format says it

Entries of more than 16 KiB are cut: all but the last have no newline at their text's end.
"""

from __future__ import annotations

import re
from typing import Final

from tic_daemon.scan.values import json_object

DOCKER_JSON: Final = b'{"log":"'
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def cri_of(raw: bytes) -> tuple[str, bytes, bytes] | None:
    """Stream, CRI prefix and text (with its newline, if it ends a line) of an entry; None of any other line."""
    entry = json_object(raw)
    if entry is None:
        return None
    text, stream, time = entry.get("log"), entry.get("stream"), entry.get("time")
    if not isinstance(text, str) or stream not in {"stdout", "stderr"} or not isinstance(time, str):
        return None
    stamp = _TIME.fullmatch(time)
    if stamp is None:
        return None
    # Only a line's end is a newline: one within the text would be another entry.
    body = text.encode("utf-8", "replace")
    return stream, f"{stamp[1]}{stamp[2] or '.0'}{stamp[3]} {stream} F ".encode(), body
