"""Lines of criteria, baselines and case records: one list, and each in full."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tic_tui.age import age, day_and_clock
from tic_tui.evidence_model import Baseline, Case, CasesView, Criterion, Record
from tic_tui.glyphs import Glyphs
from tic_tui.render.cell import threshold
from tic_tui.render.chrome import panel_head
from tic_tui.render.comparison import field, listed, path
from tic_tui.render.text import Builder, Line, some
from tic_tui.safe import safe_lines

PARTS: Final = (
    ("contract", "contract"),
    ("counterexample", "counterexample"),
    ("experiment", "experiment"),
    ("fix", "cause and fix"),
    ("regression", "regression"),
    ("scope", "scope, source"),
)
NOT_SHOWN: Final = "not shown"


def key_of(one: Record) -> tuple[str, str]:
    """What it is known by while it changes."""
    if isinstance(one, Criterion):
        return "criterion", str(one.criterion_id)
    return ("baseline" if isinstance(one, Baseline) else "case"), str(one.name)


def header(width: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = Builder(width, glyphs).add("  ", "head").cell("kind", 9, "head").cell("name", _name(width), "head")
    b.cell("state", 17, "head")
    if width >= 70:
        b.cell("age", 6, "head")
    return b.add_if_fits("what it says", "head").line()


def _name(width: int) -> int:
    return 20 if width >= 100 else 14 if width >= 70 else 12


def row(one: Record, now: datetime, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One of them."""
    kind, _ = key_of(one)
    state, tone, name, at, said = _cells(one, glyphs)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(kind, 9, "head").cell(name, _name(width), "title" if selected else "text").cell(state, 17, tone)
    if width >= 70:
        b.cell(age(at, now), 6, "dim")
    return b.add(said, "dim").line()


def _cells(one: Record, glyphs: Glyphs) -> tuple[str, str, str, datetime, str]:
    """(state, its tone, name, when, what it says)."""
    if isinstance(one, Criterion):
        force = str(one.state) == "in force"
        sign = glyphs.admissible if force else glyphs.ended
        place = f"{one.gate}/{one.cell or 'each version'}" if one.gate else "for no cell"
        planted = f"planted: {one.planted}" if one.planted else "no planted error"
        said = f"{threshold(one)}; {place}; {planted}"
        return f"{sign} {one.state}", "ok" if force else "stale", one.criterion_id[:12], one.frozen_at, said
    if isinstance(one, Baseline):
        done = str(one.state) == "reviewed"
        sign = glyphs.admissible if done else glyphs.suspect
        said = f"candidate {one.candidate_id[:12]}; {f'by {one.reviewer}' if one.reviewer else 'nobody reviewed it'}"
        return f"{sign} {one.state}", "ok" if done else "suspect", str(one.name or "?"), one.said_at, said
    shown = sum(str(getattr(one, part)) != NOT_SHOWN for part, _ in PARTS)
    whole = shown == len(PARTS)
    state = f"{glyphs.admissible if whole else glyphs.suspect} {shown} of {len(PARTS)} parts"
    ruled = f"; {len(one.ruled_out)} ruled out" if one.ruled_out else ""
    return state, "ok" if whole else "suspect", str(one.name or "?"), one.said_at, f"{one.contract}{ruled}"


def detail(one: Record, width: int, glyphs: Glyphs) -> list[Line]:
    """One of them in full."""
    if isinstance(one, Criterion):
        return _criterion(one, width, glyphs)
    return _baseline(one, width, glyphs) if isinstance(one, Baseline) else _case(one, width, glyphs)


