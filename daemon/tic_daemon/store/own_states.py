"""What the log of a record said of its own process before it, kept as `d_own_state`.

    schema/derive/6_own_state.sql   of all records: at the start, and of voices whose lines were another's until now
    `ask`                           of the records of a tick, in its transaction: line by line, by the values said last

It is kept, and not asked by the view, because a view cannot know which records are asked: of a million changes it read
all for the newest 200 records. SQL is not asked tick by tick, because to plan it takes three times as long as the rest
of a small commit. Both say the same (tests/store/test_own_state.py, test_derive.py).

A log is read in its order, so a record is held against the values that were read last and against changes that came
with it. A record that was open while changes behind it were read (records.py) comes late: its voice is read anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from tic_daemon.store import arrow
from tic_daemon.store.statements import DERIVE, load

if TYPE_CHECKING:
    import duckdb

PIECE_BITS: Final = 16
FIELDS: Final = ("graph_mode", "step_kind", "prefix_cache", "prefix_hit_rate", "weight_phase")

Proc = tuple[int, int, str]  # (source_id, generation, proc)
Voice = tuple[int, int, str]  # (source_id, generation, voice)
Values = tuple[str | None, ...]  # of FIELDS
Said = dict[int, tuple[int, str]]  # by index of FIELDS: (byte_offset, value) of what was said last

_UNSAID: Final[Values] = (None,) * len(FIELDS)
_CHANGES = """
SELECT source_id, generation, proc, field, byte_offset, observed AS value FROM exec_state
WHERE rec_id > $1 AND rec_id <= $2 AND prov IS NULL AND observed IS NOT NULL
    AND field IN ('graph_mode', 'step_kind', 'prefix_cache', 'prefix_hit_rate')
UNION ALL
SELECT source_id, generation, proc, 'weight_phase', byte_offset, phase FROM weight_phase
WHERE rec_id > $1 AND rec_id <= $2 AND prov IS NULL AND track = 'residency'
"""
_LAST = f"""
WITH told AS MATERIALIZED ({_CHANGES}),
newest AS (SELECT source_id, generation, proc, field, max(byte_offset) AS byte_offset FROM told GROUP BY ALL)
SELECT t.source_id, t.generation, t.proc, t.field, t.byte_offset, max(t.value) FROM told t
JOIN newest n ON n.source_id = t.source_id AND n.generation = t.generation AND n.proc = t.proc AND n.field = t.field
    AND n.byte_offset = t.byte_offset
GROUP BY ALL
"""  # noqa: S608
_RECORDS = """
SELECT m.source_id, m.generation, v.voice, m.byte_offset
FROM mismatch m JOIN t_own_voice_ v ON v.source_id = m.source_id AND v.generation = m.generation AND v.proc = m.proc
WHERE m.rec_id > $1
"""
_NEWEST = "SELECT greatest({})".format(
    ", ".join(
        f"(SELECT coalesce(max(rec_id), 0) FROM {table} WHERE rec_id > $1)"  # noqa: S608
        for table in ("mismatch", "exec_state", "weight_phase")
    )
)
_KEPT_LAST = f"""
SELECT piece, from_off, {", ".join(FIELDS)} FROM d_own_state
WHERE valid_to IS NULL AND source_id = $1 AND generation = $2 AND voice = $3 ORDER BY from_off DESC LIMIT 1
"""  # noqa: S608
_END = """
UPDATE d_own_state d SET valid_to = $1 FROM _ended e WHERE d.valid_to IS NULL AND d.source_id = e.source_id
    AND d.generation = e.generation AND d.voice = e.voice AND d.from_off = e.from_off
"""
_VOICES = "SELECT source_id, generation, proc, voice FROM t_voice WHERE voice <> 'unknown'"
_OTHERS = f"""
SELECT DISTINCT source_id, generation, voice FROM (
    ({_VOICES} EXCEPT FROM t_own_voice_) UNION ALL (FROM t_own_voice_ EXCEPT {_VOICES})
)
"""  # noqa: S608
_REDO = f"""
CREATE OR REPLACE TEMP TABLE t_own_voice_ AS SELECT v.* FROM ({_VOICES}) v
SEMI JOIN t_own_redo_ r ON r.source_id = v.source_id AND r.generation = v.generation AND r.voice = v.voice
"""  # noqa: S608
_GONE = """
d.valid_to IS NULL AND d.row_hash NOT IN (SELECT hash(t) FROM t_own_state t) AND EXISTS (
    SELECT 1 FROM t_own_redo_ r WHERE r.source_id = d.source_id AND r.generation = d.generation AND r.voice = d.voice)
