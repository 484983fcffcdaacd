"""Lines of pairs of arms: the list, the nine rules with both values, the numbers with their medians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tic_tui.evidence_model import Pair, PairValue, Rule
from tic_tui.glyphs import Glyphs
from tic_tui.render.chrome import panel_head
from tic_tui.render.comparison import field, listed, path
from tic_tui.render.text import Builder, Line, short, some

_STATE, _TITLE = 10, 26
CELLS: Final = ("tokens", "errors", "performance", "quality")
"""Effective tokens and errors come first: numbers of performance hang on them."""


def rule_state(state: str, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and word, tone)."""
    known = {"met": (glyphs.admissible, "ok"), "unmet": (glyphs.locked, "gap"), "unknown": (glyphs.suspect, "suspect")}
    sign, tone = known.get(state, (glyphs.unreadable, "suspect"))
    return f"{sign} {state}", tone


def pair_state(one: Pair, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and words, tone)."""
    if str(one.state) == "comparable":
        return f"{glyphs.admissible} comparable", "ok"
    return f"{glyphs.suspect} {one.state}", "suspect"


def pair_header(width: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = Builder(width, glyphs).add("  ", "head").cell("pair", _name(width), "head").cell("state", 19, "head")
    if width >= 60:
        b.cell("met of 9", 8, "head", right=True)
    if width >= 90:
        b.cell("baseline", 26, "head")
    return b.add_if_fits("rules that are not met", "head").line()


def _name(width: int) -> int:
    return 20 if width >= 70 else 12


def pair_row(one: Pair, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One pair."""
    words, tone = pair_state(one, glyphs)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(one.pair, _name(width), "title" if selected else "text").cell(words, 19, tone)
    if width >= 60:
        b.cell(f"{one.met}", 8, "text", right=True)
    if width >= 90:
        b.cell(baseline(one), 26, "text" if one.baseline_state == "reviewed" else "stale")
    return b.add(one.reason or "-", "dim").line()


def baseline(one: Pair) -> str:
    """Its baseline, and whether somebody reviewed that."""
    return f"{one.baseline} ({one.baseline_state or 'unknown'})" if one.baseline else "none named"


