"""Who holds each store of a workspace, where its files lie, and how old what is published of it is.

Nothing is opened but small JSON files, so this can be asked at any time and from any host.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tic_daemon.store.layout import StoreLayout, local_host, read_json, stores_under
from tic_daemon.store.owner import STALE_S, Process, take_over_command
from tic_daemon.store.snapshot import snapshot_of


@dataclass(frozen=True, slots=True)
class Lease:
    """One store. Times are ages in seconds, negative if clocks differ; None: there is none.

    Attributes:
        state: free: nobody writes it; alive: a process here that runs, or a fresh heartbeat from elsewhere; dead: its
            process is gone, and the next daemon takes it by itself; silent: no heartbeat from elsewhere for over a
            minute, so that a person must say that it is dead.
        owner: the process that holds it, "" for none. endpoint: its URL, "" for none.
        database: where the live file lies, or lay. here: it can be seen from here. bytes: its size, if it can.
        why: why it does not lie in the state directory; "" if it does.
        advice: what a person can do; "" if nothing.
    """

    directory: Path
    store_id: str
    host: str
    state: str
    owner: str
    heartbeat_s: float | None
    endpoint: str
    database: str
    here: bool
    bytes: int | None
    why: str
    snapshot_s: float | None
    advice: str


def leases(target: Path) -> list[Lease]:
    """All stores of a workspace, a state directory or a store directory; the one written last first."""
    return [_lease(layout) for layout in stores_under(target)]


def as_text(found: list[Lease]) -> str:
    """For people; not yet made safe for a terminal."""
    if not found:
        return "stores: none yet\n"
    lines = [f"stores: {len(found)}"]
    for one in found:
        lines.append(f"  {one.directory.name}")
        beat = f", last heartbeat {_age(one.heartbeat_s)} ago" if one.heartbeat_s is not None else ""
        lines.append(f"      {one.state}: {one.owner or 'no daemon writes it'}{beat}")
        if one.endpoint:
            lines.append(f"      endpoint {one.endpoint}")
        size = f", {one.bytes / 1e6:.1f} MB" if one.bytes is not None else ""
        lines.append(f"      file {one.database}{size or ('' if one.here else ', not to be seen from here')}")
        if one.why:
            lines.append(f"      it lies there as {one.why}")
        if one.snapshot_s is not None:
            lines.append(f"      snapshot of {_age(one.snapshot_s)} ago")
        if one.advice:
            lines.append(f"      ! {one.advice}")
    return "\n".join(lines) + "\n"


def as_json(found: list[Lease]) -> list[dict[str, object]]:
    """For programs: the fields of `Lease`, ages rounded."""
    out: list[dict[str, object]] = []
    for one in found:
        row: dict[str, object] = {name: getattr(one, name) for name in one.__slots__}
        row["directory"] = str(one.directory)
        for name in ("heartbeat_s", "snapshot_s"):
            value = getattr(one, name)
            row[name] = None if value is None else round(value, 1)
        out.append(row)
    return out


def _lease(layout: StoreLayout) -> Lease:
    pointer = read_json(layout.pointer_file)
    owner = Process.read(layout.owner_file)
    age = _file_age(layout.owner_file)
    state = _state(owner, age)
    told = read_json(layout.daemon_file)
    url = told.get("url")
    live = owner is not None and state == "alive" and told.get("pid") == owner.pid
    elsewhere = pointer.get("host") != local_host() and isinstance(pointer.get("database"), str)
    database = str(pointer["database"]) if elsewhere else str(layout.database)
    size = None if elsewhere else _size(layout.database)
    snapshot = snapshot_of(layout)
    now = datetime.now(UTC).replace(tzinfo=None)
    return Lease(
        directory=layout.directory,
        store_id=layout.store_id,
        host=layout.host,
        state=state,
        owner=f"pid {owner.pid} on {owner.host}" if owner is not None else "",
        heartbeat_s=age if owner is not None else None,
        endpoint=url if live and isinstance(url, str) else "",
        database=f"{layout.host}:{database}" if elsewhere else database,
        here=size is not None,
        bytes=size,
        why=str(pointer.get("why") or ""),
        snapshot_s=(now - snapshot.at).total_seconds() if snapshot is not None else None,
        advice=_advice(layout, state, size, snapshot is not None, elsewhere=elsewhere),
    )


def _state(owner: Process | None, age: float | None) -> str:
    me = Process.current()
    if owner is None:
        return "free"
    if owner.same_place(me):
        return "alive" if owner.alive() else "dead"
    if owner.host == me.host and owner.boot and me.boot and owner.boot != me.boot:
        return "dead"  # this host was started anew since
    return "alive" if age is not None and age < STALE_S else "silent"


def _advice(layout: StoreLayout, state: str, size: int | None, published: bool, *, elsewhere: bool) -> str:
    if state == "silent":
        return f"if that daemon is dead, on {layout.host}: {take_over_command(layout.state_dir)}"
    if state in ("free", "dead") and not elsewhere and size is None and not layout.published.exists():
        if published:
            return "the live file is gone; the next daemon makes it again from the snapshot, and reads on from there"
        return "the live file is gone and nothing was published; the next daemon reads the logs from their beginning"
    return ""


def _file_age(path: Path) -> float | None:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
