"""Ranks expected against ranks watched, as the status report tells them: what no daemon reads proves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# Each store knows only what its own daemon reads, so they are asked one by one and put together here.
RANKS: Final = (
    "SELECT c.run_id, c.rank, c.watched, s.host FROM coverage c"
    " LEFT JOIN (SELECT DISTINCT run_id, rank, host FROM sources"
    " WHERE rank IS NOT NULL AND NOT console AND state <> 'unreadable') s ON s.run_id = c.run_id AND s.rank = c.rank"
)
GATHERED: Final = "SELECT DISTINCT * FROM part"


def of_run(rows: Iterable[Mapping[str, Any]], run_id: str) -> dict[str, Any] | None:
    """What is watched of a run's ranks, from rows of `RANKS`; None if nothing names a rank.

    Returns:
        expected: how many: up to the highest that anything names. watched: by host the ranks that it reads; host None:
        in a log that several processes share. not_watched: the ranks that no daemon reads.
    """
    mine = [row for row in rows if row["run_id"] == run_id]
    if not mine:
        return None
    expected = 1 + max(row["rank"] for row in mine)
    hosts: dict[str | None, set[int]] = {}
    for row in mine:
        if row["watched"]:
            hosts.setdefault(row["host"], set()).add(row["rank"])
    named = set().union(*(ranks for host, ranks in hosts.items() if host is not None))
    hosts[None] = hosts.get(None, set()) - named
    watched = named | hosts[None]
    told = sorted(((host, sorted(ranks)) for host, ranks in hosts.items() if ranks), key=lambda one: one[0] or "")
    return {
        "expected": expected,
        "watched": [{"host": host, "ranks": ranks} for host, ranks in told],
        "not_watched": sorted(set(range(expected)) - watched),
    }


def words(found: Mapping[str, Any]) -> str:
    """The same in a line; not sanitised."""
    watched = ", ".join(
        f"{spans(one['ranks'])} {'in a shared log' if one['host'] is None else 'on ' + one['host']}"
        for one in found["watched"]
    )
    text = f"{spans(range(found['expected']))} expected; watched: {watched or 'none'}"
    if found["not_watched"]:
        missing = spans(found["not_watched"])
        text += f"; not watched: {missing} (a log on a node's own disk needs a daemon on that node)"
    return text


def spans(ranks: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2, 5". `ranks` are in order."""
    found: list[list[int]] = []
    for rank in ranks:
        if found and rank == found[-1][1] + 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
