"""Lines for mismatch records, faults and marks."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, Mark, Mismatch
from tic_tui.render.banner import first_line
from tic_tui.render.text import Builder, Line, short

# (name, cells, dropped below this width); the reason takes what is left.
_COLUMNS: Final = (
    ("step", 7, 0), ("value", 10, 0), ("noise", 8, 60), ("metric", 15, 70), ("phase", 8, 92), ("rank", 4, 100),
    ("policy", 10, 130),
)  # fmt: skip
_STATE: Final = 12


def _shown(width: int) -> list[tuple[str, int]]:
    return [(name, cells) for name, cells, least in _COLUMNS if width >= least]


def mismatch_header(width: int, glyphs: Glyphs) -> Line:
    """Column names of the mismatch table."""
    b = Builder(width, glyphs).add("  ", "head")
    for name, cells in _shown(width):
        b.cell("x noise" if name == "noise" else name, cells, "head", right=name in {"step", "value", "noise", "rank"})
    return b.cell("standing", _STATE, "head").add("why it is no evidence", "head").line()


def standing(record: Mismatch, glyphs: Glyphs) -> tuple[str, str]:
    """(glyph and word, tone). Evidence is said only where the view says `is_evidence`."""
    if record.is_evidence:
        return f"{glyphs.admissible} evidence", "admissible"
    if record.admissibility == "admissible":
        return f"{glyphs.mark} marked" if record.marked else f"{glyphs.unknown} no evid.", "dim"
    tone = str(record.admissibility) if record.admissibility in {"locked", "suspect"} else "suspect"
    return f"{glyphs.admissibility(record.admissibility)} {record.admissibility}", tone


def mismatch_row(record: Mismatch, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One record. Its number is plain only if it is evidence; else it is in brackets, in the tone of its standing."""
    word, tone = standing(record, glyphs)
    step = "?" if record.step is None else f"{record.step}{'+' if record.step_carried else ''}"
    value = short(record.value)
    ratio = "-" if record.noise_ratio is None else f"{record.noise_ratio:.3g}"
    texts = {
        "step": step,
        "value": value if record.is_evidence else f"[{value}]",
        "noise": "floor 0" if record.self_repeat == 0 else ratio,
        "metric": record.metric or "unknown",
        "phase": record.phase or "unknown",
        "rank": "?" if record.rank in {None, ""} else record.rank,
        "policy": record.policy or "unknown",
    }
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    for name, cells in _shown(width):
        # Only evidence has a number in colour; the standing beside it says in colour why another has not.
        plain = name in {"step", "metric"}
        cell_tone = "text" if plain else "admissible" if name == "value" and record.is_evidence else "dim"
        b.cell(texts[name], cells, cell_tone, right=name in {"step", "value", "noise", "rank"})
    b.cell(word, _STATE, tone)
    if not record.is_evidence:
        why = str(record.not_evidence_because or record.reason or "reason unknown")
        b.add(why.removeprefix(f"{record.admissibility}: "), "dim")  # the column before says that word already
    return b.line()


def fault_row(fault: Fault, now: datetime, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One fault line: whether it acts, what it is, who wrote it."""
    locks = bool(fault.locks) and fault.verdict == "confirmed"
    tone = "locked" if locks else "suspect" if fault.verdict in {"confirmed", "suspect"} else "dim"
    sign = glyphs.locked if locks else glyphs.fault if tone == "suspect" else glyphs.unknown
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    word = "locks" if locks else str(fault.verdict)
    if fault.echo_of is not None:
        word = "echo"
    b.cell(f"{sign} {word}", _STATE, tone)
    b.cell(fault.kind, 26 if width >= 80 else 16, tone)
    b.cell("step ?" if fault.step is None else f"step {fault.step}", 9, "text")
    if width >= 60:
        b.cell("rank ?" if fault.rank is None else f"rank {fault.rank}", 8, "text")
    if width >= 100:
        b.cell("pid ?" if fault.pid is None else f"pid {fault.pid}", 12, "dim")
    if width >= 70:
        b.cell(age(fault.event_at or fault.observed_at, now), 7, "dim")
    return b.add(first_line(fault.text or fault.raw), "dim").line()


def mark_row(mark: Mark, now: datetime, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One mark: verdict, what it covers, who said it and why."""
    gone = mark.retracted or mark.verdict == "retract"
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(f"{glyphs.mark} {'retracted' if mark.retracted else mark.verdict}", 15, "dim" if gone else "suspect")
    scope = f"attempt {mark.attempt}" if mark.scope == "attempt" else str(mark.scope)
    b.cell(scope, 10, "text").cell(mark.who or "unknown", 10, "dim").cell(age(mark.marked_at, now), 7, "dim")
    return b.add(mark.reason, "dim" if gone else "text").line()
