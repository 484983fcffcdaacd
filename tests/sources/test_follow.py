"""Following by example: what each thing that happens to a log file leads to."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.sources.fakes import NOW, FakeScanner, Harness
from tic_daemon.config import Config, PollConfig, SourceConfig
from tic_daemon.sources.discover import Discovery
from tic_daemon.sources.follow import FileFollower

MIB = 1 << 20


@pytest.fixture
def d(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def live(d: Path, config: Config | None = None) -> Harness:
    return Harness([d], config).start()


def test_whole_lines_are_final_and_the_tail_is_provisional(d: Path) -> None:
    append(d / "a.log", b"one\ntwo\nthr")
    h = live(d)
    h.poll()
    assert h.read(d / "a.log") == [b"one\ntwo\n"]
    assert h.shown(d / "a.log") == [], "the tail is shown only when it rests"
    h.clock.now += 1.1
    h.poll()
    assert h.shown(d / "a.log") == ["thr"]
    for _ in range(5):
        h.clock.now += 1.1
        assert h.poll() == []
    append(d / "a.log", b"ee")
    h.settle(3)
    assert h.shown(d / "a.log") == ["three"]
    append(d / "a.log", b"\n")
    h.settle(3)
    assert h.read(d / "a.log") == [b"one\ntwo\nthree\n"]
    assert h.shown(d / "a.log") == []
    h.stop()


def test_a_restart_gives_the_same_provisional_rows_no_second_time(d: Path) -> None:
    append(d / "a.log", b"one\ntw")
    h = live(d)
    h.settle(3)
    assert h.provisional_rows == 1
    h.stop()
    h.start()
    h.settle(5)
    assert h.provisional_rows == 1 and h.shown(d / "a.log") == ["tw"]
    h.stop()
    h.once()
    assert h.provisional_rows == 1
    append(d / "a.log", b"o")
    h.once()
    assert h.shown(d / "a.log") == ["two"]


def test_cursors_do_not_depend_on_restarts(d: Path) -> None:
    """The same bytes, with and without a restart in the middle of a line: equal cursors."""
    ends = []
    for restart in (False, True):
        path = d / f"{restart}.log"
        append(path, b"one\ntwo and a part")
        h = live(path)
        h.settle(2)
        if restart:
            h.stop()
            h.start()
        append(path, b" that ends\n" + b"x" * 2000 + b"\n")
        h.settle(2)
        [cursor] = h.cursors.values()
        ends.append(replace(cursor, source_id=0, path="", inode=0))
        h.stop()
    assert ends[0] == ends[1] and ends[0].head_len == 1024


def test_once_reads_all_and_shows_unterminated_lines(d: Path) -> None:
    append(d / "a.log", b"one\ntwo")
    append(d / "b.log", b"only")
    (d / "c.log.gz").write_bytes(gzip.compress(b"zipped\nlines\n"))
    h = Harness([d])
    h.once()
    assert h.read(d / "a.log") == [b"one\n"] and h.shown(d / "a.log") == ["two"]
    assert h.read(d / "b.log") == [b""] and h.shown(d / "b.log") == ["only"]
    assert h.read(d / "c.log") == [b"zipped\nlines\n"]
    [cursor] = [c for c in h.cursors.values() if c.path.endswith(".gz")]
    assert cursor.closed
    before = dict(h.cursors)
    h.once()
    assert h.cursors == before


def test_bytes_one_at_a_time(d: Path) -> None:
    text = b"one\ntwo\n\nthree\r\nfour"
    h = live(d)
    for i in range(len(text)):
        append(d / "a.log", text[i : i + 1])
        h.clock.now += 1.0
        h.poll()
    h.settle(3)
    assert h.read(d / "a.log") == [b"one\ntwo\n\nthree\r\n"] and h.shown(d / "a.log") == ["four"]
    h.stop()


def test_rotation_drains_the_old_file_to_its_end(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.poll()
    append(d / "a.log", b"two\nthr")
    (d / "a.log").rename(d / "a.log.1")
    append(d / "a.log.1", b"ee")
    append(d / "a.log", b"new\n")
    h.settle()
    assert h.read(d / "a.log") == [b"one\ntwo\nthree", b"new\n"]
    cursors = sorted(h.cursors.values(), key=lambda c: c.generation)
    assert [(c.path, c.closed) for c in cursors] == [(str(d / "a.log.1"), True), (str(d / "a.log"), False)]
    append(d / "a.log.1", b" and more\n")  # a writer that was not told
    h.settle()
    assert h.read(d / "a.log") == [b"one\ntwo\nthree and more\n", b"new\n"]
    assert h.row(d / "a.log").generation == 1 and not h.gaps(d / "a.log")
    h.stop()


def test_copytruncate_reads_the_rest_from_the_copy(d: Path) -> None:
    append(d / "a.log", b"one\n" * 100)
    h = live(d)
    h.poll()
    append(d / "a.log", b"unread\n")
    (d / "a.log.1").write_bytes((d / "a.log").read_bytes())
    os.truncate(d / "a.log", 0)
    append(d / "a.log", b"new\n")
    h.settle()
    assert h.read(d / "a.log") == [b"one\n" * 100 + b"unread\n", b"new\n"]
    assert not h.gaps(d / "a.log") and len(h.sources) == 1
    h.stop()


def test_a_copy_that_missed_our_last_bytes_is_no_generation(d: Path) -> None:
    append(d / "a.log", b"".join(b"line %d\n" % i for i in range(500)))
    h = live(d)
    h.poll()
    (d / "a.log.1").write_bytes((d / "a.log").read_bytes())
    append(d / "a.log", b"between copy and truncation\n")
    h.clock.now += 1.1
    h.poll()
    os.truncate(d / "a.log", 0)
    append(d / "a.log", b"new\n")
    h.settle()
    first, second = h.read(d / "a.log")
    assert first.endswith(b"between copy and truncation\n") and second == b"new\n"
    h.stop()


@pytest.mark.parametrize("running", [True, False])
def test_truncated_bytes_are_a_gap(d: Path, running: bool) -> None:
    append(d / "a.log", b"one\ntwo\n")
    h = live(d)
    h.poll()
    if not running:
        h.stop()
    append(d / "a.log", b"lost\n")
    os.truncate(d / "a.log", 0)
    append(d / "a.log", b"new and longer than what was there before\n")
    if not running:
        h.start()
    h.settle()
    assert h.read(d / "a.log") == [b"one\ntwo\n", b"new and longer than what was there before\n"]
    [(generation, gap)] = h.gaps(d / "a.log")
    assert (generation, gap.kind, gap.first_byte, gap.last_byte) == (0, "truncated", 8, -1)
    assert gap.detail == "unknown end" and gap.at.line_no == 3
    h.stop()


def test_truncation_of_what_was_read_is_told_and_claims_no_loss(d: Path) -> None:
    append(d / "a.log", b"one\ntwo\n")
    h = live(d)
    h.settle(2)
    os.truncate(d / "a.log", 0)
    h.settle(2)
    [(generation, gap)] = h.gaps(d / "a.log")
    assert (generation, gap.kind, gap.first_byte, gap.last_byte) == (0, "shrank", 8, 8)
    h.stop()


def test_sizes_of_an_earlier_life_do_not_enter_later_generations(d: Path) -> None:
    append(d / "a.log", b"long\n" * 100)
    h = live(d)
    h.settle(2)
    h.stop()
    h.start()
    h.poll()
    for text in (b"short\n", b""):
        os.truncate(d / "a.log", 0)
        append(d / "a.log", text)
        h.settle(2)
    assert [(gap.kind, gap.first_byte, gap.last_byte) for _, gap in h.gaps(d / "a.log")] == [
        ("shrank", 500, 500),
        ("shrank", 6, 6),
    ]
    h.stop()


def test_the_end_of_a_lost_range_is_told_when_the_size_was_seen(d: Path) -> None:
    append(d / "a.log", b"x" * 99 + b"\n" + b"y" * 900)
    h = live(d)
    h.poll(budget=100)
    assert h.row(d / "a.log").bytes_size == 1000
    os.truncate(d / "a.log", 0)
    h.settle()
    [(_, gap)] = h.gaps(d / "a.log")
    assert (gap.kind, gap.first_byte, gap.last_byte) == ("truncated", 100, 1000)
    h.stop()


def test_unlink_and_recreate_with_the_same_inode(d: Path) -> None:
    append(d / "a.log", b"first life\n")
    h = live(d)
    h.poll()
    h.stop()
    inode = (d / "a.log").stat().st_ino
    (d / "a.log").unlink()
    append(d / "a.log", b"second life\n")
    if (d / "a.log").stat().st_ino != inode:
        pytest.skip("this file system does not give inode numbers away again at once")
    h.start()
    h.settle()
    assert h.read(d / "a.log") == [b"first life\n", b"second life\n"]
    h.stop()


def test_a_deleted_file_is_read_to_its_end_through_the_held_descriptor(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.poll()
    with (d / "a.log").open("ab") as writer:
        (d / "a.log").unlink()
        h.settle(8)
        assert h.row(d / "a.log").state == "vanished"
        writer.write(b"still written\nlast")
        writer.flush()
        h.settle(8)
    assert h.read(d / "a.log") == [b"one\nstill written\n"] and h.shown(d / "a.log") == ["last"]
    h.settle(70, 1)
    assert h.read(d / "a.log") == [b"one\nstill written\nlast"]
    append(d / "a.log", b"again\n")
    h.settle()
    assert h.read(d / "a.log")[1] == b"again\n" and h.row(d / "a.log").state == "growing"
    h.stop()


def test_atomic_replacement(d: Path) -> None:
    append(d / "a.log", b"old\n")
    h = live(d)
    h.poll()
    (d / "t.tmp").write_bytes(b"new\n")
    (d / "t.tmp").rename(d / "a.log")
    h.settle()
    assert h.read(d / "a.log") == [b"old\n", b"new\n"]
    h.stop()


def test_a_symlink_that_flips_leads_to_another_source(d: Path) -> None:
    for session in ("session_1", "session_2"):
        (d / session / "logs").mkdir(parents=True)
        append(d / session / "logs" / "x.log", session.encode() + b"\n")
    (d / "session_latest").symlink_to("session_1")
    h = live(d / "session_latest")
    h.poll()
    h.stop()
    both = live(d)
    both.poll()
    (d / "session_latest").unlink()
    (d / "session_latest").symlink_to("session_2")
    both.settle()
    assert both.read(d / "session_1/logs/x.log") == [b"session_1\n"]
    assert both.read(d / "session_2/logs/x.log") == [b"session_2\n"]
    assert len(both.sources) == 2
    both.stop()


def test_links_to_a_file_elsewhere_are_followed_and_hard_links_are_one_source(d: Path) -> None:
    outside, inside = d / "outside", d / "inside"
    outside.mkdir()
    inside.mkdir()
    append(outside / "real.log", b"one\n")
    (inside / "link.log").symlink_to(outside / "real.log")
    os.link(outside / "real.log", inside / "hard.log")
    (inside / "loop.log").symlink_to("loop.log")
    (inside / "dangling.log").symlink_to("nowhere")
    (inside / "up").symlink_to(inside)
    h = live(inside)
    h.poll()
    assert len(h.sources) == 1
    [row] = h.sources.values()
    assert h.read(row.path) == [b"one\n"]
    append(outside / "real.log", b"two\n")
    h.settle(3)
    assert h.read(row.path) == [b"one\ntwo\n"]
    h.stop()


def test_nul_hole_of_a_writer_without_o_append(d: Path) -> None:
    with (d / "a.log").open("wb", buffering=0) as writer:
        writer.write(b"one\n" * 50)
        h = live(d)
        h.poll()
        os.truncate(d / "a.log", 0)
        writer.write(b"after\n")
    h.settle()
    assert h.read(d / "a.log") == [b"one\n" * 50, b"\0" * 200 + b"after\n"]
    h.stop()


def test_gz_of_a_rotated_piece_is_not_read_twice_and_its_unread_rest_is(d: Path) -> None:
    append(d / "a.log", b"one\n" * 10)
    h = live(d)
    h.poll()
    h.stop()
    append(d / "a.log", b"unread\n")
    (d / "a.log.1.gz").write_bytes(gzip.compress((d / "a.log").read_bytes()))
    (d / "a.log").unlink()
    append(d / "a.log", b"new\n")
    h.start()
    h.settle()
    assert h.read(d / "a.log") == [b"one\n" * 10 + b"unread\n", b"new\n"]
    h.stop()
    (d / "a.log.1.gz").rename(d / "a.log.2.gz")
    (d / "a.log").rename(d / "a.log.1")
    append(d / "a.log", b"newest\n")
    h.start()
    h.settle()
    assert h.read(d / "a.log") == [b"one\n" * 10 + b"unread\n", b"new\n", b"newest\n"]
    h.stop()


def test_a_torn_last_line_of_a_rotated_log_survives_a_kill_before_its_end_was_sure(d: Path) -> None:
    """Nothing of the older generation was committed yet when the newer one's lines were: both are read after all."""
    for compressed in (False, True):
        log = d / f"{compressed}.log"
        old = log.with_name(log.name + ".1")
        append(log, b"torn")
        log.rename(old)
        append(log, b"new\n")
        h = live(d)
        h.clock.now += 0.1
        h.poll()
        assert h.read(log) == [b"new\n"], "the torn line may still grow"
        h.stop()
        if compressed:
            old.with_name(old.name + ".gz").write_bytes(gzip.compress(old.read_bytes()))
            old.unlink()
        h.start()
        h.settle()
        assert h.read(log) == [b"torn", b"new\n"] and h.gaps(log) == []
        h.stop()


