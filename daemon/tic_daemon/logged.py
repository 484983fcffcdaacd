"""What the daemon logs of itself, on standard error. Only `watch` logs: other commands do without the module."""

from __future__ import annotations

import logging
import sys
from typing import Final

from tic_daemon.output import printable

LOG_FORMAT: Final = "tic-daemon log %(asctime)s %(levelname)s %(message)s"


def begin(*, verbose: bool) -> None:
    """From here on."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Clean(LOG_FORMAT))


class Clean(logging.Formatter):
    """What is logged names files of strangers: see `printable`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
