"""Several stores read as one: all that daemons of a workspace write or wrote, wherever they ran.

    query(sql, gather=...)   `sql` in every store at once, then `gather` over table `part` of their rows
    query(sql)               people's SQL: the views that it mentions are read whole and united (united.py)
    tail()                   wakes with any store (union_tail.py)

A store that fails, or is later than the deadline, hides none of the others: the result names it in `missing`, and
`connection()` says how each store stands. Stores that appear later join in; one whose logs another one has read as well
is left out (overlap.py). With one store there is nothing to unite: its reader answers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from tic_daemon.errors import ConnectError, StoreError, TicError
from tic_daemon.store import sqlguard
from tic_daemon.store.layout import StoreLayout, stores_under
from tic_daemon.store.reader import MAX_ROWS, TAIL_ROWS, TIMEOUT_S, Connection, Reader, Result, Tail
from tic_daemon.store.sqlguard import SqlError
from tic_daemon.store.union_tail import Tails

if TYPE_CHECKING:
    from tic_daemon.store.gather import Local, Part
    from tic_daemon.store.overlap import Log

LOOK_S = 2.0
"""How often the workspace is looked at for stores that appeared or went."""
OVERLAP_S = 60.0
"""How often it is looked whether stores read the same logs, besides when one appears."""
SLACK_S = 1.0
"""A store is given up this long after its deadline, which it keeps itself if it lives."""
WHOLE_ROWS = 100_000
"""Rows of one view of one store that are read whole for people's SQL; a daemon gives no more at once."""

_State = Literal["pending", "connected", "disconnected"]
T = TypeVar("T")


class Member:
    """One store: its reader, and at most one question at a time.

    Attributes:
        name: of its directory. failure: why its rows were missing from the last answer; "".
    """

    def __init__(self, name: str, store_id: str, reader: Reader) -> None:
        self.name, self.store_id, self.reader = name, store_id, reader
        self.failure = ""
        self._asked: Future[object] | None = None

    def ask(self, work: Callable[[Reader], T]) -> Future[T]:
        """Runs `work` in a thread of its own: a store that hangs delays no other, and not the end of the program."""
        future: Future[T] = Future()
        if self._asked is not None and not self._asked.done():
            future.set_exception(ConnectError(f"{self.name} still owes the answer to an earlier question"))
            return future

        def run() -> None:
            try:
                future.set_result(work(self.reader))
            except BaseException as error:  # noqa: BLE001  handed to whoever waits for the answer
                future.set_exception(error)

        self._asked = future  # type: ignore[assignment]
        threading.Thread(target=run, name=f"tic-ask-{self.name}", daemon=True).start()
        return future


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What the stores said, and who said nothing, with the reason."""

    given: tuple[tuple[Member, T], ...]
    failed: tuple[tuple[Member, TicError], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(f"{member.name}: {error.what}" for member, error in self.failed)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Which logs the stores had read when it was last looked (overlap.py), and what follows from that.

    `of`: the stores and how each was reached then: one that is no longer live must not stand for one that is.
    """

    of: frozenset[tuple[str, str]] = frozenset()
    at: float = 0.0
    read: Mapping[str, Sequence[Log]] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    twice: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def words(self) -> list[str]:
        return [
            f"{one} and {other} both read {count} {'log' if count == 1 else 'logs'}: what stands there is counted twice"
            for (one, other), count in self.twice.items()
        ]


