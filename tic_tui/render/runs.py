"""Screen 1: one line a run. Narrow screens lose columns in a stated order, never in the middle of a word:

what is late in words, the last checkpoint, ranks, metric name, findings, rate, attempt, marks, faults, lamps, step,
age.
State, lock, run and the newest number stay to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.evidence_model import Lamp
from tic_tui.glyphs import Glyphs
from tic_tui.model import Facts, Mismatch, Run
from tic_tui.render import lamps
from tic_tui.render.liveness import late, per_step, tone_of
from tic_tui.render.text import Builder, Line, clean, count, short, width_of

_LOCK: Final = 9
# (name, cells, dropped below this width)
_COLUMNS: Final = (
    ("age", 7, 50), ("step", 7, 58), ("lamps", 3, 66), ("faults", 6, 74), ("marks", 6, 88), ("att", 4, 92),
    ("rate", 11, 104), ("wrong", 8, 112), ("metric", 15, 134), ("ranks", 9, 144), ("saved", 10, 156), ("late", 34, 186),
)  # fmt: skip
_VALUE: Final = 16


def has(name: str, width: int) -> bool:
    """Whether a column is shown at this width."""
    return any(width >= least for column, _, least in _COLUMNS if column == name)


def state_width(runs: Iterable[Run]) -> int:
    """Cells for the state: a glyph, a blank, and the longest word that is there (of the view's, "unreadable")."""
    return 2 + min(10, max((len(r.state) for r in runs), default=6))


def _value_width(width: int) -> int:
    return _VALUE if width >= 50 else 10


def run_width(width: int, state: int) -> int:
    """Cells for the run's name, beside a state column of `state` cells."""
    others = sum(cells + 1 for _, cells, least in _COLUMNS if width >= least)
    return max(4, width - 2 - state - 1 - _LOCK - 1 - _value_width(width) - others - 1)


def standing(run: Run, newest: Mismatch | None) -> tuple[str, str]:
    """(word, tone) of a run: locked, suspect, ok, or no data. The words come from the views."""
    if run.locked:
        return "locked", "locked"
    if newest is None:
        return "no data", "dim"
    if newest.admissibility == "suspect":
        return "suspect", "suspect"
    return ("ok", "ok") if newest.admissibility == "admissible" else (newest.admissibility, "suspect")


def value_text(record: Mismatch | None, *, ratio: bool = True) -> str:
    """The newest number with its ratio to the noise floor; a number that is no evidence is in brackets."""
    if record is None:
        return "-"
    value = short(record.value)
    if ratio and record.noise_ratio is not None:
        value += f" {record.noise_ratio:.3g}x"
    elif ratio and record.self_repeat == 0:
        value += " floor 0"
    return value if record.is_evidence else f"[{value}]"


def header(width: int, state: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = Builder(width, glyphs).add("  ", "head").cell("state", state, "head")
    b.cell("lock", _LOCK, "head")
    if has("lamps", width):
        b.cell(lamps.HEAD, 3, "head")
    b.cell("run", run_width(width, state), "head")
    if has("att", width):
        b.cell("att", 4, "head", right=True)
    if has("step", width):
        b.cell("step", 7, "head", right=True)
    if has("metric", width):
        b.cell("metric", 15, "head")
    b.cell("newest, x noise" if width >= 50 else "newest", _value_width(width), "head")
    if has("faults", width):
        b.cell("faults", 6, "head", right=True)
    if has("wrong", width):
        b.cell("findings", 8, "head", right=True)
    if has("marks", width):
        b.cell("marked", 6, "head")
    if has("rate", width):
        b.cell("rate", 11, "head", right=True)
    if has("ranks", width):
        b.cell("watched", 9, "head", right=True)
    if has("saved", width):
        b.cell("checkpoint", 10, "head", right=True)
    if has("age", width):
        b.cell("age", 7, "head")
    if has("late", width):
        b.add("newest number", "head")
    return b.line()


def row(
    run: Run, newest: Mismatch | None, now: datetime, width: int, glyphs: Glyphs, *, state: int, selected: bool,
    facts: Facts | None = None, lit: Sequence[Lamp] | None = None,
) -> Line:  # fmt: skip
    """One run; `state` is the width of the state column, `lit` are its lamps; None: not read yet."""
    word, tone = standing(run, newest)
    sign = {"locked": glyphs.locked, "suspect": glyphs.suspect, "ok": glyphs.admissible}.get(word, glyphs.unknown)
    slow = late(newest.observed_at if newest is not None else None, run, facts, now)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(f"{glyphs.state(run.state)} {run.state}", state, tone_of(run.state))
    b.cell(f"{sign} {word}", _LOCK, tone)
    if has("lamps", width):
        lamps.signs(b, lit, glyphs)
    b.cell(run.run_id, run_width(width, state), "title" if selected else "text")
    if has("att", width):
        b.cell(f"#{run.attempt}", 4, "dim", right=True)
    if has("step", width):
        b.cell("unknown" if run.last_step is None else run.last_step, 7, right=True)
    if has("metric", width):
        b.cell((newest and newest.metric) or "-", 15, "dim")
    b.cell(value_text(newest, ratio=width >= 50), _value_width(width), number_tone(newest))
    if has("faults", width):
        text = f"{glyphs.fault} {count(run.faults)}" if run.faults else "0"
        b.cell(text, 6, "locked" if run.locked else "suspect" if run.faults else "dim", right=True)
    if has("wrong", width):
        wrong = facts.findings if facts is not None else 0
        b.cell(f"{glyphs.suspect} {count(wrong)}" if wrong else "0", 8, "suspect" if wrong else "dim", right=True)
    if has("marks", width):
        b.cell(f"{glyphs.mark} yes" if run.marked else "-", 6, "suspect" if run.marked else "dim")
    if has("rate", width):
        b.cell(per_step(facts.steps_per_s if facts is not None else None), 11, "dim", right=True)
    if has("ranks", width):
        b.cell(*_ranks(facts), right=True)
    if has("saved", width):
        saved = facts.checkpoint_at if facts is not None else None
        b.cell("-" if saved is None else age(saved, now), 10, "dim", right=True)
    if has("age", width):
        old = age(run.last_observed_at, now)
        b.cell(old, 7, "stale" if slow else "dim")
    if has("late", width):
        b.add(slow or "-", "stale" if slow else "dim")
    return b.line()


def _ranks(facts: Facts | None) -> tuple[str, int, str]:
    """(text, cells, tone) of how many ranks are watched of how many that are known of."""
    if facts is None or not facts.ranks_expected:
        return "-", 9, "dim"
    full = facts.ranks_watched >= facts.ranks_expected
    return f"{facts.ranks_watched} of {facts.ranks_expected}", 9, "dim" if full else "stale"


def number_tone(record: Mismatch | None) -> str:
    """The tone of a number: only evidence is plain."""
    if record is None:
        return "dim"
    if record.is_evidence:
        return "admissible"
    return record.admissibility if record.admissibility in {"locked", "suspect"} else "dim"


def empty(read: bool, trouble: str, target: str, width: int, glyphs: Glyphs) -> list[Line]:
    """What stands there without any run: nothing was read yet, cannot be read, or there is none."""
    if not read and trouble:
        lines = ["  cannot be read", f"  {trouble}", "", f"  store: {target}", "  it is tried again by itself"]
        return [Builder(width, glyphs).add(text, "gap" if n < 2 else "dim").line() for n, text in enumerate(lines)]
    if not read:
        return [Builder(width, glyphs).add("  reading the store ...", "dim").line()]
    lines = ["  no run yet", "", f"  store: {target}"]
    hint = "  a run shows as soon as the daemon has read a [mismatch] record, a step, a metric or a fault"
    if width_of(clean(hint)) <= width:
        lines.append(hint)
    return [Builder(width, glyphs).add(text, "dim").line() for text in lines]
