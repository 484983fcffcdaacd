"""The questions that the screen asks: public views and named columns only, of one store or of several.

Each question that is not a count (counting.py) or a window of records (windows.py) is here. What several stores answer
is put together by `gather` where it is an order or a limit, and in Python where stores may say different things of one
run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tic_tui import histories
from tic_tui.evidence_model import Lamp
from tic_tui.execution import ExecField, Finding, Gpu, PhaseChange, WeightPhase
from tic_tui.model import (
    Facts,
    Fault,
    Key,
    Mark,
    Mismatch,
    Sources,
    Steps,
    build,
    columns,
)
from tic_tui.safe import Safe, safe

if TYPE_CHECKING:
    from tic_daemon.store.reader import Reader

T = TypeVar("T")

TIMEOUT_S: Final = 30.0  # the feed waits, the screen does not
FAULTS: Final = 100  # faults listed on screen 2; the count beside them says how many there are
FINDINGS: Final = 200
PHASES: Final = 24  # newest phases of a process' lifecycle on screen 2
PHASES_OF_ALL: Final = 5000
MOST: Final = 100_000
_RATE_OVER: Final = (timedelta(minutes=10), timedelta(days=1))
_BATCH: Final = 300


def everything(reader: Reader, sql: str, params: Sequence[object] = (), gather: str = "") -> list[tuple[Any, ...]]:
    """Rows of a statement; of several stores all rows, unless `gather` says how they become one."""
    gather = gather or "SELECT * FROM part"
    return reader.query(sql, params, max_rows=MOST, timeout_s=TIMEOUT_S, gather=gather).rows


def rows_of(
    reader: Reader, kind: type[T], source: str, params: Sequence[object] = (), order: str = "", select: str = ""
) -> list[T]:
    """Models of `SELECT <the model's columns> FROM <source> <order>`.

    Args:
        source: view and condition; a constant of this package, values are parameters.
        order: ORDER BY and LIMIT over columns of the model; holds for all stores together.
        select: the select list, if the columns have other names in the view.
    """
    sql = f"SELECT {select or columns(kind)} FROM {source} {order}"  # noqa: S608
    return [build(kind, row) for row in everything(reader, sql, params, f"SELECT * FROM part {order}")]  # noqa: S608


@dataclass(frozen=True, slots=True)
class Span:
    """Where the rows of a store lie in time, about: nothing is wrong if some lie outside."""

    first: datetime
    last: datetime


def span(reader: Reader) -> Span:
    """From the first log's discovery to the last growth."""
    found = everything(reader, "SELECT min(first_seen_at) AS a, max(last_growth_at) AS b FROM sources")
    first = min((r[0] for r in found if r[0] is not None), default=datetime.max)
    return Span(first, max((r[1] for r in found if r[1] is not None), default=datetime.max))


# --- runs ---


@dataclass(frozen=True, slots=True)
class State:
    """What view `run_states` says of a run, in all stores together."""

    run_id: str
    attempt: int
    state: Safe
    locked: bool
    first_fault_rec_id: int | None
    first_fault_store_id: str
    faults: int
    marked: bool
    named_by_us: bool
    last_growth_at: datetime | None


_GROWTH: Final = ("moving", "quiet", "silent")


def states(reader: Reader, run_id: str | None = None) -> list[State]:
    """All runs, or one. The newest attempt that any store knows counts; a lock or mark in one store holds for all."""
    sql = (
        "SELECT run_id, attempt, state, locked, first_fault_rec_id, store_id, faults, marked, named_by_us,"
        " last_growth_at, remote_faults, first_fault_origin FROM run_states"
    )
    rows = everything(reader, sql) if run_id is None else everything(reader, sql + " WHERE run_id = ?", (run_id,))
    by_run: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_run.setdefault(row[0], []).append(row)
    return [_state(name, told) for name, told in by_run.items()]


def _state(run_id: str, told: list[tuple[Any, ...]]) -> State:
    attempt = max(row[1] for row in told)
    now = sorted(
        (row for row in told if row[1] == attempt), key=lambda row: (not row[3], row[11] is not None, row[5] or "")
    )
    first = next((row for row in now if row[4] is not None), now[0])
    said = {row[2] for row in told}
    state = next(iter(said)) if len(said) == 1 else next((s for s in _GROWTH if s in said), "silent")
    return State(
        run_id=run_id,
        attempt=attempt,
        state=safe(state),
        locked=any(row[3] for row in now),
        first_fault_rec_id=first[4],
        first_fault_store_id=first[5] or "",
        # Each store also counts those that it was told of; one of them may be of a store that does not answer.
        faults=max(*(row[6] for row in told), sum(row[6] - row[10] for row in told)),
        marked=any(row[7] for row in now),
        named_by_us=all(row[8] for row in told),
        last_growth_at=max((row[9] for row in told if row[9] is not None), default=None),
    )


