"""Where the live store lies: in the state directory, or on a disk of this node if it cannot be trusted there.

    reason_to_leave(directory)   why the state directory will not do; "" if it will
    choose(local_dir)            the first usable directory on this node

Usable: a disk of this machine, where we may write, a lock keeps another process out, and some space is free. In a
directory that others may write, too, ours is a directory of its own, mode 0700: one that somebody else made there, or a
link, is refused. Memory (tmpfs) is taken only if nothing else will do: what lies there counts as the job's memory.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tic_daemon.errors import StoreError
from tic_daemon.sources.mounts import Mount, Mounts
from tic_daemon.store.locks import locks_work
from tic_daemon.usercache import require_ours

FREE_BYTES = 256 << 20
"""So much must be free: the write-ahead log and a checkpoint of it."""
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@dataclass(frozen=True, slots=True)
class Choice:
    """`directory` exists, is ours alone, and `reason` says in words why it was taken."""

    directory: Path
    reason: str


def on_network(path: Path) -> bool:
    """Whether `path` lies on a network file system, whose locks and fsync cannot be trusted between processes."""
    return _mount(path).network


def reason_to_leave(directory: Path, *, network: bool | None = None) -> str:
    """Why the live store cannot lie in `directory`, in words; "" if it can. `network` overrides what the mount says."""
    if network if network is not None else on_network(directory):
        return "the state directory is on a network file system"
    if "?" in str(directory):
        return "DuckDB cannot keep a file under a name with a question mark"
    if not locks_work(directory):
        return "file locks do not hold in the state directory"
    return ""


def choose(local_dir: Path | None = None, env: Mapping[str, str] = os.environ) -> Choice:
    """The directory on this node for live stores.

    Args:
        local_dir: what the user said; then it is this one or none.
        env: the environment.

    Raises:
        StoreError: none will do; it says why each one was refused.
    """
    refused: list[str] = []
    memory: Choice | None = None
    for said, base, own in _candidates(local_dir, env):
        why = _far(base)  # first: nothing is left behind in a home on a network file system
        try:
            directory = base if why else _made(base, own)
            why = why or _why_not(directory)
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            refused.append(f"{said} {base}: {why}")
            if said in _BINDING:
                break
            continue
        choice = Choice(directory, f"{said} {base}")
        if _mount(directory).fstype not in _MEMORY or said in _BINDING:
            return choice
        memory = memory or Choice(directory, f"{choice.reason}, which is memory: no disk of this machine will do")
        refused.append(f"{said} {base}: memory, no disk")
    if memory is not None:
        return memory
    raise StoreError(
        "no directory on this machine can hold the live store: " + "; ".join(refused),
        "name one on a local disk with --local-dir, or local_dir under [store] in tic.toml",
    )


_BINDING = ("local_dir", "$TIC_LOCAL_DIR")


def _candidates(local_dir: Path | None, env: Mapping[str, str]) -> Iterator[tuple[str, Path, str]]:
    """(who says so, directory, name of ours in it): the names differ where others may write, too."""
    if local_dir is not None:
        yield "local_dir", local_dir.absolute(), ""
        return
    shared = f"tic-{os.getuid()}"
    if env.get("TIC_LOCAL_DIR"):
        yield "$TIC_LOCAL_DIR", Path(env["TIC_LOCAL_DIR"]).absolute(), ""
        return
    for name in ("SLURM_TMPDIR", "TMPDIR"):
        if env.get(name):
            yield f"${name}", Path(env[name]).absolute(), shared
    if env.get("XDG_STATE_HOME"):
        yield "$XDG_STATE_HOME", Path(env["XDG_STATE_HOME"]).absolute(), "tic"
    else:
        home = Path(env.get("HOME") or "~").expanduser()
        if home.is_absolute():
            yield "home", home / ".local/state", "tic"
    yield "directory", Path("/var/tmp"), shared  # noqa: S108  made safe by `_made`
    yield "directory", Path("/tmp"), shared  # noqa: S108


def _made(base: Path, own: str) -> Path:
    """Our directory in `base`, made if need be. Raises OSError if it is not ours alone."""
    if own in ("", "tic"):
        (base / own).mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        open_to_all = base.stat().st_mode
        if open_to_all & stat.S_IWOTH and not open_to_all & stat.S_ISVTX:
            raise OSError("everybody may rename what lies there")
        (base / own).mkdir(mode=0o700, exist_ok=True)
    directory = base / own
    require_ours(directory)
    return directory.resolve()


def _why_not(directory: Path) -> str:
    if far := _far(directory):  # it may be a mount of its own
        return far
    if "?" in str(directory):
        return "DuckDB cannot keep a file under a name with a question mark"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "not writable"
    free = shutil.disk_usage(directory).free
    if free < FREE_BYTES:
        return f"{free >> 20} MB free, {FREE_BYTES >> 20} MB are needed"
    return "" if locks_work(directory) else "file locks do not hold"


def _far(directory: Path) -> str:
    mount = _mount(directory)
    return f"on a network file system ({mount.fstype})" if mount.network else ""


def _mount(path: Path) -> Mount:
    return Mounts.read().of(str(path.resolve()))