def _criterion(one: Criterion, width: int, glyphs: Glyphs) -> list[Line]:
    state, tone, *_ = _cells(one, glyphs)
    lines = [*field("criterion", one.criterion_id, width, glyphs), *field("state", state, width, glyphs, tone)]
    lines += field("judges", threshold(one), width, glyphs)
    lines += field("goal", one.goal, width, glyphs)
    lines += field("fills", f"{one.gate}/{one.cell or 'each policy version'}" if one.gate else "no cell", width, glyphs)
    lines += field("planted error", one.planted or "none is named: a pass is pending re-check", width, glyphs)
    lines += field(
        "frozen", f"{day_and_clock(one.frozen_at)} by {one.who}: it governs runs that begin later", width, glyphs
    )
    if one.replaced_by:
        lines += field("replaced by", one.replaced_by, width, glyphs) + field(
            "because", one.replaced_because, width, glyphs
        )
    lines += [
        path("file", one.path, width, glyphs),
        Builder(width, glyphs).line(),
        panel_head("its text", "", width, glyphs),
    ]
    return lines + [Builder(width, glyphs).add(f"  {line}", "text").line() for line in safe_lines(one.raw or "")]


def _baseline(one: Baseline, width: int, glyphs: Glyphs) -> list[Line]:
    state, tone, *_ = _cells(one, glyphs)
    lines = [*field("baseline", one.name, width, glyphs), *field("state", state, width, glyphs, tone)]
    reviewed = f"{one.reviewer}, {day_and_clock(one.reviewed_at)}" if one.reviewer else "nobody"
    lines += field("reviewed by", reviewed, width, glyphs)
    for name, value in (
        ("candidate", one.candidate_id), ("run", one.run_id), ("configuration", one.config), ("results", one.results),
        ("said", one.reason), ("who", one.who), ("when", day_and_clock(one.said_at)), ("row", one.id),
    ):  # fmt: skip
        lines += field(name, value, width, glyphs)
    if not one.reviewer:
        lines += listed(
            (f"review it: tic-daemon baseline {one.name} --candidate {one.candidate_id[:12]} --reviewer WHO",),
            width,
            glyphs,
        )
    return lines


def _case(one: Case, width: int, glyphs: Glyphs) -> list[Line]:
    lines = [*field("case", one.name, width, glyphs), *field("run", one.run_id, width, glyphs)]
    lines += field("candidate", one.candidate_id, width, glyphs)
    for part, title in PARTS:
        value = str(getattr(one, part))
        lines += field(title, value, width, glyphs, "dim" if value == NOT_SHOWN else "text")
    lines += field("ruled out", "none" if not one.ruled_out else "", width, glyphs) if not one.ruled_out else [
        *field("ruled out", f"{len(one.ruled_out)}:", width, glyphs), *listed(one.ruled_out, width, glyphs)
    ]  # fmt: skip
    lines += field("opened", day_and_clock(one.opened_at), width, glyphs)
    lines += field(
        "last said",
        f"{day_and_clock(one.said_at)} by {one.who}, {some(one.entries, 'entry', 'entries')}",
        width,
        glyphs,
    )
    missing = [part for part, _ in PARTS if str(getattr(one, part)) == NOT_SHOWN]
    if missing:
        lines += listed((f"to add a part: tic-daemon case {one.name} --{missing[0]} TEXT",), width, glyphs)
    return lines


def counts(view: CasesView) -> str:
    """ "2 criteria, 1 baseline, 3 cases"."""
    fixed, known = some(len(view.criteria), "criterion", "criteria"), some(len(view.baselines), "baseline")
    return f"{fixed}, {known}, {some(len(view.cases), 'case')}"


def nothing(width: int, glyphs: Glyphs) -> list[Line]:
    """None of them: how each is written."""
    lines = [Builder(width, glyphs).add("  no criterion, baseline or case yet. They are written with:", "text").line()]
    steps = (
        "tic-daemon criterion freeze FILE",
        "tic-daemon baseline NAME --candidate CANDIDATE --config TEXT --results TEXT [--reviewer WHO]",
        "tic-daemon case NAME --contract TEXT --counterexample TEXT ... --ruled-out TEXT",
        "a criterion's FILE:",
    )
    lines += listed(steps, width, glyphs)
    for text in (
        'metric = "bitwise"',
        'goal = "cross_stack"',
        'gate = "zero_update"',
        'cell = "replay"',
        'planted = "one bit of request 7"',
    ):
        lines.append(Builder(width, glyphs).add(f"        {text}", "dim").line())
    return lines
