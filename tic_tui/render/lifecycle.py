"""The lifecycle of the weights, one line a process: asleep L2 > awake > reloaded v12 > cache reset > graph captured.

Phases stand in the order of the process' own log, the newest at the right, in the tone that says whether it may follow
the one before it. Processes that went the same way are one line, which names all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from tic_tui.age import age
from tic_tui.coverage import spans
from tic_tui.execution import PhaseChange
from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line, clean, some, width_of

Process = tuple[str, int | None, int | None, str, str]

MOST: Final = 4  # lines; the rest is counted
_WORDS: Final = {"residency": "", "version": "", "cache": "cache ", "graph": "graph "}


def words(change: PhaseChange) -> str:
    """A phase as it stands on the line: asleep L2, reloaded v12, cache reset, graph captured."""
    text = _WORDS.get(str(change.track), f"{change.track} ") + str(change.phase).replace("_", " ")
    if change.level:
        text += (
            f" L{change.level}" if change.track == "residency" and str(change.level).isdecimal() else f" {change.level}"
        )
    return f"{text} v{change.version}" if change.version else text


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


def tracks(changes: Sequence[PhaseChange]) -> list[tuple[list[Process], list[PhaseChange]]]:
    """(processes, what they went through), rollout first; those that went the same way are together."""
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
    return sorted(
        alike.values(), key=lambda g: (order.get(g[0][0][0], 2), g[0][0][0], -g[1][-1].observed_at.timestamp())
    )


def lines(changes: Sequence[PhaseChange], now: datetime, width: int, glyphs: Glyphs, most: int = MOST) -> list[Line]:
    """At most `most` lines, and one that says how many more there are."""
    groups = tracks(changes)
    found = [_line(processes, mine, now, width, glyphs) for processes, mine in groups[:most]]
    if len(groups) > most:
        more = some(len(groups) - most, "more process went another way", "more processes went other ways")
        found.append(Builder(width, glyphs).add(f" and {more}", "dim").line())
    return found


def _line(processes: Sequence[Process], mine: Sequence[PhaseChange], now: datetime, width: int, glyphs: Glyphs) -> Line:
    role, newest = processes[0][0], mine[-1]
    ago = f" {age(newest.event_at or newest.observed_at, now)} "
    b = Builder(width, glyphs).add(" ").cell(role, 8, role if role in {"rollout", "trainer"} else "text")
    b.add(f"{names(processes)}  ", "head")
    between = f" {glyphs.ascending} "
    room, shown = b.room - width_of(ago), list[tuple[str, str]]()
    ways = [
        (said, legal, len(list(same))) for (said, legal), same in groupby((_said(c, glyphs), c.legal) for c in mine)
    ]
    for n, (said, legal, times) in enumerate(reversed(ways)):  # whole words, the newest ones
        text = f"{said} x{times}" if times > 1 else said
        room -= width_of(clean(text + between, glyphs))
        if room < 0 and shown:
            break
        shown.insert(0, (text, "suspect" if not legal else "text" if n else "title"))
    for n, (text, tone) in enumerate(shown):
        b.add(between if n else "", "dim").add(text, tone)
    return b.right(ago, "dim").line()


def _said(change: PhaseChange, glyphs: Glyphs) -> str:
    return words(change) if change.legal else f"{glyphs.suspect} {words(change)} (out of order)"
