"""`tic-daemon` as it would run on another machine: `python -m tests.e2e.node HOST COMMAND ...` calls this machine HOST."""

from __future__ import annotations

import socket
import sys

if __name__ == "__main__":
    host = sys.argv.pop(1)
    socket.gethostname = lambda: host
    from tic_daemon.cli import entry

    entry()
