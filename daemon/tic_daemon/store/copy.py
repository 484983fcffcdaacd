"""One file with all that a store holds, for a person to take away; during the run, too.

    somebody owns the store   from what its daemon published; a moment is waited for one that holds all that is
                              committed now. So a copy costs the daemon nothing, and never opens its file
    nobody does               from the file, or from what was published if that is newer or all there is

DuckDB's own COPY FROM DATABASE is refused in the daemon, whose settings are locked (1.5.6).
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from tic_daemon.errors import ConnectError, StoreError, TicError
from tic_daemon.placing import put, work_beside
from tic_daemon.store import migrate, reach, restore
from tic_daemon.store.duck_reader import without_locks
from tic_daemon.store.engine import STORAGE_VERSION
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.owner import live_owner
from tic_daemon.store.snapshot import Snapshot, quote, read_manifest

WAIT_S = 20.0
"""How long a snapshot is waited for that holds all that was committed when the copy was asked for."""
TRIES = 3


class CopyError(StoreError):
    """The copy cannot be written where it was asked for."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds. `at` is naive UTC; `behind` says in words what may be missing, "" if nothing."""

    at: datetime
    source: str
    behind: str = ""


def copy_store(layout: StoreLayout, target: Path, *, force: bool = False, wait_s: float = WAIT_S) -> Copied:
    """Writes the store as one DuckDB file, mode 0600, with its views; whole or not at all.

    Args:
        target: the file. It is not overwritten, unless `force`.
        wait_s: see `WAIT_S`.

    Raises:
        CopyError: the file exists, or cannot be written. StoreError, StoreVersionError: nothing can be copied.
    """
    target = target.absolute()
    if os.path.lexists(target) and not force:
        raise CopyError(f"{target} exists", "name another file, or overwrite it with --force")
    if "?" in str(target):
        raise CopyError(f"DuckDB cannot write {target}: there is a question mark in its name", "name another file")
    # A directory of our own: nobody else reads the file before it has its mode, which DuckDB does not set.
    work = None
    try:
        work = work_beside(target)
        copied = _write(layout, work / "copy.duckdb", wait_s)
        put(work / "copy.duckdb", target, force=force)
    except duckdb.Error as error:
        raise StoreError(f"the store cannot be copied to {target}: {str(error).splitlines()[0]}") from error
    except FileExistsError as error:
        raise CopyError(f"{target} exists", "name another file, or overwrite it with --force") from error
    except OSError as error:
        raise CopyError(f"cannot write {target}: {error.strerror or error}", "name another file") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
    return copied


def _write(layout: StoreLayout, part: Path, wait_s: float) -> Copied:
    if live_owner(layout.owner_file) is None and _file_is_newest(layout):
        try:
            return _from_file(layout.readable_database, part)
        except duckdb.Error as error:
            if not without_locks(error) or _published(layout) is None:
                raise
    return _from_snapshot(layout, part, wait_s)


def _file_is_newest(layout: StoreLayout) -> bool:
    database = layout.readable_database
    if database != layout.published or (layout.database == database and not layout.pointer_file.exists()):
        return database.exists()
    try:
        return database.stat().st_mtime >= reach.manifest_file(layout).stat().st_mtime
    except OSError:
        return database.exists()


def _from_file(database: Path, part: Path) -> Copied:
    con = duckdb.connect(":memory:", config={"threads": 2})
    try:
        con.execute(f"ATTACH {quote(str(database))} AS theirs (READ_ONLY)")
        con.execute("USE theirs")
        migrate.refuse_newer(migrate.store_version(con))
        con.execute(f"ATTACH {quote(str(part))} AS ours (STORAGE_VERSION '{STORAGE_VERSION}')")
        con.execute("COPY FROM DATABASE theirs TO ours")
        con.execute("USE memory")
        con.execute("DETACH ours")
    except duckdb.Error as error:
        if "could not set lock" in str(error).lower() and not without_locks(error):
            raise ConnectError(f"{database} is being written now", "try again: its daemon has just begun") from error
        raise
    finally:
        con.close()
    return Copied(_utcnow(), str(database))


def _from_snapshot(layout: StoreLayout, part: Path, wait_s: float) -> Copied:
    tick, behind = _committed(layout)
    deadline = time.monotonic() + wait_s
    while (snapshot := _published(layout)) is None or snapshot.tick < tick:
        if time.monotonic() >= deadline:
            if snapshot is None:
                read_manifest(layout.snapshot_dir)  # says why there is none
            behind = behind or "the daemon has not published what it committed last"
            break
        time.sleep(0.2)
    tries = 0
    while True:
        newest = read_manifest(layout.snapshot_dir)
        migrate.refuse_newer(newest.schema_version)
        try:
            restore.build(part, layout.snapshot_dir, newest, views=True)
        except (duckdb.Error, StoreError):  # its files were replaced meanwhile, perhaps
            part.unlink(missing_ok=True)
            tries += 1
            if tries == TRIES:
                raise
        else:
            return Copied(newest.at, str(layout.snapshot_dir), behind)


def _committed(layout: StoreLayout) -> tuple[int, str]:
    """The last tick that the daemon has committed, and "" or why it is not known."""
    if live_owner(layout.owner_file) is None:
        return 0, ""
    try:
        reader = reach.open_live(layout)
        try:
            return int(reader.query("SELECT coalesce(max(tick), 0) FROM b_ingest").rows[0][0]), ""
        finally:
            reader.close()
    except TicError as error:
        return 0, f"the daemon cannot be asked what it committed last: {error.what}"


def _published(layout: StoreLayout) -> Snapshot | None:
    try:
        return read_manifest(layout.snapshot_dir)
    except StoreError:
        return None


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
