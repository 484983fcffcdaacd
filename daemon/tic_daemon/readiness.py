"""Tells whoever started the daemon that the first look at all logs is done: what is written from then on is new.

A job's script and a pod wait for a file (`--ready`), systemd for a datagram (sd_notify(3), `Type=notify`).
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

from tic_daemon.errors import ConfigError

log = logging.getLogger("tic-daemon")


def prepare(file: Path | None) -> None:
    """Takes a file of an earlier start away. Raises ConfigError if that cannot be done."""
    try:
        if file is not None:
            file.unlink(missing_ok=True)
    except OSError as error:
        what = f"--ready {file}: {error.strerror or error}"
        raise ConfigError(what, "name a file in a directory of yours") from error


def tell(file: Path | None) -> None:
    """Says so. What cannot be told is logged: the daemon works all the same."""
    try:
        if file is not None:
            part = file.with_name(f".{file.name}.{os.getpid()}")
            part.write_text(f"{os.getpid()}\n", encoding="ascii")
            part.replace(file)
        notify("READY=1")
    except OSError as error:
        log.error("cannot tell that it is ready: %s", error)


def notify(state: str) -> None:
    """Sends a state to systemd, if that started us and wants to know. Raises OSError."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(1.0)
        sender.sendto(state.encode(), address if address[0] == "/" else f"\0{address[1:]}")
