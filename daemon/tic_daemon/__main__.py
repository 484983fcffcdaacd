"""`python -m tic_daemon` is `tic-daemon`."""

from tic_daemon.cli import entry

entry()
