"""A search that one start compiled is read back by the next, and whatever lies in its place spoils nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tic_daemon import usercache
from tic_daemon.scan import compiled
from tic_daemon.scan.engine import HyperscanEngine

hyperscan = pytest.importorskip("hyperscan", reason="there is no hyperscan for this platform")

LITERALS = [b"CUDA error", b"error", b"a.b*("]
WORDS = [b"pid="]
DATA = b"CUDA error a.b*( pid=1 pid=2\n"
HITS = [(10, 0), (10, 1), (16, 2)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tic-daemon"


def found(words: list[bytes] = WORDS) -> tuple[list[tuple[int, int]], set[int]]:
    """As a new process finds it."""
    compiled._serialized.cache_clear()
    engine = HyperscanEngine(LITERALS, words)
    return engine.scan(DATA), engine.present


def only(cache: Path) -> Path:
    (path,) = cache.glob("literals-*")
    return path


def test_the_second_reads_what_the_first_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() == (HITS, {0})
    path = only(cache)
    assert path.stat().st_mode & 0o777 == 0o600
    os.utime(path, (0, 0))
    monkeypatch.setattr(hyperscan, "Database", lambda **_settings: pytest.fail("it is there"))
    assert found() == (HITS, {0})
    assert path.stat().st_mtime > time.time() - 60, "it is in use"


def test_two_of_one_process_do_not_share_scratch_memory() -> None:
    one, other = HyperscanEngine(LITERALS), HyperscanEngine(LITERALS)
    seen: list[object] = []
    one._database.scan(DATA, match_event_handler=lambda *_hit: seen.append(other.scan(DATA)))
    assert seen == [HITS] * 3


@pytest.mark.parametrize("spoilt", ["bit", "cut", "empty", "directory", "link", "refused"])
def test_what_lies_in_its_place_spoils_nothing(cache: Path, spoilt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found()
    path = only(cache)
    whole = path.read_bytes()
    if spoilt == "bit":
        path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    elif spoilt == "directory":
        path.unlink()
        path.mkdir()
    elif spoilt == "link":
        path.symlink_to(path.rename(cache.parent / "elsewhere"))
    elif spoilt == "refused":  # as by a processor of another kind
        load, calls = hyperscan.loadb, iter([True])

        def refuse(data: bytes, mode: int) -> object:
            if next(calls, False):
                raise hyperscan.DatabasePlatformError("another processor")
            return load(data, mode)

        monkeypatch.setattr(hyperscan, "loadb", refuse)
    else:
        path.write_bytes(whole[: len(whole) // 2] if spoilt == "cut" else b"")
    assert found() == (HITS, {0})
    if spoilt != "directory":
        assert path.read_bytes() == whole and not path.is_symlink()
    assert list(cache.iterdir()) == [path], "no part is left"


def test_a_file_is_neither_a_pipe_nor_a_device_nor_a_link(tmp_path: Path) -> None:
    pipe, own, link = tmp_path / "pipe", tmp_path / "own", tmp_path / "link"
    os.mkfifo(pipe)
    own.write_bytes(b"x")
    link.symlink_to(own)
    assert usercache.holds(own)
    assert not any(map(usercache.holds, (pipe, link, tmp_path, tmp_path / "none", Path("/dev/zero"))))


def test_other_words_and_other_literals_have_files_of_their_own(cache: Path) -> None:
    assert found() == (HITS, {0})
    assert found([]) == (HITS, set())
    assert found([b"none", b"pid="]) == (HITS, {1})
    assert len(list(cache.glob("literals-*"))) == 3


def test_where_nothing_can_be_kept_it_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    assert usercache.folder() is None
    assert found() == (HITS, {0}) and not list(cache.iterdir())
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert found() == (HITS, {0})


def test_what_nobody_used_for_a_month_goes(cache: Path) -> None:
    cache.mkdir()
    old, young, other = (cache / name for name in ("literals-a.hs", "literals-b.hs", "views-a.duckdb"))
    for path, days in ((old, 31), (young, 29), (other, 31)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - days * 86400,) * 2)
    found()
    assert not old.exists() and young.exists() and other.exists()
