"""Whether file locks can be trusted in a directory."""

from __future__ import annotations

import errno
import fcntl
import struct
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

_PROBE = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""
_OWN_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
"""Linux since 3.15: a lock that belongs to the open file, not to the process, and conflicts with all others."""
_WHOLE_FILE = struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
"""`struct flock` of a 64-bit Linux; its pid is 0 in a lock of an open file."""


def locks_work(directory: Path) -> bool:
    """Whether a POSIX lock held here keeps others out: tried on a file of its own.

    A second open file of this process asks for the lock; where the system does not know such locks, a child process
    does, which takes twenty milliseconds of a core at each start of a daemon.
    """
    probe = directory / f".lock-probe-{uuid.uuid4().hex[:8]}"
    try:
        # Both stay open to the end: whoever closes a file drops every lock that its process holds on it.
        with probe.open("w") as file, probe.open("r+") as other:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            refused = _refused_to(other.fileno())
            return _refused_to_a_child(probe) if refused is None else refused
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        probe.unlink(missing_ok=True)


def _refused_to(other: int) -> bool | None:
    """Whether another open file, this descriptor, is refused the lock; None: it cannot be asked."""
    if _OWN_LOCK is None:
        return None
    try:
        fcntl.fcntl(other, _OWN_LOCK, _WHOLE_FILE)
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return False


def _refused_to_a_child(probe: Path) -> bool:
    argv = [sys.executable, "-I", "-S", "-c", _PROBE, str(probe)]
    return subprocess.run(argv, check=False, timeout=20, capture_output=True).returncode == 7
