"""What a run's uploader says of itself in logs/debug-internal.log: JSON lines of the client's Go part.

    sending         a request with lines of the history goes out
    acknowledged    the server answered 200; that is no proof that it kept them
    retrying        the server or the network failed; the client tries again, for a long time
    dead            a fatal error, such as 403: nothing more is ever uploaded, while training goes on and `log` succeeds
    too_long        a line of the history is over the limit and left out
    dropped         a call of `log` named a step below the current one: neither uploaded nor in the transaction log
    no_log          the transaction log could not be opened: this process trains without one
    finished        the client came to its end

A heartbeat without lines is told only when it ends a trouble, or when nothing was told for five minutes.

    upload = Uploader(run_file, state)   state: of the cursor, "" at the beginning
    events = upload.take(offset, line_no, line)
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.credentials import without_credentials
from tic_daemon.scan.events import At
from tic_daemon.wandb.directories import RunFile
from tic_daemon.wandb.events import WandbUpload

HEARTBEAT_S: Final = 300.0
_DETAIL: Final = 500
_STATUS: Final = re.compile(r"(?<![\w./:-])([1-5]\d\d)(?![\w./-])")
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")
_FATAL: Final = "filestream: fatal error"
_INT64: Final = 1 << 63


class Uploader:
    """One debug-internal.log. For lines in order."""

    def __init__(self, file: RunFile, state: str = "") -> None:
        self._file = file
        self._sent: tuple[int | None, int | None] = (None, None)
        self._last = ""
        self._told: float | None = None
        try:
            offset, lines, last, told = json.loads(state) if state else (None, None, "", None)
            self._sent = (_number(offset), _number(lines))
            self._last, self._told = str(last), float(told) if isinstance(told, (int, float)) else None
        except (ValueError, TypeError):
            pass  # a state of another program's; at worst one heartbeat is told twice

    def state(self) -> str:
        """What the next `Uploader` goes on with."""
        return json.dumps([*self._sent, self._last, self._told])

    def take(self, offset: int, line_no: int, line: bytes) -> WandbUpload | None:
        """What a line tells; None: nothing of uploads. Lines that are no JSON tell nothing."""
        if not any(word in line for word in _WORDS):
            return None
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict) or not isinstance(message := said.get("msg"), str):
            return None
        at = _at(offset, len(line), line_no, said.get("time"))
        told = self._of(at, message, said)
        if told is not None:
            self._last = told.state
            self._told = _seconds(at.stamp) if at.stamp else None
        return told

    def _of(self, at: At, message: str, said: dict[str, Any]) -> WandbUpload | None:
        if message.startswith(("filestream: ", "api: retrying")):
            return self._of_upload(at, message, said)
        if message == "handler: ignoring partial history record":
            step, current = _number(said.get("step")), _number(said.get("current"))
            return self._upload(at, "dropped", dropped=step, current=current)
        if message.startswith("stream: error opening transaction log"):
            return self._upload(at, "no_log", detail=f"{message} {said.get('error', '')}".strip())
        if message == "stream: all finished" and not self._file.offline:
            return self._upload(at, "finished")
        return None

    def _of_upload(self, at: At, message: str, said: dict[str, Any]) -> WandbUpload | None:
        told = None
        if message == "filestream: sending request":
            self._sent = (_number(said.get("history_offset")), _number(said.get("history_lines")))
            told = self._upload(at, "sending", *self._sent) if self._sent[1] else None
        elif message == "filestream: request sent":
            news = self._sent[1] or self._last in ("retrying", "") or self._quiet(at)
            told = self._upload(at, "acknowledged", *self._sent, status=_status(said.get("status"))) if news else None
        elif message.startswith("api: retrying") and "/file_stream" in str(said.get("url", "/file_stream")):
            detail = f"{message.removeprefix('api: ')}: {said.get('error') or said.get('body') or ''}"
            told = self._upload(at, "retrying", *self._sent, status=_number(said.get("status")), detail=detail)
        elif message.startswith(_FATAL):
            told = self._upload(at, "dead", *self._sent, status=_status(message), detail=message)
        elif message.startswith("filestream: run history line too long"):
            told = self._upload(at, "too_long", detail=f"{said.get('len')} bytes, {said.get('max')} are allowed")
        return told

    def _quiet(self, at: At) -> bool:
        return at.stamp is not None and self._told is not None and _seconds(at.stamp) - self._told >= HEARTBEAT_S

    def _upload(
        self, at: At, state: str, offset: int | None = None, lines: int | None = None, *, status: int | None = None,
        dropped: int | None = None, current: int | None = None, detail: str = "",
    ) -> WandbUpload:  # fmt: skip
        text = without_credentials(detail)[:_DETAIL]
        file = self._file
        return WandbUpload(at, file.directory, file.wandb_id, state, offset, lines, status, dropped, current, text)


_WORDS: Final = (b"filestream:", b"api: retrying", b"ignoring partial", b"opening transaction log", b"all finished")


def _at(offset: int, length: int, line_no: int, time: object) -> At:
    stamp = None
    if isinstance(time, str):
        try:
            stamp = datetime.fromisoformat(_FRACTION.sub(r"\1", time))
            stamp = stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
        except (ValueError, OverflowError):
            stamp = None
    known = stamp is not None
    return At(offset, length, line_no, stamp=stamp, stamp_res_us=int(known), stamp_utc=known)


def _status(text: object) -> int | None:
    found = _STATUS.search(str(text))
    return int(found[1]) if found else None


def _seconds(stamp: datetime) -> float:
    return (stamp - datetime(1970, 1, 1)).total_seconds()


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64 else None
