"""A reader of a store that this process has open for writing: tests that ask after each commit share one store so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tic_daemon.errors import StoreError
from tic_daemon.store.duck_reader import DuckReader
from tic_daemon.store.reader import Connection
from tic_daemon.store.writer import Writer

if TYPE_CHECKING:
    import duckdb


class OpenedReader(DuckReader):
    """Asks as every reader does, and says of itself what the reader of the file would after the writer's end."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer.layout.database, writer.layout)
        self._writer = writer
        self._con = writer.reader_cursor()
        self._say("connected", "")

    def connection(self) -> Connection:
        return Connection("file", self._state, self._since, self._detail, str(self._path))

    def _open(self) -> duckdb.DuckDBPyConnection:
        assert self._con is not None
        return self._con

    def _state_now(self) -> str:
        return str(self._writer.changes())

    def _unreadable(self, error: duckdb.Error) -> StoreError | None:
        return None
