"""Declared attempts on their way from spool lines into a store: what is new of them, and which cuts they get here.

Lines of one id are one declaration: a scheduler's restart is told by the daemon of every node, each with the cuts of
its own sources. A source that no line names, though this store knew it when the attempt was declared, is cut where the
store has read it: without a cut all of it would count as new, and with it the processes that a fault has locked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from tic_daemon.store import arrow
from tic_daemon.store.rows import AttemptRow, CursorRow, SourceRow

if TYPE_CHECKING:
    import duckdb

Cut = Mapping[int, tuple[int, int]]
"""By source_id: (generation, byte offset)."""

# A place in a source as one number, as schema/derive/2_lock.sql writes it.
_GENERATION = 1 << 44


@dataclass(slots=True)
class Declared:
    """What one transaction adds: `rows` of run_attempt; `cuts` of attempt_cut: (id, source, generation, offset)."""

    rows: list[AttemptRow] = field(default_factory=list)
    cuts: list[tuple[str, int, int, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rows or self.cuts)


def take_in(
    con: duckdb.DuckDBPyConnection,
    lines: Sequence[AttemptRow],
    known: Collection[str],
    sources: Mapping[int, SourceRow],
    cursors: Mapping[tuple[int, int], CursorRow],
) -> Declared:
    """What of the lines is not in the store yet.

    Args:
        known: ids in run_attempt. sources, cursors: what the store holds before this tick.
    """
    found = Declared()
    named = _named(con, {line.id for line in lines if line.id in known})
    for line in lines:
        first = line.id not in named
        here = named.setdefault(line.id, set())
        found.cuts += [(line.id, *row) for row in line.cut if row[0] not in here]
        here.update(row[0] for row in line.cut)
        if first:
            found.rows.append(line)
    for row in found.rows:
        if row.from_kind != "time":  # that one cuts by stamps
            unnamed = (source for source in sources.values() if source.source_id not in named[row.id])
            found.cuts += [(row.id, *cut) for cut in _where_read(unnamed, cursors, row)]
    return found


def _where_read(
    sources: Iterable[SourceRow], cursors: Mapping[tuple[int, int], CursorRow], row: AttemptRow
) -> Iterable[tuple[int, int, int]]:
    for source in sources:
        if source.first_seen_at is None or source.first_seen_at <= row.declared_at:
            cursor = cursors.get((source.source_id, source.generation))
            yield source.source_id, source.generation, cursor.byte_offset if cursor else 0


def _named(con: duckdb.DuckDBPyConnection, ids: set[str]) -> dict[str, set[int]]:
    """The sources that stored declarations cut."""
    named: dict[str, set[int]] = {attempt_id: set() for attempt_id in ids}
    if ids:
        sql = "SELECT id, source_id FROM attempt_cut WHERE list_contains(?, id)"
        for attempt_id, source in con.execute(sql, [sorted(ids)]).fetchall():
            named[attempt_id].add(source)
    return named


def runs_between(con: duckdb.DuckDBPyConnection, after: Cut, before: Cut | None) -> set[str]:
    """Runs of which something was read at or behind `after`, and, unless it is None, ahead of `before`.

    A source that `after` does not name is all behind it; one that `before` does not name is not ahead of it.
    """
    with arrow.laid(con, _after=_cut_table(after), _before=_cut_table(before or {})):
        rows = con.execute(
            f"""
            SELECT DISTINCT p.run_id
            FROM (SELECT p.source_id, p.run_id,
                    p.generation::BIGINT * {_GENERATION} + greatest(p.from_off, 0) AS first_byte,
                    p.generation::BIGINT * {_GENERATION} + least(p.to_off, c.byte_offset) AS end_byte
                  FROM i_place p JOIN cursor c ON c.source_id = p.source_id AND c.generation = p.generation) p
            LEFT JOIN _after a ON a.source_id = p.source_id
            LEFT JOIN _before b ON b.source_id = p.source_id
            WHERE p.end_byte > p.first_byte AND (a.at IS NULL OR p.end_byte > a.at) AND (? OR p.first_byte < b.at)
            """,  # noqa: S608  a constant
            [before is None],
        ).fetchall()
    return {str(row[0]) for row in rows}


def runs_in(con: duckdb.DuckDBPyConnection, source_ids: Iterable[int]) -> set[str]:
    """Runs of which something was read in these sources."""
    rows = con.execute(
        "SELECT DISTINCT p.run_id FROM i_place p "
        "JOIN cursor c ON c.source_id = p.source_id AND c.generation = p.generation "
        "WHERE list_contains(?, p.source_id) AND least(p.to_off, c.byte_offset) > greatest(p.from_off, 0)",
        [list(source_ids)],
    ).fetchall()
    return {str(row[0]) for row in rows}


def _cut_table(cut: Cut) -> pa.Table:
    at = [generation * _GENERATION + min(offset, _GENERATION - 1) for generation, offset in cut.values()]
    return pa.table({"source_id": pa.array(list(cut), pa.int64()), "at": pa.array(at, pa.int64())})