def has_metrics(reader: Reader) -> bool:
    """Anything printed a metric: then a run that we named ourselves has something to show."""
    return any(row[0] for row in everything(reader, "SELECT EXISTS (SELECT 1 FROM metrics) AS a"))


_UNSENT: Final = (0, "", None)
_VERDICTS: Final = ("moving", "console only silent", "quiet", "silent everywhere", "ended")


def _liveliness(verdict: str) -> int:
    """The place of a verdict of view `liveness`, the liveliest first; of one that is not known here, the last."""
    return _VERDICTS.index(verdict) if verdict in _VERDICTS else len(_VERDICTS)


def facts(reader: Reader, until: datetime) -> dict[str, Facts]:
    """How each run goes on. `until`: naive UTC, about the newest row: rates are of the time before it."""
    found: dict[str, dict[str, Any]] = {}
    rows = everything(
        reader,
        "SELECT run_id, verdict, moved_last, greatest(worker_at, console_at, step_at, checkpoint_at) AS at, why,"
        " checkpoint_at FROM liveness",
    )
    for run_id, verdict, moved_last, at, why, saved in rows:
        held = found.setdefault(
            run_id, {"verdict": verdict, "moved_last": moved_last, "moved_at": at, "why": why, "saved": saved}
        )
        if _liveliness(verdict) < _liveliness(held["verdict"]):
            held["verdict"], held["why"] = verdict, why
        held["saved"] = max((s for s in (held["saved"], saved) if s is not None), default=None)
        if at is not None and (held["moved_at"] is None or at > held["moved_at"]):
            held["moved_at"], held["moved_last"] = at, moved_last
    ranks: dict[str, dict[int, bool]] = {}
    for run_id, rank, watched in everything(reader, "SELECT run_id, rank, watched FROM coverage"):
        of_run = ranks.setdefault(run_id, {})
        of_run[rank] = of_run.get(rank, False) or watched
    rates, wrong, sent = _rates(reader, until), findings_of_runs(reader), histories.uploads(reader)
    for run_id in {**wrong, **sent}:
        found.setdefault(run_id, {"verdict": "", "moved_last": "", "moved_at": None, "why": "", "saved": None})
    return {
        run_id: Facts(
            safe(held["verdict"]), safe(held["moved_last"]), held["moved_at"], rates.get(run_id),
            sum(ranks.get(run_id, {}).values()), len(ranks.get(run_id, {})), safe(held["why"] or ""), held["saved"],
            wrong.get(run_id, 0), sent.get(run_id, _UNSENT)[0], safe(sent.get(run_id, _UNSENT)[1]),
            sent.get(run_id, _UNSENT)[2],
        )
        for run_id, held in found.items()
    }  # fmt: skip


def _rates(reader: Reader, until: datetime) -> dict[str, float]:
    """Steps a second of each run's newest attempt, over its step lines of the last minutes, or else of the last day."""
    found: dict[str, float] = {}
    for back in _RATE_OVER:
        known = list(found)  # of a day a large run has a million lines
        others = f" AND run_id NOT IN ({', '.join('?' * len(known))})" if known else ""
        rows = everything(
            reader,
            "SELECT run_id, attempt, min(step) AS a, max(step) AS b, arg_min(event_at, step) AS c,"  # noqa: S608
            " arg_max(event_at, step) AS d, arg_min(observed_at, step) AS e, arg_max(observed_at, step) AS f"
            f" FROM step_lines WHERE observed_at > ?{others} GROUP BY run_id, attempt",
            [until - back if until > datetime.min + back else datetime.min, *known],
        )
        newest: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows:
            held = newest.setdefault(row[0], [row])
            if row[1] > held[0][1]:
                newest[row[0]] = [row]
            elif row is not held[0] and row[1] == held[0][1]:
                held.append(row)
        for run_id, parts in newest.items():
            low, high = min(parts, key=lambda r: r[2]), max(parts, key=lambda r: r[3])
            began, ended = (low[4], high[5]) if low[4] and high[5] else (low[6], high[7])
            seconds = (ended - began).total_seconds()
            if high[3] > low[2] and seconds > 0:
                found[run_id] = (high[3] - low[2]) / seconds
    return found


def records_at(reader: Reader, keys: Iterable[Key]) -> dict[Key, Mismatch]:
    """Records by key; those that are gone are not in the answer."""
    wanted, found = sorted(keys), dict[Key, Mismatch]()
    for at in range(0, len(wanted), _BATCH):
        some = wanted[at : at + _BATCH]
        marks = ", ".join("?" * len(some))
        rows = rows_of(
            reader, Mismatch,
            f"mismatches WHERE observed_at BETWEEN ? AND ? AND observed_at IN ({marks}) AND rec_id IN ({marks})",
            [some[0].observed_at, some[-1].observed_at, *(k.observed_at for k in some), *(k.rec_id for k in some)],
        )  # fmt: skip
        found |= {r.key: r for r in rows}
    return {key: found[key] for key in wanted if key in found}


