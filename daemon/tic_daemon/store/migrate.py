"""Schema version and forward migrations.

`schema/NNN_name.sql` takes a store from version NNN-1 to NNN, each in one transaction; NNN of the last file is the
version of this program. `schema/views/*.sql` are applied in name order at every start of a daemon: views hold no data,
so the newest definition always wins, and a file does not keep all that was written: in the storage format that we use,
DuckDB 1.5.6 leaves out MATERIALIZED. 000_base.sql comes first: what is derived from the events (derive.py) reads
through it, and the other views read what is derived.

What one start has made, the next ones copy (schemafile.py): the views, and the tables of a store that is new. What this
connection's store got so far is told by its variables.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon import __version__
from tic_daemon.errors import StoreError, StoreVersionError
from tic_daemon.store import sqltext

if TYPE_CHECKING:
    import duckdb

SCHEMA = Path(__file__).with_name("schema")
_VIEW = re.compile(r"^CREATE OR REPLACE VIEW (\w+)", re.MULTILINE)
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_NEW_STORE = "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?)"
_MADE, _VIEWED = "tic_made", "tic_viewed"  # its tables were made one by one; its views are those of the file


def migrations(schema: Path | None = None) -> list[tuple[int, Path]]:
    """The numbered migrations, lowest first."""
    return sorted((int(path.name[:3]), path) for path in (schema or SCHEMA).glob("[0-9][0-9][0-9]_*.sql"))


def program_version(schema: Path | None = None) -> int:
    """The schema version that this program writes and reads."""
    return migrations(schema)[-1][0]


def store_version(con: duckdb.DuckDBPyConnection) -> int:
    """The schema version of the open store; 0 for an empty file.

    Raises:
        StoreError: the file is a DuckDB database of something else.
    """
    tables = {str(row[0]) for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not tables:
        return 0
    if "store" not in tables:
        raise StoreError("this DuckDB file is not a store of tic: it has no table `store`", "name another file")
    row = con.execute("SELECT schema_version FROM store").fetchone()
    if row is None:
        raise StoreError("this store is damaged: its table `store` is empty", "start a new store beside it")
    return int(row[0])


def refuse_newer(version: int, schema: Path | None = None) -> None:
    """Raises StoreVersionError, naming both versions, if the store was written by a newer program."""
    known = program_version(schema)
    if version > known:
        raise StoreVersionError(
            f"the store has schema version {version}, this program (tic {__version__}) knows up to {known}",
            "upgrade with `pip install -U tic-tui`, or read the file with any DuckDB client",
        )


def refuse_older(version: int, schema: Path | None = None) -> None:
    """Raises StoreVersionError if the store lacks what this program reads: only a daemon brings it forward."""
    known = program_version(schema)
    if version < known:
        raise StoreVersionError(
            f"the store has schema version {version} of an older program; this one (tic {__version__}) reads {known}",
            "`tic-daemon watch --once` on its workspace brings it forward; any DuckDB client reads it as it is",
        )


def migrate(
    con: duckdb.DuckDBPyConnection, store_id: str, workspace: str, host: str, now: datetime, schema: Path | None = None
) -> int:
    """Brings the open store to this program's version, with its base views. Returns the version that it had.

    Raises:
        StoreVersionError: it was written by a newer program. StoreError: a migration or a view failed.
    """
    before = store_version(con)
    refuse_newer(before, schema)
    about = [store_id, program_version(schema), __version__, workspace, host, now]
    done = program_version(schema) if before == 0 and _new(con, schema, about) else before
    for number, path in migrations(schema):
        if number <= done:
            continue
        con.execute("BEGIN")
        _apply(con, path)
        if number == 1:
            con.execute(_NEW_STORE, [store_id, number, *about[2:]])
        else:
            con.execute("UPDATE store SET schema_version = ?, program_version = ?", [number, __version__])
        con.execute("COMMIT")
    if done == 0 and _without_rows(con):
        con.execute(f"SET VARIABLE {_MADE} = true")
    if _copied(con, schema):
        con.execute(f"SET VARIABLE {_VIEWED} = true")
    else:
        _views(con, "000_*.sql", schema)
    return before


def tables(con: duckdb.DuckDBPyConnection, *, upto: int) -> None:
    """Gives an empty database the tables of schema version `upto`, without rows and without views.

    Raises:
        StoreError: a migration failed.
    """
    for number, path in migrations():
        if number <= upto:
            con.execute("BEGIN")
            _apply(con, path)
            con.execute("COMMIT")


def public_views(con: duckdb.DuckDBPyConnection, schema: Path | None = None) -> None:
    """Gives the store that was migrated, and of which all is derived, the views above the base layer.

    Raises:
        StoreError: one failed.
    """
    from tic_daemon.store import schemafile  # noqa: PLC0415  only a start needs it

    if not _is_set(con, _VIEWED):
        _views(con, "[1-9]*.sql", schema)
        if names := view_names(schema):
            schemafile.keep_views(con, schema or SCHEMA, names)
    if _is_set(con, _MADE):
        schemafile.keep_tables(con, schema or SCHEMA)


def view_names(schema: Path | None = None) -> list[str]:
    """Names of this program's views in the order in which they are made: each after those that it reads.

    DuckDB does not keep that order: it numbers the views of a file that it opens by their names (1.5.6).
    """
    return [name for path in _view_files(schema) for name in _names(path)]


def stored_views(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """(name, SQL) of all views that the open store has."""
    return con.execute(
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal AND NOT temporary "
        "AND database_name = current_database() ORDER BY view_name"
    ).fetchall()


def _new(con: duckdb.DuckDBPyConnection, schema: Path | None, about: list[object]) -> bool:
    """Gives an empty store the tables that an earlier start has made. False: there are none."""
    from tic_daemon.store import schemafile  # noqa: PLC0415  as above

    names = [name for _, path in migrations(schema) for name in _TABLE.findall(path.read_text(encoding="utf-8"))]
    return schemafile.copy_tables(con, schema or SCHEMA, names, _NEW_STORE, about)


def _without_rows(con: duckdb.DuckDBPyConnection) -> bool:
    row = con.execute("SELECT sum(estimated_size) = 0 FROM duckdb_tables() WHERE table_name <> 'store'").fetchone()
    return bool(row and row[0])


def _copied(con: duckdb.DuckDBPyConnection, schema: Path | None) -> bool:
    from tic_daemon.store import schemafile  # noqa: PLC0415  as above

    names = view_names(schema)
    return bool(names) and schemafile.copy_views(con, schema or SCHEMA, names)


def _is_set(con: duckdb.DuckDBPyConnection, variable: str) -> bool:
    row = con.execute("SELECT getvariable(?)", [variable]).fetchone()
    return bool(row and row[0])


def _names(path: Path) -> list[str]:
    return _VIEW.findall(path.read_text(encoding="utf-8"))


def _view_files(schema: Path | None, names: str = "*.sql") -> list[Path]:
    return sorted(((schema or SCHEMA) / "views").glob(names))


def _views(con: duckdb.DuckDBPyConnection, names: str, schema: Path | None) -> None:
    con.execute("BEGIN")
    for path in _view_files(schema, names):
        _apply(con, path)
    con.execute("COMMIT")


def _apply(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    import duckdb  # noqa: PLC0415  loaded by whoever opened `con`

    try:
        con.execute(sqltext.read(path))
    except duckdb.Error as error:
        con.execute("ROLLBACK")
        raise StoreError(f"cannot apply {path.name} to the store: {error}") from error
