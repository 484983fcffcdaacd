"""Time, memory and places: nothing that a client does, or leaves undone, stays in the daemon."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from tic_daemon.store.bounded import Ask, BoundedSelect, Rows, Stopped

from .conftest import ENDLESS, Bed, Client

RECURSIVE = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"
ENDLESS_ROWS = "SELECT * FROM range(10000000000) t1, range(100000) t2"
# One call that DuckDB does not look into: it ends by itself after some seconds, not when it is told to.
DEAF = "SELECT levenshtein(repeat('a', 25000), repeat('b', 25000))"


def queries_running() -> int:
    return sum(thread.name == "tic-sql" for thread in threading.enumerate())


def soon(holds: Callable[[], bool], within_s: float) -> float:
    """Seconds until it held: ten times `within_s`, which a quiet machine needs, is too long."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < 10 * within_s, "it never came"
        time.sleep(0.01)
    return time.monotonic() - began


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("sql", [ENDLESS, RECURSIVE, f"SELECT count(*) FROM ({ENDLESS_ROWS})"])
def test_an_endless_query_ends_at_its_deadline(bed: Bed, sql: str) -> None:
    began, before = time.monotonic(), resident_mb()
    reply = bed.client.sql(sql, timeout_s=0.5)
    assert reply.status == 408, reply.body
    assert "0.5 s" in reply.json["error"]
    assert 0.5 <= time.monotonic() - began < 15
    soon(lambda: queries_running() == 0, 1.0)
    assert resident_mb() - before < 200


def test_endless_rows_cost_no_more_than_their_cap(bed: Bed) -> None:
    before = resident_mb()
    reply = bed.client.sql(ENDLESS_ROWS, max_rows=100_000, timeout_s=10)
    assert len(reply.json["rows"]) == 100_000
    assert resident_mb() - before < 150
    soon(lambda: queries_running() == 0, 1.0)


def test_a_query_that_does_not_hear_is_answered_in_time_and_keeps_its_place(own_bed: Bed) -> None:
    assert own_bed.client.sql(DEAF, timeout_s=0.3).status == 408
    assert queries_running() == 1, "it was answered before the query ended"
    assert own_bed.client.sql("SELECT 1").status == 200  # the other place


CLIENT = """
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
c.request("POST", "/sql", json.dumps({"sql": sys.argv[3], "timeout_s": 60}), {"Authorization": "Bearer " + sys.argv[2]})
print("sent", flush=True)
c.getresponse()
"""


def test_the_query_of_a_killed_client_stops(bed: Bed) -> None:
    argv = [sys.executable, "-c", CLIENT, str(bed.client.port), bed.server.token, ENDLESS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        soon(lambda: queries_running() == 1, 2.0)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        soon(lambda: queries_running() == 0, 1.0)


def test_a_client_that_leaves_while_it_waits_for_a_place_takes_none(own_bed: Bed) -> None:
    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(own_bed.client.sql, ENDLESS, timeout_s=1.5) for _ in range(2)]
        soon(lambda: queries_running() == 2, 2.0)
        body = json.dumps({"sql": "SELECT 1", "timeout_s": 30}).encode()
        head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own_bed.server.token}\r\n"
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", own_bed.client.port)) as sock:
                sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                time.sleep(0.05)
        assert [future.result().status for future in busy] == [408, 408]
    assert [own_bed.client.sql("SELECT 1").status for _ in range(4)] == [200] * 4


def test_more_than_the_places_wait_then_hear_busy(own_bed: Bed) -> None:
    with ThreadPoolExecutor(4) as pool:
        slow = [pool.submit(own_bed.client.sql, ENDLESS, timeout_s=1.2) for _ in range(2)]
        soon(lambda: queries_running() == 2, 2.0)
        refused = pool.submit(own_bed.client.sql, "SELECT 1", timeout_s=0.3)
        patient = pool.submit(own_bed.client.sql, "SELECT 1", timeout_s=10)
        assert own_bed.client.raw("GET", "/health").status == 200  # not behind the queries
        assert refused.result().status == 503
        assert refused.result().headers["retry-after"] == "1"
        assert patient.result().status == 200
        assert [future.result().status for future in slow] == [408, 408]