class UnionReader:
    """A `Reader` of all stores under a directory.

    Args:
        target: workspace or state directory.
        opener: makes the reader of one store; it may fail later, and then stands for a store that cannot be read.
        finder: the stores there are.

    Raises:
        StoreError: there is no store.
    """

    def __init__(
        self,
        target: Path,
        opener: Callable[[StoreLayout], Reader],
        finder: Callable[[Path], Sequence[StoreLayout]] = stores_under,
    ) -> None:
        self._target, self._opener, self._finder = target, opener, finder
        self._members: tuple[Member, ...] = ()
        self._looked = 0.0
        self._finding = threading.Lock()
        self._turn = threading.Lock()  # one query at a time
        self._local: Local | None = None
        self._interrupted = False
        self._closed = False
        self._overlap = Overlap()
        self._told: tuple[str, str] = ("", "")
        self._since = _utcnow()
        self._tails = Tails(self._read, self._standing)
        if not self.members():
            raise StoreError(f"no store under {target}", f"start `tic-daemon watch {target}`")

    def open(self) -> None:
        """Finds out at once whether the only store can be read. Of several, the first question tells.

        Raises:
            StoreError, StoreVersionError, ConnectError: it cannot.
        """
        members = self.members()
        opened = getattr(members[0].reader, "open", None)
        if len(members) == 1 and opened is not None:
            opened()

    def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        as_of: datetime | None = None,
        max_rows: int = MAX_ROWS,
        timeout_s: float = TIMEOUT_S,
        gather: str = "",
    ) -> Result:
        """See `Reader.query`. The deadline holds for the slowest store; the gathering has as much again."""
        sqlguard.sound_parameters(params)
        timeout_s = sqlguard.deadline(timeout_s)
        members = self.members()
        if self._closed:
            raise ConnectError(f"the reader of {self._target} is closed", "open another one")
        if not members:
            raise StoreError(f"there is no store under {self._target} any more", "open it again")
        if len(members) > 1:
            with self._turn:
                self._interrupted = False
                members = self._without_copies(members, timeout_s)
        if len(members) == 1:
            return members[0].reader.query(sql, params, as_of=as_of, max_rows=max_rows, timeout_s=timeout_s)
        with self._turn:
            if gather:
                return self._gathered(members, sql, params, as_of, max_rows, timeout_s, gather)
            return self._united(members, sql, params, as_of, max_rows, timeout_s)

    def tail(self, after: str = "", *, wait_s: float = 0.0, limit: int = TAIL_ROWS) -> Tail:
        """See `Reader.tail`. Also wakes when a store appears, goes, or is reached in another way."""
        return self._tails.tail(after, wait_s, limit)

    def connection(self) -> Connection:
        """See `Reader.connection`."""
        members = self._without_hidden(self._members)
        stores = tuple(member.reader.connection() for member in members)
        if len(stores) == 1:
            return stores[0]
        state, detail = _overall(members, stores)
        detail = "; ".join(text for text in (detail, *self._overlap.words()) if text)
        if (state, detail) != self._told:
            self._told, self._since = (state, detail), _utcnow()
        behind = [store.data_at for store in stores if store.data_at is not None and store.detail]
        hints = dict.fromkeys(store.hint for store in stores if store.hint)
        data_at, hint = min(behind, default=None), "\n".join(hints)
        return Connection("several", state, self._since, detail, str(self._target), data_at, hint, stores)

    def interrupt(self) -> None:
        """See `Reader.interrupt`."""
        self._interrupted = True
        self._tails.interrupt()
        for member in self._members:
            member.reader.interrupt()
        if self._local is not None:
            self._local.interrupt()

    def close(self) -> None:
        """See `Reader.close`."""
        self._closed = True
        self.interrupt()
        self._tails.close()
        for member in self._members:
            member.reader.close()
        local, self._local = self._local, None
        if local is not None:
            local.close()

    def members(self) -> tuple[Member, ...]:
        """The stores that there are, by name; looks for new ones every two seconds."""
        with self._finding:
            if self._closed or (self._members and time.monotonic() - self._looked < LOOK_S):
                return self._members
            self._looked = time.monotonic()
            known: dict[str, Member] = {member.name: member for member in self._members}
            found = [layout for layout in self._finder(self._target) if _begun(layout)]
            members = []
            for layout in sorted(found, key=lambda layout: layout.directory.name):
                name = layout.directory.name
                members.append(
                    known.pop(name) if name in known else Member(name, layout.store_id, self._opener(layout))
                )
            self._members = tuple(members)
            for gone in known.values():
                gone.reader.close()
            return self._members

    def _read(self) -> tuple[Member, ...]:
        """The stores that are read: none that another one supersedes."""
        return self._without_hidden(self.members())

    def _without_hidden(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        return tuple(member for member in members if member.name not in self._overlap.hidden)

    def _without_copies(self, members: tuple[Member, ...], timeout_s: float) -> tuple[Member, ...]:
        """The same, after a look at the logs if that is due."""
        from tic_daemon.store import overlap  # noqa: PLC0415  only where there are several

        names = {member.name for member in members}
        reached = frozenset((member.name, member.reader.connection().kind) for member in members)
        known = self._overlap
        if reached != known.of or time.monotonic() - known.at >= OVERLAP_S:
            read = dict(known.read)
            try:
                answers = self._ask(members, overlap.logs_of, min(timeout_s, overlap.TIMEOUT_S))
                read.update({member.name: logs for member, logs in answers.given})
            except SqlError:
                if self._interrupted:
                    raise
            except TicError:
                pass  # nobody answers; the question itself will say so
            read = {name: logs for name, logs in read.items() if name in names}
            live = {member.name for member in members if member.reader.connection().kind == "live"}
            hidden = overlap.superseded(read, live)
            twice = overlap.shared({name: logs for name, logs in read.items() if name not in hidden})
            reached = frozenset((member.name, member.reader.connection().kind) for member in members)
            self._overlap = Overlap(reached, time.monotonic(), read, hidden, twice)
        return self._without_hidden(members)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, members: Sequence[Member], work: Callable[[Reader], T], timeout_s: float) -> Answers[T]:
        """`work` on every store at once.

        Raises:
            SqlError: it was interrupted. TicError: no store answered.
        """
        asked = [(member, member.ask(work)) for member in members]
        wait([future for _, future in asked], timeout_s + SLACK_S)
        given: list[tuple[Member, T]] = []
        failed: list[tuple[Member, TicError]] = []
        for member, future in asked:
            if not future.done():
                member.reader.interrupt()  # so that it is free again soon
                failed.append((member, ConnectError(f"no answer within {timeout_s:g} s", "the others answered")))
                continue
            error = future.exception()
            if error is None:
                given.append((member, future.result()))
            elif isinstance(error, TicError):
                failed.append((member, error))
            else:
                raise error
        if self._interrupted:
            raise SqlError("the query was interrupted")
        if not given:
            # A wrong query is wrong in every store, and said once; else all reasons count.
            wrong = next((error for _, error in failed if isinstance(error, SqlError)), None)
            raise wrong or _none_answered(failed)
        for member, _ in given:
            member.failure = ""
        for member, error in failed:
            member.failure = error.what
        return Answers(tuple(given), tuple(failed))

    def _gathered(
        self,
        members: Sequence[Member],
        sql: str,
        params: Sequence[object],
        as_of: datetime | None,
        max_rows: int,
        timeout_s: float,
        gather: str,
    ) -> Result:
        from tic_daemon.store.gather import Part  # noqa: PLC0415  it loads what the first paint does not wait for

        began = time.monotonic()
        answers = self._ask(
            members,
            lambda reader: reader.query(
                sql, params, as_of=as_of, max_rows=max_rows, timeout_s=timeout_s, gather=gather
            ),
            timeout_s,
        )
        parts = [Part(member.store_id, result) for member, result in answers.given]
        result = self._here().gather(parts, gather, as_of=as_of, max_rows=max_rows, timeout_s=timeout_s)
        cut = result.truncated or any(part.result.truncated for part in parts)
        return replace(result, truncated=cut, elapsed_s=time.monotonic() - began, missing=answers.missing)

    def _united(
        self,
        members: Sequence[Member],
        sql: str,
        params: Sequence[object],
        as_of: datetime | None,
        max_rows: int,
        timeout_s: float,
    ) -> Result:
        from tic_daemon.store import gather, united  # noqa: PLC0415  see above

        began = time.monotonic()
        local = self._here()
        with local.cursor(timeout_s, as_of) as cursor:
            statement = sqlguard.only_select(cursor, sql)
            plan = united.plan_for(sqlguard.tables_of(cursor, sql))

        def read(reader: Reader) -> dict[str, Result]:
            # One after another: between them a daemon may commit, as between any two queries.
            deadline = time.monotonic() + timeout_s
            return {
                part: _whole(reader, reading.sql, as_of, deadline - time.monotonic())
                for part, reading in plan.read.items()
            }

        answers: Answers[dict[str, Result]] = Answers((), ())
        if plan.read:
            answers = self._ask(members, read, timeout_s)
        parts = {view: [_part(member, view, results[view]) for member, results in answers.given] for view in plan.read}
        with local.cursor(timeout_s, as_of) as cursor:
            united.make(cursor, plan, parts)
            result = gather.run(cursor, statement, params, max_rows, began)
        return replace(result, missing=answers.missing)

    def _here(self) -> Local:
        from tic_daemon.store.gather import Local  # noqa: PLC0415  see above

        if self._local is None:
            self._local = Local()
        return self._local

    def _standing(self) -> str:
        """Changes when a store appears, goes, or is reached in another way."""
        told = []
        for member in self._read():
            store = member.reader.connection()
            told.append((member.name, store.kind, store.state, bool(store.detail)))
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _whole(reader: Reader, sql: str, as_of: datetime | None, timeout_s: float) -> Result:
    return reader.query(sql, as_of=as_of, max_rows=WHOLE_ROWS, timeout_s=max(0.0, timeout_s))


