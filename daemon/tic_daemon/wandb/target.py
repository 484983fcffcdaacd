"""One W&B run that is read through the API: what the store has of it, and how a reading becomes rows.

    Target        identity, state, and the rows' places; its state goes into the cursor, so that a commit says both
    Intake        takes the messages of one reading in; rows go on at once, in small deltas
    conclude      one or two readings of the same steps: the rows of table wandb_read

A row that the store has already, by step and content, is not stored again; what each reading saw is in its own row.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from tic_daemon.scan.events import At
from tic_daemon.store.rows import CursorRow, SourceDelta, SourceRow, source_id
from tic_daemon.wandb.events import WandbEvent, WandbRead, WandbRow, WandbRun, last_logged
from tic_daemon.wandb.judging import Reading, confirmed, settle, why_blind, why_doubted
from tic_daemon.wandb.keys import Keys, built_in
from tic_daemon.wandb.ranges import Ranges
from tic_daemon.wandb.spooled import Begin, End, Spooled
from tic_daemon.wandb.stepping import Stepping
from tic_daemon.wandb.wire import Begun, Ended, Hello, Message, PageTold, RowTold, RunTold

KIND: Final = "wandb_api"
DELTA_VALUES: Final = 10_000
"""Values that go on at a time: about 2 MB."""
ENDED: Final = frozenset({"finished", "failed", "crashed", "killed", "preempted"})
_SEEN_TEXT: Final = 1 << 20
"""A reading of steps that lie apart is cut here; what it saw is told up to some step, and it counts for those alone."""


def utcnow() -> datetime:
    """Now as the store keeps times: naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


STILL_S: Final = 90.0
"""A run is read at its usual pace until nothing of it has changed for so long: three heartbeats of a client."""
STILL_PART: Final = 0.1
"""Then it is read again after this part of the time for which it has not moved: one that the server calls running for
ever costs ever less, and one that goes on after an hour is read within six minutes."""

_SURE: Final = {"": 0, "wandb": 1, "path": 2, "config": 3}
"""Who says whose a run is, and how surely."""

Emit = Callable[[SourceDelta], None]


@dataclass(frozen=True, slots=True)
class Named:
    """Where a run was named: whose it is, and how that is known. `root`, `run_hint`, `run_how`: as of a source."""

    path: str
    root: str
    run_hint: str = ""
    run_how: str = ""
    why: str = ""


