"""Tables, event classes and row classes say the same, in the same order."""

from __future__ import annotations

import dataclasses
import hashlib
import typing
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from tic_daemon.errors import StoreError, StoreVersionError
from tic_daemon.scan import events as ev
from tic_daemon.store import migrate
from tic_daemon.store.columns import EVENT_CLASSES, EVENT_TABLES, table_columns
from tic_daemon.store.derive import Derived
from tic_daemon.store.rows import (
    ArtifactRow,
    AttemptRow,
    CheckpointRow,
    CursorRow,
    FaultFileRow,
    LedgerRow,
    MarkRow,
    ResultFileRow,
    ResultGapRow,
    SourceRow,
    source_id,
)
from tic_daemon.wandb.events import WandbEvent

# Written out by hand from design 20 and the comment above table mismatch.
SHARED = [
    "rec_id",
    "store_id",
    "host",
    "source_id",
    "generation",
    "byte_offset",
    "byte_length",
    "line_no",
    "prov",
    "proc",
    "pid",
    "proc_rank",
    "actor",
    "stream",
    "stamp",
    "stamp_res_us",
    "stamp_utc",
    "after_stamp",
    "after_utc",
    "step",
    "step_carried",
    "policy",
    "observed_at",
]
SQL_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", datetime: "TIMESTAMP"}


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for _, path in migrate.migrations(Path(migrate.__file__).with_name("schema")):
        con.execute(path.read_text())
    return con


def columns(con: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    return con.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
    ).fetchall()


def test_there_is_a_table_for_every_event_class() -> None:
    assert set(EVENT_CLASSES) == {*typing.get_args(ev.Event), *typing.get_args(WandbEvent)}
    assert len(set(EVENT_TABLES)) == len(EVENT_CLASSES) == 26


@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.table)
def test_event_table_has_the_shared_columns_then_the_event_s_fields(
    con: duckdb.DuckDBPyConnection, cls: type[ev.Event | WandbEvent]
) -> None:
    stored = columns(con, cls.table)
    own = [field for field in dataclasses.fields(cls) if field.name not in ("at", "values")]
    assert [name for name, _ in stored] == SHARED + [field.name for field in own]
    assert table_columns(cls.table) == [name for name, _ in stored]
    hints = typing.get_type_hints(cls)
    for field, (name, sql_type) in zip(own, stored[len(SHARED) :], strict=True):
        base = next((arg for arg in typing.get_args(hints[field.name]) if arg is not type(None)), hints[field.name])
        assert sql_type == SQL_TYPES[base], name


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in migrate.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_at_is_stored_whole(con: duckdb.DuckDBPyConnection) -> None:
    renamed = {"rank": "proc_rank"}
    assert {renamed.get(field.name, field.name) for field in dataclasses.fields(ev.At)} <= set(SHARED)


@pytest.mark.parametrize(
    ("cls", "table", "extra"),
    [
        (SourceRow, "source", ["observed_at"]),
        (CursorRow, "cursor", ["observed_at"]),
        (MarkRow, "mark", ["rec_id", "observed_at"]),
        (AttemptRow, "run_attempt", ["rec_id", "observed_at"]),
        (CheckpointRow, "checkpoint", ["observed_at"]),
        (FaultFileRow, "fault_file", ["observed_at"]),
        (ResultFileRow, "result_file", ["rec_id", "observed_at"]),
        (ArtifactRow, "artifact", ["rec_id", "observed_at"]),
        (ResultGapRow, "result_gap", ["rec_id", "observed_at"]),
        (LedgerRow, "ledger_row", ["rec_id", "observed_at"]),
    ],
)
def test_row_class_matches_its_table(con: duckdb.DuckDBPyConnection, cls: type, table: str, extra: list[str]) -> None:
    stored = [name for name, _ in columns(con, table) if name not in extra]
    assert stored == [field.name for field in dataclasses.fields(cls) if field.name != "cut"]


