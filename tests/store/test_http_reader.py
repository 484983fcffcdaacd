"""HttpReader gives what the file's own client gives, says what went wrong, and comes back by itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from tests.live.conftest import ENDLESS, make_engine
from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.live import LiveServer
from tic_daemon.store import http_link
from tic_daemon.store.engine import Engine
from tic_daemon.store.http_reader import HttpReader
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.sqlguard import SqlError, SqlRefused

ROOT = Path(__file__).resolve().parents[2]
Bed = tuple[Engine, StoreLayout, LiveServer]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    engine, layout = make_engine(tmp_path_factory.mktemp("http"))
    server = LiveServer(engine.cursor, layout)
    server.start()
    yield engine, layout, server
    server.stop()
    engine.close()


@pytest.fixture
def reader(bed: Bed) -> Iterator[HttpReader]:
    made = HttpReader.of(bed[1].daemon_file)
    yield made
    made.close()


COLUMNS = [
    "bool", "tinyint", "smallint", "int", "bigint", "hugeint", "utinyint", "usmallint", "uint", "ubigint", "time",
    "float", "double", "dec_4_1", "dec_9_4", "dec_18_6", "dec38_10", "uuid", "interval", "varchar", "blob",
    "small_enum", "medium_enum", "int_array", "double_array", "varchar_array", "nested_int_array", "struct",
    "struct_of_arrays", "array_of_structs", "map", "union", "fixed_int_array", "fixed_nested_int_array",
    "fixed_struct_array", "struct_of_fixed_array", "list_of_fixed_int_array",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_values_are_those_of_duckdbs_own_client(bed: Bed, reader: HttpReader, column: str) -> None:
    sql = f'SELECT "{column}" FROM test_all_types()'
    direct = bed[0].cursor().execute(sql)
    result = reader.query(sql)
    assert result.columns == (column,)
    assert result.types == (str(direct.description[0][1]),)
    assert repr(result.rows) == repr(direct.fetchall())


MOMENTS = [
    "'2026-01-02 03:04:05.000006'::TIMESTAMP", "'0001-01-01'::TIMESTAMP", "'9999-12-31 23:59:59.999999'::TIMESTAMP",
    "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "'infinity'::DATE", "'-infinity'::DATE", "'2026-02-28'::DATE",
    "'2026-01-02 03:04:05.123456789'::TIMESTAMP_NS", "'2026-01-02 03:04:05'::TIMESTAMP_S",
    "[NULL, '2026-01-02'::TIMESTAMP]", "{'a': '2026-01-02'::DATE}", "'23:59:59.999999'::TIME", "NULL::TIMESTAMP",
    "sum(170141183460469231731687303715884105727::HUGEINT)", "[1::HUGEINT]", "MAP {1: MAP {'x': [INTERVAL 1 MONTH]}}",
]  # fmt: skip


@pytest.mark.parametrize("value", MOMENTS)
def test_times_and_nested_values(bed: Bed, reader: HttpReader, value: str) -> None:
    sql = f"SELECT {value} AS x"
    assert repr(reader.query(sql).rows) == repr(bed[0].cursor().execute(sql).fetchall())


def test_times_with_a_zone_are_aware(reader: HttpReader) -> None:
    ((moment,),) = reader.query("SELECT '2026-01-02 03:04:05+02'::TIMESTAMPTZ").rows
    assert moment == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert moment.utcoffset() == timedelta(0)


def test_a_moment_outside_pythons_calendar_is_text_and_alone(reader: HttpReader) -> None:
    rows = reader.query(
        "SELECT '290000-01-01 (BC)'::TIMESTAMP AS x UNION ALL SELECT '2026-01-01'::TIMESTAMP ORDER BY x"
    ).rows
    assert isinstance(rows[0][0], str) and "outside" in rows[0][0]
    assert rows[1] == (datetime(2026, 1, 1),)


def test_parameters_as_of_and_truncation(reader: HttpReader) -> None:
    result = reader.query("SELECT rec_id FROM event WHERE rec_id > ? ORDER BY rec_id", [41], max_rows=3)
    assert (result.rows, result.truncated) == ([(42,), (43,), (44,)], True)
    assert reader.query("SELECT ?, ?", [Decimal("1.5"), datetime(2026, 1, 2)]).rows == [
        (Decimal("1.5"), datetime(2026, 1, 2))
    ]
    moment = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert reader.query("SELECT getvariable('as_of')", as_of=moment).rows == [(datetime(2026, 1, 1),)]
    with pytest.raises(TypeError, match="object"):
        reader.query("SELECT ?", [object()])


def test_what_went_wrong(bed: Bed, reader: HttpReader) -> None:
    with pytest.raises(SqlError, match="nowhere"):
        reader.query("SELECT * FROM nowhere")
    with pytest.raises(SqlRefused, match="DROP"):
        reader.query("DROP TABLE event")
    with pytest.raises(SqlError, match=r"0\.2 s"):
        reader.query(ENDLESS, timeout_s=0.2)
    assert reader.connection().state == "connected"
    bad = HttpReader(bed[2].url, "wrong")
    assert bad.connection().state == "pending"
    with pytest.raises(ConnectError, match="token"):
        bad.query("SELECT 1")
    assert bad.connection().state == "disconnected"
    assert "token" in bad.connection().detail


def test_the_token_of_a_bare_url_comes_from_the_environment(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIC_TOKEN", bed[2].token)
    assert HttpReader(bed[2].url).query("SELECT 1").rows == [(1,)]


def test_another_store_at_the_same_address_is_not_taken_for_ours(bed: Bed) -> None:
    reader = HttpReader(bed[2].url, bed[2].token, store_id="0123456789ab")
    with pytest.raises(ConnectError, match="another store"):
        reader.query("SELECT 1")


def test_interrupt_from_another_thread(reader: HttpReader) -> None:
    threading.Timer(0.3, reader.interrupt).start()
    began = time.monotonic()
    with pytest.raises(SqlError, match="interrupted"):
        reader.query(ENDLESS, timeout_s=60)
    assert time.monotonic() - began < 30
    assert reader.query("SELECT 1").rows == [(1,)]
    deadline = time.monotonic() + 60  # and the daemon noticed
    while any(thread.name == "tic-sql" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_connection_serves_all_queries(bed: Bed, reader: HttpReader, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    connect = http_link._connect

    def counted(found: http_link.Found) -> object:
        opened.append(found)
        return connect(found)

    monkeypatch.setattr(http_link, "_connect", counted)
    for number in range(5):
        assert reader.query("SELECT ? FROM range(3)", [number]).rows == [(number,)] * 3
    assert reader.query("SELECT 1 WHERE false").rows == []
    assert len(opened) == 1


def test_closed_is_closed(bed: Bed) -> None:
    reader = HttpReader.of(bed[1].daemon_file)
    reader.close()
    reader.close()
    with pytest.raises(StoreError, match="closed"):
        reader.query("SELECT 1")


def test_many_threads_share_one_reader(reader: HttpReader) -> None:
    wrong: list[object] = []

    def work(n: int) -> None:
        for i in range(20):
            rows = reader.query("SELECT ?, ?", [n, i]).rows
            if rows != [(n, i)]:
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_restarted_daemon_is_found_again(tmp_path: Path) -> None:
    engine, layout = make_engine(tmp_path)
    first = LiveServer(engine.cursor, layout)
    first.start()
    reader = HttpReader.of(layout.daemon_file)
    assert reader.query("SELECT 1").rows == [(1,)]
    first.stop()
    with pytest.raises(ConnectError):
        reader.query("SELECT 1")
    lost = reader.connection()
    assert (lost.kind, lost.state) == ("live", "disconnected")
    assert lost.detail and lost.target == first.url
    second = LiveServer(engine.cursor, layout)
    second.start()  # another port, another token
    assert reader.query("SELECT 2").rows == [(2,)]
    assert (reader.connection().state, reader.connection().target) == ("connected", second.url)
    assert reader.connection().since >= lost.since
    second.stop()
    engine.close()


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    reader = HttpReader(f"http://127.0.0.1:{port}", "x")
    with pytest.raises(ConnectError, match="refused"):
        reader.query("SELECT 1")
    with pytest.raises(ConnectError, match="no live endpoint"):
        HttpReader.of(tmp_path / "daemon.json")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\n<>",
    ],
)
def test_an_answer_that_is_none(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            peer.recv(65536)
            peer.sendall(answer)
            peer.close()

        threading.Thread(target=serve, daemon=True).start()
        reader = HttpReader(f"http://127.0.0.1:{server.getsockname()[1]}", "x")
        with pytest.raises((ConnectError, StoreError)):
            reader.query("SELECT 1", timeout_s=1)


def test_it_imports_neither_duckdb_nor_arrow_nor_a_toolkit() -> None:
    code = (
        "import json, sys\nimport tic_daemon.store.http_reader\n"
        "heavy = ('duckdb', 'pyarrow', 'textual', 'torch', 'wandb', 'uvicorn')\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "daemon")])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
