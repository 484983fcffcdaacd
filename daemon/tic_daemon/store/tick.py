"""What one tick writes, worked out before its transaction begins, from what the store is known to hold.

    Memory      what the next commit builds on: cursors, numbers, ids; read from the file by `load`
    plan        numbers the rows of a tick; touched, withdrawn, news: what else it means

Nothing here writes, and nothing here changes `Memory`: the writer does when its COMMIT has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from tic_daemon.store.columns import EVENT_TABLES, AnyEvent, Batch
from tic_daemon.store.comparison_rows import ComparisonTaskRow, ComparisonTold
from tic_daemon.store.rows import (
    ArtifactRow,
    CheckpointRow,
    CursorRow,
    FaultFileRow,
    RemoteFaultRow,
    RemoteGapRow,
    RemotePlaceRow,
    ResultFileRow,
    ResultGapRow,
    ResultRow,
    SourceDelta,
    SourceRow,
)

if TYPE_CHECKING:
    import duckdb

_Row = TypeVar(
    "_Row", SourceRow, CursorRow, RemoteGapRow, CheckpointRow, FaultFileRow, ResultFileRow, ArtifactRow, ResultGapRow,
    ComparisonTaskRow,
)  # fmt: skip
_Look = TypeVar("_Look", CheckpointRow, FaultFileRow, ResultRow, ComparisonTaskRow)

Key = tuple[int, int]
"""(source_id, generation)"""
RemoteRow = RemoteFaultRow | RemotePlaceRow | RemoteGapRow


@dataclass(slots=True)
class Memory:
    """What the store holds that the next commit builds on; read from the file when it is opened."""

    rec_id: int
    prov: int
    tick: int
    observed_at: datetime
    cursors: dict[Key, CursorRow]
    sources: dict[int, SourceRow]
    mark_ids: set[str]
    attempt_ids: set[str]
    provisional: dict[Key, tuple[AnyEvent, ...]]
    revisions: dict[tuple[object, ...], int]
    gaps: set[RemoteGapRow]
    pins: dict[str, str]
    configs: dict[str, str]
    checkpoints: dict[tuple[str, ...], CheckpointRow]
    fault_files: dict[tuple[str, ...], FaultFileRow]
    results: dict[tuple[str, ...], ResultRow]
    tasks: dict[tuple[str, ...], ComparisonTaskRow]
    """Of all four, the newest row by its key."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What looks at files beside the logs brought that the store does not have: by key, what is newest."""

    checkpoints: dict[tuple[str, ...], CheckpointRow]
    fault_files: dict[tuple[str, ...], FaultFileRow]
    results: dict[tuple[str, ...], ResultRow]
    compared: list[ComparisonTold]

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.fault_files or self.results or self.compared)

    def keep(self, memory: Memory) -> None:
        """It is committed."""
        memory.checkpoints.update(self.checkpoints)
        memory.fault_files.update(self.fault_files)
        memory.results.update(self.results)
        memory.tasks.update((row.key, row) for row in self.compared if isinstance(row, ComparisonTaskRow))


@dataclass(slots=True)
class Tick:
    """Everything that one transaction writes, made before it begins."""

    batches: dict[str, Batch]
    sources: dict[int, SourceRow]
    changed: list[SourceRow]
    cursors: dict[Key, CursorRow]
    provisional: dict[Key, tuple[AnyEvent, ...]]
    rec_id: int
    prov: int
    events: int
    bytes: int
    lines: int

    @property
    def mismatches(self) -> int:
        """How many rows of table `mismatch` it writes."""
        return len(self.batches["mismatch"].events) if "mismatch" in self.batches else 0


