"""Findings of the weights' lifecycle: what is wrong, in words, of which process, over which steps."""

from __future__ import annotations

from datetime import datetime

from tic_tui.age import age
from tic_tui.execution import Finding
from tic_tui.glyphs import Glyphs
from tic_tui.render.text import Builder, Line


def steps(finding: Finding) -> str:
    """The steps that it touches: "steps 12-14", "from step 12 on", "step 12", "steps unknown"."""
    first, last = finding.first_step, finding.last_step
    if first is None:
        return "steps unknown"
    if last is None:
        return f"from step {first} on"
    return f"step {first}" if first == last else f"steps {first}-{last}"


def row(finding: Finding, now: datetime, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One finding; it holds until the log shows that it is over."""
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(f"{glyphs.suspect} finding", 11, "suspect").cell(str(finding.kind).replace("_", " "), 22, "suspect")
    if width >= 60:
        b.cell(steps(finding), 16)
    if width >= 90:
        who = f"rank {finding.rank}" if finding.rank is not None else f"pid {finding.pid or 'unknown'}"
        b.cell(who, 12, "dim")
    if width >= 70:
        b.cell(age(finding.from_at or finding.observed_at, now), 7, "dim")
    return b.add(finding.detail, "dim").line()
