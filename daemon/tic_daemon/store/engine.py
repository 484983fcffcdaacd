"""The daemon's DuckDB instance: opened in one way, with everything a guest's SQL could misuse turned off.

It is the only thing in the process that touches the store and its WAL. Even a SELECT must not: DuckDB lets
`read_blob('<the store>')` through when external access is off, and closing that descriptor drops the lock (tried);
`sqlguard` refuses such texts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import threading
import time
import weakref
from collections.abc import Iterator

import duckdb

from tic_daemon.errors import StoreError, StoreOwnedError
from tic_daemon.store.layout import StoreLayout, make_private_dir

log = logging.getLogger(__name__)

STORAGE_VERSION = "v1.2.0"
READER_WAIT_S = 10.0

_MERGES = 100
"""Of one table, in one checkpoint: DuckDB's default."""

END_S = 10.0
"""How long the queries of a dead instance may take to end."""

_SHORT = re.compile(r"Out of Memory Error|failed to (allocate|pin)|could not allocate block", re.IGNORECASE)
_FULL = re.compile(r"no space left on device|quota exceeded|file too large|could not write all bytes", re.IGNORECASE)
_LOCKED = re.compile(r"could not set lock|different configuration", re.IGNORECASE)
# A lock that would let readers in is a reader's; another configuration is a reader's in this very process.
_READER = re.compile(r"in read-only mode|different configuration")
_HOLDER = re.compile(r"\(PID (\d+)\)")


def is_full(error: BaseException) -> bool:
    """Whether the disk, quota or file size limit is the reason of a DuckDB error."""
    return bool(_FULL.search(str(error)))


def is_short(error: BaseException) -> bool:
    """Whether DuckDB's memory limit is the reason of an error: queries of others hold what the writer needs."""
    return isinstance(error, duckdb.OutOfMemoryException) or bool(_SHORT.search(str(error)))


