"""Who writes: the key of each line's process, the first line of each, and the next stamped line of those that need one.

Every distinct `pid=N)` and `[rankN]:` of a chunk is found by one fast search; only what is not known yet is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

from tic_daemon.scan.state import State
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.wrapped import Wrapped

MAX_PROCS: Final = 10_000
MAX_REJECTS: Final = 50
WANT_BYTES: Final = 1 << 20
WANT_TRIES: Final = 200
_PID: Final = re.compile(rb"pid=(\d{1,17})[,)]")
_RANK: Final = re.compile(rb"\[rank(\d{1,6})\]:")
_CLOCK: Final = re.compile(rb"[0-9][0-9]:[0-9][0-9]:[0-9][0-9]")
WORDS: Final = (b"pid=", b"[rank")
"""What a writer's key begins with; whether a chunk holds them, the engine tells on its way."""
PID, RANK = 0, 1
_FEW: Final = 8
_MARKS: Final = 64
_NOWHERE: Final = 1 << 62
_LARGE: Final = 128 * 1024  # below, compiling a search for the known keys does not pay
_KNOWN_MANY: Final = 64
_SHORT_PID: Final = 4
_ENDS: Final = {"pid": (b",", b")"), "rank": (b"]:",)}


def single_key(traits: SourceTraits) -> str:
    """The key of all lines of a file that one process writes."""
    if traits.pid is not None:
        return f"pid:{traits.pid}"
    return f"rank:{traits.rank}" if traits.rank is not None else "file"


def key_of(wrapped: Wrapped, traits: SourceTraits, single: str) -> str:
    """The key of a line's writer. In a file of one process it is constant, unless the line names another pid than the
    path does: children of a worker write into its file."""
    if not single:
        return wrapped.proc
    if traits.pid is not None and wrapped.pid is not None and wrapped.pid != traits.pid:
        return wrapped.proc
    return single


class Newcomers:
    """Lines of a chunk that show a writer who is not known yet.

    Attributes:
        places: (position, key) of every occurrence of such a key, in order.
    """

    __slots__ = ("_at", "_state", "places")

    def __init__(
        self, data: bytes, state: State, traits: SourceTraits, single: str, kinds: Collection[int]
    ) -> None:  # fmt: skip
        self.places = _newcomers(data, state, traits, single, kinds)
        self._state = state
        self._at = 0

    def next(self, position: int) -> int:
        """The next place from `position` on of a key that is still not known; far behind the chunk if there is none."""
        places = self.places
        while self._at < len(places) and (places[self._at][0] < position or self._known(places[self._at][1])):
            self._at += 1
        return places[self._at][0] if self._at < len(places) else _NOWHERE

    def within(self, position: int, end: int) -> list[int]:
        """Places, not too many, of the line that ends at `end` and is about to be read. A key that became known within
        the chunk is as one that was known before it."""
        self.next(position)
        found: list[int] = []
        for at in range(self._at, len(self.places)):
            place, key = self.places[at]
            if place >= end or len(found) == _MARKS:
                break
            if not self._known(key):
                found.append(place)
        return found

    def passed(self, end: int) -> None:
        """A line was read: keys in it that are still not known are no writers'."""
        rejected = self._state.rejected
        while self._at < len(self.places) and self.places[self._at][0] < end:
            key = self.places[self._at][1]
            if not self._known(key):
                rejected[key] = rejected.get(key, 0) + 1
            self._at += 1

    def _known(self, key: str) -> bool:
        return key in self._state.procs or self._state.rejected.get(key, 0) >= MAX_REJECTS


