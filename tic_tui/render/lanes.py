"""The lanes of screen 4, one line each: what was told, where it changed, and the marks on the same axis.

    graph        ·unknown···├(FULL)┄┄┄┄├NONE───────────────────
    weights      ·unknown······├cold load─├reloaded─├reloaded≡≡──
    faults                                          ↯

├ begins what a line told; a value in brackets was only claimed, and is drawn with another line; ≡ is a column in which
it changed more than once; dots are unknown. Nothing is drawn between two lines but what the first of them told. The
cursor is ◆. With ASCII: [ = - # . and *.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tic_tui.glyphs import Glyphs
from tic_tui.lanes import FINDINGS, NUMBERS, Cell, Lane, Numbers, Spot, StateView
from tic_tui.model import Fault
from tic_tui.render.text import Builder, Line, Span, clean, clip, width_of
from tic_tui.safe import Safe

LABELS: Final = {
    "graph_mode": "graph", "step_kind": "step kind", "prefix_cache": "prefix cache", "prefix_hit_rate": "hit rate",
    "residency": "weights", "version": "version", "cache": "KV cache", "graph": "graphs", "capture_sizes": "captures",
    "attention_backend": "attention", "moe_backend": "MoE", "compile_mode": "compile", "batch_invariant": "invariant",
    "spec_decode": "speculative", "parallel_layout": "layout", "quantization": "quantized",
}  # fmt: skip
_TONES: Final = {"locked": "locked", "suspect": "suspect", "not evidence": "dim", "evidence": "admissible"}
_SHORTEST: Final = 6  # cells from which on a value that does not fit whole is written into its stretch

Cells = list[tuple[str, str]]  # (one cell wide, tone)


def label(lane: str) -> str:
    """What a lane is called: graph, step kind, KV cache, ..."""
    return LABELS.get(lane, lane.replace("_", " "))


def label_width(width: int) -> int:
    """Cells before the first column, with the sign of the cursor."""
    return 12 if width < 60 else 15


def columns(width: int) -> int:
    """Columns of the lanes in a line of so many cells."""
    return max(8, width - label_width(width) - 1)


def lane_row(view: StateView, lane: Lane, width: int, glyphs: Glyphs, *, cursor: int | None, selected: bool) -> Line:
    """One lane. `cursor`: the column that it stands in, in the lane that is selected."""
    cells = _value_cells(lane, view.columns, glyphs)
    for spot in view.faults:
        column = view.column(spot.x)
        fills = (glyphs.rule, glyphs.claimed, glyphs.held, glyphs.unknown)
        if (
            isinstance(spot.item, Fault)
            and spot.item.locks
            and 0 <= column < view.columns
            and cells[column][0] in fills
        ):
            cells[column] = (glyphs.vertical, "locked")
    return _row(label(lane.name), cells, width, glyphs, cursor=cursor, selected=selected, known=lane.told)


def mark_row(view: StateView, name: str, width: int, glyphs: Glyphs, *, cursor: int | None, selected: bool) -> Line:
    """The numbers, findings or faults on the axis."""
    cells: Cells = [(" ", "text")] * view.columns
    if name == NUMBERS:
        _draw_numbers(cells, view.numbers, glyphs)
    elif name == FINDINGS:
        _draw_findings(cells, view, glyphs)
    else:
        _draw_faults(cells, view, glyphs)
    known = any(text != " " for text, _ in cells)
    return _row(name, cells, width, glyphs, cursor=cursor, selected=selected, known=known)


def _row(
    name: str, cells: Cells, width: int, glyphs: Glyphs, *, cursor: int | None, selected: bool, known: bool
) -> Line:  # fmt: skip
    b = Builder(width, glyphs).add(glyphs.cursor + " " if selected else "  ", "key")
    b.cell(name, label_width(width) - 3, "title" if selected else "head" if known else "dim")
    if cursor is not None and 0 <= cursor < len(cells):
        cells[cursor] = (glyphs.here, "key")
    for text, tone in _joined(cells):
        b.add(Safe(text), tone)
    return b.line()


def _joined(cells: Iterable[tuple[str, str]]) -> Iterable[Span]:
    """Neighbours of one tone as one span."""
    held, tone = "", ""
    for text, own in cells:
        if own != tone and held:
            yield Span(held, tone)
            held = ""
        held, tone = held + text, own
    if held:
        yield Span(held, tone)


# --- values ---


def _value_cells(lane: Lane, columns: int, glyphs: Glyphs) -> Cells:
    """A lane's columns, from what was told before them on."""
    cells: Cells = []
    observed, claimed, legal = None, None, True
    if lane.before is not None:
        observed, claimed, legal = lane.before.observed, lane.before.claimed, lane.before.legal
    starts = [c.column for c in lane.cells] + [columns]
    _stretch(cells, starts[0], observed, claimed, glyphs, legal=legal)
    for cell, end in zip(lane.cells, starts[1:], strict=True):
        observed = cell.observed if cell.observed is not None else observed
        claimed = cell.claimed if cell.claimed is not None else claimed
        cells.append(_begin(cell, glyphs))
        _stretch(cells, end, observed, claimed, glyphs, legal=cell.legal)
    return cells[:columns]


