"""Small values for the store's tests."""

from __future__ import annotations

from datetime import datetime

from tic_daemon.scan.events import At, Event, Fault, Mismatch
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id

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
