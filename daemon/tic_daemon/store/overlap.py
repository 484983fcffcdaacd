"""Stores that read the same logs: a workspace on a shared file system that two jobs watched one after the other, two
daemons that watch one directory from two nodes, a store that was built anew beside the old one.

What stands in such a log would be counted twice. A store whose logs another one has read as far is superseded: it adds
nothing, and is left out. Where two stores share some logs only, both are read, and that is said.

Two logs are one if they have one path, on one host or on a network file system, and begin with the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tic_daemon.store.reader import Reader

TIMEOUT_S = 5.0
_LOGS = """
SELECT s.path, s.host, coalesce(s.network, false), c.byte_offset, c.head_len, c.head_hash
FROM b_source s JOIN b_cursor c ON c.source_id = s.source_id WHERE c.head_len > 0
"""


@dataclass(frozen=True, slots=True)
class Log:
    """One generation of one log, as a store has read it: up to `offset`. Its first `head_len` bytes hash to `head`."""

    path: str
    host: str
    network: bool
    offset: int
    head_len: int
    head: str

    def same(self, other: Log) -> bool:
        place = self.host == other.host or (self.network and other.network)
        return place and (self.path, self.head_len, self.head) == (other.path, other.head_len, other.head)


def logs_of(reader: Reader) -> tuple[Log, ...]:
    """What a store has read. Raises as `Reader.query`."""
    return tuple(Log(*row) for row in reader.query(_LOGS, timeout_s=TIMEOUT_S).rows)


def superseded(read: Mapping[str, Sequence[Log]], live: Collection[str]) -> dict[str, str]:
    """Stores that add nothing, each with one that has all it has.

    Args:
        read: logs of the stores by name. live: those that a daemon goes on writing; of two that share all their logs a
            live one stays, and of two live ones always the same.
    """

    def rank(name: str) -> tuple[bool, int, str]:
        return name not in live, 0 if name in live else -sum(log.offset for log in read[name]), name

    kept: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(read, key=rank):
        by_path = [(other, _by_path(read[other])) for other in kept]
        by = next((other for other, logs in by_path if _covers(logs, read[name], name in live and other in live)), None)
        if by is None:
            kept.append(name)
        else:
            found[name] = by
    return found


def shared(read: Mapping[str, Sequence[Log]]) -> dict[tuple[str, str], int]:
    """How many logs each two of these stores have in common; pairs without any are left out."""
    found = {}
    for one, other in combinations(sorted(read), 2):
        by_path = _by_path(read[other])
        count = sum(any(log.same(twin) for twin in by_path.get(log.path, ())) for log in read[one])
        if count:
            found[one, other] = count
    return found


def _by_path(logs: Sequence[Log]) -> dict[str, list[Log]]:
    found: dict[str, list[Log]] = {}
    for log in logs:
        found.setdefault(log.path, []).append(log)
    return found


def _covers(has: Mapping[str, Sequence[Log]], logs: Sequence[Log], both_live: bool) -> bool:
    """Whether every log was read as far; of two live stores now one and now the other is ahead."""
    return bool(logs) and all(
        any(log.same(twin) and (both_live or twin.offset >= log.offset) for twin in has.get(log.path, ()))
        for log in logs
    )
