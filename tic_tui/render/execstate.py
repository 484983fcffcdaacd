"""The execution state strip: in which state the numbers are made, one line a role. What is not shown by any line is the
word unknown; a claim of a configuration is marked as one, because a configured mode need not be the one in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tic_tui.age import age
from tic_tui.execution import ExecField, WeightPhase
from tic_tui.glyphs import Glyphs
from tic_tui.model import RunView
from tic_tui.render.lifecycle import names
from tic_tui.render.text import Builder, Line, clean, some, width_of

_MOST: Final = 4
_AGES: Final = 100  # cells from which on a field that is older than its role says so
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
    """(text, known) of one field over a role's processes.

    The value that was observed; what was claimed beside it only where it differs, or where nothing was observed.
    Processes that differ are named, each with its value: states are never averaged or merged.
    """
    mine = [f for f in fields if f.field == name]
    observed: dict[str, list[ExecField]] = {}
    for f in mine:
        if f.observed and f.observed != "unknown":
            observed.setdefault(str(f.observed), []).append(f)
    claimed = sorted({str(f.claimed) for f in mine if f.claimed})
    if not observed:
        return (f"claimed {', '.join(claimed)}, not observed", False) if claimed else ("unknown", False)
    if len(observed) > 1:
        each = "; ".join(f"{value} {_who(held)}" for value, held in sorted(observed.items(), key=lambda i: -len(i[1])))
        return f"{len(observed)} differ: {each}", True
    value = next(iter(observed))
    other = [c for c in claimed if c != value]
    return (f"{value}, claimed {', '.join(other)}" if other else value), True


def _who(fields: Sequence[ExecField]) -> str:
    """The processes of a value: ranks, pids, or how many."""
    return names([(_role(f), f.rank, f.pid, str(f.host or ""), "") for f in fields])


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
    told = roles(view)
    if not told:
        b = Builder(width, glyphs).add(" state ", "head")
        return [b.add("unknown: no line told of graph mode, step kind, cache or weights", "dim").line()]
    table = [(role, _cells(view, role, now if width >= _AGES else None)) for role in told[:_MOST]]
    wide = [max(width_of(clean(cells[n][1], glyphs)) for _, cells in table) for n in range(len(_LABELS))]
    lines = []
    for role, cells in table:
        newest = _newest(f for f in view.exec_fields if _role(f) == role)
        ago = "" if newest is None else f"{age(newest, now)} "
        b = Builder(width, glyphs).add(" ").cell(role, 8, role if role in {"rollout", "trainer"} else "text")
        for (label, text, known), cell in zip(cells, wide, strict=True):
            room = b.room - len(label) - 4 - len(ago)
            if room < min(cell, 7):
                break
            b.add(f"{label} ", "head").cell(text, min(cell, room), "text" if known else "dim").add(" ")
        lines.append(b.right(ago, "dim").line())
    if len(told) > _MOST:
        lines.append(Builder(width, glyphs).add(f" and {some(len(told) - _MOST, 'more role')}", "dim").line())
    return lines


def _newest(fields: Iterable[ExecField]) -> datetime | None:
    return max((f.observed_at for f in fields if f.observed_at), default=None)


def _role(item: ExecField | WeightPhase) -> str:
    return str(item.role or "unknown")


def _cells(view: RunView, role: str, now: datetime | None) -> list[tuple[str, str, bool]]:
    """(label, text, known) of every column of one role; with `now` a value older than the role's newest has its age."""
    fields = [f for f in view.exec_fields if _role(f) == role]
    phase = phase_text(view.phases, role)
    made = {label: field_text(fields, name) for name, label in _FIELDS}
    for name, label in _FIELDS if now is not None else ():
        newest = _newest(f for f in fields if f.field == name)
        if now is not None and newest is not None and age(newest, now) != age(_newest(fields), now):
            made[label] = (f"{made[label][0]}, {age(newest, now)} old", made[label][1])
    made["weights"] = (phase, phase != "unknown")
    return [(label, *made[label]) for label in _LABELS]
