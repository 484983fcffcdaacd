"""Long polls: what comes, when it comes, and what a poll that waits costs the others."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tests.store.samples import NOON, delta, fault, mismatch
from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.live import LiveServer
from tic_daemon.live_run import Limits
from tic_daemon.scan.events import Event
from tic_daemon.store.http_reader import HttpReader
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.reader import Tail
from tic_daemon.store.rows import AttemptRow, MarkRow
from tic_daemon.store.writer import Writer

from .conftest import ENDLESS, Client, Reply
from .test_bounds import queries_running, soon

LIMITS = Limits(queries=2, connections=24, waiting=12, ring_rows=50, silent_s=2.0)


@dataclass
class World:
    """A daemon's writer and endpoint, without the daemon."""

    writer: Writer
    server: LiveServer
    reader: HttpReader
    offset: int = 0
    cursors: list[object] = field(default_factory=list)

    def commit(self, *events: Event, provisional: tuple[Event, ...] = (), **more: object) -> None:
        self.offset += 1000
        self.writer.commit([delta(*events, offset=self.offset, provisional=provisional)], **more)  # type: ignore[arg-type]
        self.server.note(self.writer.progress)

    def records(self, count: int) -> list[Event]:
        return [mismatch(self.offset + 40 * n, value=float(n)) for n in range(count)]

    def tail(self, after: Tail, **more: object) -> Tail:
        return self.reader.tail(after.position, **more)  # type: ignore[arg-type]


