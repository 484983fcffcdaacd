"""Small values for the store's tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tic_daemon.scan.events import At, Event, Fault, Metric, Mismatch
from tic_daemon.store.rows import CursorRow, MarkRow, SourceDelta, SourceRow, source_id

NOON = datetime(2026, 11, 29, 12, 0, 0, 123456)


def source(name: str = "worker.log", **changes: object) -> SourceRow:
    path = f"/jobs/{name}"
    values: dict[str, object] = {"kind": "file", "host": "node7", "root": "/jobs", "path": path, **changes}
    return SourceRow(source_id("node7", "file", path), **values)  # type: ignore[arg-type]


def mismatch(offset: int, **changes: object) -> Mismatch:
    return Mismatch(At(offset, 40, offset // 40 + 1, step=3), run="r1", metric="logprob_mae", **changes)  # type: ignore[arg-type]


def fault(offset: int, kind: str = "cuda-illegal-access") -> Fault:
    return Fault(At(offset, 40, offset // 40 + 1), kind, "confirmed", text="CUDA error: an illegal memory access")


def delta(
    *events: Event,
    name: str = "worker.log",
    generation: int = 0,
    offset: int = 0,
    provisional: tuple[Event, ...] = (),
    **changes: object,
) -> SourceDelta:
    row = source(name, generation=generation, **changes)
    cursor = CursorRow(row.source_id, generation, byte_offset=offset, path=row.path)
    return SourceDelta(row, cursor, events, provisional, bytes=100, lines=2)


KINDS = (
    lambda at: Mismatch(at, run="r", value=float(at.byte_offset)),
    lambda at: Fault(at, "k", "confirmed"),
    lambda at: Metric(at, "key", 1.5, "1.5"),
)


def next_tick(cursors: Mapping[tuple[int, int], CursorRow]) -> tuple[list[SourceDelta], list[MarkRow]]:
    """What follows the cursors of five sources; the same whoever asks, since it depends on the offsets alone."""
    deltas, start = [], 0
    for number in range(5):
        row = source(f"{number}.log")
        known = cursors.get((row.source_id, 0))
        start = known.byte_offset if known else 0
        events = [KINDS[(start // 10 + i) % 3](At(start + 10 * i, 10, start // 10 + i + 1)) for i in range(40)]
        cursor = CursorRow(row.source_id, 0, byte_offset=start + 400, lines=start // 10 + 40)
        deltas.append(SourceDelta(row, cursor, tuple(events), bytes=400, lines=40))
    mark = MarkRow(f"m{start}", "r", None, "run", "", "note", "x", "me", NOON, "h")
    return deltas, [mark, mark]
