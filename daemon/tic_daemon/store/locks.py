"""Whether file locks can be trusted in a directory."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import uuid
from pathlib import Path

_PROBE = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""


def locks_work(directory: Path) -> bool:
    """Whether a POSIX lock held here keeps another process out: tried with a child process on a file of its own."""
    probe = directory / f".lock-probe-{uuid.uuid4().hex[:8]}"
    try:
        with probe.open("w") as file:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            argv = [sys.executable, "-I", "-S", "-c", _PROBE, str(probe)]
            child = subprocess.run(argv, check=False, timeout=20, capture_output=True)
            return child.returncode == 7
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        probe.unlink(missing_ok=True)
