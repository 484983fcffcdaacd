"""The questions that the screen asks: public views and named columns only.

Planning a view costs more than reading a window through it, so few and whole questions are asked: all that screen 2
counts and plots comes from one reading of a run's records (`overview`).

Record lists are paged by ranges of rec_id, never by sorting a view: on ten million rows a range costs milliseconds and
a sort seconds. rec_id numbers all events of a store, so a range holds fewer records than numbers, and widens until it
holds enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tic_tui.model import (
    Bucket,
    Demand,
    ExecField,
    Fault,
    Mark,
    Mismatch,
    Run,
    RunsView,
    RunView,
    Series,
    Sources,
    Standing,
    Steps,
    WeightPhase,
    Window,
    build,
    columns,
)
from tic_tui.safe import safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

TIMEOUT_S: Final = 30.0  # the feed waits, the screen does not
WINDOW: Final = 300  # records on each side of the anchor; a terminal shows fewer
FAULTS: Final = 100  # faults listed; the count above says how many there are
_FIRST_SPAN: Final = 20_000
_WIDEN: Final = 8


def _rows(reader: Reader, sql: str, params: Sequence[object] = (), max_rows: int = 100_000) -> list[tuple[Any, ...]]:
    return reader.query(sql, params, max_rows=max_rows, timeout_s=TIMEOUT_S).rows


def _all(reader: Reader, kind: type[T], rest: str, *params: object) -> list[T]:
    """Models of `SELECT <the model's columns> FROM <rest>`; `rest` is always a constant of this module."""
    return [build(kind, row) for row in _rows(reader, f"SELECT {columns(kind)} FROM {rest}", params)]  # noqa: S608


def _one(reader: Reader, kind: type[T], rest: str, *params: object) -> T | None:
    return next(iter(_all(reader, kind, rest, *params)), None)


def pulse(reader: Reader) -> tuple[Any, ...]:
    """A cheap value that changes whenever something was read or said: asked often, so that the rest need not be."""
    return tuple(
        _rows(
            reader,
            "SELECT (SELECT count(*) FROM sources), (SELECT sum(bytes_read) FROM sources),"
            " (SELECT max(last_growth_at) FROM sources), (SELECT count(*) FROM sources WHERE state = 'growing'),"
            " (SELECT count(*) FROM marks), (SELECT count(*) FROM marks WHERE retracted)",
        )[0]
    )


class Newest:
    """The newest record of each run and attempt, followed by rec_id so that only new ranges are searched."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, int], int] = {}

    def update(self, reader: Reader) -> dict[tuple[str, int], Mismatch]:
        """Reads them, also those that are not newer than before: their standing may have changed."""
        if not self._ids:
            # Narrow columns only: this first time all records are looked at.
            found = _rows(reader, "SELECT run_id, attempt, max(rec_id) FROM mismatches GROUP BY ALL")
            self._ids = {(run_id, attempt): rec_id for run_id, attempt, rec_id in found}
            if not self._ids:
                return {}
        known = ", ".join(str(int(i)) for i in self._ids.values())
        records = _all(
            reader,
            Mismatch,
            f"mismatches WHERE rec_id > ? OR rec_id IN ({known})"
            " QUALIFY row_number() OVER (PARTITION BY run_id, attempt ORDER BY rec_id DESC) = 1",
            max(self._ids.values()),
        )
        newest = {(str(r.run_id), r.attempt): r for r in records}
        self._ids = {key: r.rec_id for key, r in newest.items()} or self._ids
        return newest


def runs_view(reader: Reader, newest: Newest, read_at: datetime) -> RunsView:
    """Screen 1: all runs, those read last first."""
    runs = _all(reader, Run, "runs ORDER BY last_observed_at DESC NULLS LAST, run_id, attempt DESC LIMIT 5000")
    return RunsView(tuple(runs), newest.update(reader), read_at)


def one_run(reader: Reader, run_id: str) -> Run | None:
    """The run's line, of its newest attempt; None if the store has no such run."""
    return _one(reader, Run, "runs WHERE run_id = ? ORDER BY attempt DESC LIMIT 1", run_id)


