"""The ways to one store, and what to tell a person when its daemon cannot be reached.

open_live        the endpoint of the daemon that owns it
open_snapshot    what the daemon published last
open_file        the file, which nobody owns
explained        why the endpoint is not reached, with what can be done
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tic_daemon.errors import ConnectError, StoreError
from tic_daemon.store.layout import StoreLayout, local_host, read_json
from tic_daemon.store.owner import Process, live_owner
from tic_daemon.store.snapshot import MANIFEST

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

PROBE_S = 0.5
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LISTEN = "0A"


def open_live(layout: StoreLayout) -> Reader:
    """A reader on the endpoint of the daemon that owns the store, which has just answered.

    Raises:
        ConnectError: nobody owns it, or the endpoint cannot be reached from here.
    """
    owner = live_owner(layout.owner_file)
    if owner is None:
        raise ConnectError(f"nobody writes {layout.directory.name}", "read its file")
    told = read_json(layout.daemon_file)
    url, token = told.get("url"), told.get("token")
    if told.get("pid") != owner.pid or not isinstance(url, str) or not isinstance(token, str):
        raise ConnectError(f"{_who(layout, owner)}, and has no endpoint (yet)", "try again in a second")
    if _loopback(url) and owner.host != local_host():
        _refuse_strangers(urlsplit(url).port or 0)
    from tic_daemon.store.http_reader import HttpReader  # noqa: PLC0415  only when it is used

    reader = HttpReader.of(layout.daemon_file)
    try:
        reader.query("SELECT 1", timeout_s=PROBE_S)
    except ConnectError:
        reader.close()
        raise
    except StoreError:
        pass  # too busy for this query: it lives
    return reader


def open_snapshot(layout: StoreLayout) -> Reader:
    """A reader of what was published last.

    Raises:
        StoreError, StoreVersionError: there is no usable snapshot.
    """
    from tic_daemon.store.snapshot_reader import SnapshotReader  # noqa: PLC0415  it loads DuckDB

    return SnapshotReader(layout)


def open_file(layout: StoreLayout) -> Reader:
    """A reader of the file.

    Raises:
        StoreError, StoreVersionError, ConnectError: it cannot be read.
    """
    from tic_daemon.store.file_reader import FileReader  # noqa: PLC0415  it loads DuckDB

    return FileReader(layout.readable_database, layout)


def manifest_file(layout: StoreLayout) -> Path:
    """What lies there if something was published."""
    return layout.snapshot_dir / MANIFEST


def explained(layout: StoreLayout, error: ConnectError) -> ConnectError:
    """The error with who writes the store, and with the line that makes the endpoint reachable, if there is one."""
    owner = live_owner(layout.owner_file)
    url = read_json(layout.daemon_file).get("url")
    if owner is None:
        return error
    who = _who(layout, owner)
    what = error.what if error.what.startswith(who) else f"{who}, and its endpoint is not reached: {error.what}"
    return ConnectError(what, _hint(owner, url if isinstance(url, str) else "") or error.hint)


def _hint(owner: Process, url: str) -> str:
    """What a person can do. The line is to be copied into a shell, so nothing odd gets into it."""
    try:
        parts = urlsplit(url)
        address, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if port is None or not _HOST.fullmatch(owner.host) or owner.host == local_host():
        return ""
    if not _loopback(url):
        return f"can {address} port {port} be reached from here, and is {owner.host} up?"
    to = f"[{address}]" if ":" in address else address
    return (
        f"ssh -N -L {port}:{to}:{port} {owner.host}   in another terminal; it is read live by itself within 15 s then"
    )


def _who(layout: StoreLayout, owner: Process) -> str:
    return f"pid {owner.pid} on {owner.host} writes {layout.directory.name}"


def _loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_strangers(port: int) -> None:
    """Lets a loopback address of another host be asked here only through a tunnel of this user's own.

    The token goes to whoever listens on that port of this machine: on a login node that could be anybody.

    Raises:
        ConnectError: nobody listens there, or somebody else.
    """
    users = _listeners(port)
    if users is None:
        return  # not told on this system
    if not users:
        raise ConnectError(f"nothing listens on port {port} of {local_host()}")
    if not users <= {os.getuid(), 0}:
        raise ConnectError(f"port {port} of {local_host()} belongs to another user: no tunnel of yours")


def _listeners(port: int) -> set[int] | None:
    """Users whose processes listen on a TCP port of this machine; None if the system does not tell."""
    users: set[int] = set()
    told = False
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        told = True
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                users.add(int(fields[7]))
    return users if told else None
