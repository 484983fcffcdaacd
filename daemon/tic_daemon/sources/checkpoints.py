"""Checkpoints of a run, by names and `stat` alone: which step, how large, when last written, whether it is whole.

    global_step_N   verl              whole when latest_checkpointed_iteration.txt beside it is newer
                    SkyRL             whole when latest_ckpt_global_step.txt beside it is newer
    iter_NNNNNNN    Megatron, slime   whole when latest_checkpointed_iteration.txt beside it is newer
    checkpoint-N    HF Trainer, TRL   whole when trainer_state.json, which it writes last, is in it
    step-N, step_N  torchtitan (DCP)  whole when .metadata is in it, which DCP writes last
                    prime-rl          whole when STABLE is in it

    watch = Checkpoints(host, clock)
    watch.found(directories, root)    after each walk over the roots
    rows = watch.poll()               what changed since the last call

A directory of such a name is a checkpoint once a file in it looks like weights; before, and for `step_3/` of other
programs, nothing is said. Not more than `_ENTRIES` entries on two levels are looked at, so that a checkpoint of many
terabytes costs no more than a small one. The looks are made in a thread of their own: one into a file system that
hangs holds up nothing else.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tic_daemon.store.rows import CheckpointRow

EVERY_S = 10.0
"""Pause between two looks at checkpoints that may still be written."""
REST_S = 120.0
"""Without a marker file, a checkpoint counts as whole when nothing in it was written for so long."""
_ENTRIES = 4096
_KEPT = 10_000

_NAMES = (
    ("global_step", re.compile(r"global_step_?(\d{1,12})\Z")),
    ("iter", re.compile(r"iter_(\d{1,12})\Z")),
    ("checkpoint", re.compile(r"checkpoint-(\d{1,12})\Z")),
    ("step", re.compile(r"step[-_](\d{1,12})\Z")),
)
_WEIGHTS = re.compile(r"(?:\.(?:pt|pth|bin|safetensors|distcp)|\A\.metadata)\Z")
_INSIDE = {"checkpoint": ("trainer_state.json",), "step": (".metadata", "STABLE")}
_BESIDE = {
    "global_step": ("latest_checkpointed_iteration.txt", "latest_ckpt_global_step.txt"),
    "iter": ("latest_checkpointed_iteration.txt",),
}


def named(name: str) -> tuple[str, int] | None:
    """(layout, step) of a directory that is named like a checkpoint."""
    for layout, pattern in _NAMES:
        if match := pattern.match(name):
            return layout, int(match[1])
    return None


@dataclass(slots=True)
class _Known:
    """A directory that is watched. `settled`: its own time when it was whole: it is looked at again if that moves."""

    root: str
    row: CheckpointRow | None = None
    settled: int | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """Of one look. `row` None: nothing can be said."""

    path: str
    row: CheckpointRow | None
    settled: int | None = None
    gone: bool = False


class Checkpoints:
    """The checkpoints of one daemon. For one thread, which is never held up.

    Args:
        host: of the rows.
        known: the newest row of each path that the store has: one that is gone by now is told, too.
        clock: wall time in seconds.
    """

    def __init__(self, host: str, known: Iterable[CheckpointRow] = (), clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._clock = clock
        self._known = {row.path: _Known(row.root, row) for row in known if row.host == host and row.present}
        self._thread = ThreadPoolExecutor(1, "tic-checkpoint")
        self._look: Future[list[_Answer]] | None = None
        self._due = 0.0

    def found(self, directories: Iterable[str], root_of: Callable[[str], str]) -> None:
        """Directories named like checkpoints that a walk has entered; new ones are looked at with the next poll."""
        for path in directories:
            if path not in self._known and len(self._known) < _KEPT and named(path.rpartition("/")[2]):
                self._known[path] = _Known(root_of(path))
                self._due = 0.0

    def poll(self) -> list[CheckpointRow]:
        """What changed; begins the next look if one is due."""
        changed = self._collect()
        now = self._clock()
        if self._look is None and self._known and (now >= self._due or now < self._due - 2 * EVERY_S):
            self._due = now + EVERY_S
            self._look = self._thread.submit(self._look_at, list(self._known.items()), now)
        return changed

    def busy(self) -> bool:
        """Whether a look is under way or its answer waits."""
        return self._look is not None or (bool(self._known) and self._due == 0.0)

    def close(self) -> None:
        """Waits for nothing."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _collect(self) -> list[CheckpointRow]:
        if self._look is None or not self._look.done():
            return []
        answers, self._look = self._look.result(), None
        changed = []
        for answer in answers:
            known = self._known[answer.path]
            known.settled = answer.settled
            if answer.row is not None and answer.row != known.row:
                known.row = answer.row
                changed.append(answer.row)
            if answer.gone:
                del self._known[answer.path]
        return changed

    def _look_at(self, asked: list[tuple[str, _Known]], now: float) -> list[_Answer]:
        return [self._one(path, known, now) for path, known in asked]

    def _one(self, path: str, known: _Known, now: float) -> _Answer:
        layout, step = named(path.rpartition("/")[2]) or ("", 0)
        try:
            own = os.stat(path)  # noqa: PTH116  names need not be valid text
        except FileNotFoundError:
            row = known.row and replace(known.row, present=False, complete=False, why="it is gone")
            return _Answer(path, row, gone=True)
        except OSError:
            return _Answer(path, None)  # it cannot be looked at now: what is known of it stays
        if known.settled == own.st_mtime_ns:
            return _Answer(path, known.row, known.settled)
        newest, size, files, weights, inside = 0, 0, 0, False, ""
        for name, info in _entries(path):
            files += 1
            size += info.st_size
            newest = max(newest, info.st_mtime_ns)
            weights = weights or bool(_WEIGHTS.search(name))
            if name in _INSIDE.get(layout, ()):
                inside = name
        if not weights:
            return _Answer(path, None)
        complete, why = self._whole(path, layout, inside, newest, now)
        at = datetime.fromtimestamp(newest / 1e9, UTC).replace(tzinfo=None)
        row = CheckpointRow(self._host, known.root, path, step, layout, size, files, at, complete, True, why)
        return _Answer(path, row, own.st_mtime_ns if complete else None)

    def _whole(self, path: str, layout: str, inside: str, newest: int, now: float) -> tuple[bool, str]:
        if inside:
            return True, f"{inside} is in it"
        above = path.rpartition("/")[0]
        for name in _BESIDE.get(layout, ()):
            try:
                if os.stat(f"{above}/{name}").st_mtime_ns >= newest:  # noqa: PTH116
                    return True, f"{name} is newer"
            except OSError:
                continue
        if now - newest / 1e9 >= REST_S:
            return True, f"nothing in it was written for {REST_S / 60:.0f} min"
        return False, "it may still be written"


def _entries(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """(name, stat) of the files in it and in its directories, the first `_ENTRIES` of them. Links are not followed."""
    left = _ENTRIES
    below: list[str] = []
    for depth, directories in ((0, [path]), (1, below)):
        for directory in directories:
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        if left <= 0:
                            return
                        left -= 1
                        try:
                            if entry.is_dir(follow_symlinks=False):
                                if depth == 0:
                                    below.append(entry.path)
                            else:
                                yield entry.name, entry.stat(follow_symlinks=False)
                        except OSError:
                            continue  # it went while it was looked at
            except OSError:
                continue
