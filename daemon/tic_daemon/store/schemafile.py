"""This program's finished schema in files of the user's cache: made once, then copied into every store.

    views-PRINT.duckdb    all views
    tables-PRINT.duckdb   all tables of the newest version, the derived ones too, without rows: for a store that is new
    shapes-PRINT.duckdb   columns of the temporary tables in which it is worked out what follows from the events

DuckDB binds each view that is made, with all the views that it reads: of 180 views that takes two thirds of a second of
a core, at every start of a daemon; the tables, and planning what finds nothing in them, take another 0.15 s. `COPY FROM
DATABASE` takes a finished schema as it is, in a twentieth of a second. Only a file in the newest storage format keeps
all that was written: in ours DuckDB 1.5.6 leaves out MATERIALIZED, so what the store's own file holds cannot be used
(migrate.py).

PRINT says what the files were made of: the text of the whole schema and DuckDB's version. They are never changed, and
nothing depends on them: where they cannot be made, lie in a directory that others may write, or on a network file
system, or fail in any way, all is made one by one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tic_daemon import usercache
from tic_daemon.record import fields
from tic_daemon.store import place, sqltext

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)

Kind = Literal["views", "tables", "shapes"]

ATTACHED: Final = "tic_schema"
"""The name under which a file is attached while it is copied."""


def where(kind: Kind, schema: Path = sqltext.SCHEMA) -> Path | None:
    """Where this part of a schema is kept or would be; None: nowhere."""
    folder = usercache.folder()
    try:
        if folder is None or "?" in str(folder):  # DuckDB keeps no file under such a name
            return None
        print_ = _own_print() if schema == sqltext.SCHEMA else _print(schema)
        if place.on_network(folder):  # a lock there may be waited for, for ever
            return None
    except (OSError, RuntimeError, ValueError):
        return None
    return folder / f"{kind}-{print_}.duckdb"


def copy_views(con: duckdb.DuckDBPyConnection, schema: Path, names: Collection[str]) -> bool:
    """Gives the open store the views of the file, in place of those of the same names.

    Args:
        names: of all views that the file must hold, and no other.

    Returns:
        False: the file is missing or cannot be used, and the store is as it was.
    """

    def copy() -> None:
        _require(con, "view", names)
        here = _here(con)
        con.execute("BEGIN")
        con.execute("".join(f'DROP VIEW "{name}";' for name in sorted(_names(con, "view", here) & set(names))))
        con.execute(f'COPY FROM DATABASE {ATTACHED} TO "{here}" (SCHEMA)')
        con.execute("COMMIT")

    return _copied(con, where("views", schema), copy)


def copy_tables(
    con: duckdb.DuckDBPyConnection, schema: Path, names: Collection[str], first: str, values: Sequence[object]
) -> bool:
    """Gives the empty store the tables of the file, and executes `first` with `values` in the same transaction.

    Args:
        names: of tables that the file must hold; besides them it holds derived ones.

    Returns:
        False: as above.
    """

    def copy() -> None:
        derived = {name for name in _names(con, "table", ATTACHED) if name == "derived" or name.startswith("d_")}
        _require(con, "table", {*names, *derived})
        con.execute("BEGIN")
        con.execute(f'COPY FROM DATABASE {ATTACHED} TO "{_here(con)}" (SCHEMA)')
        con.execute(first, values)
        con.execute("COMMIT")

    return _copied(con, where("tables", schema), copy)


@contextlib.contextmanager
def shapes(con: duckdb.DuckDBPyConnection, names: Collection[str]) -> Iterator[bool]:
    """While it lasts, `tic_schema.<name>` has the columns of the temporary table `<name>`, for all of these names.

    False: there is no such file, or it cannot be used, or this connection may open no file any more.
    """
    there = _copied(con, where("shapes"), lambda: _require(con, "table", names), hold=True)
    try:
        yield there
    finally:
        if there:
            _detach(con)


def keep_views(con: duckdb.DuckDBPyConnection, schema: Path, names: Collection[str]) -> None:
    """Keeps the views of these names, which the open store has, for the next start. What fails is of no account."""

    def make() -> None:
        con.execute(f'COPY FROM DATABASE "{_here(con)}" TO {ATTACHED} (SCHEMA)')
        # Without the tables: a view is its text and its columns, and does not know whose they are.
        _drop(con, "view", _names(con, "view", ATTACHED) - set(names))
        _drop(con, "table", _names(con, "table", ATTACHED))

    _keep(con, where("views", schema), make)


def keep_tables(con: duckdb.DuckDBPyConnection, schema: Path) -> None:
    """Keeps the tables of the open store, which this program has made from nothing, as above."""

    def make() -> None:
        con.execute(f'COPY FROM DATABASE "{_here(con)}" TO {ATTACHED} (SCHEMA)')
        _drop(con, "view", _names(con, "view", ATTACHED))

    _keep(con, where("tables", schema), make)


def keep_shapes(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Keeps the columns of these temporary tables, as above."""

    def make() -> None:
        for name in names:
            con.execute(f'CREATE TABLE {ATTACHED}."{name}" AS FROM temp."{name}" LIMIT 0')

    _keep(con, where("shapes"), make)


