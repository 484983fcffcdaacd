"""Public views as Parquet, for any client that reads a URL: GET and HEAD /view/NAME.parquet, ranges included.

The rows are written to a nameless file beside the store as they come out of DuckDB, so that neither memory nor a crash
keeps any of it. Clients read a Parquet file in pieces (its length, its end, then columns), and the view goes on
growing: so one client's requests for one question are answered from the same file, until it has been quiet for some
seconds.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tic_daemon.live_ask import Fields
from tic_daemon.live_run import Limits, Refusal, Runner
from tic_daemon.store.bounded import Ask, Rows, taken

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("run_id", "as_of", "after", "limit", "columns", "token")
QUIET_S = 5.0
"""A client that asks again within this time is still reading the same file."""
MOST_S = 60.0
"""No beginning (HEAD, or without a range) is answered from a file older than this."""
KEPT_S = 60.0
"""A file that nobody has asked for so long is dropped."""
GROUP_BYTES = 8 << 20
MAX_ROWS = 1 << 62

_NAMES = (
    "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT regexp_matches(view_name, '^[a-z]_') ORDER BY 1"
)


_Key = tuple[tuple[str, ...], "Question"]
"""(client, what it asks)"""


@dataclass(frozen=True, slots=True)
class Question:
    """What of which view. `columns` () are all."""

    view: str
    run_id: str | None = None
    as_of: datetime | None = None
    after: int | None = None
    limit: int | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: str, fields: Fields) -> Question:
        """From a query string. Raises Refusal 400."""
        named = fields.text("columns")
        return cls(
            view,
            fields.text("run_id") or None,
            fields.moment("as_of"),
            fields.whole("after", -1, MAX_ROWS) if fields.text("after") else None,
            fields.whole("limit", 0, MAX_ROWS) if fields.text("limit") else None,
            tuple(dict.fromkeys(name.strip() for name in named.split(","))) if named else (),
        )

    def sql(self, known: tuple[str, ...]) -> tuple[str, tuple[object, ...]]:
        """The SELECT and its parameters; `known` are the view's columns. Raises Refusal 400: one is not there."""
        for name in self.columns:
            if name not in known:
                raise Refusal(400, f"the view {self.view} has no column {name[:60]!r}", f"it has {', '.join(known)}")
        where: list[str] = []
        params: list[object] = []
        for value, column, test in ((self.run_id, "run_id", "run_id = ?"), (self.after, "rec_id", "rec_id > ?")):
            if value is not None:
                self._require(column, known)
                where.append(test)
                params.append(value)
        # Names come from the catalog; quotes are doubled all the same.
        text = f"SELECT {', '.join(map(_quoted, self.columns)) or '*'} FROM {_quoted(self.view)}"  # noqa: S608
        if where:
            text += " WHERE " + " AND ".join(where)
        if self.limit is not None:
            self._require("rec_id", known)
            text += " ORDER BY rec_id LIMIT ?"
            params.append(self.limit)
        return text, tuple(params)

    def _require(self, column: str, known: tuple[str, ...]) -> None:
        if column not in known:
            used = "run_id" if column == "run_id" else "after and limit"
            raise Refusal(400, f"the view {self.view} has no column {column}", f"leave {used} out")


@dataclass(slots=True, weakref_slot=True, eq=False)
class File:
    """One answer: a file without a name, and the tag that is its own."""

    handle: BinaryIO
    size: int
    etag: str = field(default_factory=lambda: f'"{secrets.token_hex(12)}"')
    made: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    whole: bool = False  # it was last sent as a whole: nobody waits for the rest of it

    def read(self, at: int, size: int) -> bytes:
        """Some of its bytes."""
        return os.pread(self.handle.fileno(), size, at)


@dataclass(slots=True)
class _Making:
    """A file that is being written, and how many wait for it; `left` is done when nobody does any more."""

    future: asyncio.Future[File | None]
    left: asyncio.Future[None]
    waiting: int = 0


