"""What the endpoint answers: rows in both forms, parameters, as-of, caps, and who it is published as."""

from __future__ import annotations

import json
import stat
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tic_daemon import __version__
from tic_daemon.live import LiveServer
from tic_daemon.store import wire

from .conftest import Bed


def test_published_for_the_owner_alone_and_taken_away(own_bed: Bed) -> None:
    path = own_bed.layout.daemon_file
    told = json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert told["url"] == own_bed.server.url and told["token"] == own_bed.server.token
    assert told["store_id"] == own_bed.layout.store_id and told["host"] == own_bed.layout.host
    assert told["program_version"] == __version__
    assert datetime.fromisoformat(told["started_at"]).utcoffset() is not None
    own_bed.server.stop()
    assert not path.exists()


def test_stop_leaves_the_daemon_json_of_another(own_bed: Bed) -> None:
    own_bed.layout.daemon_file.write_text('{"token": "of the next daemon"}')
    own_bed.server.stop()
    assert own_bed.layout.daemon_file.exists()


def test_health_needs_no_token_and_says_little(bed: Bed) -> None:
    reply = bed.client.raw("GET", "/health")
    assert (reply.status, reply.json) == (200, {"ok": True, "store_id": bed.layout.store_id})


def test_json(bed: Bed) -> None:
    reply = bed.client.sql(
        "SELECT rec_id, text, NULL AS n, 0.1 + 0.2 AS d, 'nan'::DOUBLE AS x FROM event WHERE rec_id < 2"
    )
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    told = reply.json
    assert told["columns"] == ["rec_id", "text", "n", "d", "x"]
    assert told["types"] == ["BIGINT", "VARCHAR", "INTEGER", "DECIMAL(3,1)", "DOUBLE"]
    assert told["rows"] == [[0, "line 0", None, 0.3, "NaN"], [1, "line 1", None, 0.3, "NaN"]]
    assert told["truncated"] is False


def test_arrow_stream_is_what_duckdb_says(bed: Bed) -> None:
    sql = "SELECT rec_id, text, value, rec_id::DECIMAL(18,3) AS d, [rec_id] AS l FROM event WHERE rec_id < 9 ORDER BY 1"
    reply = bed.client.raw(
        "POST", "/sql", json.dumps({"sql": sql}).encode(), {"Authorization": f"Bearer {bed.server.token}"}
    )
    assert reply.headers["content-type"] == wire.ARROW_TYPE
    assert reply.headers["x-tic-truncated"] == "0"
    assert reply.headers["x-tic-store"] == bed.layout.store_id
    table = pa.ipc.open_stream(reply.body).read_all()
    direct = bed.engine.cursor().execute(sql)
    expected_types = [str(column[1]) for column in direct.description]
    assert json.loads(table.schema.metadata[wire.TYPES_KEY]) == expected_types
    assert wire.rows_of(table, expected_types) == direct.fetchall()


def test_no_rows_still_have_columns(bed: Bed) -> None:
    assert bed.client.sql("SELECT rec_id, text FROM event WHERE false").json["columns"] == ["rec_id", "text"]
    assert bed.client.sql("SELECT rec_id, text FROM event WHERE false").json["rows"] == []


PARAMETERS = [
    None, True, -(2**63), 2**100, 0.1, float("inf"), "x'; DROP TABLE event; --", "\x1b]0;t\x07\u202e", "ü" * 10,
    datetime(2026, 1, 2, 3, 4, 5, 6), datetime(2026, 1, 2).date(), Decimal("1.50"), b"\x00\xff",
]  # fmt: skip


@pytest.mark.parametrize("value", PARAMETERS, ids=lambda value: type(value).__name__)
def test_parameters_arrive_as_they_left(bed: Bed, value: object) -> None:
    body = json.dumps({"sql": "SELECT ? AS x", "params": [wire.encode_parameter(value)]}).encode()
    reply = bed.client.raw("POST", "/sql", body, {"Authorization": f"Bearer {bed.server.token}"})
    table = pa.ipc.open_stream(reply.body).read_all()
    ((got,),) = wire.rows_of(table, wire.types_of(table.schema))
    assert got == bed.engine.cursor().execute("SELECT ?", [value]).fetchone()[0]
    assert got == value


def test_as_of_reaches_the_views_variable_as_utc_and_stays_with_its_request(bed: Bed) -> None:
    reply = bed.client.sql("SELECT getvariable('as_of')::TIMESTAMP", as_of="2026-01-02T03:04:05.000006+02:00")
    assert reply.json["rows"] == [["2026-01-02 01:04:05.000006"]]
    assert bed.client.sql("SELECT getvariable('as_of')::TIMESTAMP").json["rows"] == [[None]]


def test_lines_that_wait_in_the_spool_are_given_to_the_views(own_bed: Bed) -> None:
    server = LiveServer(own_bed.engine.cursor, own_bed.layout, spool=lambda: '[{"id": "a\'b"}]')
    server.start()
    try:
        client = type(own_bed.client)(server)
        assert client.sql("SELECT getvariable('spool')").json["rows"] == [['[{"id": "a\'b"}]']]
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("asked", "rows", "truncated"), [(3, 3, True), (0, 0, True), (10_000, 10_000, False), (9_999, 9_999, True)]
)
def test_row_cap(bed: Bed, asked: int, rows: int, truncated: bool) -> None:
    told = bed.client.sql("SELECT rec_id FROM event ORDER BY rec_id", max_rows=asked).json
    assert [row[0] for row in told["rows"]] == list(range(rows))
    assert told["truncated"] is truncated


def test_endless_rows_end_at_the_servers_cap(own_bed: Bed) -> None:
    reply = own_bed.client.sql("SELECT * FROM range(10000000000) t1, range(100000) t2")
    assert (len(reply.json["rows"]), reply.json["truncated"]) == (5000, True)
    assert reply.headers["x-tic-truncated"] == "1"


def test_byte_cap(own_bed: Bed) -> None:
    reply = own_bed.client.sql("SELECT repeat('x', 10000) AS t FROM range(4000)")
    assert reply.json["truncated"] is True
    assert 40 < len(reply.json["rows"]) < 106  # of 1 MiB, in halves of a batch
    one_too_large = own_bed.client.sql("SELECT repeat('x', 2000000) AS t")
    assert (one_too_large.json["rows"], one_too_large.json["truncated"]) == ([], True)


@pytest.mark.parametrize("kind", ["UHUGEINT", "BIT", "TIMETZ"])
def test_types_that_arrow_would_alter_are_refused_by_name(bed: Bed, kind: str) -> None:
    value = "'12:00:00+02'" if kind == "TIMETZ" else "1"
    reply = bed.client.sql(f"SELECT 1 AS a, {value}::{kind} AS odd")
    assert reply.status == 400
    assert "'odd'" in reply.json["error"] and "VARCHAR" in reply.json["hint"]