def _copied(con: duckdb.DuckDBPyConnection, path: Path | None, copy: Callable[[], None], *, hold: bool = False) -> bool:
    """Whether `copy` succeeded with the file attached; a file with which it failed is removed.

    `hold`: after success the file stays attached.
    """
    import duckdb  # noqa: PLC0415  loaded by whoever opened `con`

    if path is None or not usercache.holds(path) or not _may_open(con):
        return False
    done = False
    try:
        con.execute(f"ATTACH {_quoted(path)} AS {ATTACHED} (READ_ONLY)")
        copy()
        done = True
    except duckdb.Error as error:
        log.debug("%s is of no use and is made anew: %s", path, error)
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")
        with contextlib.suppress(OSError):
            path.unlink()
    finally:
        if not (done and hold):
            _detach(con)
    if done:
        usercache.used(path)
    return done


def _keep(con: duckdb.DuckDBPyConnection, path: Path | None, make: Callable[[], None]) -> None:
    """Makes the file at `path` with what `make` puts into it, attached; takes away those that nobody uses."""
    import duckdb  # noqa: PLC0415  as above

    if path is None or not _may_open(con):
        return
    part = usercache.part_of(path)
    try:
        con.execute(f"ATTACH {_quoted(part)} AS {ATTACHED} (STORAGE_VERSION 'latest')")
        try:
            make()
            con.execute(f"CHECKPOINT {ATTACHED}")
        finally:
            _detach(con)
        usercache.put(part, path)
    except (duckdb.Error, OSError) as error:
        log.debug("%s is not kept: %s", path, error)
    finally:
        for left in (part, part.with_name(part.name + ".wal")):
            with contextlib.suppress(OSError):
                left.unlink()


@functools.cache
def _own_print() -> str:
    """Of this program's schema, which stays what it is while the program runs."""
    return _print(sqltext.SCHEMA)


def _print(schema: Path) -> str:
    import duckdb  # noqa: PLC0415  as above

    own = Path(fields.__file__)  # views hold what it makes of its table (sqltext.py)
    print_ = hashlib.sha256(duckdb.__version__.encode())
    for path in (*sorted({*schema.rglob("*.sql"), *sqltext.SCHEMA.rglob("*.sql")}), own, own.with_suffix(".toml")):
        print_.update(str(path).encode(errors="surrogateescape") + b"\0" + path.read_bytes() + b"\0")
    return print_.hexdigest()[:24]


def _may_open(con: duckdb.DuckDBPyConnection) -> bool:
    row = con.execute("SELECT current_setting('enable_external_access')").fetchone()
    return bool(row and row[0])


def _detach(con: duckdb.DuckDBPyConnection) -> None:
    import duckdb  # noqa: PLC0415  as above

    with contextlib.suppress(duckdb.Error):
        con.execute(f"DETACH {ATTACHED}")


def _require(con: duckdb.DuckDBPyConnection, what: str, names: Collection[str]) -> None:
    """Raises duckdb.CatalogException unless the attached file holds these tables or views, and no other."""
    import duckdb  # noqa: PLC0415  as above

    if _names(con, what, ATTACHED) != set(names):
        raise duckdb.CatalogException(f"it holds other {what}s")


def _names(con: duckdb.DuckDBPyConnection, what: str, database: str) -> set[str]:
    """Of the tables or views (`what`: "table" or "view") in a database."""
    rows = con.execute(
        f"SELECT {what}_name FROM duckdb_{what}s() WHERE NOT internal AND database_name = ?",  # noqa: S608
        [database],
    )
    return {str(row[0]) for row in rows.fetchall()}


def _drop(con: duckdb.DuckDBPyConnection, what: str, names: Collection[str]) -> None:
    con.execute("".join(f'DROP {what} {ATTACHED}."{name}";' for name in sorted(names)))


def _here(con: duckdb.DuckDBPyConnection) -> str:
    row = con.execute("SELECT current_database()").fetchone()
    assert row is not None  # noqa: S101  it always has one
    return str(row[0])


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