class Views:
    """Answers of one store. For the event loop alone.

    Args:
        folder: where the files lie; it must be writable.
    """

    def __init__(self, runner: Runner, limits: Limits, folder: Path) -> None:
        self._runner, self._limits, self._folder = runner, limits, folder
        self._columns: dict[str, tuple[str, ...] | None] = {}
        self._files: dict[_Key, File] = {}
        self._living: weakref.WeakSet[File] = weakref.WeakSet()  # also those that are dropped and still being sent
        self._making: dict[_Key, _Making] = {}
        self._places = asyncio.Semaphore(limits.view_queries)
        self._timer: asyncio.TimerHandle | None = None

    def clear(self) -> None:
        """Lets the files go; from any thread, when nothing more will be asked."""
        self._files.clear()

    async def file(
        self, who: tuple[str, ...], question: Question, gone: asyncio.Future[None], *, beginning: bool, whole: bool
    ) -> File | None:
        """The file that answers `question` for the client `who`; None if the client left.

        Args:
            beginning: a client may begin to read here: HEAD, or no range. whole: all of it will be sent.

        Raises:
            Refusal: there is no such view, it is too large, the daemon is busy or has no space.
        """
        key = (who, question)
        file = self._files.get(key)
        if file is not None and beginning:
            now = time.monotonic()
            old = now - file.used > QUIET_S or now - file.made > MOST_S
            if old or (whole and file.whole):
                file = None
        if file is None:
            file = await self._made(key, question, gone)
            if file is None:
                return None
        file.used, file.whole = time.monotonic(), whole
        return file

    async def _made(self, key: _Key, question: Question, gone: asyncio.Future[None]) -> File | None:
        """A new file; requests that come at once wait for the same one. None: the client left."""
        making = self._making.get(key)
        if making is None:
            left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            making = _Making(asyncio.ensure_future(self._make(question, left)), left)
            self._making[key] = making
            making.future.add_done_callback(partial(self._ended, key, making))
        making.waiting += 1
        try:
            await asyncio.wait(_both(making.future, gone), return_when="FIRST_COMPLETED")
        finally:
            making.waiting -= 1
            if not making.waiting and not making.future.done():
                self._making.pop(key, None)  # who comes now begins anew
                making.left.set_result(None)
        return making.future.result() if making.future.done() else None

    def _ended(self, key: _Key, making: _Making, done: asyncio.Future[File | None]) -> None:
        if self._making.get(key) is making:
            del self._making[key]
        if done.cancelled() or done.exception() is not None:
            return
        file = done.result()
        if file is not None:
            self._files[key] = file
            self._living.add(file)
            self._drop_later()

    async def _make(self, question: Question, left: asyncio.Future[None]) -> File | None:
        deadline = time.monotonic() + self._limits.view_s
        text, params = question.sql(await self._known(question.view))
        ask = Ask(text, params, question.as_of, MAX_ROWS, self._limits.view_s)
        async with self._places:
            return await self._runner.run(ask, _written(self._folder, self._room()), deadline, left)

    def _room(self) -> int:
        """How large a new file may be; those that nobody reads make room for it. Raises Refusal 503: there is none."""
        limits = self._limits
        idle = sorted((key for key, file in self._files.items() if _idle(file)), key=lambda key: self._files[key].used)
        while True:
            left = limits.view_disk - sum(file.size for file in self._living)
            if left >= limits.view_bytes and len(self._living) < limits.view_files:
                return limits.view_bytes
            if not idle:
                raise Refusal(503, "earlier answers are still being read", "try again", Retry_After="10")
            del self._files[idle.pop(0)]

    async def _known(self, view: str) -> tuple[str, ...]:
        """The columns of a public view. Views stay as they are while a daemon runs."""
        deadline = time.monotonic() + self._limits.timeout_s
        if not self._columns:
            names = await self._runner.run(Ask(_NAMES), _first_column, deadline)
            self._columns = dict.fromkeys(names or ())
        if view not in self._columns:
            raise Refusal(404, f"there is no view {view[:60]!r}", f"there are {', '.join(self._columns)}")
        columns = self._columns[view]
        if columns is None:
            ask = Ask(f"SELECT * FROM {_quoted(view)} LIMIT 0")  # noqa: S608  from the catalog
            columns = self._columns[view] = await self._runner.run(ask, lambda rows: tuple(rows.schema.names), deadline)
        assert columns is not None  # noqa: S101  only a client that left makes it None
        return columns

    def _drop_later(self) -> None:
        if self._timer is None and self._files:
            self._timer = asyncio.get_running_loop().call_later(KEPT_S, self._drop)

    def _drop(self) -> None:
        self._timer = None
        now = time.monotonic()
        for key, file in list(self._files.items()):
            if now - file.used >= KEPT_S:
                del self._files[key]
        self._drop_later()


def _both(*futures: asyncio.Future[Any]) -> set[asyncio.Future[Any]]:
    return set(futures)


def _idle(file: File) -> bool:
    return time.monotonic() - file.used > QUIET_S


def span(header: str, size: int) -> tuple[int, int] | None:
    """First byte and length that a Range header asks for; None: all of it, also for what need not be understood.

    Raises:
        Refusal: 416, it lies outside.
    """
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    if match[1]:
        begin, end = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
        if match[2] and int(match[2]) < int(match[1]):
            return None
    else:
        begin, end = max(0, size - int(match[2])), size
    if begin >= end:
        raise Refusal(416, f"the file has {size} bytes", Content_Range=f"bytes */{size}")
    return begin, end - begin


def _first_column(rows: Rows) -> list[str]:
    batches, _ = taken(rows, 10_000, 1 << 20)
    return [str(value) for batch in batches for value in batch.column(0).to_pylist()]


def _written(folder: Path, most: int) -> Callable[[Rows], File]:
    """A consumer that writes the rows into a new file of at most so many bytes."""

    def consume(rows: Rows) -> File:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            handle = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it is closed when nobody holds it any more
            with pq.ParquetWriter(handle, rows.schema, compression="zstd") as writer:
                group: list[pa.RecordBatch] = []
                waiting = 0
                for batch in rows.batches:
                    group.append(batch.replace_schema_metadata(rows.schema.metadata))
                    waiting += batch.nbytes
                    if waiting >= GROUP_BYTES:
                        writer.write_table(pa.Table.from_batches(group, rows.schema))
                        group, waiting = [], 0
                        _require_size(handle, most)
                if group:
                    writer.write_table(pa.Table.from_batches(group, rows.schema))
            size = _require_size(handle, most)
        except (OSError, pa.ArrowNotImplementedError) as error:
            raise Refusal(507, f"the answer cannot be kept: {error}", "is there space beside the store?") from error
        return File(handle, size)

    return consume


def _require_size(handle: BinaryIO, most: int) -> int:
    handle.flush()  # it is read by its descriptor
    size = handle.tell()
    if size > most:
        raise Refusal(
            413, f"the answer is larger than {most >> 20} MB", "narrow it: run_id, columns, or after and limit to page"
        )
    return size


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
