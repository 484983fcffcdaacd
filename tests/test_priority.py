"""Who takes the processor after whom, as the kernel tells it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tic_daemon import priority

AUTOGROUP = Path("/proc/self/autogroup")
TOLD = (
    "import os, pathlib; from tic_daemon.priority import session_behind; session_behind(3, 7);"
    "print(os.getpriority(os.PRIO_PROCESS, 0)); print(pathlib.Path('/proc/self/autogroup').read_text())"
)


def told(*, own_session: bool) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", TOLD], capture_output=True, text=True, check=True, start_new_session=own_session
    )
    nice, group = done.stdout.split("\n", 1)
    return int(nice), group.strip()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux gives threads nice values of their own")
def test_a_thread_stands_behind_the_others_of_its_process() -> None:
    before, found = os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), []

    def run() -> None:
        priority.behind(10)
        priority.behind(5)  # never before where it stood
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [max(10, before)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_elsewhere_a_thread_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "setpriority", lambda *_who: pytest.fail("a thread's number may be another process'"))
    priority.behind(10)


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel does not group processes by session")
def test_a_process_stands_behind_other_sessions_but_moves_none_that_is_not_its_own() -> None:
    ours, before = AUTOGROUP.read_text().strip(), os.getpriority(os.PRIO_PROCESS, 0)
    nice, group = told(own_session=True)
    assert nice == min(19, before + 3) and group.endswith(" nice 7")
    nice, group = told(own_session=False)
    assert nice == min(19, before + 3) and group == ours