class Engine:
    """One open store. All but `cursor()` is for the writer's thread alone.

    Args:
        layout: settled; its directories exist.
        memory_limit: DuckDB's, for writing and for all queries of the live endpoint together.
    """

    def __init__(self, layout: StoreLayout, memory_limit: str) -> None:
        self._layout = layout
        self._memory_limit = memory_limit
        self._lock = threading.RLock()
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self.con = self._connect()
        # Cursors are made from a connection that runs nothing, so that a request never waits for a commit.
        self._idle = self.con.cursor()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        layout = self._layout
        temporary = layout.database.parent / "tmp"
        make_private_dir(temporary)
        make_private_dir(layout.staging_dir)
        config: dict[str, str | bool | int | float | list[str]] = {
            "storage_compatibility_version": STORAGE_VERSION,
            # A query runs in the thread that asks. More threads cost a seventh more CPU in small commits (measured on
            # 100 MB of log), and a guest's query could take a second core from the job.
            "threads": 1,
            "memory_limit": self._memory_limit,
            "temp_directory": str(temporary),
            "checkpoint_threshold": "1GB",  # checkpoints stall commits: they are made by hand, see Writer
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        deadline = time.monotonic() + READER_WAIT_S
        while True:
            try:
                con = duckdb.connect(str(layout.database), config=config)
                break
            except duckdb.Error as error:
                if not _LOCKED.search(str(error)):
                    raise StoreError(
                        f"cannot open {layout.database}: {_first_line(error)}", "move it away to start a new store"
                    ) from error
                # A reader of the closed file lets go of it when it sees our owner.json; a writer never does.
                if not _READER.search(str(error)) or time.monotonic() > deadline:
                    raise _owned(layout, error) from error
                time.sleep(0.1)
        with contextlib.suppress(OSError):
            layout.database.chmod(0o600)
        # Of a table that this very transaction has filled DuckDB does not know how many rows it holds; where it takes
        # them for few, an ASOF join looks at all pairs. A reader's question of a few records among many is quicker so.
        con.execute("SET SESSION asof_loop_join_threshold = 0")
        return con

    def lock_down(self) -> None:
        """After the schema is in place: no file but those of the staging directory, and settings are fixed."""
        con = self.con
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        con.execute("SET allowed_configs = ['max_vacuum_tasks']")  # see `checkpoint`; it changes nothing that is read
        con.execute("SET allowed_directories = [" + _quote(str(self._layout.staging_dir)) + "]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own for one reader; variables set on it are private to it. From any thread."""
        with self._lock:
            cursor = self._idle.cursor()
            self._cursors.add(cursor)
            return cursor

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Gives out no cursor meanwhile: what is opened again then is the writer's alone."""
        with self._lock:
            yield

    def rollback(self) -> bool:
        """Ends a failed transaction. False: the instance is dead, `reopen` is needed."""
        try:
            self.con.execute("ROLLBACK")
        except duckdb.TransactionException:
            return True  # none was active: a COMMIT that failed has rolled back already
        except duckdb.Error:
            return False
        return True

    def reopen(self) -> None:
        """Closes a dead instance and opens the file again; all that was committed is there.

        Cursors given out before are closed: their queries fail, the next ones ask for new cursors.

        Raises:
            StoreError: a query of the dead instance does not end.
        """
        log.warning("reopening %s after a fatal error of the database", self._layout.database)
        with self._lock:
            self.close()
            self._wait_until_closed()
            self.con = self._connect()
            self._idle = self.con.cursor()
        self.lock_down()

    def _wait_until_closed(self) -> None:
        """A query that was interrupted holds its instance until it notices. Whoever connects before that is given the
        dead instance again."""
        deadline = time.monotonic() + END_S
        while self._has_open(str(self._layout.database)):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"a query does not end, so that {self._layout.database} cannot be opened again",
                    "start the daemon again",
                )
            time.sleep(0.01)

    def checkpoint(self, *, merge: bool = True) -> None:
        """Moves the WAL into the file. Raises duckdb.Error; after a fatal one `reopen` is needed.

        Args:
            merge: rows are put together with those of earlier checkpoints, up to 122,880 in one group. Without, they
                are a group of their own, and nothing that was written before is written again: half of the work.
        """
        self.con.execute(f"SET GLOBAL max_vacuum_tasks = {_MERGES if merge else 0}")
        self.con.execute("CHECKPOINT")

    def close(self) -> None:
        """Closes every connection; the last one closes the file and drops its lock."""
        with self._lock:
            for con in [*self._cursors, self._idle, self.con]:
                with contextlib.suppress(duckdb.Error):
                    con.interrupt()
                with contextlib.suppress(duckdb.Error):
                    con.close()
            self._cursors = weakref.WeakSet()

    def wal_bytes(self) -> int:
        """Size of the WAL; 0 if there is none. A look at the directory entry: the file is not opened."""
        try:
            return self._layout.wal.stat().st_size
        except OSError:
            return 0

    def deleted(self) -> bool:
        """Whether the store was deleted under us: what is written then is gone with the process. A moved one is not.

        Looks at the names of our descriptors only: opening the file would endanger its lock.
        """
        if self._layout.database.exists():
            return False
        return self._has_open(f"/{self._layout.database.name} (deleted)")

    @staticmethod
    def _has_open(end: str) -> bool:
        """Whether a descriptor of ours is of a file whose name ends so."""
        with contextlib.suppress(OSError), os.scandir("/proc/self/fd") as descriptors:
            for entry in descriptors:
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path).endswith(end):  # noqa: PTH115 -- thousands of them: no Path for each
                        return True
        return False

    def free_bytes(self) -> int:
        """Free space where the store lies."""
        try:
            return shutil.disk_usage(self._layout.database.parent).free
        except OSError:
            return 0


def _owned(layout: StoreLayout, error: duckdb.Error) -> StoreOwnedError:
    holder = _HOLDER.search(str(error))
    who = f"pid {holder[1]} on {layout.host}" if holder else "another process"
    if _READER.search(str(error)):
        return StoreOwnedError(f"{layout.database} is held open for reading by {who}", "end that reader first")
    return StoreOwnedError(f"the store {layout.directory.name} is written by {who}", "look at it with tic-tui")


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
