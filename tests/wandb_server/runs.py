"""What the server holds of one run, and how it tells it.

Lines are kept as they were uploaded, by writer and offset: an upload with the offset of lines that are there replaces
them, as two plain clients with one run id do to each other.
"""

from __future__ import annotations

import io
import json
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HISTORY = "wandb-history.jsonl"
EVENTS = "wandb-events.jsonl"
SUMMARY = "wandb-summary.json"
OUTPUT = "output.log"


class Run:
    """A run on the server.

    Attributes (switches, all may be changed at any time):
        nan_as: how a NaN is spelt in what is read: "bare" (NaN), "string" ("NaN") or "null".
        twice: steps whose rows are told twice.
        order: "sorted" by step, or "reversed".
        last_step: what `historyKeys.lastStep` says, if not the greatest step that is there.
        line_count: what `historyLineCount` says, if not how many rows there are.
        upsert_line_count: whether an upload of a run that is there is told how many lines there are; a client that is
            told goes on behind them.
        exported_again: whether live pages tell rows that are exported, too.
        thinned: whether a page that holds more rows than `samples` is thinned to that many.
    """

    def __init__(self, entity: str, project: str, name: str) -> None:
        self.entity, self.project, self.name = entity, project, name
        self.lock = threading.RLock()
        self.lines: dict[str, dict[int, str]] = {}
        self.files: dict[str, dict[int, str]] = {EVENTS: {}, SUMMARY: {}, OUTPUT: {}}
        self.config = "{}"
        self.display_name = name
        self.state = "running"
        self.exit_code: int | None = None
        self.heartbeats = 0
        self.heartbeat_at = _now()
        self.exports: list[bytes] = []
        self.exported: set[int] = set()
        self.nan_as = "bare"
        self.twice: set[int] = set()
        self.order = "sorted"
        self.last_step: int | None = None
        self.line_count: int | None = None
        self.upsert_line_count = False
        self.exported_again = False
        self.thinned = False
        self._sorted: tuple[int, list[dict[str, Any]]] = (-1, [])
        self._counts: tuple[int, dict[str, int]] = (-1, {})
        self._version = 0

    @property
    def path(self) -> str:
        """entity/project/id"""
        return f"{self.entity}/{self.project}/{self.name}"

    # --- what is uploaded --------------------------------------------------------------------------------------------

    def put(self, rows: Iterable[Mapping[str, Any]], writer: str = "") -> None:
        """Appends rows as if they had been uploaded."""
        with self.lock:
            self._version += 1
            self.heartbeat_at = _now()
            lines = self.lines.setdefault(writer, {})
            start = max(lines, default=-1) + 1
            lines.update({start + n: json.dumps(row) for n, row in enumerate(rows)})

    def stream(self, request: Mapping[str, Any], writer: str, *, lose_history: bool = False) -> None:
        """One request of file_stream."""
        with self.lock:
            self.heartbeats += 1
            self.heartbeat_at = _now()
            self._version += 1
            for name, part in request.get("files", {}).items():
                content = {int(part["offset"]) + n: line for n, line in enumerate(part["content"])}
                if name == HISTORY:
                    if not lose_history:
                        self.lines.setdefault(writer, {}).update(content)
                elif name in self.files:
                    self.files[name].update(content)
            if request.get("complete"):
                self.exit_code = int(request.get("exitcode") or 0)
                self.state = "finished" if self.exit_code == 0 else "failed"

    def rewind(self, step: int) -> None:
        """Rows after `step` are gone."""
        with self.lock:
            self._version += 1
            for writer, lines in self.lines.items():
                kept = [line for _, line in sorted(lines.items()) if step_of(json.loads(line)) <= step]
                self.lines[writer] = dict(enumerate(kept))

    # --- what is read ------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """Every row, sorted by step; rows of one step in the order of writers and offsets."""
        with self.lock:
            if self._sorted[0] != self._version:
                lines = [line for _, one in sorted(self.lines.items()) for _, line in sorted(one.items())]
                self._sorted = (self._version, sorted((json.loads(line) for line in lines), key=step_of))
            return self._sorted[1]

    def page(self, low: int, high: int, samples: int) -> list[str]:
        """Rows with low <= step < high as the server tells them."""
        told: list[str] = []
        for row in self.rows():
            step = step_of(row)
            if not low <= step < high or (step in self.exported and not self.exported_again):
                continue
            line = json.dumps(_spelt(row, self.nan_as))
            told += [line, line] if step in self.twice else [line]
        if self.thinned and len(told) > samples:
            told = [told[n * len(told) // samples] for n in range(samples)]
        return told[::-1] if self.order == "reversed" else told

    def newest_step(self) -> int:
        """What `historyKeys.lastStep` says."""
        return self.last_step if self.last_step is not None else max((step_of(row) for row in self.rows()), default=-1)

    def count(self) -> int:
        """What `historyLineCount` says."""
        return self.line_count if self.line_count is not None else sum(map(len, self.lines.values()))

    def history_keys(self) -> dict[str, Any] | None:
        """`historyKeys`; None for a run without a row."""
        rows = self.rows()
        if not rows:
            return None
        if self._counts[0] != self._version:
            counts: dict[str, int] = {}
            for row in rows:
                for key in flat(row):
                    counts[key] = counts.get(key, 0) + 1
            self._counts = (self._version, counts)
        counts = self._counts[1]
        keys = {key: {"typeCounts": [{"type": "number", "count": n}]} for key, n in counts.items()}
        return {"sets": [], "lastStep": self.newest_step(), "keys": keys}

    def summary(self) -> str:
        """`summaryMetrics`: what was uploaded last, else the last value of each key."""
        told = self.files[SUMMARY]
        if told:
            return told[max(told)]
        merged: dict[str, Any] = {}
        for row in self.rows():
            merged.update(row)
        return json.dumps(merged)

    # --- exports -----------------------------------------------------------------------------------------------------

    def export(self, below: int, *, at_least: int = 0, order: Sequence[int] | None = None) -> None:
        """Writes the rows of the steps at_least .. below - 1 into one Parquet file more; they are live no longer.

        A row of these steps that is uploaded afterwards is in neither place. `order`: positions of the rows in the file.
        """
        rows = [row for row in self.rows() if at_least <= step_of(row) < below]
        if order is not None:
            rows = [rows[n] for n in order]
        with self.lock:
            self.exports.append(parquet(rows))
            self.exported |= {step_of(row) for row in rows}

    def live_steps(self) -> list[int]:
        """Steps that are not exported."""
        return [step for row in self.rows() if (step := step_of(row)) not in self.exported]


def step_of(row: Mapping[str, Any]) -> int:
    """`_step` of a row; 0 without one, as the client has it."""
    return int(row.get("_step") or 0)


def flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested objects as dotted keys, as exports name their columns."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{before}{key}."))
        else:
            out[f"{before}{key}"] = value
    return out


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a Parquet file: a column per dotted key, null where a row has none."""
    flats = [flat(row) for row in rows]
    names = sorted({key for row in flats for key in row})
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row.get(name) for row in flats]
        there = [value for value in values if value is not None]
        if all(isinstance(value, int) and not isinstance(value, bool) for value in there):
            columns[name] = pa.array(values, pa.int64())
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
            columns[name] = pa.array([None if value is None else float(value) for value in values], pa.float64())
        elif all(isinstance(value, bool) for value in there):
            columns[name] = pa.array(values, pa.bool_())
        else:
            texts = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]
            columns[name] = pa.array(texts, pa.string())
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=1000)
    return out.getvalue()


def _now() -> str:
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _spelt(value: Any, nan_as: str) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return {"bare": value, "string": "NaN", "null": None}[nan_as]
    if isinstance(value, dict):
        return {key: _spelt(item, nan_as) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelt(item, nan_as) for item in value]
    return value
