"""Readings made elsewhere, e.g. on a login node: files in `.tic/spool/wandb` that the daemon takes in.

    with SpoolFile(directory, run_path) as file:   written beside, and there under its name only when it is whole
        file.begin(first); file.say(message)...; file.end(outcome, detail)
    waiting(directory)                             files to be taken in
    Spooled(path)                                  its head, and `readings()`: each with its messages

A file is gzip: a line with the head, then for each reading a line that begins it, the lines of wire.py, and a line that
ends it. Nothing in it is taken on trust: a file that is damaged or is none of these is left where it is, and said once.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from tic_daemon.config import is_run_path
from tic_daemon.store.layout import local_host, make_private_dir
from tic_daemon.wandb.wire import LINE_BYTES, Decoder, Encoder, Message, WireError

FOLDER: Final = "wandb"
SUFFIX: Final = ".readings.gz"
FORMAT: Final = 1
MAX_BYTES: Final = 8 << 30
"""Of what is in a file, unpacked: hundreds of times a large history."""
_NAME: Final = re.compile(r"[\w.-]{1,200}" + re.escape(SUFFIX))
_ID: Final = re.compile(r"[0-9a-f]{32}")
_OUTCOMES: Final = ("ok", "error", "timeout", "no_account")


class SpoolFile:
    """See the module. It is under its name when the block ends; after an error, or `drop`, nothing is left."""

    def __init__(self, directory: Path, run_path: str, who: str) -> None:
        make_private_dir(directory)
        folder = directory / FOLDER
        make_private_dir(folder)
        self.id = uuid.uuid4().hex
        self.path = folder / f"{local_host()}-{self.id}{SUFFIX}"
        self._part = self.path.with_suffix(".part")
        self._raw = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._gzip = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=3)
        self._encoder = Encoder()
        self._dropped = False
        self._write(
            {"format": FORMAT, "id": self.id, "run_path": run_path, "host": local_host(), "who": who, "at": _now()}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None or self._dropped:
            self._raw.close()
            self._part.unlink(missing_ok=True)
            return
        self._gzip.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        self._part.rename(self.path)

    def drop(self) -> None:
        """Nothing of it is to be left."""
        self._dropped = True

    def begin(self, first: int) -> None:
        """A reading of the steps from `first` on begins."""
        self._encoder = Encoder()
        self._write({"begin": first, "at": _now()})

    def say(self, message: Message) -> None:
        """One of its messages."""
        self._gzip.write(self._encoder.line(message))

    def end(self, outcome: str, detail: str, took_s: float) -> None:
        """It is over."""
        self._write({"end": outcome, "detail": detail, "took_s": took_s})

    def _write(self, fields: dict[str, object]) -> None:
        self._gzip.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")


def whole(path: Path) -> bool:
    """Whether a file is as it was written: its own checksum says so."""
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    return True


def waiting(directory: Path) -> list[Path]:
    """Files that wait there, oldest name first; none where there is no such directory."""
    with contextlib.suppress(OSError), os.scandir(directory / FOLDER) as entries:
        return sorted(
            Path(entry.path)
            for entry in entries
            if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        )
    return []


@dataclass(frozen=True, slots=True)
class Head:
    """`id` names the file's readings; `run_path` is a run as W&B names it."""

    id: str
    run_path: str
    host: str
    who: str


@dataclass(frozen=True, slots=True)
class Begin:
    """A reading begins. `at`: naive UTC."""

    first: int
    at: datetime


@dataclass(frozen=True, slots=True)
class End:
    """A reading is over."""

    outcome: str
    detail: str
    took_s: float


class Spooled:
    """One file. `parts()` may be gone through once.

    Raises:
        WireError: it is none of these files, or damaged. OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = gzip.GzipFile(filename=str(path), mode="rb")
        self._read = 0
        try:
            head = self._json(self._line())
            named, path_ = head.get("id"), head.get("run_path")
            if head.get("format") != FORMAT or not isinstance(named, str) or not _ID.fullmatch(named):
                raise WireError("its head is not that of a reading")
            if not isinstance(path_, str) or not is_run_path(path_):
                raise WireError("it names no run")
            self.head = Head(named, path_, str(head.get("host"))[:200], str(head.get("who"))[:200])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def parts(self) -> Iterator[Begin | Message | End]:
        """All that follows the head."""
        decoder, inside = Decoder(), False
        while line := self._line():
            if line.startswith(b'{"begin"'):
                fields = self._json(line)
                decoder, inside = Decoder(), True
                yield Begin(_whole(fields.get("begin")), _time(fields.get("at")))
            elif not inside:
                raise WireError("a line stands outside of its readings")
            elif line.startswith(b'{"end"'):
                fields = self._json(line)
                if fields.get("end") not in _OUTCOMES:
                    raise WireError("no such outcome")
                took = fields.get("took_s")
                inside = False
                yield End(fields["end"], str(fields.get("detail"))[:2000], took if isinstance(took, float) else 0.0)
            else:
                yield decoder.message(line)
        if inside:
            raise WireError("it ends within a reading")

    def _line(self) -> bytes:
        try:
            line = self._file.readline(LINE_BYTES + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise WireError(f"it is damaged: {error}") from error
        self._read += len(line)
        if len(line) > LINE_BYTES or self._read > MAX_BYTES:
            raise WireError("it is longer than a history can be")
        return line

    def _json(self, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise WireError("a line is no JSON") from error
        if not isinstance(fields, dict):
            raise WireError("a line is no object")
        return fields


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _time(given: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(given))
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise WireError("no time") from error


def _whole(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 1 << 62:
        raise WireError("no step")
    return given
