"""The execution state strip: in which state the numbers are made, one line a role. What is not shown by any line is the
word unknown; a claim of a configuration is marked as one, because a configured mode need not be the one in use."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import ExecField, RunView, WeightPhase
from tic_tui.render.text import Builder, Line

_FIELDS: Final = (
    ("graph_mode", "graph"), ("step_kind", "step"), ("prefix_cache", "prefix cache"), ("prefix_hit_rate", "hit"),
)  # fmt: skip


def roles(view: RunView) -> list[str]:
    """The roles that anything is known of, rollout and trainer first."""
    found = {str(f.role or "unknown") for f in view.exec_fields} | {str(p.role or "unknown") for p in view.phases}
    first = [r for r in ("rollout", "trainer") if r in found]
    return first + sorted(found - set(first) - {"unknown"}) + (["unknown"] if "unknown" in found else [])


def field_text(fields: Iterable[ExecField], name: str) -> tuple[str, bool]:
    """(text, known) of one field over a role's processes: the observed values, else the claimed ones, else unknown.

    Processes that differ are all named, with how many hold each value: states are never averaged or merged.
    """
    mine = [f for f in fields if f.field == name]
    observed: dict[str, int] = {}
    for f in mine:
        if f.observed:
            observed[str(f.observed)] = observed.get(str(f.observed), 0) + 1
    if len(observed) == 1:
        return next(iter(observed)), True
    if observed:
        return " ".join(f"{value}({n})" for value, n in sorted(observed.items(), key=lambda i: -i[1])), True
    claimed = sorted({str(f.claimed) for f in mine if f.claimed})
    return (f"unknown (claimed {', '.join(claimed)})", False) if claimed else ("unknown", False)


def phase_text(phases: Iterable[WeightPhase], role: str) -> str:
    """The weights' phase of a role: residency, then version."""
    mine = {str(p.track): p for p in phases if str(p.role or "unknown") == role}
    words = []
    if "residency" in mine:
        words.append(str(mine["residency"].phase))
    if "version" in mine:
        version = mine["version"].version
        words.append(str(mine["version"].phase) + (f" v{version}" if version else ""))
    return ", ".join(words) or "unknown"


def strip(view: RunView, now: datetime, width: int, glyphs: Glyphs) -> list[Line]:
    """One line a role, at most four; a fifth says how many more there are."""
    names = roles(view)
    if not names:
        b = Builder(width, glyphs).add("state ", "head")
        return [b.add("unknown: no line told of graph mode, step kind, cache or weights", "dim").line()]
    lines = []
    for role in names[:4]:
        fields = [f for f in view.exec_fields if str(f.role or "unknown") == role]
        tone = role if role in {"rollout", "trainer"} else "text"
        b = Builder(width, glyphs).cell(role, 8, tone)
        parts = [(label, *field_text(fields, name)) for name, label in _FIELDS]
        parts.insert(3, ("weights", phase_text(view.phases, role), phase_text(view.phases, role) != "unknown"))
        for n, (label, text, known) in enumerate(parts):
            lead = "" if n == 0 else "  "
            if len(lead) + len(label) + 1 + len(text) > b.room:
                break
            b.add(f"{lead}{label} ", "head").add(text, "text" if known else "dim")
        newest = max((f.observed_at for f in fields if f.observed_at is not None), default=None)
        if newest is not None:
            b.right(age(newest, now), "dim")
        lines.append(b.line())
    if len(names) > 4:
        lines.append(Builder(width, glyphs).add(f"and {len(names) - 4} more roles", "dim").line())
    return lines
