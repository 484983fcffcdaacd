"""The framing of real logs: every prefix and any changed byte give the intact records and say what is not there."""

from __future__ import annotations

import struct
import zlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wandb.conftest import RealLogs
from tic_daemon.wandb import framing
from tic_daemon.wandb.framing import BLOCK, HEADER, Damage, Frame


def chunks(data: bytes) -> list[tuple[int, int, int]]:
    """(first, last, kind) of each chunk of an undamaged file, padding as kind 0. The slow, obvious twin."""
    found, at = [], 7
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            found.append((at, min(at + left, len(data)), 0))
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        found.append((at, at + 7 + length, kind))
        at += 7 + length
    return found


def records(data: bytes) -> list[tuple[int, int]]:
    """(first, last) of each record of an undamaged file."""
    found, start = [], 0
    for first, last, kind in chunks(data):
        start = first if kind in (1, 2) else start
        if kind in (1, 4):
            found.append((start, last))
    return found


def read(data: bytes) -> tuple[list[tuple[int, int]], list[Damage], int]:
    """Whole records, damage, and up to where it was read, in one go."""
    start, damage = framing.begin(data)
    if not start:
        return [], [], 0
    found, end = framing.scan(data[start:], start)
    frames = [(item.offset, item.end) for item in found if isinstance(item, Frame)]
    return frames, [*([damage] if damage else []), *(item for item in found if isinstance(item, Damage))], end


def test_a_real_log_is_read_whole(real_logs: RealLogs) -> None:
    for path in (real_logs.rich, real_logs.small, real_logs.killed):
        data = path.read_bytes()
        assert data.startswith(HEADER)
        frames, damage, _ = read(data)
        assert not damage and frames == [(first, last) for first, last in records(data) if last <= len(data)]
    assert len(real_logs.rich.read_bytes()) > 3 * BLOCK


def test_every_prefix_gives_what_is_whole_in_it(real_logs: RealLogs) -> None:
    whole = real_logs.small.read_bytes()
    expected = records(whole)
    for size in range(len(whole) + 1):
        frames, damage, end = read(whole[:size])
        assert not damage and frames == [(first, last) for first, last in expected if last <= size]
        assert end == (frames[-1][1] if frames else 7 if size >= 7 else 0)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_prefix_of_a_long_log_and_going_on_from_it(real_logs: RealLogs, data: st.DataObject) -> None:
    whole = real_logs.rich.read_bytes()
    size = data.draw(st.integers(7, len(whole)))
    frames, damage, end = read(whole[:size])
    assert not damage and frames == [(first, last) for first, last in records(whole) if last <= size]
    more, last = framing.scan(whole[end:], end)
    assert frames + [(item.offset, item.end) for item in more if isinstance(item, Frame)] == records(whole)
    assert last == len(whole) and not any(isinstance(item, Damage) for item in more)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_one_byte_changed(real_logs: RealLogs, data: st.DataObject) -> None:
    whole = bytearray(real_logs.rich.read_bytes())
    edges = [place for start in range(0, len(whole), BLOCK) for place in range(max(0, start - 12), start + 12)]
    place = data.draw(st.integers(0, len(whole) - 1) | st.sampled_from([p for p in edges if p < len(whole)]))
    check_changed(whole, place, data.draw(st.integers(1, 255)))


@example(0)
@given(st.integers(0, 255))
@settings(max_examples=20, deadline=None)
def test_every_byte_of_the_first_records_changed(real_logs: RealLogs, flip: int) -> None:
    whole = bytearray(real_logs.rich.read_bytes()[: 2 * BLOCK])
    for place in range(60):
        check_changed(whole, place, flip or 255)


def check_changed(whole: bytearray, place: int, flip: int) -> None:
    """What a change costs follows from the format: the rest of the block from the chunk on, and what reaches into it."""
    before = records(whole)
    hit = next((chunk for chunk in chunks(whole) if chunk[0] <= place < chunk[1]), (0, 7, 0))
    changed = bytearray(whole)
    changed[place] ^= flip
    frames, damage, end = read(bytes(changed))
    if hit[2] == 0:  # the header or padding: nothing is lost
        assert [frame for frame in before if frame[1] <= len(whole)] == frames
        assert [(one.first, one.last) for one in damage] == [hit[:2]]
        return
    block_end = (hit[0] // BLOCK + 1) * BLOCK
    lost_first, lost_last = hit[0], min(block_end, len(whole))
    kept = [
        (first, last) for first, last in before if (last <= lost_first or first >= lost_last) and last <= len(whole)
    ]
    assert frames == kept
    if block_end > len(whole):  # the block is not whole yet: nothing is said, and the place is kept
        assert end <= lost_first and not damage
        return
    assert damage[0].first <= lost_first and any(one.last >= lost_last for one in damage)
    told = sum(one.last - one.first for one in damage) + sum(last - first for first, last in frames)
    padding = sum(last - first for first, last, kind in chunks(whole) if kind == 0)
    assert told + 7 + padding >= end  # every byte is in a record, in damage, in padding or in the header


@given(st.binary(max_size=3 * BLOCK), st.booleans())
@settings(max_examples=50, deadline=None)
def test_noise_is_no_record(noise: bytes, begins_well: bool) -> None:
    frames, damage, end = read((HEADER if begins_well else b"") + noise)
    assert not frames and all(0 <= one.first < one.last for one in damage)
    assert end <= len(HEADER) + len(noise)


def chunk(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + payload), len(payload), kind) + payload


def test_records_without_beginning_or_end() -> None:
    data = (
        HEADER + chunk(3, b"lost") + chunk(2, b"never ") + chunk(1, b"whole") + chunk(2, b"two ") + chunk(4, b"parts")
    )
    start, _ = framing.begin(data)
    found, end = framing.scan(data[start:], start)
    told = [item.payload if isinstance(item, Frame) else (item.why, item.first, item.last) for item in found]
    assert told == [("a record has no beginning", 7, 31), b"whole", b"two parts"]  # 7 + 4 and 7 + 6 bytes, one damage
    assert end == len(data)


def test_a_file_of_another_version_or_kind() -> None:
    assert framing.begin(HEADER[:-1] + b"\x01")[1] == Damage(0, 7, "version 1 of the format is not known")
    assert framing.begin(b"PK\x03\x04...")[1] == Damage(0, 7, "it does not begin as a log of W&B does")
    assert framing.begin(HEADER[:6]) == (0, None)