"""
_NEW = "FROM t_own_state t WHERE hash(t) NOT IN (SELECT row_hash FROM d_own_state WHERE valid_to IS NULL)"
_DIFFERS = f"SELECT EXISTS (SELECT 1 FROM d_own_state d WHERE {_GONE}), EXISTS (SELECT 1 {_NEW})"  # noqa: S608
_CLOSE = f"UPDATE d_own_state d SET valid_to = $1 WHERE {_GONE}"  # noqa: S608
_ADD = f"INSERT INTO d_own_state SELECT t.*, hash(t), $1, NULL {_NEW}"
_SCHEMA: Final = pa.schema(
    [
        ("source_id", pa.int64()), ("generation", pa.int32()), ("voice", pa.string()), ("piece", pa.int64()),
        ("from_off", pa.int64()), ("to_off", pa.int64()), *((name, pa.string()) for name in FIELDS),
    ]
)  # fmt: skip
_STORE = (
    "INSERT INTO d_own_state SELECT t.*, hash(t), $1, NULL "  # noqa: S608
    f"FROM (SELECT {', '.join(_SCHEMA.names)} FROM _new) t"
)


class Kept(NamedTuple):
    """A row of `d_own_state` without its voice."""

    piece: int
    from_off: int
    values: Values


class OwnStates:
    """For the writer's connection and thread alone."""

    def __init__(self, folder: Path = DERIVE) -> None:
        self.statements = load(folder / "6_own_state.sql")
        self._voice_of: dict[Proc, str] = {}
        self._last: dict[Proc, Said] | None = None  # what was said last up to `_upto`; None: not asked yet
        self._tips: dict[Voice, Kept | None] = {}  # the last row that is kept of a voice
        self._upto = 0  # changes up to this rec_id were read
        self._records = 0  # and records up to this one
        self._before = (0, 0)  # the two, before the transaction that is open or was the last

    def begun(self, con: duckdb.DuckDBPyConnection) -> None:
        """After `d_own_state` holds what follows from all that there is."""
        self._hear(con)
        newest = _row(con, _NEWEST, -1)[0]
        self._before = newest, newest
        self.forget()

    def forget(self) -> None:
        """After a transaction that was rolled back."""
        self._upto, self._records = self._before
        self._last, self._tips = None, {}

    def ask(self, con: duckdb.DuckDBPyConnection, procs: Iterable[Proc], now: datetime) -> bool:
        """Places the records that came since the last ask, of `procs` and perhaps others. True: `d_own_state` has
        changed."""
        self._before = self._upto, self._records
        if not any(proc in self._voice_of for proc in procs):
            return False
        records: dict[Voice, list[int]] = {}
        for source_id, generation, voice, offset in con.execute(_RECORDS, [self._records]).fetchall():
            records.setdefault((source_id, generation, voice), []).append(offset)
        newest = max(self._records, _row(con, _NEWEST, min(self._upto, self._records))[0])
        if self._last is None:
            self._last = {}
            self._learn(con.execute(_LAST, [-1, self._upto]).fetchall())
        told: dict[Voice, list[tuple[int, int, str]]] = {}
        changes = con.execute(_CHANGES, [self._upto, newest]).fetchall()
        for source_id, generation, proc, field, offset, value in changes:
            if (voice := self._voice_of.get((source_id, generation, proc))) is not None:
                told.setdefault((source_id, generation, voice), []).append((offset, FIELDS.index(field), value))
        said = self._said(records)
        late = {voice for voice, offsets in records.items() if any(at > min(offsets) for at, _ in said[voice].values())}
        found = {v: _placed(said[v], told.get(v, []), offsets) for v, offsets in records.items() if v not in late}
        changed = self._keep(con, found, late, now)
        self._learn(changes)
        self._upto = self._records = newest
        return self._anew(con, late, now) or changed

    def voices(self, con: duckdb.DuckDBPyConnection, now: datetime) -> bool:
        """After `t_voice` was asked: who speaks otherwise than before is read anew. True: `d_own_state` has changed."""
        self._before = self._upto, self._records
        others = {(row[0], row[1], row[2]) for row in con.execute(_OTHERS).fetchall()}
        self._hear(con)
        return self._anew(con, others, now)

    def _hear(self, con: duckdb.DuckDBPyConnection) -> None:
        con.execute(self.statements[0].sql)
        rows = con.execute("FROM t_own_voice_").fetchall()
        self._voice_of = {(source_id, generation, proc): voice for source_id, generation, proc, voice in rows}

    def _learn(self, changes: Iterable[tuple[int, int, str, str, int, str]]) -> None:
        assert self._last is not None  # noqa: S101  asked by `ask`
        for source_id, generation, proc, field, offset, value in changes:
            said = self._last.setdefault((source_id, generation, proc), {})
            index = FIELDS.index(field)
            said[index] = max(said.get(index, (-1, "")), (offset, value))

    def _said(self, wanted: Iterable[Voice]) -> dict[Voice, Said]:
        """What voices said last, up to `_upto`."""
        assert self._last is not None  # noqa: S101  as above
        found: dict[Voice, Said] = {voice: {} for voice in wanted}
        for proc, said in self._last.items():
            held = found.get((proc[0], proc[1], self._voice_of.get(proc, "unknown")))
            if held is not None:
                for index, told in said.items():
                    held[index] = max(held.get(index, (-1, "")), told)
        return found

    def _keep(
        self, con: duckdb.DuckDBPyConnection, found: dict[Voice, list[Kept]], late: set[Voice], now: datetime
    ) -> bool:
        """Stores what was found. A voice of which rows would not come behind those that are kept is added to `late`."""
        ended: list[tuple[Any, ...]] = []
        new: list[tuple[Any, ...]] = []
        for voice, rows in found.items():
            if not rows:
                continue
            if voice not in self._tips:
                row = con.execute(_KEPT_LAST, voice).fetchone()
                self._tips[voice] = None if row is None else Kept(row[0], row[1], row[2:])
            tip, first = self._tips[voice], rows[0]
            if tip is not None and first.from_off >= tip.from_off and first[::2] == tip[::2]:
                rows = rows[1:]  # noqa: PLW2901  that range goes on
            elif tip is not None and first.from_off <= tip.from_off:
                late.add(voice)
                continue
            if not rows:
                continue
            if tip is not None and tip.piece == rows[0].piece:
                ended.append((*voice, tip.from_off))
                rows = [tip, *rows]  # noqa: PLW2901
            for row, after in zip(rows, [*rows[1:], None], strict=True):
                end = after.from_off if after and after.piece == row.piece else (row.piece + 1) << PIECE_BITS
                new.append((*voice, row.piece, row.from_off, end, *row.values))
            self._tips[voice] = rows[-1]
        if ended:
            names = ("source_id", "generation", "voice", "from_off")
            with arrow.laid(con, _ended=_table(pa.schema([_SCHEMA.field(name) for name in names]), ended)):
                con.execute(_END, [now])
        if new:
            with arrow.laid(con, _new=_table(_SCHEMA, new)):
                con.execute(_STORE, [now])
        return bool(new)

    def _anew(self, con: duckdb.DuckDBPyConnection, voices: set[Voice], now: datetime) -> bool:
        """Reads these voices from the begin of their logs."""
        if not voices:
            return False
        names = ("source_id", "generation", "voice")
        redo = _table(pa.schema([_SCHEMA.field(name) for name in names]), sorted(voices))
        with arrow.laid(con, _redo=redo):
            con.execute("CREATE OR REPLACE TEMP TABLE t_own_redo_ AS FROM _redo")
        con.execute(_REDO)
        for statement in self.statements[1:]:
            con.execute(statement.sql)
        closes, adds = _row(con, _DIFFERS)
        if closes:
            con.execute(_CLOSE, [now])
        if adds:
            con.execute(_ADD, [now])
        con.execute(self.statements[0].sql)
        for voice in voices:
            self._tips.pop(voice, None)
        return bool(closes or adds)


def _placed(said: Said, told: list[tuple[int, int, str]], offsets: list[int]) -> list[Kept]:
    """The first record of each piece, and each one that finds another state than the one before it.

    Args:
        said: what was said last before all of it; it is brought up to date. told: (byte_offset, field, value) since.
    """
    told.sort()
    found: list[Kept] = []
    number = 0
    for offset in sorted(offsets):
        while number < len(told) and told[number][0] < offset:
            at, index, value = told[number]
            said[index] = (at, value)
            number += 1
        values = tuple(said[index][1] if index in said else None for index in range(len(FIELDS)))
        piece = offset >> PIECE_BITS
        if values != _UNSAID and (not found or (found[-1].piece, found[-1].values) != (piece, values)):
            found.append(Kept(piece, offset, values))
    return found


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema=schema)


def _row(con: duckdb.DuckDBPyConnection, sql: str, *values: object) -> tuple[Any, ...]:
    row = con.execute(sql, values).fetchone()
    assert row is not None  # noqa: S101  each of them gives a row
    return row
