"""Lines for what lies in a comparison: its sequences with their strips, a sequence's tokens, a trace's probes."""

from __future__ import annotations

from typing import Final

from tic_tui.comparison_model import Boundary, Divergence, SequenceRow, TokenRow
from tic_tui.glyphs import Glyphs
from tic_tui.render import response
from tic_tui.render.comparison import field
from tic_tui.render.text import Builder, Line, count, short

_REQUEST: Final = 18
_OPERATOR: Final = 16
"""Cells below which nothing is said of an operator: the cut words would say nothing."""


def sequence_header(width: int, glyphs: Glyphs) -> Line:
    """Column names of the sequences."""
    b = (
        Builder(width, glyphs)
        .add("  ", "head")
        .cell("request", _request(width), "head")
        .cell("differs", 11, "head", right=True)
    )
    if width >= 56:
        b.cell("first", 6, "head", right=True)
    if width >= 90:
        b.cell("longest", 7, "head", right=True)
    if width >= 70:
        b.cell("max", 9, "head", right=True)
    return b.add("where in the response", "head").line()


def _request(width: int) -> int:
    return _REQUEST if width >= 70 else 10


def sequence_row(one: SequenceRow, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One sequence: how much differs, from where on, and where in its response."""
    odd = one.mismatched_tokens is None or one.mismatched_tokens > 0 or bool(one.non_finite)
    tone = "text" if odd else "dim"
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(one.request, _request(width), tone)
    number = "?" if one.mismatched_tokens is None else count(one.mismatched_tokens)
    of = "?" if one.valid_tokens is None else count(one.valid_tokens)
    b.cell(f"{number}/{of}", 11, tone, right=True)
    if width >= 56:
        b.cell("-" if one.first_position is None else str(one.first_position), 6, tone, right=True)
    if width >= 90:
        b.cell("-" if one.longest_run is None else count(one.longest_run), 7, tone, right=True)
    if width >= 70:
        value = "not finite" if one.non_finite else "-" if one.max_abs is None else short(one.max_abs)
        b.cell(value, 10 if one.non_finite else 9, tone, right=True)
    return response.add_strip(b, one.strip, one.strip_valid, b.room).line()


def sequence_detail(one: SequenceRow, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The head of one sequence: its strip over the whole width with a ruler, and its figures where there is room."""
    b = response.add_strip(Builder(width, glyphs).add(" "), one.strip, one.strip_valid, width - 2)
    lines = [b.line()]
    if one.strip and one.response_length:
        lines.append(response.ruler(one.response_length, len(one.strip), width - 2, width, glyphs))
    if height < 16:
        return lines
    lines.append(response.legend(width, glyphs))
    differ = f"{_known(one.mismatched_tokens)} of {_known(one.valid_tokens)} valid tokens"
    first = "none" if one.first_position is None else str(one.first_position)
    lines += field(
        "bits differ in", f"{differ}, first at {first}, longest run {_known(one.longest_run)}", width, glyphs
    )
    at = "" if one.max_position is None else f" at {one.max_position}"
    sizes = [f"{name} {_number(getattr(one, name))}" for name in ("mean_abs", "p50", "p95", "p99")]
    lines += field("abs(B - A)", f"max {_number(one.max_abs)}{at}, {', '.join(sizes)}", width, glyphs)
    if one.non_finite:
        lines += field("not finite", f"{one.non_finite} valid numbers", width, glyphs, "gap")
    lengths = f"prompt {_known(one.prompt_length)}, response {_known(one.response_length)} tokens"
    of = f"group {one.sample_group or 'unknown'}, policy {one.policy or 'unknown'}"
    return [*lines, *field("length", f"{lengths}; {of}", width, glyphs)]


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"


# --- tokens ---

_WHY: Final = {"first": "first that differs", "largest": "largest difference"}


def token_header(width: int, glyphs: Glyphs) -> Line:
    """Column names of the tokens."""
    b = (
        Builder(width, glyphs)
        .add("  ", "head")
        .cell("position", 8, "head", right=True)
        .cell("A", 14, "head", right=True)
    )
    b.cell("B", 14, "head", right=True)
    if width >= 60:
        b.cell("B - A", 11, "head", right=True)
    if width >= 100:
        b.cell("bits of A", 18, "head").cell("bits of B", 18, "head")
    if width >= 120:
        b.cell("token id", 9, "head", right=True)
    return b.add_if_fits("kept because", "head").line()


def token_row(one: TokenRow, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One token: where it stands, and both values."""
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key").cell(one.position, 8, right=True)
    b.cell(_value(one.value_a), 14, "rollout", right=True).cell(_value(one.value_b), 14, "trainer", right=True)
    if width >= 60:
        b.cell("-" if one.difference is None else short(one.difference), 11, right=True)
    if width >= 100:
        b.cell(one.bits_a or "unknown", 18, "dim").cell(one.bits_b or "unknown", 18, "dim")
    if width >= 120:
        b.cell("unknown" if one.token_id is None else one.token_id, 9, "dim", right=True)
    words = [_WHY.get(word, word) for word in str(one.why or "").split(", ")]
    return b.add(", ".join(words), "dim").line()


def _value(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g}"


# --- probes ---


def boundary_header(width: int, glyphs: Glyphs) -> Line:
    """Column names of the probes."""
    b = Builder(width, glyphs).add("  ", "head").cell("order", 6, "head", right=True).cell("state", 14, "head")
    b.cell("boundary", _boundary(width), "head")
    if width >= 64:
        b.cell("slice", 14, "head")
    if width >= 84:
        b.cell("request", 14, "head")
    if width >= 100:
        b.cell("max", 9, "head", right=True)
    if width >= 120:
        b.cell("rel. L2", 9, "head", right=True).cell("cosine", 9, "head", right=True)
    return (b.add("operator", "head") if b.room >= _OPERATOR else b).line()


def _boundary(width: int) -> int:
    return max(14, min(30, width - 44 if width < 84 else width // 4))


def is_first(one: Boundary, found: Divergence) -> bool:
    """It is the first probe that differs."""
    return (one.request, one.execution_order) == (found.request, found.execution_order)


def divergence(found: Divergence | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Where a trace begins to differ, and what agrees last before it, in words."""
    if found is None or found.boundary is None:
        return [Builder(width, glyphs).add(f"  {glyphs.admissible} no probe that is kept differs", "text").line()]
    b = (
        Builder(width, glyphs)
        .add(f" {glyphs.fault} first difference ", "gap")
        .add(f"{found.boundary} {found.slice or ''}")
    )
    b.add(f"  request {found.request}", "dim")
    last = (
        f"{found.last_equal_boundary} {found.last_equal_slice or ''}" if found.last_equal_boundary else "none before it"
    )
    return [b.line(), Builder(width, glyphs).add(" = last that agrees ", "ok").add(last).line()]


def state(one: Boundary, divergence: Divergence | None, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and word, tone) of a probe; the first that differs and the last that agrees before it are named."""
    if divergence is not None and one.request == divergence.request:
        here = (one.boundary, one.slice)
        if is_first(one, divergence):
            return f"{glyphs.fault} FIRST diff.", "gap"
        if one.state == "equal" and here == (divergence.last_equal_boundary, divergence.last_equal_slice):
            return "= last equal", "ok"
    unequal = "≠" if glyphs.braille else "#"
    found = {
        "equal": ("= equal", "text"), "differs": (f"{unequal} differs", "suspect"),
        "downstream": (f"{glyphs.wave} downstream", "dim"), "missing": (f"{glyphs.unreadable} missing", "gap"),
    }  # fmt: skip
    return found.get(str(one.state), (f"{glyphs.unknown} {one.state}", "dim"))


def boundary_row(
    one: Boundary, divergence: Divergence | None, width: int, glyphs: Glyphs, *, selected: bool
) -> Line:  # fmt: skip
    """One probe. What lies downstream of a decision that differs is dim, and says that word."""
    word, tone = state(one, divergence, glyphs)
    shade = "dim" if one.state == "downstream" else "text"
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(one.execution_order, 6, shade, right=True).cell(word, 14, tone).cell(one.boundary, _boundary(width), shade)
    if width >= 64:
        b.cell(one.slice, 14, shade)
    if width >= 84:
        b.cell(one.request, 14, shade)
    if width >= 100:
        b.cell(_short(one.max_abs), 9, shade, right=True)
    if width >= 120:
        b.cell(_short(one.relative_l2), 9, shade, right=True).cell(_short(one.cosine), 9, shade, right=True)
    return (b.add(str(one.operator or ""), "dim") if b.room >= _OPERATOR else b).line()


def _short(value: float | None) -> str:
    return "-" if value is None else short(value)