def newest_evidence(reader: Reader, run_id: str, step: int | None, last: datetime) -> Mismatch | None:
    """The newest record of this step that is evidence, observed not later than `last`."""
    of_step = "step IS NULL" if step is None else "step = ?"
    source = f"mismatches WHERE run_id = ? AND is_evidence AND observed_at <= ? AND {of_step}"
    params = (run_id, last, *([] if step is None else [step]))
    order = "ORDER BY observed_at DESC, store_id DESC, rec_id DESC LIMIT 1"
    rows = rows_of(reader, Mismatch, source, params, order)
    return rows[0] if rows else None


# --- one run ---


def faults(reader: Reader, run_id: str) -> list[Fault]:
    """The run's faults for screen 2: those that lock first, then the newest; oldest first."""
    order = "ORDER BY locks DESC NULLS LAST, observed_at DESC, store_id DESC, rec_id DESC"
    rows = rows_of(reader, Fault, "faults WHERE run_id = ?", (run_id,), f"{order} LIMIT {FAULTS}")
    return sorted(once(rows), key=lambda f: f.key)


def fault(reader: Reader, run_id: str, rec_id: int, store_id: str) -> Fault | None:
    """One fault of a run as a store numbers it."""
    rows = rows_of(reader, Fault, "faults WHERE run_id = ? AND rec_id = ?", (run_id, rec_id))
    return next((f for f in rows if f.store_id == store_id), rows[0] if rows else None)


def once(rows: Iterable[Fault]) -> list[Fault]:
    """Each fault once: as its own store has it if that was asked, else as a store has it that was told of it."""
    found: dict[tuple[str, int], Fault] = {}
    for row in sorted(rows, key=lambda f: (f.origin_store_id is not None, f.key)):
        found.setdefault((row.origin_store_id or row.store_id, row.origin_rec_id or row.rec_id), row)
    return list(found.values())


def exec_fields(reader: Reader, run_id: str) -> tuple[ExecField, ...]:
    """The execution state in force."""
    order = "ORDER BY role, rank, pid LIMIT 5000"
    return tuple(rows_of(reader, ExecField, "exec_state_now WHERE run_id = ?", (run_id,), order))


def phases(reader: Reader, run_id: str) -> tuple[WeightPhase, ...]:
    """The newest phase of each role and track."""
    rows = everything(
        reader,
        "SELECT role, track, arg_max(phase, rec_id) AS phase, arg_max(version, rec_id) AS version,"
        " max(observed_at) AS at FROM weight_lifecycle WHERE run_id = ? GROUP BY role, track",
        [run_id],
    )
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        if row[:2] not in newest or row[4] > newest[row[:2]][4]:
            newest[row[:2]] = row
    ordered = sorted(newest.values(), key=lambda r: (r[0] or "", r[1]))
    return tuple(build(WeightPhase, row[:4]) for row in ordered)


def phase_changes(reader: Reader, run_id: str) -> tuple[PhaseChange, ...]:
    """The newest lines of the lifecycle of each process' weights, oldest first within a process."""
    source = (
        "(SELECT *, row_number() OVER (PARTITION BY role, rank, pid, host, path"
        " ORDER BY generation DESC, byte_offset DESC) AS nth FROM weight_lifecycle WHERE run_id = ?)"
        " WHERE nth <= ?"
    )
    order = f"ORDER BY observed_at DESC, rec_id DESC LIMIT {PHASES_OF_ALL}"
    rows = rows_of(reader, PhaseChange, source, (run_id, PHASES), order)
    return tuple(sorted(rows, key=lambda c: (*map(str, c.process), c.generation, c.byte_offset, c.rec_id)))


_FINDING_KEY: Final = "run_id, kind, log_host, path, line_no, byte_offset, pid, from_at"
"""What tells findings of several stores apart: two that read one log show it once."""
_FINDING_ONCE: Final = (
    f"QUALIFY row_number() OVER (PARTITION BY {_FINDING_KEY} ORDER BY until_at IS NULL, observed_at) = 1"
)