def _newcomers(
    data: bytes, state: State, traits: SourceTraits, single: str, kinds: Collection[int]
) -> list[tuple[int, str]]:
    """(position, key) of every occurrence of a writer's key that is not known yet, in order.

    Args:
        kinds: which of `WORDS` the chunk holds.
    """
    if not kinds or state.full or (single and traits.pid is None):
        return []
    found: list[tuple[int, str]] = []
    for number, (pattern, kind, needle) in enumerate(((_PID, "pid", WORDS[PID]), (_RANK, "rank", WORDS[RANK]))):
        if number not in kinds or (single and kind == "rank"):
            continue
        if len(data) >= _LARGE and (stranger := _stranger(kind, state, single)) and stranger(data) is None:
            continue
        unknown = {}
        for text in set(pattern.findall(data)):
            key = f"{kind}:{int(text)}"
            if key not in state.procs and state.rejected.get(key, 0) < MAX_REJECTS and key != single:
                unknown[text] = key
        if len(unknown) > _FEW:
            found += [(hit.start(), unknown[hit[1]]) for hit in pattern.finditer(data) if hit[1] in unknown]
            continue
        for text, key in unknown.items():
            for end in _ENDS[kind]:
                word = needle + text + end
                place = data.find(word)
                while place >= 0:
                    found.append((place, key))
                    place = data.find(word, place + 1)
    found.sort()
    return found


def _stranger(kind: str, state: State, single: str) -> Callable[[bytes], re.Match[bytes] | None] | None:
    """A search for the first key of a kind that is not among the known ones; None if those are too many for it."""
    if len(state.procs) > _KNOWN_MANY:
        return None
    known = [key for key in (*state.procs, single) if key.startswith(kind)]
    known += [key for key, tries in state.rejected.items() if tries >= MAX_REJECTS and key.startswith(kind)]
    return _other_than(kind, tuple(known)) if 0 < len(known) <= _KNOWN_MANY else None


@lru_cache(maxsize=256)
def _other_than(kind: str, keys: tuple[str, ...]) -> Callable[[bytes], re.Match[bytes] | None]:
    names = "|".join(re.escape(key.partition(":")[2]) for key in keys).encode()
    if kind == "pid":
        return re.compile(rb"pid=(?!(?:" + names + rb")[,)])\d{1,17}[,)]").search
    return re.compile(rb"\[rank(?!(?:" + names + rb")\]:)\d{1,6}\]:").search


def want(state: State, key: str, offset: int) -> None:
    """This writer has an event without a stamp: its next stamped line within 1 MiB is the event's upper bound."""
    if key not in state.wants:
        state.wants_changed += 1
    state.wants[key] = [offset + WANT_BYTES, WANT_TRIES]


def unwant(state: State, key: str) -> None:
    """This writer's stamp is found, or given up."""
    del state.wants[key]
    state.wants_changed += 1


class Wanted:
    """Where in a chunk the next line of each writer stands whose next stamp is wanted."""

    __slots__ = ("_data", "_next", "_ranks", "_single", "_state", "best", "changed")

    def __init__(self, data: bytes, state: State, single: str, kinds: Collection[int]) -> None:
        self._data = data
        self._state = state
        self._single = single
        self._next: dict[str, int] = {}
        self._ranks = RANK in kinds
        # What `next` last gave, and for which state of the wants: it holds up to there.
        self.best = -1
        self.changed = -1

    def next(self, start: int) -> int:
        """Position of the first byte from `start` on of a line that may be wanted; the chunk's length if none."""
        if start <= self.best and self.changed == self._state.wants_changed:
            return self.best
        best = len(self._data)
        known = self._next
        for key in self._state.wants:
            place = known.get(key, -1)
            if place < start:
                place = known[key] = self._find(key, start)
            best = min(best, place)
        self.best, self.changed = best, self._state.wants_changed
        return best

    def _find(self, key: str, start: int) -> int:
        data = self._data
        if key == self._single:
            clock = _CLOCK.search(data, start)
            return clock.start() if clock else len(data)
        kind, _, name = key.partition(":")
        if kind == "rank":
            place = data.find(f"[rank{name}]".encode(), start) if self._ranks else -1
        else:
            # A pid stands in many forms, but a short one is a number like any other. Of an actor that is a set of
            # ranks the order in the line may differ: one of them will do.
            first = name.split(" ", maxsplit=1)[0]
            needle = f"pid={first}" if kind == "pid" and len(first) < _SHORT_PID else first
            place = data.find(needle.encode(), start)
        return place if place >= 0 else len(data)
