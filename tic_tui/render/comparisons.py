"""Lines for lists of comparisons: the table, the queue, the control groups, and what to do where there is none.

A label is a sign and a word; where it does not count, the column beside it says so in words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from tic_tui.comparison_model import QUEUE, Board, Compared, Comparison, ComparisonsView, Queued
from tic_tui.filters import Filter
from tic_tui.glyphs import Glyphs
from tic_tui.render.columns import STANDING_CELLS, Column, Columns
from tic_tui.render.text import Builder, Line, clean, count, short, some

_GROUP: Final = {
    "inference_alone": "inference",
    "training_alone": "training",
    "cross_stack": "cross-stack",
    "score_layer": "score layer",
}

# In the order in which they stand. Narrow tables lose those with the largest `least` first; the reason takes what is
# left. Step, label and what differs stay to the end.
COLUMNS: Final = Columns(
    (
        Column("run", 14, 70, "run_id"),
        Column("step", 6, 0, "step", right=True),
        Column("label", 10, 0, "label"),
        Column("group", 11, 76, "group"),
        Column("differs", 13, 0, "mismatched_tokens", right=True),
        Column("mae", 11, 50, "logprob_mae", right=True),
        Column("x noise", 8, 102, "noise_ratio", right=True),
        Column("max", 9, 112, "logprob_max", right=True),
        Column("goal", 17, 130, "goal"),
        Column("dtype", 19, 150, "dtype"),
    ),
    rest="why",
)
_NO_LABEL: Final = "no label"


def label(one: Comparison, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and word, tone) of a label. A measurement that nothing judges has none."""
    signs = {
        "PASS": (glyphs.admissible, "ok"),
        "FAIL": (glyphs.locked, "gap"),
        "INVALID": (glyphs.unreadable, "suspect"),
        "VACUOUS": (glyphs.silent, "suspect"),
    }
    sign, tone = signs.get(str(one.label or ""), (glyphs.unknown, "dim"))
    counts_not = one.admissibility != "admissible" or (one.label in {"PASS", "FAIL"} and one.state == "inconclusive")
    return f"{sign} {one.label or _NO_LABEL}", "dim" if counts_not else tone


def standing(one: Comparison, glyphs: Glyphs) -> tuple[str, str]:
    """(sign and word, tone). Evidence is said only where the view says `is_evidence`."""
    if one.is_evidence:
        return f"{glyphs.admissible} evidence", "admissible"
    if one.admissibility == "admissible":
        return f"{glyphs.mark} marked" if one.marked else f"{glyphs.unknown} no evid.", "dim"
    tone = str(one.admissibility) if one.admissibility in {"locked", "suspect"} else "suspect"
    return f"{glyphs.admissibility(one.admissibility)} {one.admissibility}", tone


def differs(one: Comparison) -> str:
    """How much differs: tokens of valid ones, or probes of a trace's; "bits unknown" where types differ."""
    if one.kind == "trace":
        of, number = one.probes, one.probes_differing
        return "no probe" if not of else f"{_counted(number)}/{count(of)} pr."
    if not one.valid_tokens:
        return "nothing"
    return f"{_counted(one.mismatched_tokens)}/{count(one.valid_tokens)}"


def _counted(number: int | None) -> str:
    return "?" if number is None else count(number)


def why(one: Comparison) -> str:
    """Why it is no evidence, or the reason of its verdict."""
    if not one.is_evidence:
        return str(one.not_evidence_because or "reason unknown").removeprefix(f"{one.admissibility}: ")
    return str(one.reason or "")


def dtypes(one: Comparison) -> str:
    """The element type, or both."""
    if one.dtype_a == one.dtype_b:
        return str(one.dtype_a or "unknown")
    return f"{one.dtype_a or 'unknown'} and {one.dtype_b or 'unknown'}"


def filter_value(one: Comparison, column: str) -> str:
    """What a filter of this column has to say to find the comparison."""
    value = dtypes(one) if column == "dtype" else getattr(one, {"group": "control_group"}.get(column, column))
    return "unknown" if value is None or value == "" else repr(value) if isinstance(value, float) else str(value)


