"""Where things lie on disk. All that the daemon writes is under its state directory, and a node-local store if needed.

    <workspace>/.tic/                           state directory, 0700
        <host>-<store_id>/                      one store (StoreLayout.directory)
            tic.duckdb                          the store, where locks and fsync can be trusted; else its copy at exit
            store.json                          only if the live store lies elsewhere: {"database", "host", "why", ...}
            owner.json daemon.json daemon.log   who writes it; where its live endpoint is
            snapshot/                           the store in Parquet, at most some seconds old (snapshot.py)
            staging/                            the only directory that the daemon's DuckDB may write besides the store;
                                                it lies beside the live store, wherever that is
        spool/<host>-<pid>-<uuid>.jsonl         marks and attempts that people made

Nothing here opens the store: closing any descriptor of it in the daemon's process would drop DuckDB's lock.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import socket
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from tic_daemon import usercache
from tic_daemon.errors import StoreError
from tic_daemon.store import place

log = logging.getLogger(__name__)

STATE_DIR = ".tic"
DATABASE = "tic.duckdb"
CREATE_LOCK = "create.lock"


def local_host() -> str:
    """This machine's name as it stands in rows and directory names: letters, digits, dot, dash, underscore."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()) or "localhost"


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Paths of one store. `database` differs from `directory/tic.duckdb` when the live store is node-local."""

    state_dir: Path
    directory: Path
    host: str
    store_id: str
    database: Path

    @property
    def owner_file(self) -> Path:
        return self.directory / "owner.json"

    @property
    def daemon_file(self) -> Path:
        return self.directory / "daemon.json"

    @property
    def log_file(self) -> Path:
        return self.directory / "daemon.log"

    @property
    def pointer_file(self) -> Path:
        return self.directory / "store.json"

    @property
    def snapshot_dir(self) -> Path:
        return self.directory / "snapshot"

    @property
    def staging_dir(self) -> Path:
        return self.database.parent / "staging"

    @property
    def spool_dir(self) -> Path:
        return self.state_dir / "spool"

    @property
    def published(self) -> Path:
        """Where the whole file lies after the daemon's end, also when the live store was node-local."""
        return self.directory / DATABASE

    @property
    def wal(self) -> Path:
        return self.database.with_name(self.database.name + ".wal")

    @property
    def readable_database(self) -> Path:
        """The file to read when no daemon serves the store: the live one if it is here, else the published copy."""
        return self.database if self.database.exists() or not self.published.exists() else self.published

    @classmethod
    def of(cls, directory: Path) -> StoreLayout | None:
        """The layout of an existing store directory, or None if the name is not that of one."""
        host, dash, store_id = directory.name.rpartition("-")
        if not (dash and host and re.fullmatch(r"[0-9a-f]{12}", store_id)):
            return None
        database = directory / DATABASE
        pointer = read_json(directory / "store.json")
        if pointer.get("host") == local_host() and isinstance(pointer.get("database"), str):
            database = Path(str(pointer["database"]))
        return cls(directory.parent, directory, host, store_id, database)

    @classmethod
    def find(cls, workspace: Path, *, host: str | None = None, state_dir: Path | None = None) -> StoreLayout:
        """The store that a daemon on `host` writes for `workspace`: the newest there is, else a new one.

        Args:
            workspace: directory that is watched; its `.tic/` is the state directory unless `state_dir` says otherwise.
            host: name of this machine, for tests.

        Raises:
            StoreError: the state directory cannot be created or written.
        """
        host = host or local_host()
        state = (state_dir or workspace / STATE_DIR).absolute()
        try:
            make_private_dir(state)
            # Two daemons started at once must not create two stores: the second waits and finds the first one's.
            with (state / CREATE_LOCK).open("a") as lock:
                _lock_if_possible(lock.fileno())
                mine = [layout for layout in _stores_in(state) if layout.host == host]
                if mine:
                    return mine[0]
                directory = state / f"{host}-{uuid.uuid4().hex[:12]}"
                make_private_dir(directory)
        except OSError as error:
            raise StoreError(
                f"cannot write the state directory {state}: {error.strerror or error}",
                "name a writable one with --state",
            ) from error
        found = cls.of(directory)
        assert found is not None  # noqa: S101  the name was just made in that form
        return found

    def settle(self, *, local_dir: Path | None = None, network: bool | None = None) -> StoreLayout:
        """Decides where the live store lies, and moves a published copy there if it must lie elsewhere.

        In the state directory, unless that will not do (place.py): then on a disk of this node, and `store.json` points
        to it. Once there it stays, as long as its file does. If that is gone (a scratch directory that ended with its
        job, a node that was set up anew), the copy in the state directory stands in for it.

        Args:
            local_dir: where on this node; None: the first usable of several places.
            network: overrides what the mount says.

        Raises:
            StoreError: it can lie nowhere, or the copy cannot be moved.
        """
        make_private_dir(self.directory)
        make_private_dir(self.snapshot_dir)
        if self.database != self.published and self.database.exists():  # where store.json put it before
            self._require_ours()
            return self
        why = place.reason_to_leave(self.directory, network=network)
        if not why:
            self.pointer_file.unlink(missing_ok=True)
            return replace(self, database=self.published)
        chosen = place.choose(local_dir)
        local = chosen.directory / self.directory.name / DATABASE
        try:
            make_private_dir(local.parent)
            if not local.exists() and self.published.exists():
                copy_whole(self.published, local)
        except OSError as error:
            raise StoreError(f"cannot write {local}: {error.strerror or error}", "name another --local-dir") from error
        told: dict[str, object] = {"database": str(local), "host": self.host, "why": why, "place": chosen.reason}
        write_private_json(self.pointer_file, told)
        log.info("the live store lies in %s (%s), as %s", local.parent, chosen.reason, why)
        settled = replace(self, database=local)
        settled._require_ours()
        return settled

    def _require_ours(self) -> None:
        try:
            usercache.require_ours(self.database.parent)
        except OSError as error:
            raise StoreError(
                f"the directory of the live store, {self.database.parent}, is not yours alone: {error}",
                "remove it, or name another with --local-dir",
            ) from error

    def publish_whole(self, deadline: float = float("inf")) -> bool:
        """Copies a node-local store beside its pointer, atomically. Call only after DuckDB has closed it.

        Args:
            deadline: monotonic; a copy that is not done by then is given up.

        Returns:
            Whether the state directory now holds the whole store. If not, the log says so; the snapshot does.
        """
        if self.database == self.published:
            return True
        try:
            copy_whole(self.database, self.published, deadline)
        except OSError as error:
            log.warning(
                "left out: the copy of %s in the state directory (%s); the snapshot there stands for it",
                self.database,
                getattr(error, "strerror", None) or error,
            )
            return False
        return True


