"""The views that one start made are those of the next, and whatever lies in their place spoils nothing."""

from __future__ import annotations

import re
import threading
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from tic_daemon.store import migrate, viewfile
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


def test_the_real_views_are_the_same(cache: Path, tmp_path: Path) -> None:
    bound, copied = opened(":memory:", REAL), opened(tmp_path / "b.duckdb", REAL)
    assert len(kept(cache)) == 1 and (cache / kept(cache)[0]).stat().st_mode & 0o777 == 0o600
    # A list behind REPLACE has no order of its own: DuckDB prints it in any.
    one, other = ({n: sorted(re.findall(r"\w+|\S", s)) for n, s in migrate.stored_views(c)} for c in (bound, copied))
    assert one == other and len(one) > 100 and sum("MATERIALIZED" in words for words in one.values()) > 20
    columns = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    assert bound.execute(columns).fetchall() == copied.execute(columns).fetchall()
    for con in (bound, copied):
        assert con.execute("SELECT count(*) FROM runs").fetchall() == [(0,)]
        assert con.execute("SELECT count(*) FROM duckdb_databases() WHERE database_name = 'tic_views'").fetchall() == [
            (0,)
        ]


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
    path = viewfile.where(schema)
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
    assert viewfile.where(schema) is None
    assert says(opened(":memory:", schema)) == [(8, 9)] and kept(cache) == []


def test_nowhere_to_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Path) -> None:
    (tmp_path / "file").write_text("")
    for base in (str(tmp_path / "file"), "relative", str(tmp_path / "a?b")):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert viewfile.where(schema) is None
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
