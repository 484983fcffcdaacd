"""Who writes a store: `owner.json`, created exclusively, kept fresh by a heartbeat.

    free ──acquire──> owned ──release──> free
    owned by a dead process of this boot of this host   ──acquire──> owned by us, at once
    owned by a live process here                        refused, with its pid and host
    owned from elsewhere, heartbeat younger than 60 s   refused
    owned from elsewhere, older                         refused, unless the user says to take it over

DuckDB's own lock is the second net: it holds between processes of one host, this file between hosts as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tic_daemon.errors import StoreError, StoreOwnedError
from tic_daemon.store.layout import STATE_DIR, local_host, read_json

HEARTBEAT_S = 10.0
STALE_S = 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process, told apart from a later one with the same pid; fields are "" or 0 where the system does not tell."""

    host: str
    boot: str
    pid_namespace: str
    pid: int
    pid_start: str

    @classmethod
    def current(cls, host: str | None = None) -> Process:
        return cls(host or local_host(), _boot_id(), _pid_namespace(), os.getpid(), process_start(os.getpid()))

    @classmethod
    def read(cls, path: Path) -> Process | None:
        """The owner that the file names; None if it is missing or says nothing usable."""
        value = read_json(path)
        pid = value.get("pid")
        if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
            return None
        texts = [str(value.get(key, "")) for key in ("host", "boot", "pid_namespace", "pid_start")]
        return cls(texts[0], texts[1], texts[2], pid, texts[3])

    def same_place(self, other: Process) -> bool:
        """Both are processes of one boot of one host, and see each other's pids."""
        return (self.host, self.boot, self.pid_namespace) == (other.host, other.boot, other.pid_namespace)

    def alive(self) -> bool:
        """Whether it still runs. Meaningful only for a process of the same place."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        if process_ended(self.pid):
            return False
        start = process_start(self.pid)
        return not (start and self.pid_start and start != self.pid_start)


class Owner:
    """Ownership of one store, from `acquire` to `release`. A thread of its own keeps the heartbeat."""

    def __init__(self, path: Path, value: dict[str, object]) -> None:
        self._path = path
        self._value = value
        self._stop = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._beat, name="tic-owner", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls, path: Path, *, take_over: bool = False, host: str | None = None) -> Owner:
        """Makes this process the owner.

        Args:
            path: `owner.json` of the store; its directory exists.
            take_over: the user says that an owner elsewhere, silent for over a minute, is dead.
            host: name of this machine, for tests.

        Raises:
            StoreOwnedError: another process owns it. StoreError: the file cannot be written.
        """
        me = Process.current(host)
        value: dict[str, object] = {
            "host": me.host, "pid": me.pid, "boot": me.boot, "pid_namespace": me.pid_namespace,
            "pid_start": me.pid_start, "token": uuid.uuid4().hex,
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        try:
            # Two starters must not both find the old owner dead and remove each other's file.
            with (path.with_name("owner.lock")).open("a") as guard:
                with contextlib.suppress(OSError):  # a file system without locks; O_EXCL and DuckDB's lock remain
                    fcntl.flock(guard.fileno(), fcntl.LOCK_EX)
                if path.exists():
                    _refuse_if_owned(path, guard.fileno(), me, take_over)
                    path.unlink(missing_ok=True)
                _create(path, value)
        except FileExistsError as error:
            raise StoreOwnedError(f"another daemon took {path.parent} just now", "use that one") from error
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
        return cls(path, value)

    @property
    def lost(self) -> bool:
        """Someone else has taken the store over: nothing may be written any more."""
        return self._lost

    def release(self) -> None:
        """Ends the heartbeat and removes the file, if it is still ours."""
        self._stop.set()
        self._thread.join(timeout=5)
        if read_json(self._path).get("token") == self._value["token"]:
            self._path.unlink(missing_ok=True)

    def check(self) -> None:
        """Looks once whether the file is still ours, and marks it as fresh if so. A removed one is made again."""
        value = read_json(self._path)
        with contextlib.suppress(OSError):  # read-only or away for now: the next beat looks again
            if value.get("token") == self._value["token"]:
                os.utime(self._path)
            elif value:
                self._lost = True
            elif not self._path.exists():
                _create(self._path, self._value)

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            self.check()


def live_owner(path: Path) -> Process | None:
    """The process that owns the store now, as far as can be told from here; None if none does.

    A file that is being written counts as none: its writer opens the store only afterwards.
    """
    owner = Process.read(path)
    if owner is None:
        return None
    if owner.same_place(Process.current()):
        return owner if owner.alive() else None
    try:
        age = datetime.now(UTC).timestamp() - path.stat().st_mtime
    except OSError:
        return None
    return owner if age < STALE_S else None


def take_over_command(state_dir: Path) -> str:
    """What a person types when a daemon that died elsewhere has left its lease."""
    if state_dir.name == STATE_DIR:
        return f"tic-daemon watch {shlex.quote(str(state_dir.parent))} --take-over"
    return f"tic-daemon watch DIR --state {shlex.quote(str(state_dir))} --take-over"


def _create(path: Path, value: dict[str, object]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(value, file)


def _refuse_if_owned(path: Path, clock_fd: int, me: Process, take_over: bool) -> None:
    owner = Process.read(path)
    os.utime(clock_fd)  # both times then come from the clock of the machine that holds the files
    age = os.fstat(clock_fd).st_mtime - path.stat().st_mtime
    if owner is None:
        if age < 5:  # torn: its writer may be just at it
            raise StoreOwnedError(f"another daemon is taking {path.parent} just now", "try again in a few seconds")
        return
    if owner.same_place(me):
        if owner.alive():
            raise StoreOwnedError(
                f"the store {path.parent.name} is written by pid {owner.pid} on {owner.host}",
                "look at it with tic-tui, or stop that daemon first",
            )
        return
    if owner.host == me.host and owner.boot and me.boot and owner.boot != me.boot:
        return  # this host was started anew since
    who = f"the store {path.parent.name} is owned by pid {owner.pid} on {owner.host}, last heartbeat {age:.0f} s ago"
    if age < STALE_S:
        raise StoreOwnedError(who, "stop that daemon first; a dead one can be taken over after a minute")
    if not take_over:
        raise StoreOwnedError(who, f"if that daemon is dead: {take_over_command(path.parent.parent)}")


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot, or ""."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def process_ended(pid: int) -> bool:
    """Whether only the exit code is left of a process, since its parent (or a container's pid 1) never asks for it."""
    return _stat(pid)[:1] in (["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; the command name before it may hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
