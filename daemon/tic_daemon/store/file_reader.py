"""Reads a store's file that no daemon writes: after the run, or after its daemon died (its WAL is replayed in memory).

Whoever holds the file open for reading keeps a daemon from writing it. So the file is let go of after a second without
a query, and as soon as `owner.json` says that a daemon wants it.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.errors import ConnectError, StoreError, TicError
from tic_daemon.store import migrate
from tic_daemon.store.duck_reader import DuckReader, base_config, without_locks
from tic_daemon.store.fingerprint import fingerprint
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.owner import live_owner
from tic_daemon.store.reader import Connection

if TYPE_CHECKING:
    import duckdb

IDLE_S = 1.0

# Two readers of one file in one process share an instance, whose settings can be made only once.
_opening = threading.Lock()


class FileReader(DuckReader):
    """A `Reader` on a file.

    Args:
        path: the DuckDB file; opened read-only, never changed.
        layout: of the store it belongs to, whose spool is laid over it; None for a file that was copied away.

    Raises:
        StoreError, ConnectError, StoreVersionError: it cannot be read.
    """

    def __init__(self, path: Path, layout: StoreLayout | None = None) -> None:
        super().__init__(path, layout)
        self._idle: threading.Timer | None = None
        with self._lock:
            self._open()
            self._let_go_later()

    def connection(self) -> Connection:
        """See `Reader.connection`."""
        return Connection("file", self._state, self._since, self._detail, str(self._path))

    # --- the file -------------------------------------------------------------------------------------------------

    def _open(self) -> duckdb.DuckDBPyConnection:
        owner = live_owner(self._layout.owner_file) if self._layout is not None else None
        if owner is not None:
            self._let_go()
            self._say("disconnected", f"pid {owner.pid} on {owner.host} writes it now")
            raise ConnectError(f"{self._path} is written by pid {owner.pid} on {owner.host} now", "open it again")
        if self._con is None:
            try:
                self._con = self._connect()
            except TicError as error:
                self._say("disconnected", error.what)
                raise
            self._say("connected", "")
        return self._con

    def _connect(self) -> duckdb.DuckDBPyConnection:
        import duckdb  # noqa: PLC0415  the screen paints before this

        try:
            with _opening:
                con = duckdb.connect(str(self._path), read_only=True, config=base_config())
                if not (con.execute("SELECT current_setting('lock_configuration')").fetchone() or (True,))[0]:
                    con.execute("SET GLOBAL TimeZone = 'UTC'")
                    con.execute("SET enable_external_access = false")
                    con.execute("SET lock_configuration = true")
            version = migrate.store_version(con)
            migrate.refuse_newer(version)
            if version == 0:
                raise StoreError(f"{self._path} is empty: no daemon has written it yet", "start `tic-daemon watch`")
            migrate.refuse_older(version)
        except StoreError:
            con.close()
            raise
        except duckdb.Error as error:
            text = str(error).splitlines()[0]
            if without_locks(error):
                raise StoreError(
                    f"cannot read {self._path}: its file system has no file locks", "copy it away"
                ) from error
            if "could not set lock" in text.lower():  # a corrupt "block" is another matter
                raise ConnectError(f"{self._path} is being written: {text}", "name its workspace instead") from error
            raise StoreError(f"cannot read {self._path}: {text}", "is it a store of tic?") from error
        return con

    def _state_now(self) -> str:
        """By the file's names, sizes and times: it stays closed."""
        return hashlib.sha256(repr(fingerprint(str(self._path))).encode()).hexdigest()[:16]

    def _after(self) -> None:
        self._let_go_later()

    def _unreadable(self, error: duckdb.Error) -> StoreError | None:
        import duckdb  # noqa: PLC0415

        if not isinstance(error, duckdb.FatalException | duckdb.IOException):
            return None
        self._let_go()
        return StoreError(f"cannot read {self._path}: {str(error).splitlines()[0]}")

    def _let_go_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = threading.Timer(IDLE_S, self._if_idle)
        self._idle.daemon = True
        self._idle.start()

    def _if_idle(self) -> None:
        # A query that runs now will set a new timer when it ends; waiting for it would close the file behind it.
        if self._lock.acquire(blocking=False):
            try:
                if self._running is None:
                    self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        super()._let_go()
