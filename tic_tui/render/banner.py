"""The lock banner: whether the run's numbers can still be evidence, and which line decided it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, RunView
from tic_tui.render.chrome import counting
from tic_tui.render.text import Builder, Line, clean, clip_left, count, number, some, width_of
from tic_tui.safe import safe_lines

_PLACE: Final = 24  # cells from which on the end of a path tells something


def fault_words(fault: Fault) -> list[str]:
    """Kind, severity, rank, pid, step of a fault; what is unknown is left out here and shown in its details."""
    words = [str(fault.title or fault.kind)]
    if fault.severity:
        words.append(f"severity {fault.severity}")
    if fault.rank is not None:
        words.append(f"rank {fault.rank}")
    if fault.pid is not None:
        words.append(f"pid {fault.pid}")
    words.append("step unknown" if fault.step is None else f"step {fault.step}")
    return words


def first_line(text: str) -> str:
    """The first line of a fault's text, safe."""
    lines = safe_lines(text)
    return str(lines[0]) if lines else ""


def banner(view: RunView, now: datetime, width: int, glyphs: Glyphs, *, tall: bool = True) -> list[Line]:
    """Whether the run is locked and by which line, and the newest number that still is evidence.

    Two lines for a run that is not locked, five for a locked one; three with `tall` off, for small screens.
    """
    evidence = _evidence(view, width, glyphs)
    if not view.run.locked:
        return [_open(view, width, glyphs), evidence]
    lines = [_locked(view, width, glyphs)]
    fault = view.first_fault
    if fault is None:
        lines.append(Builder(width, glyphs).add("  the first fault is not in the store's answer yet", "banner").line())
        return [*lines, evidence]
    ago = age(fault.event_at or fault.observed_at, now)
    seen = ago if ago in {"now", "unknown"} else f"{ago} ago"
    kind, *rest = fault_words(fault)
    what = Builder(width, glyphs).add(f"  first fault: {kind}", "banner")
    for word in reversed(rest) if width < 100 else rest:  # step, pid and rank tell more than the severity
        what.add_if_fits(f", {word}", "banner")
    what.right(seen, "banner")
    place = clip_left(clean(fault.place, glyphs), max(10, width - 4), glyphs.ellipsis)
    where = Builder(width, glyphs).add("  " + place, "locked").line()
    text = Builder(width, glyphs).add("  " + first_line(fault.text or fault.raw), "dim").line()
    return [*lines, what.line(), where, text, evidence] if tall else [*lines, where, evidence]


def _evidence(view: RunView, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs)
    record = view.newest_evidence
    if record is None:
        if not view.counted.complete:
            return (
                b.add("  no number that is evidence is found yet", "stale")
                .add_if_fits(f"; {counting(view.counted)}", "stale")
                .line()
            )
        b.add("  no number of this run is evidence", "stale")
        if any(m.scope == "run" and m.verdict == "inconclusive" and not m.retracted for m in view.marks):
            b.add_if_fits("; the run is marked inconclusive", "suspect")
        return b.line()
    b.add("  newest evidence: ", "head")
    b.add("step unknown" if record.step is None else f"step {record.step}", "text")
    metric, value = f"{record.metric or 'metric unknown'} ", number(record.value)
    fits = width_of(clean(metric, glyphs)) + width_of(value) + 2 <= b.room  # the number goes before its name
    b.add(f"  {metric}{value}" if fits else f"  {value}", "admissible")
    if record.noise_ratio is not None:
        b.add_if_fits(f"  {record.noise_ratio:.3g}x noise", "text")
    if b.room >= _PLACE:
        b.add("  ").add(clip_left(clean(record.place, glyphs), b.room, glyphs.ellipsis), "dim")
    return b.line()


def _locked(view: RunView, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(f"{glyphs.locked} LOCKED", "locked").add(f" attempt {view.run.attempt}", "banner")
    late, unknown = view.count("locked", "after the fault"), view.count("locked", "order unknown")
    said = f": {some(late, 'record')} after the fault, {count(unknown)} order unknown"
    suspect = f", {count(view.count('suspect'))} suspect"
    if width_of(said + suspect) > b.room:
        said = f": {count(view.count('locked'))} locked"
    b.add_if_fits(said, "banner").add_if_fits(suspect, "suspect")
    if not view.counted.complete:
        b.add_if_fits(", counting ...", "stale")
    return b.line()


def _open(view: RunView, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(f"{glyphs.admissible} not locked", "ok")
    watched = view.sources.watched
    if view.faults_total:
        which = f" attempt {view.run.attempt}" if view.run.attempt > 1 else ""
        none = "it does not lock" if view.faults_total == 1 else "none of them locks"
        b.add_if_fits(f": {some(view.faults_total, 'fault line')}, {none}{which}", "suspect")
    elif watched:
        b.add_if_fits(f": no confirmed fault in {some(watched, 'source')} watched", "text")
    else:
        b.add_if_fits(": nothing is watched", "stale").add_if_fits(" for this run, so this shows nothing", "stale")
    attempts = sorted({s.attempt for s in view.standings} - {view.run.attempt})
    if older := [a for a in attempts if view.count("locked", attempt=a)]:
        b.add_if_fits(f"; attempt {', '.join(map(str, older))} is locked", "locked")
    if view.sources.unreadable:
        b.add_if_fits(f"; {some(view.sources.unreadable, 'source')} unreadable", "gap")
    return b.line()
