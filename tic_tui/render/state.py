"""What stands round the lanes of screen 4: who tells, which axis it is, its ruler, and what is under the cursor."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from tic_tui.age import clock
from tic_tui.execution import Finding, PhaseChange, StateChange
from tic_tui.glyphs import Glyphs
from tic_tui.lanes import NUMBERS, STANDINGS, Change, Numbers, Spot, StateView, moment, phase_words, told_by
from tic_tui.model import Fault, Mismatch
from tic_tui.render import findings
from tic_tui.render.lanes import label, label_width
from tic_tui.render.records import standing
from tic_tui.render.text import Builder, Line, clean, clip_left, count, number, some, width_of

_TICK: Final = 14  # columns from one label of the ruler to the next, at least
_DAY_US: Final = 86_400_000_000


def head(view: StateView, keys: str, width: int, glyphs: Glyphs) -> Line:
    """Who tells, in which log, and which of how many. `keys`: those that go to another one."""
    b = Builder(width, glyphs).add(" ")
    teller = view.teller
    if teller is None:
        return b.add("no line told of graph mode, step kind, cache or weights", "dim").line()
    role = teller.who.role
    nth = view.tellers.index(teller) + 1
    right = f" {nth} of {len(view.tellers)} " + (f"({keys}) " if len(view.tellers) > 1 and width >= 60 else "")
    b.add(f"{role} ", role if role in {"rollout", "trainer"} else "head")
    room = max(8, b.room - width_of(right) - 1)
    said = told_by(teller)
    path = clean(teller.who.path or "log unknown", glyphs)
    if said and width_of(said) + 12 < room:
        b.add(f"{said}  ", "title")
        room -= width_of(said) + 2
    b.add(clip_left(path if width_of(path) <= room else PurePosixPath(path).name, room, glyphs.ellipsis), "text")
    return b.right(right, "dim").line()


def axis(view: StateView, follows: bool, keys: tuple[str, str], width: int, glyphs: Glyphs) -> Line:
    """Which axis it is, why, and how much of it is shown. `keys`: the other axis, and following again."""
    b, teller = Builder(width, glyphs).add(" "), view.teller
    badge, tone = (" FOLLOW ", "ok") if follows else (f" PAUSED  {keys[1]} follows ", "stale")
    if width < 50 and not follows:
        badge = " PAUSED "
    whole = (view.low, view.high) == (view.first, view.last)
    part = "" if whole else f", {_share(view)} of it"
    if view.axis == "time":
        said = [
            f"time {clock(moment(view.low))} to {clock(moment(view.high))}{part}",
            f", {_long(view.high - view.low)}",
        ]
    else:
        (first, low), (last, high) = (_line(view, view.low), _line(view, view.high))
        of = f" (file {first} to {last})" if first != last else ""
        said = [f"place in the log, lines {low} to {high}{of}{part}"]
        if teller is not None and teller.timed == 0:
            said.append(": they tell no time in UTC")
        elif teller is not None and teller.timed < teller.lines:
            said.append(f": {count(teller.lines - teller.timed)} of {count(teller.lines)} tell no time in UTC")
    b.add(f"{glyphs.ascending} ", "key")
    room = b.room - width_of(badge) - 1
    for n, one in enumerate(said):
        if n == 0 or width_of(one) <= room:
            b.add(clean(one, glyphs)[: max(0, room)], "title" if n == 0 else "dim")
            room -= width_of(one)
    if teller is not None and teller.timed > 0 and room > 12 + len(keys[0]):
        b.add(f"  {keys[0]} by {'place' if view.axis == 'time' else 'time'}", "dim")
    return b.right(badge, tone).line()


def missing(view: StateView, width: int, glyphs: Glyphs) -> list[Line]:
    """What has no place on this axis; no line if everything has."""
    found = view.missing
    parts = [some(n, what) for n, what in (
        (found.lines, "line of it"), (found.numbers, "number"), (found.faults, "fault"), (found.findings, "finding"),
    ) if n]  # fmt: skip
    parts = [part.replace("line of its", "lines of it") for part in parts]
    if not parts:
        return []
    why = "they tell no time in UTC" if view.axis == "time" else "they stand in other logs"
    b = Builder(width, glyphs).add(f" {glyphs.unknown} not on this axis: ", "stale").add(", ".join(parts), "stale")
    return [b.add_if_fits(f"; {why}", "dim").line()]


def ruler(view: StateView, cursor: int | None, width: int, glyphs: Glyphs) -> Line:
    """Times or line numbers over the columns they begin at, and where the cursor is."""
    cells = [" "] * view.columns
    every = max(_TICK, view.columns // 8)
    size = view.high - view.low + 1
    days = view.axis == "time" and size > _DAY_US
    for column in range(0, view.columns - 6, every):
        x = view.low + -(-column * size // view.columns)
        if view.axis == "place":
            text = str(_line(view, min(x, view.high))[1])
        else:
            text = f"{moment(x):%m-%d %H:%M}" if days else f"{moment(x):%H:%M:%S}"
        text = f"{glyphs.vertical}{text}"
        if column + len(text) < view.columns:
            cells[column : column + len(text)] = text
    b = Builder(width, glyphs).add("  ").cell("UTC" if view.axis == "time" else "line", label_width(width) - 3, "dim")
    if cursor is None or not 0 <= cursor < view.columns:
        return b.add("".join(cells), "dim").line()
    line = "".join(cells)
    return b.add(line[:cursor], "dim").add(glyphs.here, "key").add(line[cursor + 1 :], "dim").line()


def steps(view: StateView, width: int, glyphs: Glyphs) -> Line:
    """Steps, each at the column of the first line that tells it; whole numbers only."""
    cells = [" "] * view.columns
    for column, step in view.steps:
        text = str(step)
        end = column + len(text)
        if column >= 0 and end <= view.columns and (column == 0 or cells[column - 1] == " ") and cells[column] == " ":
            cells[column:end] = text
    b = Builder(width, glyphs).add("  ").cell("step", label_width(width) - 3, "head" if view.steps else "dim")
    return b.add("".join(cells), "text").line()


def _line(view: StateView, x: int) -> tuple[int, int]:
    return view.teller.line_at(x) if view.teller is not None else (0, x)


def _share(view: StateView) -> str:
    part = 100 * (view.high - view.low + 1) / (view.last - view.first + 1)
    return f"{part:.0f} %" if part >= 1 else "under 1 %"


def _long(us: int) -> str:
    """A length of time: 48 s, 22 min, 3 h, 2 d."""
    for size, unit in ((_DAY_US, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s")):
        if us >= 2 * size:
            return f"{round(us / size)} {unit}"
    return f"{us / 1_000_000:.3g} s"


# --- under the cursor ---


def readout(
    view: StateView, lane: str, item: Change | Spot | Numbers | None, until: Change | None, width: int, glyphs: Glyphs
) -> list[Line]:  # fmt: skip
    """What is under the cursor, in at most three lines. `until`: the change after it, if it is held."""
    b = Builder(width, glyphs).add(f" {glyphs.here} ", "key").add(f"{label(lane)}  ", "head")
    if item is None:
        return [b.add(_nothing(view, lane), "dim").line()]
    if isinstance(item, Spot):
        return _spot(b, item, width, glyphs)
    if isinstance(item, Numbers):
        return _numbers(b, view, item, width, glyphs)
    said, tone = value(item), "text"
    if isinstance(item, PhaseChange) and not item.legal:
        said, tone = f"{glyphs.suspect} {said} ({item.wrong})", "suspect"
    b.add(said, tone)
    if isinstance(item, StateChange):
        b.add("" if item.observed is not None else ": claimed by a configuration, not observed", "stale")
        b.add_if_fits(f"   was {item.before}" if item.before else "   the first that was told", "dim")
    elif item.keeps_kv:
        b.add("   policy: KV kept", "notice")
    elif item.duration_s is not None:
        b.add_if_fits(f"   took {item.duration_s:.3g} s", "dim")
    x = view.order(item)[0]
    lines = [b.line(), _where(item, until, width, glyphs)]
    lines += [
        _holds(spot, width, glyphs)
        for spot in view.findings
        if spot.x <= x < (1 << 62 if spot.end is None else spot.end)
    ]
    return lines[:3]


def legend(width: int, glyphs: Glyphs) -> Line:
    """What the signs of the lanes mean; whole ones only."""
    b = Builder(width, glyphs).add("   ")
    told, claims = glyphs.begin + "x" + glyphs.held, glyphs.begin + "(x)" + glyphs.claimed
    for sign, means in ((told, "observed"), (claims, "claimed only"), (glyphs.unknown, "unknown"),
                        (glyphs.several, "several changes"), (glyphs.suspect, "wrong from here")):  # fmt: skip
        b.add_if_fits(f"{sign} {means}   ", "dim")
    return b.line()


def value(change: Change) -> str:
    """What a change told: FULL, reloaded v12, reset refused."""
    if isinstance(change, PhaseChange):
        return phase_words(str(change.track), change.phase, change.level, change.version)
    return str(change.claimed if change.observed is None else change.observed)


def _nothing(view: StateView, lane: str) -> str:
    if view.demand.lanes is not None and view.demand.lanes.lane != lane:
        return "reading ..."
    if lane == NUMBERS:
        return "no number here" if view.numbers else "no number on this axis"
    if any(one.name == lane and one.told for one in view.lanes) or (lane == "faults" and view.faults):
        return "unknown: nothing had told of it up to here"
    if lane in {"findings", "faults"}:
        return "none here" if (view.findings if lane == "findings" else view.faults) else "none on this axis"
    return "unknown: no line of it told of it"


def _where(item: Change, until: Change | None, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add("   ")
    when = f", {_clock(item.event_at)}" if item.event_at is not None else ", time unknown"
    b.add(f"line {item.line_no}{when}", "text")
    if item.rank is not None or item.pid is not None:
        b.add_if_fits(f", rank {item.rank}" if item.rank is not None else f", pid {item.pid}", "dim")
    if isinstance(item, StateChange) and item.step is not None:
        b.add_if_fits(f", step {item.step}", "dim")
    if until is None:
        return b.add_if_fits(", holds to the end", "dim").line()
    return b.add_if_fits(f", until line {until.line_no}: {value(until)}", "dim").line()


def _clock(at: datetime) -> str:
    return f"{at:%m-%d} {clock(at)}"


def _holds(spot: Spot, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(f"   {glyphs.suspect} {str(spot.item.kind).replace('_', ' ')}", "suspect")
    return b.add(f" holds here: {spot.item.detail}" if isinstance(spot.item, Finding) else "", "dim").line()


def _spot(b: Builder, spot: Spot, width: int, glyphs: Glyphs) -> list[Line]:
    item = spot.item
    if isinstance(item, Fault):
        locks = bool(item.locks) and item.verdict == "confirmed"
        b.add(f"{glyphs.fault} {item.kind} {item.verdict}", "locked" if locks else "suspect")
        b.add(", locks the attempt" if locks else ", does not lock", "text")
        b.add_if_fits(f", rank {item.rank}" if item.rank is not None else "", "dim")
        return [b.line(), Builder(width, glyphs).add("   ").add(item.text, "dim").line()]
    b.add(f"{glyphs.suspect} {str(item.kind).replace('_', ' ')}, {findings.steps(item)}", "suspect")
    b.add_if_fits(", holds still" if item.until_line is None else f", until line {item.until_line}", "text")
    return [b.line(), Builder(width, glyphs).add("   ").add(item.detail, "dim").line()]


def _numbers(b: Builder, view: StateView, item: Numbers, width: int, glyphs: Glyphs) -> list[Line]:
    total = sum(item.counts.values())
    each = ", ".join(f"{item.counts[s]} {s}" for s in STANDINGS if s in item.counts)
    b.add(f"{some(total, 'number')} in this column: {each}", "text")
    record = view.record
    if record is None or record.key != item.newest[item.worst]:
        return [b.line(), Builder(width, glyphs).add("   reading ...", "dim").line()]
    return [b.line(), _record(record, width, glyphs)]


def _record(record: Mismatch, width: int, glyphs: Glyphs) -> Line:
    word, tone = standing(record, glyphs)
    b = Builder(width, glyphs).add("   ").add(f"{record.metric or 'unknown metric'} {number(record.value)}", "text")
    b.add(f", step {'unknown' if record.step is None else record.step}, ", "dim").add(word, tone)
    return b.add_if_fits(f": {record.reason}" if record.reason else "", "dim").line()