def rule_header(width: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = Builder(width, glyphs).add("  ", "head").cell("rule", _rule_title(width), "head").cell("state", _STATE, "head")
    if width >= 100:
        half = _half(width)
        b.cell("arm a", half, "head").cell("arm b", half, "head")
    return b.add_if_fits("why, or what was compared", "head").line()


def _rule_title(width: int) -> int:
    return 38 if width >= 118 else _TITLE if width >= 70 else 16


def _half(width: int) -> int:
    return max(10, (width - 2 - _rule_title(width) - _STATE - 2) // 3 - 1)


def rule_row(one: Rule, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One rule with both values."""
    words, tone = rule_state(str(one.state), glyphs)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(f"{one.number} {one.title}", _rule_title(width), "title" if selected else "text").cell(words, _STATE, tone)
    a, other = one.value_a or "unknown", one.value_b or "unknown"
    if width >= 100:
        half = _half(width)
        b.cell(a, half, "text" if one.value_a else "dim").cell(other, half, "text" if one.value_b else "dim")
        return b.add(one.why or "-", "dim").line()
    return b.add(one.why or (a if a == other else f"{a} | {other}"), "dim").line()


def rule_detail(one: Rule, width: int, glyphs: Glyphs) -> list[Line]:
    """One rule in full."""
    words, tone = rule_state(str(one.state), glyphs)
    return [
        *field("rule", f"{one.number} {one.title}", width, glyphs),
        *field("state", words, width, glyphs, tone),
        *field("arm a", one.value_a, width, glyphs),
        *field("arm b", one.value_b, width, glyphs),
        *field("why", one.why or "it is met", width, glyphs),
    ]


def detail(
    one: Pair, rules: Sequence[Rule], values: Sequence[PairValue] | None, width: int, glyphs: Glyphs
) -> list[Line]:
    """A pair in full: whether it may be compared, its rules, its numbers, what else differs."""
    words, tone = pair_state(one, glyphs)
    blank = Builder(width, glyphs).line()
    lines = [
        *field("state", words, width, glyphs, tone),
        *field("baseline", baseline(one), width, glyphs),
        *field("planted error", one.plant or "none", width, glyphs),
    ]
    lines += field("arm a", ", ".join(one.runs_a), width, glyphs) + field("arm b", ", ".join(one.runs_b), width, glyphs)
    lines += field("excluded", "; ".join(one.excluded) or "none", width, glyphs)
    lines += field("switch", ", ".join(one.switch) or "none is named", width, glyphs)
    lines += [path("declared in", one.path, width, glyphs)]
    for rule in rules:
        lines += [blank, *rule_detail(rule, width, glyphs)]
    lines += [blank, *numbers(values, width, glyphs)]
    lines += [blank, panel_head("confounders", "differ besides the switch", width, glyphs)]
    return [*lines, *listed(one.confounders or ("none is known",), width, glyphs)]


def differing(one: Pair, width: int, glyphs: Glyphs) -> list[Line]:
    """Both arms, the switch, and what differs besides: to be read before the numbers."""
    b = Builder(width, glyphs).add("  arms ", "head").add(f"{', '.join(one.runs_a)} | {', '.join(one.runs_b)}", "text")
    b.add_if_fits("; switch ", "head").add_if_fits(", ".join(one.switch) or "none is named", "text")
    if one.plant:
        b.add_if_fits("; planted ", "head").add_if_fits(one.plant, "stale")
    second = Builder(width, glyphs).add("  confounders ", "head")
    second.add("; ".join(one.confounders) or "none is known", "stale" if one.confounders else "dim")
    return [b.line(), second.line()]


def numbers(values: Sequence[PairValue] | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Each key with its medians, then its single pairs: one alone shows no noise."""
    lines = [panel_head("numbers", "performance and quality apart; tokens and errors first", width, glyphs)]
    if values is None:
        return [*lines, Builder(width, glyphs).add("  reading ...", "dim").line()]
    rank = {name: n for n, name in enumerate(CELLS)}
    ordered = sorted(values, key=lambda v: (rank.get(v.cell, 9), v.key))
    seen: set[tuple[str, str]] = set()
    for one in ordered:
        if (one.cell, str(one.key)) not in seen:
            seen.add((one.cell, str(one.key)))
            lines += _median(one, width, glyphs)
        b = Builder(width, glyphs).add("    ", "dim")
        b.add(f"{one.run_a or 'no run'} | {one.run_b or 'no run'}: ", "dim")
        b.add(f"{short(one.value_a)} | {short(one.value_b)}", "text").add_if_fits(
            f", difference {short(one.difference)}", "dim"
        )
        lines.append(b.line())
    return lines if values else [*lines, *listed(("no key of performance or quality is declared",), width, glyphs)]


def _median(one: PairValue, width: int, glyphs: Glyphs) -> list[Line]:
    measured = str(one.state) == "measured"
    sign, tone = (glyphs.admissible, "ok") if measured else (glyphs.suspect, "suspect")
    value = f"median {short(one.median_a)} | {short(one.median_b)}, ratio {short(one.median_ratio)}"
    b = Builder(width, glyphs).add(f"  {one.cell} ", "head").add(f"{one.key} ", "title")
    # What is not measured stands in brackets: it is no result.
    b.add(value if measured else f"[{value}]", "text" if measured else "dim")
    second = Builder(width, glyphs).add(f"    {sign} {one.state}", tone).add(f" of {some(one.declared, 'pair')}", "dim")
    return [b.line(), second.add(f": {one.reason}" if one.reason else "", "dim").line()]


def nothing(width: int, glyphs: Glyphs) -> list[Line]:
    """No pair: how one is declared."""
    lines = [Builder(width, glyphs).add("  no pair of arms is declared. In tic.toml, before the runs:", "text").line()]
    for text in (
        "[[pair]]", 'name = "batch-invariant"', 'baseline = "NAME OF A BASELINE"',
        'a = ["run-a1", "run-a2"]', 'b = ["run-b1", "run-b2"]',
        'switch = ["VLLM_BATCH_INVARIANT"]', 'purpose = "iteration"', 'criterion = "SHA-256 OF ITS FILE"',
        'performance = ["perf/throughput"]', 'quality = ["val-core/gsm8k/acc"]',
    ):  # fmt: skip
        lines.append(Builder(width, glyphs).add(f"    {text}", "dim").line())
    return lines
