"""Who is turned away, and what: tokens, hosts, statements, sizes, garbage. And that nothing is changed by trying."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tic_daemon.store.sqlguard import SqlError, SqlRefused, only_select

from .conftest import Bed
from .crowd import Target, throw


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "bearer\twrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer {short}",
    ],
)
def test_wrong_tokens(bed: Bed, header: str | None) -> None:
    token = bed.server.token
    headers = {} if header is None else {"Authorization": header.format(token=token, short=token[:-1])}
    reply = bed.client.raw("POST", "/sql", b'{"sql": "SELECT 1"}', headers)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert token not in reply.body.decode()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "", "localhost.evil", "0"]
)
def test_a_name_that_was_rebound_to_loopback(bed: Bed, host: str) -> None:
    for path in ("/sql", "/health"):
        reply = bed.client.raw(
            "POST", path, b'{"sql": "SELECT 1"}', {"Host": host, "Authorization": f"Bearer {bed.server.token}"}
        )
        assert reply.status in (400, 403), path
        assert b"rows" not in reply.body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080", "127.0.0.1:99999"])
def test_our_own_names_also_through_a_tunnel(bed: Bed, host: str) -> None:
    assert bed.client.post(b'{"sql": "SELECT 1"}', Host=host).status == 200


REFUSED = [
    "SELECT 1; DROP TABLE event", "SELECT 1; SELECT 2", "", ";", "/* nothing */", "DROP TABLE event",
    "DELETE FROM event", "INSERT INTO event VALUES (1, 'x', 1)", "UPDATE event SET text = 'x'",
    "CREATE TABLE x (i INT)", "CREATE TEMP TABLE x (i INT)", "CREATE VIEW x AS SELECT 1", "CREATE MACRO f() AS 1",
    "ALTER TABLE event ADD COLUMN x INT", "TRUNCATE event", "COPY event TO '/tmp/x.csv'",
    "COPY (SELECT 1) TO '/tmp/x.parquet'", "COPY event FROM '/etc/passwd'", "EXPORT DATABASE '/tmp/x'",
    "ATTACH ':memory:' AS x", "ATTACH '/tmp/x.duckdb'", "DETACH x", "USE memory", "PRAGMA version",
    "PRAGMA enable_profiling", "PRAGMA database_list", "SET threads = 1", "RESET threads", "SET VARIABLE as_of = NULL",
    "SET VARIABLE spool = '[]'", "RESET VARIABLE as_of", "CALL pragma_version()", "CALL enable_logging()",
    "CHECKPOINT", "FORCE CHECKPOINT", "VACUUM", "ANALYZE", "BEGIN", "COMMIT", "ROLLBACK", "LOAD json",
    "INSTALL httpfs", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN ANALYZE INSERT INTO event VALUES (1, 'x', 1)", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p",
    "COMMENT ON TABLE event IS 'x'", "PIVOT event ON rec_id USING count(*)",
    "MERGE INTO event USING event e ON event.rec_id = e.rec_id WHEN MATCHED THEN DELETE",
    "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')", "SELECT * FROM read_parquet('/x')",
    "SELECT * FROM parquet_metadata('/x')", "SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'", "FROM 'x.csv'", "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('a', 's3')", "SELECT * FROM enable_logging()", "SELECT * FROM disable_logging()",
    "SELECT * FROM enable_profiling()", "SELECT * FROM truncate_duckdb_logs()", "SELECT * FROM checkpoint()",
    "SELECT * FROM main.force_checkpoint()", 'SELECT * FROM "FORCE_CHECKPOINT"()',
    "SELECT * FROM query('DROP TABLE event')", "SELECT * FROM query_table('event')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT (SELECT count(*) FROM enable_logging())",
    "WITH c AS MATERIALIZED (SELECT * FROM enable_logging()) SELECT 1",
    "SELECT 1 WHERE EXISTS (FROM force_checkpoint())",
    "SELECT 1 UNION ALL SELECT count(*) FROM read_text('/etc/passwd')",
    "DESCRIBE SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM event JOIN LATERAL (SELECT * FROM glob('/*')) g ON true", "SELECT nextval('counter')",
    "SELECT write_log('x')", "SELECT * FROM add_parquet_key('a', '0123456789abcdef')",
    "SELECT " + "(" * 500 + "1" + ")" * 500 + "; COMMIT", "SELECT " + "NOT " * 900 + "true",
    "SELECT '" + "x" * 300_000 + "'",
]  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:60])
def test_everything_but_one_reading_select_is_refused(bed: Bed, sql: str) -> None:
    reply = bed.client.sql(sql)
    assert reply.status == 403, reply.body
    assert reply.json["error"]


def test_import_database_fails_while_it_is_parsed(bed: Bed) -> None:
    # DuckDB looks for the files already then: the connection's own settings stop it.
    assert bed.client.sql("IMPORT DATABASE '/tmp'").status in (400, 403)


def test_nothing_was_changed_by_trying(bed: Bed) -> None:
    con = bed.engine.cursor()
    before = con.execute("SELECT count(*), sum(rec_id), sum(hash(text)) FROM event").fetchall()
    settings_before = con.execute("SELECT name, value FROM duckdb_settings() ORDER BY 1").fetchall()
    for sql in REFUSED:
        bed.client.sql(sql)
    assert con.execute("SELECT count(*), sum(rec_id), sum(hash(text)) FROM event").fetchall() == before
    assert con.execute("SELECT name, value FROM duckdb_settings() ORDER BY 1").fetchall() == settings_before
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (1,)
    assert con.execute("SELECT nextval('counter')").fetchone() == (1,)


ALLOWED = [
    "SELECT 1", "(SELECT 1)", "VALUES (1)", "FROM event LIMIT 1", "TABLE event",
    "WITH x AS (SELECT 1) SELECT * FROM x", "SELECT 1;", "-- a comment\nSELECT 1 /* DROP TABLE event */",
    "SELECT 'x; DROP TABLE event'", "DESCRIBE event", "SHOW TABLES", "SUMMARIZE event",
    "SELECT count(*) FROM duckdb_settings()", "SELECT * FROM duckdb_views()", "SELECT current_setting('threads')",
    "SELECT * FROM range(3)", "SELECT unnest([1, 2])", "FROM event ASOF JOIN event e USING (rec_id) LIMIT 1",
    "SELECT * FROM (PIVOT event ON rec_id IN (1, 2) USING count(*))", "SELECT getvariable('as_of')",
    "SELECT version()", "SELECT rec_id, row_number() OVER () FROM event QUALIFY row_number() OVER () < 3",
    "SELECT * FROM json_each('[1]')",
    "WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT max(i) FROM r",
    "SELECT COLUMNS('rec.*') FROM event",
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED, ids=lambda sql: sql[:60])
def test_what_a_reader_needs_is_allowed(bed: Bed, sql: str) -> None:
    assert bed.client.sql(sql).status == 200


def test_the_connection_itself_reads_no_files_even_without_the_guard(bed: Bed, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    con = bed.engine.cursor()
    for sql in (
        f"FROM read_text('{secret}')",
        f"FROM read_csv('{secret}')",
        f"FROM glob('{tmp_path}/*')",
        f"FROM '{secret}'",
    ):
        with pytest.raises(duckdb.Error):
            con.execute(sql)
    for sql in ("SET enable_external_access = true", "SET lock_configuration = false", f"ATTACH '{tmp_path}/x.duckdb'"):
        with pytest.raises(duckdb.Error):
            con.execute(sql)


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=60))
def test_the_guard_lets_nothing_out_but_its_own_errors(text: str) -> None:
    con = duckdb.connect()
    try:
        statement = only_select(con, text)
    except (SqlError, SqlRefused) as error:
        assert error.what
    else:
        assert statement.type.name == "SELECT"


BAD_BODIES = [
    b"", b"SELECT 1", b"[]", b"null", b"1", b'"SELECT 1"', b"{}", b'{"sql": 1}', b'{"sql": null}',
    b'{"sql": ["SELECT 1"]}', b'{"sql": "SELECT 1", "x": 1}', b'{"sql": "SELECT 1", "params": 1}',
    b'{"sql": "SELECT 1", "params": {"a": 1}}', b'{"sql": "SELECT ?", "params": [[1]]}',
    b'{"sql": "SELECT ?", "params": [{"$timestamp": "x"}]}', b'{"sql": "SELECT ?", "params": [{"$decimal": "x"}]}',
    b'{"sql": "SELECT ?", "params": [{"$bytes": "*"}]}', b'{"sql": "SELECT ?", "params": [{"$double": 1}]}',
    b'{"sql": "SELECT ?", "params": []}', b'{"sql": "SELECT 1", "params": [1]}', b'{"sql": "SELECT 1", "as_of": 1}',
    b'{"sql": "SELECT 1", "as_of": "yesterday"}', b'{"sql": "SELECT 1", "max_rows": -1}',
    b'{"sql": "SELECT 1", "max_rows": "1"}', b'{"sql": "SELECT 1", "max_rows": true}',
    b'{"sql": "SELECT 1", "timeout_s": NaN}', b'{"sql": "SELECT 1", "timeout_s": -1}',
    b'{"sql": "SELECT 1", "timeout_s": 1e999}', b'{"sql": "SELECT \\ud800"}', b'{"sql": "SELECT 1\\u0000"}',
    b"\xff\xfe", b"[" * 100_000, b'{"sql": "SELEC 1"}', b'{"sql": "SELECT nothing FROM nowhere"}',
    b'{"sql": "SELECT 1/0::INT, error(\'x\')"}', b'{"sql": "SELECT 1", "max_rows": 1' + b"0" * 5000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:50]))
def test_bodies_that_are_no_question(bed: Bed, body: bytes) -> None:
    reply = bed.client.post(body)
    assert reply.status == 400, reply.body
    assert reply.json["error"]


def test_a_body_beyond_the_cap(bed: Bed) -> None:
    assert bed.client.post(b" " * ((1 << 20) + 1)).status == 413
    with socket.create_connection(("127.0.0.1", bed.client.port), timeout=10) as sock:
        head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bed.server.token}\r\n"
        sock.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(80):  # no length is declared: it must be counted as it comes
                sock.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except OSError:
            return  # closed in mid-flood
        assert sock.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/sql", 405), ("GET", "/", 404), ("PUT", "/health", 405), ("POST", "/sql/../x", 404)],
)
def test_other_paths_and_methods(bed: Bed, method: str, path: str, status: int) -> None:
    assert bed.client.raw(method, path).status == status


def after_garbage(bed: Bed, threads_before: int) -> None:
    assert bed.client.sql("SELECT count(*) FROM event").json["rows"] == [[10_000]]
    assert threading.active_count() <= threads_before + 2
    open_descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert open_descriptors < 100


def test_garbage(bed: Bed) -> None:
    before = threading.active_count()
    throw(Target(bed.server.url, bed.server.token), 300, 1)
    after_garbage(bed, before)


@pytest.mark.slow
def test_much_garbage(bed: Bed) -> None:
    before = threading.active_count()
    throw(Target(bed.server.url, bed.server.token), 2000, 2)
    after_garbage(bed, before)