def test_a_client_that_does_not_read_is_dropped_and_blocks_nobody(own_bed: Bed) -> None:
    body = json.dumps({"sql": "SELECT repeat('x', 100) AS t FROM range(5000)"}).encode()
    head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own_bed.server.token}\r\n"
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    sleepers = []
    for _ in range(6):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", own_bed.client.port))
        sock.sendall(f"{head}Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        sleepers.append(sock)
    soon(lambda: queries_running() == 0, 5.0)
    assert own_bed.client.sql("SELECT 1").status == 200
    # send_s and silent_s are 1 s here: the server's ends of the six connections go, ours stay.
    soon(lambda: len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 6, 6.0)
    for sock in sleepers:
        sock.close()


def test_connections_that_say_nothing_are_closed(own_bed: Bed) -> None:
    for opening in (b"", b"POST /sql HTTP/1.1\r\nHost: loc"):
        with socket.create_connection(("127.0.0.1", own_bed.client.port), timeout=60) as sock:
            sock.sendall(opening)
            began = time.monotonic()
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1000) == b""
            assert time.monotonic() - began > 0.5


def test_a_body_that_never_comes(own_bed: Bed) -> None:
    head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {own_bed.server.token}\r\n"
    with socket.create_connection(("127.0.0.1", own_bed.client.port), timeout=60) as sock:
        sock.sendall(head.encode() + b'Content-Length: 50\r\n\r\n{"sql"')
        assert sock.recv(1000).startswith(b"HTTP/1.1 408")


def test_beyond_the_number_of_connections_the_newest_is_dropped(own_bed: Bed) -> None:
    many = [socket.create_connection(("127.0.0.1", own_bed.client.port), timeout=60) for _ in range(16)]
    time.sleep(0.2)
    extra = socket.create_connection(("127.0.0.1", own_bed.client.port), timeout=60)
    with extra, contextlib.suppress(ConnectionResetError):
        assert extra.recv(10) == b""
    for sock in many:
        sock.close()
    soon(lambda: own_bed.client.raw("GET", "/health").status == 200, 2.0)


def test_stop_ends_running_queries_and_frees_the_port(own_bed: Bed) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(own_bed.client.sql, ENDLESS, timeout_s=60)
        soon(lambda: queries_running() == 1, 2.0)
        began = time.monotonic()
        own_bed.server.stop()
        assert time.monotonic() - began < 30
        with contextlib.suppress(OSError):  # the connection may go first
            assert running.result(5).status == 503
    assert queries_running() == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", own_bed.client.port), timeout=1).close()


def test_every_cursor_is_closed(own_bed: Bed) -> None:
    for sql in ("SELECT 1", "SELEC", "DROP TABLE event", RECURSIVE, "SELECT error('x')"):
        own_bed.client.sql(sql, timeout_s=0.2)
    soon(lambda: queries_running() == 0, 2.0)
    assert len(own_bed.cursors) == 5
    for cursor in own_bed.cursors:
        with pytest.raises(Exception, match="closed"):
            cursor.execute("SELECT 1")


def test_readers_see_whole_commits_while_the_writer_goes_on(own_bed: Bed) -> None:
    writing = own_bed.engine.con
    writing.execute("CREATE TABLE tick (n BIGINT, part BIGINT)")
    stop = threading.Event()
    seen: list[tuple[int, int]] = []
    failed: list[object] = []

    def read() -> None:
        client = Client(own_bed.server)
        while not stop.is_set():
            reply = client.sql("SELECT count(*), count(DISTINCT n) FROM tick")
            if reply.status == 200:
                seen.append(tuple(reply.json["rows"][0]))
            elif reply.status != 503:
                failed.append(reply)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(60):
        writing.execute("BEGIN")
        for part in range(3):
            writing.execute("INSERT INTO tick VALUES (?, ?)", [n, part])
        writing.execute("COMMIT")
    stop.set()
    for reader in readers:
        reader.join()
    assert not failed
    assert len(seen) > 10
    assert all(rows == 3 * ticks for rows, ticks in seen)  # never a torn transaction


def test_an_idle_server_costs_nothing(bed: Bed) -> None:
    bed.client.sql("SELECT 1")
    time.sleep(0.3)
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.02


def test_no_answer_waits_for_a_delayed_acknowledgement(bed: Bed) -> None:
    """Nagle's algorithm on the server's side made every answer on a kept connection take 40 ms at least."""
    connection = http.client.HTTPConnection("127.0.0.1", bed.client.port)
    took = []
    for _ in range(20):
        began = time.monotonic()
        connection.request("GET", "/health")
        connection.getresponse().read()
        took.append(time.monotonic() - began)
    connection.close()
    assert min(took[1:]) < 0.03


def test_a_stop_that_comes_when_the_query_has_just_closed_its_connection_is_none() -> None:
    """Between its last row and its end it has no connection that could be interrupted."""
    con = duckdb.connect()
    told: list[str] = []

    def consume(rows: Rows) -> None:
        list(rows.batches)
        con.close()
        query.stop()
        told.append("stopped")

    query = BoundedSelect(lambda: con, Ask("SELECT 1"), consume)
    with pytest.raises(Stopped):
        query.run()
    assert told == ["stopped"] and query.ended