def window(reader: Reader, run_id: str, anchor: int | None, top: int) -> Window:
    """Records of a run around `anchor`, or its newest ones. `top` is the run's largest rec_id."""
    if anchor is None:
        rows, older = _page_back(reader, run_id, top, 2 * WINDOW)
        return Window(rows, older, False)
    before, older = _page_back(reader, run_id, anchor, WINDOW)
    after, newer = _page_on(reader, run_id, anchor, top, WINDOW)
    return Window(before + after, older, newer)


def _range(reader: Reader, run_id: str, low: int, high: int, limit: int, *, newest: bool) -> tuple[Mismatch, ...]:
    """Up to `limit` records with low < rec_id <= high, oldest first; the newest or the oldest ones of the range."""
    order = "DESC" if newest else "ASC"
    rest = f"mismatches WHERE run_id = ? AND rec_id > ? AND rec_id <= ? ORDER BY rec_id {order} LIMIT {int(limit)}"
    records = tuple(_all(reader, Mismatch, rest, run_id, low, high))
    return records[::-1] if newest else records


def _page_back(reader: Reader, run_id: str, high: int, want: int) -> tuple[tuple[Mismatch, ...], bool]:
    span = _FIRST_SPAN
    while True:
        low = max(-1, high - span)
        rows = _range(reader, run_id, low, high, want + 1, newest=True)
        if len(rows) > want or low < 0:
            return rows[-want:], len(rows) > want
        span *= _WIDEN


def _page_on(reader: Reader, run_id: str, low: int, top: int, want: int) -> tuple[tuple[Mismatch, ...], bool]:
    span = _FIRST_SPAN
    while True:
        high = min(top, low + span)
        rows = _range(reader, run_id, low, high, want + 1, newest=False)
        if len(rows) > want or high >= top:
            return rows[:want], len(rows) > want
        span *= _WIDEN


def newest_evidence(reader: Reader, run_id: str) -> Mismatch | None:
    """The record of the last step that still is evidence, or None."""
    rows = _rows(
        reader,
        "SELECT rec_id FROM mismatches WHERE run_id = ? AND is_evidence"
        " ORDER BY step DESC NULLS LAST, rec_id DESC LIMIT 1",
        [run_id],
    )
    if not rows:
        return None
    return next(iter(_all(reader, Mismatch, "mismatches WHERE rec_id = ?", rows[0][0])), None)


@dataclass(frozen=True, slots=True)
class Overview:
    """What one reading of all records of a run says of them."""

    top: int
    newest_evidence: int | None
    standings: tuple[Standing, ...]
    series: Series | None


_OVERVIEW: Final = """
WITH m AS MATERIALIZED (
    SELECT rec_id, attempt, step, metric, value, self_repeat, admissibility, reason, is_evidence,
        step IS NOT NULL AND value IS NOT NULL AND isfinite(value) AS drawn
    FROM mismatches WHERE run_id = ?
),
chosen AS (
    SELECT metric FROM m WHERE metric <> '' GROUP BY metric ORDER BY metric = ? DESC, max(rec_id) DESC LIMIT 1
),
p AS (SELECT m.* FROM m JOIN chosen USING (metric)),
-- A step is never split: where there are fewer steps than columns, each gets one span, and is drawn wide.
b AS (SELECT min(step) AS lo, max(step) AS hi, least(?, max(step) - min(step) + 1) AS spans FROM p WHERE drawn)
SELECT 'top' AS kind, max(rec_id) AS a, NULL AS t, NULL::DOUBLE AS x, NULL::DOUBLE AS y, count(*) AS n FROM m
UNION ALL SELECT 'evidence', arg_max(rec_id, {'step': coalesce(step, -1), 'rec_id': rec_id}), NULL, NULL, NULL, count(*)
    FROM m WHERE is_evidence
UNION ALL SELECT 'standing ' || reason, attempt, admissibility, NULL, NULL, count(*)
    FROM m GROUP BY reason, attempt, admissibility
UNION ALL SELECT 'metric', NULL, metric, NULL, NULL, count(*) FROM m WHERE metric <> '' GROUP BY metric
UNION ALL SELECT 'span', lo, (SELECT metric FROM chosen), NULL, NULL, hi FROM b
UNION ALL SELECT 'floor', NULL, NULL, max(self_repeat), NULL, count(*) FILTER (NOT drawn) FROM p
UNION ALL SELECT 'bucket', CAST(floor((step - lo) * spans / (hi - lo + 1)) AS BIGINT),
    CASE WHEN admissibility <> 'admissible' THEN admissibility WHEN is_evidence THEN 'evidence' ELSE 'not evidence' END,
    min(value), max(value), count(*)
    FROM p, b WHERE drawn AND spans > 0 GROUP BY ALL
"""