def load(con: duckdb.DuckDBPyConnection) -> Memory:
    """What the open store holds."""
    last = con.execute(
        "SELECT coalesce(max(tick), 0), max(observed_at), (SELECT max(created_at) FROM store) FROM ingest"
    ).fetchone()
    assert last is not None  # noqa: S101  an aggregate always gives a row
    if last[1] is None:  # no tick was ever written: to ask all tables takes a tenth of a start
        return Memory(0, 0, 0, last[2], {}, {}, set(), set(), {}, {}, set(), {}, {}, {}, {}, {}, {})
    newest = [f"SELECT max(rec_id) r, max(prov) p FROM {table}" for table in EVENT_TABLES]  # noqa: S608
    others = (
        "mark", "run_attempt", "remote_fault", "remote_place", "remote_gap", "env_pin", "config_value", "result_file",
        "artifact", "result_gap", "comparison_task", "comparison", "comparison_file", "comparison_said",
        "comparison_version", "comparison_sequence", "comparison_token", "trace_boundary", "ledger_row",
    )  # fmt: skip
    newest += [f"SELECT max(rec_id), NULL FROM {table}" for table in others]  # noqa: S608
    rows = con.execute(
        f"SELECT coalesce(max(r), 0), coalesce(max(p), 0) FROM ({' UNION ALL '.join(newest)})"  # noqa: S608
    ).fetchone()
    assert rows is not None  # noqa: S101  as above
    return Memory(
        rec_id=rows[0],
        prov=rows[1],
        tick=last[0],
        observed_at=last[1] or last[2],
        cursors={(row.source_id, row.generation): row for row in _read_rows(con, CursorRow, "cursor")},
        sources={row.source_id: row for row in _read_rows(con, SourceRow, "source")},
        mark_ids={str(row[0]) for row in con.execute("SELECT id FROM mark").fetchall()},
        attempt_ids={str(row[0]) for row in con.execute("SELECT id FROM run_attempt").fetchall()},
        provisional={},
        revisions=_revisions(con),
        gaps=set(_read_rows(con, RemoteGapRow, "remote_gap")),
        pins=dict(con.execute("SELECT path, arg_max(digest, observed_at) FROM env_pin GROUP BY path").fetchall()),
        configs=dict(
            con.execute("SELECT path, arg_max(digest, observed_at) FROM config_value GROUP BY path").fetchall()
        ),
        checkpoints={row.key: row for row in _read_rows(con, CheckpointRow, "checkpoint ORDER BY observed_at")},
        fault_files={row.key: row for row in _read_rows(con, FaultFileRow, "fault_file ORDER BY observed_at")},
        results={
            row.key: row
            for rows in (
                _read_rows(con, ResultFileRow, "result_file ORDER BY rec_id"),
                _read_rows(con, ArtifactRow, "artifact ORDER BY rec_id"),
                _read_rows(con, ResultGapRow, "result_gap ORDER BY rec_id"),
            )
            for row in rows
        },
        tasks={row.key: row for row in _read_rows(con, ComparisonTaskRow, "comparison_task ORDER BY rec_id")},
    )


def plan(deltas: Sequence[SourceDelta], memory: Memory) -> Tick:
    """Numbers the rows of a tick. Reads what is remembered, changes nothing of it."""
    tick = Tick({}, {}, [], {}, {}, memory.rec_id, memory.prov, 0, 0, 0)
    for delta in deltas:
        source, cursor = delta.source, delta.cursor
        tick.sources[source.source_id] = source
        tick.bytes += delta.bytes
        tick.lines += delta.lines
        generation = source.generation if cursor is None else cursor.generation
        _add(tick, delta.events, source, generation, None)
        if cursor is not None:
            key = (cursor.source_id, cursor.generation)
            tick.cursors[key] = cursor
            tick.provisional[key] = delta.provisional
        elif delta.provisional:
            raise ValueError("a delta without a cursor cannot hold provisional events")
    for key, cursor in tick.cursors.items():
        live = tick.provisional[key]
        before = memory.cursors.get(key)
        prov = None
        if live and before is not None and before.prov is not None and memory.provisional.get(key) == live:
            prov = before.prov  # the same set as the one that stands: nothing to write
        elif live:
            tick.prov += 1
            prov = tick.prov
            _add(tick, live, tick.sources[key[0]], key[1], prov)
        tick.cursors[key] = replace(cursor, prov=prov)
    for source in tick.sources.values():
        known = memory.sources.get(source.source_id)
        if known is None or _visible(known) != _visible(source):
            tick.changed.append(source)
    return tick


def touched(tick: Tick, memory: Memory, *, attempts: bool) -> set[str]:
    """What a tick changes, as `Derived.after` wants it."""
    found = {str(table) for table in tick.batches}
    for key in tick.cursors:
        if key not in memory.cursors:
            found.add("generation")
        # Provisional rows that no longer count are a change of their tables, too.
        before = memory.cursors.get(key)
        if key in memory.provisional:
            if memory.provisional[key] != tick.provisional[key]:
                found |= {event.table for event in memory.provisional[key]}
        elif before is not None and before.prov is not None:  # since the start, which tables is not known
            found |= {"fault", "process_seen", "source_run"}
    if any(_placing(memory.sources.get(source.source_id)) != _placing(source) for source in tick.sources.values()):
        found.add("source_place")
    if attempts:
        found |= {"run_attempt", "attempt_cut"}
    return found


def _add(tick: Tick, events: Iterable[AnyEvent], source: SourceRow, generation: int, prov: int | None) -> None:
    for event in events:
        batch = tick.batches.get(event.table)
        if batch is None:
            batch = tick.batches[event.table] = Batch()
        tick.rec_id += 1
        tick.events += 1
        batch.events.append(event)
        batch.rec_id.append(tick.rec_id)
        batch.host.append(source.host)
        batch.source_id.append(source.source_id)
        batch.generation.append(generation)
        batch.prov.append(prov)