def row(one: Comparison, width: int, glyphs: Glyphs, *, selected: bool, all_runs: bool = False) -> Line:
    """One comparison. Its numbers are plain only if it is evidence; else they are in brackets."""
    word, tone = label(one, glyphs)
    stands, stands_tone = standing(one, glyphs)
    value = "-" if one.logprob_mae is None else short(one.logprob_mae)
    texts = {
        "run": one.run_id or "unknown",
        "step": "?" if one.step is None else str(one.step),
        "label": word,
        "differs": differs(one),
        "mae": value if one.is_evidence or value == "-" else f"[{value}]",
        "x noise": "floor 0" if one.floor == 0 else "-" if one.noise_ratio is None else f"{one.noise_ratio:.3g}",
        "max": "-" if one.logprob_max is None else short(one.logprob_max),
        "goal": str(one.goal or "unknown").replace("_", " "),
        "dtype": dtypes(one),
        "group": _GROUP.get(str(one.control_group), "-"),
    }
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    for c in COLUMNS.fitting(width, all_runs=all_runs):
        plain = c.name in {"step", "run", "differs"}
        shade = tone if c.name == "label" else "text" if plain else "dim"
        if c.name == "mae" and one.is_evidence:
            shade = "admissible"
        b.cell(texts[c.name], c.cells, shade, right=c.right)
    return b.cell(stands, STANDING_CELLS, stands_tone).add(why(one), "dim").line()


def group(one: Comparison) -> str:
    """ "inference, A/A": its control group and what of it varies; "" for none."""
    return ", ".join(word for word in (_GROUP.get(str(one.control_group), ""), str(one.variant or "")) if word)


def what(one: Comparison) -> str:
    """ "rollout.pt against again.pt, inference alone, A/A": what is compared with what, and for which control group."""
    words = [pair(one.side_a, one.side_b), str(one.control_group or "").replace("_", " "), str(one.variant or "")]
    return ", ".join(word for word in words if word)


def about(one: Comparison, width: int, glyphs: Glyphs) -> list[Line]:
    """Two lines of the comparison under the cursor: what is compared with what, and why it is what it is."""
    first = Builder(width, glyphs).add("  ").add(what(one), "text")
    return [first.line(), Builder(width, glyphs).add("  ").add(why(one) or "no reason is given", "dim").line()]


def counts(view: ComparisonsView | None, filters: Iterable[Filter]) -> str:
    """ "40", or "matching 12 of 40" while a filter is on."""
    if view is None:
        return "reading ..."
    if view.demand.filters != tuple(filters):
        return "filtering ..."
    if not any(f.on for f in filters):
        return count(view.total)
    return f"matching {count(view.matching)} of {count(view.total)}"


# --- what a run has in short ---


def panel_head(compared: Compared, key: str, width: int, glyphs: Glyphs, *, focused: bool) -> Line:
    """ "comparisons 12: 1 running 43 %, 2 waiting; 3 PASS, 9 no label": how many, what waits, their labels.

    `key`: the one that lists them.
    """
    b = Builder(width, glyphs).add(f"{glyphs.cursor if focused else ' '}comparisons ", "key" if focused else "head")
    b.add(count(compared.total) if compared.total else "none yet", "text")
    queued = queue_words(compared.queue)
    parts = [queued] if queued else []
    parts += [f"{count(number)} {name or _NO_LABEL}" for name, number in compared.labels]
    for n, part in enumerate(parts):
        b.add_if_fits(f"{'; ' if n else ': '}{part}", "stale" if part == queued else "text")
    return b.add_if_fits(f" {key} lists them ", "dim").add(" ").fill(glyphs.rule, "dim").line()


def queue_words(queue: Sequence[Queued]) -> str:
    """ "1 running 43 %, 2 waiting, 1 failed"; "" without any."""
    parts = []
    for state in ("running", "waiting", "failed", "refused"):
        mine = [one for one in queue if one.state == state]
        if mine:
            done = progress(mine[0]) if state == "running" else ""
            parts.append(f"{count(len(mine))} {state}{' ' if done else ''}{done}")
    other = sum(one.state not in {"running", "waiting", "failed", "refused"} for one in queue)
    more = ["and more"] if len(queue) >= QUEUE else []
    return ", ".join([*parts, *([f"{other} in an unknown state"] if other else []), *more])


def progress(one: Queued) -> str:
    """ "43 %" of its tokens; "" where it is not known of how many."""
    if not one.tokens_total or one.tokens_done is None:
        return ""
    return f"{min(100, 100 * one.tokens_done // one.tokens_total)} %"


