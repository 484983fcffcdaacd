"""The lifecycle of the weights, one line a process: asleep L2 > awake > reloaded v12 > cache reset > graph captured.

Phases stand in the order of the process' own log, the newest at the right, in the tone that says whether it may follow
the one before it. Processes that went the same way are one line, which names all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from tic_tui.age import age
from tic_tui.coverage import spans
from tic_tui.execution import PhaseChange
from tic_tui.glyphs import Glyphs
from tic_tui.lanes import phase_words
from tic_tui.render.text import Builder, Line, clean, some, width_of

Process = tuple[str, int | None, int | None, str, str]

MOST: Final = 4  # lines; the rest is counted
_WORDS: Final = {"residency": "", "version": "", "cache": "cache ", "graph": "graph "}


def words(change: PhaseChange) -> str:
    """A phase as it stands on the line: asleep L2, reloaded v12, cache reset, graph captured."""
    track = str(change.track)
    return _WORDS.get(track, f"{track} ") + phase_words(track, change.phase, change.level, change.version)


def names(processes: Iterable[Process]) -> str:
    """Who they are: "rank 3", "ranks 0-7", "pid 4521", "2 processes" where nothing tells them apart."""
    found = list(processes)
    ranks = sorted({rank for _, rank, *_ in found if rank is not None})
    if len(ranks) == len(found):
        return f"rank{'s' * (len(ranks) > 1)} {spans(ranks)}"
    pids = sorted({pid for _, _, pid, *_ in found if pid is not None})
    if len(found) == 1:
        return f"pid {pids[0]}" if pids else "pid unknown"
    return some(len(found), "process", "processes")


@dataclass(frozen=True, slots=True)
class Way:
    """What processes went through, oldest first; those that went the same way are together."""

    processes: tuple[Process, ...]
    changes: tuple[PhaseChange, ...]


def ways(changes: Sequence[PhaseChange]) -> list[Way]:
    """The ways that processes went, rollout first."""
    of_process: dict[Process, list[PhaseChange]] = {}
    for change in changes:
        of_process.setdefault(change.process, []).append(change)
    alike: dict[tuple[object, ...], tuple[list[Process], list[PhaseChange]]] = {}
    for process, mine in of_process.items():
        way = (process[0], *((c.track, c.phase, c.level, c.version, c.legal) for c in mine))
        held = alike.setdefault(way, ([], mine))
        held[0].append(process)
        if mine[-1].observed_at > held[1][-1].observed_at:
            alike[way] = (held[0], mine)
    order = {"rollout": 0, "trainer": 1}
    ordered = sorted(
        alike.values(), key=lambda g: (order.get(g[0][0][0], 2), g[0][0][0], -g[1][-1].observed_at.timestamp())
    )
    return [Way(tuple(processes), tuple(mine)) for processes, mine in ordered]


def lines(changes: Sequence[PhaseChange], now: datetime, width: int, glyphs: Glyphs, most: int = MOST) -> list[Line]:
    """At most `most` lines, and one that says how many more there are."""
    groups = ways(changes)
    found = [row(way, now, width, glyphs, selected=False) for way in groups[:most]]
    return [*found, more(len(groups) - most, width, glyphs)] if len(groups) > most else found


def more(number: int, width: int, glyphs: Glyphs) -> Line:
    """How many ways are not shown."""
    text = some(number, "more process went another way", "more processes went other ways")
    return Builder(width, glyphs).add(f" and {text}", "dim").line()


def row(way: Way, now: datetime, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One way. An update that keeps the KV cache on purpose is no finding, and is said in words."""
    processes, mine = way.processes, way.changes
    role, newest = processes[0][0], mine[-1]
    ago = f" {age(newest.event_at or newest.observed_at, now)} "
    if any(change.keeps_kv for change in mine):
        ago = f"  policy: KV kept {ago}"
    b = Builder(width, glyphs).add(glyphs.cursor if selected else " ", "key")
    b.cell(role, 8, role if role in {"rollout", "trainer"} else "text")
    b.add(f"{names(processes)}  ", "head")
    between = f" {glyphs.ascending} "
    room, shown = b.room - width_of(ago), list[tuple[str, str]]()
    said_of = [
        (said, legal, len(list(same))) for (said, legal), same in groupby((_said(c, glyphs), c.legal) for c in mine)
    ]
    for n, (said, legal, times) in enumerate(reversed(said_of)):  # whole words, the newest ones
        text = f"{said} x{times}" if times > 1 else said
        room -= width_of(clean(text + between, glyphs))
        if room < 0 and shown:
            break
        shown.insert(0, (text, "suspect" if not legal else "text" if n else "title"))
    for n, (text, tone) in enumerate(shown):
        b.add(between if n else "", "dim").add(text, tone)
    return b.right(ago, "dim").line()


def _said(change: PhaseChange, glyphs: Glyphs) -> str:
    return words(change) if change.legal else f"{glyphs.suspect} {words(change)} ({change.wrong})"
