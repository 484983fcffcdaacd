"""The questions that the screen asks: public views and named columns only.

Record lists are paged by ranges of rec_id, never by sorting a view: on ten million rows a range costs milliseconds and
a sort seconds. rec_id numbers all events of a store, so a range holds fewer records than numbers, and widens until it
holds enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tic_tui.model import (
    Bucket,
    Demand,
    ExecField,
    Fault,
    Lock,
    Mark,
    Mismatch,
    Run,
    RunsView,
    RunView,
    Series,
    Sources,
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

WINDOW: Final = 300  # records on each side of the anchor; a terminal shows fewer
FAULTS: Final = 100  # faults listed; the count above says how many there are
_FIRST_SPAN: Final = 20_000
_WIDEN: Final = 8


def _rows(reader: Reader, sql: str, params: Sequence[object] = (), max_rows: int = 100_000) -> list[tuple[Any, ...]]:
    return reader.query(sql, params, max_rows=max_rows).rows


def _all(reader: Reader, kind: type[T], rest: str, *params: object) -> list[T]:
    """Models of `SELECT <the model's columns> FROM <rest>`; `rest` is always a constant of this module."""
    return [build(kind, row) for row in _rows(reader, f"SELECT {columns(kind)} FROM {rest}", params)]  # noqa: S608


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
    """The newest record of each run, followed by rec_id so that only new ranges are searched."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, int], int] = {}
        self.top = -1

    def update(self, reader: Reader) -> dict[tuple[str, int], Mismatch]:
        """Looks at the records after the last look, then reads each run's newest afresh: its standing may change."""
        found = _rows(
            reader, "SELECT run_id, attempt, max(rec_id) FROM mismatches WHERE rec_id > ? GROUP BY ALL", [self.top]
        )
        for run_id, attempt, rec_id in found:
            self._ids[run_id, attempt] = rec_id
            self.top = max(self.top, rec_id)
        if not self._ids:
            return {}
        ids = ", ".join(str(int(i)) for i in self._ids.values())
        records = _all(reader, Mismatch, f"mismatches WHERE rec_id IN ({ids})")
        return {(str(r.run_id), r.attempt): r for r in records}


def runs_view(reader: Reader, newest: Newest, read_at: datetime) -> RunsView:
    """Screen 1: all runs, those read last first."""
    runs = _all(reader, Run, "runs ORDER BY last_observed_at DESC NULLS LAST, run_id, attempt DESC LIMIT 5000")
    return RunsView(tuple(runs), newest.update(reader), read_at)


def window(reader: Reader, run_id: str, anchor: int | None, top: int) -> Window:
    """Records of a run around `anchor`, or its newest ones. `top` is the largest rec_id known."""
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


def series(reader: Reader, run_id: str, metric: str, spans: int) -> Series | None:
    """One metric over steps in `spans` columns, smallest and largest value each: a spike never vanishes."""
    metrics = [
        safe(m)
        for (m,) in _rows(
            reader,
            "SELECT metric FROM mismatches WHERE run_id = ? AND metric <> '' GROUP BY 1 ORDER BY max(rec_id) DESC",
            [run_id],
        )
    ]  # fmt: skip
    if not metrics or spans < 1:
        return None
    chosen = next((m for m in metrics if m == metric), metrics[0])
    first, last, floor, unplotted = _rows(
        reader,
        "SELECT min(step) FILTER (isfinite(value)), max(step) FILTER (isfinite(value)), max(self_repeat),"
        " count(*) FILTER (value IS NULL OR NOT isfinite(value) OR step IS NULL)"
        " FROM mismatches WHERE run_id = ? AND metric = ?",
        [run_id, chosen],
    )[0]
    ordered = tuple(sorted(metrics))
    if first is None or last is None:
        return Series(chosen, ordered, 0, 0, spans, 0, (), floor, int(unplotted))
    asked, spans = spans, min(spans, last - first + 1)  # a step is never split: a narrow one is drawn wide
    rows = _rows(
        reader,
        "SELECT CAST(floor((step - ?) * ? / (? - ? + 1)) AS INTEGER) AS bucket,"
        " CASE WHEN admissibility <> 'admissible' THEN admissibility"
        "      WHEN is_evidence THEN 'evidence' ELSE 'not evidence' END AS standing,"
        " min(value), max(value), count(*) FROM mismatches"
        " WHERE run_id = ? AND metric = ? AND isfinite(value) AND step IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2",
        [first, spans, last, first, run_id, chosen],
    )
    buckets = tuple(build(Bucket, r) for r in rows)
    return Series(chosen, ordered, first, last, asked, spans, buckets, floor, int(unplotted))


def run_view(reader: Reader, run: Run, demand: Demand, top: int, read_at: datetime) -> RunView:
    """Screen 2 of one run. `top` is the largest rec_id known."""
    run_id = str(run.run_id)
    locks = _all(reader, Lock, "locks WHERE run_id = ? ORDER BY attempt DESC", run_id)
    faults = _all(
        reader, Fault, f"faults WHERE run_id = ? ORDER BY locks DESC NULLS LAST, rec_id DESC LIMIT {FAULTS}", run_id
    )
    first_id = next((lock.first_fault_rec_id for lock in locks if lock.attempt == run.attempt), run.first_fault_rec_id)
    first = next((f for f in faults if f.rec_id == first_id), None)
    if first is None and first_id is not None:
        first = next(iter(_all(reader, Fault, "faults WHERE run_id = ? AND rec_id = ?", run_id, first_id)), None)
    fields = _all(reader, ExecField, "exec_state_now WHERE run_id = ? ORDER BY role, rank, pid LIMIT 5000", run_id)
    phases = _rows(
        reader,
        "SELECT role, track, arg_max(phase, rec_id), arg_max(version, rec_id) FROM weight_lifecycle"
        " WHERE run_id = ? GROUP BY ALL ORDER BY ALL",
        [run_id],
    )
    marks = _all(reader, Mark, "marks WHERE run_id = ? ORDER BY marked_at DESC NULLS FIRST LIMIT 200", run_id)
    steps = _rows(reader, "SELECT min(step), max(step), count(DISTINCT step) FROM steps WHERE run_id = ?", [run_id])[0]
    sources = _rows(
        reader,
        "SELECT count(*), count(*) FILTER (state = 'growing'), count(*) FILTER (state = 'unreadable'),"
        " max(last_growth_at) FROM sources WHERE run_id = ?",
        [run_id],
    )[0]
    return RunView(
        run=run,
        locks=tuple(locks),
        suspect=_rows(
            reader, "SELECT coalesce(sum(suspect), 0) FROM attempts WHERE run_id = ? AND attempt = ?", [run_id, run.attempt]
        )[0][0],
        first_fault=first,
        faults=tuple(sorted(faults, key=lambda f: f.rec_id)),
        faults_total=run.faults,
        exec_fields=tuple(fields),
        phases=tuple(build(WeightPhase, r) for r in phases),
        newest_evidence=newest_evidence(reader, run_id),
        window=window(reader, run_id, demand.anchor, top),
        series=series(reader, run_id, demand.metric, demand.columns),
        steps=Steps(*steps),
        sources=Sources(*sources),
        marks=tuple(marks),
        read_at=read_at,
    )
