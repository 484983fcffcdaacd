"""What watchdog says of itself does not fill the daemon's log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TWICE = """
import logging, os, sys
logging.basicConfig(level=logging.DEBUG)
import tic_daemon.sources.names
from watchdog.observers.inotify_c import InotifyFD

fd = InotifyFD.get_instance()
for _ in range(2):  # as when a directory is met by the walk and by its event
    fd.add_callback(os.fsencode(sys.argv[1]), 0x100, lambda *_: None, 1)
logging.getLogger("watchdog.observers.inotify_c").debug("in-event %s", "x")
logging.getLogger("watchdog.observers.inotify_c").warning("said")
os._exit(0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
def test_a_directory_that_is_met_twice_is_no_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TWICE, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "WARNING:watchdog.observers.inotify_c:said")
