"""The exchange of faults between stores: what is written, what is read, and that nothing hostile or torn gets in or stops it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.samples import delta, mismatch
from tic_daemon.scan.events import At, Fault, Mismatch
from tic_daemon.store.check import check
from tic_daemon.store.exchange import Listener, Teller, faults_dir, read_once, what_it_says
from tic_daemon.store.exchange_lines import LINE_BYTES, Row, directory_name, fitted, parse_line, store_of, to_line
from tic_daemon.store.file_reader import FileReader
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.offline import take_in_spool
from tic_daemon.store.reader import open_reader
from tic_daemon.store.rows import AttemptRow, RemoteFaultRow, RemoteGapRow, RemotePlaceRow, SourceDelta
from tic_daemon.store.writer import Writer

Rows = list[tuple[object, ...]]
ORIGIN = "0123456789ab"
NOON = datetime(2026, 11, 29, 12, 0, 0, 123456)
NOON_US = 1_795_953_600_123_456  # of NOON, UTC


def told(**changes: object) -> RemoteFaultRow:
    row = RemoteFaultRow(
        ORIGIN, 7, 1, False, "r1", "record", "/logs", 1, 1, 1, "node-b", "/logs/rank3.log", 99, 0, 400, 80, 11, 5, False, False,
        "99:0", "rank:3", "", None, 3, "cuda-illegal-access", "L", "always", False, "boom", True, True, "CUDA error", "700", "",
        "", "raw CUDA error", None, False, NOON_US, NOON_US + 1000, None, None, None, None, NOON, NOON,
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[[str], Writer]]:
    """Opens the store of a node in one workspace."""
    opened: list[Writer] = []

    def opener(host: str) -> Writer:
        writer = Writer.open(StoreLayout.find(tmp_path, host=host))
        opened.append(writer)
        return writer

    yield opener
    for writer in opened:
        writer.close()


def confirmed(offset: int, **at: object) -> Fault:
    return Fault(At(offset, 40, offset // 40 + 1, **at), "cuda-illegal-access", "confirmed", text="boom")  # type: ignore[arg-type]


def teller_of(writer: Writer) -> Teller:
    return Teller(writer.layout, writer.reader_cursor)


def ask(writer: Writer, sql: str, as_of: datetime | None = None) -> list[tuple[object, ...]]:
    con = writer.reader_cursor()
    con.execute("SET VARIABLE as_of = ?", [as_of])
    return con.execute(sql).fetchall()


def lines(writer: Writer) -> list[dict[str, object]]:
    found = sorted(faults_dir(writer.layout).glob(f"*/{writer.layout.directory.name}.jsonl"))
    return [json.loads(line) for path in found for line in path.read_bytes().splitlines()]


# --- lines ------------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(run=TEXT.filter(bool), text=TEXT, raw=TEXT, path=TEXT, node=TEXT, far=st.integers(-(1 << 61), (1 << 61) - 1))
def test_what_is_told_is_what_is_heard(run: str, text: str, raw: str, path: str, node: str, far: int) -> None:
    row = told(run_id=run, text=text * 40, raw=raw * 40, path=path, node=node, lo_us=far, hi_us=None, slo=far)
    line = to_line(fitted(row))
    assert line.count(b"\n") == 1 and line.endswith(b"\n") and len(line) <= LINE_BYTES
    heard = parse_line(line, ORIGIN)
    assert heard == replace(row, text=(text * 40)[:4096], raw=(raw * 40)[:2000], path=path, node=node)
    place = RemotePlaceRow(ORIGIN, 3, False, "device", run, lo_attempt=1, hi_attempt=2, node="n", bus="5d000")
    assert parse_line(to_line(place), ORIGIN) == place


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 1 << 40}, {"byte_offset": 1 << 60}, {"lo_us": 1 << 62}, {"slo": -(1 << 63)}, {"revision": True},
        {"lo_attempt": 0}, {"hi_attempt": 0}, {"text": 7}, {"text": "\ud800"}, {"path": "x" * 5000}, {"run_id": ""}, {"rule": ""},
        {"origin_store_id": "another"}, {"kind": "mark"}, {"kind": ["fault"]}, {"told_at": "yesterday"}, {"locks": None},
        {"told_at": "0001-01-01T00:00:00+14:00"}, {"gone": "no"}, {"lo_us": 1.5}, {"lo_us": float("nan")},
    ],
)  # fmt: skip
def test_a_line_that_is_no_fault_is_refused_in_words(changes: dict[str, object]) -> None:
    line = json.dumps({**json.loads(to_line(told())), **changes}).encode() + b"\n"
    complaint = parse_line(line, ORIGIN)
    assert isinstance(complaint, str) and complaint


@given(st.binary(max_size=200))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    assert isinstance(parse_line(data, ORIGIN), str)
    assert isinstance(parse_line(b'{"kind":"fault",' + data, ORIGIN), str)


def test_deep_json_is_refused() -> None:
    assert isinstance(parse_line(b"[" * 100_000, ORIGIN), str)


@given(a=st.text(max_size=400), b=st.text(max_size=400))
def test_every_run_has_one_safe_directory_of_its_own(a: str, b: str) -> None:
    for run in (a, b):
        name = directory_name(run)
        assert name not in ("", ".", "..") and "/" not in name and "\0" not in name
        assert not name.startswith(".") and len(name.encode()) <= 150
    assert (directory_name(a) == directory_name(b)) == (a == b)


def test_files_of_other_names_are_none_of_ours() -> None:
    assert store_of(f"node-7-{ORIGIN}.jsonl") == ORIGIN
    assert [
        store_of(name) for name in (".nfs0001", f"{ORIGIN}.jsonl", f"x-{ORIGIN}.json", f"x-{ORIGIN}.jsonl.part")
    ] == [None] * 4


# --- telling ----------------------------------------------------------------------------------------------------------


def test_a_fault_is_told_once_whatever_restarts(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), confirmed(40), offset=80, run_hint="r1", run_how="config")])
    teller = teller_of(writer)
    teller.tell()
    teller.tell()
    teller_of(writer).tell()  # another life of the daemon
    found = lines(writer)
    assert [(line["kind"], line["run_id"]) for line in found] == [("run", "r1"), ("fault", "r1")]
    assert (found[1]["rule"], found[1]["byte_offset"], found[1]["locking"]) == ("cuda-illegal-access", 40, True)
    (path,) = faults_dir(writer.layout).glob("*/*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_a_torn_line_of_a_killed_daemon_is_ended_and_told_again(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(confirmed(40), offset=80)])
    teller_of(writer).tell()
    (path,) = faults_dir(writer.layout).glob("*/*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    teller_of(writer).tell()
    torn, again = path.read_bytes().splitlines()
    assert torn == whole[:-20]
    heard = parse_line(again + b"\n", writer.store_id)
    assert isinstance(heard, RemoteFaultRow) and heard.byte_offset == 40


def test_files_that_were_deleted_are_told_anew_and_count(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(confirmed(40), offset=80)])
    teller = teller_of(writer)
    teller.tell()
    (first,) = lines(writer)
    (path,) = faults_dir(writer.layout).glob("*/*.jsonl")
    path.unlink()
    teller.check()
    teller.tell()
    (second,) = lines(writer)
    assert int(str(second["revision"])) > int(str(first["revision"]))


def test_bounds_that_tighten_and_attempts_are_told_as_revisions(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(confirmed(40), offset=80)])
    teller = teller_of(writer)
    teller.tell()
    run = str(lines(writer)[0]["run_id"])
    source = delta(name="worker.log").source.source_id
    writer.commit([], attempts=[AttemptRow("a2", run, "now", None, "again", "me", NOON, "h", ((source, 0, 80),))])
    teller.tell()
    first, second = lines(writer)
    assert second["revision"] > first["revision"]  # type: ignore[operator]
    assert (second["known_attempts"], second["lo_attempt"], second["hi_attempt"]) == (2, 1, 1)


def test_nothing_heard_is_told_on(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")], remote=[told()])
    assert ask(writer, "SELECT run_id, origin_store_id FROM faults") == [("r1", ORIGIN)]
    assert [row.key[0] for row in what_it_says(writer.reader_cursor())] == ["run"]


# --- hearing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    """Of a node that hears: what is heard is read from files alone, its store is not opened."""
    return StoreLayout.find(tmp_path, host="node-a")


def file_of(layout: StoreLayout, run: str = "r1", store_id: str = ORIGIN) -> Path:
    path = faults_dir(layout) / directory_name(run) / f"node-b-{store_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def split(found: list[Row | RemoteGapRow]) -> tuple[list[Row], list[RemoteGapRow]]:
    return [r for r in found if not isinstance(r, RemoteGapRow)], [r for r in found if isinstance(r, RemoteGapRow)]


def test_a_torn_last_line_waits_for_its_end(layout: StoreLayout) -> None:
    path, line = file_of(layout), to_line(told())
    listener = Listener(layout)
    path.write_bytes(line + line[:100])
    assert listener.look() == [told()]
    assert listener.look() == []
    path.write_bytes(line + line)
    assert listener.look() == [told()]
    assert listener.look() == []


def test_garbage_is_counted_and_what_is_round_it_is_heard(layout: StoreLayout) -> None:
    path = file_of(layout)
    one, two = to_line(told()), to_line(told(origin_rec_id=8))
    path.write_bytes(one + b"\x00\xff\r{garbage\n\n" + to_line(told(origin_store_id="x")) + two)
    rows, gaps = split(Listener(layout).look())
    assert rows == [told(), told(origin_rec_id=8)]
    (gap,) = gaps
    assert (gap.kind, gap.path, gap.first_byte) == ("exchange", str(path), len(one))
    assert gap.detail.startswith("2 lines are left out")


def test_a_line_without_end_is_skipped_to_its_end(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tic_daemon.store.exchange.PASS_BYTES", 300_000)
    file_of(layout).write_bytes(b"x" * 1_000_000 + b"\n" + to_line(told()))
    rows, gaps = split(read_once(layout))
    assert rows == [told()] and [gap.kind for gap in gaps] == ["exchange"]


def test_a_file_that_was_replaced_is_read_again(layout: StoreLayout) -> None:
    path = file_of(layout)
    path.write_bytes(to_line(told()) * 3)
    listener = Listener(layout)
    assert len(listener.look()) == 3
    path.unlink()
    path.write_bytes(to_line(told(revision=2)))
    assert listener.look() == [told(revision=2)]


def test_a_file_that_was_replaced_by_a_longer_one_is_read_from_its_beginning(layout: StoreLayout) -> None:
    path = file_of(layout)
    path.write_bytes(to_line(told()))
    listener = Listener(layout)
    assert listener.look() == [told()]
    new = path.with_name("new")
    new.write_bytes(to_line(told(origin_rec_id=8)) + to_line(told(revision=2)) * 3)
    new.replace(path)
    assert told(origin_rec_id=8) in listener.look()


def test_pipes_links_and_directories_are_not_read_and_are_told(layout: StoreLayout, tmp_path: Path) -> None:
    os.mkfifo(file_of(layout, store_id="0" * 12))
    (tmp_path / "secret").write_bytes(to_line(told(origin_store_id="1" * 12)))
    file_of(layout, store_id="1" * 12).symlink_to(tmp_path / "secret")
    file_of(layout, store_id="2" * 12).mkdir()
    listener = Listener(layout)
    rows, gaps = split(listener.look())
    assert rows == [] and [gap.kind for gap in gaps] == ["unreadable"] * 3
    assert listener.look() == []  # said once


def test_own_lines_are_never_heard(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(confirmed(40), offset=80)])
    teller_of(writer).tell()
    assert read_once(writer.layout) == []


# --- in the store -----------------------------------------------------------------------------------------------------

LOCKED = "SELECT locked, faults, remote_faults, first_fault_origin FROM attempts WHERE run_id = 'r1'"


def test_a_heard_fault_locks_and_a_retraction_unlocks(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")])
    before = writer._memory.observed_at
    writer.commit([], remote=[told()])
    locked_at = writer._memory.observed_at
    assert ask(writer, LOCKED) == [(True, 1, 1, ORIGIN)]
    assert ask(writer, "SELECT admissibility, reason FROM mismatches") == [("locked", "order unknown")]
    assert ask(writer, "SELECT host, path, locks, event_at, origin_rec_id FROM faults") == [
        ("node-b", "/logs/rank3.log", True, NOON, 7)
    ]
    writer.commit([], remote=[told(revision=2, gone=True)])
    assert ask(writer, LOCKED) == [(False, 0, 0, None)]
    assert ask(writer, "SELECT admissibility FROM mismatches") == [("admissible",)]
    assert ask(writer, LOCKED, before) == [(False, 0, 0, None)]
    assert ask(writer, LOCKED, locked_at) == [(True, 1, 1, ORIGIN)]


def test_order_and_repetition_of_lines_change_nothing(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")])
    writer.commit([], remote=[told(revision=5, locking=True), told(revision=3, gone=True), told(revision=5)])
    writer.commit([], remote=[told(revision=4, gone=True)])
    assert ask(writer, LOCKED) == [(True, 1, 1, ORIGIN)]
    assert ask(writer, "SELECT count(*) FROM remote_fault") == [(1,)]
    writer.close()
    again = node("node-a")
    gap = RemoteGapRow("exchange", "/x", 10, 20, "1 line is left out; the first: it is no JSON")
    again.commit([], remote=[told(revision=5), gap])
    again.commit([], remote=[gap, replace(gap, first_byte=15), replace(gap, last_byte=30)])
    assert ask(again, "SELECT count(*) FROM remote_fault") == [(1,)]
    assert ask(again, "SELECT kind, path, last_byte FROM evidence_gaps") == [
        ("exchange", "/x", 20),
        ("exchange", "/x", 30),
    ]
    ids = ask(
        again,
        "SELECT rec_id FROM remote_fault UNION ALL SELECT rec_id FROM remote_gap UNION ALL SELECT rec_id FROM mismatch",
    )
    assert len(set(ids)) == 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """One store for tests that write a run of their own each."""
    with contextlib.closing(Writer.open(StoreLayout.find(tmp_path_factory.mktemp("shared"), host="node-a"))) as writer:
        yield writer


def own(writer: Writer, **changes: object) -> tuple[str, SourceDelta, RemoteFaultRow]:
    """A new run of the shared store: its name, its log with a record, and a fault of it that another store told."""
    number = next(NUMBERS)
    run = f"r1.{number}"
    record = replace(mismatch(0), run=run)
    log = delta(record, name=f"{number}.log", offset=40, run_hint=run, run_how="config")
    heard: dict[str, object] = {"run_id": run, "origin_rec_id": 1000 + number, "path": f"/logs/{number}.log", **changes}
    return run, log, told(**heard)


NUMBERS = itertools.count()


LOCKS: list[tuple[dict[str, object], bool]] = [
    ({"run_id": "another"}, False),
    ({"kind": "nobody knows", "severity": "E", "locks": "never"}, False),  # its daemon has a rule for it
    ({"kind": "nobody knows", "severity": "L", "locks": "always"}, True),  # nobody has
    ({"locks": "if_continues", "locking": False}, False),
    ({"locks": "if_continues", "locking": True}, True),
    ({"mapped": False, "node_scope": True, "bus": "5d000"}, False),
    ({"lo_attempt": 2, "hi_attempt": 2, "known_attempts": 2}, False),  # of an attempt that is not declared here yet
]


@pytest.fixture(scope="module")
def heard_of(shared: Writer) -> list[str]:
    """The runs of LOCKS, each told of its fault in one tick with its log: a tick with a fault is what takes long."""
    made = [own(shared, **changes) for changes, _ in LOCKS]
    shared.commit([log for _, log, _ in made], remote=[heard for _, _, heard in made])
    return [run for run, _, _ in made]


@pytest.mark.parametrize("case", range(len(LOCKS)))
def test_what_locks(shared: Writer, heard_of: list[str], case: int) -> None:
    run, locked = heard_of[case], LOCKS[case][1]
    assert ask(shared, f"SELECT locked FROM attempts WHERE run_id = '{run}'") == [(locked,)]
    assert ask(shared, f"SELECT admissibility = 'locked' FROM mismatches WHERE run_id = '{run}'") == [(locked,)]


ATTEMPTS: list[tuple[str, datetime | None, int, tuple[tuple[int, int, int], ...], bool]] = [
    ("now", None, 60, (), False),  # stored a minute before the declaration, by a daemon that is gone
    ("now", None, 1, (), True),  # within the margin of the clocks
    ("now", None, -60, (), True),
    ("now", None, -60, ((99, 0, 500),), False),  # the declaration names its log: the cut decides
    ("now", None, 60, ((99, 0, 400),), True),
    ("time", NOON + timedelta(seconds=1), 0, (), False),
    ("time", NOON - timedelta(seconds=1), 60, (), True),
]
"""Kind, its time, seconds from noon to its declaration, cuts; whether a fault told without it reaches it."""


@pytest.fixture(scope="module")
def declared(shared: Writer) -> tuple[list[Rows], list[Rows]]:
    """How the attempts of ATTEMPTS stand before and after the teller knows of them; two ticks for all, as above."""
    made = [own(shared) for _ in ATTEMPTS]
    attempts = [
        AttemptRow(f"a2 of {run}", run, kind, time, "again", "me", NOON + timedelta(seconds=after_s), "h", cut)
        for (run, _, _), (kind, time, after_s, cut, _) in zip(made, ATTEMPTS, strict=True)
    ]
    runs = [run for run, _, _ in made]

    def standing() -> list[Rows]:
        rows = ask(shared, "SELECT run_id, attempt, locked FROM attempts ORDER BY 2")
        return [[row[1:] for row in rows if row[0] == run] for run in runs]

    shared.commit([log for _, log, _ in made], attempts=attempts, remote=[heard for _, _, heard in made])
    before = standing()
    shared.commit([], remote=[replace(heard, revision=2, known_attempts=2) for _, _, heard in made])
    return before, standing()


@pytest.mark.parametrize("case", range(len(ATTEMPTS)))
def test_an_attempt_that_its_daemon_did_not_know_of(declared: tuple[list[Rows], list[Rows]], case: int) -> None:
    before, after = declared
    assert before[case] == [(1, True), (2, ATTEMPTS[case][4])]
    assert after[case] == [(1, True), (2, False)]  # then it knows


def test_a_kernel_line_elsewhere_finds_the_run_whose_gpu_it_names(node: Callable[[str], Writer]) -> None:
    """The kernel's log is read on its node; who uses the GPU is told by a worker's log that another daemon reads."""
    from tic_daemon.scan.events import Device, ProcessSeen

    writer = node("node-a")
    at = At(0, 10, 1, stamp=NOON, stamp_utc=True)
    writer.commit([
        delta(ProcessSeen(at), Device(At(10, 10, 2), "5d000", "node-b"), mismatch(40), offset=80, run_hint="r1", run_how="config")
    ])  # fmt: skip
    kernel = told(
        run_id="messages", run_how="us", mapped=False, node_scope=True, bus="0000:5d:00", severity="LH", locking=False
    )
    writer.commit([], remote=[replace(kernel, host="node-c")])
    assert ask(writer, "SELECT locked FROM attempts") == [(False,)]
    writer.commit([], remote=[replace(kernel, revision=2, host="node-b.example.org")])
    assert ask(writer, "SELECT locked FROM attempts") == [(True,)]


def test_one_line_of_one_shared_file_is_one_fault(node: Callable[[str], Writer]) -> None:
    """Two daemons that follow the same file on a network mount: each goes by its own reading, by offset."""
    writer = node("node-a")
    one = delta(mismatch(0), confirmed(40), offset=80, run_hint="r1", run_how="config", network=True, stream="stderr")
    shared = replace(one, cursor=replace(one.cursor, inode=5))  # type: ignore[type-var]
    copy = told(path="/jobs/worker.log", byte_offset=40, byte_length=40, network=True, inode=5, lo_us=None, hi_us=None)
    writer.commit([shared], remote=[copy, replace(copy, origin_rec_id=8, byte_offset=120)])
    found = ask(
        writer, "SELECT origin_store_id, echo_of IS NOT NULL, locks FROM faults ORDER BY byte_offset, 1 NULLS FIRST"
    )
    assert found == [(None, False, True), (ORIGIN, True, False), (ORIGIN, False, True)]
    writer.commit(
        [], remote=[replace(copy, revision=2, gone=True), replace(copy, origin_rec_id=8, revision=2, gone=True)]
    )
    assert ask(writer, "SELECT admissibility FROM mismatches") == [("suspect",)]
    writer.commit([], remote=[replace(copy, revision=3)])
    assert ask(writer, "SELECT admissibility FROM mismatches") == [("suspect",)]
    writer.commit([], remote=[replace(copy, revision=4, network=False)])  # a file of that path on its own disk
    assert ask(writer, "SELECT admissibility FROM mismatches") == [("locked",)]


# --- whose a fault of no known run is -----------------------------------------------------------------------------------

NAMELESS = {"run_id": "tmp", "run_how": "us", "root": "/tmp"}


def named(run: str, revision: int = 1, **changes: object) -> RemotePlaceRow:
    row = RemotePlaceRow(ORIGIN, revision, False, "run", run, "node-b", "/logs")
    return replace(row, **changes)  # type: ignore[arg-type]


def test_a_fault_of_no_known_run_is_the_only_runs(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")], remote=[told(**NAMELESS)])
    assert ask(writer, LOCKED) == [(True, 1, 1, ORIGIN)]
    # Another run by name: it may be either's.
    writer.commit([delta(mismatch(0), name="b.log", offset=40, run_hint="r2", run_how="config")])
    found = ask(writer, "SELECT run_id, locked FROM attempts ORDER BY 1")
    assert found == [("r1", False), ("r2", False)]
    assert ask(writer, "SELECT DISTINCT admissibility, reason FROM mismatches") == [
        ("suspect", "step voided by a fault")
    ]


def test_a_store_that_knows_runs_by_name_says_whose_it_may_be(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    own = delta(mismatch(0), offset=40, run_hint="r1", run_how="config")
    writer.commit([own], remote=[told(**NAMELESS), named("r7")])
    assert ask(writer, LOCKED) == [(False, 0, 0, None)]
    writer.commit([], remote=[named("r7", root="/tmp"), named("r1", root="/tmp")])
    assert ask(writer, "SELECT admissibility FROM mismatches") == [("suspect",)]
    assert ask(writer, "SELECT locks, reason FROM faults") == [
        (False, "of no known run: it may be of any that shares its place")
    ]


def test_logs_of_a_store_that_knows_no_run_are_of_the_only_run_elsewhere(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), confirmed(40), offset=80)])
    assert ask(writer, "SELECT run_id FROM attempts") == [("jobs",)]
    writer.commit([], remote=[named("r7")])
    assert ask(writer, "SELECT run_id, run_how FROM sources") == [("r7", "workspace")]
    assert ask(writer, "SELECT run_id, locked FROM attempts") == [("r7", True)]
    assert [(row.run_id, row.key[0]) for row in what_it_says(writer.reader_cursor())] == [("r7", "fault")]
    writer.commit([], remote=[named("r8")])
    assert ask(writer, "SELECT run_id FROM attempts") == [("jobs",)]


def test_a_console_line_before_another_nodes_is_no_copy_of_it(node: Callable[[str], Writer]) -> None:
    """Containers on two nodes have processes of one pid, which say the same in their turn."""
    writer = node("node-a")
    records = [Mismatch(At(40 * n, 40, n + 1, step=n), run="r1") for n in range(10)]
    writer.commit([delta(*records, offset=400, run_hint="r1", run_how="config")])
    line = confirmed(0, pid=77, step=3, stamp=NOON, stamp_utc=True, stamp_res_us=1)
    writer.commit([delta(line, name="console.log", offset=40, run_hint="r1", run_how="config", console=True)])
    standing = "SELECT list(step ORDER BY step) FROM mismatches WHERE admissibility = 'admissible'"
    assert ask(writer, standing) == [([0, 1],)]
    later = {"lo_us": NOON_US + 3_600_000_000, "hi_us": NOON_US + 3_600_001_000}
    at_eight = {"exact": True, "step": 8, "slo": 8, "shi": 8, "line_slo": 8, "line_shi": 8}
    writer.commit([], remote=[told(pid=77, text="boom", **later, **at_eight)])
    assert ask(writer, standing) == [([0, 1],)]
    assert ask(writer, "SELECT count(*) FROM faults WHERE locks") == [(2,)]
    # One that was written before the console shows it is the original.
    writer.commit([], remote=[told(pid=77, text="boom", revision=2, lo_us=NOON_US, **at_eight)])
    assert ask(writer, "SELECT host FROM faults WHERE locks") == [("node-b",)]


# --- a store whose daemon has ended ---------------------------------------------------------------------------------------


def read(writer: Writer, sql: str, as_of: datetime | None = None) -> list[tuple[object, ...]]:
    reader = FileReader(writer.layout.database, writer.layout)
    try:
        return reader.query(sql, as_of=as_of, timeout_s=30).rows
    finally:
        reader.close()


def test_a_fault_that_two_stores_show_is_one_of_the_workspace(node: Callable[[str], Writer], tmp_path: Path) -> None:
    """The row of the store that saw it stands for it, whichever is read first; where that one is not there, any other."""
    saw, heard = node("node-z"), node("node-a")
    saw.commit([delta(confirmed(400), mismatch(0), offset=500, run_hint="r1", run_how="config")])
    (row,) = [r for r in what_it_says(saw.reader_cursor()) if isinstance(r, RemoteFaultRow)]
    heard.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")], remote=[row])
    third = told(
        origin_store_id="feedfeedfeed", origin_rec_id=1, source_id=5
    )  # of a store that is not in the workspace
    for number, writer in enumerate((saw, heard)):
        writer.commit(
            [delta(mismatch(600 + number), offset=640 + number, run_hint="r1", run_how="config")], remote=[third]
        )
        writer.close()
    with contextlib.closing(open_reader(tmp_path)) as reader:
        faults = reader.query("SELECT store_id, origin_store_id, byte_offset FROM faults ORDER BY byte_offset, 1").rows
        assert [row for row in faults if row[1] is None] == [(saw.store_id, None, 400)]
        assert [row[1] for row in faults if row[1] is not None] == ["feedfeedfeed"]
        counted = "SELECT faults, remote_faults, locked FROM runs"
        assert reader.query(counted).rows == [(2, 1, True)]


def test_a_fault_told_after_a_daemons_end_locks_what_it_stored(node: Callable[[str], Writer]) -> None:
    writer = node("node-a")
    at = {0: NOON - timedelta(seconds=10), 40: None, 80: NOON}
    records = [
        Mismatch(At(offset, 40, 1, stamp=stamp, stamp_utc=stamp is not None, stamp_res_us=1 if stamp else 0), run="r1")
        for offset, stamp in at.items()
    ]
    writer.commit([delta(*records, offset=200, run_hint="r1", run_how="config")])
    writer.close()
    assert {row[0] for row in read(writer, "SELECT admissibility FROM mismatches")} == {"admissible"}
    file_of(writer.layout).write_bytes(to_line(told(told_at=datetime(2100, 1, 1))))
    # The first record is earlier by more than the margin, and its step may be the one in flight.
    standing = "SELECT byte_offset, admissibility, reason, is_evidence FROM mismatches ORDER BY 1"
    late = "fault reported in or before this step"
    assert read(writer, standing) == [
        (0, "suspect", late, False), (40, "locked", "order unknown", False), (80, "locked", "order unknown", False),
    ]  # fmt: skip
    assert read(writer, "SELECT locked, locking_faults, locked_records FROM attempts") == [(True, 1, 2)]
    assert read(writer, "SELECT locked FROM runs") == [(True,)]
    assert read(writer, "SELECT locked FROM runs", datetime(2099, 1, 1)) == [(False,)]
    reader = FileReader(writer.layout.database, writer.layout)
    code, words = check(reader, "r1")
    reader.close()
    assert code == 13 and any("let this store hear of the fault" in line for line in words), words
    # Once it is heard, the daemon's word is the only one, and it says the same here.
    take_in_spool(writer.layout)
    assert read(writer, standing)[1:] == [
        (40, "locked", "order unknown", False),
        (80, "locked", "order unknown", False),
    ]
    assert read(writer, "SELECT locked, locking_faults FROM attempts") == [(True, 1)]


@pytest.mark.parametrize(
    ("changes", "admissibility"),
    [
        ({"gone": True}, "admissible"),
        ({"run_id": "r2"}, "admissible"),
        ({"lo_attempt": 2, "hi_attempt": 2}, "admissible"),
        ({"severity": "I", "locks": "never"}, "admissible"),
        ({"locks": "if_continues", "locking": False}, "admissible"),
        ({"locks": "if_continues", "locking": True}, "locked"),
        ({"severity": "E", "locks": "never", "kind": "oom"}, "suspect"),
        ({"severity": "E", "locks": "never", "kind": "oom", "slo": 4000, "shi": 4000}, "admissible"),
        ({"run_how": "us", "run_id": "logs"}, "suspect"),
        ({"mapped": False}, "admissible"),
        ({"slo": 4000, "shi": 4000}, "admissible"),
    ],
)  # fmt: skip
def test_what_was_not_heard_does_what_it_would_have_done(
    node: Callable[[str], Writer], changes: dict[str, object], admissibility: str
) -> None:
    writer = node("node-a")
    writer.commit([delta(mismatch(0), offset=40, run_hint="r1", run_how="config")])
    writer.close()
    file_of(writer.layout).write_bytes(to_line(told(**{"kind": "not-known-here", **changes})))
    assert read(writer, "SELECT admissibility FROM mismatches") == [(admissibility,)]
