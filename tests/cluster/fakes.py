"""Stores in memory that answer as readers do, late or not at all if a test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from tic_daemon.errors import ConnectError, TicError
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Connection, Result, Tail
from tic_daemon.store.sqlguard import SqlError
from tic_daemon.store.union import UnionReader

SINCE = datetime(2026, 11, 29, 12, 0, 0)
TAIL_COLUMNS = ("observed_at", "store_id", "rec_id")


class FakeReader:
    """One store: tables are whatever a test makes."""

    def __init__(self, kind: str = "live") -> None:
        self.db = duckdb.connect(":memory:")
        self.kind = kind
        self.error: TicError | None = None
        self.delay_s = 0.0
        self.asked: list[str] = []
        self.interrupted = threading.Event()
        self.closed = False
        self._news = threading.Condition()
        self._rows: list[tuple[object, ...]] = []
        self.standing = "s0"

    def query(
        self, sql: str, params: Sequence[object] = (), *, as_of: datetime | None = None, max_rows: int = 100_000,
        timeout_s: float = 5.0, gather: str = "",
    ) -> Result:  # fmt: skip
        self.asked.append(sql)
        self.interrupted.clear()
        if self.closed:
            raise ConnectError("closed")
        if self.delay_s:
            self.interrupted.wait(self.delay_s)
            if self.interrupted.is_set():
                raise SqlError("the query was interrupted")
        if self.error is not None:
            raise self.error
        try:
            cursor = self.db.cursor().execute(sql, list(params) or None)
        except duckdb.Error as error:
            raise SqlError(str(error)) from error
        described = cursor.description or []
        rows = cursor.fetchmany(max_rows + 1)
        names = tuple(str(c[0]) for c in described)
        return Result(names, tuple(str(c[1]) for c in described), rows[:max_rows], len(rows) > max_rows, 0.0)

    def commit(self, *rows: tuple[object, ...], standing: str = "") -> None:
        with self._news:
            self._rows += rows
            self.standing = standing or self.standing
            self._news.notify_all()

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = 1000) -> Tail:
        deadline = time.monotonic() + wait_s
        with self._news:
            while True:
                if self.closed or self.error is not None:
                    raise self.error or ConnectError("closed")
                position = f"{len(self._rows)}/{self.standing}"
                left = deadline - time.monotonic()
                if position != after or left <= 0:
                    old = int(after.partition("/")[0]) if after else len(self._rows)
                    return Tail(position, self.standing, TAIL_COLUMNS, tuple(self._rows[old:]))
                self._news.wait(left)

    def connection(self) -> Connection:
        broken = self.error is not None
        words = self.error.what if self.error is not None else ""
        return Connection(self.kind, "disconnected" if broken else "connected", SINCE, words, "fake")  # type: ignore[arg-type]

    def interrupt(self) -> None:
        self.interrupted.set()
        with self._news:
            self._news.notify_all()

    def close(self) -> None:
        self.closed = True
        self.interrupt()


class Cluster:
    """A workspace whose stores are fakes, by name: a, b, ..."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root = root
        self.readers: dict[str, FakeReader] = {}
        self.names: dict[str, str] = {}
        for name in names:
            self.add(name)
        self.reader = UnionReader(root, self.open)

    def add(self, name: str) -> FakeReader:
        directory = self.root / ".tic" / f"{name}-{name.encode().hex():0>12}"
        directory.mkdir(parents=True)
        (directory / "daemon.json").write_text("{}")
        self.names[name] = directory.name
        self.readers[directory.name] = FakeReader()
        return self[name]

    def open(self, layout: StoreLayout) -> FakeReader:
        return self.readers[layout.directory.name]

    def __getitem__(self, name: str) -> FakeReader:
        return self.readers[self.names[name]]


def utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
