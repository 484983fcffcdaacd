"""Holds what a trainer printed, its W&B log and the server's history against each other, step by step and key by key.

    schema/derive/wandb/1_units.sql     new rows and lines, by training step
    schema/derive/wandb/4_numbers.sql   numeric records of new rows, if their keys are known to measure agreement
    schema/derive/wandb/2_compare.sql   steps whose values must be looked at, and how they differ
    schema/derive/wandb/3_gaps.sql      what is missing where, and why: d_wandb_gap, d_wandb_step, d_wandb_history

A row or line is taken in once, as a unit: the step that it tells, how many values it has, and a hash of what they say.
Two sources of one step with equal hashes need no closer look, so that a history of two million values is read once;
values are compared for steps that differ, and for printed lines, once for each state that the step was in. What is kept
for that has no past. Gaps are small tables with validity like all that is derived (derive.py), so as-of shows what was
known then.

Nothing here is in the transaction of a tick: slices of a tenth of a second run between ticks, and with nothing new
there is none. Which key holds the training step is data: wandb/keys.py.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tic_daemon.store import arrow
from tic_daemon.store.statements import DERIVE, Statement, load, store_kept
from tic_daemon.wandb.keys import OWN, Keys, built_in

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)

GRACE_S: Final = 45.0
"""How long a row may be under way: the client sends every 15 s, and the log is written every 15 s."""
BUDGET: Final = 100_000
"""Values that are taken in at once."""
LOOK: Final = 40_000
"""Values that are compared at once."""
SLICE_S: Final = 0.1
"""How long the tail waits for a slice, and for what was begun in it: as long again."""
LAZY_S: Final = 2.0
RETRY_S: Final = 60.0
REST: Final = 20.0
"""Rests so many times as long as it worked, so that it takes a twentieth of a core at most; but no longer than
LONGEST_S, so that a dead uploader shows soon."""
LONGEST_S: Final = 15.0
_FOLDER: Final = DERIVE / "wandb"
_WANDB: Final = frozenset({"wandb_row", "wandb_run", "wandb_read", "wandb_upload"})
_OTHERS: Final = frozenset(
    {"metric", "step_event", "source_run", "process_seen", "run_attempt", "attempt_cut", "source_place", "generation"}
)
_SPAN: Final = ("tic_local_lo", "tic_local_hi", "tic_api_lo", "tic_api_hi", "tic_log_lo", "tic_log_hi")
_END: Final = object()
_TABLES: Final = (
    "d_wandb_source", "d_wandb_unit", "d_wandb_key", "d_wandb_compared", "d_wandb_diff",
)  # fmt: skip


class Reconciler:
    """What is known of the W&B histories in one open store. For the writer's connection and thread alone.

    Args:
        keys: which key holds a training step.
        grace_s: younger differences are pending.
        framework, revision: what configuration says of the trainer; "" if nothing.
    """

    def __init__(
        self, keys: Keys | None = None, grace_s: float = GRACE_S, framework: str = "", revision: str = ""
    ) -> None:
        self._keys = keys or built_in()
        self._grace_us = int(grace_s * 1e6)
        self._said, self._revision = framework, revision
        self._units = load(_FOLDER / "1_units.sql")
        self._numbers = load(_FOLDER / "4_numbers.sql")
        self._compare = load(_FOLDER / "2_compare.sql")
        self._gaps = load(_FOLDER / "3_gaps.sql")
        self._prints: dict[str, tuple[int, int]] = {}
        self._present = False  # the store has rows of W&B
        self._stale = False  # something came that may change a gap
        self._ripe_at: datetime | None = None  # when a pending one becomes something else
        self._after = 0.0
        self._round: Iterator[None] | None = None
        self._worked = 0.0
        self.made = 0
        """Numeric records that the last slice wrote."""
        self.changes = 0

    def statements(self) -> tuple[Statement, ...]:
        """All SQL that decides what the derived tables hold."""
        return (*self._units, *self._numbers, *self._compare, *self._gaps)

    def print_text(self) -> str:
        """What, if it changes, makes all that is kept worthless."""
        return repr((self._keys, self._said, [statement.sql for statement in self.statements()], _ddl()))

    def rebuild(self, con: duckdb.DuckDBPyConnection, *, anew: bool) -> None:
        """At the start of a daemon, within a transaction: tables of another program or other keys are emptied.

        Raises:
            duckdb.Error: a statement failed.
        """
        con.execute(f"SET VARIABLE tic_grace_us = {self._grace_us}")
        con.execute(
            "CREATE OR REPLACE TEMP TABLE t_wandb_axis_ (framework VARCHAR, log BOOLEAN, key VARCHAR, wkey VARCHAR, "
            "axis VARCHAR, metric VARCHAR, said VARCHAR)"
        )
        if anew:
            for table in (*_TABLES, *(f"d_{name}" for name in self.kept())):
                con.execute(f"DROP TABLE IF EXISTS {table}")
            con.execute(_ddl())
        con.execute("SET VARIABLE tic_now = TIMESTAMP '1970-01-01'")
        con.execute("SET VARIABLE tic_wandb_after = 0")
        for name in ("tic_wandb_budget", *_SPAN):
            con.execute(f"SET VARIABLE {name} = 0")
        self._learn_axes(con)
        self._prints = {}
        row = con.execute("SELECT (SELECT count(*) FROM wandb_run) + (SELECT count(*) FROM wandb_row)").fetchone()
        self._present = row is not None and row[0] > 0
        self._stale, self._ripe_at, self._after, self._round = self._present, None, 0.0, None

    @property
    def tables(self) -> set[str]:
        """Names of the derived tables that have none."""
        return set(_TABLES)

    def kept(self) -> list[str]:
        """Names of the derived tables that have a past."""
        return [statement.name for statement in self.statements() if statement.kept]

    def note(self, touched: Collection[str]) -> None:
        """After a tick that wrote rows of these tables."""
        names = set(touched)
        if names & _WANDB:
            self._present = self._stale = True
        elif self._present and names & _OTHERS:
            self._stale = True

    def forget(self) -> None:
        """After a transaction that was rolled back."""
        self._prints, self._round = {}, None
        self._stale = self._present

    def failed(self) -> None:
        """After a slice that failed: tried again in a minute."""
        self._after = time.monotonic() + RETRY_S

    def due(self, now: datetime) -> bool:
        """Whether a slice should run."""
        if not self._present or time.monotonic() < self._after:
            return False
        return self._stale or self._round is not None or (self._ripe_at is not None and now >= self._ripe_at)

    @property
    def waiting(self) -> bool:
        """Whether something has come that no slice has looked at."""
        return self._present and (self._stale or self._round is not None)

    def slice(
        self,
        con: duckdb.DuckDBPyConnection,
        now: datetime,
        rec_id: int = 0,
        pressed: Callable[[], bool] = lambda: False,
    ) -> bool:
        """One slice of the work, within a transaction. True: more is left, and another should run soon.

        Args:
            now: observed_at of what it writes. rec_id: the last one given; `made` says how many it took.
            pressed: asked between two pieces of it; true ends the slice.

        Raises:
            duckdb.Error: a statement failed; the transaction must be rolled back, and `forget` called.
        """
        began, until = time.thread_time(), time.monotonic() + SLICE_S
        more, self.made = False, 0
        if self._round is None:
            con.execute(f"SET VARIABLE tic_wandb_budget = {BUDGET}")
            self._stale = False
            more = self._take_in(con, now, rec_id)
            if not more:
                self._round, self._worked = self._rounds(con, now), 0.0
        while self._round is not None:
            if next(self._round, _END) is _END:
                self._round = None
            if time.monotonic() >= until or pressed():
                break
        self._worked += time.thread_time() - began
        self._stale = self._stale or more
        more = more or self._round is not None
        rest = 0.0 if more else min(LONGEST_S, max(LAZY_S, REST * self._worked))
        self._after = time.monotonic() + rest
        return more

    # --- units --------------------------------------------------------------------------------------------------------

    def _take_in(self, con: duckdb.DuckDBPyConnection, now: datetime, rec_id: int) -> bool:
        """Rows and lines that are new. True: there were more than the budget allows."""
        self._place_sources(con)
        row = con.execute("SELECT coalesce(min(upto), 0) FROM d_wandb_source").fetchone()
        con.execute("SET VARIABLE tic_wandb_after = ?", [row[0] if row else 0])
        taken = 0
        for statement in self._units:
            con.execute(statement.sql)
            if statement.name == "wandb_named_":
                self._name(con)
            elif statement.name == "wandb_line_":
                row = con.execute(
                    "SELECT (SELECT coalesce(sum(row_keys + 1), 0) FROM t_wandb_new_) + "
                    "(SELECT count(*) FROM t_wandb_line_), (SELECT count(*) FROM t_wandb_line_)"
                ).fetchone()
                assert row is not None  # noqa: S101  an aggregate always gives a row
                taken = row[0]
                if not taken:
                    self._rest(con)
                    return False
        con.execute("INSERT INTO d_wandb_unit BY NAME SELECT * FROM t_wandb_unit_")
        self.made = self._number(con, now, rec_id)
        con.execute(
            "UPDATE d_wandb_source SET upto = n.rec_id FROM (SELECT source_id, max(rec_id) AS rec_id FROM "
            "(SELECT source_id, rec_id FROM t_wandb_new_ UNION ALL SELECT source_id, rec_id FROM t_wandb_line_) "
            "GROUP BY source_id) n WHERE n.source_id = d_wandb_source.source_id"
        )
        if 2 * taken >= BUDGET:
            return True
        self._rest(con)
        return self._place_sources(con)  # keys may have shown the framework only now

    def _rest(self, con: duckdb.DuckDBPyConnection) -> None:
        """All is taken in: no source needs to be asked below what the tables hold now."""
        con.execute(
            "UPDATE d_wandb_source SET upto = n.upto FROM (SELECT greatest((SELECT max(rec_id) FROM wandb_row), "
            "(SELECT max(rec_id) FROM metric WHERE prov IS NULL)) AS upto) n WHERE n.upto > d_wandb_source.upto"
        )

    def _place_sources(self, con: duckdb.DuckDBPyConnection) -> bool:
        """Brings d_wandb_source to the sources there are; one whose keys are now read otherwise is taken in anew.

        Uploaders' logs are none of them: they hold no rows. Returns whether anything changed.
        """
        rows = con.execute(
            """
            WITH run AS (
                SELECT source_id, arg_max(run_id, (generation, from_off)) AS run_id FROM t_place GROUP BY source_id
            ),
            told AS (
                SELECT source_id, arg_max(mode, rec_id) AS mode, arg_max(framework, rec_id) AS framework FROM wandb_run
                GROUP BY source_id
            )
            SELECT r.run_id, s.source_id, s.kind, coalesce(t.mode, ''), coalesce(t.framework, '')
            FROM source s JOIN run r ON r.source_id = s.source_id LEFT JOIN told t ON t.source_id = s.source_id
            WHERE s.kind = 'wandb_api' OR (s.kind = 'wandb_local' AND s.path NOT LIKE '%.log')
            """
        ).fetchall()
        runs: dict[str, list[tuple[int, str, str, str]]] = {}
        for run, source_id, kind, mode, told in rows:
            runs.setdefault(str(run), []).append((source_id, kind, mode, told))
        known = {
            row[0]: tuple(row[1:])
            for row in con.execute(
                "SELECT source_id, kind, framework, shared, main, prefix FROM d_wandb_source"
            ).fetchall()
        }
        found = {source_id: str(values[1]) for source_id, values in known.items()}
        lens = {run: self._lens(con, run, sources, found) for run, sources in runs.items()}
        wanted = {source[0]: (source[1], *lens[run]) for run, sources in runs.items() for source in sources}
        if runs:
            logs = con.execute(
                "SELECT DISTINCT p.source_id, p.run_id FROM t_place p WHERE list_contains(?, p.run_id) "
                "AND p.kind NOT IN ('wandb_local', 'wandb_api') ORDER BY ALL",
                [list(runs)],
            ).fetchall()
            wanted.update({source_id: ("log", *lens[str(run)]) for source_id, run in logs})
        changed = [source for source, values in wanted.items() if known.get(source) != values]
        gone = [source for source in known if source not in wanted]
        if stale := [*(source for source in changed if source in known), *gone]:
            for table in ("d_wandb_unit", "d_wandb_key", "d_wandb_source"):
                con.execute(f"DELETE FROM {table} WHERE list_contains(?, source_id)", [stale])  # noqa: S608
        for source in changed:
            con.execute("INSERT INTO d_wandb_source VALUES (?, ?, ?, ?, ?, ?, 0)", [source, *wanted[source]])
        return bool(changed or gone)

    def _lens(
        self,
        con: duckdb.DuckDBPyConnection,
        run: str,
        sources: Iterable[tuple[int, str, str, str]],
        found: Mapping[int, str],
    ) -> tuple[str, bool, str, str]:
        """(framework, shared, main axis, prefix of printed keys): how the keys of a run are read.

        The framework is what configuration says, else the run itself, else what its keys showed once, or show.
        """
        listed = list(sources)
        told = (self._said, *(source[3] for source in listed), *(found.get(source[0], "") for source in listed))
        names_ = (name.lower().replace("-", "_") for name in told)
        framework = next((name for name in names_ if name in self._keys.frameworks), "")
        if not framework:
            names = con.execute(
                "SELECT DISTINCT key FROM d_wandb_key WHERE list_contains(?, source_id) LIMIT 20000",
                [[source[0] for source in listed]],
            ).fetchall()
            framework = self._keys.framework(str(row[0]) for row in names)
        shared = any(source[2] == "shared" for source in listed)
        return framework, shared, self._keys.main(framework), self._keys.prefix(framework)

    def _name(self, con: duckdb.DuckDBPyConnection) -> None:
        """Which axis new names have."""
        rows = con.execute("SELECT source_id, framework, log, key FROM t_wandb_named_").fetchall()
        if not rows:
            return
        self._put_axes(con, {(str(framework), bool(log_), str(key)) for _, framework, log_, key in rows})
        con.execute(
            "INSERT INTO d_wandb_key SELECT DISTINCT n.source_id, a.wkey, a.axis FROM t_wandb_named_ n "
            "JOIN t_wandb_axis_ a ON a.framework = n.framework AND a.log = n.log AND a.key = n.key "
            "ANTI JOIN d_wandb_key k ON k.source_id = n.source_id AND k.key = a.wkey"
        )

    def _learn_axes(self, con: duckdb.DuckDBPyConnection) -> None:
        """What is known of names, after a start."""
        rows = con.execute(
            "SELECT DISTINCT s.framework, s.kind = 'log', k.key FROM d_wandb_key k "
            "JOIN d_wandb_source s ON s.source_id = k.source_id"
        ).fetchall() if _exists(con, "d_wandb_key") else []  # fmt: skip
        named = set()
        for framework, is_log, key in rows:
            named.add((str(framework), bool(is_log), str(key)))
            if is_log and (prefix := self._keys.prefix(str(framework))):
                named.add((str(framework), True, str(key).removeprefix(prefix)))
        self._put_axes(con, named)

    def _put_axes(self, con: duckdb.DuckDBPyConnection, named: set[tuple[str, bool, str]]) -> None:
        found = []
        for framework, is_log, key in sorted(named):
            prefix = self._keys.prefix(framework) if is_log else ""
            wkey = key if not prefix or key.startswith(prefix) else prefix + key
            own = key in OWN or key.startswith("_wandb.")
            axis = None if own else self._keys.axis(framework, wkey)
            found.append((framework, is_log, key, wkey, axis, *self._measured(framework, wkey)))
        if not found:
            return
        names = ("framework", "log", "key", "wkey", "axis", "metric", "said")
        kinds = tuple(pa.bool_() if name == "log" else pa.string() for name in names)
        table = pa.table([pa.array([row[i] for row in found], kind) for i, kind in enumerate(kinds)], names=list(names))
        with arrow.laid(con, _axes=table):
            con.execute(
                "INSERT INTO t_wandb_axis_ SELECT * FROM _axes n ANTI JOIN t_wandb_axis_ a "
                "ON a.framework = n.framework AND a.log = n.log AND a.key = n.key"
            )

    def _measured(self, framework: str, key: str) -> tuple[str | None, str | None]:
        """The canonical name of what a key measures, and what is known of it as JSON; None, if it is no such number."""
        entry = self._keys.metric(framework, key)
        if entry is None or not (name := entry.name_at(self._revision)):
            return None, None
        told = {
            "wandb_key": key, "framework": framework, "space": entry.space, "reduction": entry.reduction,
            "better": entry.better, "perfect": entry.perfect, "traps": entry.traps,
        }  # fmt: skip
        return name, json.dumps({field: value for field, value in told.items() if value != ""}, ensure_ascii=False)

    def _number(self, con: duckdb.DuckDBPyConnection, now: datetime, rec_id: int) -> int:
        """Numeric records of new rows whose numbers no record has yet. Returns how many were made."""
        for statement in self._numbers:
            con.execute(statement.sql)
        row = con.execute("SELECT count(*) FROM t_wandb_number_").fetchone()
        if row is None or not row[0]:
            return 0
        con.execute(
            "INSERT INTO mismatch BY NAME SELECT * REPLACE (rec_id + ? AS rec_id), ? AS observed_at "
            "FROM t_wandb_number_",
            [rec_id, now],
        )
        return int(row[0])

    # --- values and gaps ----------------------------------------------------------------------------------------------

    def _rounds(self, con: duckdb.DuckDBPyConnection, now: datetime) -> Iterator[None]:
        """From what is taken in to the gaps, piece by piece. Events are read before the first pause alone."""
        con.execute("SET VARIABLE tic_now = ?", [now])
        by_name = {statement.name: statement for statement in self._compare}
        names = list(by_name)
        loop = names.index("wandb_slice_")
        for name in names[: names.index("wandb_group_")]:
            con.execute(by_name[name].sql)
        yield
        for name in names[names.index("wandb_group_") : loop]:
            con.execute(by_name[name].sql)
            yield
        con.execute(
            "DELETE FROM d_wandb_diff WHERE (run_id, axis, step) NOT IN "
            "(SELECT (run_id, axis, step) FROM t_wandb_sign_)"
        )
        while con.execute("SELECT 1 FROM t_wandb_due_ LIMIT 1").fetchone():
            con.execute(f"SET VARIABLE tic_wandb_budget = {LOOK}")
            for name in names[loop:]:
                con.execute(by_name[name].sql)
                if name == "wandb_slice_":
                    _span(con)
            for table in ("d_wandb_diff", "d_wandb_compared"):
                con.execute(
                    f"DELETE FROM {table} WHERE (run_id, axis, step) IN "  # noqa: S608
                    "(SELECT (run_id, axis, step) FROM t_wandb_slice_)"
                )
            con.execute("INSERT INTO d_wandb_diff SELECT * FROM t_wandb_diff_")
            con.execute("INSERT INTO d_wandb_compared SELECT run_id, axis, step, sign FROM t_wandb_slice_")
            con.execute(
                "DELETE FROM t_wandb_due_ WHERE (run_id, axis, step) IN "
                "(SELECT (run_id, axis, step) FROM t_wandb_slice_)"
            )
            yield
        for statement in self._gaps:
            con.execute(statement.sql)
            yield
        self.changes += store_kept(con, self.kept(), self._prints, now)
        row = con.execute("SELECT min(due_at) FROM t_wandb_one_ WHERE due_at > ?", [now]).fetchone()
        self._ripe_at = row[0] if row else None
        for statement in (*self._compare, *self._gaps):
            if not statement.kept:  # a row or two for each step, in a dozen of them: 20 MB of a run of 10,000
                con.execute(f"DROP {'TABLE' if statement.table else 'VIEW'} IF EXISTS t_{statement.name}")


def _span(con: duckdb.DuckDBPyConnection) -> None:
    """Notes which rows of each side the steps of the slice have."""
    row = con.execute(
        """
        SELECT min(u.rec_id) FILTER (u.side = 'wandb_local'), max(u.rec_id) FILTER (u.side = 'wandb_local'),
            min(u.rec_id) FILTER (u.side = 'wandb_api'), max(u.rec_id) FILTER (u.side = 'wandb_api'),
            min(u.rec_id) FILTER (u.wid IS NULL), max(u.last_rec_id) FILTER (u.wid IS NULL)
        FROM t_wandb_slice_ s JOIN t_wandb_at_ u ON u.run_id = s.run_id AND u.axis = s.axis AND u.step = s.step
        WHERE s.needed
        """
    ).fetchone()
    assert row is not None  # noqa: S101  an aggregate always gives a row
    for name, value in zip(_SPAN, row, strict=True):
        con.execute(f"SET VARIABLE {name} = {-1 if value is None else int(value)}")


def _ddl() -> str:
    return (_FOLDER / "0_tables.sql").read_text(encoding="utf-8")


def _exists(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    row = con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ? AND NOT temporary", [table]).fetchone()
    return row is not None


def folder() -> Path:
    """Where its SQL lies."""
    return _FOLDER