def copy_whole(source: Path, target: Path, deadline: float = float("inf")) -> None:
    """Copies a file that nobody writes, mode 0600; `target` is there whole or not at all.

    Raises:
        OSError: it cannot be done. TimeoutError (an OSError): the deadline (monotonic) came first.
    """
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with source.open("rb") as reading, os.fdopen(fd, "wb") as writing:
            while piece := reading.read(4 << 20):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"no time was left after {writing.tell() >> 20} MB")
                writing.write(piece)
            writing.flush()
            os.fsync(writing.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def stores_under(target: Path) -> list[StoreLayout]:
    """All stores of a workspace, a state directory or a store directory, the one written last first."""
    for state in (target / STATE_DIR, target):
        if found := _stores_in(state):
            return found
    single = StoreLayout.of(target) if target.is_dir() else None
    return [single] if single else []


def _stores_in(state: Path) -> list[StoreLayout]:
    """The stores that lie directly in a state directory, the one written last first."""
    try:
        children = sorted(state.iterdir())
    except OSError:
        return []
    found = [layout for child in children if (layout := StoreLayout.of(child)) and _may_be_dir(child)]
    return sorted(found, key=_last_written, reverse=True)


def _may_be_dir(path: Path) -> bool:
    """True for what cannot be looked at: a store that cannot be read is there all the same, and is said to be."""
    try:
        return path.is_dir()
    except OSError:
        return True


def spool_dir_of(target: Path) -> Path | None:
    """The spool of a workspace, a state directory, a store directory or a store's file; None if it is none of them.

    A directory becomes a workspace when a daemon watches it for the first time.
    """
    target = target.absolute()
    if target.is_file():
        target = target.parent
    if StoreLayout.of(target):
        return target.parent / "spool"
    if target.name == STATE_DIR or (target.is_dir() and not (target / STATE_DIR).is_dir() and stores_under(target)):
        return target / "spool"
    return target / STATE_DIR / "spool" if (target / STATE_DIR).is_dir() else None


def _last_written(layout: StoreLayout) -> float:
    newest = 0.0
    for path in (layout.wal, layout.database, layout.published, layout.owner_file, layout.directory):
        try:
            newest = max(newest, path.stat().st_mtime)
        except OSError:
            continue
    return newest


def make_private_dir(path: Path) -> None:
    """Creates a directory of mode 0700, with its parents; an existing one keeps its mode."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_private_json(path: Path, value: dict[str, object]) -> None:
    """Writes a small JSON file of mode 0600, atomically: readers see the old one or the new one."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(value, file)
    part.replace(path)


def read_json(path: Path) -> dict[str, object]:
    """The object in a small JSON file; empty if it is missing, torn, too large or not an object."""
    try:
        with open_file(path) as file:
            value = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def open_file(path: Path) -> BinaryIO:
    """Opens for reading what another user may have put there: a pipe without a writer is empty, and waits for none.

    Raises:
        OSError: it cannot be opened.
    """
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _lock_if_possible(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        return  # a file system without locks: the store itself then lies elsewhere (see `settle`)
