"""The execution state strip: in which state the numbers are made, one line a role. What is not shown by any line is the
word unknown; a claim of a configuration is marked as one, because a configured mode need not be the one in use."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.glyphs import Glyphs
from tic_tui.model import ExecField, RunView, WeightPhase
from tic_tui.render.text import Builder, Line, clean, some, width_of

_MOST: Final = 4
_LABELS: Final = ("graph", "step kind", "prefix cache", "weights", "hit rate")
_FIELDS: Final = (
    ("graph_mode", "graph"), ("step_kind", "step kind"), ("prefix_cache", "prefix cache"),
    ("prefix_hit_rate", "hit rate"),
)  # fmt: skip


def roles(view: RunView) -> list[str]:
    """The roles that anything is known of, rollout and trainer first."""
    found = {_role(f) for f in view.exec_fields} | {_role(p) for p in view.phases}
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


def at_fault(state: Iterable[tuple[str, str]]) -> str:
    """The state in which a fault happened, as its own log had shown it before: graph FULL  step kind unknown ..."""
    seen = dict(state)
    labels = dict(_FIELDS) | {"weight_phase": "weights"}
    return "  ".join(f"{label} {seen.get(name) or 'unknown'}" for name, label in labels.items())


def phase_text(phases: Iterable[WeightPhase], role: str) -> str:
    """The weights' phase of a role: residency, then version."""
    mine = {str(p.track): p for p in phases if _role(p) == role}
    words = []
    if "residency" in mine:
        words.append(str(mine["residency"].phase))
    if "version" in mine:
        version = mine["version"].version
        words.append(str(mine["version"].phase) + (f" v{version}" if version else ""))
    return ", ".join(words) or "unknown"


def strip(view: RunView, now: datetime, width: int, glyphs: Glyphs) -> list[Line]:
    """One line a role, at most four, in columns; a fifth says how many more there are."""
    names = roles(view)
    if not names:
        b = Builder(width, glyphs).add(" state ", "head")
        return [b.add("unknown: no line told of graph mode, step kind, cache or weights", "dim").line()]
    table = [(role, _cells(view, role)) for role in names[:_MOST]]
    wide = [max(width_of(clean(cells[n][1], glyphs)) for _, cells in table) for n in range(len(_LABELS))]
    lines = []
    for role, cells in table:
        b = Builder(width, glyphs).add(" ").cell(role, 8, role if role in {"rollout", "trainer"} else "text")
        for (label, text, known), cell in zip(cells, wide, strict=True):
            room = b.room - len(label) - 1
            if room < min(cell, 7):
                break
            b.add(f"{label} ", "head").cell(text, min(cell, room), "text" if known else "dim").add(" ")
        newest = max((f.observed_at for f in view.exec_fields if _role(f) == role and f.observed_at), default=None)
        if newest is not None:
            b.right(age(newest, now) + " ", "dim")
        lines.append(b.line())
    if len(names) > _MOST:
        lines.append(Builder(width, glyphs).add(f" and {some(len(names) - _MOST, 'more role')}", "dim").line())
    return lines


def _role(item: ExecField | WeightPhase) -> str:
    return str(item.role or "unknown")


def _cells(view: RunView, role: str) -> list[tuple[str, str, bool]]:
    """(label, text, known) of every column of one role."""
    fields = [f for f in view.exec_fields if _role(f) == role]
    phase = phase_text(view.phases, role)
    made = {label: field_text(fields, name) for name, label in _FIELDS}
    made["weights"] = (phase, phase != "unknown")
    return [(label, *made[label]) for label in _LABELS]
