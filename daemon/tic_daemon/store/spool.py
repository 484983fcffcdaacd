"""Marks, attempts and rows of the ledger that people make: one fsynced line each, in a file of the process that made
it.

    Spool         appends lines; works with a live daemon, without one, after the run, and from another host
    SpoolReader   the daemon's side: lines not yet taken in, by file and offset
    PatientSpool  the same, for a thread that must not wait for a file system
    overlay       a reader's side: all lines as the JSON text of the session variable `spool` (000_base.sql)

A line is a JSON object: {"id", "kind": "mark" | "attempt", ...columns of table mark or run_attempt}, an attempt's with
"cut": [[source_id, generation, byte_offset], ...]; or {"kind": "ledger", "entry": {...}} (ledger/entries.py), which
counts only once it is in a store's chain. Everything in it is data: validated, capped, never run.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from tic_daemon.errors import StoreError
from tic_daemon.ledger import entries
from tic_daemon.ledger.entries import Entry
from tic_daemon.store.layout import StoreLayout, local_host, make_private_dir, spool_dir_of
from tic_daemon.store.rows import AttemptRow, MarkRow

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")
Line = MarkRow | AttemptRow | Entry

SCOPES = ("run", "attempt", "record")
VERDICTS = ("inconclusive", "note", "retract")
FROM_KINDS = ("now", "time", "source", "scheduler", "manifest")

_NAMES = {"ledger": "row of the ledger"}
LINE_BYTES = 8 << 20
OVERLAY_BYTES = 32 << 20
SPOOL_BYTES = 256 << 20
_OF_LEDGER = b'{"kind":"ledger"'
CUT_ROWS = 200_000
_CAPS = {"reason": 4000, "run_id": 500, "target": 500, "who": 200, "host": 200, "id": 64}
_RECORD = re.compile(r"\d{1,19}:\d{1,10}:\d{1,19}|comparison:[0-9a-f]{16}")
_INT64, _INT32 = 1 << 63, 1 << 31


class SpoolError(StoreError):
    """A mark or an attempt cannot be accepted as it is, or cannot be written."""

    exit_code = 2


class Spool:
    """One process's own spool file; created by the first line. Thread-safe.

    Args:
        directory: `.tic/spool` of the workspace. `Spool.at` finds it from what the user named.
        host, who: names of this machine and of the person, for the lines.
    """

    def __init__(self, directory: Path, *, host: str | None = None, who: str | None = None) -> None:
        self._host = host or local_host()
        self._who = who or _user()
        self.path = directory / f"{self._host}-{os.getpid()}-{uuid.uuid4().hex}.jsonl"
        self._lock = threading.Lock()

    @classmethod
    def at(cls, target: str | Path, *, who: str | None = None) -> Spool:
        """The spool of a workspace, a state or store directory, or a store's file in one.

        Raises:
            SpoolError: `target` is a URL, or belongs to no state directory.
        """
        directory = None if "://" in str(target) else spool_dir_of(Path(target))
        if directory is None:
            raise SpoolError(
                f"marks cannot be written for {target}: it is in no workspace",
                "name the workspace directory, the one that holds .tic/",
            )
        return cls(directory, who=who)

    def mark(
        self,
        run_id: str,
        *,
        reason: str,
        verdict: str = "inconclusive",
        scope: str = "run",
        attempt: int | None = None,
        target: str = "",
    ) -> MarkRow:
        """Writes what a person says of a run, an attempt or a record; see `MarkRow` for the fields.

        Raises:
            SpoolError: a field is not acceptable (an empty reason, an unknown verdict, ...) or cannot be written.
        """
        row = MarkRow(
            uuid.uuid4().hex, run_id, attempt, scope, target, verdict, reason, self._who, _utcnow(), self._host
        )
        self._append("mark", _checked_mark(row), asdict(row))
        return row

    def attempt(
        self,
        run_id: str,
        *,
        reason: str,
        from_kind: str = "now",
        from_time: datetime | None = None,
        cut: Sequence[tuple[int, int, int]] = (),
        attempt_id: str = "",
        declared_at: datetime | None = None,
    ) -> AttemptRow:
        """Declares a new attempt of a run; see `AttemptRow` for the fields.

        Lines of one `attempt_id` are one declaration, whoever wrote them: their cuts are taken together. Default: an id
        of its own, now.

        Raises:
            SpoolError: a field is not acceptable or cannot be written.
        """
        row = AttemptRow(
            attempt_id or uuid.uuid4().hex, run_id, from_kind, _naive(from_time), reason, self._who,
            _naive(declared_at) or _utcnow(), self._host, tuple(cut),
        )  # fmt: skip
        self._append("attempt", _checked_attempt(row), asdict(row))
        return row

    def declare(self, kind: str, *, row_id: str = "", **said: Any) -> Entry:
        """Writes a row for the ledger; see `Entry` for what each kind says.

        Args:
            row_id: default: an id of its own. A row whose id the ledger has is no second one.

        Raises:
            SpoolError: a field is not acceptable or cannot be written.
        """
        entry = Entry(row_id or uuid.uuid4().hex, kind, _utcnow(), self._who, self._host, **said)
        wrong = entries.complaint(entry, entries.DECLARED)
        self._append("ledger", wrong, {} if wrong else {"entry": entries.as_json(entry)})
        return entry

    def _append(self, kind: str, complaint: str, fields: dict[str, object]) -> None:
        if complaint:
            raise SpoolError(f"the {_NAMES.get(kind, kind)} is not accepted: {complaint}")
        line = json.dumps({"kind": kind, **fields}, default=datetime.isoformat, separators=(",", ":")).encode() + b"\n"
        if len(line) > LINE_BYTES:
            raise SpoolError(f"the {_NAMES.get(kind, kind)} is not accepted: it is {len(line)} bytes long")
        try:
            make_private_dir(self.path.parent)
            with self._lock:
                fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    _write_all(fd, line)
                    os.fsync(fd)
                finally:
                    os.close(fd)
                directory = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)
        except OSError as error:
            raise SpoolError(
                f"cannot write the {_NAMES.get(kind, kind)} to {self.path}: {error.strerror or error}",
                "the workspace's .tic/spool must be writable for you",
            ) from error


@dataclass(frozen=True, slots=True)
class Pending:
    """Lines of the spool that were read and not yet taken in, oldest first; false if there are none."""

    marks: tuple[MarkRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    ledger: tuple[Entry, ...] = ()
    offsets: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offsets)


class SpoolReader:
    """The daemon's side. Offsets are kept in memory only: after a restart all lines come again, and the writer leaves
    out the ids that it has.

    `rejected` counts lines that were complete and not acceptable; each is logged once, when it is taken.
    """

    def __init__(self, layout: StoreLayout) -> None:
        self._directory = layout.spool_dir
        self._offsets: dict[str, int] = {}
        self.rejected = 0

    def pending(self) -> Pending:
        """What stands in the spool after the last `taken`. Reads nothing if no file has grown."""
        rows: list[Line] = []
        offsets: dict[str, int] = {}
        for path, data, end in self._new():
            offsets[path.name] = end
            for line in data:
                row = parse_line(line)
                if isinstance(row, str):
                    self.rejected += 1
                    log.warning("%s: a line is left out: %s", path, row)
                else:
                    rows.append(row)
        rows.sort(key=_when)
        return Pending(
            tuple(row for row in rows if isinstance(row, MarkRow)),
            tuple(row for row in rows if isinstance(row, AttemptRow)),
            tuple(row for row in rows if isinstance(row, Entry)),
            offsets,
        )

    def peek(self) -> list[Line]:
        """The acceptable lines after the last `taken`. From any thread."""
        rows = (parse_line(line) for _, data, _ in self._new() for line in data)
        return [row for row in rows if not isinstance(row, str)]

    def _new(self) -> Iterator[tuple[Path, list[bytes], int]]:
        for path, size in _files(self._directory):
            start = self._offsets.get(path.name, 0)
            if size > start:
                data, end = _whole_lines(path, start)
                if end > start:
                    yield path, data, end

    def taken(self, pending: Pending) -> None:
        """Says that the lines of `pending` are committed."""
        self._offsets.update(pending.offsets)


class PatientSpool:
    """A `SpoolReader` that delays nobody: the spool may lie on a network mount that hangs.

    Each look is made in a thread. One that takes longer than `patience_s` is not waited for; what it finds is given
    when it is there.
    """

    def __init__(self, reader: SpoolReader, patience_s: float = 1.0) -> None:
        self._reader, self._patience_s = reader, patience_s
        self._take = _Look(reader.pending)
        self._peek = _Look(lambda: _told(reader.peek()))
        self._late = False
        self._waiting: str | None = None

    def pending(self) -> Pending:
        """See `SpoolReader.pending`; nothing while a look does not come to its end."""
        look = self._take.ended(0.0 if self._late else self._patience_s)
        if look is None:
            if not self._late:
                log.warning("the spool does not answer; marks and attempts wait, logs are read on")
            self._late = True
            return Pending()
        self._late = False
        return look.result()

    def taken(self, pending: Pending) -> None:
        """See `SpoolReader.taken`."""
        if pending:
            self._reader.taken(pending)

    def waiting(self) -> str | None:
        """Lines that are not taken in yet, for readers of the live store to lay over it: who writes a mark and asks at
        once sees it. From any thread. What was known last, while the file system does not answer.
        """
        look = self._peek.ended(0.0 if self._late else self._patience_s)
        if look is not None:
            self._waiting = look.result()
        return self._waiting


class _Look(Generic[_Found]):
    """Work that may hang, done in threads of its own, one at a time. Thread-safe."""

    def __init__(self, work: Callable[[], _Found]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._running: Future[_Found] | None = None

    def ended(self, patience_s: float) -> Future[_Found] | None:
        """Begins, unless it runs already, and waits so long: what came of it, or None while it does not end."""
        with self._lock:
            running = self._running
            if running is None:
                running = self._running = Future()
                threading.Thread(target=self._run, args=(running,), name="tic-spool", daemon=True).start()
        wait([running], patience_s)
        if not running.done():
            return None
        with self._lock:
            if self._running is running:
                self._running = None
        return running

    def _run(self, running: Future[_Found]) -> None:
        try:
            running.set_result(self._work())
        except BaseException as error:  # noqa: BLE001  raised where it is asked for
            running.set_exception(error)


def overlay(directory: Path) -> str | None:
    """All acceptable lines of a spool as the JSON text of a list, ids once, oldest first; None if there are none.

    Lines that the daemon has taken in may be among them: the views drop those.
    """
    rows: dict[str, Line] = {}
    left, whole = OVERLAY_BYTES, SPOOL_BYTES
    for path, size in _files(directory):
        whole -= size
        if whole < 0:
            raise SpoolError(f"the spool {directory} holds over {SPOOL_BYTES >> 20} MB", "move old files away")
        for line in _whole_lines(path, 0)[0]:
            if line.startswith(_OF_LEDGER):
                continue  # they are in the ledger or they are not: nothing is laid over it
            left -= len(line)
            if left < 0:
                raise SpoolError(f"the spool {directory} holds over {OVERLAY_BYTES >> 20} MB", "move old files away")
            row = parse_line(line)
            if isinstance(row, str):
                continue
            before = rows.setdefault(row.id, row)
            if before is not row and isinstance(before, AttemptRow) and isinstance(row, AttemptRow):
                rows[row.id] = replace(before, cut=joined_cut(before.cut, row.cut))
    return _told(rows.values())


def _told(rows: Iterable[Line]) -> str | None:
    """Rows as the variable `spool` of a reader wants them. Not those of the ledger: they are in it or they are not."""
    ordered = sorted((row for row in rows if not isinstance(row, Entry)), key=_when)
    if not ordered:
        return None
    return json.dumps(
        [{"kind": "mark" if isinstance(row, MarkRow) else "attempt", **asdict(row)} for row in ordered],
        default=datetime.isoformat,
    )


def joined_cut(*cuts: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Several cuts as one: of a source that more than one names, the first counts."""
    joined: dict[int, tuple[int, int, int]] = {}
    for cut in cuts:
        for row in cut:
            joined.setdefault(row[0], row)
    return tuple(joined.values())


