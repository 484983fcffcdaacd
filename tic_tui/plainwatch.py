"""`tic-tui watch --plain`: one line an event, for a screen reader, a script, a mail.

    2026-11-29 20:00:01Z mismatch story attempt 1: logprob_mae 0.00125, step 1, rank 3; admissible, evidence
    2026-11-29 20:00:09Z LOCKED story attempt 1: 1 fault locks it, first cuda.illegal_address, rank 3, ...; ...

Time (of the line that tells it, else when it was read; UTC), word, run, what. The views say everything; here it is only
told what is new. Records come with the reader's `tail`, which waits for a commit; what may have changed of older rows
(faults, locks, attempts, marks) is asked for when its standing changes, and the states of runs now and then.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tic_daemon.errors import ConfigError, ConnectError, StoreError
from tic_daemon.store import histories, plain
from tic_daemon.store.reader import open_reader
from tic_tui import comparing
from tic_tui.age import day_and_clock
from tic_tui.safe import safe
from tic_tui.statenews import StateNews

if TYPE_CHECKING:
    from types import FrameType

    from tic_daemon.store.reader import Reader, Tail

WAIT_S: Final = 10.0
STATES_S: Final = 10.0  # states turn by time alone
REST_S: Final = 0.25
RETRY_S: Final = (1, 2, 4, 8, 15)
PAGE: Final = 5000
OPEN_KEPT: Final = 10_000
TIMEOUT_S: Final = 30.0

Row = dict[str, Any]

RECORD = (
    "rec_id, store_id, host, run_id, attempt, step, rank, phase, metric, value, noise_ratio, classification,"
    " parse_state, admissibility, is_evidence, not_evidence_because, path, line_no, source_id, generation, byte_offset,"
    " event_at, observed_at, provisional"
)
FAULT = (
    "rec_id, store_id, host, run_id, attempt, last_attempt, severity, kind, verdict, locks, rank, pid, code, step,"
    " text, reason, path, line_no, event_at, observed_at"
)
FINDING = (
    "finding_id, run_id, attempt, kind, severity, detail, role, rank, pid, host, first_step, last_step, path, line_no,"
    " from_at, until_at, observed_at"
)
_ONCE = "SELECT DISTINCT * FROM part"


@dataclass(frozen=True, slots=True)
class Event:
    """One line. `word` says what it is; `data` is what --json prints, with `event` and `at` before it."""

    at: datetime | None
    word: str
    run: str
    text: str
    data: Row

    def line(self, several: bool) -> str:
        """For people, without a newline; `several`: stores are named."""
        where = ""
        if several and self.data.get("store_id"):
            where = f" [host {self.data.get('host') or 'unknown'}, store {self.data['store_id']}]"
        attempt = f" attempt {self.data['attempt']}" if self.data.get("attempt") is not None else ""
        run = f" {self.run}{attempt}" if self.run else ""
        return safe(f"{day_and_clock(self.at)} {self.word}{run}: {self.text}{where}")

    def json(self) -> str:
        """For programs: one object."""
        return plain.to_json({"event": self.word.lower(), "at": self.at, **self.data})


class News:
    """What is new in a store since it was asked last.

    Args:
        reader: asks the store. run: only this run's events; "" all.
        with_state: also changes of how processes execute and of their weights.
    """

    def __init__(self, reader: Reader, run: str = "", *, with_state: bool = False) -> None:
        self._reader = reader
        self._run = run
        self._changes = StateNews(self._ask) if with_state else None
        self._last: dict[str, int] = {}
        self._faults: dict[str, int] = {}
        self._fault_places: set[tuple[Any, ...]] = set()
        self._open: dict[tuple[Any, ...], str] = {}
        self._locked: dict[tuple[str, int], Row] = {}
        self._attempts: set[tuple[str, int]] = set()
        self._marks: dict[str, bool] = {}
        self._states: dict[str, tuple[str, str | None]] = {}
        self._wrong: set[str] = set()
        self._lacking: set[tuple[Any, ...]] = set()
        self._compared = comparing.ComparedNews(self._ask)
        self._states_at = float("-inf")
        self._standing = ""
        self.position = ""

    def begin(self) -> None:
        """Takes what is there as known: only what comes is told."""
        for table, known in (("mismatches", self._last), ("faults", self._faults)):
            sql = f"SELECT store_id, max(rec_id) AS last FROM {table} GROUP BY store_id"  # noqa: S608
            rows = self._ask(sql, gather="SELECT * FROM part")
            known.update({row["store_id"]: row["last"] for row in rows})
        provisional = f"SELECT {RECORD} FROM mismatches WHERE provisional ORDER BY rec_id LIMIT {OPEN_KEPT}"  # noqa: S608
        self._open = {_place(row): _record_head(row) for row in self._ask(provisional, gather="SELECT * FROM part")}
        list(self._standings())
        list(self._findings())
        list(self._gaps())
        list(self._comparisons())
        list(self._run_states())
        list(self._state_changes())

    def wait(self, seconds: float) -> Tail:
        """Until something was committed, at most so long."""
        return self._reader.tail(self.position, wait_s=seconds)

    def told(self, tail: Tail) -> Iterator[Event]:
        """What an answer of `wait` means."""
        first = not self.position
        changed = tail.standing != self._standing
        self.position, self._standing = tail.position, tail.standing
        if first or changed or tail.missed:
            yield from self._standings()
            yield from self._records()
        for row in tail.rows:
            yield from self._record(dict(zip(tail.columns, row, strict=True)))
        if first or changed or time.monotonic() - self._states_at >= STATES_S:
            yield from self._findings()
            yield from self._gaps()
            yield from self._comparisons()
            yield from self._run_states()
            yield from self._state_changes()

    # --- records -------------------------------------------------------------------------------------------------

    def _records(self) -> Iterator[Event]:
        """All that are newer than the last one told, by query."""
        for row in self._newer("mismatches", RECORD, self._last):
            yield from self._record(row)

    def _record(self, row: Row) -> Iterator[Event]:
        if row["rec_id"] <= self._last.get(row["store_id"], -1):
            return
        self._last[row["store_id"]] = row["rec_id"]
        if self._run and row["run_id"] != self._run:
            return
        place, head = _place(row), _record_head(row)
        before = self._open.pop(place, None)
        if row["provisional"]:
            self._open[place] = head
            if len(self._open) > OPEN_KEPT:
                del self._open[next(iter(self._open))]
        if before == head:
            return  # told already, while the record or its line was not at its end
        ratio = "" if row["noise_ratio"] is None else f", {row['noise_ratio']:.3g} x noise"
        text = f"{head}{ratio}; {_standing(row)}"
        data = {name: row[name] for name in RECORD.split(", ")}
        yield Event(row["event_at"] or row["observed_at"], "mismatch", row["run_id"], text, data)

    def _newer(self, view: str, columns: str, known: dict[str, int]) -> Iterator[Row]:
        params: list[object]
        while True:
            if self._reader.connection().kind != "several":  # a condition that lets whole blocks be skipped
                condition, params = "rec_id > ?", [max(known.values(), default=-1)]
            else:
                cases = " ".join("WHEN ? THEN ?" for _ in known)
                condition = f"rec_id > CASE store_id {cases} ELSE -1 END" if known else "true"
                params = [value for pair in known.items() for value in pair]
            sql = f"SELECT {columns} FROM {view} WHERE {condition}"  # noqa: S608
            merged = f"SELECT * FROM part ORDER BY observed_at, store_id, rec_id LIMIT {PAGE}"  # noqa: S608
            rows = self._ask(f"{sql} ORDER BY rec_id LIMIT {PAGE}", params, gather=merged)
            yield from rows
            if len(rows) < PAGE:
                return

    # --- what stands ---------------------------------------------------------------------------------------------

    def _standings(self) -> Iterator[Event]:
        yield from self._declared()
        yield from self._new_faults()
        yield from self._locks()
        yield from self._said()

    def _declared(self) -> Iterator[Event]:
        sql = "SELECT run_id, attempt, from_kind, reason, who, declared_at FROM attempts WHERE declared_at IS NOT NULL"
        for row in self._ask(f"{sql} ORDER BY declared_at, attempt", gather=_ONCE):
            key = (row["run_id"], row["attempt"])
            if key not in self._attempts and self._wanted(row):
                self._attempts.add(key)
                text = f"a new attempt begins, by {row['who'] or 'unknown'} ({row['from_kind']}): {row['reason']}"
                yield Event(row["declared_at"], "attempt", row["run_id"], text, row)

    def _new_faults(self) -> Iterator[Event]:
        for row in self._newer("faults", f"{FAULT}, echo_of, source_id, generation, byte_offset", self._faults):
            known = self._faults.get(row["store_id"], -1)
            self._faults[row["store_id"]] = max(known, row["rec_id"])
            place = (row["store_id"], row["source_id"], row["generation"], row["byte_offset"], row["kind"])
            # A line that only speaks of a fault, and a console's copy, are none; one that was open is told once.
            if row["verdict"] == "mention" or row["echo_of"] is not None or place in self._fault_places:
                continue
            self._fault_places.add(place)
            if row["rec_id"] > known and self._wanted(row):
                yield Event(row["event_at"] or row["observed_at"], "fault", row["run_id"], _fault_text(row), row)

    def _locks(self) -> Iterator[Event]:
        rows = self._ask(
            "SELECT l.run_id, l.attempt, l.faults, f.kind, f.rank, f.host, f.path, f.line_no, f.event_at, f.observed_at"
            " FROM locks l LEFT JOIN faults f ON f.rec_id = l.first_fault_rec_id AND f.run_id = l.run_id",
            gather="SELECT * FROM part QUALIFY row_number() OVER"
            " (PARTITION BY run_id, attempt ORDER BY coalesce(event_at, observed_at) NULLS LAST) = 1",
        )
        now = {(row["run_id"], row["attempt"]): row for row in rows if self._wanted(row)}
        for key, row in now.items():
            if key not in self._locked:
                faults = f"{row['faults']} fault locks it" if row["faults"] == 1 else f"{row['faults']} faults lock it"
                text = f"{faults}, first {row['kind'] or 'unknown'}{_where(row)}; its later numbers are no evidence"
                yield Event(row["event_at"] or row["observed_at"], "LOCKED", row["run_id"], text, row)
        if self._reader.connection().data_at is not None:
            self._locked |= now  # of a moment ago: what it does not know yet may stand all the same
            return
        for key in self._locked.keys() - now.keys():
            row = self._locked[key]
            yield Event(_now(), "unlocked", row["run_id"], "no fault locks it any more: rules or facts changed", row)
        self._locked = now

    def _said(self) -> Iterator[Event]:
        sql = "SELECT id, run_id, attempt, scope, target, verdict, reason, who, marked_at, host, retracted FROM marks"
        for row in self._ask(f"{sql} ORDER BY marked_at", gather=_ONCE):
            if not self._wanted(row) or self._marks.get(row["id"]) == row["retracted"]:
                continue
            before = self._marks.get(row["id"])
            self._marks[row["id"]] = row["retracted"]
            if row["verdict"] == "retract" or (before is None and row["retracted"]):
                continue  # told with the mark that it takes back; or both came before this began
            what = "retracted: " if row["retracted"] else ""
            text = f"{what}{row['verdict']} ({row['scope']}): {row['reason']}; by {row['who'] or 'unknown'}"
            yield Event(_now() if row["retracted"] else row["marked_at"], "mark", row["run_id"], text, row)

    def _run_states(self) -> Iterator[Event]:
        self._states_at = time.monotonic()
        rows = self._ask(
            "SELECT r.run_id, r.attempt, r.state, r.last_growth_at, l.verdict, l.why FROM run_states r"
            " LEFT JOIN liveness l ON l.run_id = r.run_id",
            gather="SELECT run_id, max(attempt) AS attempt, arg_max(state, last_growth_at) AS state,"
            " max(last_growth_at) AS last_growth_at, arg_max(verdict, last_growth_at) AS verdict,"
            " arg_max(why, last_growth_at) AS why FROM part GROUP BY run_id",
        )
        for row in rows:
            before, verdict = self._states.get(row["run_id"], (None, None))
            if (row["state"], row["verdict"]) != (before, verdict) and self._wanted(row):
                self._states[row["run_id"]] = (row["state"], row["verdict"])
                text = f"{row['state']}, first seen" if before is None else str(row["state"])
                text += f", was {before}" if before not in (None, row["state"]) else ""
                text += f"; {row['verdict']}: {row['why']}" if row["verdict"] else ""
                yield Event(_now(), "state", row["run_id"], text, {**row, "before": before})

    def _findings(self) -> Iterator[Event]:
        """Findings of the weights' lifecycle."""
        rows = self._ask(f"SELECT {FINDING} FROM lifecycle_findings ORDER BY observed_at, finding_id", gather="")  # noqa: S608
        for row in rows:
            if row["finding_id"] not in self._wrong and self._wanted(row):
                self._wrong.add(row["finding_id"])
                text = f"{row['kind']}{_where(row)}; {row['detail']}; {_steps(row)}"
                yield Event(row["from_at"] or row["observed_at"], "finding", row["run_id"], text, row)

    def _gaps(self) -> Iterator[Event]:
        """Differences of W&B histories, but what is only under way. One that grows is told once."""
        sql = f"SELECT {histories.GAPS} FROM wandb_gaps WHERE cause <> 'under_way' {histories.ORDER} LIMIT {PAGE}"  # noqa: S608
        for row in self._ask(sql, gather=histories.GATHERED):
            names = ("run_id", "wandb_id", "kind", "source", "axis", "first_step", "key", "cause")
            known = tuple(row[name] for name in names)
            if known not in self._lacking and self._wanted(row):
                self._lacking.add(known)
                yield Event(row["first_seen_at"], "gap", row["run_id"], f"W&B: {histories.gap(row)}", row)

    def _comparisons(self) -> Iterator[Event]:
        """Dumps that were compared, what is under way, and what could not be."""
        for word, text, row in self._compared.told():
            if self._wanted(row):
                yield Event(row["observed_at"], word, row["run_id"] or "", text, row)

    def _state_changes(self) -> Iterator[Event]:
        """What processes told of their state and weights since it was asked last."""
        for word, at, text, row in self._changes.told() if self._changes is not None else ():
            if self._wanted(row):
                yield Event(at, word, row["run_id"], text, row)

    def _wanted(self, row: Row) -> bool:
        return not self._run or row["run_id"] == self._run

    def _ask(self, sql: str, params: Sequence[object] = (), *, gather: str) -> list[Row]:
        result = self._reader.query(sql, params, timeout_s=TIMEOUT_S, gather=gather)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