def _part(member: Member, view: str, result: Result) -> Part:
    from tic_daemon.store.gather import Part  # noqa: PLC0415  see above

    if result.truncated:  # never silently less
        raise SqlError(
            f"view {view} of {member.name} is larger than the {len(result.rows)} rows that are united at once",
            f"ask one store: name its directory, .tic/{member.name}, instead of the workspace",
        )
    return Part(member.store_id, result)


def _begun(layout: StoreLayout) -> bool:
    """Whether a daemon got as far as to own the directory or to leave something in it."""
    told = (layout.owner_file, layout.daemon_file, layout.pointer_file, layout.database, layout.published)
    try:
        return any(path.exists() for path in told)
    except OSError:  # it cannot be looked into: its reader says so, and it counts as missing
        return True


def _overall(members: Sequence[Member], stores: Sequence[Connection]) -> tuple[_State, str]:
    """The state of the whole, and what is wrong in words."""
    lost = [
        f"{member.name}: {store.detail if store.state == 'disconnected' else member.failure}"
        for member, store in zip(members, stores, strict=True)
        if store.state == "disconnected" or member.failure
    ]
    behind = [
        f"{member.name}: {store.detail}"
        for member, store in zip(members, stores, strict=True)
        if store.state != "disconnected" and not member.failure and store.detail
    ]
    words = []
    if lost:
        words.append(f"{len(lost)} of {len(stores)} stores cannot be read: {'; '.join(lost)}")
    if behind:
        words.append(f"{len(behind)} of {len(stores)} stores are not read live: {'; '.join(behind)}")
    states = {store.state for store in stores}
    state: _State = "connected" if "connected" in states else "pending" if "pending" in states else "disconnected"
    return state, "; ".join(words)


def _none_answered(failed: Sequence[tuple[Member, TicError]]) -> TicError:
    first = failed[0][1]
    if len(failed) == 1:
        return first
    told = "; ".join(f"{member.name}: {error.what}" for member, error in failed)
    kind = ConnectError if all(isinstance(error, ConnectError) for _, error in failed) else StoreError
    return kind(f"none of {len(failed)} stores can be read: {told}", first.hint)


def _utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
