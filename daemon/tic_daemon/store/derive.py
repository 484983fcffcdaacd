"""What follows from the events, kept as small tables: runs, writers, places, faults and the thresholds of the lock.

    schema/derive/1_place.sql    which run, process and attempt the lines of each generation belong to
    schema/derive/2_lock.sql     what each fault does, and against which thresholds records are compared
    schema/derive/3_state.sql    where the weights of each engine are in their lifecycle, and what is wrong with it
    schema/derive/4_in_force.sql whose execution state speaks for whom, and which is in force by time
    schema/derive/5_stand.sql    all of it that follows from the place of a record, in one row
    schema/derive/6_own_state.sql what the log of a record said of its own process before it

The SQL there is the whole rule; each statement fills a temporary table `t_<name>` from base tables and from the ones
before it. Afterwards `d_<name>` gets the rows that are new and closes those that no longer hold, in the transaction of
the tick that caused it. So a view is a join of an event table with a few small tables, planned in milliseconds (the
same SQL as views on views took seconds to plan), as-of sees what followed at that time, and any DuckDB client reads it.

Nothing here is a verdict on a record: that is computed when a view is read, by comparing the record with the
thresholds.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tic_daemon.errors import StoreError
from tic_daemon.store import schemafile
from tic_daemon.store.lifecycles import USE_TABLES, Lifecycles
from tic_daemon.store.own_states import OwnStates, Proc
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.store.statements import DERIVE, NOTHING, Statement, kept_prints, load, store_kept

if TYPE_CHECKING:
    import duckdb

RETRY_S = 60.0
LAZY_S = 2.0
"""How long a change may wait that can only show more records to be before a fault: it locks nothing that is not."""
BACKLOG_S = 20.0
"""How long while logs are read that were written before: each commit of these brings such a change."""

_LEFT_OUT = "ticks left out "
"""Before the print of derived tables that do not follow from all events, since a tick could not be derived."""

_BASE = re.compile(r"\bb_(\w+)")
_PLACE_TABLES = frozenset(
    {"process_seen", "source_run", "run_attempt", "attempt_cut", "source_place", "generation", "remote_place"}
)
_FAULT_TABLES = frozenset({"fault", "remote_fault"})
_BOUND_TABLES = frozenset({"step_event", "stamp_after", "device"})
_ALIVE_TABLES = frozenset({"step_event", "mismatch", "metric"})
_STATE_TABLES = frozenset({"exec_state", "weight_phase"})
_SPRINGS = {
    "told_place_": frozenset({"remote_place"}),
    "gpu_use": frozenset({"gpu_process"}),
    "device": frozenset({"device", "gpu_process"}),
    "told_fault_": frozenset({"remote_fault"}),
    **dict.fromkeys(("fault", "threshold_", "attempt_fault", "witness"), _FAULT_TABLES),
}
"""Base tables without whose rows a relation is empty. Its statement is then not run: to plan one that finds nothing
costs as much as any other, and half of what a new process cost was that."""


class Derived:
    """The derived tables of one open store. For the writer's connection and thread alone.

    Args:
        margin_s: seconds by which the clocks of two hosts may differ.
        staleness: steps by which rollout and trainer may be apart.
        wandb: holds W&B histories against each other (reconcile.py).
    """

    def __init__(
        self,
        margin_s: float = 2.0,
        staleness: int = 1,
        folder: Path = DERIVE,
        wandb: Reconciler | None = None,
    ) -> None:
        self._settings = (float(margin_s), int(staleness))
        self._place = load(folder / "1_place.sql")
        self._lock = load(folder / "2_lock.sql")
        self._life = Lifecycles(folder)
        self._voice, *self._in_force = load(folder / "4_in_force.sql")
        self._own = OwnStates(folder)
        self.wandb = wandb or Reconciler()
        self._stand = load(folder / "5_stand.sql")
        self._prints: dict[str, tuple[int, int]] = {}
        self._acting = False  # some fault is more than a mention
        self._asking = False  # some fault locks if its process goes on, and it has not been seen to
        self._lazy_after = 0.0
        self._settled_at = time.monotonic()
        self._telling = False  # some process has told of its execution state, or of its weights
        self._recorded: set[Proc] = set()  # whose records came while it waited to be asked who speaks for whom
        self._looked = 0  # up to this rec_id
        self._unasked = False  # whose lines speak for whom, and which state is in force, wait to be asked
        self._forceless = False  # the latter alone
        self._told_at: object = None  # the places of those that tell of one, when it was
        self._stale = False  # what is wrong with engines' weights waits to be asked
        self._dry: frozenset[str] = frozenset()  # base tables, of those in _SPRINGS, that are known to hold no rows
        self._asked = 0  # how often something was asked that 5_stand.sql is made of
        self._retry_at: float | None = None  # when a failure is tried again; None: none stands
        self.changes = 0
        """How often a derived table was changed: records that were read before may read differently then."""
        self.waiting = False
        """Whether bounds wait that only sharpen what is known; they are settled before the store is closed."""

    def rebuild(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        """All of it from the events, in a transaction of its own: at the start of a daemon.

        Of a store without events nothing is asked: that nothing follows from nothing took a quarter of a second.

        Tables of another program version are made anew; what followed in the past is then what follows today.

        Raises:
            StoreError: a statement failed.
        """
        import duckdb  # noqa: PLC0415  loaded by whoever opened `con`

        statements = (
            *self._place, *self._lock, *self._life.statements, self._voice, *self._in_force, *self._stand,
            *self._own.statements,
        )  # fmt: skip
        text = "\0".join((*(statement.sql for statement in statements), self.wandb.print_text(), duckdb.__version__))
        print_ = hashlib.sha256(text.encode()).hexdigest()
        following = _following(statements)
        shaped = [statement.name for statement in statements if statement.table and statement.name in following]
        try:
            con.execute(f"SET VARIABLE tic_margin_s = {self._settings[0]!r}")
            con.execute(f"SET VARIABLE tic_staleness = {self._settings[1]}")
            with schemafile.shapes(con, [f"t_{name}" for name in shaped]) as shapes:
                con.execute("BEGIN")
                try:
                    self._rebuild(con, statements, print_, now, shaped if shapes else ())
                    con.execute("COMMIT")
                except duckdb.Error:
                    con.execute("ROLLBACK")
                    raise
            if not shapes:
                schemafile.keep_shapes(con, [f"t_{name}" for name in shaped])
        except duckdb.Error as error:
            raise StoreError(f"cannot derive runs, attempts and locks from the events: {error}") from error
        self.waiting, self._stale, self._unasked, self._forceless, self._retry_at = False, False, False, False, None
        self._look(con)
        self._telling = _any_of(con, _STATE_TABLES)
        self._recorded, self._looked, self._told_at = set(), _newest(con), None

    def _rebuild(
        self,
        con: duckdb.DuckDBPyConnection,
        statements: Sequence[Statement],
        print_: str,
        now: datetime,
        shapes: Collection[str],
    ) -> None:
        """Within the transaction. `shapes`: relations whose columns are known from an earlier start."""
        con.execute("CREATE TABLE IF NOT EXISTS derived (print VARCHAR)")
        stored = con.execute("SELECT print FROM derived").fetchone()
        left_out = stored is not None and stored[0] == _LEFT_OUT + print_
        anew = stored is None or not (left_out or stored[0] == print_)
        nothing = not _any_of(con, _read_by(statements))
        self._dry = _without_rows(con, frozenset[str]().union(*_SPRINGS.values()))
        empty = _following(statements) if nothing else self._empty()
        own = {statement.name for statement in self._own.statements}
        self._life.begin(con)
        rest = [statement for statement in statements if statement.name not in own]
        _fill(con, rest, empty, shapes)
        self._life.begun(con)
        # What is kept of records follows from all of them, unless ticks were left out: to ask that again takes seconds.
        if not (anew or left_out):
            empty |= own
        _fill(con, self._own.statements, empty, shapes)
        # Tables of a program whose print was never written are those that migrate.py gave to a store without rows.
        given = stored is None and nothing and _derived(con) == self._tables(statements)
        if anew and not given:
            for name in _derived(con):
                con.execute(f"DROP TABLE {name}")
            for name in _kept(statements):
                con.execute(
                    f"CREATE TABLE d_{name} AS SELECT *, 0::UBIGINT AS row_hash, NULL::TIMESTAMP AS valid_from, "  # noqa: S608
                    f"NULL::TIMESTAMP AS valid_to FROM t_{name} LIMIT 0"
                )
        if anew or left_out:
            con.execute("DELETE FROM derived")
            con.execute("INSERT INTO derived VALUES (?)", [print_])
        kept = [name for name in _kept(statements if anew or left_out else rest) if name not in empty or not anew]
        self._prints = dict.fromkeys(_kept(statements), NOTHING) if anew else kept_prints(con, kept)
        self.changes += store_kept(con, kept, self._prints, None if anew else now)
        self._own.begun(con)
        self.wandb.rebuild(con, anew=anew and not given)

    def _tables(self, statements: Iterable[Statement]) -> set[str]:
        """Names of all derived tables of this program."""
        return {f"d_{name}" for name in (*_kept(statements), *self.wandb.kept())} | self.wandb.tables

    def rules_changed(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        """After the rules of faults changed: all anew, if there are faults or a failure stands. Raises StoreError."""
        if not self.usable() or _any_of(con, _FAULT_TABLES):
            self.rebuild(con, now)

    def usable(self) -> bool:
        """Whether ticks are derived: not after a failure, until `rebuild` succeeds."""
        return self._retry_at is None

    def left_out(self, con: duckdb.DuckDBPyConnection) -> None:
        """Within the transaction of a tick that is not derived: what is kept does not follow from all events now."""
        con.execute("UPDATE derived SET print = $1 || print WHERE NOT print ^@ $1", [_LEFT_OUT])

    def failed(self) -> None:
        """Notes a failure: ticks are not derived until a rebuild, tried once a minute, succeeds."""
        self._prints, self.waiting = {}, False
        self.changes += 1
        self._retry_at = time.monotonic() + RETRY_S

    def retry_due(self) -> bool:
        """Whether a rebuild should be tried after a failure."""
        return self._retry_at is not None and time.monotonic() >= self._retry_at

    def after(self, con: duckdb.DuckDBPyConnection, touched: Collection[str], now: datetime) -> None:
        """Within the transaction of a tick, after its rows: brings up to date what must not wait.

        Args:
            touched: tables that got rows, and "source_place" or "generation" if a source changed what places its lines,
                or a new generation began.
            now: the tick's observed_at.
        """
        names = set(touched)
        self._dry -= names
        self.wandb.note(names)
        asked = self._asked
        place = bool(_PLACE_TABLES & names)
        if place:
            self._ask(con, self._place, now)
        if place or _FAULT_TABLES & names or (self._asking and _ALIVE_TABLES & names):
            self._ask_lock(con, now)
        elif {"device", "gpu_process"} & names or (self._acting and _BOUND_TABLES & names):
            self.waiting = True  # devices: a kernel line in another store may name one
        used = self._life.living and bool(USE_TABLES & names)
        moved = place and self._life.moved(con)
        if "weight_phase" in names or moved or (used and self._life.shows(con, names)):
            self._ask_lifecycles(con, now)
        elif used:
            self.waiting = self._stale = True  # no number looks better for it: see lifecycles.py
        told = bool(_STATE_TABLES & names)
        self._telling = self._telling or told
        came = self._records(con) if self._telling and "mismatch" in names else []
        if (self._unasked and self._first_of(came)) or (
            place and self._telling and (told or self._tellers(con) != self._told_at)
        ):
            self._ask_voices(con, now)
        if told:
            self.waiting = self._unasked = True  # beside a number, no part of its verdict
        if self._asked > asked:
            self._place_all(con, now)
        if came:
            self.changes += self._own.ask(con, came, now)

    def due(self, *, backlog: bool = False) -> bool:
        """Whether bounds have waited long enough; `backlog`: while logs are read that were written before."""
        now = time.monotonic()
        return self.waiting and now >= self._lazy_after and not (backlog and now - self._settled_at < BACKLOG_S)

    def settle(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        """Settles what waits, within a transaction."""
        if not self.waiting:
            return
        started = time.monotonic()
        if self._stale:
            self._ask_lifecycles(con, now)
        if self._unasked:
            self._ask_voices(con, now)
        if self._forceless:
            self._ask_in_force(con, now)
        self._ask_lock(con, now)
        self._place_all(con, now)
        ended = self._settled_at = time.monotonic()
        self._lazy_after = ended + max(LAZY_S, 20 * (ended - started))

    def forget(self) -> None:
        """After a transaction that was rolled back: nothing is known of what the tables hold."""
        self._prints = {}
        self._recorded, self._looked, self._told_at = set(), 0, None
        self._life.forget()
        self._own.forget()
        self.wandb.forget()

    def _ask_lock(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        self._ask(con, self._lock, now)
        self._asked += 1
        self._look(con)
        self.waiting = self._stale or self._unasked or self._forceless

    def _ask_lifecycles(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        before = self.changes
        self._life.ask(con, lambda statements: self._ask(con, statements, now))
        self._asked += self.changes > before
        self._stale = False

    def _ask_voices(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        before = self.changes
        self._ask(con, [self._voice], now)
        if self.changes > before:
            self._asked += 1
            self.changes += self._own.voices(con, now)
        self._unasked, self._told_at = False, self._tellers(con)
        self.waiting = self._forceless = True

    def _ask_in_force(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        before = self.changes
        self._ask(con, self._in_force, now)
        self._asked += self.changes > before
        self._forceless = False

    def _tellers(self, con: duckdb.DuckDBPyConnection) -> object:
        """The places of the logs that tell of a state, as a number: while it stays, new places change no state."""
        return con.execute(
            "SELECT count(*), bit_xor(hash(hash(source_id, generation, proc, from_off, to_off, run_id, lo_attempt, "
            "console, zone_s, declared_single))) FROM t_place WHERE source_id IN (SELECT source_id FROM t_voice)"
        ).fetchone()

    def _records(self, con: duckdb.DuckDBPyConnection) -> list[Proc]:
        """Whose records came since it was last asked."""
        rows = con.execute(
            "SELECT source_id, generation, proc, max(rec_id) FROM mismatch WHERE rec_id > ? GROUP BY ALL",
            [self._looked],
        ).fetchall()
        self._looked = max([self._looked, *(row[3] for row in rows)])
        return [(row[0], row[1], row[2]) for row in rows]

    def _first_of(self, procs: Sequence[Proc]) -> bool:
        """Whether one of them has its first record since the start: what its log says of it may be asked now."""
        before = len(self._recorded)
        self._recorded.update(procs)
        return len(self._recorded) > before

    def _place_all(self, con: duckdb.DuckDBPyConnection, now: datetime) -> None:
        """Where records can stand, after anything that it is made of."""
        self._ask(con, self._stand, now)

    def _ask(self, con: duckdb.DuckDBPyConnection, statements: Iterable[Statement], now: datetime) -> None:
        """Asks these statements anew, but for what is known to be empty: so its table has been since `rebuild`."""
        empty = self._empty()
        asked = [statement for statement in statements if statement.name not in empty]
        _fill(con, asked)
        self._store(con, asked, now)

    def _empty(self) -> set[str]:
        return {name for name, tables in _SPRINGS.items() if tables <= self._dry}

    def _look(self, con: duckdb.DuckDBPyConnection) -> None:
        if self._dry >= _FAULT_TABLES:
            self._acting = self._asking = False
            return
        row = con.execute(
            "SELECT count(*) FILTER (WHERE verdict IN ('confirmed', 'suspect')), "
            "count(*) FILTER (WHERE acts AND locks0 = 'if_continues' AND NOT locking AND told_rec_id IS NULL) "
            "FROM t_fault"
        ).fetchone()
        assert row is not None  # noqa: S101  an aggregate always gives a row
        self._acting, self._asking = row[0] > 0, row[1] > 0

    def _store(self, con: duckdb.DuckDBPyConnection, statements: Iterable[Statement], now: datetime | None) -> None:
        if kept := _kept(statements):
            self.changes += store_kept(con, kept, self._prints, now)


def _fill(
    con: duckdb.DuckDBPyConnection,
    statements: Iterable[Statement],
    empty: Collection[str] = (),
    shapes: Collection[str] = (),
) -> None:
    """Fills the relations.

    Args:
        empty: names of those that are known to hold nothing: only their columns are asked.
        shapes: of those whose columns are known (schemafile.py).
    """
    for statement in statements:
        name = statement.name
        if not statement.table or name not in empty:
            con.execute(statement.sql)
        elif name in shapes:
            con.execute(f"CREATE OR REPLACE TEMP TABLE t_{name} AS FROM {schemafile.ATTACHED}.t_{name} LIMIT 0")
        else:
            con.execute(statement.sql.rstrip("; \n") + " WITH NO DATA")


def _following(statements: Iterable[Statement]) -> set[str]:
    """Names of what follows from events; the others follow from settings."""
    found: set[str] = set()
    for statement in statements:
        _, _, select = statement.sql.partition(" AS")
        if _BASE.search(select) or any(name in found for name in re.findall(r"\bt_(\w+)", select)):
            found.add(statement.name)
    return found


def _read_by(statements: Iterable[Statement]) -> list[str]:
    """Base tables of which something follows. Rules say what faults do; without a fault nothing follows from them."""
    return sorted({name for s in statements for name in _BASE.findall(s.sql)} - {"fault_rule"})


def _any_of(con: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> bool:
    parts = " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in tables)  # noqa: S608
    row = con.execute(f"SELECT {parts}").fetchone()
    return bool(row and row[0])


def _without_rows(con: duckdb.DuckDBPyConnection, tables: Collection[str]) -> frozenset[str]:
    row = con.execute("SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {table})" for table in tables)).fetchone()  # noqa: S608
    return frozenset(table for table, some in zip(tables, row or (), strict=False) if not some)


def _newest(con: duckdb.DuckDBPyConnection) -> int:
    row = con.execute("SELECT coalesce(max(rec_id), 0) FROM mismatch").fetchone()
    return int(row[0]) if row else 0


def _derived(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Derived tables of the store, also of a program version that named them otherwise."""
    rows = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND table_name ^@ 'd_'"
    ).fetchall()
    return {str(row[0]) for row in rows}


def _kept(statements: Iterable[Statement]) -> list[str]:
    return [statement.name for statement in statements if statement.kept]