def make_world(workspace: Path) -> Iterator[World]:
    writer = Writer.open(StoreLayout.find(workspace))
    cursors: list[object] = []

    def connect() -> object:
        cursors.append(writer.reader_cursor())
        return cursors[-1]

    server = LiveServer(connect, writer.layout, limits=LIMITS, progress=writer.progress)  # type: ignore[arg-type]
    server.start()
    reader = HttpReader.of(writer.layout.daemon_file)
    made = World(writer, server, reader, cursors=cursors)
    made.commit(*made.records(3))  # the run and its place are known from here on
    yield made
    reader.close()
    server.stop()
    writer.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from make_world(tmp_path)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For tests that only ask."""
    yield from make_world(tmp_path_factory.mktemp("still"))


def rec_ids(tail: Tail) -> list[int]:
    at = tail.columns.index("rec_id")
    return [row[at] for row in tail.rows]


def test_rows_are_those_of_the_view_and_each_comes_once(world: World) -> None:
    start = world.reader.tail()
    assert (start.rows, start.missed) == ((), 0)
    seen: list[tuple[object, ...]] = []
    after = start
    for count in (1, 4, 0, 2):
        world.commit(*world.records(count))
        after = world.tail(after, wait_s=5)
        seen += after.rows
        assert after.missed == 0
    told = world.reader.query("SELECT * FROM mismatches WHERE rec_id > 3 ORDER BY rec_id")
    assert after.columns == told.columns
    assert seen == told.rows
    assert len(seen) == 7


def test_the_position_changes_with_every_commit_and_the_standing_only_with_a_reason(world: World) -> None:
    first = world.reader.tail()
    world.commit()
    second = world.tail(first)
    assert second.position != first.position
    assert second.standing == first.standing
    assert world.tail(second).position == second.position


def test_what_changes_the_standing(world: World) -> None:
    def changes(what: str, *events: Event, **more: object) -> None:
        before = world.reader.tail()
        world.commit(*events, **more)  # type: ignore[arg-type]
        assert world.tail(before).standing != before.standing, what

    mark = MarkRow("m1", "r1", None, "run", "", "inconclusive", "why", "me", NOON, "h")
    changes("a fault", fault(world.offset))
    changes("a mark", marks=[mark])
    changes("an attempt", attempts=[AttemptRow("a1", "r1", "now", None, "", "me", NOON, "h")])
    world.commit(provisional=(mismatch(world.offset),))
    changes("a provisional record that is none any more")
    before = world.reader.tail()
    world.server.note(world.writer.progress)
    assert world.tail(before).standing == before.standing


def test_rows_under_one_standing_read_as_the_view_says_then(world: World) -> None:
    start = world.reader.tail()
    world.commit(*world.records(2))
    held = world.tail(start)
    at = held.columns.index("admissibility")
    assert [row[at] for row in held.rows] == ["admissible"] * 2
    world.commit(fault(held.rows[0][held.columns.index("byte_offset")]))
    again = world.tail(start)  # who is behind does not get what is known to be wrong
    assert [row[at] for row in again.rows] == [
        row[0]
        for row in world.reader.query("SELECT admissibility FROM mismatches WHERE rec_id > 3 ORDER BY rec_id").rows
    ]
    assert again.rows[1][at] == "locked"
    assert again.standing != held.standing


def test_a_provisional_row_is_followed_by_the_final_one_of_its_place(world: World) -> None:
    start = world.reader.tail()
    line = mismatch(world.offset, value=1.5)
    world.commit(provisional=(line,))
    held = world.tail(start)
    world.commit(line)
    final = world.tail(held)

    def key(tail: Tail) -> list[tuple[object, ...]]:
        named = [tail.columns.index(name) for name in ("store_id", "source_id", "generation", "byte_offset")]
        return [tuple(row[at] for at in named) for row in tail.rows]

    assert key(held) == key(final) and len(key(final)) == 1
    flag = held.columns.index("provisional")
    assert (held.rows[0][flag], final.rows[0][flag]) == (True, False)
    assert final.standing == held.standing  # nobody need read anything again


def test_who_falls_behind_gets_the_newest_and_hears_what_was_missed(world: World) -> None:
    start = world.reader.tail()
    for _ in range(10):
        world.commit(*world.records(12))
    newest = world.reader.query("SELECT max(rec_id) FROM mismatches").rows[0][0]
    got = world.tail(start, limit=20)
    assert rec_ids(got) == list(range(newest - 19, newest + 1))
    assert got.missed == 100
    got = world.tail(start, limit=1000)  # the ring holds 50 here
    assert rec_ids(got) == list(range(newest - 49, newest + 1))
    assert got.missed == 70
    none = world.tail(start, limit=0)
    assert (none.rows, none.missed, none.position) == ((), 120, got.position)


def test_a_poll_waits_for_a_commit_and_no_longer_than_asked(world: World) -> None:
    after = world.reader.tail()
    began = time.monotonic()
    empty = world.tail(after, wait_s=0.3)
    assert 0.3 <= time.monotonic() - began < 30
    assert empty.position == after.position
    timer = threading.Timer(0.3, world.commit, world.records(1))
    timer.start()
    began = time.monotonic()
    got = world.tail(after, wait_s=30)
    assert time.monotonic() - began < 10
    assert len(got.rows) == 1
    timer.join()


def test_a_poll_that_waits_takes_no_place_and_blocks_no_query_of_its_reader(world: World) -> None:
    after = world.reader.tail()
    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(HttpReader.of(world.writer.layout.daemon_file).tail, after.position, wait_s=30)
            for _ in range(7)
        ]
        waiting.append(pool.submit(world.tail, after, wait_s=30))
        time.sleep(0.3)
        threads = threading.active_count()
        assert queries_running() == 0
        assert world.reader.query("SELECT 1").rows == [(1,)]
        assert threading.active_count() <= threads + 1
        cursors = len(world.cursors)
        world.commit(*world.records(2))
        got = [future.result(10) for future in waiting]
    assert [len(tail.rows) for tail in got] == [2] * 8
    assert len(world.cursors) == cursors + 1  # one reading for all of them


def test_nobody_who_tails_costs_no_reading(world: World) -> None:
    before = len(world.cursors)
    for _ in range(20):
        world.commit(*world.records(1))
    time.sleep(0.1)
    assert len(world.cursors) == before


def test_interrupt_and_close_end_a_wait(world: World) -> None:
    after = world.reader.tail()
    threading.Timer(0.3, world.reader.interrupt).start()
    began = time.monotonic()
    ended = world.tail(after, wait_s=60)
    assert time.monotonic() - began < 30
    assert (ended.position, ended.standing, ended.rows) == (after.position, after.standing, ())
    assert world.tail(after).position == after.position
    threading.Timer(0.3, world.reader.close).start()
    with pytest.raises(ConnectError, match="closed"):
        world.tail(after, wait_s=60)
    with pytest.raises(StoreError, match="closed"):
        world.tail(after)


def test_a_daemon_that_was_started_anew_is_found_and_its_positions_are_its_own(world: World) -> None:
    after = world.reader.tail()
    world.server.stop()
    with pytest.raises((ConnectError, StoreError)):
        world.tail(after)
    world.server = LiveServer(world.writer.reader_cursor, world.writer.layout, progress=world.writer.progress)
    world.server.start()
    anew = world.tail(after)
    assert anew.rows == ()
    assert anew.position != after.position
    assert anew.standing != after.standing
    world.commit(*world.records(1))
    assert len(world.tail(anew).rows) == 1


def test_stop_ends_a_wait(world: World) -> None:
    after = world.reader.tail()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(world.tail, after, wait_s=60)
        time.sleep(0.3)
        began = time.monotonic()
        world.server.stop()
        assert time.monotonic() - began < 30
        with pytest.raises((ConnectError, StoreError)):
            waiting.result(5)


# --- over the wire ---------------------------------------------------------------------------------------------------


def get(world: World, query: str, accept: str = "application/json", **headers: str) -> Reply:
    named = {"Authorization": f"Bearer {world.server.token}", "Accept": accept, **headers}
    return Client(world.server).raw("GET", f"/tail{query}", None, named)


def test_both_forms(world: World) -> None:
    start = get(world, "").json
    assert start["rows"] == [] and start["missed"] == 0 and "admissibility" in start["columns"]
    world.commit(*world.records(2))
    told = get(world, f"?after={start['position']}").json
    reply = get(world, f"?after={start['position']}", "*/*")
    assert told["position"] == reply.headers["x-tic-position"]
    assert told["standing"] == reply.headers["x-tic-standing"]
    assert str(told["missed"]) == reply.headers["x-tic-missed"]
    table = pa.ipc.open_stream(reply.body).read_all()
    at = told["columns"].index("rec_id")
    assert table.column("rec_id").to_pylist() == [row[at] for row in told["rows"]] == [4, 5]


@pytest.mark.parametrize(
    "query",
    [
        "?wait=x", "?wait=-1", "?wait=nan", "?wait=1e999", "?wait=1&wait=2", "?limit=-1", "?limit=1.5", "?limit=",
        "?limit=%00", "?limit=%D9%A3", "?limit=" + "9" * 30, "?after=" + "x" * 2000, "?unknown=1", "?after=1&after=2",
    ],
)  # fmt: skip
def test_fields_that_are_none(still: World, query: str) -> None:
    reply = get(still, query)
    assert reply.status == 400, reply.body
    assert reply.json["error"]


@pytest.mark.parametrize(
    "after",
    ["0", "%00", "----", "{id}-1-1-1", "{id}-1-1-1-x", "{id}-999999-1-1-1", "{id}-1-999999-1-1", "{id}--1-1-1-1",
     "{id}-1-1-999999-1", "00000000-1-1-1-1", "{id}-" + "9" * 300 + "-1-1-1", "%ff%fe", "'; DROP TABLE mismatch; --"],
)  # fmt: skip
def test_positions_that_are_none_get_the_present_one(still: World, after: str) -> None:
    now = get(still, "").json
    name = now["position"].partition("-")[0]
    text = after.replace("{id}", name).replace(" ", "%20").replace(";", "%3B").replace("'", "%27")
    told = get(still, f"?wait=30&after={text}").json
    assert (told["position"], told["rows"]) == (now["position"], [])


def test_the_token_is_asked_for(still: World) -> None:
    assert get(still, "?wait=30", Authorization="Bearer wrong").status == 401


def test_too_many_waits_are_refused_politely_and_those_who_vanish_give_their_place_back(world: World) -> None:
    position = world.reader.tail().position
    head = f"GET /tail?wait=60&after={position} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {world.server.token}\r\n\r\n"

    def connect() -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", Client(world.server).port), timeout=10)
        sock.sendall(head.encode())
        return sock

    for _ in range(2):
        waiting = [connect() for _ in range(LIMITS.waiting)]
        time.sleep(0.3)
        with connect() as refused:
            answer = refused.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503") and b"retry-after" in answer.lower()
        assert world.reader.query("SELECT 1").rows == [(1,)]
        for sock in waiting:
            sock.close()
        soon(lambda: get(world, f"?wait=0.01&after={position}").status == 200, 5.0)


def test_beyond_the_connections_the_answer_is_a_503(world: World) -> None:
    position = world.reader.tail().position
    port = Client(world.server).port
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(LIMITS.connections)]
    time.sleep(0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as extra:
        extra.sendall(f"GET /tail?after={position} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while piece := extra.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 503")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    for sock in idle:
        sock.close()


def test_a_busy_daemon_says_so_to_a_poll_that_needs_a_reading(world: World) -> None:
    after = world.reader.tail()
    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(Client(world.server).sql, ENDLESS, timeout_s=1.5) for _ in range(2)]
        soon(lambda: queries_running() == 2, 5.0)
        assert world.tail(after, limit=0).position == after.position  # needs none
        world.commit(*world.records(1))
        assert len(world.tail(after).rows) == 1  # waits for a place
        assert [future.result().status for future in busy] == [408, 408]
