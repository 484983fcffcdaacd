"""Makes a store again from its published snapshot, when its file went with a node or with a job's scratch directory.

The snapshot is the whole store at one moment, cursors included. So the daemon goes on where that one stood: what came
after it is read again from the logs, and nothing is counted twice.
"""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

import duckdb

from tic_daemon.errors import StoreError
from tic_daemon.store import migrate
from tic_daemon.store.engine import STORAGE_VERSION
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.snapshot import Snapshot, TableFiles, create_of, make_views, quote, select_of, snapshot_of

log = logging.getLogger(__name__)


def if_lost(layout: StoreLayout) -> bool:
    """Before the store is opened: makes a node-local file that is gone again. Whether it did.

    A file that is missing in the state directory itself was taken away by a person, who wants to begin anew.
    """
    if layout.database == layout.published or layout.database.exists():
        return False
    snapshot = snapshot_of(layout)
    if snapshot is None or snapshot.store_id != layout.store_id:
        return False
    part = layout.database.with_name(f".{layout.database.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        migrate.refuse_newer(snapshot.schema_version)
        build(part, layout.snapshot_dir, snapshot)
        part.replace(layout.database)
    except (duckdb.Error, StoreError, OSError) as error:
        why = str(error).splitlines()[0]
        log.error("the store cannot be made again from %s, and begins anew: %s", layout.snapshot_dir, why)
        return False
    finally:
        part.unlink(missing_ok=True)
        part.with_name(part.name + ".wal").unlink(missing_ok=True)
    log.info("the store was made again from the snapshot of %s UTC in %s", snapshot.at, layout.snapshot_dir)
    return True


def build(path: Path, directory: Path, snapshot: Snapshot, *, views: bool = False) -> None:
    """Makes a store's file at `path`, which does not exist, from a published snapshot; with its views if asked.

    Raises:
        duckdb.Error, StoreError, OSError: it cannot be made; what there is of it stays.
    """
    con = duckdb.connect(str(path), config={"storage_compatibility_version": STORAGE_VERSION, "threads": 1})
    try:
        path.chmod(0o600)
        con.execute("SET TimeZone = 'UTC'")
        con.execute(f"SET allowed_directories = [{quote(str(directory))}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        migrate.tables(con, upto=snapshot.schema_version)
        made = {str(row[0]) for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        con.execute("BEGIN")
        for name, table in snapshot.tables.items():
            if name not in made:  # derived, by the program that published it
                con.execute(create_of(name, table))
            _fill(con, name, table, directory)
        if views:
            make_views(con, directory, snapshot)
        con.execute("COMMIT")
        con.execute("CHECKPOINT")
    finally:
        con.close()


def _fill(con: duckdb.DuckDBPyConnection, name: str, table: TableFiles, directory: Path) -> None:
    if not table.pieces:
        return
    listed = ", ".join(f'"{column}"' for column, _ in table.columns)
    con.execute(f"INSERT INTO {name} ({listed}) {select_of(table, directory)}")
    found = con.execute(f"SELECT count(*) FROM {name}").fetchone()  # noqa: S608  a checked name
    if found != (table.rows,):
        raise StoreError(f"the snapshot's table {name} has {found} rows, its manifest says {table.rows}")
