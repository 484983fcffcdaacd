"""This program's public views in a file of the user's cache: bound once, then copied into every store.

DuckDB binds each view that is made, with all the views that it reads: of 160 views that takes two thirds of a second of
a core, at every start of a daemon. `COPY FROM DATABASE` takes a finished view as it is, all of them in a twentieth of a
second. Only a file in the newest storage format keeps all that was written: in ours DuckDB 1.5.6 leaves out
MATERIALIZED, so what the store's own file holds cannot be used (migrate.py).

The file's name says what it was made of: the text of the whole schema and DuckDB's version. It is never changed, and
nothing depends on it: where it cannot be made, lies in a directory that others may write, or on a network file system,
or fails in any way, the views are made one by one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.store import place, sqltext

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)

STALE_S = 30 * 86400.0
"""After so long without use by a start that made another one, a file of another program version is removed."""


def where(schema: Path) -> Path | None:
    """Where the views of this schema are kept or would be; None: nowhere."""
    import duckdb  # noqa: PLC0415  loaded by whoever asks

    print_ = hashlib.sha256(duckdb.__version__.encode())
    try:
        for path in sorted({*schema.rglob("*.sql"), *sqltext.SCHEMA.rglob("*.sql")}):
            print_.update(str(path).encode(errors="surrogateescape") + b"\0" + path.read_bytes() + b"\0")
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "tic-daemon"
        if not base.is_absolute() or "?" in str(base):
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.require_ours(folder)
        if place.on_network(folder):  # a lock there may be waited for, for ever
            return None
    except (OSError, RuntimeError, ValueError):
        return None
    return folder / f"views-{print_.hexdigest()[:24]}.duckdb"


def copy(con: duckdb.DuckDBPyConnection, path: Path, names: Collection[str]) -> bool:
    """Gives the open store the views of the file, in place of those of the same names.

    Args:
        names: of all views that the file must hold, and no other.

    Returns:
        False: the file is missing or cannot be used, and the store is as it was.
    """
    import duckdb  # noqa: PLC0415

    if not path.is_file():
        return False
    try:
        con.execute(f"ATTACH {_quoted(path)} AS tic_views (READ_ONLY)")
    except duckdb.Error as error:
        _unusable(path, error)
        return False
    try:
        if _views(con, "tic_views") != set(names):
            raise duckdb.CatalogException("it holds other views")
        con.execute("BEGIN")
        for name in _views(con, _here(con)) & set(names):
            con.execute(f'DROP VIEW "{name}"')
        con.execute(f'COPY FROM DATABASE tic_views TO "{_here(con)}" (SCHEMA)')
        con.execute("COMMIT")
    except duckdb.Error as error:
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")
        _unusable(path, error)
        return False
    finally:
        with contextlib.suppress(duckdb.Error):
            con.execute("DETACH tic_views")
    with contextlib.suppress(OSError):
        os.utime(path)  # it is in use
    return True


def keep(con: duckdb.DuckDBPyConnection, path: Path, names: Collection[str]) -> None:
    """Keeps the views of these names, which the open store has, for the next start. What fails is of no account."""
    import duckdb  # noqa: PLC0415

    part = path.with_name(f"{path.stem}.{os.getpid()}.{time.monotonic_ns()}.part")
    try:
        con.execute(f"ATTACH {_quoted(part)} AS tic_views (STORAGE_VERSION 'latest')")
        try:
            con.execute(f'COPY FROM DATABASE "{_here(con)}" TO tic_views (SCHEMA)')
            # Without the tables: a view is its text and its columns, and does not know whose they are.
            for name in _views(con, "tic_views") - set(names):
                con.execute(f'DROP VIEW tic_views."{name}"')
            for (name,) in con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'tic_views'"
            ).fetchall():
                con.execute(f'DROP TABLE tic_views."{name}"')
            con.execute("CHECKPOINT tic_views")
        finally:
            con.execute("DETACH tic_views")
        part.chmod(0o600)
        part.replace(path)
        for other in path.parent.glob("views-*"):
            if other != path and other.stat().st_mtime < time.time() - STALE_S:
                other.unlink()
    except (duckdb.Error, OSError) as error:
        log.debug("the views are not kept in %s: %s", path, error)
    finally:
        for left in (part, part.with_name(part.name + ".wal")):
            with contextlib.suppress(OSError):
                left.unlink()


def _unusable(path: Path, error: duckdb.Error) -> None:
    log.debug("%s is of no use and is made anew: %s", path, error)
    with contextlib.suppress(OSError):
        path.unlink()


def _views(con: duckdb.DuckDBPyConnection, database: str) -> set[str]:
    rows = con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal AND database_name = ?", [database])
    return {str(row[0]) for row in rows.fetchall()}


def _here(con: duckdb.DuckDBPyConnection) -> str:
    row = con.execute("SELECT current_database()").fetchone()
    assert row is not None  # noqa: S101  it always has one
    return str(row[0])


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
