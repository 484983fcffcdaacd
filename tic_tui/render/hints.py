"""Lines of hints: which experiment comes first, the handling order, and where traces begin to differ, layer by layer.

Everything here is called a hint: it proves no cause, and no gate reads it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tic_tui.evidence_model import FirstDivergence, HintsView
from tic_tui.glyphs import Glyphs
from tic_tui.render.chrome import panel_head
from tic_tui.render.comparison import field, listed
from tic_tui.render.text import Builder, Line, clean, count, short


def lines(view: HintsView, width: int, glyphs: Glyphs) -> list[Line]:
    """The hints of a run."""
    blank = Builder(width, glyphs).line()
    if view.trouble:
        return [Builder(width, glyphs).add(f"  no hint: {view.trouble}", "stale").line()]
    found: list[Line] = []
    if view.next_probe:
        found += field("hint, try next", view.next_probe, width, glyphs, "title")
    if view.stuck:
        found += field("no new ground", view.stuck, width, glyphs, "stale")
    for hint in view.hints:
        found += [blank] if found else []
        found += field("hint", hint.says, width, glyphs, "title")
        found += field("  seen", hint.seen, width, glyphs)
        found += field("  first step", hint.first_step, width, glyphs)
        found += field("  probe", hint.probe, width, glyphs)
    if not view.hints:
        found += [Builder(width, glyphs).add("  no pattern: nothing that was compared differs", "dim").line()]
    found += [blank, panel_head("handling order", "each ruled out before the next", width, glyphs)]
    for n, one in enumerate(view.order, start=1):
        word, tone = order_state(str(one.state), glyphs)
        parts = textwrap.wrap(clean(one.why, glyphs), max(8, width - 32), break_on_hyphens=False) or [""]
        for at, part in enumerate(parts):
            b = Builder(width, glyphs).add("  ").cell("" if at else f"{n} {one.name}", 12, "title")
            found.append(b.cell("" if at else word, 14, tone).add(part, "dim").line())
    if view.ruled_out:
        found += [blank, panel_head("ruled out", count(len(view.ruled_out)), width, glyphs)]
        found += listed(view.ruled_out, width, glyphs)
    return found


def order_state(state: str, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and words, tone)."""
    known = {
        "ruled out": (glyphs.admissible, "ok"),
        "suspected": (glyphs.unreadable, "suspect"),
        "open": (glyphs.silent, "text"),
        "not reached": (glyphs.unknown, "dim"),
    }
    sign, tone = known.get(state, (glyphs.suspect, "suspect"))
    return f"{sign} {state}", tone


# --- first divergence by layer ---


def by_boundary(rows: Sequence[FirstDivergence]) -> str:
    """ "layers.3.attn 2, no probe differs 1": where the traces begin to differ, and how many each."""
    found: dict[str, int] = {}
    for one in sorted(rows, key=lambda row: (row.execution_order is None, row.execution_order or 0)):
        name = str(one.boundary) if one.boundary else "no probe differs"
        found[name] = found.get(name, 0) + 1
    return ", ".join(f"{name} {count(number)}" for name, number in found.items())


def divergence_header(width: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = (
        Builder(width, glyphs)
        .add("  ", "head")
        .cell("step", 6, "head", right=True)
        .cell("begins at", _name(width), "head")
    )
    if width >= 60:
        b.cell("order", 6, "head", right=True).cell("input", 10, "head")
    if width >= 90:
        b.cell("operator", 16, "head").cell("max", 9, "head", right=True)
    if width >= 110:
        b.cell("last equal", 22, "head")
    return b.add_if_fits("probes that differ", "head").line()


def _name(width: int) -> int:
    return 28 if width >= 76 else 20


def divergence_row(one: FirstDivergence, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One comparison of traces: where it begins to differ."""
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell("?" if one.step is None else one.step, 6, right=True)
    where = f"{one.boundary}{f' {one.slice}' if one.slice else ''}" if one.boundary else "no probe differs"
    if one.probes == 0:
        where = "no probe"
    b.cell(where, _name(width), "title" if selected else "text" if one.boundary else "dim")
    if width >= 60:
        b.cell("-" if one.execution_order is None else one.execution_order, 6, "dim", right=True)
        b.cell(one.input_state or "-", 10, "suspect" if one.input_state == "equal" and one.boundary else "dim")
    if width >= 90:
        b.cell(one.operator or "-", 16, "dim").cell(
            "-" if one.max_abs is None else short(one.max_abs), 9, "dim", right=True
        )
    if width >= 110:
        b.cell(one.last_equal_boundary or "-", 22, "dim")
    differ, of = ("?" if number is None else count(number) for number in (one.probes_differing, one.probes))
    said = f"{differ} of {of}"
    if one.admissibility != "admissible":
        said += f"; {one.admissibility or 'standing unknown'}"
    return b.add(said, "dim").line()