# --- words -------------------------------------------------------------------------------------------------------


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("store_id", "source_id", "generation", "byte_offset", "metric"))


def _record_head(row: Row) -> str:
    """What does not change any more once the value is there, however much of the record is still to come."""
    value = "no value" if row["value"] is None else plain.cell(row["value"])
    parts = [f"{row['metric'] or 'unknown metric'} {value}"]
    parts += [f"{name} {_known(row[name])}" for name in ("step", "rank")]
    parts += [f"phase {row['phase']}"] if row["phase"] else []
    return ", ".join(parts)


def _standing(row: Row) -> str:
    if row["is_evidence"]:
        return f"{row['admissibility']}, evidence"
    because = row["not_evidence_because"]
    return f"{row['admissibility']}, not evidence: {because}" if because else str(row["admissibility"])


def _fault_text(row: Row) -> str:
    acts = "it locks" if row["locks"] else row["reason"] or "it does not lock"
    text = str(row["text"] or "").splitlines()
    return (
        f"{row['kind']} [{row['severity'] or 'unknown severity'}] {row['verdict']}{_where(row)}; {acts}"
        f"{f'; {text[0]}' if text else ''}"
    )


def _steps(row: Row) -> str:
    if row["first_step"] is None:
        return "steps unknown"
    return (
        f"steps {row['first_step']} to {row['last_step']}"
        if row["last_step"] is not None
        else (f"from step {row['first_step']} on")
    )


