"""Lines of one cell: why it stands so, its evidence, what became stale and why, what to run again at least."""

from __future__ import annotations

from typing import Final

from tic_tui.age import day_and_clock
from tic_tui.comparison_model import Comparison
from tic_tui.evidence_model import Candidate, Cell, CellView, Criterion, Entry, Piece
from tic_tui.glyphs import Glyphs
from tic_tui.render import gates
from tic_tui.render.chrome import panel_head
from tic_tui.render.comparison import field, listed
from tic_tui.render.text import Builder, Line, count, number

Row = Piece | Entry
OTHERWISE: Final = {
    "performance": "a declared pair of arms fills it, held against a criterion of metric pair_ratio or pair_difference"
    " with its key: all nine rules must be met, the baseline reviewed, an error planted (page pairs)",
    "quality": "a declared pair of arms fills it, held against a criterion of metric pair_ratio or pair_difference with"
    " its key: all nine rules must be met, the baseline reviewed, an error planted (page pairs)",
    "clean_exit": "the run's processes fill it, when they end: their exit code, as W&B's local log has it",
    "final_image": "receipts of the workers fill it: image_digest, commit, so_sha256, and overlay = none",
}
"""What fills a cell that no comparison fills."""


def head(row: Cell | None, one: Candidate | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Two lines: whose cell it is, and its state with the cause."""
    if row is None:
        return [Builder(width, glyphs).add(" this cell is not in the store any more", "stale").line()]
    words, tone = gates.cell_words(row, glyphs)
    of = f"{row.gate}/{row.cell} of {gates.name_of(one) if one is not None else row.candidate_id[:12]}"
    first = Builder(width, glyphs).add(f" {words} ", tone).add(f" {row.cause or 'nothing was judged for it'}", "text")
    return [Builder(width, glyphs).add(f" {of}", "title").line(), first.line()]


# --- its evidence ---


def rows(view: CellView) -> list[Row]:
    """What is current, then what counts no more."""
    return [*view.pieces, *view.past]


def comparison_of(view: CellView, row: Row | None) -> Comparison | None:
    """The comparison that a piece of evidence is of."""
    if row is None:
        return None
    return view.comparisons.get((row.comparison_id if isinstance(row, Piece) else row.target) or "")


def row_header(width: int, glyphs: Glyphs) -> Line:
    """Column names."""
    b = Builder(width, glyphs).add("  ", "head").cell("counts as", 16, "head").cell("judged", 9, "head")
    if width >= 60:
        b.cell("run", 14, "head")
    if width >= 78:
        b.cell("step", 6, "head", right=True).cell("differs", 11, "head", right=True)
    if width >= 100:
        b.cell("age", 6, "head")
    return b.add_if_fits("why", "head").line()


def row_line(row: Row, view: CellView, now_age: str, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    """A piece of evidence, or one that counts no more. `now_age`: how old it is."""
    if isinstance(row, Piece):
        sign, word, tone = gates.sign(str(row.state), False, glyphs)
        standing, why = f"{sign} {word}", row.reason or ""
        differs = _tokens(row.mismatched_tokens, row.valid_tokens) if row.comparison_id else "-"
    else:
        standing, tone = f"{glyphs.unknown} {row.standing or 'gave way'}", "dim"
        why = row.because or (row.reason if row.standing else "newer evidence of the same counts in its place")
        one = comparison_of(view, row)
        differs = "-" if one is None else _tokens(one.mismatched_tokens, one.valid_tokens)
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(standing, 16, tone).cell(row.label or "no label", 9, "text" if isinstance(row, Piece) else "dim")
    if width >= 60:
        b.cell(row.run_id or "unknown", 14, "title" if selected else "text")
    if width >= 78:
        b.cell("?" if row.step is None else row.step, 6, right=True).cell(differs, 11, right=True)
    if width >= 100:
        b.cell(now_age, 6, "dim")
    return b.add(why, "dim").line()


def _tokens(differ: int | None, valid: int | None) -> str:
    if not valid:
        return "nothing"
    return f"{'?' if differ is None else count(differ)}/{count(valid)}"


def none(view: CellView | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Where there is no evidence at all."""
    text = "reading ..." if view is None else "no evidence of it was ever judged; what to do stands beside"
    return [Builder(width, glyphs).add(f"  {text}", "dim").line()]


# --- all of it ---


def detail(view: CellView, selected: Row | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Cause, what became stale, what to do, criteria, exemptions, then the piece of evidence under the cursor."""
    row = view.row
    if row is None:
        return []
    words, tone = gates.cell_words(row, glyphs)
    blank = Builder(width, glyphs).line()
    lines = [
        *field("state", words, width, glyphs, tone),
        *field("cause", row.cause or "nothing was judged for it", width, glyphs),
    ]
    lines += field("gate", f"{row.gate_no} {row.gate}: {row.gate_state}", width, glyphs)
    if row.carried_from:
        lines += field("carried from", row.carried_from, width, glyphs)
    lines += [blank, *_todo(view, width, glyphs)]
    if view.candidate is not None:
        lines += [blank, *_changed(view.candidate, view, width, glyphs)]
    lines += [blank, panel_head("criteria for this cell", count(len(view.criteria)), width, glyphs)]
    for one in view.criteria:
        lines += _criterion(one, width, glyphs)
    if not view.criteria:
        lines += listed(("none",), width, glyphs)
    if view.exemptions:
        lines += [blank, panel_head("exemptions", count(len(view.exemptions)), width, glyphs)]
        lines += listed([f"{one.target[:12]} by {one.who}: {one.reason}" for one in view.exemptions], width, glyphs)
    if selected is not None:
        lines += [blank, *evidence(selected, view, width, glyphs)]
    return lines


def _todo(view: CellView, width: int, glyphs: Glyphs) -> list[Line]:
    return [panel_head("what to do", "", width, glyphs), *listed(what_to_do(view), width, glyphs)]


def what_to_do(view: CellView) -> list[str]:
    """The next step, with its command. It follows from what the views say of the cell; it decides nothing."""
    row, one = view.row, view.candidate
    if row is None:
        return []
    state, place = str(row.state), f"{row.gate}/{row.cell}"
    name = (one.name or one.candidate_id[:12]) if one is not None else row.candidate_id[:12]
    words: list[str] = []
    if state == "pass":
        return [f"nothing: it stands by {row.evidence_id or row.carried_from}"]
    if state == "fail":
        return [
            "open the failing evidence: comparison, sequence, token; a rerun that passes does not wash it away",
            f"if it was not of this candidate: tic-daemon evidence supersede {row.evidence_id} --reason TEXT",
            f"if the failure was not numerical: tic-daemon evidence plane {row.evidence_id} control --reason TEXT",
        ]
    if state == "inconclusive":
        found = comparison_of(view, next((piece for piece in view.pieces if piece.id == row.evidence_id), None))
        if found is not None and found.next_step:
            words.append(str(found.next_step))
    if row.stale and one is not None:
        words += [f"run again at least: {text}" for text in one.regressions]
    if not view.goals:
        return [*words, OTHERWISE.get(row.cell, "no comparison fills this cell")]
    if not any(str(one.state) == "in force" for one in view.criteria):
        named = f'gate = "{row.gate}"' + ("" if str(row.gate) == "per_version" else f', cell = "{row.cell}"')
        words.append(f'no criterion for it is in force: {named}, goal = "{view.goals[0]}" in a file, then'
                     " tic-daemon criterion freeze FILE, before the run")  # fmt: skip
    words.append(f"compare dumps of a run of it, goal {' or '.join(view.goals)}; runs: {_runs(one)}")
    if one is not None and one.parent_id is not None and state == "not run":
        words.append(f"if the change does not reach it: tic-daemon exempt {name} {place} --from {one.parent_id[:12]}"
                     " --closure FILE --reason TEXT")  # fmt: skip
    return words


def _runs(one: Candidate | None) -> str:
    return ", ".join(one.run_ids) if one is not None and one.run_ids else "none, tic-daemon candidate declare RUN"


def _changed(one: Candidate, view: CellView, width: int, glyphs: Glyphs) -> list[Line]:
    """What it was made from, which fields differ, and which of that made this cell stale."""
    row, parent = view.row, view.parent
    lines = [
        panel_head("candidate", gates.name_of(one), width, glyphs),
        *field("hash", one.candidate_id, width, glyphs),
    ]
    above = "nothing that was named" if one.parent_id is None else one.parent_id[:12]
    lines += field("made from", f"{gates.name_of(parent)} {above}" if parent is not None else above, width, glyphs)
    lines += field("runs", ", ".join(one.run_ids) or "none", width, glyphs)
    if one.screening:
        lines += field("screening", "it serves fixed weights: for screening only", width, glyphs)
    if one.parent_id is not None:
        lines += field("changed", ", ".join(one.changed) or "no field that both know", width, glyphs)
        place = (
            gates.NO_VERSION
            if row is not None and str(row.gate) == "per_version"
            else row.cell
            if row is not None
            else ""
        )
        made = [why for gate, cell, why in one.stale if row is not None and (gate, cell) == (str(row.gate), place)]
        lines += field("made stale by", "; ".join(made) or "none of the changes", width, glyphs)
        lines += field("run again", "at least:" if one.regressions else "nothing", width, glyphs)
        lines += listed(one.regressions, width, glyphs)
    if one.unshown:
        lines += field("not shown equal", ", ".join(one.unshown), width, glyphs)
    lines += field("unknown fields", ", ".join(one.unknown) or "none", width, glyphs)
    return lines


def threshold(one: Criterion) -> str:
    """ "bitwise", "logprob_mae <= 0.1"."""
    parts = [f"<= {number(one.at_most)}"] if one.at_most is not None else []
    parts += [f">= {number(one.at_least)}"] if one.at_least is not None else []
    of = [f"of {one.key}"] if one.key else []
    return " ".join([str(one.metric or "metric unknown"), *of, *parts])


def _criterion(one: Criterion, width: int, glyphs: Glyphs) -> list[Line]:
    planted = f"planted: {one.planted}" if one.planted else "no planted error is named"
    said = f"{one.criterion_id[:12]} {threshold(one)}; {one.state}; {planted}"
    if one.replaced_by:
        said += f"; replaced by {one.replaced_by[:12]}: {one.replaced_because}"
    return listed((said,), width, glyphs)


def evidence(row: Row, view: CellView, width: int, glyphs: Glyphs) -> list[Line]:
    """All that is known of a piece of evidence."""
    lines = [panel_head("evidence", row.id, width, glyphs)]
    if isinstance(row, Piece):
        _, word, tone = gates.sign(str(row.state), False, glyphs)
        lines += field("counts as", word, width, glyphs, tone)
        independent = "unknown" if row.independent_sequences is None else row.independent_sequences
        differ = _tokens(row.mismatched_tokens, row.valid_tokens)
        tokens = f"{differ} tokens differ, independent sequences {independent}" if row.comparison_id else ""
        compared = row.comparison_id
    else:
        lines += field("counts as", row.standing or "gave way to newer evidence of the same", width, glyphs, "stale")
        if row.because:
            lines += field("because", row.because, width, glyphs)
        tokens, compared = "", row.target
    lines += field("judged", row.label or "no label: a measurement", width, glyphs)
    lines += field("reason", row.reason, width, glyphs)
    lines += field("plane", row.plane or "none", width, glyphs)
    if tokens:
        lines += field("tokens", tokens, width, glyphs)
    attempt = "" if row.attempt is None else f" attempt {row.attempt}"
    lines += field("run", f"{row.run_id or 'unknown'}{attempt}", width, glyphs)
    lines += field("step", "unknown" if row.step is None else row.step, width, glyphs)
    lines += field("policy", row.policy, width, glyphs)
    lines += field("criterion", row.criterion_id, width, glyphs)
    lines += field("workload", row.workload, width, glyphs)
    if compared:
        there = "" if compared in view.comparisons else " (no comparison of this store)"
        lines += field("is of", f"{compared}{there}", width, glyphs)
    lines += field("manifest", row.manifest_sha256, width, glyphs)
    lines += field("policy content", row.policy_content_id, width, glyphs)
    lines += field("receipt", row.receipt_sha256, width, glyphs)
    return [*lines, *field("judged at", day_and_clock(row.said_at), width, glyphs)]