def _begin(cell: Cell, glyphs: Glyphs) -> tuple[str, str]:
    if not cell.legal:
        return glyphs.suspect, "suspect"
    claims = cell.observed is None
    return (glyphs.several if cell.changes > 1 and _turned(cell) else glyphs.begin), "dim" if claims else "text"


def _turned(cell: Cell) -> bool:
    """It changed more than once; that a claim and what was observed came in one column is no change of either."""
    return cell.changes > 1 + (cell.observed is not None and cell.claimed is not None)


def _stretch(
    cells: Cells, end: int, observed: Safe | None, claimed: Safe | None, glyphs: Glyphs, *, legal: bool
) -> None:  # fmt: skip
    """Fills up to `end` with the value that holds, its name first where there is room."""
    room = end - len(cells)
    if room <= 0:
        return
    if observed is not None:
        text, fill, tone = clean(observed, glyphs), glyphs.held, "text" if legal else "suspect"
    elif claimed is not None:
        text, fill, tone = f"({clean(claimed, glyphs)})", glyphs.claimed, "dim"
    else:
        text, fill, tone = "unknown", glyphs.unknown, "dim"
        if cells == []:  # dots first: the word begins no stretch of a value
            cells.append((fill, tone))
            room -= 1
    shown = clip(text, room, glyphs.ellipsis) if room >= min(_SHORTEST, width_of(text)) else ""
    if observed is None and claimed is None and shown != text:
        shown = ""
    cells += [(one, tone) for one in _cells_of(shown)]
    while len(cells) < end:
        cells.append((fill, tone))


def _cells_of(text: str) -> list[str]:
    """The text by cells of the terminal: a wide character takes the cell behind it, too."""
    found: list[str] = []
    for one in text:
        wide = width_of(one)
        if wide == 0 and found:
            found[-1] += one
        elif wide:
            found.append(one)
            found += [""] * (wide - 1)
    return found


# --- marks ---


def _draw_numbers(cells: Cells, numbers: Sequence[Numbers], glyphs: Glyphs) -> None:
    signs = {"locked": glyphs.locked, "suspect": glyphs.suspect, "not evidence": glyphs.silent}
    for one in numbers:
        if 0 <= one.column < len(cells):
            cells[one.column] = (signs.get(one.worst, glyphs.admissible), _TONES[one.worst])


def _draw_faults(cells: Cells, view: StateView, glyphs: Glyphs) -> None:
    for spot in view.faults:
        column = view.column(spot.x)
        if 0 <= column < len(cells):
            locks = (isinstance(spot.item, Fault) and bool(spot.item.locks)) or cells[column][1] == "locked"
            cells[column] = (glyphs.fault, "locked" if locks else "suspect")


def _draw_findings(cells: Cells, view: StateView, glyphs: Glyphs) -> None:
    """Each from the line that shows it to the one that ends it; where several hold, how many."""
    over = [0] * len(cells)
    spans = [(s, max(0, view.column(s.x)), _last_column(view, s)) for s in view.findings]
    spans = [(s, low, high) for s, low, high in spans if low < len(cells) and high >= 0]
    for _, low, high in spans:
        for column in range(low, high + 1):
            over[column] += 1
    for column, number in enumerate(over):
        if number:
            cells[column] = (glyphs.wave if number == 1 else str(number) if number < 10 else "+", "suspect")
    starts = sorted({low for _, low, _ in spans} | {len(cells)})
    for spot, low, high in spans:
        room = min(high + 1, next(s for s in starts if s > low)) - low
        text = f"{glyphs.suspect}{clean(spot.item.kind, glyphs).replace('_', ' ')}"
        if room >= min(_SHORTEST, width_of(text)) and over[low] == 1:
            for n, one in enumerate(_cells_of(clip(text, room, glyphs.ellipsis))):
                if over[low + n] == 1:
                    cells[low + n] = (one, "suspect")
        elif over[low] == 1:
            cells[low] = (glyphs.suspect, "suspect")


def _last_column(view: StateView, spot: Spot) -> int:
    """The last column that a finding covers; that of its end is out of it, unless it is the one that it begins in."""
    if spot.end is None:
        return view.columns - 1
    return min(view.columns - 1, max(view.column(spot.x), view.column(spot.end) - 1))
