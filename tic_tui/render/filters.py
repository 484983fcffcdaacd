"""The filter stack in words, and the choices of the dialog that adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tic_daemon.errors import ConfigError
from tic_tui.filters import TABLES, Filter, Op, operators
from tic_tui.glyphs import Glyphs
from tic_tui.model import MismatchesView
from tic_tui.render.chrome import counting
from tic_tui.render.text import Builder, Line, clean, count, width_of

ABOUT: Final = {
    "metric": "name as printed",
    "phase": "phase of the record",
    "rank": "as printed",
    "scope": "fixed-input counts as evidence",
    "classification": "as printed",
    "state": "how it was understood: ok, incomplete, unknown_metric, parse_error",
    "admissibility": "admissible, suspect, locked",
    "run_id": "the run",
    "attempt": "of the run, from 1",
    "step": "trainer step",
    "value": "the number",
    "noise_ratio": "value / noise floor",
    "host": "of its log",
    "intervention": "none counts as evidence",
    "is_evidence": "whether the number counts",
    "graph_mode": "in force when it was made",
    "step_kind": "prefill, decode or mixed",
    "prefix_cache": "in force when it was made",
    "weight_phase": "of the weights when it was made",
    "policy": "rollout policy version",
    "path": "its log",
    "raw": "its bytes",
}
ABOUT_COMPARISONS: Final = {
    "label": "PASS, FAIL, INVALID, VACUOUS; unknown: no label",
    "kind": "what was compared",
    "goal": "what it is to show",
    "step": "trainer step",
    "dtype": "of both sides",
    "admissibility": "admissible, suspect, locked",
    "is_evidence": "whether it counts",
    "reason": "of the verdict",
    "run_id": "the run",
    "attempt": "of the run, from 1",
    "policy": "version that was compared",
    "group": "control group",
    "mismatched_tokens": "tokens whose bits differ",
    "logprob_mae": "mean difference",
    "logprob_max": "largest difference",
    "noise_ratio": "logprob_mae / noise floor",
    "file_a": "of the rollout's side",
    "file_b": "of the trainer's side",
}
ABOUT_LEDGER: Final = {
    "kind": "evidence, or what people declared",
    "standing": "superseded, historical; unknown: no row says so",
    "label": "of evidence, as it was judged",
    "gate": "of evidence that of its criterion",
    "cell": "of its gate",
    "run_id": "of evidence; what people named",
    "candidate": "hash of its closure",
    "criterion": "hash of its file",
    "plane": "of a failure",
    "step": "trainer step",
    "policy": "version that evidence is of",
    "reason": "of the label; else why it was said",
    "who": "said it",
    "host": "where it was said",
    "id": "of the row",
    "body": "what else it says, as JSON",
}
_ABOUT: Final = {"mismatches": ABOUT, "comparisons": ABOUT_COMPARISONS, "ledger": ABOUT_LEDGER}


def about(column: str, table: str = "mismatches") -> str:
    """What a column holds."""
    return _ABOUT[table][column]


def words(item: Filter) -> str:
    """One filter: metric is logprob_mae."""
    return f"{item.column} {item.op} {item.value}"


def stack_row(item: Filter, number: int, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """One line of the stack."""
    b = Builder(width, glyphs).add(glyphs.cursor if selected else " ", "key").add(f"{number} ", "dim")
    b.add("on   " if item.on else "off  ", "ok" if item.on else "dim")
    return b.add(words(item), "text" if item.on else "dim").line()


def stack_line(filters: Sequence[Filter], add_key: str, width: int, glyphs: Glyphs) -> Line:
    """All filters in one line, whole ones; or how to add the first."""
    b = Builder(width, glyphs).add(" filters  ", "head")
    if not filters:
        return b.add(f"none: {add_key} adds one", "dim").line()
    ready = [words(f) if f.on else f"(off: {words(f)})" for f in filters]
    for n, text in enumerate(ready):
        rest = f"and {len(ready) - n} more"
        last = n == len(ready) - 1
        if width_of(clean(text, glyphs)) + (0 if last else 2 + width_of(rest)) > b.room:
            off = sum(not f.on for f in filters)
            few = f"{len(ready)} filters" + (f", {off} off" if off else "")
            return b.add(few if n == 0 else rest, "stale").line()
        b.add(text, "text" if filters[n].on else "dim")
        if not last:
            b.add("  ")
    return b.line()


def counts(view: MismatchesView | None, filters: Iterable[Filter]) -> str:
    """ "40", or "matching 12 of 40" while a filter is on, each with how far back it has come."""
    if view is None:
        return "reading ..."
    if view.demand.filters != tuple(filters):
        return "filtering ..."
    if not any(f.on for f in filters):
        return ", ".join(filter(None, (count(view.total), counting(view.search))))
    text = f"matching {count(view.matching)} of {count(view.total)}"
    if not view.search.complete:
        text += f", {counting(view.search).replace('counting', 'searching')}"
    return text


def offers(
    column: str, typed: str, choices: Sequence[tuple[object, int]], *, negated: bool, table: str = "mismatches"
) -> list[tuple[Filter, int | None]]:
    """The filters that can be chosen for a column, with how many records have the value where that is known."""
    found: list[tuple[Filter, int | None]] = []

    def offer(op: Op, value: str, n: int | None = None) -> None:
        try:
            found.append((Filter(column, op, value, table=table), n))
        except ConfigError:  # not a number, or an operator that the column has not: nothing to offer
            return

    same: Op = "is not" if negated else "is"
    kind = TABLES[table][column][1]
    listed = [(str(value), n) for value, n in choices if typed.lower() in str(value).lower()]
    if kind == "yes or no" and not listed:
        listed = [(word, -1) for word in ("yes", "no") if typed.lower() in word]
    for value, n in listed:
        offer(same, value, n if n >= 0 else None)
    if typed:
        if "contains" in operators(column, table) and not negated:
            offer("contains", typed)
        if ">=" in operators(column, table) and not negated:
            offer(">=", typed)
            offer("<=", typed)
        if typed not in {value for value, _ in listed} and kind != "yes or no":
            offer(same, typed)
    return found


def offer_row(item: Filter, n: int | None, width: int, glyphs: Glyphs) -> Line:
    """One choice."""
    b = Builder(width, glyphs).add("  ").add(f"{item.op} ", "dim").add(item.value, "text")
    return (b if n is None else b.right(f"{count(n)} ", "dim")).line()


def column_row(name: str, width: int, glyphs: Glyphs, table: str = "mismatches") -> Line:
    """One column to filter by."""
    b = Builder(width, glyphs).add("  ").cell(name, 17 if table == "comparisons" else 15, "title")
    return b.add_if_fits(about(name, table), "dim").line()