def withdrawn(tick: Tick, memory: Memory) -> bool:
    """Whether provisional records are gone without one at the same place instead: a line grew, and is none any more."""
    gone: set[tuple[int, int, int]] = set()
    for key, cursor in tick.cursors.items():
        before = memory.cursors.get(key)
        if before is None or before.prov is None or before.prov == cursor.prov:
            continue
        if key not in memory.provisional:  # of the time before this daemon was started: which they were is not known
            return True
        events = (event for event in memory.provisional[key] if event.table == "mismatch")
        gone.update((*key, event.at.byte_offset) for event in events)
    written = tick.batches.get("mismatch")
    if not gone or written is None:
        return bool(gone)
    offsets = (event.at.byte_offset for event in written.events)
    return bool(gone.difference(zip(written.source_id, written.generation, offsets, strict=True)))


def _placing(source: SourceRow | None) -> tuple[object, ...]:
    """What of a source decides whose its lines are and which clock they have."""
    if source is None:
        return ()
    return (
        source.host, source.root, source.pid, source.single_process, source.stream, source.console, source.run_hint,
        source.run_how, source.zone_s,
    )  # fmt: skip


def _visible(source: SourceRow) -> tuple[object, ...]:
    """What of a source has a past: a change of it is a row of `source_change`."""
    return (source.state, source.error, source.zone_s, source.generation)


def news(remote: Sequence[RemoteRow], memory: Memory) -> tuple[list[RemoteRow], dict[tuple[object, ...], int]]:
    """What of `remote` is not in the store yet, and the revisions that it brings."""
    found: list[RemoteRow] = []
    revisions: dict[tuple[object, ...], int] = {}
    gaps: set[RemoteGapRow] = set()
    for row in remote:
        if isinstance(row, RemoteGapRow):
            if not _told_before(row, memory.gaps) and row not in gaps:
                gaps.add(row)
                found.append(row)
        elif row.revision > max(memory.revisions.get(row.key, -1), revisions.get(row.key, -1)):
            revisions[row.key] = row.revision
            found.append(row)
    return found, revisions


def looked(
    checkpoints: Sequence[CheckpointRow],
    fault_files: Sequence[FaultFileRow],
    results: Sequence[ResultRow],
    compared: Sequence[ComparisonTold],
    memory: Memory,
) -> Looked:
    """What of these rows the store does not have."""
    return Looked(
        _moved(checkpoints, memory.checkpoints),
        _moved(fault_files, memory.fault_files),
        _moved(results, memory.results),
        _fresh(compared, memory),
    )


def _fresh(told: Sequence[ComparisonTold], memory: Memory) -> list[ComparisonTold]:
    """Of tasks the newest of each, if it says what the store does not have; all else as it was told."""
    newest = _moved([row for row in told if isinstance(row, ComparisonTaskRow)], memory.tasks)
    return [row for row in told if not isinstance(row, ComparisonTaskRow)] + list(newest.values())


def _moved(rows: Sequence[_Look], known: Mapping[tuple[str, ...], _Look]) -> dict[tuple[str, ...], _Look]:
    """The newest of `rows` of each key, if it says what the store does not have."""
    newest = {row.key: row for row in rows}
    return {key: row for key, row in newest.items() if known.get(key) != row}


def _told_before(gap: RemoteGapRow, known: set[RemoteGapRow]) -> bool:
    """A file that is read again gives the same bad lines, perhaps fewer or more at a time."""
    last = gap.last_byte
    if last is None:
        return gap in known
    return any(
        (old.kind, old.path) == (gap.kind, gap.path) and old.last_byte is not None and old.last_byte >= last
        for old in known
    )


def _revisions(con: duckdb.DuckDBPyConnection) -> dict[tuple[object, ...], int]:
    rows = con.execute(
        "SELECT 'fault', origin_store_id, origin_rec_id, run_id, lo_attempt, max(revision) FROM remote_fault "
        "GROUP BY ALL"
    ).fetchall()
    rows += con.execute(
        "SELECT what, origin_store_id, run_id, host, root, lo_attempt, hi_attempt, node, bus, max(revision) "
        "FROM remote_place GROUP BY ALL"
    ).fetchall()
    return {tuple(row[:-1]): row[-1] for row in rows}


def _read_rows(con: duckdb.DuckDBPyConnection, cls: type[_Row], table: str) -> list[_Row]:
    names = [field.name for field in fields(cls)]
    rows = con.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()  # noqa: S608  names from the row class
    return [cls(*row) for row in rows]