def findings(reader: Reader, run_id: str) -> tuple[Finding, ...]:
    """What is wrong with the weights' lifecycle: the newest, oldest first."""
    source = (
        "(SELECT f.*, coalesce(w.byte_length, 0) AS byte_length, e.line_no AS until_line FROM lifecycle_findings f"
        " LEFT JOIN (SELECT rec_id, max(byte_length) AS byte_length FROM weight_lifecycle WHERE run_id = ?"
        " GROUP BY rec_id) w ON w.rec_id = f.rec_id"
        " LEFT JOIN (SELECT source_id, generation, byte_offset, min(line_no) AS line_no FROM weight_lifecycle"
        " WHERE run_id = ? GROUP BY ALL) e ON e.source_id = f.source_id AND e.generation = f.until_generation"
        " AND e.byte_offset = f.until_offset WHERE f.run_id = ?)"
    )
    order = f"ORDER BY observed_at DESC, finding_id LIMIT {FINDINGS}"
    sql = f"SELECT {columns(Finding)}, log_host FROM {source} {order}"  # noqa: S608
    found = everything(reader, sql, (run_id, run_id, run_id), f"SELECT * FROM part {_FINDING_ONCE} {order}")  # noqa: S608
    rows = [build(Finding, row[:-1]) for row in found]
    return tuple(sorted(rows, key=lambda f: (f.observed_at, f.path or "", f.byte_offset, f.finding_id)))


def findings_named(reader: Reader, run_id: str, ids: Sequence[str]) -> tuple[Finding, ...]:
    """Findings of a run by their names, oldest first."""
    return tuple(f for f in findings(reader, run_id) if f.finding_id in ids)


def findings_of_runs(reader: Reader) -> dict[str, int]:
    """How many findings each run has."""
    lines = everything(reader, f"SELECT DISTINCT {_FINDING_KEY} FROM lifecycle_findings")  # noqa: S608
    return dict(Counter(key[0] for key in set(lines)))


def lamps(reader: Reader) -> dict[str, tuple[Lamp, ...]]:
    """The three lamps of each run. United: of several stores each tells a part of a run."""
    found: dict[str, list[Lamp]] = {}
    sql = f"SELECT {columns(Lamp)} FROM lamps"  # noqa: S608
    for row in reader.query(sql, max_rows=MOST, timeout_s=TIMEOUT_S).rows:
        one = build(Lamp, row)
        found.setdefault(one.run_id, []).append(one)
    return {run_id: tuple(told) for run_id, told in found.items()}


def artifacts(reader: Reader, run_id: str) -> dict[str, int]:
    """How many artifacts of the run are in each state. United, since on a shared file system several stores see one."""
    sql = "SELECT state, count(*)::BIGINT FROM artifacts WHERE run_id = ? GROUP BY state"
    return {safe(state): count for state, count in reader.query(sql, (run_id,), timeout_s=TIMEOUT_S).rows}


def gpus(reader: Reader, run_id: str) -> tuple[Gpu, ...]:
    """The GPUs that processes of the run use."""
    rows = rows_of(reader, Gpu, "gpus WHERE run_id = ?", (run_id,), f"ORDER BY host, gpu_index, uuid LIMIT {FINDINGS}")
    return tuple(rows)


def steps(reader: Reader, run_id: str) -> Steps:
    """First, last, and how many were seen. Several stores may have seen the same ones: then as many as the most."""
    rows = everything(
        reader, "SELECT min(step) AS a, max(step) AS b, count(DISTINCT step) AS n FROM steps WHERE run_id = ?", [run_id]
    )
    first = min((r[0] for r in rows if r[0] is not None), default=None)
    return Steps(
        first, max((r[1] for r in rows if r[1] is not None), default=None), max((r[2] for r in rows), default=0)
    )


def sources(reader: Reader, run_id: str) -> Sources:
    """How many logs the run has, and how they are."""
    rows = everything(
        reader,
        "SELECT count(*) AS a, count(*) FILTER (state = 'growing') AS b, count(*) FILTER (state = 'unreadable') AS c,"
        " max(last_growth_at) AS d FROM sources WHERE run_id = ?",
        [run_id],
    )
    grown = max((r[3] for r in rows if r[3] is not None), default=None)
    return Sources(sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows), grown)


def marks_there(reader: Reader, ids: Sequence[str]) -> frozenset[str]:
    """Which of these marks the store shows."""
    places = ", ".join("?" * len(ids))
    rows = everything(reader, f"SELECT DISTINCT id FROM marks WHERE id IN ({places})", ids)  # noqa: S608
    return frozenset(str(row[0]) for row in rows)


def marks(reader: Reader, run_id: str) -> tuple[Mark, ...]:
    """What people said of the run, newest first; each once, and retracted if any store says so."""
    order = "ORDER BY marked_at DESC NULLS FIRST LIMIT 200"
    rows = rows_of(reader, Mark, "marks WHERE run_id = ?", (run_id,), order)
    seen: dict[str, Mark] = {}
    for mark in rows:
        if mark.id not in seen or mark.retracted:
            seen[mark.id] = mark
    return tuple(seen.values())