def test_a_rotated_piece_that_could_not_be_read_keeps_its_place(d: Path) -> None:
    append(d / "a.log.1", b"old\n")
    append(d / "a.log", b"new\n")
    h = live(d)
    real = os.open

    def refuse(path: str, *rest: int) -> int:
        if str(path).endswith("a.log.1"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        h.settle(2)
        assert h.read(d / "a.log") == [b"new\n"]
    (d / "a.log.1").rename(d / "a.log.2")
    (d / "a.log").rename(d / "a.log.1")
    append(d / "a.log", b"newest\n")
    h.settle()
    assert h.read(d / "a.log") == [b"old\n", b"new\n", b"newest\n"] and h.gaps(d / "a.log") == []
    h.stop()


@pytest.mark.parametrize("network", [False, True])
def test_a_log_seen_empty_then_written_rotated_and_compressed_is_read_once(d: Path, network: bool) -> None:
    config = Config(
        base=d, host="h", poll=PollConfig(rest_s=0), sources=(SourceConfig("*.log", line=1, network=network),)
    )
    (d / "a.log").touch()
    h = live(d, config)
    h.settle(2)
    append(d / "a.log", b"one\ntwo\n")
    (d / "a.log.1.gz").write_bytes(gzip.compress((d / "a.log").read_bytes()))
    (d / "a.log").unlink()
    h.settle()
    assert [data for data in h.read(d / "a.log") if data] == [b"one\ntwo\n"] and h.gaps(d / "a.log") == []
    h.stop()


def test_what_a_late_writer_added_to_a_closed_piece_is_read_from_its_gz(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.settle(1)
    (d / "a.log").rename(d / "a.log.1")
    h.settle(12)
    assert h.follower is not None and all(row.closed for row in h.cursors.values())
    append(d / "a.log.1", b"late\n")
    (d / "a.log.1.gz").write_bytes(gzip.compress((d / "a.log.1").read_bytes()))
    (d / "a.log.1").unlink()
    h.settle()
    assert h.read(d / "a.log") == [b"one\nlate\n"] and h.gaps(d / "a.log") == []
    h.stop()


def test_a_small_gz_that_unpacks_to_much(d: Path) -> None:
    (d / "bomb.log.gz").write_bytes(gzip.compress(b"\0" * (8 * MIB)))
    append(d / "a.log", b"one\n")
    h = live(d)
    assert sum(delta.bytes for delta in h.poll(budget=2 * MIB)) <= 2 * MIB
    assert h.read(d / "a.log") == [b"one\n"]
    h.settle(5)
    assert len(h.read(d / "bomb.log")[0]) == 8 * MIB
    h.stop()


def test_a_gz_that_is_still_being_written_and_one_that_is_broken(d: Path) -> None:
    packed = gzip.compress(b"".join(b"line %d\n" % (i * i) for i in range(20000)))
    (d / "a.log.gz").write_bytes(packed[: len(packed) // 2])
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    (d / "b.log.gz").write_bytes(bytes(broken))
    h = live(d)
    h.settle(3)
    with (d / "a.log.gz").open("ab") as file:
        file.write(packed[len(packed) // 2 :])
    h.settle(3)
    [whole] = h.read(d / "a.log")
    assert whole.count(b"\n") == 20000
    assert h.row(d / "b.log").state == "unreadable" and "gzip" in h.row(d / "b.log").error
    count = len(h.deltas)
    h.settle(70, 1)
    assert len(h.deltas) == count, "a file that stays broken is told once"
    h.stop()


def test_siblings_at_first_sight_are_generations_oldest_first(d: Path) -> None:
    (d / "a.log.2.gz").write_bytes(gzip.compress(b"oldest\n"))
    (d / "a.log.1").write_bytes(b"older\n")
    (d / "a.log").write_bytes(b"now\n")
    h = Harness([d])
    h.once()
    assert h.read(d / "a.log") == [b"oldest\n", b"older\n", b"now\n"]


def test_long_lines_go_in_pieces_and_stop_nobody(d: Path) -> None:
    long = b"a" * (5 * MIB + 17)
    append(d / "a.log", b"before\n" + long + b"\nafter\n")
    append(d / "b.log", b"quick\n")
    h = live(d)
    h.poll(budget=2 * MIB)
    assert h.read(d / "b.log") == [b"quick\n"], "a long line kept another file waiting"
    h.settle(2)
    assert h.read(d / "a.log") == [b"before\n" + long + b"\nafter\n"]
    [cursor] = [c for c in h.cursors.values() if c.path.endswith("a.log")]
    assert cursor.capped_lines == 1
    h.stop()


def test_a_line_of_exactly_the_limit(d: Path) -> None:
    text = b"x" * (MIB - 1) + b"\n" + b"y" * MIB + b"\n" + b"z\n"
    append(d / "a.log", text)
    h = Harness([d])
    h.once()
    assert h.read(d / "a.log") == [text]


def test_budget_is_kept_and_shared(d: Path) -> None:
    for name in "abcd":
        append(d / f"{name}.log", (name.encode() * 99 + b"\n") * 20000)
    h = live(d)
    deltas = h.poll(budget=MIB)
    assert sum(delta.bytes for delta in deltas) <= MIB
    assert len({delta.source.path for delta in deltas if delta.bytes}) == 4
    h.settle(2)
    assert all(len(h.read(d / f"{name}.log")[0]) == 2_000_000 for name in "abcd")
    h.stop()


def test_unreadable_files_are_told_and_read_when_they_can_be(d: Path) -> None:
    append(d / "a.log", b"secret\n")
    (d / "a.log").chmod(0)
    if os.access(d / "a.log", os.R_OK):
        pytest.skip("this user may read everything")
    h = live(d)
    h.settle(3)
    assert h.row(d / "a.log").state == "unreadable" and "denied" in h.row(d / "a.log").error
    (d / "a.log").chmod(0o600)
    h.settle(12)
    assert h.read(d / "a.log") == [b"secret\n"] and h.row(d / "a.log").error == ""
    h.stop()


def test_what_is_no_regular_file_or_no_log_is_left_alone(d: Path) -> None:
    os.mkfifo(d / "fifo.log")
    (d / "directory.log").mkdir()
    append(d / "directory.log" / "in.log", b"in\n")
    (d / ".tic" / "x").mkdir(parents=True)
    append(d / ".tic" / "x" / "daemon.log", b"no\n")
    append(d / "own.log", b"# tic-daemon log\n")
    append(d / "torch.log", b"PK\x03\x04" + b"\0" * 100)
    append(d / "model.pt", b"x\n")
    append(d / "new\nline.log", b"nl\n")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(d / "s.log"))
    bad = os.fsencode(d) + b"/bad\xff.log"
    with open(bad, "wb") as file:  # noqa: PTH123 - the name is no text
        file.write(b"bad name\n")
    h = Harness([d])
    h.once()
    assert sorted(row.path for row in h.sources.values()) == sorted(
        [str(d / "directory.log/in.log"), str(d / "new\nline.log"), f"{d}/bad\\xff.log"]
    )


def test_a_file_that_turns_out_to_be_no_log(d: Path) -> None:
    (d / "a.log").touch()
    h = live(d)
    h.poll()
    append(d / "a.log", b"PK\x03\x04" + b"x" * 50 + b"\n")
    h.clock.now += 1.1
    h.poll()
    assert h.row(d / "a.log").state == "unreadable" and "zip" in h.row(d / "a.log").error
    assert not h.cursors
    (d / "a.log").unlink()
    (d / "b.tmp").write_bytes(b"a log after all\n")
    (d / "b.tmp").rename(d / "a.log")
    h.settle()
    assert h.read(d / "a.log") == [b"a log after all\n"]
    h.stop()


def test_files_that_appear_later_in_new_directories(d: Path) -> None:
    h = live(d)
    h.poll()
    (d / "e" / "f").mkdir(parents=True)
    append(d / "e" / "f" / "g.log", b"one\n")
    h.settle(7)
    assert h.read(d / "e/f/g.log") == [b"one\n"]
    h.stop()


def test_a_root_that_appears_later(d: Path) -> None:
    h = live(d / "later")
    h.poll()
    (d / "later").mkdir()
    append(d / "later" / "a.log", b"one\n")
    h.settle(7)
    assert h.read(d / "later/a.log") == [b"one\n"]
    h.stop()


def test_what_vanished_while_no_daemon_ran_is_told(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.poll()
    h.stop()
    (d / "a.log").unlink()
    h.start()
    h.settle(2)
    assert h.row(d / "a.log").state == "vanished"
    [(_, gap)] = h.gaps(d / "a.log")
    assert (gap.kind, gap.first_byte, gap.last_byte) == ("vanished", 4, -1)
    h.stop()


def test_states(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.poll()
    assert h.row(d / "a.log").state == "growing"
    h.settle(65, 1)
    assert h.row(d / "a.log").state == "idle"
    (d / "a.log").rename(d / "a.log.1")
    h.settle(7)
    assert h.row(d / "a.log").state == "rotated"
    (d / "a.log.1").unlink()
    h.settle(7)
    assert h.row(d / "a.log").state == "vanished"
    count = len(h.deltas)
    h.settle(30, 1)
    assert len(h.deltas) == count, "rows were given again without a change"
    h.stop()


def test_network_files_are_opened_anew_and_never_held(d: Path) -> None:
    config = Config(base=d, host="h", sources=(SourceConfig(path="**", network=True),), poll=PollConfig(rest_s=0))
    append(d / "a.log", b"one\n")
    (d / "a.log.1").write_bytes(b"older\n")
    h = live(d, config)
    h.settle(3)
    assert h.read(d / "a.log") == [b"older\n", b"one\n"] and h.row(d / "a.log").network
    open_files = _open_files()
    assert not any(path.startswith(str(d)) and path.endswith(".log") for path in open_files)
    append(d / "a.log", b"two\n")
    h.settle(3)
    (d / "a.log").rename(d / "a.log.1")
    append(d / "a.log", b"three\n")
    for _ in range(20):
        h.settle(1)
    assert h.read(d / "a.log") == [b"older\n", b"one\ntwo\n", b"three\n"]
    h.stop()


def _open_files() -> list[str]:
    out = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            out.append(str(link.readlink()))
    return out


def test_more_files_than_descriptors(d: Path) -> None:
    config = Config(base=d, host="h", poll=PollConfig(rest_s=0, max_open_files=10))
    for i in range(60):
        append(d / f"{i}.log", b"%d\n" % i)
    before = len(_open_files())
    h = live(d, config)
    h.settle(3)
    assert len(_open_files()) < before + 30
    for i in range(60):
        append(d / f"{i}.log", b"more\n")
    h.settle(3)
    assert all(h.read(d / f"{i}.log") == [b"%d\nmore\n" % i] for i in range(60))
    h.stop()


def test_configuration_governs(d: Path) -> None:
    append(d / "a.log", b"one\n")
    append(d / "skip.log", b"one\n")
    append(d / "odd.trace", b"one\n")
    said = SourceConfig(
        path="a.log", line=7, role="trainer", rank=3, run="r", zone="+02:00", stream="stderr", host="n1"
    )
    config = Config(
        base=d, host="h", include=("*.trace",), sources=(said, SourceConfig(path="skip.log", line=9, skip=True))
    )
    h = Harness([d], config)
    h.once()
    row = h.row(d / "a.log")
    assert (row.role, row.rank, row.run_hint, row.run_how, row.host) == ("trainer", 3, "r", "config", "n1")
    assert (row.zone_s, row.zone_how, row.stream) == (7200, "configured", "stderr") and "line 7" in row.why
    assert {Path(row.path).name for row in h.sources.values()} == {"a.log", "odd.trace"}
    assert h.scanner.traits[0].role == "trainer" and h.scanner.traits[0].rank == 3


@pytest.mark.parametrize(
    ("written", "zone_s"),
    [
        (datetime(2026, 1, 15, 12), 3600), (datetime(2026, 7, 15, 12), 7200),
        (datetime(2027, 3, 28, 0, 59), 3600), (datetime(2027, 3, 28, 1, 0), 7200),
    ],
)  # fmt: skip
def test_a_named_zone_is_the_offset_of_when_the_log_was_written(d: Path, written: datetime, zone_s: int) -> None:
    append(d / "a.log", b"one\n")
    os.utime(d / "a.log", (written.replace(tzinfo=UTC).timestamp(),) * 2)
    h = Harness([d], Config(base=d, host="h", sources=(SourceConfig(path="a.log", line=7, zone="Europe/Berlin"),)))
    h.once()
    assert (h.row(d / "a.log").zone_s, h.row(d / "a.log").zone_how) == (zone_s, "configured")


def test_zone_is_inferred_from_live_lines_only_if_they_agree(d: Path) -> None:
    append(d / "a.log", b"one\n")
    h = live(d)
    h.poll()
    assert h.follower is not None
    source = h.id_of(d / "a.log")
    now = datetime(2026, 11, 29, 14, 0, tzinfo=UTC).timestamp()
    local = datetime(2026, 11, 29, 19, 30)

    def note(wall_s: float, printed_s: float) -> int | None:
        assert h.follower is not None
        h.follower.note_live_stamp(source, local + timedelta(seconds=printed_s), now + wall_s)
        h.poll()
        return h.row(d / "a.log").zone_s

    for seconds in range(10):  # an old log that is played back sixty times as fast passes this quarter of an hour
        assert note(seconds, 60 * seconds) is None
    for seconds in range(10):  # a clock that is seven minutes off every zone
        assert note(20 + seconds, 20 + seconds + 420) is None
    assert [note(40, 40), note(40.5, 40.5), note(41, 41)] == [None, None, None]  # three, but within one second
    assert note(42.5, 42) == 19800
    assert h.row(d / "a.log").zone_how == "inferred"
    # The clocks go back by an hour: none of the two is of all lines, and none that is seen later.
    assert [note(100 + seconds, 100 + seconds - 3600) for seconds in range(4)] == [19800, 19800, None, None]
    assert [note(200 + seconds, 200 + seconds - 3600) for seconds in range(6)] == [None] * 6
    assert h.row(d / "a.log").zone_how == "changed"
    h.stop()


def test_growth_rings_within_the_rest(d: Path) -> None:
    """On the real clock: a write ends `wait` long before the next sweep."""
    append(d / "a.log", b"one\n")
    follower = FileFollower([d], Config(base=d, host="h", poll=PollConfig(sweep_s=60, rescan_s=60)), {}, FakeScanner())
    try:
        if follower.problems():
            pytest.skip(str(follower.problems()))
        follower.poll(MIB, NOW)
        deadline = time.monotonic() + 60
        while follower.wait(0.2):
            follower.poll(MIB, NOW)
        append(d / "a.log", b"two\n")
        got: list[int] = []
        while not got and time.monotonic() < deadline:
            if follower.wait(5):
                got = [delta.bytes for delta in follower.poll(MIB, NOW) if delta.bytes]
        assert got == [4]
    finally:
        follower.close()


def test_the_last_look_finds_what_no_event_told(d: Path) -> None:
    """A file that appeared and one that grew a moment ago, with sweeps and walks far away."""
    append(d / "a.log", b"one\n")
    config = Config(base=d, host="h", poll=PollConfig(sweep_s=3600, rescan_s=3600))
    follower = FileFollower([d], config, {}, FakeScanner())
    try:
        follower.poll(MIB, NOW)
        follower._names.close()
        follower._bell.close()
        append(d / "a.log", b"two\n")
        append(d / "b.log", b"three\n")
        follower.hasten()
        read = {Path(delta.source.path).name: delta.lines for delta in follower.poll(MIB, NOW) if delta.cursor}
        assert read == {"a.log": 1, "b.log": 1}
    finally:
        follower.close()


def test_files_renamed_while_they_are_listed_after_a_restart(d: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing from before a rotation, read after it, must not look like a truncation."""
    append(d / "a.log", b"one\ntwo\n")
    h = live(d)
    h.poll()
    assert h.follower is not None
    stale = [h.follower.survey]
    h.stop()
    (d / "a.log").rename(d / "a.log.1")
    append(d / "a.log", b"three\n")
    whole = Discovery.survey
    monkeypatch.setattr(Discovery, "survey", lambda self: stale.pop() if stale else whole(self))
    h.start()
    h.settle(12)
    assert h.gaps(d / "a.log") == []
    assert h.read(d / "a.log") == [b"one\ntwo\n", b"three\n"]