def queue_rows(queue: Sequence[Queued], most: int, width: int, glyphs: Glyphs) -> list[Line]:
    """What could not be compared with its reason, then what runs and waits; at most so many lines."""
    signs = {
        "failed": glyphs.unreadable,
        "refused": glyphs.unreadable,
        "running": glyphs.moving,
        "waiting": glyphs.quiet,
    }
    tones = {"failed": "gap", "refused": "gap", "running": "ok"}
    rank = {"failed": 0, "refused": 0, "running": 1, "waiting": 2}
    ordered = sorted(queue, key=lambda one: rank.get(one.state, 0))
    shown = ordered if len(ordered) <= most else ordered[: max(1, most - 1)]
    lines = []
    for one in shown:
        b = Builder(width, glyphs).add("  ")
        b.cell(f"{signs.get(one.state, glyphs.unknown)} {one.state}", 10, tones.get(one.state, "text"))
        b.cell("step ?" if one.step is None else f"step {one.step}", 9)
        said = progress(one) if one.state == "running" else str(one.why or "")
        b.add(f"{pair(one.side_a, one.side_b)}  ", "dim").add(said, "text")
        lines.append(b.line())
    if len(shown) < len(ordered) and most > 1:
        lines.append(Builder(width, glyphs).add(f"  and {count(len(ordered) - len(shown))} more", "dim").line())
    return lines


def pair(side_a: str | None, side_b: str | None) -> str:
    """Both files' names, or the one that holds both sides."""
    first = PurePosixPath(side_a).name if side_a else "unknown"
    return f"{first} against {PurePosixPath(side_b).name}" if side_b and side_b != side_a else first


def nothing(queue: Sequence[Queued], width: int, glyphs: Glyphs) -> list[Line]:
    """No comparison: what is under way, and what to do."""
    if queue:
        return [Builder(width, glyphs).add(f"  no comparison is done yet: {queue_words(queue)}", "text").line()]
    lines = [Builder(width, glyphs).add("  no comparison yet. What to do:", "text").line()]
    for text in (
        "let the run write two dumps of log-probabilities and a manifest that names them into a watched results"
        " directory: they are compared as they come",
        "or compare two files now: tic-daemon compare A B",
    ):
        for n, part in enumerate(textwrap.wrap(text, max(8, width - 5))):
            lines.append(Builder(width, glyphs).add("    " if n else "  - ", "dim").add(part, "dim").line())
    return lines


# --- the control board ---

_GROUPS: Final = (
    ("inference_alone", "inference alone"),
    ("training_alone", "training alone"),
    ("cross_stack", "cross-stack"),
    ("score_layer", "score layer"),
)


def board(one: Board | None, step: int | None, width: int, glyphs: Glyphs, *, read: bool = True) -> list[Line]:
    """Four groups, each with a sign and a word; then which side they rule out, and where to look.

    `read`: False while it is not known what the store has of this step.
    """
    head = Builder(width, glyphs).add(" control groups", "head")
    head.add_if_fits("  step unknown" if step is None else f"  of step {step}", "dim")
    none = "no comparison of this step is of a control group" if read else "not read yet"
    if one is None:
        said = textwrap.wrap(none, max(8, width - 3))
        return [head.line(), *(Builder(width, glyphs).add(f"  {part}", "dim").line() for part in said)]
    head.add_if_fits(f", {some(one.comparisons, 'comparison')}", "dim")
    lines = [head.line()]
    for field, name in _GROUPS:
        state = getattr(one, field)
        sign, tone = _control(state, glyphs)
        lines.append(Builder(width, glyphs).add("  ").cell(name, 16).add(f"{sign} {state}", tone).line())
    for name, text in (("rules out", one.rules_out or "no side yet"), ("look at", one.look_at)):
        for n, part in enumerate(textwrap.wrap(clean(text, glyphs), max(8, width - 19))):
            lines.append(Builder(width, glyphs).add("  ").cell("" if n else name, 16, "head").add(part).line())
    return lines


def _control(state: str, glyphs: Glyphs) -> tuple[str, str]:
    unequal = "≠" if glyphs.braille else "#"
    found = {"equal": ("=", "ok"), "differs": (unequal, "suspect"), "inconclusive": (glyphs.suspect, "stale")}
    return found.get(state, (glyphs.unknown, "dim"))