def parse_line(line: bytes) -> Line | str:  # noqa: PLR0911  one return a way to be wrong
    """One spool line as a row, or what is wrong with it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(value, dict):
        return "it is no JSON object"
    try:
        if value.get("kind") == "mark":
            mark = MarkRow(
                _text(value, "id"), _text(value, "run_id"), _int(value.get("attempt"), _INT32), _text(value, "scope"),
                _text(value, "target"), _text(value, "verdict"), _text(value, "reason"), _text(value, "who"),
                _time(value["marked_at"]), _text(value, "host"),
            )  # fmt: skip
            return _checked_mark(mark) or mark
        if value.get("kind") == "attempt":
            from_time = value.get("from_time")
            attempt = AttemptRow(
                _text(value, "id"), _text(value, "run_id"), _text(value, "from_kind"),
                None if from_time is None else _time(from_time), _text(value, "reason"), _text(value, "who"),
                _time(value["declared_at"]), _text(value, "host"), _cut(value.get("cut", [])),
            )  # fmt: skip
            return _checked_attempt(attempt) or attempt
        if value.get("kind") == "ledger":
            return entries.parse(value.get("entry"))
    except (KeyError, ValueError, OverflowError) as error:
        return f"a field is missing or not of its kind: {error}"
    return "its kind is neither mark, attempt nor ledger"


# --- checks: the same for what we write and what we read ------------------------------------------------------------


def _checked_mark(row: MarkRow) -> str:
    if row.verdict not in VERDICTS:
        return f"the verdict must be one of {', '.join(VERDICTS)}"
    if row.scope not in SCOPES:
        return f"the scope must be one of {', '.join(SCOPES)}"
    if row.scope == "record" and row.verdict != "retract" and not _RECORD.fullmatch(row.target):
        return "the target of a record is <source_id>:<generation>:<byte_offset>, or comparison:<comparison_id>"
    if row.scope == "attempt" and (row.attempt is None or row.attempt < 1):
        return "the scope attempt needs the attempt's number"
    return _checked_texts(row)


def _checked_attempt(row: AttemptRow) -> str:
    if row.from_kind not in FROM_KINDS:
        return f"from_kind must be one of {', '.join(FROM_KINDS)}"
    if (row.from_kind == "time") != (row.from_time is not None):
        return "from_time stands with from_kind time, and only there"
    if len(row.cut) > CUT_ROWS:
        return f"its cut names over {CUT_ROWS} sources"
    return _checked_texts(row)


def _checked_texts(row: MarkRow | AttemptRow) -> str:
    if not row.reason.strip():
        return "a reason is required"
    if not row.run_id.strip():
        return "the run is not named"
    if not row.id:
        return "it has no id"
    for name, cap in _CAPS.items():
        text = str(getattr(row, name, ""))
        if len(text) > cap:
            return f"{name} is longer than {cap} characters"
        if not _is_unicode(text):
            return f"{name} holds a lone surrogate"
    return ""


def _text(value: dict[str, object], name: str) -> str:
    text = value.get(name, "")
    if not isinstance(text, str):
        raise ValueError(f"{name} is no text")
    return text


def _int(value: object, limit: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise ValueError("not a whole number in range")
    return value


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not a time")
    moment = _naive(datetime.fromisoformat(value))
    if moment is None:
        raise ValueError("not a time")
    return moment


def _cut(value: object) -> tuple[tuple[int, int, int], ...]:
    if not isinstance(value, list) or len(value) > CUT_ROWS:
        raise ValueError("cut")
    rows = []
    for item in value:
        if not isinstance(item, list) or len(item) != 3:
            raise ValueError("cut")
        source, generation, offset = _int(item[0], _INT64), _int(item[1], _INT32), _int(item[2], _INT64)
        if source is None or generation is None or offset is None:
            raise ValueError("cut")
        rows.append((source, generation, offset))
    return tuple(rows)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _naive(moment: datetime | None) -> datetime | None:
    """A time as the store keeps it: naive UTC."""
    if moment is None or moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)


# --- files ----------------------------------------------------------------------------------------------------------


def _files(directory: Path) -> Iterator[tuple[Path, int]]:
    """Spool files and their sizes, by name. A missing directory is an empty spool."""
    try:
        with os.scandir(directory) as entries:
            found = [
                (Path(entry.path), entry.stat(follow_symlinks=False).st_size)
                for entry in entries
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return
    yield from sorted(found)


def _whole_lines(path: Path, start: int) -> tuple[list[bytes], int]:
    """Lines that end in a newline from `start` on, and the offset after them. A torn last line waits for its end."""
    lines: list[bytes] = []
    end = start
    try:
        with path.open("rb") as file:
            file.seek(start)
            while line := file.readline(LINE_BYTES + 1):
                if line.endswith(b"\n"):
                    lines.append(line)
                    end = file.tell()
                elif len(line) > LINE_BYTES:
                    lines.append(b"")  # too long: reported as unreadable once, and skipped to its end
                    while line and not line.endswith(b"\n"):
                        line = file.readline(LINE_BYTES)
                    end = file.tell()
    except OSError as error:
        log.warning("cannot read %s: %s", path, error)
    return lines, end


def _write_all(fd: int, data: bytes) -> None:
    """Writes all of `data`; a short write (a full disk) is an error, and its torn line is no line to any reader."""
    written = os.write(fd, data)
    if written != len(data):
        os.write(fd, b"\n")  # ends the torn line, so that the next one is not glued to it
        raise OSError(28, "no space left on device")


def _when(row: Line) -> tuple[datetime, str]:
    if isinstance(row, Entry):
        return row.said_at, row.id
    return (row.marked_at if isinstance(row, MarkRow) else row.declared_at, row.id)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
