"""A reader of one to three stores of mismatch records, and the same records as plain Python, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from tests.tui.fake import SCHEMA, Connection, Result
from tic_tui.model import Key

BEGAN = datetime(2026, 1, 1)
TABLE = next(text for text in SCHEMA.split(";") if "CREATE TABLE mismatches" in text)
TEXTS = (
    "policy", "input", "phase", "rank", "repeat", "scope", "intervention", "metric", "reference", "report",
    "classification", "parse_state", "admissibility", "reason", "not_evidence_because", "graph_mode", "step_kind",
    "prefix_cache", "prefix_hit_rate", "weight_phase", "host", "path", "raw",
)  # fmt: skip


@dataclass
class Stores:
    """Stores by their id, each a database and a list of its rows as dictionaries."""

    ids: Sequence[str] = ("s1",)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dbs = {}
        for store in self.ids:
            self._dbs[store] = duckdb.connect(":memory:", config={"threads": 1})
            self._dbs[store].execute(TABLE)
        self._next = dict.fromkeys(self.ids, 0)
        self._clock = dict.fromkeys(self.ids, BEGAN)
        self._here = duckdb.connect(":memory:", config={"threads": 1})

    def commit(self, store: str, rows: Sequence[dict[str, Any]], *, at: datetime) -> None:
        """New rows of a store, all known at one time, later than those before."""
        at = max(at, self._clock[store] + timedelta(microseconds=1))
        self._clock[store] = at
        made: list[dict[str, Any]] = []
        for row in rows:
            number = self._next[store] = self._next[store] + 1
            whole: dict[str, Any] = dict.fromkeys(TEXTS, "x") | {
                "rec_id": number, "run_id": "r", "attempt": 1, "step": 0, "step_carried": False, "value": 0.5,
                "self_repeat": 0.25, "noise_ratio": 2.0, "marked": False, "is_evidence": True, "pid": 1,
                "source_id": len(self.ids) + self.ids.index(store), "generation": 0, "line_no": number,
                "byte_offset": number, "byte_length": 9, "event_at": None, "observed_at": at, "store_id": store,
                "provisional": False,
            } | row  # fmt: skip
            made.append(whole)
        self.rows += made
        if made:
            names = ", ".join(made[0])
            marks = ", ".join("?" * len(made[0]))
            self._dbs[store].executemany(
                f"INSERT INTO mismatches ({names}) VALUES ({marks})", [list(row.values()) for row in made]
            )

    def settle(self, store: str, *, at: datetime) -> None:
        """The provisional rows of a store become final: other rows of the same place."""
        open_rows = [row for row in self.rows if row["store_id"] == store and row["provisional"]]
        self.rows = [row for row in self.rows if row not in open_rows]
        self._dbs[store].execute("DELETE FROM mismatches WHERE provisional")
        self.commit(
            store,
            [{k: v for k, v in row.items() if k != "rec_id"} | {"provisional": False} for row in open_rows],
            at=at,
        )
        for row in self.rows[len(self.rows) - len(open_rows) :]:
            row["observed_at"] = self._clock[store]
        if open_rows:
            newest = self._next[store] - len(open_rows)
            self._dbs[store].execute(
                "UPDATE mismatches SET observed_at = ? WHERE rec_id > ?", [self._clock[store], newest]
            )

    def judge(self, step: int, admissibility: str) -> None:
        """Records from this step on are worth something else now."""
        for row in self.rows:
            if row["step"] is not None and row["step"] >= step:
                row["admissibility"], row["is_evidence"] = admissibility, admissibility == "admissible"
        for db in self._dbs.values():
            db.execute(
                "UPDATE mismatches SET admissibility = ?, is_evidence = ? WHERE step >= ?",
                [admissibility, admissibility == "admissible", step],
            )

    def order(self, rows: Sequence[dict[str, Any]] | None = None) -> list[Key]:
        """Keys of the rows, in order."""
        return sorted(Key(r["observed_at"], r["store_id"], r["rec_id"]) for r in (self.rows if rows is None else rows))

    # --- the reader ---

    def query(self, sql: str, params: Sequence[object] = (), *, gather: str = "", **_: Any) -> Result:
        assert gather, "a question for several stores says how to gather"
        parts = [db.execute(sql, list(params)).to_arrow_table() for db in self._dbs.values()]
        if len(parts) > 1:
            self._here.register("part", pa.concat_tables(parts))
            cursor = self._here.execute(gather)
        else:
            cursor = duckdb.from_arrow(parts[0]).execute()  # type: ignore[assignment]
        return Result(tuple(d[0] for d in cursor.description), (), cursor.fetchall(), False, 0.0)

    def connection(self) -> Connection:
        return Connection("several" if len(self.ids) > 1 else "live", "connected", None, "", "fake")
