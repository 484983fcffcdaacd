"""The list of members of a zip archive against Python's `zipfile`, whole, damaged and of forms that are left to it."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import ptfile
from tests.compare.ptfile import f32, mask
from tic_daemon.compare import archive
from tic_daemon.compare.archive import Member, members
from tic_daemon.compare.opened import Opened
from tic_daemon.errors import CompareError


def _by_zipfile(path: Path) -> dict[str, Member] | str:
    try:
        with zipfile.ZipFile(path) as own:
            found = {
                one.filename: Member(
                    one.header_offset, one.file_size, one.compress_size, one.compress_type, bool(one.flag_bits & 1)
                )
                for one in own.infolist()
            }
            return found if len(found) == len(own.infolist()) else "refused"
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return "refused"


def _found(path: Path) -> dict[str, Member] | str:
    try:
        with Opened(path) as file:
            return members(file)
    except CompareError:
        return "refused"


def _as_torch(path: Path) -> bytes:
    """An archive with a 64-bit end record before the usual one, as torch.save writes it since 1.6."""
    whole = ptfile.write(path, {f"r{n}": (f32(-1, -2), mask(1, 1)) for n in range(3)}).read_bytes()
    head, end = whole[:-22], whole[-22:]
    _sign, _disk, _first, here, number, size, at, _comment = struct.unpack("<4s4H2IH", end)
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 798, 45, 0, 0, here, number, size, at)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(head), 1)
    path.write_bytes(head + record + locator + end)
    return path.read_bytes()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were left to `zipfile`."""
    left: list[Path] = []
    plain = archive._any
    monkeypatch.setattr(archive, "_any", lambda file: (left.append(file.path), plain(file))[1])
    return left


def test_usual_lists_are_read_without_zipfile(tmp_path: Path, alone: list[Path]) -> None:
    pairs = {f"r{n}": (f32(-1, -2), mask(1, 1)) for n in range(3)}
    for path in (ptfile.write(tmp_path / "a.pt", pairs), tmp_path / "b.pt"):
        if not path.exists():
            _as_torch(path)
        assert _found(path) == _by_zipfile(path) != "refused"
    assert alone == []


def test_unusual_lists_are_left_to_zipfile(tmp_path: Path, alone: list[Path]) -> None:
    """A comment, bytes before the archive, a name that is no ASCII, an extra field with a size beyond 32 bits."""
    plain = ptfile.write(tmp_path / "plain.pt", {"r": (f32(-1), mask(1))}).read_bytes()
    for name, raw in (("comment", plain[:-2] + b"\3\0abc"), ("before", b"0123456789" + plain)):
        (tmp_path / name).write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "name", "w") as own:
        own.writestr("é/data.pkl", b"x")
    wide = zipfile.ZipInfo("a/b")
    wide.extra = struct.pack("<HHQ", 1, 8, 3)
    with zipfile.ZipFile(tmp_path / "extra", "w") as own:
        own.writestr(wide, b"xyz")
    for name in ("comment", "before", "name", "extra"):
        assert _found(tmp_path / name) == _by_zipfile(tmp_path / name) != "refused"
    assert [path.name for path in alone] == ["comment", "before", "name", "extra"]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_lists_are_what_zipfile_takes_them_for(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any few bytes of the list and its end, or a cut: the same members, or refused by both."""
    path = tmp_path_factory.getbasetemp() / "damaged.zip"
    raw = bytearray(_as_torch(path))
    begin = raw.index(b"PK\x01\x02")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.one_of(st.integers(begin, len(raw) - 1), st.integers(len(raw) - 98, len(raw) - 1)))
        raw[place] = data.draw(st.one_of(st.just(0), st.just(0xFF), st.integers(0, 255)))
    path.write_bytes(raw[: len(raw) - data.draw(st.sampled_from([0, 0, 0, 1, 22, 42]))])
    assert _found(path) == _by_zipfile(path)
