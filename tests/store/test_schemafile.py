"""The schema that one start made is that of the next, and whatever lies in its place spoils nothing."""

from __future__ import annotations

import re
import shutil
import threading
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from tic_daemon import __version__
from tic_daemon.store import migrate, schemafile
from tic_daemon.store.derive import Derived

NOW = datetime(2026, 1, 1)
REAL = Path(migrate.__file__).with_name("schema")
STORE = (
    "CREATE TABLE store (store_id VARCHAR, schema_version INTEGER, program_version VARCHAR, workspace VARCHAR, host VARCHAR,"
    " created_at TIMESTAMP); CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7);"
)
VIEW = (
    "CREATE OR REPLACE VIEW {name} AS WITH one AS MATERIALIZED (SELECT a + {more} AS a FROM b_t) SELECT a FROM one;\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tic-daemon"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    folder = tmp_path / "schema"
    (folder / "views").mkdir(parents=True)
    (folder / "001_a.sql").write_text(STORE)
    (folder / "views" / "000_b.sql").write_text("CREATE OR REPLACE VIEW b_t AS SELECT * FROM t;")
    (folder / "views" / "100_v.sql").write_text(VIEW.format(name="v", more=1) + VIEW.format(name="w", more=2))
    return folder


def opened(path: Path | str, schema: Path) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(str(path), config={"storage_compatibility_version": "v1.2.0", "threads": 1})
    migrate.migrate(con, "id", "/w", "h", NOW, schema)
    if schema == REAL:
        Derived().rebuild(con, NOW)
    migrate.public_views(con, schema)
    return con


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def says(con: duckdb.DuckDBPyConnection) -> list[tuple[int]]:
    found = con.execute("SELECT v.a, w.a FROM v, w").fetchall()
    assert all("MATERIALIZED" in sql for name, sql in migrate.stored_views(con) if name != "b_t")
    return found


DETAILS = {
    "constraints": "table_name, constraint_type, constraint_text, constraint_column_names",
    "columns": "table_name, column_name, column_index, data_type, column_default, is_nullable",
    "indexes": "table_name, index_name, sql",
    "sequences": "sequence_name, sql",
}


def sorted_words(sql: str) -> list[str]:
    """A list behind REPLACE has no order of its own: DuckDB prints it in any."""
    return sorted(re.findall(r"\w+|\S", sql))


def everything(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    """Views, tables with keys and defaults, the temporary ones, columns, and all rows."""
    views = [(name, *sorted_words(sql)) for name, sql in migrate.stored_views(con)]
    tables = con.execute("SELECT temporary, table_name, sql FROM duckdb_tables() ORDER BY ALL").fetchall()
    found: dict[str, list[tuple[object, ...]]] = {"views": views, "tables": tables}
    for what, asked in DETAILS.items():
        found[what] = con.execute(
            f"SELECT {asked} FROM duckdb_{what}() WHERE schema_name = 'main' ORDER BY ALL"
        ).fetchall()
    for temporary, name, _ in tables:
        if not temporary:
            found[str(name)] = con.execute(f'FROM "{name}"').fetchall()
    return found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[tuple[object, ...]]]]:
    """A directory that a first start has filled, and what that start made, one by one."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        with opened(":memory:", REAL) as con:
            return folder / "tic-daemon", everything(con)


def test_the_real_schema_is_the_same(
    cache: Path, tmp_path: Path, real: tuple[Path, dict[str, list[tuple[object, ...]]]]
) -> None:
    shutil.copytree(real[0], cache)
    made = {path: path.stat().st_ino for path in cache.iterdir()}
    assert [name.split("-")[0] for name in kept(cache)] == ["shapes", "tables", "views"]
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}
    copied = opened(tmp_path / "b.duckdb", REAL)
    assert {path: path.stat().st_ino for path in cache.iterdir()} == made, "they were of use"
    one, other = real[1], everything(copied)
    assert one == other
    assert len(one["views"]) > 100 and sum("MATERIALIZED" in words for words in one["views"]) > 20
    assert sum(bool(row[0]) for row in one["tables"]) > 30 and len(one["tables"]) > 100 and one["constraints"]
    assert one["store"] == [("id", migrate.program_version(), __version__, "/w", "h", NOW)] and one["derived"]
    assert copied.execute("SELECT count(*) FROM runs").fetchall() == [(0,)]
    attached = "SELECT count(*) FROM duckdb_databases() WHERE database_name = 'tic_schema'"
    assert copied.execute(attached).fetchall() == [(0,)]


@pytest.mark.parametrize("kind", ["tables", "shapes"])
def test_what_lies_in_the_place_of_tables_spoils_nothing(
    cache: Path, real: tuple[Path, dict[str, list[tuple[object, ...]]]], kind: str
) -> None:
    shutil.copytree(real[0], cache)
    path = next(cache.glob(f"{kind}-*"))
    for spoil in ("garbage", "cut", "other"):
        if spoil == "garbage":
            path.write_bytes(b"\xa5" * 10_000)
        elif spoil == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            path.unlink()
            with duckdb.connect(str(path)) as con:
                con.execute("CREATE TABLE t_place (a INTEGER); CREATE TABLE store (a INTEGER)")
        with opened(":memory:", REAL) as con:
            assert everything(con) == real[1]
        assert len(kept(cache)) == 3
        with duckdb.connect(str(path), read_only=True) as con:
            assert con.execute("SELECT count(*) > 30 FROM duckdb_tables()").fetchall() == [(True,)]


def test_what_a_migration_writes_is_no_part_of_a_schema(cache: Path, tmp_path: Path, schema: Path) -> None:
    for name in ("a.duckdb", "b.duckdb"):
        with opened(tmp_path / name, schema) as con:
            assert con.execute("FROM t").fetchall() == [(7,)]
    assert not list(cache.glob("tables-*"))
    (schema / "001_a.sql").write_text(STORE.partition("INSERT")[0])
    (schema / "002_b.sql").write_text("CREATE TABLE u (b VARCHAR PRIMARY KEY);")
    for name in ("c.duckdb", "d.duckdb"):
        with opened(tmp_path / name, schema) as con:
            assert con.execute("FROM t").fetchall() == con.execute("FROM u").fetchall() == []
            assert con.execute("SELECT store_id, schema_version FROM store").fetchall() == [("id", 2)]
            con.execute("INSERT INTO u VALUES ('x')")
            with pytest.raises(duckdb.ConstraintException):
                con.execute("INSERT INTO u VALUES ('x')")
    assert len(list(cache.glob("tables-*"))) == 1


def test_a_store_that_may_open_no_file_any_more_leaves_them_alone(
    cache: Path, real: tuple[Path, dict[str, list[tuple[object, ...]]]]
) -> None:
    shutil.copytree(real[0], cache)
    con = opened(":memory:", REAL)
    before = kept(cache)
    con.execute("SET enable_external_access = false")
    Derived().rebuild(con, NOW)
    assert kept(cache) == before


def test_a_store_that_is_opened_again_gets_the_views_of_today(cache: Path, tmp_path: Path, schema: Path) -> None:
    file = tmp_path / "s.duckdb"
    for _ in range(3):
        with opened(file, schema) as con:
            assert says(con) == [(8, 9)]
    assert len(kept(cache)) == 1
    (schema / "views" / "100_v.sql").write_text(VIEW.format(name="v", more=10) + VIEW.format(name="w", more=20))
    for _ in range(2):
        with opened(file, schema) as con:
            assert says(con) == [(17, 27)]
    assert len(kept(cache)) == 2, "another text has another name"


@pytest.mark.parametrize("spoilt", ["garbage", "empty", "directory", "other views", "no database"])
def test_what_lies_in_its_place_spoils_nothing(cache: Path, tmp_path: Path, schema: Path, spoilt: str) -> None:
    path = schemafile.where("views", schema)
    assert path is not None and path.parent == cache
    if spoilt == "garbage":
        path.write_bytes(b"\xa5" * 10_000)
    elif spoilt == "empty":
        path.write_bytes(b"")
    elif spoilt == "directory":
        path.mkdir()
    elif spoilt == "other views":
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE VIEW v AS SELECT 666 AS a")
    else:
        path.symlink_to("nowhere")
    for name in ("a.duckdb", "b.duckdb"):
        with opened(tmp_path / name, schema) as con:
            assert says(con) == [(8, 9)]


def test_a_directory_that_others_may_write_is_not_used(cache: Path, schema: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert schemafile.where("views", schema) is None
    assert says(opened(":memory:", schema)) == [(8, 9)] and kept(cache) == []


def test_nowhere_to_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Path) -> None:
    (tmp_path / "file").write_text("")
    for base in (str(tmp_path / "file"), "relative", str(tmp_path / "a?b")):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert schemafile.where("views", schema) is None
        assert says(opened(":memory:", schema)) == [(8, 9)]


def test_many_at_once(cache: Path, tmp_path: Path, schema: Path) -> None:
    """The first of them make the file, each its own, and the others copy what is there."""
    found: list[object] = []

    def one(number: int) -> None:
        with opened(tmp_path / f"{number}.duckdb", schema) as con:
            found.append(says(con))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(8, 9)]] * 8
    assert len(kept(cache)) == 1, "no part is left"
