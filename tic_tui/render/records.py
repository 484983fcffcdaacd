"""Lines for mismatch records, faults and marks."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import Fault, Mark, Mismatch
from tic_tui.render.banner import first_line
from tic_tui.render.columns import STANDING_CELLS, Column, Columns
from tic_tui.render.text import Builder, Line, short

# In the order in which they stand. Narrow tables lose those with the largest `least` first; the reason takes what is
# left. Step, value and standing stay to the end.
COLUMNS: Final = Columns(
    (
        Column("run", 14, 50, "run_id"),
        Column("step", 7, 0, "step", right=True),
        Column("value", 10, 0, "value", right=True),
        Column("x noise", 8, 60, "noise_ratio", right=True),
        Column("metric", 15, 70, "metric"),
        Column("phase", 8, 92, "phase"),
        Column("rank", 5, 100, "rank", right=True),
        Column("policy", 10, 130, "policy"),
        Column("scope", 11, 145, "scope"),
        Column("weights", 10, 160, "weight_phase"),
        Column("graph", 18, 180, "graph_mode"),
    ),
    rest="why it is no evidence",
)


def standing(record: Mismatch, glyphs: Glyphs) -> tuple[str, str]:
    """(glyph and word, tone). Evidence is said only where the view says `is_evidence`."""
    if record.is_evidence:
        return f"{glyphs.admissible} evidence", "admissible"
    if record.admissibility == "admissible":
        return f"{glyphs.mark} marked" if record.marked else f"{glyphs.unknown} no evid.", "dim"
    tone = str(record.admissibility) if record.admissibility in {"locked", "suspect"} else "suspect"
    return f"{glyphs.admissibility(record.admissibility)} {record.admissibility}", tone


def mismatch_row(
    record: Mismatch, width: int, glyphs: Glyphs, *, selected: bool, all_runs: bool = False
) -> Line:  # fmt: skip
    """One record. Its number is plain only if it is evidence; else it is in brackets, in the tone of its standing."""
    word, tone = standing(record, glyphs)
    step = "?" if record.step is None else f"{record.step}{'+' if record.step_carried else ''}"
    value = short(record.value)
    ratio = "-" if record.noise_ratio is None else f"{record.noise_ratio:.3g}"
    texts = {
        "run": record.run_id,
        "step": step,
        "value": value if record.is_evidence else f"[{value}]",
        "x noise": "floor 0" if record.self_repeat == 0 else ratio,
        "metric": record.metric or "unknown",
        "phase": record.phase or "unknown",
        "rank": "?" if record.rank in {None, ""} else record.rank,
        "policy": record.policy or "unknown",
        "scope": record.scope or "unknown",
        "weights": record.weight_phase or "unknown",
        "graph": record.graph_mode or "unknown",
    }
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    for c in COLUMNS.fitting(width, all_runs=all_runs):
        # Only evidence has a number in colour; the standing beside it says in colour why another has not.
        plain = c.name in {"step", "metric", "run"}
        cell_tone = "text" if plain else "admissible" if c.name == "value" and record.is_evidence else "dim"
        b.cell(texts[c.name], c.cells, cell_tone, right=c.right)
    b.cell(word, STANDING_CELLS, tone)
    if record.provisional:
        b.add_if_fits("still open  ", "stale")
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
    b.cell(f"{sign} {word}", STANDING_CELLS, tone)
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
