"""Who may write a store, from a live owner to one that died on another machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tic_daemon.errors import StoreOwnedError
from tic_daemon.store.owner import Owner, Process, live_owner, process_start


def leave(path: Path, age_s: float, **changes: object) -> None:
    """An owner.json as a process of this machine would have left it, with some fields changed."""
    me = Process.current()
    value = {
        "host": me.host, "pid": me.pid, "boot": me.boot, "pid_namespace": me.pid_namespace, "pid_start": me.pid_start,
        "token": "theirs", **changes,
    }  # fmt: skip
    path.write_text(json.dumps(value))
    then = time.time() - age_s
    os.utime(path, (then, then))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "owner.json"


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_taken_and_given_back(path: Path) -> None:
    owner = Owner.acquire(path)
    assert live_owner(path) == Process.current()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreOwnedError, match=f"pid {os.getpid()} on"):
        Owner.acquire(path)
    owner.release()
    assert not path.exists()
    assert live_owner(path) is None
    Owner.acquire(path).release()


def test_a_dead_process_of_this_machine_is_no_owner(path: Path) -> None:
    leave(path, 1, pid=dead_pid(), pid_start="")
    assert live_owner(path) is None
    Owner.acquire(path).release()


def test_a_process_whose_parent_never_asked_how_it_ended_is_no_owner(path: Path) -> None:
    """As in a container whose pid 1 reaps nobody: the pid is there for ever, the process is not."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    try:
        leave(path, 1, pid=child.pid, pid_start=process_start(child.pid))
        assert live_owner(path) is None
        Owner.acquire(path).release()
    finally:
        child.wait()


def test_a_pid_that_came_back_is_another_process(path: Path) -> None:
    leave(path, 1, pid=os.getpid(), pid_start="1")
    assert live_owner(path) is None
    Owner.acquire(path).release()


def test_an_owner_from_before_a_reboot_is_dead(path: Path) -> None:
    leave(path, 1, boot="another-boot")
    Owner.acquire(path).release()


def test_a_fresh_heartbeat_from_elsewhere_refuses_even_take_over(path: Path) -> None:
    leave(path, 10, host="node9", pid=4242)
    for take_over in (False, True):
        with pytest.raises(StoreOwnedError, match="pid 4242 on node9"):
            Owner.acquire(path, take_over=take_over)
    owner = live_owner(path)
    assert owner is not None and owner.host == "node9"


def test_an_old_heartbeat_from_elsewhere_needs_the_user_s_word(path: Path) -> None:
    leave(path, 300, host="node9", pid=4242)
    with pytest.raises(StoreOwnedError, match=r"pid 4242 on node9, last heartbeat 300 s(.|\n)*--take-over"):
        Owner.acquire(path)
    assert live_owner(path) is None
    owner = Owner.acquire(path, take_over=True)
    assert json.loads(path.read_text())["pid"] == os.getpid()
    owner.release()


def test_another_container_of_this_host_counts_as_elsewhere(path: Path) -> None:
    leave(path, 5, pid_namespace="pid:[1]", pid=1)
    with pytest.raises(StoreOwnedError, match="pid 1 on"):
        Owner.acquire(path)


def test_a_torn_file_is_somebody_starting_and_later_nobody(path: Path) -> None:
    path.write_text('{"host": "no')
    with pytest.raises(StoreOwnedError, match="just now"):
        Owner.acquire(path)
    os.utime(path, (time.time() - 60,) * 2)
    Owner.acquire(path).release()


def test_heartbeat_refreshes_recreates_and_notices_a_take_over(path: Path) -> None:
    owner = Owner.acquire(path)
    os.utime(path, (1, 1))
    owner.check()
    assert time.time() - path.stat().st_mtime < 30
    path.unlink()
    owner.check()
    assert live_owner(path) is not None and not owner.lost
    leave(path, 0, host="node9")
    owner.check()
    assert owner.lost
    owner.release()
    assert path.exists(), "it is the other one's now"


def test_of_many_starters_one_wins(path: Path) -> None:
    leave(path, 1, pid=dead_pid(), pid_start="")
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tic_daemon.store.owner import Owner; from tic_daemon.errors import StoreOwnedError\n"
        "try: Owner.acquire(Path(sys.argv[1])); print('won', flush=True); sys.stdin.read()\n"
        "except StoreOwnedError: print('refused', flush=True); sys.stdin.read()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = [child.stdout.readline().strip() for child in children if child.stdout is not None]
    for child in children:
        child.communicate("")
    assert sorted(said) == ["refused", "refused", "refused", "won"]
