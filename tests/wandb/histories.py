"""A store in memory with the real tables, derivations and views, filled with histories as the sources would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.evidence.worldstore import WorldStore, prepare
from tic_daemon.store.derive import Derived
from tic_daemon.store.reconcile import Reconciler
from tic_daemon.wandb.history import history_row, value_of

NOON = datetime(2026, 11, 29, 12)
Gap = tuple[object, ...]
_ARROW = {
    "VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


class Histories:
    """See the module. Times are seconds after noon. What was put is written by `settle`."""

    def __init__(self, reconciler: Reconciler | None = None, con: duckdb.DuckDBPyConnection | None = None) -> None:
        self.con = con or WorldStore().con
        self.derived = Derived(wandb=reconciler or Reconciler())
        self.rec_id, self.sources, self.reads = 0, 0, 0
        self._rows: dict[str, list[dict[str, object]]] = {}
        self._offset: dict[int, int] = {}
        self._row_no: dict[int, int] = {}
        self._run: dict[int, dict[str, object]] = {}
        self._uploaders: dict[int, int] = {}
        self._hints: dict[int, str] = {}
        self._kinds: dict[str, dict[str, str]] = {}

    @classmethod
    def in_file(cls, path: Path) -> Histories:
        """In a file that a reader can open once `con` is closed."""
        con = duckdb.connect(str(path))
        con.execute("SET threads = 1")
        prepare(con)
        return cls(con=con)

    # --- sources ------------------------------------------------------------------------------------------------------

    def source(self, kind: str, run: str, path: str = "", console: bool = False, run_how: str = "path") -> int:
        self.sources += 1
        source_id = self.sources
        self._hints[source_id] = run
        self._put("source", {
            "source_id": source_id, "kind": kind, "host": "h", "root": "/w", "path": path or f"/w/{kind}-{source_id}", "role": "trainer",
            "single_process": False, "stream": "", "console": console, "run_hint": run, "run_how": run_how, "zone_s": 0,
            "state": "growing", "generation": 0, "first_seen_at": NOON, "last_growth_at": NOON, "observed_at": NOON,
        })  # fmt: skip
        self._put(
            "cursor",
            {"source_id": source_id, "generation": 0, "byte_offset": 1 << 40, "line_no": 0, "observed_at": NOON},
        )
        return source_id

    def local(self, run: str = "r", wid: str = "abc", t: float = 0, **told: object) -> int:
        """A local log. `told` overrides what its run record says."""
        source_id = self.source("wandb_local", run)
        self._run[source_id] = {
            "run_path": f"e/p/{wid}", "wandb_id": wid, "entity": "e", "project": "p", "name": run, "mode": "online",
            "directory": f"/w/wandb/run-{source_id}-{wid}", "writer": "", "started_at": at(t), "starting_step": 0,
            "state": "running", "config": "{}", "summary": "{}", "client_version": "0.31.0", "framework": "", "git_commit": "",
        }  # fmt: skip
        self.tell(source_id, t, **told)
        return source_id

    def api(self, run: str = "r", wid: str = "abc", t: float = 0, mute: bool = False, **told: object) -> int:
        """The server's history. `mute`: it has never said anything of the run."""
        source_id = self.source("wandb_api", run, f"e/p/{wid}")
        if mute:
            return source_id
        self._run[source_id] = {
            "run_path": f"e/p/{wid}", "wandb_id": wid, "entity": "e", "project": "p", "name": run, "mode": "", "directory": "",
            "writer": "", "state": "running", "config": "{}", "summary": "{}", "client_version": "0.31.0", "framework": "",
            "git_commit": "",
        }  # fmt: skip
        self.tell(source_id, t, **told)
        return source_id

    def tell(self, source_id: int, t: float, **told: object) -> None:
        """A new run record of a source."""
        self._run[source_id] |= told
        self._put("wandb_run", {**self._at(source_id, t), **self._run[source_id]})

    # --- what they hold -------------------------------------------------------------------------------------------------

    def row(
        self,
        source_id: int,
        step: int | None,
        values: Mapping[str, object],
        t: float,
        read: str | None = None,
        bytes: int = 100,
        logged: float | None = None,
    ) -> None:
        """`t`: when it was written, or read. `logged`: its own time, of one that was read."""
        stamp = logged if read else t
        made = history_row([value_of(key, value) for key, value in values.items()], self._row_no.get(source_id, 0))
        self._row_no[source_id] = made.row_no + 1
        place = self._at(source_id, t, stamp=None if stamp is None else at(stamp), byte_length=bytes)
        self._put("wandb_row", {
            **place, "wandb_step": step, "row_no": made.row_no, "writer": "", "keys": len(made.values), "digest": made.digest(),
            "read_id": read,
        })  # fmt: skip
        for value in made.values:
            self._put("wandb_value", {
                "row_id": place["rec_id"], "key": value.key, "value": value.number, "value_text": value.text, "kind": value.kind,
                "observed_at": place["observed_at"],
            })  # fmt: skip

    def damage(self, source_id: int, t: float) -> None:
        """The next 100 bytes of a log are damaged."""
        place = self._at(source_id, t)
        first = place["byte_offset"]
        assert isinstance(first, int)
        told = {
            "kind": "wandb_damaged",
            "first_byte": first,
            "last_byte": first + 100,
            "detail": "a checksum does not fit",
        }
        self._put("source_gap", {**place, **told})

    def read(
        self,
        source_id: int,
        t: float,
        seen: str = "",
        page: int = 1000,
        first: int | None = 0,
        last: int | None = None,
        **told: object,
    ) -> str:
        """A reading that came to its end, unless `outcome` says otherwise."""
        self.reads += 1
        read_id = f"read{self.reads}"
        row = {
            "read_id": read_id, "run_path": "e/p/abc", "began_at": at(t), "took_s": 1.0, "client_version": "0.31.0", "page_size": page,
            "first_step": first, "last_step": last, "rows": 1, "history_line_count": None, "last_history_step": None, "seen": seen,
            "outcome": "ok", "detail": "", "who": "daemon",
        }  # fmt: skip
        self._put("wandb_read", {**self._at(source_id, t), **row, **told})
        return read_id

    def whole(
        self,
        source_id: int,
        t: float,
        rows: Iterable[tuple[int, Mapping[str, object]]],
        page: int = 1000,
        stored: bool = True,
    ) -> None:
        """A reading of all: rows that are new are stored, and what it saw is said."""
        listed = list(rows)
        read_id = self.read(source_id, t, ranges([step for step, _ in listed]), page)
        if stored:
            for step, values in listed:
                self.row(source_id, step, values, t, read_id)

    def upload(self, source_id: int, t: float, state: str, **told: object) -> None:
        """What the uploader of a local log says; its own log is a source beside it."""
        row = {
            "directory": self._run[source_id]["directory"], "wandb_id": self._run[source_id]["wandb_id"], "state": state, "history_offset": None,
            "history_lines": None, "status": None, "dropped_step": None, "current_step": None, "detail": "",
        }  # fmt: skip
        uploader = self._uploaders.get(source_id)
        if uploader is None:
            directory = self._run[source_id]["directory"]
            uploader = self.source("wandb_local", self._hints[source_id], f"{directory}/logs/debug-internal.log")
            self._uploaders[source_id] = uploader
        self._put("wandb_upload", {**self._at(uploader, t, stamp=at(t)), **row, **told})

    def line(self, source_id: int, step: int, printed: Mapping[str, str], t: float) -> None:
        """A line of a trainer: it ends the step and prints metrics."""
        place = self._at(source_id, t, stamp=at(t), step=step)
        self._put("step_event", {**place, "edge": "end", "gpu": True, "rule": "x", "raw": ""})
        for key, text in printed.items():
            self.rec_id += 1
            self._put(
                "metric",
                {**place, "rec_id": self.rec_id, "key": key, "value": float(text), "value_text": text, "raw": ""},
            )

    # --- writing and asking -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        for table, rows in self._rows.items():
            kinds = self._kinds.setdefault(table, dict(self.con.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND NOT internal", [table]).fetchall()))  # fmt: skip
            columns = list(dict.fromkeys(column for row in rows for column in row))
            self.con.register(
                "batch", pa.table({c: pa.array([r.get(c) for r in rows], _ARROW[kinds[c]]) for c in columns})
            )
            self.con.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM batch")
            self.con.unregister("batch")
        self._rows = {}

    def settle(self, t: float, rebuild: bool = True, pressed: bool = False) -> int:
        """Writes what was put, and holds everything against everything at time `t`. Returns in how many slices."""
        self.flush()
        if rebuild:
            self.derived.rebuild(self.con, at(t))
        self.derived.wandb.note({"wandb_row"})
        slices = 0
        for _ in range(1000):
            slices += 1
            more = self.derived.wandb.slice(self.con, at(t), self.rec_id, lambda: pressed)
            self.rec_id += self.derived.wandb.made
            if not more:
                break
        else:
            raise AssertionError("it never comes to an end")
        self.con.execute("SET VARIABLE now = ?", [at(t)])
        return slices

    def gaps(self, columns: str = "kind, source, first_step, last_step, key, cause", where: str = "true") -> list[Gap]:
        return sorted(self.con.execute(f"SELECT {columns} FROM wandb_gaps WHERE {where}").fetchall(), key=repr)

    def confirmed(self, columns: str = "kind, source, first_step, last_step, key, cause") -> list[Gap]:
        return self.gaps(columns, "confirmed")

    # --- helps --------------------------------------------------------------------------------------------------------------

    def _at(self, source_id: int, t: float, **place: object) -> dict[str, object]:
        self.rec_id += 1
        offset = self._offset.get(source_id, 0)
        self._offset[source_id] = offset + 100
        return {
            "rec_id": self.rec_id, "store_id": "s", "host": "h", "source_id": source_id, "generation": 0, "byte_offset": offset, "byte_length": 100,
            "line_no": offset // 100 + 1, "prov": None, "proc": "", "pid": None, "proc_rank": None, "actor": "", "stream": "", "stamp": None,
            "stamp_res_us": 1, "stamp_utc": True, "after_stamp": None, "after_utc": False, "step": None, "step_carried": False, "policy": "",
            "observed_at": at(t), **place,
        }  # fmt: skip

    def _put(self, table: str, row: dict[str, object]) -> None:
        self._rows.setdefault(table, []).append(row)


def ranges(steps: Sequence[int]) -> str:
    """Ranges of steps as `wandb_read.seen` has them."""
    found: list[list[int]] = []
    for step in sorted(set(steps)):
        if found and step == found[-1][1] + 1:
            found[-1][1] = step
        else:
            found.append([step, step])
    return " ".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in found)
