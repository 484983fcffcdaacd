"""Files that say what a run was made of, as the daemon reads them: in a thread, again when they have changed.

RecordFiles.look(files, now)     (path, root) of what discovery named: record/flat.py says what each is
RecordFiles.note(deltas)         configurations that W&B's clients kept, out of what was read of their logs
rows = RecordFiles.pending(); RecordFiles.taken(rows)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tic_daemon.record import flat
from tic_daemon.record.flat import Told
from tic_daemon.results import layout, manifest
from tic_daemon.sources.smallfiles import SmallFiles
from tic_daemon.store.rows import ConfigRow, SourceDelta
from tic_daemon.wandb.events import WandbRun

WANDB: Final = "wandb"
_REST: Final = 20.0


class RecordFiles(SmallFiles):
    """See the module.

    Args:
        host: name of this machine. run_for: the run that tic.toml gives to a path, "" if none.
        known: by path, the digest of what the store holds; "" if it holds none any more.
    """

    def __init__(self, host: str, run_for: Callable[[str], str], known: Mapping[str, str]) -> None:
        super().__init__("tic-record")
        self._host, self._run_for = host, run_for
        self._known = dict(known)
        self._rows: tuple[ConfigRow, ...] = ()

    def look(self, files: Sequence[tuple[str, str]], now: float) -> None:
        """As of all small files; one that the store knows and that is gone is told, too."""
        if files or self._known:
            super().look(files, now)

    def note(self, deltas: Iterable[SourceDelta]) -> None:
        """Takes the configurations out of what was read of W&B; of one source the last counts."""
        for delta in deltas:
            events = [event for event in (*delta.events, *delta.provisional) if isinstance(event, WandbRun)]
            if events and (said := _mapping(events[-1].config)):
                source = delta.source
                told = flat.of_mapping(said, WANDB, source.path.rpartition("/")[2])
                self._tell(source.path, source.root, WANDB, told, None, source.host)

    def declare(self, file: str, root: str, pairs: Sequence[Mapping[str, object]]) -> None:
        """What tic.toml says of pairs of arms; of none, what it said before is over."""
        told = flat.of_mapping({flat.PAIRS: list(pairs)}, flat.PAIRS, file.rpartition("/")[2]) if pairs else Told()
        self._tell(file, root, flat.PAIRS, told, None, self._host)

    def pending(self) -> tuple[ConfigRow, ...]:
        """Rows that are to be stored."""
        with self._lock:
            return self._rows

    def taken(self, rows: Sequence[ConfigRow]) -> None:
        """Says that `rows`, as they were given, are committed."""
        done = {id(row) for row in rows}
        with self._lock:
            self._rows = tuple(row for row in self._rows if id(row) not in done)

    def _look_at(self, files: tuple[tuple[str, str], ...]) -> None:
        began = time.monotonic()
        super()._look_at(files)
        # There may be a manifest for each step of many runs, on a slow mount: a long look is followed by a long rest.
        self._next = max(self._next, time.monotonic() + _REST * (time.monotonic() - began))

    def _one(self, path: str, root: str) -> None:
        info = os.stat(path)  # noqa: PTH116  names need not be valid text
        if self._stats.get(path) != (info.st_ino, info.st_size, info.st_mtime_ns):
            super()._one(path, root)

    def _looked(self, files: Sequence[tuple[str, str]]) -> None:
        for path in set(self._known).difference(path for path, _ in files):
            if self._known[path] and flat.kind_of(path) and not os.path.lexists(path):
                self._stats.pop(path, None)
                self._gone(path, "")

    def _changed(self, path: str, root: str, fd: int, info: os.stat_result) -> None:
        kind = flat.kind_of(path)
        if not kind:
            return
        most = manifest.MAX_BYTES if kind == layout.MANIFEST else flat.MAX_BYTES
        data = _whole(fd, most + 1)
        told = flat.read(data, kind, path) if len(data) <= most else Told(problem=f"longer than {most >> 20} MiB")
        if kind == "receipt" and told.values:
            told = flat.with_bytes(told, data)
        modified = datetime.fromtimestamp(info.st_mtime, UTC).replace(tzinfo=None)
        self._tell(path, root, kind, told, modified, self._host)

    def _tell(self, path: str, root: str, kind: str, told: Told, modified: datetime | None, host: str) -> None:
        # What is wrong with manifests and sidecars is told by those who verify results.
        problem = "" if kind in (layout.META, layout.MANIFEST) else told.problem
        if not told.values and not problem:
            if self._known.get(path):
                self._gone(path, root)
            return
        said = told.run if kind in (layout.MANIFEST, layout.META, "receipt") else ""
        run = self._run_for(path) or said or (layout.run_of(path) if kind not in (WANDB, flat.PAIRS) else "")
        digest = told.digest
        if self._known.get(path, "") == digest:
            return
        rows = [
            ConfigRow(
                host, root, path, run, kind, one.side, digest, False, one.key, one.name, one.value, one.line,
                one.secret, "", modified,
            )
            for one in told.values
        ]  # fmt: skip
        if problem:
            rows.append(ConfigRow(host, root, path, run, kind, "", digest, problem=problem, modified_at=modified))
        self._put(path, digest, rows)

    def _gone(self, path: str, root: str) -> None:
        self._put(path, "", [ConfigRow(self._host, root, path, gone=True)])

    def _put(self, path: str, digest: str, rows: Sequence[ConfigRow]) -> None:
        with self._lock:
            self._known[path] = digest
            # What a file said before it changed again was never stored: two states in one commit would be one.
            self._rows = (*(row for row in self._rows if row.path != path), *rows)


def _mapping(text: str) -> dict[str, object]:
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) and "not kept" not in said else {}


def _whole(fd: int, most: int) -> bytes:
    parts, left = [], most
    while left and (part := os.read(fd, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