def _where(row: Row) -> str:
    path = f", {row['path']}:{row['line_no']}" if row["path"] else ""
    return f", rank {_known(row['rank'])}, host {_known(row['host'])}{path}"


def _known(value: object) -> str:
    return "unknown" if value in (None, "") else str(value)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


# --- the command -------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.description = "Say what happens, one line an event, until it is ended."
    parser.add_argument("--plain", action="store_true", help="lines of text, without colour (the only form so far)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--since", choices=("now", "start"), default="now", help="start: what is there, first")
    parser.add_argument("--run", default="", metavar="RUN", help="this run only")
    parser.add_argument(
        "--state", action="store_true", help="also changes of how processes execute and of their weights"
    )
    parser.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="end after so long")
    parser.add_argument("--count", type=int, metavar="N", help="end after so many lines")
    parser.add_argument(
        "path", nargs="?", default=".", metavar="PATH",
        help="workspace, store directory, .duckdb file, or a daemon's URL",
    )  # fmt: skip


class _Ended(Exception):
    """A signal, the count or the time: the end that was asked for."""


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code. Raises TicError, BrokenPipeError."""
    if not (args.plain or args.json):
        raise ConfigError("watch without --plain or --json", "the screen is `tic-tui PATH`")
    if (args.seconds is not None and not args.seconds > 0) or (args.count is not None and args.count < 1):
        raise ConfigError("--for and --count must be positive", "leave them out to watch until you end it")
    teller = _Teller(args.json, args.count)
    with _signals():
        reader = None
        try:
            reader = open_reader(args.path)
            _watch(reader, teller, args)
        except _Ended:
            return 0
        finally:
            if reader is not None:
                reader.close()
    return 0


class _Teller:
    """Prints events, each at once, and says how the store is reached."""

    def __init__(self, as_json: bool, count: int | None) -> None:
        self._json, self._left = as_json, count
        self._link: tuple[str, ...] | None = None

    def say(self, event: Event, *, several: bool = False) -> None:
        text = event.json() if self._json else event.line(several)
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise _Ended

    def link(self, reader: Reader, trouble: str = "") -> None:
        """Says it if the store is reached in another way than it was, or no more."""
        now = reader.connection()
        state = "disconnected" if trouble else now.state
        link = (now.kind, state, trouble or now.detail, *(f"{one.kind} {one.state}" for one in now.stores))
        if link == self._link:
            return
        self._link = link
        old = f", as of {day_and_clock(now.data_at)}" if now.data_at else ""
        why = f": {trouble or now.detail}" if trouble or now.detail else ""
        text = f"{now.kind} {now.target} {state}{old}{why}"
        data: Row = {
            "kind": now.kind, "state": state, "target": now.target, "detail": trouble or now.detail,
            "data_at": now.data_at, "hint": now.hint,
            "stores": [{"kind": one.kind, "state": one.state, "target": one.target} for one in now.stores],
        }  # fmt: skip
        self.say(Event(_now(), "connection", "", text, data))

    def gone(self) -> bool:
        """Whether nobody reads any more: found out without a line to write."""
        poll = select.poll()
        try:
            poll.register(sys.stdout.fileno(), 0)
        except (OSError, ValueError):
            return False
        return any(state & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))


def _watch(reader: Reader, teller: _Teller, args: argparse.Namespace) -> None:
    deadline = time.monotonic() + args.seconds if args.seconds is not None else float("inf")
    news, begun, failures = News(reader, args.run, with_state=args.state), args.since == "start", 0
    while True:
        try:
            if not begun:
                news.position = news.wait(0).position  # before, so that what comes meanwhile comes again
                news.begin()
                begun = True
                teller.link(reader)
            tail = news.wait(max(0.0, min(WAIT_S, deadline - time.monotonic())) if news.position else 0.0)
            teller.link(reader)
            several = reader.connection().kind == "several"
            for event in news.told(tail):
                teller.say(event, several=several)
            failures = 0
        except (ConnectError, StoreError) as error:
            teller.link(reader, error.what)
            _rest(RETRY_S[min(failures, len(RETRY_S) - 1)], deadline)
            failures += 1
        if teller.gone():
            raise BrokenPipeError
        if time.monotonic() >= deadline:
            raise _Ended
        _rest(REST_S, deadline)


def _rest(seconds: float, deadline: float) -> None:
    time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGINT and SIGTERM end the command with what was said so far, and 0."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise _Ended

    before = {number: signal.signal(number, ended) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
