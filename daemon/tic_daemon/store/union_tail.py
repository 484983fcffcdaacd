"""The tails of several stores as one.

Each store is waited for by a thread of its own, which goes on while nobody asks: what came in between is given with the
next call, so no row is lost between two calls. A position names the position in every store, and how each was reached.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tic_daemon.errors import ConnectError, TicError
from tic_daemon.store.reader import Tail

if TYPE_CHECKING:
    from tic_daemon.store.union import Member

POLL_S = 20.0
"""How long one store is asked to wait."""
RETRY_S = 1.0
LOOK_S = 1.0
"""How often a waiting tail looks whether a store appeared, went, or is reached in another way."""
FIRST_S = 2.0
"""How long the present positions are waited for; a store that is later joins in when it answers."""
ORDER = ("observed_at", "store_id", "rec_id")


@dataclass(slots=True)
class _Poll:
    """One store's pending or finished tail."""

    after: str
    began: float
    got: Tail | None = None
    failed: bool = False

    def news(self, positions: Mapping[str, str], name: str) -> bool:
        """Whether it goes on from the position that is asked for, and came further."""
        return self.got is not None and self.after == positions.get(name, "") and self.got.position != self.after


class Tails:
    """Waits for many stores.

    Args:
        members: the stores there are now.
        standing: a value that changes when one appears, goes, or is reached in another way.
    """

    def __init__(self, members: Callable[[], Sequence[Member]], standing: Callable[[], str]) -> None:
        self._members, self._reached = members, standing
        self._changed = threading.Condition()
        self._polls: dict[str, _Poll] = {}
        self._standings: dict[str, str] = {}
        self._interrupts = 0
        self._closed = False

    def tail(self, after: str, wait_s: float, limit: int) -> Tail:
        """See `Reader.tail`."""
        reached, positions = _decode(after)
        deadline = time.monotonic() + wait_s
        with self._changed:
            interrupts = self._interrupts
        if reached is None:  # from nowhere: the present position, from as many stores as tell it soon
            deadline = time.monotonic() + FIRST_S
        while True:
            if self._closed:
                raise ConnectError("the reader is closed", "open another one")
            members, now_reached = self._members(), self._reached()
            with self._changed:
                self._poll(members, positions, limit)
                came = {name: poll.got for name, poll in self._polls.items() if poll.got and poll.news(positions, name)}
                left = deadline - time.monotonic()
                if reached is None:
                    ended = len(came) + sum(poll.failed for poll in self._polls.values()) >= len(members)
                else:
                    ended = bool(came) or now_reached != reached or self._interrupts != interrupts
                if ended or left <= 0:
                    for name in came:
                        del self._polls[name]
                    return self._told(members, positions, came, now_reached, limit, begin=reached is None)
                self._changed.wait(min(LOOK_S, max(0.0, left)))

    def interrupt(self) -> None:
        """Ends the wait of whoever calls `tail` now."""
        with self._changed:
            self._interrupts += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all waits; the readers are closed by their owner."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _poll(self, members: Sequence[Member], positions: Mapping[str, str], limit: int) -> None:
        """Sees to it that every store is waited for from its position on. Called with the lock held."""
        names = {member.name for member in members}
        for name in self._polls.keys() - names:
            del self._polls[name]
        for member in members:
            after, poll = positions.get(member.name, ""), self._polls.get(member.name)
            if poll is not None:
                same = poll.after == after
                if same and poll.got is None and not poll.failed:
                    continue  # it waits
                if same and poll.got is not None and poll.got.position != after:
                    continue  # to be given
                # It failed, or was interrupted; one that waited its time and saw nothing begins again at once.
                if (same or poll.failed) and time.monotonic() - poll.began < RETRY_S:
                    continue
            fresh = _Poll(after, time.monotonic())
            self._polls[member.name] = fresh
            threading.Thread(
                target=self._wait_for, args=(member, fresh, limit), name=f"tic-tail-{member.name}", daemon=True
            ).start()

    def _wait_for(self, member: Member, poll: _Poll, limit: int) -> None:
        got = None
        with contextlib.suppress(TicError):  # its connection says why
            got = member.reader.tail(poll.after, wait_s=POLL_S if poll.after else 0.0, limit=limit)
        with self._changed:
            poll.got, poll.failed = got, got is None
            if got is not None:
                self._standings[member.name] = got.standing
            self._changed.notify_all()

    def _told(
        self,
        members: Sequence[Member],
        positions: Mapping[str, str],
        came: Mapping[str, Tail],
        reached: str,
        limit: int,
        *,
        begin: bool,
    ) -> Tail:
        names = [member.name for member in members]
        now = {name: came[name].position if name in came else positions.get(name, "") for name in names}
        told = repr([reached, *(self._standings.get(name, "") for name in names)])
        standing = hashlib.sha256(told.encode()).hexdigest()[:16]
        columns, rows, missed = merged([] if begin else list(came.values()), limit)
        return Tail(_encode(reached, now), standing, columns, rows, missed)


def merged(tails: Sequence[Tail], limit: int) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], int]:
    """Columns, rows oldest first, and how many rows there were besides: the newest `limit` of all."""
    missed = sum(tail.missed for tail in tails)
    with_rows = [tail for tail in tails if tail.rows]
    if not with_rows:
        return next((tail.columns for tail in tails if tail.columns), ()), (), missed
    columns = with_rows[0].columns
    rows: list[tuple[Any, ...]] = []
    for tail in with_rows:
        if tail.columns == columns:
            rows += tail.rows
        else:  # a store of another version of the program
            at = {name: i for i, name in enumerate(tail.columns)}
            rows += [tuple(row[at[name]] if name in at else None for name in columns) for row in tail.rows]
    key = [columns.index(name) for name in ORDER if name in columns]
    if key:
        rows.sort(key=itemgetter(*key))
    return columns, tuple(rows[-limit:] if limit else ()), missed + max(0, len(rows) - limit)


def _encode(reached: str, positions: Mapping[str, str]) -> str:
    return json.dumps([reached, dict(positions)], separators=(",", ":"))


def _decode(after: str) -> tuple[str | None, dict[str, str]]:
    """How the stores were reached, and the position in each; None for what is no position of ours."""
    try:
        reached, positions = json.loads(after)
        return str(reached), {str(name): str(position) for name, position in positions.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None, {}