def test_no_key_default_or_foreign_key_on_event_tables(con: duckdb.DuckDBPyConnection) -> None:
    kept = con.execute(
        "SELECT DISTINCT table_name FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'"
    ).fetchall()
    assert {name for (name,) in kept} == {"source", "cursor", "fault_rule"}
    defaults = "SELECT count(*) FROM duckdb_columns() WHERE column_default IS NOT NULL AND NOT internal"
    assert con.execute(defaults).fetchall() == [(0,)]
    assert con.execute("SELECT count(*) FROM duckdb_indexes()").fetchall() == [(0,)]


def test_source_id_is_the_same_for_ever() -> None:
    # printf 'node7\0file\0/a.log' | sha256sum  ->  the first 8 bytes, shifted by one
    assert source_id("node7", "file", "/a.log") == 0xEC4BBC1AEDACB4C5 >> 1
    assert source_id("n", "file", "/\udcff") == (
        int.from_bytes(hashlib.sha256(b"n\0file\0/\xff").digest()[:8], "big") >> 1
    )


def test_a_newer_store_is_refused_with_both_versions(tmp_path: Path) -> None:
    con = duckdb.connect()
    migrate.migrate(con, "ab" * 6, "/w", "h", datetime(2026, 1, 1))
    con.execute("UPDATE store SET schema_version = 41")
    with pytest.raises(StoreVersionError) as caught:
        migrate.migrate(con, "ab" * 6, "/w", "h", datetime(2026, 1, 1))
    assert "version 41" in str(caught.value)
    assert f"up to {migrate.program_version()}" in str(caught.value)


def test_migrations_go_forward_one_by_one_and_keep_rows(tmp_path: Path) -> None:
    schema = tmp_path / "schema"
    (schema / "views").mkdir(parents=True)
    (schema / "001_a.sql").write_text(
        "CREATE TABLE store (store_id VARCHAR, schema_version INTEGER, program_version VARCHAR, workspace VARCHAR,"
        " host VARCHAR, created_at TIMESTAMP); CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7);"
    )
    (schema / "views" / "000_v.sql").write_text("CREATE OR REPLACE VIEW v AS SELECT * FROM t;")
    con = duckdb.connect()
    assert migrate.migrate(con, "id", "/w", "h", datetime(2026, 1, 1), schema) == 0
    (schema / "002_b.sql").write_text("ALTER TABLE t ADD COLUMN b INTEGER; UPDATE t SET b = a + 1;")
    assert migrate.migrate(con, "id", "/w", "h", datetime(2026, 1, 1), schema) == 1
    assert con.execute("SELECT a, b FROM v").fetchall() == [(7, 8)]
    assert con.execute("SELECT store_id, schema_version FROM store").fetchall() == [("id", 2)]
    # A migration that fails leaves the store as it was.
    (schema / "003_c.sql").write_text("UPDATE t SET a = 0; SELECT nonsense FROM nowhere;")
    with pytest.raises(StoreError, match=r"003_c\.sql"):
        migrate.migrate(con, "id", "/w", "h", datetime(2026, 1, 1), schema)
    assert con.execute("SELECT a, schema_version FROM t, store").fetchall() == [(7, 2)]


def test_every_view_is_named_after_those_that_it_reads() -> None:
    schema = Path(migrate.__file__).with_name("schema")
    con, again = duckdb.connect(), duckdb.connect()
    for to in (con, again):
        migrate.migrate(to, "id", "/w", "h", datetime(2026, 1, 1), schema)
        Derived().rebuild(to, datetime(2026, 1, 1))
    migrate.public_views(con, schema)
    stored = dict(migrate.stored_views(con))
    assert sorted(migrate.view_names(schema)) == sorted(stored)
    for name, _ in migrate.stored_views(again):
        again.execute(f"DROP VIEW {name}")
    for name in migrate.view_names(schema):
        again.execute(stored[name])


def test_a_foreign_database_is_refused() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE theirs (a INTEGER)")
    with pytest.raises(StoreError, match="not a store of tic"):
        migrate.migrate(con, "id", "/w", "h", datetime(2026, 1, 1))
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]
