"""How many heaps a process with many threads has, by what the C library itself says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_THREADS = """
import ctypes, sys, threading
from tic_daemon import heaps
print(heaps.limit() if sys.argv[2] == "limited" else None)
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(16)
def ask():
    together.wait()
    for _ in range(200):
        libc.malloc(ctypes.c_size_t(1000))
    together.wait()
threads = [threading.Thread(target=ask) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps_of(tmp_path: Path, how: str, **environment: str) -> tuple[str, int]:
    """What the call said, and the heaps of a process of sixteen threads."""
    told = tmp_path / "heaps.xml"
    done = subprocess.run(
        [sys.executable, "-c", _THREADS, str(told), how], env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), told.read_text().count("<heap nr=")


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_many_threads_share_two_heaps(tmp_path: Path) -> None:
    try:
        said, free = heaps_of(tmp_path, "free")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs glibc's malloc_info: {error.stderr[-200:]}")
    assert free > 2
    assert heaps_of(tmp_path, "limited") in {("True", 1), ("True", 2)}
    said, chosen = heaps_of(tmp_path, "limited", MALLOC_ARENA_MAX="5")
    assert said == "False"
    assert 2 < chosen <= 5