def overview(reader: Reader, run_id: str, metric: str, spans: int) -> Overview:
    """Counts, the newest evidence, and one metric over steps in at most `spans` columns: `metric`, or the newest one.

    Each column keeps its smallest and largest value, so that a spike never vanishes.
    """
    rows = _rows(reader, _OVERVIEW, [run_id, metric, spans])
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    standings = []
    for kind, *rest in rows:
        if kind is not None and kind.startswith("standing "):
            standings.append(Standing(int(rest[0]), safe(rest[1]), safe(kind[9:]), rest[4]))
        elif kind is not None:
            kinds.setdefault(kind, []).append(tuple(rest))
    top = kinds["top"][0][0]
    low, chosen, _, _, high = kinds["span"][0]
    made = None
    if chosen is not None:
        floor, hidden = kinds["floor"][0][2], kinds["floor"][0][4]
        buckets = tuple(Bucket(a, safe(t), x, y, n) for a, t, x, y, n in sorted(kinds.get("bucket", [])))
        columns = 0 if low is None else min(spans, high - low + 1)
        metrics = tuple(sorted(m[1] for m in kinds["metric"]))
        made = Series(chosen, metrics, low or 0, high or 0, spans, columns, buckets, floor, hidden)
    return Overview(-1 if top is None else top, kinds["evidence"][0][0], tuple(standings), made)


def run_view(reader: Reader, run: Run, demand: Demand, read_at: datetime) -> RunView:
    """Screen 2 of one run."""
    run_id = str(run.run_id)
    seen = overview(reader, run_id, demand.metric, demand.columns)
    shown = window(reader, run_id, None if demand.anchor is None else demand.anchor.rec_id, seen.top)
    faults = _all(
        reader, Fault, f"faults WHERE run_id = ? ORDER BY locks DESC NULLS LAST, rec_id DESC LIMIT {FAULTS}", run_id
    )
    first = next((f for f in faults if f.rec_id == run.first_fault_rec_id), None)
    if first is None and run.first_fault_rec_id is not None:
        first = _one(reader, Fault, "faults WHERE run_id = ? AND rec_id = ?", run_id, run.first_fault_rec_id)
    evidence = next((m for m in shown.rows if m.rec_id == seen.newest_evidence), None)
    if evidence is None and seen.newest_evidence is not None:
        evidence = _one(reader, Mismatch, "mismatches WHERE rec_id = ?", seen.newest_evidence)
    phases = _rows(
        reader,
        "SELECT role, track, arg_max(phase, rec_id), arg_max(version, rec_id) FROM weight_lifecycle"
        " WHERE run_id = ? GROUP BY ALL ORDER BY ALL",
        [run_id],
    )
    steps = _rows(reader, "SELECT min(step), max(step), count(DISTINCT step) FROM steps WHERE run_id = ?", [run_id])[0]
    sources = _rows(
        reader,
        "SELECT count(*), count(*) FILTER (state = 'growing'), count(*) FILTER (state = 'unreadable'),"
        " max(last_growth_at) FROM sources WHERE run_id = ?",
        [run_id],
    )[0]
    fields = _all(reader, ExecField, "exec_state_now WHERE run_id = ? ORDER BY role, rank, pid LIMIT 5000", run_id)
    marks = _all(reader, Mark, "marks WHERE run_id = ? ORDER BY marked_at DESC NULLS FIRST LIMIT 200", run_id)
    return RunView(
        run=run,
        standings=seen.standings,
        first_fault=first,
        faults=tuple(sorted(faults, key=lambda f: f.rec_id)),
        faults_total=run.faults,
        exec_fields=tuple(fields),
        phases=tuple(build(WeightPhase, r) for r in phases),
        newest_evidence=evidence,
        window=shown,
        series=seen.series,
        steps=Steps(*steps),
        sources=Sources(*sources),
        marks=tuple(marks),
        read_at=read_at,
    )
