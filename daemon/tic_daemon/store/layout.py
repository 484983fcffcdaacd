"""Where things lie on disk. All that the daemon writes is under its state directory, and a node-local store if needed.

    <workspace>/.tic/                           state directory, 0700
        <host>-<store_id>/                      one store (StoreLayout.directory)
            tic.duckdb                          the store, where locks and fsync can be trusted; else its copy at exit
            store.json                          only if the live store lies elsewhere: {"database", "host", "why"}
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
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from tic_daemon.errors import StoreError
from tic_daemon.sources.mounts import Mounts

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

    def settle(self, *, local_root: Path | None = None, network: bool | None = None) -> StoreLayout:
        """Decides where the live store lies, and moves a published copy there if it must lie elsewhere.

        In the state directory, unless that is on a network file system or a lock probe from a child process fails: then
        in `local_root` (default `$XDG_STATE_HOME/tic` or `~/.local/state/tic`), and `store.json` points to it.
        `network` overrides what the mount says.
        """
        make_private_dir(self.directory)
        make_private_dir(self.snapshot_dir)
        if self.pointer_file.exists():
            why = str(read_json(self.pointer_file).get("why", "store.json says so"))
        elif network if network is not None else on_network(self.directory):
            why = "the state directory is on a network file system"
        elif not locks_work(self.directory):
            why = "file locks do not hold in the state directory"
        else:
            return replace(self, database=self.published)
        root = local_root or Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "tic"
        local = root.absolute() / self.directory.name / DATABASE
        if self.database != self.published:
            local = self.database  # where store.json put it before
        make_private_dir(local.parent)
        if not local.exists() and self.published.exists():
            shutil.copyfile(self.published, local)
        write_private_json(self.pointer_file, {"database": str(local), "host": self.host, "why": why})
        return replace(self, database=local)

    def publish(self) -> None:
        """Copies a node-local store beside its pointer, atomically. Call only after DuckDB has closed it."""
        if self.database == self.published or not self.database.exists():
            return
        part = self.directory / (DATABASE + ".part")
        shutil.copyfile(self.database, part)
        part.chmod(0o600)
        part.replace(self.published)


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
    found = [layout for child in children if child.is_dir() and (layout := StoreLayout.of(child))]
    return sorted(found, key=_last_written, reverse=True)


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
    for path in (layout.wal, layout.readable_database, layout.owner_file, layout.directory):
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
        with path.open("rb") as file:
            value = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def on_network(path: Path) -> bool:
    """Whether `path` lies on a network file system, whose locks and fsync cannot be trusted between processes."""
    return Mounts.read().of(str(path.resolve())).network


_PROBE = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""


def locks_work(directory: Path) -> bool:
    """Whether a POSIX lock held here keeps another process out: tried with a child process on a file of its own."""
    probe = directory / f".lock-probe-{uuid.uuid4().hex[:8]}"
    try:
        with probe.open("w") as file:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            argv = [sys.executable, "-I", "-S", "-c", _PROBE, str(probe)]
            child = subprocess.run(argv, check=False, timeout=20, capture_output=True)
            return child.returncode == 7
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        probe.unlink(missing_ok=True)


def _lock_if_possible(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        return  # a file system without locks: the store itself then lies elsewhere (see `settle`)
