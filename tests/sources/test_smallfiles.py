"""Small files are read once for each state that they are in, by one thread that nobody waits for."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tic_daemon.sources.smallfiles import EVERY_S, SmallFiles


class Reading(SmallFiles):
    """Keeps what it was given; `broken` makes it fail, `hold` keeps it waiting."""

    def __init__(self) -> None:
        super().__init__("test-small")
        self.read: list[bytes] = []
        self.broken = False
        self.hold = threading.Event()
        self.hold.set()

    def _changed(self, path: str, root: str, fd: int, info: os.stat_result) -> None:
        self.hold.wait(10)
        if self.broken:
            raise OSError(5, "Input/output error")
        self.read.append(os.read(fd, 100))


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path, files = tmp_path / "a.env", Reading()
    path.write_text("one")
    asked = [(str(path), str(tmp_path)), (str(tmp_path / "gone.env"), str(tmp_path))]
    for _ in range(3):
        files.finish(asked, 10)
    assert files.read == [b"one"]
    path.write_text("other")
    files.finish(asked, 10)
    assert files.read == [b"one", b"other"]


def test_what_could_not_be_read_is_tried_again(tmp_path: Path) -> None:
    path, files = tmp_path / "a.env", Reading()
    path.write_text("one")
    files.broken = True
    files.finish([(str(path), "")], 10)
    files.broken = False
    files.finish([(str(path), "")], 10)
    assert files.read == [b"one"]


def test_looks_are_paced_and_none_begins_while_one_hangs(tmp_path: Path) -> None:
    path, files = tmp_path / "a.env", Reading()
    path.write_text("one")
    files.hold.clear()
    files.look([(str(path), "")], 100.0)
    first = files._thread
    files.look([(str(path), "")], 100.0 + 2 * EVERY_S)
    assert files._thread is first is not None
    files.hold.set()
    first.join(10)
    files.look([(str(path), "")], 100.0 + EVERY_S - 1)
    assert files._thread is first, "too soon"
    files.look([(str(path), "")], 100.0 + EVERY_S)
    assert files._thread is not first
