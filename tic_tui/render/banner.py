"""The lock banner: whether the run's numbers can still be evidence, and which line decided it."""

from __future__ import annotations

from datetime import datetime

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, Lock, RunView
from tic_tui.render.text import Builder, Line, clip_left, count
from tic_tui.safe import safe_lines


def fault_words(fault: Fault) -> str:
    """Kind, rank, pid, step of a fault; what is unknown is left out here and shown in its details."""
    words = [str(fault.kind)]
    if fault.severity:
        words.append(f"severity {fault.severity}")
    if fault.rank is not None and fault.rank != "":
        words.append(f"rank {fault.rank}")
    if fault.pid is not None:
        words.append(f"pid {fault.pid}")
    words.append("step unknown" if fault.step is None else f"step {fault.step}")
    return ", ".join(words)


def first_line(text: str) -> str:
    """The first line of a fault's text, safe."""
    lines = safe_lines(text)
    return str(lines[0]) if lines else ""


def banner(view: RunView, now: datetime, width: int, glyphs: Glyphs) -> list[Line]:
    """One line for a run that is not locked; three or four for a locked one."""
    lock = next((k for k in view.locks if k.attempt == view.run.attempt), None)
    if lock is None and not view.run.locked:
        return [_open(view, width, glyphs)]
    lines = [_locked(view, lock, width, glyphs)]
    fault = view.first_fault
    if fault is None:
        lines.append(Builder(width, glyphs).add("  the first fault is not in the store's answer yet", "banner").line())
        return lines
    seen = f"{age(fault.event_at or fault.observed_at, now)} ago" if fault.event_at or fault.observed_at else ""
    seen = "now" if seen == "now ago" else seen
    lines.append(Builder(width, glyphs).add(f"  first fault: {fault_words(fault)}", "banner").right(seen, "banner").line())
    place = clip_left(fault.place, max(10, width - 4), glyphs.ellipsis)
    lines.append(Builder(width, glyphs).add("  " + place, "locked").line())
    lines.append(Builder(width, glyphs).add("  " + first_line(fault.text), "dim").line())
    return lines


def _locked(view: RunView, lock: Lock | None, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(f"{glyphs.locked} LOCKED", "locked").add(f" attempt {view.run.attempt}", "banner")
    if lock is None:
        return b.add(": later numbers are no evidence", "banner").line()
    b.add(f": {count(lock.locked_after)} records after the fault", "banner")
    b.add(f", {count(lock.locked_order_unknown)} order unknown", "banner")
    return b.add(f", {count(lock.suspect)} suspect", "suspect").line()


def _open(view: RunView, width: int, glyphs: Glyphs) -> Line:
    b = Builder(width, glyphs).add(f"{glyphs.admissible} not locked", "ok")
    watched = view.sources.watched
    if view.faults_total:
        b.add(f": {count(view.faults_total)} fault lines, none of them locks", "suspect")
    elif watched:
        b.add(f": no confirmed fault in the {count(watched)} sources watched", "text")
    else:
        b.add(": nothing is watched for this run, so this shows nothing", "stale")
    older = [k.attempt for k in view.locks if k.attempt != view.run.attempt]
    if older:
        b.add(f"; attempt {', '.join(str(a) for a in sorted(older))} is locked", "locked")
    if view.sources.unreadable:
        b.add(f"; {view.sources.unreadable} sources unreadable", "gap")
    return b.line()
