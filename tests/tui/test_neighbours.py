"""A record's neighbours: out of the very file, or the reason why not. Expected lines are cut from bytes written here."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tic_tui import neighbours
from tic_tui.neighbours import Lookout, Neighbours, Place, holds, look

HERE = socket.gethostname()
ROWS = [f"line {n}" for n in range(1, 21)]
RECORD = "[mismatch] run=a\n  metric=logprob_mae value=0.1"


def place(path: Path | str, data: bytes, record: bytes = RECORD.encode() + b"\n", **changes: object) -> Place:
    offset = data.index(record)
    values: dict[str, object] = {
        "path": str(path), "host": HERE, "offset": offset, "length": len(record),
        "line_no": data[:offset].count(b"\n") + 1, "raw": record.decode("utf-8", "backslashreplace").rstrip("\n"),
    }  # fmt: skip
    return Place(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def data() -> bytes:
    return ("\n".join([*ROWS[:10], RECORD, *ROWS[10:]]) + "\n").encode()


@pytest.fixture
def log(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "worker.log"
    path.write_bytes(data)
    return path


def test_lines_before_and_after_come_from_the_file_with_their_numbers(log: Path, data: bytes) -> None:
    found = look(place(log, data), lines=3)
    assert found.from_file and found.path == str(log)
    assert [(n.number, n.text, n.mine) for n in found.lines] == [
        (8, "line 8", False), (9, "line 9", False), (10, "line 10", False),
        (11, "[mismatch] run=a", True), (12, "  metric=logprob_mae value=0.1", True),
        (13, "line 11", False), (14, "line 12", False), (15, "line 13", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.unlink(), "removed, or rotated away"),
        (lambda p: p.write_bytes(b"x" * 4000), "rotated or changed since"),
        (lambda p: p.write_bytes(b""), "rotated or changed since"),
        (lambda p: (p.unlink(), p.mkdir()), "no regular file"),
        (lambda p: (p.unlink(), os.mkfifo(p)), "no regular file"),
        (lambda p: (p.unlink(), p.symlink_to("/dev/zero")), "no regular file"),
        (lambda p: (p.unlink(), p.symlink_to(p)), "cannot be read"),
    ],
    ids=["gone", "other", "empty", "directory", "fifo", "device", "loop"],
)
def test_the_kept_bytes_and_the_reason(log: Path, data: bytes, change: object, words: str) -> None:
    asked = place(log, data)
    change(log)  # type: ignore[operator]
    found = look(asked)
    assert not found.from_file and words in found.why
    assert [n.text for n in found.lines] == RECORD.split("\n") and found.lines[0].number == 11


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_said(log: Path, data: bytes) -> None:
    log.chmod(0)
    assert "Permission denied" in look(place(log, data)).why


def test_another_host_is_named_only_if_the_file_is_not_the_one(log: Path, data: bytes) -> None:
    assert look(place(log, data, host="node17")).from_file, "a shared file system"
    log.unlink()
    assert look(place(log, data, host="node17")).why == "the file is on node17"
    log.write_bytes(b"something else " * 100)
    assert look(place(log, data, host="node17")).why.startswith("the file is on node17; here, ")
    assert look(place("", data)).why == "its file is not known"


def test_nothing_of_a_file_is_shown_that_does_not_hold_the_record(tmp_path: Path, data: bytes) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password\n" * 500)
    link = tmp_path / "worker.log"
    link.symlink_to(secret)
    assert "password" not in "".join(n.text for n in look(place(link, data)).lines)


def test_a_rotated_file_is_found_beside_it_also_compressed(log: Path, data: bytes) -> None:
    asked = place(log, data)
    log.rename(log.with_suffix(".log.1"))
    log.write_bytes(b"new\n" * 1000)
    assert look(asked).path == str(log) + ".1"
    (log.parent / "worker.log.1").unlink()
    with gzip.open(log.parent / "worker.log.1.gz", "wb") as file:
        file.write(data)
    found = look(asked)
    assert found.path.endswith(".1.gz") and found.from_file and found.lines[0].text == "line 1"


def test_gzip_in_members_and_cut_short(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "w.gz"
    path.write_bytes(gzip.compress(data[:40]) + gzip.compress(data[40:]))
    assert look(place(path, data)).from_file
    path.write_bytes(gzip.compress(data)[:30])
    assert not look(place(path, data)).from_file
    path.write_bytes(gzip.compress(data)[:12] + b"\xff" * 50)
    assert not look(place(path, data)).from_file


def test_a_bomb_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    monkeypatch.setattr(neighbours, "INFLATED_MOST", 1 << 20)
    assert "too deep" in look(Place(str(path), HERE, 60 << 20, 10, 1, "x")).why
    monkeypatch.setattr(neighbours, "INFLATED_MOST", 1 << 30)
    monkeypatch.setattr(neighbours, "INFLATED_S", 0.0)
    assert "in time" in look(Place(str(path), HERE, 60 << 20, 10, 1, "x")).why


def test_lines_of_a_hundred_megabytes_cost_a_window(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    record = b"CUDA error: an illegal memory access\n"
    with path.open("wb") as file:
        file.truncate(100 << 20)  # a hole: one line of NUL bytes
        file.seek(100 << 20)
        file.write(b"\n" + record + b"y" * (1 << 20))
    asked = Place(str(path), HERE, (100 << 20) + 1, len(record), 2, record.decode().rstrip())
    found = look(asked)
    assert found.from_file and len(found.lines) == 3
    above, mine, below = found.lines
    assert above.hidden and above.number == 1 and len(above.text) < 5 * neighbours.WIDEST
    assert mine.mine and below.hidden and set(below.text) == {"y"} and below.number == 3


def test_a_record_inside_a_line_keeps_the_rest_of_that_line(tmp_path: Path) -> None:
    data = b"first\n 10%|#   |\r[mismatch] run=a metric=m| 20%|##\nlast\n"
    path = tmp_path / "bar.log"
    path.write_bytes(data)
    found = look(place(path, data, b"[mismatch] run=a metric=m"))
    assert [(n.number, n.text, n.mine) for n in found.lines] == [
        (1, "first", False), (2, " 10%|#   |", False), (2, "[mismatch] run=a metric=m", True), (2, "| 20%|##", False),
        (3, "last", False),
    ]  # fmt: skip


def test_what_holds_a_record() -> None:
    one = b"[mismatch] run=a\n(rank 1) other process\n  metric=m value=1\r\n"
    assert holds(one, "[mismatch] run=a\n  metric=m value=1"), "another process' line may stand between"
    assert holds(b"a \xff b\0c\n", "a \\xff b\\x00c")
    assert not holds(one, "[mismatch] run=b\n  metric=m value=1")
    assert not holds(one, "  metric=m value=1\n[mismatch] run=a"), "order counts"
    assert not holds(b"x" + one, "[mismatch] run=a\n  metric=m value=1")
    assert not holds(b"[mismatch] run=a value=10\n", "[mismatch] run=a value=1"), "more of the line than was kept"
    assert not holds(b"", "") and not holds(one, "")
    long = "z" * (70 << 10)
    assert holds(long.encode() + b"\n", long[: 64 << 10]), "64 KiB of a line are kept"


def test_hostile_bytes_stay_bytes_and_are_safe_when_drawn(tmp_path: Path) -> None:
    from tic_tui.glyphs import UNICODE
    from tic_tui.render import detail
    from tic_tui.render.text import plain

    data = b"\x1b]0;OWNED\x07\xff\x00\n" + RECORD.encode() + b"\nA\xe2\x80\xaeB\n"
    path = tmp_path / "hostile.log"
    path.write_bytes(data)
    found = look(place(path, data))
    drawn = "\n".join(plain(line) for line in detail.neighbour_lines(found.lines, 200, UNICODE))
    assert "^[]0;OWNED^G\\xff\\x00" in drawn and "A<U+202E>B" in drawn and "\x1b" not in drawn


def test_names_that_are_no_utf8_are_found(tmp_path: Path, data: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/w\xff.log"
    Path(os.fsdecode(path)).write_bytes(data)
    assert look(place(path.decode("utf-8", "backslashreplace"), data)).from_file


def test_a_name_with_control_characters_is_opened_and_matched_as_it_is_and_safe_when_drawn(
    tmp_path: Path, data: bytes
) -> None:
    from tests.tui.fake import FakeStore
    from tic_tui.filters import Filter
    from tic_tui.glyphs import UNICODE
    from tic_tui.model import Fault, Mismatch
    from tic_tui.queries import rows_of
    from tic_tui.render import detail
    from tic_tui.render.filters import stack_row
    from tic_tui.render.text import plain

    path = tmp_path / "w\x1b]0;OWNED\x07\u202e\n.log"
    path.write_bytes(data)
    shown = str(tmp_path / "w^[]0;OWNED^G<U+202E>^J.log")
    store = FakeStore()
    store.mismatch(1, "r", raw=RECORD)
    store.fault(2, "r", text=RECORD)
    at = data.index(RECORD.encode())
    for table in ("mismatches", "faults"):
        store.write(f"UPDATE {table} SET path = ?, byte_offset = ?, byte_length = ?", [str(path), at, len(RECORD) + 1])
    reader = store.open("")
    items = [*rows_of(reader, Mismatch, "mismatches", ()), *rows_of(reader, Fault, "faults", ())]  # type: ignore[arg-type]
    assert len(items) == 2
    for item in items:
        assert item.path == str(path)
        found = look(detail.place_of(item))
        assert found.from_file, found.why
        drawn = "\n".join(plain(line) for line in detail.detail(item, found, 6, 400, UNICODE))
        assert shown in drawn and not set(drawn) & set("\x1b\x07\u202e")
    wanted = Filter("path", "is", items[0].path)
    assert shown in plain(stack_row(wanted, 1, 400, UNICODE, selected=False))
    where, params = wanted.sql()
    assert store.db.execute(f"SELECT count(*) FROM mismatches WHERE {where}", list(params)).fetchall() == [(1,)]


def test_a_file_that_shrinks_and_grows_while_it_is_read_never_breaks_a_look(log: Path, data: bytes) -> None:
    asked = place(log, data)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            log.write_bytes(data[: len(data) // 3])
            log.write_bytes(data)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        seen = {look(asked).from_file for _ in range(300)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {True, False}
    assert look(asked).from_file


def test_a_file_system_that_does_not_answer_is_said_and_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "LATE_S", 0.05)
    gate, told = threading.Event(), []

    def hangs(asked: Place) -> Neighbours:
        gate.wait(20)
        return neighbours.kept(asked, "late")

    lookout = Lookout(told.append, hangs)
    for n in range(4):
        lookout.ask(Place(f"/p{n}", "", 0, 1, 1, "r"))
    deadline = time.monotonic() + 60
    while len(told) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [t.why for t in told].count("the file system does not answer") == 1, "the fourth is not even tried"
    assert [t.why for t in told].count("the file system does not answer (yet)") == 3
    gate.set()
    while len(told) < 7 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [t.why for t in told[4:]] == ["late"] * 3


def test_a_process_with_a_hung_look_leaves_at_once() -> None:
    code = (
        "import time; from tic_tui.neighbours import *\n"
        "Lookout(print, lambda p: time.sleep(60)).ask(Place('/p', '', 0, 1, 1, 'r'))"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30, cwd=Path(__file__).parents[2])
    assert time.monotonic() - began < 30
