"""Which endpoint is asked: the token goes to nobody but the daemon, or to a tunnel of this user's own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tic_daemon.errors import ConnectError
from tic_daemon.store import reach
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.owner import Process

NOBODY = 65534


def of_another_host(root: Path, port: int) -> StoreLayout:
    """A store whose daemon on another host listens on its loopback address, as daemon.json says."""
    directory = root / ".tic" / "node17-0123456789ab"
    directory.mkdir(parents=True)
    layout = StoreLayout.of(directory)
    assert layout is not None
    owner = Process.current("node17")
    layout.owner_file.write_text(json.dumps({name: getattr(owner, name) for name in owner.__slots__}))
    told = {"pid": owner.pid, "url": f"http://127.0.0.1:{port}", "token": "secret", "store_id": layout.store_id}
    layout.daemon_file.write_text(json.dumps(told))
    return layout


@contextlib.contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Whoever listens on a port of this machine: it answers nothing and keeps what it is sent."""
    heard: list[bytes] = []

    def take(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with client:
                    client.settimeout(0.5)
                    with contextlib.suppress(OSError):
                        heard.append(client.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=take, args=(server,), daemon=True).start()
        yield server.getsockname()[1], heard


def test_a_port_that_another_user_listens_on_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as (port, heard):
        monkeypatch.setattr(reach, "_listeners", lambda _: {NOBODY})
        with pytest.raises(ConnectError, match="belongs to another user"):
            reach.open_live(of_another_host(tmp_path, port))
        monkeypatch.setattr(reach, "_listeners", lambda _: {os.getuid(), NOBODY})  # on the other family: not ours alone
        with pytest.raises(ConnectError, match="belongs to another user"):
            reach.open_live(of_another_host(tmp_path / "again", port))
    assert heard == []


def test_a_tunnel_of_ones_own_is_asked(tmp_path: Path) -> None:
    with listener() as (port, heard), pytest.raises(ConnectError):
        reach.open_live(of_another_host(tmp_path, port))
    assert any(b"secret" in request for request in heard), "whoever listens is this user: the token was sent"


def test_a_port_where_nobody_listens_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectError, match="nothing listens"):
        reach.open_live(of_another_host(tmp_path, port))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")
def test_the_listeners_user_is_the_systems_word() -> None:
    code = (
        f"import os, socket, sys; os.setuid({NOBODY}); s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert reach._listeners(port) == {NOBODY}
        other.communicate("")
    assert reach._listeners(port) == set()
