"""How a run goes on: its rate, what moved last, how many of its ranks are watched, and a value that is late."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import Facts, Run
from tic_tui.render.text import Builder, Line, clean, width_of

_LATE: Final = 3.0  # usual intervals without a new value
_LEAST_S: Final = 30.0  # a value younger than this is never late
_MOVING: Final = frozenset({"moving", "quiet", "silent"})


def per_step(per_s: float | None) -> str:
    """A rate of steps in at most ten cells: 12 s/step, 3.4 min/step, 2.5/s; the word unknown."""
    if per_s is None or per_s <= 0:
        return "unknown"
    if per_s > 1:
        return f"{per_s:.3g}/s"
    seconds = 1 / per_s
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}/step"
    return f"{seconds:.3g} s/step"


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def late(at: datetime | None, run: Run, facts: Facts | None, now: datetime) -> str:
    """ "5 min old, usually one in 12 s" for a value that is older than its usual interval; else ""."""
    if at is None or facts is None or not facts.steps_per_s or run.state not in _MOVING:
        return ""
    old = (now - (at if at.tzinfo else at.replace(tzinfo=UTC))).total_seconds()
    usual = 1 / facts.steps_per_s
    return f"{age(at, now)} old, usually one in {_span(usual)}" if old > max(_LATE * usual, _LEAST_S) else ""


def line(run: Run, facts: Facts, newest: datetime | None, now: datetime, width: int, glyphs: Glyphs) -> Line:
    """One line: what moved last and when, the rate, the ranks; and what is late, in words."""
    b = Builder(width, glyphs).add(f" {glyphs.state(run.state)} {run.state}", tone_of(run.state))
    step = "step unknown" if run.last_step is None else f"step {run.last_step}"
    b.add_if_fits(f"  {step}", "text").add_if_fits(f"  {_rate(facts)}", "text")
    if slow := late(newest, run, facts, now):
        b.add_if_fits(f"  newest number {slow}", "stale")
    why = f"  {facts.why}" if facts.verdict not in {"", "moving"} and facts.why else ""
    if why and width_of(clean(why, glyphs)) <= b.room:
        b.add(why, "dim" if facts.verdict == "ended" else "stale")
    elif facts.moved_last and facts.moved_last != "nothing":
        b.add_if_fits(f"  {facts.moved_last} moved last, {age(facts.moved_at, now)}", "dim")
    if facts.checkpoint_at is not None:
        b.add_if_fits(f"  checkpoint {ago(facts.checkpoint_at, now)}", "dim")
    _uploader(b, facts, now)
    if facts.coverage:
        full = facts.ranks_watched >= facts.ranks_expected
        b.add_if_fits(f"  {facts.coverage}", "dim" if full else "stale")
    return b.line()


def _uploader(b: Builder, facts: Facts, now: datetime) -> None:
    """What the W&B client told of its uploads last, and how many gaps its history has."""
    gaps = f"{facts.gaps} W&B {'gap' if facts.gaps == 1 else 'gaps'}" if facts.gaps else ""
    told = f"uploader {facts.uploader} {ago(facts.uploader_at, now)}" if facts.uploader else ""
    if text := ", ".join(filter(None, (told, gaps))):
        b.add_if_fits(f"  {text}", "gap" if facts.uploader == "dead" or facts.gaps else "dim")


def ago(at: datetime | None, now: datetime) -> str:
    """An age as a phrase: now, 5 min ago, unknown."""
    old = age(at, now)
    return old if old in {"now", "unknown"} else f"{old} ago"


def about(run: Run, facts: Facts, now: datetime, width: int, glyphs: Glyphs) -> Line:
    """Below the list of runs: how the chosen one goes on and why that is said, and its last checkpoint."""
    b = Builder(width, glyphs).add(f" {glyphs.state(run.state)} {facts.verdict or run.state}", tone_of(run.state))
    saved = f"  last checkpoint {ago(facts.checkpoint_at, now)}" if facts.checkpoint_at is not None else ""
    why = f": {facts.why}" if facts.why else ""
    clauses = why.split("; ")
    while len(clauses) > 1 and width_of(clean("; ".join(clauses), glyphs)) > b.room:  # whole clauses go, the last first
        clauses.pop()
    b.add("; ".join(clauses), "text").add_if_fits(saved, "dim")
    _uploader(b, facts, now)
    return b.line()


def _rate(facts: Facts) -> str:
    known = per_step(facts.steps_per_s)
    return "rate unknown" if known == "unknown" else known


def tone_of(state: str) -> str:
    """The tone of a run's state."""
    return {"moving": "ok", "unreadable": "gap", "silent": "stale", "ended": "dim"}.get(state, "text")
