"""Where the weights of each engine are in their lifecycle, asked by what is new: schema/derive/3_state.sql.

    begin    nothing is known: the next ask reads all
    ask      brings it up to date, within a transaction; what it carries over rolls back with it
    shows    whether lines that came may show a finding: then numbers must not wait for it

What may wait, and why no number looks better for it. A finding begins at a line of the weights: such a tick is asked at
once. One that only a use is needed for becomes one by a number in the engine's log or a batch that it prints: asked at
once where one waits for that, where such a line stands before others that were read, and where lines that were read
were provisional and may be gone. A step that ends may move a finding from times to steps, which reach further: asked at
once while there are findings. All else (a time for the line that ends one, a cache that is off, more uses of an engine
of which nothing waits) can only end findings sooner, or change what lines that are still to come begin; it is read with
the next ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.store import sqltext
from tic_daemon.store.statements import DERIVE, Statement, load

if TYPE_CHECKING:
    import duckdb

USE_TABLES = frozenset({"exec_state", "mismatch", "step_event"})

_MOVED = "p.print IS DISTINCT FROM c.print"
_NEWEST = " UNION ALL ".join(
    f"SELECT max(rec_id) AS rec_id FROM {table} WHERE rec_id > $1"  # noqa: S608
    for table in ("weight_phase", "exec_state", "mismatch")
)
_SHOWS = """
SELECT max(n.rec_id),
    coalesce(bool_or(n.generation::BIGINT * 17592186044416 + n.byte_offset < c.cut OR (c.waits AND n.used)), false)
FROM (
    SELECT rec_id, source_id, generation, byte_offset, true AS used FROM mismatch WHERE rec_id > $1
    UNION ALL
    SELECT rec_id, source_id, generation, byte_offset, field = 'step_kind' AND observed IS NOT NULL
    FROM exec_state WHERE rec_id > $1
) n
LEFT JOIN (
    SELECT source_id, cut, source_id IN (
        SELECT source_id FROM t_case_ WHERE NOT found AND NOT off AND until_pos IS NULL) AS waits
    FROM t_cut_
) c ON c.source_id = n.source_id
"""


class Lifecycles:
    """For the writer's connection and thread alone."""

    def __init__(self, folder: Path = DERIVE) -> None:
        self.statements = load(folder / "3_state.sql")
        names = [statement.name for statement in self.statements]
        again, findings = names.index("again_"), names.index("finding_line")
        self._lines = self.statements[:again]
        self._again = self.statements[again : again + 1]
        self._places = self.statements[names.index("life_place_")]
        self._engines = self.statements[again + 1 : findings]
        self._findings = self.statements[findings:]
        self._empty_tables = sqltext.read(folder / "state" / "begin.sql")
        self._mark = self._looked = -1
        self._was_again = True  # t_again_ holds lines, or is not there
        self._found = False
        self._open = False  # some lines that were read were provisional
        self._known = False  # what is carried over is known to be what the last ask left
        self.living = False
        """Whether engines have told of their weights."""

    def begin(self, con: duckdb.DuckDBPyConnection) -> None:
        """Forgets what is carried over: the next ask reads all that there is."""
        con.execute(self._empty_tables)
        con.execute("SET VARIABLE tic_life_mark = -1")
        self._mark = self._looked = -1
        self._was_again = self._known = True

    def begun(self, con: duckdb.DuckDBPyConnection) -> None:
        """After all statements were run for the first time."""
        self._note(con)

    def forget(self) -> None:
        """After a transaction that was rolled back."""
        self._known, self._found = False, True

    def ask(self, con: duckdb.DuckDBPyConnection, run: Callable[[Iterable[Statement]], None]) -> None:
        """Brings all up to date. `run`: runs statements, and keeps what they say."""
        if not self._known:
            self.begin(con)
        run(self._lines)
        again = _is(con, "FROM t_redo_")
        if again or self._was_again:  # to plan the reading of nothing costs a tenth of all
            run(self._again)
        self._was_again = again
        run(self._engines)
        were = self._found
        self._note(con)
        if were or self._found:
            run(self._findings)

    def shows(self, con: duckdb.DuckDBPyConnection, touched: Collection[str]) -> bool:
        """Whether rows of these tables, that came since the last look, may show or widen a finding."""
        if not self.living:
            return False
        if not self._known or self._open or (self._found and "step_event" in touched):
            return True
        row = con.execute(_SHOWS, [self._looked]).fetchone()
        assert row is not None  # noqa: S101  an aggregate always gives a row
        self._looked = max(self._looked, row[0] or 0)
        return bool(row[1])

    def moved(self, con: duckdb.DuckDBPyConnection) -> bool:
        """After places were asked: whether lines of an engine are of another run, process or clock than they were."""
        if not self.living:
            return False
        if not self._known or self._found:  # what a finding reaches follows from the places of all logs
            return True
        con.execute(self._places.sql)
        return _is(con, f"FROM t_cut_ c LEFT JOIN t_life_place_ p USING (source_id) WHERE {_MOVED}")

    def _note(self, con: duckdb.DuckDBPyConnection) -> None:
        row = con.execute(f"SELECT coalesce(max(rec_id), $1) FROM ({_NEWEST})", [self._mark]).fetchone()  # noqa: S608
        assert row is not None  # noqa: S101  as above
        self._mark = int(row[0])
        self._looked = max(self._looked, self._mark)
        con.execute(f"SET VARIABLE tic_life_mark = {self._mark}")
        self.living, self._open = _is(con, "FROM t_cut_"), _is(con, "FROM t_cut_ WHERE NOT settled")
        self._found = _is(con, "FROM t_case_ WHERE found")


def _is(con: duckdb.DuckDBPyConnection, some: str) -> bool:
    row = con.execute(f"SELECT EXISTS ({some})").fetchone()
    return bool(row and row[0])