class Target:
    """See the module. Not thread-safe, but that `named` may be set from any thread; the next delta has it.

    Args:
        host: as in all rows. stored: (_step, digest) of the rows that the store has of it.
        grace_s: a step that is missing for less long may be under way.
        keys, framework: which key is the training step, and whose they are if tic.toml names it.
    """

    def __init__(
        self,
        named: Named,
        host: str,
        source: SourceRow | None = None,
        cursor: CursorRow | None = None,
        stored: Iterable[tuple[int | None, str]] = (),
        grace_s: float = 0.0,
        keys: Keys | None = None,
        framework: str = "",
    ) -> None:
        self.path = named.path
        number = source_id(host, KIND, named.path)
        row = source or SourceRow(number, KIND, host, named.root, named.path, first_seen_at=utcnow())
        self.source = row
        self.named = named
        self._name()
        self.count = cursor.byte_offset if cursor else 0
        self.known = Ranges()
        self.held: set[tuple[int | None, str]] = set()
        for step, digest in stored:
            self.held.add((step, digest))
            if step is not None and step >= 0:
                self.known.add(step)
        state = _state(cursor)
        self.upto = _whole(state.get("upto"))
        self.full_at = float(_whole(state.get("full_at")))
        self.final = state.get("final") is True
        self.told = str(state.get("told", ""))
        self.outcome = str(state.get("outcome", ""))
        self.state = ""
        self.before: Reading | None = None
        self.grace_s = grace_s
        self.ends: list[tuple[float, int]] = []
        self.turn = 0
        self._steps = Stepping(keys or built_in(), framework)
        self.ended_at: float | None = None
        self.moved_at = time.time()
        self._beat: datetime | None = None
        self._same_since = self.moved_at

    def _name(self) -> None:
        """Takes over whose the run is, if that was not known, or if tic.toml says it."""
        row, named = self.source, self.named
        if named.run_hint and _SURE.get(named.run_how, 2) > _SURE.get(row.run_how, 2):
            self.source = replace(
                row, run_hint=named.run_hint, run_how=named.run_how, why=named.why, root=named.root or row.root
            )
        elif not row.why:
            self.source = replace(row, why=named.why)

    # --- rows --------------------------------------------------------------------------------------------------------

    def place(self, stamp: datetime | None = None, step: int | None = None) -> At:
        """The next place in this source."""
        self.count += 1
        return At(
            self.count - 1, 1, self.count, stamp=stamp, stamp_res_us=1 if stamp else 0, stamp_utc=stamp is not None,
            step=step,
        )  # fmt: skip

    def row(self, told: RowTold, read_id: str) -> WandbRow | None:
        """A row as an event; None if the store has it."""
        row = told.row
        step = self._steps.take(row)
        key = (row.wandb_step, told.digest)
        if key in self.held:
            return None
        self.held.add(key)
        if self._beat is None:
            self._moves()  # else the heartbeat says when
        if row.wandb_step is not None and row.wandb_step >= 0:
            self.known.add(row.wandb_step)
        return WandbRow(
            self.place(row.at, step),
            row.wandb_step,
            row.row_no,
            row.writer,
            len(row.values),
            told.digest,
            read_id,
            row.values,
        )

    def run(self, told: RunTold) -> WandbRun | None:
        """What the server says of the run; None if it says what it said last."""
        self._hear(told.heartbeat_at)
        self.state = told.state
        entity, project, wandb_id = self.path.split("/")
        event = WandbRun(
            At(0, 1, 1), self.path, wandb_id, entity, project, told.name, started_at=told.created_at,
            state=told.state, config=told.config, summary=told.summary, client_version=told.writer_version,
            git_commit=told.git_commit,
        )  # fmt: skip
        digest = hashlib.sha256(repr(event).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if digest == self.told:
            return None
        self.told = digest
        return replace(event, at=self.place())

    # --- movement ----------------------------------------------------------------------------------------------------

    def _hear(self, beat: datetime | None) -> None:
        """The heartbeat as it was told: the server's clock may be another, so that what counts is that it changed."""
        if beat is not None and self._beat is None:
            self.moved_at = min(time.time(), beat.replace(tzinfo=UTC).timestamp())
        elif beat != self._beat:
            self._moves()
        self._beat = beat

    def _moves(self) -> None:
        self.moved_at = self._same_since = time.time()

    def stir(self) -> bool:
        """Something else than a reading shows that the run goes on. Whether it was taken for one that does not."""
        slow = self._slow
        self._moves()
        return slow

    def pause(self, every_s: float, longest_s: float) -> float:
        """Seconds until it should be read again."""
        if not self._slow:
            return every_s
        return max(every_s, min(longest_s, (time.time() - self.moved_at) * STILL_PART))

    @property
    def _slow(self) -> bool:
        return time.time() - self._same_since >= STILL_S

    def delta(self, events: Sequence[WandbEvent], *, error: str = "", read: int = 0) -> SourceDelta:
        """Events with the cursor that says that they are stored."""
        self._name()
        self.source = replace(
            self.source,
            bytes_size=self.count,
            state="unreadable" if error else "growing" if self.state == "running" else "idle",
            error=error,
            last_growth_at=last_logged(events, utcnow(), self.source.last_growth_at),
        )  # fmt: skip
        state = {
            "upto": self.upto, "full_at": int(self.full_at), "final": self.final, "told": self.told,
            "outcome": self.outcome,
        }  # fmt: skip
        cursor = CursorRow(
            self.source.source_id, self.source.generation, byte_offset=self.count, line_no=self.count,
            path=self.path, lines=self.count, state=json.dumps(state),
        )  # fmt: skip
        return SourceDelta(self.source, cursor, tuple(events), bytes=read, lines=len(events))

    def forget(self, gone: Ranges) -> None:
        """Steps that the server does not have any more are not missed again."""
        if gone:
            self.known = self.known.minus(gone)


@dataclass(slots=True)
class Done:
    """One reading that is over: what it saw, and what its row needs besides. `outcome` as in wire.py, or timeout."""

    reading: Reading
    outcome: str
    detail: str
    read_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    began_at: datetime = field(default_factory=utcnow)
    took_s: float = 0.0
    version: str = ""
    begun: bool = False

    @property
    def ok(self) -> bool:
        """It came to its end."""
        return self.outcome == "ok"


class Intake:
    """Takes messages in until one says the end; `done` tells of the reading, also when no end comes.

    A reading that ended at the border of a page because its time was up goes on with the messages of the next one.
    """

    def __init__(self, target: Target, emit: Emit, first: int) -> None:
        self._target, self._emit = target, emit
        self._events: list[WandbEvent] = []
        self._values = 0
        self._began = time.monotonic()
        self.done = Done(Reading(first, 1, end=first - 1, began=time.time()), "error", "nothing was said")

    def take(self, message: Message) -> None:
        """The next message."""
        done, reading = self.done, self.done.reading
        if isinstance(message, RowTold):
            self._row(message)
        elif isinstance(message, PageTold):
            reading.end = max(reading.end, message.to - 1)
        elif isinstance(message, Hello):
            done.version = message.client_version
        elif isinstance(message, RunTold):
            reading.line_count, reading.last_step = message.line_count, message.last_step
            if (event := self._target.run(message)) is not None:
                self._events.append(event)
        elif isinstance(message, Begun):
            if not done.begun:
                reading.page_size, done.begun = message.page_size, True
        elif isinstance(message, Ended):
            done.outcome, done.detail = message.outcome, message.detail
            if message.outcome in ("ok", "cut"):
                reading.end = max(reading.end, message.next_step - 1)
                reading.whole = message.outcome == "ok"
            self.flush()

    def fail(self, outcome: str, detail: str) -> None:
        """There will be no more messages."""
        self.done.outcome, self.done.detail = outcome, detail
        self.flush()

    def flush(self) -> None:
        """Hands on what has come."""
        self.done.took_s = time.monotonic() - self._began
        if self._events:
            self._emit(self._target.delta(self._events, read=self._values * 16))
        self._events, self._values = [], 0

    def _row(self, told: RowTold) -> None:
        reading = self.done.reading
        reading.rows += 1
        step = told.row.wandb_step
        if step is not None and step >= 0:
            reading.seen.add(step)
        event = self._target.row(told, self.done.read_id)
        if event is None:
            return
        self._events.append(event)
        self._values += len(told.row.values)
        if self._values >= DELTA_VALUES:
            self.flush()


def replay(spooled: Spooled, target: Target, emit: Emit) -> list[Done]:
    """The readings of a spooled file, their rows handed on.

    Raises:
        WireError: see `Spooled`. Rows that came before stay: they were read.
    """
    found: list[Done] = []
    intake: Intake | None = None
    for part in spooled.parts():
        if isinstance(part, Begin):
            intake = Intake(target, emit, part.first)
            intake.done.read_id, intake.done.began_at = f"{spooled.head.id}.{len(found)}", part.at
            intake.done.reading.began = part.at.replace(tzinfo=UTC).timestamp()
        elif intake is None:
            continue
        elif isinstance(part, End):
            if part.outcome != "ok" or not intake.done.ok:
                intake.fail(part.outcome if part.outcome != "ok" else "error", part.detail)
            intake.done.took_s = part.took_s
            found.append(intake.done)
        else:
            intake.take(part)
    return found


def doubts(target: Target, done: Done, *, holes: bool) -> str:
    """Why a second reading is wanted; "" if none is. `holes`: also where steps lie between others that came."""
    if not done.ok:
        return ""
    why = why_doubted(done.reading, target.known)
    if not why and holes and (between := done.reading.seen.holes()):
        why = f"steps between others did not come: {between.words()}"
    return why


def conclude(target: Target, one: Done, two: Done | None, doubt: str, who: str) -> SourceDelta:
    """Rows of table wandb_read for one reading, or for the two that a doubt made of it; the target goes on from there.

    Args:
        doubt: why the first one was doubted; "": it was not. who: daemon | hand.
    """
    rows: list[WandbRead]
    best = two if two is not None and two.ok else one
    if not one.ok:
        rows = [_read(target, one, one.outcome, one.detail, who)]
        target.before = None
    elif two is None:
        rows = [_read(target, one, "short" if doubt else "ok", doubt, who)]
        _goes_on(target, None if doubt else one)
    elif not two.ok:
        rows = [_read(target, one, "short", doubt, who), _read(target, two, two.outcome, two.detail, who)]
        target.before = None
    elif why_blind(two.reading):
        rows = [_read(target, done, "short", doubt, who) for done in (one, two)]
        target.before = None
    else:
        settled = settle(one.reading, two.reading, target.known)
        if settled.agreed:
            target.forget(settled.gone)
            left = why_doubted(two.reading, target.known)
            said = f"{left}; another reading says the same" if left else ""
            rows = [_read(target, one, "ok", said, who), _read(target, two, "ok", said, who)]
            _goes_on(target, one)
            _goes_on(target, two)
        else:
            rows = [
                _read(target, done, "short" if short else "ok", short, who)
                for done, short in zip((one, two), settled.short, strict=True)
            ]
            _goes_on(target, None if settled.short[1] else two)
    trusted = rows[-1].outcome == "ok"
    if trusted and best.reading.first == 0 and best.reading.whole:
        target.full_at = time.time()
        target.final = target.state in ENDED
    target.outcome = rows[-1].outcome
    error = "" if rows[-1].outcome in ("ok", "short") else f"{rows[-1].outcome}: {rows[-1].detail}"
    return target.delta(rows, error=error)


def _goes_on(target: Target, done: Done | None) -> None:
    if done is None:
        target.before = None
        return
    now, before = done.reading, target.before
    long_ago = (before.began if before is not None else 0.0) - target.grace_s
    aged = max((end for at, end in target.ends if at <= long_ago), default=-1)
    target.upto = confirmed(now, before, target.upto, aged)
    # Of those long ago the last one is enough.
    target.ends = [(at, end) for at, end in target.ends if at > long_ago or end == aged]
    target.ends.append((now.began, now.end))
    target.before = now


def _read(target: Target, done: Done, outcome: str, detail: str, who: str) -> WandbRead:
    reading = done.reading
    seen, last = str(reading.seen), None if reading.whole else reading.end
    if len(seen) > _SEEN_TEXT:
        seen = seen[:_SEEN_TEXT].rpartition(" ")[0]
        last = int(seen.rpartition(" ")[2].rpartition("-")[2])
        detail = f"{detail}; what it saw is told up to step {last}".lstrip("; ")
    if outcome == "cut":
        outcome = "timeout"
    return WandbRead(
        target.place(), done.read_id, target.path, done.began_at, round(done.took_s, 3), done.version,
        reading.page_size if done.begun else None, reading.first, last if done.ok else None,
        reading.rows, reading.line_count, reading.last_step if done.begun and reading.last_step >= 0 else None,
        seen, outcome, detail, who,
    )  # fmt: skip


def _state(cursor: CursorRow | None) -> dict[str, Any]:
    try:
        held = json.loads(cursor.state) if cursor and cursor.state else {}
    except ValueError:
        held = {}
    return held if isinstance(held, dict) else {}


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
